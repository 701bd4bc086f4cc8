//! The memory of another process: its mappings, and reading it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use linux::maps::Mapping;

/// Memory that words can be read from.
pub(crate) trait Memory {
    /// Fills `bytes` from `address` on; whether all of it could be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;

    /// The words from `address` on; as many as are asked for, or none.
    fn words(&self, address: u64, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; count * 8];
        if !self.read(address, &mut bytes) {
            return Vec::new();
        }
        let (words, _) = bytes.as_chunks();
        words.iter().copied().map(u64::from_ne_bytes).collect()
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
    }
}

#[derive(Debug)]
pub(crate) struct ProcessMemory(File);

impl ProcessMemory {
    /// That of process `pid`, unless it has ended, or may not be looked into.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.0.read_exact_at(bytes, address).is_ok()
    }
}

/// Mappings by address; the last one of an address counts.
pub(crate) type Mappings = Ranges<Mapping>;

impl Ranged for Mapping {
    fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    fn part(&self, range: Range<u64>) -> Self {
        Self {
            start: range.start,
            end: range.end,
            offset: self.offset.wrapping_add(range.start - self.start),
            ..self.clone()
        }
    }
}

/// Something that lies over a range of addresses, and can be cut.
pub(crate) trait Ranged: Clone {
    fn range(&self) -> Range<u64>;

    /// The part of it over `range`, which lies inside its own.
    fn part(&self, range: Range<u64>) -> Self;
}

/// Such things by their first address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges<T>(BTreeMap<u64, T>);

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ranged> Ranges<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn at(&self, address: u64) -> Option<&T> {
        let (_, found) = self.0.range(..=address).next_back()?;
        (address < found.range().end).then_some(found)
    }

    /// Adds one, which takes the place of what was there.
    pub(crate) fn insert(&mut self, new: T) {
        let range = new.range();
        if !range.is_empty() {
            self.cut(range.clone());
            self.0.insert(range.start, new);
        }
    }

    /// Cuts a range out; what lay over it, in the order of addresses.
    pub(crate) fn cut(&mut self, range: Range<u64>) -> Vec<T> {
        if range.is_empty() {
            return Vec::new();
        }
        let Range { start, end } = range;
        let first = self.0.range(..start).next_back().filter(|(_, it)| it.range().end > start);
        let overlapping: Vec<u64> = first.into_iter().chain(self.0.range(start..end)).map(|(at, _)| *at).collect();
        let old: Vec<T> = overlapping.into_iter().filter_map(|at| self.0.remove(&at)).collect();
        let cut = old.into_iter().map(|old| {
            let whole = old.range();
            for rest in [whole.start..start, end..whole.end].into_iter().filter(|it| !it.is_empty()) {
                self.0.insert(rest.start, old.part(rest));
            }
            old.part(whole.start.max(start)..whole.end.min(end))
        });
        cut.collect()
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Random, seeds};

    use super::*;

    #[test]
    fn what_is_left_of_a_mapping_begins_further_inside_its_file() {
        let mapping = |start, end, offset| Mapping { start, end, offset, inode: 0, path: "".into(), deleted: false };
        let mut mappings = Mappings::default();
        mappings.insert(mapping(10, 50, 1_000));
        mappings.insert(mapping(20, 30, 7));
        let left = [(10, 20, 1_000), (20, 30, 7), (30, 50, 1_020)];
        for (start, end, offset) in left {
            let found = mappings.at(start).unwrap();
            assert_eq!((found.start, found.end, found.offset), (start, end, offset));
        }
    }

    /// A number over some addresses, and that of its first address.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Numbered {
        range: Range<u64>,
        number: u64,
        first: u64,
    }

    impl Ranged for Numbered {
        fn range(&self) -> Range<u64> {
            self.range.clone()
        }

        fn part(&self, range: Range<u64>) -> Self {
            Self { first: self.first + (range.start - self.range.start), range, ..*self }
        }
    }

    #[test]
    fn what_was_put_last_over_an_address_lies_there() {
        for seed in seeds(300) {
            let mut random = Random::new(seed);
            let mut ranges = Ranges::default();
            let mut model: Vec<Option<(u64, u64)>> = vec![None; 64];
            for number in 0..40 {
                let start = random.below(60);
                let range = start..start + 1 + random.below(64 - start - 1);
                let inside = range.start as usize..range.end as usize;
                if random.below(3) == 0 {
                    let cut = ranges.cut(range.clone()).into_iter();
                    let cut = cut.flat_map(|it: Numbered| {
                        let Numbered { range, number, first } = it;
                        range.clone().map(move |at| (at, number, first + at - range.start))
                    });
                    let wanted = range.clone().zip(&model[inside.clone()]);
                    let wanted = wanted.filter_map(|(at, it)| it.map(|(n, first)| (at, n, first)));
                    assert!(cut.eq(wanted), "seed {seed}");
                    model[inside].fill(None);
                } else {
                    for (into, at) in inside.enumerate() {
                        model[at] = Some((number, 1_000 + into as u64));
                    }
                    ranges.insert(Numbered { range, number, first: 1_000 });
                }
                for (address, wanted) in (0..).zip(&model) {
                    let found = ranges.at(address);
                    let found = found.map(|it| (it.number, it.first + address - it.range.start));
                    assert_eq!(found, *wanted, "seed {seed}, address {address}");
                }
            }
            assert!(ranges.len() <= 64);
        }
    }
}
