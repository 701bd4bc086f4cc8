//! The series as columns: what the panels on the time axis draw.

use archive::SeriesPoint;
use std::collections::BTreeMap;

use measure::{CycleCounts, LatencySummary, Measured, Metric, Nanos, Step, Waits};
use serde::Serialize;

/// One entry per interval in each column; `None` where something could not be had.
#[derive(Debug, Serialize)]
pub(super) struct Columns {
    t: Vec<f64>,
    dt: Vec<f64>,
    requested: Vec<Option<f64>>,
    sent: Vec<f64>,
    completed: Vec<f64>,
    received: Vec<f64>,
    blocked: Vec<f64>,
    lag_ms: Vec<f64>,
    broker_cores: Vec<Option<f64>>,
    client_cores: Vec<Option<f64>>,
    broker_mb: Vec<Option<f64>>,
    client_mb: Vec<Option<f64>>,
    steal: Vec<Option<f64>>,
    waits: Waiting,
    /// Of each metric, and of each step that cycles took.
    latency: BTreeMap<Measured, Percentiles>,
    /// Where there are cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    cycles: Option<CycleColumns>,
}

/// Cycles of churn per second, how many were under way, and the mean of each step in nanoseconds.
#[derive(Debug, Serialize)]
struct CycleColumns {
    begun: Vec<f64>,
    completed: Vec<f64>,
    failed: Vec<f64>,
    under_way: Vec<u64>,
    mean_ns: BTreeMap<Step, Vec<Option<u64>>>,
}

/// Shares of the producers' time; `None` where there were none. `working` is the share of the event
/// loops' time that they were at work.
#[derive(Debug, Serialize)]
struct Waiting {
    ready: Vec<Option<f64>>,
    schedule: Vec<Option<f64>>,
    budget: Vec<Option<f64>>,
    socket: Vec<Option<f64>>,
    blocked: Vec<Option<f64>>,
    away: Vec<Option<f64>>,
    working: Vec<Option<f64>>,
}

/// Nanoseconds per interval; `None` where nothing was recorded in it.
#[derive(Debug, Serialize)]
struct Percentiles {
    p50: Vec<Option<u64>>,
    p99: Vec<Option<u64>>,
    max: Vec<Option<u64>>,
}

/// Keeps four significant digits after the point at most: the page never prints more, and every
/// digit costs space.
pub(super) fn short(value: f64) -> f64 {
    if value.is_finite() {
        (value * 1e4).round() / 1e4
    } else {
        0.0
    }
}

impl Columns {
    /// The columns of a series in the order of time.
    pub(super) fn of(points: &[SeriesPoint]) -> Self {
        let every = |get: fn(&SeriesPoint) -> f64| points.iter().map(get).map(short).collect();
        let maybe = |get: fn(&SeriesPoint) -> Option<f64>| {
            points.iter().map(|p| get(p).map(short)).collect()
        };
        Self {
            t: every(|p| p.t),
            dt: every(|p| p.dt),
            requested: maybe(|p| p.requested_rate),
            sent: every(|p| rate(p, p.counters.sent)),
            completed: every(|p| rate(p, p.counters.completed)),
            received: every(|p| rate(p, p.counters.received)),
            blocked: every(|p| rate(p, p.counters.blocked)),
            lag_ms: every(|p| p.loop_lag_max_ns as f64 / 1e6),
            broker_cores: maybe(|p| p.broker.map(|u| u.cpu_cores)),
            client_cores: maybe(|p| p.client.map(|u| u.cpu_cores)),
            broker_mb: maybe(|p| p.broker.map(|u| u.rss_bytes as f64 / 1e6)),
            client_mb: maybe(|p| p.client.map(|u| u.rss_bytes as f64 / 1e6)),
            steal: maybe(|p| p.steal),
            waits: Waiting::of(points),
            latency: measured(points)
                .map(|measured| (measured, Percentiles::of(points, measured)))
                .collect(),
            cycles: CycleColumns::of(points),
        }
    }
}

impl Waiting {
    fn of(points: &[SeriesPoint]) -> Self {
        let column = |part: fn(&Waits) -> Nanos, whole: fn(&Waits) -> Nanos| {
            let share = |p: &SeriesPoint| {
                let whole = whole(&p.waits).0;
                (whole > 0).then(|| short(part(&p.waits).0 as f64 / whole as f64))
            };
            points.iter().map(share).collect()
        };
        let producers = |part| column(part, Waits::producing);
        Self {
            ready: producers(|w| w.ready),
            schedule: producers(|w| w.schedule),
            budget: producers(|w| w.budget),
            socket: producers(|w| w.socket),
            blocked: producers(|w| w.blocked),
            away: producers(|w| w.away),
            working: column(|w| w.loop_time.saturating_sub(w.loop_idle), |w| w.loop_time),
        }
    }
}

impl Percentiles {
    fn of(points: &[SeriesPoint], measured: Measured) -> Self {
        let column = |get: fn(&LatencySummary) -> u64| {
            let summaries = points.iter().map(|p| summary(p, measured));
            summaries.map(|l| l.map(get)).collect()
        };
        Self {
            p50: column(|l| l.p50_ns),
            p99: column(|l| l.p99_ns),
            max: column(|l| l.max_ns),
        }
    }
}

/// All metrics, and the steps that were taken.
fn measured(points: &[SeriesPoint]) -> impl Iterator<Item = Measured> {
    let metrics = Metric::ALL.into_iter().map(Measured::Message);
    metrics.chain(steps(points).map(Measured::Cycle))
}

fn steps(points: &[SeriesPoint]) -> impl Iterator<Item = Step> {
    let taken = |step: &Step| {
        points
            .iter()
            .any(|p| summary(p, Measured::Cycle(*step)).is_some())
    };
    Step::ALL.into_iter().filter(taken)
}

/// What one interval recorded; `None` where that is nothing.
fn summary(point: &SeriesPoint, measured: Measured) -> Option<&LatencySummary> {
    let summary = match measured {
        Measured::Message(metric) => point.latency.get(metric),
        Measured::Cycle(step) => point.cycles.as_ref()?.steps.get(&step)?,
    };
    (summary.count > 0).then_some(summary)
}

impl CycleColumns {
    fn of(points: &[SeriesPoint]) -> Option<Self> {
        points.iter().find(|p| p.cycles.is_some())?;
        let counts = |p: &SeriesPoint| {
            let cycles = p.cycles.as_ref();
            cycles.map_or_else(CycleCounts::default, |cycles| cycles.counts)
        };
        let rates = |get: fn(CycleCounts) -> u64| {
            points
                .iter()
                .map(|p| short(rate(p, get(counts(p)))))
                .collect()
        };
        Some(Self {
            begun: rates(|c| c.begun),
            completed: rates(|c| c.completed),
            failed: rates(|c| c.failed),
            under_way: points.iter().map(|p| counts(p).under_way).collect(),
            mean_ns: steps(points)
                .map(|step| {
                    let means = points.iter().map(|p| summary(p, Measured::Cycle(step)));
                    (step, means.map(|l| l.map(|l| l.mean_ns)).collect())
                })
                .collect(),
        })
    }
}

/// Messages per second by the interval's measured length.
pub(super) fn rate(point: &SeriesPoint, count: u64) -> f64 {
    if point.dt > 0.0 {
        count as f64 / point.dt
    } else {
        0.0
    }
}
