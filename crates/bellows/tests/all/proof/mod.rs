//! Under any fault of its connections, a load's counts are exact, or it says what is outstanding: random loads through
//! a proxy that cuts, holds and keeps away, with RabbitMQ behind it. `make prove` plays more of them. Thousands of such
//! loads against the embedded broker run in virtual time, in `load`.

#[path = "../../../../load/tests/all/proof/scene.rs"]
mod scene;

use crate::common::managed;

use std::net::SocketAddr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use load::{Ack, Control, Outcome, Plan, RunEvent, Sink, StopCondition};
use measure::Interval;
use testkit::{Proxy, Random};

use self::scene::{Bounds, Disturb, Kind, Played, Scene, Totals};

/// Scenes of an ordinary run; see [`testkit::seeds`].
const SCENES: u64 = 50;
/// Runs at the same time; each of them mostly sleeps.
const AT_ONCE: usize = 8;
/// A broker that sends nothing for about two heartbeats of a second is taken for dead, and rightly: RabbitMQ on a busy
/// machine has been seen to leave 2.0 s between two.
const TWO_HEARTBEATS: Duration = Duration::from_millis(1_900);
/// Scenes that have contradicted themselves once are played every time.
const FAILED_ONCE: [u64; 4] = [431, 567, 656, 3_238];
/// Seeds from before there were other kinds than queues: their scenes are unchanged.
const QUEUES_ONLY: [u64; 3] = [431, 567, 656];
const BOUNDS: Bounds = Bounds {
    clients: |random| 1 + random.below(16) as usize,
    rates: [200.0, 1_000.0, 3_000.0],
    most_rate: 1_000.0,
    idle_rate: 200.0,
    earlier: 300,
};

#[derive(Clone, Copy, Debug)]
enum Blow {
    /// Cuts all connections; the broker notices after this many milliseconds.
    Cut(u64),
    /// Cuts connections, and refuses new ones for this long.
    Outage(u64),
    /// Nothing passes for this long.
    Hold(u64),
    /// Nothing passes on every other connection for this long, and then all are cut.
    Break(u64),
}

impl Disturb for Blow {
    fn random(random: &mut Random, length: u64) -> Self {
        match random.below(8) {
            0 | 1 => Self::Cut(0),
            2 => Self::Cut(length),
            3 => Self::Outage(length),
            4 => Self::Outage(3 * length),
            5 => Self::Hold(length),
            _ => Self::Break(length),
        }
    }

    fn cuts(&self) -> bool {
        !matches!(self, Self::Hold(_))
    }
}

fn scene(seed: u64) -> Scene<Blow> {
    let random = &mut Random::new(seed);
    let scene = Scene::random(seed, random, &BOUNDS);
    if QUEUES_ONLY.contains(&seed) { scene } else { scene.of_some_kind(random, &BOUNDS) }
}

/// Tells when the load begins, and keeps why connections were lost.
struct Watch {
    begun: Sender<()>,
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
fn watched(plan: &Plan, begun: Sender<()>) -> Result<(Outcome, Vec<String>), load::Error> {
    let mut watch = Watch { begun, lost: Vec::new() };
    let outcome = load::run(plan, &Control::new(), &mut watch)?;
    Ok((outcome, watch.lost))
}

fn run(plan: &Plan) -> Outcome {
    let (sender, _receiver) = channel();
    watched(plan, sender).expect("a load without blows").0
}

/// Deletes a stream, which cannot be emptied.
fn delete(scene: &Scene<Blow>, port: u16) {
    let mut group = scene.group(port);
    group.producers.per_destination = 1;
    group.producers.message_count = Some(1);
    group.queues.delete = true;
    run(&Plan { groups: vec![group], ..Plan::default() });
}

/// Empties the queues, counts their messages, and deletes them.
fn sweep(scene: &Scene<Blow>, port: u16) -> u64 {
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

fn play(scene: &Scene<Blow>, broker: SocketAddr) -> Result<Played, load::Error> {
    if scene.earlier > 0 {
        assert_eq!(run(&scene.filling(broker.port())).totals.sent, scene.earlier);
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
    let silent = proxy.silent(TWO_HEARTBEATS) as u64;
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
    Ok(Played { outcome, lost, left, silent, may_overtake: false })
}

fn problem(seed: u64, broker: SocketAddr, totals: &Totals) -> Option<String> {
    let scene = scene(seed);
    match play(&scene, broker) {
        Ok(played) => totals.problem(&scene, &played, &[]),
        Err(error) => Some(format!("{scene:#?}\n{error}")),
    }
}

#[test]
fn counts_are_exact_or_outstanding_with_rabbitmq() {
    testkit::needs_rabbitmq!();
    let shared = managed::shared_node();
    let endpoint: load::Endpoint = shared.url().parse().expect("an endpoint");
    let broker = SocketAddr::from(([127, 0, 0, 1], endpoint.port));
    let all = testkit::seeds_and(SCENES, &FAILED_ONCE);
    let totals = Totals::default();
    let played = testkit::play(&all, AT_ONCE, |seed| problem(seed, broker, &totals));
    eprintln!("{} scenes: {totals:?}", all.len());
    played.assert_right("--test all counts_are_exact_or_outstanding_with_rabbitmq");
    if all.len() >= 50 {
        totals.assert_enough(10_000, 20);
    }
}
