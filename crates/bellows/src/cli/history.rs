//! `history`: where the figures of an experiment's runs changed their level.

use archive::{FolderKind, RunFilter, RunRecord};
use clap::Args;
use report::console;

use super::args::RunsDir;
use super::compare::level;
use super::find;
use crate::failure::{Done, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  bellows history stream-publish
  bellows history stream-publish --filter 'tag=nightly' --json
  bellows history mine --runs /srv/nightly

The newest run decides which count: those of its machine, its load and its bellows; brokers may differ. A change is \
called one where a cut of the series, or a window in it, is better than those of the same values in random orders. \
`bellows help comparison` says more.";

/// Options of `bellows history`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HistoryArgs {
    /// Name of the experiment, as `bellows runs` shows it
    #[arg(value_name = "EXPERIMENT")]
    name: String,
    /// Only runs that match: 'tag=nightly broker=4.*', as of `bellows runs`
    #[arg(long, value_name = "FILTER")]
    filter: Option<RunFilter>,
    /// Chance to call anything a change in runs that have none, all figures together
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = level)]
    level: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    runs: RunsDir,
}

impl HistoryArgs {
    /// Reads the runs and prints their history.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let entries = find::list(&self.runs.runs)?;
        let wanted = entries.iter().filter(|entry| {
            let matches = self.filter.as_ref().is_none_or(|it| it.matches(entry));
            // Each trial of a limit has another rate.
            let folder = entry.dir.parent().and_then(FolderKind::of);
            matches && !entry.active && folder != Some(FolderKind::Limit)
        });
        let records: Vec<RunRecord> = wanted
            .filter_map(|entry| entry.record.as_ref().ok())
            .filter(|record| record.name == self.name)
            .cloned()
            .collect();
        if records.is_empty() {
            let mut names: Vec<&str> = entries
                .iter()
                .filter_map(|it| it.record.as_ref().ok().map(|run| run.name.as_str()))
                .collect();
            names.sort_unstable();
            names.dedup();
            let known = match names.as_slice() {
                [] => "make some with `bellows run`, or name the folder with --runs".to_owned(),
                names => format!("there are runs of {}", names.join(", ")),
            };
            return Err(
                Failure::failed(format!("no run of {:?} is kept", self.name), known)
                    .observed(self.runs.runs.display()),
            );
        }
        let history = study::history(&self.name, &records, self.level);
        match self.json {
            true => output::print_json(&history)?,
            false => output::print(&console::history(&history, output::style()))?,
        }
        Ok(Done::Fine)
    }
}
