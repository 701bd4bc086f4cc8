//! Scenarios other than messages, by the registry alone.

use archive::ScenarioPoint;
use measure::MetricKind;

use super::*;

#[test]
fn each_counter_and_each_whole_latency_has_a_line_of_its_own() {
    let metric = |key, kind| Metric::named(key, kind).expect("a metric");
    let scenario = ScenarioPoint {
        counts: [
            (metric("probe_sent", MetricKind::Counter), 40),
            (metric("probe_failed", MetricKind::Counter), 2),
        ]
        .into(),
        latency: std::iter::once((metric("probe_took", MetricKind::Histogram), latency(40)))
            .collect(),
    };
    let mut point = point(Phase::Measure, 5.0);
    point.scenarios.insert("probe".to_owned(), scenario);
    let text = plain::block(&shape(), &point);
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    let [took, failed, sent] = lines[..] else {
        panic!("{text}");
    };
    assert!(sent.starts_with("--- probe sent:       40 "), "{text}");
    assert!(failed.starts_with("--- probe failed:        2 "), "{text}");
    assert!(
        took.starts_with("--- probe took: p50 301 us, p99 "),
        "{text}"
    );
}
