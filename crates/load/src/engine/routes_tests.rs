use wire::topic::TopicPatterns;

use super::*;
use crate::engine::assignment::tests::{assigned_together, producers_of};
use crate::{AmqpDestination, Declare, Endpoint, Exchange, Group, Plan, RandomKeys};
use plan::Random;

fn to(exchange: &str, key: &str, queue: &str) -> Destination {
    Destination {
        amqp091: AmqpDestination {
            exchange: Some(Exchange::new(exchange, "topic")),
            routing_key: Some(key.to_owned()),
            ..AmqpDestination::default()
        },
        ..Destination::queue(queue)
    }
}

fn plan(published: Vec<Destination>, consumed: Vec<Destination>) -> Plan {
    let group = |destinations: Vec<Destination>, producers, consumers| {
        let mut group = Group::new(Endpoint::new("h", 1), destinations);
        group.producers.per_destination = producers;
        group.consumers.per_destination = consumers;
        group
    };
    Plan { groups: vec![group(published, 1, 0), group(consumed, 0, 1)], ..Plan::default() }
}

fn expected_of(plan: &Plan) -> Vec<u64> {
    producers_of(&assigned_together(plan)).map(|it| it.expected_deliveries).collect()
}

#[test]
fn topics_are_bound_by_patterns() {
    let topics = |names: &[&str]| names.iter().map(|name| Destination::topic(*name)).collect();
    let plan = plan(topics(&["a.b", "a.c", "a", ""]), topics(&["a.*", "a.#", "#", "*", "x", "a.b"]));
    assert_eq!(expected_of(&plan), [4, 3, 3, 1]);
}

#[test]
fn a_queue_with_several_bindings_gets_one_copy() {
    let published = vec![to("x", "a.b", "p"), to("x", "z", "p"), to("y", "a.b", "p")];
    let consumed = vec![to("x", "a.*", "q"), to("x", "#.b", "q"), to("x", "a.b", "r")];
    let mut plan = plan(published, consumed);
    assert_eq!(expected_of(&plan), [2, 0, 0]);
    // Over the default exchange by its name, too.
    plan.groups[0].destinations[1] = Destination::queue("q");
    assert_eq!(expected_of(&plan), [2, 1, 0]);
    // What is a pattern on a topic exchange is a name on others.
    for destination in plan.groups.iter_mut().flat_map(|g| &mut g.destinations) {
        if let Some(exchange) = &mut destination.amqp091.exchange {
            "direct".clone_into(&mut exchange.kind);
        }
    }
    assert_eq!(expected_of(&plan), [1, 1, 0]);
}

#[test]
fn keys_by_chance_are_one_word() {
    let mut plan = plan(
        vec![to("x", "k", "p")],
        ["#", "*", "k", "*.*", "#.#"].iter().map(|pattern| to("x", pattern, pattern)).collect(),
    );
    assert_eq!(expected_of(&plan), [4]);
    plan.groups[0].producers.random_keys = Some(RandomKeys { different: 0 });
    assert_eq!(expected_of(&plan), [3]);
}

#[test]
fn every_queue_counts_the_producers_whose_keys_its_patterns_take() {
    let random = Random::new(11, 0);
    let mut at = 0;
    let mut text = |words: &[&str]| {
        let mut next = |bound: usize| {
            at += 1;
            (random.word(at) >> 33) as usize % bound
        };
        let count = 1 + next(4);
        let text: Vec<&str> = (0..count).map(|_| words[next(words.len())]).collect();
        text.join(".")
    };
    for _ in 0..200 {
        let keys: Vec<String> = (0..6).map(|_| text(&["a", "b", "c"])).collect();
        let patterns: Vec<String> = (0..12).map(|_| text(&["a", "b", "*", "#"])).collect();
        // Two bindings for each of six queues.
        let consumed = patterns.iter().enumerate();
        let plan = plan(
            keys.iter().map(|key| to("x", key, "p")).collect(),
            consumed.map(|(i, pattern)| to("x", pattern, &format!("q{}", i % 6))).collect(),
        );
        let expected: Vec<u64> = keys
            .iter()
            .map(|key| {
                let takes = |q: &usize| {
                    let mut own = TopicPatterns::default();
                    for pattern in patterns.iter().skip(*q).step_by(6) {
                        own.insert(pattern, ());
                    }
                    own.matches(key)
                };
                (0..6).filter(takes).count() as u64
            })
            .collect();
        assert_eq!(expected_of(&plan), expected, "{keys:?} and {patterns:?}");
    }
}

