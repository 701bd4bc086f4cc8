//! Protocol errors, with the offset in the stream and the bytes seen there.

use std::fmt;

use measure::Nanos;

/// A payload that cannot be read. `at` counts from the payload's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (byte {at} of the payload)")]
pub struct DecodeError {
    /// The fault.
    pub what: &'static str,
    /// Where, counted from the start of what was being decoded.
    pub at: usize,
}

/// A value that the protocol cannot carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Names, routing keys, table keys and the like.
    #[error("AMQP names hold at most 255 bytes, {start:?}... has {len}; use a shorter one")]
    ShortString {
        /// Its length in bytes.
        len: usize,
        /// How it begins.
        start: String,
    },
    /// Strings and tables.
    #[error("AMQP strings and tables hold at most 4 GiB, this one has {len} bytes")]
    LongString {
        /// Its length in bytes.
        len: usize,
    },
    /// Tables inside tables.
    #[error("field tables may nest {limit} deep, this one is deeper", limit = super::MAX_NESTING)]
    Nesting,
    /// Methods and content headers cannot be split over frames.
    #[error("{what} takes a frame of {len} bytes, the connection's frame-max is {frame_max}")]
    Frame {
        /// Method or body.
        what: &'static str,
        /// Its whole frame, in bytes.
        len: usize,
        /// The negotiated limit, in bytes.
        frame_max: u32,
    },
    /// A message body above the limit.
    #[error("a body of {len} bytes is above the limit of {limit}")]
    Body {
        /// Its length in bytes.
        len: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Something was sent before the connection was open, or after it was closed.
    #[error("the connection is not open")]
    NotOpen,
}

/// The first bytes of what could not be understood: printed in hexadecimal, and as text where they are text.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Snippet {
    bytes: [u8; Self::MAX],
    len: u8,
}

impl Snippet {
    /// How many bytes are kept.
    pub const MAX: usize = 16;

    /// Keeps the beginning of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut snippet = Self::default();
        for (to, from) in snippet.bytes.iter_mut().zip(bytes) {
            *to = *from;
            snippet.len += 1;
        }
        snippet
    }

    /// The bytes kept.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl fmt::Display for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == 0 {
            return f.write_str("none");
        }
        for (i, byte) in self.as_bytes().iter().enumerate() {
            write!(f, "{}{byte:02x}", if i == 0 { "" } else { " " })?;
        }
        write!(f, " \"{}\"", self.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// Why a connection cannot go on. Being closed by the peer in an orderly way is an event, not an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The peer's first bytes are not AMQP 0-9-1.
    #[error("the peer does not speak AMQP 0-9-1: {guess}; offset {offset}, bytes {bytes}")]
    WrongProtocol {
        /// Likely protocol, and a remedy.
        guess: String,
        /// Offset in the stream.
        offset: u64,
        /// The bytes there.
        bytes: Snippet,
    },
    /// The peer broke the protocol.
    #[error("protocol error ({name} {code}) at offset {offset}: {what}; bytes \
             {bytes}", name = super::reply_name(*code))]
    Protocol {
        /// The reply code that names it (501 frame error, 502 syntax error, ...).
        code: u16,
        /// Description with the observed value.
        what: String,
        /// Offset in the stream.
        offset: u64,
        /// The bytes there.
        bytes: Snippet,
    },
    /// The server offers none of the login mechanisms that are configured.
    #[error("the server offers the login mechanisms {offered:?}, not {wanted}")]
    NoMechanism {
        /// The server's list.
        offered: String,
        /// The mechanism configured.
        wanted: &'static str,
    },
    /// Nothing was heard for two heartbeat intervals.
    #[error(
        "nothing heard from the peer for {silent}, with a heartbeat of {heartbeat_s} s: it hangs or the network is gone"
    )]
    HeartbeatMissed {
        /// The time since the last byte.
        silent: Nanos,
        /// The negotiated interval, in seconds.
        heartbeat_s: u16,
    },
    /// The handshake or the orderly close did not end in time.
    #[error("no {awaited} within {waited}; {received} bytes received so far, the unread ones {bytes}")]
    TimedOut {
        /// The protocol step that did not come.
        awaited: &'static str,
        /// How long it was waited for.
        waited: Nanos,
        /// Bytes received on this connection.
        received: u64,
        /// The start of the incomplete frame.
        bytes: Snippet,
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

impl Error {
    /// The reply code to close the connection with.
    pub const fn reply_code(&self) -> u16 {
        match self {
            Self::Protocol { code, .. } => *code,
            Self::HeartbeatMissed { .. } | Self::TimedOut { .. } => 320,
            _ => 501,
        }
    }
}
