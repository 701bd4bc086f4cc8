//! How requirements are read, and when a summary meets them.

use archive::{ScenarioSummary, Stall, Throughput};
use measure::ledger::LedgerSummary;
use measure::{Metric, MetricInfo};

use super::*;

fn recorder() -> Recorder {
    let mut recorder = Recorder::new();
    for ms in 1..=1_000 {
        recorder.record(Metric::END_TO_END, Nanos(ms * 1_000_000));
    }
    recorder
}

fn summary() -> RunSummary {
    let mut summary = RunSummary { stalls: vec![Stall { for_s: 0.25, ..Stall::default() }], ..RunSummary::default() };
    summary.messages_mut().latency = recorder().messages();
    let flow = summary.flow_mut();
    flow.sent = Throughput { total: 1_000, rate: 1_000.0 };
    flow.ledger = Some(LedgerSummary { sent: 1_000, lost: 3, exact: true, ..LedgerSummary::default() });
    summary
}

fn judge(text: &str, summary: &RunSummary) -> RequirementOutcome {
    let read: Requirement = text.parse().expect(text);
    read.judge(summary, &recorder(), None)
}

/// Every percentage of one decimal is met by exactly that many of a thousand.
#[test]
fn a_bound_in_percent_is_what_it_says() {
    for of_thousand in 0..=1_000u32 {
        let bound = bound(QuantityUnit::Share, &format!("{}%", f64::from(of_thousand) / 10.0)).unwrap();
        let (below, exact, above) = (-1.0, 0.0, 1.0);
        for off in [below, exact, above] {
            let observed = f64::from(of_thousand) / 1_000.0 + off * 1e-6;
            assert_eq!(Comparison::Less.holds(observed, bound), off < 0.0, "{of_thousand}");
            assert_eq!(Comparison::LessOrEqual.holds(observed, bound), off <= 0.0);
            assert_eq!(Comparison::Equal.holds(observed, bound), off == 0.0);
            assert_eq!(Comparison::Unequal.holds(observed, bound), off != 0.0);
            assert_eq!(Comparison::GreaterOrEqual.holds(observed, bound), off >= 0.0);
            assert_eq!(Comparison::Greater.holds(observed, bound), off > 0.0);
        }
    }
    for cores in ["0.5", "0.5 cores"] {
        assert_eq!(bound(QuantityUnit::Cores, cores), Ok(0.5));
    }
    for nanoseconds in [1.0, 1e9, 8.64e13] {
        assert!(!Comparison::Equal.holds(nanoseconds + 1.0, nanoseconds));
    }
    assert!(!Comparison::LessOrEqual.holds(f64::NAN, 1.0));
}

fn told(outcome: &RequirementOutcome) -> &'static str {
    outcome.met.map_or("open", |is_met| if is_met { "met" } else { "missed" })
}

#[test]
fn requirements_are_met_missed_or_cannot_be_told() {
    let summary = summary();
    for [text, met] in testkit::table(include_str!("../tests/data/requirements.txt")) {
        let outcome = judge(text, &summary);
        assert_eq!((told(&outcome), outcome.why.is_some()), (met, met == "open"), "{text}: {outcome:?}");
        assert_eq!(outcome.that.parse::<Requirement>(), text.parse(), "{text}");
    }
    let is_about = |text: &str| text.parse::<Requirement>().expect(text).is_about(Metric::END_TO_END);
    assert!(is_about("end-to-end p99 < 20ms") && is_about("End to end max < 20ms"));
    assert!(!is_about("sent rate >= 20k") && !is_about("ack response p99 < 20ms"));
}

/// Of latencies between two clocks.
#[test]
fn what_the_bound_of_two_clocks_decides_cannot_be_told() {
    let summary = summary();
    let outcome = |text: &str, error| {
        let read: Requirement = text.parse().expect(text);
        told(&read.give_or_take(judge(text, &summary), Nanos::from_millis(error), "clocks"))
    };
    for (text, exact, off) in [
        ("end-to-end p50 < 510ms", "met", "open"),
        ("end-to-end p50 < 490ms", "missed", "open"),
        ("end-to-end p50 > 490ms", "met", "open"),
        ("end-to-end p50 < 700ms", "met", "met"),
        ("end-to-end p50 < 300ms", "missed", "missed"),
        ("lost = 3", "met", "met"),
    ] {
        assert_eq!((outcome(text, 0), outcome(text, 50)), (exact, off), "{text}");
    }
}

