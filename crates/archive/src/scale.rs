//! Runs of an experiment with different numbers of clients, and the law that their throughputs follow.

use serde::{Deserialize, Serialize};

use crate::{LimitedBy, Warning};

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

    /// Name of the varied clients: `producers`.
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
    /// Messages per second received, or sent where nobody receives.
    pub throughput: f64,
    /// CPU of the broker in cores, where it is known.
    pub broker_cores: Option<f64>,
    /// Who limited the run.
    pub limited_by: LimitedBy,
    /// Warnings that put its numbers in doubt, but for those of any load without a rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<Warning>,
}

/// The Universal Scalability Law, `X(N) = λN / (1 + σ(N-1) + κN(N-1))`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleLaw {
    /// Messages per second of one client alone, λ.
    pub alone: ScaleEstimate,
    /// Contention, σ: share of the work that waits for shared resources.
    pub contention: ScaleEstimate,
    /// Coherence, κ: coordination cost of each pair of clients.
    pub coherence: ScaleEstimate,
    /// The number of clients with the highest throughput; `None` where it cannot be told.
    pub peak: Option<f64>,
    /// Why it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_peak: Option<ScaleDoubt>,
    /// Share of the variance that the law explains.
    pub r_squared: f64,
    /// The largest distance of a mean from the curve, as a share of the curve.
    pub worst_residual: f64,
}

impl ScaleLaw {
    /// Whether the law is the broker's, and the throughputs follow it.
    #[must_use]
    pub const fn is_followed(&self) -> bool {
        !matches!(
            self.no_peak,
            Some(ScaleDoubt::PoorFit | ScaleDoubt::Generator(_))
        )
    }
}

/// Why runs with different numbers of clients give no number with the highest throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleDoubt {
    /// From this number of clients on the generator limited most runs: the curve is not the broker's.
    Generator(u32),
    /// The law does not fit the throughputs.
    PoorFit,
    /// Coherence is at its bound, 0: by the law more clients never have less.
    NeverFalls,
    /// The interval of coherence holds 0, or is not known.
    NotProven,
    /// The peak is far beyond the tried numbers of clients.
    FarBeyond,
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
