//! Where an emulator has its variables. Most builds export them; that of Debian's OTP 29 does not, so there they are
//! found in its data by what must hold of each: the list of compiled modules begins with its version and a first entry
//! that none precedes, and one of its records says how processes end and frames are chained; the table of processes
//! notes its size in five ways that agree; the schedulers of a kind lie side by side, each with its number.

use std::collections::HashMap;

use linux::maps::{self, Mapping};

use super::code_list::{self, CODE_LIST};
use super::identifier::Places;
use super::schedulers::{Group, SchedulerKind};
use super::{SIZE_AFTER, SIZE_WORDS, is_pointer};
use crate::memory::Memory;

/// The exported variables that are looked at.
pub(crate) const NAMES: [&str; 10] = [
    CODE_LIST,
    "beam_normal_exit",
    "erts_frame_layout",
    "erts_no_schedulers",
    "erts_aligned_scheduler_data",
    "erts_proc",
    "erts_no_dirty_cpu_schedulers",
    "erts_aligned_dirty_cpu_scheduler_data",
    "erts_no_dirty_io_schedulers",
    "erts_aligned_dirty_io_scheduler_data",
];

/// Words of data that are searched: eight times those of OTP 29.
const MOST_WORDS: u64 = 400_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    pub(super) exported: HashMap<&'static str, u64>,
    /// Its data, each piece from an address on; none where it exports what it has.
    pub(super) data: Vec<(u64, Vec<u64>)>,
}

impl Variables {
    /// Of a process in which the emulator is mapped there, and which exports these of [`NAMES`].
    pub(crate) fn of(pid: u32, emulator: &Mapping, memory: &impl Memory, exported: Vec<(&'static str, u64)>) -> Self {
        let exported: HashMap<_, _> = exported.into_iter().collect();
        let has_all = [CODE_LIST, "beam_normal_exit", "erts_proc"].iter().all(|name| exported.contains_key(name));
        let data = if has_all {
            Vec::new()
        } else {
            let pieces = maps::variables(pid, emulator).into_iter().filter_map(|it| {
                let words = (it.end - it.start).min(MOST_WORDS * 8) / 8;
                Some((it.start, memory.words(it.start, usize::try_from(words).ok()?)))
            });
            pieces.collect()
        };
        Self { exported, data }
    }

    pub(crate) fn code_list(&self, memory: &impl Memory) -> Option<u64> {
        self.exported
            .get(CODE_LIST)
            .copied()
            .or_else(|| self.windows(3).find(|(at, words)| code_list::begins(memory, *at, words)).map(|(at, _)| at))
    }

    /// Return address of a process's last function, and whether frames are chained.
    pub(super) fn ends(&self, memory: &impl Memory) -> Option<(u64, bool)> {
        let read = |name| memory.word(*self.exported.get(name)?);
        if let Some(exit) = read("beam_normal_exit") {
            // An `int`: 0 return addresses alone, 1 frame pointers too. Without it there are none.
            let layout = read("erts_frame_layout").unwrap_or(0) & 0xffff_ffff;
            return Some((exit, layout == 1));
        }
        code_list::CodeList::at(self.code_list(memory)?).ends(memory)
    }

    /// Where the table of processes may be, the likeliest first.
    pub(super) fn tables(&self) -> impl Iterator<Item = u64> {
        let exported = self.exported.get("erts_proc").copied();
        let noted = self
            .windows(SIZE_AFTER + SIZE_WORDS)
            .filter(|(_, words)| is_pointer(words[0]) && Places::noted(&words[SIZE_AFTER..]).is_some());
        exported.into_iter().chain(noted.map(|(at, _)| at))
    }

    /// The schedulers that the variables name: the ordinary ones, and the dirty ones.
    pub(super) fn schedulers(&self, memory: &impl Memory) -> Option<(Group, Vec<Group>)> {
        let read = |name| memory.word(*self.exported.get(name)?);
        let group = |kind, first, count| {
            let (first, count) = (read(first)?, read(count)? & 0xffff_ffff);
            Some(Group { kind, first, count })
        };
        let ordinary = group(SchedulerKind::Ordinary, "erts_aligned_scheduler_data", "erts_no_schedulers")?;
        let cpu =
            group(SchedulerKind::DirtyCpu, "erts_aligned_dirty_cpu_scheduler_data", "erts_no_dirty_cpu_schedulers");
        let io = group(SchedulerKind::DirtyIo, "erts_aligned_dirty_io_scheduler_data", "erts_no_dirty_io_schedulers");
        Some((ordinary, [cpu, io].into_iter().flatten().collect()))
    }

    /// Where the data points to things that begin a cache line, each once.
    pub(super) fn cache_lines(&self) -> Vec<u64> {
        let words = self.data.iter().flat_map(|(_, words)| words);
        let mut found: Vec<u64> = words.copied().filter(|word| is_pointer(*word) && word.is_multiple_of(64)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// All places of the data with so many words from there on.
    fn windows(&self, count: usize) -> impl Iterator<Item = (u64, &[u64])> {
        self.data.iter().flat_map(move |(start, words)| (*start..).step_by(8).zip(words.windows(count)))
    }
}
