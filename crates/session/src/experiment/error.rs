//! What is wrong with an experiment.

use std::fmt;

/// What is wrong with an experiment, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    origin: String,
    line: Option<usize>,
    text: String,
}

impl Error {
    pub(crate) fn new(origin: &str, line: Option<usize>, text: impl Into<String>) -> Self {
        Self { origin: origin.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.origin, self.text),
            None => write!(f, "{}: {}", self.origin, self.text),
        }
    }
}

impl std::error::Error for Error {}
