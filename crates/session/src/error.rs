//! Why an experiment could not run.

/// Why an experiment could not run. Every text names cause, observed value and remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment asks for something that makes no sense.
    #[error("{0}")]
    Experiment(#[from] crate::experiment::Error),
    /// The run folder could not be made.
    #[error("{0}")]
    Archive(#[from] archive::Error),
    /// The broker could not be started, found or attached.
    #[error("{0}")]
    Broker(String),
    /// The load could not be made, or broke off.
    #[error("{0}")]
    Load(String),
    /// The process to profile was not found, or profiling it is not permitted.
    #[error("{0}")]
    Profile(String),
}
