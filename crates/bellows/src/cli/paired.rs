//! Runs in pairs in a folder, of a matrix or a single comparison: their decisions, and output, also to files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use archive::{
    ComparedCell, ComparedMatrix, Comparison, FolderLock, Labels, PairedMatrix, PairedRun, PairedRuns, RunEntry,
    RunRecord, RunState,
};
use clap::Args;
use measure::{Problem, counted};
use report::view::{ComparisonSource, MatrixSource};
use report::{ComparisonFormat, console};
use study::{
    CellRuns, ComparisonOptions, FunctionCosts, NextRun, compare_cells, compare_functions, next_run_of, paired_run,
};

use super::find;
use crate::{Done, Failure, output};

#[derive(Debug)]
pub(super) struct PairedFolder {
    pub(super) dir: PathBuf,
    /// The cells: one without a name where runs in pairs stand alone.
    pub(super) matrix: PairedMatrix,
    pub(super) cells: Vec<PairedCell>,
    /// Nobody else adds runs to it; `None` where this command adds none.
    _lock: Option<FolderLock>,
}

#[derive(Debug)]
pub(super) struct PairedCell {
    pub(super) dir: PathBuf,
    pub(super) runs: PairedRuns,
    pub(super) records: Vec<RunRecord>,
    pub(super) costs: Vec<Option<FunctionCosts>>,
}

impl PairedFolder {
    /// Makes the folder, in which nothing was run yet; each cell comes with its experiments.
    pub(super) fn create(runs_dir: &Path, matrix: PairedMatrix, cells: Vec<PairedRuns>) -> Result<Self, Failure> {
        let dir = PairedRuns::create_folder(runs_dir, &matrix.name, measure::wall_clock_unix_ns())?;
        let mut made = Vec::new();
        for (runs, dir) in cells.into_iter().zip(matrix.folders(&dir)) {
            std::fs::create_dir_all(&dir).map_err(|e| Failure::io("create", &dir, &e))?;
            runs.write(&dir)?;
            made.push(PairedCell { dir, runs, records: Vec::new(), costs: Vec::new() });
        }
        // Where it stands, every cell can be read: it comes last.
        if !matrix.keys.is_empty() {
            matrix.write(&dir)?;
        }
        Ok(Self { _lock: Some(find::kept(&dir)?), dir, matrix, cells: made })
    }

    /// Reads a folder with all its runs, to add further ones.
    pub(super) fn go_on(dir: &Path, until_decided: bool) -> Result<Self, Failure> {
        // Before it is read: what another command has just added is seen.
        let lock = find::kept(dir)?;
        let mut read = Self::read(dir, Some("begin anew without --resume"))?;
        for cell in &mut read.cells {
            cell.take_up(until_decided)?;
        }
        Ok(Self { _lock: Some(lock), ..read })
    }

    pub(super) fn plan_for(&mut self, pairs: u32) -> Result<(), Failure> {
        self.matrix.pairs = pairs;
        for cell in &mut self.cells {
            cell.runs.pairs = pairs;
            cell.runs.write(&cell.dir)?;
        }
        if !self.matrix.keys.is_empty() {
            self.matrix.write(&self.dir)?;
        }
        Ok(())
    }

    /// Reads a folder with all its runs; `help` replaces that for one that cannot be read.
    pub(super) fn read(dir: &Path, help: Option<&str>) -> Result<Self, Failure> {
        let matrix = PairedMatrix::read(dir)?;
        let cells = matrix.folders(dir).into_iter().map(|dir| PairedCell::read(dir, help));
        Ok(Self { cells: cells.collect::<Result<_, _>>()?, dir: dir.to_owned(), matrix, _lock: None })
    }

