//! Silences: times in which a client had messages in flight and heard nothing, and times in which the event
//! loop itself did not run. Whose fault each was, the caller finds out with what else it knows.
//!
//! It costs one comparison per turn of a client: what has been silent for less than [`SHORTEST`] is not
//! looked at. Clients that fall silent together are told as one silence.

use measure::{Nanos, Time};

use crate::report::Silence;

/// Shorter silences are what a busy broker does.
pub(crate) const SHORTEST: Nanos = Nanos(100_000_000);

/// The silences of one event loop that are not told yet.
#[derive(Debug, Default)]
pub(crate) struct Silences {
    clients: Option<Silence>,
    /// The loop did not run; the second is [`super::context::Tally::handled`] when it came back.
    own: Option<(Silence, u64)>,
}

impl Silences {
    /// A client hears something again, or never will.
    #[cold]
    pub(crate) fn end(&mut self, from: Time, until: Time, in_flight: u64) {
        let all = self.clients.get_or_insert(Silence {
            from,
            until,
            ..Silence::default()
        });
        all.from = all.from.min(from);
        all.until = all.until.max(until);
        all.connections += 1;
        all.in_flight += in_flight;
    }

    /// The event loop comes back after a time in which it did not run.
    #[cold]
    pub(crate) fn come_back(&mut self, from: Time, tally: (Time, u64, u64), connections: usize) {
        let (until, in_flight, handled) = tally;
        let own = Silence {
            from,
            until,
            connections: connections as u64,
            in_flight,
            is_own: true,
            was_answered: false,
        };
        self.own = Some((own, handled));
    }

    /// What is over for so long that no other client joins it; all of it at the `end` of the run. Called after
    /// every client had its turn.
    pub(crate) fn take(&mut self, now: Time, handled: u64, end: bool) -> [Option<Silence>; 2] {
        let own = self.own.take().map(|(own, before)| Silence {
            was_answered: (handled - before).saturating_mul(2) >= own.in_flight.max(1),
            ..own
        });
        let over = |all: &mut Silence| end || now.since(all.until) >= SHORTEST;
        [own, self.clients.take_if(over)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn clients_that_fall_silent_together_are_told_once() {
        let mut silences = Silences::default();
        assert_eq!(silences.take(Time(0), 0, true), [None, None]);
        silences.end(Time(100 * MS), Time(500 * MS), 3);
        silences.end(Time(90 * MS), Time(510 * MS), 4);
        assert_eq!(
            silences.take(Time(520 * MS), 9, false),
            [None, None],
            "others may follow"
        );
        let told = Silence {
            from: Time(90 * MS),
            until: Time(510 * MS),
            connections: 2,
            in_flight: 7,
            ..Silence::default()
        };
        assert_eq!(silences.take(Time(610 * MS), 9, false), [None, Some(told)]);
        assert_eq!(silences.take(Time(900 * MS), 9, true), [None, None], "once");
    }

    #[test]
    fn what_was_answered_meanwhile_is_known_when_everybody_has_read() {
        for (handled, answered) in [(9, false), (10, false), (14, true)] {
            let mut silences = Silences::default();
            silences.come_back(Time(0), (Time(300 * MS), 5, 9), 2);
            let [own, _] = silences.take(Time(301 * MS), handled, false);
            let own = own.unwrap();
            assert!(own.is_own && own.was_answered == answered, "{own:?}");
        }
    }
}
