//! Under any fault of its connections, a load's counts are exact, or it says what is outstanding: random loads through
//! a proxy that cuts, holds and keeps away, with RabbitMQ behind it. `make prove` plays more of them. Thousands of such
//! loads against the embedded broker run in virtual time, in `load`.

mod scene;

use crate::common::managed;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use load::{Ack, Control, Outcome, Plan, RunEvent, Sink, StopCondition};
use measure::{Interval, Nanos, Phase};
use testkit::Proxy;

use self::scene::{Blow, Kind, Scene};

/// Scenes of an ordinary run; see [`testkit::seeds`].
const SCENES: u64 = 50;
/// Runs at the same time; each of them mostly sleeps.
const AT_ONCE: usize = 8;
/// A broker that sends nothing for about two heartbeats of a second is taken for dead, and rightly: RabbitMQ on a busy
/// machine has been seen to leave 2.0 s between two.
const TWO_HEARTBEATS: Duration = Duration::from_millis(1_900);
/// Scenes that have contradicted themselves once are played every time.
const FAILED_ONCE: [u64; 4] = [431, 567, 656, 3_238];
/// Tells when the load begins, and keeps why connections were lost.
struct Watch {
    begun: std::sync::mpsc::Sender<()>,
    lost: Vec<String>,
}

impl Sink for Watch {
    fn interval(&mut self, _: &Interval) {}

    fn event(&mut self, event: RunEvent) {
        match event {
            RunEvent::Started { .. } => {
                // Whoever waits for it may have given up.
                let _ = self.begun.send(());
            }
            RunEvent::Lost { at, detail } => self.lost.push(format!("{at:?}: {detail}")),
            _ => {}
        }
    }
}

/// Loads as planned; why connections were lost, in the order of time.
fn watched(plan: &Plan, begun: std::sync::mpsc::Sender<()>) -> Result<(Outcome, Vec<String>), load::Error> {
    let lost = Vec::new();
    let mut watch = Watch { begun, lost };
    let outcome = load::run(plan, &Control::new(), &mut watch)?;
    Ok((outcome, watch.lost))
}

fn run(plan: &Plan) -> Outcome {
    let (sender, _receiver) = channel();
    watched(plan, sender).expect("a load without blows").0
}

/// Puts messages of another run into the queues.
fn fill(scene: &Scene, port: u16) {
    let mut group = scene.group(port);
    group.producers.per_destination = 1;
    group.producers.message_count = Some(scene.earlier);
    group.producers.max_pending = 100;
    let plan = Plan { groups: vec![group], run_id: 0x00EA_0000, ..Plan::default() };
    assert_eq!(run(&plan).totals.sent, scene.earlier);
}

/// Deletes a stream, which cannot be emptied.
fn delete(scene: &Scene, port: u16) {
    let mut group = scene.group(port);
    group.producers.per_destination = 1;
    group.producers.message_count = Some(1);
    group.queues.delete = true;
    run(&Plan { groups: vec![group], ..Plan::default() });
}

/// Empties the queues, counts their messages, and deletes them.
fn sweep(scene: &Scene, port: u16) -> u64 {
    let mut group = scene.group(port);
    group.consumers.per_destination = 1;
    group.consumers.ack = Ack::Auto;
    group.queues.delete = true;
    let plan = Plan { groups: vec![group], stop: Some(StopCondition::Empty), ..Plan::default() };
    run(&plan).totals.received
}

fn strike(proxy: &Proxy, blow: Blow) {
    let sleep = |ms: u64| thread::sleep(Duration::from_millis(ms));
    match blow {
        Blow::Cut(later) => proxy.cut(Duration::from_millis(later)),
        Blow::Outage(length) => {
            proxy.keep_away(true);
            proxy.cut(Duration::ZERO);
            sleep(length);
            proxy.keep_away(false);
        }
        Blow::Hold(length) => {
            proxy.hold(true);
            sleep(length);
            proxy.hold(false);
        }
        Blow::Break(length) => {
            proxy.hold_half(true);
            sleep(length);
            proxy.cut(Duration::ZERO);
            proxy.hold_half(false);
        }
    }
}

