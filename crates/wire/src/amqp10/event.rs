//! Events of an [`super::Amqp10Client`] or [`super::Amqp10Server`], and why a connection cannot go on. Everything
//! borrows from the input or from the connection's own buffers; copy what must outlive the next call.

use measure::Nanos;

use super::composite::{Condition, DeliveryState, Flow};
use super::message::{MessageBody, MessageParts, Sections};
use super::types::TypedValue;
use crate::amqp091::{EncodeError, SecretStr, Snippet};

/// Event of a connection. Sessions and handles are this side's numbers; a server's are its client's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amqp10Event<'a> {
    /// A server's client wants something that the embedder allows or refuses. No client sees it.
    Asked(Amqp10Request<'a>),
    /// A client's handshake is complete; sessions can begin.
    Open {
        /// Server properties (`product`, `version`, ...): a map, or null.
        properties: TypedValue<'a>,
        /// Negotiated frame size limit, in bytes.
        frame_max: u32,
        /// The highest session.
        channel_max: u16,
    },
    /// A session has begun. A server has answered already.
    Begun {
        /// The session.
        session: u16,
        /// Frames that the peer takes before it says more; 0 where it takes none yet.
        incoming_window: u32,
    },
    /// A client's link is attached. Where the peer has refused it, [`Self::Detached`] follows and says why.
    Attached {
        /// Its session.
        session: u16,
        /// The link.
        handle: u32,
        /// Whether the peer has what the link leads to.
        exists: bool,
        /// Where it leads: what the peer made, where that was asked for.
        address: Option<&'a str>,
        /// The largest message that the peer takes, in bytes; 0 for any.
        max_message_size: u64,
        /// The filters that the peer applies to what a receiver receives: a map, or null.
        filter: TypedValue<'a>,
    },
    /// The peer has told what it takes or has; credit is accounted for already.
    Flow {
        /// Its session.
        session: u16,
        /// The link, where it is about one.
        handle: Option<u32>,
        /// Messages that this side has sent on the link and the peer had not counted.
        uncounted: u32,
        /// All that it says.
        flow: Flow<'a>,
    },
    /// Deliveries that this side has sent, and what has become of them. Those that have an outcome are settled already.
    Settled {
        /// Their session.
        session: u16,
        /// The first delivery, counted from 0 in the session.
        first: u32,
        /// The last one.
        last: u32,
        /// Their state; `None` where the peer forgets them without one.
        state: Option<DeliveryState<'a>>,
    },
    /// A message.
    Delivery {
        /// Its session.
        session: u16,
        /// Its link.
        handle: u32,
        /// The number to settle it by.
        id: u32,
        /// Whether it is settled already.
        settled: bool,
        /// The id of the transaction that it belongs to; its outcome is left open until that ends.
        transaction: Option<&'a [u8]>,
        /// The message.
        message: MessageParts<'a>,
    },
    /// A message that the peer has given up before its end. It took a number, and credit.
    Aborted {
        /// Its session.
        session: u16,
        /// Its link.
        handle: u32,
        /// The number, which nothing settles.
        id: u32,
    },
    /// A link is gone. Answered already.
    Detached {
        /// Its session.
        session: u16,
        /// The link.
        handle: u32,
        /// Why, where the peer says it.
        error: Option<Condition<'a>>,
    },
    /// A session is gone. Answered already.
    Ended {
        /// The session.
        session: u16,
        /// Why, where the peer says it.
        error: Option<Condition<'a>>,
    },
    /// The peer closed the connection. Answered already; send the pending output, then close.
    Closed {
        /// Why, where the peer says it.
        error: Option<Condition<'a>>,
    },
    /// The peer agreed to our closing the connection.
    CloseOk,
}

/// The events that nearly all input is. See [`super::Amqp10Connection::poll_usual`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsualEvent<'a> {
    /// A message whose body is one section of bytes, and which belongs to no transaction.
    Delivery {
        /// Its session.
        session: u16,
        /// Its link.
        handle: u32,
        /// The number to settle it by.
        id: u32,
        /// Whether it is settled already.
        settled: bool,
        /// All of its sections.
        message: &'a [u8],
        /// The sections before the body.
        before: &'a [u8],
        /// The bytes.
        body: &'a [u8],
    },
    /// Deliveries that this side has sent are accepted and settled.
    Accepted {
        /// Their session.
        session: u16,
        /// The first delivery, counted from 0 in the session.
        first: u32,
        /// The last one.
        last: u32,
    },
}

impl<'a> From<UsualEvent<'a>> for Amqp10Event<'a> {
    #[inline(always)]
    fn from(event: UsualEvent<'a>) -> Self {
        match event {
            UsualEvent::Delivery { session, handle, id, settled, message, before, body } => {
                let message =
                    MessageParts { all: Sections(message), before: Sections(before), body: MessageBody::Data(body) };
                Self::Delivery { session, handle, id, settled, transaction: None, message }
            }
            UsualEvent::Accepted { session, first, last } => {
                Self::Settled { session, first, last, state: Some(DeliveryState::Accepted) }
            }
        }
    }
}

