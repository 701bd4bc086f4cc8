//! A consumer without a subscription: it asks for each message, one question at a time.

use measure::{Nanos, Time};

/// When to ask for the next message, and what the answers say of the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Polling {
    /// Between an answer and the next question.
    interval: Nanos,
    /// When to ask again.
    due: Time,
    /// Asked, and not answered.
    is_asked: bool,
    /// A fence was put up on this connection: all that was sent by then is in the queue.
    is_fenced: bool,
    /// The question came after it.
    is_behind_fence: bool,
    /// The last answer to such a question: there was nothing.
    found_nothing: bool,
}

impl Polling {
    pub(super) fn new(interval: Nanos) -> Self {
        Self {
            interval,
            ..Self::default()
        }
    }

    /// Asks from then on.
    pub(super) const fn start(&mut self, at: Time) {
        self.due = at;
    }

    /// When to ask next; `None` while an answer is awaited.
    pub(super) fn due(&self) -> Option<Time> {
        (!self.is_asked).then_some(self.due)
    }

    /// A question is sent.
    pub(super) const fn ask(&mut self) {
        self.is_asked = true;
        self.is_behind_fence = self.is_fenced;
    }

    /// The answer has come, one way or the other.
    pub(super) fn answered(&mut self, now: Time, is_empty: bool) {
        self.is_asked = false;
        self.due = now + self.interval;
        self.found_nothing = is_empty && self.is_behind_fence;
    }

    pub(super) const fn fence(&mut self) {
        self.is_fenced = true;
    }

    /// Its connection is gone.
    pub(super) fn restart(&mut self, now: Time) {
        *self = Self::new(self.interval);
        self.due = now + self.interval;
    }

    /// Whether nothing was left when it asked behind a fence.
    pub(super) const fn found_nothing(&self) -> bool {
        self.found_nothing
    }
}
