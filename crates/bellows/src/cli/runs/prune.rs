//! `runs rm` and `runs prune`: removing runs.

use std::time::Duration;

use archive::{Retention, RunEntry, prunable};
use clap::{ArgGroup, Args};
use jiff::{Span, SpanRelativeTo, Timestamp};
use report::console;

use crate::cli::args::RunsDir;
use crate::cli::find;
use crate::failure::{Done, Failure};
use crate::output;

/// What `bellows runs rm` was given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bellows runs rm 7k2q\n  bellows runs rm 7k2q x3m4 --dry-run")]
pub(super) struct RmArgs {
    /// Runs: path, id, or part of an id that only one has
    #[arg(value_name = "RUN", required = true)]
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

/// What `bellows runs prune` was given.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bellows runs prune --keep 20 --dry-run\n  bellows runs prune --keep 20 --older-than 30d\n\nRuns that have a tag, have not ended or cannot be read are never pruned.",
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
    length
        .ok()
        .and_then(|length| length.try_into().ok())
        .ok_or_else(expected)
}

impl RmArgs {
    /// Removes the runs, or none where one of them is not found.
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let found = self
            .which
            .iter()
            .map(|name| find::entry(name, &self.runs.runs));
        let entries = found.collect::<Result<Vec<_>, Failure>>()?;
        let kept = |entry: &&RunEntry| entry.labels.as_ref().map_or(true, |l| !l.tags.is_empty());
        if let Some(tagged) = entries.iter().find(kept).filter(|_| !self.tagged) {
            let labels = console::labels(tagged);
            return Err(Failure::usage(
                format!("{} has a tag, and nothing was removed", tagged.id),
                "give --tagged to remove it all the same",
            )
            .observed(labels));
        }
        remove(entries.iter(), self.dry_run)
    }
}

impl PruneArgs {
    /// Removes what may go.
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let entries = find::list(&self.runs.runs)?;
        let retention = Retention {
            keep: self.keep.unwrap_or(0),
            older_than: self.older_than,
        };
        remove(
            prunable(&entries, retention, Timestamp::now()),
            self.dry_run,
        )
    }
}

/// Removes runs, and prints the id of each and how much room that made.
fn remove<'a>(
    entries: impl IntoIterator<Item = &'a RunEntry>,
    dry_run: bool,
) -> Result<Done, Failure> {
    let (mut number, mut bytes) = (0, 0);
    for entry in entries {
        if !dry_run {
            archive::remove_run(&entry.dir)?;
        }
        output::print(&format!("{}\n", entry.id))?;
        number += 1;
        bytes += entry.bytes;
    }
    output::print(&console::removed(number, bytes, dry_run))?;
    Ok(Done::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_lengths_of_time() {
        let days = |days: u64| Ok(Duration::from_secs(days * 86_400));
        assert_eq!(age("30d"), days(30));
        assert_eq!(age("2w"), days(14));
        assert_eq!(age("36h"), Ok(Duration::from_secs(36 * 3_600)));
        for wrong in ["", "30", "-3d", "1mo", "soon"] {
            assert!(age(wrong).is_err(), "{wrong:?}");
        }
    }
}
