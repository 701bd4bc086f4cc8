//! One group of producers and consumers, by Artemis perf's names where they mean the same.

use std::collections::BTreeMap;
use std::net::IpAddr;

use load::{
    AmqpDestination, Argument, Consumers, MessageProperties, MqttOptions, MqttVersion, Placement, Protocol,
    QueueHandling,
};
use measure::{Length, LengthRange, Rate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::flat_table::{FlatTable, flat_table};
use super::{ScheduleSpec, SizeSpec};

/// The program that makes a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// Messages of producers and consumers.
    #[default]
    Messages,
    /// A program of its own.
    Command,
}

/// The nodes that connections begin on: `"all"`, one number, or several, from 0 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesSpec(Vec<u32>);

impl NodesSpec {
    /// Their numbers; empty: all.
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenNodes {
    One(u32),
    Several(Vec<u32>),
    Word(String),
}

impl Serialize for NodesSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match self.0.as_slice() {
            [] => WrittenNodes::Word("all".to_owned()),
            [one] => WrittenNodes::One(*one),
            several => WrittenNodes::Several(several.to_vec()),
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NodesSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXPECTED: &str = "\"all\", the number of a node such as 0, or a list such as [0, 2]";
        let refuse = || serde::de::Error::custom(format!("expected {EXPECTED}"));
        match WrittenNodes::deserialize(deserializer).map_err(|_| refuse())? {
            WrittenNodes::One(node) => Ok(Self(vec![node])),
            WrittenNodes::Several(nodes) if !nodes.is_empty() => Ok(Self(nodes)),
            WrittenNodes::Word(word) if word == "all" => Ok(Self::default()),
            WrittenNodes::Several(_) | WrittenNodes::Word(_) => Err(refuse()),
        }
    }
}

