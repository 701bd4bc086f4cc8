//! Properties that differ from message to message: an id, a timestamp and a random routing key.

use measure::Time;

use crate::protocol::Sender;
use crate::{MessageProperties, Producers, RandomKeys};
use plan::Random;

/// `ID:`, run and producer of 8 digits each, and a sequence number of 16.
const ID_LEN: usize = 37;
/// Where the sequence number begins.
const SEQUENCE_AT: usize = 21;

/// The message id and timestamp of a producer's messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UniqueProperties {
    id: Option<[u8; ID_LEN]>,
    /// The wall clock less the monotonic one, in nanoseconds.
    wall_offset: Option<u64>,
}

impl UniqueProperties {
    /// `None` where messages are all alike. The wall clock less the monotonic one is in nanoseconds.
    pub(crate) fn new(producers: &Producers, run: u32, producer: u32, wall_offset: u64) -> Option<Self> {
        if !producers.message_ids && !producers.timestamps {
            return None;
        }
        Some(Self {
            id: producers.message_ids.then(|| first_id(run, producer)),
            wall_offset: producers.timestamps.then_some(wall_offset),
        })
    }

    /// Reserves their bytes in the properties of all messages.
    pub(crate) fn make_room(&self, properties: &mut MessageProperties) {
        if let Some(id) = &self.id {
            properties.message_id = Some(id.iter().map(|byte| char::from(*byte)).collect());
        }
        if self.wall_offset.is_some() {
            properties.timestamp = Some(0);
        }
    }

    /// Writes those of the next message.
    #[inline]
    pub(crate) fn put(&mut self, sequence: u64, now: Time, sender: &mut impl Sender) {
        if let Some(id) = &mut self.id {
            write_hex(&mut id[SEQUENCE_AT..], sequence);
            sender.set_message_id(id);
        }
        if let Some(offset) = self.wall_offset {
            sender.set_timestamp(now.0.saturating_add(offset) / 1_000_000_000);
        }
    }
}

fn first_id(run: u32, producer: u32) -> [u8; ID_LEN] {
    let mut id = [b'-'; ID_LEN];
    id[..3].copy_from_slice(b"ID:");
    write_hex(&mut id[3..11], run.into());
    write_hex(&mut id[12..20], producer.into());
    write_hex(&mut id[SEQUENCE_AT..], 0);
    id
}

/// As many of the number's last digits as there is room for.
#[inline]
fn write_hex(to: &mut [u8], mut number: u64) {
    for digit in to.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

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
        Self { random: Random::new(0x6B65_7973, producer as u64), different: keys.different as u64 }
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

    /// Notes the timestamp.
    #[derive(Default)]
    struct Stamped(u64);

    impl Sender for Stamped {
        fn publish(&mut self, _: impl FnOnce(&mut [u8])) {}
        fn publish_body(&mut self, _: &[u8], _: impl FnOnce(&mut [u8])) {}
        fn set_message_id(&mut self, _: &[u8]) {}
        fn set_timestamp(&mut self, unix_s: u64) {
            self.0 = unix_s;
        }
        fn set_trace_header(&mut self, _: &[u8; plan::payload::FULL_LEN]) {}
        fn message_wire_len(&self) -> (usize, usize) {
            (1, 1)
        }
        fn pending(&self) -> usize {
            0
        }
    }

    #[test]
    fn timestamps_are_of_the_clock_that_the_load_runs_by() {
        let producers = Producers { timestamps: true, ..Producers::default() };
        let second = 1_000_000_000;
        let mut own = UniqueProperties::new(&producers, 1, 2, 1_000 * second).expect("a timestamp");
        let mut sender = Stamped::default();
        own.put(0, Time(7 * second + 1), &mut sender);
        assert_eq!(sender.0, 1_007);
    }

    #[test]
    fn ids_name_run_producer_and_sequence() {
        let mut id = first_id(0xAB, 7);
        assert_eq!(&id, b"ID:000000ab-00000007-0000000000000000");
        write_hex(&mut id[SEQUENCE_AT..], 0x1_2345);
        assert_eq!(&id, b"ID:000000ab-00000007-0000000000012345");
    }

    #[test]
    fn so_many_different_keys_come_again_and_again() {
        let keys = RoutingKeyGenerator::new(RandomKeys { different: 7 }, 3);
        let seen: HashSet<_> = (0..100).map(|n| keys.key(n)).collect();
        assert_eq!(seen.len(), 7);
        let all = RoutingKeyGenerator::new(RandomKeys { different: 0 }, 3);
        assert_eq!((0..100).map(|n| all.key(n)).collect::<HashSet<_>>().len(), 100);
        let other = RoutingKeyGenerator::new(RandomKeys { different: 0 }, 4);
        assert_ne!(all.key(0), other.key(0));
        assert_eq!(keys.first().len(), LEN);
        assert_eq!(keys.first().matches('-').count(), 4);
    }
}
