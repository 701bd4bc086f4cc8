//! HDR histograms with one fixed shape, and what is printed of them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use hdrhistogram::Histogram;
use hdrhistogram::errors::AdditionError;
use serde::{Deserialize, Serialize};

use crate::{Metric, MetricKind, Nanos};

/// Values are kept to three significant decimal digits.
pub const SIGNIFICANT_DIGITS: u8 = 3;
/// The largest value told apart, one hour; longer ones are counted there.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// An empty histogram of the product's one shape: 1 ns to 1 h, three digits, no auto-resize.
///
/// # Panics
/// Never: the bounds are constants that `hdrhistogram` accepts.
#[expect(clippy::expect_used, reason = "constant bounds")]
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HIGHEST_NS, SIGNIFICANT_DIGITS).expect("constant bounds")
}

/// Histogram of a metric without values, for [`Recorder::histogram`].
static NOTHING: LazyLock<Histogram<u64>> = LazyLock::new(new_histogram);

/// The shortest latency that is counted as this one is.
pub fn lowest_equivalent(latency: Nanos) -> Nanos {
    Nanos(NOTHING.lowest_equivalent(latency.0))
}

/// A histogram of what was due in one phase, whenever it was answered.
#[derive(Debug)]
pub struct DueHistogram<'a, H = Histogram<u64>> {
    /// [`Phase::Warmup`] or [`Phase::Measure`]: nothing is due in the drain.
    pub due: Phase,
    /// Metric of these values.
    pub metric: Metric,
    /// The values, in nanoseconds.
    pub histogram: &'a H,
}

impl<H> Copy for DueHistogram<'_, H> {}

impl<H> Clone for DueHistogram<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

/// The latencies of one metric, in buckets.
pub trait Latencies: Clone {
    /// None yet.
    fn none() -> Self;
    /// Whether nothing was recorded.
    fn is_empty(&self) -> bool;
    /// Records the same latency `count` times. Values above an hour count as an hour.
    fn record(&mut self, latency: Nanos, count: u64);
    /// Empties it, keeping its memory.
    fn reset(&mut self);
    /// Adds the buckets of another one.
    fn merge(&mut self, other: &Self);
}

impl Latencies for Histogram<u64> {
    fn none() -> Self {
        new_histogram()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn record(&mut self, latency: Nanos, count: u64) {
        self.saturating_record_n(latency.0, count);
    }

    fn reset(&mut self) {
        if !self.is_empty() {
            Self::reset(self);
        }
    }

    fn merge(&mut self, other: &Self) {
        // Equal shapes always add; see `new_histogram`.
        let added = self.add(other);
        debug_assert!(added.is_ok());
    }
}

/// One histogram per metric: the sum of intervals. It takes its 270 KB at its first latency.
#[derive(Clone, Debug)]
pub struct Recorder<H = Histogram<u64>> {
    /// By index in the registry.
    histograms: Vec<Option<H>>,
}

impl<H> Default for Recorder<H> {
    fn default() -> Self {
        Self { histograms: Vec::new() }
    }
}

impl<H: Latencies> Recorder<H> {
    /// Allocates all that recording these will ever need.
    pub fn with(metrics: &[Metric]) -> Self {
        let mut recorder = Self::default();
        for metric in metrics {
            if metric.info().kind == MetricKind::Histogram {
                recorder.histogram_mut(*metric);
            }
        }
        recorder
    }

    /// The histogram of one metric, empty where it is new.
    #[inline]
    pub fn histogram_mut(&mut self, metric: Metric) -> &mut H {
        let index = metric.index();
        if index >= self.histograms.len() {
            self.histograms.resize(index + 1, None);
        }
        self.histograms[index].get_or_insert_with(H::none)
    }

    /// Records one latency. Values above an hour count as an hour.
    #[inline]
    pub fn record(&mut self, metric: Metric, value: Nanos) {
        self.record_n(metric, value, 1);
    }

