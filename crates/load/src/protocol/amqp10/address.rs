//! RabbitMQ's addresses (its "v2"), in which names are percent-encoded.

use std::fmt::Write as _;

use crate::{Destination, DestinationKind};

/// Where a queue is read from.
pub(super) fn of_queue(name: &str) -> String {
    let mut address = String::from("/queues/");
    encode(&mut address, name);
    address
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
    let mut address = String::from("/exchanges/");
    encode(&mut address, exchange);
    if !key.is_empty() {
        address.push('/');
        encode(&mut address, key);
    }
    address
}

fn encode(address: &mut String, name: &str) {
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                address.push(char::from(byte));
            }
            // Writing into a text cannot fail.
            byte => drop(write!(address, "%{byte:02X}")),
        }
    }
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
