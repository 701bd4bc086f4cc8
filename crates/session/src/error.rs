//! Why an experiment could not run.

/// Why an experiment could not run. Every text names cause, observed value and, after a
/// semicolon, the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment asks for something that makes no sense.
    #[error("{0}")]
    Experiment(#[from] crate::experiment::Error),
    /// The run folder could not be made.
    #[error("{0}")]
    Archive(#[from] archive::Error),
    /// The managed RabbitMQ did not start.
    #[error("{0}")]
    Managed(#[from] crate::managed::Error),
    /// The embedded broker did not start.
    #[error("{0}")]
    Embedded(String),
    /// No access token.
    #[error("{0}")]
    OAuth2(String),
    /// The load could not be started.
    #[error("{0}; {help}", help = .0.help())]
    Load(#[from] load::Error),
    /// The process cannot be profiled.
    #[error("{0}")]
    Profile(#[from] profile::Error),
    /// The process to profile was not found.
    #[error("{0}")]
    Process(String),
    /// Stopped by the user before anything was measured.
    #[error("stopped before the load began; nothing was measured")]
    Stopped,
}
