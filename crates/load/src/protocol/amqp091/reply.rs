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
    /// Properties with nothing but a trace_header, whose bytes are the last.
    trace_header: Vec<u8>,
    has_trace_header: bool,
}

impl Reply {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self {
            to: String::new(),
            body: Vec::new(),
            trace_header: MessageProperties::default().encode(None, true)?,
            has_trace_header: false,
        })
    }

    /// Takes what is needed of a request, whose bytes are about to go.
    pub(crate) fn prepare(&mut self, to: &str, body: &[u8], extras: Extras<'_>) {
        self.to.clear();
        self.to.push_str(to);
        self.body.clear();
        self.body.extend_from_slice(body);
        let (trace_header, place) = (
            extras.trace_header(),
            self.trace_header.last_chunk_mut::<FULL_LEN>(),
        );
        let trace_header = trace_header.and_then(|trace_header| trace_header.first_chunk());
        self.has_trace_header = trace_header
            .zip(place)
            .map(|(trace_header, place)| *place = *trace_header)
            .is_some();
    }

    pub(super) fn properties(&self) -> Properties<'_> {
        if self.has_trace_header {
            Properties::from_bytes(&self.trace_header)
        } else {
            Properties::NONE
        }
    }
}
