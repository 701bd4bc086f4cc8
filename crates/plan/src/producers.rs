//! The sending side.

use std::sync::Arc;

use measure::{Nanos, counted};

use super::{AmqpProducers, MessageProperties};
use crate::payload::{FULL_LEN, TRACE_HEADER};
use crate::random::Random;
use crate::sizes::check_range;
use crate::{ArrivalProcess, Error, RateProfile, Sizes, Trace};

/// The sending side of a group.
#[derive(Clone, Debug)]
pub struct Producers {
    /// Producers for each destination.
    pub per_destination: usize,
    /// Producers of the whole group in place of a number for each destination; assigned in turn.
    pub total: Option<usize>,
    /// Connections that the group's producers share, a channel each; `None` gives everyone a connection.
    pub connections: Option<usize>,
    /// When they send.
    pub arrivals: ArrivalProcess,
    /// Each producer begins later, at a random time.
    pub start_delay: Option<StartDelay>,
    /// Unacknowledged messages allowed per producer; 0 is unlimited.
    pub max_pending: u32,
    /// Body lengths in bytes, at least 12. A trace that has sizes needs them fixed, and outdoes them.
    pub sizes: Sizes,
    /// Delivery mode 2.
    pub persistent: bool,
    /// Further properties of every message.
    pub properties: MessageProperties,
    /// Every message has a message id of its own: `ID:` and its run, producer and sequence number.
    pub message_ids: bool,
    /// Every message's timestamp says when it was sent.
    pub timestamps: bool,
    /// Every message gets another random routing key.
    pub random_keys: Option<RandomKeys>,
    /// Proof that a message has arrived.
    pub guarantee: Guarantee,
    /// A message that has no answer for longer ends the run as failed.
    pub confirm_timeout: Option<Nanos>,
    /// After a reconnect, messages without an answer are sent again, before new ones.
    pub resend: bool,
    /// Messages of the whole group, warm-up included; `None` for no limit.
    pub message_count: Option<u64>,
    /// Settings that only AMQP 0.9.1 has.
    pub amqp091: AmqpProducers,
}

/// A producer's proof that a message has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarantee {
    /// Nothing: no message is ever counted as completed, and `max_pending` has no effect.
    Unconfirmed,
    /// The broker's confirm of each message.
    #[default]
    Confirms,
    /// The answer to the commit of a transaction of this many messages, at least 1. A producer waits for it
    /// before it publishes on; `max_pending` has no effect.
    Commits(u32),
    /// The consumer's reply: messages are requests, and the group's consumers answer each with its own body.
    Replies,
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
            guarantee: Guarantee::default(),
            confirm_timeout: None,
            resend: false,
            message_count: None,
            amqp091: AmqpProducers::default(),
        }
    }
}

/// Producers begin later than the load, each at a moment of its own; its whole schedule is later by as much.
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
    pub fn of(&self, id: u32) -> Nanos {
        // Apart from the same seed's arrivals and sizes.
        let random = Random::new(self.seed.rotate_left(32) ^ 1, u64::from(id));
        self.least + Nanos((random.unit(0) * self.spread.0 as f64) as u64)
    }
}

/// Random routing keys: 36 characters each, as of a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomKeys {
    /// This many different ones, again and again; 0 makes a new one for each message.
    pub different: u32,
}

impl Guarantee {
    /// Whether anything tells.
    pub const fn has_answers(self) -> bool {
        !matches!(self, Self::Unconfirmed)
    }

    /// Messages of a transaction; 0 for none.
    pub const fn commit_every(self) -> u32 {
        match self {
            Self::Commits(messages) => messages,
            _ => 0,
        }
    }
}

impl Producers {
    /// Whether messages are requests.
    pub fn has_replies(&self) -> bool {
        self.guarantee == Guarantee::Replies
    }

    /// A trace that says how large its messages are.
    pub fn sizing_trace(&self) -> Option<(&Arc<Trace>, bool)> {
        match &self.arrivals {
            ArrivalProcess::Scheduled(schedule) => match schedule.profile() {
                RateProfile::Trace { trace, .. } if trace.has_sizes() => Some((trace, schedule.is_per_producer())),
                _ => None,
            },
            ArrivalProcess::Unthrottled | ArrivalProcess::ThinkTime(_) => None,
        }
    }

    /// The smallest and the largest body.
    pub fn size_range(&self) -> (usize, usize) {
        self.sizing_trace().and_then(|(trace, _)| trace.size_range()).unwrap_or_else(|| self.sizes.range())
    }

    /// Whether what tells messages apart is in a message header, and not in the body.
    pub fn has_trace_header(&self) -> bool {
        self.sizes.bodies().is_some()
    }

