//! A load that is stopped ends soon, also where its broker hangs, and deletes what it made.

use crate::common;

use std::thread;
use std::time::{Duration, Instant};

use common::embedded;
use load::{Control, Declare, Destination, Endpoint, Error, Exchange, Group, Outcome, Plan, RunEvent, Sink};
use measure::{Interval, Nanos, Phase, Rate};
use testkit::Proxy;

struct Heard<F> {
    act: F,
    events: Vec<RunEvent>,
}

impl<F: FnMut(&RunEvent)> Sink for Heard<F> {
    fn interval(&mut self, _: &Interval) {}

    fn event(&mut self, event: RunEvent) {
        (self.act)(&event);
        self.events.push(event);
    }
}

/// Runs a load; its outcome, its events, and how long it took.
fn run(
    plan: &Plan,
    control: &Control,
    act: impl FnMut(&RunEvent),
) -> (Result<Outcome, Error>, Vec<RunEvent>, Duration) {
    let began = Instant::now();
    let mut heard = Heard { act, events: Vec::new() };
    let outcome = load::run(plan, control, &mut heard);
    (outcome, heard.events, began.elapsed())
}

fn group(port: u16, queue: &str) -> Group {
    let mut group = Group::new(Endpoint::new("127.0.0.1", port), vec![Destination::queue(queue)]);
    group.producers.per_destination = 1;
    group.consumers.per_destination = 1;
    group.producers.sizes = 40.into();
    group.queues.delete = true;
    group
}

fn plan(groups: Vec<Group>) -> Plan {
    Plan { groups, phases: common::phases(0, 0, 30_000), ..Plan::default() }
}

fn few(port: u16, queue: &str, sends: bool, messages: u64) -> Result<Outcome, Error> {
    let mut group = group(port, queue);
    group.queues.delete = false;
    if sends {
        group.consumers.per_destination = 0;
        group.producers.message_count = Some(messages);
    } else {
        group.queues.declare = Declare::Never;
        group.producers.per_destination = 0;
        group.consumers.message_count = Some(messages);
    }
    run(&plan(vec![group]), &Control::new(), |_| {}).0
}

/// Calls `act` when the broker of the `n`-th group has answered, and before its queues are declared.
fn when_connected(n: usize, mut act: impl FnMut()) -> impl FnMut(&RunEvent) {
    let mut connected = 0;
    move |event| {
        if matches!(event, RunEvent::Connected { .. }) {
            connected += 1;
            if connected == n {
                act();
            }
        }
    }
}

#[test]
fn a_stop_before_the_load_begins_deletes_what_it_made_and_nothing_else() {
    let broker = embedded();
    let port = broker.local_addr().port();
    few(port, "kept", true, 50).expect("messages are sent");
    let groups = ["made", "kept", "last"].map(|queue| group(port, queue));
    let control = Control::new();
    let (outcome, ..) = run(&plan(groups.into()), &control, when_connected(3, || control.stop()));
    let outcome = outcome.expect("a stop is no error");
    assert!(outcome.interrupted && outcome.phases.is_empty());
    // Nor does one that is stopped before it connects.
    let stopped = run(&plan(vec![group(port, "kept")]), &control, |_| {}).0.expect("a plan");
    assert!(stopped.interrupted && stopped.phases.is_empty());
    testkit::assert_has(few(port, "made", false, 1).expect_err("the queue is gone").to_string(), ["\"made\""]);
    assert_eq!(few(port, "kept", false, 50).expect("what was there before stays").totals.received, 50);
}

#[test]
fn a_refused_load_deletes_what_it_made() {
    let broker = embedded();
    let port = broker.local_addr().port();
    let mut refused = group(port, "missing");
    refused.queues.declare = Declare::Never;
    let plan = plan(vec![group(port, "made"), refused]);
    let (outcome, ..) = run(&plan, &Control::new(), |_| {});
    outcome.expect_err("a queue is missing");
    few(port, "made", false, 1).expect_err("the queue is gone");
}

