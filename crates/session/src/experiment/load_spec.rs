//! One group of producers and consumers, by Artemis perf's names where they mean the same.

use std::collections::BTreeMap;
use std::net::IpAddr;

use load::{
    Ack, Argument, Declare, Exchange, MessageProperties, QueueType, Refusal, StreamOffset,
    Subscription,
};
use measure::{Length, LengthRange, Rate};
use serde::{Deserialize, Serialize};

use super::{LatencyStep, ScheduleSpec, SizeSpec};

/// One group of producers and consumers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct LoadSpec {
    /// `queue://NAME` or `topic://NAME`.
    pub destination: String,
    /// Several destinations, instead of `destination`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<String>,
    /// Destinations per name; above 1 they are called NAME0, NAME1, …
    pub num_destinations: usize,
    /// Where producers publish; absent: the default exchange for queues, `amq.topic` for topics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// The routing key of messages and of the queues' bindings; absent: the destination's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Whether queues are bound to the exchange, where there is one.
    pub bind: bool,
    /// Whether queues go away with their last consumer.
    pub auto_delete: bool,
    /// Whether queues belong to their consumers' connection, which declares them and takes them along.
    pub exclusive: bool,
    /// Where this group connects, with `broker.kind = "attach"`; absent: as `broker.url` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Type of the queues that are declared.
    pub queue_type: QueueType,
    /// Whether the queue survives a restart of the broker.
    pub durable: bool,
    /// Further queue arguments, as `x-max-length = 1000`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Argument>,
    /// Whether queues and exchanges are declared before the load.
    pub declare: Declare,
    /// Empty queues before the load (streams cannot be emptied).
    pub purge: bool,
    /// Delete queues after the load, with what is in them.
    pub delete: bool,
    /// Producers of each destination.
    pub producers: usize,
    /// Producers of the whole group, assigned to its destinations in turn; instead of
    /// `producers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_producers: Option<usize>,
    /// Connections that all producers share, a channel each; absent: one each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer_connections: Option<usize>,
    /// Messages per second of the whole group; unthrottled if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// A rate that changes, instead of `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
    /// The rate or schedule is each producer's, not that of all together.
    pub rate_per_producer: bool,
    /// Closed loop, instead of a rate: each producer waits for the answer to its message, then for the
    /// think time, then sends the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think_time: Option<Length>,
    /// Each producer starts at a random moment within this duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_delay: Option<Length>,
    /// Delay before producers start; `start-delay` comes on top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_after: Option<Length>,
    /// Messages in flight per producer; 0 = unlimited. Absent: 1000 with a rate or a schedule, which ask for an
    /// open loop, and 1 without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pending: Option<u32>,
    /// Whether the broker acknowledges messages (publisher confirms).
    pub confirm: bool,
    /// Messages per transaction, instead of confirms; 0 = none.
    pub commit_every: u32,
    /// Messages are requests, which the group's consumers answer over RabbitMQ's direct reply-to; the
    /// reply acknowledges a message, instead of a confirm.
    pub request_reply: bool,
    /// A message that waits longer for its answer ends the run as failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_timeout: Option<Length>,
    /// Time to live of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Length>,
    /// Properties of every message.
    #[serde(skip_serializing_if = "MessageProperties::is_empty")]
    pub properties: MessageProperties,
    /// Headers of every message.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Argument>,
    /// Every message has an id of its own.
    pub message_ids: bool,
    /// Every message says when it was sent, to the second.
    pub timestamps: bool,
    /// Number of distinct random routing keys; 0 = a new key per message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_routing_keys: Option<u32>,
    /// Body sizes in bytes, 12 at least.
    pub message_size: SizeSpec,
    /// Whether messages survive a restart of the broker.
    pub persistent: bool,
    /// Messages of the whole group, after which it ends; 0 = no limit.
    pub message_count: u64,
    /// Whether messages that reach no queue come back and are counted.
    pub mandatory: bool,
    /// Consumers of each destination.
    pub consumers: usize,
    /// Consumers of the whole group, assigned to its destinations in turn; instead of
    /// `consumers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_consumers: Option<usize>,
    /// Connections that all consumers share, a channel each; absent: one each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_connections: Option<usize>,
    /// Deliveries in flight per consumer; 0 = unlimited.
    pub prefetch: u16,
    /// Deliveries in flight per consumer's channel, beside `prefetch`; 0 = unlimited.
    pub channel_prefetch: u16,
    /// Deliveries to the whole group, after which it ends; 0 = no limit. Without producers,
    /// `message-count` says the same.
    pub consume_count: u64,
    /// When consumers acknowledge.
    pub ack: Ack,
    /// What consumers do instead of acknowledging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse: Option<Refusal>,
    /// Deliveries acknowledged per transaction; 0 = none.
    pub consumer_commit_every: u32,
    /// Polling interval: ask for each message (`basic.get`) this long after the last answer, instead of
    /// subscribing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<Length>,
    /// Maximum deliveries per second of each consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_rate: Option<Rate>,
    /// Service time of each delivery.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consumer_latency: Vec<LatencyStep>,
    /// Delay before consumers start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_start_delay: Option<Length>,
    /// Delay between the starts of two consumers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumers_apart: Option<Length>,
    /// Further arguments of the subscription, as `x-priority = 10`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub consumer_arguments: BTreeMap<String, Argument>,
    /// Where stream consumers start.
    pub stream_offset: StreamOffset,
    /// Local addresses to connect from, in turn; the system's choice if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<IpAddr>,
    /// How consumers of topics subscribe; absent: each has a queue of its own, which goes with its
    /// connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<Subscription>,
    /// Reconnect delay; a range picks a random delay. If absent, the first lost connection ends the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recover: Option<LengthRange>,
}

