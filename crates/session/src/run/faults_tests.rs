use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use archive::Topology;
use load::Endpoint;

use super::*;
use crate::run::companion::own_fault;
use crate::run::tests::begun;
use brokers::{BrokerError, Identity, Processes, RabbitMqNodes};

/// Three nodes, of which one takes long to come back, and one is gone. They do not tell their topology.
#[derive(Debug)]
pub(in crate::run) struct Nodes {
    identity: Identity,
    endpoint: Endpoint,
    /// Whether a question runs into the time-out.
    pub(in crate::run) timed_out: bool,
    pub(in crate::run) asked: AtomicUsize,
}

const SLOW: usize = 0;
const GONE: usize = 2;
const SURVIVOR: u32 = 702;
/// The process below which the first node starts again.
const STARTER: usize = 700;
const RESTART: Duration = Duration::from_millis(300);
const KILL: Duration = Duration::from_millis(100);

impl RabbitMqNodes for Nodes {
    fn topology(&self, _cancelled: &dyn Fn() -> bool) -> Result<Topology, BrokerError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Err(BrokerError::control("anything", "no answer", self.timed_out))
    }

    fn gone_nodes(&self) -> Vec<usize> {
        vec![GONE]
    }
}

impl Broker for Nodes {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn processes(&self) -> Processes {
        Processes { further: vec![None, Some(SURVIVOR)], ..Processes::default() }
    }

    fn inject(&mut self, node: usize, fault: Fault) -> Result<(), BrokerError> {
        match (node, fault) {
            (GONE, _) => return Err(BrokerError::Fault("it is gone".into())),
            (SLOW, Fault::Restart) => thread::sleep(RESTART),
            (1, Fault::Kill) => thread::sleep(KILL),
            _ => {}
        }
        Ok(())
    }

    fn starter(&self, node: usize) -> Option<u32> {
        u32::try_from(STARTER + node).ok()
    }

    fn logs(&self, _lines: usize) -> String {
        String::new()
    }

    fn stop(self: Box<Self>) -> Result<(), BrokerError> {
        Ok(())
    }
}

pub(in crate::run) fn nodes() -> Nodes {
    let (identity, endpoint) = (Identity::default(), Endpoint::new("localhost", 0));
    Nodes { identity, endpoint, timed_out: false, asked: AtomicUsize::new(0) }
}

fn fault(kind: RunFault, node: usize, at_ms: u64, for_ms: u64) -> FaultSpec {
    let kind = kind.name();
    toml::from_str(&format!("kind = \"{kind}\"\nnode = {node}\nat = \"{at_ms}ms\"\nfor = \"{for_ms}ms\"")).unwrap()
}

fn context() -> RunContext {
    begun(tempfile::tempdir().unwrap().path()).0
}

fn played(faults: &[FaultSpec]) -> Vec<(u64, FaultEvent)> {
    let told = told(faults).into_iter();
    use FaultEvent::{Kills, Starts, Survives, Watched};
    told.filter(|(_, event)| !matches!(event, Kills(_) | Starts(_) | Survives { .. } | Watched)).collect()
}

/// Events of these faults, with the watch for the first confirm.
fn told(faults: &[FaultSpec]) -> Vec<(u64, FaultEvent)> {
    let mut broker = nodes();
    let control = load::Control::new();
    let begin = Clock.now();
    let events = thread::scope(|scope| {
        let (played, player) = Faults::of(faults, &context(), &mut broker, &control, false, None);
        scope.spawn(|| player.run());
        played.say(Moment::Begin(begin));
        thread::sleep(Duration::from_millis(1_200));
        played.events.try_iter().collect::<Vec<_>>()
    });
    let ms = |event: &FaultEvent| match event {
        FaultEvent::Began { at, .. } | FaultEvent::Back { at, .. } | FaultEvent::Failed { at, .. } => {
            at.since(begin).0 / 1_000_000
        }
        _ => 0,
    };
    events.into_iter().map(|event| (ms(&event), event)).collect()
}

