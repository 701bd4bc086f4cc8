//! Storage of latencies, for recorders of slices and of sums.

use crate::Metric;

/// Where an interval keeps its latencies.
pub trait Latencies: Default {
    /// Allocates all that recording these will ever need.
    #[must_use]
    fn with(metrics: &[Metric]) -> Self;
    /// Whether nothing was recorded.
    fn is_empty(&self) -> bool;
    /// Empties it, keeping its memory.
    fn reset(&mut self);
    /// Adds the buckets of another one.
    fn merge(&mut self, other: &Self);
}
