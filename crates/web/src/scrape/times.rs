//! When requests of a page are due.

use measure::Nanos;

/// How much of an interval a jittered request moves from the one before. None is due sooner after it than the rest of
/// an interval, so that pages which take less never wait for each other; after seven requests each part of the interval
/// had one.
const STEP_PERCENT: u64 = 15;

/// When the requests of a page are due, after the first may be: one in each interval.
#[derive(Clone, Copy, Debug)]
pub struct RequestTimes {
    /// From one to the next.
    pub every: Nanos,
    /// At a moment of its interval that goes to and fro, and begins where this determines; at the interval's beginning
    /// where absent.
    pub jitter: Option<u64>,
}

impl RequestTimes {
    /// When a request is due, by its number from 0 on.
    pub fn due(self, number: u64) -> Nanos {
        let every = self.every.0.max(1);
        let begin = Nanos(every.saturating_mul(number));
        let Some(seed) = self.jitter else {
            return begin;
        };
        // SplitMix64 of the seed.
        let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let there_and_back = u128::from(every) * 2;
        let moved = u128::from(mixed ^ (mixed >> 31))
            + u128::from(number) * u128::from(every * STEP_PERCENT / 100);
        let moved = moved % there_and_back;
        let within = moved.min(there_and_back - 1 - moved);
        begin + Nanos(u64::try_from(within).unwrap_or(0))
    }

    /// How many are due before a time.
    pub fn before(self, time: Nanos) -> u64 {
        let whole = time.0 / self.every.0.max(1);
        whole + u64::from(self.due(whole) < time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_is_due_in_each_interval() {
        let every = Nanos::from_millis(5_000);
        for jitter in [None, Some(1), Some(u64::MAX)] {
            let times = RequestTimes { every, jitter };
            for number in 0..1_000 {
                let due = times.due(number);
                assert_eq!(due.0 / every.0, number, "{jitter:?}");
                assert_eq!(times.before(due), number);
                assert_eq!(times.before(due + Nanos(1)), number + 1);
            }
        }
        // Each part of the interval has its share, no request comes early, and another seed has other moments.
        let times = |seed| RequestTimes {
            every,
            jitter: Some(seed),
        };
        let early = (0..1_000).filter(|it| times(7).due(*it).0 % every.0 < every.0 / 4);
        assert!((200..300).contains(&early.count()));
        for number in 0..1_000 {
            let gap = times(7).due(number + 1).0 - times(7).due(number).0;
            let percent = gap * 100 / every.0;
            assert!((84..=115).contains(&percent), "{number}: {gap}");
        }
        assert_ne!(times(7).due(3), times(8).due(3));
    }
}
