//! Random loads under disturbances, and what their counts must hold to; `bellows` plays such scenes with RabbitMQ, from
//! this file, with disturbances of its own.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use load::{
    Ack, Destination, Endpoint, Group, Guarantee, LatencyStep, Outcome, Phases, Plan, Protocol, QueueType,
    ReconnectPolicy, ServiceTime, StreamOffset,
};
use measure::{Length, Nanos, Phase, Rate};
use testkit::Random;

/// A disturbance of the load.
pub(crate) trait Disturb: Copy + Debug {
    /// One of several, of this many milliseconds.
    fn random(random: &mut Random, length: u64) -> Self;

    /// Whether connections are lost by it.
    fn cuts(&self) -> bool;
}

/// How much the broker of the scenes can take.
pub(crate) struct Bounds {
    /// The number of producers, or of consumers.
    pub(crate) clients: fn(&mut Random) -> usize,
    pub(crate) rates: [f64; 3],
    /// Where everybody may get everything.
    pub(crate) most_rate: f64,
    /// Beside idle connections.
    pub(crate) idle_rate: f64,
    /// Messages that are in the queues before, where there are some.
    pub(crate) earlier: u64,
}

/// Kind of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Queues that outlive their consumers.
    Queue,
    /// Each consumer has a queue of its own, which goes with its connection.
    Topic,
    /// Each consumer reads all of it, and goes on where it was.
    Stream,
    /// A queue that is one connection's alone, and goes with it.
    Exclusive,
}

const KINDS: usize = 4;

/// The protocol of producers, and that of consumers.
pub(crate) type Protocols = (Protocol, Protocol);

/// A group whose producers and consumers speak these protocols: two groups, where they differ.
pub(crate) fn over(mut group: Group, (producing, consuming): Protocols) -> Vec<Group> {
    group.protocol = producing;
    if producing == consuming {
        return vec![group];
    }
    let mut other = Group {
        protocol: consuming,
        reconnect: group.reconnect,
        ..Group::new(group.endpoint.clone(), group.destinations.clone())
    };
    std::mem::swap(&mut group.consumers, &mut other.consumers);
    other.producers.sizes = group.producers.sizes.clone();
    vec![group, other]
}

/// A load, and what is done to its connections.
#[derive(Debug)]
pub(crate) struct Scene<B> {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
    pub(crate) protocols: Protocols,
    /// Connections beside it, whose queue nobody sends to.
    pub(crate) idle: usize,
    pub(crate) producers: (usize, usize),
    pub(crate) consumers: (usize, usize),
    pub(crate) destinations: usize,
    pub(crate) threads: usize,
    pub(crate) rate: f64,
    pub(crate) ack: Ack,
    pub(crate) prefetch: u16,
    pub(crate) poll: Option<u64>,
    pub(crate) service_us: u64,
    pub(crate) start_after: u64,
    pub(crate) confirm: bool,
    /// Messages without an answer are sent again.
    pub(crate) resend: bool,
    pub(crate) persistent: bool,
    pub(crate) recovery: (u64, u64),
    pub(crate) phases: (u64, u64, u64),
    /// Messages that are in the queues before.
    pub(crate) earlier: u64,
    /// Blows with their times after the start, in milliseconds.
    pub(crate) blows: Vec<(u64, B)>,
    /// Nothing passes for this long while the load is being set up.
    pub(crate) held_before: u64,
}

