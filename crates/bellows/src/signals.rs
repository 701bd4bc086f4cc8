//! SIGINT and SIGTERM: the first ends in order, the second at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use measure::Problem;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;

/// Longest time of an immediate end until the process exits. Children notice closed pipes, and clean up.
const GRACE: Duration = Duration::from_millis(250);

/// The signal that asked for an end in order.
static FIRST: AtomicI32 = AtomicI32::new(SIGINT);

/// Whether SIGINT and SIGTERM end something in order by now.
static IN_ORDER: AtomicBool = AtomicBool::new(false);

/// Whether a second signal came; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AtOnce(Arc<AtomicI32>);

impl AtOnce {
    /// The exit code of a command that a second signal ended.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(Failure::Code(exit_code(signal))),
        }
    }
}

/// The exit code of a command that the first signal ended before it had anything to show.
pub(crate) fn first_exit_code() -> u8 {
    exit_code(FIRST.load(Ordering::Relaxed))
}

/// A load's control, by which the first signal stops it in order; the second ends the process at once.
pub(crate) fn stop_load() -> Result<(load::Control, AtOnce), Failure> {
    IN_ORDER.store(true, Ordering::Relaxed);
    let (control, at_once) = (load::Control::new(), AtOnce::default());
    let (stopped, second) = (control.clone(), at_once.clone());
    let act = move |signal, count| {
        if count == 1 {
            FIRST.store(signal, Ordering::Relaxed);
            stopped.stop();
        } else {
            second.0.store(signal, Ordering::Relaxed);
            stopped.abort();
            thread::sleep(GRACE);
            leave(signal);
        }
    };
    watch(&ENDINGS, act).map(|()| (control, at_once))
}

/// A flag that the first signal sets; the second ends the process at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    // A terminal that goes leaves nothing behind on a node, and one that stays has its screen again; `nohup` is obeyed.
    let which = if is_ignored(SIGHUP) { &ENDINGS[..] } else { &[SIGINT, SIGTERM, SIGHUP] };
    watch(which, move |signal, count| {
        set.store(true, Ordering::Relaxed);
        if count > 1 {
            leave(signal);
        }
    })
    .map(|()| flag)
}

/// Leaves SIGINT to a program that has the terminal, such as a pager, as long as the result lives.
pub(crate) fn leave_interrupts() -> Result<Signals, Failure> {
    Signals::new([SIGINT]).map_err(unwatched)
}

/// Tidies up before a signal ends the process, until the load is watched over ([`stop_load`]).
pub(crate) fn tidy_before_the_end(tidy: impl Fn() + Send + 'static) -> Result<(), Failure> {
    watch(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT], move |signal, _| {
        if ENDINGS.contains(&signal) && IN_ORDER.load(Ordering::Relaxed) {
            return;
        }
        tidy();
        leave(signal);
    })
}

/// Lets a signal stop the embedded broker. Where its parent ends it by closing a pipe, a Ctrl-C
/// that the terminal sends to both is for the parent alone.
pub(crate) fn stop_broker(stop: &broker::Stop, parent_decides: bool) -> Result<(), Failure> {
    let stop = stop.clone();
    watch(&ENDINGS, move |signal, count| {
        if parent_decides && signal == SIGINT {
            return;
        }
        stop.stop();
        if count > 1 {
            leave(signal);
        }
    })
}

/// Signals that end a run in order the first time.
const ENDINGS: [i32; 2] = [SIGINT, SIGTERM];

/// Whether our parent has a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn unwatched(source: io::Error) -> Failure {
    Failure::Failed(Problem::new("cannot watch for signals", source, "see ulimit -a"))
}

fn watch(which: &[i32], mut act: impl FnMut(i32, u32) + Send + 'static) -> Result<(), Failure> {
    let mut signals = Signals::new(which).map_err(unwatched)?;
    let run = move || {
        for (count, signal) in (1..).zip(signals.forever()) {
            act(signal, count);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(run).map_err(unwatched)?;
    Ok(())
}

#[expect(clippy::exit, reason = "the user asked for an end at once; main waits for the load")]
fn leave(signal: i32) -> ! {
    std::process::exit(i32::from(exit_code(signal)))
}

/// The shell's convention for a process that a signal ended.
fn exit_code(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or_default().saturating_add(128)
}
