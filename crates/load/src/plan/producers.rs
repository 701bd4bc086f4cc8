//! The sending side.

use std::collections::BTreeMap;
use std::sync::Arc;

use measure::Nanos;
use serde::{Deserialize, Serialize};

use super::Argument;
use crate::payload::{FULL_LEN, TRACE_HEADER};
use crate::protocol::Answers;
use crate::protocol::amqp091::encode;
use crate::random::Random;
use crate::sizes::check_range;
use crate::{ArrivalProcess, Error, RateProfile, Sizes, Trace};

/// The sending side of a group.
#[derive(Clone, Debug)]
pub struct Producers {
    /// Producers for each destination.
    pub per_destination: usize,
    /// Producers of the whole group in place of so many for each destination; they are dealt out
    /// to the destinations in turn.
    pub total: Option<usize>,
    /// Connections that the group's producers share, a channel each; `None` gives everyone a
    /// connection.
    pub connections: Option<usize>,
    /// When they send.
    pub arrivals: ArrivalProcess,
    /// Each producer begins later by chance.
    pub start_delay: Option<StartDelay>,
    /// Unacknowledged messages allowed per producer; 0 is unlimited. Has no effect without
    /// `confirm`.
    pub max_pending: u32,
    /// Body lengths in bytes, at least 12. A trace that has sizes needs them fixed, and outdoes
    /// them.
    pub sizes: Sizes,
    /// Delivery mode 2.
    pub persistent: bool,
    /// Further properties of every message.
    pub properties: MessageProperties,
    /// Every message has a message id of its own: `ID:` and its run, producer and sequence number.
    pub message_ids: bool,
    /// Every message's timestamp says when it was sent.
    pub timestamps: bool,
    /// Every message gets another routing key, by chance.
    pub random_keys: Option<RandomKeys>,
    /// Ask for publisher confirms. Without them nothing is ever counted as completed.
    pub confirm: bool,
    /// Publish in transactions of so many messages, in place of confirms; 0 for none. A producer
    /// waits for the commit before it publishes on, and the commit is what acknowledges its
    /// messages. `max_pending` has no effect then.
    pub commit_every: u32,
    /// Messages are requests, and the group's consumers answer each with its own body, over RabbitMQ's
    /// direct reply-to. The reply is what answers a message then, in place of a confirm.
    pub replies: bool,
    /// A message that has no answer for longer ends the run as failed.
    pub confirm_timeout: Option<Nanos>,
    /// Set the mandatory flag, so that unroutable messages come back and are counted.
    pub mandatory: bool,
    /// Messages of the whole group, warm-up included; `None` for no limit.
    pub message_count: Option<u64>,
}

impl Default for Producers {
    /// One producer per destination, unthrottled, one message of 1,024 bytes pending, transient,
    /// confirmed: the defaults of Artemis perf.
    fn default() -> Self {
        Self {
            per_destination: 1,
            total: None,
            connections: None,
            arrivals: ArrivalProcess::Unthrottled,
            start_delay: None,
            max_pending: 1,
            sizes: Sizes::default(),
            persistent: false,
            properties: MessageProperties::default(),
            message_ids: false,
            timestamps: false,
            random_keys: None,
            confirm: true,
            commit_every: 0,
            replies: false,
            confirm_timeout: None,
            mandatory: false,
            message_count: None,
        }
    }
}

/// Producers begin later than the load, each at a moment of its own; its whole schedule is later by
/// as much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartDelay {
    /// The shortest.
    pub least: Nanos,
    /// How much longer it may be.
    pub spread: Nanos,
    /// Any number; the same gives the same moments.
    pub seed: u64,
}

impl StartDelay {
    /// How much later producer `id`, counted over all groups, begins.
    pub(crate) fn of(&self, id: u32) -> Nanos {
        // Apart from the same seed's arrivals and sizes.
        let random = Random::new(self.seed.rotate_left(32) ^ 1, u64::from(id));
        self.least + Nanos((random.unit(0) * self.spread.0 as f64) as u64)
    }
}

/// Routing keys by chance: 36 characters each, as of a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomKeys {
    /// So many different ones, again and again; 0 makes a new one for each message.
    pub different: u32,
}

/// The properties of every message, as AMQP 0.9.1 names them, beside the delivery mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MessageProperties {
    /// The body's MIME type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The body's MIME encoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
    /// Headers of the application.
    #[serde(skip)]
    pub headers: BTreeMap<String, Argument>,
    /// A priority from 0 on; queues need `x-max-priority` to heed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// What the message belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Where answers go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Milliseconds until the message expires, as text.
    #[serde(skip)]
    pub expiration: Option<String>,
    /// The message's identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The message's time in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<u64>,
    /// The message type's name.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub message_type: Option<String>,
    /// The publishing user; brokers compare it with the login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The publishing application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// The cluster's identifier, a deprecated property.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
}

