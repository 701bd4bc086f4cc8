//! The series in tenths of a second: rates and heat maps in which a stall of a fifth of a second shows.

use std::collections::{BTreeMap, BTreeSet};

use archive::{RunReader, SliceLatency, SlicePoint};
use measure::{Metric, MetricKind, Problem};
use serde::Serialize;

use super::distributions::put_cells;
use super::series::{Percentiles, of_interval, short};
use crate::numbers::per_second;

/// Slices that the page holds. A run of more than ten minutes has them merged: of twice the length, as often as needed.
const MOST: usize = 6_000;
/// Recorded length of a slice, seconds.
const LENGTH: f64 = 0.1;
/// Merged to this length they add nothing to the series: a run of over 100 minutes has none.
const LONGEST: f64 = 1.0;
/// Shorter ones hold too few messages for a rate, and join the one before; in as short a phase latencies stand alone.
const SHORTEST: f64 = 0.05;

/// The series in slices: one entry per slice in each column.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SliceColumns {
    /// Start of each slice in seconds since the origin.
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
    /// Latencies of each metric.
    pub latency: BTreeMap<Metric, Percentiles>,
    /// Counts of scenarios other than messages, as [`super::SeriesColumns::counts`].
    pub counts: BTreeMap<Metric, Vec<Option<f64>>>,
    /// Latencies by time for each metric; their cells travel behind those of [`super::RunView::grids`].
    pub grids: Vec<SliceGrid>,
}

/// Counts by slice and by logarithm of the latency, as [`super::LatencyGrid`] with the times of the slices.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SliceGrid {
    /// Metric of the cells.
    pub metric: Metric,
    /// The lowest bucket; bucket `b` begins at `10^(b / per_decade)` nanoseconds.
    pub low: u32,
    /// Buckets per decade of latency.
    pub per_decade: u32,
    /// Number of cells.
    pub cells: usize,
}

/// Reads the slices of a run, and appends the cells of their grids; `None` where there are none, or where the
/// run is so long that merged ones would be no finer than the series. Fails where there are some that cannot be read.
pub(super) fn read(run: &RunReader, cells: &mut Vec<u8>) -> Result<Option<SliceColumns>, Problem> {
    let mut merged = Merged::new();
    for point in run.slices()? {
        if !merged.add(point, MOST) {
            return Ok(None);
        }
    }
    let points = merged.points;
    Ok((!points.is_empty()).then(|| SliceColumns::of(&points, cells)))
}

/// Slices in the order of time, merged where they are too many.
struct Merged {
    points: Vec<SlicePoint>,
    /// The length of a slice, seconds.
    length: f64,
}

impl Merged {
    const fn new() -> Self {
        Self { points: Vec::new(), length: LENGTH }
    }

    /// Takes the next slice; `false` where all would have to be merged to a second.
    fn add(&mut self, point: SlicePoint, most: usize) -> bool {
        self.push(point);
        if self.points.len() <= most {
            return true;
        }
        self.length *= 2.0;
        if self.length >= LONGEST {
            return false;
        }
        for point in std::mem::take(&mut self.points) {
            self.push(point);
        }
        true
    }

    fn push(&mut self, point: SlicePoint) {
        let Some(last) = self.points.last_mut() else {
            self.points.push(point);
            return;
        };
        let together = point.t + point.dt - last.t;
        if last.phase != point.phase && point.dt < SHORTEST {
            merge_latencies(last, &point);
            return;
        }
        let joins = together <= self.length * 1.01 || point.dt < SHORTEST;
        // Time never goes back.
        if (last.phase == point.phase && joins) || point.t < last.t + last.dt / 2.0 {
            merge(last, &point);
        } else {
            self.points.push(point);
        }
    }
}

/// Adds the following slice.
fn merge(into: &mut SlicePoint, next: &SlicePoint) {
    let amount = |point: &SlicePoint| point.requested_rate.map(|rate| rate * point.dt);
    let requested = match (amount(into), amount(next)) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
    };
    into.dt = into.dt.max(next.t + next.dt - into.t);
    into.requested_rate = requested.map(|amount| amount / into.dt);
    into.sent = into.sent.saturating_add(next.sent);
    into.completed = into.completed.saturating_add(next.completed);
    into.received = into.received.saturating_add(next.received);
    for (metric, count) in &next.counts {
        let sum = into.counts.entry(*metric).or_default();
        *sum = match metric.info().kind {
            MetricKind::Peak => (*sum).max(*count),
            MetricKind::Histogram | MetricKind::Counter => sum.saturating_add(*count),
        };
    }
    merge_latencies(into, next);
}

fn merge_latencies(into: &mut SlicePoint, next: &SlicePoint) {
    for (metric, latency) in &next.latency {
        into.latency.entry(*metric).or_default().merge(latency);
    }
}

impl SliceColumns {
    fn of(points: &[SlicePoint], cells: &mut Vec<u8>) -> Self {
        let every = |get: fn(&SlicePoint) -> f64| points.iter().map(get).map(short).collect();
        let recorded: BTreeSet<Metric> = points.iter().flat_map(|p| p.latency.keys().copied()).collect();
        let counted: BTreeSet<Metric> = points.iter().flat_map(|p| p.counts.keys().copied()).collect();
        let requested = points.iter().map(|p| p.requested_rate.map(short));
        Self {
            t: every(|p| p.t),
            dt: every(|p| p.dt),
            requested: requested.collect(),
            sent: every(|p| per_second(p.sent, p.dt)),
            completed: every(|p| per_second(p.completed, p.dt)),
            received: every(|p| per_second(p.received, p.dt)),
            latency: recorded.iter().map(|metric| (*metric, percentiles(points, *metric))).collect(),
            counts: counted.into_iter().map(|metric| (metric, counts(points, metric))).collect(),
            grids: recorded.into_iter().filter_map(|metric| grid(points, metric, cells)).collect(),
        }
    }
}

