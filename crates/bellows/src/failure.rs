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

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use report::console::{self, Style};

/// How a command ended that did what it was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing to complain about.
    Fine,
    /// There are warnings, and `--strict` makes them count.
    Invalid,
}

/// Why a command could not do what it was asked to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Cause with the observed value, and the remedy.
    Error {
        usage: bool,
        message: String,
        help: Option<String>,
    },
    /// Nobody reads the output any more: no reason to complain.
    Closed,
    /// A hidden subcommand's own code.
    Code(u8),
}

impl Failure {
    /// Something did not work.
    pub(crate) fn failed(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Error {
            usage: false,
            message: message.into(),
            help: Some(help.into()),
        }
    }

    /// The request itself makes no sense.
    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Error {
            usage: true,
            message: message.into(),
            help: Some(help.into()),
        }
    }

    /// An error that says cause and remedy in one sentence.
    pub(crate) fn from_sentence(text: &str) -> Self {
        let (message, help) = parted(text);
        Self::Error {
            usage: false,
            message,
            help,
        }
    }

    /// A file could not be read or written.
    pub(crate) fn io(action: &str, path: &std::path::Path, source: &io::Error) -> Self {
        let help = match source.kind() {
            ErrorKind::NotFound => "check the path",
            ErrorKind::PermissionDenied => "check the permissions, or choose another path",
            ErrorKind::StorageFull => "free some space, or choose another path",
            _ => "choose another path",
        };
        Self::failed(
            format!("cannot {action} {}: {source}", path.display()),
            help,
        )
    }
}

/// The other crates' errors say the remedy after a semicolon, where there is one.
fn parted(text: &str) -> (String, Option<String>) {
    match text.rsplit_once("; ") {
        Some((message, help)) => (message.to_owned(), Some(help.to_owned())),
        None => (text.to_owned(), None),
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
        let usage = match &error {
            session::Error::Experiment(_) => true,
            session::Error::Load(load) => load.is_usage(),
            _ => false,
        };
        let (message, help) = match &error {
            session::Error::Load(load) => (load.to_string(), Some(load.help().to_owned())),
            session::Error::Stopped => (error.to_string(), None),
            _ => parted(&error.to_string()),
        };
        Self::Error {
            usage,
            message,
            help,
        }
    }
}

impl From<archive::Error> for Failure {
    fn from(error: archive::Error) -> Self {
        Self::from_sentence(&error.to_string())
    }
}

impl From<archive::profile::ProfileError> for Failure {
    fn from(error: archive::profile::ProfileError) -> Self {
        Self::from_sentence(&error.to_string())
    }
}

impl From<report::html::Error> for Failure {
    fn from(error: report::html::Error) -> Self {
        Self::from_sentence(&error.to_string())
    }
}

impl From<report::flame::FlameError> for Failure {
    fn from(error: report::flame::FlameError) -> Self {
        match error {
            report::flame::FlameError::Io { path, source } => Self::io("write", &path, &source),
            none => Self::failed(none.to_string(), "choose a larger window"),
        }
    }
}

impl From<broker::Error> for Failure {
    fn from(error: broker::Error) -> Self {
        Self::from_sentence(&error.to_string())
    }
}

/// Prints what went wrong and says so to the shell.
pub(crate) fn exit_code(outcome: Result<Done, Failure>) -> ExitCode {
    match outcome {
        Ok(Done::Fine) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Ok(Done::Invalid) => ExitCode::from(5),
        Err(Failure::Code(code)) => ExitCode::from(code),
        Err(Failure::Error {
            usage,
            message,
            help,
        }) => {
            let text = console::error(&message, help.as_deref(), Style::of(&io::stderr()));
            // Where standard error is closed too, the exit code is all that is left to say.
            let _ = io::stderr().write_all(text.as_bytes());
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

/// Prints clap's own text: help and version to standard output, usage errors to standard error.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe (`bellows --help | head`) is nothing to complain about.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}
