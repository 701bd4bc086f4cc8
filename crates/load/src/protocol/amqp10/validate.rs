//! Checks a plan for what AMQP 1.0 cannot do here.

use crate::{Destination, Error, Group, Guarantee, QueueType};

/// Frames of the largest message, which must fit into the window that a broker opens: RabbitMQ's is of 400.
const MOST_FRAMES: usize = 256;

/// The first key that asks for what this protocol does not do here, and what that is.
fn missing(group: &Group) -> Option<(&'static str, &'static str)> {
    let (producers, consumers) = (&group.producers, &group.consumers);
    let any = |what: fn(&Destination) -> bool| group.destinations.iter().any(what);
    let reads_stream = group.consumer_count() > 0 && any(|it| it.amqp091.queue_type == QueueType::Stream);
    let properties = &producers.properties;
    let others = [&properties.message_type, &properties.app_id, &properties.cluster_id];
    let all = [
        (producers.guarantee == Guarantee::Replies, "request-reply", "direct replies"),
        (producers.random_keys.is_some(), "random-routing-keys", "random routing keys"),
        (others.iter().any(|it| it.is_some()), "properties", "the properties type, app-id and cluster-id"),
        (consumers.commit_every > 0 && consumers.refuse.is_some(), "refuse", "refusing within transactions"),
        (consumers.poll.is_some(), "poll", "asking for each message"),
        (!consumers.amqp091.arguments.is_empty(), "consumer-arguments", "consumers' arguments"),
        (consumers.amqp091.channel_prefetch > 0, "channel-prefetch", "a prefetch of channels"),
        (any(|it| it.exclusive), "exclusive", "exclusive queues"),
        (reads_stream && group.reconnect.is_some(), "recover", "reading on in a stream after reconnecting"),
        (group.endpoint.token.is_some(), "protocol", "tokens"),
    ];
    all.into_iter().find(|(asked, ..)| *asked).map(|(_, key, what)| (key, what))
}

/// Finds what a group asks for and this protocol does not do here.
pub(super) fn validate(group: &Group) -> Result<(), Error> {
    if let Some((key, what)) = missing(group) {
        let other = match key {
            // It is what is asked for that is missing, and nothing beside it.
            "protocol" => String::new(),
            key => format!("leave {{{key}}} out, or "),
        };
        return Err(Error::invalid(
            format!("{what}: not over AMQP 1.0 in this version"),
            format!("{other}load with {{protocol}} amqp091"),
        )
        .about(key));
    }
    let (_, most) = group.producers.size_range();
    let frames = most / group.endpoint.connection.frame_max.max(1) as usize;
    if group.producer_count() > 0 && frames > MOST_FRAMES {
        return Err(Error::invalid(
            format!("messages of {most} bytes take {frames} frames"),
            format!("use smaller messages or larger frames: a message has at most {MOST_FRAMES} frames"),
        )
        .observed(most)
        .about("message-size"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_artemis_has_is_not_refused_and_a_remedy_names_its_key() {
        let topic = Destination::parse("topic://t").unwrap();
        let mut group = Group::new("amqp://localhost".parse().unwrap(), vec![topic]);
        group.consumers.per_destination = 1;
        group.consumers.commit_every = 10;
        assert_eq!(validate(&group), Ok(()), "Artemis has them");
        group.consumers.refuse = Some(crate::Refusal::Requeue);
        let problem = validate(&group).unwrap_err().problem();
        assert!(problem.help.starts_with("leave {refuse} out"), "{problem:?}");

        let mut group = Group::new("amqp://localhost".parse().unwrap(), vec![Destination::queue("q")]);
        group.reconnect = Some(crate::ReconnectPolicy { min: measure::Nanos(1), max: measure::Nanos(1) });
        group.consumers.per_destination = 1;
        assert_eq!(validate(&group), Ok(()));
        group.destinations[0].amqp091.queue_type = QueueType::Stream;
        assert!(validate(&group).unwrap_err().problem().help.starts_with("leave {recover} out"));
    }
}
