//! What a process has mapped where.

use std::collections::BTreeMap;

use linux::maps::Mapping;

/// Mappings by address, none over another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mappings(BTreeMap<u64, Mapping>);

impl Mappings {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What is mapped at an address.
    pub(crate) fn at(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.0.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    /// Adds a mapping, which takes the place of what was there.
    pub(crate) fn insert(&mut self, mapping: Mapping) {
        self.cut(mapping.start, mapping.end);
        self.0.insert(mapping.start, mapping);
    }

    /// Cuts `start..end` out of what is mapped.
    fn cut(&mut self, start: u64, end: u64) {
        let before = self.0.range(..start).next_back();
        let first = before.filter(|(_, it)| it.end > start).map(|(at, _)| *at);
        let inside = self.0.range(start..end).map(|(at, _)| *at);
        let overlapping: Vec<u64> = first.into_iter().chain(inside).collect();
        for at in overlapping {
            let Some(old) = self.0.remove(&at) else {
                continue;
            };
            if old.start < start {
                let mut left = old.clone();
                left.end = start;
                self.0.insert(left.start, left);
            }
            if old.end > end {
                let mut right = old;
                right.offset = right.offset.wrapping_add(end - right.start);
                right.start = end;
                self.0.insert(end, right);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Random;

    use super::*;

    /// Against a plain model: for each address the last mapping over it.
    #[test]
    fn the_last_mapping_of_an_address_counts() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut mappings = Mappings::default();
            let mut model: Vec<Option<(usize, u64)>> = vec![None; 64];
            for number in 0..40 {
                let start = random.below(60);
                let end = start + 1 + random.below(64 - start - 1);
                mappings.insert(Mapping {
                    start,
                    end,
                    offset: 1_000,
                    inode: 0,
                    path: number.to_string().into(),
                    deleted: false,
                });
                for address in start..end {
                    model[address as usize] = Some((number, 1_000 + address - start));
                }
                for (address, wanted) in (0..).zip(&model) {
                    let found = mappings.at(address).map(|it| {
                        let number: usize = it.path.parse().unwrap();
                        (number, it.offset + address - it.start)
                    });
                    assert_eq!(found, *wanted, "seed {seed}, address {address}");
                }
            }
            assert!(mappings.len() <= 64);
        }
    }
}
