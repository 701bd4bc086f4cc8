//! Brokers under load: started by bellows, or running already. Each is a file or folder, and a line of [`registry`].

mod answer;
mod artemis;
mod attach;
mod broker;
mod certificates;
mod copying;
mod embedded;
mod error;
pub mod guardian;
pub mod log;
pub mod managed;
mod mosquitto;
mod oauth2;
pub mod rabbitmq;
mod registry;

pub use broker::{Broker, Identity, Listener, Processes, RabbitMqNodes, Registration};
pub use certificates::Certificates;
pub use copying::{FolderSize, NodeData, folder_size};
pub use error::BrokerError;
pub use managed::{Fault, PlayedFault, PlayedFaults};
pub use registry::{BROKERS, check_installed, is_broker, programs, start};
