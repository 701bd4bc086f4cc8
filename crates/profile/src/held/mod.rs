//! Memory that a process holds: taken since sampling began, and not given back.
//!
//! What the process held before is not known, and what it gives back of that changes nothing.

mod address_space;
mod blocks;

use self::address_space::MappedRanges;
use self::blocks::Blocks;
use crate::address_space::SystemCall;
use crate::events::{Event, EventSource, Weight};
use crate::stack_copy::{Extent, MOST_BLOCKS, Transfer};

/// What a process holds, and by what `T` it took each block.
#[derive(Debug)]
pub(crate) struct HeldMemory<T> {
    blocks: Blocks<T>,
    told_by: ToldBy,
}

/// How blocks are told.
#[derive(Debug)]
enum ToldBy {
    /// As ranges of addresses, of which any part can be given back.
    Addresses(MappedRanges),
    /// By their numbers.
    Numbers,
}

impl<T> HeldMemory<T> {
    /// For an event whose samples weigh what is held.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let told_by = match event.source {
            EventSource::AddressSpace => ToldBy::Addresses(MappedRanges::default()),
            _ => ToldBy::Numbers,
        };
        let blocks = Blocks::new(MOST_BLOCKS);
        (event.weight == Weight::Held).then_some(Self { blocks, told_by })
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
            ToldBy::Numbers if SystemCall::of(transfer.call) == Some(SystemCall::Exec) => {
                drop(self.blocks.end());
            }
            ToldBy::Numbers => {
                self.blocks.give_back(transfer.released.start, u64::MAX);
                match transfer.taken {
                    Extent { length: 0, .. } => {}
                    // The program could not follow it.
                    Extent { start: 0, .. } => self.blocks.leave_out(),
                    Extent { start, length } => drop(self.blocks.take(start, length, by)),
                }
            }
        }
    }

    /// What is held, with its bytes; it is known no longer.
    pub(crate) fn end(&mut self) -> Vec<(T, u64)> {
        if let ToldBy::Addresses(space) = &mut self.told_by {
            space.forget();
        }
        self.blocks.end()
    }

    /// What was left out, in words.
    pub(crate) fn left_out(&mut self) -> Option<String> {
        let count = self.blocks.left_out();
        (count > 0).then(|| {
            format!(
                "more than {MOST_BLOCKS} blocks of memory are held: {count} that were taken later are left out"
            )
        })
    }
}
