//! Exchange, queues and their kind, and the clients of each.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;

use experiment::LoadSpec;
use load::{AmqpDestination, Argument, Consumers, Declare, Exchange, QueueHandling, QueueType};

use super::values::{Values, bad, byte_capacity, formatted, key_values, seconds_of_duration};
use crate::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agents {
    pub(super) producers: usize,
    pub(super) producer_channels: usize,
    pub(super) consumers: usize,
    pub(super) consumer_channels: usize,
}

impl Agents {
    /// Reads -x, -X, -y and -Y.
    pub(super) fn read(values: &Values) -> Result<Self, Failure> {
        let channels = |long| match values.whole(long, 1)? {
            0 => Err(bad(long, "0", "1 channel or more")),
            channels => Ok(channels as usize),
        };
        Ok(Self {
            producers: values.whole("producers", 1)? as usize,
            producer_channels: channels("producer-channel-count")?,
            consumers: values.whole("consumers", 1)? as usize,
            consumer_channels: channels("consumer-channel-count")?,
        })
    }

    pub(super) const fn all_producers(self) -> usize {
        self.producers.saturating_mul(self.producer_channels)
    }

    pub(super) const fn all_consumers(self) -> usize {
        self.consumers.saturating_mul(self.consumer_channels)
    }
}

/// The load with its addresses, and whether every message can be accounted for: only if each goes to a known queue.
pub(super) fn topology(values: &Values, agents: Agents, id: &str, spec: LoadSpec) -> Result<(LoadSpec, bool), Failure> {
    let named = names(values)?;
    if values.has("predeclared") && named == Names::Generated && agents.consumers > 0 {
        return Err(Failure::usage("consumers of queues that exist already have no queue", "name it with -u/--queue"));
    }
    let exclusive = values.has("exclusive");
    let exchange = exchange(values);
    let direct = exchange.kind == "direct";
    let bind = !values.has("skip-binding-queues");
    let key = values.text("routing-key").map(str::to_owned);
    let fixed = spec.random_routing_keys.is_none() && bind;
    let mut spec = LoadSpec {
        exclusive,
        handling: QueueHandling {
            // A queue that was only polled never lost a last consumer.
            delete: spec.queue.auto_delete && spec.consumers.poll.is_some(),
            declare: if values.has("predeclared") { Declare::IfMissing } else { Declare::Always },
            ..spec.handling
        },
        queue: AmqpDestination {
            routing_key: key.clone().or_else(|| Some(generated_key())),
            exchange: Some(exchange),
            bind,
            ..spec.queue
        },
        ..spec
    };
    Ok(match named {
        // A sequence's messages find their queues by name unless a key says otherwise.
        Names::Sequence(names) => {
            let alone = names.len() == 1 || direct && key.is_none();
            // An exclusive queue's consumers share its connection.
            let queues = names.len().min(agents.all_consumers());
            let shared = exclusive.then_some(queues).filter(|queues| *queues > 0);
            spec.queue.routing_key = key;
            spec.consumers.connections = shared.or(spec.consumers.connections);
            (with_queues(spec, names), fixed && alone)
        }
        // All have the same key, so that each gets every message; each consumer reads all.
        Names::Listed(names) => {
            let alone = names.len() == 1;
            (listed(spec, agents, names, exclusive), fixed && alone)
        }
        Names::Generated => {
            let alone = agents.all_consumers() <= 1;
            let own = own_queues(&spec);
            (generated(spec, agents, id, own), fixed && (alone || own))
        }
    })
}

fn exchange(values: &Values) -> Exchange {
    let kind = values.text("type").unwrap_or("direct");
    let name = match values.text("exchange") {
        None => kind,
        Some("amq.default") => "",
        Some(name) => name,
    };
    Exchange { name: name.to_owned(), kind: kind.to_owned(), durable: true, auto_delete: false }
}

fn with_queues(spec: LoadSpec, names: Vec<String>) -> LoadSpec {
    let destinations = names.iter().map(|name| format!("queue://{name}"));
    LoadSpec { destinations: destinations.collect(), ..spec }
}

