//! Disposable RabbitMQ nodes.
//!
//! [`RabbitMq::start`] starts one from an installation on this machine, apart from everything that
//! is installed or running here: own node name, free ports on the loopback interface, no EPMD,
//! temporary data directory, own cookie, no plugins, none of the machine's configuration. It is
//! gone without trace afterwards, whatever ends bellows:
//!
//! * [`RabbitMq::stop`] and `Drop` end it;
//! * a guardian process ([`guard`]) starts the node and watches a pipe from bellows: end of file,
//!   also by `kill -9`, makes it kill the whole process tree and remove the directory;
//! * where the guardian was killed too, the next start does it ([`clean_leftovers`]), from a state
//!   file that tells who owned what.

mod config;
mod error;
pub mod guard;

use std::time::Duration;

pub use config::Config;
pub use error::Error;

/// A running node. Dropping it stops it.
#[derive(Debug)]
pub struct RabbitMq {}

impl RabbitMq {
    /// Starts a node and waits until it accepts AMQP connections. `progress` gets short sentences.
    ///
    /// # Errors
    /// Every [`Error`] but [`Error::Control`]; nothing is left behind.
    pub fn start(config: &Config, progress: &mut dyn FnMut(&str)) -> Result<Self, Error> {
        let _ = (config, progress);
        Err(Error::Config("not yet".into()))
    }

    /// Where clients connect: `amqp://guest:guest@127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        String::new()
    }

    /// The emulator's process (`beam.smp`).
    #[must_use]
    pub fn pid(&self) -> u32 {
        0
    }

    /// RabbitMQ's version: `3.10.8`.
    #[must_use]
    pub fn version(&self) -> &str {
        ""
    }

    /// What it runs on: `Erlang/OTP 25`.
    #[must_use]
    pub fn runtime(&self) -> &str {
        ""
    }

    /// What the user should know about how the node was started.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &[]
    }

    /// Queues, exchanges and bindings. Costs the machine CPU time, so not during a measurement.
    ///
    /// # Errors
    /// [`Error::Control`].
    pub fn topology(&self) -> Result<archive::Topology, Error> {
        Ok(archive::Topology::default())
    }

    /// The last `lines` lines that the node logged.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        let _ = lines;
        String::new()
    }

    /// Stops the node and removes all of it.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn stop(self) -> Result<(), Error> {
        let _ = Duration::ZERO;
        Ok(())
    }
}

/// Removes what earlier runs left behind: nodes whose owner and guardian are dead. Returns one
/// sentence for each.
#[must_use]
pub fn clean_leftovers() -> Vec<String> {
    Vec::new()
}
