//! Sentences for people on verdicts and warnings, which are data: functions by which an archive keeps both.

pub(crate) mod comparison;
pub(crate) mod functions;
pub(crate) mod limit;
mod looks;
pub(crate) mod matrix;
mod observer_effect;
mod options;
mod profile;
mod reasons;
pub(crate) mod scale;
mod stalls;
mod verdict;
mod warnings;

use std::borrow::Cow;
use std::collections::BTreeSet;

use archive::{BrokerSummary, QuantityUnit, RequirementOutcome, RunRecord, WorkerSummary};
use serde::Serialize;
use serde_json::Value;

use crate::numbers::{count, counted, figure, percent, seconds};

pub use crate::numbers::{bytes, rate, three_digits};
pub use looks::{look, trace};
pub use observer_effect::observer_effect;
pub(crate) use observer_effect::{change_and_interval, percent as effect_percent};
pub use options::{options, remedy};
pub use profile::{amount, classes, clock, covered, known_pattern, stacks, work};
pub(crate) use profile::{class_share, estimated_classes, estimated_summary, is_estimated};
pub use stalls::stall;
pub use verdict::verdict;
pub use warnings::warning;
pub(crate) use warnings::{SaidWithin, said_within};

/// A worker's start is late where it is as late as this: the table of workers has the others.
const TOLD_LATE_S: f64 = 1e-3;

/// A worker of a fleet, its part of the load, and how exact its clock is:
/// `a (zone=b): 500 sent, 500 received, 0.2 cores, busy 4.1 %, started 2 ms late, clock ± 31 µs`.
pub(crate) fn worker(of: &WorkerSummary) -> String {
    let labels = worker_labels(of);
    let labels = if labels.is_empty() { labels } else { format!(" ({labels})") };
    let (sent, received) = (count(of.sent), count(of.received));
    let mut text = format!("{}{labels}: {sent} sent, {received} received", of.name);
    text += &of_loops(of, format!(", {} cores", three_digits(of.cpu_cores)));
    let busy = busy(of);
    if !busy.is_empty() {
        text += &of_loops(of, format!(", busy {busy}"));
    }
    if let Some(late) = of.late_s.filter(|it| *it >= TOLD_LATE_S) {
        text += &format!(", started {} late", seconds(late));
    }
    if let Some(bound) = of.clock_bound_s {
        text += &format!(", clock ± {}", seconds(bound));
    }
    if of.lost_s.is_some() {
        text += &format!(", {}", worker_state(of));
    }
    text
}

/// A column of the table of a fleet's workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WorkerColumn {
    /// Its head.
    pub head: &'static str,
    /// Numbers stand at the right.
    pub number: bool,
    /// Its cells, in the order of the workers.
    pub cells: Vec<String>,
}