/// One exchange, which the publishing group and the consuming one say is of these kinds.
fn kinds(published: &str, consumed: &str) -> Plan {
    let mut plan = plan(vec![to("x", "p", "p")], vec![to("x", "b", "b")]);
    for (group, kind) in plan.groups.iter_mut().zip([published, consumed]) {
        group.destinations[0].amqp091.exchange = Some(Exchange::new("x", kind));
    }
    plan
}

/// The kind stands where the exchange is declared; whoever only publishes need not repeat it.
#[test]
fn kinds_of_exchanges_hold_for_all_groups() {
    assert_eq!(expected_of(&kinds("direct", "direct")), [0]);
    for kind in ["fanout", "headers"] {
        for (published, consumed) in [(kind, kind), ("direct", kind), (kind, "direct")] {
            assert_eq!(expected_of(&kinds(published, consumed)), [1], "{published} {consumed}");
        }
    }
}

fn headers(exchange: &str, queue: &str) -> Destination {
    let mut destination = to(exchange, "k", queue);
    destination.amqp091.exchange = Some(Exchange::new(exchange, "headers"));
    destination
}

#[test]
fn no_ledger_is_kept_where_bindings_of_others_decide_by_headers() {
    let mut plan = plan(vec![headers("x", "q")], vec![headers("x", "q")]);
    for (declare, is_known) in [(Declare::Always, true), (Declare::IfMissing, true), (Declare::Never, false)] {
        for group in &mut plan.groups {
            group.queues.declare = declare;
        }
        let assignment = assigned_together(&plan);
        assert_eq!(assignment.knows_expected, is_known, "{declare:?}");
        assert_eq!(assignment.ledger_layout.is_ok(), is_known, "{declare:?}");
    }
}

#[test]
fn bindings_are_those_of_others_where_no_group_makes_them() {
    let is_known = |plan: &Plan| assigned_together(plan).knows_expected;
    // The consumers' group declares its queues and is not to bind them.
    let mut unbound = plan(vec![headers("x", "q")], vec![headers("x", "q")]);
    unbound.groups[0].queues.declare = Declare::Never;
    unbound.groups[1].destinations[0].amqp091.bind = false;
    assert!(!is_known(&unbound));
    // The producers' group binds them.
    let mut bound = plan(vec![headers("x", "q")], vec![headers("x", "q")]);
    bound.groups[1].queues.declare = Declare::Never;
    assert!(is_known(&bound));
    bound.groups[0].destinations[0].name = "p".into();
    assert!(!is_known(&bound), "another queue");
    // Another group consumes from a queue that it has not declared.
    let mut beside = plan(vec![headers("x", "q")], vec![headers("x", "q")]);
    let mut other = beside.groups[1].clone();
    other.destinations = vec![Destination::queue("r")];
    other.queues.declare = Declare::Never;
    beside.groups.push(other);
    assert!(is_known(&beside));
    beside.groups[2].destinations = vec![headers("y", "r")];
    assert!(is_known(&beside), "nobody publishes there");
    beside.groups[2].destinations = vec![headers("x", "r")];
    assert!(!is_known(&beside));
}

#[test]
fn what_a_selector_leaves_out_is_neither_lost_nor_awaited() {
    let mut plan = plan(vec![Destination::queue("q")], vec![Destination::queue("q")]);
    plan.groups[1].consumers.selector = Some("a = 1".to_owned());
    let assignment = assigned_together(&plan);
    assert!(!assignment.knows_expected && assignment.recipients.iter().all(|it| it.queue.is_none()));
    let reason = assignment.ledger_layout.expect_err("no ledger").expect("a reason");
    testkit::assert_has(reason, ["which messages a selector leaves out"]);
    plan.groups[1].consumers.per_destination = 0;
    assert!(!plan.has_selectors(), "nobody selects");
}

#[test]
fn no_ledger_is_kept_where_a_plugin_decides_who_gets_what() {
    let reason = |published: &str, consumed: &str| {
        let assignment = assigned_together(&kinds(published, consumed));
        let reason = assignment.ledger_layout.err().flatten();
        assert_eq!(assignment.knows_expected, reason.is_none());
        reason
    };
    for kind in ["direct", "fanout", "topic", "headers"] {
        assert_eq!(reason(kind, kind), None, "{kind}");
    }
    for kind in ["x-consistent-hash", "x-random", "x-local-random"] {
        for published in [kind, "direct"] {
            testkit::assert_has(reason(published, kind).expect("a reason"), [kind]);
        }
    }
    // Nobody publishes there.
    let mut plan = plan(vec![Destination::queue("q")], vec![to("x", "b", "q")]);
    plan.groups[1].destinations[0].amqp091.exchange = Some(Exchange::new("x", "x-random"));
    assert!(assigned_together(&plan).knows_expected);
}
