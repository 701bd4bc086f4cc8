//! `erlang calls --time`: calls of one function on the node, one after the other, and their cost.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, value_parser};
use erlang::timing::{Collected, Raised, TimeOptions, Timing, time};
use erlang::{Ended, FunctionPattern, Helper, is_no_call};
use measure::{Nanos, Problem, count, counted};
use report::console::sanitise;
use serde::Serialize;

use super::connect::{leave, measured};
use super::options::{CountArgs, print_neighbours};
use super::paths::{self, PathRows, Spread};
use super::progress::Progress;
use super::stacks::Stacks;
use crate::profile_formats::Output;
use crate::{Done, Failure, output, signals};

/// Trace messages of the traced calls.
const MESSAGES: u32 = 5_000_000;
/// Longest time of calls beside the timed ones.
const BEYOND: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct TimeArgs {
    /// Call the function, which is really executed, again and again, and show how long it takes and what it calls
    #[arg(long, conflicts_with_all = ["root", "pids", "role"], help_heading = "With --time")]
    pub(super) time: bool,
    /// Calls that are timed, after a first one
    #[arg(long, value_name = "N", requires = "time", default_value_t = 100,
          value_parser = value_parser!(u32).range(1..=1_000_000), help_heading = "With --time")]
    times: u32,
    /// Further calls that are traced, function by function; 0 for none, and none for garbage collections
    #[arg(long, value_name = "N", requires = "time", default_value_t = 5,
          value_parser = value_parser!(u32).range(..=1_000), help_heading = "With --time")]
    traced: u32,
    /// Print what the first call returns, cut
    #[arg(long, requires = "time", help_heading = "With --time")]
    result: bool,
}

pub(super) struct TimedCall<'a> {
    pub(super) call: String,
    /// Functions to trace below the call; those that run there where none is named.
    pub(super) functions: Vec<FunctionPattern>,
    pub(super) count: &'a CountArgs,
    pub(super) time: &'a TimeArgs,
    pub(super) waits: bool,
    /// File for the stacks of traced calls.
    pub(super) output: Option<(&'a Path, Output)>,
}

#[derive(Debug, Serialize)]
struct TimeRows<'a> {
    call: &'a str,
    ended: String,
    first_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raised: Option<&'a Raised>,
    times: Option<Spread>,
    empty_call_ns: Option<u64>,
    reductions_per_call: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collected: Option<Collected>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traced: Option<PathRows<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_traced: Option<String>,
}

