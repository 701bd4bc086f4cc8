//! Typed warnings: what may be wrong with a number. They are data; `report` makes their sentences.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How much a warning takes from the numbers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The number must not be used. `--strict` heeds only these.
    Invalid,
    /// A number is off: the text says which one, and which way.
    #[default]
    Caution,
    /// Worth knowing; the numbers are right.
    Note,
}

/// What helps against a debug build of bellows, as the pages say it.
pub const RELEASE_BUILD: &str = "build with `make build`, or install with `make install`";

/// The kinds of warning, for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// The generator's own loop lag or CPU explains the latency.
    GeneratorSaturated,
    /// Less was sent than the schedule requested.
    RateNotAchieved,
    /// Broker and generator share too few cores.
    TooFewCores,
    /// This is a debug build of bellows.
    DebugBuild,
    /// A printed percentile has fewer than ten samples beyond it.
    TooFewSamples,
    /// The profiler lost samples.
    LostSamples,
    /// The kernel throttled the profiler.
    ProfilerThrottled,
    /// Part of the profile is missing or could not be had.
    ProfileIncomplete,
    /// The clock is not steady.
    ClockNotSteady,
    /// The hypervisor took CPU time.
    CpuSteal,
    /// A trend inside the measured phase.
    NotSteadyState,
    /// The broker blocked publishers (memory or disk alarm).
    ConnectionBlocked,
    /// The broker's certificate was not checked (`--insecure`).
    CertificateNotChecked,
    /// Connections were lost; the run went on and tried to reconnect.
    ConnectionsLost,
    /// Messages were lost, repeated without need, or damaged.
    MessagesLost,
    /// Messages were confirmed and not delivered by the end of the drain; the broker may hold them.
    MessagesOutstanding,
    /// Messages were refused, returned or not acknowledged.
    MessagesNotAccepted,
    /// Connections, channels or queues could not be opened or closed in order.
    CyclesFailed,
    /// The run ended before its time.
    Interrupted,
    /// Part of the archive could not be written.
    ArchiveIncomplete,
    /// Messages left late although nothing but the generator held them up.
    GeneratorLate,
    /// Connections were down when the run ended: the broker never came back.
    BrokerGone,
    /// The broker, the generator or the machine stood still for a while.
    Stalled,
    /// Messages were due and had no answer when the run ended.
    MessagesUnanswered,
    /// Pages of metrics that were due did not come.
    ScrapesFailed,
    /// What should have selected series of a page found none.
    NothingSelected,
    /// Faults of the experiment did not take place, or not at their time.
    FaultsMissed,
    /// A node of the cluster was not there any more when the run ended.
    NodeGone,
    /// A trace of the broker's node ended before the load did, or did not begin.
    TraceEnded,
    /// Functions were traced on the broker's node while the load ran, which changes what is measured.
    Traced,
    /// Somebody looked into the broker with another command while the load ran.
    LookedInto,
    /// The broker no longer permits a feature that was asked for; another one stood in for it.
    NotPermitted,
}

/// One warning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Warning {
    /// Its kind.
    pub code: WarningCode,
    /// What it means for the numbers.
    #[serde(default)]
    pub tier: Tier,
    /// What was observed, by name.
    #[serde(default)]
    #[cfg_attr(feature = "typescript", ts(type = "Record<string, unknown>"))]
    pub values: BTreeMap<String, Value>,
    /// The observed value, which number it puts in doubt, and the remedy.
    pub text: String,
}

impl Warning {
    /// A warning without values, whose sentence is not made yet.
    #[must_use]
    pub const fn new(code: WarningCode, tier: Tier) -> Self {
        Self {
            code,
            tier,
            values: BTreeMap::new(),
            text: String::new(),
        }
    }

    /// The same with an observed value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    /// An observed number; 0 where there is none.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        self.values.get(name).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// An observed count; 0 where there is none.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.values.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// An observed text; empty where there is none.
    #[must_use]
    pub fn word(&self, name: &str) -> &str {
        self.values.get(name).and_then(Value::as_str).unwrap_or("")
    }
}