impl LoadSpec {
    /// Messages in flight per producer; 0 = unlimited.
    #[must_use]
    pub fn in_flight_window(&self) -> u32 {
        let is_open_loop = self.rate.is_some() || self.schedule.is_some();
        self.max_pending
            .unwrap_or(if is_open_loop { 1_000 } else { 1 })
    }

    /// Whether the group sends.
    #[must_use]
    pub fn has_producers(&self) -> bool {
        self.total_producers.unwrap_or(self.producers) > 0
    }

    /// Whether the group receives.
    #[must_use]
    pub fn has_consumers(&self) -> bool {
        self.total_consumers.unwrap_or(self.consumers) > 0
    }

    /// Whether the group's messages have intended times of their own.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.has_producers()
            && (self.rate.is_some() || self.schedule.is_some() || self.think_time.is_some())
    }
}

impl Default for LoadSpec {
    fn default() -> Self {
        Self {
            destination: "queue://bellows".to_owned(),
            destinations: Vec::new(),
            num_destinations: 1,
            exchange: None,
            routing_key: None,
            bind: true,
            auto_delete: false,
            exclusive: false,
            url: None,
            queue_type: QueueType::Classic,
            durable: true,
            arguments: BTreeMap::new(),
            declare: Declare::Always,
            purge: false,
            delete: false,
            producers: 1,
            total_producers: None,
            producer_connections: None,
            rate: None,
            schedule: None,
            rate_per_producer: false,
            think_time: None,
            start_delay: None,
            start_after: None,
            max_pending: None,
            confirm: true,
            commit_every: 0,
            request_reply: false,
            confirm_timeout: None,
            ttl: None,
            properties: MessageProperties::default(),
            headers: BTreeMap::new(),
            message_ids: false,
            timestamps: false,
            random_routing_keys: None,
            message_size: SizeSpec::fixed(1024),
            persistent: false,
            message_count: 0,
            mandatory: false,
            consumers: 1,
            total_consumers: None,
            consumer_connections: None,
            prefetch: 200,
            channel_prefetch: 0,
            consume_count: 0,
            ack: Ack::Every(1),
            refuse: None,
            consumer_commit_every: 0,
            poll: None,
            consumer_rate: None,
            consumer_latency: Vec::new(),
            consumer_start_delay: None,
            consumers_apart: None,
            consumer_arguments: BTreeMap::new(),
            stream_offset: StreamOffset::Next,
            source_addresses: Vec::new(),
            subscription: None,
            recover: None,
        }
    }
}
