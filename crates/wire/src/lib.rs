//! Sans-IO protocol codecs and connection state machines.
//!
//! Nothing in here opens a socket, reads a clock or starts a thread: bytes and `now` go in, bytes and events come out.
//! So the same code runs under the load engine, inside the embedded broker, and in tests whose time is a number.

pub mod amqp091;
pub mod amqp10;
pub mod http1;
pub mod openmetrics;
pub mod topic;

pub use measure::Secret;