/// Outcome of a scene.
struct Play {
    outcome: Outcome,
    /// Why connections were lost.
    lost: Vec<String>,
    /// Connections on which the broker sent nothing for two heartbeats of the idle connections.
    silent: usize,
    /// Messages that it left in the queues.
    left: u64,
}

/// Plays a scene.
fn play(scene: &Scene, broker: SocketAddr) -> Result<Play, load::Error> {
    if scene.earlier > 0 {
        fill(scene, broker.port());
    }
    let proxy = Proxy::new(broker).expect("a proxy");
    let (sender, begun) = channel();
    let (outcome, lost) = thread::scope(|scope| {
        let proxy = &proxy;
        scope.spawn(move || {
            if scene.held_before > 0 {
                thread::sleep(Duration::from_millis(10));
                strike(proxy, Blow::Hold(scene.held_before));
            }
            if begun.recv_timeout(Duration::from_secs(20)) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            let start = Instant::now();
            for (at, blow) in &scene.blows {
                let at = Duration::from_millis(*at);
                thread::sleep(at.saturating_sub(start.elapsed()));
                strike(proxy, *blow);
            }
        });
        let plan = scene.plan(proxy.address().port());
        watched(&plan, sender)
    })?;
    let silent = proxy.silent(TWO_HEARTBEATS);
    drop(proxy);
    // Until the broker has noticed that all connections are gone.
    thread::sleep(Duration::from_millis(500));
    let left = match scene.kind {
        Kind::Queue => sweep(scene, broker.port()),
        Kind::Stream => {
            delete(scene, broker.port());
            0
        }
        // They went with their connections.
        Kind::Topic | Kind::Exclusive => 0,
    };
    Ok(Play { outcome, lost, silent, left })
}

/// A contradiction in a scene's counts.
fn contradiction(scene: &Scene, play: &Play) -> Option<&'static str> {
    let (outcome, left) = (&play.outcome, play.left);
    let Some(ledger) = outcome.ledger else {
        return Some("there is no ledger");
    };
    let totals = &outcome.totals;
    let fates = ledger.delivered + ledger.lost + ledger.outstanding + ledger.returned + ledger.unconfirmed_missing;
    let deliveries = ledger.delivered + ledger.duplicated + ledger.duplicated_redelivered + ledger.foreign;
    let drain = outcome.phases.iter().find(|it| it.phase == Phase::Drain);
    let drained = drain.map_or(Nanos::ZERO, |it| it.end.since(it.start));
    let ended_early = drained < Nanos::from_millis(scene.phases.2);
    let acknowledges = scene.ack != Ack::Auto;
    let lost_connections: u64 = outcome.threads.iter().map(|t| t.lost_connections).sum();
    // A stream keeps everything; what is a connection's own goes with it.
    let may_lose = scene.is_cut()
        && match scene.kind {
            Kind::Queue => !acknowledges,
            Kind::Stream => false,
            Kind::Topic | Kind::Exclusive => true,
        };
    // What comes again to a queue may come late for those that have it now.
    let may_reorder = scene.is_cut() && scene.kind == Kind::Queue;
    // A stream is read by each consumer, and once.
    let earlier = scene.earlier * scene.receivers();
    let reads_once = scene.kind == Kind::Stream;
    // Of the earlier run's messages, those that nobody got may still be there.
    let left_of_this = left.saturating_sub(earlier.saturating_sub(ledger.foreign));
    let missing = ledger.outstanding + ledger.unconfirmed_missing;
    let checks = [
        (outcome.error.is_some(), "the load failed"),
        (!ledger.exact, "memory sufficed"),
        (ledger.sent != totals.sent * scene.receivers(), "all sent messages have their receivers"),
        (fates != ledger.sent, "every message has one fate"),
        (deliveries != totals.received, "every delivery counts once"),
        (ledger.corrupt > 0, "nobody damages anything"),
        (ledger.duplicated > 0, "what comes twice is flagged"),
        (ledger.reordered > 0 && !may_reorder, "nobody reorders anything"),
        (ledger.lost > 0 && !may_lose, "what is acknowledged, or kept, is not lost"),
        (
            lost_connections > play.silent as u64 && !scene.is_cut(),
            "nobody cuts anything, and the broker is not silent",
        ),
        (
            reads_once && (ledger.duplicated_redelivered > 0 || ledger.foreign > earlier),
            "a stream is gone on with where it was left",
        ),
        (!acknowledges && left_of_this > missing, "what the queues still hold is not lost"),
        (ended_early && ledger.outstanding > 0, "a drain ends early only when nothing more can come"),
        (
            ended_early && earlier > ledger.foreign && (reads_once || !scene.is_cut()),
            "what was there before is received too",
        ),
        (
            scene.blows.is_empty() && ended_early && ledger.delivered != ledger.sent,
            "without a blow everything is delivered",
        ),
    ];
    checks.iter().find(|(is, _)| *is).map(|(_, what)| *what)
}

