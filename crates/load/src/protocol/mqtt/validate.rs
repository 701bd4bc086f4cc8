//! Checks a plan for what MQTT cannot do here.

use plan::MqttVersion;

use super::packet::LARGEST;
use crate::{Ack, Destination, Error, Group, Guarantee, MessageProperties, QueueType};

/// Room in a packet beside a message's body.
const HEAD: usize = 1 << 17;

/// The first key that asks for what this protocol does not do here, and what that is.
fn missing(group: &Group) -> Option<(&'static str, &'static str)> {
    let (producers, consumers) = (&group.producers, &group.consumers);
    let any = |what: fn(&Destination) -> bool| group.destinations.iter().any(what);
    let given = &producers.properties;
    let others = [&given.content_encoding, &given.message_id, &given.message_type, &given.user_id, &given.app_id];
    let has_others = others.iter().any(|it| it.is_some()) || given.priority.is_some() || given.timestamp.is_some();
    let is_shared = |connections: Option<usize>, clients| connections.is_some_and(|it| it < clients);
    let all = [
        (producers.guarantee == Guarantee::Replies, "request-reply", "direct replies"),
        (producers.guarantee.commit_every() > 0, "commit-every", "transactions"),
        (consumers.commit_every > 0, "consumer-commit-every", "transactions"),
        (consumers.refuse.is_some(), "refuse", "refusing deliveries"),
        (consumers.poll.is_some(), "poll", "asking for each message"),
        (producers.random_keys.is_some(), "random-routing-keys", "random routing keys"),
        (producers.amqp091.mandatory, "mandatory", "mandatory messages (brokers of MQTT 5 tell by themselves)"),
        (
            producers.persistent,
            "persistent",
            "a message's persistence, which is its quality of service and the broker's",
        ),
        (producers.message_ids, "message-ids", "message ids"),
        (producers.timestamps, "timestamps", "timestamps"),
        (
            has_others || given.cluster_id.is_some(),
            "properties",
            "other properties than content type, correlation id and reply-to",
        ),
        (producers.has_trace_header(), "message-size", "bodies of one's own"),
        (!consumers.amqp091.arguments.is_empty(), "consumer-arguments", "consumers' arguments"),
        (consumers.amqp091.channel_prefetch > 0, "channel-prefetch", "a prefetch of channels"),
        (
            is_shared(producers.connections, group.producer_count()),
            "producer-connections",
            "several clients on a connection",
        ),
        (
            is_shared(consumers.connections, group.consumer_count()),
            "consumer-connections",
            "several clients on a connection",
        ),
        (any(|it| it.amqp091.exchange.is_some()), "exchange", "exchanges"),
        (any(|it| it.amqp091.queue_type != QueueType::Classic), "queue-type", "queues"),
        (group.queues.purge, "purge", "queues to empty"),
        (group.queues.delete, "delete", "queues to delete"),
        (group.endpoint.token.is_some(), "protocol", "tokens"),
    ];
    all.into_iter().find(|(asked, ..)| *asked).map(|(_, key, what)| (key, what))
}

/// Finds what a group asks for and this protocol does not do here.
pub(super) fn validate(group: &Group) -> Result<(), Error> {
    if let Some((key, what)) = missing(group) {
        let help = match key {
            "protocol" => "load with {protocol} amqp091".to_owned(),
            key => format!("leave {{{key}}} out"),
        };
        return Err(Error::invalid(format!("{what}: not over MQTT in this version"), help).about(key));
    }
    let is_old = group.endpoint.connection.mqtt_version == MqttVersion::V311;
    let given = &group.producers.properties;
    let is_plain = *given == MessageProperties::default();
    let key = if given.headers.is_empty() { "properties" } else { "headers" };
    let help = format!("leave {{{key}}} out, or use {{mqtt-version}} 5");
    let refused = Error::invalid("messages of MQTT 3.1.1 have no properties, headers or time to live", help);
    refused.about(key).unless(!is_old || is_plain)?;
    let gathers = matches!(group.consumers.ack, Ack::Every(n) if n > 1);
    let help = "leave {ack} at 1: each delivery is taken over by itself";
    let refused = Error::invalid("deliveries of quality of service 2 cannot be acknowledged together", help);
    refused
        .about("ack")
        .unless(group.consumer_count() == 0 || group.mqtt.subscribed_qos(group.consumers.ack) < 2 || !gathers)?;
    let (_, most) = group.producers.size_range();
    let help = format!("send at most {}", LARGEST - HEAD);
    let refused = Error::invalid(format!("a message of {most} bytes is too large"), help).observed(most);
    refused.about("message-size").unless(group.producer_count() == 0 || most <= LARGEST - HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, Protocol};

    #[test]
    fn what_mqtt_lacks_is_refused_by_its_key() {
        let refused = |change: &dyn Fn(&mut Group)| {
            let mut group = Group::new(Endpoint::new("h", 1), vec![Destination::topic("t")]);
            group.protocol = Protocol::Mqtt;
            (group.producers.per_destination, group.consumers.per_destination) = (2, 2);
            change(&mut group);
            validate(&group).map_err(|error| error.problem().help)
        };
        assert_eq!(refused(&|_| {}), Ok(()));
        type Change = dyn Fn(&mut Group);
        let changes: [(&str, &Change); 6] = [
            ("{persistent}", &|group| group.producers.persistent = true),
            ("{producer-connections}", &|group| group.producers.connections = Some(1)),
            ("{delete}", &|group| group.queues.delete = true),
            ("{mqtt-version} 5", &|group| {
                group.endpoint.connection.mqtt_version = MqttVersion::V311;
                group.producers.properties.expiration = Some("1".to_owned());
            }),
            ("{ack} at 1", &|group| (group.mqtt.qos, group.consumers.ack) = (Some(2), Ack::Every(5))),
            ("at most 917504", &|group| group.producers.sizes = crate::Sizes::Fixed(2 << 20)),
        ];
        for (remedy, change) in changes {
            let help = refused(change).unwrap_err();
            assert!(help.contains(remedy), "{help}");
        }
    }
}
