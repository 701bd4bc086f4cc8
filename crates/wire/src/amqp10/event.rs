//! Events of an [`super::Amqp10Client`]. Everything borrows from the input or from the connection's own buffers; copy
//! what must outlive the next call.

use super::composite::{Condition, DeliveryState, Flow};
use super::message::MessageParts;
use super::types::TypedValue;

/// Event of a client. Sessions and handles are this side's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amqp10Event<'a> {
    /// The handshake is complete; sessions can begin.
    Open {
        /// Server properties (`product`, `version`, ...): a map, or null.
        properties: TypedValue<'a>,
        /// Negotiated frame size limit, in bytes.
        frame_max: u32,
        /// The highest session.
        channel_max: u16,
    },
    /// A session has begun.
    Begun {
        /// The session.
        session: u16,
        /// Frames that the peer takes before it says more; 0 where it takes none yet.
        incoming_window: u32,
    },
    /// A link is attached. Where the peer has refused it, [`Self::Detached`] follows and says why.
    Attached {
        /// Its session.
        session: u16,
        /// The link.
        handle: u32,
        /// Whether the peer has what the link leads to.
        exists: bool,
        /// The largest message that the peer takes, in bytes; 0 for any.
        max_message_size: u64,
    },
    /// The peer has told what it takes or has; credit is accounted for already.
    Flow {
        /// Its session.
        session: u16,
        /// The link, where it is about one.
        handle: Option<u32>,
        /// All that it says.
        flow: Flow<'a>,
    },
    /// Deliveries that this side has sent, and what has become of them.
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
