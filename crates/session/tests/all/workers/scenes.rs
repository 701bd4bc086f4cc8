//! Random scenes, and their ends.

use std::sync::atomic::{AtomicUsize, Ordering};

use fleet::{
    Coordinator, CoordinatorInput, CoordinatorOutput, Envelope, LoadOutcome, Outage, RunRules, Share, ToCoordinator,
    ToWorker, Worker, WorkerFacts, WorkerInput, WorkerOutput,
};
use measure::{Nanos, Time};
use testkit::Random;

use super::world::{Fault, MS, SECOND, Scene, World};

fn scene(random: &mut Random, workers: usize) -> Scene {
    let mut scene = Scene {
        workers,
        tolerate: random.below(3) as usize,
        lease: 1_500 * MS,
        probes: 20,
        load: 3 * SECOND,
        messages: 5,
        loses: random.of(&[0, 100, 10]),
        slowest: random.of(&[1, 30, 700]) * MS,
        faults: Vec::new(),
    };
    for _ in 0..random.below(4) {
        let at = SECOND + random.below(7_000) * MS;
        let worker = random.below(workers as u64) as usize;
        let length = random.below(3_000) * MS;
        let fault = match random.below(14) {
            0..4 => Fault::Restart(worker),
            4..7 => Fault::Pause(worker, length),
            7..9 => Fault::CutOff(worker, length),
            9 => Fault::Mute(worker, length),
            10..12 => Fault::PauseCoordinator(length),
            _ => Fault::KillCoordinator,
        };
        scene.faults.push((at, fault));
    }
    scene
}

/// Problems of a scene, and whether its run is whole.
fn played(seed: u64, scene: Scene) -> (Option<String>, bool) {
    let mut world = World::new(seed, scene);
    world.play(60 * SECOND);
    (world.judge(), world.is_whole())
}

#[test]
fn whatever_fails_sums_are_exact_and_no_load_is_left_alone() {
    let seeds: Vec<u64> = testkit::seeds(20).collect();
    let whole = AtomicUsize::new(0);
    let scenes = testkit::play(&seeds, 2, |seed| {
        let mut random = Random::new(seed);
        let workers = 1 + random.below(8) as usize;
        let scene = scene(&mut random, workers);
        let (problem, is_whole) = played(seed, scene);
        whole.fetch_add(is_whole.into(), Ordering::Relaxed);
        problem
    });
    scenes.assert_right("-p fleet --test all scenes::");
    let whole = whole.into_inner();
    assert!((seeds.len() / 4..seeds.len()).contains(&whole), "{whole} runs of {} are whole", seeds.len());
}

#[test]
fn a_hundred_workers_of_which_some_fail() {
    let mut scene = scene(&mut Random::new(1), 100);
    (scene.loses, scene.tolerate) = (100, 3);
    let cut_off = Fault::CutOff(8, 2 * SECOND);
    scene.faults = vec![(4 * SECOND, Fault::Restart(7)), (4 * SECOND, cut_off), (4 * SECOND, Fault::Pause(9, SECOND))];
    let mut world = World::new(1, scene);
    world.play(60 * SECOND);
    assert_eq!((world.judge(), world.is_finished, world.lost()), (None, true, vec![7, 8]));
}

#[test]
fn only_what_lasts_longer_than_the_lease_ends_a_load() {
    let away = |all: Option<bool>, length| {
        let mut scene = scene(&mut Random::new(1), 3);
        (scene.loses, scene.slowest, scene.lease, scene.load) = (0, MS, 5 * SECOND, 20 * SECOND);
        let cut_off = |worker| (4 * SECOND, Fault::CutOff(worker, length));
        // Without the server nobody hears anybody.
        scene.faults = match all {
            Some(true) => (0..3).map(cut_off).collect(),
            Some(false) => vec![(4 * SECOND, Fault::Pause(1, length))],
            None => vec![(4 * SECOND, Fault::PauseCoordinator(length))],
        };
        scene.tolerate = 1;
        let mut world = World::new(1, scene);
        world.play(60 * SECOND);
        assert_eq!(world.judge(), None);
        (world.lost().len(), world.is_whole(), world.outage())
    };
    for all in [Some(false), Some(true), None] {
        assert_eq!(away(all, 4 * SECOND), (0, true, None), "{all:?}");
    }
    // One is tolerated, and was told that the run goes on without it.
    assert_eq!(away(Some(false), 7 * SECOND), (1, false, None));
    // No worker is blamed for what all suffered from.
    assert_eq!(away(Some(true), 7 * SECOND), (3, false, Some(Outage::All)));
    let (lost, _, outage) = away(None, 7 * SECOND);
    let is_own = |it: Outage| matches!(it, Outage::Coordinator(length) if length > Nanos(6 * SECOND));
    assert!(lost == 3 && outage.is_some_and(is_own), "{lost} lost: {outage:?}");
}

