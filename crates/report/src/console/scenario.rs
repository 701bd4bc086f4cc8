//! What is printed of scenarios other than messages: their counts and latencies, by the registry.

use std::collections::{BTreeMap, VecDeque};

use archive::{ScenarioPoint, ScenarioSummary, SeriesPoint};
use measure::{LatencySummary, Metric, MetricKind, Nanos, Summaries};

use super::table::{Align, FOOTNOTE, Table};
use super::text::{Style, sanitise, sparkline};
use crate::numbers::{bytes, count, counted, marked, per_second, three_digits};

/// Reasons of failures that are printed.
const REASONS: usize = 3;
/// Counters of a scenario that are shown where there is no room for all: begun, completed and failed.
const FIRST_COUNTERS: usize = 3;
/// The unit of counters that are no operations.
const BYTES: &str = "bytes";

/// The counts of a scenario of one kind: counters, or the largest values of intervals.
fn counts_of(
    counts: &BTreeMap<Metric, u64>,
    kind: MetricKind,
) -> impl Iterator<Item = (Metric, u64)> {
    let all = counts.iter().map(|(metric, count)| (*metric, *count));
    all.filter(move |(metric, _)| metric.info().kind == kind)
}

/// A scenario's name as people read it: `probe queues`.
pub(super) fn called(name: &str) -> String {
    sanitise(name).replace('_', " ")
}

/// Counters as rates, each with its unit, and the largest values.
pub(super) fn of_interval(point: &ScenarioPoint, seconds: f64) -> impl Iterator<Item = String> {
    let rates = counts_of(&point.counts, MetricKind::Counter).map(move |(metric, count)| {
        let info = metric.info();
        let rate = rate_with_unit(per_second(count, seconds), info.unit);
        format!("{} {rate}", sanitise(info.name))
    });
    let peaks = counts_of(&point.counts, MetricKind::Peak);
    let peaks = peaks.map(|(metric, most)| peak(metric, most));
    rates.chain(peaks)
}

/// `40.0 requests/s`, `1.20 MB/s`.
fn rate_with_unit(rate: f64, unit: &str) -> String {
    match unit {
        BYTES => format!("{}/s", bytes(rate as u64)),
        unit => format!("{} {}/s", three_digits(rate), sanitise(unit)),
    }
}

/// A number in a column whose heads say what is counted, but bytes, which have a unit of their own.
fn with_own_unit(number: u64, unit: &str) -> String {
    match unit {
        BYTES => bytes(number),
        _ => count(number),
    }
}

/// `in flight at most 12`.
fn peak(metric: Metric, most: u64) -> String {
    let info = metric.info();
    format!(
        "{} at most {}",
        sanitise(info.name),
        with_own_unit(most, info.unit)
    )
}

/// The scenarios of the last second, each with its measured phase so far, where that has begun.
fn with_measured<'a>(
    recent: &'a VecDeque<SeriesPoint>,
    measured: &'a BTreeMap<&str, ScenarioPoint>,
    seconds: f64,
) -> impl Iterator<Item = (&'a str, &'a ScenarioPoint, Option<&'a ScenarioPoint>)> {
    let last = recent.back().into_iter().flat_map(SeriesPoint::scenarios);
    last.map(move |(name, now)| (name, now, measured.get(name).filter(|_| seconds > 0.0)))
}

/// The rates and latencies of the live table, for all scenarios; before the measured phase there is only the last second to
/// look at.
pub(super) fn live(
    recent: &VecDeque<SeriesPoint>,
    measured: &BTreeMap<&str, ScenarioPoint>,
    seconds: f64,
    style: Style,
) -> Vec<String> {
    let mut out = Vec::new();
    for (name, now, whole) in with_measured(recent, measured, seconds) {
        out.extend(live_rates(name, now, recent, whole, seconds, style));
        out.push(String::new());
        let shown = &whole.unwrap_or(now).latency;
        out.extend(latencies(shown, span(whole.is_some()), style));
        out.push(String::new());
    }
    out
}

