//! What can go wrong with a managed node, each with its remedy.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use measure::Problem;

/// Why a managed node did not start, or did not answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no RabbitMQ where it was looked for.
    NotInstalled {
        /// The scripts that would have been it.
        looked_for: Vec<PathBuf>,
    },
    /// RabbitMQ is there, but Erlang is not.
    NoErlang {
        /// The server's start script.
        rabbitmq: PathBuf,
        /// The search path.
        searched: String,
    },
    /// The directory for the node's data has too little room.
    NoSpace {
        /// Where the data would have gone.
        directory: PathBuf,
        /// Free for this user, 10^6 bytes.
        free_mb: u64,
        /// Asked for, 10^6 bytes.
        needed_mb: u64,
    },
    /// The configuration cannot be used.
    Config(Problem),
    /// The node ended instead of starting.
    Exited {
        /// Exit status or signal.
        status: String,
        /// Last lines of its log.
        log: String,
    },
    /// The node took too long.
    NotReady {
        /// The time-out.
        waited: Duration,
        /// Last lines of its log.
        log: String,
    },
    /// Nobody wants the node any more.
    Cancelled,
    /// The guardian process failed.
    Guard(String),
    /// The node did not tell its queues and bindings.
    Control(String),
    /// The operating system refused something.
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
    /// An [`Error::Config`].
    pub(super) fn config(
        cause: impl Into<String>,
        value: impl fmt::Display,
        help: impl Into<String>,
    ) -> Self {
        Self::Config(Problem::new(cause, value, help))
    }

    /// Cause, observed value and remedy.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::NotInstalled { looked_for } => Problem::new(
                "no RabbitMQ found",
                format!("looked for {}", display_list(looked_for)),
                "install it (apt-get install rabbitmq-server), or name another with broker.root",
            ),
            Self::NoErlang { rabbitmq, searched } => Problem::new(
                format!(
                    "RabbitMQ is at {}, but there is no Erlang for it",
                    rabbitmq.display()
                ),
                format!("looked for `erl` in {searched}"),
                "install it (apt-get install erlang-base), or put its directory into PATH",
            ),
            Self::NoSpace {
                directory,
                free_mb,
                needed_mb,
            } => Problem::new(
                format!("a RabbitMQ node needs at least {needed_mb} MB"),
                format!("{} has {free_mb} MB free", directory.display()),
                "free some, or set TMPDIR to a directory with more room",
            ),
            Self::Config(problem) => problem.clone(),
            Self::Exited { status, log } => Problem {
                log: log.clone(),
                ..Problem::new(
                    "RabbitMQ ended while it started",
                    status,
                    "see its log below",
                )
            },
            Self::NotReady { waited, log } => Problem {
                log: log.clone(),
                ..Problem::new(
                    "RabbitMQ did not accept AMQP connections in time",
                    format!("{} s", waited.as_secs()),
                    "see whether the machine is too busy, and its log below",
                )
            },
            Self::Cancelled => Problem::new(
                "the start of RabbitMQ was cancelled",
                "interrupted",
                "start it again",
            ),
            Self::Guard(reason) => Problem::new(
                "the guardian process of RabbitMQ failed",
                reason,
                "see ulimit -a and whether something kills processes here; then run it again",
            ),
            Self::Control(reason) => Problem::new(
                "RabbitMQ did not tell its queues and bindings",
                reason,
                "see whether the machine is too busy",
            ),
            Self::Io {
                action,
                path,
                source,
            } => Problem::new(
                format!("cannot {action} {}", path.display()),
                source,
                archive::io_help(source),
            ),
        }
    }

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

/// Cause and observed value in one line.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem().fmt(f)
    }
}

impl std::error::Error for Error {}

fn display_list(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}
