//! Makes the runs of two sides in turns, and reports their result.

use std::time::Instant;

use archive::{ComparedMatrix, ComparedSideName, RunState, Tag};
use measure::counted;
use report::console::{RunsProgress, Shape};
use session::{Observer, RunOptions};
use study::{
    CellRuns, FunctionCosts, LEAST_PAIRS, NextRun, is_decided, looks_again, next_run_of, paired_run, runs_left,
};

use super::super::args::OutputArgs;
use super::super::compare::Margins;
use super::super::paired::{self, ComparisonFiles, PairedFolder, done, has_ended, what_becomes};
use super::super::perform::{Watched, after, carry_out, shape, tell_kept, tell_one};
use super::super::{find, metrics};
use super::Sides;
use crate::{Done, Failure, output};

/// The runs to make and how to judge them.
pub(super) struct Turns {
    /// The folder with the runs that were made before, and how many are to be made of each cell.
    pub(super) folder: PairedFolder,
    pub(super) sides: Vec<Sides>,
    pub(super) until_decided: bool,
    pub(super) looks: Vec<u32>,
    pub(super) margins: Margins,
    pub(super) files: ComparisonFiles,
    pub(super) output: OutputArgs,
    /// Time of this command's runs.
    pub(super) progress: RunsProgress,
}

/// The looks at runs in turns, of which some may have been fixed by an earlier command.
pub(super) fn looks(folder: &PairedFolder, until_decided: bool) -> Vec<u32> {
    let before = ComparedMatrix::read(&folder.dir).ok();
    let before = before.as_ref().and_then(|it| it.comparisons().next());
    looks_again(folder.matrix.pairs, until_decided, before.map_or(&[], |it| &it.looks))
}

impl Turns {
    /// Makes the missing runs, and prints the result of all.
    pub(super) fn execute(mut self) -> Result<Done, Failure> {
        let watched = Watched::start()?;
        let broken = self.make_all(&watched).err();
        let told = self.tell(broken.as_ref());
        watched.check()?;
        after(broken, told)
    }

    /// Makes all missing runs; the error is what ended this early.
    fn make_all(&mut self, watched: &Watched) -> Result<(), Failure> {
        let mut exporter = self.output.metrics.start(&self.folder.matrix.name, self.output.quiet)?;
        let pairs = self.folder.matrix.pairs;
        if pairs < LEAST_PAIRS {
            output::line_aside(&format!(
                "warning: {pairs} pairs cannot prove a change; use at least {LEAST_PAIRS}, or take this as a try"
            ));
        }
        let mut made = Ok(());
        while made.is_ok()
            && let Some((cell, next)) = self.next()
            && !self.is_decided()
        {
            let about = self.about(cell, next);
            made = self.make_one(cell, next, watched, exporter.as_mut()).map_err(|failure| failure.of_one(&about));
            made = watched.unless_stopped(made, || self.stopped());
        }
        metrics::finish(exporter);
        made
    }

    /// The cell that has its turn, and its run.
    fn next(&self) -> Option<(usize, NextRun)> {
        let cells: Vec<_> = self.folder.cells.iter().map(|cell| &cell.runs).collect();
        next_run_of(&cells, self.folder.matrix.seed)
    }

