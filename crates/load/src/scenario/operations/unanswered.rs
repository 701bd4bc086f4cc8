//! Operations of an event loop in flight, and since when none of them was answered.

use std::collections::BTreeMap;

use measure::Time;

use crate::Silence;
use crate::engine::silence::{SHORTEST, Silences};

/// A time without an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    from: Time,
    until: Time,
    /// Operations that waited at its end, or were given up in it, and that no silence has told of. One that had waited
    /// for long when it began hangs, whatever the server does.
    delayed: u64,
}

/// Operations in flight, and the silences of their loop: times in which none of them got on. Each asks the server once
/// or, step by step, several times.
///
/// ```text
/// answers     |        gap        ||  |       |
/// asked before it  ---------------------------|   is slow: others were answered meanwhile
/// asked in it           ----------|               waits since then with the server's silence
/// asked in it         ------------------------|   is slow, too: the server answered others before
/// ```
///
/// A silence is the part of a gap since the first of those was asked that the server answers at its end. One operation
/// alone that has no answer at all shows none where others have hung while the server answered.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    pub(crate) silences: Silences,
    /// Operations in flight, by the time at which each has asked last.
    waiting: BTreeMap<Time, u64>,
    heard: Time,
    /// Operations that were given up since then, without those that hung.
    given_up: u64,
    /// When the first of them was asked that was asked since then.
    given_up_from: Option<Time>,
    /// An operation was given up that hung while the server answered others.
    hung: bool,
    /// The last long one: answers that come together end it together.
    gap: Gap,
    /// The end of the last silence.
    until: Time,
    /// Operations that had begun before that and failed after it, without a latency.
    failed: u64,
}

impl Unanswered {
    /// The server is asked something, by an operation that begins or has just had an answer.
    pub(crate) fn ask(&mut self, now: Time) {
        *self.waiting.entry(now).or_default() += 1;
    }

    /// Operations waited for it, and the server had not answered for long since they asked.
    fn delayed(&self) -> u64 {
        self.waiting.range(self.recent()..).map(|(_, count)| count).sum::<u64>() + self.given_up
    }

    /// Requests that were sent before hung already when the last answer came.
    fn recent(&self) -> Time {
        Time(self.heard.0.saturating_sub(SHORTEST.0))
    }

    /// Whoever asked then waits no longer.
    fn ended(&mut self, asked: Time) {
        if let Some(count) = self.waiting.get_mut(&asked) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&asked);
            }
        }
    }

    /// The silence that ends with an answer now to what was asked then, where that is worth telling.
    pub(crate) fn silence(&self, asked: Time, now: Time) -> Option<Silence> {
        let gap = self.gap(now);
        let asked = [Some(asked), self.given_up_from].into_iter().flatten();
        let from = asked.filter(|asked| *asked >= gap.from).min()?;
        let is_worth = now.since(gap.until) < SHORTEST && gap.until.since(from) >= SHORTEST;
        is_worth.then(|| silence(from, gap.until, gap.delayed))
    }

    /// The gap that ends now, or the last one.
    fn gap(&self, now: Time) -> Gap {
        if now.since(self.heard) < SHORTEST {
            return self.gap;
        }
        Gap { from: self.heard, until: now, delayed: self.delayed() }
    }

    /// One of those in flight has an answer to what it asked then, which ends this silence.
    pub(crate) fn answered(&mut self, asked: Time, now: Time, silence: Option<Silence>) {
        self.hear(now, silence);
        self.ended(asked);
    }

    fn hear(&mut self, now: Time, silence: Option<Silence>) {
        self.gap = self.gap(now);
        self.heard = now;
        (self.given_up, self.given_up_from) = (0, None);
        if let Some(silence) = silence {
            if std::mem::take(&mut self.gap.delayed) > 0 {
                (self.until, self.failed) = (now, 0);
            }
            self.silences.end(silence);
        }
    }

    /// Whether what was asked then waited through the last silence.
    pub(crate) fn waited(&self, asked: Time) -> bool {
        asked < self.until
    }

    /// One of those in flight, whose last step began then, has failed.
    pub(crate) fn failed(&mut self, began: Time) {
        self.failed += u64::from(self.waited(began));
    }

    /// One of those in flight, which asked then, is given up. The others wait on, and where there are none nobody does.
    pub(crate) fn give_up(&mut self, asked: Time, now: Time) {
        self.ended(asked);
        if asked >= self.recent() {
            self.given_up += 1;
        } else {
            self.hung = true;
        }
        if asked >= self.heard {
            let first = self.given_up_from.map_or(asked, |first| first.min(asked));
            self.given_up_from = Some(first);
        }
        if self.waiting.is_empty() {
            self.end(now);
        }
    }

    /// Nobody waits any longer.
    fn end(&mut self, now: Time) {
        let delayed = self.delayed();
        let hung = self.hung || self.waiting.range(..self.recent()).next().is_some();
        let waits_from = self.waiting.range(self.heard..).next().map(|(asked, _)| *asked);
        let from = [waits_from, self.given_up_from].into_iter().flatten().min();
        let long = from.filter(|from| now.since(*from) >= SHORTEST && (delayed > 1 || !hung));
        self.hear(now, long.map(|from| silence(from, now, delayed)));
    }

    /// The silences that are over, or all at the end.
    pub(crate) fn take(&mut self, now: Time, handled: u64, is_end: bool) -> [Option<Silence>; 4] {
        if is_end && !self.waiting.is_empty() {
            self.end(now);
        }
        self.silences.take(now, handled, is_end).map(|silence| {
            silence.map(|silence| match silence.is_own {
                true => silence,
                false => Silence { failed: silence.failed + std::mem::take(&mut self.failed), ..silence },
            })
        })
    }
}

