//! Silences: times in which a client had messages in flight and heard nothing, times in which no client had a
//! connection, and times in which the event loop itself did not run. Whose fault each was, the caller finds out
//! with what else it knows.
//!
//! It costs one comparison per turn of a client and one per turn of the loop: what has been silent for less than
//! [`SHORTEST`] is not looked at. Clients that fall silent together are told as one silence.

use measure::{Nanos, Time};

use crate::report::Silence;

/// Shorter silences are what a busy broker does.
pub(crate) const SHORTEST: Nanos = Nanos(100_000_000);

/// Messages in flight on a client's connection when it was lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CutOff {
    messages: u64,
    /// [`Silences::times_away`] at that moment.
    times_away: u64,
}

/// The silences of one event loop that are not told yet.
#[derive(Debug, Default)]
pub(crate) struct Silences {
    clients: Option<Silence>,
    /// Others were answered in the silence of the first of them.
    beside_others: bool,
    /// Time that the clients which fell silent together have in common.
    common: (Time, Time),
    /// Clients that fell silent apart from those, before.
    before: Option<Silence>,
    /// Since when no client has a connection.
    away_from: Option<Time>,
    away: Option<Silence>,
    /// Messages that were in flight on connections when they were lost, of the clients that are not back.
    cut_off: u64,
    /// Times without any connection that are over: what was cut off before belongs to them.
    times_away: u64,
    /// The loop did not run; the second is [`super::context::Tally::handled`] when it came back.
    own: Option<(Silence, u64)>,
}

impl Silences {
    /// Whether clients fell silent, and not one message hangs while others are answered.
    fn is_shown(&self) -> bool {
        !self.beside_others || self.clients.is_some_and(|it: Silence| it.in_flight + it.unsent > 1)
    }

    /// A client hears something again, or never will.
    pub(crate) fn end(&mut self, silence: Silence) {
        self.end_beside(silence, false);
    }

    /// Ends a silence in which others may have been answered.
    #[cold]
    pub(crate) fn end_beside(&mut self, silence: Silence, others: bool) {
        let Silence { from, until, .. } = silence;
        let (latest, earliest) = (from.max(self.common.0), until.min(self.common.1));
        let shorter = until.since(from).min(self.common.1.since(self.common.0));
        // Many that are silent for a moment, one after the other, are no long silence.
        if self.clients.is_some() && Nanos(earliest.since(latest).0 * 2) < shorter {
            let is_shown = self.is_shown();
            self.before = self.clients.take().filter(|_| is_shown);
        }
        self.common = match self.clients {
            Some(_) => (latest, earliest),
            None => (from, until),
        };
        let Some(all) = &mut self.clients else {
            (self.clients, self.beside_others) = (Some(silence), others);
            return;
        };
        all.from = all.from.min(from);
        all.until = all.until.max(until);
        all.connections += silence.connections;
        all.in_flight += silence.in_flight;
        all.unsent += silence.unsent;
        all.failed += silence.failed;
    }

    pub(crate) fn cut_off(&mut self, messages: u64) -> CutOff {
        self.cut_off += messages;
        CutOff { messages, times_away: self.times_away }
    }

    /// A client has a connection again. Where others kept one, its loss is no part of a time without any.
    pub(crate) fn is_back(&mut self, cut_off: CutOff) {
        if self.away_from.is_none() && cut_off.times_away == self.times_away {
            self.cut_off = self.cut_off.saturating_sub(cut_off.messages);
        }
    }

    #[inline]
    pub(crate) fn note_away(&mut self, is_away: bool, now: Time, clients: usize) {
        if is_away != self.away_from.is_some() {
            self.turn_away(is_away, now, clients);
        }
    }

    #[cold]
    fn turn_away(&mut self, is_away: bool, now: Time, clients: usize) {
        if is_away {
            self.away_from = Some(now);
            return;
        }
        let in_flight = std::mem::take(&mut self.cut_off);
        self.times_away += 1;
        let from = self.away_from.take();
        let away = from.map(|from| Silence {
            from,
            until: now,
            connections: clients as u64,
            in_flight,
            is_away: true,
            ..Silence::default()
        });
        self.away = away.filter(|away| away.until.since(away.from) >= SHORTEST);
    }

    /// The event loop comes back after a time in which it did not run, and had handled so much before.
    #[cold]
    pub(crate) fn come_back(&mut self, silence: Silence, handled: u64) {
        let own = Silence { is_own: true, ..silence };
        self.own = Some((own, handled));
    }

