//! Figures of a run that are shown, and those that are decided.

use measure::Metric;
use measure::ledger::LedgerSummary;

use super::*;
use crate::{FailureCount, MESSAGES, PerMessage, RequestedSummary, Rss, Stall, Tier};

/// A run with every figure: messages, harm to them, and a scenario of this role.
fn whole(role: ScenarioRole) -> RunSummary {
    let rate = |rate| Throughput { total: 9, rate };
    let latency = LatencySummary { count: 1_000_000, p50_ns: 1, p99_ns: 2, ..LatencySummary::default() };
    let refused = Finding::MessagesNotAccepted { sent: 9, nacked: 4, returned: 1, not_confirmed: 0, fault: None };
    let mut summary = RunSummary {
        rss_mb: Rss { broker: Some(1.0), client: Some(1.0) },
        stalls: vec![Stall { for_s: 1.0, ..Stall::default() }],
        warnings: vec![Warning::new(Tier::Caution, refused)],
        ..RunSummary::default()
    };
    *summary.messages_mut() = ScenarioSummary {
        flow: Some(MessageFlow {
            sent: rate(3.0),
            completed: rate(2.0),
            received: rate(1.0),
            ledger: Some(LedgerSummary {
                sent: 9,
                lost: 1,
                outstanding: 1,
                duplicated: 1,
                reordered: 1,
                corrupt: 1,
                returned: 1,
                exact: true,
                ..LedgerSummary::default()
            }),
            ..MessageFlow::default()
        }),
        latency: [(Metric::END_TO_END, latency)].into_iter().collect(),
        cpu_us_each: PerMessage { broker: Some(1.0), client: Some(1.0) },
        ..ScenarioSummary::default()
    };
    summary.insert("other", ScenarioSummary { role, rate: 1.0, ..ScenarioSummary::default() });
    summary
}

fn read(text: &str) -> Quantity {
    text.parse().expect("a figure")
}

fn names(of: Vec<Quantity>) -> String {
    let names: Vec<String> = of.iter().map(Quantity::name).collect();
    names.join(", ")
}

#[test]
fn figures_come_in_the_order_in_which_they_are_read_and_few_are_decided() {
    for (role, operations, decided) in
        [(ScenarioRole::Broker, "cycles rate", "cycles rate, "), (ScenarioRole::Server, "requests rate", "")]
    {
        let run = whole(role);
        let told = format!(
            "sent rate, completed rate, received rate, {operations}, end-to-end p50, end-to-end p99, \
             broker cpu, bellows cpu, broker memory, bellows memory, \
             lost, outstanding, duplicated, reordered, stalls"
        );
        assert_eq!(names(Quantity::headline(&run)), told);
        let told = format!(
            "received rate, {decided}end-to-end p50, end-to-end p99, broker cpu, broker memory, \
             lost, duplicated, reordered, corrupt, returned, refused"
        );
        assert_eq!(names(Quantity::decided(&run)), told);
    }
}

#[test]
fn of_several_probes_the_worst_decides_and_is_named() {
    let one = whole(ScenarioRole::Server);
    for text in ["requests rate", "requests failed"] {
        assert_eq!(read(text).decided_by(&one), None, "{text}");
    }
    for (name, other) in [("alpha", 10.0), ("zeta", 10.0), ("zeta", 0.5)] {
        let mut summary = one.clone();
        let mut scenario = summary.scenarios["other"].clone();
        scenario.rate = other;
        summary.insert(name, scenario);
        let rate = read("requests rate");
        assert_eq!(rate.of(&summary), Ok(other.min(1.0)), "{name}");
        let worst = if other < 1.0 { name } else { "other" };
        assert_eq!(rate.decided_by(&summary).as_deref(), Some(worst));
    }
}

/// A requirement could name one by its latencies alone.
#[test]
fn rates_and_counts_of_one_probe_go_by_its_name() {
    let mut summary = whole(ScenarioRole::Server);
    let mut shop = summary.scenarios["other"].clone();
    shop.rate = 7.0;
    shop.requested = Some(RequestedSummary { achieved: Some(0.5), ..RequestedSummary::default() });
    shop.failures = vec![FailureCount { reason: "404".into(), count: 3 }];
    summary.insert("probe_web_shop", shop);
    for (text, value) in [
        ("web-shop requests rate", Ok(7.0)),
        ("Web Shop requests achieved", Ok(0.5)),
        ("web-shop failed", Ok(3.0)),
        ("web-shop requests failed", Ok(3.0)),
        ("requests failed", Ok(3.0)),
        ("other requests rate", Ok(1.0)),
        ("other requests achieved", Err(NOT_REQUESTED)),
        ("gone requests rate", Err(NO_SUCH_REQUESTS)),
    ] {
        let quantity = read(text);
        assert_eq!(quantity.of(&summary), value, "{text}");
        assert_eq!(read(&quantity.name()), quantity, "{text}");
    }
    let named = read("web-shop requests rate");
    assert_eq!(named.probe().as_deref(), Some("web shop"));
    assert_eq!(named.decided_by(&summary), None);
    assert_eq!(read("requests failed").decided_by(&summary).as_deref(), Some("web-shop"));
    let failures = ["web-shop failed", "requests failed"].map(read);
    assert!(failures.iter().all(Quantity::counts_failures));
}

