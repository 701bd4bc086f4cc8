//! Readiness of a connection, as a poll tells it.

use mio::event::Event;

/// Whether a connection can be read and written, as a poll tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There may be something to read, if only an end or an error.
    pub is_readable: bool,
    /// Bytes to write are taken.
    pub is_writable: bool,
    /// The other side has sent its last byte.
    pub is_read_closed: bool,
}

impl From<&Event> for Readiness {
    #[inline]
    fn from(event: &Event) -> Self {
        let (is_error, is_read_closed) = (event.is_error(), event.is_read_closed());
        Self {
            is_readable: event.is_readable() || is_read_closed || is_error,
            is_writable: event.is_writable() || is_error,
            is_read_closed: is_read_closed || is_error,
        }
    }
}
