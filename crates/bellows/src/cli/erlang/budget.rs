//! Limits of the cost of a trace or profile to the node.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, value_parser};
use erlang::{Budget, ProcessFilter};
use measure::Length;

/// Trace messages of a path of calls that may wait on the node.
const PATH_BACKLOG: u32 = 50_000;

/// Limits on the node's side; the first that trips ends it.
#[derive(Clone, Debug, Args)]
pub(super) struct BudgetArgs {
    /// How long, in seconds (or 500ms, 2m)
    #[arg(long = "for", value_name = "DURATION", default_value = "5")]
    pub(super) duration: Length,
    /// Withdraw when so many trace messages wait on the node [default: 10000, or 50000 where a path of calls is traced]
    #[arg(long, value_name = "MESSAGES", value_parser = value_parser!(u32).range(1..=1_000_000), help_heading = "Budget")]
    max_backlog: Option<u32>,
    /// Withdraw when the node's memory rises by so many MB
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = value_parser!(u32).range(1..=1_000_000), help_heading = "Budget")]
    max_memory: u32,
    /// Withdraw when so many more processes than before wait to run, for a second
    #[arg(long, value_name = "PROCESSES", default_value_t = 32, value_parser = value_parser!(u32).range(1..=1_000_000), help_heading = "Budget")]
    max_run_queue: u32,
}

impl BudgetArgs {
    /// Length of the trace or profile.
    pub(super) fn lasting(&self) -> Duration {
        Duration::from_nanos(self.duration.0.0)
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

/// Which processes.
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
    /// The filter for these options.
    pub(super) fn filter(&self) -> ProcessFilter {
        match (&self.role, self.pids.as_slice()) {
            (Some(role), _) => ProcessFilter::Role(role.clone()),
            (None, []) => ProcessFilter::All,
            (None, pids) => ProcessFilter::Named(pids.to_vec()),
        }
    }
}