/// The others waited for ever for the report of one that lived and did not end.
#[test]
fn a_worker_that_lives_and_does_not_end_is_lost_with_the_reason() {
    for (tolerate, ends_early) in [(1, false), (0, true)] {
        let mut scene = scene(&mut Random::new(1), 3);
        (scene.loses, scene.slowest, scene.tolerate) = (0, MS, tolerate);
        scene.faults = vec![(4 * SECOND, Fault::Hang(1))];
        if ends_early {
            scene.faults.push((4 * SECOND, Fault::Restart(0)));
        }
        let mut world = World::new(1, scene);
        world.play(30 * SECOND);
        assert!(!world.is_finished, "its drain may take long");
        world.play(60 * SECOND);
        assert_eq!((world.judge(), world.is_finished), (None, true));
        let (worker, why) = world.gaps().pop().expect("a gap");
        assert!(worker == 1 && why.starts_with("it did not report its end within 3"), "{worker}: {why}");
    }
}

/// CPU time of this thread.
fn cpu() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

#[test]
#[ignore = "a thousand workers: make prove"]
fn a_thousand_workers_take_less_than_a_core() {
    let scene = Scene {
        workers: 1_000,
        tolerate: 0,
        lease: 5 * SECOND,
        probes: 200,
        load: 6 * SECOND,
        messages: 100,
        loses: 0,
        slowest: MS,
        faults: Vec::new(),
    };
    let mut world = World::new(1, scene);
    world.clock = Some(cpu);
    world.play(6 * SECOND);
    (world.cost, world.merged) = (0, 0);
    world.play(9 * SECOND);
    let (cores, slices) = (world.cost as f64 / 3e9, world.merged / 3);
    println!(
        "a coordinator of 1,000 workers takes {cores:.2} CPU seconds a second, for {slices} slices of 500 latencies"
    );
    world.play(60 * SECOND);
    assert_eq!((world.judge(), world.is_whole()), (None, true));
    assert!(slices > 9_900 && cores < 1.0, "{cores} CPU seconds a second, {slices} slices");
}

/// A coordinator and workers that hear each other at once.
struct Room {
    coordinator: Coordinator,
    workers: Vec<Worker>,
    said: Vec<CoordinatorOutput>,
    done: Vec<WorkerOutput>,
}

impl Room {
    /// A closed run of workers with these names.
    fn of(names: &[&str], lease: u64) -> Self {
        let rules = RunRules { run: "run".to_owned(), lease: Nanos(lease), tolerate: 1, late: Nanos(MS), probes: 1 };
        let facts = |name: &&str| WorkerFacts { name: (*name).to_owned(), ..WorkerFacts::default() };
        let workers = (1..).zip(names).map(|(session, name)| Worker::new(session, facts(name)));
        let mut room =
            Self { coordinator: Coordinator::new(7, rules), workers: workers.collect(), said: vec![], done: vec![] };
        (0..names.len()).for_each(|worker| room.hear(MS, worker, WorkerInput::Tick));
        room.say(2 * MS, CoordinatorInput::Tick);
        room.say(2 * MS, CoordinatorInput::Close);
        room
    }

    fn say(&mut self, now: u64, input: CoordinatorInput) {
        for output in self.coordinator.handle(Time(now), input) {
            match output {
                CoordinatorOutput::Send(it) => {
                    let to = it.session as usize - 1;
                    self.hear(now, to, WorkerInput::Message(it));
                }
                other => self.said.push(other),
            }
        }
    }

    fn hear(&mut self, now: u64, worker: usize, input: WorkerInput) {
        for output in self.workers[worker].handle(Time(now), input) {
            match output {
                WorkerOutput::Send(it) => self.say(now, CoordinatorInput::Message(it)),
                other => self.done.push(other),
            }
        }
    }
}

