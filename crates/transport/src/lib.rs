//! Non-blocking TCP connections, with TLS or without, and the timer that wakes their event loop: what
//! the load engine and the embedded broker share.
//!
//! [`Socket`] is one connection, [`ConnectAttempt`] makes one, [`Timer`] wakes the poll at a
//! nanosecond, and [`tls`] checks who is at the other end. [`ClientStream`] and [`Poller`] are what an
//! event loop of clients needs of them.

mod connect;
mod poll;
mod readiness;
mod socket;
mod stream;
mod timer;
pub mod tls;

pub use connect::ConnectAttempt;
pub use poll::SystemPoll;
pub use readiness::Readiness;
pub use socket::{
    ClientSocket, Output, Received, ServerSocket, Socket, SocketError, SocketOptions,
};
pub use stream::{ClientStream, ConnectOptions, Dial, Poller, Sleep, Wake};
pub use timer::{Timer, sleep_until};
