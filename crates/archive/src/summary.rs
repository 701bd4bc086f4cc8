//! The object for machines: `summary` of `run.json`, printed by `--json`. Its JSON schema is `docs/run.schema.json`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use compare::EffectFigure;
use measure::ledger::LedgerSummary;
use measure::{LatencySummary, Metric, Nanos, Problem, ScenarioRole, Summaries};
use serde::{Deserialize, Serialize};
use stacks::ProfileSummary;

use crate::series::{MESSAGES, counts};
use crate::{Finding, Stall, TraceSummary, Verdict, Warning, WorkerSummary};

/// The whole object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Always [`RunSummary::SCHEMA`].
    pub schema: String,
    /// The run folder; empty where none was kept.
    pub run_dir: String,
    /// Broker under load; absent where nothing is known of it.
    #[serde(default, skip_serializing_if = "BrokerSummary::is_unknown")]
    pub broker: BrokerSummary,
    /// Faults of the broker, and how long it took to come back.
    pub faults: Vec<FaultOutcome>,
    /// Times in which the broker, the generator or the machine stood still, in the order of time.
    pub stalls: Vec<Stall>,
    /// Requirements with their outcomes; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<RequirementOutcome>,
    /// CPU time of the measured phase per second of it, in cores; the profiler's own included.
    pub cpu_cores: PerMessage,
    /// Peak resident memory of the measured phase.
    pub rss_mb: Rss,
    /// The nodes of a cluster in their order, where several run on this machine or workers record them; else absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeSummary>,
    /// The workers of a fleet in the order of their numbers; absent where one process carried the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerSummary>,
    /// One per profiled event.
    pub profiles: Vec<ProfileSummary>,
    /// Overhead of profiling; absent where it was not switched on and off in blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observer_effect: Option<ObserverEffect>,
    /// Outcomes of the operations of each scenario, by name; messages are one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scenarios: BTreeMap<String, ScenarioSummary>,
    /// Programs that loaded the broker; absent where there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramSummary>,
    /// Cost of pages of metrics that were requested beside the load; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scrapes: Vec<ScrapedPage>,
    /// Outcomes of traces on the broker's node; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceSummary>,
    /// Who limited the run; `None` where there was no load.
    pub verdict: Option<Verdict>,
    /// The error that ended the run; absent where it did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
    /// Warnings about these numbers.
    pub warnings: Vec<Warning>,
}

impl RunSummary {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.run/2";

    /// Kind of the loaded system: `server` for probes alone, else `broker`.
    pub fn loaded(&self) -> ScenarioRole {
        let mut loads = self.loads().peekable();
        let is_any = loads.peek().is_some() && self.programs.is_empty();
        match is_any && loads.all(|(_, of)| of.role == ScenarioRole::Server) {
            true => ScenarioRole::Server,
            false => ScenarioRole::Broker,
        }
    }

    /// Items that stalls delay: messages, or the operations of a run without them.
    pub fn items(&self) -> &str {
        self.main_load().map_or(MESSAGES, |(_, of)| of.unit.as_str())
    }

    /// The bound of a latency that was taken by the clocks of two machines; `None` of others.
    pub fn clock_bound(&self, latency: Metric) -> Option<ClockBound> {
        self.warnings.iter().find_map(|it| match &it.finding {
            Finding::ClockBound { latency: of, p50_s, bound_s } if of == latency.name() => {
                Some(ClockBound { bound_s: *bound_s, is_refused: p50_s.is_none() })
            }
            _ => None,
        })
    }

    /// Adds the outcome of a scenario.
    pub fn insert(&mut self, name: &str, summary: ScenarioSummary) {
        self.scenarios.insert(name.to_owned(), summary);
    }

    /// All scenarios: messages first, the others by name.
    pub fn scenarios(&self) -> impl Iterator<Item = (&str, &ScenarioSummary)> {
        self.scenarios.get_key_value(MESSAGES).map(|(name, of)| (name.as_str(), of)).into_iter().chain(self.others())
    }

    /// All scenarios other than messages.
    pub fn others(&self) -> impl Iterator<Item = (&str, &ScenarioSummary)> {
        self.scenarios.iter().map(|(name, of)| (name.as_str(), of)).filter(|(name, _)| *name != MESSAGES)
    }

    /// Scenarios that load the system; a trace only watches.
    pub fn loads(&self) -> impl Iterator<Item = (&str, &ScenarioSummary)> {
        self.scenarios().filter(|(_, of)| of.role != ScenarioRole::Watcher)
    }

