//! Messages and confirms on their way out, in the protocol of their connection. Every one of them passes here and
//! nowhere else, so that what a broker does to its clients can be changed in one place.

use measure::Time;
use wire::amqp10::{
    Amqp10Server, Composite, Condition, DeclaredTransaction, DeliveryState, MessageMapping, Rejected, Sections, Symbol,
    TransactionalState, TypedValue,
};
use wire::amqp091::{
    BasicDeliver, BasicGetOk, BasicReturn, DeliverTemplate, Error, MethodId, Properties, Reader, Server, ServerConfig,
    reply,
};

use crate::log::Record;
use crate::queue::Consumer;
use crate::refusal::Refusal;

/// Deliveries whose exchange or key differ from the prepared ones, before those are prepared again:
/// often enough when a key changes once, and rarely when it changes with every message.
const MISSES_BEFORE_REBUILD: u32 = 16;

/// The outcome `accepted`, encoded.
const ACCEPTED: &[u8] = &[0, 0x53, 0x24, 0x45];

/// An answer to publishers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Number of the last message that it answers.
    pub(crate) tag: u64,
    /// It answers all messages up to that one.
    pub(crate) multiple: bool,
    pub(crate) refused: bool,
}

/// How a transfer of AMQP 1.0 ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferOutcome {
    Accepted,
    /// No queue was there for it.
    Released,
    Rejected,
    /// It is rejected for a reason that has this code, and this explanation where it needs one.
    Refused(u16, &'static str),
    /// It has declared this transaction.
    Declared(u64),
    /// It belongs to this transaction, and is accepted when that is committed.
    Enlisted(u64),
}

/// The protocol of a connection, which the client's first bytes choose.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the usual one is not to be looked up")]
pub(crate) enum Protocol {
    /// AMQP 0.9.1; also while the client has said nothing.
    Amqp091(Server),
    /// AMQP 1.0.
    Amqp10(Box<LinkServer>),
}

/// A connection's protocol where that is AMQP 1.0, and memory for messages in the form that they have in queues.
#[derive(Debug)]
pub(crate) struct LinkServer {
    pub(crate) server: Amqp10Server,
    pub(crate) mapping: MessageMapping,
}

impl Protocol {
    /// Takes AMQP 1.0 where the client's first bytes ask for it; `false` where they have not come whole.
    pub(crate) fn choose(&mut self, input: &[u8], now: Time) -> bool {
        let Self::Amqp091(server) = self else { return true };
        let Some(config) = server.unused_config() else { return true };
        match input {
            [b'A', b'M', b'Q', b'P', 0 | 3, 1, 0, 0, ..] => {
                *self = Self::Amqp10(Box::new(LinkServer::new(config, now)));
                true
            }
            [b'A', b'M', b'Q', b'P', ..] => input.len() >= 8,
            _ => true,
        }
    }

    #[inline]
    pub(crate) fn pending_output(&self) -> &[u8] {
        match self {
            Self::Amqp091(server) => server.pending_output(),
            Self::Amqp10(link) => link.server.pending_output(),
        }
    }

    #[inline]
    pub(crate) fn consume_output(&mut self, bytes: usize) {
        match self {
            Self::Amqp091(server) => server.consume_output(bytes),
            Self::Amqp10(link) => link.server.consume_output(bytes),
        }
    }

    /// Bytes that wait for the transport, or for the client.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        match self {
            Self::Amqp091(server) => server.pending_output().len(),
            Self::Amqp10(link) => link.server.unsent(),
        }
    }

    /// Whether the protocol lets a consumer have a message.
    #[inline]
    pub(crate) fn has_credit(&self, consumer: &Consumer) -> bool {
        match self {
            Self::Amqp091(_) => true,
            Self::Amqp10(link) => link.server.credit(consumer.channel, consumer.handle, 1) > 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Amqp091(server) => server.is_open(),
            Self::Amqp10(link) => link.server.is_open(),
        }
    }

    pub(crate) fn excuse_silence(&mut self, now: Time) {
        match self {
            Self::Amqp091(server) => server.excuse_silence(now),
            Self::Amqp10(link) => link.server.excuse_silence(now),
        }
    }

    /// Heartbeats and time-outs; whether the connection is of no more use.
    pub(crate) fn has_timed_out(&mut self, now: Time) -> bool {
        match self {
            Self::Amqp091(server) => server.handle_timeout(now).is_err(),
            Self::Amqp10(link) => link.server.handle_timeout(now).is_err(),
        }
    }

    /// Starts the orderly close.
    pub(crate) fn close(&mut self, now: Time, code: u16, text: &str, cause: MethodId) {
        match self {
            Self::Amqp091(server) => server.close(now, code, text, cause),
            Self::Amqp10(link) => link.server.close(now, Refusal::condition(code), text),
        }
    }

    /// Closes a channel, or a session of AMQP 1.0.
    pub(crate) fn close_channel(&mut self, channel: u16, code: u16, text: &str, cause: MethodId) {
        match self {
            Self::Amqp091(server) => server.close_channel(channel, code, text, cause),
            Self::Amqp10(link) => link.server.end_session(channel, Refusal::condition(code), text),
        }
    }
}

