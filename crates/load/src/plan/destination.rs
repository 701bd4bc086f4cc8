//! Where messages go to and come from.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Consumers;
use crate::protocol::amqp091::TOPIC_EXCHANGE;
use crate::{Ack, Error};

/// One address.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// Queue or topic.
    pub kind: DestinationKind,
    /// The queue's name, or the routing key under `amq.topic`.
    pub name: String,
    /// The type of queue that is declared; topics accept [`QueueType::Classic`] only.
    pub queue_type: QueueType,
    /// Whether a classic queue survives a restart; quorum queues and streams always do.
    pub durable: bool,
    /// Whether the broker deletes the queue when its last consumer has gone.
    pub auto_delete: bool,
    /// Whether the queue belongs to the connection of its consumers, who declare it: nobody else may
    /// use it, and it goes with the connection.
    pub exclusive: bool,
    /// Further arguments of the declaration, such as `x-max-length`.
    pub arguments: BTreeMap<String, Argument>,
    /// Where producers publish; `None` is the default exchange for a queue, and `amq.topic` for a
    /// topic.
    pub exchange: Option<Exchange>,
    /// The routing key of messages, and of the queue's binding to the exchange; `None` is the name.
    pub routing_key: Option<String>,
    /// Bind the queue to the exchange, where one is given. A topic's queues are always bound.
    pub bind: bool,
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
    #[must_use]
    pub fn new(name: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            durable: false,
            auto_delete: false,
        }
    }

    /// Whether the exchange has to be declared; those that every broker has (`amq.*` and the default
    /// one) never are.
    pub(crate) fn is_declared(&self) -> bool {
        !self.name.is_empty() && !self.name.starts_with("amq.")
    }
}

impl Destination {
    /// A classic, transient queue.
    #[must_use]
    pub fn queue(name: impl Into<String>) -> Self {
        Self {
            kind: DestinationKind::Queue,
            name: name.into(),
            queue_type: QueueType::Classic,
            durable: false,
            auto_delete: false,
            exclusive: false,
            arguments: BTreeMap::new(),
            exchange: None,
            routing_key: None,
            bind: true,
        }
    }

    /// A topic.
    #[must_use]
    pub fn topic(name: impl Into<String>) -> Self {
        Self {
            kind: DestinationKind::Topic,
            ..Self::queue(name)
        }
    }

    /// Reads `queue://NAME`, `topic://NAME` or a bare `NAME`, which is a queue.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another scheme or an empty name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let destination = match text.split_once("://") {
            None => Self::queue(text),
            Some(("queue", name)) => Self::queue(name),
            Some(("topic", name)) => Self::topic(name),
            // Never repeated: it may be the broker's address, with a password.
            Some(_) => {
                return Err(Error::invalid(
                    "a destination has an unknown kind before its ://",
                    "write queue://NAME or topic://NAME; the broker's address goes to --url",
                ));
            }
        };
        if destination.name.is_empty() {
            return Err(Error::invalid(
                format!("destination {text:?} has no name"),
                "write queue://NAME or topic://NAME",
            ));
        }
        Ok(destination)
    }

    /// The exchange that producers publish to, and the routing key.
    #[must_use]
    pub fn publishes_to(&self) -> (&str, &str) {
        let exchange = match (&self.exchange, self.kind) {
            (Some(exchange), _) => &exchange.name,
            (None, DestinationKind::Queue) => "",
            (None, DestinationKind::Topic) => TOPIC_EXCHANGE,
        };
        (exchange, self.routing_key.as_deref().unwrap_or(&self.name))
    }

    /// The routing key by which the queue is bound to its exchange, where it is.
    pub(crate) fn binding(&self) -> Option<&str> {
        let (exchange, key) = self.publishes_to();
        let bound = self.kind == DestinationKind::Queue && self.bind && !exchange.is_empty();
        bound.then_some(key)
    }

    /// Whether the queue survives a restart of the broker.
    #[must_use]
    pub const fn is_durable(&self) -> bool {
        self.durable || !matches!(self.queue_type, QueueType::Classic)
    }
}

/// `queue://NAME` or `topic://NAME`, as Artemis perf writes them.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            DestinationKind::Queue => "queue",
            DestinationKind::Topic => "topic",
        };
        write!(f, "{scheme}://{}", self.name)
    }
}

/// How a destination distributes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationKind {
    /// A queue, addressed over the default exchange: each message goes to one of its consumers
    /// (a stream's go to each).
    Queue,
    /// A routing key of the exchange `amq.topic`, or of another. Each consumer binds its own
    /// exclusive, auto-delete queue to it, so each message goes to every consumer, and to nobody
    /// where there is none.
    Topic,
}

/// The queue types of RabbitMQ (`x-queue-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueType {
    /// No replication; declared without `x-queue-type`, which other brokers do not know.
    #[default]
    Classic,
    /// Replicated by Raft; always durable.
    Quorum,
    /// A log that is read without being emptied; always durable; consumers need a prefetch limit
    /// and acknowledgements.
    Stream,
}

impl QueueType {
    /// The value of `x-queue-type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }
}

impl FromStr for QueueType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Classic, Self::Quorum, Self::Stream]
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| format!("{text:?} is none of classic, quorum and stream"))
    }
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

impl Destination {
    pub(super) fn validate(&self, consumers: &Consumers) -> Result<(), Error> {
        let (exchange, key) = self.publishes_to();
        for (what, name) in [
            ("name", self.name.as_str()),
            ("exchange", exchange),
            ("routing key", key),
        ] {
            if name.len() > 255 {
                return Err(Error::invalid(
                    format!("the {what} of {self} is {} bytes long", name.len()),
                    "AMQP 0.9.1 allows at most 255",
                ));
            }
        }
        if self.kind == DestinationKind::Topic && exchange.is_empty() {
            return Err(Error::invalid(
                format!("{self} has the default exchange, to which nothing can be bound"),
                "name another exchange, or a queue:// as destination",
            ));
        }
        if self.kind == DestinationKind::Topic && self.queue_type != QueueType::Classic {
            return Err(Error::invalid(
                format!(
                    "{self} cannot have queues of type {}",
                    self.queue_type.name()
                ),
                "topics use an exclusive classic queue per consumer: leave the queue type out",
            ));
        }
        let any = consumers.total.unwrap_or(consumers.per_destination) > 0;
        if self.queue_type == QueueType::Stream && any {
            if consumers.prefetch == 0 {
                return Err(Error::invalid(
                    format!("consumers of the stream {self} have no prefetch limit"),
                    "streams need one: ask for a prefetch of 1 or more, such as 200",
                ));
            }
            if consumers.ack == Ack::Auto {
                return Err(Error::invalid(
                    format!("consumers of the stream {self} acknowledge automatically"),
                    "streams need acknowledgements: ask for one every N deliveries",
                ));
            }
        }
        Ok(())
    }
}
