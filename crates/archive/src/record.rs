//! `run.json`: the run, its surroundings, and its end.

use std::collections::BTreeMap;

use measure::{Metric, Phase, Problem, Time};
use serde::{Deserialize, Serialize};

use crate::{LookSpan, RunSummary, Warning};

measure::named! {
    /// How far a run got.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
    #[serde(rename_all = "snake_case")]
    pub enum RunState {
        /// In progress, or cut off: nothing was written after the last second of the series.
        #[default]
        Running = "unfinished",
        /// Ended as planned.
        Complete = "complete",
        /// Stopped by the user; earlier measurements are valid.
        Interrupted = "interrupted",
        /// Ended by an error, which stands in [`RunRecord::error`].
        Failed = "failed",
    }
}

/// Side to blame for a run's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedBy {
    /// The broker, or the load that it was given.
    Side,
    /// The load generator, or the machine that it runs on.
    Generator,
}

/// The whole of `run.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Always [`RunRecord::SCHEMA`].
    pub schema: String,
    /// The folder's name: `2026-11-21T00-12-33Z-stream-publish-7k2q`.
    pub id: String,
    /// The experiment's name.
    pub name: String,
    /// Wall-clock start, RFC 3339 in UTC.
    pub created: String,
    /// The command that does it again, arguments without secrets.
    pub command: Vec<String>,
    /// The resolved experiment, without secrets.
    pub experiment: serde_json::Value,
    /// Its keys whose values are not the defaults, as `load.0.rate`; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_keys: Vec<String>,
    /// Versions of all that took part.
    pub versions: Versions,
    /// The machine.
    pub hardware: Hardware,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Origin of series, events and profiles (`t = 0`): the beginning of the load with its warm-up, or of a recording.
    pub origin: Time,
    /// The origin by the wall clock, nanoseconds since 1970-01-01 UTC.
    pub origin_unix_ns: u64,
    /// Metrics with name, unit, kind and meaning.
    #[serde(default, with = "measure::described")]
    pub metrics: Vec<Metric>,
    /// Scenarios by name, as they began: a run that was cut off has no summary that says more.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scenarios: BTreeMap<String, ScenarioStart>,
    /// Phases in the order of time, as far as they have ended.
    pub phases: Vec<PhaseSpan>,
    /// Labelled moments: faults, reconnects, alarms.
    pub events: Vec<Event>,
    /// Inspections of the broker by other commands, in the order in which they began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<LookSpan>,
    /// Queues, exchanges and bindings, as the broker reported them at the end of the measured phase.
    pub topology: Topology,
    /// How far the run got.
    pub state: RunState,
    /// The error of a failed run, in one line: cause, observed value and remedy.
    pub error: Option<String>,
    /// The error in fields; `None` where the run did not fail.
    pub problem: Option<Problem>,
    /// Part that failed; `None` where the run did not fail, or it was not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_by: Option<FailedBy>,
    /// Warnings about the numbers. Also in the summary; kept here while there is none.
    pub warnings: Vec<Warning>,
    /// Present once the run has ended.
    pub summary: Option<RunSummary>,
    /// Its part of a continuous recording; `None` where it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
}

/// A scenario as it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioStart {
    /// Loaded objects, as in [`crate::ScenarioSummary::kind`].
    pub kind: String,
    /// The latency of a whole operation; `None` of messages and of programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline: Option<Metric>,
}

/// A part of a continuous recording: one process in one period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// The recording's name, by which its old periods are found and removed.
    pub recording: String,
    /// Seconds that a period of it lasts; the first and the last may be shorter.
    pub every_s: f64,
    /// The process: its Erlang node, else its command.
    pub process: String,
    /// Its number.
    pub pid: u32,
    /// Labels that the recording was given.
    pub labels: BTreeMap<String, String>,
}

impl RunRecord {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.run-record/2";
}

/// Versions of all that took part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Versions {
    /// Version of bellows.
    pub bellows: String,
    /// The broker, as it calls itself: `RabbitMQ 3.10.8`.
    pub broker: Option<String>,
    /// The broker's runtime: `Erlang/OTP 25`.
    pub runtime: Option<String>,
}

/// The machine, as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Hardware {
    /// Processor model.
    pub cpu: String,
    /// Cores of the machine, within the limits of bellows' control groups; its affinity does not count.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// Operating system name.
    pub os: String,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Whether a hypervisor is present.
    pub virtualised: bool,
    /// Kernel settings that bear on the result, such as `kernel.perf_event_paranoid`.
    pub settings: Vec<(String, String)>,
}

/// One phase in seconds since the origin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PhaseSpan {
    /// Phase of the span.
    pub phase: Phase,
    /// First moment, in seconds since the origin.
    pub start: f64,
    /// End, in seconds since the origin.
    pub end: f64,
}

/// A labelled moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Event {
    /// Seconds since the origin.
    pub t: f64,
    /// One short sentence.
    pub label: String,
}

/// The broker's objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Topology {
    /// All queues (at most 1,000 are kept, [`Topology::omitted`] counts the others).
    pub queues: Vec<QueueRecord>,
    /// Exchanges that somebody declared.
    pub exchanges: Vec<ExchangeRecord>,
    /// Bindings, the default exchange's among them.
    pub bindings: Vec<BindingRecord>,
    /// Objects left out because there were too many.
    pub omitted: u64,
    /// Messages and consumers are from the broker's statistics, which lag by some seconds, not from the queues.
    pub lagging: bool,
    /// The run's own consumers had left when the broker was asked, so that a queue has at most those of others.
    pub consumers_left: bool,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct QueueRecord {
    /// The queue's name.
    pub name: String,
    /// Its virtual host.
    pub vhost: String,
    /// `classic`, `quorum`, `stream`, or what the broker says.
    #[serde(rename = "type")]
    pub kind: String,
    /// Survives a restart.
    pub durable: bool,
    /// Messages in it at the end of the run, as the broker counts them; a stream's count lags behind.
    pub messages: u64,
    /// Consumers that are subscribed to it.
    pub consumers: u64,
    /// The node of a cluster that its process or its leader is on; empty where all queues are on one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "typescript", ts(optional, as = "Option<String>"))]
    pub leader: String,
    /// The nodes that have it, where it is replicated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "typescript", ts(optional, as = "Option<Vec<String>>"))]
    pub members: Vec<String>,
    /// Arguments as `key=value`.
    pub arguments: Vec<String>,
}

/// An exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(default)]
pub struct ExchangeRecord {
    /// Name; empty for the default exchange.
    pub name: String,
    /// Its virtual host.
    pub vhost: String,
    /// `direct`, `topic`, …
    #[serde(rename = "type")]
    pub kind: String,
}

/// A binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct BindingRecord {
    /// Source exchange; empty for the default exchange.
    pub source: String,
    /// Virtual host of both.
    pub vhost: String,
    /// Destination queue or exchange.
    pub destination: String,
    /// Type of the destination, `queue` or `exchange`.
    pub destination_type: String,
    /// Routing key.
    pub routing_key: String,
    /// Arguments as `key=value`: those that an exchange of headers compares.
    pub arguments: Vec<String>,
}