fn percentiles(points: &[SlicePoint], metric: Metric) -> Percentiles {
    let column = |get: fn(&SliceLatency) -> u64| {
        let latencies = points.iter().map(|point| point.latency.get(&metric));
        // Of what was due in the phase there may be nothing.
        let known = |latency: &SliceLatency| (latency.max > 0).then(|| get(latency));
        latencies.map(|latency| latency.and_then(known)).collect()
    };
    Percentiles { p50: column(|l| l.median), p99: column(|l| l.p99), max: column(|l| l.max), mean: None }
}

fn counts(points: &[SlicePoint], metric: Metric) -> Vec<Option<f64>> {
    let value = |point: &SlicePoint| {
        let count = point.counts.get(&metric)?;
        Some(of_interval(metric, *count, point.dt))
    };
    points.iter().map(value).collect()
}

fn grid(points: &[SlicePoint], metric: Metric, out: &mut Vec<u8>) -> Option<SliceGrid> {
    let mut cells = BTreeMap::new();
    for (column, point) in points.iter().enumerate() {
        let Some(latency) = point.latency.get(&metric) else { continue };
        for (bucket, count) in (latency.low..).zip(&latency.counts) {
            if *count > 0 {
                cells.insert((column, bucket), *count);
            }
        }
    }
    let low = put_cells(&cells, out)?;
    Some(SliceGrid { metric, low, per_decade: SliceLatency::PER_DECADE, cells: cells.len() })
}

#[cfg(test)]
mod tests {
    use measure::Phase;

    use super::*;

    fn slice(number: u32, sent: u64) -> SlicePoint {
        let latency = SliceLatency { median: 1_000, p99: 1_000, max: 1_000, low: 60, counts: vec![sent] };
        let (t, phase, requested_rate) = (f64::from(number) * LENGTH, Phase::Measure, Some(100.0));
        let (counts, latency) = (BTreeMap::new(), [(Metric::SEND_ACK, latency)].into());
        SlicePoint { t, dt: LENGTH, phase, requested_rate, sent, completed: sent, received: 0, counts, latency }
    }

    fn read(points: impl IntoIterator<Item = SlicePoint>, most: usize) -> Option<Vec<SlicePoint>> {
        let mut merged = Merged::new();
        let mut points = points.into_iter();
        points.all(|point| merged.add(point, most)).then_some(merged.points)
    }

    #[test]
    fn slices_are_merged_to_twice_their_length_until_there_is_room() {
        for (count, length) in [(100, 0.1), (150, 0.2), (400, 0.4), (800, 0.8)] {
            let points = read((0..count).map(|i| slice(i, u64::from(i))), 100).expect("room");
            assert!(points.len() <= 100);
            let longest = points.iter().map(|p| p.dt).fold(0.0, f64::max);
            assert!((longest - length).abs() < 1e-6, "{count}: {longest}");
            let sent = points.iter().map(|p| p.sent).sum::<u64>();
            assert_eq!(sent, u64::from(count * (count - 1) / 2));
            assert_eq!(points.iter().flat_map(|p| &p.latency[&Metric::SEND_ACK].counts).sum::<u64>(), sent);
            let asked = points.iter().filter_map(|p| p.requested_rate);
            assert!(asked.into_iter().all(|rate| (rate - 100.0).abs() < 1e-6));
        }
        assert!(read((0..900).map(|i| slice(i, 1)), 100).is_none());
    }

    #[test]
    fn what_is_too_short_for_a_rate_makes_none_and_a_gap_between_slices_stays_a_gap() {
        let mut edge = slice(2, 50);
        (edge.dt, edge.phase) = (0.001, Phase::Drain);
        let points = read([slice(0, 1), slice(1, 1), edge], 100).expect("room");
        let columns = SliceColumns::of(&points, &mut Vec::new());
        assert_eq!(columns.sent, [10.0, 10.0], "the drain's are none of the phase's");
        let mut end = slice(2, 5);
        end.dt = 0.02;
        let points = read([slice(0, 1), slice(1, 1), end], 100).expect("room");
        let columns = SliceColumns::of(&points, &mut Vec::new());
        assert_eq!(columns.sent, [10.0, 50.0], "{columns:?}");
        let mut points = read([slice(0, 1), slice(1, 0), slice(2, 0), slice(3, 1)], 100).expect("room");
        for silent in &mut points[1..3] {
            silent.latency.clear();
        }
        let mut cells = Vec::new();
        let columns = SliceColumns::of(&points, &mut cells);
        assert_eq!(columns.sent, [10.0, 0.0, 0.0, 10.0]);
        let p99 = &columns.latency[&Metric::SEND_ACK].p99;
        assert_eq!(p99, &[Some(1_000), None, None, Some(1_000)]);
        // Columns as distances, buckets from the lowest, counts.
        assert_eq!(cells, [0, 3, 0, 0, 1, 1]);
    }
}
