//! Operations of an event loop in flight, and since when none of them was answered.

use measure::Time;

use crate::Silence;
use crate::engine::silence::{SHORTEST, Silences};

/// A time without an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    from: Time,
    until: Time,
    /// Operations in flight at its end, or given up in it, that no silence has told of.
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
/// A silence is the part of a gap since the first of those was asked that the server answers at its end.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    pub(crate) silences: Silences,
    in_flight: u64,
    /// The last answer.
    heard: Time,
    /// When the first was asked since then.
    asked: Option<Time>,
    /// Operations that were given up since then.
    given_up: u64,
    /// When the first of them was asked that was asked since then.
    given_up_from: Option<Time>,
    /// The last long one: answers that come together end it together.
    gap: Gap,
    /// The end of the last silence.
    until: Time,
    /// Operations that had begun before that and failed after it, without a latency.
    failed: u64,
}

impl Unanswered {
    /// An operation begins.
    pub(crate) fn begin(&mut self, now: Time) {
        self.in_flight += 1;
        self.ask(now);
    }

    /// The server is asked something, by an operation in flight.
    pub(crate) fn ask(&mut self, now: Time) {
        self.asked.get_or_insert(now);
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
        Gap {
            from: self.heard,
            until: now,
            delayed: self.in_flight + self.given_up,
        }
    }

    /// One of those in flight has an answer, which ends this silence.
    pub(crate) fn answered(&mut self, now: Time, silence: Option<Silence>) {
        self.gap = self.gap(now);
        (self.heard, self.asked) = (now, None);
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

    /// One of those in flight has ended.
    pub(crate) fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// One of those in flight, which was asked then, is given up. The others wait on, and where there are none nobody
    /// does.
    pub(crate) fn give_up(&mut self, asked: Time, now: Time) {
        self.ended();
        self.given_up += 1;
        if asked >= self.heard {
            let first = self.given_up_from.map_or(asked, |first| first.min(asked));
            self.given_up_from = Some(first);
        }
        if self.in_flight == 0 {
            self.end(now);
        }
    }

    /// Nobody waits any longer.
    fn end(&mut self, now: Time) {
        let delayed = self.in_flight + self.given_up;
        let long = self.asked.filter(|from| now.since(*from) >= SHORTEST);
        self.answered(now, long.map(|from| silence(from, now, delayed)));
    }

    /// The silences that are over, or all at the end.
    pub(crate) fn take(&mut self, now: Time, handled: u64, is_end: bool) -> [Option<Silence>; 4] {
        if is_end && self.in_flight > 0 {
            self.end(now);
        }
        let over = self.silences.take(now, handled, is_end);
        over.map(|silence| {
            silence.map(|silence| match silence.is_own {
                true => silence,
                false => Silence {
                    failed: silence.failed + std::mem::take(&mut self.failed),
                    ..silence
                },
            })
        })
    }
}

/// A silence that delayed this number of operations.
fn silence(from: Time, until: Time, delayed: u64) -> Silence {
    Silence {
        from,
        until,
        connections: delayed,
        in_flight: delayed,
        ..Silence::default()
    }
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
        told.map(|it| (it.from, it.until, it.in_flight, it.failed))
            .collect()
    }

    fn answered(loop_: &mut Unanswered, asked: Time, now: Time) {
        loop_.answered(now, loop_.silence(asked, now));
    }

    /// Each eighth takes 25 times as long as lies between two, and the others are answered meanwhile.
    #[test]
    fn a_slow_answer_beside_others_is_no_silence() {
        for gap in [20, 1_000] {
            let mut loop_ = Unanswered::default();
            let mut slow = Vec::new();
            for at in 0..400 {
                let asked = ms(at * gap);
                slow.retain(|began: &Time| {
                    let is_over = ms(gap * 25) <= Time(asked.since(*began).0);
                    if is_over {
                        answered(&mut loop_, *began, asked);
                        loop_.ended();
                    }
                    !is_over
                });
                loop_.begin(asked);
                if at % 8 == 0 {
                    slow.push(asked);
                } else {
                    answered(&mut loop_, asked, ms(at * gap + 2));
                    loop_.ended();
                }
            }
            // Those that hang are no silence where nothing further is asked of the server.
            assert_eq!(told(&mut loop_), [], "one each {gap} ms");
        }
    }

    /// From when until when, each.
    type Spans = Vec<(Time, Time)>;

