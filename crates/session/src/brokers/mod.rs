//! The brokers that can be under load: those that bellows starts, and those that run already. Each is a file
//! or a folder here, and one line of [`registry`].

mod answer;
mod artemis;
mod attach;
mod broker;
mod certificates;
mod copying;
mod embedded;
mod error;
mod fault;
pub mod log;
pub mod managed;
mod node_data;
mod proxy;
pub mod rabbitmq;
mod registration;
mod registry;

pub use broker::{Broker, Identity, Listener, Processes};
pub use certificates::Certificates;
pub use error::BrokerError;
pub use fault::{Fault, PlayedFault, PlayedFaults};
pub use node_data::NodeData;
pub use registry::start;

pub(crate) use copying::folder_size;
pub(crate) use proxy::is_broker;
pub(crate) use rabbitmq::described as described_rabbitmq;
pub(crate) use registration::Registration;
pub(crate) use registry::{BROKERS, check_installed, programs, start_with};
