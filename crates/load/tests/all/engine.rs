//! Whole loads against the embedded broker in virtual time; peers that are no brokers, on sockets.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use load::{Ack, Control, Destination, Group, Guarantee, Outcome, Plan};
use measure::{Nanos, Phase};

use crate::common::{self, Deaf};
use crate::world::{InMemory, Pace, Told, World};

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

/// Runs a load of a queue in memory.
fn run_with(warmup_ms: u64, measure_ms: u64, set: impl FnOnce(&mut Group)) -> (Outcome, Told) {
    let broker = InMemory::new(broker::Config::default());
    let mut group = group(broker.local_addr(), Destination::queue("q"));
    set(&mut group);
    broker.world.run_to_end(&plan(group, warmup_ms, measure_ms), |_, _| ())
}

#[test]
fn intervals_are_cut_where_phases_meet() {
    let (outcome, told) = run_with(300, 1_200, |group| group.producers.arrivals = common::rate(1_000.0));
    let measured = outcome.phases.iter().find(|p| p.phase == Phase::Measure).expect("measured");
    let length = measured.end.since(measured.start);
    assert!(length.0.abs_diff(1_200_000_000) < 1_000_000, "{length}");
    for (phase, start, end, _) in &told.intervals {
        let span = outcome.phases.iter().find(|p| p.phase == *phase).expect("a known phase");
        assert!(span.start <= *start && *end <= span.end.max(*start), "{:?}", told.intervals);
    }
    let measure: Vec<_> = told.intervals.iter().filter(|it| it.0 == Phase::Measure).collect();
    assert_eq!(measure.first().map(|it| it.1), Some(measured.start));
    assert_eq!(measure.last().map(|it| it.2), Some(measured.end));
    assert!(measure.windows(2).all(|pair| pair[0].2 == pair[1].1), "{measure:?}");
}

#[test]
fn a_message_count_ends_the_load_and_only_confirms_complete_messages() {
    for (guarantee, count, completed) in [(Guarantee::Confirms, 5_000, 5_000), (Guarantee::Unconfirmed, 20_000, 0)] {
        let (outcome, _) = run_with(0, 0, |group| {
            group.producers.guarantee = guarantee;
            group.producers.message_count = Some(count);
        });
        let totals = outcome.totals;
        assert_eq!((totals.sent, totals.completed, totals.received), (count, completed, count), "{guarantee:?}");
    }
}

#[test]
fn stopping_ends_in_order_with_nothing_under_way() {
    let world = World::new(1, Pace::default());
    let plan = plan(group(world.broker(broker::Config::default()), Destination::queue("stopped")), 0, 60_000);
    let (control, begin) = (Control::new(), world.time());
    let stopper = control.clone();
    let (outcome, _) = world.run_until(&plan, &control, |world, start| {
        world.at(start + Nanos::from_millis(50), move |_| stopper.stop());
    });
    let (outcome, took) = (outcome.expect("the load starts"), world.time().since(begin));
    assert!(took < Nanos::from_millis(3_000), "{took:?}");
    assert!(outcome.interrupted && outcome.error.is_none(), "{outcome:?}");
    assert!(outcome.totals.sent > 100, "{outcome:?}");
    assert_eq!(outcome.totals.received, outcome.totals.sent);
}

/// A server that answers each connection with the same bytes, then says nothing more.
fn scripted(answer: &'static [u8]) -> SocketAddr {
    let mut open = Vec::new();
    common::serve(move |_, mut stream| {
        let _ = stream.read(&mut [0; 8]);
        let _ = stream.write_all(answer);
        open.push(stream);
    })
}

#[test]
fn silent_half_spoken_and_foreign_servers_end_in_time_with_one_line() {
    for answer in [&b""[..], &b"\x01\x00\x00\x00\x00\x01"[..], &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]] {
        let group = common::group(scripted(answer), Destination::queue("q"), (1, 0));
        let plan = Plan { timeout: Nanos::from_millis(500), ..plan(group, 0, 1_000) };
        let start = Instant::now();
        let error = load::run(&plan, &Control::new(), &mut Deaf).expect_err("no broker there");
        let (text, took) = (error.to_string(), start.elapsed());
        assert!(took < Duration::from_secs(8), "{took:?}: {text}");
        assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
        assert!(!error.problem().help.is_empty(), "{text}");
    }
}
