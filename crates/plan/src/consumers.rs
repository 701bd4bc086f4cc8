//! The receiving side.

use std::str::FromStr;

use measure::{Length, Nanos, Rate, Refused};
use serde::{Deserialize, Serialize, Serializer};

use super::{AmqpConsumers, Error, Subscription};

/// The receiving side of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumers {
    /// Consumers of each destination.
    pub per_destination: usize,
    /// Consumers of the whole group, assigned to its destinations in turn; instead of a number for each.
    pub total: Option<usize>,
    /// Connections that all consumers share, a channel each; absent: one each.
    pub connections: Option<usize>,
    /// Deliveries in flight per consumer; 0 = unlimited, which is refused for streams.
    pub prefetch: u16,
    /// When consumers acknowledge.
    pub ack: Ack,
    /// How consumers refuse instead of acknowledging.
    pub refuse: Option<Refusal>,
    /// Deliveries acknowledged per transaction; 0 = none. What is left when deliveries pause is committed at once.
    pub commit_every: u32,
    /// Polling interval: ask for each message (`basic.get`) this long after the last answer, instead of subscribing.
    pub poll: Option<Length>,
    /// How long a consumer works on a delivery before it acknowledges it and takes the next.
    pub service: ServiceTime,
    /// Delay before consumers start.
    pub start_after: Length,
    /// Delay between the starts of two consumers.
    pub apart: Length,
    /// Deliveries to the whole group, after which it ends; no limit if absent.
    pub message_count: Option<u64>,
    /// AMQP 1.0: only messages that this expression is true of, on ActiveMQ Artemis (a JMS selector) and of RabbitMQ's
    /// streams from 4.2 on (an AMQP SQL filter). Which ones those are only the broker knows, so no ledger is kept.
    pub selector: Option<String>,
    /// How consumers of topics subscribe; absent: each has a queue of its own, which goes with its connection.
    pub subscription: Option<Subscription>,
    /// Settings that only AMQP 0.9.1 has.
    pub amqp091: AmqpConsumers,
}

impl Default for Consumers {
    /// One consumer per destination, prefetch 200, every delivery acknowledged, streams from the next message on.
    fn default() -> Self {
        Self {
            per_destination: 1,
            total: None,
            connections: None,
            prefetch: 200,
            ack: Ack::Every(1),
            refuse: None,
            commit_every: 0,
            poll: None,
            service: ServiceTime::default(),
            start_after: Length::default(),
            apart: Length::default(),
            message_count: None,
            selector: None,
            subscription: None,
            amqp091: AmqpConsumers::default(),
        }
    }
}

/// How deliveries are acknowledged; written as `"auto"`, or as a number of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// The broker forgets a message once it is sent (no-ack).
    Auto,
    /// One acknowledgement for every N deliveries (at least 1), and at once for the rest
    /// when deliveries pause, when the prefetch limit is reached, or at the end.
    Every(u32),
}

impl Serialize for Ack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Every(n) => serializer.serialize_u32(*n),
        }
    }
}

impl FromStr for Ack {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let every = || text.parse().ok().filter(|n| *n > 0).map(Self::Every);
        match text {
            "auto" => Some(Self::Auto),
            _ => every(),
        }
        .ok_or_else(|| {
            format!(
                "ack = {text:?} is neither \"auto\" nor a number of deliveries per acknowledgement from 1 to {}",
                u32::MAX
            )
        })
    }
}

measure::read_from_text!(Ack, "\"auto\" or a number of deliveries");

/// How deliveries are refused (`basic.nack`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Deliveries go back into their queue.
    Requeue,
    /// Deliveries are dead-lettered or dropped.
    Discard,
}

/// How long one delivery keeps a consumer busy: the longer of both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceTime {
    /// Maximum deliveries per second of each consumer.
    pub rate: Option<Rate>,
    /// Service time of each delivery, one step after the other, again and again; none if empty.
    pub latency: Vec<LatencyStep>,
}

impl ServiceTime {
    /// Whether deliveries are taken as they come.
    pub fn is_zero(&self) -> bool {
        self.rate.is_none() && self.latency.iter().all(|step| step.latency.is_zero())
    }
}

impl Consumers {
    /// The most deliveries that may be unacknowledged; 0 for no limit.
    pub fn most_unacked(&self) -> u64 {
        let limits = [self.prefetch, self.amqp091.channel_prefetch];
        let limits = limits.into_iter().filter(|limit| *limit > 0);
        limits.min().map_or(0, u64::from)
    }

    pub(super) fn validate(&self) -> Result<(), Error> {
        let cause = "acknowledging every 0 deliveries would never acknowledge";
        let help = "ask for every 1 or more, or for automatic acknowledgement";
        Error::invalid(cause, help).observed(0).about("ack").unless(self.ack != Ack::Every(0))?;
        let cause = "consumers cannot share 0 connections";
        let refused = Error::invalid(cause, "ask for 1 or more, or for one each").observed(0);
        refused.about("consumer-connections").unless(self.connections != Some(0))?;
        let is_fine = self.ack != Ack::Auto || (self.refuse.is_none() && self.commit_every == 0);
        let cause = "what the broker takes as acknowledged can be neither refused nor committed";
        Error::invalid(cause, "leave out the automatic acknowledgement").about("ack").unless(is_fine)
    }
}

/// How long a delivery takes, for a part of the time: `"2ms"` for ever, or `"2ms@10s"`, the next
/// one after that, and all again from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyStep {
    /// Work on one delivery.
    pub latency: Length,
    /// How long the step lasts; zero is for ever.
    pub length: Length,
}

impl LatencyStep {
    /// Constant service time.
    pub const fn constant(latency: Nanos) -> Self {
        Self { latency: Length(latency), length: Length(Nanos::ZERO) }
    }
}

impl FromStr for LatencyStep {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let (latency, length) = text.split_once('@').unwrap_or((text, "0s"));
        Ok(Self { latency: latency.parse()?, length: length.parse()? })
    }
}

impl std::fmt::Display for LatencyStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.length.is_zero() { self.latency.fmt(f) } else { write!(f, "{}@{}", self.latency, self.length) }
    }
}

measure::kept_as_text!(LatencyStep);
