//! `run.json`: the run, its surroundings, and its end.

use std::collections::BTreeMap;
use std::fmt;

use measure::{Metric, Nanos, Phase, Problem, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    pub experiment: Value,
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
    /// Its place in a run that a fleet carried; `None` where one process carried it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetPart>,
}

/// A worker's part of a run, or the whole of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetPart {
    /// Name of the whole run, as its coordinator prints it.
    pub run: String,
    /// Number of the worker, from 0.
    pub worker: u32,
    /// Workers of the run.
    pub workers: u32,
    /// Name of the worker; empty where it is the whole run.
    pub name: String,
    /// The broker's node that it recorded, in place of a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The most by which the clock of those who sent to its consumers could be off, where others may have done so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub senders_bound: Option<Nanos>,
}

impl FleetPart {
    /// Whether it is a worker's, and no whole run.
    pub const fn is_part(&self) -> bool {
        !self.name.is_empty()
    }
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

impl Versions {
    /// Name and version of the broker for people: bellows' own has one name, whoever started it.
    pub fn broker_name(&self) -> Option<String> {
        let broker = self.broker.as_deref()?;
        let own = broker.strip_prefix("bellows ").map(|own| own.strip_prefix("embedded ").unwrap_or(own));
        Some(own.map_or_else(|| broker.to_owned(), |own| format!("embedded {own}")))
    }
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

/// Delivery promise of a load: its guarantee, and what acknowledgements mean on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryPromise {
    /// Different ones of its groups.
    producers: Vec<Shared<ProducerProof>>,
    /// Different ones of its groups.
    consumers: Vec<Shared<ConsumerProof>>,
}

/// A proof, and the destinations of the groups that share it, which are no part of what it means.
#[derive(Clone, Debug, Eq)]
struct Shared<P> {
    proof: P,
    destinations: Vec<String>,
}

impl<P: PartialEq> PartialEq for Shared<P> {
    fn eq(&self, other: &Self) -> bool {
        self.proof == other.proof
    }
}

/// Destinations that a meaning names at most.
const MOST_NAMED: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProducerProof {
    kind: ProofKind,
    /// Where a message is once it is acknowledged.
    place: &'static str,
}

const IN_MEMORY: &str = "in the memory of one node";
const ON_DISK: &str = "on disk on one node";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProofKind {
    Unconfirmed,
    Confirms,
    /// MQTT's quality of service 2.
    Once,
    Commits,
    Replies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConsumerProof {
    Auto,
    Acks,
    /// MQTT's quality of service 2.
    Once,
    Commits,
}

impl DeliveryPromise {
    /// The promise of a resolved experiment, as [`RunRecord::experiment`] keeps it; `None` without messages.
    pub fn of(experiment: &Value) -> Option<Self> {
        let broker = experiment.pointer("/broker/kind").and_then(Value::as_str).unwrap_or_default();
        let mut promise = Self::default();
        for load in experiment.get("load").and_then(Value::as_array).into_iter().flatten() {
            if load.get("kind").and_then(Value::as_str) == Some("command") {
                continue;
            }
            add(&mut promise.producers, ProducerProof::of(load, broker), load);
            add(&mut promise.consumers, ConsumerProof::of(load), load);
        }
        (promise != Self::default()).then_some(promise)
    }

    /// Whether acknowledgements of two loads mean different things to producers or to consumers of both. On how many
    /// nodes a message is does not count: that is compared on purpose.
    pub fn is_unlike(&self, other: &Self) -> bool {
        is_any_alone(&self.producers, &other.producers, ProducerProof::is_like)
            || is_any_alone(&self.consumers, &other.consumers, ConsumerProof::eq)
    }

    /// `at-most-once`, `at-least-once`, `at-least-once-durable`, `exactly-once` or `transactional`: the weakest of its
    /// groups.
    pub fn guarantee(&self) -> &'static str {
        let any = |kind| self.producers.iter().any(|it| it.proof.kind == kind);
        let all = |is: fn(&ProducerProof) -> bool| {
            !self.producers.is_empty() && self.producers.iter().all(|it| is(&it.proof))
        };
        let consumes = |proof| self.consumers.iter().any(|it| it.proof == proof);
        if any(ProofKind::Unconfirmed) || consumes(ConsumerProof::Auto) {
            "at-most-once"
        } else if all(|it| it.kind == ProofKind::Commits)
            || self.consumers.len() == 1 && consumes(ConsumerProof::Commits)
        {
            "transactional"
        } else if self.producers.iter().all(|it| it.proof.kind == ProofKind::Once)
            && self.consumers.iter().all(|it| it.proof == ConsumerProof::Once)
        {
            "exactly-once"
        } else if all(|it| it.place != IN_MEMORY) {
            "at-least-once-durable"
        } else {
            "at-least-once"
        }
    }
}

/// `at-least-once: a confirm says that a message is in the memory of one node; consumers acknowledge deliveries`. Where
/// groups differ, each meaning names its destinations.
impl fmt::Display for DeliveryPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let producers = self.producers.iter().map(|it| it.named(it.proof.meaning(), self.producers.len()));
        let consumers = self.consumers.iter();
        let consumers = consumers.map(|it| it.named(it.proof.meaning().to_owned(), self.consumers.len()));
        let all: Vec<String> = producers.chain(consumers).collect();
        write!(f, "{}: {}", self.guarantee(), all.join("; "))
    }
}