#[derive(Debug, Default)]
struct Totals {
    delivered: AtomicU64,
    lost: AtomicU64,
    outstanding: AtomicU64,
    redelivered: AtomicU64,
    reconnected: AtomicU64,
    /// Deliveries of each kind of scene that was cut, …
    kinds: [AtomicU64; Kind::ALL.len()],
    /// … and scenes that were played with idle connections, and with consumers that fell behind.
    idle: AtomicU64,
    slow: AtomicU64,
}

fn problem(seed: u64, broker: SocketAddr, totals: &Totals) -> Option<String> {
    let scene = Scene::random(seed);
    let play = match play(&scene, broker) {
        Ok(play) => play,
        Err(error) => return Some(format!("{scene:#?}\n{error}")),
    };
    let outcome = &play.outcome;
    let ledger = outcome.ledger.unwrap_or_default();
    let lost: u64 = outcome.threads.iter().map(|t| t.lost_connections).sum();
    let of_kind = &totals.kinds[scene.kind as usize];
    let is_slow = scene.service_us >= 500 && ledger.delivered > 0;
    for (total, count) in [
        (of_kind, ledger.delivered * u64::from(scene.is_cut())),
        (&totals.idle, u64::from(scene.idle > 0)),
        (&totals.slow, u64::from(is_slow)),
        (&totals.delivered, ledger.delivered),
        (&totals.lost, ledger.lost),
        (&totals.outstanding, ledger.outstanding),
        (&totals.redelivered, ledger.duplicated_redelivered),
        (&totals.reconnected, lost),
    ] {
        total.fetch_add(count, Ordering::Relaxed);
    }
    contradiction(&scene, &play).map(|rule| {
        let (left, lost) = (play.left, &play.lost);
        format!("not so: {rule}\n{scene:#?}\n{left} left in the queues, lost {lost:#?}, {outcome:#?}")
    })
}

fn prove(broker: SocketAddr) {
    let all = testkit::seeds_and(SCENES, &FAILED_ONCE);
    let totals = Totals::default();
    let played = testkit::play(&all, AT_ONCE, |seed| problem(seed, broker, &totals));
    eprintln!("{} scenes: {totals:?}", all.len());
    played.assert_right("--test all counts_are_exact_or_outstanding_with_rabbitmq");
    if all.len() >= 50 {
        let done = [
            (&totals.delivered, 10_000),
            (&totals.lost, 1),
            (&totals.outstanding, 1),
            (&totals.redelivered, 20),
            (&totals.reconnected, 100),
            (&totals.idle, 2),
            (&totals.slow, 5),
        ];
        let enough = |(total, least): &(&AtomicU64, u64)| total.load(Ordering::Relaxed) >= *least;
        let every_kind = totals.kinds.iter().all(|it| enough(&(it, 100)));
        assert!(done.iter().all(enough) && every_kind, "too little happened: {totals:?}");
    }
}

#[test]
fn counts_are_exact_or_outstanding_with_rabbitmq() {
    if !testkit::has_rabbitmq() {
        testkit::skip!("rabbitmq-server is not installed: apt-get install rabbitmq-server");
    }
    let shared = managed::shared_node();
    let endpoint: load::Endpoint = shared.url().parse().expect("an endpoint");
    let port = endpoint.port;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    prove(address);
}
