//! What is printed of scenarios other than messages: their counts and latencies, by the registry.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use archive::{ScenarioPoint, ScenarioSummary, SeriesPoint};
use measure::{LatencySummary, Metric, MetricKind, Nanos, Summaries};

use super::text::{Style, fit, left, right, sanitise, sparkline};
use crate::numbers::{count, marked, per_second, three_digits};

/// Reasons of failures that are printed.
const REASONS: usize = 3;

/// The counters of a scenario; the largest value of an interval is none.
fn counters(counts: &BTreeMap<Metric, u64>) -> impl Iterator<Item = (Metric, u64)> {
    let counters = counts.iter().map(|(metric, count)| (*metric, *count));
    counters.filter(|(metric, _)| metric.info().kind == MetricKind::Counter)
}

/// The lines of one interval in a pipe, ending in a newline.
pub(super) fn block(scenario: &ScenarioPoint, point: &SeriesPoint) -> String {
    let mut out = String::new();
    for (metric, count) in counters(&scenario.counts) {
        let info = metric.info();
        let (label, unit) = (sanitise(info.name) + ":", sanitise(info.unit));
        let rate = per_second(count, point.dt);
        let _ = writeln!(out, "--- {label:<10} {rate:>8.0} {unit}/sec");
    }
    for (metric, latency) in scenario.latency.filled() {
        let info = metric.info();
        if !info.part {
            let [p50, _, p99, ..] = latency.percentile_values();
            let _ = writeln!(
                out,
                "--- {:<10} p50 {}, p99 {}, max {}",
                sanitise(info.name) + ":",
                Nanos(p50),
                Nanos(p99),
                Nanos(latency.max_ns)
            );
        }
    }
    out
}

/// The rates and latencies of the live table, for all scenarios; before the measured phase there is
/// only the last second to look at.
pub(super) fn live(
    recent: &VecDeque<SeriesPoint>,
    measured: &BTreeMap<&str, ScenarioPoint>,
    seconds: f64,
    style: Style,
) -> Vec<String> {
    let mut out = Vec::new();
    let last = recent.back();
    for (name, now) in last.into_iter().flat_map(SeriesPoint::scenarios) {
        let whole = measured.get(name).filter(|_| seconds > 0.0);
        out.extend(live_rates(name, now, recent, whole, seconds, style));
        out.push(String::new());
        out.extend(latencies(&whole.unwrap_or(now).latency, style));
        out.push(String::new());
    }
    out
}

fn live_rates(
    name: &str,
    now: &ScenarioPoint,
    recent: &VecDeque<SeriesPoint>,
    measured: Option<&ScenarioPoint>,
    seconds: f64,
    style: Style,
) -> Vec<String> {
    let unit = counters(&now.counts)
        .next()
        .map_or("", |(metric, _)| metric.info().unit);
    let head = format!(
        "{}{}{}{}  last seconds",
        left("", 13),
        right(&format!("{unit}/s now"), 14),
        right("measured", 12),
        right("count", 13)
    );
    let mut out = vec![style.faint(&fit(&head, style.columns))];
    for (metric, _) in counters(&now.counts) {
        let rate = |point: &SeriesPoint| {
            let counted = point.scenario(name).and_then(|it| it.counts.get(&metric));
            per_second(counted.copied().unwrap_or(0), point.dt)
        };
        let (mean, number) = measured.map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |measured| {
                let number = measured.counts.get(&metric).copied().unwrap_or(0);
                (three_digits(per_second(number, seconds)), count(number))
            },
        );
        let line = format!(
            "{}{}{}{}  {}",
            left(metric.name(), 13),
            right(&three_digits(recent.back().map_or(0.0, rate)), 14),
            right(&mean, 12),
            right(&number, 13),
            sparkline(recent.iter().map(rate))
        );
        out.push(fit(&line, style.columns).into_owned());
    }
    out
}

/// The table of latencies, or one line that there is none.
pub(super) fn latencies(all: &Summaries, style: Style) -> Vec<String> {
    if all.filled().next().is_none() {
        return vec!["no latency was measured".into()];
    }
    let mut head = left("", 14);
    for name in ["mean", "p50", "p90", "p99", "p99.9", "max"] {
        head.push_str(&right(name, 10));
    }
    head.push_str(&right("count", 10));
    let mut out = vec![style.faint(&fit(&head, style.columns))];
    let mut weak = false;
    for (metric, latency) in all.filled() {
        let info = metric.info();
        let indent = if info.part { "  " } else { "" };
        let name = format!("{indent}{}", sanitise(info.name));
        let mut line = left(&name, 14) + &right(&Nanos(latency.mean_ns).to_string(), 10);
        let values = LatencySummary::PERCENTILES.into_iter();
        for ((percentile, _), ns) in values.zip(latency.percentile_values()).take(4) {
            let supported = latency.supports(percentile);
            weak |= !supported;
            line.push_str(&right(&marked(ns, supported), 10));
        }
        line.push_str(&right(&Nanos(latency.max_ns).to_string(), 10));
        line.push_str(&right(&count(latency.count), 10));
        out.push(fit(&line, style.columns).into_owned());
    }
    if weak {
        out.push(style.faint("~ fewer than ten samples lie beyond this percentile"));
    }
    out
}

/// What became of the operations, what each cost, and why some failed.
pub(super) fn account(scenario: &ScenarioSummary) -> Vec<String> {
    let counts = scenario.counts.iter().map(|(metric, number)| {
        let info = metric.info();
        let most = if info.kind == MetricKind::Peak {
            "at most "
        } else {
            ""
        };
        format!("{} {most}{}", sanitise(info.name), count(*number))
    });
    let mut lines = vec![counts.collect::<Vec<_>>().join(", ")];
    let cpu = &scenario.cpu_ms_each;
    let cost: Vec<String> = [("broker", cpu.broker), ("bellows", cpu.client)]
        .into_iter()
        .filter_map(|(who, ms)| {
            let one = scenario.unit.trim_end_matches('s');
            let ms = three_digits(ms?);
            Some(format!("{who} {ms} ms CPU per {}", sanitise(one)))
        })
        .collect();
    if !cost.is_empty() {
        lines.push(cost.join("; "));
    }
    let more = scenario.failures.len().saturating_sub(REASONS);
    for failure in scenario.failures.iter().take(REASONS) {
        lines.push(format!(
            "failed {} times: {}",
            count(failure.count),
            sanitise(&failure.reason)
        ));
    }
    if more > 0 {
        lines.push(format!("and for {more} reasons more"));
    }
    lines
}
