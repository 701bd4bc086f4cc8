//! Churn against the embedded broker.

use crate::common;

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use common::{Heard, Tally, metric};
use load::scenario::Scenario as _;
use load::scenario::churn::{ChurnKind, ChurnPlan};
use load::{ArrivalSchedule, Control, Endpoint, Error, Outcome, Protocol, StartBarrier};
use measure::{Nanos, Phase, Rate};

fn plan(broker: SocketAddr, kind: ChurnKind, rate: Option<f64>) -> ChurnPlan {
    ChurnPlan {
        schedule: rate.and_then(Rate::per_second).map(ArrivalSchedule::constant),
        warmup: Nanos::from_millis(200),
        messages: 3,
        most_open: 50,
        ..common::churn(Endpoint::new("127.0.0.1", broker.port()), kind, 1_000)
    }
}

fn churned(plan: &ChurnPlan) -> (Heard, Tally, Outcome) {
    let mut heard = Heard::default();
    let (tally, outcome) = common::churned(plan, &mut heard).expect("it starts");
    (heard, tally, outcome)
}

#[test]
fn every_kind_keeps_its_rate_and_ends_every_cycle() {
    let broker = common::embedded();
    let address = broker.local_addr();
    let (older, newer) = (Protocol::Amqp091, Protocol::Amqp10);
    let all: [(Protocol, ChurnKind, &[&str]); 6] = [
        (older, ChurnKind::Connections, &["connect", "log_in", "open_channel", "close"]),
        (older, ChurnKind::Channels, &["open_channel", "close_channel"]),
        (older, ChurnKind::Queues, &["declare", "delete"]),
        (newer, ChurnKind::Connections, &["connect", "log_in", "close"]),
        (newer, ChurnKind::Sessions, &["begin_session", "end_session"]),
        (newer, ChurnKind::Links, &["attach", "detach"]),
    ];
    for (protocol, kind, steps) in all {
        let plan = plan(address, kind, Some(200.0));
        let messages = if protocol == newer { 0 } else { plan.messages };
        let (heard, tally, outcome) = churned(&ChurnPlan { protocol, messages, ..plan });
        assert_eq!(outcome.error, None, "{kind:?}");
        let counts = tally.counts(["begun", "completed", "not_begun", "failed"]);
        assert_eq!(counts, [200, 200, 0, 0], "{kind:?}");
        assert_eq!(heard.phases, [Phase::Warmup, Phase::Measure, Phase::Drain]);
        // By the time at which they began: on a busy machine some of the warm-up's begin late.
        let begun = heard.warmup.get(metric("begun")) + heard.counts.get(metric("begun"));
        assert_eq!(begun, 240, "{kind:?}");
        let whole = ["cycle", "open", "wait"];
        let taken: Vec<_> = heard.steps.filled().map(|(metric, _)| metric.key()).collect();
        assert_eq!(taken, [whole.as_slice(), steps].concat(), "{kind:?}");
        // Nothing of the warm-up, and every step of every cycle.
        assert!(heard.steps.filled().all(|(_, steps)| steps.len() == 200), "{kind:?}");
        // The parts add up to the whole: means are from bucket mid-points, three digits.
        let sum: u64 = [&["wait"], steps].concat().iter().map(|step| heard.step(step).mean_ns).sum();
        let cycle = heard.step("cycle").mean_ns;
        assert!(sum.abs_diff(cycle) * 50 < cycle, "{kind:?}: {sum} of {cycle}");
        assert!(outcome.threads.iter().all(|t| t.measured_time >= Nanos::from_millis(500)));
    }
}

/// The other scenario is ready first, and the start that all share is still to come.
#[test]
fn without_a_rate_one_cycle_follows_the_other_from_the_common_start_on() {
    let broker = common::embedded();
    let plan = plan(broker.local_addr(), ChurnKind::Channels, None);
    let plan = ChurnPlan { most_open: 4, warmup: Nanos::ZERO, measure: Nanos::from_millis(300), ..plan };
    let together = StartBarrier::of(2);
    together.ready();
    let mut heard = Heard::default();
    let outcome = plan.run(&together, &Control::new(), &mut heard).expect("it starts");
    let tally = Tally(outcome.tallies["churn"].clone());
    assert!(tally.count("completed") > 100, "{tally:?}");
    assert_eq!(heard.step("cycle").count, tally.count("completed"), "{tally:?}");
    assert_eq!(tally.count("begun"), tally.count("completed"), "the drain waits for all");
    assert_eq!(tally.count("under_way"), 4, "{tally:?}");
    assert!(heard.step("wait").p99_ns < 1_000_000, "nothing was due before");
    let by_time = ["begun", "completed"].map(|key| heard.counts.get(metric(key)));
    assert_eq!(by_time, tally.counts(["begun", "completed"]), "{tally:?}");
}

/// The last cycle is due a nanosecond before the end: no loop is back in time for it.
#[test]
fn a_cycle_that_was_due_before_the_end_begins_where_there_is_room() {
    let broker = common::embedded();
    let plan = plan(broker.local_addr(), ChurnKind::Channels, Some(100.0));
    let (heard, tally, _) = churned(&ChurnPlan { warmup: Nanos::ZERO, measure: Nanos(100_000_001), ..plan });
    assert_eq!(tally.counts(["begun", "completed", "not_begun"]), [11, 11, 0], "{tally:?}");
    assert_eq!(heard.step("cycle").count, 11, "{tally:?}");
}