    /// The pairs of all cells, to be compared.
    pub(super) fn cell_runs(&self) -> Vec<CellRuns<'_>> {
        self.cells.iter().map(|cell| CellRuns::new(&cell.runs, &cell.records)).collect()
    }

    /// A cell's name among the others; empty where it stands alone.
    pub(super) fn label(&self, cell: usize) -> String {
        let cell = self.matrix.cells.get(cell);
        cell.map(|cell| PairedMatrix::label(&self.matrix.keys, &cell.values)).unwrap_or_default()
    }

    pub(super) fn compare(&self, looks: &[u32], options: ComparisonOptions) -> Result<ComparedMatrix, Problem> {
        let runs = self.cell_runs();
        let decided = compare_cells(&runs, looks, options);
        let (mut first, mut any) = (None, false);
        let mut cells = Vec::new();
        for (at, decided) in decided.into_iter().enumerate() {
            let (Some(of), Some(cell), Some(runs)) = (self.matrix.cells.get(at), self.cells.get(at), runs.get(at))
            else {
                continue;
            };
            let (comparison, why_not) = match decided {
                Ok(mut comparison) => {
                    any = true;
                    comparison.is_aa = cell.runs.is_aa();
                    cell.compare_functions(&mut comparison, &runs.counted);
                    (Some(comparison), None)
                }
                Err(problem) => {
                    let told = problem.sentence();
                    first.get_or_insert(problem);
                    (None, Some(told))
                }
            };
            cells.push(ComparedCell { folder: of.folder.clone(), values: of.values.clone(), comparison, why_not });
        }
        match first {
            Some(problem) if !any => Err(problem),
            _ => Ok(ComparedMatrix {
                schema: ComparedMatrix::SCHEMA.to_owned(),
                name: self.matrix.name.clone(),
                keys: self.matrix.keys.clone(),
                cells,
            }),
        }
    }

    /// Stores the decision of each cell beside its runs.
    pub(super) fn keep(&self, compared: &ComparedMatrix) -> Result<(), Failure> {
        for (cell, of) in self.cells.iter().zip(&compared.cells) {
            if let Some(comparison) = &of.comparison {
                comparison.write(&cell.dir)?;
            }
        }
        Ok(())
    }

    /// Writes the requested files; `label` stands before the page's path.
    pub(super) fn write_files(
        &self,
        files: &ComparisonFiles,
        compared: &ComparedMatrix,
        label: &str,
    ) -> Result<(), Failure> {
        files.write(compared, label, |beside| match (compared.alone(), self.cells.first()) {
            (Some(comparison), Some(cell)) => report::html::render_comparison(&ComparisonSource {
                comparison,
                name: &cell.runs.name,
                runs: &cell.runs.folders(&cell.dir),
                logs: None,
                pairs: Some(&cell.runs),
                folder: Some(beside),
            }),
            _ => report::html::render_matrix(&MatrixSource { matrix: compared, dir: &self.dir, folder: Some(beside) }),
        })
    }
}

impl PairedCell {
    fn read(dir: PathBuf, help: Option<&str>) -> Result<Self, Failure> {
        let runs = PairedRuns::read(&dir)?;
        let (mut records, mut costs) = (Vec::new(), Vec::new());
        for run in &runs.runs {
            let entry = RunEntry::read(dir.join(&run.id));
            let Ok(record) = entry.record else { return Err(find::unreadable(&entry, help)) };
            costs.push(FunctionCosts::read(&record, &entry.dir));
            records.push(record);
        }
        Ok(Self { dir, runs, records, costs })
    }

    /// Takes up runs that had ended when their command was killed before it noted them: they are not made again.
    fn take_up(&mut self, until_decided: bool) -> Result<(), Failure> {
        let entries = archive::list_runs(&self.dir)?;
        while let Some((_, next)) = next_run_of(&[&self.runs], self.runs.seed) {
            let is_new = |entry: &&RunEntry| self.runs.runs.iter().all(|it| it.id != entry.id);
            let mut left = entries.iter().filter(is_new);
            let Some((entry, Ok(record))) = left.find(|it| is_whole(it, next)).map(|it| (it, &it.record)) else {
                break;
            };
            self.runs.runs.push(paired_run(next, record));
            self.costs.push(FunctionCosts::read(record, &entry.dir));
            self.records.push(record.clone());
            self.runs.write(&self.dir)?;
            if let Some(told) = taken_up(&self.runs, until_decided) {
                hanging_aside(&told);
            }
        }
        Ok(())
    }

