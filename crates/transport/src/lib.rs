//! Non-blocking TCP connections, with TLS or without, and the timer that wakes their event loop. [`Socket`] is one
//! connection, [`ConnectAttempt`] makes one, [`Timer`] wakes the poll at a nanosecond, and [`tls`] checks who is at the
//! other end. [`ClientStream`] and [`Poller`] are what an event loop of clients needs of them.

mod poll;
mod socket;
mod stream;
pub mod tls;

pub use poll::{SystemPoll, Timer, sleep_until};
pub use socket::{ClientSocket, Output, Readiness, Received, ServerSocket, Socket, SocketError, SocketOptions};
pub use stream::{ClientStream, ConnectAttempt, ConnectOptions, Dial, Poller, Sleep, Wake};
