//! Whether the node still answers: where nothing comes from it, it is pinged, and a node that answers no ping for the
//! whole time-out is silent. It has been stopped, it hangs, or its machine has gone.

use std::time::{Duration, Instant};

/// When something came from the node, and when it was pinged since.
#[derive(Debug)]
pub(super) struct Pulse {
    /// A node without a sign of life for this long is silent.
    silence: Duration,
    /// A ping is due after this time without a sign of life.
    every: Duration,
    heard: Instant,
    pinged: Option<Instant>,
}

impl Pulse {
    /// The pulse of a node that has just been heard of, and is pinged every `longest` or more often.
    pub(super) fn new(silence: Duration, longest: Duration, now: Instant) -> Self {
        Self {
            silence,
            every: longest.min(silence / 4),
            heard: now,
            pinged: None,
        }
    }

    /// Something came.
    pub(super) const fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.pinged = None;
    }

    /// The node has taken a part of what waits to be sent: the ping behind it is still to come there.
    pub(super) fn took_some(&mut self, now: Instant) {
        if let Some(pinged) = &mut self.pinged {
            *pinged = now;
        }
    }

    /// Whether the node is to be pinged now, which it then counts as.
    pub(super) fn is_ping_due(&mut self, now: Instant) -> bool {
        let due = self.pinged.is_none() && now.duration_since(self.heard) >= self.every;
        if due {
            self.pinged = Some(now);
        }
        due
    }

    /// Whether the node has been silent for too long. A ping of just now does not count: we may have been stopped
    /// ourselves.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let unanswered = |pinged: Instant| now.duration_since(pinged) >= self.silence / 2;
        self.pinged.is_some_and(unanswered) && now.duration_since(self.heard) >= self.silence
    }

    /// Time until one of the questions above may have another answer.
    pub(super) fn next(&self, now: Instant) -> Duration {
        let at = match self.pinged {
            None => self.heard + self.every,
            Some(pinged) => (self.heard + self.silence).max(pinged + self.silence / 2),
        };
        at.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(10);

    fn pulse() -> (Pulse, impl Fn(u64) -> Instant) {
        let begun = Instant::now();
        let pulse = Pulse::new(SILENCE, Duration::from_secs(2), begun);
        (pulse, move |ms| begun + Duration::from_millis(ms))
    }

    #[test]
    fn a_node_that_answers_no_ping_is_silent_after_the_time_out() {
        let (mut pulse, at) = pulse();
        assert!(!pulse.is_ping_due(at(1_999)));
        assert_eq!(pulse.next(at(1_500)), Duration::from_millis(500));
        assert!(pulse.is_ping_due(at(2_000)));
        assert!(!pulse.is_ping_due(at(5_000)), "one ping is enough");
        assert!(!pulse.is_silent(at(9_999)));
        assert_eq!(pulse.next(at(9_000)), Duration::from_secs(1));
        assert!(pulse.is_silent(at(10_000)));
    }

    #[test]
    fn an_answer_begins_it_anew() {
        let (mut pulse, at) = pulse();
        assert!(pulse.is_ping_due(at(2_000)));
        pulse.heard(at(9_999));
        assert!(!pulse.is_silent(at(19_000)), "nothing was asked since");
        assert!(pulse.is_ping_due(at(19_000)));
    }

    #[test]
    fn who_was_stopped_itself_asks_first() {
        let (mut pulse, at) = pulse();
        assert!(!pulse.is_silent(at(60_000)));
        assert!(pulse.is_ping_due(at(60_000)));
        assert!(!pulse.is_silent(at(64_999)));
        assert!(pulse.is_silent(at(65_000)));
    }

    #[test]
    fn a_node_that_takes_what_is_sent_is_not_silent() {
        let (mut pulse, at) = pulse();
        assert!(pulse.is_ping_due(at(2_000)));
        pulse.took_some(at(9_000));
        assert!(!pulse.is_silent(at(13_999)));
        assert!(pulse.is_silent(at(14_000)));
    }
}
