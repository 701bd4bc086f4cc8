//! Scenarios other than messages, by the registry alone.

use archive::{ScenarioPoint, SeriesName, SeriesUnit};
use measure::MetricKind;

use super::*;
use crate::tests::fixtures::failed_requests;

fn metric(key: &str, kind: MetricKind) -> Metric {
    Metric::named(key, kind).expect("a metric")
}

fn second_of(measured: &Interval) -> SeriesPoint {
    SeriesPoint { scenarios: ScenarioPoint::all_of(measured), ..point(Phase::Measure, 5.0) }
}

fn live_of(measured: &Interval, shape: Shape, columns: usize, rows: usize) -> LiveTable {
    let mut live = LiveTable::new(shape, Style { rows, ..terminal(columns) });
    live.point(&second_of(measured), measured);
    live
}

/// Counts and latencies of a scenario, for ten seconds.
fn measure(measured: &mut Interval, of: &'static str, counts: &[(&'static str, u64)], latencies: &[&'static str]) {
    measured.end = Time(10_000_000_000);
    for (name, number) in counts {
        measured.counts.add(registered(of, name, MetricKind::Counter), *number);
    }
    measured.counts.peak(registered(of, "in flight", MetricKind::Peak), 3);
    for name in latencies {
        let latency = registered(of, name, MetricKind::Histogram);
        measured.latencies.record_n(latency, Nanos(5_000_000), 100);
    }
}

const COUNTS: [(&str, u64); 5] = [("begun", 7), ("completed", 7), ("failed", 7), ("late", 7), ("timed out", 7)];

#[test]
fn each_counter_and_each_whole_latency_is_in_the_line() {
    let scenario = ScenarioPoint {
        counts: [(metric("probe_sent", MetricKind::Counter), 40), (metric("probe_failed", MetricKind::Counter), 2)]
            .into(),
        latency: std::iter::once((metric("probe_took", MetricKind::Histogram), latency(40))).collect(),
    };
    let mut point = point(Phase::Measure, 5.0);
    point.scenarios.insert("probe".to_owned(), scenario);
    let parts = ["  probe sent 40.0/s  ", "  probe failed 2.00/s  ", "  probe took p50 301 µs max 251 ms"];
    assert_has(line(&Shape::default(), &point), parts);
}

#[test]
fn cpu_for_each_operation_keeps_its_digits() {
    let scenario = archive::ScenarioSummary {
        unit: "channels".into(),
        cpu_us_each: PerMessage { broker: Some(4.2), client: Some(12_340.0) },
        failures: vec![archive::FailureCount { reason: "refused".into(), count: 1 }],
        ..archive::ScenarioSummary::default()
    };
    let lines = super::super::scenario::account(None, &scenario, true);
    for told in ["broker 4.20 µs CPU per channel; bellows 12.3 ms CPU per channel", "failed 1 time: refused"] {
        assert!(lines.iter().any(|line| line == told), "{told}: {lines:?}");
    }
}

/// One reason is shown once, with its count; several are all shown.
#[test]
fn why_all_requests_failed_is_told_once() {
    let cause = "cannot connect to http://h:1/";
    let reason = |reason: &str| archive::FailureCount { reason: reason.into(), count: 4 };
    let mut summary = two_probes();
    summary.error = Some(Problem::new(cause, "refused", "start it"));
    summary.warnings = vec![told(failed_requests(4, 0, 4, &format!("{cause}: refused; start it")))];
    let text = |summary: &RunSummary| {
        let text = crate::console::summary(&shape(), &record(RunState::Failed, None), summary, None, terminal(200));
        flowing(&text).matches(cause).count()
    };
    summary.scenarios.get_mut("probe_a").expect("a probe").failures = vec![reason(cause)];
    assert_eq!(text(&summary), 1);
    let end = brief(&record(RunState::Failed, None), &summary, None, None, true, terminal(200));
    assert_eq!(flowing(&end).matches(cause).count(), 1, "{end}");
    summary.scenarios.get_mut("probe_b").expect("a probe").failures = vec![reason(cause), reason("status 500")];
    assert_eq!(text(&summary), 2, "one of several reasons");
    summary.warnings.clear();
    assert_eq!(text(&summary), 3, "nothing else tells it");
}

#[test]
fn the_tables_of_churn_fit_every_width() {
    let all: measure::Summaries = ["probe_took", "a_long_name_of_it"]
        .map(|key| (metric(key, MetricKind::Histogram), latency(5_000_000)))
        .into_iter()
        .collect();
    for columns in 60..=200 {
        let text = super::super::scenario::latencies(&all, "", terminal(columns)).join("\n");
        assert_fits(&text, columns, usize::MAX);
        assert_has(&text, ["485 µs", "3.23 ms", "251 ms", "5,000,000", "probe took"]);
    }
}

