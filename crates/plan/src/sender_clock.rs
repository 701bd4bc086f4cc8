//! The clock of producers on another machine.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use measure::{Nanos, Time};

/// How far the clock of the producers that send to a worker is ahead of its own, as it is known now.
#[derive(Debug, Default)]
pub struct SenderClock {
    ahead: AtomicI64,
    bound: AtomicU64,
}

impl SenderClock {
    /// Their clock is so many nanoseconds ahead, and this can be off by the bound.
    pub fn set(&self, ahead: i64, bound: Nanos) {
        self.ahead.store(ahead, Ordering::Relaxed);
        self.bound.store(bound.0, Ordering::Relaxed);
    }

    /// The most that an instant of the other clock can be off.
    pub fn bound(&self) -> Nanos {
        Nanos(self.bound.load(Ordering::Relaxed))
    }

    /// An instant of the own clock by theirs.
    pub fn theirs(&self, own: Time) -> Time {
        Time(own.0.saturating_add_signed(self.ahead.load(Ordering::Relaxed)))
    }

    /// An instant of their clock by the own one.
    pub fn own(&self, theirs: Time) -> Time {
        Time(theirs.0.saturating_add_signed(self.ahead.load(Ordering::Relaxed).saturating_neg()))
    }
}
