//! Operations of an event loop in flight, and since when none of them was answered.

use measure::Time;

use crate::Silence;
use crate::engine::silence::{SHORTEST, Silences};

/// Operations in flight, and the silences of their loop: times in which none of them got on.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    pub(crate) silences: Silences,
    in_flight: u64,
    /// The last answer, or when the first of those in flight began.
    since: Time,
    /// One began since then: where none does, nothing is awaited of the server but what it holds.
    has_begun: bool,
    /// Operations that were given up since then.
    given_up: u64,
    /// The end of the last silence.
    until: Time,
    /// Operations that had begun before that and failed after it, without a latency.
    failed: u64,
}

impl Unanswered {
    /// An operation begins.
    pub(crate) fn begin(&mut self, now: Time) {
        if self.in_flight == 0 {
            (self.since, self.given_up) = (now, 0);
        }
        self.in_flight += 1;
        self.has_begun = true;
    }

    /// The time until now in which none of those in flight was answered, where that is worth telling.
    pub(crate) fn silence(&self, now: Time) -> Option<Silence> {
        let delayed = self.in_flight + self.given_up;
        let is_long = delayed > 0 && self.has_begun && now.since(self.since) >= SHORTEST;
        is_long.then(|| Silence {
            from: self.since,
            until: now,
            connections: delayed,
            in_flight: delayed,
            ..Silence::default()
        })
    }

    /// One of those in flight has an answer, which ends this silence.
    pub(crate) fn answered(&mut self, now: Time, silence: Option<Silence>) {
        (self.since, self.given_up, self.has_begun) = (now, 0, false);
        if let Some(silence) = silence {
            (self.until, self.failed) = (now, 0);
            self.silences.end(silence);
        }
    }

    /// One of those in flight, whose last step began then, has failed.
    pub(crate) fn failed(&mut self, began: Time) {
        self.failed += u64::from(began < self.until);
    }

    /// One of those in flight has ended.
    pub(crate) fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// One of those in flight is given up. The others wait on, and where there are none nobody does.
    pub(crate) fn give_up(&mut self, now: Time) {
        self.ended();
        self.given_up += 1;
        if self.in_flight == 0 {
            self.answered(now, self.silence(now));
        }
    }

    /// The silences that are over, or all at the end.
    pub(crate) fn take(&mut self, now: Time, handled: u64, is_end: bool) -> [Option<Silence>; 4] {
        if is_end && self.in_flight > 0 {
            self.answered(now, self.silence(now));
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    fn told(loop_: &mut Unanswered) -> Vec<(Time, Time, u64, u64)> {
        let told = loop_.take(ms(100_000), 0, true).into_iter().flatten();
        told.map(|it| (it.from, it.until, it.in_flight, it.failed))
            .collect()
    }

    /// Each eighth takes 500 ms, and the others are answered meanwhile.
    #[test]
    fn a_slow_answer_beside_others_is_no_silence() {
        let mut loop_ = Unanswered::default();
        let mut slow = Vec::new();
        for at in 0..400 {
            let now = ms(at * 20);
            slow.retain(|due: &Time| {
                let is_over = *due <= now;
                if is_over {
                    loop_.answered(now, loop_.silence(now));
                    loop_.ended();
                }
                !is_over
            });
            loop_.begin(now);
            match at % 8 {
                0 => slow.push(ms(at * 20 + 500)),
                _ => {
                    let now = ms(at * 20 + 2);
                    loop_.answered(now, loop_.silence(now));
                    loop_.ended();
                }
            }
            assert_eq!(loop_.silence(now), None);
        }
        // One that hangs is no silence where nothing further is asked of the server.
        assert_eq!(loop_.silence(ms(100_000)), None);
        slow.iter().for_each(|_| loop_.ended());
        assert_eq!(told(&mut loop_), []);
    }

    #[test]
    fn operations_that_are_given_up_do_not_end_a_silence() {
        let mut loop_ = Unanswered::default();
        for at in 0..20 {
            loop_.begin(ms(at * 100));
            if at >= 5 {
                loop_.give_up(ms(at * 100 + 1));
            }
        }
        // 15 were given up, whose waits are latencies, and of 5 that are left one fails, which is an answer.
        let now = ms(2_000);
        loop_.answered(now, loop_.silence(now));
        loop_.failed(ms(1_500));
        loop_.ended();
        (0..4).for_each(|_| loop_.ended());
        // What began later has nothing to do with it.
        loop_.begin(ms(2_010));
        loop_.answered(ms(2_020), loop_.silence(ms(2_020)));
        loop_.failed(ms(2_010));
        loop_.ended();
        assert_eq!(told(&mut loop_), [(ms(0), ms(2_000), 20, 1)]);
        // One alone waits as long as it does; what is in flight at the end, until then.
        loop_.begin(ms(5_000));
        loop_.give_up(ms(5_300));
        assert_eq!(told(&mut loop_), [(ms(5_000), ms(5_300), 1, 0)]);
        loop_.begin(ms(99_000));
        assert_eq!(told(&mut loop_), [(ms(99_000), ms(100_000), 1, 0)]);
    }
}
