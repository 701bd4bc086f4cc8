//! Typed warnings: doubts about a number. They are data; `report` makes their sentences.

use serde::{Deserialize, Serialize};

use crate::{Finding, WarningCode};

/// How much a warning takes from the numbers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The number must not be used. `--strict` heeds only these.
    Invalid,
    /// A number is off: the text says which one, and which way.
    #[default]
    Caution,
    /// Worth knowing; the numbers are right.
    Note,
}

/// Remedy for a debug build of bellows, as the pages say it.
pub const RELEASE_BUILD: &str = "build with `make build`, or install with `make install`";

/// One warning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// The observed values, by kind.
    #[serde(flatten)]
    pub finding: Finding,
    /// Consequence for the numbers.
    pub tier: Tier,
    /// The event of the profile that it is about, where that is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Whether a server was loaded that need not be a broker.
    pub of_server: bool,
    /// Whether the run was interrupted in its drain, after a whole load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drain_cut: bool,
    /// The observed value, which number it puts in doubt, and the remedy.
    pub text: String,
}

impl Warning {
    /// A warning whose sentence is not made yet.
    #[must_use]
    pub const fn new(tier: Tier, finding: Finding) -> Self {
        Self {
            finding,
            tier,
            event: None,
            of_server: false,
            drain_cut: false,
            text: String::new(),
        }
    }

    /// Its kind.
    #[must_use]
    pub const fn code(&self) -> WarningCode {
        self.finding.code()
    }
}
