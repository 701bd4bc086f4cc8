//! Ending a broker from another thread.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Asks a running broker to end; clones ask the same broker. Safe to call from any thread.
#[derive(Clone, Default)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    stopped: AtomicBool,
    waker: Mutex<Option<Arc<mio::Waker>>>,
}

impl Stop {
    /// A handle that has not been used yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the broker to close its connections and return. Asking again changes nothing.
    pub fn stop(&self) {
        self.inner.stopped.store(true, Ordering::SeqCst);
        let waker = self
            .inner
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = waker.as_ref() {
            // A failed wake-up only delays the end until the event loop's next tick.
            let _ = waker.wake();
        }
    }

    /// Whether [`Stop::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.inner.stopped.load(Ordering::SeqCst)
    }

    /// Names the event loop that [`Stop::stop`] wakes.
    pub(crate) fn attach(&self, waker: Arc<mio::Waker>) {
        *self
            .inner
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop")
            .field("stopped", &self.is_stopped())
            .finish_non_exhaustive()
    }
}
