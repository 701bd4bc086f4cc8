//! Arguments of declarations and subscriptions, as AMQP 0.9.1 carries them.

use std::collections::BTreeMap;
use std::fmt::Display;

use measure::Problem;
use wire::amqp091::{FieldTable, Value};

use super::STREAM_OFFSET;
use crate::{Argument, Destination, Error, Group, QueueType, StreamOffset};

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

/// Arguments as the protocol carries them.
pub(crate) fn table_of(arguments: &BTreeMap<String, Argument>) -> Result<FieldTable, Error> {
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
pub(super) fn of_subscription(
    group: &Group,
    destination: &Destination,
) -> Result<FieldTable, Error> {
    let mut table = table_of(&group.consumers.amqp091.arguments)?;
    if destination.amqp091.queue_type == QueueType::Stream && table.get(STREAM_OFFSET).is_none() {
        match group.consumers.amqp091.stream_offset {
            StreamOffset::First => table.insert(STREAM_OFFSET, "first"),
            StreamOffset::Last => table.insert(STREAM_OFFSET, "last"),
            StreamOffset::Next => table.insert(STREAM_OFFSET, "next"),
            StreamOffset::Time(unix_s) => table.insert(STREAM_OFFSET, Value::Timestamp(unix_s)),
            StreamOffset::Offset(offset) => {
                table.insert(STREAM_OFFSET, i64::try_from(offset).unwrap_or(i64::MAX))
            }
        }
        .map_err(|error| unsendable(STREAM_OFFSET, error))?;
    }
    Ok(table)
}
