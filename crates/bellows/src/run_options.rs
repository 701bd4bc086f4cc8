//! This program's options for runs of `session`.

use std::path::{Path, PathBuf};

use archive::Labels;
use session::RunOptions;

use crate::failure::Failure;

/// Options for a run by this program, which the archive remembers as `command`.
pub(crate) fn run_options(
    runs_dir: Option<PathBuf>,
    labels: Labels,
    command: Vec<String>,
) -> Result<RunOptions, Failure> {
    Ok(RunOptions {
        runs_dir,
        labels,
        command,
        bellows_exe: std::env::current_exe()
            .map_err(|e| Failure::io("find", Path::new("the bellows executable"), &e))?,
        scenarios: session::SCENARIOS,
        texts: session::Texts {
            verdict: report::text::verdict,
            warning: report::text::warning,
            options: report::text::options,
        },
    })
}