#[test]
fn workers_are_free_after_a_run_that_never_began_and_not_blamed_for_a_server_that_is_away() {
    let mut room = Room::of(&["a", "b"], 5 * SECOND);
    room.say(3 * MS, CoordinatorInput::Stop(false));
    assert_eq!((room.done, room.said), (vec![WorkerOutput::Left; 2], vec![CoordinatorOutput::Finished]));

    let mut room = Room::of(&["a", "b"], 5 * SECOND);
    room.say(3 * MS, CoordinatorInput::ServerAway(true));
    // Nothing arrives any more.
    let times = [2_000, 4_000, 5_100].map(|at| Time(at * MS));
    let told = times.map(|at| room.coordinator.handle(at, CoordinatorInput::Tick));
    let lost =
        told.iter().flatten().filter_map(|it| if let CoordinatorOutput::Lost(_, why) = it { Some(why) } else { None });
    let lost: Vec<&String> = lost.collect();
    assert!(lost.len() == 2 && lost.iter().all(|it| it.starts_with("the NATS server was away for 5.")), "{lost:?}");
    assert!(matches!(room.coordinator.outage(), Some(Outage::Server(_))));
    // It joins again, and is no stranger.
    let again = WorkerFacts { name: "a".to_owned(), ..WorkerFacts::default() };
    room.workers.push(Worker::new(3, again));
    room.hear(6_000 * MS, 2, WorkerInput::Tick);
    let ignored = CoordinatorOutput::Ignored("a".to_owned(), "the run goes on without it".to_owned());
    assert_eq!(room.said.pop(), Some(ignored));
}

#[test]
fn a_load_waits_for_workers_that_record_and_misses_none_that_is_lost() {
    let facts = |name: &str, records| WorkerFacts { name: name.to_owned(), records, ..WorkerFacts::default() };
    let rules = RunRules { run: "run".to_owned(), lease: Nanos(60 * SECOND), tolerate: 0, late: Nanos(MS), probes: 1 };
    let recorder = |name| facts(name, Some(Box::default()));
    let workers = [recorder("a"), recorder("b"), facts("load", None)];
    let mut room = Room {
        coordinator: Coordinator::new(7, rules),
        workers: (1..).zip(workers).map(|(session, facts)| Worker::new(session, facts)).collect(),
        said: Vec::new(),
        done: Vec::new(),
    };
    (0..3).for_each(|worker| room.hear(MS, worker, WorkerInput::Tick));
    room.say(2 * MS, CoordinatorInput::Tick);
    room.say(2 * MS, CoordinatorInput::Close);
    let named: Vec<&str> = room.coordinator.members().iter().map(|it| it.facts.name.as_str()).collect();
    assert_eq!(named, ["load", "a", "b"], "who carries the load comes first");
    let share = |worker| Share { worker, workers: 1, plan: String::new(), run_id: 1, files: 0 };
    (0..3).for_each(|worker| room.say(5 * MS, CoordinatorInput::Share(share(worker))));
    room.say(20 * MS, CoordinatorInput::Tick);
    room.hear(30 * MS, 2, WorkerInput::Ready);
    assert_eq!(room.said, [], "both are awaited");
    room.hear(40 * MS, 0, WorkerInput::Ready);
    room.say(50 * MS, CoordinatorInput::Tick);
    assert_eq!(std::mem::take(&mut room.said), [CoordinatorOutput::Ready(1)]);
    room.say(21 * SECOND, CoordinatorInput::Tick);
    assert_eq!(std::mem::take(&mut room.said), [CoordinatorOutput::Ready(0)], "not for ever");
    room.say(22 * SECOND, CoordinatorInput::Start { at: Time(23 * SECOND), length: None, drain: Nanos::ZERO });
    let late = "it was not ready when the load began".to_owned();
    assert_eq!(std::mem::take(&mut room.said), [CoordinatorOutput::Lost(2, late.clone())]);
    assert!(room.done.contains(&WorkerOutput::Fenced(late)), "{:?}", room.done);
    assert!(room.coordinator.flaws().is_empty() && room.coordinator.goes_on(), "it carried nothing");
    room.done.clear();
    room.hear(24 * SECOND, 2, WorkerInput::Ended(None, Box::default()));
    assert_eq!(room.done, [WorkerOutput::Release, WorkerOutput::Release], "the other records until then");
    room.said.clear();
    room.hear(25 * SECOND, 2, WorkerInput::Cleaned);
    assert_eq!(room.said, [], "it still writes");
    room.hear(26 * SECOND, 0, WorkerInput::Cleaned);
    assert_eq!(room.said, [CoordinatorOutput::Finished]);
}

