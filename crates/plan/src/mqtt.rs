//! Parts of a plan that only MQTT has: versions, qualities of service, and topics with slashes between their levels.

use measure::Named;
use serde::{Serialize, Serializer};

use super::{Ack, Destination, DestinationKind, Error, Group, Guarantee, Protocol};

/// The highest quality of service: exactly once.
const MOST_QOS: u8 = 2;
/// Stands in a topic for the number of the client, from 0 on.
const NUMBER: &str = "%i";
/// Bytes of the longest topic.
const LONGEST_TOPIC: usize = 65_535;

measure::named! {
    /// Version of MQTT that clients speak.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum MqttVersion {
        /// MQTT 3.1.1: no receive maximum, no properties, no reasons.
        V311 = "3.1.1",
        /// MQTT 5.
        #[default]
        V5 = "5",
    }
}

impl Serialize for MqttVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl std::str::FromStr for MqttVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::VALUES.iter().find(|(_, name, _)| *name == text);
        known.map(|(it, ..)| *it).ok_or_else(|| format!("{text:?} is neither 3.1.1 nor 5"))
    }
}

measure::read_from_text!(MqttVersion, "\"3.1.1\" or \"5\"");

/// How a group speaks MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MqttOptions {
    /// MQTT: quality of service of messages and subscriptions, 0 to 2; if absent, 1 with acknowledgements, 0 without.
    pub qos: Option<u8>,
    /// MQTT: the broker keeps each topic's last message for subscribers to come.
    pub retain: bool,
}

impl MqttOptions {
    /// Quality of service of messages that are published so.
    pub fn published_qos(self, guarantee: Guarantee) -> u8 {
        if guarantee.has_answers() { self.qos.unwrap_or(1) } else { 0 }
    }

    /// Quality of service that consumers ask for who acknowledge so.
    pub fn subscribed_qos(self, ack: Ack) -> u8 {
        match ack {
            Ack::Auto => 0,
            Ack::Every(_) => self.qos.unwrap_or(1),
        }
    }
}

/// The destination of a group's `n`-th producer or consumer. Over MQTT its number stands in place of `%i`, and its
/// routing key is the one by which AMQP knows the topic.
pub fn client_destination(group: &Group, n: usize) -> Destination {
    let mut destination = group.destinations[n % group.destinations.len()].clone();
    if group.protocol == Protocol::Mqtt {
        destination.name = destination.name.replace(NUMBER, &n.to_string());
        destination.amqp091.routing_key = Some(routing_key(&destination.name));
    }
    destination
}

/// Finds what is no topic, or no topic filter, and a quality of service that there is not.
pub(crate) fn validate(group: &Group) -> Result<(), Error> {
    if group.protocol != Protocol::Mqtt {
        return Ok(());
    }
    let qos = group.mqtt.qos.unwrap_or_default();
    let help = "use 0 (at most once), 1 (at least once) or 2 (exactly once)";
    let refused = Error::invalid(format!("MQTT has no quality of service {qos}"), help).observed(qos);
    refused.about("qos").unless(qos <= MOST_QOS)?;
    for destination in &group.destinations {
        let cause = format!("{destination} is a queue, and MQTT has topics alone");
        let refused = Error::invalid(cause, "write topic://NAME").observed(destination);
        refused.about("destination").unless(destination.kind == DestinationKind::Topic)?;
        validate_topic(&destination.name, group.producer_count() > 0)?;
    }
    Ok(())
}

fn validate_topic(topic: &str, publishes: bool) -> Result<(), Error> {
    let refuse = |cause: String, help: &str| Err(Error::invalid(cause, help).observed(topic).about("destination"));
    if topic.len() > LONGEST_TOPIC || topic.contains('\0') {
        return refuse("the topic is too long, or has a zero byte".to_owned(), "choose another name");
    }
    let filter = filter_of(topic);
    if !is_filter(filter) {
        let help = "# stands for all levels below, alone and last; + for one whole level: sensors/+/state, sensors/#";
        return refuse(format!("{topic:?} is no topic filter"), help);
    }
    if publishes && filter.contains(['+', '#']) {
        let help = "name the topic that is published to, where %i stands for the producer's number, and the \
                    consumers' wildcards in {subscribe}";
        return refuse(format!("{topic:?} has a wildcard, and nobody can publish to one"), help);
    }
    if publishes && topic.starts_with('$') {
        let help = "choose one without the $; $share stands in {subscribe}";
        return refuse(format!("{topic:?} is one of the broker's own topics"), help);
    }
    Ok(())
}

