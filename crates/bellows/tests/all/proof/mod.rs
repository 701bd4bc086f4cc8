//! Under any fault of its connections, a load's counts are exact, or it says what is outstanding: random loads through
//! a proxy that cuts, holds and keeps away, with RabbitMQ behind it. `make prove` plays more of them, and others over
//! both protocols with brokers that are stopped and killed. Thousands of such loads against the embedded broker run in
//! virtual time, in `load`.

#[path = "../../../../load/tests/all/proof/scene.rs"]
mod scene;

use crate::commands;
use crate::common::{self, managed};

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use brokers::{Broker, Fault};
use experiment::Experiment;
use load::{Ack, Control, Outcome, Plan, Protocol, RunEvent, Sink, StopCondition};
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

/// Scripts with a broker of their own, of which `make prove` plays six times as many: 204.
const SCRIPTS: u64 = 34;
/// Seeds of a round, every other one a broker's; its scripts are played at the same time.
const ROUND: u64 = 2 * AT_ONCE as u64;
const SCRIPT_BOUNDS: Bounds = Bounds {
    clients: |random| random.of(&[1, 1, 2, 3, 5]),
    rates: [100.0, 300.0, 800.0],
    most_rate: 300.0,
    idle_rate: 100.0,
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
    /// The broker itself does nothing for this long, …
    StopBroker(u64),
    /// … or is killed and started again: for all scripts of a round.
    KillBroker,
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
        !matches!(self, Self::Hold(_) | Self::StopBroker(_))
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
        // Others do that.
        Blow::StopBroker(_) | Blow::KillBroker => {}
    }
}

/// Plays a scene; `tell` is called when its load begins.
fn play(scene: &Scene<Blow>, broker: SocketAddr, tell: &(dyn Fn() + Sync)) -> Result<Played, load::Error> {
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
            tell();
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
    Ok(Played { outcome, lost, left, silent, may_overtake: false, may_repeat: false })
}

