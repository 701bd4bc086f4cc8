//! Output and files of Artemis `perf` (`LiveStatistics` of Apache ActiveMQ Artemis 2.40), to the blank: the live block
//! and the summary, the JSON samples and the HDR log. Times are in microseconds there. Its latencies count from the
//! actual send time: `send ack time` is our `send ack`, `transfer time` our `transfer`.

use std::io;

use hdrhistogram::Histogram;
use measure::{Counters, Interval, LatencySummary, Metric, Phase};
use serde::{Serialize, Serializer};

/// Between two lines of which the first ends a field: Artemis puts a blank before every line break.
const NEXT: &str = " \n";

/// The first two lines of the HDR log.
pub const HDR_HEADER: &str = "#[Histogram log format version 1.3]\n\
    \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// The column for people holds microseconds by this: Java's default ratio, which takes the values for nanoseconds.
const MAX_RATIO: f64 = 1e6;
/// An hour, as in the product's own histograms.
const HIGHEST_US: u64 = 3_600_000_000;

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
        shown.into_iter().filter_map(|(metric, shown)| shown.then_some(metric))
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
    (u128::from(count) * 1_000_000_000).checked_div(length).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
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

/// A latency's names in a block, in the summary, in the log, and in the samples of a second and of the whole run.
const fn names(metric: Metric) -> [&'static str; 5] {
    match metric {
        Metric::SEND_DELAY => {
            ["send delay time:", "aggregated delay send time:", "delay send", "delaySendTime", "totalDelaySendTime"]
        }
        Metric::SEND_ACK => ["send ack time:  ", "aggregated send time:      ", "send", "sendTime", "totalSendTime"],
        _ => ["transfer time:  ", "aggregated transfer time:  ", "transfer", "transferTime", "totalTransferTime"],
    }
}

/// The block of one second, with a blank line before it and a line break after it.
pub fn block(sides: Sides, interval: &Interval, latencies: bool) -> String {
    // As long as the other, so that blocks look alike.
    let warmup = if is_warmup(interval) { "true " } else { "false" };
    let mut lines = vec![format!("\n--- warmup {warmup}")];
    let counts = counts(sides, &interval.counters);
    lines.extend(counts.map(|([name, ..], count)| format!("--- {name} {:>8} msg/sec", rate(count, interval))));
    let metrics = sides.metrics().filter(|_| latencies);
    lines.extend(metrics.map(|metric| line(names(metric)[0], &latency(interval, metric))));
    lines.join(NEXT) + "\n"
}

/// The end of it all, with a blank line before it and a line break after it.
pub fn summary(sides: Sides, end: End<'_>) -> String {
    let result = if end.success { "success" } else { "fail" };
    let mut text = format!("\n--- SUMMARY\n--- result:         {result:>12}");
    text.extend(counts(sides, end.totals).map(|([name, ..], count)| format!("\n--- total {name}{count:>12}")));
    for metric in sides.metrics() {
        text += NEXT;
        text += &line(names(metric)[1], &latency(end.measured, metric));
    }
    text + "\n"
}