/// A head, whether numbers stand below it, and the cell of a worker; an empty one where that has none.
type WorkerCell = (&'static str, bool, fn(&WorkerSummary) -> String);

static WORKER_CELLS: [WorkerCell; 15] = [
    ("worker", false, |it| it.name.clone()),
    ("labels", false, worker_labels),
    ("host", false, |it| it.host.clone()),
    ("producers", true, |it| it.share.map(|of| count(of.producers)).unwrap_or_default()),
    ("consumers", true, |it| it.share.map(|of| count(of.consumers)).unwrap_or_default()),
    ("destinations", true, |it| it.share.map(|of| count(of.destinations)).unwrap_or_default()),
    ("sent msg/s", true, |it| three_digits(it.sent_rate)),
    ("received msg/s", true, |it| three_digits(it.received_rate)),
    ("CPU cores", true, |it| of_loops(it, three_digits(it.cpu_cores))),
    ("busy", true, |it| of_loops(it, busy(it))),
    ("core wait", true, |it| of_loops(it, percent(it.run_queue_wait))),
    ("sent late", true, |it| it.late_share.map(percent).unwrap_or_default()),
    ("started late", true, |it| it.late_s.map(seconds).unwrap_or_default()),
    ("clock offset", true, worker_clock),
    ("state", false, worker_state),
];

/// The table of a fleet's workers, without columns in which none has anything.
pub(crate) fn worker_table(workers: &[WorkerSummary]) -> Vec<WorkerColumn> {
    let column = |(head, number, cell): &WorkerCell| {
        let cells: Vec<String> = workers.iter().map(cell).collect();
        let is_known = cells.iter().any(|it| !it.is_empty());
        let cells = cells.into_iter().map(|it| if it.is_empty() { "–".to_owned() } else { it }).collect();
        is_known.then_some(WorkerColumn { head, number: *number, cells })
    };
    WORKER_CELLS.iter().filter_map(column).collect()
}

fn worker_labels(of: &WorkerSummary) -> String {
    of.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// A figure of event loops, of which a worker that was lost told nothing.
fn of_loops(of: &WorkerSummary, text: String) -> String {
    if of.lost_s.is_some() && of.cpu_cores <= 0.0 { String::new() } else { text }
}

/// How busy its busiest event loop was; empty where a worker that used CPU did not tell.
fn busy(of: &WorkerSummary) -> String {
    if of.at_work <= 0.0 && of.cpu_cores > 0.0 { String::new() } else { percent(of.at_work) }
}

/// `+1.24 ms ± 31.0 µs`.
fn worker_clock(of: &WorkerSummary) -> String {
    let Some((offset, bound)) = of.clock_offset_s.zip(of.clock_bound_s) else { return String::new() };
    let sign = if offset < 0.0 { "-" } else { "+" };
    format!("{sign}{} ± {}", seconds(offset.abs()), seconds(bound))
}

fn worker_state(of: &WorkerSummary) -> String {
    let state = match of.lost_s {
        Some(at) if of.absence.tolerated => format!("lost at {at:.1} s, tolerated"),
        Some(at) => format!("lost at {at:.1} s"),
        None => "ended".to_owned(),
    };
    if of.limits { format!("{state}; limited the run") } else { state }
}

/// Why a latency is not shown that was taken by the clocks of two machines.
pub(crate) fn refusal(latency: &str, bound_s: f64) -> String {
    format!(
        "{latency} was taken by the clocks of two machines, which agree to ± {}: its p50 is less than five times that, \
         so that its percentiles are left out",
        seconds(bound_s)
    )
}

/// Words for the counted items of a load.
pub(crate) struct ItemWords {
    /// Plural, by which a record names them.
    items: &'static str,
    /// Unit of their rates.
    unit: &'static str,
    /// Verb of a late one, and participle of those that left.
    left: &'static str,
    begun: &'static str,
    /// Participle of operations that are over, where their kind does not imply it.
    pub(crate) ended: &'static str,
    /// The option that limits how many are in flight, and the remedy where too few may be.
    limit: &'static str,
    raise_limit: &'static str,
    /// Name of the answers that the limit waits for.
    answers: &'static str,
    latencies: &'static str,
    /// Remedy where the generator has too little CPU for them.
    spread: &'static str,
}

const MESSAGES: ItemWords = ItemWords {
    items: "messages",
    unit: "msg/s",
    left: "left",
    begun: "sent",
    ended: "",
    limit: "--max-pending",
    raise_limit: "raise --max-pending, or request a lower rate",
    answers: "confirms",
    latencies: "ack response and end-to-end",
    spread: "use more --threads, and more cores if necessary",
};

const CYCLES: ItemWords = ItemWords {
    items: "cycles",
    unit: "cycles/s",
    left: "began",
    begun: "begun",
    ended: " opened and closed",
    limit: "--max-open",
    raise_limit: "raise --max-open (churn.max-open), or request a lower rate",
    answers: "open cycles to end",
    latencies: "their times",
    spread: "run several at once, and use more cores if necessary",
};

const REQUESTS: ItemWords = ItemWords {
    items: "requests",
    unit: "requests/s",
    left: "left",
    begun: "sent",
    ended: "",
    raise_limit: "raise --max-open (the probe's max-open), or request a lower rate",
    answers: "open requests to be answered",
    ..CYCLES
};

/// A row for each kind of counted item: those of messages come first, which are also those of unknown ones.
static ITEM_WORDS: [ItemWords; 3] = [MESSAGES, CYCLES, REQUESTS];

pub(crate) fn words_of(items: &str) -> &'static ItemWords {
    let [messages, ..] = &ITEM_WORDS;
    ITEM_WORDS.iter().find(|it| it.items == items).unwrap_or(messages)
}

/// A scenario's name as people read it, and as its latencies begin: `probe queue-page`.
pub(crate) fn scenario_name(name: &str) -> String {
    name.split_once('_').map_or_else(|| name.to_owned(), |(kind, own)| format!("{kind} {}", own.replace('_', "-")))
}

/// The name in at most so many letters: a longer one is cut in the middle, because related names often begin alike and
/// differ at the end. No blank stands beside the cut, where a line could break.
pub(crate) fn shortened(name: &str, most: usize) -> Cow<'_, str> {
    let letters = name.chars().count();
    if letters <= most {
        return Cow::Borrowed(name);
    }
    let kept = most.saturating_sub(1);
    let tail = kept / 2;
    let head: String = name.chars().take(kept - tail).collect();
    let tail: String = name.chars().skip(letters - tail).collect();
    Cow::Owned(format!("{}…{}", head.trim_end(), tail.trim_start()))
}

