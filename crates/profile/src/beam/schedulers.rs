//! The schedulers of a BEAM: the threads that run Erlang processes, and where each writes down which.

use std::collections::HashMap;

use super::{is_pointer, is_process};
use crate::memory::Memory;

/// Words of a scheduler in which its number is looked for.
const SCHEDULER_WORDS: usize = 128;
/// Schedulers lie side by side, each on cache lines of its own.
const CACHE_LINE: u64 = 64;
const LARGEST_SCHEDULER: u64 = 512 << 10;
const MOST_SCHEDULERS: u64 = 1024;

/// Kind of a scheduler. The numbers are the emulator's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SchedulerKind {
    /// Erlang code and what it calls.
    Ordinary = 0,
    /// Native code and garbage collections that take long.
    DirtyCpu = 1,
    /// Native code that waits for files.
    DirtyIo = 2,
}

/// A scheduler, by its number among those of its kind, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scheduler {
    pub(super) kind: SchedulerKind,
    pub(super) number: u64,
}

impl Scheduler {
    /// The scheduler that a thread of this name is: `2_scheduler` and `1_dirty_cpu_sch` up to OTP 25,
    /// `erts_sched_2` and `erts_dcpus_1` after.
    pub(crate) fn of_thread(name: &str) -> Option<Self> {
        use SchedulerKind::{DirtyCpu, DirtyIo, Ordinary};
        let later = [("erts_sched_", Ordinary), ("erts_dcpus_", DirtyCpu), ("erts_dios_", DirtyIo)];
        let of_later = |(prefix, kind)| Some((name.strip_prefix(prefix)?, kind));
        let (number, kind) = later.into_iter().find_map(of_later).or_else(|| {
            let (number, kind) = name.split_once('_')?;
            let kind = match kind {
                "scheduler" => Ordinary,
                // The kernel cuts names after 15 characters.
                kind if kind.starts_with("dirty_cpu_s") => DirtyCpu,
                kind if kind.starts_with("dirty_io_s") => DirtyIo,
                _ => return None,
            };
            Some((number, kind))
        })?;
        Some(Self { kind, number: number.parse().ok()? })
    }
}

/// Schedulers of one kind, as the emulator's variables say: where the first is, and how many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) kind: SchedulerKind,
    pub(super) first: u64,
    pub(super) count: u64,
}

/// Where each scheduler writes down its process: in front of its kind, its number, and its number among the dirty ones.
/// The ordinary ones decide where in a scheduler that is; dirty ones count where it holds for all of their kind.
pub(super) fn current_processes(
    memory: &impl Memory,
    ordinary: Group,
    dirty: &[Group],
) -> Option<HashMap<Scheduler, u64>> {
    if !ordinary.is_sensible() {
        return None;
    }
    let offsets = (2..SCHEDULER_WORDS as u64).map(|word| word * 8);
    let mut offsets = offsets.filter(|&at| ordinary.fits(memory, at, 0, 1));
    let (at, size) = offsets.find_map(|at| Some((at, ordinary.size(memory, at)?)))?;
    let dirty = dirty.iter().filter(|group| group.is_sensible());
    let dirty = dirty.filter_map(|group| Some((*group, group.size(memory, at)?)));
    let groups = std::iter::once((ordinary, size)).chain(dirty);
    Some(groups.flat_map(|(group, size)| group.addresses(at, size)).collect())
}

/// Schedulers that no variable names: the first of a kind is at one of `places`. Dirty ones for files, of which there
/// are ten unless somebody says otherwise, show where in a scheduler its number is and how large it is.
pub(super) fn among(memory: &impl Memory, places: &[u64]) -> Option<HashMap<Scheduler, u64>> {
    use SchedulerKind::{DirtyCpu, DirtyIo, Ordinary};
    let first = |kind, first| Group { kind, first, count: 2 };
    let (at, size) = places.iter().find_map(|&place| {
        let io = first(DirtyIo, place);
        let words = memory.words(place, SCHEDULER_WORDS);
        let numbers = words.windows(2).enumerate();
        let mut offsets = numbers
            .filter(|(_, words)| words[0] == 0 && words[1] == 1)
            .map(|(word, _)| word as u64 * 8)
            .filter(|&at| at >= 16 && io.fits(memory, at, 0, 1));
        offsets.find_map(|at| Some((at, io.size(memory, at)?)))
    })?;
    let groups = [Ordinary, DirtyCpu, DirtyIo].map(|kind| {
        let groups = places.iter().map(|&place| {
            let mut group = first(kind, place);
            let fits = |i: &u64| group.fits(memory, at, i * size, i + 1);
            group.count = (0..MOST_SCHEDULERS).take_while(fits).count() as u64;
            group
        });
        let groups: Vec<Group> = groups.filter(|group| group.count > 0).collect();
        let most = groups.iter().map(|group| group.count).max()?;
        // What looks like one scheduler may be anything, where there are two of them.
        let mut largest = groups.into_iter().filter(|group| group.count == most);
        largest.next().filter(|_| most > 1 || largest.next().is_none())
    });
    let [Some(ordinary), dirty @ ..] = groups else { return None };
    let all = std::iter::once(ordinary).chain(dirty.into_iter().flatten());
    Some(all.flat_map(|it| it.addresses(at, size)).collect())
}

impl Group {
    /// Where each of them writes down its process, if they are of this size and have their number there.
    fn addresses(self, at: u64, size: u64) -> impl Iterator<Item = (Scheduler, u64)> {
        let kind = self.kind;
        (0..self.count).map(move |i| {
            let number = i + 1;
            (Scheduler { kind, number }, self.first + i * size + at - 16)
        })
    }

    fn is_sensible(&self) -> bool {
        is_pointer(self.first) && (1..=MOST_SCHEDULERS).contains(&self.count)
    }

    /// Whether the scheduler that is `from` bytes behind the first has this number, `at` bytes from its beginning.
    fn fits(&self, memory: &impl Memory, at: u64, from: u64, number: u64) -> bool {
        let address = self.first.checked_add(from).and_then(|it| it.checked_add(at));
        let words = address.map_or_else(Vec::new, |it| memory.words(it - 16, 4));
        let &[process, kind, ordinary, dirty] = words.as_slice() else { return false };
        let numbers = match self.kind {
            SchedulerKind::Ordinary => (number, 0),
            SchedulerKind::DirtyCpu | SchedulerKind::DirtyIo => (0, number),
        };
        let runs = process == 0 || is_process(memory, process);
        runs && kind == self.kind as u64 && (ordinary, dirty) == numbers
    }

    /// Bytes from one scheduler to the next, where all of the group are found with them.
    fn size(&self, memory: &impl Memory, at: u64) -> Option<u64> {
        let mut sizes = (1..=LARGEST_SCHEDULER / CACHE_LINE).map(|lines| lines * CACHE_LINE);
        sizes.find(|size| (0..self.count).all(|i| self.fits(memory, at, i * size, i + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_schedulers_are_known_by_name() {
        for [name, wanted] in testkit::table(include_str!("../../tests/data/schedulers.txt")) {
            let found = Scheduler::of_thread(name).map(|it| format!("{:?} {}", it.kind, it.number));
            assert_eq!(found.unwrap_or_default(), wanted, "{name}");
        }
    }
}
