//! Errors as people read them, and how a command ends.

use std::io::{self, ErrorKind};

use measure::Problem;

/// Exit of a command that succeeded, in order of gravity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Done {
    /// Nothing to complain about.
    Fine,
    /// Whether the run met its requirements is undecided.
    Unknown,
    /// The run missed a requirement.
    Missed,
    /// There are warnings, and `--strict` makes them count.
    Invalid,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The request itself makes no sense.
    Usage(Problem),
    /// Something did not work.
    Failed(Problem),
    /// A run broke off: its summary has been printed and holds the problem.
    BrokeOff(Problem),
    /// Likewise, and the end of the run that was printed says why.
    BrokeOffAsTold(Problem),
    /// A signal ended it before there was anything to show.
    Stopped(Problem),
    /// A signal ended it after its results so far were printed.
    StoppedLate(Problem),
    /// Nobody reads the output any more: no reason to complain.
    Closed,
    /// A hidden subcommand's own code.
    Code(u8),
}

impl Failure {
    /// Something did not work; see [`Failure::observed`].
    pub(crate) fn failed(cause: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Failed(Problem::new(cause, "", help))
    }

    /// The request itself makes no sense; see [`Failure::observed`].
    pub(crate) fn usage(cause: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage(Problem::new(cause, "", help))
    }

    /// Adds the observed value, which the cause quotes.
    pub(crate) fn observed(mut self, value: impl std::fmt::Display) -> Self {
        if let Self::Usage(problem) | Self::Failed(problem) = &mut self {
            problem.value = value.to_string();
        }
        self
    }

    pub(crate) fn io(action: &str, path: &std::path::Path, source: &io::Error) -> Self {
        Self::Failed(Problem::io(action, path, source))
    }

    /// Names the run of several that a signal stopped.
    pub(crate) fn in_run(mut self, number: u32, times: u32) -> Self {
        if let Self::Stopped(problem) = &mut self {
            problem.cause.push_str(&format!(" of run {number} of {times}"));
        }
        self
    }

    /// Begins the cause with the run of several: `pair 1 of 8, B`.
    pub(crate) fn of_one(mut self, which: &str) -> Self {
        if let Self::Usage(problem) | Self::Failed(problem) | Self::BrokeOff(problem) | Self::BrokeOffAsTold(problem) =
            &mut self
        {
            problem.cause.insert_str(0, &format!("{which}: "));
        }
        self
    }

    /// Marks that the command's result, the only value on standard output, was printed.
    pub(crate) fn already_printed(self) -> Self {
        match self {
            Self::Usage(problem) | Self::Failed(problem) => Self::BrokeOff(problem),
            Self::Stopped(problem) => Self::StoppedLate(problem),
            other => other,
        }
    }

    /// The failure as a sentence; `None` where there is nothing to complain about.
    pub(crate) fn sentence(&self) -> Option<String> {
        match self {
            Self::Usage(problem)
            | Self::Failed(problem)
            | Self::BrokeOff(problem)
            | Self::BrokeOffAsTold(problem)
            | Self::Stopped(problem)
            | Self::StoppedLate(problem) => Some(problem.sentence()),
            Self::Closed | Self::Code(_) => None,
        }
    }

    /// Marks that the end of a run, which says why it failed, stands above on the same screen.
    pub(crate) fn into_told(self) -> Self {
        match self {
            Self::BrokeOff(problem) => Self::BrokeOffAsTold(problem),
            other => other,
        }
    }

    pub(crate) fn of_run(record: archive::RunRecord) -> Self {
        Self::BrokeOff(record.problem.unwrap_or_default())
    }
}

/// Takes errors of other crates for failures, by their problems.
macro_rules! failed_by {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Failed(error.problem())
            }
        })+
    };
}
failed_by!(archive::Error, broker::Error, erlang::Error, stacks::ProfileError);

impl From<io::Error> for Failure {
    /// An error of standard output, the only stream that is written to without a name.
    fn from(source: io::Error) -> Self {
        if source.kind() == ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Self::Failed(Problem::new("cannot write to standard output", source, "send it elsewhere"))
    }
}

impl From<session::Error> for Failure {
    fn from(error: session::Error) -> Self {
        match error {
            session::Error::Usage(problem) => Self::Usage(problem),
            stopped @ session::Error::Stopped { .. } => Self::Stopped(stopped.problem()),
            error => Self::Failed(error.problem()),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_one_of_several_runs_says_which() {
        let refused = || Problem::new("cannot log in", "403", "check the password");
        let told = |failure: Failure| failure.of_one("pair 1 of 2, B").sentence();
        for failure in [Failure::Failed(refused()), Failure::BrokeOff(refused())] {
            let sentence = "pair 1 of 2, B: cannot log in: 403; check the password";
            assert_eq!(told(failure).as_deref(), Some(sentence));
        }
        assert_eq!(told(Failure::Closed), None);
    }
}