/// The broker of a run with its version: `RabbitMQ 4.0.5`; empty where nothing is known of it.
pub(crate) fn broker(record: &RunRecord, of: &BrokerSummary) -> String {
    record.versions.broker_name().unwrap_or_else(|| {
        let kind = match of.kind.as_str() {
            "embedded" => "embedded broker",
            "rabbitmq" => "RabbitMQ",
            "artemis" => "ActiveMQ Artemis",
            other => other,
        };
        let named = [Some(kind), of.version.as_deref()].into_iter().flatten();
        named.filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ")
    })
}

/// Whether a requirement held, in a word.
pub(crate) const fn outcome(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "unknown",
    }
}

/// Gravest outcome of a run's requirements, and its count: `1 of 2 requirements missed`; `None` without any.
pub(crate) fn requirements_tally(all: &[RequirementOutcome]) -> Option<String> {
    [Some(false), None, Some(true)].into_iter().find_map(|met| {
        let number = all.iter().filter(|it| it.met == met).count();
        let of = counted(all.len() as u64, "requirement");
        (number > 0).then(|| format!("{number} of {of} {}", outcome(met)))
    })
}

/// RabbitMQ's settings of `advanced.config` that limit AMQP 1.0, each with its name and default from 4.0.1 on.
const LIMITS_OF_RABBITMQ: [(&str, &str, u64); 3] = [
    ("max_link_credit", "RabbitMQ's link credit", 170),
    ("max_incoming_window", "RabbitMQ's session window", 400),
    ("max_queue_credit", "RabbitMQ's queue credit", 256),
];

/// The protocol of a run's messages; `None` where none were to be sent or received.
pub(crate) fn protocol(record: &RunRecord) -> Option<&'static str> {
    let loads = record.experiment.get("load").and_then(Value::as_array)?;
    let by_kind = match record.experiment.pointer("/broker/kind").and_then(Value::as_str) {
        Some("artemis") => "amqp10",
        Some("mosquitto") => "mqtt",
        _ => "amqp091",
    };
    let of_messages = loads.iter().filter(|load| load.get("command").is_none_or(Value::is_null));
    let protocols: BTreeSet<&str> =
        of_messages.map(|load| load.get("protocol").and_then(Value::as_str).unwrap_or(by_kind)).collect();
    let has = |name: &str| protocols.contains(name);
    Some(match (has("amqp091"), has("amqp10"), has("mqtt")) {
        (false, false, false) => return None,
        (true, false, false) => "AMQP 0.9.1",
        (false, true, false) => "AMQP 1.0",
        (true, true, false) => "AMQP 0.9.1 and 1.0",
        (false, false, true) => "MQTT",
        (true, false, true) => "AMQP 0.9.1 and MQTT",
        (false, true, true) => "AMQP 1.0 and MQTT",
        (true, true, true) => "AMQP 0.9.1 and 1.0, and MQTT",
    })
}

