//! Schedules, think times and sizes in whole loads against the embedded broker, in virtual time.

use std::sync::Arc;

use load::{
    Ack, ArrivalProcess, ArrivalSchedule, Bodies, Destination, Distribution, Group, Guarantee, Outcome, Plan,
    RateProfile, SizeStep, Sizes, Spacing, StartDelay, Trace,
};
use measure::{Metric, Nanos, Phase, Rate, Time};

use crate::common;
use crate::world::{InMemory, Told};

fn embedded() -> InMemory {
    InMemory::new(broker::Config::default())
}

fn plan(broker: &InMemory, measure_ms: u64, change: impl FnOnce(&mut Group)) -> Plan {
    let mut group = common::group(broker.local_addr(), Destination::queue("schedules"), (1, 1));
    group.producers.max_pending = 1_000;
    group.producers.sizes = 32.into();
    group.consumers.ack = Ack::Every(50);
    change(&mut group);
    common::measured(group, measure_ms)
}

fn run(broker: &InMemory, plan: &Plan) -> (Outcome, Told) {
    let (outcome, told) = broker.world.run_to_end(plan, |_, _| ());
    let totals = outcome.totals;
    assert_eq!((totals.completed, totals.received), (totals.sent, totals.sent));
    (outcome, told)
}

/// Intervals of the measured phase.
fn measured(told: &Told) -> impl Iterator<Item = &(Phase, Time, Time, u64)> {
    told.intervals.iter().filter(|it| it.0 == Phase::Measure)
}

fn of(profile: RateProfile) -> ArrivalProcess {
    ArrivalProcess::Scheduled(ArrivalSchedule::new(profile, Spacing::Even, false))
}

#[test]
fn a_ramp_is_sent_as_it_was_asked_for() {
    let broker = embedded();
    let plan = plan(&broker, 3_000, |group| {
        group.producers.per_destination = 3;
        group.producers.arrivals = of(RateProfile::ramp(100.0, 1_900.0, Nanos::from_millis(3_000)));
    });
    let requested = plan.requested().expect("valid").expect("a schedule");
    let (outcome, told) = run(&broker, &plan);
    let all = requested.messages(Nanos::ZERO, Nanos::from_millis(3_000));
    assert!((all - 3_000.0).abs() < 1e-6, "{all}");
    assert!(outcome.totals.sent.abs_diff(3_000) <= 3, "{}", outcome.totals.sent);
    assert!(told.intervals.len() >= 3);
    for (_, from, to, sent) in measured(&told) {
        let asked = requested.messages(from.since(outcome.start), to.since(outcome.start));
        assert!((*sent as f64 - asked).abs() <= 4.0, "{sent} for {asked}");
    }
}

#[test]
fn a_trace_ends_the_run_and_has_its_own_sizes() {
    let broker = embedded();
    let text = "seconds,bytes\n0,12\n0.01,200000\n0.01,40\n0.2,12\n0.3,1000\n";
    let trace = Trace::parse(text.as_bytes(), "trace").expect("a trace");
    let shape = RateProfile::Trace { trace: Arc::new(trace), every: None };
    let plan = plan(&broker, 0, |group| {
        // More producers than messages: those without any end the run as well.
        group.producers.per_destination = 7;
        group.producers.arrivals = of(shape);
    });
    let (outcome, told) = run(&broker, &plan);
    assert_eq!(outcome.totals.sent, 5);
    let ledger = outcome.ledger.expect("a ledger");
    assert_eq!((ledger.lost, ledger.corrupt), (0, 0), "{ledger:?}");
    let (_, _, end, _) = measured(&told).last().expect("measured");
    let length = end.since(outcome.start);
    assert!((300..400).contains(&(length.0 / 1_000_000)), "{length:?}");
}

#[test]
fn a_message_waits_for_the_last_answer_and_the_think_time() {
    let broker = embedded();
    let plan = plan(&broker, 1_000, |group| {
        group.producers.per_destination = 4;
        group.producers.max_pending = 1;
        group.producers.arrivals = ArrivalProcess::ThinkTime(Nanos::from_millis(20));
    });
    assert!(plan.requested().expect("valid").is_none());
    let (outcome, told) = run(&broker, &plan);
    // 50 a second each at most, less what each answer took.
    let sent = outcome.totals.sent;
    assert!((4 * 48..=4 * 50).contains(&sent), "{sent}");
    assert_eq!(told.measured.latencies.histogram(Metric::SEND_DELAY).len(), sent);
}

