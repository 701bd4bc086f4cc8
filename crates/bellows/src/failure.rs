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
#[derive(Debug)]
pub(crate) enum Failure {
    /// Cause with the observed value, and the remedy.
    Error(Trouble),
    /// Nobody reads the output any more: no reason to complain.
    Closed,
    /// A hidden subcommand's own code.
    Code(u8),
}

/// What went wrong, as it is printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The request itself makes no sense.
    usage: bool,
    /// Cause with the observed value.
    message: String,
    /// The remedy.
    help: Option<String>,
    /// Lines of somebody's log that explain it.
    log: String,
}

impl Trouble {
    /// Takes the other crates' errors apart, which say cause and remedy in one text: the remedy
    /// stands after the last semicolon or in sentences of its own, and a log follows on lines of
    /// its own.
    fn read(text: &str) -> Self {
        let (head, log) = text.split_once('\n').unwrap_or((text, ""));
        let head = head.trim().trim_end_matches("Its last words:").trim_end();
        let sentence = |(at, _): &(usize, &str)| {
            head.get(at + 2..)
                .is_some_and(|rest| rest.starts_with(char::is_uppercase))
        };
        let parts = head
            .rsplit_once("; ")
            .or_else(|| {
                let (at, _) = head.match_indices(". ").find(sentence)?;
                Some((head.get(..at)?, head.get(at + 2..)?))
            })
            .map_or((head, None), |(message, help)| {
                (message, Some(without_capital(help)))
            });
        let message = parts.0.trim_end_matches('.').to_owned();
        Self {
            usage: false,
            message,
            help: parts.1,
            log: log.to_owned(),
        }
    }
}

/// A sentence that goes on after a colon: `Install it` as `install it`; names as `RabbitMQ` stay.
fn without_capital(sentence: &str) -> String {
    let (word, _) = sentence.split_once(' ').unwrap_or((sentence, ""));
    let mut letters = sentence.chars();
    match letters.next() {
        Some(first) if word.chars().skip(1).all(char::is_lowercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => sentence.to_owned(),
    }
}

impl Failure {
    /// Something did not work.
    pub(crate) fn failed(message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), Some(help.into()));
        Self::Error(Trouble {
            usage: false,
            message,
            help,
            log: String::new(),
        })
    }

    /// The request itself makes no sense.
    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), Some(help.into()));
        Self::Error(Trouble {
            usage: true,
            message,
            help,
            log: String::new(),
        })
    }

    /// An error that says cause and remedy in one text.
    pub(crate) fn from_sentence(text: &str) -> Self {
        Self::Error(Trouble::read(text))
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
        match &error {
            session::Error::Load(load) if load.is_usage() => {
                Self::usage(load.to_string(), load.help())
            }
            session::Error::Load(load) => Self::failed(load.to_string(), load.help()),
            session::Error::Experiment(experiment) => Self::Error(Trouble {
                usage: true,
                ..Trouble::read(&experiment.to_string())
            }),
            session::Error::Stopped => Self::failed(
                "stopped before the load began",
                "nothing was measured or kept",
            ),
            _ => Self::from_sentence(&error.to_string()),
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
        Err(Failure::Error(Trouble {
            usage,
            message,
            help,
            log,
        })) => {
            let style = output::style_aside();
            // Where standard error is closed too, the exit code is all that is left to say.
            output::aside(&console::error(&message, help.as_deref(), &log, style));
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
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

#[cfg(test)]
mod tests {
    use super::Trouble;

    #[test]
    fn cause_remedy_and_log_are_told_apart() {
        for (text, message, help, log) in [
            ("no room; free some", "no room", Some("free some"), ""),
            ("a; b; do this", "a; b", Some("do this"), ""),
            ("x.toml:3: unknown key", "x.toml:3: unknown key", None, ""),
            (
                "looked for /a, /b.c. Install it, or not",
                "looked for /a, /b.c",
                Some("install it, or not"),
                "",
            ),
            (
                "it ended (1). Its last words:\none\ntwo",
                "it ended (1)",
                None,
                "one\ntwo",
            ),
            (
                "not within 60 s. Too busy? Its last words:\none",
                "not within 60 s",
                Some("too busy?"),
                "one",
            ),
        ] {
            let read = Trouble::read(text);
            assert_eq!(
                (read.message.as_str(), read.help.as_deref()),
                (message, help),
                "{text}"
            );
            assert_eq!(read.log, log);
        }
    }
}
