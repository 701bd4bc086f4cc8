//! CPU time and waits of an event loop.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Deliveries that came before they were sent, by two clocks, and by more than these are known to be apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyDeliveries {
    /// How many.
    pub count: u64,
    /// By how much at most, the bound included.
    pub most: Nanos,
}

impl EarlyDeliveries {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        self.most = self.most.max(other.most);
    }
}

/// Time of one event loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUsage {
    /// CPU from its start to its end, set-up included.
    pub total: Nanos,
    /// CPU during the measured phase.
    pub measured: Nanos,
    /// Of the measured phase, the time in which it had nothing to do.
    pub measured_idle: Nanos,
    /// Run-queue wait in the measured phase; `None` where the kernel keeps no account of it.
    pub measured_run_queue_wait: Option<Nanos>,
    /// The measured phase by the loop's own clock.
    pub measured_time: Nanos,
    /// How late it began the load, less its run-queue wait since it knew the start.
    pub start_lateness: Nanos,
    /// Its connections.
    pub connections: u64,
    /// Connections that were lost and reconnected, or tried to.
    pub lost_connections: u64,
    /// Connections that were down when the run ended.
    pub down_connections: u64,
    /// Of its deliveries, those that prove its clock wrong.
    pub early: EarlyDeliveries,
}

impl ThreadUsage {
    /// CPU that was used since `before`: of both the measured phase has lasted since the loop began.
    #[must_use]
    pub fn since(self, before: &Self) -> Self {
        let waited = self.measured_run_queue_wait.zip(before.measured_run_queue_wait);
        Self {
            measured: self.measured.saturating_sub(before.measured),
            measured_idle: self.measured_idle.saturating_sub(before.measured_idle),
            measured_run_queue_wait: waited.map(|(now, then)| now.saturating_sub(then)),
            measured_time: self.measured_time.saturating_sub(before.measured_time),
            ..self
        }
    }
}
