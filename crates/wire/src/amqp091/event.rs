//! Events of the two sides. All borrow from the input or the connection's buffers; copy what must live longer.

use super::properties::Properties;
use super::spec::{BasicGetOk, BasicReturn, Method, MethodId};
use super::table::Table;
use crate::Secret;

/// Why the peer closed a channel or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing<'a> {
    /// Reply code, see [`super::reply`].
    pub code: u16,
    /// The peer's explanation.
    pub text: &'a str,
    /// The method that caused it; 0.0 where there is none.
    pub method: MethodId,
}

impl<'a> Closing<'a> {
    pub(super) const fn new(code: u16, text: &'a str, class: u16, method: u16) -> Self {
        Self { code, text, method: MethodId { class, method } }
    }
}

/// For people: `ACCESS_REFUSED (403), PLAIN login refused`; without the name where the text begins with it.
impl std::fmt::Display for Closing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = super::reply_name(self.code);
        let text = self.text.strip_prefix(name).map_or(self.text, |rest| rest.trim_start_matches([' ', '-', ':']));
        write!(f, "{name} ({})", self.code)?;
        if !text.is_empty() {
            write!(f, ", {text}")?;
        }
        if self.method != MethodId::default() {
            write!(f, " [{}]", self.method.name())?;
        }
        Ok(())
    }
}

/// Event of a [`super::Client`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// The handshake is complete; channels can be opened.
    Open {
        /// Server properties (`product`, `version`, `capabilities`, ...).
        server_properties: Table<'a>,
        /// Negotiated frame size limit, in bytes; never 0.
        frame_max: u32,
        /// Negotiated highest channel number; never 0.
        channel_max: u16,
        /// Negotiated heartbeat interval in seconds; 0 for none.
        heartbeat_s: u16,
    },
    /// An answer (`queue.declare-ok`, ...) or another method without an event of its own.
    Method {
        /// Its channel.
        channel: u16,
        /// The method.
        method: Method<'a>,
    },
    /// `basic.ack` or `basic.nack` of published messages.
    Confirm {
        /// Its channel.
        channel: u16,
        /// Number of the message on its channel, from 1; 0 with `multiple` means all so far.
        delivery_tag: u64,
        /// Whether all earlier ones are meant too.
        multiple: bool,
        /// Whether the broker refused them.
        nack: bool,
    },
    /// A message for a consumer.
    Delivery {
        /// Its channel.
        channel: u16,
        /// The consumer.
        consumer_tag: &'a str,
        /// Tag to acknowledge.
        delivery_tag: u64,
        /// Whether it may have been delivered before.
        redelivered: bool,
        /// Where it was published.
        exchange: &'a str,
        /// With which key.
        routing_key: &'a str,
        /// Its properties, not decoded.
        properties: Properties<'a>,
        /// All of its body.
        body: &'a [u8],
    },
    /// A message published as mandatory that no queue took.
    Returned {
        /// Its channel.
        channel: u16,
        /// Why, and where it was published.
        returned: BasicReturn<'a>,
        /// Its properties, not decoded.
        properties: Properties<'a>,
        /// All of its body.
        body: &'a [u8],
    },
    /// The answer to `basic.get`: a message.
    GetOk {
        /// Its channel.
        channel: u16,
        /// Its tag to acknowledge, where it was published, and how many more the queue has.
        got: BasicGetOk<'a>,
        /// Its properties, not decoded.
        properties: Properties<'a>,
        /// All of its body.
        body: &'a [u8],
    },
    /// The answer to `basic.get`: nothing there.
    GetEmpty {
        /// Its channel.
        channel: u16,
    },
    /// The broker ended a consumer, for instance because its queue was deleted. Answered already.
    ConsumerCancelled {
        /// Its channel.
        channel: u16,
        /// The consumer.
        consumer_tag: &'a str,
    },
    /// The broker reads no more publishes for now.
    Blocked {
        /// Its reason, such as `low on memory`.
        reason: &'a str,
    },
    /// The broker reads again.
    Unblocked,
    /// The broker closed a channel. Answered already.
    ChannelClosed {
        /// The channel.
        channel: u16,
        /// Why the channel was closed.
        closing: Closing<'a>,
    },
    /// The broker closed the connection. Answered already; send the pending output, then close.
    Closed {
        /// Why the connection was closed.
        closing: Closing<'a>,
    },
    /// The broker agreed to our closing the connection.
    CloseOk,
}

/// Event of a [`super::Server`].
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEvent<'a> {
    /// A client wants in: call [`super::Server::accept_login`] or [`super::Server::refuse`].
    Login {
        /// `PLAIN` or `EXTERNAL`.
        mechanism: &'a str,
        /// User name; what the client asks for with `EXTERNAL`.
        user: &'a str,
        /// Password; empty with `EXTERNAL`.
        password: Secret,
        /// Client properties.
        client_properties: Table<'a>,
    },
    /// It wants into a virtual host: call [`super::Server::accept_open`] or [`super::Server::refuse`].
    Open {
        /// The virtual host.
        virtual_host: &'a str,
    },
    /// A channel was opened. Answered already.
    ChannelOpened {
        /// The channel.
        channel: u16,
    },
    /// A method without an event of its own: declare, bind, consume, qos, ... The embedder answers it.
    Method {
        /// Its channel.
        channel: u16,
        /// The method.
        method: Method<'a>,
    },
    /// A message to route.
    Publish {
        /// Its channel.
        channel: u16,
        /// Where to.
        exchange: &'a str,
        /// With which key.
        routing_key: &'a str,
        /// Whether it must be returned when no queue takes it.
        mandatory: bool,
        /// Never supported since RabbitMQ 3.0; a broker refuses it with 540.
        immediate: bool,
        /// Its properties, not decoded.
        properties: Properties<'a>,
        /// All of its body.
        body: &'a [u8],
    },
    /// Deliveries were dealt with.
    Ack {
        /// Its channel.
        channel: u16,
        /// The delivery; 0 with `multiple` means all.
        delivery_tag: u64,
        /// Whether all earlier ones are meant too.
        multiple: bool,
    },
    /// Deliveries were refused, by `basic.nack` or `basic.reject`.
    Nack {
        /// Its channel.
        channel: u16,
        /// The delivery; 0 with `multiple` means all.
        delivery_tag: u64,
        /// Whether all earlier ones are meant too; always false for `basic.reject`.
        multiple: bool,
        /// Whether they go back to the queue.
        requeue: bool,
    },
    /// The channel is gone: closed by the client (answered already), or by this side after a body above the limit.
    ChannelClosed {
        /// The channel.
        channel: u16,
        /// Why the channel was closed.
        closing: Closing<'a>,
    },
    /// The client closed the connection. Answered already; send the pending output, then close.
    Closed {
        /// Why the connection was closed.
        closing: Closing<'a>,
    },
    /// The client agreed to our closing the connection.
    CloseOk,
}
