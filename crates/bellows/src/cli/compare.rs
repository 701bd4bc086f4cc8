//! `compare`: what runs of two sides, made before, say of the difference.

use archive::{RunFilter, RunRecord};
use clap::Args;
use measure::Problem;
use report::console;
use session::{ComparisonOptions, comparison};

use super::args::RunsDir;
use super::{complete, find};
use crate::failure::{Done, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  bellows compare 7k2q x3m4 --with 9d1f c8p0
  bellows compare tag=before --with tag=after
  bellows compare tag=before --with tag=after --margin 2% --json
  bellows compare tag=before --with tag=after --paired

A is what is compared with, --with names what is compared. Exit codes: 0 the same or better, 3 worse, 4 cannot tell. \
`bellows help comparison` says how it is decided.";

/// Runs of one command line, all sides together.
const MOST_RUNS: usize = 2_000;

/// What `bellows compare` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Runs of A: paths, ids, parts of ids, or a filter as of `bellows runs` (tag=before)
    #[arg(value_name = "RUN", required = true, add = complete::runs())]
    a: Vec<String>,
    /// Runs of B
    #[arg(long = "with", value_name = "RUN", required = true, num_args = 1.., add = complete::runs())]
    b: Vec<String>,
    /// The first run of A and the first of B are a pair, and so on: for runs made in turns
    #[arg(long)]
    paired: bool,
    /// Changes of rates, CPU and memory within this share do not matter
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    margin: f64,
    /// Changes of latencies within this share do not matter
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = percent)]
    latency_margin: f64,
    /// Chance to call anything changed that is not
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = level)]
    level: f64,
    /// Compare also what differs in machine or load, and invalid runs; the result says so
    #[arg(long)]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    runs: RunsDir,
}

impl CompareArgs {
    /// Compares and prints.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let options = ComparisonOptions {
            paired: self.paired,
            level: self.level,
            margin: self.margin,
            latency_margin: self.latency_margin,
            force: self.force,
        };
        let (a, b) = (self.records(&self.a)?, self.records(&self.b)?);
        if let Some(twice) = a.iter().find(|run| b.iter().any(|it| it.id == run.id)) {
            return Err(
                Failure::usage("a run stands on both sides", "name it on one side only")
                    .observed(&twice.id),
            );
        }
        let compared = comparison(&a, &b, options).map_err(Failure::Failed)?;
        match self.json {
            true => output::print_json(&compared)?,
            false => output::print(&console::comparison(&compared, output::style()))?,
        }
        Ok(match (compared.is_worse(), compared.is_undecided()) {
            (true, _) => Done::Missed,
            (false, true) => Done::Unknown,
            (false, false) => Done::Fine,
        })
    }

    /// The runs that were named, the oldest first where a filter names several.
    fn records(&self, named: &[String]) -> Result<Vec<RunRecord>, Failure> {
        let mut records: Vec<RunRecord> = Vec::new();
        for name in named {
            for record in self.named(name)? {
                if records.iter().all(|it| it.id != record.id) {
                    records.push(record);
                }
            }
        }
        if records.len() > MOST_RUNS {
            return Err(Failure::Usage(Problem::new(
                format!("more than {MOST_RUNS} runs of one side"),
                records.len(),
                "choose fewer, such as by a tag",
            )));
        }
        Ok(records)
    }

    fn named(&self, name: &str) -> Result<Vec<RunRecord>, Failure> {
        let runs = &self.runs.runs;
        let is_filter = name.contains('=') && !std::path::Path::new(name).exists();
        if !is_filter {
            let entry = find::entry(name, runs)?;
            let path = entry.dir.display().to_string();
            let unreadable = |why| {
                Failure::failed("a run cannot be read", "name another one")
                    .observed(format!("{path}: {why}"))
            };
            return entry.record.map(|record| vec![record]).map_err(unreadable);
        }
        let filter: RunFilter = name.parse().map_err(|why| {
            Failure::usage(
                format!("a filter cannot be read: {why}"),
                "it is one as of `bellows runs --filter`",
            )
        })?;
        let mut entries = find::list(runs)?;
        entries.retain(|entry| filter.matches(entry));
        entries.reverse();
        let records: Vec<RunRecord> = entries
            .into_iter()
            .filter_map(|it| it.record.ok())
            .collect();
        if records.is_empty() {
            return Err(Failure::failed(
                format!("no run in {} matches", runs.display()),
                "`bellows runs` lists them; `bellows run … --tag before` tags those to come",
            )
            .observed(name));
        }
        Ok(records)
    }
}

/// Reads `2%` or `0.5`, in per cent.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 100.0 => Ok(value / 100.0),
        _ => Err("it takes per cent above 0, such as 2%".to_owned()),
    }
}

/// Reads a level: per cent between 0.1 and 20.
fn level(text: &str) -> Result<f64, String> {
    let level = percent(text)?;
    match (0.001..=0.2).contains(&level) {
        true => Ok(level),
        false => Err("it takes per cent between 0.1 and 20, such as 5%".to_owned()),
    }
}
