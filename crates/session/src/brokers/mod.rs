//! The brokers that can be under load: those that bellows starts, and those that run already.

mod attach;
mod certificates;
mod error;
pub mod log;
pub mod managed;
pub mod rabbitmq;

pub use attach::{Attached, attach};
pub use certificates::Certificates;
pub use error::Error;
