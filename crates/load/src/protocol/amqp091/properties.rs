//! The content header's property list, and the arguments of declarations and subscriptions.

use std::collections::BTreeMap;
use std::fmt::Display;

use measure::Problem;
use wire::amqp091::{BasicProperties, EncodeError, FieldTable, Properties, Value};

use super::STREAM_OFFSET;
use crate::{Argument, Destination, Error, Group, MessageProperties, QueueType, StreamOffset};
use plan::payload::{FULL_LEN, TRACE_HEADER};

/// The properties of messages in the content header, delivery mode included, with room for a trace header, the last.
pub(crate) fn encode(
    properties: &MessageProperties,
    persistent: Option<bool>,
    trace_header: bool,
) -> Result<Vec<u8>, Error> {
    let mut headers = table_of(&properties.headers)?;
    if trace_header {
        headers.insert(TRACE_HEADER, Value::Bytes(&[0; FULL_LEN])).map_err(unfit)?;
    }
    let properties = BasicProperties {
        content_type: properties.content_type.as_deref(),
        content_encoding: properties.content_encoding.as_deref(),
        headers: (!headers.is_empty()).then(|| headers.view()),
        // 1 is transient, 2 persistent.
        delivery_mode: persistent.map(|persistent| if persistent { 2 } else { 1 }),
        priority: properties.priority,
        correlation_id: properties.correlation_id.as_deref(),
        reply_to: properties.reply_to.as_deref(),
        expiration: properties.expiration.as_deref(),
        message_id: properties.message_id.as_deref(),
        timestamp: properties.timestamp,
        message_type: properties.message_type.as_deref(),
        user_id: properties.user_id.as_deref(),
        app_id: properties.app_id.as_deref(),
        cluster_id: properties.cluster_id.as_deref(),
    };
    properties.to_bytes().map_err(unfit)
}

/// The properties of a reply with a trace header. `bytes` are those of the last one, so that they are encoded once.
pub(super) fn of_reply<'a>(bytes: &'a mut Vec<u8>, header: &[u8; FULL_LEN]) -> Result<Properties<'a>, Error> {
    if bytes.is_empty() {
        *bytes = encode(&MessageProperties::default(), None, true)?;
    }
    if let Some(place) = bytes.last_chunk_mut() {
        *place = *header;
    }
    Ok(Properties::from_bytes(bytes))
}

fn unfit(error: EncodeError) -> Error {
    Error::Invalid(Problem::new(
        "the message properties cannot be sent",
        error,
        "shorten them: AMQP 0.9.1 allows 255 bytes each",
    ))
}

/// A destination's arguments, its type among them.
pub(crate) fn arguments(destination: &Destination) -> Result<FieldTable, Error> {
    let mut table = table_of(&destination.amqp091.arguments)?;
    if destination.amqp091.queue_type != QueueType::Classic && table.get("x-queue-type").is_none() {
        table
            .insert("x-queue-type", destination.amqp091.queue_type.name())
            .map_err(|error| unsendable("x-queue-type", error))?;
    }
    Ok(table)
}

fn table_of(arguments: &BTreeMap<String, Argument>) -> Result<FieldTable, Error> {
    let mut table = FieldTable::new();
    for (name, value) in arguments {
        match value {
            Argument::Text(text) => table.insert(name, text.as_str()),
            Argument::Integer(number) => table.insert(name, *number),
            Argument::Flag(flag) => table.insert(name, *flag),
        }
        .map_err(|error| unsendable(name, error))?;
    }
    Ok(table)
}

fn unsendable(name: &str, error: impl Display) -> Error {
    let cause = format!("the argument {name:?} cannot be sent");
    Error::Invalid(Problem::new(cause, error, "shorten it"))
}

/// The arguments of a group's subscription to a destination, with where a stream's reader begins.
pub(super) fn subscription_arguments(group: &Group, destination: &Destination) -> Result<FieldTable, Error> {
    let mut table = table_of(&group.consumers.amqp091.arguments)?;
    if destination.amqp091.queue_type == QueueType::Stream && table.get(STREAM_OFFSET).is_none() {
        match group.consumers.amqp091.stream_offset {
            StreamOffset::First => table.insert(STREAM_OFFSET, "first"),
            StreamOffset::Last => table.insert(STREAM_OFFSET, "last"),
            StreamOffset::Next => table.insert(STREAM_OFFSET, "next"),
            StreamOffset::Time(unix_s) => table.insert(STREAM_OFFSET, Value::Timestamp(unix_s)),
            StreamOffset::Offset(offset) => table.insert(STREAM_OFFSET, i64::try_from(offset).unwrap_or(i64::MAX)),
        }
        .map_err(|error| unsendable(STREAM_OFFSET, error))?;
    }
    Ok(table)
}
