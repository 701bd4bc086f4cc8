//! Taking records out of a ring.
//!
//! The kernel writes records one after another into a ring whose length is a power of two; a
//! record may wrap around. Each begins with its type (u32), flags (u16) and length (u16, with this
//! header). Positions count all bytes since the ring exists, so `head - tail` bytes are waiting.

use crate::record::RawRecord;

pub(crate) const HEADER: usize = 8;

pub(crate) trait RingBytes {
    fn len(&self) -> usize;
    /// Copies from offset `at < len()` on, going round at the end; `out` is never longer than the ring.
    fn copy(&self, at: usize, out: &mut [u8]);
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// A record, and the tail after it.
    Record(RawRecord<'a>, u64),
    Empty,
    /// No record: its length is impossible. What waits must be given up.
    Damaged,
}

/// The record between `tail` and `head`, copied into `scratch`.
pub(crate) fn next<'a>(ring: &impl RingBytes, head: u64, tail: u64, scratch: &'a mut Vec<u8>) -> Next<'a> {
    let waiting = head.wrapping_sub(tail);
    if waiting == 0 {
        return Next::Empty;
    }
    let len = ring.len() as u64;
    if waiting < HEADER as u64 || waiting > len {
        return Next::Damaged;
    }
    let offset = |position: u64| (position % len) as usize;
    let mut header = [0u8; HEADER];
    ring.copy(offset(tail), &mut header);
    let [k0, k1, k2, k3, m0, m1, s0, s1] = header;
    let size = u16::from_ne_bytes([s0, s1]);
    if usize::from(size) < HEADER || u64::from(size) > waiting {
        return Next::Damaged;
    }
    scratch.clear();
    scratch.resize(usize::from(size) - HEADER, 0);
    if !scratch.is_empty() {
        ring.copy(offset(tail.wrapping_add(HEADER as u64)), scratch);
    }
    let record =
        RawRecord { kind: u32::from_ne_bytes([k0, k1, k2, k3]), misc: u16::from_ne_bytes([m0, m1]), body: scratch };
    Next::Record(record, tail.wrapping_add(u64::from(size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Vec<u8>);

    impl RingBytes for Memory {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn copy(&self, at: usize, out: &mut [u8]) {
            for (i, byte) in out.iter_mut().enumerate() {
                *byte = self.0[(at + i) % self.0.len()];
            }
        }
    }

    /// A ring of 64 bytes with the given records written from `tail` on; returns it and the head.
    fn ring(tail: u64, records: &[(u32, u16, &[u8])]) -> (Memory, u64) {
        let mut memory = Memory(vec![0xee; 64]);
        let mut at = tail;
        for (kind, misc, body) in records {
            let size = u16::try_from(HEADER + body.len()).unwrap();
            let parts: [&[u8]; 4] = [&kind.to_ne_bytes(), &misc.to_ne_bytes(), &size.to_ne_bytes(), body];
            for byte in parts.concat() {
                memory.0[(at % 64) as usize] = byte;
                at = at.wrapping_add(1);
            }
        }
        (memory, at)
    }

    #[test]
    fn records_come_out_in_order_wherever_the_ring_and_positions_wrap() {
        for tail in (0..200).chain([u64::MAX - 11]) {
            let (memory, head) = ring(tail, &[(9, 2, &[1, 2, 3, 4, 5, 6, 7, 8]), (2, 0, &[])]);
            let mut scratch = Vec::new();
            let Next::Record(record, tail) = next(&memory, head, tail, &mut scratch) else { panic!("no record") };
            let wanted = RawRecord { kind: 9, misc: 2, body: &[1, 2, 3, 4, 5, 6, 7, 8] };
            assert_eq!(record, wanted);
            let Next::Record(record, tail) = next(&memory, head, tail, &mut scratch) else {
                panic!("no second record")
            };
            assert_eq!((record.kind, record.body.len()), (2, 0));
            assert_eq!(next(&memory, head, tail, &mut scratch), Next::Empty);
        }
    }

    #[test]
    fn impossible_lengths_are_damage_not_panics() {
        let mut scratch = Vec::new();
        for size in [0u16, 1, 7, 100, u16::MAX] {
            let (mut memory, head) = ring(0, &[(9, 0, &[0; 16])]);
            memory.0[6..8].copy_from_slice(&size.to_ne_bytes());
            assert_eq!(next(&memory, head, 0, &mut scratch), Next::Damaged, "size {size}");
        }
        let (memory, _) = ring(0, &[]);
        for (head, tail) in [(3, 0), (65, 0), (0, 1), (u64::MAX, 0)] {
            assert_eq!(next(&memory, head, tail, &mut scratch), Next::Damaged, "{head} {tail}");
        }
    }
}
