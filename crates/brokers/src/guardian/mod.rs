//! The guardian: a process between bellows and a broker that bellows started, so that nothing of the
//! broker stays behind whatever happens to bellows. It knows nothing of which broker it is: it guards a
//! tree of processes, a directory, and the state file that names both.

mod client;
mod leftovers;
mod members;
mod process;

use std::path::PathBuf;
use std::{fmt, io};

use measure::Problem;

pub use client::{Guardian, Message};
pub(crate) use leftovers::{Leftovers, guarded_directories, random_hex};
pub use leftovers::{clean_leftovers, guarded_directory, private_file, private_folder};
pub use members::marker_of;
pub(crate) use members::{MARKER, members};
pub use process::{Command, SUBCOMMAND, main};

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
    fn unusable(cause: String, value: &str, help: &str) -> Self {
        Self::Unusable(Problem::new(cause, value, help))
    }

    /// Cause, observed value and remedy.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Failed(reason) => {
                let help = "check ulimit -a, and whether something kills processes here; then run it again";
                Problem::new("the guardian process of the broker failed", reason, help)
            }
            Self::Unusable(problem) => problem.clone(),
            Self::Io { action, path, source } => Problem::io(action, path, source),
        }
    }

    /// Makes an [`GuardianError::Io`] out of what `action` on `path` ended with.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

/// Cause and observed value in one line.
impl fmt::Display for GuardianError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem().fmt(f)
    }
}

impl std::error::Error for GuardianError {}