    /// The load that stands for the run: the first one that was not idle, else the first.
    pub fn main_load(&self) -> Option<(&str, &ScenarioSummary)> {
        self.loads().find(|(_, of)| !of.is_idle()).or_else(|| self.loads().next())
    }

    /// Outcome of the messages; empty where the run had no load of them.
    pub fn messages(&self) -> &ScenarioSummary {
        static NONE: LazyLock<ScenarioSummary> = LazyLock::new(ScenarioSummary::default);
        self.scenarios.get(MESSAGES).unwrap_or(&NONE)
    }

    /// Outcome of the messages, to be changed.
    pub fn messages_mut(&mut self) -> &mut ScenarioSummary {
        let messages = self.scenarios.entry(MESSAGES.to_owned());
        messages.or_insert_with(|| ScenarioSummary {
            kind: MESSAGES.to_owned(),
            unit: MESSAGES.to_owned(),
            flow: Some(MessageFlow::default()),
            ..ScenarioSummary::default()
        })
    }

    /// Messages that were sent, acknowledged and received; none where the run had no load of them.
    pub fn flow(&self) -> &MessageFlow {
        static NONE: LazyLock<MessageFlow> = LazyLock::new(MessageFlow::default);
        self.messages().flow.as_ref().unwrap_or(&NONE)
    }

    /// Messages that were sent, acknowledged and received, to be changed.
    pub fn flow_mut(&mut self) -> &mut MessageFlow {
        self.messages_mut().flow.get_or_insert_default()
    }

    /// Operations that the main load's schedule requested; `None` where a producer is unthrottled or waits for answers.
    pub fn requested(&self) -> Option<&RequestedSummary> {
        self.main_load()?.1.requested.as_ref()
    }

    /// Whether messages were sent or received.
    pub fn has_messages(&self) -> bool {
        let flow = self.flow();
        flow.sent.total > 0 || flow.received.total > 0
    }
}

/// A program that loaded the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ProgramSummary {
    /// Its command line, without secrets.
    pub command: String,
    /// How it ended: `exit status 0`.
    pub status: String,
    /// The file of the run folder with its output.
    pub log: String,
}

/// Outcome of the requests for a page of metrics, from the load's beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ScrapedPage {
    /// Name of the page.
    pub name: String,
    /// Address, without secrets.
    pub url: String,
    /// Requests that brought a page.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were sent, and had no page at the end.
    pub unanswered: u64,
    /// Requests that were due and not sent, because the ones before took longer than the time between two.
    pub not_sent: u64,
    /// From when a request was due until its page had been read.
    pub response: LatencySummary,
    /// Bytes that arrived for all requests, compressed where the server compresses.
    pub received_bytes: u64,
    /// Bytes that arrived for a page, the median.
    pub arrived_bytes: u64,
    /// Bytes of a page, not compressed: the median of those that were due in the measured phase.
    pub page_bytes: u64,
    /// Bytes of the largest page.
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub page_bytes_max: u64,
    /// Series of a page: the median.
    pub series: u64,
    /// Series of the page with the most.
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub series_max: u64,
    /// The broker of the run serves it, and no other page that is scraped.
    pub is_of_broker: bool,
    /// The program of the process that serves it, where that is on this machine and none of the broker's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub foreign_server: Option<String>,
    /// Cost of a page to that broker; absent where it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub broker_cpu: Option<PageCpu>,
}

/// CPU time that a page costs the broker, beyond its use for the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PageCpu {
    /// Estimated seconds per page.
    pub seconds: f64,
    /// The interval that holds it with a confidence of 95 %.
    pub interval: (f64, f64),
}

/// Outcome of a scenario's operations. Counts are of those due in the measured phase; message totals of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ScenarioSummary {
    /// Loaded objects: `messages`, `connections`, `channels` or `queues`; the URL of a probe.
    pub kind: String,
    /// Name of its operations.
    pub unit: String,
    /// Loaded system.
    pub role: ScenarioRole,
    /// Operations that ended in order inside the measured phase, per second of its measured length; of messages, the
    /// larger rate of those that were sent and those that were received.
    pub rate: f64,
    /// The counts. They stand before `flow`, which takes its keys away when it is read.
    #[serde(flatten, deserialize_with = "counts")]
    pub counts: BTreeMap<Metric, u64>,
    /// Messages that were sent, acknowledged and received; absent of other operations.
    #[serde(flatten)]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub flow: Option<MessageFlow>,
    /// Operations that its schedule requested; absent where a producer is unthrottled or waits for answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub requested: Option<RequestedSummary>,
    /// Why operations failed.
    pub failures: Vec<FailureCount>,
    /// CPU time of the measured phase per operation that ended in it, microseconds; absent beside other load.
    pub cpu_us_each: PerMessage,
    /// The latency of a whole operation among `latency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub headline: Option<Metric>,
    /// How long operations took, and each step of them.
    pub latency: Summaries,
}