#[test]
fn an_exchange_is_deleted_where_its_queue_is_refused() {
    let broker = embedded();
    let port = broker.local_addr().port();
    few(port, "kept", true, 1).expect("a queue");
    let mut refused = group(port, "kept");
    refused.destinations[0].amqp091.durable = true;
    refused.destinations[0].amqp091.exchange = Some(Exchange { auto_delete: true, ..Exchange::new("made", "direct") });
    let mut later = refused.clone();
    let (outcome, ..) = run(&plan(vec![refused]), &Control::new(), |_| {});
    outcome.expect_err("the queue that is there is not durable");
    later.queues.declare = Declare::Never;
    later.producers.message_count = Some(1);
    let (outcome, ..) = run(&plan(vec![later]), &Control::new(), |_| {});
    let gone = outcome.expect("it begins").error;
    testkit::assert_has(gone.expect("the exchange is gone").to_string(), ["'made'"]);
}

#[test]
fn queues_that_a_stopped_load_cannot_delete_are_named() {
    let broker = embedded();
    let proxy = Proxy::new(broker.local_addr()).expect("a proxy");
    let port = proxy.address().port();
    let groups = ["made", "last"].map(|queue| group(port, queue));
    let control = Control::new();
    let (outcome, events, took) = run(
        &plan(groups.into()),
        &control,
        when_connected(2, || {
            proxy.hold(true);
            control.stop();
        }),
    );
    assert!(outcome.is_ok_and(|it| it.interrupted));
    assert!(took < Duration::from_secs(6), "{took:?}");
    let text = "queue \"made\" may be left behind: ";
    let is_told = |event: &RunEvent| matches!(event, RunEvent::Note(it) if it.starts_with(text));
    assert!(events.iter().any(is_told), "{events:?}");
}

/// A load whose broker hangs from 200 ms on, and that is stopped so long after a phase began.
fn hung(phase: Phase, later: Duration) -> (Outcome, Vec<RunEvent>, Duration) {
    let broker = embedded();
    let proxy = Proxy::new(broker.local_addr()).expect("a proxy");
    let mut group = group(proxy.address().port(), "hung");
    group.queues.delete = false;
    group.producers.max_pending = 1_000;
    group.producers.arrivals = Rate::per_second(1_000.0).expect("a rate").into();
    let mut plan = plan(vec![group]);
    let measured = match phase {
        Phase::Drain => 500,
        _ => 60_000,
    };
    plan.phases.measure = Some(Nanos::from_millis(measured));
    let control = Control::new();
    let mut stopped = Instant::now();
    let (outcome, events, took) = thread::scope(|scope| {
        let (proxy, control) = (&proxy, &control);
        let act = |event: &RunEvent| match event {
            RunEvent::Started { .. } => {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(200));
                    proxy.hold(true);
                });
            }
            RunEvent::PhaseStarted { phase: begun, .. } if *begun == phase => {
                scope.spawn(move || {
                    thread::sleep(later);
                    control.stop();
                });
                stopped = Instant::now() + later;
            }
            _ => {}
        };
        run(&plan, control, act)
    });
    let outcome = outcome.expect("the load began");
    // The load of one that is stopped in its drain had ended by itself.
    assert_eq!(outcome.interrupted, phase != Phase::Drain, "{outcome:?}");
    assert!(outcome.was_stopped(), "{outcome:?}");
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert!(took > later);
    (outcome, events, stopped.elapsed())
}

#[test]
fn a_stop_in_the_drain_leaves_a_broker_that_hangs_a_second() {
    let (outcome, events, took) = hung(Phase::Drain, Duration::from_millis(600));
    // Half a second for the drain, and half a second for the connections.
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert!(outcome.unconfirmed > 0, "{outcome:?}");
    let waits = events.iter().filter_map(|event| match event {
        RunEvent::Waiting { for_what, at_most } => Some((for_what.as_str(), *at_most)),
        _ => None,
    });
    let waits: Vec<_> = waits.collect();
    let half = Nanos::from_millis(500);
    let [(answers, first), (close, second)] = waits[..] else {
        panic!("{waits:?}");
    };
    assert!(answers.starts_with("answers to messages (") && first <= half, "{waits:?}");
    assert_eq!((close, second), ("the broker to close the connections", half));
}

#[test]
fn a_stop_of_a_load_whose_broker_hangs_does_not_wait_for_the_whole_drain() {
    let (outcome, _, took) = hung(Phase::Measure, Duration::from_millis(800));
    // Two seconds without an answer end the drain, whose limit is thirty.
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert!(outcome.unconfirmed > 0, "{outcome:?}");
}