/// Flow control of a run over AMQP 1.0 to RabbitMQ: names of limits and their values; empty for other runs.
pub(crate) fn amqp10_limits(record: &RunRecord) -> Vec<(String, String)> {
    let loads = record.experiment.get("load").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_amqp10 = |load: &Value| load.get("protocol").and_then(Value::as_str) == Some("amqp10");
    let is_rabbitmq = record.versions.broker.as_deref().is_some_and(|it| it.starts_with("RabbitMQ"));
    if !is_rabbitmq || !loads.iter().any(is_amqp10) {
        return Vec::new();
    }
    // Values of all loads over it that have such clients; 0 is no limit.
    let of_clients = |who: &str, key: &str, unlimited: &str| {
        let total = format!("total-{who}");
        let has = |load: &&Value| whole_number(load, &total).or(whole_number(load, who)).unwrap_or(0) > 0;
        let these = loads.iter().filter(|load| is_amqp10(load)).filter(has);
        let values: BTreeSet<u64> = these.filter_map(|load| whole_number(load, key)).collect();
        let shown = |it: u64| if it == 0 { unlimited.to_owned() } else { count(it) };
        let shown = values.into_iter().map(shown).collect::<Vec<_>>().join(", ");
        (!shown.is_empty()).then(|| format!("{shown} ({key})"))
    };
    // The session window is that of `wire::amqp10`.
    let own = [
        ("producers' in-flight window", of_clients("producers", "max-pending", "no limit")),
        ("consumers' link credit", of_clients("consumers", "prefetch", "2,000 at a time")),
        ("consumers' session window", of_clients("consumers", "prefetch", "").map(|_| "65,536 frames".to_owned())),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let broker = |pointer: &str| record.experiment.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_managed = broker("/broker/kind") == "rabbitmq";
    // What is more than plain terms is hidden as a whole.
    let is_unset = |key: &str| ![key, "***"].iter().any(|it| broker("/broker/advanced").contains(it));
    let of_broker = LIMITS_OF_RABBITMQ.map(|(key, name, default)| {
        let value = match number_in_terms(broker("/broker/advanced"), key) {
            Some(set) => format!("{} ({key})", count(set)),
            None if is_managed && is_unset(key) => format!("{default}, its default ({key})"),
            None => format!("not known; {default} by default ({key})"),
        };
        (name.to_owned(), value)
    });
    own.chain(of_broker).collect()
}

fn whole_number(table: &Value, key: &str) -> Option<u64> {
    table.get(key).and_then(Value::as_u64)
}

/// The number of a setting in a text of Erlang terms: 400 of `{max_link_credit, 400}`.
fn number_in_terms(terms: &str, key: &str) -> Option<u64> {
    let (_, behind) = terms.split_once(key)?;
    let behind = behind.trim_start().strip_prefix(',')?.trim_start();
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    behind.get(..end)?.parse().ok()
}

/// Range of a figure: `4.2 ms to 18 ms`.
pub fn range(unit: QuantityUnit, low: f64, high: f64) -> String {
    format!("{} to {}", figure(low, unit), figure(high, unit))
}

#[cfg(test)]
mod of_server_tests;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_names_apart_stays() {
        assert_eq!(shortened("orders", 6), "orders");
        assert_eq!(shortened("orders-of-the-web-shop-eu-1", 16), "orders-o…op-eu-1");
        assert_eq!(shortened("ääääöööö", 4), "ää…ö");
        assert_eq!(shortened("abc", 0), "…");
        assert_eq!(shortened("bellows producer 0", 13), "bellow…ucer 0");
        assert_eq!(shortened("bellows 0 of 12", 13), "bellow…of 12");
        assert_eq!(shortened("one and two", 8), "one…two");
    }
}