flat_table! {
    /// One group of producers and consumers: values that planning resolves, and parts of the plan that are used as they
    /// are.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LoadSpec {
        /// The load generator: bellows itself with messages, or another program.
        "kind" kind: LoadKind = LoadKind::Messages,
        /// The wire protocol of messages; absent: AMQP 0.9.1, but 1.0 with an `amqp10://` URL and with
        /// `broker.kind = "artemis"`, which does not speak the other, and MQTT with `mqtt://` and with
        /// `broker.kind = "mosquitto"`. RabbitMQ speaks 1.0 from version 4 on.
        "protocol" protocol: Option<Protocol> = None,
        /// `kind = "command"`: a program and its arguments, one word each, which no shell reads. `{url}`, `{host}` and
        /// `{port}` stand for the broker's.
        "command" command: Vec<String> = Vec::new(),
        /// `queue://NAME` or `topic://NAME`; over MQTT topics, in which `%i` stands for the client's number.
        "destination" destination: String as Queue = "queue://bellows".to_owned(),
        /// Several destinations, instead of `destination`.
        "destinations" destinations: Vec<String> as Queue = Vec::new(),
        /// MQTT, without producers: topic filters of the consumers, such as `sensors/#` or `$share/GROUP/sensors/+`,
        /// instead of destinations.
        "subscribe" subscribe: Vec<String> as Queue = Vec::new(),
        /// Version of MQTT; 5 where absent.
        "mqtt-version" mqtt_version: MqttVersion = MqttVersion::default(),
        /// How MQTT is spoken.
        mqtt: MqttOptions = MqttOptions::default(),
        /// Destinations per name; above 1 they are called NAME0, NAME1, …
        "num-destinations" num_destinations: usize = 1,
        /// The destinations' queues, and the exchange in front of them. Topics' are never durable.
        queue: AmqpDestination = AmqpDestination { durable: true, ..AmqpDestination::default() },
        /// Whether queues belong to their consumers' connection, which declares them and takes them along.
        "exclusive" exclusive: bool = false,
        /// Where this group connects, with `broker.kind = "attach"`; absent: as `broker.url` says.
        "url" url: Option<String> as Address = None,
        /// Preparation of the queues before the run and clean-up after it.
        handling: QueueHandling = QueueHandling::default(),
        /// Messages that stand in each queue before the run begins. They are of this group's size and properties, are
        /// not measured, and are in no ledger.
        "fill" fill: u64 = 0,
        /// Producers per destination.
        "producers" producers: usize = 1,
        /// Producers of the whole group, assigned to its destinations in turn; instead of `producers`.
        "total-producers" total_producers: Option<usize> = None,
        /// Connections that all producers share, a channel each; absent: one each.
        "producer-connections" producer_connections: Option<usize> = None,
        /// Total messages per second, such as 20000, 2k, 1M or 10/min; unthrottled if absent.
        "rate" rate: Option<Rate> = None,
        /// A rate that changes, instead of `rate`.
        "schedule" schedule: Option<ScheduleSpec> = None,
        /// Apply the rate or schedule to each producer, not to all together.
        "rate-per-producer" rate_per_producer: bool = false,
        /// Closed loop, instead of a rate: each producer waits for the answer to its message, then for this long, then
        /// sends the next; latencies then have coordinated omission.
        "think-time" think_time: Option<Length> = None,
        /// Each producer starts at a random moment within this duration.
        "start-delay" start_delay: Option<Length> = None,
        /// Delay before producers start; `start-delay` comes on top.
        "start-after" start_after: Option<Length> = None,
        /// Messages in flight per producer (in-flight window); 0 = no limit. If absent, 1000 with a rate or a schedule,
        /// and 1 without.
        "max-pending" max_pending: Option<u32> = None,
        /// Whether the broker acknowledges messages (publisher confirms).
        "confirm" confirm: bool = true,
        /// Messages per transaction, instead of confirms; 0 = none.
        "commit-every" commit_every: u32 = 0,
        /// Messages are requests: consumers answer each with its own body over RabbitMQ's direct reply-to, and the
        /// reply acknowledges the request, instead of a confirm.
        "request-reply" request_reply: bool = false,
        /// A message that waits longer for its answer ends the run as failed.
        "confirm-timeout" confirm_timeout: Option<Length> = None,
        /// Time to live of messages.
        "ttl" ttl: Option<Length> = None,
        /// Properties of every message.
        "properties" properties: MessageProperties = MessageProperties::default(),
        /// Headers of every message.
        "headers" headers: BTreeMap<String, Argument> as Headers = BTreeMap::new(),
        /// Every message has an id of its own.
        "message-ids" message_ids: bool = false,
        /// Every message says when it was sent, to the second.
        "timestamps" timestamps: bool = false,
        /// Number of distinct random routing keys; 0 = a new key per message.
        "random-routing-keys" random_routing_keys: Option<u32> = None,
        /// Body sizes in bytes, 12 at least.
        "message-size" message_size: SizeSpec = SizeSpec::fixed(1024),
        /// Messages survive a restart of the broker.
        "persistent" persistent: bool = false,
        /// Stop after N messages, warm-up included; 0 = no limit.
        "message-count" message_count: u64 = 0,
        /// Whether messages that reach no queue come back and are counted.
        "mandatory" mandatory: bool = false,
        /// The receiving side. A count of 0 deliveries is no limit; without producers, `message_count` counts them; and
        /// a subscription may have no name.
        consumers: Consumers = Consumers::default(),
        /// Local addresses to connect from, in turn; the system's choice if empty.
        "source-addresses" source_addresses: Vec<IpAddr> = Vec::new(),
        /// The nodes of a cluster that connections begin on, in turn: `"all"`, a number from 0 on, or a list of such.
        /// One that is lost reconnects to the next node of the cluster.
        "nodes" nodes: NodesSpec = NodesSpec::default(),
        /// A fleet runs consumers on their producers' worker (the default), or the next.
        "place" place: Placement = Placement::Together,
        /// Reconnect delay; a range such as 1s-5s picks a random delay. If absent, the first lost connection ends the
        /// run.
        "recover" recover: Option<LengthRange> = None,
        /// After a reconnect, send messages without an answer again, before new ones; copies are counted apart.
        "resend" resend: bool = false,
    }
    inside {
        "qos" => mqtt.qos,
        "retain" => mqtt.retain,
        "exchange" => queue.exchange,
        "routing-key" => queue.routing_key as RoutingKey,
        "bind" => queue.bind,
        "auto-delete" => queue.auto_delete,
        "queue-type" => queue.queue_type,
        "durable" => queue.durable,
        "arguments" => queue.arguments,
        "declare" => handling.declare,
        "purge" => handling.purge,
        "delete" => handling.delete,
        "consumers" => consumers.per_destination,
        "total-consumers" => consumers.total,
        "consumer-connections" => consumers.connections,
        "prefetch" => consumers.prefetch,
        "channel-prefetch" => consumers.amqp091.channel_prefetch,
        "consume-count" => consumers.message_count,
        "ack" => consumers.ack,
        "refuse" => consumers.refuse,
        "consumer-commit-every" => consumers.commit_every,
        "poll" => consumers.poll,
        "consumer-rate" => consumers.service.rate,
        "consumer-latency" => consumers.service.latency,
        "consumer-start-delay" => consumers.start_after,
        "consumers-apart" => consumers.apart,
        "consumer-arguments" => consumers.amqp091.arguments,
        "stream-offset" => consumers.amqp091.stream_offset,
        "selector" => consumers.selector,
        "subscription" => consumers.subscription,
    }
}

impl FlatTable for LoadSpec {
    const SPARSE: &'static [&'static str] = &["resend", "place", "mqtt-version", "retain"];

    /// A program has no keys of messages.
    fn writes(&self, key: &str) -> bool {
        self.kind == LoadKind::Messages || matches!(key, "kind" | "command")
    }
}

impl LoadSpec {
    /// Messages in flight per producer; 0 = unlimited.
    pub fn in_flight_window(&self) -> u32 {
        let is_open_loop = self.rate.is_some() || self.schedule.is_some();
        self.max_pending.unwrap_or(if is_open_loop { 1_000 } else { 1 })
    }

    /// The texts of its destinations, or of its topic filters, which are topics.
    pub fn destination_names(&self) -> Vec<String> {
        if !self.subscribe.is_empty() {
            return self.subscribe.iter().map(|filter| format!("topic://{filter}")).collect();
        }
        if self.destinations.is_empty() { vec![self.destination.clone()] } else { self.destinations.clone() }
    }

    /// Whether the group sends.
    pub fn has_producers(&self) -> bool {
        self.kind == LoadKind::Messages && self.total_producers.unwrap_or(self.producers) > 0
    }

    /// Whether the group receives.
    pub fn has_consumers(&self) -> bool {
        self.kind == LoadKind::Messages && self.consumers.total.unwrap_or(self.consumers.per_destination) > 0
    }

    /// Whether the group's messages have intended times of their own.
    pub fn is_paced(&self) -> bool {
        self.has_producers() && (self.rate.is_some() || self.schedule.is_some() || self.think_time.is_some())
    }
}
