//! The embedded broker: AMQP 0.9.1 with real exchanges and queues, in memory, with a bound.
//!
//! ```no_run
//! let broker = broker::Broker::bind(broker::Config::default())?;
//! println!("ready amqp://{}", broker.local_addr());
//! broker.spawn()?.wait()?;
//! # Ok::<(), broker::Error>(())
//! ```

mod broker;
mod config;
mod error;
mod stop;

pub use broker::{Broker, Running, THREAD_NAME};
pub use config::{Config, User};
pub use error::Error;
pub use stop::Stop;
