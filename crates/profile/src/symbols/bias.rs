//! Where a file's addresses lie in a process that has it mapped.

use linux::maps::Mapping;
use object::{Object, ObjectSegment as _};

/// What is to be added to the addresses that a file states, to get those in a process that has it mapped.
pub(super) fn bias<'d>(file: &impl Object<'d>, mapping: &Mapping) -> Option<u64> {
    let mut segments = file.segments();
    let stated = segments.find_map(|segment| {
        let (start, size) = segment.file_range();
        let into = mapping.offset.checked_sub(start)?;
        (into < size).then(|| segment.address().wrapping_add(into))
    });
    Some(mapping.start.wrapping_sub(stated?))
}