    /// Records the same latency for `count` messages, as when one confirm covers a batch.
    #[inline]
    pub fn record_n(&mut self, metric: Metric, value: Nanos, count: u64) {
        self.histogram_mut(metric).record(value, count);
    }

    /// Adds the buckets of another recorder.
    pub fn merge(&mut self, other: &Self) {
        for (metric, histogram) in other.filled() {
            self.histogram_mut(metric).merge(histogram);
        }
    }

    /// The histograms that hold something, those of messages first.
    pub fn filled(&self) -> impl Iterator<Item = (Metric, &H)> {
        self.histograms.iter().enumerate().filter_map(|(index, histogram)| {
            let histogram = histogram.as_ref().filter(|it| !it.is_empty())?;
            Some((Metric::at(index), histogram))
        })
    }

    /// Filled histograms, as due in a phase.
    pub fn due_in(&self, phase: Phase) -> impl Iterator<Item = DueHistogram<'_, H>> {
        self.filled().map(move |(metric, histogram)| DueHistogram { due: phase.due(), metric, histogram })
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.filled().next().is_none()
    }

    /// Empties it, keeping its memory.
    pub fn reset(&mut self) {
        self.histograms.iter_mut().flatten().for_each(H::reset);
    }
}

impl Recorder {
    /// Allocates nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what of these histograms was due in `phase`, whenever it was answered. Every sum over a
    /// phase is made here: that of the console and of the JSON, of the archive, and of the page. An error where a
    /// histogram, as another program's log may hold it, does not fit; the others are added.
    pub fn add_due<'a>(
        &mut self,
        phase: Phase,
        histograms: impl IntoIterator<Item = DueHistogram<'a>>,
    ) -> Result<(), AdditionError> {
        let mut result = Ok(());
        for from in histograms {
            if from.due == phase.due() && !from.histogram.is_empty() {
                let added = self.histogram_mut(from.metric).add(from.histogram);
                result = result.and(added);
            }
        }
        result
    }

    /// The histogram of one metric.
    pub fn histogram(&self, metric: Metric) -> &Histogram<u64> {
        self.get(metric).unwrap_or(&NOTHING)
    }

    fn get(&self, metric: Metric) -> Option<&Histogram<u64>> {
        self.histograms.get(metric.index())?.as_ref()
    }

    /// The summary of every latency of messages, whether anything was recorded or not.
    pub fn messages(&self) -> Summaries {
        let of = |metric| self.get(metric).map(LatencySummary::of).unwrap_or_default();
        Metric::MESSAGES.into_iter().map(|metric| (metric, of(metric))).collect()
    }

    /// The summaries of what was recorded for a scenario.
    pub fn of_scenario(&self, scenario: &str) -> Summaries {
        let own = self.filled().filter(|(metric, _)| metric.info().scenario == scenario);
        own.map(|(metric, histogram)| (metric, LatencySummary::of(histogram))).collect()
    }
}

crate::named! {
    /// The part of a run that an interval belongs to. No interval spans two.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
    )]
    #[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
    #[serde(rename_all = "snake_case")]
    pub enum Phase {
        /// Load runs, nothing counts towards the aggregates.
        #[default]
        Warmup = "warmup",
        /// Phase of the summary.
        Measure = "measure",
        /// Nothing more is sent; acknowledgements and deliveries are awaited.
        Drain = "drain",
    }
}

impl Phase {
    /// The phase in which all was due that an interval of this one records apart: nothing is due in the drain.
    pub const fn due(self) -> Self {
        match self {
            Self::Warmup => Self::Warmup,
            Self::Measure | Self::Drain => Self::Measure,
        }
    }
}

