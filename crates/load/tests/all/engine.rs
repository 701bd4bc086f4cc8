//! Whole loads against the embedded broker in virtual time; stops, and peers that misbehave, on sockets.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use load::{Ack, Control, Destination, Error, Group, Guarantee, Outcome, Plan};
use measure::{Metric, Nanos, Phase};

use crate::common::{self, Deaf, Kept, embedded};
use crate::world::InMemory;

fn group(broker: SocketAddr, destination: Destination) -> Group {
    let mut group = common::group(broker, destination, (1, 1));
    group.producers.max_pending = 200;
    group.producers.sizes = 32.into();
    group.consumers.prefetch = 200;
    group.consumers.ack = Ack::Every(50);
    group
}

fn plan(group: Group, warmup_ms: u64, measure_ms: u64) -> Plan {
    Plan { groups: vec![group], phases: common::phases(warmup_ms, measure_ms, 10_000), ..Plan::default() }
}

fn run(broker: &InMemory, plan: &Plan) -> (Outcome, Kept) {
    let mut kept = Kept::default();
    let outcome = broker.run(plan, &mut kept).expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    (outcome, kept)
}

/// Runs a load of a queue in memory.
fn run_with(warmup_ms: u64, measure_ms: u64, threads: usize, set: impl FnOnce(&mut Group)) -> (Outcome, Kept) {
    let broker = InMemory::new(broker::Config::default());
    let mut group = group(broker.local_addr(), Destination::queue("q"));
    set(&mut group);
    run(&broker, &Plan { threads, ..plan(group, warmup_ms, measure_ms) })
}

#[test]
fn all_out_nothing_is_lost_between_sender_broker_and_receiver() {
    let broker = InMemory::new(broker::Config::default());
    for (destination, size, ack) in [
        ("queue://whole", 32, Ack::Every(50)),
        ("queue://compact", 12, Ack::Auto),
        ("topic://news", 1024, Ack::Every(1)),
    ] {
        let mut group = group(broker.local_addr(), Destination::parse(destination).expect("destination"));
        group.producers.sizes = size.into();
        group.consumers.ack = ack;
        let (outcome, kept) = run(&broker, &plan(group, 20, 60));
        let totals = outcome.totals;
        assert!(totals.sent > 100, "{destination}: {totals:?}");
        assert_eq!(totals.completed, totals.sent, "{destination}");
        assert_eq!(totals.received, totals.sent, "{destination}");
        assert_eq!((totals.nacked, totals.redelivered, outcome.unconfirmed), (0, 0, 0));
        let measured = kept.measured;
        for metric in [Metric::ACK_RESPONSE, Metric::END_TO_END, Metric::TRANSFER] {
            assert!(measured.latencies.histogram(metric).len() > 50, "{destination}: {metric:?}");
        }
    }
}

#[test]
fn intervals_are_cut_where_phases_meet() {
    let (outcome, kept) = run_with(300, 1_200, 1, |group| group.producers.arrivals = common::rate(1_000.0));
    let measured = outcome.phases.iter().find(|p| p.phase == Phase::Measure).expect("measured");
    let length = measured.end.since(measured.start);
    assert!(length.0.abs_diff(1_200_000_000) < 1_000_000, "{length}");
    for (phase, start, end) in &kept.bounds {
        let span = outcome.phases.iter().find(|p| p.phase == *phase).expect("a known phase");
        assert!(span.start.0 <= *start && *end <= span.end.0.max(*start), "{:?}", kept.bounds);
    }
    let measure: Vec<_> = kept.bounds.iter().filter(|b| b.0 == Phase::Measure).collect();
    assert_eq!(measure.first().map(|b| b.1), Some(measured.start.0));
    assert_eq!(measure.last().map(|b| b.2), Some(measured.end.0));
    assert!(measure.windows(2).all(|pair| pair[0].2 == pair[1].1), "{measure:?}");
}

