//! Consumers of streams that subscribe at any time and anywhere, in virtual time: what comes after a subscription's
//! offset is owed, and what precedes it is nobody's loss.

use std::net::SocketAddr;

use broker::Config;
use load::{Ack, Destination, Group, Plan, Protocol, QueueType, Spin, StreamOffset};
use measure::{Length, Nanos};
use testkit::Random;

use crate::common;
use crate::world::{self, Pace, World};

const SCENES: u64 = 150;
const MEASURE_MS: u64 = 400;
/// Messages that may be on their way while a subscription is.
const ON_THE_WAY: u64 = 4;

#[derive(Debug)]
struct Scene {
    rate: u64,
    consumers: u64,
    start_after_ms: u64,
    apart_ms: u64,
    offset: StreamOffset,
    /// Messages of another run that are there before.
    earlier: u64,
    protocol: Protocol,
}

impl Scene {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let offset = random.below(400);
        let offsets = [
            StreamOffset::Next,
            StreamOffset::Next,
            StreamOffset::First,
            StreamOffset::Last,
            StreamOffset::Offset(offset),
        ];
        let scene = Self {
            rate: random.of(&[250, 1_000, 2_000]),
            consumers: 1 + random.below(3),
            start_after_ms: random.of(&[0, 0, 53, 153, 601]),
            apart_ms: random.of(&[0, 41]),
            offset: random.of(&offsets),
            earlier: random.of(&[0, 100]),
            protocol: Protocol::Amqp091,
        };
        // Links are there from the start, and later ones without credit until then.
        let is_amqp10 = seed.is_multiple_of(2) && scene.start_after_ms + scene.apart_ms == 0;
        Self { protocol: if is_amqp10 { Protocol::Amqp10 } else { Protocol::Amqp091 }, ..scene }
    }

    fn group(&self, broker: SocketAddr) -> Group {
        let mut stream = Destination::queue("stream");
        stream.amqp091.queue_type = QueueType::Stream;
        let mut group = common::group(broker, stream, (1, 0));
        group.producers.sizes = 40.into();
        group.producers.max_pending = 1_000;
        group
    }

    fn plan(&self, broker: SocketAddr) -> Plan {
        let mut group = self.group(broker);
        group.producers.arrivals = common::rate(self.rate as f64);
        group.protocol = self.protocol;
        group.consumers.per_destination = self.consumers as usize;
        group.consumers.ack = Ack::Every(10);
        group.consumers.prefetch = 100;
        group.consumers.start_after = Length(Nanos::from_millis(self.start_after_ms));
        group.consumers.apart = Length(Nanos::from_millis(self.apart_ms));
        group.consumers.amqp091.stream_offset = self.offset;
        Plan {
            groups: vec![group],
            run_id: 12,
            spin: Spin::Never,
            phases: common::phases(0, MEASURE_MS, 8_000),
            ..Plan::default()
        }
    }

    /// The fewest and the most messages that are owed to the `n`-th consumer.
    fn owed(&self, n: u64) -> (u64, u64) {
        let all = self.rate * MEASURE_MS / 1_000;
        let subscribed_ms = self.start_after_ms + n * self.apart_ms;
        let before = (self.rate * subscribed_ms / 1_000).min(all);
        let after = all - before;
        match self.offset {
            StreamOffset::First => (all, all),
            // The last segment may be all of it.
            StreamOffset::Last => (after.saturating_sub(ON_THE_WAY), all),
            // One that is not there yet is the end.
            StreamOffset::Offset(offset) => {
                let skipped = offset.saturating_sub(self.earlier);
                let owed = all - skipped.min(before);
                let late = if skipped < before { 0 } else { ON_THE_WAY };
                (owed.saturating_sub(late), (owed + late).min(all))
            }
            StreamOffset::Next | StreamOffset::Time(_) if subscribed_ms == 0 => (all, all),
            StreamOffset::Next | StreamOffset::Time(_) => {
                (after.saturating_sub(ON_THE_WAY), (after + ON_THE_WAY).min(all))
            }
        }
    }
}

fn problem(seed: u64) -> Option<String> {
    let scene = Scene::random(seed);
    let world = World::new(seed, Pace::default());
    let broker = world.broker(Config::default());
    if scene.earlier > 0 {
        let mut group = scene.group(broker);
        group.producers.message_count = Some(scene.earlier);
        let earlier = Plan { groups: vec![group], run_id: 5, ..Plan::default() };
        world.run_to_end(&earlier, |_, _| {});
    }
    let (outcome, _) = world.run_to_end(&scene.plan(broker), |_, _| {});
    let ledger = outcome.ledger.unwrap_or_default();
    let owed = (0..scene.consumers).map(|n| scene.owed(n));
    let (least, most) = owed.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let wrong = !(least..=most).contains(&ledger.sent) || ledger.delivered != ledger.sent;
    wrong.then(|| format!("{ledger:?}, not {least} to {most} delivered\n{scene:#?}"))
}

#[test]
fn what_precedes_a_subscription_to_a_stream_is_not_lost() {
    world::prove(SCENES, "--test all what_precedes_a_subscription", problem);
}