impl<P> Shared<P> {
    /// A meaning, with its destinations where there are several meanings.
    fn named(&self, meaning: String, meanings: usize) -> String {
        if meanings < 2 || self.destinations.is_empty() {
            return meaning;
        }
        let first: Vec<&str> = self.destinations.iter().take(MOST_NAMED).map(String::as_str).collect();
        let more = match self.destinations.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{meaning} ({}{more})", first.join(", "))
    }
}

/// Adds a load's proof, and its destinations to those of loads that share it.
fn add<P: PartialEq>(all: &mut Vec<Shared<P>>, proof: Option<P>, load: &Value) {
    let Some(proof) = proof else { return };
    let several = load.get("destinations").and_then(Value::as_array);
    let names = several.into_iter().flatten().chain(load.get("destination")).filter_map(Value::as_str);
    let known = all.iter_mut().find(|it| it.proof == proof);
    let mut destinations = known.as_ref().map_or_else(Vec::new, |it| it.destinations.clone());
    for name in names.map(str::to_owned) {
        if !destinations.contains(&name) {
            destinations.push(name);
        }
    }
    match known {
        Some(known) => known.destinations = destinations,
        None => all.push(Shared { proof, destinations }),
    }
}

/// Whether one side has what the other has nothing like; `false` where a side has nothing.
fn is_any_alone<P>(a: &[Shared<P>], b: &[Shared<P>], is_like: fn(&P, &P) -> bool) -> bool {
    let lacks = |all: &[Shared<P>], one: &Shared<P>| !all.iter().any(|it| is_like(&it.proof, &one.proof));
    let is_none = a.is_empty() || b.is_empty();
    !is_none && (a.iter().any(|it| lacks(b, it)) || b.iter().any(|it| lacks(a, it)))
}

fn flag(load: &Value, key: &str, absent: bool) -> bool {
    load.get(key).and_then(Value::as_bool).unwrap_or(absent)
}

fn number(load: &Value, key: &str, absent: u64) -> u64 {
    load.get(key).and_then(Value::as_u64).unwrap_or(absent)
}

impl ProducerProof {
    fn of(load: &Value, broker: &str) -> Option<Self> {
        if number(load, "total-producers", number(load, "producers", 1)) == 0 {
            return None;
        }
        let kind = match number(load, "commit-every", 0) {
            _ if flag(load, "request-reply", false) => ProofKind::Replies,
            0 if number(load, "qos", 1) == 2 => ProofKind::Once,
            0 if number(load, "qos", 1) > 0 && flag(load, "confirm", true) => ProofKind::Confirms,
            0 => ProofKind::Unconfirmed,
            _ => ProofKind::Commits,
        };
        let first = load.pointer("/destinations/0").or_else(|| load.get("destination")).and_then(Value::as_str);
        let is_kept = match first.is_some_and(|it| it.starts_with("topic://")) {
            true => load.pointer("/subscription/durable").and_then(Value::as_bool).unwrap_or(false),
            false => flag(load, "durable", true),
        };
        let is_durable = is_kept && flag(load, "persistent", false);
        let place = match load.get("queue-type").and_then(Value::as_str) {
            _ if broker == "embedded" => IN_MEMORY,
            Some("quorum") => "on disk on a majority of its nodes",
            Some("stream") => "written on a majority of its nodes, and not synced",
            _ if is_durable => ON_DISK,
            _ => IN_MEMORY,
        };
        Some(Self { kind, place })
    }

    /// Whether acknowledgements mean the same, but for the number of nodes: without any, nothing tells places apart.
    fn is_like(&self, other: &Self) -> bool {
        let has_place = matches!(self.kind, ProofKind::Confirms | ProofKind::Once | ProofKind::Commits);
        let are_of_one_node = [self.place, other.place].iter().all(|it| [IN_MEMORY, ON_DISK].contains(it));
        self.kind == other.kind && (!has_place || !are_of_one_node || self.place == other.place)
    }

