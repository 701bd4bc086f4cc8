//! Ways to publish and consume beyond the usual, against the embedded broker. Transactions need a
//! real one: `crates/bellows/tests/all/workloads.rs`.

use load::{
    Ack, Control, Declare, Exchange, Group, Guarantee, Outcome, Plan, RandomKeys, Refusal, RunEvent, Sink,
    StopCondition,
};
use measure::{Interval, Nanos, Slice};
use wire::amqp091::{BasicConsume, BasicQos};

use crate::common::{self, Deaf, embedded, run};

/// Takes a node away when the load is at work.
struct TakesAway(testkit::Proxy);

impl Sink for TakesAway {
    fn interval(&mut self, _: &Interval) {}

    fn slice(&mut self, slice: &Slice) {
        if slice.counters.sent > 0 {
            self.0.keep_away(true);
            self.0.cut(std::time::Duration::ZERO);
        }
    }

    fn event(&mut self, _: RunEvent) {}
}

fn group(broker: &broker::Running, destinations: &[&str]) -> Group {
    let mut group = common::group_to(broker, destinations, (1, 1));
    group.producers.max_pending = 100;
    group.producers.sizes = 64.into();
    group.producers.message_count = Some(1_000);
    group
}

fn plan(group: Group) -> Plan {
    Plan { groups: vec![group], phases: common::phases(0, 0, 30_000), ..Plan::default() }
}

fn refused(plan: &Plan) -> String {
    load::run(plan, &Control::new(), &mut Deaf).expect_err("refused").to_string()
}

fn filled(broker: &broker::Running, queue: &str) {
    let mut group = group(broker, &[queue]);
    group.consumers.per_destination = 0;
    group.producers.message_count = Some(50);
    run(&plan(group));
}

fn still_filled(broker: &broker::Running, queue: &str) {
    let mut group = group(broker, &[queue]);
    group.producers.per_destination = 0;
    group.consumers.message_count = Some(50);
    assert_eq!(run(&plan(group)).totals.received, 50);
}

/// Another client that consumes from a queue.
fn subscribed(broker: &broker::Running, consume: &BasicConsume<'_>) -> raw::Connection {
    let mut other = raw::Connection::open(broker.local_addr());
    other.ask(&BasicQos { prefetch_count: 1, ..BasicQos::default() }, "BasicQosOk");
    other.ask(consume, "BasicConsumeOk");
    other
}

/// All was sent, confirmed and received once, and in order.
fn clean(outcome: &Outcome, messages: u64) {
    let totals = &outcome.totals;
    assert_eq!((totals.sent, totals.completed, totals.received), (messages, messages, messages), "{outcome:?}");
    let ledger = outcome.ledger.as_ref().expect("a ledger");
    let wrong = ledger.lost + ledger.duplicated + ledger.reordered + ledger.corrupt;
    assert_eq!(wrong, 0, "{ledger:?}");
}

#[test]
fn an_exchange_is_declared_and_bound() {
    let broker = embedded();
    let mut group = group(&broker, &["queue://bound"]);
    group.producers.amqp091.mandatory = true;
    for destination in &mut group.destinations {
        destination.amqp091.exchange = Some(Exchange::new("orders", "direct"));
        destination.amqp091.routing_key = Some("new".into());
    }
    clean(&run(&plan(group.clone())), 1_000);
    // Taken as they are, although they exist with other properties.
    for destination in &mut group.destinations {
        destination.amqp091.auto_delete = true;
        destination.amqp091.exchange = Some(Exchange::new("orders", "fanout"));
    }
    group.queues.declare = Declare::IfMissing;
    clean(&run(&plan(group.clone())), 1_000);
    group.queues.declare = Declare::Always;
    testkit::assert_has(refused(&plan(group)), ["exchange"]);
}

#[test]
fn random_routing_keys_reach_a_fanout_exchange_and_miss_a_direct_one() {
    let broker = embedded();
    let mut group = group(&broker, &["queue://keys"]);
    group.producers.random_keys = Some(RandomKeys { different: 0 });
    group.producers.amqp091.mandatory = true;
    for destination in &mut group.destinations {
        destination.amqp091.exchange = Some(Exchange::new("all", "fanout"));
    }
    clean(&run(&plan(group.clone())), 1_000);
    for destination in &mut group.destinations {
        destination.amqp091.exchange = Some(Exchange::new("some", "direct"));
    }
    let mut plan = plan(group);
    plan.ledger = false;
    plan.phases.drain = Nanos::from_millis(200);
    assert_eq!(run(&plan).totals.returned, 1_000);
}

/// Refused messages go to the back of the queue, and come while others are still sent.
#[test]
fn refused_messages_that_go_back_come_again() {
    let broker = embedded();
    let mut group = group(&broker, &["queue://refused"]);
    group.producers.message_count = Some(100);
    group.consumers.refuse = Some(Refusal::Requeue);
    group.producers.arrivals = common::rate(500.0);
    let mut plan = plan(group);
    plan.phases.drain = Nanos::from_millis(300);
    let outcome = run(&plan);
    assert!(outcome.totals.redelivered > 100, "{:?}", outcome.totals);
    assert_eq!(outcome.ledger.expect("a ledger").lost, 0);
}

#[test]
fn a_broker_without_direct_replies_is_named_as_the_cause() {
    let broker = embedded();
    let mut group = group(&broker, &["queue://requests"]);
    group.producers.guarantee = Guarantee::Replies;
    let error = load::run(&plan(group), &Control::new(), &mut Deaf).expect_err("no replies");
    testkit::assert_has(error.problem().help, ["no direct reply-to"]);
}

