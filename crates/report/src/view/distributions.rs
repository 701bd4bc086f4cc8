//! Latencies by time and percentile curves, which need whole histograms.

use std::collections::BTreeMap;

use archive::{HistogramRecord, RunReader};
use hdrhistogram::Histogram;
use measure::{Metric, Phase, Problem, Recorder};
use serde::Serialize;

use super::put;
use super::series::short;

/// Buckets per decade of latency, 1.2 % wide each, for percentiles of a window.
const PER_DECADE: u32 = 200;
/// More columns than the panel has pixels would be drawn over each other.
const MOST_COLUMNS: f64 = 600.0;
/// Shorter intervals, in seconds, join the column before: counts are per second, times kept to 0.1 ms.
const SHORTEST_COLUMN: f64 = 0.001;
/// Points of a curve are dropped where both axes move less than this: nines, and the logarithm of the latency.
const LEAST_NINES: f64 = 0.02;
const LEAST_RATIO: f64 = 0.01;

/// Counts by time and by logarithm of the latency. Its cells travel as variable-length integers (LEB128)
/// beside this, in the order of columns, then of buckets: the columns of all cells, each as distance from the
/// cell before; their buckets, as distance from the one before in the same column, else from the lowest; their counts.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LatencyGrid {
    /// Metric of the cells.
    pub metric: Metric,
    /// Start of each column in seconds since the origin.
    pub t: Vec<f64>,
    /// End of each column.
    pub end: Vec<f64>,
    /// The lowest bucket; bucket `b` begins at `10^(b / per_decade)` nanoseconds.
    pub low: u32,
    /// Buckets per decade of latency.
    pub per_decade: u32,
    /// Number of cells.
    pub cells: usize,
}

/// One metric's distribution over the measured phase: values at growing percentiles.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Curve {
    /// Metric of the values.
    pub metric: Metric,
    /// Samples that it is made of.
    pub count: u64,
    /// Share of samples at or below the value, as the number of nines: `-log10(1 - share)`.
    pub nines: Vec<f64>,
    /// The values, nanoseconds.
    pub ns: Vec<u64>,
}

/// Distributions from a run's histograms.
#[derive(Debug)]
pub(super) struct Distributions {
    pub(super) grids: Vec<LatencyGrid>,
    /// The cells of all grids.
    pub(super) cells: Vec<u8>,
    pub(super) curves: Vec<Curve>,
    /// Values due in the measured phase, for runs without a summary of their own.
    pub(super) measured: Recorder,
}

/// Reads the log once. Grids hold all answers, by time; curves and summaries hold operations due in the measured phase.
pub(super) fn read(run: &RunReader, span: (f64, f64)) -> Result<Distributions, Problem> {
    let width = (span.1 - span.0) / MOST_COLUMNS;
    let mut grids: BTreeMap<Metric, Grid> = BTreeMap::new();
    let mut sum = Recorder::new();
    for record in run.histograms()? {
        grids.entry(record.metric).or_default().add(&record, width);
        // Another program's log may hold another shape; what cannot be added is not counted.
        let _ = sum.add_due(Phase::Measure, [record.as_due()]);
    }
    let mut cells = Vec::new();
    Ok(Distributions {
        grids: grids.iter().filter_map(|(m, grid)| grid.finish(*m, &mut cells)).collect(),
        cells,
        curves: sum.filled().filter_map(|(m, sum)| curve(m, sum)).collect(),
        measured: sum,
    })
}

/// How far behind a column, in seconds, an interval begins at most that joins it: times are rounded.
fn longest_lapse(column: &(f64, f64)) -> f64 {
    ((column.1 - column.0) / 10.0).max(SHORTEST_COLUMN)
}

/// A grid under construction.
#[derive(Debug, Default)]
struct Grid {
    columns: Vec<(f64, f64)>,
    cells: BTreeMap<(usize, u32), u64>,
}