/// Each scenario's first counts, and one table of their first latencies.
pub(super) fn live_brief(
    recent: &VecDeque<SeriesPoint>,
    measured: &BTreeMap<&str, ScenarioPoint>,
    seconds: f64,
    style: Style,
) -> Vec<String> {
    let (mut out, mut first, mut is_measured) = (Vec::new(), Vec::new(), false);
    for (name, now, whole) in with_measured(recent, measured, seconds) {
        let rates = live_rates(name, now, recent, whole, seconds, style);
        // The heads stand above the counters, and the largest values below them.
        let peaks = counts_of(&now.counts, MetricKind::Peak).count();
        let (counters, peaks) = rates.split_at(rates.len().saturating_sub(peaks));
        let counters = counters.iter().take(1 + FIRST_COUNTERS);
        out.extend(counters.chain(peaks).cloned());
        out.push(String::new());
        is_measured = whole.is_some();
        first.extend(first_latency(&whole.unwrap_or(now).latency));
    }
    if !out.is_empty() {
        out.extend(latency_table(first.into_iter(), span(is_measured), style));
        out.push(String::new());
    }
    out
}

/// One table of all scenarios, a row each: its first latency, and how many of its operations failed.
pub(super) fn live_rows(
    recent: &VecDeque<SeriesPoint>,
    measured: &BTreeMap<&str, ScenarioPoint>,
    seconds: f64,
    style: Style,
) -> Vec<String> {
    use Align::{Left, Right};
    let mut all = with_measured(recent, measured, seconds).peekable();
    let Some((_, _, first)) = all.peek() else {
        return Vec::new();
    };
    let heads = ["     p50", "     p99", "     max", "  count", "failed"];
    let heads = heads.map(|head| (head, Right));
    let mut table = Table::new(&[&[(span(first.is_some()), Left)], &heads[..]].concat());
    let mut weak = false;
    for (name, now, whole) in all {
        let shown = whole.unwrap_or(now);
        let mut failed = counts_of(&shown.counts, MetricKind::Counter);
        let failed = failed.find(|(metric, _)| metric.name() == "failed");
        let failed = failed.map_or_else(|| "-".to_owned(), |(_, number)| count(number));
        let Some((metric, latency)) = first_latency(&shown.latency) else {
            let mut row = vec![called(name)];
            row.extend(std::iter::repeat_n("-".to_owned(), 4));
            row.push(failed);
            table.row(row);
            continue;
        };
        let mut cell = |ns: u64, percentile: f64| {
            weak |= !latency.supports(percentile);
            marked(ns, latency.supports(percentile))
        };
        table.row(vec![
            sanitise(metric.name()).into_owned(),
            cell(latency.p50_ns, 50.0),
            cell(latency.p99_ns, 99.0),
            Nanos(latency.max_ns).to_string(),
            count(latency.count),
            failed,
        ]);
    }
    let mut out = with_faint_heads(table.lines(style.columns), style);
    if weak {
        out.push(style.faint(FOOTNOTE));
    }
    out.push(String::new());
    out
}

