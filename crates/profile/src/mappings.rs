//! Mappings of a process.

use std::ops::Range;

use linux::maps::Mapping;

use crate::ranges::{Ranged, Ranges};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_mapping_begins_further_inside_its_file() {
        let mapping = |start, end, offset, path: &str| Mapping {
            start,
            end,
            offset,
            inode: 0,
            path: path.into(),
            deleted: false,
        };
        let mut mappings = Mappings::default();
        mappings.insert(mapping(10, 50, 1_000, "old"));
        mappings.insert(mapping(20, 30, 7, "new"));
        let left = [(10, 20, 1_000), (20, 30, 7), (30, 50, 1_020)];
        for (start, end, offset) in left {
            let found = mappings.at(start).unwrap();
            assert_eq!((found.start, found.end, found.offset), (start, end, offset));
        }
    }
}
