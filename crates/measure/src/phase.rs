//! The phases of a run.

use serde::{Deserialize, Serialize};

crate::named! {
    /// The part of a run that an interval belongs to. No interval spans two.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
    )]
    #[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
    #[serde(rename_all = "snake_case")]
    pub enum Phase {
        /// Load runs, nothing counts towards the aggregates.
        #[default]
        Warmup = "warmup",
        /// Phase of the summary.
        Measure = "measure",
        /// Nothing more is sent; acknowledgements and deliveries are awaited.
        Drain = "drain",
    }
}

impl Phase {
    /// The phase in which everything was due that is recorded by itself in an interval of this one:
    /// nothing is due in the drain.
    #[must_use]
    pub const fn due(self) -> Self {
        match self {
            Self::Warmup => Self::Warmup,
            Self::Measure | Self::Drain => Self::Measure,
        }
    }
}
