//! Churn against the embedded broker.

mod common;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use load::churn::{ChurnKind, ChurnOutcome, ChurnPlan, run};
use load::{Control, Endpoint, Error};
use measure::{Nanos, Rate};

fn plan(port: u16, kind: ChurnKind, rate: Option<f64>) -> ChurnPlan {
    ChurnPlan {
        endpoint: Endpoint::new("127.0.0.1", port),
        kind,
        rate: rate.and_then(Rate::per_second),
        warmup: Nanos::from_millis(200),
        measure: Nanos::from_millis(1_000),
        messages: 3,
        message_size: 100,
        most_open: 50,
        source_addresses: Vec::new(),
        patience: Nanos::from_millis(2_000),
    }
}

fn churned(plan: &ChurnPlan) -> ChurnOutcome {
    run(plan, &Control::new(), &mut |_| {}).expect("it starts")
}

#[test]
fn every_kind_keeps_its_rate_and_ends_every_cycle() {
    let broker = common::embedded();
    let port = broker.local_addr().port();
    for kind in [
        ChurnKind::Connections,
        ChurnKind::Channels,
        ChurnKind::Queues,
    ] {
        let outcome = churned(&plan(port, kind, Some(200.0)));
        assert!(outcome.first_failure.is_none(), "{kind:?}: {outcome:?}");
        assert_eq!((outcome.begun, outcome.completed), (200, 200), "{kind:?}");
        assert_eq!((outcome.open.count, outcome.cycle.count), (200, 200));
        assert!(outcome.cycle.max_ns >= outcome.open.max_ns, "{kind:?}");
        assert_eq!(outcome.not_begun, 0);
    }
}

#[test]
fn without_a_rate_one_cycle_follows_the_other() {
    let broker = common::embedded();
    let mut plan = plan(broker.local_addr().port(), ChurnKind::Channels, None);
    plan.most_open = 4;
    let outcome = churned(&plan);
    assert!(outcome.completed > 1_000, "{outcome:?}");
    assert!(outcome.begun - outcome.completed <= 4, "{outcome:?}");
}

/// Cycles wait for room, and the wait counts.
#[test]
fn latency_counts_from_the_time_that_a_cycle_was_due() {
    let broker = common::embedded();
    let mut plan = plan(
        broker.local_addr().port(),
        ChurnKind::Connections,
        Some(500_000.0),
    );
    plan.most_open = 1;
    plan.warmup = Nanos::ZERO;
    plan.measure = Nanos::from_millis(600);
    let outcome = churned(&plan);
    assert!(outcome.late * 10 > outcome.begun * 9, "{outcome:?}");
    assert!(outcome.not_begun > outcome.begun, "{outcome:?}");
    // The last one to begin was due almost at the beginning.
    let floor = plan.measure.0 - plan.measure.0 / 4;
    assert!(outcome.open.max_ns > floor, "{outcome:?}");
}

#[test]
fn what_cannot_start_says_why_and_what_hangs_ends() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = nobody.local_addr().expect("address").port();
    let since = Instant::now();
    let error = run(
        &plan(port, ChurnKind::Queues, None),
        &Control::new(),
        &mut |_| {},
    )
    .expect_err("nobody answers");
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(since.elapsed() < Duration::from_secs(10));

    let mut plan = plan(port, ChurnKind::Queues, None);
    plan.most_open = 0;
    let error = run(&plan, &Control::new(), &mut |_| {}).expect_err("no room");
    assert!(error.is_usage() && error.help().contains("--max-open"));
}
