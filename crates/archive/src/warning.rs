//! Typed warnings: what may be wrong with a number, and what to do about it.

use serde::{Deserialize, Serialize};

/// The kinds of warning, for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// The generator's own loop lag or CPU explains the latency.
    GeneratorSaturated,
    /// Less was sent than the schedule asked for.
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
}

/// One warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Warning {
    /// Its kind.
    pub code: WarningCode,
    /// The observed value, which number it puts in doubt, and the remedy.
    pub text: String,
}

impl Warning {
    /// A warning.
    pub fn new(code: WarningCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}