impl MessageProperties {
    /// Whether none is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Producers {
    /// Whether the broker tells what it has accepted.
    #[must_use]
    pub const fn has_answers(&self) -> bool {
        self.confirm || self.commit_every > 0 || self.replies
    }

    /// What tells that the broker has accepted a message.
    pub(crate) fn answers(&self) -> Answers {
        match self.commit_every {
            _ if self.replies => Answers::Replies,
            0 if self.confirm => Answers::Confirms,
            0 => Answers::Nothing,
            _ => Answers::Commits,
        }
    }

    /// A trace that says how large its messages are.
    pub(crate) fn sizing_trace(&self) -> Option<(&Arc<Trace>, bool)> {
        match &self.arrivals {
            ArrivalProcess::Scheduled(schedule) => match schedule.profile() {
                RateProfile::Trace { trace, .. } if trace.has_sizes() => {
                    Some((trace, schedule.is_per_producer()))
                }
                _ => None,
            },
            ArrivalProcess::Unthrottled | ArrivalProcess::ThinkTime(_) => None,
        }
    }

    /// The smallest and the largest body.
    pub(crate) fn size_range(&self) -> (usize, usize) {
        self.sizing_trace()
            .and_then(|(trace, _)| trace.size_range())
            .unwrap_or_else(|| self.sizes.range())
    }

    /// Whether what tells messages apart is in a message header, and not in the body.
    #[must_use]
    pub fn has_trace_header(&self) -> bool {
        self.sizes.bodies().is_some()
    }

    pub(super) fn validate(&self, producers: u64, ledger: bool) -> Result<(), Error> {
        self.sizes.validate(ledger)?;
        encode(
            &self.properties,
            Some(self.persistent),
            self.has_trace_header(),
        )?;
        if self.has_trace_header() && self.properties.headers.contains_key(TRACE_HEADER) {
            return Err(Error::invalid(
                format!("the header {TRACE_HEADER:?} holds what tells messages apart"),
                "choose another name for yours",
            ));
        }
        let twice = [
            (
                self.message_ids && self.properties.message_id.is_some(),
                "message id",
            ),
            (
                self.timestamps && self.properties.timestamp.is_some(),
                "timestamp",
            ),
        ];
        if let Some((_, what)) = twice.iter().find(|(both, _)| *both) {
            return Err(Error::invalid(
                format!(
                    "every message is to have a {what} of its own, and all are to have the same"
                ),
                "leave out one of the two",
            ));
        }
        if self.connections == Some(0) {
            return Err(Error::invalid(
                "producers cannot share 0 connections",
                "ask for 1 or more, or for one each",
            ));
        }
        if self.replies && self.commit_every > 0 {
            return Err(Error::invalid(
                "requests are answered by replies, and transactions by commits",
                "leave out one of the two",
            ));
        }
        let (least, most) = self.size_range();
        if self.replies && least < FULL_LEN && !self.has_trace_header() {
            return Err(Error::invalid(
                format!("a request of {least} bytes has no room for what its reply is known by"),
                format!("ask for at least {FULL_LEN} bytes"),
            ));
        }
        if self.commit_every > 0 && matches!(self.arrivals, ArrivalProcess::ThinkTime(_)) {
            return Err(Error::invalid(
                "a think time counts from each answer, and transactions answer many at once",
                "leave out one of the two",
            ));
        }
        check_range(least, most, ledger && !self.has_trace_header())?;
        if self.sizing_trace().is_some() && !matches!(self.sizes, Sizes::Fixed(_)) {
            return Err(Error::invalid(
                "the trace says how large its messages are, and so does the message size",
                "leave the message size out, or take the sizes out of the trace",
            ));
        }
        match &self.arrivals {
            ArrivalProcess::Unthrottled => {}
            ArrivalProcess::Scheduled(schedule) => {
                schedule.pacer(producers)?;
            }
            ArrivalProcess::ThinkTime(_) if !self.has_answers() => {
                return Err(Error::invalid(
                    "a think time counts from the broker's answer, and no answer is asked for",
                    "ask for confirms, or give a rate instead of a think time",
                ));
            }
            ArrivalProcess::ThinkTime(_) if self.max_pending != 1 => {
                return Err(Error::invalid(
                    format!(
                        "with a think time each producer waits for one answer at a time, not for {}",
                        self.max_pending
                    ),
                    "leave --max-pending at 1, and ask for as many producers as there are users",
                ));
            }
            ArrivalProcess::ThinkTime(_) => {}
        }
        Ok(())
    }
}