impl Grid {
    fn add(&mut self, record: &HistogramRecord, width: f64) {
        let end = record.t + record.dt;
        let is_behind_gap = |last: &(f64, f64)| record.t - last.1 > longest_lapse(last);
        match self.columns.last_mut() {
            // Intervals that fall into one column of pixels share it; time never goes back.
            Some(last)
                if end - last.0 <= width
                    || record.t < last.1 - record.dt / 2.0
                    || !is_behind_gap(last) && (record.dt < SHORTEST_COLUMN || last.1 - last.0 < SHORTEST_COLUMN) =>
            {
                last.1 = last.1.max(end);
            }
            // Nothing was answered in between. What has no length of its own, as what stayed unanswered at the end,
            // gets that of the column before.
            Some(last) if record.dt < SHORTEST_COLUMN => {
                let length = (last.1 - last.0).clamp(SHORTEST_COLUMN, record.t - last.1);
                self.columns.push((end - length, end));
            }
            _ => self.columns.push((record.t, end)),
        }
        let column = self.columns.len() - 1;
        for bucket in record.histogram.iter_recorded() {
            let value = bucket.value_iterated_to().max(1) as f64;
            let number = (value.log10() * f64::from(PER_DECADE)).floor() as u32;
            *self.cells.entry((column, number)).or_default() += bucket.count_since_last_iteration();
        }
    }

    /// The grid without its cells, which are appended.
    fn finish(&self, metric: Metric, cells: &mut Vec<u8>) -> Option<LatencyGrid> {
        let low = put_cells(&self.cells, cells)?;
        // A single column may still be too short for its times to differ.
        let end = |column: &(f64, f64)| short(column.1.max(column.0 + SHORTEST_COLUMN));
        Some(LatencyGrid {
            metric,
            t: self.columns.iter().map(|c| short(c.0)).collect(),
            end: self.columns.iter().map(end).collect(),
            low,
            per_decade: PER_DECADE,
            cells: self.cells.len(),
        })
    }
}

/// Appends cells as [`LatencyGrid`] describes them; their lowest bucket, `None` where there are none.
pub(super) fn put_cells(cells: &BTreeMap<(usize, u32), u64>, out: &mut Vec<u8>) -> Option<u32> {
    let low = cells.keys().map(|(_, bucket)| *bucket).min()?;
    let mut before = 0;
    for &(column, _) in cells.keys() {
        put(out, (column - before) as u64);
        before = column;
    }
    let mut before = (0, low);
    for &(column, bucket) in cells.keys() {
        let from = if column == before.0 { before.1 } else { low };
        put(out, u64::from(bucket - from));
        before = (column, bucket);
    }
    for &count in cells.values() {
        put(out, count);
    }
    Some(low)
}

pub(super) fn curve(metric: Metric, histogram: &Histogram<u64>) -> Option<Curve> {
    let steps = histogram.iter_recorded().map(|step| {
        let value = step.value_iterated_to().min(histogram.max());
        (value, step.count_since_last_iteration())
    });
    curve_of(metric, histogram.min(), histogram.len(), steps)
}

