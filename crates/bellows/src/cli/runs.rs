//! `runs`: what was kept.

use archive::{RunEntry, RunSummary};
use clap::Args;
use report::console;
use serde::Serialize;

use super::args::RunsDir;
use super::find;
use crate::failure::{Done, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  bellows runs
  bellows runs --limit 5 --json
  bellows report last";

/// What `bellows runs` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunsArgs {
    /// Runs to show, newest first; 0 is all
    #[arg(long, short = 'n', value_name = "N", default_value_t = 0)]
    limit: usize,
    /// Print the runs as a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    runs: RunsDir,
}

/// One run for machines.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    dir: String,
    name: Option<&'a str>,
    created: Option<&'a str>,
    state: Option<archive::RunState>,
    summary: Option<&'a RunSummary>,
    error: Option<&'a str>,
}

impl<'a> From<&'a RunEntry> for Row<'a> {
    fn from(entry: &'a RunEntry) -> Self {
        let record = entry.record.as_ref().ok();
        Self {
            id: &entry.id,
            dir: entry.dir.display().to_string(),
            name: record.map(|r| r.name.as_str()),
            created: record.map(|r| r.created.as_str()),
            state: record.map(|r| r.state),
            summary: record.and_then(|r| r.summary.as_ref()),
            error: entry.record.as_ref().err().map(String::as_str),
        }
    }
}

impl RunsArgs {
    /// Prints the table.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let mut entries = find::list(&self.runs.runs)?;
        if self.limit > 0 {
            entries.truncate(self.limit);
        }
        if self.json {
            output::print_json(&entries.iter().map(Row::from).collect::<Vec<_>>())?;
        } else if entries.is_empty() {
            let dir = self.runs.runs.display();
            output::print(&format!("no runs in {dir}; make one with `bellows demo`\n"))?;
        } else {
            output::print(&console::runs(&entries, output::style()))?;
        }
        Ok(Done::Fine)
    }
}
