//! Time in which clients and event loops waited, by cause.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Reason why a producer waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// For nothing but its event loop: a message is due, and may go.
    #[default]
    Ready,
    /// For the time of its next message, or it has sent its share.
    Schedule,
    /// For the broker's answers: its in-flight budget is used up.
    Budget,
    /// For the broker to say that it takes more messages: credit, as in AMQP 1.0.
    Credit,
    /// For its socket, which takes no more bytes.
    Socket,
    /// For the broker to lift `connection.blocked`.
    Blocked,
    /// For a connection.
    Away,
}

/// Where time went: that of all producers added up, and that of the event loops. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// See [`Wait::Ready`].
    pub ready: Nanos,
    /// See [`Wait::Schedule`].
    pub schedule: Nanos,
    /// See [`Wait::Budget`].
    pub budget: Nanos,
    /// See [`Wait::Credit`].
    pub credit: Nanos,
    /// See [`Wait::Socket`].
    pub socket: Nanos,
    /// See [`Wait::Blocked`].
    pub blocked: Nanos,
    /// See [`Wait::Away`].
    pub away: Nanos,
    /// Of the event loops' time, what they had nothing to do in.
    pub loop_idle: Nanos,
    /// The event loops' time.
    pub loop_time: Nanos,
}

impl Waits {
    /// Adds a producer's time.
    #[inline]
    pub fn note(&mut self, wait: Wait, length: Nanos) {
        *match wait {
            Wait::Ready => &mut self.ready,
            Wait::Schedule => &mut self.schedule,
            Wait::Budget => &mut self.budget,
            Wait::Credit => &mut self.credit,
            Wait::Socket => &mut self.socket,
            Wait::Blocked => &mut self.blocked,
            Wait::Away => &mut self.away,
        } += length;
    }

    /// Adds another interval's.
    pub fn add(&mut self, other: &Self) {
        self.ready += other.ready;
        self.schedule += other.schedule;
        self.budget += other.budget;
        self.credit += other.credit;
        self.socket += other.socket;
        self.blocked += other.blocked;
        self.away += other.away;
        self.loop_idle += other.loop_idle;
        self.loop_time += other.loop_time;
    }

    /// All producers' time.
    #[must_use]
    pub fn producing(&self) -> Nanos {
        let theirs = self.budget + self.credit + self.socket + self.blocked + self.away;
        self.ready + self.schedule + theirs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_sum() {
        let causes = [
            Wait::Ready,
            Wait::Schedule,
            Wait::Budget,
            Wait::Credit,
            Wait::Socket,
            Wait::Blocked,
            Wait::Away,
        ];
        let mut waits = Waits::default();
        for (i, wait) in causes.into_iter().enumerate() {
            waits.note(wait, Nanos(1 << i));
        }
        assert_eq!((waits.ready, waits.away), (Nanos(1), Nanos(64)));
        assert_eq!(waits.producing(), Nanos(127));
        let mut twice = waits;
        twice.add(&waits);
        assert_eq!(twice.producing(), Nanos(254));
    }
}
