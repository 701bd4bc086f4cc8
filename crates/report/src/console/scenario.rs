//! What is printed of scenarios other than messages: their counts and latencies, by the registry.

use std::collections::{BTreeMap, VecDeque};

use archive::{ScenarioPoint, ScenarioSummary, SeriesPoint};
use measure::{LatencySummary, Metric, MetricKind, Nanos, Summaries};

use super::table::{Align, FOOTNOTE, Table};
use super::text::{Style, sanitise, sparkline};
use crate::numbers::{count, counted, marked, per_second, three_digits};

/// Reasons of failures that are printed.
const REASONS: usize = 3;

/// The counters of a scenario; the largest value of an interval is none.
pub(super) fn counters(counts: &BTreeMap<Metric, u64>) -> impl Iterator<Item = (Metric, u64)> {
    let counters = counts.iter().map(|(metric, count)| (*metric, *count));
    counters.filter(|(metric, _)| metric.info().kind == MetricKind::Counter)
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
        let shown = &whole.unwrap_or(now).latency;
        out.extend(latencies(shown, span(whole.is_some()), style));
        out.push(String::new());
    }
    out
}

/// The time that latencies of the live table are of: the measured phase so far, or the last second before it.
pub(super) const fn span(is_measured: bool) -> &'static str {
    if is_measured { "measured" } else { "last 1 s" }
}

fn live_rates(
    name: &str,
    now: &ScenarioPoint,
    recent: &VecDeque<SeriesPoint>,
    measured: Option<&ScenarioPoint>,
    seconds: f64,
    style: Style,
) -> Vec<String> {
    use Align::{Left, Right};
    let unit = counters(&now.counts)
        .next()
        .map_or("", |(metric, _)| metric.info().unit);
    // Numbers that grow must not move the columns.
    let heads = [
        format!("{:12}", ""),
        format!("{:>11}", format!("{}/s now", sanitise(unit))),
        format!("{:>11}", "measured"),
        format!("{:>11}", "count"),
        "last seconds".to_owned(),
    ];
    let aligned = heads
        .iter()
        .map(String::as_str)
        .zip([Left, Right, Right, Right, Left]);
    let mut table = Table::new(&aligned.collect::<Vec<_>>());
    table.drop_in_order(&[4]);
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
        table.row(vec![
            sanitise(metric.name()).into_owned(),
            three_digits(recent.back().map_or(0.0, rate)),
            mean,
            number,
            sparkline(recent.iter().map(rate)),
        ]);
    }
    with_faint_heads(table.lines(style.columns), style)
}

fn with_faint_heads(mut lines: Vec<String>, style: Style) -> Vec<String> {
    if let Some(heads) = lines.first_mut() {
        *heads = style.faint(heads);
    }
    lines
}

/// The table of latencies of a span of time, or one line that there is none.
pub(super) fn latencies(all: &Summaries, span: &str, style: Style) -> Vec<String> {
    if all.filled().next().is_none() {
        return vec!["no latency was measured".into()];
    }
    let names = ["mean", "p50", "p90", "p99", "p99.9", "max", "count"];
    let names = names.map(|name| (name, Align::Right));
    let mut table = Table::new(&[&[(span, Align::Left)], &names[..]].concat());
    let mut weak = false;
    for (metric, latency) in all.filled() {
        let info = metric.info();
        let indent = if info.part { "  " } else { "" };
        let mut row = vec![
            format!("{indent}{}", sanitise(info.name)),
            Nanos(latency.mean_ns).to_string(),
        ];
        let values = LatencySummary::PERCENTILES.into_iter();
        for ((percentile, _), ns) in values.zip(latency.percentile_values()).take(4) {
            let supported = latency.supports(percentile);
            weak |= !supported;
            row.push(marked(ns, supported));
        }
        row.extend([Nanos(latency.max_ns).to_string(), count(latency.count)]);
        table.row(row);
    }
    let mut out = with_faint_heads(table.lines(style.columns), style);
    if weak {
        out.push(style.faint(FOOTNOTE));
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
            let cpu = Nanos::from_secs_f64(ms? / 1e3);
            Some(format!("{who} {cpu} CPU per {}", sanitise(one)))
        })
        .collect();
    if !cost.is_empty() {
        lines.push(cost.join("; "));
    }
    let more = scenario.failures.len().saturating_sub(REASONS);
    for failure in scenario.failures.iter().take(REASONS) {
        lines.push(format!(
            "failed {}: {}",
            counted(failure.count, "time"),
            sanitise(&failure.reason)
        ));
    }
    if more > 0 {
        lines.push(format!("and for {} more", counted(more as u64, "reason")));
    }
    lines
}
