//! `runs`: commands on kept runs.

mod change;
mod data;
mod list;
mod prune;

use clap::{Args, Subcommand};

use super::args::RunsDir;
use super::complete;
use crate::failure::{Done, Failure};

const EXAMPLES: &str = "\
Examples:
  bellows runs
  bellows runs --filter 'name=stream* broker=4.*' --sort p99
  bellows runs show last
  bellows runs tag 7k2q baseline
  bellows runs prune --keep 20 --older-than 30d --dry-run
  bellows runs data";

/// Options of `bellows runs`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: list::ListArgs,
}

/// Commands about kept runs.
#[derive(Debug, Subcommand)]
enum Action {
    /// Print a run's summary again, with its folder, note and tags
    Show(change::ShowArgs),
    /// Tag a run; a run with a tag is never pruned
    Tag(change::TagArgs),
    /// Put a note on a run
    Note(change::NoteArgs),
    /// Remove runs
    Rm(prune::RmArgs),
    /// Remove old runs that have no tag
    Prune(prune::PruneArgs),
    /// List or remove data of brokers that experiments prepared (broker.data = "prepare")
    Data(data::DataArgs),
}

impl RunsArgs {
    /// Does it.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        match self.action {
            None => self.list.execute(),
            Some(Action::Show(args)) => args.execute(),
            Some(Action::Tag(args)) => args.execute(),
            Some(Action::Note(args)) => args.execute(),
            Some(Action::Rm(args)) => args.execute(),
            Some(Action::Prune(args)) => args.execute(),
            Some(Action::Data(args)) => args.execute(),
        }
    }
}

/// A run that was kept.
#[derive(Debug, Args)]
struct RunArg {
    /// Run: path, id, part at either end of its id that only it has, an experiment that ran once, or `last`
    #[arg(value_name = "RUN", add = complete::runs())]
    run: String,
    #[command(flatten)]
    runs: RunsDir,
}

impl RunArg {
    /// The run's entry in the archive.
    fn entry(&self) -> Result<archive::RunEntry, Failure> {
        super::find::entry(&self.run, &self.runs.runs)
    }
}
