//! Direct replies: a consumer's answer to a request.

use wire::amqp091::Properties;

use super::Extras;
use crate::payload::FULL_LEN;
use crate::{Error, MessageProperties};

/// RabbitMQ's pseudo-queue: what is sent to a message's `reply-to` comes back over the channel that
/// published it, without a queue.
pub(crate) const REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// An answer to a request; kept for the next one, so that nothing is allocated.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(super) to: String,
    pub(super) body: Vec<u8>,
    /// Properties with nothing but a label, whose bytes are the last.
    label: Vec<u8>,
    is_labelled: bool,
}

impl Reply {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self {
            to: String::new(),
            body: Vec::new(),
            label: MessageProperties::default().encode(None, true)?,
            is_labelled: false,
        })
    }

    /// Takes what is needed of a request, whose bytes are about to go.
    pub(crate) fn prepare(&mut self, to: &str, body: &[u8], extras: Extras<'_>) {
        self.to.clear();
        self.to.push_str(to);
        self.body.clear();
        self.body.extend_from_slice(body);
        let (label, place) = (extras.label(), self.label.last_chunk_mut::<FULL_LEN>());
        let label = label.and_then(|label| label.first_chunk());
        self.is_labelled = label
            .zip(place)
            .map(|(label, place)| *place = *label)
            .is_some();
    }

    pub(super) fn properties(&self) -> Properties<'_> {
        if self.is_labelled {
            Properties::from_bytes(&self.label)
        } else {
            Properties::NONE
        }
    }
}
