//! Checks a plan for what AMQP 0.9.1 cannot do.

use super::encode;
use super::routing::publishes_to;
use crate::{Ack, Destination, DestinationKind, Error, Group, QueueType};

/// The longest name that the protocol carries.
const NAME_MAX: usize = 255;

/// Finds what a group asks for and the protocol cannot do.
pub(super) fn validate(group: &Group) -> Result<(), Error> {
    let producers = &group.producers;
    if group.producer_count() > 0 {
        encode(
            &producers.properties,
            Some(producers.persistent),
            producers.has_trace_header(),
        )?;
    }
    for destination in &group.destinations {
        names(destination)?;
        topic(destination)?;
        stream(group, destination)?;
    }
    let longest = |(name, _): &(String, _)| name.len() > NAME_MAX;
    if let Some((name, _)) = group.subscription_queues().find(longest) {
        return Err(Error::invalid(
            format!("the subscription's queue {name:?} has {} bytes", name.len()),
            "AMQP 0.9.1 allows at most 255: shorten the subscription's name",
        )
        .observed(name.len()));
    }
    Ok(())
}

fn names(destination: &Destination) -> Result<(), Error> {
    let (exchange, key) = publishes_to(destination);
    let names = [
        ("name", destination.name.as_str()),
        ("exchange", exchange),
        ("routing key", key),
    ];
    match names.iter().find(|(_, name)| name.len() > NAME_MAX) {
        None => Ok(()),
        Some((what, name)) => Err(Error::invalid(
            format!("the {what} of {destination} is {} bytes long", name.len()),
            "AMQP 0.9.1 allows at most 255",
        )
        .observed(name.len())
        .about(match *what {
            "name" => "destinations",
            "exchange" => "exchange",
            _ => "routing-key",
        })),
    }
}

fn topic(destination: &Destination) -> Result<(), Error> {
    if destination.kind != DestinationKind::Topic {
        return Ok(());
    }
    if publishes_to(destination).0.is_empty() {
        return Err(Error::invalid(
            format!("{destination} has the default exchange, to which nothing can be bound"),
            "name another exchange, or a queue:// as destination",
        )
        .observed(destination));
    }
    match destination.amqp091.queue_type {
        QueueType::Classic => Ok(()),
        other => Err(Error::invalid(
            format!("{destination} cannot have queues of type {}", other.name()),
            "topics use an exclusive classic queue per consumer: leave the queue type out",
        )
        .observed(other.name())
        .about("queue-type")),
    }
}

fn stream(group: &Group, destination: &Destination) -> Result<(), Error> {
    let consumers = &group.consumers;
    let any = consumers.total.unwrap_or(consumers.per_destination) > 0;
    if destination.amqp091.queue_type != QueueType::Stream || !any {
        return Ok(());
    }
    if consumers.prefetch == 0 {
        return Err(Error::invalid(
            format!("consumers of the stream {destination} have no prefetch limit"),
            "streams need one: ask for a prefetch of 1 or more, such as 200",
        )
        .observed(destination)
        .about("prefetch"));
    }
    if consumers.ack == Ack::Auto {
        return Err(Error::invalid(
            format!("consumers of the stream {destination} acknowledge automatically"),
            "streams need acknowledgements: ask for one every N deliveries",
        )
        .observed(destination)
        .about("ack"));
    }
    Ok(())
}
