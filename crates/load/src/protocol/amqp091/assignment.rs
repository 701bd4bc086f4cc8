//! From the plan to channels, and what of it AMQP 0.9.1 cannot do.

use super::properties::{arguments, subscription_arguments};
use super::request::{Begin, ChannelSpec, Consuming, Declaration, Publishing, Queue, Role, Source};
use super::{REPLY_TO, encode};
use crate::protocol::Outgoing;
use crate::protocol::routing::{binding, destination_of, is_durable, named_queue};
use crate::{Ack, Declare, Destination, DestinationKind, Error, Group, QueueType};
use plan::publishes_to;

/// The channel of a group's `n`-th consumer, which may begin later than the load.
pub(crate) fn consumer(group: &Group, n: usize, later: bool) -> Result<ChannelSpec, Error> {
    let (wanted, destination) = (&group.consumers, destination_of(group, n));
    let role = Role::Consumer(Consuming {
        source: source(group, n)?,
        prefetch: u16::try_from(wanted.most_unacked()).unwrap_or(u16::MAX),
        channel_prefetch: wanted.amqp091.channel_prefetch,
        no_ack: wanted.ack == Ack::Auto,
        transacted: wanted.commit_every > 0,
        begin: match wanted.poll {
            Some(_) => Begin::Polling,
            None if later => Begin::Later,
            None => Begin::AtSetUp,
        },
        arguments: subscription_arguments(group, destination)?,
    });
    channel(group, destination, role)
}

pub(crate) fn producer(group: &Group, destination: &Destination, outgoing: Outgoing) -> Result<ChannelSpec, Error> {
    let wanted = &group.producers;
    let (exchange, routing_key) = publishes_to(destination);
    let mut properties = outgoing.properties;
    if wanted.has_replies() {
        properties.reply_to = Some(REPLY_TO.to_owned());
    }
    let role = Role::Producer(Publishing {
        exchange: exchange.to_owned(),
        routing_key: outgoing.routing_key.unwrap_or_else(|| routing_key.to_owned()),
        guarantee: wanted.guarantee,
        mandatory: wanted.amqp091.mandatory,
        properties: encode(&properties, Some(wanted.persistent), wanted.has_trace_header())?,
        bodies: outgoing.bodies,
    });
    channel(group, destination, role)
}

fn source(group: &Group, n: usize) -> Result<Source, Error> {
    if let Some(queue) = named_queue(group, n) {
        return Ok(Source::Queue(queue));
    }
    let destination = destination_of(group, n);
    let (exchange, key) = publishes_to(destination);
    Ok(Source::Own { exchange: exchange.to_owned(), key: key.to_owned(), arguments: arguments(destination)? })
}

fn channel(group: &Group, destination: &Destination, role: Role) -> Result<ChannelSpec, Error> {
    let own = destination.exclusive && matches!(role, Role::Consumer(_));
    let again = group.reconnect.is_some() && group.queues.declare != Declare::Never || own;
    // Nobody but its consumers can declare it.
    let queue = destination.kind == DestinationKind::Queue && (own || !destination.exclusive);
    let exchange = destination.amqp091.exchange.as_ref();
    let exchange = exchange.filter(|exchange| exchange.is_declared()).cloned();
    if !again || !queue && exchange.is_none() {
        return Ok(ChannelSpec { role, declaration: None });
    }
    let binding = binding(destination).filter(|_| queue);
    let binding = binding.map(|key| (publishes_to(destination).0.to_owned(), key.to_owned()));
    let queue = queue.then(|| declared_queue(destination, own)).transpose()?;
    Ok(ChannelSpec { role, declaration: Some(Declaration { queue, exchange, binding }) })
}

/// The queue of a destination, as its consumers' connection declares its own, or anybody one that all may use.
pub(super) fn declared_queue(destination: &Destination, exclusive: bool) -> Result<Queue, Error> {
    Ok(Queue {
        name: destination.name.clone(),
        durable: is_durable(&destination.amqp091),
        auto_delete: destination.amqp091.auto_delete,
        exclusive,
        arguments: arguments(destination)?,
    })
}

/// The longest name that the protocol carries.
const NAME_MAX: usize = 255;

/// Finds what a group asks for and the protocol cannot do.
pub(super) fn validate(group: &Group) -> Result<(), Error> {
    let producers = &group.producers;
    if group.producer_count() > 0 {
        encode(&producers.properties, Some(producers.persistent), producers.has_trace_header())?;
    }
    for destination in &group.destinations {
        names(destination)?;
        topic(destination)?;
        stream(group, destination)?;
    }
    group.subscription_queues().try_for_each(|(name, _): (String, _)| {
        let cause = format!("the subscription's queue {name:?} has {} bytes", name.len());
        let refused = Error::invalid(cause, "AMQP 0.9.1 allows at most 255: shorten the subscription's name");
        refused.observed(name.len()).unless(name.len() <= NAME_MAX)
    })
}

fn names(destination: &Destination) -> Result<(), Error> {
    let (exchange, key) = publishes_to(destination);
    let names = [
        ("name", "destinations", destination.name.as_str()),
        ("exchange", "exchange", exchange),
        ("routing key", "routing-key", key),
    ];
    // There may be 100,000 destinations: no text is made of one that is fine.
    names.into_iter().find(|(.., name)| name.len() > NAME_MAX).map_or(Ok(()), |(what, about, name)| {
        let cause = format!("the {what} of {destination} is {} bytes long", name.len());
        Err(Error::invalid(cause, "AMQP 0.9.1 allows at most 255").observed(name.len()).about(about))
    })
}

fn topic(destination: &Destination) -> Result<(), Error> {
    if destination.kind != DestinationKind::Topic {
        return Ok(());
    }
    let cause = format!("{destination} has the default exchange, to which nothing can be bound");
    let refused = Error::invalid(cause, "name another exchange, or a queue:// as destination");
    refused.observed(destination).unless(!publishes_to(destination).0.is_empty())?;
    let kind = destination.amqp091.queue_type;
    let cause = format!("{destination} cannot have queues of type {}", kind.name());
    let help = "topics use an exclusive classic queue per consumer: leave the queue type out";
    let refused = Error::invalid(cause, help).observed(kind.name()).about("queue-type");
    refused.unless(kind == QueueType::Classic)
}

fn stream(group: &Group, destination: &Destination) -> Result<(), Error> {
    let consumers = &group.consumers;
    let any = consumers.total.unwrap_or(consumers.per_destination) > 0;
    if destination.amqp091.queue_type != QueueType::Stream || !any {
        return Ok(());
    }
    let cause = format!("consumers of the stream {destination} have no prefetch limit");
    let refused = Error::invalid(cause, "streams need one: use a prefetch of 1 or more, such as 200");
    refused.observed(destination).about("prefetch").unless(consumers.prefetch > 0)?;
    let cause = format!("consumers of the stream {destination} acknowledge automatically");
    let refused = Error::invalid(cause, "streams need acknowledgements: set one every N deliveries");
    refused.observed(destination).about("ack").unless(consumers.ack != Ack::Auto)
}