/// The latency that a scenario is about: the first that is a whole.
fn first_latency(all: &Summaries) -> Option<(Metric, &LatencySummary)> {
    all.filled().find(|(metric, _)| !metric.info().part)
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
    let first = counts_of(&now.counts, MetricKind::Counter).next();
    let unit = first.map_or("", |(metric, _)| metric.info().unit);
    // Numbers that grow must not move the columns.
    let heads = [
        format!("{:12}", called(name)),
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
    let value = |point: &SeriesPoint, metric: Metric| {
        let counted = point.scenario(name).and_then(|it| it.counts.get(&metric));
        counted.copied().unwrap_or(0)
    };
    let of_measured = |metric: Metric| {
        let counted = measured.map(|measured| measured.counts.get(&metric));
        counted.map(|counted| counted.copied().unwrap_or(0))
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for (metric, _) in counts_of(&now.counts, MetricKind::Counter) {
        let unit = metric.info().unit;
        let rate = |point: &SeriesPoint| per_second(value(point, metric), point.dt);
        let shown = |rate: f64| match unit {
            BYTES => rate_with_unit(rate, unit),
            _ => three_digits(rate),
        };
        let number = of_measured(metric);
        table.row(vec![
            sanitise(metric.name()).into_owned(),
            shown(recent.back().map_or(0.0, rate)),
            or_dash(number.map(|number| shown(per_second(number, seconds)))),
            or_dash(number.map(|number| with_own_unit(number, unit))),
            sparkline(recent.iter().map(rate)),
        ]);
    }
    // A largest value is no rate: that of the last second, and that of all.
    for (metric, _) in counts_of(&now.counts, MetricKind::Peak) {
        let unit = metric.info().unit;
        let last = recent.back().map_or(0, |point| value(point, metric));
        let most = of_measured(metric);
        table.row(vec![
            format!("{}, most", sanitise(metric.name())),
            with_own_unit(last, unit),
            String::new(),
            or_dash(most.map(|most| with_own_unit(most, unit))),
            sparkline(recent.iter().map(|point| value(point, metric) as f64)),
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
    latency_table(all.filled(), span, style)
}

/// The table of whole operations of several scenarios; no lines where there is none.
pub(super) fn whole_latencies<'a>(
    all: impl Iterator<Item = &'a Summaries>,
    style: Style,
) -> Vec<String> {
    let filled = all.flat_map(Summaries::filled);
    let mut whole = filled.filter(|(metric, _)| !metric.info().part).peekable();
    match whole.peek() {
        Some(_) => latency_table(whole, "", style),
        None => Vec::new(),
    }
}

fn latency_table<'a>(
    all: impl Iterator<Item = (Metric, &'a LatencySummary)>,
    span: &str,
    style: Style,
) -> Vec<String> {
    let mut all = all.peekable();
    if all.peek().is_none() {
        return vec!["no latency was measured".into()];
    }
    let names = ["mean", "p50", "p90", "p99", "p99.9", "max", "count"];
    let names = names.map(|name| (name, Align::Right));
    let mut table = Table::new(&[&[(span, Align::Left)], &names[..]].concat());
    let mut weak = false;
    for (metric, latency) in all {
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

/// What became of the operations, what each cost, and, with `has_reasons`, why some failed; behind the scenario's name,
/// where one is given.
pub(super) fn account(
    name: Option<&str>,
    scenario: &ScenarioSummary,
    has_reasons: bool,
) -> Vec<String> {
    let counts = scenario.counts.iter().map(|(metric, number)| {
        let info = metric.info();
        match info.kind {
            MetricKind::Peak => peak(*metric, *number),
            _ => format!(
                "{} {}",
                sanitise(info.name),
                with_own_unit(*number, info.unit)
            ),
        }
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    let mut lines = vec![match name {
        Some(name) => format!("{}: {counts}", called(name)),
        None => counts,
    }];
    let cpu = &scenario.cpu_ms_each;
    // A probe alone loads any server.
    let loaded = match scenario.unit.as_str() {
        "requests" => "server",
        _ => "broker",
    };
    let cost: Vec<String> = [(loaded, cpu.broker), ("bellows", cpu.client)]
        .into_iter()
        .filter_map(|(who, ms)| {
            let one = scenario.unit.trim_end_matches('s');
            let cpu = Nanos::from_secs_f64(ms? / 1e3);
            // A server has other work, too.
            let whole = match who {
                "server" => "; all that it used meanwhile, divided by them",
                _ => "",
            };
            Some(format!("{who} {cpu} CPU per {}{whole}", sanitise(one)))
        })
        .collect();
    if !cost.is_empty() {
        lines.push(cost.join("; "));
    }
    if !has_reasons {
        return lines;
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
