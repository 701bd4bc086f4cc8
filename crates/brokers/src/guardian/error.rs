//! Failures between bellows and a guardian.

use std::path::PathBuf;
use std::{fmt, io};

use measure::Problem;

/// Why a broker could not be guarded.
#[derive(Debug)]
#[non_exhaustive]
pub enum GuardianError {
    /// The guardian did not do its work.
    Failed(String),
    /// The machine lacks what a guardian needs.
    Unusable(Problem),
    /// The operating system refused something.
    Io {
        /// The attempt, as a verb: `create`, `write`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

impl GuardianError {
    /// An [`GuardianError::Unusable`].
    pub(super) fn unusable(cause: String, value: &str, help: &str) -> Self {
        Self::Unusable(Problem::new(cause, value, help))
    }

    /// Cause, observed value and remedy.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::Failed(reason) => Problem::new(
                "the guardian process of the broker failed",
                reason,
                "see ulimit -a and whether something kills processes here; then run it again",
            ),
            Self::Unusable(problem) => problem.clone(),
            Self::Io {
                action,
                path,
                source,
            } => Problem::io(action, path, source),
        }
    }

    /// Makes an [`GuardianError::Io`] out of what `action` on `path` ended with.
    pub(crate) fn io(
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
impl fmt::Display for GuardianError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem().fmt(f)
    }
}

impl std::error::Error for GuardianError {}
