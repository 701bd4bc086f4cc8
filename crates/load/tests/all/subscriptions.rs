//! Topics with named queues behind them, against the embedded broker.

use std::io::{Read as _, Write as _};

use load::{Control, Destination, Error, Group, Outcome, Plan, RunEvent, Subscription};
use measure::ledger::LedgerSummary;

use crate::common::{self, Kept, embedded};

fn group(broker: &broker::Running, clients: (usize, usize)) -> Group {
    let mut group = common::group_to(broker, &["topic://news", "topic://sports"], clients);
    group.producers.max_pending = 50;
    group.producers.sizes = 40.into();
    group
}

/// Runs a load that nothing is noted of.
fn run(group: Group) -> Result<Outcome, Error> {
    let phases = common::phases(0, 300, 10_000);
    let plan = Plan { groups: vec![group], threads: 2, run_id: 77, phases, ..Plan::default() };
    let mut kept = Kept::default();
    let outcome = load::run(&plan, &Control::new(), &mut kept);
    assert!(!kept.events.iter().any(|it| matches!(it, RunEvent::Note(_))), "{:?}", kept.events);
    outcome
}

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
fn subscriptions_that_were_never_made_are_not_left_behind() {
    let here = common::serve(|_, mut stream| {
        // The client may have left.
        let _ = stream.read_exact(&mut [0; 8]).and_then(|()| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    });
    let mut group = common::group(here, Destination::topic("news"), (1, 1));
    group.consumers.subscription = Some(Subscription { name: "me".into(), durable: true, shared: 0 });
    let error = run(group).expect_err("it is no broker");
    assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
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
