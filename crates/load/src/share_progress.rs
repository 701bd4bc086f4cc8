//! How far the shares of a load are in their drains, where a share's messages go to another one's consumers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Counts of a share's messages, or of several shares'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareProgress {
    /// Messages sent and not confirmed.
    pub open: u64,
    /// Deliveries that the messages sent should lead to.
    pub expected: u64,
    /// Deliveries of the load's messages.
    pub received: u64,
    /// Messages among them, each once for each queue or subscriber, as far as the ledger was looked into.
    pub delivered: u64,
}

impl ShareProgress {
    /// The sums of both.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            open: self.open.saturating_add(other.open),
            expected: self.expected.saturating_add(other.expected),
            received: self.received.saturating_add(other.received),
            delivered: self.delivered.saturating_add(other.delivered),
        }
    }
}

/// The progress that shares have told.
#[derive(Debug, Default)]
pub(crate) struct ProgressBoard(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    by_worker: BTreeMap<u32, ShareProgress>,
    /// All others' together, where they run elsewhere.
    elsewhere: Option<ShareProgress>,
}

impl ProgressBoard {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Told { by_worker: BTreeMap::new(), elsewhere: None }))
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, worker: u32, progress: Option<ShareProgress>) {
        let mut told = self.told();
        let _ = match progress {
            Some(progress) => told.by_worker.insert(worker, progress),
            None => told.by_worker.remove(&worker),
        };
    }

    pub(crate) fn of(&self, worker: u32) -> Option<ShareProgress> {
        self.told().by_worker.get(&worker).copied()
    }

    pub(crate) fn tell_elsewhere(&self, progress: Option<ShareProgress>) {
        self.told().elsewhere = progress;
    }

    pub(crate) fn elsewhere(&self) -> Option<ShareProgress> {
        self.told().elsewhere
    }

    /// The sums of all shares but one, of this many; `None` until all have told theirs.
    pub(crate) fn others(&self, worker: u32, shares: usize) -> Option<ShareProgress> {
        let told = self.told();
        let others = || told.by_worker.iter().filter(|(other, _)| **other != worker).map(|(_, it)| *it);
        (others().count() + 1 >= shares).then(|| others().fold(ShareProgress::default(), ShareProgress::plus))
    }
}
