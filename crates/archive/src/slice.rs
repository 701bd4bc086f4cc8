//! `slices.jsonl`: one line per tenth of a second, for charts that show stalls of less than a second.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use measure::{Metric, MetricKind, Nanos, Phase, Slice, SliceHistogram};
use serde::{Deserialize, Deserializer, Serialize};
use stacks::{bounded, bounded::Line};

use crate::error::where_present;
use crate::{Error, file, series};

/// Bytes that a line may have; some thousand are usual.
const LONGEST_LINE: u64 = 1 << 18;
/// Cells that a latency can have: an hour lies below the 13th decade.
const MOST_CELLS: usize = 13 * SliceLatency::PER_DECADE as usize;

/// One line of `slices.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlicePoint {
    /// Start of the slice in seconds since the run's origin.
    pub t: f64,
    /// Measured length of the slice in seconds.
    pub dt: f64,
    /// The phase that all of it belongs to.
    pub phase: Phase,
    /// Messages, or operations of the first scenario, per second that the schedule requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_rate: Option<f64>,
    /// Messages sent.
    pub sent: u64,
    /// Messages acknowledged.
    pub completed: u64,
    /// Deliveries decoded.
    pub received: u64,
    /// Counts of other scenarios.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "series::counts")]
    pub counts: BTreeMap<Metric, u64>,
    /// Latencies of answers in the slice.
    #[serde(default, deserialize_with = "latencies")]
    pub latency: BTreeMap<Metric, SliceLatency>,
}

/// The latencies of one metric in a slice, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceLatency {
    /// Median of operations that were due in the slice's phase; 0 without any.
    #[serde(rename = "p50_ns")]
    pub median: u64,
    /// Its 99th percentile.
    #[serde(rename = "p99_ns")]
    pub p99: u64,
    /// Its highest value.
    #[serde(rename = "max_ns")]
    pub max: u64,
    /// The cell of the first of [`SliceLatency::counts`].
    pub low: u32,
    /// Latencies in each cell, of any phase; cell `c` begins at `10^(c / PER_DECADE)` nanoseconds.
    pub counts: Vec<u64>,
}

impl SliceLatency {
    /// Cells per decade of latency, 12 % wide each.
    pub const PER_DECADE: u32 = 20;

    /// The cell that holds a latency.
    fn cell(ns: u64) -> u32 {
        (((ns.max(1) as f64).log10() * f64::from(Self::PER_DECADE)).floor() as u32).min(MOST_CELLS as u32 - 1)
    }

    /// Counts more latencies of a cell.
    fn count(&mut self, cell: u32, count: u64) {
        if self.counts.is_empty() {
            self.low = cell;
        }
        if cell < self.low {
            let missing = (self.low - cell) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.low = cell;
        }
        let at = (cell - self.low) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        if let Some(sum) = self.counts.get_mut(at) {
            *sum = sum.saturating_add(count);
        }
    }

    /// Adds the cells of a histogram in one pass, and takes its percentiles where it is `of_phase`.
    fn add(&mut self, histogram: &SliceHistogram, of_phase: bool) {
        let whole = histogram.count();
        let (half, most) = (whole.div_ceil(2), whole - whole / 100);
        let mut seen = 0u64;
        for (Nanos(value), count) in histogram.iter() {
            let before = seen;
            seen = seen.saturating_add(count);
            if of_phase && before < half && seen >= half {
                self.median = value;
            }
            if of_phase && before < most && seen >= most {
                self.p99 = value;
            }
            if of_phase {
                self.max = value;
            }
            self.count(Self::cell(value), count);
        }
    }

    /// Adds the following slice's. Percentiles of both are read from the cells, to within 6 %.
    pub fn merge(&mut self, other: &Self) {
        for (cell, count) in (other.low..).zip(&other.counts) {
            if *count > 0 {
                self.count(cell, *count);
            }
        }
        self.max = self.max.max(other.max);
        self.median = self.percentile(|whole| whole.div_ceil(2));
        self.p99 = self.percentile(|whole| whole - whole / 100);
    }

    /// The middle of the cell that holds the latency of this rank.
    fn percentile(&self, rank: impl Fn(u64) -> u64) -> u64 {
        let whole = self.counts.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
        let rank = rank(whole);
        let mut seen = 0u64;
        for (cell, count) in (self.low..).zip(&self.counts) {
            seen = seen.saturating_add(*count);
            if seen >= rank && *count > 0 {
                let middle = 10f64.powf((f64::from(cell) + 0.5) / f64::from(Self::PER_DECADE));
                return (middle as u64).min(self.max);
            }
        }
        0
    }
}

impl SlicePoint {
    /// Figures of a slice; `t` is its start in seconds since the run's origin.
    pub fn of(slice: &Slice, t: f64, requested_rate: Option<f64>) -> Self {
        let mut latency: BTreeMap<Metric, SliceLatency> = BTreeMap::new();
        for it in slice.histograms() {
            latency.entry(it.metric).or_default().add(it.histogram, it.due == slice.phase.due());
        }
        Self {
            t,
            dt: slice.length().as_secs_f64(),
            phase: slice.phase,
            requested_rate,
            sent: slice.counters.sent,
            completed: slice.counters.completed,
            received: slice.counters.received,
            counts: slice.counts.iter().collect(),
            latency,
        }
    }
}

