//! Memory that a process holds: taken since sampling began, and not given back.
//!
//! Memory that the process held before is not known; giving it back changes nothing.

mod address_space;

use std::collections::HashMap;

use self::address_space::MappedRanges;
use crate::events::{Event, EventSource, SystemCall, Weight};
use crate::stack_copy::{Extent, MOST_BLOCKS, Transfer};

/// Blocks that a process holds, each with the `T` that took it.
#[derive(Debug)]
pub(crate) struct HeldMemory<T> {
    blocks: Blocks<T>,
    told_by: ToldBy,
}

#[derive(Debug)]
enum ToldBy {
    /// As ranges of addresses, of which any part can be given back.
    Addresses(MappedRanges),
    /// By their numbers, and chosen by chance among so many bytes.
    Numbers { one_in: f64 },
}

impl<T> HeldMemory<T> {
    /// For an event whose samples weigh what is held.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let told_by = match event.source {
            EventSource::AddressSpace => ToldBy::Addresses(MappedRanges::default()),
            _ => ToldBy::Numbers { one_in: event.one_in().into() },
        };
        (event.weight == Weight::Held).then_some(Self { blocks: Blocks::new(MOST_BLOCKS), told_by })
    }

    /// Looks at what the process has before its first step, where that is needed.
    pub(crate) fn look_at(&mut self, pid: u32) {
        if let ToldBy::Addresses(space) = &mut self.told_by {
            space.look_at(pid);
        }
    }

    /// Takes a step. Steps come in the order of time; `by` is asked for where memory was taken.
    pub(crate) fn step(&mut self, transfer: &Transfer, by: impl FnOnce() -> T) {
        match &mut self.told_by {
            ToldBy::Addresses(space) => space.step(transfer, &mut self.blocks, by),
            ToldBy::Numbers { .. } if SystemCall::of(transfer.call) == Some(SystemCall::Exec) => {
                drop(self.blocks.end());
            }
            ToldBy::Numbers { one_in } => {
                self.blocks.give_back(transfer.released.start, u64::MAX);
                match transfer.taken {
                    Extent { length: 0, .. } => {}
                    // The program could not follow it.
                    Extent { start: 0, .. } => self.blocks.leave_out(),
                    Extent { start, length } => {
                        self.blocks.take(start, stands_for(length, *one_in), by);
                    }
                }
            }
        }
    }

    /// Ends the account; returns the blocks held, with their bytes.
    pub(crate) fn end(&mut self) -> Vec<(T, u64)> {
        if let ToldBy::Addresses(space) = &mut self.told_by {
            space.forget();
        }
        self.blocks.end()
    }

    pub(crate) fn left_out(&mut self) -> Option<String> {
        let count = self.blocks.left_out();
        (count > 0)
            .then(|| format!("more than {MOST_BLOCKS} blocks of memory are held: {count} later ones are left out"))
    }
}

/// The bytes that a block stands for, chosen one in so many bytes: its own, and those of its size that were not chosen.
fn stands_for(bytes: u64, one_in: f64) -> u64 {
    let bytes = bytes as f64;
    let chosen = -(-bytes / one_in).exp_m1();
    (bytes / chosen).round() as u64
}

#[derive(Debug)]
struct Blocks<T> {
    /// The bytes of each, and who took it.
    by_number: HashMap<u64, (u64, T)>,
    most: usize,
    left_out: u64,
}

impl<T> Blocks<T> {
    /// None yet; `most` are followed.
    fn new(most: usize) -> Self {
        Self { by_number: HashMap::new(), most, left_out: 0 }
    }

    /// A block was taken; whether it is followed.
    fn take(&mut self, number: u64, bytes: u64, by: impl FnOnce() -> T) -> bool {
        if self.by_number.len() >= self.most {
            self.leave_out();
            return false;
        }
        self.by_number.insert(number, (bytes, by()));
        true
    }

    const fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// So many bytes of a block were given back, if it is one.
    fn give_back(&mut self, number: u64, bytes: u64) {
        if let Some((left, _)) = self.by_number.get_mut(&number) {
            *left = left.saturating_sub(bytes);
            if *left == 0 {
                self.by_number.remove(&number);
            }
        }
    }

    fn end(&mut self) -> Vec<(T, u64)> {
        std::mem::take(&mut self.by_number).into_values().map(|(bytes, by)| (by, bytes)).collect()
    }

    /// Blocks that were not followed, since this was last asked.
    fn left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_blocks_stand_for_themselves_and_small_ones_for_what_lies_between_samples() {
        assert_eq!(stands_for(10_000_000, 131_072.0), 10_000_000);
        assert_eq!(stands_for(1, 131_072.0), 131_073);
        // Chosen 632 times in 1,000.
        assert_eq!(stands_for(1_000, 1_000.0), 1_582);
        // Each is chosen.
        assert_eq!(stands_for(100, 1.0), 100);
    }
}
