//! Runs of two sides that exist, or histogram logs of any tool, as `ab` compares them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use archive::{ComparedMatrix, ComparedSide, Comparison, LatencyLog, LogUnit, RunFilter, RunRecord};
use clap::Args;
use measure::Problem;
use report::view::ComparisonSource;
use study::{
    CellRuns, ComparisonOptions, FunctionCosts, compare_functions, compare_logs, compare_within, comparison,
    is_decided, read_logs,
};

use super::args::{OutputArgs, choice, given, is_typed};
use super::paired::{self, ComparisonFiles, PairedFolder, done, ended};
use super::{complete, find};
use crate::{Done, Failure, output};

/// Name of a comparison of which no run is known yet.
const COMPARISON: &str = "comparison";
/// Runs of one command line, all sides together.
const MOST_RUNS: usize = 2_000;

#[derive(Debug, Args)]
pub(super) struct ExistingArgs {
    /// Existing runs of B, compared with those of A that come first; a folder of runs in turns needs none
    #[arg(long, value_name = "RUN", num_args = 1.., add = complete::runs(), help_heading = EXISTING)]
    pub(super) with: Vec<String>,
    /// The first run of A and the first of B are a pair, and so on: for runs made in turns
    #[arg(long, help_heading = EXISTING)]
    paired: bool,
    /// Unit of histogram logs that do not name theirs [default: us for those of Artemis perf, else ns]
    #[arg(long, value_name = "UNIT", help_heading = EXISTING, value_parser = choice([
        ("ns", LogUnit::Nanoseconds, "Values are nanoseconds"),
        ("us", LogUnit::Microseconds, "Values are microseconds"),
        ("ms", LogUnit::Milliseconds, "Values are milliseconds"),
    ]))]
    unit: Option<LogUnit>,
    /// Compare also what differs in machine, load or guarantee, and invalid runs; the result says so. Of runs to be
    /// made: sides whose acknowledgements mean different things
    #[arg(long, help_heading = EXISTING)]
    pub(super) force: bool,
}

const EXISTING: &str = "Existing runs";

impl ExistingArgs {
    /// The first option, but for `--with` and `--force`, that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        given([("--paired", self.paired), ("--unit", self.unit.is_some())]).next()
    }
}

/// Runs that exist, and how they are compared.
pub(super) struct ExistingRuns<'a> {
    /// Runs of A: paths, ids, parts of ids, folders of runs, a filter as of `bellows runs --filter`; or histogram logs.
    pub(super) a: &'a [String],
    pub(super) args: &'a ExistingArgs,
    pub(super) margins: Margins,
    pub(super) files: &'a ComparisonFiles,
    pub(super) output: &'a OutputArgs,
}

/// Differences that matter, and the confidence required.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Margins {
    /// Changes of rates, CPU and memory within this share do not matter
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    margin: f64,
    /// Changes of latencies within this share do not matter
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = percent)]
    latency_margin: f64,
    /// Chance to call anything changed that is not
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = level)]
    level: f64,
}

impl Margins {
    pub(super) fn options(self) -> ComparisonOptions {
        ComparisonOptions {
            level: self.level,
            margin: self.margin,
            latency_margin: self.latency_margin,
            ..ComparisonOptions::default()
        }
    }
}

