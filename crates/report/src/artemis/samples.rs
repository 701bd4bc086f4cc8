//! The samples of `--json FILE`: an array of one object per second, and one for the whole.

use measure::{Interval, LatencySummary, Metric};
use serde::Serialize;

use super::{End, Sides, is_warmup, latency, microseconds, rate};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IntervalSample {
    sample_type: &'static str,
    warmup: bool,
    time: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delayed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    received: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_send_time: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    send_time: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer_time: Option<Distribution>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SummarySample {
    sample_type: &'static str,
    time: u64,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_sent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_blocked: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_completed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_received: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_delay_send_time: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_send_time: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_transfer_time: Option<Distribution>,
}

/// Microseconds; the mean is text there.
#[derive(Serialize)]
struct Distribution {
    mean: String,
    #[serde(rename = "50")]
    p50: u64,
    #[serde(rename = "90")]
    p90: u64,
    #[serde(rename = "99")]
    p99: u64,
    #[serde(rename = "99.9")]
    p99_9: u64,
    #[serde(rename = "99.99")]
    p99_99: u64,
    max: u64,
    count: u64,
}

impl Distribution {
    fn of(latency: &LatencySummary) -> Self {
        let us = |ns: u64| microseconds(ns).round() as u64;
        let [p50, p90, p99, p99_9, p99_99] = latency.percentile_values().map(us);
        Self {
            mean: format!("{:.2}", microseconds(latency.mean_ns)),
            p50,
            p90,
            p99,
            p99_9,
            p99_99,
            max: us(latency.max_ns),
            count: latency.count,
        }
    }
}

/// Those of a run's latencies that are shown: delay, send and transfer.
fn distributions(sides: Sides, interval: &Interval) -> [Option<Distribution>; 3] {
    [Metric::SEND_DELAY, Metric::SEND_ACK, Metric::TRANSFER].map(|wanted| {
        let shown = sides.metrics().any(|metric| metric == wanted);
        shown.then(|| Distribution::of(&latency(interval, wanted)))
    })
}

/// The object of one second; `unix_ms` is its end.
#[must_use]
pub fn interval_sample(sides: Sides, interval: &Interval, unix_ms: u64) -> String {
    let [delay_send_time, send_time, transfer_time] = distributions(sides, interval);
    let counters = &interval.counters;
    let rate = |shown: bool, count: u64| shown.then(|| rate(count, interval));
    text(&IntervalSample {
        sample_type: "interval",
        warmup: is_warmup(interval),
        time: unix_ms,
        sent: rate(sides.producers, counters.sent),
        delayed: rate(sides.producers, counters.blocked),
        completed: rate(sides.producers, counters.completed),
        received: rate(sides.consumers, counters.received),
        delay_send_time,
        send_time,
        transfer_time,
    })
}

/// The object of the whole run, which ended at `unix_ms`.
#[must_use]
pub fn summary_sample(sides: Sides, end: End<'_>, unix_ms: u64) -> String {
    let [total_delay_send_time, total_send_time, total_transfer_time] =
        distributions(sides, end.measured);
    text(&SummarySample {
        sample_type: "summary",
        time: unix_ms,
        result: if end.success { "success" } else { "fail" },
        total_sent: sides.producers.then_some(end.totals.sent),
        total_blocked: sides.producers.then_some(end.totals.blocked),
        total_completed: sides.producers.then_some(end.totals.completed),
        total_received: sides.consumers.then_some(end.totals.received),
        total_delay_send_time,
        total_send_time,
        total_transfer_time,
    })
}

fn text(sample: &impl Serialize) -> String {
    // Numbers and strings only: nothing that could not be written.
    serde_json::to_string(sample).unwrap_or_default()
}
