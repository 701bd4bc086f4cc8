//! Common start and end of a run's scenarios.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use measure::{Clock, Nanos, Time};

/// Between the last scenario's being ready and the start, so that all know it in time.
const NOTICE: Nanos = Nanos::from_millis(60);
const NEVER: u64 = u64::MAX;

/// The common start and the common end of the scenarios of a run.
#[derive(Debug)]
pub struct Together {
    scenarios: usize,
    ready: AtomicUsize,
    start: AtomicU64,
    end: AtomicU64,
}

impl Together {
    /// Of this many scenarios.
    #[must_use]
    pub const fn of(scenarios: usize) -> Self {
        Self {
            scenarios,
            ready: AtomicUsize::new(0),
            start: AtomicU64::new(NEVER),
            end: AtomicU64::new(NEVER),
        }
    }

    /// For a scenario that runs alone.
    #[must_use]
    pub const fn alone() -> Self {
        Self::of(1)
    }

    /// Whether nobody shares it.
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        self.scenarios == 1
    }

    /// A scenario is connected and could begin; each says so once. The last one sets the start.
    pub fn ready(&self) {
        self.ready_at(Clock.now());
    }

    /// Tells that a scenario with a clock of its own is ready.
    pub(crate) fn ready_at(&self, now: Time) {
        let before = self.ready.fetch_add(1, Ordering::AcqRel);
        if before + 1 == self.scenarios {
            let notice = if self.scenarios > 1 {
                NOTICE
            } else {
                Nanos::ZERO
            };
            let start = now + notice;
            self.start.store(start.0, Ordering::Release);
        }
    }

    /// The instant at which the schedules of all scenarios start; `None` while one is not ready.
    #[must_use]
    pub fn start(&self) -> Option<Time> {
        known(&self.start)
    }

    /// A scenario ends its load at this instant, or could not begin; the first one counts.
    pub fn end(&self, at: Time) {
        self.end.fetch_min(at.0, Ordering::AcqRel);
    }

    /// When the others end: nothing is to begin from then on.
    #[must_use]
    pub fn ended(&self) -> Option<Time> {
        known(&self.end)
    }
}

fn known(instant: &AtomicU64) -> Option<Time> {
    let instant = instant.load(Ordering::Acquire);
    (instant != NEVER).then_some(Time(instant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_start_at_one_instant_once_the_last_is_ready() {
        let together = Together::of(3);
        for _ in 0..2 {
            together.ready();
            assert_eq!(together.start(), None);
        }
        let before = Clock.now();
        together.ready();
        let start = together.start().expect("all are ready");
        assert!(start >= before + NOTICE, "each has time to hear of it");
        assert_eq!(together.ended(), None);
    }

    #[test]
    fn one_that_fails_to_start_ends_the_others_that_never_start() {
        let together = Together::of(2);
        together.ready();
        together.end(Time(7));
        assert_eq!((together.start(), together.ended()), (None, Some(Time(7))));
    }

    #[test]
    fn the_first_end_counts() {
        let together = Together::of(2);
        for at in [9, 7, 8] {
            together.end(Time(at));
        }
        assert_eq!(together.ended(), Some(Time(7)));
    }
}
