//! Pages that bellows itself serves while a run is on, for a probe to ask.

use serde::{Deserialize, Serialize};

use web::management::ManagementOptions;

/// Path of the page of queues at its server.
pub const QUEUES_PATH: &str = "/queues";

/// A page that a run serves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnPage {
    /// Counts of the broker's queues, as `bellows erlang queues --listen` serves them.
    Queues,
}

/// Addresses of pages and APIs that are known only when the broker runs.
#[derive(Clone, Debug, Default)]
pub struct ProbedAddresses {
    /// The management API, and who logs in there.
    pub management: Option<ManagementOptions>,
    /// Servers of pages of our own.
    pub pages: Vec<(OwnPage, String)>,
}

impl ProbedAddresses {
    /// The server of a page.
    pub fn of_page(&self, page: OwnPage) -> Option<&str> {
        self.pages.iter().find(|(it, _)| *it == page).map(|(_, address)| address.as_str())
    }
}