    /// Refuses to send again where no connection is made again, nothing is answered, or a copy could not be told.
    pub(super) fn validate_resend(&self, reconnects: bool) -> Result<(), Error> {
        if !self.resend {
            return Ok(());
        }
        let cause = "messages are sent again after a reconnect, and here the first lost connection ends the run";
        let refused = Error::invalid(cause, "add {recover}, or leave {resend} out").about("resend");
        refused.unless(reconnects)?;
        let cause = "only messages without an answer are sent again, and no answer is requested";
        let refused = Error::invalid(cause, "ask for confirms, or leave {resend} out").about("resend");
        refused.unless(self.guarantee.has_answers())?;
        let (least, _) = self.size_range();
        let bytes = counted(least as u64, "byte");
        let cause = format!("a message of {bytes} has no room for the mark of a copy that is sent again");
        let help = format!("ask for at least {FULL_LEN} bytes, or leave {{resend}} out");
        let refused = Error::invalid(cause, help).observed(least).about("message-size");
        refused.unless(least >= FULL_LEN || self.has_trace_header())
    }

    pub(super) fn validate(&self, producers: u64, ledger: bool) -> Result<(), Error> {
        let of_sizes = |error: Error| error.about("message-size");
        self.sizes.validate(ledger).map_err(of_sizes)?;
        self.validate_properties()?;
        self.validate_counts()?;
        let (least, most) = self.size_range();
        check_range(least, most, ledger && !self.has_trace_header()).map_err(of_sizes)?;
        let is_one = self.sizing_trace().is_none() || matches!(self.sizes, Sizes::Fixed(_));
        let cause = "the trace says how large its messages are, and so does the message size";
        let help = "leave the message size out, or take the sizes out of the trace";
        Error::invalid(cause, help).about("message-size").unless(is_one)?;
        match &self.arrivals {
            ArrivalProcess::Unthrottled => Ok(()),
            ArrivalProcess::Scheduled(schedule) => {
                schedule.pacer(producers).map(drop).map_err(|error| error.about("rate"))
            }
            ArrivalProcess::ThinkTime(_) => self.validate_think_time(),
        }
    }

    /// Refuses two values of a property that tells messages apart.
    fn validate_properties(&self) -> Result<(), Error> {
        let is_fine = !self.has_trace_header() || !self.properties.headers.contains_key(TRACE_HEADER);
        let cause = format!("the header {TRACE_HEADER:?} holds what tells messages apart");
        let refused = Error::invalid(cause, "choose another name for yours").observed(TRACE_HEADER);
        refused.about("headers").unless(is_fine)?;
        let twice = [
            (self.message_ids && self.properties.message_id.is_some(), "message id"),
            (self.timestamps && self.properties.timestamp.is_some(), "timestamp"),
        ];
        twice.iter().try_for_each(|(both, what)| {
            let cause = format!("every message is to have a {what} of its own, and all are to have the same");
            Error::invalid(cause, "leave out one of the two").observed(what).unless(!both)
        })
    }

    fn validate_counts(&self) -> Result<(), Error> {
        let cause = "producers cannot share 0 connections";
        let refused = Error::invalid(cause, "ask for 1 or more, or for one each").observed(0);
        refused.about("producer-connections").unless(self.connections != Some(0))?;
        let cause = "transactions of 0 messages would never commit";
        let refused = Error::invalid(cause, "ask for 1 or more, or for no transactions").observed(0);
        refused.about("commit-every").unless(self.guarantee != Guarantee::Commits(0))?;
        let (least, _) = self.size_range();
        let has_room = !self.has_replies() || least >= FULL_LEN || self.has_trace_header();
        let bytes = counted(least as u64, "byte");
        let cause = format!("a request of {bytes} has no room for what its reply is known by");
        let refused = Error::invalid(cause, format!("ask for at least {FULL_LEN} bytes")).observed(least);
        refused.about("message-size").unless(has_room)
    }

    fn validate_think_time(&self) -> Result<(), Error> {
        let cause = "a think time counts from each answer, and transactions answer many at once";
        let refused = Error::invalid(cause, "leave out one of the two").about("think-time");
        refused.unless(self.guarantee.commit_every() == 0)?;
        let cause = "a think time counts from the broker's answer, and no answer is requested";
        let help = "ask for confirms, or give a rate instead of a think time";
        Error::invalid(cause, help).about("think-time").unless(self.guarantee.has_answers())?;
        let most = self.max_pending;
        let cause = format!("a think time waits for one answer at a time, not for {most}");
        let help = "leave it at 1, and ask for as many producers as there are users";
        Error::invalid(cause, help).observed(most).about("max-pending").unless(most == 1)
    }
}