impl<B: Disturb> Scene<B> {
    /// A load of queues.
    pub(crate) fn random(seed: u64, random: &mut Random, bounds: &Bounds) -> Self {
        let clients = |random: &mut Random| {
            let lanes = (bounds.clients)(random);
            (lanes, 1 + random.below(lanes as u64) as usize)
        };
        let phases = (random.of(&[0, 100]), 300, random.of(&[250, 1_500, 4_000, 4_000]));
        let until = phases.0 + phases.1 + phases.2.min(600);
        let count = random.of(&[0, 1, 1, 1, 2, 3]);
        let blows = (0..count).map(|_| {
            let length = 1 + random.below(400);
            let blow = B::random(random, length);
            (random.below(until), blow)
        });
        let mut blows: Vec<_> = blows.collect();
        blows.sort_by_key(|(at, _)| *at);
        let ack = random.of(&[Ack::Auto, Ack::Every(1), Ack::Every(7), Ack::Every(50)]);
        let consumers = clients(random);
        Self {
            seed,
            kind: Kind::Queue,
            protocols: (Protocol::Amqp091, Protocol::Amqp091),
            idle: 0,
            producers: clients(random),
            consumers,
            // Every queue has a consumer.
            destinations: random.of(&[1, 1, 2]).min(consumers.0),
            threads: random.of(&[1, 2]),
            rate: random.of(&bounds.rates),
            ack,
            prefetch: random.of(&[1, 10, 60, 200]),
            poll: random.of(&[None, None, None, Some(0), Some(3)]),
            service_us: random.of(&[0, 0, 0, 500, 3_000]),
            start_after: random.of(&[0, 0, 0, 150, 700]),
            confirm: random.below(8) > 0,
            resend: seed.is_multiple_of(2),
            persistent: false,
            recovery: random.of(&[(2, 10), (20, 60), (300, 700), (1_200, 1_600)]),
            phases,
            earlier: random.of(&[0, 0, bounds.earlier]),
            blows,
            held_before: random.of(&[0, 0, 40]),
        }
    }

