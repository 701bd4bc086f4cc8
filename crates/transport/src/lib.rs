//! Non-blocking TCP connections, with TLS or without, and the timer that wakes their event loop: what
//! the load engine and the embedded broker share.
//!
//! [`Socket`] is one connection, [`ConnectAttempt`] makes one, [`Timer`] wakes the poll at a
//! nanosecond, and [`tls`] checks who is at the other end.

mod connect;
mod socket;
mod timer;
pub mod tls;

pub use connect::{ConnectAttempt, ConnectOptions};
pub use socket::{
    ClientSocket, Output, Received, ServerSocket, Socket, SocketError, SocketOptions,
};
pub use timer::{Timer, sleep_until};
