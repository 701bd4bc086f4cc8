//! The samples of `--json FILE`: an array of one object per second, and one for the whole.

use measure::{Interval, LatencySummary, Metric};
use serde::{Serialize, Serializer as _};

use super::{End, Sides, is_warmup, latency, microseconds, rate};

/// A value of a sample.
#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    Text(&'static str),
    Flag(bool),
    Number(u64),
    Times(Distribution),
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

/// One of a run's latencies, where it is shown.
fn times(sides: Sides, interval: &Interval, wanted: Metric) -> Option<Value> {
    let shown = sides.metrics().any(|metric| metric == wanted);
    shown.then(|| Value::Times(Distribution::of(&latency(interval, wanted))))
}

/// The object of one second; `unix_ms` is its end.
#[must_use]
pub fn interval_sample(sides: Sides, interval: &Interval, unix_ms: u64) -> String {
    let counters = &interval.counters;
    let rate = |shown: bool, count: u64| shown.then(|| Value::Number(rate(count, interval)));
    let times = |wanted| times(sides, interval, wanted);
    object([
        ("sampleType", Some(Value::Text("interval"))),
        ("warmup", Some(Value::Flag(is_warmup(interval)))),
        ("time", Some(Value::Number(unix_ms))),
        ("sent", rate(sides.producers, counters.sent)),
        ("delayed", rate(sides.producers, counters.blocked)),
        ("completed", rate(sides.producers, counters.completed)),
        ("received", rate(sides.consumers, counters.received)),
        ("delaySendTime", times(Metric::SEND_DELAY)),
        ("sendTime", times(Metric::SEND_ACK)),
        ("transferTime", times(Metric::TRANSFER)),
    ])
}

/// The object of the whole run, which ended at `unix_ms`.
#[must_use]
pub fn summary_sample(sides: Sides, end: End<'_>, unix_ms: u64) -> String {
    let result = if end.success { "success" } else { "fail" };
    let total = |shown: bool, count: u64| shown.then_some(Value::Number(count));
    let times = |wanted| times(sides, end.measured, wanted);
    object([
        ("sampleType", Some(Value::Text("summary"))),
        ("time", Some(Value::Number(unix_ms))),
        ("result", Some(Value::Text(result))),
        ("totalSent", total(sides.producers, end.totals.sent)),
        ("totalBlocked", total(sides.producers, end.totals.blocked)),
        (
            "totalCompleted",
            total(sides.producers, end.totals.completed),
        ),
        ("totalReceived", total(sides.consumers, end.totals.received)),
        ("totalDelaySendTime", times(Metric::SEND_DELAY)),
        ("totalSendTime", times(Metric::SEND_ACK)),
        ("totalTransferTime", times(Metric::TRANSFER)),
    ])
}

/// The values that there are, in their order.
fn object(values: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> String {
    let there = values.into_iter();
    let there = there.filter_map(|(name, value)| Some((name, value?)));
    let mut out = Vec::new();
    // Numbers and strings only: nothing that could not be written.
    let _ = serde_json::Serializer::new(&mut out).collect_map(there);
    String::from_utf8(out).unwrap_or_default()
}
