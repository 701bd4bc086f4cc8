//! `latency.hlog`: HDR V2 logs, as Java's `HistogramLogProcessor` reads them.

use std::path::Path;

use hdrhistogram::Histogram;
use measure::{Metric, Phase};

use crate::Error;

/// One histogram of the log.
#[derive(Clone, Debug)]
pub struct HistogramRecord {
    /// What it holds.
    pub metric: Metric,
    /// Warm-up, or anything else ([`Phase::Measure`]; what arrives in the drain is told apart by
    /// its time).
    pub phase: Phase,
    /// Start in seconds since the run's origin.
    pub t: f64,
    /// Length in seconds.
    pub dt: f64,
    /// The values, in nanoseconds.
    pub histogram: Histogram<u64>,
}

/// Reads the histograms of a log one by one.
#[derive(Debug)]
pub struct HistogramLog {}

impl HistogramLog {
    pub(crate) fn open(_dir: &Path) -> Result<Self, Error> {
        Ok(Self {})
    }
}

impl Iterator for HistogramLog {
    type Item = HistogramRecord;

    fn next(&mut self) -> Option<HistogramRecord> {
        None
    }
}