    /// When what was asked has its answers, by the seed: operations of one to three steps at random times, some of them
    /// slow, at a server that stands still in the second of five seconds. What is told of it meanwhile.
    fn played(random: &mut Random) -> (Spans, Spans) {
        let gap = random.of(&[10, 100, 2_000]);
        let one_slow_in = random.of(&[3, 30, 1_000]);
        // When, which, how far it is, and when that was asked.
        let mut events = BTreeSet::new();
        let mut at = 0;
        for number in 0..200_u64 {
            at += random.below(gap);
            events.insert((ms(at), number, 0, ms(at)));
        }
        let (mut loop_, mut waits, mut told) = (Unanswered::default(), Vec::new(), Vec::new());
        while let Some((now, number, step, asked)) = events.pop_first() {
            told.extend(loop_.take(now, 0, false).into_iter().flatten());
            if step == 0 {
                loop_.begin(now);
            } else {
                waits.push((asked, now));
                answered(&mut loop_, asked, now);
                if step > number % 3 {
                    loop_.ended();
                    continue;
                }
                loop_.ask(now);
            }
            let is_slow = random.one_in(one_slow_in);
            let took = random.below(if is_slow { 3_000 } else { 5 });
            let then = now.0 / 1_000_000 + took;
            let stands_still = (1_000..2_000).contains(&(then % 5_000));
            let then = if stands_still {
                then - then % 5_000 + 2_000
            } else {
                then
            };
            events.insert((ms(then), number, step + 1, now));
        }
        told.extend(loop_.take(Time(u64::MAX), 0, true).into_iter().flatten());
        let told = told.iter().map(|it| (it.from, it.until)).collect();
        (waits, told)
    }

    #[test]
    fn a_silence_is_what_all_waited_for_that_are_answered_at_its_end() {
        let mut found = 0;
        for seed in 0..300 {
            let (waits, told) = played(&mut Random::new(seed));
            let answers = waits.iter().map(|(_, answer)| *answer);
            let mut answers: Vec<Time> = std::iter::once(Time(0)).chain(answers).collect();
            answers.sort();
            let silence = |gap: &[Time]| {
                let (from, until) = (gap[0], gap[1]);
                let at_its_end = until..until + SHORTEST;
                let of_gap = |(asked, answer): &&(Time, Time)| {
                    *asked >= from && *asked < until && at_its_end.contains(answer)
                };
                let first = waits.iter().filter(of_gap).map(|(asked, _)| *asked).min();
                first.map(|first| (first, until))
            };
            let is_long = |(from, until): &(Time, Time)| until.since(*from) >= SHORTEST;
            let silences = answers.windows(2).filter_map(silence).filter(is_long);
            let silences: Vec<(Time, Time)> = silences.collect();
            assert_eq!(told, silences, "seed {seed}");
            found += silences.len();
        }
        assert!(found > 1_000, "{found}");
    }

    /// The answer that comes first is not that for which the server was asked first.
    #[test]
    fn answers_that_come_together_end_a_silence_together() {
        let mut loop_ = Unanswered::default();
        (0..3).for_each(|at| loop_.begin(ms(1_000 + at * 450)));
        for (asked, now) in [(1_900, 1_950), (1_000, 1_951), (1_450, 1_952)] {
            answered(&mut loop_, ms(asked), ms(now));
            loop_.ended();
        }
        assert_eq!(told(&mut loop_), [(ms(1_000), ms(1_950), 3, 0)]);
    }

    /// The others were given up, or the server never answers.
    #[test]
    fn what_is_given_up_waited_for_the_server_too() {
        let mut loop_ = Unanswered::default();
        loop_.begin(ms(1_000));
        loop_.begin(ms(1_200));
        loop_.give_up(ms(1_000), ms(2_000));
        answered(&mut loop_, ms(1_200), ms(2_100));
        loop_.ended();
        // One that hangs beside others is not what they waited for.
        loop_.begin(ms(3_000));
        loop_.begin(ms(3_001));
        answered(&mut loop_, ms(3_001), ms(3_002));
        loop_.ended();
        loop_.begin(ms(3_950));
        loop_.give_up(ms(3_000), ms(4_000));
        answered(&mut loop_, ms(3_950), ms(4_010));
        loop_.ended();
        assert_eq!(told(&mut loop_), [(ms(1_000), ms(2_100), 2, 0)]);
    }

    #[test]
    fn operations_that_are_given_up_do_not_end_a_silence() {
        let mut loop_ = Unanswered::default();
        for at in 0..20 {
            loop_.begin(ms(at * 100));
            if at >= 5 {
                loop_.give_up(ms(at * 100), ms(at * 100 + 1));
            }
        }
        // 15 were given up, whose waits are latencies, and of 5 that are left one fails, which is an answer.
        let now = ms(2_000);
        answered(&mut loop_, ms(0), now);
        loop_.failed(ms(1_500));
        loop_.ended();
        (0..4).for_each(|_| loop_.ended());
        // What began later has nothing to do with it.
        loop_.begin(ms(2_010));
        answered(&mut loop_, ms(2_010), ms(2_020));
        loop_.failed(ms(2_010));
        loop_.ended();
        assert_eq!(told(&mut loop_), [(ms(0), ms(2_000), 20, 1)]);
        // One alone waits as long as it does; what is in flight at the end, until then.
        loop_.begin(ms(5_000));
        loop_.give_up(ms(5_000), ms(5_300));
        assert_eq!(told(&mut loop_), [(ms(5_000), ms(5_300), 1, 0)]);
        loop_.begin(ms(99_000));
        assert_eq!(told(&mut loop_), [(ms(99_000), ms(100_000), 1, 0)]);
    }
}
