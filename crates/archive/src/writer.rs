//! Writing a run folder while the run goes on.

use std::path::{Path, PathBuf};

use measure::{Interval, Time};

use crate::{Error, RunRecord, SeriesPoint, Warning};

/// Writes one run folder. Nothing here fails once the folder exists: the first error (a full
/// disk, a folder that somebody removed) becomes a warning, and the run goes on.
#[derive(Debug)]
pub struct RunWriter {
    dir: PathBuf,
    id: String,
    warnings: Vec<Warning>,
}

impl RunWriter {
    /// Makes the folder `2026-11-21T00-12-33Z-NAME-7k2q` below `runs_dir`.
    ///
    /// # Errors
    /// Where the folder cannot be made.
    pub fn create(runs_dir: &Path, name: &str, unix_ns: u64) -> Result<Self, Error> {
        let _ = unix_ns;
        Ok(Self { dir: runs_dir.join(name), id: name.to_owned(), warnings: Vec::new() })
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder's name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sets the instant that `t = 0` of the histogram log stands for. Call it before the first
    /// [`RunWriter::append_histograms`].
    pub fn set_origin(&mut self, _origin: Time, _origin_unix_ns: u64) {}

    /// Replaces `run.json` as a whole: a reader sees the old or the new one.
    pub fn write_record(&mut self, _record: &RunRecord) {}

    /// Appends one line to `series.jsonl` and flushes it.
    pub fn append_point(&mut self, _point: &SeriesPoint) {}

    /// Appends the interval's histograms to `latency.hlog`, one line for each metric that has
    /// values, and flushes them.
    pub fn append_histograms(&mut self, _interval: &Interval) {}

    /// Writes a file of the folder as a whole.
    pub fn write_file(&mut self, _name: &str, _content: &[u8]) {}

    /// What could not be written, so far.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}