#[test]
fn latency_counts_from_the_time_that_a_cycle_was_due() {
    let broker = common::embedded();
    let plan = plan(broker.local_addr(), ChurnKind::Connections, Some(500_000.0));
    let plan = ChurnPlan { most_open: 1, warmup: Nanos::ZERO, measure: Nanos::from_millis(600), ..plan };
    let (mut heard, tally, outcome) = churned(&plan);
    assert!(tally.count("late") * 10 > tally.count("begun") * 9, "{tally:?}");
    // Every cycle that was due is accounted for.
    assert_eq!(tally.count("begun") + tally.count("not_begun"), 300_000, "{tally:?}");
    assert_eq!(tally.count("begun"), tally.count("completed") + tally.count("failed"));
    // The last one to begin was due almost at the beginning.
    let floor = plan.measure.0 - plan.measure.0 / 4;
    assert!(heard.step("open").max_ns > floor, "{tally:?}");
    // What never began counts with its wait, too.
    let censored = outcome.censored.expect("what has no end");
    heard.steps.add_due(Phase::Measure, censored.interval.histograms()).expect("one shape");
    let ended = tally.count("completed") + tally.count("not_begun");
    for step in ["cycle", "open", "wait"] {
        let failed = heard.step(step).count - ended;
        assert!(failed <= tally.count("failed"), "{step}: {tally:?}");
    }
    assert!(heard.step("wait").max_ns > floor, "{tally:?}");
    assert!(heard.step("log_in").p50_ns < floor / 10, "the broker itself is fast");
}

#[test]
fn what_cannot_start_says_why_and_what_hangs_ends() {
    let (_nobody, address) = common::listener();
    let since = Instant::now();
    let nothing = plan(address, ChurnKind::Queues, None);
    let error = common::churned(&nothing, &mut Heard::default()).expect_err("nobody answers");
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(since.elapsed() < Duration::from_secs(10));

    let wrong = |change: &dyn Fn(&mut ChurnPlan)| {
        let mut plan = nothing.clone();
        change(&mut plan);
        let error = common::churned(&plan, &mut Heard::default()).expect_err("it cannot be");
        assert!(error.is_usage());
        error.problem().about.to_string()
    };
    assert_eq!(wrong(&|plan| plan.most_open = 0), "churn.max-open");
    assert_eq!(wrong(&|plan| plan.kind = ChurnKind::Links), "churn.kind");
    assert_eq!(wrong(&|plan| plan.protocol = Protocol::Amqp10), "churn.kind");
    let connections = |plan: &mut ChurnPlan| {
        (plan.protocol, plan.kind, plan.messages) = (Protocol::Amqp10, ChurnKind::Connections, 1);
    };
    assert_eq!(wrong(&connections), "churn.messages");
}

/// Stands before a broker: from the second connection on it resets every fifth one as soon as the
/// client has said which protocol it speaks.
fn resets_every_fifth(broker: SocketAddr) -> SocketAddr {
    common::serve(move |number, client| {
        if number % 5 == 1 {
            let mut header = [0; 8];
            (&client).read_exact(&mut header).expect("the protocol header");
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("linger");
        } else {
            common::pass_on(client, TcpStream::connect(broker).expect("the broker"));
        }
    })
}

#[test]
fn resets_in_the_handshake_are_counted_exactly() {
    let broker = common::embedded();
    let address = resets_every_fifth(broker.local_addr());
    let plan = ChurnPlan { warmup: Nanos::ZERO, ..plan(address, ChurnKind::Connections, Some(100.0)) };
    let (heard, tally, outcome) = churned(&plan);
    assert_eq!(outcome.error, None, "some came through");
    // The first connection only asks whether the broker is there.
    assert_eq!(tally.counts(["begun", "failed", "completed"]), [100, 20, 80], "{tally:?}");
    assert_eq!(tally.0.failures.values().sum::<u64>(), 20, "{tally:?}");
    assert_eq!(heard.counts.get(metric("failed")), 20);
    // A reset that comes at once may be all that the loop sees of a connection.
    assert!((80..=100).contains(&heard.step("connect").count));
    assert_eq!(["log_in", "cycle"].map(|step| heard.step(step).count), [80, 80]);
    assert_eq!(heard.notes.len(), tally.0.failures.len(), "{:?}", heard.notes);
}

#[test]
fn the_handshake_of_tls_is_a_step_of_its_own() {
    let authority = common::Authority::new("ca");
    let (_broker, address) = common::secured(authority.listener(&["127.0.0.1"], None));
    let mut plan = plan(address, ChurnKind::Connections, Some(50.0));
    plan.warmup = Nanos::ZERO;
    plan.endpoint.tls = Some(authority.trusted());
    let (heard, tally, _) = churned(&plan);
    assert_eq!(tally.counts(["begun", "completed"]), [50, 50], "{tally:?}");
    assert_eq!(["connect", "secure", "log_in", "close"].map(|step| heard.step(step).count), [50; 4]);
    assert!(heard.step("secure").p50_ns > 100_000, "it takes some arithmetic");
}
