//! `runs history`: where the figures of an experiment's runs changed their level.

use archive::{FolderKind, RunEntry, RunFilter, RunRecord};
use clap::Args;
use report::console;

use super::super::args::RunsDir;
use super::super::compare::level;
use super::super::find;
use crate::{Done, Failure, output};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows runs history stream-publish
  bellows runs history stream-publish --filter 'tag=nightly' --json
  bellows runs history mine --runs /srv/nightly

The newest run decides which count: those of its machine, its load and its bellows; brokers may differ. Trials of \
`limit` never count, runs of `ab` only with --filter. A change is called one where a cut of the \
series, or a window in it, is better than those of the same values in random orders. `bellows help ab` says more.")]
pub(super) struct HistoryArgs {
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
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let mut entries = find::list(&self.runs.runs)?;
        find::leave_parts_out(&mut entries);
        let mut wanted: Vec<&RunEntry> = entries.iter().collect();
        wanted.retain(|entry| self.matches(entry) && !entry.active && self.set_aside(entry).is_none());
        let records: Vec<RunRecord> = (wanted.iter())
            .filter_map(|entry| entry.record.as_ref().ok())
            .filter(|record| record.name == self.name)
            .cloned()
            .collect();
        // Nothing but its id tells whose run it was.
        let own = archive::sanitised(&self.name);
        wanted.retain(|it| it.record.is_err() && name_in(&it.id) == Some(own.as_str()));
        if let Some(newest) = wanted.first() {
            if records.is_empty() {
                return Err(find::unreadable(newest, None));
            }
            output::line_aside(&format!(
                "{} of {:?} left out, which cannot be read, such as {}",
                measure::counted(wanted.len() as u64, "run"),
                self.name,
                newest.id
            ));
        }
        if records.is_empty() {
            let mut names: Vec<&str> =
                entries.iter().filter_map(|it| it.record.as_ref().ok().map(|run| run.name.as_str())).collect();
            names.sort_unstable();
            names.dedup();
            let known = match names.as_slice() {
                [] => "make some with `bellows run`, or name the folder with --runs".to_owned(),
                names => format!("there are runs of {}", names.join(", ")),
            };
            let (verb, help) = match self.why_none(&entries) {
                Some(why) => ("counts", why),
                None => ("is kept", known),
            };
            let failure = Failure::failed(format!("no run of {:?} {verb}", self.name), help);
            return Err(failure.observed(self.runs.runs.display()));
        }
        let mut history = study::history(&self.name, &records, self.level);
        history.remarks.extend(self.aside(&entries, FolderKind::Limit));
        history.remarks.extend(self.aside(&entries, FolderKind::Pairs));
        output::print_result(self.json, &history, |style| console::history(&history, style))
    }

    fn matches(&self, entry: &RunEntry) -> bool {
        self.filter.as_ref().is_none_or(|it| it.matches(entry))
    }

    fn is_named(&self, entry: &RunEntry) -> bool {
        entry.record.as_ref().is_ok_and(|run| run.name == self.name)
    }

    /// Folder because of which a run does not count: a trial of a limit never, for each has another rate, and a run of
    /// `ab`, of which one side is changed on purpose, only where runs are chosen by a filter.
    fn set_aside(&self, entry: &RunEntry) -> Option<FolderKind> {
        let kind = entry.dir.parent().and_then(FolderKind::of)?;
        (kind == FolderKind::Limit || self.filter.is_none()).then_some(kind)
    }

    /// Number of matching runs of such folders, with the reason why they do not count; `None` where there is none.
    fn aside(&self, entries: &[RunEntry], kind: FolderKind) -> Option<String> {
        let is_aside = |it: &&RunEntry| self.is_named(it) && self.matches(it) && self.set_aside(it) == Some(kind);
        let number = entries.iter().filter(is_aside).count() as u64;
        (number > 0).then(|| match kind {
            FolderKind::Limit => {
                format!("{} of `limit` left out: each has its own rate", measure::counted(number, "trial"))
            }
            FolderKind::Pairs => {
                format!("{} of `ab` left out; --filter counts those that match it", measure::counted(number, "run"))
            }
        })
    }

    /// Why no run of this name counts; `None` where none is kept.
    fn why_none(&self, entries: &[RunEntry]) -> Option<String> {
        let named = || entries.iter().filter(|it| self.is_named(it));
        let first = named().next()?;
        let aside = [FolderKind::Pairs, FolderKind::Limit].into_iter().find_map(|kind| self.aside(entries, kind));
        if let Some(aside) = aside {
            return Some(format!("{aside}; make runs with `bellows run {}`", self.name));
        }
        Some(match named().any(|it| self.matches(it)) {
            true => format!("{} has not ended: wait for it", first.id),
            false => "none of them matches --filter".to_owned(),
        })
    }
}

/// The experiment's name as a run's id has it: between the time and the random end.
fn name_in(id: &str) -> Option<&str> {
    let (_, rest) = id.split_once("Z-")?;
    rest.rsplit_once('-').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It said that no run of this name is kept.
    #[test]
    fn a_run_of_another_version_is_kept_and_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("2026-11-21T00-00-00Z-my-prod-x1");
        std::fs::create_dir(&run).unwrap();
        let old = r#"{"schema": "bellows.run-record/1"}"#;
        std::fs::write(run.join(archive::file::RECORD), old).unwrap();
        let told = |name: &str| {
            let runs = RunsDir { runs: dir.path().to_owned() };
            let history = HistoryArgs { name: name.to_owned(), filter: None, level: 0.05, json: true, runs };
            history.execute().unwrap_err().sentence().unwrap()
        };
        let of_own = told("my prod");
        assert!(of_own.contains("my-prod-x1 cannot be read"), "{of_own}");
        assert!(of_own.contains("the version of bellows that wrote it"));
        assert!(told("prod").contains("no run of \"prod\" is kept"));
    }
}