fn listed(spec: LoadSpec, agents: Agents, names: Vec<String>, exclusive: bool) -> LoadSpec {
    let several = names.len() > 1;
    let mut spec = with_queues(spec, names);
    if agents.consumers > 0 && (exclusive || several) {
        spec.consumers = Consumers {
            total: None,
            per_destination: agents.all_consumers(),
            // Exclusive queues belong to one connection, which all share.
            connections: Some(if exclusive { 1 } else { agents.consumers }),
            ..spec.consumers
        };
    }
    spec
}

/// Whether each consumer can bind a queue of its own, which is removed with it.
fn own_queues(spec: &LoadSpec) -> bool {
    let plain = spec.queue.queue_type == QueueType::Classic && !spec.queue.durable && spec.queue.auto_delete;
    spec.queue.bind && spec.consumers.poll.is_none() && plain
}

/// Every consumer has a queue, and every message goes to each.
fn generated(spec: LoadSpec, agents: Agents, id: &str, own: bool) -> LoadSpec {
    let all = agents.all_consumers();
    if own || all == 0 {
        return LoadSpec { destination: format!("topic://perf-test-{id}"), ..spec };
    }
    let random = format!("{:016x}", random());
    let names = (0..all).map(|n| format!("perf-test-{random}-{n}"));
    with_queues(spec, names.collect())
}

/// A key that no other test has, written as PerfTest writes it.
fn generated_key() -> String {
    let (high, low) = (random(), random());
    let (first, second, third) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
    format!("{first:08x}-{second:04x}-{third:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// PerfTest's limits of a stream: 20 GB, in segments of 500 MB.
const STREAM_BYTES: i64 = 20_000_000_000;
const SEGMENT_BYTES: i64 = 500_000_000;
const LARGEST_SEGMENT: i64 = 3_000_000_000;
/// More queues are a slip of the keyboard.
const MOST_QUEUES: u32 = 60_000;

#[derive(Debug, PartialEq, Eq)]
enum Names {
    Generated,
    /// All clients use all of them.
    Listed(Vec<String>),
    /// Clients take them in turn.
    Sequence(Vec<String>),
}

/// Reads -u, -qf, -qp, -qpf and -qpt.
fn names(values: &Values) -> Result<Names, Failure> {
    let pattern = pattern(values)?;
    let (file, listed) = (values.text("queue-file"), values.text("queue"));
    if let Some(file) = file {
        if pattern.is_some() || listed.is_some() {
            return Err(Failure::usage("queues are named in more than one way", "give -qf/--queue-file alone"));
        }
        return from_file(Path::new(file)).map(Names::Sequence);
    }
    if let Some(names) = pattern {
        return Ok(Names::Sequence(names));
    }
    let split = |names: &str| names.split(',').map(|name| name.trim().to_owned()).collect();
    match listed {
        None | Some("") => Ok(Names::Generated),
        Some(names) if names.split(',').any(|name| name.trim().is_empty()) => {
            Err(bad("queue", names, "names, several divided by commas"))
        }
        Some(names) => Ok(Names::Listed(split(names))),
    }
}

fn pattern(values: &Values) -> Result<Option<Vec<String>>, Failure> {
    let pattern = values.text("queue-pattern");
    let number = |long| values.parsed::<u32>(long, "a whole number, 0 or more");
    let range = (number("queue-pattern-from")?, number("queue-pattern-to")?);
    let (pattern, from, to) = match (pattern, range) {
        (None, (None, None)) => return Ok(None),
        (Some(pattern), (Some(from), Some(to))) => (pattern, from, to),
        _ => {
            let cause = "a sequence of queues is not whole";
            return Err(Failure::usage(cause, "give all of -qp/--queue-pattern, -qpf and -qpt, or none"));
        }
    };
    if from > to || to - from >= MOST_QUEUES {
        let text = format!("the sequence of queues from {from} to {to} has no sense");
        let help = format!("let -qpf be at most -qpt, and take at most {MOST_QUEUES} queues");
        return Err(Failure::usage(text, help).observed(format_args!("from {from} to {to}")));
    }
    let name =
        |n| formatted(pattern, n).ok_or_else(|| bad("queue-pattern", pattern, "one %d, such as perf-test-%d or %03d"));
    (from..=to).map(name).collect::<Result<_, _>>().map(Some)
}

fn from_file(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::io("read", path, &e))?;
    let names: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) || names.is_empty() {
        let cause = format!("{} has a line without a queue's name", path.display());
        return Err(Failure::usage(cause, "write one name on each line").observed(path.display()));
    }
    Ok(names)
}

