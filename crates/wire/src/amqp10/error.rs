//! Why a connection cannot go on.

use measure::Nanos;

use crate::amqp091::{EncodeError, Snippet};

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
    #[error("the server does not offer the login mechanism {wanted}")]
    NoMechanism {
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
    #[error(
        "the peer closed the TCP connection {during}; {received} bytes received, the unread ones {bytes}"
    )]
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
