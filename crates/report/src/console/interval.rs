//! One interval of a run: the line that a pipe gets, and what the live table takes of it.

use archive::{ScenarioPoint, SeriesPoint};
use measure::{Counters, LatencySummary, Metric, Nanos};

use super::scenario;
use super::shape::Shape;
use super::text::sanitise;
use crate::numbers::{marked, per_second, three_digits};

/// A count of messages, by its name.
pub(super) type Count = (&'static str, fn(&Counters) -> u64);

/// The counts of messages that such a run has.
pub(super) fn counts(shape: &Shape) -> impl Iterator<Item = Count> {
    let all: [(bool, Count); 4] = [
        (shape.producers, ("sent", |c| c.sent)),
        (shape.producers, ("completed", |c| c.completed)),
        (shape.consumers, ("received", |c| c.received)),
        (shape.producers, ("blocked", |c| c.blocked)),
    ];
    let all = all.into_iter().filter(|(has, _)| *has);
    all.map(|(_, count)| count)
}

/// The line of an interval, ending in a newline: when it ended, the phase, and everything that the live table shows of
/// it, each by its name and two blanks apart; `beside` is what else has come meanwhile.
pub(super) fn line(shape: &Shape, point: &SeriesPoint, beside: &[String]) -> String {
    let mut parts = vec![
        format!("{:>7.1} s", point.t + point.dt),
        format!("{:<7}", super::phase_name(point.phase)),
    ];
    let rate = |count| three_digits(per_second(count, point.dt));
    for (name, count) in counts(shape) {
        parts.push(format!("{name} {} msg/s", rate(count(&point.counters))));
    }
    if shape.latency {
        let latencies = Metric::MESSAGES.into_iter().filter(|m| shape.shows(*m));
        let latencies = latencies.map(|metric| (metric, point.latency.get(metric)));
        parts.extend(latencies.filter_map(|(metric, of)| latency(metric, of)));
    }
    let several = point.scenarios().count() > 1;
    for (name, scenario) in point.scenarios() {
        if several {
            parts.push(format!("{}:", scenario::called(name)));
        }
        parts.extend(of_scenario(scenario, point.dt));
    }
    parts.extend(usage(shape, point));
    parts.extend_from_slice(beside);
    parts.join("  ") + "\n"
}

/// The counts and latencies of another scenario than messages.
fn of_scenario(scenario: &ScenarioPoint, seconds: f64) -> Vec<String> {
    let whole = scenario
        .latency
        .filled()
        .filter(|(metric, _)| !metric.info().part);
    let latencies = whole.filter_map(|(metric, of)| latency(metric, of));
    let counts = scenario::of_interval(scenario, seconds);
    counts.chain(latencies).collect()
}

/// `ack response p50 301 us p99 3.23 ms p99.9 ~13.8 ms max 251 ms`.
fn latency(metric: Metric, of: &LatencySummary) -> Option<String> {
    if of.count == 0 {
        return None;
    }
    let value = |ns: u64, percentile: f64| marked(ns, of.supports(percentile));
    Some(format!(
        "{} p50 {} p99 {} p99.9 {} max {}",
        sanitise(metric.name()),
        value(of.p50_ns, 50.0),
        value(of.p99_ns, 99.0),
        value(of.p99_9_ns, 99.9),
        Nanos(of.max_ns)
    ))
}

/// CPU and memory of both sides: `broker 1.20 cores, 180 MB`.
pub(super) fn usage(shape: &Shape, point: &SeriesPoint) -> impl Iterator<Item = String> {
    let sides = [
        (loaded(shape, point), point.broker),
        ("bellows", point.client),
    ];
    sides.into_iter().filter_map(|(name, usage)| {
        let usage = usage?;
        let megabytes = usage.rss_bytes as f64 / 1e6;
        Some(format!(
            "{name} {:.2} cores, {megabytes:.0} MB",
            usage.cpu_cores
        ))
    })
}

/// Who is loaded: probes alone load any server.
fn loaded(shape: &Shape, point: &SeriesPoint) -> &'static str {
    let mut names = point.scenarios().map(|(name, _)| name).peekable();
    let has_messages = shape.producers || shape.consumers;
    let is_server = !has_messages && names.peek().is_some();
    match is_server && names.all(|name| name == "probe" || name.starts_with("probe_")) {
        true => "server",
        false => "broker",
    }
}
