//! Faults that a broker injects on purpose: a script, played exactly and counted. A file's table ([`FaultSpec`]) is
//! checked and becomes a script ([`Fault`]); [`Faults`] is asked about every message, confirm and login which of them
//! hits; [`FaultLog`] tells what was really done, for whoever compares it with a ledger.

mod rules;
mod script;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use measure::Time;

pub(crate) use rules::{ConnectionFault, DeliveryFault, Faults};
pub use script::{Amount, Fault, FaultKind, FaultSpec, Origin, Reach, Who};

/// Everything that a script did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injections {
    /// Origin of the times; `None` while nobody has connected.
    pub origin: Option<Time>,
    /// One per fault of the script, in its order.
    pub faults: Vec<Injected>,
    /// Messages taken from publishers and not refused.
    pub published: u64,
    /// Deliveries sent with the redelivered flag of messages that had been sent before, without
    /// those of [`FaultKind::Duplicate`].
    pub redelivered: u64,
    /// Of these, the ones of messages whose delivery before counts for [`FaultKind::Reorder`]:
    /// what comes again with the flag may come late, so a ledger does not call it reordered.
    pub reordered_redelivered: u64,
}

/// Counts of one fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// As scripts write it.
    pub kind: &'static str,
    /// Messages, deliveries, confirms, logins or connections that were hit.
    pub count: u64,
    /// When it was on; for what happens at one moment, that moment.
    pub span: Option<Span>,
}

/// From when to when, as it really was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The beginning.
    pub start: Time,
    /// The end; `None` while it lasts.
    pub end: Option<Time>,
}

/// A view of a running broker's faults; clones show the same broker. Safe to use from any thread.
#[derive(Clone, Debug, Default)]
pub struct FaultLog {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// 0 until it is told.
    origin: AtomicU64,
    waker: Mutex<Option<Arc<mio::Waker>>>,
    injections: Mutex<Injections>,
}

impl FaultLog {
    /// Counts up to the event loop's last poll.
    pub fn injections(&self) -> Injections {
        self.inner.injections.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The script's times count from here, which may lie ahead. For [`Origin::Declared`]; the first call counts.
    pub fn begin(&self, origin: Time) {
        let told = origin.0.max(1);
        let first = self.inner.origin.compare_exchange(0, told, Ordering::SeqCst, Ordering::SeqCst);
        let waker = self.inner.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Ok(_), Some(waker)) = (first, waker.as_ref()) {
            // A failed wake-up only delays it until the event loop's next turn.
            let _ = waker.wake();
        }
    }

    fn told(&self) -> Option<Time> {
        match self.inner.origin.load(Ordering::SeqCst) {
            0 => None,
            told => Some(Time(told)),
        }
    }

    /// Names the event loop that [`Self::begin`] wakes.
    pub(crate) fn attach(&self, waker: Arc<mio::Waker>) {
        *self.inner.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    fn store(&self, injections: &Injections) {
        self.inner.injections.lock().unwrap_or_else(PoisonError::into_inner).clone_from(injections);
    }
}

#[cfg(test)]
mod tests;
