//! What runs of two sides say of the difference between them.

use serde::{Deserialize, Serialize};

use crate::{QuantityUnit, RunState};

/// Runs of two sides, and what they decide.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Always [`Comparison::SCHEMA`].
    pub schema: String,
    /// What is compared with.
    pub a: ComparedSide,
    /// What is compared.
    pub b: ComparedSide,
    /// Whether runs of the two sides stand in pairs, in the order in which they are listed.
    pub paired: bool,
    /// Chance to call anything changed that is not, over all decided figures together.
    pub level: f64,
    /// What is decided of each figure.
    pub figures: Vec<ComparedFigure>,
    /// Why the sides should not be compared, where that was forced.
    pub forced: Vec<String>,
}

/// The runs of a side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedSide {
    /// What it is, such as the broker's name and version.
    pub what: String,
    /// Its runs that count.
    pub runs: Vec<ComparedRun>,
    /// Its runs that do not count, and why.
    pub left_out: Vec<LeftOut>,
}

/// A run that counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// The run folder's name.
    pub id: String,
    /// A caution says that some of its numbers are off.
    pub cautious: bool,
}

/// A run that does not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The run folder's name.
    pub id: String,
    /// How far it got.
    pub state: RunState,
    /// Whether a warning says that a number of it must not be used.
    pub invalid: bool,
}

/// A figure on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedFigure {
    /// Its name, as requirements write it.
    pub name: String,
    /// What it counts.
    pub unit: QuantityUnit,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// Its value in each run of A.
    pub a: Vec<f64>,
    /// Its value in each run of B.
    pub b: Vec<f64>,
    /// Geometric means of both.
    pub means: (f64, f64),
    /// By how much of A's value B's is larger, as a share; negative where it is smaller.
    pub change: f64,
    /// 95 % interval of the change.
    pub interval: (f64, f64),
    /// Two-sided probability of a change at least as large where there is none.
    pub p: f64,
    /// The same, corrected for the other figures.
    pub corrected_p: f64,
    /// Changes within this share do not matter.
    pub margin: f64,
    /// What is decided.
    pub decision: Decision,
    /// Pairs, or runs of each side, that would tell a change as large as the margin; where it cannot be told, and that can be
    /// counted.
    pub needed: Option<u32>,
}

/// What is decided of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It changed.
    Changed,
    /// It changed by less than the margin.
    Negligible,
    /// It is the same within the margin.
    Same,
    /// That cannot be told.
    #[default]
    Undecided,
}

impl Comparison {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.comparison/1";

    /// Whether a figure changed for the worse.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.figures.iter().any(ComparedFigure::is_worse)
    }

    /// Whether it cannot be told of a figure if it changed.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        let mut decisions = self.figures.iter().map(|figure| figure.decision);
        self.figures.is_empty() || decisions.any(|it| it == Decision::Undecided)
    }
}

impl ComparedFigure {
    /// Whether it changed for the worse.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.decision == Decision::Changed && (self.change > 0.0) != self.more_is_better
    }
}