#[test]
fn a_watcher_is_no_load_and_a_probe_no_churn() {
    let cycles = read("cycles rate");
    for (role, churned) in [
        (ScenarioRole::Broker, Ok(1.0)),
        (ScenarioRole::Server, Err(NO_OPERATIONS)),
        (ScenarioRole::Watcher, Err(NO_OPERATIONS)),
    ] {
        let mut summary = whole(role);
        assert_eq!(cycles.of(&summary), churned, "{role:?}");
        let shown = names(Quantity::headline(&summary));
        assert_eq!(shown.contains("cycles rate"), churned.is_ok(), "{shown}");
        // The broker's time is that of all of its load.
        summary.messages_mut().cpu_us_each = PerMessage::default();
        summary.cpu_cores.broker = Some(1.0);
        let decided = names(Quantity::decided(&summary));
        let is_alone = role == ScenarioRole::Watcher;
        assert_eq!(decided.contains(Quantity::CORES), is_alone, "{decided}");
    }
}

#[test]
fn a_trace_does_not_hide_the_cpu_of_a_message_in_a_second() {
    let cpu = read("broker cpu");
    for (beside, known) in [("trace_publish", Ok(1e6)), ("churn", Err(NO_CPU))] {
        let mut point = SeriesPoint {
            dt: 1.0,
            broker: Some(ProcessUsage { cpu_cores: 1.0, ..ProcessUsage::default() }),
            ..SeriesPoint::default()
        };
        point.counters.sent = 1_000;
        point.scenarios.insert(beside.to_owned(), Default::default());
        assert_eq!(cpu.in_second(&point, &Recorder::new(), true, true), known, "{beside}");
    }
}

#[test]
fn rates_of_messages_that_nobody_saw_are_unknown() {
    let mut summary = whole(ScenarioRole::Server);
    summary.scenarios.remove(MESSAGES);
    for name in RATES {
        let rate = read(name);
        assert_eq!(rate.of(&summary), Err(NO_FLOW), "{name}");
        let second = SeriesPoint { dt: 1.0, ..SeriesPoint::default() };
        let of = |has| rate.in_second(&second, &Recorder::new(), has, true);
        // `--where 'sent rate < 5k'` chose every second of a probe.
        assert_eq!((of(false), of(true)), (Err(NO_FLOW), Ok(0.0)), "{name}");
    }
    // Nobody knows whether the server is a broker.
    (summary.cpu_cores.broker, summary.rss_mb.broker) = (Some(1.0), Some(2.0));
    let all = [Quantity::headline(&summary), Quantity::of_run(&summary).into_iter().map(|it| it.0).collect()];
    for shown in all.map(names) {
        assert!(shown.contains("server cores") && shown.contains("server memory"), "{shown}");
        assert!(!shown.contains("broker"), "{shown}");
    }
    assert_eq!(read("broker cores").of(&summary), Ok(1.0));
    // Consumers that got nothing received 0/s.
    *summary.flow_mut() = MessageFlow::default();
    assert_eq!(read("received rate").of(&summary), Ok(0.0));
    // Where there were none, 0/s stood in the report all the same.
    summary.flow_mut().without_consumers = true;
    assert_eq!(read("received rate").of(&summary), Err(NO_CONSUMERS));
    // `--where 'received rate < 5k'` chose each of its seconds.
    let second = SeriesPoint { dt: 1.0, ..SeriesPoint::default() };
    let of = |name| read(name).in_second(&second, &Recorder::new(), true, false);
    assert_eq!((of("received rate"), of("sent rate")), (Err(NO_CONSUMERS), Ok(0.0)));
}

#[test]
fn every_figure_of_a_run_is_read_by_its_name_and_those_of_harm_count_failures() {
    for role in [ScenarioRole::Broker, ScenarioRole::Server] {
        let summary = whole(role);
        let all = Quantity::of_run(&summary);
        for (of, value) in &all {
            assert_eq!(read(&of.name()).of(&summary), Ok(*value), "{}", of.name());
        }
        let names: std::collections::BTreeSet<_> = all.iter().map(|(of, _)| of.name()).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
        assert!(names.contains("end-to-end p99.99") && names.contains("broker memory"), "{names:?}");
    }
    assert_eq!(Quantity::of_run(&RunSummary::default()).len(), 2, "no stalls, and so none that is the longest");
    let harm: Vec<Quantity> = FIGURES.iter().filter(|it| Quantity::is_harm(it.name)).map(|it| read(it.name)).collect();
    assert!(harm.iter().all(Quantity::counts_failures));
    assert_eq!(names(harm), "lost, duplicated, reordered, corrupt, returned, refused");
}
