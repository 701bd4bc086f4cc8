//! What the scenarios of a run share: they start at one instant, and end at one.

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
    /// For so many scenarios.
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

    /// A scenario is connected and could begin; each says so once. The last one sets the start.
    pub fn ready(&self) {
        let before = self.ready.fetch_add(1, Ordering::AcqRel);
        if before + 1 == self.scenarios {
            let notice = if self.scenarios > 1 {
                NOTICE
            } else {
                Nanos::ZERO
            };
            let start = Clock.now() + notice;
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
