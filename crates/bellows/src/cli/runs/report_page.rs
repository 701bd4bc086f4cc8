//! `runs report`: the report of a run, or of runs in turns, as one HTML file.

use std::path::{Path, PathBuf};

use archive::{FolderKind, RunReader};
use clap::Args;

use super::super::args::RunsDir;
use super::super::open::write_report;
use super::super::{complete, find};
use crate::{Done, Failure, output};

/// File name of a report for others in a run's folder.
const REDACTED: &str = "report-redacted.html";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows runs report
  bellows runs report 7k2q -o /tmp/before.html
  bellows runs report runs/2026-11-21T00-12-33Z-ab-mine-7k2q
  bellows runs report last --redact -o for-others.html

Of a folder of runs in turns (`bellows ab`) it is the page of their comparison, or of all cells of a matrix; of one of \
trials (`bellows limit`) the page of what was found.

--redact puts `queue-1`, `host-2` and the like in the place of names of queues, exchanges, routing keys, virtual \
hosts, hosts, users, nodes, addresses and paths. If one remains, no report is written.")]
pub(super) struct ReportArgs {
    /// Run: path, id, unique start or end of its id, an experiment that ran once, or `last`; or the
    /// folder of runs in turns, or of trials
    #[arg(value_name = "RUN", default_value = find::LAST, add = complete::runs())]
    run: String,
    /// Blot out names, so that the report can be shown to others; writes report-redacted.html in the run's folder
    #[arg(long)]
    redact: bool,
    /// File to write instead of report.html in the run's folder
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    runs: RunsDir,
}

impl ReportArgs {
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let dir = find::to_draw(&self.run, &self.runs.runs)?;
        if self.redact {
            return redacted(&dir, self.output);
        }
        let path = match self.output {
            None => write_report(&dir)?,
            Some(path) => {
                let html = match FolderKind::of(&dir) {
                    Some(FolderKind::Pairs) => report::html::render_pairs(&dir, &path)?,
                    Some(FolderKind::Limit) => report::html::render_limit(&dir, &path)?,
                    None => report::html::render(&RunReader::open(&dir)?)?,
                };
                std::fs::write(&path, html).map_err(|e| Failure::io("write", &path, &e))?;
                path
            }
        };
        output::print(&format!("{}\n", path.display())).map(|()| Done::Fine)
    }
}

/// Writes the report without names, and reports which of them are words of every report.
fn redacted(dir: &Path, output: Option<PathBuf>) -> Result<Done, Failure> {
    let built_in = experiment::built_ins();
    let built_in = built_in.iter().filter_map(|it| experiment::Experiment::built_in(it.name).ok());
    let built_in: Vec<_> = built_in.map(|it| it.to_json()).collect();
    let page = report::html::render_redacted(dir, &built_in)?;
    let path = output.unwrap_or_else(|| dir.join(REDACTED));
    stacks::write_output(&path, page.html.as_bytes()).map_err(|e| Failure::io("write", &path, &e))?;
    for (why, names) in [
        ("names that are common words are kept in prose", &page.ordinary),
        ("names of built-in experiments are kept", &page.kept),
    ] {
        if !names.is_empty() {
            output::line_aside(&format!("{why}: {}", names.join(", ")));
        }
    }
    output::print(&format!("{}\n", path.display())).map(|()| Done::Fine)
}
