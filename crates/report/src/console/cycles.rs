//! What is printed of churn: cycles in place of messages, steps in place of latencies.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use archive::{ChurnSummary, CyclePoint, RunSummary, SeriesPoint};
use measure::{CycleCounts, LatencySummary, Nanos, Phase, Step};

use super::text::{Style, fit, left, right, sanitise, sparkline};
use crate::numbers::{count, marked, per_second, three_digits};

type Steps = BTreeMap<Step, LatencySummary>;

/// Reasons of failures that are printed.
const REASONS: usize = 3;

/// The block of one interval in a pipe, ending in a newline.
pub(super) fn block(cycles: &CyclePoint, point: &SeriesPoint) -> String {
    let mut out = format!("--- warmup {}\n", point.phase == Phase::Warmup);
    let counts = cycles.counts;
    for (label, count) in [
        ("begun:", counts.begun),
        ("completed:", counts.completed),
        ("failed:", counts.failed),
    ] {
        let rate = per_second(count, point.dt);
        let _ = writeln!(out, "--- {label:<10} {rate:>8.0} cycles/sec");
    }
    for step in [Step::Open, Step::Cycle] {
        if let Some(latency) = cycles.steps.get(&step) {
            let [p50, _, p99, ..] = latency.percentile_values();
            let _ = writeln!(
                out,
                "--- {:<10} p50 {}, p99 {}, max {}",
                format!("{}:", step.name()),
                Nanos(p50),
                Nanos(p99),
                Nanos(latency.max_ns)
            );
        }
    }
    out
}

/// The rates of the live table.
pub(super) fn live_rates(
    recent: &VecDeque<SeriesPoint>,
    measured: Option<(&CyclePoint, f64)>,
    style: Style,
) -> Vec<String> {
    let head = format!(
        "{}{}{}{}  last seconds",
        left("", 13),
        right("cycles/s now", 14),
        right("measured", 12),
        right("count", 13)
    );
    let mut out = vec![style.faint(&fit(&head, style.columns))];
    type Pick = fn(&CycleCounts) -> u64;
    let rows: [(&str, Pick); 3] = [
        ("begun", |c| c.begun),
        ("completed", |c| c.completed),
        ("failed", |c| c.failed),
    ];
    for (name, pick) in rows {
        let rate = |point: &SeriesPoint| {
            let counts = point.cycles.as_ref().map(|cycles| cycles.counts);
            per_second(counts.map_or(0, |counts| pick(&counts)), point.dt)
        };
        let (mean, number) = measured.map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |(cycles, seconds)| {
                let number = pick(&cycles.counts);
                (three_digits(per_second(number, seconds)), count(number))
            },
        );
        let line = format!(
            "{}{}{}{}  {}",
            left(name, 13),
            right(&three_digits(recent.back().map_or(0.0, rate)), 14),
            right(&mean, 12),
            right(&number, 13),
            sparkline(recent.iter().map(rate))
        );
        out.push(fit(&line, style.columns).into_owned());
    }
    out
}

/// The table of steps, or one line that there is none.
pub(super) fn steps(steps: &Steps, style: Style) -> Vec<String> {
    if steps.is_empty() {
        return vec!["no cycle got through a step".into()];
    }
    let mut head = left("", 14);
    for name in ["mean", "p50", "p90", "p99", "p99.9", "max"] {
        head.push_str(&right(name, 10));
    }
    head.push_str(&right("count", 10));
    let mut out = vec![style.faint(&fit(&head, style.columns))];
    let mut weak = false;
    for (step, latency) in steps {
        let name = if step.is_whole() {
            step.name().to_owned()
        } else {
            format!("  {}", step.name())
        };
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

/// `198 connections/s of 200 asked for`.
pub(super) fn rate(churn: &ChurnSummary, summary: &RunSummary) -> String {
    let asked = summary.requested.as_ref().map_or_else(String::new, |it| {
        format!(" of {} asked for", three_digits(it.rate))
    });
    format!(
        "{} {}/s{asked}",
        three_digits(churn.rate),
        sanitise(&churn.kind)
    )
}

/// What became of the cycles, what each cost, and why some failed.
pub(super) fn account(churn: &ChurnSummary, summary: &RunSummary) -> Vec<String> {
    let counts = churn.counts;
    let mut lines = vec![format!(
        "completed {}, failed {}, begun late {}, not begun {}, at most {} at a time",
        count(counts.completed),
        count(counts.failed),
        count(counts.late),
        count(churn.not_begun),
        count(counts.under_way)
    )];
    let cpu = &churn.cpu_ms_per_cycle;
    let cost = [
        ("broker", cpu.broker, summary.rss_mb.broker),
        ("bellows", cpu.client, summary.rss_mb.client),
    ];
    let cost: Vec<String> = cost
        .into_iter()
        .filter_map(|(who, ms, mb)| {
            let memory = mb.map_or_else(String::new, |mb| {
                format!(", {} MB at most", three_digits(mb))
            });
            Some(format!(
                "{who} {} ms CPU per cycle{memory}",
                three_digits(ms?)
            ))
        })
        .collect();
    if !cost.is_empty() {
        lines.push(cost.join("; "));
    }
    let more = churn.failures.len().saturating_sub(REASONS);
    for failure in churn.failures.iter().take(REASONS) {
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