#[test]
fn a_rate_is_kept_over_producers_and_threads() {
    let (outcome, kept) = run_with(0, 2_000, 2, |group| {
        group.producers.per_destination = 3;
        group.producers.arrivals = common::rate(1_000.0);
    });
    let (totals, measured) = (outcome.totals, kept.measured);
    // The schedule gives exactly this many instants to the measured phase.
    assert!(totals.sent.abs_diff(2_000) <= 1, "{totals:?}");
    let sent = outcome.measured.sent;
    assert!(totals.sent.abs_diff(sent) <= 1, "{sent} of {totals:?}");
    assert_eq!(totals.received, totals.sent);
    assert_eq!(measured.latencies.histogram(Metric::SEND_DELAY).len(), sent);
}

#[test]
fn a_rate_below_the_number_of_producers_works() {
    let (outcome, _) = run_with(0, 2_000, 1, |group| {
        group.producers.per_destination = 5;
        group.producers.arrivals = common::rate(2.0);
    });
    assert!((3..=5).contains(&outcome.totals.sent), "{:?}", outcome.totals);
}

#[test]
fn a_message_count_ends_the_load_and_only_confirms_complete_messages() {
    for (guarantee, count, completed) in [(Guarantee::Confirms, 5_000, 5_000), (Guarantee::Unconfirmed, 20_000, 0)] {
        let (outcome, _) = run_with(0, 0, 1, |group| {
            group.producers.guarantee = guarantee;
            group.producers.message_count = Some(count);
        });
        let totals = outcome.totals;
        assert_eq!((totals.sent, totals.completed, totals.received), (count, completed, count), "{guarantee:?}");
    }
}

#[test]
fn stopping_ends_in_order_with_nothing_under_way() {
    let broker = embedded();
    let plan = plan(group(broker.local_addr(), Destination::queue("stopped")), 0, 60_000);
    let control = Control::new();
    let stopper = control.clone();
    let handle = thread::spawn(move || {
        thread::sleep(Duration::from_millis(700));
        stopper.stop();
    });
    let start = Instant::now();
    let outcome = load::run(&plan, &control, &mut Deaf).expect("the load starts");
    handle.join().expect("stopper");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    assert!(outcome.interrupted && outcome.error.is_none(), "{outcome:?}");
    assert_eq!(outcome.totals.received, outcome.totals.sent);
}

/// A server that answers each connection with the same bytes, then says nothing more.
fn scripted(answer: &'static [u8]) -> SocketAddr {
    let (listener, address) = common::listener();
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 8]);
            let _ = stream.write_all(answer);
            open.push(stream);
        }
    });
    address
}

fn refused(answer: &'static [u8]) -> (Error, Duration) {
    let group = common::group(scripted(answer), Destination::queue("q"), (1, 0));
    let plan = Plan { timeout: Nanos::from_millis(500), ..plan(group, 0, 1_000) };
    let start = Instant::now();
    let error = load::run(&plan, &Control::new(), &mut Deaf);
    (error.expect_err("no broker there"), start.elapsed())
}

#[test]
fn silent_half_spoken_and_foreign_servers_end_in_time_with_one_line() {
    for answer in [&b""[..], &b"\x01\x00\x00\x00\x00\x01"[..], &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]] {
        let (error, took) = refused(answer);
        let text = error.to_string();
        assert!(took < Duration::from_secs(8), "{took:?}: {text}");
        assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
        assert!(!error.problem().help.is_empty(), "{text}");
    }
}

#[test]
fn a_broker_that_goes_away_leaves_what_was_counted() {
    let broker = embedded();
    let plan = plan(group(broker.local_addr(), Destination::queue("gone")), 0, 60_000);
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(800));
        drop(broker);
    });
    let outcome = load::run(&plan, &Control::new(), &mut Deaf).expect("the load starts");
    killer.join().expect("killer");
    assert!(outcome.error.is_some(), "{outcome:?}");
    assert!(outcome.totals.sent > 100 && outcome.totals.received > 0, "{outcome:?}");
}
