//! Figures of latency histograms, as printed.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Metric;

/// Figures of a latency histogram. All values are nanoseconds; all are 0 at `count` 0.
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

/// Summary of no values.
static NOTHING: LatencySummary = LatencySummary {
    count: 0,
    mean_ns: 0,
    p50_ns: 0,
    p90_ns: 0,
    p99_ns: 0,
    p99_9_ns: 0,
    p99_99_ns: 0,
    max_ns: 0,
};

/// Latencies by metric, in the order of the registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(transparent)]
pub struct Summaries(BTreeMap<Metric, LatencySummary>);

impl Summaries {
    /// The summary of one metric; that of an empty histogram where nothing is known.
    #[must_use]
    pub fn get(&self, metric: Metric) -> &LatencySummary {
        self.0.get(&metric).unwrap_or(&NOTHING)
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
    #[must_use]
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
    fn an_empty_histogram_is_all_zero() {
        assert_eq!(LatencySummary::of(&crate::new_histogram()), NOTHING);
        assert_eq!(LatencySummary::default(), NOTHING);
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
}
