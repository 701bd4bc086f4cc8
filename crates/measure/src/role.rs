//! Whom the operations of a scenario load.

use serde::{Deserialize, Serialize};

/// Whom the operations of a scenario load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A broker.
    #[default]
    Broker,
    /// Any server that answers requests; a broker's pages are such, too.
    Server,
    /// Nobody: it watches what others do.
    Watcher,
}
