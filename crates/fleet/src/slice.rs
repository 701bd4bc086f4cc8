//! A slice as bytes.

use std::sync::Arc;

use measure::Slice;

use crate::Malformed;

/// A slice as it travels: deflated. Nothing about it has been checked before [`SliceReader::read`].
#[derive(Clone, PartialEq, Eq)]
pub struct SliceData(Arc<[u8]>);

impl SliceData {
    /// Encodes a slice.
    pub fn of(slice: &Slice) -> Self;
}

/// Decodes slices, in memory that it keeps.
#[derive(Debug, Default)]
pub struct SliceReader {}

impl SliceReader {
    /// Replaces what is in `slice`, whose memory is reused: the sums are those of what was encoded, bit by bit. Errors:
    /// bytes that are no slice, or larger than one can be; `slice` is empty then.
    pub fn read(&mut self, data: &SliceData, slice: &mut Slice) -> Result<(), Malformed>;
}
