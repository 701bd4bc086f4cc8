//! The live block and the summary.

use measure::{Counters, Interval, LatencySummary, Metric};

use super::{End, Sides, is_warmup, latency, microseconds, rate};

/// Between two lines of which the first ends a field: Artemis puts a blank before every line break.
const NEXT: &str = " \n";

/// The block of one second, with a blank line before it and a line break after it.
#[must_use]
pub fn block(sides: Sides, interval: &Interval, latencies: bool) -> String {
    // As long as the other, so that blocks look alike.
    let warmup = if is_warmup(interval) {
        "true "
    } else {
        "false"
    };
    let mut lines = vec![format!("\n--- warmup {warmup}")];
    let counts = counts(sides, &interval.counters);
    lines.extend(
        counts.map(|(name, count)| format!("--- {name} {:>8} msg/sec", rate(count, interval))),
    );
    let metrics = sides.metrics().filter(|_| latencies);
    lines.extend(metrics.map(|metric| {
        let name = match metric {
            Metric::SEND_DELAY => "send delay time:",
            Metric::SEND_ACK => "send ack time:  ",
            _ => "transfer time:  ",
        };
        line(name, &latency(interval, metric))
    }));
    lines.join(NEXT) + "\n"
}

/// The end of it all, with a blank line before it and a line break after it.
#[must_use]
pub fn summary(sides: Sides, end: End<'_>) -> String {
    let result = if end.success { "success" } else { "fail" };
    let mut text = format!("\n--- SUMMARY\n--- result:         {result:>12}");
    for (name, count) in counts(sides, end.totals) {
        text += &format!("\n--- total {name}{count:>12}");
    }
    for metric in sides.metrics() {
        let name = match metric {
            Metric::SEND_DELAY => "aggregated delay send time:",
            Metric::SEND_ACK => "aggregated send time:      ",
            _ => "aggregated transfer time:  ",
        };
        text += NEXT;
        text += &line(name, &latency(end.measured, metric));
    }
    text + "\n"
}

/// The counts that are shown, with their names.
fn counts(sides: Sides, of: &Counters) -> impl Iterator<Item = (&'static str, u64)> {
    let all = [
        (sides.producers, "sent:     ", of.sent),
        (sides.producers, "blocked:  ", of.blocked),
        (sides.producers, "completed:", of.completed),
        (sides.consumers, "received: ", of.received),
    ];
    let shown = all.into_iter().filter(|it| it.0);
    shown.map(|(_, name, count)| (name, count))
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
