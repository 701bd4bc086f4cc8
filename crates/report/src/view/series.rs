//! The series as columns, for the charts over time.

use std::collections::{BTreeMap, BTreeSet};

use archive::SeriesPoint;
use measure::{LatencySummary, Metric, MetricKind, Nanos, Waits};
use serde::Serialize;

use crate::numbers::per_second;

/// The series: one entry per interval in each column; `null` where something could not be had.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SeriesColumns {
    /// Start of each interval in seconds since the origin.
    pub t: Vec<f64>,
    /// Measured length of each in seconds.
    pub dt: Vec<f64>,
    /// Messages, or cycles, per second that were requested.
    pub requested: Vec<Option<f64>>,
    /// Messages per second sent.
    pub sent: Vec<f64>,
    /// Messages per second acknowledged.
    pub completed: Vec<f64>,
    /// Messages per second received.
    pub received: Vec<f64>,
    /// Messages per second that found the in-flight window full.
    pub blocked: Vec<f64>,
    /// The worst lag of an event loop, milliseconds.
    pub lag_ms: Vec<f64>,
    /// CPU of the broker's processes.
    pub broker_cores: Vec<Option<f64>>,
    /// CPU of bellows.
    pub client_cores: Vec<Option<f64>>,
    /// Resident memory of the broker's processes, 10^6 bytes.
    pub broker_mb: Vec<Option<f64>>,
    /// Resident memory of bellows, 10^6 bytes.
    pub client_mb: Vec<Option<f64>>,
    /// Share of the machine's time that its hypervisor took.
    pub steal: Vec<Option<f64>>,
    /// Waits of producers.
    pub waits: WaitShares,
    /// Latencies of each metric.
    pub latency: BTreeMap<Metric, Percentiles>,
    /// Counts of scenarios other than messages: per second for counters, as they are for peaks.
    pub counts: BTreeMap<Metric, Vec<Option<f64>>>,
}

/// Waits of producers, as shares of their time; `null` without producers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WaitShares {
    /// Waits for the event loop: a message was due and could go.
    pub ready: Vec<Option<f64>>,
    /// Waits for the time of the next message.
    pub schedule: Vec<Option<f64>>,
    /// Waits for answers: the in-flight window was full.
    pub budget: Vec<Option<f64>>,
    /// Waits for credit, which the broker gives.
    pub credit: Vec<Option<f64>>,
    /// Waits for the socket, which took no more bytes.
    pub socket: Vec<Option<f64>>,
    /// Waits for the broker, which had blocked the connection.
    pub blocked: Vec<Option<f64>>,
    /// Waits for a connection.
    pub away: Vec<Option<f64>>,
    /// Share of the event loops' time that they were at work.
    pub working: Vec<Option<f64>>,
}

/// Percentiles in nanoseconds, per interval; `null` where nothing was recorded in it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Percentiles {
    /// The median.
    pub p50: Vec<Option<u64>>,
    /// The 99th percentile.
    pub p99: Vec<Option<u64>>,
    /// The highest value.
    pub max: Vec<Option<u64>>,
    /// The mean, of a part: means of parts add up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub mean: Option<Vec<Option<u64>>>,
}

/// Keeps four significant digits after the point at most: the page never prints more, and every digit costs space.
pub(super) fn short(value: f64) -> f64 {
    if value.is_finite() { (value * 1e4).round() / 1e4 } else { 0.0 }
}

impl SeriesColumns {
    /// All metrics of the series, in the order in which they are shown.
    pub(super) fn metrics(&self) -> impl Iterator<Item = Metric> {
        let (latency, counts) = (self.latency.keys(), self.counts.keys());
        latency.chain(counts).copied()
    }

