//! Summary of a profile.

use serde::{Deserialize, Serialize};

use crate::class::Class;

impl ProfileSummary {
    /// Fewer samples say nothing of a profile's shares: each may be off by ten points.
    pub const FEW_SAMPLES: u64 = 100;

    /// Whether some were taken, and too few to tell shares.
    #[must_use]
    pub fn has_few_samples(&self) -> bool {
        (1..Self::FEW_SAMPLES).contains(&self.samples)
    }
}

/// Summary of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileSummary {
    /// `cpu`, …
    pub event: String,
    /// The node that was sampled, in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// The kernel's event that they were taken at, such as `cpu-clock`; empty where unknown.
    pub clock: String,
    /// Samples per second of CPU time that were requested; 0 where unknown.
    pub frequency: u32,
    /// Samples kept.
    pub samples: u64,
    /// Unit of weights: `samples`, `calls`, `bytes`, `nanoseconds`, …; empty where unknown.
    pub unit: String,
    /// Sum of the samples' weights.
    pub weight: u64,
    /// Samples that the kernel had to drop.
    pub lost: u64,
    /// Share of samples with at least one frame that has no name (0 to 1).
    pub unknown_share: f64,
    /// Share of samples whose stack reaches the root of its thread or Erlang process (0 to 1).
    pub complete_share: f64,
    /// Share of the process's CPU time that the samples stand for (0 to 1); absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// Share of samples whose stack was unwound from copies of the thread's stacks (0 to 1).
    pub copied_share: f64,
    /// Share of samples whose stack was unwound by frame pointers (0 to 1).
    pub frame_pointer_share: f64,
    /// Bytes of stacks that were copied for a sample, on average.
    pub copied_bytes: u64,
    /// Share of samples with at least one function that is called after its neighbour, `[near NAME]`
    /// (0 to 1).
    pub near_share: f64,
    /// Shares of classes, largest first: every sample counts for one class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassShare>,
    /// Documented patterns that have their share of the samples, largest share first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_patterns: Vec<PatternShare>,
    /// The Erlang processes with the largest shares, at most 5; absent where none is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<WorkShare>,
    /// The functions with the largest self share, at most 20.
    pub top: Vec<FunctionShare>,
    /// The function of the process's own code that has the largest total share without being the frame of
    /// everything or waiting for most of it; absent where there is none, or most stacks are incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline: Option<FunctionShare>,
}

/// A class's part of all samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassShare {
    /// The class.
    pub class: Class,
    /// Share of all samples (0 to 1).
    pub share: f64,
    /// Sum of the samples' weights.
    #[serde(rename = "samples")]
    pub weight: u64,
}

/// A documented pattern's part of all samples, and what is known of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PatternShare {
    /// Name of the pattern.
    pub pattern: String,
    /// Share of all samples (0 to 1).
    pub share: f64,
    /// The function that has most of it, as the symbol table or JIT map writes it; absent where no function does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Share of all samples that belong to the pattern and lie below that function (0 to 1).
    pub function_share: f64,
    /// Activity of its samples: `collect garbage of Erlang processes`.
    pub says: String,
    /// Cure found elsewhere.
    pub cure: String,
    /// The address where that is written.
    pub source: String,
}

/// A process's part of all samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkShare {
    /// Whose work it is: `queue orders-7`, or `<0.123.0>` where the node has not said what that is.
    pub of: String,
    /// Role: `queue`, `channel`; empty where not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Share of all samples (0 to 1).
    pub share: f64,
}

/// One row of the function table; shares are of all samples (0 to 1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionShare {
    /// Name as the symbol table or JIT map writes it.
    pub function: String,
    /// Binary, `[kernel]` or `[jit]`.
    pub module: String,
    /// At the leaf.
    #[serde(rename = "self")]
    pub self_share: f64,
    /// Anywhere in the stack, recursion counted once.
    pub total: f64,
}
