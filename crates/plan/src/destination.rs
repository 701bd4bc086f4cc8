//! Where messages go to and come from.

use std::fmt;

use super::AmqpDestination;
use crate::Error;

/// The longest word before a `://` that an error repeats.
const LONGEST_KIND: usize = 12;

/// One address.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// Queue or topic.
    pub kind: DestinationKind,
    /// The queue's name, or the routing key under `amq.topic`.
    pub name: String,
    /// Whether the queue belongs to the connection of its consumers, who declare it: nobody else may
    /// use it, and it goes with the connection.
    pub exclusive: bool,
    /// Exchange, bindings and arguments for AMQP 0.9.1 brokers.
    pub amqp091: AmqpDestination,
}

impl Destination {
    /// A queue.
    #[must_use]
    pub fn queue(name: impl Into<String>) -> Self {
        Self {
            kind: DestinationKind::Queue,
            name: name.into(),
            exclusive: false,
            amqp091: AmqpDestination::default(),
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
            // What follows is never repeated: it may be the broker's address, with a password.
            Some((kind, _)) => {
                let is_word = kind.len() <= LONGEST_KIND && kind.chars().all(char::is_alphabetic);
                let kind = if is_word { kind } else { "…" };
                return Err(Error::invalid(
                    "a destination has an unknown kind before its ://",
                    "write queue://NAME or topic://NAME; the broker's address goes to {broker.url}",
                )
                .observed(kind));
            }
        };
        let slip = |kind: &str| {
            let rest = destination.name.strip_prefix(kind)?;
            let name = rest
                .strip_prefix("//")
                .or_else(|| rest.strip_prefix(":/"))?;
            Some(format!("{kind}://{}", name.trim_start_matches('/')))
        };
        if let Some(meant) = slip("queue").or_else(|| slip("topic"))
            && !text.contains("://")
        {
            return Err(Error::invalid(
                format!("destination {text:?} lacks a part of its ://"),
                format!("write {meant}, or queue://{text} for a queue of this name"),
            )
            .observed(text));
        }
        if destination.name.is_empty() {
            return Err(Error::invalid(
                format!("destination {text:?} has no name"),
                "write queue://NAME or topic://NAME",
            )
            .observed(text));
        }
        Ok(destination)
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
    /// A queue, addressed over the default exchange: each message goes to one of its consumers (a stream's go to each).
    Queue,
    /// A routing key of the exchange `amq.topic`, or of another. Each consumer binds its own
    /// exclusive, auto-delete queue to it, so each message goes to every consumer, and to nobody
    /// where there is none.
    Topic,
}