    fn compare_functions(&self, comparison: &mut Comparison, counted: &[(usize, usize)]) {
        let of = |place: fn(&(usize, usize)) -> usize| -> Vec<_> {
            // Where runs stand for themselves, no pairs tell of functions.
            let places = counted.iter().filter(|_| comparison.paired).map(place);
            places.map(|at| self.costs.get(at).cloned().flatten()).collect()
        };
        let (a, b) = (of(|it| it.0), of(|it| it.1));
        compare_functions(comparison, &a, &b);
    }
}

/// Writes a line beside the results; where it is wider than the screen, its other lines are indented as those of a run.
pub(super) fn hanging_aside(text: &str) {
    let columns = output::style_aside().prose_columns().saturating_sub(2);
    let lines = console::wrap(&console::sanitise(text), columns);
    output::aside(&(lines.join("\n  ") + "\n"));
}

/// Why the last run or its pair does not count, and what happens next; `None` where it counts, or the other run of its
/// pair was already reported. `anew`: the text for a pair that may be repeated, see [`anew`].
pub(super) fn what_becomes(of: &PairedRuns, anew: &str) -> Option<String> {
    let (run, before) = of.runs.split_last()?;
    let why = match &run.spoiled {
        Some(why) => format!("does not count: {why}"),
        None if run.disturbed => "was disturbed by other programs".to_owned(),
        None => return None,
    };
    let mut before = before.iter().filter(|it| it.pair == run.pair);
    let is_spoiled = run.spoiled.is_some() || before.clone().any(|it| it.spoiled.is_some());
    let was_hit = before.any(PairedRun::is_hit);
    let becomes = match of.made_anew().contains(&run.pair) {
        true if is_spoiled => anew.to_owned(),
        // Of disturbed pairs the quietest count.
        true => format!("{anew}, if quieter"),
        false => not_replaced(of, run.pair, is_spoiled),
    };
    match (run.own, was_hit || run.is_hit()) {
        (true, false) => Some(format!("{why}; this is a result of {}, and the pair is not replaced", run.side)),
        (true, true) => Some(format!("{why}; that is a result of {}; {becomes}", run.side)),
        (false, _) => (!was_hit).then(|| format!("{why}; {becomes}")),
    }
}

/// The text for a pair that is not repeated; the first such pair says how many are.
fn not_replaced(of: &PairedRuns, pair: u32, is_spoiled: bool) -> String {
    let anew = of.made_anew();
    let is_earlier = |it: &PairedRun| it.pair != pair && it.is_hit() && !anew.contains(&it.pair);
    let most = match of.runs.iter().any(is_earlier) {
        true => String::new(),
        false => format!(" (at most {} of {} are replaced)", of.most_anew(), of.pairs),
    };
    if !is_spoiled {
        return format!("no further pair is made{most}: the least disturbed pairs count");
    }
    let spoiled = of.runs.iter().filter(|it| it.spoiled.is_some());
    let spoiled: BTreeSet<u32> = spoiled.map(|it| it.pair).collect();
    let remaining = (of.pairs as usize + anew.len()).saturating_sub(spoiled.len()) as u64;
    let verb = if remaining == 1 { "remains" } else { "remain" };
    format!("the pair is left out{most}; {} {verb}", counted(remaining, "pair"))
}

/// The fate of a pair that may be repeated: whether this command makes further runs, and ends once all is decided.
pub(super) const fn anew(goes_on: bool, until_decided: bool) -> &'static str {
    match (goes_on, until_decided) {
        (true, true) => "another pair takes its place unless all is decided before",
        (true, false) => "another pair takes its place",
        (false, _) => "with --resume another pair takes its place",
    }
}

/// The message about the last run, which had ended when its command was killed.
fn taken_up(of: &PairedRuns, until_decided: bool) -> Option<String> {
    let run = of.runs.last()?;
    let mut pair = of.runs.iter().filter(|it| it.pair == run.pair);
    let told = match what_becomes(of, anew(true, until_decided)) {
        Some(told) => format!(": it {told}"),
        None if pair.any(|it| it.spoiled.is_some() || it.disturbed) => {
            ", and its pair was spoiled or disturbed".to_owned()
        }
        None => ", and counts".to_owned(),
    };
    Some(format!("{} had ended before{told}", run.id))
}

