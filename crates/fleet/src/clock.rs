//! How far a worker's clock is from the coordinator's.

use measure::{Nanos, Time};

/// Instants of a probe and its echo.
#[derive(Clone, Copy, Debug)]
pub struct ProbeTimes {
    /// Coordinator's clock when the probe was sent.
    pub sent: Time,
    /// Worker's clock when it came.
    pub received: Time,
    /// Worker's clock when the echo was sent.
    pub replied: Time,
    /// Coordinator's clock when that came.
    pub returned: Time,
}

/// Estimates the offset of a worker's clock from probes.
#[derive(Clone, Debug, Default)]
pub struct ClockEstimator {}

impl ClockEstimator {
    /// Takes a probe; whether its instants can be such.
    pub fn probe(&mut self, times: ProbeTimes) -> bool;
    /// Takes what others know, such as chrony: worker's clock less coordinator's, in nanoseconds, and its bound.
    pub fn told(&mut self, at: Time, offset: i64, bound: Nanos);
    /// An instant of the worker's clock by the coordinator's, and the most that it can be off; `None` before a probe.
    pub fn to_coordinator(&self, time: Time) -> Option<(Time, Nanos)>;
    /// An instant of the coordinator's clock by the worker's, and the most that it can be off.
    pub fn to_worker(&self, time: Time) -> Option<(Time, Nanos)>;
    /// The least round trip.
    pub fn round_trip(&self) -> Option<Nanos>;
    /// Drift in parts per million, where a line passes through all probes.
    pub fn drift_ppm(&self) -> Option<f64>;
    /// Whether no drift explains the probes: one of the clocks was set, or a machine slept.
    pub fn has_moved(&self) -> bool;
}
