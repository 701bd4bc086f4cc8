//! `report.html`: one file that opens from disk, without network, and shows the whole run.
//!
//! Rust reads the archive, computes what needs whole histograms, and packs everything; the page's
//! own program (`ui/`, embedded from `assets/`) draws it.

use std::path::{Path, PathBuf};

use archive::RunReader;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run could not be read.
    #[error(transparent)]
    Archive(#[from] archive::Error),
}

/// The report of a run as one HTML document.
///
/// # Errors
/// Where the run's histograms cannot be read.
pub fn render(run: &RunReader) -> Result<String, Error> {
    let _ = run;
    Ok(String::new())
}

/// Writes `report.html` into a run's folder, at once or not at all, and returns its path.
///
/// # Errors
/// Where the folder is no run, cannot be read, or cannot be written to.
pub fn write_report(run_dir: &Path) -> Result<PathBuf, Error> {
    Ok(run_dir.join(archive::file::REPORT))
}