    /// With another kind, and idle connections beside it.
    pub(crate) fn of_some_kind(mut self, random: &mut Random, bounds: &Bounds) -> Self {
        let idle = if random.one_in(6) { 1 + random.below(3) } else { 0 };
        self.kind = random.of(&[Kind::Queue, Kind::Queue, Kind::Topic, Kind::Stream, Kind::Exclusive]);
        self.idle = idle as usize;
        if self.idle > 0 {
            // Longer than the heartbeats that idle connections live by.
            (self.phases.1, self.rate) = (2_600, bounds.idle_rate);
        }
        if self.kind != Kind::Queue {
            self.destinations = 1;
            // Everybody may get everything.
            self.rate = self.rate.min(bounds.most_rate);
            self.consumers.0 = self.consumers.0.min(6);
            self.consumers.1 = self.consumers.1.min(self.consumers.0);
        }
        match self.kind {
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

    /// Over AMQP 1.0 on one side or on both. That protocol has no exclusive queues, and its consumers neither topics
    /// nor streams at the embedded broker, nor do they ask for single messages.
    pub(crate) fn over_amqp10(mut self, random: &mut Random) -> Self {
        let (old, new) = (Protocol::Amqp091, Protocol::Amqp10);
        self.protocols = random.of(&[(new, new), (new, old), (old, new)]);
        let consumes = self.protocols.1 == new;
        if consumes || self.kind == Kind::Exclusive {
            self.kind = Kind::Queue;
        }
        self.poll = self.poll.filter(|_| !consumes);
        self
    }

    /// How many consumers get each message.
    fn receivers(&self) -> u64 {
        match self.kind {
            Kind::Queue | Kind::Exclusive => 1,
            Kind::Topic | Kind::Stream => self.consumers.0 as u64,
        }
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.blows.iter().any(|(_, blow)| blow.cuts())
    }

    /// The name of the `n`-th destination.
    pub(crate) fn name(&self, n: usize) -> String {
        format!("proof-{}-{n}", self.seed)
    }

    pub(crate) fn group(&self, port: u16) -> Group {
        let destination = |n| {
            let name = self.name(n);
            match self.kind {
                Kind::Queue => Destination::queue(name),
                Kind::Topic => Destination::topic(name),
                Kind::Stream => {
                    let mut stream = Destination::queue(name);
                    stream.amqp091.queue_type = QueueType::Stream;
                    stream
                }
                Kind::Exclusive => Destination { exclusive: true, ..Destination::queue(name) },
            }
        };
        let destinations = (0..self.destinations).map(destination).collect();
        let mut group = Group::new(Endpoint::new("127.0.0.1", port), destinations);
        (group.protocol, group.producers.persistent) = (self.protocols.0, self.persistent);
        group.producers.sizes = 40.into();
        group
    }

    /// Puts messages of another run into the queues.
    pub(crate) fn filling(&self, port: u16) -> Plan {
        let mut group = self.group(port);
        group.producers.per_destination = 1;
        group.producers.message_count = Some(self.earlier);
        group.producers.max_pending = 100;
        Plan { groups: vec![group], run_id: 0x00EA_0000, ..Plan::default() }
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

    pub(crate) fn plan(&self, port: u16) -> Plan {
        let ms = Nanos::from_millis;
        let mut group = self.group(port);
        group.producers.total = Some(self.producers.0);
        group.producers.connections = Some(self.producers.1);
        group.producers.arrivals = Rate::per_second(self.rate).expect("a rate").into();
        if !self.confirm {
            group.producers.guarantee = Guarantee::Unconfirmed;
        }
        group.producers.resend = self.resend && self.confirm;
        group.producers.max_pending = 200;
        group.consumers.total = Some(self.consumers.0);
        group.consumers.connections = Some(self.consumers.1);
        group.consumers.ack = self.ack;
        group.consumers.prefetch = self.prefetch;
        group.consumers.poll = self.poll.map(|poll| Length(ms(poll)));
        group.consumers.start_after = Length(ms(self.start_after));
        if self.service_us > 0 {
            group.consumers.service = ServiceTime {
                latency: vec![LatencyStep::constant(Nanos::from_micros(self.service_us))],
                ..ServiceTime::default()
            };
        }
        let (min, max) = self.recovery;
        group.reconnect = Some(ReconnectPolicy { min: ms(min), max: ms(max) });
        group.consumers.amqp091.stream_offset = StreamOffset::First;
        let (warmup, measure, drain) = self.phases;
        let idle = (self.idle > 0).then(|| self.idle_group(port, group.reconnect));
        Plan {
            groups: over(group, self.protocols).into_iter().chain(idle).collect(),
            threads: self.threads,
            run_id: 1 + self.seed as u32,
            phases: Phases::new(ms(warmup), ms(measure), ms(drain)),
            ..Plan::default()
        }
    }
}

/// The outcome of a scene.
pub(crate) struct Played {
    pub(crate) outcome: Outcome,
    /// Why connections were lost.
    pub(crate) lost: Vec<String>,
    /// Messages that it left in the queues.
    pub(crate) left: u64,
    /// Connections that may be lost without a cut.
    pub(crate) silent: u64,
    /// Messages that were sent after a cut may have reached the broker before what was sent until then.
    pub(crate) may_overtake: bool,
    /// Repeated deliveries may come without the flag, from a broker that has forgotten, or does not say so.
    pub(crate) may_repeat: bool,
}

impl Played {
    fn lost_connections(&self) -> u64 {
        self.outcome.threads.iter().map(|it| it.lost_connections).sum()
    }

    /// A count of the scene that cannot be, which one of `more` may be.
    fn contradiction<B: Disturb>(&self, scene: &Scene<B>, more: &[(bool, &'static str)]) -> Option<&'static str> {
        let (outcome, left) = (&self.outcome, self.left);
        let Some(ledger) = outcome.ledger else { return Some("there is no ledger") };
        let totals = &outcome.totals;
        let fates = ledger.delivered + ledger.lost + ledger.outstanding + ledger.returned + ledger.unconfirmed_missing;
        let again = ledger.duplicated + ledger.duplicated_redelivered + ledger.duplicated_resent;
        let deliveries = ledger.delivered + again + ledger.foreign;
        let drain = outcome.phases.iter().find(|it| it.phase == Phase::Drain);
        let drained = drain.map_or(Nanos::ZERO, |it| it.end.since(it.start));
        let ended_early = drained < Nanos::from_millis(scene.phases.2);
        let acknowledges = scene.ack != Ack::Auto;
        // A stream keeps everything; what is a connection's own goes with it.
        let may_lose = scene.is_cut()
            && match scene.kind {
                Kind::Queue => !acknowledges,
                Kind::Stream => false,
                Kind::Topic | Kind::Exclusive => true,
            };
        // What comes again to a queue may come late for those that have it now.
        let may_reorder = scene.is_cut() && scene.kind == Kind::Queue || self.may_overtake;
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
            (ledger.duplicated > 0 && !self.may_repeat, "what comes twice is flagged"),
            (ledger.reordered > 0 && !may_reorder, "nobody reorders anything"),
            (ledger.lost > 0 && !may_lose, "what is acknowledged, or kept, is not lost"),
            (
                self.lost_connections() > self.silent && !scene.is_cut(),
                "nobody cuts anything, and the broker is not silent",
            ),
            (
                reads_once && (ledger.duplicated_redelivered > 0 || ledger.foreign > earlier),
                "a stream is gone on with where it was left",
            ),
            (!acknowledges && left_of_this > missing, "what the queues still hold is not lost"),
            (ended_early && ledger.outstanding > 0, "a drain ends early only when nothing more can come"),
            (
                ended_early && scene.resend && scene.confirm && totals.completed + totals.nacked < totals.sent,
                "what is sent again is answered",
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
        checks.iter().chain(more).find(|(is, _)| *is).map(|(_, what)| *what)
    }
}

/// The sum over all scenes.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    delivered: AtomicU64,
    lost: AtomicU64,
    outstanding: AtomicU64,
    redelivered: AtomicU64,
    /// Copies that came beside the message itself.
    resent: AtomicU64,
    reconnected: AtomicU64,
    /// Deliveries of each kind of scene that was cut, …
    kinds: [AtomicU64; KINDS],
    /// … and scenes that were played with idle connections, and with consumers that fell behind.
    idle: AtomicU64,
    slow: AtomicU64,
}

impl Totals {
    /// Adds a scene, and tells what is wrong with it: a contradiction, or what is true of `more`.
    pub(crate) fn problem<B: Disturb>(
        &self,
        scene: &Scene<B>,
        played: &Played,
        more: &[(bool, &'static str)],
    ) -> Option<String> {
        let (outcome, left, lost) = (&played.outcome, played.left, &played.lost);
        let ledger = outcome.ledger.unwrap_or_default();
        let is_slow = scene.service_us >= 500 && ledger.delivered > 0;
        for (total, count) in [
            (&self.kinds[scene.kind as usize], ledger.delivered * u64::from(scene.is_cut())),
            (&self.idle, u64::from(scene.idle > 0)),
            (&self.slow, u64::from(is_slow)),
            (&self.delivered, ledger.delivered),
            (&self.lost, ledger.lost),
            (&self.outstanding, ledger.outstanding),
            (&self.redelivered, ledger.duplicated_redelivered),
            (&self.resent, ledger.duplicated_resent),
            (&self.reconnected, played.lost_connections()),
        ] {
            total.fetch_add(count, Ordering::Relaxed);
        }
        played
            .contradiction(scene, more)
            .map(|rule| format!("not so: {rule}\n{scene:#?}\n{left} left in the queues, lost {lost:#?}, {outcome:#?}"))
    }

    /// At least this much was delivered, and came again.
    pub(crate) fn assert_enough(&self, delivered: u64, redelivered: u64) {
        let done = [
            (&self.delivered, delivered),
            (&self.lost, 1),
            (&self.outstanding, 1),
            (&self.redelivered, redelivered),
            (&self.reconnected, 100),
            (&self.idle, 2),
            (&self.slow, 5),
        ];
        let enough = |(total, least): &(&AtomicU64, u64)| total.load(Ordering::Relaxed) >= *least;
        let every_kind = self.kinds.iter().all(|it| enough(&(it, 100)));
        assert!(done.iter().all(enough) && every_kind, "too little happened: {self:?}");
    }
}
