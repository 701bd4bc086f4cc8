//! The memory of the programs that follow an allocator's blocks until they are given back.

use std::io;

use super::sys::{Map, MapKind};

/// Blocks that are followed at most; of each some 100 bytes are kept in the kernel, and some 200 here.
pub(crate) const MOST_BLOCKS: usize = 1 << 17;
/// Calls that are known between their beginning and their return.
const CALLS: u32 = 16 << 10;

/// What is known of a call that is followed, from its beginning to its return.
pub(super) mod call {
    /// Bytes that the new block is to have; 0 where it is not followed.
    pub(in crate::stack_copy) const BYTES: i16 = 0;
    /// The number of the block that it gives back, and its address.
    pub(in crate::stack_copy) const OLD_NUMBER: i16 = 8;
    pub(in crate::stack_copy) const OLD_ADDRESS: i16 = 16;
    /// Where the new block's address is written to; 0 where it is the answer.
    pub(in crate::stack_copy) const BEHIND: i16 = 24;
    pub(in crate::stack_copy) const SIZE: usize = 32;
}

/// What the programs know.
#[derive(Debug)]
pub(super) struct Following {
    /// By the stack pointer of the caller, which no two calls of a process have at once.
    pub(super) calls: Map,
    /// By address: the number of the block.
    pub(super) blocks: Map,
    /// The last number that a block got.
    pub(super) last: Map,
}

impl Following {
    pub(super) fn new() -> io::Result<Self> {
        let address = size_of::<u64>();
        let most = u32::try_from(MOST_BLOCKS).map_err(io::Error::other)?;
        Ok(Self {
            calls: Map::with_keys(MapKind::Hash, address, call::SIZE, CALLS)?,
            blocks: Map::with_keys(MapKind::Hash, address, size_of::<u64>(), most)?,
            last: Map::new(MapKind::Array, size_of::<u64>(), 1)?,
        })
    }
}
