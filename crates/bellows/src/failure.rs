//! Exit codes, and errors as people read them.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | fine; also a run that the first Ctrl-C ended in order |
//! | 1 | failed |
//! | 2 | wrong usage |
//! | 5 | the run has warnings, under `--strict` |
//! | 130, 143 | ended at once by a second SIGINT or SIGTERM |
//!
//! 3 (regression) and 4 (cannot tell) belong to comparisons.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use measure::Problem;
use report::console;

use crate::output;

/// How a command ended that did what it was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing to complain about.
    Fine,
    /// There are warnings, and `--strict` makes them count.
    Invalid,
}

/// Why a command could not do what it was asked to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The request itself makes no sense.
    Usage(Problem),
    /// Something did not work.
    Failed(Problem),
    /// A run broke off: its summary has been printed and holds the problem.
    BrokeOff(Problem),
    /// Nobody reads the output any more: no reason to complain.
    Closed,
    /// A hidden subcommand's own code.
    Code(u8),
}

impl Failure {
    /// Something did not work; the cause quotes what was observed.
    pub(crate) fn failed(cause: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Failed(Problem::new(cause, "", help))
    }

    /// The request itself makes no sense; the cause quotes it.
    pub(crate) fn usage(cause: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage(Problem::new(cause, "", help))
    }

    /// A file could not be read or written.
    pub(crate) fn io(action: &str, path: &std::path::Path, source: &io::Error) -> Self {
        let cause = format!("cannot {action} {}", path.display());
        Self::Failed(Problem::new(cause, source, archive::io_help(source)))
    }

    /// What ended a run that failed.
    pub(crate) fn of_run(record: archive::RunRecord) -> Self {
        Self::BrokeOff(record.problem.unwrap_or_default())
    }
}

impl From<io::Error> for Failure {
    /// An error of standard output, the only stream that is written to without a name.
    fn from(source: io::Error) -> Self {
        if source.kind() == ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Self::failed(
            format!("cannot write to standard output: {source}"),
            "send it elsewhere",
        )
    }
}

impl From<session::Error> for Failure {
    fn from(error: session::Error) -> Self {
        match error {
            session::Error::Usage(problem) => Self::Usage(problem),
            error => Self::Failed(error.problem()),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

impl From<archive::Error> for Failure {
    fn from(error: archive::Error) -> Self {
        Self::Failed(error.problem())
    }
}

impl From<archive::profile::ProfileError> for Failure {
    fn from(error: archive::profile::ProfileError) -> Self {
        Self::Failed(error.problem())
    }
}

impl From<broker::Error> for Failure {
    fn from(error: broker::Error) -> Self {
        Self::Failed(error.problem())
    }
}

/// Prints what went wrong, with `json` as an object on standard output too, and says so to the
/// shell.
pub(crate) fn exit_code(outcome: Result<Done, Failure>, json: bool) -> ExitCode {
    let (problem, code, is_printed) = match outcome {
        Ok(Done::Fine) | Err(Failure::Closed) => return ExitCode::SUCCESS,
        Ok(Done::Invalid) => return ExitCode::from(5),
        Err(Failure::Code(code)) => return ExitCode::from(code),
        Err(Failure::Usage(problem)) => (problem, 2, false),
        Err(Failure::Failed(problem)) => (problem, 1, false),
        Err(Failure::BrokeOff(problem)) => (problem, 1, true),
    };
    if json && !is_printed {
        // Where standard output is closed, the exit code and standard error are left.
        let _ = output::print_json(&console::error_as_json(&problem));
    }
    // Where standard error is closed too, the exit code is all that is left to say.
    output::aside(&console::error(&problem, output::style_aside()));
    ExitCode::from(code)
}

/// Prints clap's own text: help and version to standard output, usage errors to standard error.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render();
    if error.use_stderr() {
        let style = output::style_aside();
        output::aside(&if style.colour {
            text.ansi().to_string()
        } else {
            text.to_string()
        });
    } else {
        let style = output::style();
        // A closed pipe (`bellows --help | head`) is nothing to complain about.
        let _ = output::print(&if style.colour {
            text.ansi().to_string()
        } else {
            text.to_string()
        });
    }
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}
