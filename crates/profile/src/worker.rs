//! The thread that fetches records from their source and hands them to the converter.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use stacks::StacksWriter;

use linux::threads;
use measure::{Clock, Nanos, Time};
use rustix::event::Timespec;
use rustix::time::ClockId;

use crate::converter::{Converter, Outcome, Part};
use crate::pauses::Pauses;
use crate::record::Record;
use crate::source::{Damaged, SampleSource};
use crate::threads::Target;

/// Records are fetched at least this often: ten wake-ups a second cost little, and rings hold five times as much.
const FETCH_TIMEOUT: Nanos = Nanos::from_millis(100);
/// First and doubled time-outs: what the first stack of a thread tells of it makes the next ones whole.
const FIRST_TIMEOUT: Nanos = Nanos::from_millis(5);
/// The file is flushed and new mappings are looked for this often.
const FLUSH_EVERY: Nanos = Nanos::SECOND;
/// Samples of the part that ends may wait so long for names that a virtual machine is asked for.
const PATIENCE: Nanos = Nanos::from_millis(2_000);

/// State shared by the sampler and its thread.
#[derive(Debug)]
pub(crate) struct Signals {
    pub(crate) wake: OwnedFd,
    pub(crate) stop: AtomicBool,
    /// CPU time that the process had used at the end, known when `stop` is set; 0 where it is not known.
    pub(crate) process_cpu_ns: AtomicU64,
    pub(crate) ended: AtomicBool,
    /// Nanoseconds of the clock from which on nothing that memory does counts.
    pub(crate) held_until_ns: AtomicU64,
    /// Action at an instant to come.
    pub(crate) turn: Mutex<Option<Turn>>,
    pub(crate) pauses: Pauses,
}

impl Signals {
    pub(crate) fn new(wake: OwnedFd) -> Self {
        Self {
            wake,
            stop: AtomicBool::new(false),
            process_cpu_ns: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            held_until_ns: AtomicU64::new(u64::MAX),
            turn: Mutex::new(None),
            pauses: Pauses::default(),
        }
    }

    fn turn_at(&self) -> Option<Time> {
        let turn = self.turn.lock().ok()?;
        turn.as_ref().map(|turn| turn.at)
    }

    fn held_until(&self) -> Time {
        Time(self.held_until_ns.load(Ordering::Acquire))
    }

    /// The turn that was wanted, which nobody can take back any more.
    pub(crate) fn take_turn(&self) -> Option<Turn> {
        self.turn.lock().ok()?.take()
    }
}

/// From an instant on samples go to another file, and the one before is ended.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) at: Time,
    pub(crate) sink: StacksWriter,
    /// Hears what became of the part that ended.
    pub(crate) done: Sender<Outcome>,
}

struct PartStart {
    at: Time,
    own_cpu: Nanos,
    process_cpu: Option<Nanos>,
    lost: u64,
    counted: Option<u64>,
    /// CPU time of the process in pauses.
    paused_cpu: Nanos,
}

/// Samples on their way from a source into a profile.
pub(crate) struct Worker {
    pub(crate) target: Target,
    pub(crate) source: Box<dyn SampleSource>,
    pub(crate) converter: Converter,
}

impl Worker {
    /// Fetches records until told to stop or the process, which had used `process_cpu`, has ended; ends the file.
    pub(crate) fn run(mut self, from: Time, process_cpu: Option<Nanos>, signals: &Signals) -> Outcome {
        // Sampling may have gone on for a while before this thread runs: the source counts from its beginning.
        let mut begun =
            PartStart { at: from, own_cpu: thread_cpu(), process_cpu, lost: 0, counted: None, paused_cpu: Nanos::ZERO };
        let mut flushed = from;
        let mut timeout = FIRST_TIMEOUT;
        loop {
            let turn_at = signals.turn_at();
            self.converter.next_part = turn_at;
            self.converter.held_until = signals.held_until();
            let left = turn_at.map(|at| at.since(Clock.now()));
            let next = match left {
                None => timeout,
                // It waits for names.
                Some(Nanos(0)) => FIRST_TIMEOUT,
                Some(left) => timeout.min(left + Nanos::from_micros(100)),
            };
            let ended = self.wait(signals, next);
            timeout = Nanos(timeout.0.saturating_mul(2)).min(FETCH_TIMEOUT);
            let stop = signals.stop.load(Ordering::Acquire);
            let fetched = Clock.now();
            let pauses = signals.pauses.take_begun();
            self.fetch();
            for at in pauses {
                let converter = &mut self.converter;
                self.source.pause(at, &mut |record| converter.record(record));
            }
            let is_paused = signals.pauses.is_paused();
            // In a pause the sampler itself costs nothing, either.
            if !is_paused && Clock.now().since(flushed) >= FLUSH_EVERY {
                flushed = Clock.now();
                self.converter.every_second();
            }
            let over = ended || stop;
            // All of the part that ends has its names, or has waited long enough for them.
            let is_ready = |at: Time| over || self.converter.is_settled() || Clock.now() >= at + PATIENCE;
            let is_due = turn_at.is_some_and(|at| at <= fetched && is_ready(at));
            if is_due && let Some(turn) = signals.take_turn() {
                begun = self.turn(turn, &begun, signals);
            }
            if ended && !stop {
                signals.ended.store(true, Ordering::Release);
                self.note_end();
            }
            if over {
                break;
            }
        }
        self.converter.held_until = signals.held_until();
        let converter = &mut self.converter;
        let take = &mut |record: &Record<'_>| converter.record(record);
        if let Some(left_out) = self.source.end(Clock.now(), take) {
            converter.remark(&left_out);
        }
        let process_cpu = Nanos(signals.process_cpu_ns.load(Ordering::Acquire));
        let process_cpu = Some(process_cpu).filter(|it| it.0 > 0);
        let paused_cpu = signals.pauses.cpu();
        let part = self.part(&begun, Clock.now(), process_cpu, paused_cpu);
        self.converter.finish(part)
    }

