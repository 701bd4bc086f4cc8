//! Blocks of memory by their numbers.

use std::collections::HashMap;

/// The blocks that are held.
#[derive(Debug)]
pub(super) struct Blocks<T> {
    by_number: HashMap<u64, Block<T>>,
    most: usize,
    left_out: u64,
}

#[derive(Debug)]
struct Block<T> {
    bytes: u64,
    by: T,
}

impl<T> Blocks<T> {
    /// None yet; `most` are followed.
    pub(super) fn new(most: usize) -> Self {
        Self {
            by_number: HashMap::new(),
            most,
            left_out: 0,
        }
    }

    /// A block was taken; whether it is followed.
    pub(super) fn take(&mut self, number: u64, bytes: u64, by: impl FnOnce() -> T) -> bool {
        if self.by_number.len() >= self.most {
            self.leave_out();
            return false;
        }
        let by = by();
        self.by_number.insert(number, Block { bytes, by });
        true
    }

    /// A block that was taken is not followed.
    pub(super) const fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// So many bytes of a block were given back, if it is one.
    pub(super) fn give_back(&mut self, number: u64, bytes: u64) {
        if let Some(block) = self.by_number.get_mut(&number) {
            block.bytes = block.bytes.saturating_sub(bytes);
            if block.bytes == 0 {
                self.by_number.remove(&number);
            }
        }
    }

    /// Ends the account; returns the blocks held, with their bytes.
    pub(super) fn end(&mut self) -> Vec<(T, u64)> {
        let blocks = std::mem::take(&mut self.by_number).into_values();
        blocks.map(|it| (it.by, it.bytes)).collect()
    }

    /// Blocks that were not followed, since this was last asked.
    pub(super) fn left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}
