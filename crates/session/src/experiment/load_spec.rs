//! One group of producers and consumers, by Artemis perf's names where they mean the same.

use std::collections::BTreeMap;

use measure::Rate;
use serde::{Deserialize, Serialize};

use super::{Length, LengthRange, ScheduleSpec, SizeSpec};

/// One group of producers and consumers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct LoadSpec {
    /// `queue://NAME` or `topic://NAME`.
    pub destination: String,
    /// Above 1: NAME0, NAME1, …
    pub num_destinations: usize,
    /// `classic`, `quorum` or `stream`.
    pub queue_type: QueueType,
    /// Whether the queue survives a restart of the broker.
    pub durable: bool,
    /// Further queue arguments, as `x-max-length = 1000`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, ArgumentValue>,
    /// Declare queues before the load; otherwise they must exist.
    pub declare: bool,
    /// Empty queues before the load (streams cannot be emptied).
    pub purge: bool,
    /// Delete queues after the load, with what is in them.
    pub delete: bool,
    /// Producers of each destination.
    pub producers: usize,
    /// Messages per second of the whole group; absent: as fast as acknowledgements allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// A rate that changes, in place of `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
    /// The rate or schedule is each producer's, not that of all together.
    pub rate_per_producer: bool,
    /// Closed loop, in place of a rate: each producer waits for the answer to its message, then so
    /// long, then sends the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think_time: Option<Length>,
    /// Each producer begins at a moment of its own within so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_delay: Option<Length>,
    /// Messages in flight per producer; 0 = unlimited.
    pub max_pending: u32,
    /// Whether the broker acknowledges messages (publisher confirms).
    pub confirm: bool,
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
    /// Deliveries in flight per consumer; 0 = unlimited.
    pub prefetch: u16,
    /// When consumers acknowledge.
    pub ack: Acks,
    /// Where stream consumers start.
    pub stream_offset: StreamOffset,
    /// Connections that are lost are made anew after so long, by chance between two lengths where
    /// two are given; absent: the run ends with the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recover: Option<LengthRange>,
}

impl LoadSpec {
    /// Whether its messages have intended times of their own.
    #[must_use]
    pub const fn is_paced(&self) -> bool {
        self.producers > 0
            && (self.rate.is_some() || self.schedule.is_some() || self.think_time.is_some())
    }
}

impl Default for LoadSpec {
    fn default() -> Self {
        Self {
            destination: "queue://bellows".to_owned(),
            num_destinations: 1,
            queue_type: QueueType::Classic,
            durable: true,
            arguments: BTreeMap::new(),
            declare: true,
            purge: false,
            delete: false,
            producers: 1,
            rate: None,
            schedule: None,
            rate_per_producer: false,
            think_time: None,
            start_delay: None,
            max_pending: 1,
            confirm: true,
            message_size: SizeSpec::fixed(1024),
            persistent: false,
            message_count: 0,
            mandatory: false,
            consumers: 1,
            prefetch: 200,
            ack: Acks::Every(1),
            stream_offset: StreamOffset::Next,
            recover: None,
        }
    }
}

/// RabbitMQ's queue types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueType {
    /// One node, any kind of message.
    #[default]
    Classic,
    /// Replicated by Raft.
    Quorum,
    /// A replicated log.
    Stream,
}

/// A queue argument's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ArgumentValue {
    /// `true` or `false`.
    Bool(bool),
    /// A 64-bit integer.
    Integer(i64),
    /// Text.
    Text(String),
}

/// When consumers acknowledge: `"auto"` (the broker does not wait), or a number: every N
/// deliveries with one multiple acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The broker counts a delivery as acknowledged when it is sent.
    Auto,
    /// One multiple acknowledgement for every N deliveries.
    Every(u32),
}

impl Serialize for Acks {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Every(n) => serializer.serialize_u32(*n),
        }
    }
}

impl<'de> Deserialize<'de> for Acks {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Every(i64),
        }
        let refuse = |value: String| {
            serde::de::Error::custom(format!(
                "ack = {value} is neither \"auto\" nor a number of deliveries per \
                 acknowledgement from 1 to {}",
                u32::MAX
            ))
        };
        match Written::deserialize(deserializer)? {
            Written::Text(text) if text == "auto" => Ok(Self::Auto),
            Written::Text(text) => Err(refuse(format!("{text:?}"))),
            Written::Every(n) => match u32::try_from(n) {
                Ok(n) if n > 0 => Ok(Self::Every(n)),
                _ => Err(refuse(n.to_string())),
            },
        }
    }
}

/// Where stream consumers start: `"first"`, `"last"`, `"next"`, or an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamOffset {
    /// The oldest message.
    First,
    /// The last chunk written.
    Last,
    /// What is written from now on.
    #[default]
    Next,
    /// A message's offset.
    At(u64),
}

impl Serialize for StreamOffset {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::First => serializer.serialize_str("first"),
            Self::Last => serializer.serialize_str("last"),
            Self::Next => serializer.serialize_str("next"),
            Self::At(offset) => serializer.serialize_u64(*offset),
        }
    }
}

impl<'de> Deserialize<'de> for StreamOffset {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            At(u64),
        }
        match Written::deserialize(deserializer)? {
            Written::At(offset) => Ok(Self::At(offset)),
            Written::Text(text) => match text.as_str() {
                "first" => Ok(Self::First),
                "last" => Ok(Self::Last),
                "next" => Ok(Self::Next),
                _ => Err(serde::de::Error::custom(format!(
                    "stream-offset = {text:?} is none of \"first\", \"last\", \"next\" and an \
                     offset such as 0"
                ))),
            },
        }
    }
}