#[test]
fn names_are_one_workers_and_who_comes_late_refuses_or_belongs_to_another_run_has_no_part() {
    let facts = |name: &str| WorkerFacts { name: name.to_owned(), ..WorkerFacts::default() };
    let rules = RunRules { run: "first".to_owned(), lease: Nanos(5 * SECOND), tolerate: 1, late: Nanos(MS), probes: 1 };
    let names = ["b", "a", "b", "late"];
    let mut room = Room {
        coordinator: Coordinator::new(7, rules.clone()),
        workers: (1..).zip(names).map(|(session, name)| Worker::new(session, facts(name))).collect(),
        said: Vec::new(),
        done: Vec::new(),
    };
    for worker in 0..3 {
        room.hear(MS, worker, WorkerInput::Tick);
    }
    assert_eq!(room.coordinator.joined(), 0, "nobody has answered");
    room.say(2 * MS, CoordinatorInput::Tick);
    assert_eq!(room.coordinator.joined(), 2);
    room.say(2 * MS, CoordinatorInput::Close);
    room.hear(3 * MS, 3, WorkerInput::Tick);
    let ignored = |name: &str, why: &str| CoordinatorOutput::Ignored(name.to_owned(), why.to_owned());
    let taken = "another worker has this name: give it another one with --name";
    let expected = [ignored("b", taken), ignored("late", "the run has its workers")];
    assert_eq!(std::mem::take(&mut room.said), expected);
    let named: Vec<&str> = room.coordinator.members().iter().map(|it| it.facts.name.as_str()).collect();
    assert_eq!(named, ["a", "b"], "numbered by name");
    // Another coordinator hears no.
    let envelope = |epoch, body| Envelope { epoch, session: 1, number: 1, received: 0, stamp: Time(0), body };
    let hello = ToWorker::Hello { run: "other".to_owned(), lease: rules.lease };
    let answer = room.workers[0].handle(Time(4 * MS), WorkerInput::Message(envelope(9, hello.clone())));
    let WorkerOutput::Send(Envelope { epoch: 9, body: ToCoordinator::Refused { why }, .. }) = &answer[0] else {
        panic!("{answer:?}")
    };
    assert_eq!(why, "it belongs to run first");
    // So it does whatever that one orders, and says nothing of what it has of its own one's.
    for (number, body, part) in [(2, ToWorker::Release, "Refused"), (0, ToWorker::Probe { sent: Time(0) }, "Echo")] {
        let order = Envelope { number, ..envelope(9, body) };
        let answer = room.workers[0].handle(Time(4 * MS), WorkerInput::Message(order));
        let WorkerOutput::Send(Envelope { epoch: 9, received: 0, body, .. }) = &answer[0] else { panic!("{answer:?}") };
        assert!(format!("{body:?}").starts_with(part), "{body:?}");
    }
    // A coordinator that does not hear a worker does not renew its lease, however much it says itself.
    let unheard = |number, body| Envelope { session: 4, number, stamp: Time(3 * MS), ..envelope(9, body) };
    for (at, number, body) in [(4 * MS, 1, hello), (5 * SECOND, 0, ToWorker::Probe { sent: Time(0) })] {
        room.workers[3].handle(Time(at), WorkerInput::Message(unheard(number, body)));
    }
    let last = room.workers[3].handle(Time(5 * SECOND + 3 * MS), WorkerInput::Tick).pop();
    assert!(matches!(last, Some(WorkerOutput::Fenced(_))), "{last:?}");
    let share = |worker| Share { worker, workers: 2, plan: String::new(), run_id: 1, files: 0 };
    (0..2).for_each(|worker| room.say(5 * MS, CoordinatorInput::Share(share(worker))));
    room.hear(6 * MS, 0, WorkerInput::Refused("no broker".to_owned()));
    assert_eq!(std::mem::take(&mut room.said), [CoordinatorOutput::Lost(1, "no broker".to_owned())]);
    assert_eq!(room.done.pop(), Some(WorkerOutput::Fenced("no broker".to_owned())), "at once");
    assert_eq!(room.coordinator.flaws(), [], "one is tolerated");
    room.hear(7 * MS, 1, WorkerInput::Ready);
    room.say(20 * MS, CoordinatorInput::Tick);
    assert_eq!(std::mem::take(&mut room.said), [CoordinatorOutput::Ready(0)]);
    room.hear(30 * MS, 1, WorkerInput::Ended(None, Box::default()));
    room.hear(31 * MS, 1, WorkerInput::Cleaned);
    assert_eq!(room.said.pop(), Some(CoordinatorOutput::Finished));
    let prepared = [0, 1].map(|worker| WorkerOutput::Prepare(share(worker)));
    assert_eq!(room.done, prepared.into_iter().chain([WorkerOutput::Release, WorkerOutput::Left]).collect::<Vec<_>>());
}