#[test]
fn exclusive_queues_are_their_consumers() {
    let broker = embedded();
    for (consumers, connections) in [(1, None), (4, None), (5, Some(1))] {
        let mut group = group(&broker, &["queue://mine", "queue://mine-too"]);
        for queue in &mut group.destinations {
            queue.exclusive = true;
            queue.amqp091.exchange = Some(Exchange::new("shared", "direct"));
        }
        group.consumers.total = Some(consumers);
        group.consumers.connections = connections;
        group.producers.total = Some(1);
        group.producers.message_count = Some(100);
        // The producer sends to the first, and the queues are gone each time.
        clean(&run(&plan(group.clone())), 100);
        group.consumers.total = Some(5);
        group.consumers.connections = Some(3);
        let error = load::validate(&plan(group)).expect_err("one connection each");
        assert!(error.to_string().contains("3 connections"), "{error}");
    }
}

/// The first node goes while the queues are looked into; the next one answers as well.
#[test]
fn empty_queues_are_found_where_the_first_node_is_gone() {
    let broker = embedded();
    let proxy = testkit::Proxy::new(broker.local_addr()).expect("proxy");
    let mut group = group(&broker, &["queue://next-node"]);
    let url = format!("amqp://{}", proxy.address());
    let second = std::mem::replace(&mut group.endpoint, url.parse().expect("url"));
    group.further = vec![second];
    group.producers.message_count = Some(100);
    group.producers.arrivals = common::rate(200.0);
    group.reconnect = common::reconnect(5);
    let mut plan = plan(group);
    plan.stop = Some(StopCondition::Empty);
    // A run that does not find them empty ends here.
    plan.phases.measure = Some(Nanos::from_millis(20_000));
    let began = std::time::Instant::now();
    let outcome = load::run(&plan, &Control::new(), &mut TakesAway(proxy)).expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_eq!(outcome.totals.sent, 100, "{outcome:?}");
    assert!(began.elapsed().as_secs() < 12, "{:?}", began.elapsed());
}

#[test]
fn queues_behind_topics_are_looked_into_as_well() {
    let broker = embedded();
    for durable in [true, false] {
        let mut group = group(&broker, &["topic://behind"]);
        group.consumers.subscription = Some(load::Subscription { name: "subscribed".into(), durable, shared: 1 });
        // For over a second at a time nothing is delivered, while messages wait.
        group.producers.message_count = Some(2);
        group.consumers.prefetch = 1;
        group.consumers.service = common::work(Nanos::from_millis(1_300));
        let mut plan = plan(group);
        plan.stop = Some(StopCondition::Empty);
        plan.phases.drain = Nanos::from_millis(100);
        assert_eq!(run(&plan).totals.received, 2, "{durable}");
    }
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    let broker = embedded();
    let refused = |change: &dyn Fn(&mut Group), part: &str| {
        let mut group = group(&broker, &["topic://t"]);
        change(&mut group);
        testkit::assert_has(load::validate(&plan(group)).expect_err(part).to_string(), [part]);
    };
    refused(&|g| g.producers.connections = Some(0), "0 connections");
    refused(&|g| g.consumers.connections = Some(0), "0 connections");
    refused(
        &|g| {
            g.consumers.ack = Ack::Auto;
            g.consumers.commit_every = 5;
        },
        "committed",
    );
    refused(&|g| g.destinations[0].amqp091.exchange = Some(Exchange::new("", "direct")), "default exchange");
    refused(&|g| g.destinations[0].amqp091.routing_key = Some("k".repeat(256)), "routing key");
    refused(&|g| g.producers.properties.app_id = Some("x".repeat(256)), "properties");
}

#[test]
fn a_load_that_is_refused_empties_nothing() {
    let broker = embedded();
    filled(&broker, "queue://orders");
    let purging = |queue| {
        let mut group = group(&broker, &[queue]);
        group.queues.purge = true;
        group.queues.declare = Declare::Never;
        group
    };
    let mut purged = plan(purging("queue://orders"));
    purged.groups.push(purging("queue://missing"));
    testkit::assert_has(refused(&purged), ["cannot empty queue \"missing\""]);
    still_filled(&broker, "queue://orders");
}

#[path = "../../../broker/src/tests/peer.rs"]
#[allow(dead_code, reason = "every test file uses a part of it")]
mod raw;

/// The broker refuses the subscription, which comes after the queues are emptied.
#[test]
fn a_load_that_may_not_consume_empties_nothing() {
    let broker = embedded();
    let queues = ["queue://first", "queue://taken"];
    for queue in queues {
        filled(&broker, queue);
    }
    let other = subscribed(&broker, &BasicConsume { queue: "taken", exclusive: true, ..BasicConsume::default() });
    let mut purging = group(&broker, &queues);
    purging.queues.purge = true;
    testkit::assert_has(refused(&plan(purging)), ["cannot consume from \"taken\"", "exclusive"]);
    drop(other);
    for queue in queues {
        still_filled(&broker, queue);
    }
}

#[test]
fn a_queue_that_others_consume_from_is_emptied() {
    let broker = embedded();
    filled(&broker, "queue://shared");
    let _other = subscribed(&broker, &BasicConsume { queue: "shared", ..BasicConsume::default() });
    let mut purging = group(&broker, &["queue://shared"]);
    purging.queues.purge = true;
    let ledger = run(&plan(purging)).ledger.expect("a ledger");
    assert!(ledger.foreign <= 1, "{ledger:?}");
}
