//! Failures of brokers, each with its remedy.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use experiment::ExperimentError;
use measure::Problem;

use super::answer::NoAnswer;
use crate::guardian;

/// Why a broker did not start, or did not do what it was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum BrokerError {
    /// The broker is not where it was looked for.
    NotInstalled {
        /// As the broker is called.
        product: &'static str,
        /// The programs that would have been it.
        looked_for: Vec<PathBuf>,
        /// How it is installed or named.
        help: &'static str,
    },
    /// RabbitMQ is there, but Erlang is not.
    NoErlang {
        /// The server's start script.
        rabbitmq: PathBuf,
        /// The search path.
        searched: String,
    },
    /// The directory for the broker's data has too little room.
    NoSpace {
        /// As the broker is called.
        product: &'static str,
        /// Where the data would have gone.
        directory: PathBuf,
        /// Free for this user, 10^6 bytes.
        free_mb: u64,
        /// Requested, 10^6 bytes.
        needed_mb: u64,
    },
    /// The request itself makes no sense.
    Usage(Problem),
    /// The configuration cannot be used, or what it names does not serve.
    Config(Problem),
    /// The broker ended instead of starting.
    Exited {
        /// As the broker is called.
        product: &'static str,
        /// Exit status or signal.
        status: String,
        /// Last lines of its log.
        log: String,
    },
    /// The broker took too long.
    NotReady {
        /// As the broker is called.
        product: &'static str,
        /// The time-out.
        waited: Duration,
        /// Last lines of its log.
        log: String,
    },
    /// Nobody wants the broker any more.
    Cancelled,
    /// The guardian process failed.
    Guard(guardian::GuardianError),
    /// The broker did not answer a question about itself.
    Control {
        /// Its object, as a noun.
        asked_for: &'static str,
        /// Why there is no answer.
        reason: String,
        /// It gave none in time: another question would cost as much time.
        timed_out: bool,
    },
    /// The fault could not be injected.
    Fault(String),
}

impl BrokerError {
    /// An [`BrokerError::Config`].
    pub(crate) fn config(cause: impl Into<String>, value: impl fmt::Display, help: impl Into<String>) -> Self {
        Self::Config(Problem::new(cause, value, help))
    }

    /// A [`BrokerError::Control`] where there is no answer to a question.
    pub(super) fn unanswered(asked_for: &'static str, waited: Duration, why: &NoAnswer) -> Self {
        let reason = match why {
            NoAnswer::Cancelled => "the run was stopped before it answered".to_owned(),
            NoAnswer::TimedOut => format!("no answer within {} s", waited.as_secs()),
            NoAnswer::Failed(why) => why.clone(),
        };
        Self::Control { asked_for, reason, timed_out: *why == NoAnswer::TimedOut }
    }

    /// Cause, observed value and remedy.
    pub fn problem(&self) -> Problem {
        match self {
            Self::NotInstalled { product, looked_for, help } => {
                Problem::new(format!("no {product} found"), format!("looked for {}", display_list(looked_for)), *help)
            }
            Self::NoErlang { rabbitmq, searched } => Problem::new(
                format!("RabbitMQ is at {}, but without Erlang", rabbitmq.display()),
                format!("looked for `erl` in {searched}"),
                "install it (apt-get install erlang-base), or add its directory to PATH",
            ),
            Self::NoSpace { product, directory, free_mb, needed_mb } => Problem::new(
                format!("{product} needs at least {needed_mb} MB"),
                format!("{} has {free_mb} MB free", directory.display()),
                "free some, or set TMPDIR to a directory with more room",
            ),
            Self::Usage(problem) | Self::Config(problem) => problem.clone(),
            Self::Exited { product, status, log } => {
                Problem::new(format!("{product} ended while it started"), status, "see its log below").logged(log)
            }
            Self::NotReady { product, waited, log } => {
                let cause = format!("{product} did not accept connections in time");
                let help = "check whether the machine is too busy, and its log below";
                Problem::new(cause, format!("{} s", waited.as_secs()), help).logged(log)
            }
            Self::Cancelled => Problem::new("the start of the broker was cancelled", "interrupted", "start it again"),
            Self::Guard(error) => error.problem(),
            Self::Control { asked_for, reason, .. } => {
                let help = "check whether the machine is too busy";
                Problem::new(format!("the broker did not answer about {asked_for}"), reason, help)
            }
            Self::Fault(reason) => {
                Problem::new("the fault could not be injected", reason, "see the broker's log for why it ended")
            }
        }
    }

    /// A failure of `action` on `path`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let io = guardian::GuardianError::io(action, path);
        move |source| Self::Guard(io(source))
    }
}

impl From<guardian::GuardianError> for BrokerError {
    fn from(error: guardian::GuardianError) -> Self {
        Self::Guard(error)
    }
}

impl From<Problem> for BrokerError {
    fn from(problem: Problem) -> Self {
        Self::Config(problem)
    }
}

impl From<load::Error> for BrokerError {
    fn from(error: load::Error) -> Self {
        match error.is_usage() {
            true => Self::Usage(error.problem()),
            false => Self::Config(error.problem()),
        }
    }
}

impl From<ExperimentError> for BrokerError {
    fn from(error: ExperimentError) -> Self {
        Self::Usage(error.problem())
    }
}

/// Cause and observed value in one line.
impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem().fmt(f)
    }
}

impl std::error::Error for BrokerError {}

fn display_list(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}