    /// Whether clients fell silent that are not told yet.
    pub(crate) const fn is_pending(&self) -> bool {
        self.clients.is_some() || self.before.is_some()
    }

    /// Silences that no client can join any more; all at the run's `end`. Called after every client was polled.
    pub(crate) fn take(&mut self, now: Time, handled: u64, end: bool) -> [Option<Silence>; 4] {
        let own = self.own.take().map(|(own, before)| Silence {
            was_answered: (handled - before).saturating_mul(2) >= own.in_flight.max(1),
            ..own
        });
        let over = |all: &mut Silence| end || now.since(all.until) >= SHORTEST;
        let is_shown = self.is_shown();
        let together = self.clients.take_if(over).filter(|_| is_shown);
        [own, self.away.take(), self.before.take(), together]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn told(silences: &mut Silences, now_ms: u64, handled: u64, end: bool) -> Vec<Silence> {
        silences.take(Time(now_ms * MS), handled, end).into_iter().flatten().collect()
    }

    fn silence(from_ms: u64, until_ms: u64, connections: u64, in_flight: u64) -> Silence {
        Silence {
            from: Time(from_ms * MS),
            until: Time(until_ms * MS),
            connections,
            in_flight,
            unsent: 3 * connections,
            ..Silence::default()
        }
    }

    #[test]
    fn one_message_that_hangs_while_others_are_answered_is_no_silence() {
        let alone = |others| {
            let mut silences = Silences::default();
            let one = Silence { unsent: 0, ..silence(100, 500, 1, 1) };
            silences.end_beside(one, others);
            (silences, one)
        };
        let (mut silences, one) = alone(false);
        assert_eq!(told(&mut silences, 600, 9, false), [one]);
        let (mut silences, _) = alone(true);
        assert_eq!(told(&mut silences, 600, 9, false), []);
        // Nor before a later one.
        let (mut silences, _) = alone(true);
        silences.end(silence(505, 900, 1, 3));
        let later = silence(505, 900, 1, 3);
        assert_eq!(told(&mut silences, 1_000, 9, false), [later]);
        // Two clients that have one each show it, whoever else is answered.
        let (mut silences, one) = alone(true);
        silences.end_beside(one, true);
        let both = Silence { connections: 2, in_flight: 2, ..one };
        assert_eq!(told(&mut silences, 600, 9, false), [both]);
    }

    /// Ten clients, each with one message in flight, at a broker that answers after 150 ms.
    #[test]
    fn clients_that_wait_one_after_the_other_are_no_long_silence() {
        let mut silences = Silences::default();
        let mut longest = 0;
        for step in 0..1_000 {
            let from = step * 15;
            silences.end(silence(from, from + 150, 1, 1));
            for silence in told(&mut silences, from + 150, 0, step == 999) {
                longest = longest.max(silence.until.since(silence.from).0 / MS);
            }
        }
        assert!((150..300).contains(&longest), "{longest} ms");
    }

    #[test]
    fn what_was_cut_off_while_others_were_up_is_no_part_of_a_later_time_without_any() {
        let mut silences = Silences::default();
        // One of two is lost, and back.
        let first = silences.cut_off(500);
        silences.note_away(false, Time(100 * MS), 2);
        silences.is_back(first);
        // Both are lost, one after the other, and one returns.
        let first = silences.cut_off(3);
        silences.note_away(false, Time(200 * MS), 2);
        let second = silences.cut_off(4);
        silences.note_away(true, Time(210 * MS), 2);
        assert_eq!(told(&mut silences, 400, 0, false), [], "it lasts");
        silences.is_back(second);
        silences.note_away(false, Time(700 * MS), 2);
        let away = Silence { is_away: true, unsent: 0, ..silence(210, 700, 2, 7) };
        assert_eq!(told(&mut silences, 700, 0, false), [away]);
        // The other one's messages were told with that.
        silences.cut_off(2);
        silences.is_back(first);
        silences.note_away(true, Time(800 * MS), 2);
        silences.note_away(false, Time(900 * MS), 2);
        let [_, away, ..] = silences.take(Time(900 * MS), 0, true);
        assert_eq!(away.unwrap().in_flight, 2);
        silences.note_away(true, Time(1_000 * MS), 2);
        silences.note_away(false, Time(1_050 * MS), 2);
        assert_eq!(told(&mut silences, 1_100, 0, true), [], "a moment");
    }
}
