//! The ledger of whole loads against the embedded broker.

use std::thread;
use std::time::Duration;

use load::{Ack, Group, Outcome, Plan};
use measure::ledger::LedgerSummary;

use crate::common::{self, embedded};

fn group(broker: &broker::Running, destinations: &[&str], clients: (usize, usize)) -> Group {
    let mut group = common::group_to(broker, destinations, clients);
    group.producers.max_pending = 300;
    group.producers.sizes = 40.into();
    group.consumers.ack = Ack::Every(20);
    group
}

fn run(group: Group, threads: usize) -> Outcome {
    let phases = common::phases(200, 800, 10_000);
    common::run(&Plan { groups: vec![group], threads, run_id: 77, phases, ..Plan::default() })
}

/// All was sent once, and arrived in order.
fn in_order(sent: u64) -> LedgerSummary {
    LedgerSummary { sent, delivered: sent, exact: true, ..LedgerSummary::default() }
}

/// Queues and a topic in one load; each alone is in `proof`.
#[test]
fn a_clean_load_loses_repeats_and_reorders_nothing() {
    let broker = embedded();
    let mut group = group(&broker, &["queue://a", "queue://b", "topic://c"], (2, 1));
    group.producers.sizes = 12.into();
    group.producers.arrivals = common::rate(8_000.0);
    let outcome = run(group, 2);
    assert!(outcome.totals.sent > 1_000, "{outcome:?}");
    assert_eq!(outcome.ledger, Some(in_order(outcome.totals.sent)));
}

/// Another program's consumer of a queue, half a second into the load: it takes this many messages and
/// gives back what else it was sent.
fn passing_consumer(mut group: Group, takes: u64) -> thread::JoinHandle<Outcome> {
    group.producers.per_destination = 0;
    group.consumers.per_destination = 1;
    group.consumers.prefetch = 200;
    group.consumers.ack = Ack::Every(1);
    group.consumers.message_count = Some(takes);
    group.reconnect = None;
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        run(group, 1)
    })
}

#[test]
fn what_a_closing_consumer_gives_back_is_neither_repeated_nor_reordered() {
    let broker = embedded();
    let mut group = group(&broker, &["queue://given-back"], (2, 2));
    group.producers.arrivals = common::rate(8_000.0);
    let other = passing_consumer(group.clone(), 50);
    let outcome = run(group, 2);
    let taken = other.join().expect("the other").totals.received;
    assert_eq!(taken, 50);
    assert!(outcome.totals.redelivered > 0, "{outcome:?}");
    let sent = outcome.totals.sent;
    let expected = LedgerSummary { delivered: sent - taken, lost: taken, ..in_order(sent) };
    assert_eq!(outcome.ledger, Some(expected));
}

#[test]
fn what_the_broker_returns_is_not_lost() {
    let broker = embedded();
    let mut group = group(&broker, &["queue://goes-away"], (2, 1));
    group.producers.arrivals = common::rate(4_000.0);
    group.producers.amqp091.mandatory = true;
    group.reconnect = common::reconnect(100);
    // Deletes the queue, which the load's own consumer declares again when it is back.
    let mut deleting = group.clone();
    deleting.queues.delete = true;
    let other = passing_consumer(deleting, 1);
    let outcome = run(group, 1);
    other.join().expect("the other");
    let ledger = outcome.ledger.expect("ledger");
    assert!(ledger.returned > 0, "{outcome:?}");
    assert_eq!(ledger.returned, outcome.totals.returned, "{outcome:?}");
    let fates = ledger.delivered + ledger.lost + ledger.returned;
    assert_eq!(ledger.sent, fates + ledger.unconfirmed_missing);
    assert!(ledger.lost < ledger.returned, "{ledger:?}");
}

#[test]
fn a_queue_of_the_same_name_at_another_broker_is_another_queue() {
    let (here, there) = (embedded(), embedded());
    let mut nobody = group(&there, &["queue://twice"], (1, 0));
    let mut group = group(&here, &["queue://twice"], (1, 1));
    nobody.producers.arrivals = common::rate(1_000.0);
    group.producers.arrivals = common::rate(2_000.0);
    let phases = common::phases(0, 500, 10_000);
    let outcome = common::run(&Plan { groups: vec![nobody, group], run_id: 78, phases, ..Plan::default() });
    let received = outcome.totals.received;
    assert!(received < outcome.totals.sent, "{outcome:?}");
    assert_eq!(outcome.ledger, Some(in_order(received)));
}
