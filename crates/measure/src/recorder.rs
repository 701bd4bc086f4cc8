//! HDR histograms with one fixed shape, and what is printed of them.

use std::sync::LazyLock;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{Metric, Nanos, PerMetric};

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

/// One histogram per metric, filled by one thread. A histogram takes its 270 KB when it is asked for
/// by [`Recorder::with`], or at its first latency: who only publishes pays for nothing else.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    histograms: PerMetric<Option<Histogram<u64>>>,
}

impl Recorder {
    /// Allocates nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates all that recording these metrics will ever need.
    #[must_use]
    pub fn with(metrics: &[Metric]) -> Self {
        Self {
            histograms: PerMetric::from_fn(|metric| metrics.contains(&metric).then(new_histogram)),
        }
    }

    #[inline]
    fn filled(&mut self, metric: Metric) -> &mut Histogram<u64> {
        self.histograms
            .get_mut(metric)
            .get_or_insert_with(new_histogram)
    }

    /// Records one latency. Values above an hour count as an hour.
    #[inline]
    pub fn record(&mut self, metric: Metric, value: Nanos) {
        self.filled(metric).saturating_record(value.0);
    }

    /// Records the same latency for `count` messages, as when one confirm covers a batch.
    #[inline]
    pub fn record_n(&mut self, metric: Metric, value: Nanos, count: u64) {
        self.filled(metric).saturating_record_n(value.0, count);
    }

    /// Adds the buckets of another recorder.
    pub fn merge(&mut self, other: &Self) {
        for metric in Metric::ALL {
            let from = other.histogram(metric);
            if !from.is_empty() {
                // Equal shapes always add; see `new_histogram`.
                let added = self.filled(metric).add(from);
                debug_assert!(added.is_ok());
            }
        }
    }

    /// Empties all histograms, keeping their memory.
    pub fn reset(&mut self) {
        for metric in Metric::ALL {
            if let Some(histogram) = self.histograms.get_mut(metric)
                && !histogram.is_empty()
            {
                histogram.reset();
            }
        }
    }

    /// The histogram of one metric.
    #[must_use]
    pub fn histogram(&self, metric: Metric) -> &Histogram<u64> {
        self.histograms.get(metric).as_ref().unwrap_or(&NOTHING)
    }

    /// The summary of every metric.
    #[must_use]
    pub fn summaries(&self) -> PerMetric<LatencySummary> {
        PerMetric::from_fn(|metric| LatencySummary::of(self.histogram(metric)))
    }
}

/// What is printed of a latency histogram. All values are nanoseconds; all are 0 at `count` 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// How many latencies were recorded.
    pub count: u64,
    /// Arithmetic mean, from bucket mid-points.
    pub mean_ns: u64,
    /// Median.
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
