//! Runs of an experiment with different numbers of clients, and the law that their throughputs follow.

use serde::{Deserialize, Serialize};

use crate::LimitedBy;

/// Runs with different numbers of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleRuns {
    /// The key that is varied: `load.0.producers`.
    pub key: String,
    /// Its values, the lowest first.
    pub values: Vec<u32>,
    /// Runs of each value.
    pub repeats: u32,
    /// The runs that were made, in the order of time.
    pub runs: Vec<ScaleRun>,
    /// The law that they follow; `None` while there are too few numbers of clients.
    pub law: Option<ScaleLaw>,
}

impl ScaleRuns {
    /// Numbers of clients of one experiment.
    pub const MOST_VALUES: usize = 50;

    /// What is varied, in a word: `producers`.
    #[must_use]
    pub fn noun(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }
}

/// One run with a number of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleRun {
    /// The run folder's name.
    pub id: String,
    /// The number of clients.
    pub clients: u32,
    /// Messages per second that came out, or went in where nobody receives.
    pub throughput: f64,
    /// CPU of the broker in cores, where it is known.
    pub broker_cores: Option<f64>,
    /// Who limited the run.
    pub limited_by: LimitedBy,
}

/// The Universal Scalability Law, `X(N) = λN / (1 + σ(N-1) + κN(N-1))`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleLaw {
    /// Messages per second of one client alone, λ.
    pub alone: ScaleEstimate,
    /// Contention, σ: the share of the work that waits for what is shared.
    pub contention: ScaleEstimate,
    /// Coherence, κ: what each pair of clients costs to agree.
    pub coherence: ScaleEstimate,
    /// The number of clients with the highest throughput; `None` where more always have more.
    pub peak: Option<f64>,
    /// Share of the variance that the law explains.
    pub r_squared: f64,
    /// The largest distance of a mean from the curve, as a share of the curve.
    pub worst_residual: f64,
}

/// A value and its 95 % interval, where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ScaleEstimate {
    /// The value.
    pub value: f64,
    /// The interval; `None` where the value lies at its bound, or runs are too few.
    pub interval: Option<(f64, f64)>,
}
