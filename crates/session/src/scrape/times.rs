//! When requests of a page are due.

use measure::Nanos;

/// When the requests of a page are due, after the first may be: one in each interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTimes {
    pub(crate) every: Nanos,
    /// At a random moment of its interval, which this determines; at its beginning where absent.
    pub(crate) jitter: Option<u64>,
}

impl RequestTimes {
    /// When a request is due, by its number from 0 on.
    pub(crate) fn due(self, number: u64) -> Nanos {
        let begin = Nanos(self.every.0.saturating_mul(number));
        let Some(seed) = self.jitter else {
            return begin;
        };
        // SplitMix64 of the seed and the number.
        let mixed = seed.wrapping_add((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        begin + Nanos((mixed ^ (mixed >> 31)) % self.every.0.max(1))
    }

    /// How many are due before a time.
    pub(crate) fn before(self, time: Nanos) -> u64 {
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
        // Each part of the interval has its share, and another seed has other moments.
        let times = |seed| RequestTimes {
            every,
            jitter: Some(seed),
        };
        let early = (0..1_000).filter(|it| times(7).due(*it).0 % every.0 < every.0 / 4);
        assert!((200..300).contains(&early.count()));
        assert_ne!(times(7).due(3), times(8).due(3));
    }
}