    /// The columns of a series in the order of time.
    pub(super) fn of(points: &[SeriesPoint]) -> Self {
        let every = |get: fn(&SeriesPoint) -> f64| points.iter().map(get).map(short).collect();
        let maybe = |get: fn(&SeriesPoint) -> Option<f64>| points.iter().map(|p| get(p).map(short)).collect();
        Self {
            t: every(|p| p.t),
            dt: every(|p| p.dt),
            requested: maybe(|p| p.requested_rate),
            sent: every(|p| per_second(p.counters.sent, p.dt)),
            completed: every(|p| per_second(p.counters.completed, p.dt)),
            received: every(|p| per_second(p.counters.received, p.dt)),
            blocked: every(|p| per_second(p.counters.blocked, p.dt)),
            lag_ms: every(|p| p.loop_lag_max_ns as f64 / 1e6),
            broker_cores: maybe(|p| p.broker.map(|u| u.cpu_cores)),
            client_cores: maybe(|p| p.client.map(|u| u.cpu_cores)),
            // One that was killed has none.
            broker_mb: maybe(|p| {
                let there = p.broker.filter(|u| u.rss_bytes > 0)?;
                Some(there.rss_bytes as f64 / 1e6)
            }),
            client_mb: maybe(|p| p.client.map(|u| u.rss_bytes as f64 / 1e6)),
            steal: maybe(|p| p.steal),
            waits: WaitShares::of(points),
            latency: latencies(points).map(|metric| (metric, Percentiles::of(points, metric))).collect(),
            counts: counters(points).map(|metric| (metric, counts(points, metric))).collect(),
        }
    }
}

impl WaitShares {
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
            credit: producers(|w| w.credit),
            socket: producers(|w| w.socket),
            blocked: producers(|w| w.blocked),
            away: producers(|w| w.away),
            working: column(|w| w.loop_time.saturating_sub(w.loop_idle), |w| w.loop_time),
        }
    }
}

impl Percentiles {
    fn of(points: &[SeriesPoint], metric: Metric) -> Self {
        let column = |get: fn(&LatencySummary) -> u64| {
            let summaries = points.iter().map(|p| summary(p, metric));
            summaries.map(|l| l.map(get)).collect()
        };
        Self {
            p50: column(|l| l.p50_ns),
            p99: column(|l| l.p99_ns),
            max: column(|l| l.max_ns),
            mean: metric.info().part.then(|| column(|l| l.mean_ns)),
        }
    }
}

/// The latencies of messages, and those that other scenarios recorded.
fn latencies(points: &[SeriesPoint]) -> impl Iterator<Item = Metric> {
    let scenarios = points.iter().flat_map(SeriesPoint::scenarios);
    let recorded = scenarios.flat_map(|(_, point)| point.latency.filled());
    let recorded: BTreeSet<Metric> = recorded.map(|(metric, _)| metric).collect();
    Metric::MESSAGES.into_iter().chain(recorded)
}

/// Metrics of other scenarios' counts.
fn counters(points: &[SeriesPoint]) -> impl Iterator<Item = Metric> {
    let scenarios = points.iter().flat_map(SeriesPoint::scenarios);
    let counted = scenarios.flat_map(|(_, point)| point.counts.keys());
    counted.copied().collect::<BTreeSet<Metric>>().into_iter()
}

/// Latencies of one interval; `None` where it recorded none.
fn summary(point: &SeriesPoint, metric: Metric) -> Option<&LatencySummary> {
    let mut all = point.latencies();
    all.find_map(|latency| Some(latency.get(metric)).filter(|summary| summary.count > 0))
}

/// A count for a chart: per second, but for the largest values of intervals.
pub(super) fn of_interval(metric: Metric, count: u64, seconds: f64) -> f64 {
    match metric.info().kind {
        MetricKind::Peak => count as f64,
        MetricKind::Histogram | MetricKind::Counter => short(per_second(count, seconds)),
    }
}

fn counts(points: &[SeriesPoint], metric: Metric) -> Vec<Option<f64>> {
    let value = |point: &SeriesPoint| {
        let mut scenarios = point.scenarios();
        let count = *scenarios.find_map(|(_, it)| it.counts.get(&metric))?;
        Some(of_interval(metric, count, point.dt))
    };
    points.iter().map(value).collect()
}
