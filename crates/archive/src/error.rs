//! Why a run folder could not be made or read.

use std::io;
use std::path::PathBuf;

/// Why a run folder could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be made, written or read.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `create`, `read`.
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder holds nothing that a run leaves.
    #[error(
        "{} is not a run: it holds none of run.json, series.jsonl and latency.hlog; `bellows runs` lists the runs", path.display()
    )]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// Another version of bellows wrote it.
    #[error(
        "{} has the schema {found:?}, and this bellows reads {expected:?}; use the version of bellows that wrote it", path.display()
    )]
    UnknownSchema {
        /// The file.
        path: PathBuf,
        /// What it says of itself.
        found: String,
        /// What would be understood.
        expected: &'static str,
    },
    /// The content makes no sense, beyond a cut-off end.
    #[error("{} is damaged: {cause}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the place.
        cause: String,
    },
}
