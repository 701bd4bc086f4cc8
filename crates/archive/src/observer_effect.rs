//! Overhead of profiling, from blocks of the measured phase with it and without it.

use serde::{Deserialize, Serialize};

/// Overhead of profiling: in each pair of blocks, sampling was on in one and off in the other, in random order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ObserverEffect {
    /// Seconds that a block lasts.
    pub block_s: f64,
    /// Seconds at the beginning of each block that are not counted.
    pub guard_s: f64,
    /// Pairs of blocks that were compared.
    pub pairs: u32,
    /// Pairs that were not: sampling was switched late, or nothing was counted.
    pub left_out: u32,
    /// Counted items: `messages`, or the operations of the load.
    pub unit: String,
    /// The load had a target rate, which profiling does not change: its cost shows in CPU and latency.
    pub paced: bool,
    /// A tracepoint stayed open while sampling was off, whose cost is in no figure.
    pub stays_in_the_way: bool,
    /// Messages or operations per second; absent with a target rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<EffectFigure>,
    /// Microseconds of the broker's CPU time per message or operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_cpu_us: Option<EffectFigure>,
    /// Likewise of bellows, with the threads that read samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_us: Option<EffectFigure>,
    /// The 99th percentile of a latency, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<EffectFigure>,
    /// Name of that latency: `end-to-end`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub latency: String,
    /// The blocks in the order of time.
    pub blocks: Vec<ProfilingBlock>,
}

/// How profiling changed a figure. Changes are shares of it: 0.02 is 2 % more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct EffectFigure {
    /// Without profiling, the geometric mean of blocks.
    pub off: f64,
    /// The change by profiling.
    pub change: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Smallest change that as many pairs with as much noise show in four of five runs.
    pub visible: f64,
    /// Share of all ways to exchange on and off in pairs that show as large a change; absent for more than 20 pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub sign_flip_p: Option<f64>,
}

impl EffectFigure {
    /// Whether the interval excludes 0.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// A block, in seconds since the run's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ProfilingBlock {
    /// Its start, with the guard.
    pub start: f64,
    /// Its end.
    pub end: f64,
    /// Whether samples were taken in it.
    pub on: bool,
}

/// Overhead of profiling by event, frequency and way to unwind stacks: a run each, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObserverTable {
    /// Always [`ObserverTable::SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub name: String,
    /// The runs in their order.
    pub rows: Vec<ObserverRow>,
}

impl ObserverTable {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.observer/1";
}

/// A run of an [`ObserverTable`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObserverRow {
    /// The event that was sampled.
    pub event: String,
    /// Samples per second and thread; `None` where each event is one, or the event has a pace of its own.
    pub frequency: Option<u32>,
    /// How stacks were unwound: `whole` or `frame-pointers`.
    pub stacks: String,
    /// The run folder.
    pub run_dir: String,
    /// Overhead; `None` where nothing could be sampled.
    pub observer_effect: Option<ObserverEffect>,
}
