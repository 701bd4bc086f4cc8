//! Disposable RabbitMQ nodes.
//!
//! [`RabbitMq::start`] starts one from an installation on this machine, apart from everything that
//! is installed or running here: own node name, free ports on the loopback interface, no EPMD,
//! temporary data directory, own cookie, no plugins but those that are requested, none of the machine's
//! configuration. It is gone without trace afterwards, whatever ends bellows:
//!
//! * [`RabbitMq::stop`] and `Drop` end it;
//! * a guardian process ([`crate::guardian`]) starts the node and watches a pipe from bellows: end of
//!   file, also by `kill -9`, makes it kill the whole process tree and remove the directory;
//! * where the guardian was killed too, the next start does it ([`crate::guardian::clean_leftovers`]),
//!   from a state file that tells who owned what.

mod broker;
mod checkout;
mod cluster;
mod config;
pub(crate) mod control;
mod imports;
mod install;
mod loader;
mod members;
mod node;
mod patch;
mod ports;
mod ready;
mod reason;
mod relay;
mod schema;
mod setup;
mod started;
mod starter;

pub use cluster::Cluster;
pub use config::Config;
pub use node::RabbitMq;
pub use started::node_directory;
pub use started::started_nodes;

pub(crate) use broker::REGISTRATION;
pub use broker::described;
