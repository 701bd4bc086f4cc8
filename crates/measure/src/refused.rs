//! Why a text is no value of its type.

use std::fmt;

use serde::de;

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
        Self {
            what: what.into(),
            help: help.into(),
        }
    }

    /// The refusal as an error of serde, whose message [`Refused::from_message`] reads.
    pub fn into_error<E: de::Error>(self) -> E {
        E::custom(format_args!("{}{BETWEEN}{}", self.what, self.help))
    }

    /// The refusal that an error of serde stands for; `None` for serde's own.
    #[must_use]
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