#[test]
fn producers_begin_at_moments_of_their_own() {
    let broker = embedded();
    let plan = plan(&broker, 2_500, |group| {
        group.producers.per_destination = 20;
        group.producers.start_delay =
            Some(StartDelay { spread: Nanos::from_millis(2_000), seed: 4, ..StartDelay::default() });
        group.producers.arrivals = ArrivalProcess::Scheduled(ArrivalSchedule::new(
            RateProfile::Constant(Rate::per_second(50.0).expect("a rate")),
            Spacing::Even,
            true,
        ));
    });
    let requested = plan.requested().expect("valid").expect("a schedule");
    let (outcome, told) = run(&broker, &plan);
    let asked = requested.messages(Nanos::ZERO, Nanos::from_millis(2_500));
    // Without delays it would be 2,500.
    assert!((1_000.0..2_000.0).contains(&asked), "{asked}");
    let sent = outcome.totals.sent as f64;
    assert!((sent - asked).abs() <= 20.0, "{sent} for {asked}");
    let rates: Vec<u64> = measured(&told).map(|(.., sent)| *sent).collect();
    assert!(rates[0] < rates[1], "{rates:?}");
}

#[test]
fn files_are_sent_as_they_are() {
    let broker = embedded();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.json"), b"{}").expect("write");
    std::fs::write(folder.path().join("b.json"), vec![b'b'; 300_000]).expect("write");
    std::fs::write(folder.path().join("c"), b"").expect("write");
    let bodies = Arc::new(Bodies::read(&[folder.path()]).expect("bodies"));
    for ledger in [true, false] {
        let mut plan = plan(&broker, 0, |group| {
            group.producers.sizes = Sizes::Bodies(Arc::clone(&bodies));
            group.producers.message_count = Some(60);
            group.producers.max_pending = 10;
        });
        plan.ledger = ledger;
        let (outcome, told) = run(&broker, &plan);
        assert_eq!(outcome.totals.sent, 60);
        let seen = told.measured.latencies.histogram(Metric::END_TO_END).len();
        assert_eq!(seen, 60, "every message tells its latency");
        assert_eq!(outcome.ledger.is_some(), ledger);
        if let Some(ledger) = outcome.ledger {
            assert_eq!((ledger.lost, ledger.corrupt, ledger.delivered), (0, 0, 60), "{ledger:?}");
        }
    }
}

#[test]
fn sizes_arrive_whole() {
    let broker = embedded();
    let step = |size| SizeStep { size, length: Nanos::from_micros(100) };
    let cases = [
        Sizes::Fixed(400_000),
        Sizes::List(vec![12, 31, 32, 131_064, 131_065, 400_000]),
        Sizes::Random {
            distribution: Distribution::LogNormal { median: 500.0, sigma: 2.0, min: 12, max: 200_000 },
            seed: 3,
        },
        // With the time at which messages are sent.
        Sizes::Steps { steps: [100, 5_000, 100_000].map(step).to_vec(), repeat: true },
    ];
    for sizes in cases {
        let plan = plan(&broker, 0, |group| {
            group.producers.sizes = sizes.clone();
            group.producers.message_count = Some(60);
            group.producers.max_pending = 10;
        });
        let (outcome, _) = run(&broker, &plan);
        assert_eq!(outcome.totals.sent, 60, "{sizes:?}");
        let ledger = outcome.ledger.expect("a ledger");
        assert_eq!(
            (ledger.lost, ledger.duplicated, ledger.corrupt, ledger.foreign),
            (0, 0, 0, 0),
            "{sizes:?}: {ledger:?}"
        );
    }
}

#[test]
fn what_cannot_be_paced_is_refused() {
    let broker = embedded();
    let refused = |change: &dyn Fn(&mut Group), part: &str| {
        testkit::assert_has(load::validate(&plan(&broker, 100, change)).unwrap_err().problem().sentence(), [part]);
    };
    refused(&|group| group.producers.arrivals = ArrivalProcess::ThinkTime(Nanos::SECOND), "one answer at a time");
    refused(
        &|group| {
            group.producers.arrivals = ArrivalProcess::ThinkTime(Nanos::SECOND);
            group.producers.guarantee = Guarantee::Unconfirmed;
        },
        "ask for confirms",
    );
    refused(
        &|group| {
            let trace = Trace::parse(&b"0,5"[..], "t").expect("a trace");
            group.producers.arrivals = of(RateProfile::Trace { trace: Arc::new(trace), every: None });
        },
        "5 bytes has no room",
    );
    refused(
        &|group| {
            let trace = Trace::parse(&b"0,50"[..], "t").expect("a trace");
            group.producers.sizes = Sizes::List(vec![20, 30]);
            group.producers.arrivals = of(RateProfile::Trace { trace: Arc::new(trace), every: None });
        },
        "and so does the message size",
    );
}
