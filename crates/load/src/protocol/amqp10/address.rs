//! RabbitMQ's addresses (its "v2"), in which names are percent-encoded.

use measure::percent_encoded;

use crate::{Destination, DestinationKind};

/// Where a queue is read from.
pub(super) fn of_queue(name: &str) -> String {
    format!("/queues/{}", percent_encoded(name))
}

/// Where a destination is published to.
pub(super) fn of_destination(destination: &Destination) -> String {
    let options = &destination.amqp091;
    let key = options.routing_key.as_deref().unwrap_or(&destination.name);
    let exchange = match (&options.exchange, destination.kind) {
        (Some(exchange), _) => exchange.name.as_str(),
        (None, DestinationKind::Queue) => "",
        (None, DestinationKind::Topic) => "amq.topic",
    };
    if exchange.is_empty() {
        return of_queue(key);
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
    use crate::Exchange;

    #[test]
    fn addresses_are_those_of_rabbitmqs_documentation() {
        assert_eq!(of_queue("my queue/1"), "/queues/my%20queue%2F1");
        let mut queue = Destination::queue("q");
        assert_eq!(of_destination(&queue), "/queues/q");
        queue.amqp091.exchange = Some(Exchange::new("x é", "direct"));
        assert_eq!(of_destination(&queue), "/exchanges/x%20%C3%A9/q");
        queue.amqp091.routing_key = Some(String::new());
        assert_eq!(of_destination(&queue), "/exchanges/x%20%C3%A9");
        let topic = Destination::topic("a.b");
        assert_eq!(of_destination(&topic), "/exchanges/amq.topic/a.b");
    }
}
