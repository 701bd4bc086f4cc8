//! Consumers: what a queue knows of those who want its messages.

use measure::Time;
use wire::amqp091::DeliverTemplate;

use crate::log::Cursor;
use crate::slots::Key;

/// Why a consumer is not in its queue's ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Parked {
    /// It is.
    #[default]
    No,
    /// It, or its channel, has as many unacknowledged deliveries as it may.
    ForCredit,
    /// Its connection has too much output waiting.
    ForOutput,
}

/// Somebody who wants a queue's messages.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) connection: Key,
    pub(crate) channel: u16,
    pub(crate) tag: Box<str>,
    pub(crate) queue: Key,
    /// Whether a delivery counts as acknowledged.
    pub(crate) no_ack: bool,
    /// Deliveries it may have unacknowledged; 0 for any number.
    pub(crate) prefetch: u32,
    pub(crate) unacked: u32,
    /// Higher ones are served first.
    pub(crate) priority: i32,
    pub(crate) parked: Parked,
    /// Its place, when the queue is a stream.
    pub(crate) cursor: Cursor,
    pub(crate) prepared: PreparedFrame,
    /// A delivery that a fault holds back.
    pub(crate) held: Option<Held>,
}

/// The frame in front of a delivery, encoded before it is needed.
#[derive(Debug, Default)]
pub(crate) struct PreparedFrame {
    pub(crate) template: Option<DeliverTemplate>,
    /// Deliveries that it did not fit since it was made.
    pub(crate) misses: u32,
}

/// A message that others overtake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// Its place in the queue's log.
    pub(crate) address: u64,
    /// How many go first.
    pub(crate) left: u32,
    /// Whether one has.
    pub(crate) is_overtaken: bool,
    /// When it goes at the latest.
    pub(crate) until: Time,
    /// The fault's position in the script.
    pub(crate) rule: usize,
}

impl Consumer {
    /// Whether its own prefetch allows another delivery.
    #[inline]
    pub(crate) const fn has_credit(&self) -> bool {
        self.no_ack || self.prefetch == 0 || self.unacked < self.prefetch
    }
}
