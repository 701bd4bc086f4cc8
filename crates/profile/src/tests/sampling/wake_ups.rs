//! Why times off CPU end: of threads that are known to wait each for one thing.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tests::sampling::child::{Program, contained};
use crate::tests::sampling::erlang::{assert_passes_in, cannot_copy};
use crate::tests::sampling::events::needs_tracepoints;
use crate::tests::sampling::{compiled, sample_while};
use crate::{Event, Options, Outcome, Stacks};
use measure::Nanos;
use stacks::{Profile, WaitReason};

fn waits(mut command: Command, role: &str) -> Program {
    let folder = tempfile::tempdir().unwrap();
    let exe = compiled("waits.c", folder.path(), &["-O2", "-rdynamic", "-pthread"]);
    command.arg(&exe).arg(role).arg(folder.path());
    Program::run(command, None, folder).expect("start the child")
}

impl Program {
    /// Profile of its threads' waits, for [`LENGTH`] or a little longer, and how long it took.
    fn profile(&self, stacks: Stacks) -> (Profile, Duration) {
        let began = Instant::now();
        let (profile, outcome) = self.sample(stacks, LENGTH);
        let took = began.elapsed();
        assert_eq!((outcome.lost, &outcome.notes), (0, &Vec::new()));
        (profile, took)
    }

    fn sample(&self, stacks: Stacks, length: Duration) -> (Profile, Outcome) {
        let event = Event::named("off-cpu").unwrap();
        let options = Options { event, min_block: Nanos(1), stacks, ..Options::default() };
        let (profile, outcome) = sample_while(self.pid, &options, || std::thread::sleep(length));
        assert!(profile.is_consistent());
        (profile, outcome)
    }
}

/// Waits of a thread: seconds by reason and waker.
#[derive(Debug, Default)]
struct Waited(BTreeMap<(WaitReason, String), f64>);

impl Waited {
    fn of(profile: &Profile, thread: &str) -> Self {
        let mut waited = Self::default();
        for sample in &profile.samples {
            if profile.threads[sample.thread as usize] == thread {
                let wait = &profile.waits[sample.wait.unwrap() as usize];
                *waited.0.entry((wait.reason, wait.waker.clone())).or_default() += sample.weight as f64 / 1e9;
            }
        }
        waited
    }

    fn sum(&self, of: impl Fn(WaitReason) -> bool) -> f64 {
        self.0.iter().filter(|((reason, _), _)| of(*reason)).map(|(_, seconds)| seconds).sum()
    }

    /// The share of a reason among all that ended by a wake-up which was seen: the first waits may have begun before
    /// the program ran.
    fn share(&self, reason: WaitReason, waker: &str) -> f64 {
        self.0.get(&(reason, waker.to_owned())).copied().unwrap_or(0.0) / self.sum(|it| !UNWOKEN.contains(&it))
    }
}

const UNWOKEN: [WaitReason; 4] =
    [WaitReason::Processor, WaitReason::Preempted, WaitReason::NotOver, WaitReason::Unknown];

/// By thread why it is woken and by whom.
const WOKEN: [(&str, WaitReason, &str); 9] = [
    ("sleeper", WaitReason::Timer, ""),
    ("writer", WaitReason::Timer, ""),
    ("short", WaitReason::Timer, ""),
    ("pipe", WaitReason::SameProcess, "writer"),
    ("event", WaitReason::SameProcess, "writer"),
    ("condition", WaitReason::SameProcess, "ringer"),
    ("outer_pipe", WaitReason::OtherProcess, "outsider"),
    ("socket", WaitReason::Network, "outsider"),
    ("signalled", WaitReason::Signal, "outsider"),
];

fn assert_woken((profile, took): &(Profile, Duration)) {
    for (thread, reason, waker) in WOKEN {
        let waited = Waited::of(profile, thread);
        let share = waited.share(reason, waker);
        assert!(share > 0.94, "{thread} {share}: {waited:?}");
        // They are long on a full machine.
        let unseen = waited.sum(|it| it == WaitReason::Unknown);
        let (least, most) = (LENGTH.as_secs_f64(), took.as_secs_f64());
        assert!(unseen < 0.2 * most, "{thread}: {waited:?}");
        let all = waited.sum(|_| true);
        let share = if thread == "short" { 0.5 } else { 0.9 };
        assert!(all > share * least && all < 1.05 * most, "{thread} waited {all} of {least} to {most}: {waited:?}");
    }
    assert_synchronised(&Waited::of(profile, "disk"));
}

