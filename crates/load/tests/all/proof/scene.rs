//! Random loads, and what happens to their connections.

use load::{
    Ack, Destination, Endpoint, Group, Guarantee, LatencyStep, Phases, Plan, QueueType, ReconnectPolicy, ServiceTime,
    Spin, StreamOffset,
};
use measure::{Length, Nanos, Rate};
use testkit::Random;

use crate::world::Pace;

/// A disturbance of the load, with milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blow {
    /// Cuts all connections; the broker notices after this many milliseconds.
    Cut(u64),
    /// Cuts them, and lets nobody in for this long.
    Outage(u64),
    /// Nothing passes for this long.
    Hold(u64),
    /// Nothing passes on every other connection for this long, and then all are cut.
    Break(u64),
    /// The broker does not run.
    StopBroker(u64),
    /// No thread of the load runs, …
    StopLoad(u64),
    /// … this event loop, …
    StopLoop(usize, u64),
    /// … or the coordinator.
    StopCoordinator(u64),
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

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Queue, Self::Topic, Self::Stream, Self::Exclusive];
}

/// A load, and what is done to its connections.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
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
    pub(crate) recovery: (u64, u64),
    pub(crate) phases: (u64, u64, u64),
    /// Messages that are in the queues before.
    pub(crate) earlier: u64,
    /// Blows with their times after the start, in milliseconds.
    pub(crate) blows: Vec<(u64, Blow)>,
    /// Nothing passes for this long while the load is being set up.
    pub(crate) held_before: u64,
    pub(crate) pace: Pace,
}