    fn begun(&self, at: Time, process_cpu: Option<Nanos>, paused_cpu: Nanos) -> PartStart {
        PartStart {
            at,
            own_cpu: thread_cpu(),
            process_cpu,
            lost: self.source.lost(),
            counted: self.source.counted(),
            paused_cpu,
        }
    }

    /// Ends what the converter counts of the part that began so, and says what was used in it.
    fn part(&mut self, begun: &PartStart, to: Time, process_cpu: Option<Nanos>, paused_cpu: Nanos) -> Part {
        self.converter.lost_in_all(self.source.lost().saturating_sub(begun.lost));
        let counted = self.source.counted();
        self.converter.compare_count(counted.map(|counted| counted.saturating_sub(begun.counted.unwrap_or(0))));
        let used = process_cpu.zip(begun.process_cpu);
        let in_pauses = paused_cpu.saturating_sub(begun.paused_cpu);
        Part {
            from: begun.at,
            to,
            own_cpu: thread_cpu().saturating_sub(begun.own_cpu),
            process_cpu: used.map_or(Nanos(0), |(now, before)| now.saturating_sub(before).saturating_sub(in_pauses)),
        }
    }

    fn turn(&mut self, turn: Turn, begun: &PartStart, signals: &Signals) -> PartStart {
        let process_cpu = linux::cpu_time(self.target.pid);
        let paused_cpu = signals.pauses.cpu();
        let converter = &mut self.converter;
        self.source.cut(turn.at, &mut |record| converter.record(record));
        let part = self.part(begun, turn.at, process_cpu, paused_cpu);
        let outcome = self.converter.turn(part, turn.sink);
        // Whoever asked may have ended.
        let _ = turn.done.send(outcome);
        self.begun(turn.at, process_cpu, paused_cpu)
    }

    /// Waits for records, for the time-out, or for a word from the sampler; says whether the process has ended.
    fn wait(&mut self, signals: &Signals, timeout: Nanos) -> bool {
        let timeout = Timespec {
            tv_sec: 0,
            // Less than a second.
            tv_nsec: i64::try_from(timeout.0).unwrap_or(0),
        };
        let wake = signals.wake.as_fd();
        let ended = match &self.target.pidfd {
            Some(process) => self.source.wait(&[wake, process.as_fd()], &timeout).get(1) == Some(&true),
            None => {
                self.source.wait(&[wake], &timeout);
                threads::ids(self.target.pid).is_empty()
            }
        };
        // Whatever woke it, it has heard.
        let _ = rustix::io::read(wake, &mut [0; 8]);
        ended
    }

    fn fetch(&mut self) {
        self.converter.before_fetch();
        let converter = &mut self.converter;
        if let Err(Damaged) = self.source.fetch(&mut |record| converter.record(record)) {
            converter.note("a ring buffer held a damaged record; its rest was dropped");
        }
    }

    fn note_end(&mut self) {
        let at = self.converter.since_origin(Clock.now()).as_secs_f64();
        self.converter.note(&format!("process {} ended at {at:.1} s; {PROCESS_ENDED}", self.target.pid));
    }
}

/// How the note ends that a process has ended while it was sampled.
pub const PROCESS_ENDED: &str = "the profile covers it until then";

fn thread_cpu() -> Nanos {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