    fn make_one(
        &mut self,
        cell: usize,
        next: NextRun,
        watched: &Watched,
        exporter: Option<&mut session::Exporter>,
    ) -> Result<(), Failure> {
        let about = self.about(cell, next);
        let left = self.runs_left();
        let progress = self.progress.begin(left, Instant::now());
        let is_matrix = !self.folder.matrix.keys.is_empty();
        let (Some(sides), Some(of)) = (self.sides.get(cell), self.folder.cells.get_mut(cell)) else { return Ok(()) };
        let experiment = match next.side {
            ComparedSideName::A => &sides.a,
            ComparedSideName::B => &sides.b,
        };
        let title = format!("{}, {about}", self.folder.matrix.name);
        let shape = Shape { title, progress: Some(progress), ..shape(experiment) };
        let tags = tags(next, is_matrix.then_some(cell));
        let work = |options: &RunOptions, control: &load::Control, observer: &mut dyn Observer| {
            let mut options = options.clone();
            options.labels.tags.extend(tags);
            session::run_again_if_not_ready(experiment, &options, control, observer)
        };
        let dir = Some(of.dir.clone());
        let carried = carry_out(&self.output, dir, shape, watched, exporter, work)?;
        let (record, profiles) = (carried.outcome.record, carried.outcome.profiles);
        tell_one(&self.output, &about, &record)?;
        if !has_ended(&record) {
            return match record.state {
                // It is made anew when somebody goes on.
                RunState::Interrupted => Ok(()),
                _ => Err(Failure::of_run(record)),
            };
        }
        self.progress.end(Instant::now());
        let broken = (record.state != RunState::Complete).then(|| record.clone());
        of.runs.runs.push(paired_run(next, &record));
        let anew = paired::anew(broken.is_none(), self.until_decided);
        if let Some(told) = what_becomes(&of.runs, anew) {
            paired::hanging_aside(&format!("{about} {told}"));
        }
        of.costs.push(FunctionCosts::of_profiles(&record, &profiles));
        of.records.push(record);
        of.runs.write(&of.dir)?;
        match broken {
            Some(record) => Err(Failure::of_run(record)),
            None => carried.report.map(drop),
        }
    }

    fn about(&self, cell: usize, next: NextRun) -> String {
        let folder = &self.folder;
        let (pair, pairs) = (next.pair + 1, folder.matrix.pairs);
        let replaced = folder.cells.get(cell).map(|it| it.runs.made_anew()).unwrap_or_default();
        let replaced = next.pair.checked_sub(pairs).and_then(|number| replaced.get(number as usize).copied());
        let run = match replaced {
            Some(other) => format!("pair {pair} (replaces pair {}), {}", other + 1, next.side),
            None => format!("pair {pair} of {pairs}, {}", next.side),
        };
        match folder.label(cell) {
            label if label.is_empty() => run,
            label => format!("{label}: {run}"),
        }
    }

    fn runs_left(&self) -> usize {
        self.folder.cells.iter().map(|cell| runs_left(&cell.runs)).sum()
    }

    /// Whether this is a look that was fixed beforehand, and leaves nothing open.
    fn is_decided(&self) -> bool {
        self.until_decided && is_decided(&self.folder.cell_runs(), &self.looks, self.margins.options())
    }

    /// Prints and stores the result, with the failure that ended the runs early.
    fn tell(&self, broken: Option<&Failure>) -> Result<Done, Failure> {
        let (folder, output) = (&self.folder, &self.output);
        let mut compared = folder.compare(&self.looks, self.margins.options())?;
        compared.break_off(broken.and_then(Failure::sentence));
        // What was measured for hours is shown, whatever becomes of the files.
        paired::print(&compared, output.json, output.verbose)?;
        folder.keep(&compared)?;
        tell_kept(output, &self.progress, &report::html::write_comparison(&folder.dir)?)?;
        // A page elsewhere leads to those of cells, which are there now, and is a copy of the report.
        folder.write_files(&self.files, &compared, "page")?;
        let is_whole = folder.cell_runs().iter().all(CellRuns::is_whole) || self.is_decided();
        Ok(done(&compared, output.strict, is_whole))
    }

    fn stopped(&self) -> Failure {
        let made: usize = self.folder.cells.iter().map(|cell| cell.records.len()).sum();
        // Others are made in place of those that do not count.
        let all = made + self.runs_left();
        let made = counted(made as u64, "run");
        find::stopped(&format!("stopped after {made} of {all}"), &self.folder.dir)
    }
}

/// Tags that identify a run: `side-a`, `pair-3`, and `cell-2` of a matrix.
fn tags(next: NextRun, cell: Option<usize>) -> Vec<Tag> {
    let mut tags = vec![format!("side-{}", next.side.tag()), format!("pair-{}", next.pair + 1)];
    tags.extend(cell.map(|cell| format!("cell-{}", cell + 1)));
    tags.iter().filter_map(|tag| tag.parse().ok()).collect()
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
