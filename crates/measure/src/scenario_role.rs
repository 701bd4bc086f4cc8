//! The system that a scenario loads.

use serde::{Deserialize, Serialize};

/// System that the operations of a scenario load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ScenarioRole {
    /// A broker.
    #[default]
    Broker,
    /// Any server that answers requests; a broker's pages are such, too.
    Server,
    /// None: it watches what others do.
    Watcher,
}

impl ScenarioRole {
    /// Role of a scenario by its name, which begins with its kind: of a run that was cut off nothing else is known.
    #[must_use]
    pub fn of(scenario: &str) -> Self {
        match scenario.split('_').next() {
            Some("probe") => Self::Server,
            Some("trace") => Self::Watcher,
            _ => Self::Broker,
        }
    }

    /// Word for the loaded system.
    #[must_use]
    pub const fn target(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Broker | Self::Watcher => "broker",
        }
    }
}