fn problem(seed: u64, broker: SocketAddr, totals: &Totals) -> Option<String> {
    let scene = scene(seed);
    match play(&scene, broker, &|| {}) {
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

/// The fault of the broker itself in the round that a seed belongs to.
fn blow_of_round(seed: u64) -> Option<Blow> {
    match seed / ROUND % 3 {
        0 => Some(Blow::KillBroker),
        1 => Some(Blow::StopBroker(500)),
        _ => None,
    }
}

/// Durable messages whose consumers acknowledge them, and have the time to get all.
fn script(seed: u64, is_artemis: bool) -> Scene<Blow> {
    let random = &mut Random::new(seed);
    let scene = Scene::random(seed, random, &SCRIPT_BOUNDS);
    let mut scene = match is_artemis {
        true => Scene { protocols: (Protocol::Amqp10, Protocol::Amqp10), ..scene },
        false => scene.over_amqp10(random),
    };
    if scene.ack == Ack::Auto {
        scene.ack = Ack::Every(20);
    }
    (scene.persistent, scene.poll, scene.phases) = (true, None, (100, 2_000, 60_000));
    scene.blows.extend(blow_of_round(seed).map(|blow| (0, blow)));
    scene
}

/// A broker of the test's own, from this folder.
fn start(kind: &str, root: &Path) -> Box<dyn Broker> {
    let root = root.display().to_string();
    let text = format!("broker = {{ kind = {kind:?}, root = {root:?} }}\n[[load]]\ndestination = \"queue://none\"\n");
    let experiment = Experiment::from_toml(&text, "test").expect("an experiment");
    let bellows = Path::new(env!("CARGO_BIN_EXE_bellows"));
    brokers::start(&experiment, None, bellows, &Control::new(), &mut |_| {}).expect("a broker")
}

/// How many messages all clients have sent to RabbitMQ since it started, by its own count.
const RECEIVED: &str =
    "lists:sum([N || #{messages_received_total := N} <- maps:values(rabbit_global_counters:overview())]).";

/// The value of [`RECEIVED`]; `None` of another broker.
fn received(broker: &dyn Broker) -> Option<u64> {
    let options = broker.erlang().expect("how it is reached")?;
    let node = erlang::Node::connect(&options).expect("a connection");
    let count = node.evaluate(common::DEADLINE, RECEIVED).expect("a count");
    erlang::term::as_int(&count).and_then(|it| u64::try_from(it).ok())
}

fn strike_broker(broker: &mut dyn Broker, blow: Blow) {
    let mut inject = |fault: Fault, ms: u64| {
        broker.inject(0, fault).expect("a fault");
        thread::sleep(Duration::from_millis(ms));
    };
    thread::sleep(Duration::from_millis(400));
    match blow {
        Blow::StopBroker(length) => {
            inject(Fault::Pause, length);
            inject(Fault::Resume, 0);
        }
        Blow::KillBroker => {
            inject(Fault::Kill, 300);
            inject(Fault::Restart, 0);
        }
        _ => {}
    }
}

/// Messages that a broker has received at the least by our counts, and at the most.
#[derive(Default)]
struct OurCount {
    least: AtomicU64,
    most: AtomicU64,
}

impl OurCount {
    /// Everything that was sent before a scene or came in it has been received; what was left may have come, too.
    fn add(&self, scene: &Scene<Blow>, played: &Played) {
        let delivered = played.outcome.ledger.map_or(0, |ledger| ledger.delivered);
        self.least.fetch_add(scene.earlier + delivered, Ordering::Relaxed);
        self.most.fetch_add(scene.earlier + delivered + played.left, Ordering::Relaxed);
    }
}

/// Plays scripts at the same time, and meanwhile strikes their broker.
fn play_round(broker: &mut dyn Broker, seeds: &[u64], totals: &Totals) {
    let is_artemis = broker.identity().kind == "artemis";
    let address = SocketAddr::from(([127, 0, 0, 1], broker.endpoint().port));
    let blow = blow_of_round(seeds[0]);
    let is_killed = matches!(blow, Some(Blow::KillBroker));
    let before = received(broker);
    let ours = OurCount::default();
    let (begun, begins) = channel();
    let problem = |seed: u64| {
        let scene = script(seed, is_artemis);
        let tell = || begun.send(()).unwrap_or_default();
        let played = match play(&scene, address, &tell) {
            Ok(played) => Played { may_repeat: is_artemis || is_killed, ..played },
            Err(error) => return Some(format!("{scene:#?}\n{error}")),
        };
        ours.add(&scene, &played);
        let ledger = played.outcome.ledger.unwrap_or_default();
        let more = [(ledger.lost + ledger.outstanding > 0, "what is confirmed has come, once the broker is back")];
        totals.problem(&scene, &played, &more)
    };
    let played = thread::scope(|scope| {
        let scenes = scope.spawn(|| testkit::play(seeds, AT_ONCE, problem));
        let has_begun = seeds.iter().all(|_| begins.recv_timeout(common::DEADLINE).is_ok());
        if let Some(blow) = blow.filter(|_| has_begun) {
            strike_broker(broker, blow);
        }
        scenes.join().expect("the scenes")
    });
    played.assert_right("--test all counts_are_exact_with_brokers -- --ignored");
    if let (Some(before), Some(after)) = (before, received(broker).filter(|_| !is_killed)) {
        let count = after - before;
        let [least, most] = [&ours.least, &ours.most].map(|it| it.load(Ordering::Relaxed));
        assert!((least..=most).contains(&count), "RabbitMQ has received {count}, and not {least} to {most}: {seeds:?}");
    }
}

#[test]
#[ignore = "brokers of its own, which it kills: make prove"]
fn counts_are_exact_with_brokers_that_are_killed_over_both_protocols() {
    let root = testkit::or_skip!(managed::newest_root().ok_or("no directory with the newest RabbitMQ"));
    let home = testkit::or_skip!(commands::artemis());
    let all: Vec<u64> = testkit::seeds(SCRIPTS).collect();
    let totals = Totals::default();
    for (kind, place, part) in [("rabbitmq", root, 0), ("artemis", home, 1)] {
        let seeds: Vec<u64> = all.iter().copied().filter(|seed| seed % 2 == part).collect();
        if seeds.is_empty() {
            continue;
        }
        let mut broker = start(kind, &place);
        for round in seeds.chunk_by(|a, b| a / ROUND == b / ROUND) {
            play_round(&mut *broker, round, &totals);
        }
        broker.stop().expect("its end");
    }
    eprintln!("{} scripts: {totals:?}", all.len());
}
