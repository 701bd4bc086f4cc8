//! Stopping a load from outside, and asking it to watch for a broker's return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::Error;

/// A handle that stops a running load; clones share their state. Safe to use in a signal handler
/// thread. Answered within about 20 ms.
#[derive(Clone, Debug, Default)]
pub struct Control {
    request: Arc<AtomicU8>,
    watch: Arc<AtomicU8>,
    held: Arc<AtomicBool>,
}

/// What has been asked of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopRequest {
    Run,
    Stop,
    Abort,
}

/// How far the return of a broker has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Nobody watches.
    Off,
    /// For the first confirm.
    Confirm,
    /// For producers to be on schedule, and consumers to have what was sent since.
    Backlog,
}

impl Control {
    /// A handle that has requested nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same handle for a load that is not asked to watch.
    pub(crate) fn without_watch(&self) -> Self {
        Self {
            request: Arc::clone(&self.request),
            watch: Arc::default(),
            held: Arc::clone(&self.held),
        }
    }

    /// Orderly end: nothing more is sent, what is in flight is drained, queues are handled as
    /// planned.
    pub fn stop(&self) {
        self.request.fetch_max(1, Ordering::Relaxed);
    }

    /// End at once: no drain, connections are dropped. Queues that were to be deleted stay.
    pub fn abort(&self) {
        self.request.fetch_max(2, Ordering::Relaxed);
    }

    /// Whether an end was requested.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.request() != StopRequest::Run
    }

    /// From now on watches for the first confirm ([`crate::RunEvent::FirstConfirm`]), and then for the
    /// end of the backlog ([`crate::RunEvent::BacklogGone`]). Call it when a broker that was away is
    /// about to come back.
    pub fn watch_return(&self) {
        self.watch.store(1, Ordering::Relaxed);
    }

    /// From now on clients stay connected when everything has been drained, until [`Self::release`], or for
    /// two seconds at most: whoever asks a broker for its consumers finds them.
    pub fn hold(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    /// Ends [`Self::hold`].
    pub fn release(&self) {
        self.held.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn request(&self) -> StopRequest {
        match self.request.load(Ordering::Relaxed) {
            0 => StopRequest::Run,
            1 => StopRequest::Stop,
            _ => StopRequest::Abort,
        }
    }

    #[inline]
    pub(crate) fn watch(&self) -> Watch {
        match self.watch.load(Ordering::Relaxed) {
            0 => Watch::Off,
            1 => Watch::Confirm,
            _ => Watch::Backlog,
        }
    }

    /// Goes from one state to the next; `false` where somebody else did, or it is another.
    pub(crate) fn watch_on(&self, from: Watch, to: Watch) -> bool {
        let number = |watch| match watch {
            Watch::Off => 0,
            Watch::Confirm => 1,
            Watch::Backlog => 2,
        };
        let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        self.watch
            .compare_exchange(number(from), number(to), order, failed)
            .is_ok()
    }
}

/// Why a wait ended without an answer.
#[derive(Debug)]
pub(crate) enum Interruption {
    Failed(Error),
    /// [`Control`] requested the end.
    Stopped,
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
