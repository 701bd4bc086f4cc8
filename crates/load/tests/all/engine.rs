//! Whole loads against the embedded broker in virtual time.

use std::net::SocketAddr;

use load::{Ack, Destination, Group, Guarantee, Outcome, Plan};
use measure::Phase;

use crate::common;
use crate::world::{InMemory, Told};

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
