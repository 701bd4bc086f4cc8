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
pub mod guardian;
pub mod log;
pub mod managed;
mod node_data;
mod oauth2;
mod proxy;
pub mod rabbitmq;
mod registration;
mod registry;

pub use broker::{Broker, Identity, Listener, Processes};
pub use certificates::Certificates;
pub use copying::{FolderSize, folder_size};
pub use error::BrokerError;
pub use fault::{Fault, PlayedFault, PlayedFaults};
pub use node_data::NodeData;
pub use proxy::is_broker;
pub use registration::Registration;
pub use registry::{BROKERS, check_installed, programs, start, start_with};
