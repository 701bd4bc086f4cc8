//! `runs`: commands on kept runs.

mod change;
mod history;
mod prune;
mod report_page;

use archive::{FleetPart, FolderKind, Labels, RunEntry, RunFilter, RunOrder, RunSummary};
use clap::{Args, Subcommand};
use report::console;
use serde::Serialize;

use super::args::{RunsDir, named};
use super::{complete, find};
use crate::{Done, Failure, output};

const EXAMPLES: &str = "\
Examples:
  bellows runs
  bellows runs --filter 'name=stream* broker=4.*' --sort p99
  bellows runs show
  bellows runs report
  bellows runs history demo
  bellows runs tag 7k2q baseline
  bellows runs prune --keep 20 --older-than 30d --dry-run
  bellows runs data

To export figures: `bellows runs show RUN --json`; a profile in another tool's format: `bellows flame RUN -o FILE`; \
series during a run: `bellows help metrics`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List runs, as no command does
    #[command(hide = true)]
    List(ListArgs),
    /// Print the end of a run again, with its note and tags; -v prints all figures
    Show(change::ShowArgs),
    /// Tag a run; a run with a tag is never pruned
    Tag(change::TagArgs),
    /// Put a note on a run
    Note(change::NoteArgs),
    /// Write the report of a run, or of runs in turns, as one HTML file
    Report(report_page::ReportArgs),
    /// Show where an experiment's figures changed from run to run
    History(history::HistoryArgs),
    /// Remove runs
    Rm(prune::RmArgs),
    /// Remove old runs that have no tag
    Prune(prune::PruneArgs),
    /// List or remove data of brokers that experiments prepared (broker.data = "prepare")
    Data(prune::DataArgs),
}

impl RunsArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        match self.action {
            None => self.list.execute(),
            Some(action) => execute!(action, Action: List Show Tag Note Report History Rm Prune Data),
        }
    }
}

#[derive(Debug, Args)]
struct RunArg {
    /// Run: path, id, unique start or end of its id, an experiment that ran once, or `last`
    #[arg(value_name = "RUN", add = complete::runs())]
    run: String,
    #[command(flatten)]
    runs: RunsDir,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Number of runs to show; 0 = all
    #[arg(long, short = 'n', value_name = "N", default_value_t = 0)]
    limit: usize,
    /// Show only runs that match: 'name=stream* broker=4.*'. Keys: id, name, broker, state, requirements, tag, note,
    /// recording, label
    #[arg(long, value_name = "FILTER")]
    filter: Option<RunFilter>,
    /// Order of the runs
    #[arg(long, value_name = "BY", default_value = "time", value_parser = named::<RunOrder>())]
    sort: RunOrder,
    /// Print the runs as a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    runs: RunsDir,
}

#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    dir: String,
    name: Option<&'a str>,
    created: Option<&'a str>,
    state: Option<archive::RunState>,
    active: bool,
    requirements: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<&'a FleetPart>,
    seconds: Option<f64>,
    bytes: u64,
    labels: Option<&'a Labels>,
    summary: Option<&'a RunSummary>,
    error: Option<&'a str>,
}

fn row(entry: &RunEntry) -> Row<'_> {
    let record = entry.record.as_ref().ok();
    Row {
        id: &entry.id,
        dir: entry.dir.display().to_string(),
        name: record.map(|r| r.name.as_str()),
        created: record.map(|r| r.created.as_str()),
        state: record.map(|r| r.state),
        active: entry.active,
        requirements: entry.requirements(),
        fleet: entry.fleet(),
        seconds: entry.seconds(),
        bytes: entry.bytes,
        labels: entry.labels.as_ref().ok(),
        summary: record.and_then(|r| r.summary.as_ref()),
        error: entry.record.as_ref().err().map(String::as_str),
    }
}

impl ListArgs {
    fn execute(self) -> Result<Done, Failure> {
        let mut entries = find::list(&self.runs.runs)?;
        let all = entries.len();
        if let Some(filter) = &self.filter {
            entries.retain(|entry| filter.matches(entry));
        }
        archive::sort_runs(&mut entries, self.sort);
        if self.limit > 0 {
            entries.truncate(self.limit);
        }
        let dir = self.runs.runs.display();
        if self.json {
            output::print_json(&entries.iter().map(row).collect::<Vec<_>>())?;
        } else if all == 0 {
            output::print(&format!("no runs in {dir}; make one with `bellows demo`\n"))?;
        } else if entries.is_empty() {
            let all = measure::counted(all as u64, "run");
            output::print(&format!("none of {all} in {dir} matches\n"))?;
        } else {
            output::print(&console::runs(&entries, output::style()))?;
            if self.filter.is_none() && self.limit == 0 {
                self.print_folders(&entries)?;
            }
        }
        Ok(Done::Fine)
    }

    /// The folders of several runs, whose runs are in the table.
    fn print_folders(&self, entries: &[RunEntry]) -> Result<(), Failure> {
        let folders = find::all_folders(&self.runs.runs)?;
        let rows: Vec<(String, String)> = (folders.iter())
            .map(|(dir, kind)| {
                let name = dir.file_name().unwrap_or_default().to_string_lossy();
                let inside = entries.iter().filter(|it| it.dir.starts_with(dir));
                let command = match kind {
                    FolderKind::Pairs => "ab",
                    FolderKind::Limit => "limit",
                };
                let runs = measure::counted(inside.count() as u64, "run");
                (name.into_owned(), format!("{command}, {runs}"))
            })
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let listed = console::listed(&rows, output::style());
        output::print(&format!("\nfolders of several runs\n{listed}"))
    }
}

#[cfg(test)]
mod tests {
    use archive::RunFilter;
    use clap::CommandFactory as _;

    use crate::cli::Cli;

    #[test]
    fn help_and_error_name_the_same_keys_of_a_filter() {
        let runs = Cli::command();
        let runs = runs.find_subcommand("runs").expect("a command");
        let mut args = runs.get_arguments();
        let filter = args.find(|arg| arg.get_long() == Some("filter"));
        let help = filter.and_then(clap::Arg::get_help).expect("a help").to_string();
        let error = "x=y".parse::<RunFilter>().expect_err("no such key");
        let keys = error.split_once("keys are ").expect("keys").1;
        assert!(help.ends_with(&format!("Keys: {keys}")), "{help}: {error}");
    }

    #[test]
    fn list_is_what_no_command_does() {
        let line = ["bellows", "runs", "list", "-n", "3", "--sort", "p99"];
        let parsed = Cli::command().try_get_matches_from(line);
        assert!(parsed.is_ok(), "{parsed:?}");
    }
}