impl Scene {
    pub(crate) fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let clients = |random: &mut Random| {
            let lanes = random.of(&[1, 1, 2, 2, 3, 4, 6, 16]);
            (lanes, 1 + random.below(lanes as u64) as usize)
        };
        let phases = (random.of(&[0, 100]), 300, random.of(&[250, 1_500, 4_000, 4_000]));
        let until = phases.0 + phases.1 + phases.2.min(600);
        let count = random.of(&[0, 1, 1, 1, 2, 3]);
        let blows = (0..count).map(|_| {
            let length = 1 + random.below(400);
            let blow = match random.below(12) {
                0 | 1 => Blow::Cut(0),
                2 => Blow::Cut(length),
                3 => Blow::Outage(length),
                4 => Blow::Outage(3 * length),
                5 => Blow::Hold(length),
                6 => Blow::StopBroker(length),
                7 => Blow::StopLoad(length),
                8 => Blow::StopLoop(random.below(2) as usize, length),
                9 => Blow::StopCoordinator(length),
                _ => Blow::Break(length),
            };
            (random.below(until), blow)
        });
        let mut blows: Vec<_> = blows.collect();
        blows.sort_by_key(|(at, _)| *at);
        let ack = random.of(&[Ack::Auto, Ack::Every(1), Ack::Every(7), Ack::Every(50)]);
        let consumers = clients(random);
        let recoveries = [(2, 10), (20, 60), (300, 700), (1_200, 1_600)];
        let mut scene = Self {
            seed,
            kind: Kind::Queue,
            idle: 0,
            producers: clients(random),
            consumers,
            // Every queue has a consumer.
            destinations: random.of(&[1, 1, 2]).min(consumers.0),
            threads: random.of(&[1, 2]),
            rate: random.of(&[100.0, 500.0, 1_500.0]),
            ack,
            prefetch: random.of(&[1, 10, 60, 200]),
            poll: random.of(&[None, None, None, Some(0), Some(3)]),
            service_us: random.of(&[0, 0, 0, 500, 3_000]),
            start_after: random.of(&[0, 0, 0, 150, 700]),
            confirm: random.below(8) > 0,
            recovery: random.of(&recoveries),
            phases,
            earlier: random.of(&[0, 0, 100]),
            blows,
            held_before: random.of(&[0, 0, 40]),
            pace: Pace::random(random),
        };
        if scene.poll == Some(0) {
            // Polling without a pause, the load does nothing else all the time.
            scene.pace.travel_ns = (400_000, 1_200_000);
        }
        let kinds = [Kind::Queue, Kind::Queue, Kind::Topic, Kind::Stream, Kind::Exclusive];
        let idle = if random.one_in(6) { 1 + random.below(3) } else { 0 };
        let scene = scene.with(random.of(&kinds), idle as usize);
        // As much as comes waits in the consumers' memory; streams have a limit.
        let has_no_limit = seed.is_multiple_of(5) && scene.kind != Kind::Stream;
        Self { prefetch: if has_no_limit { 0 } else { scene.prefetch }, ..scene }
    }

    /// With another kind, and idle connections beside it.
    pub(crate) fn with(mut self, kind: Kind, idle: usize) -> Self {
        (self.kind, self.idle) = (kind, idle);
        if idle > 0 {
            // Longer than the heartbeats that idle connections live by.
            (self.phases.1, self.rate) = (2_600, 100.0);
        }
        if kind != Kind::Queue {
            self.destinations = 1;
            // Everybody may get everything.
            self.rate = self.rate.min(500.0);
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
    pub(crate) fn receivers(&self) -> u64 {
        match self.kind {
            Kind::Queue | Kind::Exclusive => 1,
            Kind::Topic | Kind::Stream => self.consumers.0 as u64,
        }
    }

    pub(crate) fn is_cut(&self) -> bool {
        let cuts = |blow: &(u64, Blow)| matches!(blow.1, Blow::Cut(_) | Blow::Outage(_) | Blow::Break(_));
        self.blows.iter().any(cuts)
    }

    /// Whether what is sent after a cut may reach the broker before what was sent until then: it notices the cut late,
    /// and another blow kept the old bytes from it.
    pub(crate) fn may_overtake(&self) -> bool {
        let is_late = |blow: &(u64, Blow)| matches!(blow.1, Blow::Cut(later) if later > 0);
        self.blows.len() > 1 && self.blows.iter().any(is_late)
    }

    /// Whether the window may be full at the end of sending, or nobody there to send.
    pub(crate) fn is_hindered(&self) -> bool {
        !self.blows.is_empty()
    }

    /// Messages that are due before the end of sending.
    pub(crate) fn scheduled(&self) -> u64 {
        let length = self.phases.0 + self.phases.1;
        (self.rate * length as f64 / 1_000.0).ceil() as u64
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
        group.producers.sizes = 40.into();
        group
    }

    /// Consumers that get nothing, on connections that only heartbeats keep.
    pub(crate) fn idle_group(&self, port: u16, reconnect: Option<ReconnectPolicy>) -> Group {
        let queue = Destination::queue(format!("proof-{}-idle", self.seed));
        let mut group = Group::new(Endpoint::new("127.0.0.1", port), vec![queue]);
        group.endpoint.connection.heartbeat_s = 1;
        group.consumers.per_destination = self.idle;
        group.reconnect = reconnect;
        group.queues.delete = true;
        group
    }

    pub(crate) fn plan(&self, port: u16) -> Plan {
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
        group.reconnect = Some(ReconnectPolicy { min: Nanos::from_millis(min), max: Nanos::from_millis(max) });
        group.consumers.amqp091.stream_offset = StreamOffset::First;
        let (warmup, measure, drain) = self.phases;
        let idle = (self.idle > 0).then(|| self.idle_group(port, group.reconnect));
        Plan {
            groups: std::iter::once(group).chain(idle).collect(),
            threads: self.threads,
            run_id: 1 + self.seed as u32,
            spin: Spin::Never,
            phases: Phases {
                warmup: Nanos::from_millis(warmup),
                measure: Some(Nanos::from_millis(measure)),
                drain: Nanos::from_millis(drain),
            },
            ..Plan::default()
        }
    }
}
