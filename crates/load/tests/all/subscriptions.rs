//! Topics with named queues behind them, against the embedded broker.

use load::{Control, Destination, Group, Outcome, Plan, RunEvent, Sink, Subscription};
use measure::Interval;
use measure::ledger::LedgerSummary;

use crate::common::{self, embedded};

struct Deaf;

impl Sink for Deaf {
    fn interval(&mut self, _: &Interval) {}
    fn event(&mut self, event: RunEvent) {
        assert!(!matches!(event, RunEvent::Note(_)), "{event:?}");
    }
}

fn group(broker: &broker::Running, clients: (usize, usize)) -> Group {
    let url = format!("amqp://{}", broker.local_addr());
    let topics = vec![Destination::topic("news"), Destination::topic("sports")];
    let mut group = Group::new(url.parse().expect("url"), topics);
    (group.producers.per_destination, group.consumers.per_destination) = clients;
    group.producers.max_pending = 50;
    group.producers.sizes = load::Sizes::Fixed(40);
    group
}

fn run(group: Group) -> Result<Outcome, load::Error> {
    let plan =
        Plan { groups: vec![group], threads: 2, run_id: 77, phases: common::phases(0, 300, 10_000), ..Plan::default() };
    load::run(&plan, &Control::new(), &mut Deaf)
}

/// Messages to nobody come back.
fn assert_nobody_subscribes(broker: &broker::Running) {
    let mut group = group(broker, (1, 0));
    group.producers.amqp091.mandatory = true;
    group.producers.message_count = Some(10);
    let outcome = run(group).expect("the load starts");
    assert_eq!((outcome.totals.sent, outcome.totals.returned), (10, 10));
}

#[test]
fn every_subscription_gets_every_message_once_and_is_gone_afterwards() {
    let broker = embedded();
    // Shared subscriptions, consumers, and how many get a message.
    for (durable, shared, consumers, copies) in [(true, 0, 2, 2), (true, 3, 2, 3), (false, 1, 4, 1)] {
        let mut group = group(&broker, (2, consumers));
        group.consumers.subscription = Some(Subscription { name: "me".into(), durable, shared });
        assert_eq!(group.consumer_count(), 2 * consumers * shared.max(1));
        let outcome = run(group).expect("the load starts");
        let sent = outcome.totals.sent;
        assert!(sent > 100, "{outcome:?}");
        assert_eq!(outcome.totals.received, sent * copies);
        let expected =
            LedgerSummary { sent: sent * copies, delivered: sent * copies, exact: true, ..LedgerSummary::default() };
        assert_eq!(outcome.ledger, Some(expected));
        assert_nobody_subscribes(&broker);
    }
}

#[test]
fn subscriptions_of_a_load_that_cannot_start_are_gone_too() {
    let broker = embedded();
    let mut group = group(&broker, (1, 1));
    group.consumers.subscription = Some(Subscription { name: "me".into(), durable: true, shared: 0 });
    group.destinations.push(Destination::topic("x".repeat(252)));
    assert!(run(group.clone()).is_err_and(|e| e.is_usage()), "the name is too long");
    // The broker closes the channel for an unknown argument's value.
    group.destinations.pop();
    let wrong = load::Argument::Text("no number".into());
    group.consumers.amqp091.arguments = [("x-priority".into(), wrong)].into();
    let error = run(group).expect_err("the broker refuses the consumers");
    assert!(!error.is_usage(), "{error}");
    assert_nobody_subscribes(&broker);
}