/// Messages that passed, and their ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageFlow {
    /// Messages sent.
    pub sent: Throughput,
    /// Messages acknowledged.
    pub completed: Throughput,
    /// Messages delivered.
    pub received: Throughput,
    /// Messages that found the in-flight budget used up.
    pub blocked: Throughput,
    /// Copies that were sent again after a reconnect, which are not in `sent`; absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resent: Option<u64>,
    /// Times that these rates are over, if the load ended by itself; absent where they are over the measured phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasted: Option<Lasted>,
    /// Some producers wait for an answer before they go on: latencies have coordinated omission by construction.
    pub closed_loop: bool,
    /// Nobody was to receive any: `received` is no rate, not even 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_consumers: bool,
    /// Outcome of every message, warm-up and drain included; `None` where no ledger was kept.
    pub ledger: Option<LedgerSummary>,
}

impl ScenarioSummary {
    /// Whether nothing was requested and nothing was done: consumers of an empty queue are idle.
    pub fn is_idle(&self) -> bool {
        let is_requested = |it: &RequestedSummary| it.rate > 0.0 || it.total > 0.0;
        let is_moved = |it: &MessageFlow| it.sent.total > 0 || it.received.total > 0;
        self.rate <= 0.0
            && self.counts.values().all(|count| *count == 0)
            && !self.requested.as_ref().is_some_and(is_requested)
            && !self.flow.as_ref().is_some_and(is_moved)
    }

    /// The count with this key, alone or behind the scenario's name (`probe_failed`); 0 where there is none.
    pub fn count(&self, key: &str) -> u64 {
        let own = |metric: &Metric| {
            let info = metric.info();
            let rest = info.key.strip_prefix(info.scenario);
            info.key == key || rest.and_then(|it| it.strip_prefix('_')) == Some(key)
        };
        self.counts.iter().find(|(metric, _)| own(metric)).map_or(0, |(_, count)| *count)
    }

    /// The latency of a whole operation, where one was recorded.
    pub fn headline(&self) -> Option<(Metric, &LatencySummary)> {
        let mut filled = self.latency.filled();
        match self.headline {
            Some(metric) => filled.find(|(of, _)| *of == metric),
            None => filled.next(),
        }
    }
}

/// A fault of the broker. Times after it are in seconds since it began; `None` where they did not come within the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultOutcome {
    /// `stop`, `kill`, or a fault of the embedded broker as its script writes it: `stall`, `lose`, …
    pub kind: String,
    /// The node of a cluster that it hit; absent where none was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// When it began, in seconds since the run's origin.
    pub t: f64,
    /// How long after its time that was, where it was a second or more: the fault before it took longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_s: Option<f64>,
    /// How long the broker was to be away, if a length was given; [`Self::back_s`] beyond it is the broker's own start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_s: Option<f64>,
    /// Whether it killed a broker or a node that was to stay away to the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_good: bool,
    /// Why it could not be done, or why the broker did not come back from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Messages, confirms, logins or connections that it hit, as the embedded broker says.
    pub count: Option<u64>,
    /// The broker went on, or was ready again.
    pub back_s: Option<f64>,
    /// Whether the first confirm was looked for: in a cluster, of messages sent since the fault began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watched: bool,
    /// The first message was confirmed again.
    pub first_confirm_s: Option<f64>,
    /// Producers were on schedule, and consumers had a message that was due since then.
    pub backlog_gone_s: Option<f64>,
}

/// Broker under load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct BrokerSummary {
    /// `rabbitmq`, `embedded`, or what the broker calls itself, in lower case; absent of a server that is no broker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its version, if it gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub version: Option<String>,
    /// Its process, where it runs on this machine and could be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub pid: Option<u32>,
}

impl BrokerSummary {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// A total that includes warm-up and drain, and a rate over the measured phase alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Throughput {
    /// Whole run.
    pub total: u64,
    /// Messages per second of the measured phase, by its measured length.
    pub rate: f64,
}

/// Seconds from the measured phase's beginning to the last message sent, acknowledged and received; 0 without any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Lasted {
    /// Until the last was sent.
    pub sent_s: f64,
    /// Until the last was acknowledged.
    pub completed_s: f64,
    /// Until the last was received.
    pub received_s: f64,
}

