//! Requirements of a run, and whether it met them.

use serde::{Deserialize, Serialize};

/// Unit of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum QuantityUnit {
    /// Nanoseconds of time.
    #[default]
    Ns,
    /// Per second.
    PerSecond,
    /// A share from 0 to 1.
    Share,
    /// A number of things.
    Count,
    /// Bytes of memory.
    Bytes,
    /// Cores that were busy: CPU time divided by elapsed time.
    Cores,
}

/// One requirement of a run, and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(default)]
pub struct RequirementOutcome {
    /// The condition as people write it: `end-to-end p99 < 20ms`.
    pub that: String,
    /// Observed value; `None` where it cannot be told.
    pub observed: Option<f64>,
    /// Required value.
    pub bound: f64,
    /// Unit of both.
    pub unit: QuantityUnit,
    /// Whether it held; `None` where that cannot be told.
    pub met: Option<bool>,
    /// Why it cannot be told.
    pub why: Option<String>,
}

impl RequirementOutcome {
    /// Why a percentile of few samples cannot be told.
    pub const TOO_FEW: &str = "fewer than ten samples lie beyond this percentile";

    /// Whether too few samples keep it from being told: more of them would help.
    #[must_use]
    pub fn lacks_samples(&self) -> bool {
        self.why.as_deref() == Some(Self::TOO_FEW)
    }
}