/// The curve of `count` values, of which the smallest is `least` and which come with their counts, the smallest first.
pub(super) fn curve_of(
    metric: Metric,
    least: u64,
    count: u64,
    values: impl Iterator<Item = (u64, u64)>,
) -> Option<Curve> {
    if count == 0 {
        return None;
    }
    let mut points: Vec<(f64, u64)> = vec![(0.0, least.max(1))];
    let mut seen = 0u64;
    for (value, of_value) in values {
        seen = seen.saturating_add(of_value);
        // The largest value stands half a sample before infinity.
        let beyond = if seen >= count { 0.5 } else { (count - seen) as f64 };
        let nines = -(beyond / count as f64).log10();
        let ns = value.max(1);
        let keep = points.last().is_none_or(|&(x, y)| {
            seen >= count || nines - x >= LEAST_NINES || (ns as f64 / y as f64).ln() >= LEAST_RATIO
        });
        if keep {
            points.push((nines, ns));
        }
    }
    Some(Curve {
        metric,
        count,
        nines: points.iter().map(|p| short(p.0)).collect(),
        ns: points.iter().map(|p| p.1).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(t: f64, values: &[u64]) -> HistogramRecord {
        let mut histogram = measure::new_histogram();
        for &value in values {
            histogram.saturating_record(value);
        }
        HistogramRecord { metric: Metric::SEND_ACK, due: Phase::Measure, t, dt: 1.0, histogram }
    }

    fn counted(grid: &Grid) -> u64 {
        grid.cells.values().sum()
    }

    #[test]
    fn a_grid_keeps_every_count_and_intervals_narrower_than_a_pixel_share_a_column() {
        let mut grid = Grid::default();
        grid.add(&record(0.0, &[1_000, 1_001, 50_000]), 0.0);
        grid.add(&record(1.0, &[1_000]), 0.0);
        let mut cells = Vec::new();
        let found = grid.finish(Metric::SEND_ACK, &mut cells).expect("cells");
        assert_eq!(found.t, [0.0, 1.0]);
        assert_eq!((found.low, found.cells), (600, 3));
        // 1,000 and 1,001 ns share a bucket, 50,000 ns lies 1.7 decades above: 339 of 200 a decade.
        let (columns, buckets, counts) = ([0, 0, 1], [0, 0xd3, 2, 0], [2, 1, 1]);
        assert_eq!(cells, [&columns[..], &buckets, &counts].concat());
        let mut grid = Grid::default();
        for second in 0..1_000 {
            grid.add(&record(f64::from(second), &[1_000]), 4.0);
        }
        assert_eq!((grid.columns.len(), counted(&grid)), (250, 1_000));
    }

    /// The last answers before an outage were drawn up to the end of the run.
    #[test]
    fn what_is_unanswered_at_the_end_leaves_the_gap_before() {
        let mut grid = Grid::default();
        grid.add(&record(5.0, &[1_000]), 0.02);
        grid.add(&record(6.0, &[1_000]), 0.02);
        let unanswered = HistogramRecord { dt: 0.0, ..record(15.0, &[8_000_000_000]) };
        grid.add(&unanswered, 0.02);
        assert_eq!(grid.columns, [(5.0, 6.0), (6.0, 7.0), (14.0, 15.0)]);
        assert_eq!(counted(&grid), 3);
    }

    /// The edge of a phase: counts are divided by the length of their column.
    #[test]
    fn no_column_is_so_short_that_its_times_are_equal() {
        let short = |t: f64, dt: f64| HistogramRecord { dt, ..record(t, &[1_000]) };
        for records in [
            vec![short(0.0, 0.000_03), record(0.000_03, &[5_000])],
            vec![record(0.0, &[5_000]), short(1.0, 0.000_049)],
            vec![short(0.5, 0.000_01)],
        ] {
            let mut grid = Grid::default();
            for record in &records {
                grid.add(record, 0.0);
            }
            let found = grid.finish(Metric::SEND_ACK, &mut Vec::new()).expect("cells");
            assert_eq!(found.t.len(), 1);
            assert!(found.end.iter().zip(&found.t).all(|(end, t)| end > t), "{found:?}");
            assert_eq!(counted(&grid), records.len() as u64);
        }
    }

    #[test]
    fn a_curve_names_the_value_below_which_a_share_lies() {
        let mut histogram = measure::new_histogram();
        for us in 1..=1_000u64 {
            histogram.saturating_record(us * 1_000);
        }
        let curve = curve(Metric::TRANSFER, &histogram).expect("samples");
        // The first point at or above p90 (one nine) is the 900th value.
        let at = curve.nines.iter().position(|n| *n >= 1.0 - 1e-9).expect("p90");
        let ns = curve.ns.get(at).copied().unwrap_or(0);
        assert!(ns.abs_diff(900_000) < 12_000, "{ns}");
        assert!(curve.nines.last().is_some_and(|n| *n > 3.0), "half a sample beyond");
        assert!(curve.nines.len() < 400);
    }
}