/// Requested and sent messages. Of other scenarios its messages are their operations, which are sent when they begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RequestedSummary {
    /// Messages due in warm-up and measured phase: the integral of the rate. Random arrivals deviate from it.
    pub total: f64,
    /// The mean of the measured phase, as long as messages were due in it, in messages per second.
    pub rate: f64,
    /// Messages sent in the measured phase, or those due less those never sent if that is fewer, divided by those
    /// requested in it; `None` where none were.
    pub achieved: Option<f64>,
    /// Share of the measured phase's messages that were sent later than 1 ms after their time (0 to 1).
    pub late_share: f64,
    /// The measured phase in the order of time: a second each, or so much longer that there are at most 600.
    pub over_time: Vec<RequestedWindow>,
}

impl RequestedSummary {
    /// Whether over 5 % more was sent in the measured phase than was due in it, beyond random arrivals: a backlog.
    pub fn has_backlog(&self) -> bool {
        let due: f64 = self.over_time.iter().map(|it| it.requested * it.dt).sum();
        let excess = self.achieved.map_or(0.0, |achieved| due * (achieved - 1.0));
        excess > due * 0.05 && excess > 1.5 + 4.0 * due.max(0.0).sqrt()
    }
}

/// A part of [`RequestedSummary::over_time`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RequestedWindow {
    /// Its start in seconds since the run's origin.
    pub t: f64,
    /// Its measured length in seconds.
    pub dt: f64,
    /// Requested messages per second.
    pub requested: f64,
    /// Messages per second sent.
    pub sent: f64,
}

/// CPU of the two sides: microseconds per operation (of messages, the more frequent of sent and received), or cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PerMessage {
    /// The broker's process tree.
    pub broker: Option<f64>,
    /// bellows itself.
    pub client: Option<f64>,
}

/// Peak resident memory in MB (10^6 bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Rss {
    /// The broker's process tree.
    pub broker: Option<f64>,
    /// bellows itself.
    pub client: Option<f64>,
}

/// CPU and memory of a broker's node in the measured phase, with its descendants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct NodeSummary {
    /// Its number, from 0 on.
    pub node: u32,
    /// CPU time per second that it ran, in cores.
    pub cpu_cores: f64,
    /// How many seconds of the measured phase it ran, where it was away for a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_s: Option<f64>,
    /// Peak resident memory in MB (10^6 bytes).
    pub rss_mb: f64,
    /// Its Erlang node, else its command, where a worker of a fleet recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The most by which its instants can be off, in seconds, where a worker of a fleet recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_bound_s: Option<f64>,
}

impl NodeSummary {
    /// Its number and name: `node 1 (rabbit@b, clock ± 52.0 µs)`.
    pub fn title(&self) -> String {
        let bound = self.clock_bound_s.map(|it| format!("clock ± {}", Nanos::from_secs_f64(it)));
        let known: Vec<String> = self.name.clone().into_iter().chain(bound).collect();
        let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
        format!("node {}{known}", self.node)
    }
}

/// How well a latency is known that was taken by two clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockBound {
    /// The most by which the clocks may be apart, seconds.
    pub bound_s: f64,
    /// Its median is under five bounds: the latency is left out.
    pub is_refused: bool,
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

/// Unit of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum QuantityUnit {
    /// Nanoseconds of time.
    #[default]
    Ns,
    /// Per second.
    PerSecond,
    /// A share from 0 to 1.
    Share,
    /// A number of things.
    Count,
    /// Bytes of memory.
    Bytes,
    /// Cores that were busy: CPU time divided by elapsed time.
    Cores,
}

/// One requirement of a run, and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(default)]
pub struct RequirementOutcome {
    /// The condition as people write it: `end-to-end p99 < 20ms`.
    pub that: String,
    /// Observed value; `None` where it cannot be told.
    pub observed: Option<f64>,
    /// Required value.
    pub bound: f64,
    /// Unit of both.
    pub unit: QuantityUnit,
    /// Whether it held; `None` where that cannot be told.
    pub met: Option<bool>,
    /// Why it cannot be told.
    pub why: Option<String>,
    /// The probe that it was observed at: the worst, where there are several and none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub decided_by: Option<String>,
}

impl RequirementOutcome {
    /// Why a percentile of few samples cannot be told.
    pub const TOO_FEW: &str = "fewer than ten samples lie beyond this percentile";

    /// Whether too few samples keep it from being told: more of them would help.
    pub fn lacks_samples(&self) -> bool {
        self.why.as_deref() == Some(Self::TOO_FEW)
    }
}

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