/// End of a link that a server's client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminus<'a> {
    /// The node of this address.
    Address(&'a str),
    /// No node: each message names its own, in `to`.
    Anonymous,
    /// A node to be made for this link: call [`super::Amqp10Server::accept_dynamic_link`].
    Dynamic,
    /// The coordinator of transactions: messages are requests to declare and to discharge them.
    Coordinator,
    /// Something else.
    Other,
}

/// Request of a server's client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amqp10Request<'a> {
    /// It wants in: call [`super::Amqp10Server::accept_login`] or [`super::Amqp10Server::refuse_login`].
    Login {
        /// `PLAIN`, `EXTERNAL` or `ANONYMOUS`.
        mechanism: &'a str,
        /// User name; empty but for `PLAIN`.
        user: &'a str,
        /// Password; empty but for `PLAIN`.
        password: SecretStr<'a>,
    },
    /// It wants in by SCRAM-SHA-256: call [`super::Amqp10Server::challenge`] or [`super::Amqp10Server::refuse_login`].
    Scram {
        /// The user's name, as [`super::scram_name`] has it.
        user: &'a str,
    },
    /// It has proved that it knows the password of that user: call [`super::Amqp10Server::accept_login`] or
    /// [`super::Amqp10Server::refuse_login`].
    Proved,
    /// It wants to open the connection: call [`super::Amqp10Server::accept_open`] or
    /// [`super::Amqp10Server::refuse_open`].
    Open {
        /// The host that is meant; RabbitMQ takes `vhost:NAME` for a virtual host.
        hostname: &'a str,
    },
    /// It attaches a link: call [`super::Amqp10Server::accept_link`] or [`super::Amqp10Server::refuse_link`].
    Link {
        /// Its session.
        session: u16,
        /// The link.
        handle: u32,
        /// Whether the server's messages go over it, and the client's otherwise.
        is_sender: bool,
        /// Where it leads.
        terminus: Terminus<'a>,
        /// Whether the client says that the address is a topic's.
        is_topic: bool,
        /// Whether messages are to be settled when they are sent.
        settled: bool,
        /// Where in a stream it begins, by the filter that RabbitMQ has for it.
        offset: Option<TypedValue<'a>>,
    },
}

/// Why a connection cannot go on. Being closed by the peer in an orderly way is an event, not an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Amqp10Error {
    /// The peer's first bytes are not AMQP 1.0.
    #[error("the peer does not speak AMQP 1.0: {guess}; offset {offset}, bytes {bytes}")]
    WrongProtocol {
        /// Likely protocol.
        guess: String,
        /// Offset in the stream.
        offset: u64,
        /// The bytes there.
        bytes: Snippet,
    },
    /// The peer broke the protocol.
    #[error("protocol error ({condition}) in the frame at offset {offset}: {what}; bytes {bytes}")]
    Protocol {
        /// The error condition that names it, such as `amqp:decode-error`.
        condition: &'static str,
        /// Description with the observed value.
        what: String,
        /// Offset of the frame in the stream.
        offset: u64,
        /// Its first bytes.
        bytes: Snippet,
    },
    /// The server offers none of the login mechanisms that are configured.
    #[error("the server offers the login mechanisms {offered:?}, not {wanted}")]
    NoMechanism {
        /// The server's list, or the beginning of a long one.
        offered: String,
        /// The mechanism configured.
        wanted: &'static str,
    },
    /// The server did not let the client in.
    #[error("the login was refused ({reason}, SASL outcome {code})")]
    Refused {
        /// The outcome's code (section 5.3.3.6).
        code: u8,
        /// Meaning of the code.
        reason: &'static str,
    },
    /// The server's part of a login by SCRAM is not as it must be.
    #[error("the login by SCRAM-SHA-256 failed: {what}")]
    Scram {
        /// The server's fault, with the observed value.
        what: String,
    },
    /// Nothing was heard for twice the time-out that this side has set.
    #[error("nothing heard from the peer for {silent}: it hangs or the network is gone")]
    Silent {
        /// The time since the last byte.
        silent: Nanos,
    },
    /// The handshake or the orderly close did not end in time.
    #[error("no {awaited} within {waited}; {received} bytes received so far")]
    TimedOut {
        /// The protocol step that did not come.
        awaited: &'static str,
        /// How long it was waited for.
        waited: Nanos,
        /// Bytes received on this connection.
        received: u64,
    },
    /// The peer closed the transport without closing the connection.
    #[error("the peer closed the TCP connection {during}; {received} bytes received, the unread ones {bytes}")]
    Disconnected {
        /// Operation in progress.
        during: &'static str,
        /// Bytes received on this connection.
        received: u64,
        /// The start of the incomplete frame.
        bytes: Snippet,
    },
    /// Something that the protocol cannot carry was to be sent.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
