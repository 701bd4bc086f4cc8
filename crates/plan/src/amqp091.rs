//! Parts of a plan that only AMQP 0.9.1 has, and the properties of messages, as it names them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};

/// The argument of a stream's subscription that says where it begins; the header that says where a message is.
pub const STREAM_OFFSET: &str = "x-stream-offset";

/// A destination's queue, and the exchange in front of it.
#[derive(Clone, Debug, PartialEq)]
pub struct AmqpDestination {
    /// Type of the queues that are declared; topics accept classic ones only.
    pub queue_type: QueueType,
    /// Whether a classic queue survives a restart of the broker; quorum queues and streams always do.
    pub durable: bool,
    /// Whether queues go away with their last consumer.
    pub auto_delete: bool,
    /// Further queue arguments, as `x-max-length = 1000`.
    pub arguments: BTreeMap<String, Argument>,
    /// Where producers publish; absent: the default exchange for queues, `amq.topic` for topics.
    pub exchange: Option<Exchange>,
    /// The routing key of messages and of the queues' bindings; absent: the destination's name.
    pub routing_key: Option<String>,
    /// Whether queues are bound to the exchange, where there is one. A topic's always are.
    pub bind: bool,
}

impl Default for AmqpDestination {
    /// A classic, transient queue behind the default exchange.
    fn default() -> Self {
        Self {
            queue_type: QueueType::Classic,
            durable: false,
            auto_delete: false,
            arguments: BTreeMap::new(),
            exchange: None,
            routing_key: None,
            bind: true,
        }
    }
}

impl AmqpDestination {
    /// The first key, among those given, of an option that other brokers than RabbitMQ do not have.
    pub fn foreign(&self) -> Option<&'static str> {
        [
            (self.exchange.is_some(), "exchange"),
            (self.routing_key.is_some(), "routing-key"),
            (self.queue_type != QueueType::Classic, "queue-type"),
            (!self.arguments.is_empty(), "arguments"),
        ]
        .into_iter()
        .find_map(|(given, key)| given.then_some(key))
    }
}

/// A producer's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AmqpProducers {
    /// Set the mandatory flag, so that unroutable messages come back and are counted.
    pub mandatory: bool,
}

/// A consumer's options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AmqpConsumers {
    /// Deliveries in flight per consumer's channel, beside `prefetch`; 0 = unlimited.
    pub channel_prefetch: u16,
    /// Where stream consumers start.
    pub stream_offset: StreamOffset,
    /// Further arguments of the subscription, as `x-priority = 10`.
    pub arguments: BTreeMap<String, Argument>,
}

/// The exchange that producers publish to, and that their queues are bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Exchange {
    /// The exchange's name; empty is the default exchange, to which nothing can be bound.
    pub name: String,
    /// `direct`, `fanout`, `topic`, `headers`, or what a plugin adds.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the exchange survives a restart of the broker.
    pub durable: bool,
    /// Whether the broker deletes the exchange with its last binding.
    pub auto_delete: bool,
}

impl Default for Exchange {
    fn default() -> Self {
        Self::new("bellows", "direct")
    }
}

impl Exchange {
    /// A transient exchange.
    pub fn new(name: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { name: name.into(), kind: kind.into(), durable: false, auto_delete: false }
    }

    /// Whether the exchange has to be declared; those that every broker has (`amq.*` and the default one) never are.
    pub fn is_declared(&self) -> bool {
        !self.name.is_empty() && !self.name.starts_with("amq.")
    }
}

measure::named! {
    /// The queue types of RabbitMQ, by their values of `x-queue-type`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum QueueType {
        // Declared without `x-queue-type`, which other brokers do not know.
        /// One node, any kind of message.
        #[default]
        Classic = "classic",
        /// Replicated by Raft; always durable.
        Quorum = "quorum",
        /// A replicated log, read without being emptied; always durable; needs a prefetch limit and acknowledgements.
        Stream = "stream",
    }
}

impl FromStr for QueueType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| format!("{text:?} is none of classic, quorum and stream"))
    }
}

/// Where a stream's consumers start (`x-stream-offset`); written as `"first"`, `"last"`, `"next"`, an
/// offset, or a time such as `"2026-11-21T12:00:00Z"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamOffset {
    /// From the oldest message.
    First,
    /// From the last chunk.
    Last,
    /// Only what arrives from now on.
    #[default]
    Next,
    /// From this offset on.
    Offset(u64),
    /// From the chunk on that was written then, in seconds since 1970.
    Time(u64),
}

impl FromStr for StreamOffset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| u64::try_from(text.parse::<Timestamp>().ok()?.as_second()).ok();
        match text {
            "first" => Ok(Self::First),
            "last" => Ok(Self::Last),
            "next" => Ok(Self::Next),
            _ => text.parse().map(Self::Offset).ok().or_else(|| time(text).map(Self::Time)).ok_or_else(|| {
                format!(
                    "stream-offset = {text:?} is none of \"first\", \"last\", \"next\", an \
                         offset such as 0 and a time such as \"2026-11-21T12:00:00Z\""
                )
            }),
        }
    }
}

impl Serialize for StreamOffset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::First => serializer.serialize_str("first"),
            Self::Last => serializer.serialize_str("last"),
            Self::Next => serializer.serialize_str("next"),
            Self::Offset(offset) => serializer.serialize_u64(*offset),
            Self::Time(unix_s) => {
                let time = i64::try_from(*unix_s).ok();
                match time.and_then(|time| Timestamp::from_second(time).ok()) {
                    Some(time) => serializer.collect_str(&time),
                    None => Err(S::Error::custom("a time beyond the calendar")),
                }
            }
        }
    }
}

measure::read_from_text!(StreamOffset, "\"first\", \"last\", \"next\", an offset or a time");

/// The properties of every message, as AMQP 0.9.1 names them, beside the delivery mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MessageProperties {
    /// The body's MIME type.
    pub content_type: Option<String>,
    /// The body's MIME encoding.
    pub content_encoding: Option<String>,
    /// Headers of the application.
    #[serde(skip)]
    pub headers: BTreeMap<String, Argument>,
    /// A priority from 0 on; queues need `x-max-priority` to heed it.
    pub priority: Option<u8>,
    /// The message's correlation id.
    pub correlation_id: Option<String>,
    /// Where answers go.
    pub reply_to: Option<String>,
    /// Milliseconds until the message expires, as text.
    #[serde(skip)]
    pub expiration: Option<String>,
    /// The message's identifier.
    pub message_id: Option<String>,
    /// The message's time in seconds since 1970.
    pub timestamp: Option<u64>,
    /// The message type's name.
    #[serde(rename = "type")]
    pub message_type: Option<String>,
    /// The publishing user; brokers compare it with the login.
    pub user_id: Option<String>,
    /// The publishing application.
    pub app_id: Option<String>,
    /// The cluster's identifier, a deprecated property.
    pub cluster_id: Option<String>,
}

/// The value of a header, or of an argument of a declaration or subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// `true` or `false`.
    Flag(bool),
    /// A signed 64-bit integer.
    Integer(i64),
    /// A string.
    Text(String),
}

/// Reads a value as it is typed: a truth value or an integer where it looks like one, else text.
impl FromStr for Argument {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match (text.parse(), text.parse()) {
            (Ok(flag), _) => Self::Flag(flag),
            (_, Ok(number)) => Self::Integer(number),
            _ => Self::Text(text.to_owned()),
        })
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}