/// Reads -qq, -sq, -qa, -ad, -f, -mlb, -smssb, -ma and -ll: the kind of queues, and what survives a restart.
pub(super) fn kind(values: &Values) -> Result<LoadSpec, Failure> {
    let (quorum, stream) = (values.has("quorum-queue"), values.has("stream-queue"));
    if quorum && stream {
        return Err(Failure::usage("queues cannot be quorum queues and streams", "give -qq or -sq, not both"));
    }
    let mut arguments = BTreeMap::new();
    for text in values.list("queue-args") {
        arguments.extend(key_values("queue-args", text)?);
    }
    let given = take_type(&mut arguments)?;
    let queue_type = match (quorum, stream) {
        (true, _) => QueueType::Quorum,
        (false, true) => QueueType::Stream,
        (false, false) => given,
    };
    if stream {
        let mut add = |key: &str, bytes| arguments.insert(key.into(), Argument::Integer(bytes));
        add("x-max-length-bytes", STREAM_BYTES);
        add("x-stream-max-segment-size-bytes", SEGMENT_BYTES);
    }
    limits(values, &mut arguments)?;
    let persistent = values.has_flag("persistent") || quorum || stream;
    let auto_delete = values.flag("auto-delete", true)? && !quorum && !stream;
    let queue =
        AmqpDestination { queue_type, auto_delete, durable: persistent, arguments, ..AmqpDestination::default() };
    Ok(LoadSpec { persistent, queue, ..LoadSpec::default() })
}

fn take_type(arguments: &mut BTreeMap<String, Argument>) -> Result<QueueType, Failure> {
    let text = arguments.remove("x-queue-type").map(|value| value.to_string());
    let read =
        |text: String| text.parse().map_err(|_| bad("queue-args", &text, "x-queue-type=classic, quorum or stream"));
    text.map_or(Ok(QueueType::default()), read)
}

fn limits(values: &Values, arguments: &mut BTreeMap<String, Argument>) -> Result<(), Failure> {
    let stream = values.has("stream-queue");
    let mut largest = stream.then_some(STREAM_BYTES);
    if let Some(text) = values.text("max-length-bytes") {
        let bytes = byte_capacity("max-length-bytes", text)?;
        largest = (bytes > 0).then_some(bytes);
        arguments.remove("x-max-length-bytes");
        if bytes > 0 {
            arguments.insert("x-max-length-bytes".into(), Argument::Integer(bytes));
        }
    }
    if let Some(text) = values.text("stream-max-segment-size-bytes") {
        let bytes = byte_capacity("stream-max-segment-size-bytes", text)?;
        if bytes > LARGEST_SEGMENT || largest.is_some_and(|largest| largest <= bytes) {
            let needed = "at most 3gb, and less than -mlb/--max-length-bytes";
            return Err(bad("stream-max-segment-size-bytes", text, needed));
        }
        arguments.insert("x-stream-max-segment-size-bytes".into(), Argument::Integer(bytes));
    }
    if let Some(text) = values.text("max-age") {
        let seconds = seconds_of_duration("max-age", text)?;
        arguments.insert("x-max-age".into(), Argument::Text(format!("{seconds}s")));
    }
    let locators = ["client-local", "balanced"].map(|text| (text, text));
    if let Some(text) = values.choice("leader-locator", &locators)? {
        arguments.insert("x-queue-leader-locator".into(), Argument::Text(text.to_owned()));
    }
    Ok(())
}