impl ExistingRuns<'_> {
    pub(super) fn compare(&self) -> Result<Done, Failure> {
        let options = ComparisonOptions { paired: self.args.paired, force: self.args.force, ..self.margins.options() };
        let are_logs = are_logs(self.a, &self.args.with)?;
        if self.args.unit.is_some() && !are_logs {
            let cause = "--unit is for histogram logs";
            return Err(Failure::usage(cause, "leave it out: runs know the unit of their latencies"));
        }
        if self.args.with.is_empty() && !are_logs {
            return self.compare_turns(options);
        }
        if is_typed(self.output.strict, "BELLOWS_STRICT") {
            let cause = "--strict asks for all planned pairs, and these runs have no plan";
            return Err(Failure::usage(cause, "leave it out, or name a folder of runs in turns"));
        }
        if are_logs {
            return self.compare_logs(options);
        }
        self.files.begin(COMPARISON)?;
        let (a, b) = (self.named_runs(self.a)?, self.named_runs(&self.args.with)?);
        if let Some(twice) = a.iter().find(|run| b.iter().any(|it| it.0.id == run.0.id)) {
            return Err(Failure::usage("a run stands on both sides", "name it on one side only").observed(&twice.0.id));
        }
        let records = |side: &[(RunRecord, PathBuf)]| -> Vec<RunRecord> {
            side.iter().map(|(record, _)| record.clone()).collect()
        };
        let mut compared = comparison(&records(&a), &records(&b), options)?;
        let (of_a, of_b) = (costs(&a, &compared.a), costs(&b, &compared.b));
        compare_functions(&mut compared, &of_a, &of_b);
        let (alone_a, alone_b) = (alone(&a, &compared.a), alone(&b, &compared.b));
        compare_within(&mut compared, alone_a, alone_b);
        let name = a.first().map_or(COMPARISON, |run| run.0.name.as_str());
        let all = a.iter().chain(&b);
        let folders = all.map(|(record, dir)| (record.id.clone(), dir.clone())).collect();
        self.tell(name, compared, &folders, None)
    }

    fn compare_logs(&self, options: ComparisonOptions) -> Result<Done, Failure> {
        self.files.check_logs()?;
        self.files.begin(COMPARISON)?;
        let (a, b) = logs(self.a, &self.args.with, self.args.unit)?;
        let compared = compare_logs(&a, &b, options)?;
        self.tell(COMPARISON, compared, &HashMap::new(), Some((&a, &b)))
    }

    fn tell(
        &self,
        name: &str,
        compared: Comparison,
        runs: &HashMap<String, PathBuf>,
        logs: Option<(&[LatencyLog], &[LatencyLog])>,
    ) -> Result<Done, Failure> {
        let compared = ComparedMatrix::of_one(name, compared);
        self.print(&compared)?;
        self.files.write(&compared, "report", |beside| {
            let comparison = &compared.alone().cloned().unwrap_or_default();
            let folder = Some(beside);
            report::html::render_comparison(&ComparisonSource { comparison, name, runs, logs, pairs: None, folder })
        })?;
        Ok(ended(&compared))
    }

    /// Prints the decision and the first figures, as at the end of runs in turns; all figures with `--verbose`.
    fn print(&self, compared: &ComparedMatrix) -> Result<(), Failure> {
        let OutputArgs { json, quiet, verbose, .. } = *self.output;
        paired::print(compared, json, verbose)?;
        if !(json || quiet || verbose) {
            output::line_aside("--verbose shows all figures");
        }
        Ok(())
    }

    /// Compares the runs of `bellows ab` once more.
    fn compare_turns(&self, options: ComparisonOptions) -> Result<Done, Failure> {
        let help = "write `bellows ab RUN… --with RUN…`, formerly `compare`; a folder of runs in turns needs no --with";
        let [named] = self.a else { return Err(Failure::usage("there is nothing to compare with", help)) };
        let Some(dir) = find::paired_folder(named, &self.output.runs.runs)? else {
            return Err(Failure::usage("there is nothing to compare with", help).observed(named));
        };
        let folder = PairedFolder::read(&dir, None)?;
        self.files.check(!folder.matrix.keys.is_empty())?;
        self.files.begin(&folder.matrix.name)?;
        let before = ComparedMatrix::read(&dir).ok();
        let before = before.as_ref().and_then(|it| it.comparisons().next());
        // Looks that were fixed beforehand stay what they were, and so does what ended the runs before all were made.
        let looks = before.map_or_else(|| vec![folder.matrix.pairs], |it| it.looks.clone());
        let mut compared = folder.compare(&looks, options)?;
        compared.break_off(before.and_then(|it| it.broke_off.clone()));
        self.print(&compared)?;
        folder.write_files(self.files, &compared, "report")?;
        let cells = folder.cell_runs();
        let is_whole = cells.iter().all(CellRuns::is_whole) || is_decided(&cells, &looks, options);
        Ok(done(&compared, self.output.strict, is_whole))
    }

    /// The runs that were named with their folders, the oldest first where a filter names several.
    fn named_runs(&self, named: &[String]) -> Result<Vec<(RunRecord, PathBuf)>, Failure> {
        let mut runs: Vec<(RunRecord, PathBuf)> = Vec::new();
        for name in named {
            for run in self.named(name)? {
                if runs.iter().all(|it| it.0.id != run.0.id) {
                    runs.push(run);
                }
            }
        }
        if runs.len() > MOST_RUNS {
            let cause = format!("more than {MOST_RUNS} runs of one side");
            return Err(Failure::Usage(Problem::new(cause, runs.len(), "choose fewer, such as by a tag")));
        }
        Ok(runs)
    }

    fn named(&self, name: &str) -> Result<Vec<(RunRecord, PathBuf)>, Failure> {
        let dir = &self.output.runs.runs;
        let path = Path::new(name);
        // A folder that is no run itself.
        if path.is_dir() && !path.join(archive::file::RECORD).exists() {
            let mut entries = find::list(path)?;
            find::leave_parts_out(&mut entries);
            return readable(entries, || {
                let cause = "the folder holds no run";
                let help = "name a run folder, or a folder of them; `bellows run … --runs DIR` makes runs there";
                Failure::failed(cause, help).observed(path.display())
            });
        }
        let is_filter = name.contains('=') && !path.exists();
        if !is_filter {
            let entry = find::entry(name, dir)?;
            return match entry.record {
                Ok(record) => Ok(vec![(record, entry.dir)]),
                Err(_) => Err(find::unreadable(&entry, None)),
            };
        }
        let filter: RunFilter = name.parse().map_err(|why| {
            Failure::usage(format!("a filter cannot be read: {why}"), "it is one as of `bellows runs --filter`")
        })?;
        let mut entries = find::list(dir)?;
        entries.retain(|entry| filter.matches(entry));
        find::leave_parts_out(&mut entries);
        readable(entries, || {
            let runs = find::runs_option(dir);
            let help = format!("`bellows runs{runs}` lists them; `bellows run … --tag before` tags those to come");
            Failure::failed(format!("no run in {} matches", dir.display()), help).observed(name)
        })
    }
}

