//! Output and files of Artemis `perf`, to the blank: the live block and the summary, the JSON samples and the HDR log.
//! Times are in microseconds there. Its latencies count from the actual send time: `send ack time` is our `send ack`,
//! `transfer time` our `transfer`.
//!
//! Source: `LiveStatistics` of Apache ActiveMQ Artemis 2.40; recorded output of it lies beside the
//! tests of the command.

mod hdr;
mod samples;
mod text;

pub use hdr::{HEADER as HDR_HEADER, histogram_lines};
pub use samples::{interval_sample, summary_sample};
pub use text::{block, summary};

use measure::{Counters, Interval, LatencySummary, Metric, Phase};

/// Sides of a run, by which metrics are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// Somebody sends.
    pub producers: bool,
    /// Producers send at a rate.
    pub paced: bool,
    /// Somebody receives.
    pub consumers: bool,
}

impl Sides {
    /// The latencies that are shown, in Artemis' order.
    fn metrics(self) -> impl Iterator<Item = Metric> {
        let shown = [
            (Metric::SEND_DELAY, self.producers && self.paced),
            (Metric::SEND_ACK, self.producers),
            (Metric::TRANSFER, self.consumers),
        ];
        shown
            .into_iter()
            .filter_map(|(metric, shown)| shown.then_some(metric))
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// The run did as asked.
    pub success: bool,
    /// Counts of the whole run, warm-up included.
    pub totals: &'a Counters,
    /// The measured phase, with whole histograms.
    pub measured: &'a Interval,
}

/// Messages per second of the interval's measured length, whole ones.
fn rate(count: u64, interval: &Interval) -> u64 {
    let length = u128::from(interval.length().0);
    let per_second = (u128::from(count) * 1_000_000_000).checked_div(length);
    per_second.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

fn is_warmup(interval: &Interval) -> bool {
    interval.phase == Phase::Warmup
}

fn latency(interval: &Interval, metric: Metric) -> LatencySummary {
    LatencySummary::of(interval.latencies.histogram(metric))
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

#[cfg(test)]
mod tests;
