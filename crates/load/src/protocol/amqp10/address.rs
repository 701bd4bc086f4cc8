//! Where links lead: queues and topics by the names that each broker has for them.

use measure::percent_encoded;
use wire::amqp10::{Symbol, TypedValue};

use crate::protocol::routing::queue_of;
use crate::{Destination, DestinationKind, Group};
use plan::publishes_to;

/// How a broker names queues and topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Dialect {
    /// RabbitMQ's addresses ("v2"), in which names are percent-encoded: `/queues/QUEUE`, `/exchanges/EXCHANGE/KEY`.
    #[default]
    RabbitMq,
    /// ActiveMQ Artemis' addresses: names as they are, a capability that tells queues from topics, and `TOPIC::QUEUE`
    /// for the queue of a subscription.
    Artemis,
}

impl Dialect {
    /// Name and descriptor of the filter that is a selector: one of AMQP's filter expressions, or of JMS.
    pub(super) const fn selector(self) -> [&'static str; 2] {
        match self {
            Self::RabbitMq => ["sql-filter", "amqp:sql-filter"],
            Self::Artemis => ["jms-selector", "apache.org:selector-filter:string"],
        }
    }

    /// The one of a broker that calls itself this; the embedded one, and one without a name, are taken for RabbitMQ.
    pub(super) fn of(product: &str) -> Self {
        let alike = ["", "RabbitMQ", "bellows broker"];
        if alike.iter().any(|it| product.eq_ignore_ascii_case(it)) { Self::RabbitMq } else { Self::Artemis }
    }
}

/// A queue or topic that a client's link leads to.
#[derive(Clone, Debug)]
pub(super) struct LinkNode {
    /// For RabbitMQ.
    path: String,
    /// For Artemis.
    name: String,
    kind: DestinationKind,
}

impl LinkNode {
    /// The queue, or the topic on Artemis, that a group's `n`-th consumer receives from.
    pub(super) fn consumed(group: &Group, n: usize) -> Self {
        let queue = queue_of(group, n);
        let destination = &group.destinations[n % group.destinations.len()];
        let name = match (destination.kind, &queue) {
            (DestinationKind::Queue, Some(queue)) => queue.clone(),
            (DestinationKind::Topic, Some(queue)) => format!("{}::{queue}", destination.name),
            // A link to the topic itself is a subscription, which goes with it. RabbitMQ is not asked for that.
            (_, None) => destination.name.clone(),
        };
        let path = queue_address(queue.as_deref().unwrap_or(&destination.name));
        Self { path, name, kind: destination.kind }
    }

    /// Where a group's producer sends.
    pub(super) fn published(destination: &Destination) -> Self {
        Self { path: destination_address(destination), name: destination.name.clone(), kind: destination.kind }
    }

    pub(super) fn address(&self, dialect: Dialect) -> &str {
        match dialect {
            Dialect::RabbitMq => &self.path,
            Dialect::Artemis => &self.name,
        }
    }

    pub(super) const fn capabilities(&self, dialect: Dialect) -> TypedValue<'static> {
        match (dialect, self.kind) {
            (Dialect::RabbitMq, _) => TypedValue::Null,
            (Dialect::Artemis, DestinationKind::Queue) => TypedValue::Symbol(Symbol("queue")),
            (Dialect::Artemis, DestinationKind::Topic) => TypedValue::Symbol(Symbol("topic")),
        }
    }
}

fn queue_address(name: &str) -> String {
    format!("/queues/{}", percent_encoded(name))
}

fn destination_address(destination: &Destination) -> String {
    let (exchange, key) = publishes_to(destination);
    if exchange.is_empty() {
        return queue_address(key);
    }
    let mut address = format!("/exchanges/{}", percent_encoded(exchange));
    if !key.is_empty() {
        address.push('/');
        address.push_str(&percent_encoded(key));
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exchange, Subscription};

    #[test]
    fn addresses_are_those_of_rabbitmqs_documentation() {
        assert_eq!(queue_address("my queue/1"), "/queues/my%20queue%2F1");
        let mut queue = Destination::queue("q");
        assert_eq!(destination_address(&queue), "/queues/q");
        queue.amqp091.exchange = Some(Exchange::new("x é", "direct"));
        assert_eq!(destination_address(&queue), "/exchanges/x%20%C3%A9/q");
        queue.amqp091.routing_key = Some(String::new());
        assert_eq!(destination_address(&queue), "/exchanges/x%20%C3%A9");
        let topic = Destination::topic("a.b");
        assert_eq!(destination_address(&topic), "/exchanges/amq.topic/a.b");
    }

    #[test]
    fn artemis_reads_names_and_a_subscriptions_queue_stands_behind_its_topic() {
        let topic = Destination::topic("prices");
        let mut group = Group::new("amqp://localhost".parse().unwrap(), vec![topic.clone(), Destination::queue("q 1")]);
        group.consumers.subscription = Some(Subscription { name: "sub".into(), durable: true, shared: 1 });
        let shown = |node: LinkNode| (node.address(Dialect::Artemis).to_owned(), node.capabilities(Dialect::Artemis));
        let (queue, multicast) = (TypedValue::Symbol(Symbol("queue")), TypedValue::Symbol(Symbol("topic")));
        assert_eq!(shown(LinkNode::consumed(&group, 0)), ("prices::sub.prices.0".to_owned(), multicast));
        assert_eq!(shown(LinkNode::consumed(&group, 1)), ("q 1".to_owned(), queue));
        assert_eq!(shown(LinkNode::published(&topic)), ("prices".to_owned(), multicast));
        group.consumers.subscription = None;
        assert_eq!(shown(LinkNode::consumed(&group, 0)), ("prices".to_owned(), multicast));
    }

    #[test]
    fn the_embedded_broker_and_one_without_a_name_are_taken_for_rabbitmq() {
        for (product, dialect) in [
            ("", Dialect::RabbitMq),
            ("RabbitMQ", Dialect::RabbitMq),
            ("bellows broker", Dialect::RabbitMq),
            ("apache-activemq-artemis", Dialect::Artemis),
        ] {
            assert_eq!(Dialect::of(product), dialect, "{product}");
        }
    }
}