/// Counts with their names in text, and in the samples of a second and of the whole run.
fn counts(sides: Sides, of: &Counters) -> impl Iterator<Item = ([&'static str; 3], u64)> {
    let all = [
        (sides.producers, ["sent:     ", "sent", "totalSent"], of.sent),
        (sides.producers, ["blocked:  ", "delayed", "totalBlocked"], of.blocked),
        (sides.producers, ["completed:", "completed", "totalCompleted"], of.completed),
        (sides.consumers, ["received: ", "received", "totalReceived"], of.received),
    ];
    all.into_iter().filter(|it| it.0).map(|(_, names, count)| (names, count))
}

fn line(name: &str, latency: &LatencySummary) -> String {
    let us = |ns: u64| format!("{:>9.2} us", microseconds(ns));
    let [p50, p90, p99, p99_9, p99_99] = latency.percentile_values().map(us);
    format!(
        "--- {name} mean: {} - 50.00%: {p50} - 90.00%: {p90} - 99.00%: {p99} - 99.90%: {p99_9} \
         - 99.99%: {p99_99} - max:    {}",
        us(latency.mean_ns),
        us(latency.max_ns)
    )
}

/// A value of a sample.
#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Flag(bool),
    Number(u64),
    Object(#[serde(serialize_with = "in_order")] Vec<(&'static str, Value)>),
}

fn in_order<S: Serializer>(fields: &[(&'static str, Value)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(fields.iter().map(|(name, value)| (name, value)))
}

/// Microseconds; the mean is text there.
fn times(latency: &LatencySummary) -> Value {
    let us = |ns: u64| Value::Number(microseconds(ns).round() as u64);
    let names = LatencySummary::PERCENTILES.map(|(_, name)| name.trim_start_matches('p'));
    let mut fields = vec![("mean", Value::Text(format!("{:.2}", microseconds(latency.mean_ns))))];
    fields.extend(names.into_iter().zip(latency.percentile_values().map(us)));
    fields.extend([("max", us(latency.max_ns)), ("count", Value::Number(latency.count))]);
    Value::Object(fields)
}

/// The object of one second; `unix_ms` is its end.
pub fn interval_sample(sides: Sides, interval: &Interval, unix_ms: u64) -> String {
    let mut fields = vec![
        ("sampleType", Value::Text("interval".to_owned())),
        ("warmup", Value::Flag(is_warmup(interval))),
        ("time", Value::Number(unix_ms)),
    ];
    let counts = counts(sides, &interval.counters);
    fields.extend(counts.map(|([_, name, _], count)| (name, Value::Number(rate(count, interval)))));
    fields.extend(sides.metrics().map(|metric| (names(metric)[3], times(&latency(interval, metric)))));
    object(fields)
}

/// The object of the whole run, which ended at `unix_ms`.
pub fn summary_sample(sides: Sides, end: End<'_>, unix_ms: u64) -> String {
    let result = if end.success { "success" } else { "fail" };
    let mut fields = vec![
        ("sampleType", Value::Text("summary".to_owned())),
        ("time", Value::Number(unix_ms)),
        ("result", Value::Text(result.to_owned())),
    ];
    fields.extend(counts(sides, end.totals).map(|([.., name], count)| (name, Value::Number(count))));
    fields.extend(sides.metrics().map(|metric| (names(metric)[4], times(&latency(end.measured, metric)))));
    object(fields)
}

fn object(fields: Vec<(&'static str, Value)>) -> String {
    // Numbers and strings only: nothing that could not be written.
    serde_json::to_string(&Value::Object(fields)).unwrap_or_default()
}

/// Lines of the HDR log of an interval that began at `unix_s`: one for each latency, and one for each with late answers
/// of the warm-up.
///
/// It is a V2 log in microseconds. Artemis' tags hold a blank (`delay send`, `warmup send`), which the format's own
/// scanner takes for the end of a field: Java's `HistogramLogProcessor` refuses Artemis' files, and so ours, unless
/// there is neither a warm-up nor a rate. Tools that divide lines at commas read both. Errors: where a histogram cannot
/// be encoded, which is a bug.
pub fn histogram_lines(sides: Sides, interval: &Interval, unix_s: f64) -> io::Result<String> {
    let mut lines = String::new();
    let own = sides.metrics().map(|metric| (metric, &interval.latencies, is_warmup(interval)));
    let carried = interval.carried.iter().flat_map(|carried| {
        let metrics = sides.metrics().map(move |metric| (metric, carried, true));
        metrics.filter(|(metric, recorder, _)| !recorder.histogram(*metric).is_empty())
    });
    for (metric, recorder, warmup) in own.chain(carried) {
        let histogram = in_microseconds(recorder.histogram(metric))?;
        lines += &format!(
            "Tag={}{},{unix_s:.3},{:.3},{:.3},{}\n",
            if warmup { "warmup " } else { "" },
            names(metric)[2],
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

#[cfg(test)]
mod tests;