/// Figures of a latency histogram. All values are nanoseconds; all are 0 at `count` 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LatencySummary {
    /// How many latencies were recorded.
    pub count: u64,
    /// Smallest value, to the histogram's precision; 0 in runs of earlier versions.
    #[serde(default)]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub min_ns: u64,
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
    pub const PERCENTILES: [(f64, &'static str); 5] =
        [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9"), (99.99, "p99.99")];

    /// Reads a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |percentile: f64| histogram.value_at_percentile(percentile).min(histogram.max());
        Self {
            count: histogram.len(),
            min_ns: histogram.min(),
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
    pub fn supports(&self, percentile: f64) -> bool {
        // Whole samples beyond, computed without the error of (100 - 99.99) in binary.
        let beyond_per_100k = ((100.0 - percentile) * 1_000.0).round() as u64;
        u128::from(self.count) * u128::from(beyond_per_100k) >= 10 * 100_000
    }

    /// The value of one of [`Self::PERCENTILES`], by its position there.
    pub const fn percentile_values(&self) -> [u64; 5] {
        [self.p50_ns, self.p90_ns, self.p99_ns, self.p99_9_ns, self.p99_99_ns]
    }
}

static NO_LATENCIES: LazyLock<LatencySummary> = LazyLock::new(LatencySummary::default);

/// Latencies by metric, in the order of the registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(transparent)]
pub struct Summaries(BTreeMap<Metric, LatencySummary>);

impl Summaries {
    /// The summary of one metric; that of an empty histogram where nothing is known.
    pub fn get(&self, metric: Metric) -> &LatencySummary {
        self.0.get(&metric).unwrap_or(&NO_LATENCIES)
    }

    /// Metric and summary, in the order of the registry.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, &LatencySummary)> {
        self.0.iter().map(|(metric, summary)| (*metric, summary))
    }

    /// Those in which something was recorded.
    pub fn filled(&self) -> impl Iterator<Item = (Metric, &LatencySummary)> {
        self.iter().filter(|(_, summary)| summary.count > 0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Metric, LatencySummary)> for Summaries {
    fn from_iter<T: IntoIterator<Item = (Metric, LatencySummary)>>(all: T) -> Self {
        Self(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_three_digits() {
        assert_eq!(LatencySummary::of(&new_histogram()), LatencySummary::default());
        let mut recorder = Recorder::new();
        for us in 1..=10_000 {
            recorder.record(Metric::SEND_ACK, Nanos::from_micros(us));
        }
        let summary = LatencySummary::of(recorder.histogram(Metric::SEND_ACK));
        for (value, expected) in
            summary.percentile_values().into_iter().zip([5_000_000u64, 9_000_000, 9_900_000, 9_990_000, 9_999_000])
        {
            assert!(value.abs_diff(expected) * 1_000 <= expected, "{value} for {expected}");
        }
        assert_eq!(summary.count, 10_000);
        assert!(summary.max_ns >= 10_000_000);
    }

    #[test]
    fn each_metric_has_a_histogram_of_its_own() {
        let mut recorder = Recorder::new();
        for (at, metric) in (1..).zip(Metric::MESSAGES) {
            recorder.record_n(metric, Nanos(1_000), at);
        }
        for (at, (metric, histogram)) in (1..).zip(recorder.filled()) {
            assert_eq!((metric.index() as u64, histogram.len()), (at - 1, at));
        }
        assert_eq!(recorder.of_scenario("messages"), recorder.messages());
        recorder.reset();
        assert!(recorder.is_empty());
    }

    #[test]
    fn a_sum_takes_what_was_due_in_its_phase_alone() {
        let (mut early, mut late) = (new_histogram(), new_histogram());
        early.saturating_record(7);
        late.saturating_record_n(9, 2);
        let of = |due, histogram| DueHistogram { due, metric: Metric::TRANSFER, histogram };
        let both = [of(Phase::Warmup, &early), of(Phase::Measure, &late)];
        for (phase, count) in [(Phase::Warmup, 1), (Phase::Measure, 2), (Phase::Drain, 2)] {
            let mut sum = Recorder::new();
            sum.add_due(phase, both).unwrap();
            assert_eq!(sum.histogram(Metric::TRANSFER).len(), count);
        }
    }

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let with = |count| LatencySummary { count, ..LatencySummary::default() };
        assert!(!with(99_999).supports(99.99));
        assert!(with(100_000).supports(99.99));
        assert!(!with(19).supports(50.0));
        assert!(with(20).supports(50.0));
    }
}
