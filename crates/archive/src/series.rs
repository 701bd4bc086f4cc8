//! `series.jsonl`: one line per interval, about a second each, and the counts and latencies of its scenarios.

use std::collections::BTreeMap;

use measure::{Counters, Interval, Metric, MetricKind, Phase, Summaries, Waits};
use serde::{Deserialize, Deserializer, Serialize};

/// One line of `series.jsonl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Start of the interval in seconds since the run's origin.
    pub t: f64,
    /// Measured length of the interval in seconds. Rates are `count / dt`.
    pub dt: f64,
    /// The phase that all of it belongs to.
    pub phase: Phase,
    /// Messages, or operations of the first scenario, per second that the schedule requested; absent when all-out.
    pub requested_rate: Option<f64>,
    /// Counts inside the interval.
    pub counters: Counters,
    /// Latencies of answers in the interval to operations that were due in its phase, of the drain to those of the
    /// measured phase; whole histograms are in `latency.hlog`.
    pub latency: Summaries,
    /// How late the generator's own event loop was at worst, nanoseconds.
    pub loop_lag_max_ns: u64,
    /// The broker's process tree; absent where its pid is unknown.
    pub broker: Option<ProcessUsage>,
    /// bellows itself.
    pub client: Option<ProcessUsage>,
    /// Share of the machine's CPU time taken by its hypervisor (0 to 1).
    pub steal: Option<f64>,
    /// Share of the machine's CPU time that was idle (0 to 1).
    pub idle: Option<f64>,
    /// Times that producers and event loops waited, nanoseconds, added up over all of them.
    pub waits: Waits,
    /// Scenarios other than messages by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scenarios: BTreeMap<String, ScenarioPoint>,
}

impl SeriesPoint {
    /// All scenarios other than messages.
    pub fn scenarios(&self) -> impl Iterator<Item = (&str, &ScenarioPoint)> {
        self.scenarios.iter().map(|(name, point)| (name.as_str(), point))
    }

    /// Latencies of all scenarios, those of messages first.
    pub fn latencies(&self) -> impl Iterator<Item = &Summaries> {
        let others = self.scenarios.values().map(|of| &of.latency);
        std::iter::once(&self.latency).chain(others)
    }
}

/// CPU and memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// CPU time divided by elapsed time: 1.2 is one core and a fifth.
    pub cpu_cores: f64,
    /// Resident memory in bytes at the end of the interval; absent, 0 here, of a process that is gone by then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rss_bytes: u64,
    /// Threads at the end of the interval; absent like the memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub threads: u32,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The scenario of messages.
pub const MESSAGES: &str = "messages";

/// A scenario's counts and latencies in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioPoint {
    /// Counts by the time at which something happened.
    #[serde(flatten, deserialize_with = "counts")]
    pub counts: BTreeMap<Metric, u64>,
    /// Latencies that were recorded; whole histograms are in `latency.hlog`.
    pub latency: Summaries,
}

impl ScenarioPoint {
    /// Points of an interval, by the scenarios' names.
    pub fn all_of(interval: &Interval) -> BTreeMap<String, Self> {
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        for (metric, count) in interval.counts.iter() {
            let point = all.entry(metric.info().scenario.to_owned()).or_default();
            point.counts.insert(metric, count);
        }
        let names = interval.latencies.filled().map(|(metric, _)| metric.info().scenario);
        for name in names.filter(|name| *name != MESSAGES) {
            all.entry(name.to_owned()).or_default().latency = interval.latencies.of_scenario(name);
        }
        all
    }
}

/// Reads all keys with a number that may be a metric's; others are of a later version.
pub(crate) fn counts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Metric, u64>, D::Error> {
    let all = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
    let count = |(key, value): (&String, &serde_json::Value)| {
        let count = value.as_u64()?;
        Some((Metric::named(key, MetricKind::Counter)?, count))
    };
    Ok(all.iter().filter_map(count).collect())
}
