//! Counts and latencies of scenarios other than messages, whatever they are.

use std::collections::BTreeMap;

use measure::{Interval, Metric, MetricKind, Summaries};
use serde::{Deserialize, Deserializer, Serialize};

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
    #[must_use]
    pub fn all_of(interval: &Interval) -> BTreeMap<String, Self> {
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        for (metric, count) in interval.counts.iter() {
            let point = all.entry(metric.info().scenario.to_owned()).or_default();
            point.counts.insert(metric, count);
        }
        let recorded = interval.latencies.filled();
        let names: Vec<_> = recorded.map(|(metric, _)| metric.info().scenario).collect();
        for name in names {
            if name != MESSAGES {
                let point = all.entry(name.to_owned()).or_default();
                point.latency = interval.latencies.of_scenario(name);
            }
        }
        all
    }
}

/// Operations that failed for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct FailureCount {
    /// The reason.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// Reads all keys with a number that may be a metric's; others are of a later version.
pub(crate) fn counts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Metric, u64>, D::Error> {
    let all = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
    let count = |(key, value): (&String, &serde_json::Value)| {
        let count = value.as_u64()?;
        Some((Metric::named(key, MetricKind::Counter)?, count))
    };
    Ok(all.iter().filter_map(count).collect())
}