/// Lines of the live table are drawn side by side: text in the last column would touch the next line.
#[test]
fn the_live_table_leaves_the_edge_free_at_every_width() {
    let mut measured = Interval::new();
    measured.end = Time(1_000_000_000);
    for (key, ns) in [("probe_took", 17_000_000), ("a_name_of_it", 7_900_000), ("x", 0)] {
        let latencies = &mut measured.latencies;
        latencies.record_n(metric(key, MetricKind::Histogram), Nanos(ns), 46_291);
    }
    for columns in 60..=200 {
        let text = live_of(&measured, shape(), columns, TERMINAL.rows).lines().join("\n");
        assert_has(&text, ["probe took"]);
        assert_fits(&text, columns - 1, usize::MAX);
    }
}

fn two_probes() -> RunSummary {
    let of = |name: &str, begun: u64| {
        let metric = |key: &str, kind| metric(&format!("{name}_{key}"), kind);
        archive::ScenarioSummary {
            unit: "requests".into(),
            role: measure::ScenarioRole::Server,
            counts: [(metric("begun", MetricKind::Counter), begun), (metric("in_flight", MetricKind::Peak), 12)].into(),
            ..archive::ScenarioSummary::default()
        }
    };
    let mut summary = run_summary(0);
    summary.insert("probe_a", of("probe_a", 5));
    summary.insert("probe_b", of("probe_b", 7));
    summary
}

#[test]
fn the_counts_of_several_probes_have_their_names() {
    let summary = two_probes();
    let record = record(RunState::Complete, Some(summary.clone()));
    let text = super::summary(&shape(), &record, &summary, None, terminal(100));
    let of =
        |name: char, begun| format!("\nprobe {name}: probe {name} begun {begun}, probe {name} in flight at most 12\n");
    assert_has(text, [&*of('a', 5), &of('b', 7)]);
    // Alone it needs none.
    let mut alone = summary;
    alone.scenarios.retain(|name, _| name == "probe_a");
    let text = super::summary(&shape(), &record, &alone, None, terminal(100));
    assert_has(text, ["\nprobe a begun 5"]);
}

/// Bytes are no requests, and operations in flight are no rate.
#[test]
fn the_live_table_has_units_of_bytes_and_what_is_in_flight() {
    let mut measured = Interval::new();
    measured.end = Time(10_000_000_000);
    measured.counts.add(registered("probe_units", "begun", MetricKind::Counter), 40);
    measured.counts.add(registered_in("bytes", "probe_units", "bytes", MetricKind::Counter), 12_345_678);
    measured.counts.peak(registered("probe_units", "in flight", MetricKind::Peak), 17);
    // All of it has room on a tall screen.
    let live = live_of(&measured, shape(), 80, 60);
    assert_begins(flowing(&row(&live, "probe units")), "probe units requests/s now");
    assert_has(flowing(&row(&live, "bytes")), ["1.23 MB/s 12.3 MB"]);
    assert_begins(flowing(&row(&live, "in flight, most")), "in flight, most 17 17");
    assert_fits(&live.lines().join("\n"), 79, usize::MAX);
    let line = line(&Shape::default(), &second_of(&measured));
    assert_has(line, ["  bytes 12.3 MB/s  ", "  in flight at most 17  "]);
}

pub(super) fn registered(scenario: &'static str, name: &'static str, kind: MetricKind) -> Metric {
    registered_in("requests", scenario, name, kind)
}

/// A metric of this unit, for the life of the process.
pub(super) fn registered_in(
    unit: &'static str,
    scenario: &'static str,
    name: &'static str,
    kind: MetricKind,
) -> Metric {
    let key = format!("{scenario}_{}", name.replace(' ', "_")).leak();
    let info = measure::MetricInfo { key, name, unit, kind, scenario, part: false, meaning: name };
    Metric::register(Box::leak(Box::new(info)))
}

#[test]
fn where_all_has_no_room_each_scenario_has_its_first_counts_and_latency() {
    let mut measured = Interval::new();
    measure(&mut measured, "probe_one", &COUNTS, &["one response", "one from send"]);
    measure(&mut measured, "probe_two", &COUNTS, &["two response", "two from send"]);
    let shown = |rows: usize| live_of(&measured, shape(), 100, rows).lines().join("\n");
    let (high, low) = (shown(80), shown(40));
    assert_has(high, ["timed out", "from send"]);
    for row in ["probe one", "probe two", "one response", "two response"] {
        assert!(low.lines().any(|it| it.starts_with(row)), "{row}: {low}");
    }
    let count = |row: &str| low.lines().filter(|it| it.starts_with(row)).count();
    assert_eq!((count("failed"), count("in flight, most")), (2, 2), "{low}");
}

