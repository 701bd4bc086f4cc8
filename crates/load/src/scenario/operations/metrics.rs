//! The metrics that every kind of operation has.

use measure::{Metric, ScenarioRole};

use crate::scenario::{Operations, Scheduled};

/// The metrics that the event loop itself records, resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationMetrics {
    /// The scenario's key, under which its tally stands.
    pub(crate) scenario: &'static str,
    /// The words for one and for several operations.
    pub(crate) words: [&'static str; 2],
    /// System that they load.
    pub(crate) role: ScenarioRole,
    pub(crate) begun: Metric,
    pub(crate) completed: Metric,
    pub(crate) failed: Metric,
    pub(crate) late: Metric,
    pub(crate) in_flight: Metric,
    pub(crate) not_begun: Metric,
    /// Operations that have neither ended nor been given up when the run ends; `None` where those are not counted.
    pub(crate) in_flight_at_end: Option<Metric>,
    /// From the due time until the operation has begun.
    pub(crate) wait: Metric,
    /// From the due time until the operation has ended.
    pub(crate) latency: Metric,
    /// Another latency from the due time; `None` where there is none.
    pub(crate) opened: Option<Metric>,
}

impl OperationMetrics {
    pub(crate) const fn operations(&self) -> Operations {
        let [one, many] = self.words;
        Operations {
            one,
            many,
            role: self.role,
            begun: self.begun,
            completed: self.completed,
            failed: Some(self.failed),
            scheduled: Some(Scheduled {
                late: self.late,
                not_begun: self.not_begun,
                wait: self.wait,
            }),
            latency: self.latency,
        }
    }
}
