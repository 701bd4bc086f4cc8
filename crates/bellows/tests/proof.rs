//! Whatever happens to its connections, a load's counts are exact, or it says what is outstanding:
//! random loads through a proxy that cuts, holds and keeps away, with the embedded broker and with
//! RabbitMQ behind it. `make prove` plays more of them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use load::{
    Ack, Control, Destination, Endpoint, Group, Guarantee, LatencyStep, Outcome, Phases, Plan,
    QueueType, ReconnectPolicy, RunEvent, ServiceTime, Sink, StopCondition, StreamOffset,
};
use measure::{Interval, Length, Nanos, Phase, Rate};
use session::brokers::rabbitmq::{Config, RabbitMq};
use session::guardian;
use testkit::{Proxy, Random};

/// Runs at the same time; each of them mostly sleeps.
const AT_ONCE: usize = 8;
/// A broker that sends nothing for about two heartbeats of a second is taken for dead, and rightly: RabbitMQ on a busy
/// machine has been seen to leave 2.0 s between two.
const TWO_HEARTBEATS: Duration = Duration::from_millis(1_900);
/// Scenes that have contradicted themselves once are played every time, with the embedded broker and
/// with RabbitMQ.
const FAILED_ONCE: [u64; 4] = [431, 567, 656, 3_238];
/// Those of before there were other kinds than queues: they stay as they were.
const QUEUES_ONLY: [u64; 3] = [431, 567, 656];

/// What the proxy does.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// Cuts all connections; the broker notices after this many milliseconds.
    Cut(u64),
    /// Cuts them, and lets nobody in for this long.
    Outage(u64),
    /// Nothing passes for this long.
    Hold(u64),
    /// Nothing passes on every other connection for this long, and then all are cut.
    Break(u64),
}

/// What messages go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Queues that outlive their consumers.
    Queue,
    /// Each consumer has a queue of its own, which goes with its connection.
    Topic,
    /// Each consumer reads all of it, and goes on where it was.
    Stream,
    /// A queue that is one connection's alone, and goes with it.
    Exclusive,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Queue, Self::Topic, Self::Stream, Self::Exclusive];
}

/// A load, and what is done to its connections.
#[derive(Debug)]
struct Scene {
    seed: u64,
    kind: Kind,
    /// Connections beside it, whose queue nobody sends to.
    idle: usize,
    producers: (usize, usize),
    consumers: (usize, usize),
    destinations: usize,
    threads: usize,
    rate: f64,
    ack: Ack,
    prefetch: u16,
    poll: Option<u64>,
    service_us: u64,
    start_after: u64,
    confirm: bool,
    recovery: (u64, u64),
    phases: (u64, u64, u64),
    /// Messages that are in the queues before.
    earlier: u64,
    /// Blows with their times after the start, in milliseconds.
    blows: Vec<(u64, Blow)>,
    /// Nothing passes for this long while the load is being set up.
    held_before: u64,
}

