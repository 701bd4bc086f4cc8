//! HDR histograms with one fixed shape, and what is printed of them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use hdrhistogram::Histogram;
use hdrhistogram::errors::AdditionError;
use serde::{Deserialize, Serialize};

use crate::{Measured, Nanos, PerMetric, Phase, Step};

/// Values are kept to three significant decimal digits.
pub const SIGNIFICANT_DIGITS: u8 = 3;
/// The largest value told apart, one hour; longer ones are counted there.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// An empty histogram of the product's one shape: 1 ns to 1 h, three digits, no auto-resize.
///
/// # Panics
/// Never: the bounds are constants that `hdrhistogram` accepts.
#[must_use]
#[expect(clippy::expect_used, reason = "constant bounds")]
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HIGHEST_NS, SIGNIFICANT_DIGITS).expect("constant bounds")
}

/// What [`Recorder::histogram`] shows of a metric that nothing was recorded of.
static NOTHING: LazyLock<Histogram<u64>> = LazyLock::new(new_histogram);

/// A histogram of what was due in one phase, whenever it was answered.
#[derive(Clone, Copy, Debug)]
pub struct DueHistogram<'a> {
    /// [`Phase::Warmup`] or [`Phase::Measure`]: nothing is due in the drain.
    pub due: Phase,
    /// What it holds.
    pub measured: Measured,
    /// The values, in nanoseconds.
    pub histogram: &'a Histogram<u64>,
}

/// One histogram per metric and per step of churn, filled by one thread. A histogram takes its 270 KB
/// when it is requested by [`Recorder::with`], or at its first latency: who only publishes pays for
/// nothing else.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    histograms: [Option<Histogram<u64>>; Measured::COUNT],
}

impl Recorder {
    /// Allocates nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates all that recording these will ever need.
    #[must_use]
    pub fn with(measured: &[Measured]) -> Self {
        let mut recorder = Self::new();
        for measured in measured {
            recorder.histogram_mut(*measured);
        }
        recorder
    }

    #[inline]
    fn histogram_mut(&mut self, measured: Measured) -> &mut Histogram<u64> {
        self.histograms[measured.index()].get_or_insert_with(new_histogram)
    }

    /// Records one latency. Values above an hour count as an hour.
    #[inline]
    pub fn record(&mut self, measured: impl Into<Measured>, value: Nanos) {
        self.histogram_mut(measured.into())
            .saturating_record(value.0);
    }

    /// Records the same latency for `count` messages, as when one confirm covers a batch.
    #[inline]
    pub fn record_n(&mut self, measured: impl Into<Measured>, value: Nanos, count: u64) {
        self.histogram_mut(measured.into())
            .saturating_record_n(value.0, count);
    }

    /// Adds the buckets of another recorder.
    pub fn merge(&mut self, other: &Self) {
        for (measured, histogram) in other.filled() {
            // Equal shapes always add; see `new_histogram`.
            let added = self.histogram_mut(measured).add(histogram);
            debug_assert!(added.is_ok());
        }
    }

    /// Adds what of these histograms was due in `phase`, whenever it was answered. Every sum over a
    /// phase is made here: that of the console and of the JSON, of the archive, and of the page.
    ///
    /// # Errors
    /// Where a histogram, as another program's log may hold it, does not fit; the others are added.
    pub fn add_due<'a>(
        &mut self,
        phase: Phase,
        histograms: impl IntoIterator<Item = DueHistogram<'a>>,
    ) -> Result<(), AdditionError> {
        let mut result = Ok(());
        for from in histograms {
            if from.due == phase.due() && !from.histogram.is_empty() {
                let added = self.histogram_mut(from.measured).add(from.histogram);
                result = result.and(added);
            }
        }
        result
    }

    /// Empties all histograms, keeping their memory.
    pub fn reset(&mut self) {
        for histogram in self.histograms.iter_mut().flatten() {
            if !histogram.is_empty() {
                histogram.reset();
            }
        }
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filled().next().is_none()
    }

    /// The histogram of one metric or step.
    #[must_use]
    pub fn histogram(&self, measured: impl Into<Measured>) -> &Histogram<u64> {
        self.get(measured.into()).unwrap_or(&NOTHING)
    }

    fn get(&self, measured: Measured) -> Option<&Histogram<u64>> {
        self.histograms.get(measured.index())?.as_ref()
    }

    /// The histograms that hold something, those of messages first.
    pub fn filled(&self) -> impl Iterator<Item = (Measured, &Histogram<u64>)> {
        let all = Measured::all().zip(&self.histograms);
        all.filter_map(|(measured, histogram)| {
            let histogram = histogram.as_ref().filter(|it| !it.is_empty())?;
            Some((measured, histogram))
        })
    }

    /// The same as what was due in a phase.
    pub fn due_in(&self, phase: Phase) -> impl Iterator<Item = DueHistogram<'_>> {
        self.filled()
            .map(move |(measured, histogram)| DueHistogram {
                due: phase.due(),
                measured,
                histogram,
            })
    }

    /// The summary of every metric.
    #[must_use]
    pub fn summaries(&self) -> PerMetric<LatencySummary> {
        PerMetric::from_fn(|metric| {
            let histogram = self.get(metric.into());
            histogram.map(LatencySummary::of).unwrap_or_default()
        })
    }

    /// The summaries of the steps that were taken.
    #[must_use]
    pub fn steps(&self) -> BTreeMap<Step, LatencySummary> {
        let step = |(measured, histogram)| match measured {
            Measured::Cycle(step) => Some((step, LatencySummary::of(histogram))),
            Measured::Message(_) => None,
        };
        self.filled().filter_map(step).collect()
    }
}