impl LinkServer {
    fn new(config: &ServerConfig, now: Time) -> Self {
        Self { server: Amqp10Server::new(config, now), mapping: MessageMapping::default() }
    }

    /// Sends a message, with its place where it is one of a stream; `redelivered` as in [`Taken`](crate::queue::Taken).
    pub(crate) fn deliver(
        &mut self,
        consumer: &Consumer,
        redelivered: Option<u16>,
        record: &Record<'_>,
        offset: Option<u64>,
    ) {
        let properties = Properties::from_bytes(record.properties);
        let (head, body) = if record.has_sections {
            self.mapping.to_head(properties, redelivered, offset, Sections(record.body))
        } else {
            (self.mapping.to_sections(properties, redelivered, offset, record.body), record.body)
        };
        self.server.deliver(consumer.channel, consumer.handle, consumer.no_ack, head, body);
    }

    /// Answers a client's transfers from one to another.
    pub(crate) fn answer(&mut self, session: u16, first: u32, last: u32, outcome: TransferOutcome) {
        let mut encoded = Vec::new();
        let state = match outcome {
            TransferOutcome::Accepted => DeliveryState::Accepted,
            TransferOutcome::Released => DeliveryState::Released,
            TransferOutcome::Rejected => DeliveryState::Rejected(Rejected::default()),
            TransferOutcome::Refused(code, text) => {
                let condition = Symbol(Refusal::condition(code));
                let description = Some(text).filter(|it| !it.is_empty());
                let error = Condition { condition, description, ..Condition::default() };
                DeliveryState::Rejected(Rejected { error: Some(error) })
            }
            TransferOutcome::Declared(number) => {
                DeclaredTransaction { txn_id: &number.to_be_bytes() }.write(&mut encoded);
                DeliveryState::Other(value(&encoded))
            }
            TransferOutcome::Enlisted(number) => {
                let outcome = value(ACCEPTED);
                TransactionalState { txn_id: &number.to_be_bytes(), outcome }.write(&mut encoded);
                self.server.inform(session, first, last, DeliveryState::Other(value(&encoded)));
                return;
            }
        };
        self.server.settle(session, first, last, state);
    }
}

/// A value that was encoded here.
fn value(bytes: &[u8]) -> TypedValue<'_> {
    TypedValue::read(&mut Reader::new(bytes)).unwrap_or_default()
}

/// Sends a message to a consumer.
#[inline]
pub(crate) fn deliver(
    protocol: &mut Protocol,
    consumer: &mut Consumer,
    delivery_tag: u64,
    redelivered: Option<u16>,
    record: &Record<'_>,
) -> Result<(), Error> {
    let server = match protocol {
        Protocol::Amqp091(server) => server,
        Protocol::Amqp10(link) => {
            link.deliver(consumer, redelivered, record, None);
            return Ok(());
        }
    };
    let redelivered = redelivered.is_some();
    let Record { exchange, routing_key, properties, .. } = *record;
    let body = record.basic_body();
    let prepared = &mut consumer.prepared;
    let properties = Properties::from_bytes(properties);
    if let Some(template) = &prepared.template
        && template.matches(exchange, routing_key)
    {
        return server.deliver(template, delivery_tag, redelivered, properties, &body);
    }
    if prepared.template.is_none() || prepared.misses >= MISSES_BEFORE_REBUILD {
        let tag = &consumer.tag;
        let template = DeliverTemplate::new(consumer.channel, tag, exchange, routing_key)?;
        prepared.template = Some(template);
        prepared.misses = 0;
    }
    prepared.misses += 1;
    let method = BasicDeliver { consumer_tag: &consumer.tag, delivery_tag, redelivered, exchange, routing_key };
    server.send_content(consumer.channel, &method, properties, &body)
}

/// Answers `basic.get` with a message.
pub(crate) fn get_ok(
    server: &mut Server,
    channel: u16,
    delivery_tag: u64,
    redelivered: bool,
    remaining: u64,
    record: &Record<'_>,
) -> Result<(), Error> {
    let method = BasicGetOk {
        delivery_tag,
        redelivered,
        exchange: record.exchange,
        routing_key: record.routing_key,
        message_count: u32::try_from(remaining).unwrap_or(u32::MAX),
    };
    server.send_content(channel, &method, Properties::from_bytes(record.properties), &record.basic_body())
}

/// Returns a mandatory message that no queue took.
pub(crate) fn give_back(server: &mut Server, channel: u16, record: &Record<'_>) -> Result<(), Error> {
    let method = BasicReturn {
        reply_code: reply::NO_ROUTE,
        reply_text: "NO_ROUTE",
        exchange: record.exchange,
        routing_key: record.routing_key,
    };
    server.send_content(channel, &method, Properties::from_bytes(record.properties), record.body)
}

/// Answers publishers.
pub(crate) fn confirm(server: &mut Server, channel: u16, answer: Answer) {
    if answer.refused {
        server.confirm_nack(channel, answer.tag, answer.multiple);
    } else {
        server.confirm(channel, answer.tag, answer.multiple);
    }
}
