//! `report`: a run's report as one HTML file.

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
  bellows report 7k2q -o /tmp/before.html";

/// What `bellows report` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Run: path, id, part of its id that only it has, or `last`
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
        let dir = find::run(&self.run, &self.runs.runs)?;
        let path = match self.output {
            None => report::html::write_report(&dir)?,
            Some(path) => {
                let html = report::html::render(&RunReader::open(&dir)?)?;
                std::fs::write(&path, html).map_err(|e| Failure::io("write", &path, &e))?;
                path
            }
        };
        output::print(&format!("{}\n", path.display()))?;
        Ok(Done::Fine)
    }
}
