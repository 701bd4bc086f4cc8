//! HTTP/1.1, the client's side: a request's head goes out, a response comes in as events.
//!
//! [`RequestHead::encode`] writes a request; [`ResponseDecoder`] takes what the server sends, in any pieces, and
//! hands out status, body bytes in place, and the end. Nothing of a body is kept; heads, chunk lines and
//! trailers are bounded.

pub mod fuzzing;
mod request;
mod response;

pub use request::{HttpUrl, RequestHead};
pub use response::{HttpEvent, ResponseDecoder, ResponseHead};

/// A request that cannot be written, or a response that breaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// A part of the request that no head can carry.
    #[error("a request's {part} cannot be {observed:?}; {help}")]
    Request {
        /// The part: `method`, `target`.
        part: &'static str,
        /// Observed value, or its name where it may be secret.
        observed: String,
        /// Valid values.
        help: &'static str,
    },
    /// The first bytes, escaped, are those of another protocol.
    #[error("the server does not speak HTTP/1: its first bytes are \"{0}\"")]
    NotHttp(String),
    /// A response that cannot be understood.
    #[error("the response breaks HTTP/1.1: {what} (byte {at})")]
    Broken {
        /// The fault.
        what: &'static str,
        /// Where, counted from the response's first byte.
        at: u64,
    },
    /// A response that is larger than any decent one.
    #[error("the response's {part} has over {limit} {unit}")]
    TooLarge {
        /// The part: `head`, `chunk line`.
        part: &'static str,
        /// The limit.
        limit: usize,
        /// Unit of the limit.
        unit: &'static str,
    },
    /// The connection ended within a response.
    #[error("the connection ended {within} (after {received} bytes of the response)")]
    Truncated {
        /// Where it ended: `before the response`, `within the body`.
        within: &'static str,
        /// Bytes of the response that had come.
        received: u64,
    },
}

/// A URL that cannot be asked. Nothing of it is repeated, since it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; write http://HOST:PORT/PATH or https://HOST:PORT/PATH")]
pub struct UrlError {
    /// The fault.
    pub what: &'static str,
}
