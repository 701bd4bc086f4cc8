//! Purposes of a connection and its channels.

use wire::amqp091::FieldTable;

use crate::protocol::BodyLengths;
use crate::{Exchange, Guarantee};

/// A channel's role, and its declaration.
#[derive(Clone, Debug)]
pub(crate) struct ChannelSpec {
    pub(crate) role: Role,
    /// Declared again when the connection is re-established: a broker that has restarted may have forgotten it. The
    /// first time it was done before, unless it is this connection's alone.
    pub(crate) declaration: Option<Declaration>,
}

/// A queue, the exchange in front of it, and the binding between them.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    pub(crate) queue: Option<Queue>,
    pub(crate) exchange: Option<Exchange>,
    /// The exchange that the queue is bound to, and the routing key.
    pub(crate) binding: Option<(String, String)>,
}

/// A queue with its properties; without a name the broker gives it one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) exclusive: bool,
    pub(crate) arguments: FieldTable,
}

#[derive(Clone, Debug)]
pub(crate) enum Role {
    Producer(Publishing),
    Consumer(Consuming),
    /// For [`super::AmqpConnection::ask`] alone; it is not open in the beginning.
    Requests,
}

/// How messages are published.
#[derive(Clone, Debug)]
pub(crate) struct Publishing {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) guarantee: Guarantee,
    pub(crate) mandatory: bool,
    /// The content header's property list, encoded.
    pub(crate) properties: Vec<u8>,
    pub(crate) bodies: BodyLengths,
}

/// How messages are received.
#[derive(Clone, Debug)]
pub(crate) struct Consuming {
    pub(crate) source: Source,
    /// Of the consumer, at most the channel's where that has one; 0 is unlimited.
    pub(crate) prefetch: u16,
    pub(crate) channel_prefetch: u16,
    pub(crate) no_ack: bool,
    /// Acknowledgements are part of transactions.
    pub(crate) transacted: bool,
    /// When it begins to consume.
    pub(crate) begin: Begin,
    pub(crate) arguments: FieldTable,
}

/// When a consumer's `basic.consume` is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// As the last step of the set-up.
    AtSetUp,
    /// When the load says so.
    Later,
    /// Never: it asks for each message with `basic.get`.
    Polling,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Queue(String),
    /// A queue of its own, bound to an exchange by a key.
    Own {
        exchange: String,
        key: String,
        arguments: FieldTable,
    },
}