impl Scene {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let clients = |random: &mut Random| {
            let lanes = 1 + random.below(16) as usize;
            (lanes, 1 + random.below(lanes as u64) as usize)
        };
        let phases = (
            random.of(&[0, 100]),
            300,
            random.of(&[250, 1_500, 4_000, 4_000]),
        );
        let until = phases.0 + phases.1 + phases.2.min(600);
        let count = random.of(&[0, 1, 1, 1, 2, 3]);
        let blows = (0..count).map(|_| {
            let length = 1 + random.below(400);
            let blow = match random.below(8) {
                0 | 1 => Blow::Cut(0),
                2 => Blow::Cut(length),
                3 => Blow::Outage(length),
                4 => Blow::Outage(3 * length),
                5 => Blow::Hold(length),
                _ => Blow::Break(length),
            };
            (random.below(until), blow)
        });
        let mut blows: Vec<_> = blows.collect();
        blows.sort_by_key(|(at, _)| *at);
        let ack = random.of(&[Ack::Auto, Ack::Every(1), Ack::Every(7), Ack::Every(50)]);
        let consumers = clients(random);
        let recoveries = [(2, 10), (20, 60), (300, 700), (1_200, 1_600)];
        let scene = Self {
            seed,
            kind: Kind::Queue,
            idle: 0,
            producers: clients(random),
            consumers,
            // Every queue has a consumer.
            destinations: random.of(&[1, 1, 2]).min(consumers.0),
            threads: random.of(&[1, 2]),
            rate: random.of(&[200.0, 1_000.0, 3_000.0]),
            ack,
            prefetch: random.of(&[1, 10, 60, 200]),
            poll: random.of(&[None, None, None, Some(0), Some(3)]),
            service_us: random.of(&[0, 0, 0, 500, 3_000]),
            start_after: random.of(&[0, 0, 0, 150, 700]),
            confirm: random.below(8) > 0,
            recovery: random.of(&recoveries),
            phases,
            earlier: random.of(&[0, 0, 300]),
            blows,
            held_before: random.of(&[0, 0, 40]),
        };
        if QUEUES_ONLY.contains(&seed) {
            return scene;
        }
        let kinds = [
            Kind::Queue,
            Kind::Queue,
            Kind::Topic,
            Kind::Stream,
            Kind::Exclusive,
        ];
        let idle = if random.one_in(6) {
            1 + random.below(3)
        } else {
            0
        };
        scene.with(random.of(&kinds), idle as usize)
    }

    /// The same of another kind, with idle connections beside it.
    fn with(mut self, kind: Kind, idle: usize) -> Self {
        (self.kind, self.idle) = (kind, idle);
        if idle > 0 {
            // Longer than the heartbeats that idle connections live by.
            (self.phases.1, self.rate) = (2_600, 200.0);
        }
        if kind != Kind::Queue {
            self.destinations = 1;
            // Everybody may get everything.
            self.rate = self.rate.min(1_000.0);
            self.consumers.0 = self.consumers.0.min(6);
            self.consumers.1 = self.consumers.1.min(self.consumers.0);
        }
        match kind {
            Kind::Queue => {}
            Kind::Topic => self.earlier = 0,
            Kind::Stream => {
                self.poll = None;
                if self.ack == Ack::Auto {
                    self.ack = Ack::Every(20);
                }
            }
            Kind::Exclusive => (self.earlier, self.consumers.1) = (0, 1),
        }
        self
    }

    /// How many consumers get each message.
    fn receivers(&self) -> u64 {
        match self.kind {
            Kind::Queue | Kind::Exclusive => 1,
            Kind::Topic | Kind::Stream => self.consumers.0 as u64,
        }
    }

    fn is_cut(&self) -> bool {
        let cuts = |blow: &(u64, Blow)| !matches!(blow.1, Blow::Hold(_));
        self.blows.iter().any(cuts)
    }

    fn group(&self, port: u16) -> Group {
        let destination = |n| {
            let name = format!("proof-{}-{n}", self.seed);
            match self.kind {
                Kind::Queue => Destination::queue(name),
                Kind::Topic => Destination::topic(name),
                Kind::Stream => {
                    let mut stream = Destination::queue(name);
                    stream.amqp091.queue_type = QueueType::Stream;
                    stream
                }
                Kind::Exclusive => Destination {
                    exclusive: true,
                    ..Destination::queue(name)
                },
            }
        };
        let destinations = (0..self.destinations).map(destination).collect();
        let mut group = Group::new(Endpoint::new("127.0.0.1", port), destinations);
        group.producers.sizes = 40.into();
        group
    }

    /// Consumers that get nothing, on connections that only heartbeats keep.
    fn idle_group(&self, port: u16, reconnect: Option<ReconnectPolicy>) -> Group {
        let queue = Destination::queue(format!("proof-{}-idle", self.seed));
        let mut group = Group::new(Endpoint::new("127.0.0.1", port), vec![queue]);
        group.endpoint.connection.heartbeat_s = 1;
        group.consumers.per_destination = self.idle;
        group.reconnect = reconnect;
        group.queues.delete = true;
        group
    }

    fn plan(&self, port: u16) -> Plan {
        let mut group = self.group(port);
        group.producers.total = Some(self.producers.0);
        group.producers.connections = Some(self.producers.1);
        group.producers.arrivals = Rate::per_second(self.rate).expect("a rate").into();
        if !self.confirm {
            group.producers.guarantee = Guarantee::Unconfirmed;
        }
        group.producers.max_pending = 200;
        group.consumers.total = Some(self.consumers.0);
        group.consumers.connections = Some(self.consumers.1);
        group.consumers.ack = self.ack;
        group.consumers.prefetch = self.prefetch;
        group.consumers.poll = self.poll.map(|ms| Length(Nanos::from_millis(ms)));
        group.consumers.start_after = Length(Nanos::from_millis(self.start_after));
        if self.service_us > 0 {
            group.consumers.service = ServiceTime {
                latency: vec![LatencyStep::constant(Nanos::from_micros(self.service_us))],
                ..ServiceTime::default()
            };
        }
        let (min, max) = self.recovery;
        group.reconnect = Some(ReconnectPolicy {
            min: Nanos::from_millis(min),
            max: Nanos::from_millis(max),
        });
        group.consumers.amqp091.stream_offset = StreamOffset::First;
        let (warmup, measure, drain) = self.phases;
        let idle = (self.idle > 0).then(|| self.idle_group(port, group.reconnect));
        Plan {
            groups: std::iter::once(group).chain(idle).collect(),
            threads: self.threads,
            run_id: 1 + self.seed as u32,
            phases: Phases {
                warmup: Nanos::from_millis(warmup),
                measure: Some(Nanos::from_millis(measure)),
                drain: Nanos::from_millis(drain),
            },
            ..Plan::default()
        }
    }
}

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
fn watched(
    plan: &Plan,
    begun: std::sync::mpsc::Sender<()>,
) -> Result<(Outcome, Vec<String>), load::Error> {
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
    let plan = Plan {
        groups: vec![group],
        run_id: 0x00EA_0000,
        ..Plan::default()
    };
    assert_eq!(run(&plan).totals.sent, scene.earlier);
}

