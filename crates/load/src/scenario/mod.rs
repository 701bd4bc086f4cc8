//! Kinds of load. Each brings its metrics, its requests, and how it runs; several share one time axis ([`run`]).

mod beside;
pub mod churn;
pub(crate) mod messages;
mod operations;
pub mod probe;

use std::fmt;

use measure::{Metric, Nanos, ScenarioRole};

use crate::{Control, Error, Outcome, Phases, Plan, Requested, SliceSink, StartBarrier};

pub use beside::{Shares, run};
pub use messages::run_plan;

/// A kind of load, resolved: constant while it runs. Metrics are registered before, and indices meanwhile.
pub trait Scenario: fmt::Debug + Send + Sync {
    /// The key of experiment files and of JSON, and [`measure::MetricInfo::scenario`] of its metrics.
    fn name(&self) -> &'static str;

    /// The thing that is loaded, as people read it: `connections`, `messages`.
    fn subject(&self) -> &str;

    /// All its metrics, in the order in which they are shown.
    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }

    /// Metrics that count its operations; `None` for messages ([`measure::Counters`]), and for loads not seen.
    fn operations(&self) -> Option<Operations> {
        None
    }

    /// The rates of its schedule; `None` without one. Errors: [`Error::Invalid`] for one that cannot be kept.
    fn requested(&self) -> Result<Option<Requested>, Error> {
        Ok(None)
    }

    /// Messages or operations that may be in flight; `None` where nothing limits them.
    fn in_flight_limit(&self) -> Option<u64> {
        None
    }

    /// Connections that it has open at the same time at most: one for each operation unless it says otherwise.
    fn connections(&self) -> u64 {
        self.in_flight_limit().unwrap_or(0)
    }

    /// The plan of a load of messages, for what is known of such beforehand.
    fn plan(&self) -> Option<&Plan> {
        None
    }

    /// Whether it waits for answers before it goes on, so that a slow broker is asked less often.
    fn is_closed_loop(&self) -> bool {
        false
    }

    /// The lengths of its phases.
    fn phases(&self) -> Phases;

    /// Shares of one load that it consists of: each calls [`StartBarrier::ready`].
    fn shares(&self) -> usize {
        1
    }

    /// How long before the start it must hear of it, where that is long.
    fn notice(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Runs to its end and reports to [`SliceSink::slice`] ten times a second, in intervals that end at whole tenths of
    /// a second of a phase; [`run`] makes seconds of them. It calls [`StartBarrier::ready`] when it could begin, begins
    /// at [`StartBarrier::start`], and ends at [`StartBarrier::ended`] at the latest. Errors: where it could not start.
    /// What goes wrong later stands in [`Outcome::error`].
    fn run(&self, together: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error>;
}

/// The metrics of operations that have a time at which they are due.
#[derive(Clone, Copy, Debug)]
pub struct Scheduled {
    /// Operations that began over 1 ms after they were due.
    pub late: Metric,
    /// Operations that were due and did not begin before the end.
    pub not_begun: Metric,
    /// From the time at which an operation was due until it began.
    pub wait: Metric,
}

/// The operations of a scenario, and the metrics that count them.
#[derive(Clone, Copy, Debug)]
pub struct Operations {
    /// The word for one: `cycle`.
    pub one: &'static str,
    /// The word for several: `cycles`.
    pub many: &'static str,
    /// System that they load.
    pub role: ScenarioRole,
    /// Operations that began.
    pub begun: Metric,
    /// Operations that ended in order.
    pub completed: Metric,
    /// Operations that did not; `None` where others begin them, and it is theirs to judge.
    pub failed: Option<Metric>,
    /// Metrics that only a scenario with a schedule has; `None` where others begin its operations.
    pub scheduled: Option<Scheduled>,
    /// The latency of a whole operation, from the time at which it was due.
    pub latency: Metric,
}
