//! A failure as a user meets it: the shape that the errors of all crates have in common.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Serialize, de};

/// A failure as a user meets it: what went wrong, what was observed, and what to do. Each crate's
/// error type says which failures it tells apart, and makes one of these of each; only `report`
/// turns them into text. Nothing in it is secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Problem {
    /// Failure or senseless value, and where: `cannot connect to amqp://guest@localhost:5672/`.
    pub cause: String,
    /// Observed value: the system's words, the broker's reply, the number that is out of range. Where the cause quotes
    /// it, text leaves it out here.
    pub value: String,
    /// The remedy.
    pub help: String,
    /// Lines of a log that explain the cause; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
    /// The key of the request's value that the problem is about, such as `load.0.rate`, until somebody who
    /// knows where that was written names the place; empty where no single value is wrong.
    #[serde(skip)]
    pub about: Box<str>,
}

impl Problem {
    /// A problem without a log.
    pub fn new(cause: impl Into<String>, value: impl fmt::Display, help: impl Into<String>) -> Self {
        Self { cause: cause.into(), value: value.to_string(), help: help.into(), ..Self::default() }
    }

    /// Adds the last lines of a program's log.
    pub fn logged(mut self, log: impl Into<String>) -> Self {
        self.log = log.into();
        self
    }

    /// This problem, unless what was asked for `is_fine`.
    pub fn unless(self, is_fine: bool) -> Result<(), Self> {
        if is_fine { Ok(()) } else { Err(self) }
    }

    /// Names the key at fault; texts name further keys as `{threads}`.
    pub fn about(mut self, key: impl Into<Box<str>>) -> Self {
        self.about = key.into();
        self
    }

    /// A file or folder that could not be made, read or written: `action` is what was tried on it, as a verb.
    pub fn io(action: &str, path: &Path, source: &io::Error) -> Self {
        let help = match source.kind() {
            ErrorKind::NotFound => "check the path",
            ErrorKind::PermissionDenied => "check the permissions, or choose another path",
            ErrorKind::StorageFull => "free some space, or choose another path",
            _ => "choose another path",
        };
        Self::new(format!("cannot {action} {}", path.display()), source, help)
    }

    /// Sets the observed value, which the cause quotes.
    pub fn observed(mut self, value: impl fmt::Display) -> Self {
        self.value = value.to_string();
        self
    }

    /// Cause, observed value and remedy in one line: `cannot read x: no such file; check the path`.
    pub fn sentence(&self) -> String {
        format!("{self}; {}", self.help)
    }
}

/// Cause and observed value in one line, without the remedy.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)?;
        if self.value.is_empty() || is_quoted(&self.cause, &self.value) {
            return Ok(());
        }
        write!(f, ": {}", self.value)
    }
}

/// Whether a text has a value in it, and not only as a part of a word.
fn is_quoted(text: &str, value: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(value).any(|(at, _)| {
        let before = text.get(..at).and_then(|it| it.chars().next_back());
        let after = text.get(at + value.len()..).and_then(|it| it.chars().next());
        !is_word(before) && !is_word(after)
    })
}

impl std::error::Error for Problem {}

/// Why a text is no value of its type: what is wrong with it, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Reason for the refusal.
    pub what: String,
    /// The remedy; empty where only the description of the whole helps.
    pub help: String,
}

/// Stands between the two in the one text that an error of serde has: no text that people write holds it.
const BETWEEN: char = '\u{1f}';

impl Refused {
    /// A refusal with its remedy.
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), help: help.into() }
    }

    /// The refusal as an error of serde, whose message [`Refused::from_message`] reads.
    pub fn into_error<E: de::Error>(self) -> E {
        E::custom(format_args!("{}{BETWEEN}{}", self.what, self.help))
    }

    /// The refusal that an error of serde stands for; `None` for serde's own.
    pub fn from_message(message: &str) -> Option<Self> {
        let (what, help) = message.trim_end().split_once(BETWEEN)?;
        Some(Self::new(what, help))
    }
}

impl From<String> for Refused {
    fn from(what: String) -> Self {
        Self::new(what, "")
    }
}

/// Reason and remedy in one line, as a command line's parser shows it.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match self.help.as_str() {
            "" => Ok(()),
            help => write!(f, "; {help}"),
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::Problem;

    #[test]
    fn one_line_holds_cause_and_value_and_not_the_remedy() {
        let problem = Problem::new("cannot read x", "no such file", "check the path");
        assert_eq!(problem.to_string(), "cannot read x: no such file");
        assert_eq!(problem.sentence(), "cannot read x: no such file; check the path");
        let quoted = Problem::new("0 threads cannot carry a load", "", "ask for at least 1");
        assert_eq!(quoted.to_string(), "0 threads cannot carry a load");
        let quoted = quoted.observed(0);
        assert_eq!(quoted.value, "0");
        assert_eq!(quoted.to_string(), "0 threads cannot carry a load");
        let short = Problem::new("the node has no such module", "l", "check its name");
        assert_eq!(short.to_string(), "the node has no such module: l");
    }
}
