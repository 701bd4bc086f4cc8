//! Topic patterns as RabbitMQ has them: random patterns and keys, and which queue really got which
//! message, against the deliveries that the ledger expects.

use crate::common::managed::{self, SharedNode};

use load::{AmqpDestination, Control, Destination, Exchange, Group, Outcome, Phases, Plan, RunEvent, Sink};
use measure::{Interval, Nanos};
use testkit::Random;
use wire::topic::TopicPatterns;

const KEYS: usize = 60;
const QUEUES: usize = 60;
const EACH: u64 = 5;

struct Nobody;

impl Sink for Nobody {
    fn interval(&mut self, _: &Interval) {}

    fn event(&mut self, _: RunEvent) {}
}

/// A key or a pattern of up to five of these words.
fn text(random: &mut Random, words: &[&str]) -> String {
    let count = random.below(6);
    let text: Vec<&str> = (0..count).map(|_| random.of(words)).collect();
    text.join(".")
}

fn to(key: &str, queue: &str) -> Destination {
    Destination {
        amqp091: AmqpDestination {
            exchange: Some(Exchange::new("bellows-topics", "topic")),
            routing_key: Some(key.to_owned()),
            auto_delete: true,
            ..AmqpDestination::default()
        },
        ..Destination::queue(queue)
    }
}

fn play(node: &SharedNode, keys: &[String], patterns: &[String]) -> Outcome {
    let endpoint: load::Endpoint = node.url().parse().expect("an endpoint");
    let published = keys.iter().map(|key| {
        let mut unused = to(key, "bellows-topics-unused");
        // Nothing is bound by what is published.
        unused.amqp091.bind = false;
        unused
    });
    let mut producers = Group::new(endpoint.clone(), published.collect());
    producers.producers.per_destination = 1;
    producers.producers.message_count = Some(EACH * KEYS as u64);
    producers.producers.max_pending = 10;
    producers.producers.sizes = 32.into();
    producers.consumers.per_destination = 0;
    let consumed = patterns.iter().enumerate();
    // Two patterns to each queue.
    let consumed = consumed.map(|(i, pattern)| to(pattern, &format!("topics-{}", i % QUEUES)));
    let mut consumers = Group::new(endpoint, consumed.collect());
    consumers.producers.per_destination = 0;
    consumers.consumers.per_destination = 1;
    let plan = Plan {
        groups: vec![producers, consumers],
        // Until all is sent.
        phases: Phases { warmup: Nanos::ZERO, measure: None, drain: Nanos::from_millis(30_000) },
        ..Plan::default()
    };
    load::run(&plan, &Control::new(), &mut Nobody).expect("the load starts")
}

#[test]
fn messages_reach_the_queues_whose_patterns_take_their_keys() {
    let (_, node) = &managed::shared!();
    for seed in 1..=3 {
        let mut random = Random::new(seed);
        let keys: Vec<String> = (0..KEYS).map(|_| text(&mut random, &["a", "b", "", "c"])).collect();
        let words = ["a", "b", "*", "#", "", "c", "*"];
        let patterns: Vec<String> = (0..2 * QUEUES).map(|_| text(&mut random, &words)).collect();
        let bound = |queue: usize| {
            let mut bound = TopicPatterns::default();
            bound.insert(&patterns[queue], ());
            bound.insert(&patterns[queue + QUEUES], ());
            bound
        };
        let queues: Vec<TopicPatterns<()>> = (0..QUEUES).map(bound).collect();
        let takes = |queue: usize, key: &str| queues[queue].matches(key);
        let pairs = |key: &String| (0..QUEUES).filter(|queue| takes(*queue, key)).count();
        let expected: u64 = keys.iter().map(|key| pairs(key) as u64 * EACH).sum();
        assert!(expected > 1_000, "{expected}");

        let outcome = play(node, &keys, &patterns);
        assert!(outcome.error.is_none(), "{outcome:?}");
        // A queue that got what it should not counts it as foreign, one that did not get what it
        // should as lost: each keeps an account of every producer whose key it should take.
        let ledger = outcome.ledger.expect("ledger");
        assert_eq!(outcome.totals.sent, EACH * KEYS as u64, "seed {seed}");
        assert_eq!(ledger.sent, expected, "seed {seed}: once for each queue");
        assert_eq!((ledger.lost, ledger.foreign), (0, 0), "seed {seed}: {ledger:?}");
        assert_eq!(outcome.totals.received, expected, "seed {seed}: {ledger:?}");
    }
}