fn beside_messages(columns: usize, rows: usize, more: &[(SeriesName, f64)]) -> String {
    let mut measured = Interval::new();
    measure(&mut measured, "probe_beside", &COUNTS, &["beside response"]);
    measure(&mut measured, "probe_other", &COUNTS, &["other response"]);
    let mut live = live_of(&measured, shape(), columns, rows);
    live.beside.add(more);
    live.lines().join("\n")
}

pub(super) fn scraped(seconds: f64) -> Vec<(SeriesName, f64)> {
    let of = |name: &str, unit| SeriesName::new("per-object", name, unit);
    vec![
        (of("scrape time", SeriesUnit::Seconds), seconds),
        (of("size of the page", SeriesUnit::Bytes), 34.5e6),
        (of("series of the page", SeriesUnit::Count), 230_123.0),
    ]
}

#[test]
fn what_is_requested_beside_messages_is_on_every_screen() {
    for (columns, rows) in [(80, 24), (60, 24), (80, 30), (120, 40), (200, 50), (80, 16)] {
        let text = beside_messages(columns, rows, &scraped(2.72));
        assert_fits(&text, columns - 1, rows - 1);
        for row in ["beside response", "other response", "per-object"] {
            assert!(text.lines().any(|it| it.starts_with(row)), "{row}, {rows}: {text}");
        }
        // The machine's use stands last, and is not cut off.
        assert_has(&text, ["2.72 s", "34.5 MB", "bellows 0."]);
        let has_messages = text.lines().any(|it| it.starts_with("sent "));
        assert!(has_messages || rows < 24, "{rows}: {text}");
    }
}

#[test]
fn two_probes_beside_messages_have_a_cell_below_each_head() {
    let golden = [
        "measured              p50       p99       max    count  failed  in flight",
        "beside response   5.00 ms  ~5.00 ms   5.00 ms      100       7          3",
        "other response    5.00 ms  ~5.00 ms   5.00 ms      100       7          3",
    ];
    for columns in [80, 120] {
        assert_has(beside_messages(columns, 24, &[]) + "\n", [&*format!("\n{}\n", golden.join("\n"))]);
    }
    // A narrow screen has neither count nor median, and keeps the worst and the failures.
    let text = beside_messages(60, 24, &[]);
    let row = text.lines().find(|line| line.starts_with("other response"));
    assert_eq!(flowing(row.unwrap_or(&text)), "other response ~5.00 ms 5.00 ms 7 3", "{text}");
}

/// Spare rows of a low screen show the most important figures, zeros last.
#[test]
fn free_rows_have_what_tells_most() {
    let mut measured = Interval::new();
    let counts = [("begun", 40), ("completed", 30), ("failed", 10), ("late", 0), ("status 4xx", 0), ("status 5xx", 10)];
    measure(&mut measured, "probe_fill", &counts, &["fill response", "fill from send", "fill first byte"]);
    let shown = |shape: &Shape, rows: usize, columns: usize| {
        let lines = live_of(&measured, shape.clone(), columns, rows).lines();
        assert_fits(&lines.join("\n"), columns - 1, rows - 1);
        lines
    };
    let alone = |rows: usize| shown(&Shape::default(), rows, 80);
    let has = |rows: usize, name: &str| alone(rows).iter().any(|it| it.trim_start().starts_with(name));
    let first = (10..40).find(|rows| has(*rows, "in flight, most")).expect("a screen with the counts");
    let wanted = ["status 5xx", "fill from send", "fill first byte", "late", "status 4xx"];
    for (at, name) in wanted.iter().enumerate() {
        let rows = (first..40).find(|rows| has(*rows, name)).unwrap_or_else(|| panic!("no {name}"));
        assert!(wanted[..at].iter().all(|earlier| has(rows, earlier)), "{name} comes before others");
    }
    assert!(wanted.iter().all(|name| has(24, name)), "{:#?}", alone(24));
    // Beside messages the row of the probe has what is in flight.
    let beside = shown(&shape(), 24, 80);
    let row = beside.iter().find(|it| it.starts_with("fill response")).unwrap();
    assert_ends(flowing(row), " 100 10 3");
    assert!(beside.len() >= 20, "rows are left free: {beside:#?}");
}