/// Reads the latencies of metrics whose keys can be such, with cells that a latency can have.
fn latencies<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Metric, SliceLatency>, D::Error> {
    let all = BTreeMap::<String, SliceLatency>::deserialize(deserializer)?;
    let known = all.into_iter().filter_map(|(key, latency)| {
        let fits = (latency.low as usize).saturating_add(latency.counts.len()) <= MOST_CELLS;
        let metric = Metric::named(&key, MetricKind::Histogram)?;
        fits.then_some((metric, latency))
    });
    Ok(known.collect())
}

/// Reads the slices of a run one by one, in the same memory for hours as for seconds. Bad lines are skipped.
#[derive(Debug)]
pub struct SliceLog {
    lines: Option<BufReader<File>>,
    line: Vec<u8>,
    left_out: Vec<Metric>,
}

impl SliceLog {
    /// Opens the slices of a run folder, to read all but these latencies; a missing file is empty.
    pub(crate) fn open(dir: &Path, left_out: Vec<Metric>) -> Result<Self, Error> {
        let path = dir.join(file::SLICES);
        let lines = where_present(bounded::open(&path), &path)?.map(BufReader::new);
        Ok(Self { lines, line: Vec::new(), left_out })
    }
}

impl Iterator for SliceLog {
    type Item = SlicePoint;

    fn next(&mut self) -> Option<SlicePoint> {
        loop {
            let lines = self.lines.as_mut()?;
            match bounded::next_line(lines, LONGEST_LINE, &mut self.line) {
                Ok(Line::Whole | Line::CutOff) => {}
                Ok(Line::None | Line::TooLong) | Err(_) => {
                    self.lines = None;
                    return None;
                }
            }
            let point = serde_json::from_slice(&self.line);
            let is_time = |point: &SlicePoint| point.t.is_finite() && point.dt > 0.0;
            if let Some(mut point) = point.ok().filter(is_time) {
                point.latency.retain(|metric, _| !self.left_out.contains(metric));
                return Some(point);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::{Nanos, Time};

    use super::*;

    fn slice(values_us: impl IntoIterator<Item = u64>) -> SlicePoint {
        let mut slice = Slice::default();
        slice.reset(Time(5_000_000_000), Phase::Measure);
        slice.end = slice.start + Nanos::from_millis(100);
        for us in values_us {
            let latencies = &mut slice.latencies;
            latencies.record(Metric::SEND_ACK, Nanos::from_micros(us));
        }
        SlicePoint::of(&slice, 1.5, Some(10.0))
    }

    fn latency(point: &SlicePoint) -> &SliceLatency {
        point.latency.get(&Metric::SEND_ACK).expect("latencies")
    }

    #[test]
    fn a_slice_keeps_every_count_and_exact_percentiles() {
        let point = slice(1..=1_000);
        let latency = latency(&point);
        assert_eq!(latency.counts.iter().sum::<u64>(), 1_000);
        for (found, expected) in [(latency.median, 500_000), (latency.p99, 990_000), (latency.max, 1_000_000u64)] {
            assert!(found.abs_diff(expected) * 1_000 <= expected, "{found}");
        }
        assert_eq!(latency.low, 60, "1 us is three decades above 1 ns");
        let line = serde_json::to_string(&point).expect("JSON");
        assert_eq!(serde_json::from_str::<SlicePoint>(&line).expect("a line"), point);
    }

    #[test]
    fn percentiles_of_merged_slices_are_read_from_the_cells() {
        let (first, second) = (slice(1..=500), slice(501..=1_000));
        for (a, b) in [(&first, &second), (&second, &first)] {
            let mut merged = latency(a).clone();
            merged.merge(latency(b));
            assert_eq!(merged.counts.iter().sum::<u64>(), 1_000);
            assert_eq!(merged.max, latency(&second).max);
            for (found, expected) in [(merged.median, 500_000f64), (merged.p99, 990_000.0)] {
                assert!((found as f64 / expected).ln().abs() < 0.07, "{found}");
            }
        }
    }

    #[test]
    fn what_was_due_in_the_warm_up_counts_in_the_cells_alone() {
        let mut slice = Slice::default();
        slice.reset(Time(5_000_000_000), Phase::Measure);
        slice.set_due(slice.start, Time(u64::MAX));
        for (due, ms) in [(4_000_000_000, 1_000), (5_000_000_000, 1)] {
            let latencies = slice.due(Time(due));
            latencies.record(Metric::ACK_RESPONSE, Nanos::from_millis(ms));
        }
        let point = SlicePoint::of(&slice, 0.0, None);
        let latency = point.latency.get(&Metric::ACK_RESPONSE).expect("both");
        assert_eq!(latency.counts.iter().sum::<u64>(), 2);
        assert!(latency.max < 1_100_000, "{latency:?}");
    }

    #[test]
    fn hostile_cells_are_left_out() {
        for cells in [r#""low":4000000000,"counts":[1]"#, r#""low":259,"counts":[1,1]"#] {
            let line = format!(
                r#"{{"t":0,"dt":0.1,"phase":"measure","sent":0,"completed":0,"received":0,
                "latency":{{"send_ack":{{"p50_ns":1,"p99_ns":1,"max_ns":1,{cells}}}}}}}"#
            );
            let point: SlicePoint = serde_json::from_str(&line).expect("a slice");
            assert!(point.latency.is_empty(), "{cells}");
        }
    }
}