#[test]
fn a_percentile_of_few_samples_is_decided_by_the_shortest_and_the_ten_longest() {
    let summary = summary();
    for (text, met, told) in [
        ("end-to-end p99.9 < 500us", Some(false), "even the shortest took "),
        ("end-to-end p99.9 <= 500us", Some(false), "even the shortest took "),
        ("end-to-end p99.9 < 2ms", Some(false), "ten or more took at least 99"),
        ("end-to-end p99.9 < 980ms", Some(false), "ten or more took at least 99"),
        ("end-to-end p99.9 < 995ms", None, RequirementOutcome::TOO_FEW),
        ("end-to-end p99.9 > 500us", Some(true), "ten or more took at least 99"),
        ("end-to-end p99.9 > 995ms", None, RequirementOutcome::TOO_FEW),
    ] {
        let outcome = judge(text, &summary);
        assert_eq!((outcome.met, outcome.observed), (met, None), "{text}: {outcome:?}");
        assert!(outcome.why.as_ref().is_some_and(|why| why.starts_with(told)), "{text}: {outcome:?}");
    }
    // Twelve of a hundred and fifty were slow: no percentile that the summary holds shows them.
    let mut few = Recorder::new();
    few.record_n(Metric::END_TO_END, Nanos(1_000_000), 138);
    few.record_n(Metric::END_TO_END, Nanos(300_000_000), 12);
    let mut of = RunSummary::default();
    of.messages_mut().latency = few.messages();
    let read: Requirement = "end-to-end p99 < 100ms".parse().expect("a requirement");
    assert_eq!(read.judge(&of, &few, None).met, Some(false));
    let read: Requirement = "end-to-end p99 > 100ms".parse().expect("a requirement");
    assert_eq!(read.judge(&of, &few, Some("the run broke off")).met, None);
}

#[test]
fn what_fails_a_run_is_the_opposite_of_what_it_requires() {
    let summary = summary();
    for [condition, that, met] in testkit::table(include_str!("../tests/data/opposites.txt")) {
        let outcome = Requirement::unless(condition).expect(condition).judge(&summary, &recorder(), None);
        assert_eq!((outcome.that.as_str(), told(&outcome)), (that, met));
        assert_eq!(told(&judge(that, &summary)), met, "{that}");
    }
}

#[test]
fn what_a_cut_off_run_met_cannot_be_told_and_what_it_missed_is_missed() {
    let summary = summary();
    let judged = |text: &str| {
        let read: Requirement = text.parse().expect(text);
        read.judge(&summary, &recorder(), Some("the run broke off")).met
    };
    assert_eq!(judged("lost < 4"), None);
    assert_eq!(judged("lost = 0"), Some(false));
}

#[test]
fn messages_that_were_never_sent_are_late() {
    let requested = |achieved| archive::RequestedSummary {
        achieved: Some(achieved),
        late_share: 0.5,
        ..archive::RequestedSummary::default()
    };
    for (achieved, late) in [(1.0, 0.5), (0.1, 0.95), (0.0, 1.0), (2.0, 0.5)] {
        let mut summary = summary();
        summary.messages_mut().requested = Some(requested(achieved));
        let observed = judge("late share <= 0%", &summary).observed.expect("a share");
        assert!((observed - late).abs() < 1e-9, "{achieved}: {observed}");
    }
}

#[test]
fn a_ledger_that_followed_nothing_or_counted_inexactly_tells_nothing() {
    for (text, sent, exact) in [("lost > 5", 0, true), ("lost = 0", 1_000, false)] {
        let mut summary = summary();
        summary.flow_mut().ledger = Some(LedgerSummary { sent, lost: 3, exact, ..LedgerSummary::default() });
        assert_eq!(judge(text, &summary).met, None, "{text}");
    }
    let mut summary = summary();
    summary.flow_mut().ledger = None;
    assert_eq!(judge("lost = 0", &summary).why.as_deref(), Some("no ledger was kept"));
}

#[test]
fn what_is_no_requirement_says_why() {
    for [text, part] in testkit::table(include_str!("../tests/data/no-requirements.txt")) {
        let why = text.parse::<Requirement>().expect_err(text).to_string();
        assert!(why.contains(part), "{text}: {why}");
    }
}

/// A requirement could name one of several probes by its latencies alone.
#[test]
fn a_requirement_names_a_probe_or_the_worst_decides() {
    let mut summary = summary();
    for (name, rate) in [("probe", 9.0), ("probe_web_shop", 2.0)] {
        let probe = ScenarioSummary { role: ScenarioRole::Server, rate, ..ScenarioSummary::default() };
        summary.insert(name, probe);
    }
    for (text, observed, decided_by) in [
        ("requests rate >= 5", 2.0, Some("web-shop")),
        ("web-shop requests rate >= 5", 2.0, None),
        ("probe requests rate >= 5", 9.0, None),
    ] {
        let outcome = judge(text, &summary);
        let expected = (Some(observed), Some(observed >= 5.0), decided_by);
        assert_eq!((outcome.observed, outcome.met, outcome.decided_by.as_deref()), expected, "{text}");
    }
}

#[test]
fn rates_of_a_probe_that_the_run_has_not_are_refused() {
    static COMPLETED: MetricInfo = MetricInfo {
        key: "probe_completed",
        name: "completed",
        scenario: "probe",
        meaning: "responses",
        ..MetricInfo::counter("requests")
    };
    let check = |text: &str, metrics: &[Metric]| {
        let read: Requirement = text.parse().expect(text);
        read.check(metrics).map_err(|problem| problem.sentence())
    };
    let metrics = [Metric::register_for("probe_web_shop", &COMPLETED)];
    for text in ["web-shop requests rate > 1", "requests rate > 1", "x page failed = 0"] {
        assert_eq!(check(text, &metrics), Ok(()), "{text}");
    }
    let refused = check("shop requests rate > 1", &metrics).unwrap_err();
    assert!(refused.contains("no probe called \"shop\"") && refused.contains("web-shop"), "{refused}");
    testkit::assert_has(check("shop requests rate > 1", &[]).unwrap_err(), ["[[probe]]"]);
}
