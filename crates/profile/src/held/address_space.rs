//! Mappings made since sampling began.

use std::ops::Range;

use linux::maps;

use super::Blocks;
use crate::events::SystemCall;
use crate::memory::{Ranged, Ranges};
use crate::stack_copy::{Extent, MOST_BLOCKS, Transfer};

/// Ranges of addresses, each of a block.
#[derive(Debug, Default)]
pub(super) struct MappedRanges {
    ranges: Ranges<Piece>,
    /// Where the heap that `brk` moves ends; `None` where that is not known.
    heap_end: Option<u64>,
    last: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    range: Range<u64>,
    block: u64,
}

impl Ranged for Piece {
    fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    fn part(&self, range: Range<u64>) -> Self {
        Self { range, ..*self }
    }
}

impl Piece {
    const fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl MappedRanges {
    /// Finds the end of the heap, where that is not known.
    pub(super) fn look_at(&mut self, pid: u32) {
        if self.heap_end.is_none() {
            self.heap_end = maps::heap_end(pid);
        }
    }

    /// Nothing of what was taken is known any longer.
    pub(super) fn forget(&mut self) {
        self.ranges = Ranges::default();
    }

    /// Takes a step; `by` is asked for where address space was taken.
    pub(super) fn step<T>(&mut self, transfer: &Transfer, blocks: &mut Blocks<T>, by: impl FnOnce() -> T) {
        let Transfer { released, taken, .. } = *transfer;
        match SystemCall::of(transfer.call) {
            Some(SystemCall::Brk) => return self.move_heap_end(taken.start, blocks, by),
            Some(SystemCall::Exec) => self.heap_end = None,
            _ => {}
        }
        let [released, taken] = [released, taken].map(pages);
        let moved = length(&released).min(length(&taken));
        let old = self.ranges.cut(released.clone());
        self.give_back(taken.clone(), blocks);
        for piece in old {
            let into = piece.range.start - released.start;
            let kept = piece.bytes().min(moved.saturating_sub(into));
            blocks.give_back(piece.block, piece.bytes() - kept);
            let start = taken.start + into.min(moved);
            self.ranges.insert(piece.part(start..start + kept));
        }
        self.take(taken.start + moved..taken.end, blocks, by);
    }

    fn move_heap_end<T>(&mut self, end: u64, blocks: &mut Blocks<T>, by: impl FnOnce() -> T) {
        let end = page_end(end);
        let before = self.heap_end.replace(end).unwrap_or(end);
        self.give_back(end..before, blocks);
        self.take(before..end, blocks, by);
    }

    fn give_back<T>(&mut self, range: Range<u64>, blocks: &mut Blocks<T>) {
        for piece in self.ranges.cut(range) {
            blocks.give_back(piece.block, piece.bytes());
        }
    }

    /// Address space that is new; it may lie over what was there.
    fn take<T>(&mut self, range: Range<u64>, blocks: &mut Blocks<T>, by: impl FnOnce() -> T) {
        self.give_back(range.clone(), blocks);
        if range.is_empty() {
            return;
        }
        if self.ranges.len() >= MOST_BLOCKS {
            return blocks.leave_out();
        }
        self.last += 1;
        let block = self.last;
        if blocks.take(block, length(&range), by) {
            self.ranges.insert(Piece { range, block });
        }
    }
}

const fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

fn pages(extent: Extent) -> Range<u64> {
    extent.start..page_end(extent.start.saturating_add(extent.length))
}

fn page_end(address: u64) -> u64 {
    let page = rustix::param::page_size() as u64;
    address.checked_next_multiple_of(page).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use testkit::{Random, seeds};

    use super::*;

    const PAGES: u64 = 48;

    /// Who took each page, by the number of the step.
    type Model = Vec<Option<u64>>;

    fn transfer(call: SystemCall, released: Range<u64>, taken: Range<u64>) -> Transfer {
        let page = rustix::param::page_size() as u64;
        let extent = |range: Range<u64>| Extent {
            start: range.start * page,
            // The last page is asked for in part.
            length: (length(&range) * page).saturating_sub(page / 2),
        };
        Transfer { call: call.number().into(), released: extent(released), taken: extent(taken) }
    }

    fn some_range(random: &mut Random) -> Range<u64> {
        let start = random.below(PAGES - 8);
        start..start + 1 + random.below(8)
    }

    fn fill(model: &mut Model, range: Range<u64>, by: Option<u64>) {
        model[range.start as usize..range.end as usize].fill(by);
    }

    /// A call that the kernel could have answered so, made of the model too.
    fn some_step(random: &mut Random, number: u64, model: &mut Model) -> Transfer {
        let (old, new) = (some_range(random), some_range(random));
        match random.below(5) {
            0 | 1 => {
                fill(model, new.clone(), Some(number));
                transfer(SystemCall::Mmap, 0..0, new)
            }
            2 => {
                fill(model, old.clone(), None);
                transfer(SystemCall::Munmap, old, 0..0)
            }
            3 if random.one_in(8) => {
                model.fill(None);
                transfer(SystemCall::Exec, 0..PAGES, 0..0)
            }
            _ => {
                let in_place = random.one_in(2);
                let new = if in_place {
                    old.start..old.start + length(&new)
                } else if old.start < new.end && new.start < old.end {
                    // Old and new are never over each other elsewhere.
                    fill(model, old.clone(), None);
                    return transfer(SystemCall::Munmap, old, 0..0);
                } else {
                    new
                };
                let before = model.clone();
                fill(model, old.clone(), None);
                for (at, from) in new.clone().zip(old.start..) {
                    let moved = before[from as usize].filter(|_| from < old.end);
                    model[at as usize] = if from < old.end { moved } else { Some(number) };
                }
                transfer(SystemCall::Mremap, old, new)
            }
        }
    }

    #[test]
    fn each_page_is_held_by_whoever_took_it_last() {
        let page = rustix::param::page_size() as u64;
        for seed in seeds(500) {
            let mut random = Random::new(seed);
            let mut model: Model = vec![None; PAGES as usize];
            let mut space = MappedRanges::default();
            let mut blocks = Blocks::new(1_000);
            for number in 0..60 {
                let step = some_step(&mut random, number, &mut model);
                space.step(&step, &mut blocks, || number);
                for (at, by) in (0..).zip(&model) {
                    let is_held = space.ranges.at(at * page).is_some();
                    assert_eq!(is_held, by.is_some(), "seed {seed}, page {at}");
                }
            }
            let mut held = blocks.end();
            held.sort_unstable();
            let of = |number: u64| model.iter().filter(|it| **it == Some(number)).count() as u64;
            let wanted = (0..60).map(|number| (number, of(number) * page));
            let wanted: Vec<_> = wanted.filter(|(_, bytes)| *bytes > 0).collect();
            assert_eq!(held, wanted, "seed {seed}");
        }
    }

    /// The bytes held after these steps, each with its number.
    fn held(heap_end: Option<u64>, steps: &[Transfer]) -> Vec<(usize, u64)> {
        let mut space = MappedRanges { heap_end, ..MappedRanges::default() };
        let mut blocks = Blocks::new(1_000);
        for (number, step) in steps.iter().enumerate() {
            space.step(step, &mut blocks, || number);
        }
        let mut held = blocks.end();
        held.sort_unstable();
        held
    }

    #[test]
    fn the_heap_holds_what_lies_beyond_its_first_end() {
        let page = rustix::param::page_size() as u64;
        let to = |pages: u64| transfer(SystemCall::Brk, 0..0, pages..pages);
        let steps = [to(14), to(20), to(12), to(13)];
        let wanted = [(0, 2 * page), (3, page)];
        assert_eq!(held(Some(10 * page), &steps), wanted);
        // The first call tells where it ends.
        assert_eq!(held(None, &steps), [(3, page)]);
        // Below its first end nothing is known.
        assert_eq!(held(Some(10 * page), &[to(2), to(10)]), [(1, 8 * page)]);
        // Another program begins with another heap.
        let exec = transfer(SystemCall::Exec, 0..1 << 40, 0..0);
        let steps = [to(14), exec, to(100), to(101)];
        assert_eq!(held(Some(10 * page), &steps), [(3, page)]);
    }

    #[test]
    fn impossible_steps_change_nothing_and_never_panic() {
        let all = [0, 1, 4096, u64::MAX - 1, u64::MAX];
        let extents = || all.iter().flat_map(|&start| all.map(|length| Extent { start, length }));
        for call in [0, 1, 2, 3, 4, 5, 6, u64::MAX] {
            let mut space = MappedRanges::default();
            let mut blocks = Blocks::new(10);
            for released in extents() {
                for taken in extents() {
                    let step = Transfer { call, released, taken };
                    space.step(&step, &mut blocks, || ());
                }
            }
        }
    }
}