fn heard(events: impl IntoIterator<Item = (u64, FaultEvent)>) -> (Faults, Collected) {
    let (mut broker, control) = (nodes(), load::Control::new());
    let run = context();
    let (mut faults, _player) = Faults::of(&[], &run, &mut broker, &control, false, None);
    let mut collected = Collected::default();
    for (_, event) in events {
        faults.hear(event, &mut collected);
    }
    (faults, collected)
}

/// The rest of a cluster may confirm all the time, or nothing until the node is back.
#[test]
fn a_clusters_first_confirm_is_watched_for_from_the_faults_beginning() {
    let told = told(&[fault(RunFault::Stop, 1, 0, 20)]);
    let events: Vec<&FaultEvent> = told.iter().map(|(_, event)| event).collect();
    use FaultEvent::{Back, Began, Watched};
    assert!(matches!(events[..], [Began { .. }, Watched, Back { .. }]), "{events:?}");
    let (faults, _) = heard(told);
    assert!(faults.outcomes[0].watched, "{:?}", faults.outcomes);
}

#[test]
fn a_fault_lasts_until_what_it_took_away_confirms_again() {
    let kill =
        FaultOutcome { kind: "kill".into(), node: Some(1), t: 10.0, asked_s: Some(5.0), ..FaultOutcome::default() };
    let until = |fault: FaultOutcome| own_fault(&fault).map(|it| it.until_s);
    assert_eq!(until(kill.clone()), Some(f64::INFINITY), "it did not come back");
    let mut back = kill.clone();
    back.back_s = Some(11.0);
    assert_eq!(until(back.clone()), Some(21.0));
    back.first_confirm_s = Some(12.5);
    assert_eq!(until(back.clone()), Some(22.5));
    assert_eq!(own_fault(&back).map(|it| it.name), Some("kill of node 1".into()));
    // One of a moment lasts until then, too, and one that takes nothing away has no such time.
    let dropped = FaultOutcome {
        kind: "drop".into(),
        t: 3.0,
        watched: true,
        first_confirm_s: Some(0.125),
        ..FaultOutcome::default()
    };
    assert_eq!(until(dropped.clone()), Some(3.125));
    assert_eq!(until(FaultOutcome { watched: false, first_confirm_s: None, ..dropped }), None);
    let mut failed = kill;
    (failed.failed, failed.asked_s) = (Some("RabbitMQ is gone".into()), None);
    assert_eq!(until(failed), None, "it did not begin");
}

/// The start's own usage belongs to the node, not to another program.
#[test]
fn a_killed_node_is_followed_from_its_start_on() {
    use FaultEvent::{Back, Began, Kills, Starts, Watched};
    let kill = told(&[fault(RunFault::Kill, 1, 0, 20)]);
    let events: Vec<&FaultEvent> = kill.iter().map(|(_, event)| event).collect();
    assert!(matches!(events[..], [Kills(_), Began { .. }, Watched, Starts(_), Back { .. }]), "{events:?}");
    // A kill takes a while, and its effects come before that has passed.
    assert!(u128::from(kill[1].0) < KILL.as_millis(), "{events:?}");
    let (_, collected) = heard(kill.into_iter().take(4));
    assert_eq!(collected.starters.iter().map(|it| (it.node, it.pid)).collect::<Vec<_>>(), [(1, 701)]);
    assert_eq!(collected.killed.len(), 1);
    // One that only stood still is the process that it was.
    assert!(!told(&[fault(RunFault::Stop, 1, 0, 20)]).iter().any(|(_, event)| matches!(event, Starts(_))));
}

/// Its usage was counted again only when the run ended.
#[test]
fn a_node_that_could_not_be_killed_is_followed_as_before() {
    use FaultEvent::{Failed, Kills, Survives};
    let kill = told(&[fault(RunFault::Kill, GONE, 0, 20)]);
    let events: Vec<&FaultEvent> = kill.iter().map(|(_, event)| event).collect();
    assert!(matches!(events[..], [Kills(_), Survives { .. }, Failed { .. }]), "{events:?}");
    let (faults, collected) = heard(kill);
    assert_eq!(collected.returned.iter().map(|it| (it.node, it.pid)).collect::<Vec<_>>(), [(GONE, SURVIVOR)]);
    // It was never away.
    assert_eq!(faults.outcomes[0].back_s, None);
}