/// Between two writes it sleeps; where files are in memory, it does nothing else.
fn assert_synchronised(waited: &Waited) {
    let disk = waited.sum(|it| it == WaitReason::Disk);
    if disk == 0.0 {
        eprintln!("NOTE: temporary files are on no disk here, so that no wait for one was seen");
    }
    let timer = waited.share(WaitReason::Timer, "");
    let all = waited.sum(|it| !UNWOKEN.contains(&it) && ![WaitReason::Disk, WaitReason::Timer].contains(&it));
    assert!(all < 0.05 * (disk + 0.001), "{all}: {waited:?}");
    assert!(timer > 0.02, "{waited:?}");
}

const LENGTH: Duration = Duration::from_millis(2000);

#[test]
fn threads_have_the_reasons_and_wakers_that_they_wait_for() {
    needs_tracepoints!();
    testkit::skip_for!(cannot_copy());
    let waits = waits(Command::new("env"), "woken");
    assert_woken(&waits.profile(Stacks::Whole));
    // The same where no copier runs when they leave.
    assert_woken(&waits.profile(Stacks::FramePointers));
}

#[test]
fn threads_in_a_container_have_reasons_from_outside_and_from_inside() {
    needs_tracepoints!();
    testkit::skip_for!(cannot_copy());
    let (outside, inside) = (testkit::or_skip!(contained()), testkit::or_skip!(contained()));
    let waits = waits(outside, "woken");
    assert_woken(&waits.profile(Stacks::Whole));
    drop(waits);
    assert_passes_in(inside, "tests::sampling::wake_ups::threads_have_the_reasons_and_wakers_that_they_wait_for");
}

#[test]
fn waiting_for_a_processor_is_told_from_being_blocked() {
    needs_tracepoints!();
    testkit::skip_for!(cannot_copy());
    let waits = waits(Command::new("env"), "contended");
    let (profile, took) = waits.profile(Stacks::Whole);
    let length = took.as_secs_f64();
    // Three for each processor: each is off for two thirds of the time, and never because it sleeps.
    let spinners = Waited::of(&profile, "spinner");
    let preempted = spinners.sum(|it| it == WaitReason::Preempted);
    assert!(preempted > 0.98 * spinners.sum(|_| true), "{spinners:?}");
    let each = preempted / length / 3.0 / linux::cpus::usable() as f64;
    // The length has the beginning, too, which waits for them.
    assert!(each > 0.3, "{each}: {spinners:?}");
    let last = Waited::of(&profile, "last");
    // What waits at the end has no reason yet.
    let all = last.sum(|it| it != WaitReason::NotOver);
    let processor = last.sum(|it| matches!(it, WaitReason::Processor | WaitReason::Preempted));
    assert!(processor > 0.8 * all, "{last:?}");
    assert!(last.sum(|it| it == WaitReason::Processor) > 0.3 * all, "{last:?}");
    let timer = last.sum(|it| it == WaitReason::Timer);
    assert!(processor + timer > 0.95 * all, "{last:?}");
    // It sleeps for 10 ms, and is not told to have slept while it waited for the others.
    let hog = Waited::of(&profile, "hog");
    let timer = hog.sum(|it| it == WaitReason::Timer);
    let runnable = hog.sum(|it| matches!(it, WaitReason::Processor | WaitReason::Preempted));
    assert!(timer > 0.005 && timer + runnable > 0.95 * hog.sum(|_| true), "{hog:?}");
}

#[test]
fn threads_that_end_while_sampling_begins_wait_no_longer() {
    needs_tracepoints!();
    let waits = waits(Command::new("env"), "passing");
    // So that threads start while the events are switched on, one after another.
    rustix::process::nice(19).unwrap();
    let mut whole = 0;
    for _ in 0..4 {
        let (profile, outcome) = waits.sample(Stacks::FramePointers, Duration::from_millis(600));
        let of_passer = |thread: u32| profile.threads[thread as usize] == "passer";
        assert!(profile.samples.iter().filter(|it| of_passer(it.thread)).count() > 500, "{outcome:?}");
        let is_lost = |note: &String| note.contains("the end was lost");
        if outcome.lost == 0 {
            assert!(!outcome.notes.iter().any(is_lost), "{outcome:?}");
            whole += 1;
        }
    }
    assert!(whole > 0, "records were lost every time");
}
