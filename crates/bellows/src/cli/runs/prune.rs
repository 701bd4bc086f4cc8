//! `runs rm` and `runs prune`: removing runs. `runs data`: the data of brokers that experiments prepared.

use std::path::PathBuf;
use std::time::Duration;

use archive::{Removable, Retention, RunEntry, prunable};
use clap::{ArgGroup, Args};
use jiff::{Span, SpanRelativeTo, Timestamp};
use measure::{Problem, counted};
use report::console;
use session::{PreparedData, PreparedFolder};

use crate::cli::args::RunsDir;
use crate::cli::{complete, find};
use crate::{Done, Failure, output};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bellows runs rm 7k2q\n  bellows runs rm 7k2q x3m4 --dry-run")]
pub(super) struct RmArgs {
    /// Runs: path, id, or part of an id that only one has
    #[arg(value_name = "RUN", required = true, add = complete::runs())]
    which: Vec<String>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Also remove runs that have a tag
    #[arg(long)]
    tagged: bool,
    #[command(flatten)]
    runs: RunsDir,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bellows runs prune --keep 20 --dry-run\n  bellows runs prune --keep 20 --older-than \
                  30d\n\nRuns that have a tag, have not ended or cannot be read are never pruned, nor those in a \
                  folder of `ab` or `limit`: remove such a folder as a whole, by hand.",
    group = ArgGroup::new("which").args(["keep", "older_than"]).required(true).multiple(true)
)]
pub(super) struct PruneArgs {
    /// Keep this many of the newest runs
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Keep runs that are not older: 30d, 12h, 2w
    #[arg(long, value_name = "LENGTH", value_parser = age)]
    older_than: Option<Duration>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    runs: RunsDir,
}

/// Reads a length of time that may be days and weeks long.
fn age(text: &str) -> Result<Duration, String> {
    let expected = || "expected a length of time, such as 30d, 2w or 12h".to_owned();
    let span: Span = text.parse().map_err(|_| expected())?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours());
    length.ok().and_then(|length| length.try_into().ok()).ok_or_else(expected)
}

impl RmArgs {
    /// Removes the runs, or none where one of them is missing or protected.
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let found = self.which.iter().map(|name| find::entry(name, &self.runs.runs));
        let mut entries = found.collect::<Result<Vec<_>, Failure>>()?;
        entries.sort_by(|a, b| a.dir.cmp(&b.dir));
        entries.dedup_by(|a, b| a.dir == b.dir);
        let tagged = |entry: &&RunEntry| entry.labels.as_ref().is_ok_and(|l| !l.tags.is_empty());
        if let Some(tagged) = entries.iter().find(tagged).filter(|_| !self.tagged) {
            let labels = console::labels(tagged);
            let cause = format!("{} has a tag, and nothing was removed", tagged.id);
            return Err(Failure::usage(cause, "give --tagged to remove it all the same").observed(labels));
        }
        let checked = entries.iter().map(|entry| Removable::find(&entry.dir, self.tagged));
        let checked = checked.collect::<Result<Vec<_>, _>>()?;
        let mut removed = Removed::default();
        for (entry, run) in entries.iter().zip(checked) {
            removed.add(entry, run, self.dry_run)?;
        }
        removed.tell(self.dry_run)
    }
}

impl PruneArgs {
    /// Removes all that may go. A run that cannot be removed does not keep the others.
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let entries = find::list(&self.runs.runs)?;
        let retention = Retention { keep: self.keep.unwrap_or(0), older_than: self.older_than };
        let mut removed = Removed::default();
        for entry in prunable(&entries, retention, Timestamp::now()) {
            let done = Removable::find(&entry.dir, false)
                .map_err(Failure::from)
                .and_then(|run| removed.add(entry, run, self.dry_run));
            match done {
                Err(Failure::Failed(problem)) => {
                    output::line_aside(&format!("stays: {}", problem.sentence()));
                }
                done => done?,
            }
        }
        let folders = find::all_folders(&self.runs.runs)?.len();
        if folders > 0 {
            let folders = counted(folders as u64, "folder");
            output::line_aside(&format!("{folders} of `ab` or `limit` left whole; remove them by hand"));
        }
        removed.tell(self.dry_run)
    }
}

#[derive(Default)]
struct Removed {
    number: u64,
    bytes: u64,
}

impl Removed {
    fn add(&mut self, entry: &RunEntry, run: Removable, dry_run: bool) -> Result<(), Failure> {
        if !dry_run {
            run.remove()?;
        }
        self.number += 1;
        self.bytes += entry.bytes;
        output::print(&format!("{}\n", entry.id))
    }

    /// Reports the number of runs, and the space that they took.
    fn tell(self, dry_run: bool) -> Result<Done, Failure> {
        output::print(&console::removed(self.number, self.bytes, dry_run)).map(|()| Done::Fine)
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bellows runs data\n  bellows runs data --remove 3f2a9c01d4e5b678\n  bellows runs data \
                  --remove all\n\nExperiments with broker.data = \"prepare\" keep it; `bellows help experiments` says \
                  what it is for."
)]
pub(super) struct DataArgs {
    /// Remove prepared data: its name, or `all`. May be repeated
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "remove")]
    json: bool,
    /// Folder, where an experiment names one (broker.data-dir)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl DataArgs {
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let folder = PreparedFolder::of(self.dir.as_deref()).map_err(Failure::Failed)?;
        let kept = folder.list().map_err(Failure::Failed)?;
        if !self.remove.is_empty() {
            return remove_data(&folder, &kept, &self.remove);
        }
        let rows: Vec<(&str, String)> = kept.iter().map(|data| (data.key.as_str(), described_data(data))).collect();
        match kept.is_empty() {
            _ if self.json => output::print_json(&kept)?,
            true => output::print(&format!("no prepared data in {}\n", folder.dir().display()))?,
            false => output::print(&console::listed(&rows, output::style()))?,
        }
        Ok(Done::Fine)
    }
}

fn described_data(data: &PreparedData) -> String {
    let (separator, what) = (if data.what.is_empty() { "" } else { "; " }, &data.what);
    let size = megabytes(data.bytes);
    format!("{size} of {}, {}, {}{separator}{what}", data.broker, data.experiment, data.created)
}

fn remove_data(folder: &PreparedFolder, kept: &[PreparedData], names: &[String]) -> Result<Done, Failure> {
    let is_all = names.iter().any(|name| name == "all");
    let is_kept = |name: &&String| kept.iter().any(|data| data.key == **name);
    if let Some(unknown) = names.iter().find(|name| !is_all && !is_kept(name)) {
        let cause = format!("there is no prepared data {unknown}, and nothing was removed");
        let help = "`bellows runs data` lists what there is";
        return Err(Failure::Failed(Problem::new(cause, folder.dir().display(), help)));
    }
    let meant = kept.iter().filter(|data| is_all || names.contains(&data.key));
    let (mut number, mut bytes) = (0, 0);
    for data in meant {
        folder.remove(&data.key).map_err(Failure::Failed)?;
        output::print(&format!("{}\n", data.key))?;
        number += 1;
        bytes += data.bytes;
    }
    let folders = counted(number, "folder");
    output::print(&format!("removed {folders}, {}\n", megabytes(bytes))).map(|()| Done::Fine)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_lengths_of_time() {
        for (text, hours) in [("30d", 30 * 24), ("2w", 14 * 24), ("36h", 36)] {
            assert_eq!(age(text), Ok(Duration::from_secs(hours * 3_600)), "{text}");
        }
        for wrong in ["", "30", "-3d", "1mo", "soon"] {
            assert!(age(wrong).is_err(), "{wrong:?}");
        }
    }
}