/// The filter behind `$share/GROUP/`.
fn filter_of(topic: &str) -> &str {
    let shared = topic.strip_prefix("$share/").and_then(|it| it.split_once('/'));
    shared.map_or(topic, |(_, filter)| filter)
}

/// The name of the group that shares a subscription, where the topic says one.
pub fn share_name(topic: &str) -> Option<&str> {
    Some(topic.strip_prefix("$share/")?.split_once('/')?.0)
}

/// Whether wildcards are whole levels, and `#` is the last.
fn is_filter(filter: &str) -> bool {
    let mut levels = filter.split('/').rev();
    let is_last = |level: &str| level == "#" || is_level(level);
    levels.next().is_some_and(is_last) && levels.all(is_level)
}

fn is_level(level: &str) -> bool {
    level == "+" || !level.contains(['+', '#'])
}

/// The routing key that a topic or filter is in AMQP: slashes are dots there, and `+` is `*`. Each goes for the other,
/// so that different topics have different keys.
fn routing_key(topic: &str) -> String {
    let swapped = |c| match c {
        '/' => '.',
        '.' => '/',
        '+' => '*',
        '*' => '+',
        other => other,
    };
    filter_of(topic).chars().map(swapped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoint;

    fn group(topic: &str, clients: (usize, usize)) -> Group {
        let mut group = Group::new(Endpoint::new("h", 1), vec![Destination::parse(topic).unwrap()]);
        group.protocol = Protocol::Mqtt;
        (group.producers.per_destination, group.consumers.per_destination) = clients;
        group
    }

    #[test]
    fn a_topic_is_numbered_and_known_to_amqp() {
        let group = group("topic://sensors/%i/state.x", (3, 0));
        let found = client_destination(&group, 2);
        assert_eq!(found.name, "sensors/2/state.x");
        assert_eq!(found.amqp091.routing_key.as_deref(), Some("sensors.2.state/x"));
        assert_eq!(routing_key("$share/g/+/a/#"), "*.a.#");
        let amqp = Group { protocol: Protocol::Amqp091, ..group };
        assert_eq!(client_destination(&amqp, 2), amqp.destinations[0], "a name is a name there");
    }

    #[test]
    fn wildcards_are_refused_where_messages_are_published() {
        for (topic, clients, remedy) in [
            ("topic://sensors/#", (1, 1), "{subscribe}"),
            ("topic://sensors/+/a", (1, 0), "{subscribe}"),
            ("topic://$SYS/x", (1, 0), "without the $"),
            ("topic://sensors/#/a", (0, 1), "alone and last"),
            ("topic://sensors/a+", (0, 1), "one whole level"),
            ("queue://sensors", (0, 1), "topic://NAME"),
        ] {
            let problem = validate(&group(topic, clients)).unwrap_err().problem();
            assert!(problem.help.contains(remedy), "{topic}: {problem:?}");
        }
        for topic in ["topic://#", "topic://+/+", "topic://$share/g/a/#", "topic://$SYS/#", "topic://a//b", "topic:///"]
        {
            assert_eq!(validate(&group(topic, (0, 1))), Ok(()), "{topic}");
        }
        let mut asking = group("topic://a", (1, 1));
        asking.mqtt.qos = Some(3);
        assert!(validate(&asking).unwrap_err().to_string().contains("quality of service 3"));
    }

    #[test]
    fn who_wants_no_answers_has_quality_0() {
        let of = |qos, guarantee, ack| {
            let options = MqttOptions { qos, retain: false };
            (options.published_qos(guarantee), options.subscribed_qos(ack))
        };
        assert_eq!(of(None, Guarantee::Confirms, Ack::Every(1)), (1, 1));
        assert_eq!(of(Some(2), Guarantee::Confirms, Ack::Every(1)), (2, 2));
        assert_eq!(of(Some(2), Guarantee::Unconfirmed, Ack::Auto), (0, 0));
    }
}
