//! `report`: the report of a run, or of runs in turns, as one HTML file.

use std::path::PathBuf;

use archive::RunReader;
use clap::Args;

use super::args::RunsDir;
use super::{complete, find};
use crate::failure::{Done, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  bellows report last
  bellows report 7k2q -o /tmp/before.html
  bellows report runs/2026-11-21T00-12-33Z-ab-mine-7k2q

Of a folder of runs in turns (`bellows ab`) it is the page of their comparison, or of all cells of a matrix.";

/// What `bellows report` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Run: path, id, part of its id that only it has, or `last`; or the folder of runs in turns
    #[arg(value_name = "RUN", add = complete::runs())]
    run: String,
    /// File to write instead of report.html in the run's folder
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    runs: RunsDir,
}

impl ReportArgs {
    /// Writes the report and prints its path.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let runs = &self.runs.runs;
        let paired = find::paired_folder(&self.run, runs)?;
        // Where a run is called so, too, it is meant.
        let dir = find::run(&self.run, runs).or_else(|no_run| paired.clone().ok_or(no_run))?;
        let is_paired = paired.as_deref() == Some(&*dir);
        let path = match self.output {
            None if is_paired => report::html::write_comparison(&dir)?,
            None => report::html::write_report(&dir)?,
            Some(path) => {
                let html = match is_paired {
                    true => report::html::render_pairs(&dir, &path)?,
                    false => report::html::render(&RunReader::open(&dir)?)?,
                };
                std::fs::write(&path, html).map_err(|e| Failure::io("write", &path, &e))?;
                path
            }
        };
        output::print(&format!("{}\n", path.display()))?;
        Ok(Done::Fine)
    }
}