/// A node that stays away holds nothing up: other nodes are hit on time.
#[test]
fn a_node_that_is_killed_for_good_stays_away_to_the_end() {
    let mut for_good = fault(RunFault::Kill, SLOW, 0, 20);
    for_good.length = None;
    let events = played(&[for_good, fault(RunFault::Stop, 1, 50, 100)]);
    let [(_, killed), (began, FaultEvent::Began { .. }), (_, FaultEvent::Back { .. })] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(matches!(killed, FaultEvent::Began { for_good: true, asked: None, .. }), "{killed:?}");
    assert!(*began < 300, "{events:?}");
    let (faults, collected) = heard(events.into_iter().take(1));
    assert_eq!(collected.events[0].1, "node 0 was killed for good");
    let outcome = &faults.outcomes[0];
    assert!(outcome.for_good && faults.away.is_none(), "{outcome:?}");
    assert_eq!(own_fault(outcome).map(|it| it.until_s), Some(f64::INFINITY));
}

#[test]
fn a_fault_behind_one_that_takes_longer_is_late_and_as_long_as_written() {
    let faults = [
        fault(RunFault::Kill, SLOW, 0, 20),
        fault(RunFault::Partition, 1, 100, 100),
        // It fails, and the next one takes place all the same.
        fault(RunFault::Kill, GONE, 500, 50),
        fault(RunFault::Stop, 1, 600, 100),
    ];
    let events = played(&faults);
    let [_, (back, _), (began, second), (over, _), (_, failed), (_, third), _] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(*back >= 320, "{events:?}");
    assert!(
        matches!(second, FaultEvent::Began { kind: RunFault::Partition, late, asked: Some(asked), .. }
            if late.0 >= 200_000_000 && asked.0 == 100_000_000),
        "{second:?}"
    );
    assert!(over - began >= 100, "{events:?}");
    assert!(
        matches!(failed, FaultEvent::Failed { kind: RunFault::Kill, node: Some(2), began: false, reason, .. }
            if reason.ends_with("gone")),
        "{failed:?}"
    );
    assert!(matches!(third, FaultEvent::Began { kind: RunFault::Stop, .. }), "{third:?}");
}

#[test]
fn a_node_that_is_gone_is_told() {
    let broker = nodes();
    assert_eq!(node_gone(&broker, &[]).expect("a warning").finding, Finding::NodeGone { nodes: vec![2] });
    let kill =
        |node: usize, for_good| FaultOutcome { node: u32::try_from(node).ok(), for_good, ..FaultOutcome::default() };
    for (fault, is_told) in [(kill(GONE, true), false), (kill(GONE, false), true), (kill(SLOW, true), true)] {
        assert_eq!(node_gone(&broker, &[fault]).is_some(), is_told);
    }
}

#[test]
fn the_broker_is_asked_when_sending_has_ended_unless_a_fault_has_it_away() {
    let faults = [fault(RunFault::Stop, 1, 200, 200)];
    // When sending ends, and how long after that the load does.
    let asked_after = |ms: u64, then: u64| {
        let mut broker = nodes();
        let control = load::Control::new();
        thread::scope(|scope| {
            let run = context();
            let (mut played, player) = Faults::of(&faults, &run, &mut broker, &control, false, None);
            let state = scope.spawn(|| player.run());
            played.say(Moment::Begin(Clock.now()));
            thread::sleep(Duration::from_millis(ms));
            played.phase(Phase::Drain, Clock.now());
            thread::sleep(Duration::from_millis(then));
            played.load_ended();
            state.join().expect("its end").is_some()
        })
    };
    assert!(asked_after(20, 480), "before the fault");
    assert!(!asked_after(300, 200), "while the node stands still");
    assert!(asked_after(1_500, 1_500), "when it is back");
}
