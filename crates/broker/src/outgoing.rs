//! Messages and confirms on their way out. Every one of them passes here and nowhere else, so
//! that what a broker does to its clients can be changed in one place.

use wire::amqp091::{BasicDeliver, BasicGetOk, BasicReturn, DeliverTemplate, Error, Properties, Server, reply};

use crate::log::Record;
use crate::queue::Consumer;

/// Deliveries whose exchange or key differ from the prepared ones, before those are prepared again:
/// often enough when a key changes once, and rarely when it changes with every message.
const MISSES_BEFORE_REBUILD: u32 = 16;

/// An answer to publishers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Number of the last message that it answers.
    pub(crate) tag: u64,
    /// It answers all messages up to that one.
    pub(crate) multiple: bool,
    pub(crate) refused: bool,
}

/// Sends a message to a consumer.
#[inline]
pub(crate) fn deliver(
    server: &mut Server,
    consumer: &mut Consumer,
    delivery_tag: u64,
    redelivered: bool,
    record: &Record<'_>,
) -> Result<(), Error> {
    let Record { exchange, routing_key, properties, body } = *record;
    let prepared = &mut consumer.prepared;
    let properties = Properties::from_bytes(properties);
    if let Some(template) = &prepared.template
        && template.matches(exchange, routing_key)
    {
        return server.deliver(template, delivery_tag, redelivered, properties, body);
    }
    if prepared.template.is_none() || prepared.misses >= MISSES_BEFORE_REBUILD {
        let tag = &consumer.tag;
        let template = DeliverTemplate::new(consumer.channel, tag, exchange, routing_key)?;
        prepared.template = Some(template);
        prepared.misses = 0;
    }
    prepared.misses += 1;
    let method = BasicDeliver { consumer_tag: &consumer.tag, delivery_tag, redelivered, exchange, routing_key };
    server.send_content(consumer.channel, &method, properties, body)
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
    server.send_content(channel, &method, Properties::from_bytes(record.properties), record.body)
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
