//! `report.html`: one file that opens from disk, without network, and shows the whole run.
//!
//! [`crate::view`] is the data; it is packed beside the page's program (`ui/`, embedded from `assets/`).

mod comparison;
mod limit;
mod page;

#[cfg(test)]
mod forms_tests;

use std::path::{Path, PathBuf};

use archive::{FolderKind, RunReader};
use measure::Problem;
use serde_json::Value;

pub use comparison::{render_comparison, render_matrix, render_pairs, write_comparison};
pub use limit::{render_limit, write_limit};

use crate::redact::Redaction;
use crate::view::RunPage;

/// The report of a run as one HTML document. Works for runs that were cut off, and for those without load, profile or
/// knowledge of the broker: missing parts are left out, and mentioned where it matters. Errors: where the run's
/// histograms cannot be read.
pub fn render(run: &RunReader) -> Result<String, Problem> {
    page::document(&RunPage::read(run)?)
}

/// A page without names, to be shown to others.
#[derive(Clone, Debug)]
pub struct RedactedPage {
    /// The document.
    pub html: String,
    /// Names that are words of every report, such as `test (queue)`: blotted as names, and not in sentences.
    pub ordinary: Vec<String>,
    /// Names that stay readable, since built-in experiments are called so.
    pub kept: Vec<String>,
}

/// The page of a run, of runs in pairs or of trials, without the names of queues, exchanges, routing keys, virtual
/// hosts, hosts, users, nodes and paths. Names that the `built_in` experiments brought along stay. Errors: where the
/// folder holds nothing of that kind, or a name would remain.
pub fn render_redacted(dir: &Path, built_in: &[Value]) -> Result<RedactedPage, Problem> {
    let mut redaction = Redaction::new(built_in);
    let html = match FolderKind::of(dir) {
        Some(FolderKind::Pairs) => comparison::redacted(dir, &mut redaction)?,
        Some(FolderKind::Limit) => limit::redacted(dir, &mut redaction)?,
        None => {
            let mut page = RunPage::read(&RunReader::open(dir)?)?;
            page::redacted(&mut page, dir, &mut redaction)?
        }
    };
    Ok(RedactedPage { html, ordinary: redaction.ordinary(), kept: redaction.kept() })
}

/// Writes `report.html` into a run's folder, at once or not at all, and returns its path. Errors: where the folder is
/// no run, cannot be read, or cannot be written to.
pub fn write_report(run_dir: &Path) -> Result<PathBuf, Problem> {
    let run = RunReader::open(run_dir)?;
    let document = render(&run)?;
    keep(run_dir, &document)
}

/// Writes a document into a folder, at once or not at all, and returns its path.
fn keep(dir: &Path, document: &str) -> Result<PathBuf, Problem> {
    let path = dir.join(archive::file::REPORT);
    stacks::replace_file(&path, document.as_bytes()).map_err(|source| {
        let cause = format!("cannot write {}", path.display());
        let help = "free some space or change its permissions; `bellows runs report` draws it again";
        Problem::new(cause, source, help)
    })?;
    Ok(path)
}
