//! Random routing keys.

use crate::RandomKeys;
use plan::Random;

/// Characters of a key, written as a UUID.
const LEN: usize = 36;

/// One producer's routing keys: the same number gives the same key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoutingKeyGenerator {
    random: Random,
    different: u64,
}

impl RoutingKeyGenerator {
    pub(crate) const fn new(keys: RandomKeys, producer: u32) -> Self {
        Self {
            random: Random::new(0x6B65_7973, producer as u64),
            different: keys.different as u64,
        }
    }

    /// A key of the right length.
    pub(crate) fn first(self) -> String {
        self.key(0).iter().map(|byte| char::from(*byte)).collect()
    }

    /// The key of a producer's `n`-th message.
    #[inline]
    pub(crate) fn key(self, n: u64) -> [u8; LEN] {
        let n = n.checked_rem(self.different).unwrap_or(n);
        let words = [self.random.word(2 * n), self.random.word(2 * n + 1)];
        let mut key = [b'-'; LEN];
        let places = (0..LEN).filter(|at| !matches!(at, 8 | 13 | 18 | 23));
        for (digit, at) in places.enumerate() {
            let word = words[digit / 16] >> (60 - 4 * (digit % 16));
            key[at] = b"0123456789abcdef"[(word & 15) as usize];
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn so_many_different_keys_come_again_and_again() {
        let keys = RoutingKeyGenerator::new(RandomKeys { different: 7 }, 3);
        let seen: HashSet<_> = (0..100).map(|n| keys.key(n)).collect();
        assert_eq!(seen.len(), 7);
        let all = RoutingKeyGenerator::new(RandomKeys { different: 0 }, 3);
        assert_eq!(
            (0..100).map(|n| all.key(n)).collect::<HashSet<_>>().len(),
            100
        );
        let other = RoutingKeyGenerator::new(RandomKeys { different: 0 }, 4);
        assert_ne!(all.key(0), other.key(0));
        assert_eq!(keys.first().len(), LEN);
        assert_eq!(keys.first().matches('-').count(), 4);
    }
}
