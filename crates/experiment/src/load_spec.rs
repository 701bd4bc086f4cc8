//! One group of producers and consumers, by Artemis perf's names where they mean the same.

use std::collections::BTreeMap;
use std::net::IpAddr;

use load::{AmqpDestination, Argument, Consumers, MessageProperties, Protocol, QueueHandling};
use measure::{Length, LengthRange, Rate};
use serde::{Deserialize, Serialize};

use super::flat_table::flat_table;
use super::{NodesSpec, ScheduleSpec, SizeSpec};

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

/// One group of producers and consumers: values that planning resolves, and parts of the plan that are used as they
/// are.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSpec {
    /// The load generator: bellows itself with messages, or another program.
    pub kind: LoadKind,
    /// The wire protocol of messages, one for all loads. `amqp10` needs RabbitMQ 4; queues are declared by AMQP 0.9.1.
    pub protocol: Protocol,
    /// `kind = "command"`: a program and its arguments, one word each, which no shell reads. `{url}`, `{host}` and
    /// `{port}` stand for the broker's.
    pub command: Vec<String>,
    /// `queue://NAME` or `topic://NAME`.
    pub destination: String,
    /// Several destinations, instead of `destination`.
    pub destinations: Vec<String>,
    /// Destinations per name; above 1 they are called NAME0, NAME1, …
    pub num_destinations: usize,
    /// The destinations' queues, and the exchange in front of them. Topics' are never durable.
    pub queue: AmqpDestination,
    /// Whether queues belong to their consumers' connection, which declares them and takes them along.
    pub exclusive: bool,
    /// Where this group connects, with `broker.kind = "attach"`; absent: as `broker.url` says.
    pub url: Option<String>,
    /// Preparation of the queues before the run and clean-up after it.
    pub handling: QueueHandling,
    /// Messages that stand in each queue before the run begins. They are of this group's size and properties, are not
    /// measured, and are in no ledger.
    pub fill: u64,
    /// Producers of each destination.
    pub producers: usize,
    /// Producers of the whole group, assigned to its destinations in turn; instead of `producers`.
    pub total_producers: Option<usize>,
    /// Connections that all producers share, a channel each; absent: one each.
    pub producer_connections: Option<usize>,
    /// Messages per second of the whole group; unthrottled if absent.
    pub rate: Option<Rate>,
    /// A rate that changes, instead of `rate`.
    pub schedule: Option<ScheduleSpec>,
    /// The rate or schedule is each producer's, not that of all together.
    pub rate_per_producer: bool,
    /// Closed loop, instead of a rate: each producer waits for the answer to its message, then for the
    /// think time, then sends the next.
    pub think_time: Option<Length>,
    /// Each producer starts at a random moment within this duration.
    pub start_delay: Option<Length>,
    /// Delay before producers start; `start-delay` comes on top.
    pub start_after: Option<Length>,
    /// Messages in flight per producer; 0 = unlimited. Absent: 1000 with a rate or a schedule, which ask for an
    /// open loop, and 1 without.
    pub max_pending: Option<u32>,
    /// Whether the broker acknowledges messages (publisher confirms).
    pub confirm: bool,
    /// Messages per transaction, instead of confirms; 0 = none.
    pub commit_every: u32,
    /// Messages are requests, which the group's consumers answer over RabbitMQ's direct reply-to; the
    /// reply acknowledges a message, instead of a confirm.
    pub request_reply: bool,
    /// A message that waits longer for its answer ends the run as failed.
    pub confirm_timeout: Option<Length>,
    /// Time to live of messages.
    pub ttl: Option<Length>,
    /// Properties of every message.
    pub properties: MessageProperties,
    /// Headers of every message.
    pub headers: BTreeMap<String, Argument>,
    /// Every message has an id of its own.
    pub message_ids: bool,
    /// Every message says when it was sent, to the second.
    pub timestamps: bool,
    /// Number of distinct random routing keys; 0 = a new key per message.
    pub random_routing_keys: Option<u32>,
    /// Body sizes in bytes, 12 at least.
    pub message_size: SizeSpec,
    /// Whether messages survive a restart of the broker.
    pub persistent: bool,
    /// Messages of the whole group, after which it ends; 0 = no limit.
    pub message_count: u64,
    /// Whether messages that reach no queue come back and are counted.
    pub mandatory: bool,
    /// The receiving side. A count of 0 deliveries is no limit; without producers, `message_count` counts them; and
    /// a subscription may have no name.
    pub consumers: Consumers,
    /// Local addresses to connect from, in turn; the system's choice if empty.
    pub source_addresses: Vec<IpAddr>,
    /// The nodes of a cluster that connections begin on, in turn: `"all"`, a number from 0 on, or a list of such. One
    /// that is lost reconnects to the next node of the cluster.
    pub nodes: NodesSpec,
    /// Reconnect delay; a range picks a random delay. If absent, the first lost connection ends the run.
    pub recover: Option<LengthRange>,
}

flat_table!(LoadSpec {
    "kind" => kind,
    "protocol" => protocol,
    "command" => command,
    "destination" => destination,
    "destinations" => destinations,
    "num-destinations" => num_destinations,
    "exchange" => queue.exchange,
    "routing-key" => queue.routing_key,
    "bind" => queue.bind,
    "auto-delete" => queue.auto_delete,
    "exclusive" => exclusive,
    "url" => url,
    "queue-type" => queue.queue_type,
    "durable" => queue.durable,
    "arguments" => queue.arguments,
    "declare" => handling.declare,
    "purge" => handling.purge,
    "delete" => handling.delete,
    "fill" => fill,
    "producers" => producers,
    "total-producers" => total_producers,
    "producer-connections" => producer_connections,
    "rate" => rate,
    "schedule" => schedule,
    "rate-per-producer" => rate_per_producer,
    "think-time" => think_time,
    "start-delay" => start_delay,
    "start-after" => start_after,
    "max-pending" => max_pending,
    "confirm" => confirm,
    "commit-every" => commit_every,
    "request-reply" => request_reply,
    "confirm-timeout" => confirm_timeout,
    "ttl" => ttl,
    "properties" => properties,
    "headers" => headers,
    "message-ids" => message_ids,
    "timestamps" => timestamps,
    "random-routing-keys" => random_routing_keys,
    "message-size" => message_size,
    "persistent" => persistent,
    "message-count" => message_count,
    "mandatory" => mandatory,
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
    "source-addresses" => source_addresses,
    "subscription" => consumers.subscription,
    "nodes" => nodes,
    "recover" => recover,
});

impl LoadSpec {
    /// Whether a key applies to this kind of load.
    fn writes(&self, key: &str) -> bool {
        self.kind == LoadKind::Messages || matches!(key, "kind" | "command")
    }

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
        self.kind == LoadKind::Messages && self.total_producers.unwrap_or(self.producers) > 0
    }

    /// Whether the group receives.
    #[must_use]
    pub fn has_consumers(&self) -> bool {
        self.kind == LoadKind::Messages
            && self
                .consumers
                .total
                .unwrap_or(self.consumers.per_destination)
                > 0
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
            kind: LoadKind::Messages,
            protocol: Protocol::default(),
            command: Vec::new(),
            destination: "queue://bellows".to_owned(),
            destinations: Vec::new(),
            num_destinations: 1,
            queue: AmqpDestination {
                durable: true,
                ..AmqpDestination::default()
            },
            exclusive: false,
            url: None,
            handling: QueueHandling::default(),
            fill: 0,
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
            consumers: Consumers::default(),
            source_addresses: Vec::new(),
            nodes: NodesSpec::default(),
            recover: None,
        }
    }
}