/// What is printed of a latency histogram. All values are nanoseconds; all are 0 at `count` 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LatencySummary {
    /// How many latencies were recorded.
    pub count: u64,
    /// Arithmetic mean, from bucket mid-points.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    #[serde(rename = "p99.9_ns")]
    pub p99_9_ns: u64,
    /// 99.99th percentile.
    #[serde(rename = "p99.99_ns")]
    pub p99_99_ns: u64,
    /// Largest value, to the histogram's precision.
    pub max_ns: u64,
}

impl LatencySummary {
    /// Percentiles that are printed, with the name each has.
    pub const PERCENTILES: [(f64, &'static str); 5] = [
        (50.0, "p50"),
        (90.0, "p90"),
        (99.0, "p99"),
        (99.9, "p99.9"),
        (99.99, "p99.99"),
    ];

    /// Reads a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |percentile: f64| {
            histogram
                .value_at_percentile(percentile)
                .min(histogram.max())
        };
        Self {
            count: histogram.len(),
            mean_ns: histogram.mean().round() as u64,
            p50_ns: at(50.0),
            p90_ns: at(90.0),
            p99_ns: at(99.0),
            p99_9_ns: at(99.9),
            p99_99_ns: at(99.99),
            max_ns: histogram.max(),
        }
    }

    /// Whether at least ten samples lie beyond the percentile, so that its value says something.
    #[must_use]
    pub fn supports(&self, percentile: f64) -> bool {
        // Whole samples beyond, computed without the error of (100 - 99.99) in binary.
        let beyond_per_100k = ((100.0 - percentile) * 1_000.0).round() as u64;
        u128::from(self.count) * u128::from(beyond_per_100k) >= 10 * 100_000
    }

    /// The value of one of [`Self::PERCENTILES`], by its position there.
    #[must_use]
    pub const fn percentile_values(&self) -> [u64; 5] {
        [
            self.p50_ns,
            self.p90_ns,
            self.p99_ns,
            self.p99_9_ns,
            self.p99_99_ns,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;

    #[test]
    fn an_empty_histogram_is_all_zero() {
        assert_eq!(
            LatencySummary::of(&new_histogram()),
            LatencySummary::default()
        );
    }

    #[test]
    fn percentiles_are_within_three_digits() {
        let mut recorder = Recorder::new();
        for us in 1..=10_000 {
            recorder.record(Metric::SendAck, Nanos::from_micros(us));
        }
        let summary = LatencySummary::of(recorder.histogram(Metric::SendAck));
        for (value, expected) in summary.percentile_values().into_iter().zip([
            5_000_000u64,
            9_000_000,
            9_900_000,
            9_990_000,
            9_999_000,
        ]) {
            assert!(
                value.abs_diff(expected) * 1_000 <= expected,
                "{value} for {expected}"
            );
        }
        assert_eq!(summary.count, 10_000);
        assert!(summary.max_ns >= 10_000_000);
    }

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let with = |count| LatencySummary {
            count,
            ..LatencySummary::default()
        };
        assert!(!with(99_999).supports(99.99));
        assert!(with(100_000).supports(99.99));
        assert!(!with(19).supports(50.0));
        assert!(with(20).supports(50.0));
    }

    #[test]
    fn longer_than_an_hour_counts_as_an_hour() {
        let mut recorder = Recorder::new();
        recorder.record(Metric::Transfer, Nanos(u64::MAX));
        assert!(recorder.histogram(Metric::Transfer).max() >= HIGHEST_NS);
    }

    #[test]
    fn each_metric_and_each_step_has_a_histogram_of_its_own() {
        let mut recorder = Recorder::new();
        for (at, measured) in (1..).zip(Measured::all()) {
            assert_eq!(
                measured.index() as u64,
                at - 1,
                "the order of the histograms"
            );
            recorder.record_n(measured, Nanos(1_000), at);
        }
        for (at, (measured, histogram)) in (1..).zip(recorder.filled()) {
            assert_eq!((measured.index() as u64, histogram.len()), (at - 1, at));
        }
        assert_eq!(recorder.steps().len(), Step::ALL.len());
        recorder.reset();
        assert!(recorder.is_empty());
    }

    #[test]
    fn a_sum_takes_what_was_due_in_its_phase_alone() {
        let (mut early, mut late) = (new_histogram(), new_histogram());
        early.saturating_record(7);
        late.saturating_record_n(9, 2);
        let of = |due, histogram| DueHistogram {
            due,
            measured: Metric::Transfer.into(),
            histogram,
        };
        let both = [of(Phase::Warmup, &early), of(Phase::Measure, &late)];
        for (phase, count) in [(Phase::Warmup, 1), (Phase::Measure, 2), (Phase::Drain, 2)] {
            let mut sum = Recorder::new();
            sum.add_due(phase, both).unwrap();
            assert_eq!(sum.histogram(Metric::Transfer).len(), count);
        }
    }

    #[test]
    fn merging_adds_buckets_and_reset_empties_them() {
        let (mut a, mut b) = (Recorder::new(), Recorder::new());
        a.record(Metric::AckResponse, Nanos(1_000));
        b.record_n(Metric::AckResponse, Nanos(3_000), 3);
        a.merge(&b);
        assert_eq!(a.histogram(Metric::AckResponse).len(), 4);
        a.reset();
        assert!(a.histogram(Metric::AckResponse).is_empty());
    }
}