/// Whether a run ended by itself, so that it is not made again: one that broke off under load may be evidence against
/// its side. One that was stopped, or never came to its load, is made again.
pub(super) fn has_ended(record: &RunRecord) -> bool {
    match record.state {
        RunState::Complete => true,
        RunState::Failed => record.summary.is_some(),
        RunState::Running | RunState::Interrupted => false,
    }
}

/// Whether a run ended by itself, and was made as this one of its pair.
fn is_whole(entry: &RunEntry, next: NextRun) -> bool {
    let tags = [format!("side-{}", next.side.tag()), format!("pair-{}", next.pair + 1)];
    let has = |labels: &Labels, tag: &String| labels.tags.iter().any(|it| it.to_string() == *tag);
    let is_tagged = entry.labels.as_ref().is_ok_and(|labels| tags.iter().all(|tag| has(labels, tag)));
    entry.record.as_ref().is_ok_and(has_ended) && is_tagged && !entry.active
}

/// Prints the decision, cell by cell of a matrix; `is_whole`: with all figures.
pub(super) fn print(compared: &ComparedMatrix, json: bool, is_whole: bool) -> Result<(), Failure> {
    let style = output::style();
    match (compared.alone(), is_whole) {
        (Some(one), _) if json => output::print_json(one),
        (None, _) if json => output::print_json(compared),
        (Some(one), true) => output::print(&console::comparison(one, style)),
        (Some(one), false) => output::print(&console::comparison_brief(one, style)),
        (None, true) => output::print(&console::matrix(compared, style)),
        (None, false) => output::print(&console::matrix_brief(compared, style)),
    }
}

/// Exit of a command that compared planned pairs: with --strict, fewer than planned are an error of their own.
pub(super) fn done(compared: &ComparedMatrix, is_strict: bool, is_whole: bool) -> Done {
    if is_strict && !is_whole { Done::Invalid } else { ended(compared) }
}

pub(super) fn ended(compared: &ComparedMatrix) -> Done {
    match (compared.is_worse(), compared.is_undecided()) {
        (true, _) => Done::Missed,
        (false, true) => Done::Unknown,
        (false, false) => Done::Fine,
    }
}

/// Placeholders of the page and the picture.
const NO_PAGE: &str = "<!doctype html><title>bellows</title><p>Nothing is decided yet: this page is made when the runs \
                       are.</p>\n";
const NO_PICTURE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"480\" height=\"40\"><text x=\"8\" \
                          y=\"24\">Nothing is decided yet: this is drawn when the runs are made.</text></svg>\n";

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Files")]
pub(super) struct ComparisonFiles {
    /// Write the comparison as a page: one HTML file
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write what is decided as JUnit XML: a test for each figure, or for each cell of a matrix. Worse is failed,
    /// "cannot tell" is an error
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write it as Markdown, for a comment or the summary of a CI job
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the figures of every run as Go's text of benchmarks: `benchstat -col side FILE` compares them
    #[arg(long, value_name = "FILE")]
    go_bench: Option<PathBuf>,
    /// Draw the differential flame graph (.svg): CPU per message of every call path, coloured where a change is proven
    #[arg(long, value_name = "FILE")]
    pub(super) flame: Option<PathBuf>,
}

impl ComparisonFiles {
    /// A file that has room for one comparison is none for a matrix.
    pub(super) fn check(&self, is_matrix: bool) -> Result<(), Failure> {
        let cause = "--flame draws one comparison, and a matrix has one for each cell";
        let help = "the page of each cell has its own, and `bellows ab FOLDER/CELL --flame FILE` draws it";
        if is_matrix { self.without_flame(cause, help) } else { Ok(()) }
    }

    /// Refuses to draw histogram logs, which hold no profiles.
    pub(super) fn check_logs(&self) -> Result<(), Failure> {
        let cause = "--flame draws profiles, and a histogram log holds none";
        self.without_flame(cause, "leave it out, or compare runs that were profiled")
    }

    fn without_flame(&self, cause: &str, help: &str) -> Result<(), Failure> {
        self.flame.as_ref().map_or(Ok(()), |path| Err(Failure::usage(cause, help).observed(path.display())))
    }