/// A silence that delayed this number of operations.
fn silence(from: Time, until: Time, delayed: u64) -> Silence {
    Silence { from, until, connections: delayed, in_flight: delayed, ..Silence::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use testkit::Random;

    use super::*;

    const fn ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    fn told(loop_: &mut Unanswered) -> Vec<(Time, Time, u64, u64)> {
        let told = loop_.take(ms(100_000), 0, true).into_iter().flatten();
        told.map(|it| (it.from, it.until, it.in_flight, it.failed)).collect()
    }

    fn answered(loop_: &mut Unanswered, asked: Time, now: Time) {
        loop_.answered(asked, now, loop_.silence(asked, now));
    }

    /// When something was asked, until when, and whether it had an answer then; in the order of these ends.
    type Waits = Vec<(Time, Time, bool)>;
    /// From when until when, and how many it delayed, each.
    type Spans = Vec<(Time, Time, u64)>;

    type Events = BTreeSet<(Time, u64, u64, Time)>;

    fn first_before(events: &mut Events, end: Time) -> Option<(Time, u64, u64, Time)> {
        events.first().is_some_and(|it| it.0 < end).then(|| events.pop_first()).flatten()
    }

    /// In place of a step: given up.
    const GIVEN_UP: u64 = 9;

    /// Operations of one to three steps at random times by the seed, some of them slow and some that hang, at a server
    /// that stands still in the second of five seconds; the end of the run, and what is told of it meanwhile.
    fn played(random: &mut Random) -> (Waits, Time, Spans) {
        let gap = random.of(&[10, 100, 2_000]);
        let one_slow_in = random.of(&[3, 30, 1_000]);
        let one_hangs_in = random.of(&[5, 50, 100_000]);
        let end = ms(random.below(100 * gap) + 500);
        // When, which, how far it is, and when that was asked.
        let mut events = Events::new();
        let mut at = 0;
        for number in 0..200_u64 {
            at += random.below(gap);
            events.insert((Time(ms(at).0 + number * 10), number, 0, Time(0)));
        }
        let (mut loop_, mut waits, mut told) = (Unanswered::default(), Vec::new(), Vec::new());
        while let Some((now, number, step, asked)) = first_before(&mut events, end) {
            told.extend(loop_.take(now, 0, false).into_iter().flatten());
            if step > 0 {
                waits.push((asked, now, step != GIVEN_UP));
            }
            match step {
                0 => {}
                GIVEN_UP => loop_.give_up(asked, now),
                _ => answered(&mut loop_, asked, now),
            }
            if step > number % 3 {
                continue;
            }
            loop_.ask(now);
            let is_slow = random.one_in(one_slow_in);
            let took = random.below(if is_slow { 3_000 } else { 5 });
            let mut then = now.0 / 1_000_000 + took;
            let mut next = step + 1;
            if random.one_in(one_hangs_in) {
                (then, next) = (now.0 / 1_000_000 + 1_500, GIVEN_UP);
            } else if (1_000..2_000).contains(&(then % 5_000)) {
                then = then - then % 5_000 + 2_000;
            }
            // No two at once.
            let then = Time(ms(then).0 + number * 10 + next).max(Time(now.0 + 1));
            events.insert((then, number, next, now));
        }
        told.extend(loop_.take(end, 0, true).into_iter().flatten());
        let left = events.iter().filter(|it| it.2 > 0);
        waits.extend(left.map(|(_, _, _, asked)| (*asked, Time(u64::MAX), false)));
        let told = told.iter().map(|it| (it.from, it.until, it.in_flight));
        (waits, end, told.collect())
    }

    /// The silences by all that is known afterwards.
    fn expected(waits: &Waits, end: Time) -> Spans {
        let (mut heard, mut has_hung, mut silences) = (Time(0), false, Vec::new());
        for (at, &(asked, until, is_answered)) in waits.iter().enumerate() {
            let now = until.min(end);
            let was_heard = |asked: Time| asked.0 + SHORTEST.0 < heard.0;
            let gone = |it: &&(Time, Time, bool)| it.1 > heard && !it.2;
            let waiting = || waits[at..].iter().filter(|it| it.0 < now);
            let given_up = || waits[..at].iter().filter(gone);
            has_hung |= until < end && !is_answered && was_heard(asked);
            if !is_answered && until < end && waiting().count() > 1 {
                continue;
            }
            let both = || waiting().chain(given_up());
            let delayed = both().filter(|it| !was_heard(it.0)).count() as u64;
            let is_alone = delayed < 2 && (has_hung || both().any(|it| was_heard(it.0)));
            let at_its_end =
                |it: &&(Time, Time, bool)| !is_answered || it.1 <= now || it.2 && it.1.since(now) < SHORTEST;
            let first = both().filter(|it| it.0 >= heard).filter(at_its_end).map(|it| it.0).min();
            let is_told = |first: &Time| now.since(*first) >= SHORTEST && (is_answered || !is_alone);
            silences.extend(first.filter(is_told).map(|first| (first, now, delayed)));
            heard = now;
            if until >= end {
                break;
            }
        }
        silences
    }

    #[test]
    fn a_silence_is_what_all_waited_for_that_are_answered_at_its_end() {
        let mut found = 0;
        for seed in 0..1_000 {
            let (waits, end, told) = played(&mut Random::new(seed));
            let silences = expected(&waits, end);
            assert_eq!(told, silences, "seed {seed}");
            found += silences.len();
        }
        assert!(found > 1_000, "{found}");
    }

    #[test]
    fn operations_that_are_given_up_do_not_end_a_silence() {
        let mut loop_ = Unanswered::default();
        for at in 0..20 {
            loop_.ask(ms(at * 100));
            if at >= 5 {
                loop_.give_up(ms(at * 100), ms(at * 100 + 1));
            }
        }
        // 15 were given up, whose waits are latencies, and of 5 that are left one fails, which is an answer.
        let now = ms(2_000);
        answered(&mut loop_, ms(0), now);
        loop_.failed(ms(1_500));
        (1..5).for_each(|at| answered(&mut loop_, ms(at * 100), now));
        // What began later has nothing to do with it.
        loop_.ask(ms(2_010));
        answered(&mut loop_, ms(2_010), ms(2_020));
        loop_.failed(ms(2_010));
        assert_eq!(told(&mut loop_), [(ms(0), ms(2_000), 20, 1)]);
        // One alone waits as long as it does; what is in flight at the end, until then.
        loop_.ask(ms(5_000));
        loop_.give_up(ms(5_000), ms(5_300));
        assert_eq!(told(&mut loop_), [(ms(5_000), ms(5_300), 1, 0)]);
        loop_.ask(ms(99_000));
        assert_eq!(told(&mut loop_), [(ms(99_000), ms(100_000), 1, 0)]);
    }
}
