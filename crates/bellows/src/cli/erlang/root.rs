//! `erlang calls --root`: calls of one function, followed into the processes that they ask.

use std::path::Path as File;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, value_parser};
use erlang::calls::{Path, RootOptions, RootProgress, follow};
use erlang::{Ended, FunctionPattern, Helper};
use measure::counted;
use serde::Serialize;

use super::counting::{CountArgs, print_neighbours};
use super::paths::{self, PathRows, Spread};
use super::progress::Progress;
use super::stacks::Stacks;
use super::trace::per_second;
use crate::failure::{Done, Failure};
use crate::profile_formats::Output;
use crate::{output, signals};

/// The function whose calls are followed, and how many of them.
#[derive(Debug, Args)]
pub(super) struct RootArgs {
    /// Follow calls of this function, MODULE:FUNCTION/ARITY, into the processes that they ask, and tell the slow ones from the fast ones
    #[arg(long, value_name = "M:F/A", value_parser = entry)]
    pub(super) root: Option<FunctionPattern>,
    /// Calls of --root after which it ends
    #[arg(long, value_name = "N", requires = "root", default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Withdraw when --root is called so often in one second, as 100 or 100/s
    #[arg(long, value_name = "N/s", requires = "root", default_value = "500", value_parser = per_second, help_heading = "Budget")]
    rate: u32,
    /// Withdraw after so many trace messages
    #[arg(long, value_name = "MESSAGES", requires = "root", default_value_t = 5_000_000, value_parser = value_parser!(u32).range(1..=100_000_000), help_heading = "Budget")]
    max_messages: u32,
}

/// Reads one function with its arity: each of several would be a root of its own.
fn entry(text: &str) -> Result<FunctionPattern, String> {
    let pattern: FunctionPattern = text
        .parse()
        .map_err(|it: measure::Problem| it.to_string())?;
    match (&pattern.function, pattern.arity) {
        (Some(_), Some(_)) => Ok(pattern),
        _ => Err("name one function with its number of arguments, such as rabbit_mgmt_wm_queues:to_json/2".into()),
    }
}

/// All of it, for `--json`.
#[derive(Debug, Serialize)]
struct RootRows<'a> {
    root: String,
    /// While only the entry was traced.
    untraced: Option<Spread>,
    #[serde(flatten)]
    path: PathRows<'a>,
}

impl RootArgs {
    /// Follows calls, and prints what they did.
    pub(super) fn execute(
        &self,
        count: &CountArgs,
        functions: &[FunctionPattern],
        output: Option<(&File, Output)>,
        waits: bool,
    ) -> Result<Done, Failure> {
        let Some(root) = &self.root else {
            return Ok(Done::Fine);
        };
        let path = self.follow(root, count, functions)?;
        let compared = path.comparison();
        match count.json {
            true => output::print_json(&RootRows {
                root: root.to_string(),
                untraced: Spread::of(&path.untraced),
                path: paths::rows(&path, compared.as_ref()),
            })?,
            false => print(&path, root, count.number)?,
        }
        if !matches!(path.ended, Ended::Time) {
            output::line_aside(&path.ended.describe());
        }
        // What is known is printed by then, also where there is nothing to draw.
        if let Some((file, format)) = output {
            let stacks = Stacks {
                tree: &path.tree,
                waits,
                title: &root.to_string(),
                subtitle: counted(path.calls.len() as u64, "call"),
                none: more(&path),
            };
            stacks.write(file, format)?;
        }
        Ok(Done::Fine)
    }

    fn follow(
        &self,
        root: &FunctionPattern,
        count: &CountArgs,
        functions: &[FunctionPattern],
    ) -> Result<Path, Failure> {
        let lasting = count.budget.lasting();
        let options = RootOptions {
            root: root.clone(),
            functions: functions.to_vec(),
            processes: count.processes.filter(),
            duration: lasting,
            limit: self.limit,
            rate: self.rate,
            messages: self.max_messages,
            budget: count.budget.path_budget(lasting),
        };
        let stopped = signals::stop_flag()?;
        let node = count.node.connect()?;
        let failed = |error: erlang::Error| Failure::Failed(error.problem());
        let helper = Helper::load(&node).map_err(failed)?;
        let begins = format!(
            "follows {root} on {} for {}",
            node.name(),
            count.budget.duration
        );
        let lasting = lasting + Duration::from_millis(200);
        let mut progress = None;
        let path = follow(&helper, &options, |at| {
            // It was not refused.
            let progress = progress.get_or_insert_with(|| {
                output::line_aside(&begins);
                Progress::of_time(lasting, "waits for calls")
            });
            progress.say(&told(at));
            stopped.load(Ordering::Relaxed)
        });
        drop(progress);
        let path = path.map_err(failed)?;
        helper.close().map_err(failed)?;
        Ok(path)
    }
}

fn told(at: RootProgress) -> String {
    match (at.detailed, at.untraced) {
        (false, 0) => "waits for calls".to_owned(),
        (false, calls) => format!("only the entry is traced: {}", counted(calls, "call")),
        (true, _) => format!(
            "followed: {}, {}",
            counted(at.calls, "call"),
            counted(at.messages, "trace message")
        ),
    }
}

fn print(path: &Path, root: &FunctionPattern, number: usize) -> Result<(), Failure> {
    let kinds = [
        ("only this function traced", path.untraced.clone()),
        ("followed", path.durations()),
    ];
    let spreads: Vec<_> = kinds
        .iter()
        .filter_map(|(what, durations)| Some((*what, Spread::of(durations)?)))
        .collect();
    if spreads.is_empty() {
        return output::print(&format!("{root} was not called\n"));
    }
    paths::print_spreads("calls", &spreads)?;
    if path.calls.is_empty() {
        return output::print(&format!(
            "\nNo call was followed to its end: {}.\n",
            more(path)
        ));
    }
    let rows = paths::functions(path);
    paths::print_functions(&rows, number)?;
    print_neighbours(&path.tree, rows.iter().map(|row| row.function()))?;
    match path.comparison() {
        Some(compared) => paths::print_comparison(&compared)?,
        None => output::print("\nFewer than ten calls have no slow ones to set apart.\n")?,
    }
    output::print(&format!("\n{}\n", paths::provenance(path)))
}

/// What lets more calls be followed to their end.
const fn more(path: &Path) -> &'static str {
    match path.ended {
        Ended::Time => "give more time with --for",
        _ => "allow more, as the line about its end says, or name modules, so that less is traced",
    }
}

#[cfg(test)]
mod tests {
    use super::entry;

    #[test]
    fn a_root_is_one_function() {
        assert!(entry("rabbit_mgmt_wm_queues:to_json/2").is_ok());
        for wrong in ["lists", "lists:map", "lists:map/", "_:_/1"] {
            assert!(entry(wrong).is_err(), "{wrong}");
        }
    }
}
