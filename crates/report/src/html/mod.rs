//! `report.html`: one file that opens from disk, without network, and shows the whole run.
//!
//! [`crate::view`] is the data; it is packed here beside the page's own program (`ui/`, embedded from
//! `assets/`), which draws it.

mod comparison;
mod limit;
mod matrix;
mod page;

#[cfg(test)]
mod forms_tests;

use std::path::{Path, PathBuf};

use archive::RunReader;
use measure::Problem;

pub use comparison::{render_comparison, render_pairs, write_comparison};
pub use limit::{render_limit, write_limit};
pub use matrix::render_matrix;

use crate::view::RunPage;

/// The report of a run as one HTML document. Works for runs that were cut off, and for those
/// without load, without profile or without anything known of the broker: what is missing is left
/// out, and said where it matters.
///
/// # Errors
/// Where the run's histograms cannot be read.
pub fn render(run: &RunReader) -> Result<String, Problem> {
    page::document(&RunPage::read(run)?)
}

/// Writes `report.html` into a run's folder, at once or not at all, and returns its path.
///
/// # Errors
/// Where the folder is no run, cannot be read, or cannot be written to.
pub fn write_report(run_dir: &Path) -> Result<PathBuf, Problem> {
    let run = RunReader::open(run_dir)?;
    let document = render(&run)?;
    keep(run_dir, &document)
}

/// Writes a document into a folder, at once or not at all, and returns its path.
fn keep(dir: &Path, document: &str) -> Result<PathBuf, Problem> {
    let path = dir.join(archive::file::REPORT);
    archive::replace_file(&path, document.as_bytes()).map_err(|source| {
        let cause = format!("cannot write {}", path.display());
        let help = "free some space or change its permissions; `bellows report` draws it again";
        Problem::new(cause, source, help)
    })?;
    Ok(path)
}
