//! What is printed of churn.

use measure::{LatencySummary, Nanos};
use serde::Serialize;

use super::Style;
use super::live::marked;
use super::text::{count, left, right, three_digits};

/// The figures of a churn run, in the units of the names; also the object for machines.
#[derive(Clone, Debug, Serialize)]
pub struct ChurnFigures {
    /// Name and version of the format.
    pub schema: &'static str,
    /// `connections`, `channels` or `queues`.
    pub kind: &'static str,
    /// Measured seconds.
    pub measured_s: f64,
    /// Cycles a second that were asked for; none: one after the other.
    pub requested_rate: Option<f64>,
    /// Cycles a second that ended in order.
    pub rate: f64,
    /// Cycles that were due and begun.
    pub begun: u64,
    /// Cycles that were due and found no room before the end.
    pub not_begun: u64,
    /// Cycles that ended in order.
    pub completed: u64,
    /// Cycles that did not.
    pub failed: u64,
    /// Cycles that began more than 1 ms after their time.
    pub late: u64,
    /// Why the first one failed.
    pub first_failure: Option<String>,
    /// From the time that a cycle was due until what it opens was open.
    pub open: LatencySummary,
    /// From the time that a cycle was due until it had ended.
    pub cycle: LatencySummary,
    /// What may be wrong with the numbers.
    pub warnings: Vec<String>,
}

impl ChurnFigures {
    /// Name and version of the object.
    pub const SCHEMA: &'static str = "bellows.churn/1";
}

/// The summary of churn, as text.
#[must_use]
pub fn churn(figures: &ChurnFigures, style: Style) -> String {
    let mut text = String::new();
    let mut line = |part: &str| {
        text.push_str(part);
        text.push('\n');
    };
    for warning in &figures.warnings {
        line(&style.caution(&format!("warning: {warning}")));
    }
    let asked = figures.requested_rate.map_or_else(String::new, |rate| {
        format!(" of {} asked for", three_digits(rate))
    });
    line(&style.strong(&format!(
        "{} {}/s{asked} for {}; open p99 {}",
        three_digits(figures.rate),
        figures.kind,
        Nanos::from_secs_f64(figures.measured_s),
        Nanos(figures.open.p99_ns),
    )));
    line(&format!(
        "completed {}, failed {}, begun late {}, not begun {}",
        count(figures.completed),
        count(figures.failed),
        count(figures.late),
        count(figures.not_begun),
    ));
    let names = LatencySummary::PERCENTILES.iter().map(|(_, name)| *name);
    let heads: String = std::iter::once("mean")
        .chain(names)
        .chain(["max"])
        .map(|head| right(head, 11))
        .collect();
    line(&style.faint(&format!("{}{heads}", left("", 8))));
    for (name, latency) in [("open", &figures.open), ("cycle", &figures.cycle)] {
        line(&format!("{}{}", left(name, 8), row(latency)));
    }
    if let Some(failure) = &figures.first_failure {
        line(&format!(
            "first failure: {}",
            super::text::sanitise(failure)
        ));
    }
    text
}

fn row(latency: &LatencySummary) -> String {
    let values = [
        latency.p50_ns,
        latency.p90_ns,
        latency.p99_ns,
        latency.p99_9_ns,
        latency.p99_99_ns,
    ];
    let percentiles = LatencySummary::PERCENTILES.iter().zip(values);
    let mut cells = vec![marked(latency.mean_ns, true)];
    cells.extend(percentiles.map(|((p, _), ns)| marked(ns, latency.supports(*p))));
    cells.push(marked(latency.max_ns, true));
    cells.iter().map(|cell| right(cell, 11)).collect()
}
