//! Options shared by commands that trace or count: whom, and the limits of its cost to the node. Callers and callees of
//! functions, which counters and calls of an entry function show.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, value_parser};
use erlang::calls::CallTree;
use erlang::{Budget, ProcessFilter};
use measure::{Length, count};
use report::console::{sanitise, wrap};

use super::connect::NodeArgs;
use crate::{Failure, output};

/// Callers and callees that are shown of a function.
const NEIGHBOURS: usize = 4;
/// Where names begin below a function.
const INDENT: usize = 13;
const FUNCTIONS: usize = 10;

#[derive(Debug, Args)]
pub(super) struct CountArgs {
    #[command(flatten)]
    pub(super) node: NodeArgs,
    /// Functions that are shown
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub(super) limit: usize,
    #[command(flatten)]
    pub(super) processes: ProcessArgs,
    #[command(flatten)]
    pub(super) budget: BudgetArgs,
    /// Print it as a JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Who calls the first of these functions, and whom they call.
pub(super) fn print_neighbours<'a>(tree: &CallTree, functions: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let columns = output::style().columns;
    for function in functions.take(FUNCTIONS) {
        let (callers, callees) = (tree.callers(function), tree.callees(function));
        if !(callers.is_empty() && callees.is_empty()) {
            output::print(&neighbours([function, &named(&callers), &named(&callees)], columns))?;
        }
    }
    Ok(())
}

/// A function, and below it who calls it and whom it calls: names are too long to stand beside each other.
fn neighbours([function, callers, callees]: [&str; 3], columns: usize) -> String {
    let mut out = format!("\n{}\n", sanitise(function));
    for (what, names) in [("called by", callers), ("calls", callees)] {
        let lines = wrap(&sanitise(names), columns.saturating_sub(INDENT));
        for (number, line) in lines.iter().enumerate() {
            let head = format!("  {}", if number == 0 { what } else { "" });
            out += &format!("{head:INDENT$}{line}\n");
        }
    }
    out
}

fn named(pairs: &[(&str, u64)]) -> String {
    let shown = pairs.iter().take(NEIGHBOURS).map(|(name, calls)| format!("{name} {}", count(*calls)));
    shown.collect::<Vec<_>>().join(", ")
}

/// Trace messages of a path of calls that may wait on the node.
const PATH_BACKLOG: u32 = 50_000;

/// Limits on the node's side; the first that trips ends it.
#[derive(Clone, Debug, Args)]
pub(super) struct BudgetArgs {
    /// How long, in seconds (or 500ms, 2m)
    #[arg(long, value_name = "DURATION", default_value = "5")]
    pub(super) duration: Length,
    /// Withdraw when so many trace messages wait on the node [default: 10000, or 50000 where a path of calls is traced]
    #[arg(long, value_name = "MESSAGES", value_parser = value_parser!(u32).range(1..=1_000_000),
          help_heading = "Budget")]
    max_backlog: Option<u32>,
    /// Withdraw when the node's memory rises by so many MB
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = value_parser!(u32).range(1..=1_000_000),
          help_heading = "Budget")]
    max_memory: u32,
    /// Withdraw when so many more processes than before wait to run, for a second
    #[arg(long, value_name = "PROCESSES", default_value_t = 32, value_parser = value_parser!(u32).range(1..=1_000_000),
          help_heading = "Budget")]
    max_run_queue: u32,
}

impl BudgetArgs {
    /// How long it measures. Errors: no time, in which nothing is measured.
    pub(super) fn lasting(&self) -> Result<Duration, Failure> {
        let help = "give a length, such as 5s; Ctrl-C ends it early, and shows what there is by then";
        match self.duration.is_zero() {
            true => Err(Failure::usage("--duration 0 measures nothing", help)),
            false => Ok(self.duration.0.into()),
        }
    }

    /// The limits; `time` is that of the whole.
    pub(super) const fn budget(&self, time: Duration) -> Budget {
        let mut budget = Budget::lasting(time);
        if let Some(backlog) = self.max_backlog {
            budget.backlog = backlog;
        }
        budget.node_bytes = (self.max_memory as u64) << 20;
        budget.run_queue = self.max_run_queue;
        budget
    }

    /// The budget of a trace of a path of calls, which leaves out functions before its messages become too many.
    pub(super) const fn path_budget(&self, time: Duration) -> Budget {
        let mut budget = self.budget(time);
        if self.max_backlog.is_none() {
            budget.backlog = PATH_BACKLOG;
        }
        budget
    }
}

#[derive(Clone, Debug, Args)]
pub(super) struct ProcessArgs {
    /// Only this process, as <0.512.0> or by registered name; may be repeated [default: all]
    #[arg(long = "pid", value_name = "PID")]
    pids: Vec<String>,
    /// Only processes with this role when it begins: queue, channel, connection, or the module that they run
    #[arg(long, value_name = "ROLE", conflicts_with = "pids", value_parser = NonEmptyStringValueParser::new())]
    role: Option<String>,
}

impl ProcessArgs {
    pub(super) fn filter(&self) -> ProcessFilter {
        match (&self.role, self.pids.as_slice()) {
            (Some(role), _) => ProcessFilter::Role(role.clone()),
            (None, []) => ProcessFilter::All,
            (None, pids) => ProcessFilter::Named(pids.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::neighbours;

    #[test]
    fn names_are_whole_and_stand_below_each_other() {
        let callers = "rabbit_channel:handle_method/3 152, rabbit_channel:process_routing_confirm/6 7";
        assert_eq!(
            neighbours(["rabbit_channel:deliver_to_queues/2", callers, ""], 60),
            "\nrabbit_channel:deliver_to_queues/2\n  called by  rabbit_channel:handle_method/3 152,\n             \
             rabbit_channel:process_routing_confirm/6 7\n"
        );
    }
}
