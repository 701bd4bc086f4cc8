//! The embedded broker: AMQP 0.9.1 and 1.0 on one port, with real exchanges and queues, in memory, with a bound.
//!
//! ```text
//! let mut broker = broker::Broker::bind(broker::Config::default())?;
//! println!("ready amqp://{}", broker.local_addr());
//! broker.run(&broker::Stop::new())?;
//! ```

mod arguments;
mod broker;
mod channel;
mod config;
mod connection;
mod connection_faults;
#[cfg(test)]
mod dead_letter_tests;
mod dead_letters;
mod delivery;
#[cfg(test)]
mod delivery_tests;
mod exchange;
mod faults;
mod in_memory;
mod links;
mod log;
mod management;
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
mod session;
mod slots;
#[cfg(test)]
mod tests;
mod topology;
mod unacked;
mod vhost;

pub use self::reactor::Stop;
pub use broker::{Broker, Running, THREAD_NAME};
pub use config::{Config, Error, TlsListener, User};
pub use faults::{Amount, Fault, FaultKind, FaultLog, FaultSpec, Injected, Injections, Origin, Reach, Span, Who};
pub use in_memory::{ConnectionId, InMemory, Wants};
pub use transport::tls::{ClientCertificates, Identity, ServerTls};
