//! Waits of a loop that begins operations at fixed times, and their lengths.

use measure::{Time, Wait, Waits};

/// The cause for which the next operation has to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaited {
    /// One of those in flight has to end.
    Room,
    /// Its time; from then on the loop.
    Due(Time),
}

/// Since when the loop waits, and what for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    since: Time,
    awaited: Awaited,
}

impl Waiting {
    pub(crate) const fn since(now: Time, awaited: Awaited) -> Self {
        Self {
            since: now,
            awaited,
        }
    }

    /// Notes what the time since the last call went into, and what the next operation waits for now.
    pub(crate) fn wait_for(&mut self, waits: &mut Waits, now: Time, awaited: Awaited) {
        let before = std::mem::replace(self, Self::since(now, awaited));
        let since = before.since;
        match before.awaited {
            Awaited::Room => waits.note(Wait::Budget, now.since(since)),
            Awaited::Due(due) => {
                let due = due.max(since).min(now);
                waits.note(Wait::Schedule, due.since(since));
                waits.note(Wait::Ready, now.since(due));
            }
        }
    }
}