    fn meaning(&self) -> String {
        let place = self.place;
        match self.kind {
            ProofKind::Unconfirmed => "producers get no acknowledgement".to_owned(),
            ProofKind::Confirms => format!("a confirm says that a message is {place}"),
            ProofKind::Once => format!("a completed hand-over says that a message is {place}, once"),
            ProofKind::Commits => format!("a commit says that its messages are {place}"),
            ProofKind::Replies => "a consumer's reply acknowledges a request".to_owned(),
        }
    }
}

impl ConsumerProof {
    fn of(load: &Value) -> Option<Self> {
        if number(load, "total-consumers", number(load, "consumers", 1)) == 0 {
            return None;
        }
        Some(match load.get("ack").and_then(Value::as_str) {
            Some("auto") => Self::Auto,
            _ if number(load, "qos", 1) == 0 => Self::Auto,
            _ if number(load, "qos", 1) == 2 => Self::Once,
            _ if number(load, "consumer-commit-every", 0) > 0 => Self::Commits,
            _ => Self::Acks,
        })
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Auto => "a delivery counts as acknowledged once it is sent",
            Self::Acks => "consumers acknowledge deliveries",
            Self::Once => "consumers take over deliveries once",
            Self::Commits => "consumers acknowledge in transactions",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn promise(load: Value) -> DeliveryPromise {
        DeliveryPromise::of(&json!({"broker": {"kind": "rabbitmq"}, "load": [load]})).unwrap()
    }

    #[test]
    fn the_guarantee_follows_from_how_both_sides_acknowledge() {
        let durable = json!({"persistent": true});
        for [load, guarantee, part] in testkit::table(include_str!("../tests/data/guarantees.txt")) {
            let load = serde_json::from_str(load).unwrap();
            let found = promise(load);
            assert_eq!(found.guarantee(), guarantee, "{found}");
            assert!(found.to_string().contains(part), "{found}");
        }
        assert_eq!(DeliveryPromise::of(&json!({"load": [{"kind": "command"}]})), None);
        let embedded = json!({"broker": {"kind": "embedded"}, "load": [durable]});
        assert_eq!(DeliveryPromise::of(&embedded).unwrap().guarantee(), "at-least-once");
    }

    #[test]
    fn unlike_are_other_acknowledgements_and_not_more_nodes() {
        let plain = promise(json!({}));
        for [load, is_unlike] in testkit::table(include_str!("../tests/data/unlike-promises.txt")) {
            let found = plain.is_unlike(&promise(serde_json::from_str(load).unwrap()));
            assert_eq!(found, is_unlike == "true", "{load}");
        }
        // What both sides call by the same words, on a disk or without acknowledgements, was refused.
        let durable = json!({"persistent": true});
        assert!(!promise(durable.clone()).is_unlike(&promise(json!({"queue-type": "quorum"}))));
        let unconfirmed = |persistent: bool| promise(json!({"confirm": false, "persistent": persistent}));
        assert!(!unconfirmed(false).is_unlike(&unconfirmed(true)));
        let of =
            |kind: &str, load: Value| DeliveryPromise::of(&json!({"broker": {"kind": kind}, "load": load})).unwrap();
        assert!(!of("embedded", json!([durable])).is_unlike(&of("embedded", json!([{}]))));
        // So were groups in another order, or that differ in nodes alone.
        let (classic, quorum, auto) = (json!({}), json!({"queue-type": "quorum"}), json!({"ack": "auto"}));
        let both = of("rabbitmq", json!([classic, auto]));
        assert!(!both.is_unlike(&of("rabbitmq", json!([auto, classic]))) && both.is_unlike(&plain));
        assert!(!of("rabbitmq", json!([classic, quorum])).is_unlike(&plain));
        // Several places were told without a queue; in one alone there is nothing to tell apart.
        let (a, b) = (json!({"destination": "queue://a"}), json!({"destinations": ["queue://b", "queue://c"]}));
        let mut kept = b.clone();
        kept["queue-type"] = json!("quorum");
        let told = of("rabbitmq", json!([a, kept])).to_string();
        assert!(told.contains("of one node (queue://a); a confirm says"), "{told}");
        assert!(told.contains("of its nodes (queue://b, queue://c); consumers acknowledge deliveries"), "{told}");
        assert!(told.ends_with("deliveries") && !of("rabbitmq", json!([a, b])).to_string().contains("queue://"));
        // The weakest of all groups.
        assert_eq!(of("rabbitmq", json!([{"commit-every": 5}, classic])).guarantee(), "at-least-once");
    }
}