/// Of two coordinators that look for workers at the same time one has it, and the other's loss is not the run's.
#[test]
fn a_worker_of_one_coordinator_is_none_of_another_ones() {
    let rules = RunRules { run: "run".to_owned(), lease: Nanos(5 * SECOND), tolerate: 0, late: Nanos(MS), probes: 1 };
    let mut both = [7, 9].map(|epoch| Coordinator::new(epoch, rules.clone()));
    let mut worker = Worker::new(1, WorkerFacts { name: "w".to_owned(), ..WorkerFacts::default() });
    // The one that was started first is heard first, and the other one's is on its way.
    let mut messages: Vec<Envelope<ToCoordinator>> = Vec::new();
    for at in [MS, 10 * MS, 20 * MS, 30 * MS] {
        let said = worker.handle(Time(at), WorkerInput::Tick);
        messages
            .extend(said.into_iter().filter_map(|it| if let WorkerOutput::Send(it) = it { Some(it) } else { None }));
        for message in std::mem::take(&mut messages) {
            for coordinator in &mut both {
                let said = coordinator.handle(Time(at), CoordinatorInput::Message(message.clone()));
                for output in said.into_iter().chain(coordinator.handle(Time(at), CoordinatorInput::Tick)) {
                    let CoordinatorOutput::Send(order) = output else { continue };
                    for output in worker.handle(Time(at), WorkerInput::Message(order)) {
                        let WorkerOutput::Send(answer) = output else { panic!("{output:?}") };
                        messages.push(answer);
                    }
                }
            }
        }
    }
    assert_eq!((worker.run(), both[0].joined(), both[1].joined()), (("run", 7), 1, 0));
    // It has called both, and has answered one.
    both[1].handle(Time(40 * MS), CoordinatorInput::Close);
    assert!(both[1].members().is_empty() && both[1].flaws().is_empty());
}

#[test]
fn no_coordinator_is_left_for_longer_than_a_minute_whatever_it_says() {
    let mut worker = Worker::new(1, WorkerFacts::default());
    let body = ToWorker::Hello { run: "run".to_owned(), lease: Nanos(u64::MAX) };
    let hello = Envelope { epoch: 3, session: 1, number: 1, received: 0, stamp: Time(u64::MAX), body };
    worker.handle(Time(MS), WorkerInput::Message(hello));
    assert_eq!(worker.run(), ("run", 3));
    let last = worker.handle(Time(61 * SECOND), WorkerInput::Tick).pop();
    assert!(matches!(last, Some(WorkerOutput::Fenced(_))), "{last:?}");
}

/// Numbers of workers are those of the run; what came before it would be another one's.
#[test]
fn a_worker_without_a_share_reports_no_load_and_counts_that_cannot_be_lose_it() {
    let rules = RunRules { run: "run".to_owned(), lease: Nanos(5 * SECOND), tolerate: 0, late: Nanos(MS), probes: 1 };
    let mut coordinator = Coordinator::new(7, rules);
    let mut hear = |number, body| {
        let epoch = if matches!(body, ToCoordinator::Join(_)) { 0 } else { 7 };
        let envelope = Envelope { epoch, session: 1, number, received: number, stamp: Time(MS), body };
        let said = coordinator.handle(Time(MS), CoordinatorInput::Message(envelope));
        if number == 1 {
            coordinator.handle(Time(MS), CoordinatorInput::Close);
        }
        said.into_iter().filter(|it| !matches!(it, CoordinatorOutput::Send(_))).collect::<Vec<_>>()
    };
    assert_eq!(hear(0, ToCoordinator::Join(WorkerFacts::default())), []);
    assert_eq!(hear(1, ToCoordinator::Event(serde_json::json!({}))), []);
    let outcome = LoadOutcome { unsent: u64::MAX, ..LoadOutcome::default() };
    let why = "its counts cannot be those of a load".to_owned();
    let said = hear(2, ToCoordinator::Ended(Box::new(outcome)));
    assert_eq!(said, [CoordinatorOutput::Lost(0, why), CoordinatorOutput::Finished]);
}
