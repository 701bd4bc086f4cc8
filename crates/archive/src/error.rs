//! Why a run folder could not be made or read.

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use measure::Problem;
use stacks::bounded::{self, Line};

/// Why a run folder could not be made or read.
#[derive(Debug)]
pub enum Error {
    /// A file or folder could not be made, written or read.
    Io {
        /// Attempted action: `create`, `read`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No run folder can be made below a folder.
    NoRunsFolder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder holds nothing that a run leaves.
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// Another version of bellows wrote it.
    UnknownSchema {
        /// The file.
        path: PathBuf,
        /// Schema that it names.
        found: String,
        /// Schema that this version reads.
        expected: &'static str,
    },
    /// The content makes no sense, beyond a cut-off end.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault, with its place.
        cause: String,
    },
}

impl Error {
    /// Cause, observed value and remedy.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Io { action, path, source } => Problem::io(action, path, source),
            Self::NoRunsFolder { path, source } => Problem::new(
                format!("cannot keep runs in {}", path.display()),
                source,
                "name a folder that you may write to: --runs DIR, or BELLOWS_RUNS",
            ),
            Self::NotARun { path } => Problem::new(
                format!("{} is not a run", path.display()),
                "it holds none of run.json, series.jsonl and latency.hlog",
                "`bellows runs` lists the runs",
            ),
            Self::UnknownSchema { path, found, expected } => Problem::new(
                format!("{} has a schema that this bellows does not read", path.display()),
                format!("{found:?}, not {expected:?}"),
                "use the version of bellows that wrote it",
            ),
            Self::Damaged { path, cause } => Problem::new(
                format!("{} is damaged", path.display()),
                cause,
                "take it from a copy, or run the experiment again",
            ),
        }
    }
}

/// Result of reading an optional file of a run folder; `None` where it is missing.
pub(crate) fn where_present<T>(read: io::Result<T>, path: &Path) -> Result<Option<T>, Error> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { action: "read", path: path.to_path_buf(), source }),
    }
}

/// Passes the lines of an optional file of a run folder to `take` until it returns false, or one has no end.
pub(crate) fn each_line(path: &Path, longest: u64, mut take: impl FnMut(&[u8]) -> bool) -> Result<(), Error> {
    let Some(found) = where_present(bounded::open(path), path)? else { return Ok(()) };
    let (mut input, mut line) = (BufReader::new(found), Vec::new());
    while let Some(Line::Whole | Line::CutOff) =
        where_present(bounded::next_line(&mut input, longest, &mut line), path)?
    {
        if !take(&line) {
            break;
        }
    }
    Ok(())
}

measure::shown_as_problem!(Error);

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        error.problem()
    }
}
