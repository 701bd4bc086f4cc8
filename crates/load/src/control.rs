//! Stopping a load from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A handle that stops a running load; clones share their state. Safe to use in a signal handler
/// thread. Answered within about 20 ms.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<AtomicU8>);

/// What has been asked of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Request {
    Run,
    Stop,
    Abort,
}

impl Control {
    /// A handle that has asked for nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Orderly end: nothing more is sent, what is under way is drained, queues are handled as
    /// planned.
    pub fn stop(&self) {
        self.0.fetch_max(1, Ordering::Relaxed);
    }

    /// End at once: no drain, connections are dropped. Queues that were to be deleted stay.
    pub fn abort(&self) {
        self.0.fetch_max(2, Ordering::Relaxed);
    }

    /// Whether an end was asked for.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.request() != Request::Run
    }

    pub(crate) fn request(&self) -> Request {
        match self.0.load(Ordering::Relaxed) {
            0 => Request::Run,
            1 => Request::Stop,
            _ => Request::Abort,
        }
    }
}