impl TimedCall<'_> {
    pub(super) fn execute(&self) -> Result<Done, Failure> {
        if self.time.traced == 0 && self.output.is_some() {
            let cause = "--traced 0 leaves no stacks to write";
            return Err(Failure::usage(cause, "give a number of calls, or leave out -o"));
        }
        let (timing, gone) = self.measure()?;
        let shown = if self.count.json { output::print_json(&self.rows(&timing)) } else { self.print(&timing) };
        shown?;
        // What is known is printed by then, also where there is nothing to draw.
        if let (Some((file, format)), Some(path)) = (self.output, &timing.path) {
            let stacks = Stacks {
                tree: &path.tree,
                waits: self.waits,
                title: &self.call,
                subtitle: format!("{} traced", counted(path.calls.len() as u64, "call")),
                none: "the call is too short to have any; give functions that take longer",
            };
            stacks.write(file, format)?;
        }
        gone.map_or_else(|| self.ended(&timing), Err)
    }

    /// Calls it; where the node goes away meanwhile, the failure that follows what was measured.
    fn measure(&self) -> Result<(Timing, Option<Failure>), Failure> {
        let lasting = self.count.budget.lasting()?;
        let options = TimeOptions {
            call: self.call.clone(),
            times: self.time.times,
            duration: lasting,
            traced: self.time.traced,
            functions: self.functions.clone(),
            value: self.time.result,
            messages: MESSAGES,
            budget: self.count.budget.path_budget(lasting + BEYOND),
        };
        let stopped = signals::stop_flag()?;
        let node = self.count.node.connect("erlang calls --time")?;
        let helper = Helper::load(&node)?;
        let progress = Progress::of_time(lasting, "calls");
        let mut so_far = None;
        let timing = time(&helper, &options, || stopped.load(Ordering::Relaxed), &mut so_far);
        drop(progress);
        if let Err(error) = &timing
            && is_no_call(error)
        {
            return Err(Failure::Usage(error.problem()));
        }
        let (timing, gone) = measured(timing, so_far)?;
        if gone.is_none() {
            leave(helper)?;
        }
        Ok((timing, gone))
    }

    /// A call whose first execution raises an exception, or does not end, has measured nothing.
    fn ended(&self, timing: &Timing) -> Result<Done, Failure> {
        if let Some(raised) = timing.raised.as_ref().filter(|_| timing.times.is_empty()) {
            let cause = format!("{} raises an exception", self.call);
            let help = "check the function and its arguments; it was called once";
            return Err(Failure::Failed(Problem::new(cause, sanitise(&described(raised)).into_owned(), help)));
        }
        if timing.first.is_none() {
            if timing.ended == Ended::Asked {
                output::line_aside(&format!("stopped before {} came to its end", self.call));
                return Ok(Done::Fine);
            }
            let cause = format!("{} did not come to its end", self.call);
            let help = "allow more with --duration or the options of the budget";
            return Err(Failure::Failed(Problem::new(cause, timing.ended.describe(), help)));
        }
        if let Ended::Tripped { .. } | Ended::Asked = timing.ended {
            output::line_aside(&timing.ended.describe());
        }
        Ok(Done::Fine)
    }

    fn print(&self, timing: &Timing) -> Result<(), Failure> {
        if timing.times.is_empty() {
            return Ok(());
        }
        let first = timing.first.and_then(|first| Spread::of(&[first]));
        let kinds = [("first", first), ("timed", Spread::of(&timing.times))];
        let spreads: Vec<_> = kinds.into_iter().filter_map(|(what, spread)| Some((what, spread?))).collect();
        paths::print_spreads("calls", &spreads)?;
        if let Some(value) = &timing.value {
            output::print(&format!("\nThe first returned {}\n", sanitise(value)))?;
        }
        output::print_prose(&format!("\n{}\n", self.costs(timing)))?;
        if let Some(path) = &timing.path {
            let rows = paths::functions(path);
            paths::print_functions(&rows, self.count.limit, path)?;
            print_neighbours(&path.tree, rows.iter().map(|row| row.function))?;
            output::print_prose(&format!("\n{}\n", traced(timing, path)))?;
        }
        Ok(())
    }

    /// Costs of calls beside time, and notes about the numbers.
    fn costs(&self, timing: &Timing) -> String {
        let mut lines = Vec::new();
        let made = timing.times.len() as u64;
        if made < self.time.times.into() && timing.ended == Ended::Time {
            lines.push(format!("The time is over after {} of {}.", count(made), count(self.time.times.into())));
        }
        if let Some(raised) = &timing.raised {
            let what = described(raised);
            lines.push(format!("{} of them raised an exception: {}", count(raised.calls), sanitise(&what)));
        }
        if let Some(reductions) = timing.reductions {
            lines.push(format!("Reductions per call: {}.", count(reductions)));
        }
        lines.extend(timing.collected.as_ref().map(collected));
        if let Some(empty) = timing.empty {
            let empty = Nanos::from(empty);
            lines.push(format!("A call that does nothing takes {empty} here, which each number contains."));
        }
        if let Some(refused) = &timing.refused {
            lines.push(format!("No functions were traced: {}.", sanitise(&refused.to_string())));
        }
        lines.join("\n")
    }

    fn rows<'a>(&'a self, timing: &'a Timing) -> TimeRows<'a> {
        TimeRows {
            call: &self.call,
            ended: timing.ended.describe(),
            first_ns: timing.first.map(|it| Nanos::from(it).0),
            value: timing.value.as_deref(),
            raised: timing.raised.as_ref(),
            times: Spread::of(&timing.times),
            empty_call_ns: timing.empty.map(|it| Nanos::from(it).0),
            reductions_per_call: timing.reductions,
            collected: timing.collected,
            traced: timing.path.as_ref().map(|path| paths::rows(path, None)),
            not_traced: timing.refused.as_ref().map(ToString::to_string),
        }
    }
}

fn collected(it: &Collected) -> String {
    let each = |what: u64| what as f64 / it.calls.max(1) as f64;
    format!(
        "Words allocated per call: {}; garbage collections: {:.1} of the young heap, {:.1} of the whole (of {} more).",
        count(it.words),
        each(it.minor),
        each(it.major),
        counted(it.calls, "call"),
    )
}

fn described(raised: &Raised) -> String {
    let at = match raised.stack.as_slice() {
        [] => String::new(),
        stack => format!(" in {}", stack.join(", ")),
    };
    format!("{}: {}{at}", raised.class, raised.reason)
}

/// The traced calls, and how much longer they took.
fn traced(timing: &Timing, path: &erlang::calls::Path) -> String {
    let slower = match (Spread::of(&path.durations()), Spread::of(&timing.times)) {
        (Some(traced), Some(timed)) => format!(
            "{} traced, {} each (median) where the timed ones took {}.\n",
            counted(path.calls.len() as u64, "call"),
            Nanos(traced.p50_ns),
            Nanos(timed.p50_ns)
        ),
        _ => "No traced call came to its end.\n".to_owned(),
    };
    slower + &paths::provenance(path)
}
