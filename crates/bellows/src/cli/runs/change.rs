//! `runs show`, `runs tag` and `runs note`: one run, and its labels; or the result of several.

use std::path::Path;

use archive::{ComparedMatrix, FolderKind, Labels, LimitTrials, RunEntry, RunRecord, RunSummary, Tag};
use clap::Args;
use experiment::LoadSpec;
use measure::Metric;
use report::console::{self, Shape};

use super::super::{limit, paired};
use super::{RunArg, RunsDir, complete, find};
use crate::{Done, Failure, output};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bellows runs show\n  bellows runs show -v last\n  bellows runs show 7k2q --json")]
pub(super) struct ShowArgs {
    /// Run: path, id, unique start or end of its id, an experiment that ran once, or `last`; or the folder of runs in
    /// turns, or of trials
    #[arg(value_name = "RUN", default_value = find::LAST, add = complete::runs())]
    run: String,
    /// Print all figures, reasons and warnings
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    runs: RunsDir,
    /// Print the run's run.json
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bellows runs tag last baseline\n  bellows runs tag 7k2q baseline --remove")]
pub(super) struct TagArgs {
    #[command(flatten)]
    run: RunArg,
    /// Tags: words of letters, digits and . _ - / : =
    #[arg(value_name = "TAG", required = true)]
    tags: Vec<Tag>,
    /// Take the tags away
    #[arg(long)]
    remove: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bellows runs note last 'new disk'\n  bellows runs note 7k2q ''")]
pub(super) struct NoteArgs {
    #[command(flatten)]
    run: RunArg,
    /// The note, which takes the place of an earlier one; empty removes it
    #[arg(value_name = "TEXT", value_parser = Labels::note_of)]
    text: String,
}

impl ShowArgs {
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let dir = find::folder(&self.run, &self.runs.runs)?;
        if let Some(kind) = FolderKind::of(&dir) {
            return self.show_several(&dir, kind);
        }
        let entry = RunEntry::read(dir);
        let Ok(record) = &entry.record else { return Err(find::unreadable(&entry, None)) };
        if self.json {
            return output::print_json(record).map(|()| Done::Fine);
        }
        let (style, report) = (output::style(), entry.dir.join(archive::file::REPORT));
        let mut text = format!("run: {}\n", entry.id);
        let labels = console::labels(&entry);
        if !labels.is_empty() {
            text.push_str(&format!("labels: {labels}\n"));
        }
        match &record.summary {
            Some(summary) => {
                let place = if report.is_file() { &report } else { &entry.dir };
                let place = place.display().to_string();
                let (place, name) = (Some(place.as_str()), find::shown_name(&entry));
                text.push_str(&match self.verbose {
                    true => console::summary(&shape(record), record, summary, place, style),
                    false => console::brief(record, summary, place, Some(&name), true, style),
                });
            }
            None => {
                let state = entry.state().unwrap_or("unknown");
                let dir = entry.dir.display();
                text.push_str(&format!("state: {state}, no summary was written\nfolder: {dir}\n"));
            }
        }
        output::print(&text).map(|()| Done::Fine)
    }

    /// Prints the result of several runs, as their command did at its end.
    fn show_several(&self, dir: &Path, kind: FolderKind) -> Result<Done, Failure> {
        match kind {
            FolderKind::Pairs => paired::print(&ComparedMatrix::read(dir)?, self.json, self.verbose)?,
            FolderKind::Limit => limit::print(&LimitTrials::read(dir)?, self.json, self.verbose)?,
        }
        let report = dir.join(archive::file::REPORT);
        if report.is_file() && !self.json {
            output::print(&format!("report: {}\n", report.display()))?;
        }
        Ok(Done::Fine)
    }
}

impl TagArgs {
    pub(super) fn execute(self) -> Result<Done, Failure> {
        change(&self.run, |labels| {
            for tag in self.tags {
                if self.remove {
                    if !labels.tags.remove(&tag) {
                        output::line_aside(&format!("the run has no tag {tag}"));
                    }
                } else {
                    labels.tags.insert(tag);
                }
            }
        })
    }
}

impl NoteArgs {
    pub(super) fn execute(self) -> Result<Done, Failure> {
        change(&self.run, |labels| labels.note = Some(self.text).filter(|text| !text.is_empty()))
    }
}

/// The parts of a run, from its summary and, of those that sent or got nothing, from its experiment.
fn shape(record: &RunRecord) -> Shape {
    let summary = record.summary.as_ref();
    let any = |of: fn(&RunSummary) -> bool| summary.is_some_and(of);
    let loads = record.experiment.get("load").cloned();
    let loads = loads.and_then(|all| serde_json::from_value::<Vec<LoadSpec>>(all).ok()).unwrap_or_default();
    Shape {
        title: record.name.clone(),
        producers: any(|s| s.flow().sent.total > 0) || loads.iter().any(LoadSpec::has_producers),
        consumers: any(|s| s.flow().received.total > 0) || loads.iter().any(LoadSpec::has_consumers),
        paced: any(|s| s.messages().latency.get(Metric::SEND_DELAY).count > 0),
        latency: true,
        ..Shape::default()
    }
}

fn change(run: &RunArg, how: impl FnOnce(&mut Labels)) -> Result<Done, Failure> {
    let mut entry = find::entry(&run.run, &run.runs.runs)?;
    let mut labels = Labels::read(&entry.dir)?;
    how(&mut labels);
    labels.write(&entry.dir)?;
    entry.labels = Ok(labels);
    let text = console::labels(&entry);
    let text = if text.is_empty() { "no labels" } else { &text };
    output::print(&console::sentence(&format!("{}: {text}", entry.id), output::style())).map(|()| Done::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `bellows runs` lists such a folder, and `runs show` refused it.
    #[test]
    fn the_folder_of_a_search_is_shown_like_its_end() {
        let runs = tempfile::tempdir().unwrap();
        let trials = runs.path().join("2026-11-21T00-00-00Z-limit-demo-zz9");
        std::fs::create_dir(&trials).unwrap();
        LimitTrials { schema: LimitTrials::SCHEMA.to_owned(), ..LimitTrials::default() }.write(&trials).unwrap();
        for (run, verbose) in [("zz9", false), ("limit-demo", true), (trials.to_str().unwrap(), false)] {
            let runs = RunsDir { runs: runs.path().to_owned() };
            let shown = ShowArgs { run: run.to_owned(), verbose, runs, json: false }.execute();
            assert_eq!(shown, Ok(Done::Fine), "{run}");
        }
    }

    #[test]
    fn consumers_that_got_nothing_have_a_row_and_producers_that_were_none_have_not() {
        let record = RunRecord {
            experiment: json!({"load": [{"destination": "queue://q", "producers": 0, "consumers": 1}]}),
            summary: Some(RunSummary::default()),
            ..RunRecord::default()
        };
        let found = shape(&record);
        assert_eq!((found.producers, found.consumers), (false, true));
    }
}
