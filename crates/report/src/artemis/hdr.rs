//! The HDR log of `--hdr FILE`: a V2 log in microseconds, one line per latency and interval.
//!
//! Artemis' tags hold a blank (`delay send`, `warmup send`), which the format's own scanner takes
//! for the end of a field: Java's `HistogramLogProcessor` refuses Artemis' files, and so ours, unless
//! there is neither a warm-up nor a rate. Tools that divide lines at commas read both.

use std::io;

use hdrhistogram::Histogram;
use measure::{Interval, Metric};

use super::{Sides, is_warmup};

/// The first two lines.
pub const HEADER: &str = "#[Histogram log format version 1.3]\n\
    \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// The column for people holds microseconds by this: Java's default ratio, which takes the values for nanoseconds.
const MAX_RATIO: f64 = 1e6;
/// An hour, as in the product's own histograms.
const HIGHEST_US: u64 = 3_600_000_000;

/// Lines of an interval that began at `unix_s`: one for each latency, and one for each with late answers of the
/// warm-up.
///
/// # Errors
/// Where a histogram cannot be encoded, which is a bug.
pub fn histogram_lines(sides: Sides, interval: &Interval, unix_s: f64) -> io::Result<String> {
    let mut lines = String::new();
    let own = sides
        .metrics()
        .map(|metric| (metric, &interval.latencies, is_warmup(interval)));
    let carried = interval.carried.iter().flat_map(|carried| {
        let metrics = sides.metrics().map(move |metric| (metric, carried, true));
        metrics.filter(|(metric, recorder, _)| !recorder.histogram(*metric).is_empty())
    });
    for (metric, recorder, warmup) in own.chain(carried) {
        let histogram = in_microseconds(recorder.histogram(metric))?;
        let tag = match metric {
            Metric::SEND_DELAY => "delay send",
            Metric::SEND_ACK => "send",
            _ => "transfer",
        };
        lines += &format!(
            "Tag={}{tag},{unix_s:.3},{:.3},{:.3},{}\n",
            if warmup { "warmup " } else { "" },
            interval.length().as_secs_f64(),
            histogram.max() as f64 / MAX_RATIO,
            archive::encode_histogram(&histogram)?,
        );
    }
    Ok(lines)
}

fn in_microseconds(ns: &Histogram<u64>) -> io::Result<Histogram<u64>> {
    let digits = ns.sigfig();
    let mut us = Histogram::new_with_bounds(1, HIGHEST_US, digits).map_err(io::Error::other)?;
    for step in ns.iter_recorded() {
        us.saturating_record_n(step.value_iterated_to() / 1_000, step.count_at_value());
    }
    Ok(us)
}
