//! Events other than the clock: their counts are known by what the child was told to do.

use std::path::Path;
use std::time::Duration;

use crate::tests::sampling::child::{BLOCK, Process};
use crate::tests::sampling::{attach_with, burn, refused, sample_while};
use crate::{Event, Options, Outcome, Sampler};
use measure::{Clock, Nanos, Problem};
use stacks::Profile;

pub(crate) fn attach(pid: u32, event: &str, path: &Path) -> Result<Sampler, Problem> {
    attach_with(pid, path, &Options { event: Event::named(event).unwrap(), ..Options::default() })
}

pub(crate) fn while_doing<T, const N: usize>(
    pid: u32,
    events: [&str; N],
    act: impl FnOnce() -> T,
) -> [(Profile, Outcome); N] {
    let dir = tempfile::tempdir().unwrap();
    let path = |event: &str| dir.path().join(event);
    let samplers = events.map(|event| attach(pid, event, &path(event)));
    let mut samplers = samplers.map(Result::unwrap);
    for sampler in &mut samplers {
        sampler.start().unwrap();
    }
    act();
    let outcomes = samplers.map(|sampler| sampler.stop().unwrap());
    let mut events = events.into_iter();
    outcomes.map(|outcome| (Profile::open(path(events.next().unwrap())).unwrap(), outcome))
}

/// The weight of the samples that have a function in their stack whose name ends so.
pub(crate) fn weight_of(profile: &Profile, name: &str) -> u64 {
    let functions = profile.functions().into_iter();
    functions.filter(|it| it.share.function.ends_with(name)).map(|it| it.total_weight).sum()
}

macro_rules! needs_tracepoints {
    () => {
        testkit::skip_for!($crate::tests::sampling::refused());
        if let Err(reason) = linux::tracefs::tracepoints() {
            testkit::skip!("there is no tracefs: {reason}");
        }
    };
}
pub(crate) use needs_tracepoints;

#[test]
fn calls_for_memory_are_counted_each_and_by_their_bytes() {
    needs_tracepoints!();
    let mut child = Process::start("tasks");
    let events = ["mmap", "mmap-bytes", "munmap", "brk", "cpu"];
    let [mmap, bytes, munmap, brk, cpu] = while_doing(child.pid(), events, || {
        child.tell("mmap 50", "did");
        child.tell("brk 30", "did");
    });
    let (name, break_name) = ("::asks_for_memory", "::moves_the_break");
    assert_eq!(weight_of(&mmap.0, name), 50, "{:?}", mmap.1);
    assert_eq!(weight_of(&munmap.0, name), 50, "{:?}", munmap.1);
    assert_eq!(weight_of(&bytes.0, name), 50 * BLOCK as u64);
    assert_eq!(weight_of(&brk.0, break_name), 30, "{:?}", brk.1);
    assert_eq!(weight_of(&brk.0, name) + weight_of(&mmap.0, break_name), 0);
    for (profile, outcome) in [&mmap, &bytes, &munmap, &brk, &cpu] {
        assert_eq!((outcome.lost, outcome.throttled), (0, 0));
        assert_eq!(profile.header.period_ns > 0, profile.header.event == "cpu");
    }
    let header = &bytes.0.header;
    assert_eq!((header.event.as_str(), header.unit.as_str()), ("mmap-bytes", "bytes"));
    assert_eq!(header.kernel_event, "syscalls:sys_enter_mmap");
    assert_eq!(header.frequency, 0, "each call is a sample");
}

#[test]
fn any_tracepoint_is_an_event() {
    needs_tracepoints!();
    let mut child = Process::start("tasks");
    let event = "syscalls:sys_enter_getppid";
    let [(profile, _)] = while_doing(child.pid(), [event], || child.tell("getppid 17", "did"));
    assert_eq!(weight_of(&profile, "::asks_for_the_parent"), 17);
    assert_eq!(profile.header.unit, "events");
    let dir = tempfile::tempdir().unwrap();
    let error = attach(child.pid(), "sched:no_such_event", &dir.path().join("x")).unwrap_err();
    let text = error.sentence();
    assert!(text.contains("no tracepoint sched:no_such_event") && text.contains("ls "), "{text}");
}

#[test]
fn page_faults_are_as_many_as_the_process_has_had() {
    testkit::skip_for!(refused());
    let child = Process::start("faults");
    let pid = child.pid();
    let mut counted = 0;
    let [all, minor, major] = while_doing(pid, ["page-faults", "minor-faults", "major-faults"], || {
        let before = minor_faults(pid);
        burn(pid, Duration::from_millis(800));
        counted = minor_faults(pid) - before;
    });
    for (profile, outcome) in [&all, &minor] {
        let (weight, wanted) = (profile.total_weight() as f64, counted as f64);
        assert!(weight > 0.85 * wanted && weight < 1.25 * wanted, "{weight} of {wanted}: {outcome:?}");
        let own = weight_of(profile, "::touches_pages") as f64;
        assert!(own > 0.9 * weight, "{own} of {weight}");
        // Those that are too many to take each are counted.
        let samples = profile.samples.len() as f64;
        assert!(samples < 3.0 * 999.0, "{samples}");
    }
    assert!(major.0.total_weight() < all.0.total_weight() / 100);
}

fn minor_faults(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').nth(7).unwrap().parse().unwrap()
}

#[test]
fn blocked_time_stands_below_the_function_that_waits() {
    testkit::skip_for!(refused());
    let mut child = Process::start("tasks");
    let mut took = Nanos(0);
    let [(profile, outcome), (switches, _)] = while_doing(child.pid(), ["off-cpu", "context-switches"], || {
        let from = Clock.now();
        child.tell("sleep 20", "did");
        took = Clock.now().since(from);
    });
    assert_eq!(profile.header.unit, "nanoseconds");
    let slept = weight_of(&profile, "::sleeps") as f64 / 1e9;
    let took = took.as_secs_f64();
    assert!(slept > 0.95 && slept < took * 1.02, "{slept} of {took}: {outcome:?}");
    // The thread that waits for its orders does so all the time.
    let main = weight_of(&profile, "::tasks") as f64 / 1e9;
    assert!(main > 0.95, "{main}");
    let times = weight_of(&switches, "::sleeps");
    assert!((20..60).contains(&times), "{times} switches");
    let (from, to) = profile.span.unwrap();
    let inside = |t: u64, length: u64| t >= from && t + length <= to + 1_000_000;
    assert!(profile.samples.iter().all(|it| inside(it.t, it.weight)));
}

#[test]
fn shorter_blocks_are_left_out_and_told() {
    needs_tracepoints!();
    let mut child = Process::start("tasks");
    let min_block = Nanos::from_millis(40_000);
    let options = Options { event: Event::named("off-cpu").unwrap(), min_block, ..Options::default() };
    let (profile, outcome) = sample_while(child.pid(), &options, || child.tell("sleep 3", "did"));
    assert_eq!(profile.total_weight(), 0);
    let note = profile.notes.join("; ");
    assert!(note.contains("shorter than 40.0 s left out"), "{note}");
    assert!(outcome.notes.is_empty(), "nothing is wrong: {outcome:?}");
}
