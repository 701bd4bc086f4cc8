//! Failures of brokers, each with its remedy.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use experiment::ExperimentError;
use measure::Problem;

use super::answer::NoAnswer;

/// Why a broker did not start, or did not do what it was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum BrokerError {
    /// The request itself makes no sense.
    Usage(Problem),
    /// The configuration cannot be used, what it names is missing or does not serve, or there is no room.
    Config(Problem),
    /// The broker ended instead of starting.
    Exited(Problem),
    /// The broker took too long.
    NotReady(Problem),
    /// Nobody wants the broker any more.
    Cancelled,
    /// The guardian process failed, or the operating system refused something.
    Guard(Problem),
    /// The broker did not answer a question about itself.
    Control {
        /// Its question, and why there is no answer.
        problem: Problem,
        /// It gave none in time: another question would cost as much time.
        timed_out: bool,
    },
    /// The fault could not be injected.
    Fault(String),
}

impl BrokerError {
    pub(crate) fn config(cause: impl Into<String>, value: impl fmt::Display, help: impl Into<String>) -> Self {
        Self::Config(Problem::new(cause, value, help))
    }

    /// A [`BrokerError::Exited`], with the exit status or signal and the last lines of the log.
    pub fn exited(product: &str, status: impl fmt::Display, log: impl Into<String>) -> Self {
        Self::Exited(Problem::new(format!("{product} ended while it started"), status, "see its log below").logged(log))
    }

    /// A [`BrokerError::Control`]: what it was asked for, as a noun, and why there is no answer.
    pub fn control(asked_for: &str, reason: impl fmt::Display, timed_out: bool) -> Self {
        let cause = format!("the broker did not answer about {asked_for}");
        Self::Control { problem: Problem::new(cause, reason, "check whether the machine is too busy"), timed_out }
    }

    /// A [`BrokerError::Control`] where there is no answer to a question.
    pub(super) fn unanswered(asked_for: &str, waited: Duration, why: &NoAnswer) -> Self {
        let reason = match why {
            NoAnswer::Cancelled => "the run was stopped before it answered".to_owned(),
            NoAnswer::TimedOut => format!("no answer within {} s", waited.as_secs()),
            NoAnswer::Failed(why) => why.clone(),
        };
        Self::control(asked_for, reason, *why == NoAnswer::TimedOut)
    }

    /// The broker is not where it was looked for, by the programs that would have been it.
    pub fn not_installed(product: &str, looked_for: &[PathBuf], help: &str) -> Self {
        let names: Vec<_> = looked_for.iter().map(|path| path.display().to_string()).collect();
        Self::config(format!("no {product} found"), format!("looked for {}", names.join(", ")), help)
    }

    /// RabbitMQ's start script is there, but Erlang is not in this search path.
    pub fn no_erlang(rabbitmq: &Path, searched: &str) -> Self {
        let cause = format!("RabbitMQ is at {}, but without Erlang", rabbitmq.display());
        let help = "install it (apt-get install erlang-base), or add its directory to PATH";
        Self::config(cause, format!("looked for `erl` in {searched}"), help)
    }

    /// The directory for the broker's data has too little room; free for this user and needed are in bytes.
    pub fn no_space(product: &str, directory: &Path, free: u64, needed: u64) -> Self {
        let value = format!("{} has {} MB free", directory.display(), free / 1_000_000);
        let help = "free some, or set TMPDIR to a directory with more room";
        Self::config(format!("{product} needs at least {} MB", needed / 1_000_000), value, help)
    }

    /// The broker did not take clients within this time.
    pub fn not_ready(product: &str, waited: Duration, log: String) -> Self {
        let cause = format!("{product} did not accept connections in time");
        let help = "check whether the machine is too busy, and its log below";
        Self::NotReady(Problem::new(cause, format!("{} s", waited.as_secs()), help).logged(log))
    }

    /// The guardian did not do its work.
    pub fn guard(reason: impl fmt::Display) -> Self {
        let help = "check ulimit -a, and whether something kills processes here; then run it again";
        Self::Guard(Problem::new("the guardian process of the broker failed", reason, help))
    }

    /// Cause, observed value and remedy.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Usage(problem)
            | Self::Config(problem)
            | Self::Exited(problem)
            | Self::NotReady(problem)
            | Self::Guard(problem)
            | Self::Control { problem, .. } => problem.clone(),
            Self::Cancelled => Problem::new("the start of the broker was cancelled", "interrupted", "start it again"),
            Self::Fault(reason) => {
                Problem::new("the fault could not be injected", reason, "see the broker's log for why it ended")
            }
        }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Guard(Problem::io(action, &path, &source))
    }
}

impl From<Problem> for BrokerError {
    fn from(problem: Problem) -> Self {
        Self::Config(problem)
    }
}

impl From<load::Error> for BrokerError {
    fn from(error: load::Error) -> Self {
        if error.is_usage() { Self::Usage(error.problem()) } else { Self::Config(error.problem()) }
    }
}

impl From<ExperimentError> for BrokerError {
    fn from(error: ExperimentError) -> Self {
        Self::Usage(error.problem())
    }
}

measure::shown_as_problem!(BrokerError);
