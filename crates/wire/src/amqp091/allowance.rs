//! Memory that many connections may take together for message bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that connections may hold together of bodies that come in several frames. Clones share
/// it. Bodies of one frame take nothing of it.
#[derive(Clone, Debug)]
pub struct BodyAllowance(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: u64,
    taken: AtomicU64,
}

impl BodyAllowance {
    /// This many bytes for all who share it.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let taken = AtomicU64::new(0);
        Self(Arc::new(Shared { limit, taken }))
    }

    /// All that may be taken together, in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes taken at present.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Takes this many bytes, unless there are fewer left.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let more = |taken: u64| {
            let sum = taken.checked_add(bytes)?;
            (sum <= self.0.limit).then_some(sum)
        };
        let taken = &self.0.taken;
        taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.0.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether so little is left that nobody should keep a buffer for later.
    pub(super) fn is_tight(&self) -> bool {
        self.taken() > self.0.limit / 2
    }
}
