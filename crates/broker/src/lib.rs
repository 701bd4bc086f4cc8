//! The embedded broker: AMQP 0.9.1 with real exchanges and queues, in memory, with a bound.
//!
//! ```text
//! let broker = broker::Broker::bind(broker::Config::default())?;
//! println!("ready amqp://{}", broker.local_addr());
//! broker.spawn()?.wait()?;
//! ```

mod arguments;
mod broker;
mod burial;
mod channel;
mod common_name;
mod config;
mod connection;
mod connection_faults;
mod consume;
mod consumer;
#[cfg(test)]
mod dead_letter_tests;
mod dead_letters;
mod delivery;
mod delivery_faults;
#[cfg(test)]
mod delivery_tests;
mod error;
mod exchange;
mod expiries;
mod faults;
#[cfg(test)]
mod harness;
mod in_memory;
mod log;
mod memory;
mod node;
#[cfg(test)]
mod node_tests;
mod outgoing;
mod publish;
mod queue;
mod reactor;
mod refusal;
mod requests;
mod ring;
mod session;
mod settle;
mod slots;
mod stop;
mod stream_header;
#[cfg(test)]
mod tests;
mod topology;
mod unacked;
mod vhost;

pub use broker::{Broker, Running, THREAD_NAME};
pub use config::{Config, TlsListener, User};
pub use error::Error;
pub use faults::{
    Amount, Fault, FaultKind, FaultLog, FaultSpec, Injected, Injections, Origin, Reach, Span, Who,
};
pub use in_memory::{ConnectionId, InMemory, Wants};
pub use stop::Stop;
pub use transport::tls::{ClientCertificates, Identity, ServerTls};