    /// Writes that nothing is known yet, so that a job which is stopped leaves no older result, and that a file which
    /// cannot be written is known before the first run.
    pub(super) fn begin(&self, name: &str) -> Result<(), Failure> {
        for (path, text) in [(&self.output, NO_PAGE), (&self.flame, NO_PICTURE)] {
            if let Some(path) = path {
                stacks::write_output(path, text.as_bytes()).map_err(|e| Failure::io("write", path, &e))?;
            }
        }
        self.formats().try_for_each(|(format, path)| write(format, path, name, None))
    }

    /// Writes the decision; `page` makes the page for its future folder, and its path is printed behind `label`.
    pub(super) fn write(
        &self,
        of: &ComparedMatrix,
        label: &str,
        page: impl FnOnce(&Path) -> Result<String, Problem>,
    ) -> Result<(), Failure> {
        for (format, path) in self.formats() {
            write(format, path, &of.name, Some(of))?;
        }
        if let Some(path) = &self.output {
            let beside = path.parent().filter(|it| !it.as_os_str().is_empty());
            let page = page(beside.unwrap_or(Path::new(".")))?;
            stacks::write_output(path, page.as_bytes()).map_err(|e| Failure::io("write", path, &e))?;
            output::line_aside(&format!("{label}: {}", path.display()));
        }
        // The one that may have nothing to draw comes last.
        let Some(path) = &self.flame else { return Ok(()) };
        draw(path, of).inspect_err(|_| {
            // It would say that the picture is still to come.
            let _ = std::fs::remove_file(path);
        })
    }

    fn formats(&self) -> impl Iterator<Item = (ComparisonFormat, &Path)> {
        let all = [
            (ComparisonFormat::Junit, &self.junit),
            (ComparisonFormat::Markdown, &self.markdown),
            (ComparisonFormat::GoBench, &self.go_bench),
        ];
        all.into_iter().filter_map(|(format, path)| Some((format, path.as_deref()?)))
    }
}

fn write(format: ComparisonFormat, path: &Path, name: &str, of: Option<&ComparedMatrix>) -> Result<(), Failure> {
    let write = |text: String| stacks::write_output(path, text.as_bytes());
    let written = format.write(name, of).and_then(write);
    written.map_err(|e| Failure::io("write", path, &e))
}

fn draw(path: &Path, of: &ComparedMatrix) -> Result<(), Failure> {
    let one = of.alone();
    let Some(stacks) = one.and_then(|it| it.stacks.as_ref()) else {
        let why = one.and_then(|it| it.no_functions.as_deref());
        let cause = "there is no flame graph to draw";
        let help = "every run of both sides needs a CPU profile: leave out --no-profile, and see `bellows doctor`";
        return Err(Failure::failed(cause, help).observed(why.unwrap_or("the runs were not sampled")));
    };
    let picture = report::flame::comparison_svg(stacks, &format!("{}: B beside A", of.name))?;
    stacks::write_output(path, &picture).map_err(|e| Failure::io("write", path, &e))?;
    output::line_aside(&format!("flame graph: {}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use archive::ComparedSideName;

    use super::*;

    #[test]
    fn a_run_that_is_taken_up_is_told_as_it_is() {
        let run = |spoiled: Option<&str>, own, disturbed| {
            let (id, spoiled) = ("run-1".to_owned(), spoiled.map(str::to_owned));
            PairedRun { pair: 1, side: ComparedSideName::B, id, spoiled, own, disturbed }
        };
        let told = |runs: &[PairedRun]| {
            let of = PairedRuns { pairs: 3, runs: runs.to_vec(), ..PairedRuns::default() };
            taken_up(&of, false).expect("a run")
        };
        assert_eq!(told(&[run(None, false, false)]), "run-1 had ended before, and counts");
        let expected = "run-1 had ended before: it does not count: invalid: a node was gone; this is a result of B, \
                        and the pair is not replaced";
        assert_eq!(told(&[run(Some("invalid: a node was gone"), true, false)]), expected);
        let hit = run(Some("invalid"), false, false);
        assert!(told(&[hit]).ends_with("does not count: invalid; another pair takes its place"));
        for other in [run(None, false, true), run(None, false, false)] {
            let both = [run(None, false, true), other];
            assert_eq!(told(&both), "run-1 had ended before, and its pair was spoiled or disturbed");
        }
    }
}
