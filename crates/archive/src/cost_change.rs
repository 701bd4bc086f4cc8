//! A cost on two sides, and whether its change is proven.

use serde::{Deserialize, Serialize};

/// A cost per message on both sides, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct CostChange {
    /// Mean of A's runs.
    pub a: f64,
    /// Mean of B's runs.
    pub b: f64,
    /// Interval of B less A, as strict as the decision.
    pub interval: (f64, f64),
    /// Two-sided probability of such a change, or a larger one, by chance, corrected for the other functions.
    pub p: f64,
    /// Whether the change is significant.
    pub proven: bool,
    /// Smallest change that so many runs show in four of five experiments; `None` where they are too few.
    pub visible: Option<f64>,
}

impl CostChange {
    /// B less A.
    #[must_use]
    pub fn change(&self) -> f64 {
        self.b - self.a
    }
}
