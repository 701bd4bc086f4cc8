//! AMQP 0-9-1, client and server side.
mod client;
mod codec;
mod error;
mod event;
mod properties;
mod server;
mod spec;
mod table;
mod template;

pub use client::{Client, ClientConfig, Mechanism};
pub use codec::*;
pub use error::*;
pub use event::{Closing, Event, ServerEvent};
pub use properties::*;
pub use server::{Server, ServerConfig};
pub use spec::*;
pub use table::*;
pub use template::{DeliverTemplate, PublishTemplate};

/// The largest body that a configuration may allow, RabbitMQ's own limit.
pub const MAX_BODY: u64 = 512 << 20;
