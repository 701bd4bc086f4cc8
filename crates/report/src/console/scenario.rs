//! Counts and latencies of scenarios other than messages, by the registry.

use std::collections::BTreeMap;

use archive::{ScenarioPoint, ScenarioSummary};
use measure::{LatencySummary, Metric, MetricKind, Nanos, ScenarioRole, Summaries};

use super::table::Table;
use super::text::{Style, sanitise};
use crate::numbers::{bytes, count, counted, per_second, percentile, three_digits};
use crate::text::scenario_name;

const REASONS: usize = 3;
/// The unit of counters that are no operations.
pub(super) const BYTES: &str = "bytes";

/// The counts of a scenario of one kind: counters, or the largest values of intervals.
pub(super) fn counts_of(counts: &BTreeMap<Metric, u64>, kind: MetricKind) -> impl Iterator<Item = (Metric, u64)> {
    counts.iter().map(|(metric, count)| (*metric, *count)).filter(move |(metric, _)| metric.info().kind == kind)
}

/// A scenario's name as people read it: `probe queue-page`.
pub(super) fn called(name: &str) -> String {
    scenario_name(&sanitise(name))
}

/// Counters as rates, and the largest values; zeros are left out.
pub(super) fn of_interval(point: &ScenarioPoint, seconds: f64) -> impl Iterator<Item = (Metric, String)> {
    let counters = counts_of(&point.counts, MetricKind::Counter).filter(|(_, count)| *count > 0);
    let rates = counters.map(move |(metric, count)| {
        let info = metric.info();
        let rate = per_second(count, seconds);
        // The scenario's name gives the counted items.
        let rate = match info.unit {
            BYTES => rate_with_unit(rate, BYTES),
            _ => format!("{}/s", three_digits(rate)),
        };
        (metric, format!("{} {rate}", sanitise(info.name)))
    });
    let peaks = counts_of(&point.counts, MetricKind::Peak).filter(|(_, most)| *most > 0);
    let peaks = peaks.map(|(metric, most)| (metric, peak(metric, most)));
    rates.chain(peaks)
}

/// `40.0 requests/s`, `1.20 MB/s`.
pub(super) fn rate_with_unit(rate: f64, unit: &str) -> String {
    match unit {
        BYTES => format!("{}/s", bytes(rate as u64)),
        unit => format!("{} {}/s", three_digits(rate), sanitise(unit)),
    }
}

/// A number below a head that names its unit; bytes bring their own.
pub(super) fn with_own_unit(number: u64, unit: &str) -> String {
    if unit == BYTES { bytes(number) } else { count(number) }
}

/// `in flight at most 12`.
fn peak(metric: Metric, most: u64) -> String {
    let info = metric.info();
    format!("{} at most {}", sanitise(info.name), with_own_unit(most, info.unit))
}

/// The table of latencies of a span of time, or one line that says there are none.
pub(super) fn latencies(all: &Summaries, span: &str, style: Style) -> Vec<String> {
    latency_table(all.filled(), span, false, style)
}

/// The table of whole operations of several scenarios; no lines without any.
pub(super) fn whole_latencies<'a>(all: impl Iterator<Item = &'a Summaries>, style: Style) -> Vec<String> {
    let mut whole = all.flat_map(Summaries::filled).filter(|(metric, _)| !metric.info().part).peekable();
    match whole.peek() {
        Some(_) => latency_table(whole, "", false, style),
        None => Vec::new(),
    }
}

/// Likewise of any latencies; `has_p99_99`: with that percentile, for which the mean goes where there is no room.
pub(super) fn latency_table<'a>(
    all: impl Iterator<Item = (Metric, &'a LatencySummary)>,
    span: &str,
    has_p99_99: bool,
    style: Style,
) -> Vec<String> {
    let mut all = all.peekable();
    if all.peek().is_none() {
        return vec!["no latency was measured".into()];
    }
    let names: &[&str] = match has_p99_99 {
        true => &["p50", "p90", "p99", "p99.9", "p99.99"],
        false => &["p50", "p90", "p99", "p99.9"],
    };
    let mut table = Table::of(&format!("{span}<|mean|{}|max|samples", names.join("|")));
    table.drop = if has_p99_99 || !span.is_empty() { &[1] } else { &[] };
    // A live view has no line to spare.
    table.spaced = span.is_empty();
    for (metric, latency) in all {
        let mut row = vec![latency_name(metric), Nanos(latency.mean_ns).to_string()];
        row.extend(names.iter().map(|name| percentile(latency, name)));
        row.push(Nanos(latency.max_ns).to_string());
        row.push(count(latency.count));
        table.row(row);
    }
    table.latency_lines(style)
}

/// A latency's name in a table; a part of a whole is indented.
pub(super) fn latency_name(metric: Metric) -> String {
    let info = metric.info();
    format!("{}{}", if info.part { "  " } else { "" }, sanitise(info.name))
}

/// Outcome and cost of the operations and, with `has_reasons`, why some failed; behind the scenario's name, if given.
pub(super) fn account(name: Option<&str>, scenario: &ScenarioSummary, has_reasons: bool) -> Vec<String> {
    let counts = scenario.counts.iter().map(|(metric, number)| {
        let info = metric.info();
        match info.kind {
            MetricKind::Peak => peak(*metric, *number),
            _ => format!("{} {}", sanitise(info.name), with_own_unit(*number, info.unit)),
        }
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    let mut lines = vec![format!("{}{counts}", name.map_or_else(String::new, |name| format!("{}: ", called(name))))];
    let cpu = &scenario.cpu_us_each;
    // A server has other work, too.
    let whole = if scenario.role == ScenarioRole::Server { " (all its CPU meanwhile)" } else { "" };
    let sides = [(scenario.role.target(), cpu.broker, whole), ("bellows", cpu.client, "")];
    let cost = sides.into_iter().filter_map(|(who, us, whole)| {
        let one = sanitise(scenario.unit.trim_end_matches('s'));
        let cpu = Nanos::from_secs_f64(us? / 1e6);
        Some(format!("{who} {cpu} CPU per {one}{whole}"))
    });
    let cost = cost.collect::<Vec<_>>().join("; ");
    lines.extend((!cost.is_empty()).then_some(cost));
    if !has_reasons {
        return lines;
    }
    let more = scenario.failures.len().saturating_sub(REASONS);
    let failures = scenario.failures.iter().take(REASONS);
    lines.extend(failures.map(|it| format!("failed {}: {}", counted(it.count, "time"), sanitise(&it.reason))));
    lines.extend((more > 0).then(|| format!("and for {} more", counted(more as u64, "reason"))));
    lines
}