/// Deletes a stream, which nobody can empty.
fn delete(scene: &Scene, port: u16) {
    let mut group = scene.group(port);
    group.producers.per_destination = 1;
    group.producers.message_count = Some(1);
    group.queues.delete = true;
    run(&Plan {
        groups: vec![group],
        ..Plan::default()
    });
}

/// Empties the queues, tells how many messages there were, and deletes them.
fn sweep(scene: &Scene, port: u16) -> u64 {
    let mut group = scene.group(port);
    group.consumers.per_destination = 1;
    group.consumers.ack = Ack::Auto;
    group.queues.delete = true;
    let plan = Plan {
        groups: vec![group],
        stop: Some(StopCondition::Empty),
        ..Plan::default()
    };
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

/// How a scene went.
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
    Ok(Play {
        outcome,
        lost,
        silent,
        left,
    })
}

/// What of a scene's counts cannot be.
fn contradiction(scene: &Scene, play: &Play) -> Option<&'static str> {
    let (outcome, left) = (&play.outcome, play.left);
    let Some(ledger) = outcome.ledger else {
        return Some("there is no ledger");
    };
    let totals = &outcome.totals;
    let fates = ledger.delivered
        + ledger.lost
        + ledger.outstanding
        + ledger.returned
        + ledger.unconfirmed_missing;
    let deliveries =
        ledger.delivered + ledger.duplicated + ledger.duplicated_redelivered + ledger.foreign;
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
        (
            ledger.sent != totals.sent * scene.receivers(),
            "all sent messages have their receivers",
        ),
        (fates != ledger.sent, "every message has one fate"),
        (deliveries != totals.received, "every delivery counts once"),
        (ledger.corrupt > 0, "nobody damages anything"),
        (ledger.duplicated > 0, "what comes twice is flagged"),
        (
            ledger.reordered > 0 && !may_reorder,
            "nobody reorders anything",
        ),
        (
            ledger.lost > 0 && !may_lose,
            "what is acknowledged, or kept, is not lost",
        ),
        (
            lost_connections > play.silent as u64 && !scene.is_cut(),
            "nobody cuts anything, and the broker is not silent",
        ),
        (
            reads_once && (ledger.duplicated_redelivered > 0 || ledger.foreign > earlier),
            "a stream is gone on with where it was left",
        ),
        (
            !acknowledges && left_of_this > missing,
            "what the queues still hold is not lost",
        ),
        (
            ended_early && ledger.outstanding > 0,
            "a drain ends early only when nothing more can come",
        ),
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
        format!(
            "not so: {rule}\n{scene:#?}\n{left} left in the queues, lost {lost:#?}, {outcome:#?}"
        )
    })
}

fn prove(test: &str, broker: SocketAddr, usual: u64) {
    let all = testkit::seeds_and(usual, &FAILED_ONCE);
    let totals = Totals::default();
    let played = testkit::play(&all, AT_ONCE, |seed| problem(seed, broker, &totals));
    eprintln!("{test}, {} scenes: {totals:?}", all.len());
    played.assert_right(&format!("--test proof {test}"));
    if all.len() >= 50 {
        let done = [
            (&totals.delivered, 10_000),
            (&totals.lost, 1),
            (&totals.outstanding, 1),
            (&totals.redelivered, 100),
            (&totals.reconnected, 100),
            (&totals.idle, 2),
            (&totals.slow, 5),
        ];
        let enough = |(total, least): &(&AtomicU64, u64)| total.load(Ordering::Relaxed) >= *least;
        let every_kind = totals.kinds.iter().all(|it| enough(&(it, 100)));
        assert!(
            done.iter().all(enough) && every_kind,
            "too little happened: {totals:?}"
        );
    }
}

#[test]
fn counts_are_exact_or_outstanding_with_the_embedded_broker() {
    let broker = broker::Broker::bind(broker::Config::default());
    let broker = broker.expect("bind").spawn().expect("spawn");
    prove(
        "counts_are_exact_or_outstanding_with_the_embedded_broker",
        broker.local_addr(),
        50,
    );
}

#[test]
fn counts_are_exact_or_outstanding_with_rabbitmq() {
    if !testkit::has_rabbitmq() {
        testkit::skip!("rabbitmq-server is not installed: apt-get install rabbitmq-server");
    }
    let exe = OsString::from(env!("CARGO_BIN_EXE_bellows"));
    let config = Config {
        guard: vec![exe, guardian::SUBCOMMAND.into()],
        ..Config::default()
    };
    let node = RabbitMq::start(&config, &mut |_| {}, &|| false).expect("a managed RabbitMQ");
    let port = node.endpoint().expect("endpoint").port;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    prove("counts_are_exact_or_outstanding_with_rabbitmq", address, 50);
}
