//! What can go wrong with a managed node, each with its remedy.

use std::{io, path::PathBuf, time::Duration};

/// Why a managed node did not start, or did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no RabbitMQ where it was looked for.
    #[error(
        "no RabbitMQ found: looked for {}. Install it (apt-get install rabbitmq-server), or name \
         another with broker.root",
        display_list(looked_for)
    )]
    NotInstalled {
        /// The scripts that would have been it.
        looked_for: Vec<PathBuf>,
    },
    /// RabbitMQ is there, but Erlang is not.
    #[error(
        "RabbitMQ is at {}, but there is no Erlang for it: looked for `erl` in {searched}. Install \
         it (apt-get install erlang-base), or put its directory into PATH",
        rabbitmq.display()
    )]
    NoErlang {
        /// The server's start script.
        rabbitmq: PathBuf,
        /// The search path.
        searched: String,
    },
    /// The directory for the node's data has too little room.
    #[error(
        "{} has {free_mb} MB free, and a RabbitMQ node needs at least {needed_mb} MB. Free some, or \
         set TMPDIR to a directory with more room",
        directory.display()
    )]
    NoSpace {
        /// Where the data would have gone.
        directory: PathBuf,
        /// Free for this user, 10^6 bytes.
        free_mb: u64,
        /// Asked for, 10^6 bytes.
        needed_mb: u64,
    },
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(String),
    /// The node ended instead of starting.
    #[error("RabbitMQ ended while it started ({status}). Its last words:\n{log}")]
    Exited {
        /// Exit status or signal.
        status: String,
        /// Last lines of its log.
        log: String,
    },
    /// The node took too long.
    #[error(
        "RabbitMQ did not accept AMQP connections within {} s. The machine may be too busy. Its last \
         words:\n{log}",
        waited.as_secs()
    )]
    NotReady {
        /// The time-out.
        waited: Duration,
        /// Last lines of its log.
        log: String,
    },
    /// Nobody wants the node any more.
    #[error("the start of RabbitMQ was cancelled")]
    Cancelled,
    /// The guardian process failed.
    #[error("the guardian process of RabbitMQ failed: {0}")]
    Guard(String),
    /// The node did not tell its queues and bindings.
    #[error("RabbitMQ did not tell its queues and bindings: {0}")]
    Control(String),
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: `create`, `write`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

impl Error {
    /// Makes an [`Error::Io`] out of what `action` on `path` ended with.
    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

fn display_list(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}