/// The readable runs, oldest first; `missing` is the message where there are none.
fn readable(
    mut entries: Vec<archive::RunEntry>,
    missing: impl FnOnce() -> Failure,
) -> Result<Vec<(RunRecord, PathBuf)>, Failure> {
    entries.reverse();
    let mut runs: Vec<(RunRecord, PathBuf)> = Vec::new();
    let mut unreadable = None;
    for entry in entries {
        if let Err(why) = &entry.record {
            output::line_aside(&format!("{} left out, it cannot be read: {why}", entry.id));
            unreadable = Some(find::unreadable(&entry, None));
        }
        if let Ok(record) = entry.record {
            runs.push((record, entry.dir));
        }
    }
    if runs.is_empty() { Err(unreadable.unwrap_or_else(missing)) } else { Ok(runs) }
}

/// The folder of a side's run, where one alone counts.
fn alone<'r>(side: &'r [(RunRecord, PathBuf)], counted: &ComparedSide) -> Option<&'r Path> {
    let [one] = counted.runs.as_slice() else { return None };
    let run = side.iter().find(|run| run.0.id == one.id)?;
    Some(&run.1)
}

fn costs(side: &[(RunRecord, PathBuf)], counted: &ComparedSide) -> Vec<Option<FunctionCosts>> {
    let counts = |run: &&(RunRecord, PathBuf)| counted.runs.iter().any(|it| it.id == run.0.id);
    let read = |(record, dir): &(RunRecord, PathBuf)| FunctionCosts::read(record, dir);
    side.iter().filter(counts).map(read).collect()
}

/// Reads `2%` or `0.5`, in per cent.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 100.0 => Ok(value / 100.0),
        _ => Err("it takes per cent above 0 and up to 100, such as 2%".to_owned()),
    }
}

/// Reads a level: per cent between 0.1 and 20.
pub(super) fn level(text: &str) -> Result<f64, String> {
    let level = percent(text)?;
    match (0.001..=0.2).contains(&level) {
        true => Ok(level),
        false => Err("it takes per cent between 0.1 and 20, such as 5%".to_owned()),
    }
}

/// Ends of names that are logs, also where no such file exists.
const ENDS: [&str; 2] = [".hlog", ".hlog.gz"];

pub(super) fn is_log_name(name: &str) -> bool {
    ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether the sides are logs. Errors: where some are and some are runs.
fn are_logs(a: &[String], b: &[String]) -> Result<bool, Failure> {
    let is_log = |name: &&String| Path::new(name).is_file() || is_log_name(name);
    let all = || a.iter().chain(b);
    let Some(log) = all().find(is_log) else { return Ok(false) };
    match all().find(|name| !is_log(name)) {
        None => Ok(true),
        Some(run) => Err(Failure::usage(
            "histogram logs are mixed with runs, of which more is known",
            "compare logs with logs: that of a run is latency.hlog in its folder",
        )
        .observed(format!("{log} is a log, {run} is none"))),
    }
}

fn logs(a: &[String], b: &[String], unit: Option<LogUnit>) -> Result<(Vec<LatencyLog>, Vec<LatencyLog>), Failure> {
    if b.is_empty() {
        return Err(Failure::usage("there is nothing to compare with", "--with names the logs of B"));
    }
    let mut seen = Vec::new();
    for name in a.iter().chain(b) {
        let path = Path::new(name).canonicalize().ok();
        if path.is_some() && seen.contains(&path) {
            return Err(Failure::usage("a log is named twice", "each log is one run of one side").observed(name));
        }
        seen.push(path);
    }
    Ok((read_logs(a, unit)?, read_logs(b, unit)?))
}
