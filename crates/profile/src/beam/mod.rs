//! What must be known of a running BEAM to find its Erlang stacks: where a scheduler writes down
//! which process it runs, and where a process has the bounds of its stack.
//!
//! Both depend on release and build. The emulator exports its global variables to native modules,
//! also where it is stripped, and what they point to is recognised by what must hold there, whatever
//! the offsets: a scheduler holds its number, and a process's stack ends in the address that the
//! runtime gives every process to return to (`beam_normal_exit`, OTP 25 to 27).

mod memory;

use std::collections::HashMap;
use std::fmt;

pub(crate) use memory::{Memory, ProcessMemory};

/// The exported variables that are looked at.
pub(crate) const SYMBOLS: [&str; 5] = [
    "beam_normal_exit",
    "erts_frame_layout",
    "erts_no_schedulers",
    "erts_aligned_scheduler_data",
    "erts_proc",
];

/// Words of `erts_proc` in which the table of processes is looked for.
const TABLE_WORDS: usize = 64;
/// Entries of the table that are looked at, and processes that are enough.
const TABLE_ENTRIES: usize = 4096;
const ENOUGH_PROCESSES: usize = 64;
/// A BEAM has more when it has just started.
const FEWEST_PROCESSES: usize = 8;
/// Bytes of a process in which the bounds of its heap are looked for.
const PROCESS_WORDS: usize = 64;
/// Words of a scheduler in which its number is looked for.
const SCHEDULER_WORDS: usize = 128;
/// Schedulers lie side by side, each on cache lines of its own.
const CACHE_LINE: u64 = 64;
const LARGEST_SCHEDULER: u64 = 512 << 10;
const MOST_SCHEDULERS: u64 = 1024;
/// The lowest bits of a term that is the identifier of a local process.
const PID_TAG: u64 = 3;
/// Addresses of user space, and not those that stand for nothing.
const POINTERS: std::ops::Range<u64> = 1 << 16..1 << 47;

/// Byte offsets inside an Erlang process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessLayout {
    /// The top of the stack, which grows downwards.
    pub(crate) stop: i16,
    /// The last frame, where frames are chained.
    pub(crate) frame_pointer: i16,
    /// The first word of heap and stack.
    pub(crate) heap: i16,
    /// The first word behind both.
    pub(crate) hend: i16,
}

impl ProcessLayout {
    /// Bytes from the first field on that hold all of them.
    pub(crate) const SPAN: i16 = 128;

    /// The field that comes first.
    pub(crate) fn first(&self) -> i16 {
        let fields = [self.stop, self.frame_pointer, self.heap, self.hend];
        fields.into_iter().min().unwrap_or_default()
    }
}

/// A running BEAM with a JIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vm {
    pub(crate) process: ProcessLayout,
    /// Whether Erlang frames are chained by frame pointers, which `+JPperf` brings about.
    pub(crate) frame_pointers: bool,
    /// What a process returns to when its function is done.
    pub(crate) normal_exit: u64,
    /// By number from 1 on: where each scheduler writes down which process it runs.
    pub(crate) current_process: Vec<u64>,
}

/// Why Erlang stacks cannot be found in a BEAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfamiliar {
    /// The emulator lacks a variable: it has no JIT, or is of another release.
    Symbol(&'static str),
    /// No table of processes.
    Processes,
    /// No offsets that hold for all processes.
    Process,
    /// No offsets that hold for all schedulers.
    Scheduler,
}

impl fmt::Display for Unfamiliar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol(name) => write!(f, "the emulator has no {name}"),
            Self::Processes => f.write_str("its table of processes was not found"),
            Self::Process => f.write_str("the layout of its processes is unknown"),
            Self::Scheduler => f.write_str("the layout of its schedulers is unknown"),
        }
    }
}

impl Vm {
    /// Looks into a BEAM's memory; `symbols` are the addresses of [`SYMBOLS`].
    pub(crate) fn discover(
        memory: &impl Memory,
        symbols: &HashMap<&'static str, u64>,
    ) -> Result<Self, Unfamiliar> {
        let address = |name| symbols.get(name).copied().ok_or(Unfamiliar::Symbol(name));
        let read = |name| memory.word(address(name)?).ok_or(Unfamiliar::Symbol(name));
        let normal_exit = read("beam_normal_exit")?;
        // An `int`: 0 return addresses alone, 1 frame pointers too. Without it there are none.
        let frame_layout = read("erts_frame_layout").unwrap_or(0) & 0xffff_ffff;
        let processes = processes(memory, address("erts_proc")?).ok_or(Unfamiliar::Processes)?;
        let process = process_layout(memory, &processes, normal_exit).ok_or(Unfamiliar::Process)?;
        let current_process = current_processes(
            memory,
            read("erts_aligned_scheduler_data")?,
            read("erts_no_schedulers")? & 0xffff_ffff,
        );
        Ok(Self {
            process,
            frame_pointers: frame_layout == 1,
            normal_exit,
            current_process: current_process.ok_or(Unfamiliar::Scheduler)?,
        })
    }
}

/// Some processes of the node: the entries of the table that most of them are found in.
fn processes(memory: &impl Memory, table: u64) -> Option<Vec<u64>> {
    let candidates = memory.words(table, TABLE_WORDS);
    let candidates = candidates.into_iter().filter(|&word| is_pointer(word));
    let found = candidates.map(|entries| {
        let mut entries = memory.words(entries, TABLE_ENTRIES);
        entries.retain(|&entry| is_process(memory, entry));
        entries.truncate(ENOUGH_PROCESSES);
        entries
    });
    let most = found.max_by_key(Vec::len)?;
    (most.len() >= FEWEST_PROCESSES).then_some(most)
}

fn is_pointer(word: u64) -> bool {
    word.is_multiple_of(8) && POINTERS.contains(&word)
}

/// Whether a process begins here, which is with its identifier.
fn is_process(memory: &impl Memory, address: u64) -> bool {
    is_pointer(address) && memory.word(address).is_some_and(|id| id & 15 == PID_TAG)
}

/// Where processes have the bounds of heap and stack. A process that is collecting garbage or
/// starting meanwhile may not fit, so most of them decide.
fn process_layout(
    memory: &impl Memory,
    processes: &[u64],
    normal_exit: u64,
) -> Option<ProcessLayout> {
    let processes: Vec<Vec<u64>> = (processes.iter())
        .map(|&process| memory.words(process, PROCESS_WORDS))
        .filter(|words| !words.is_empty())
        .collect();
    let most = |fits: &dyn Fn(&[u64]) -> bool| {
        let fitting = processes.iter().filter(|words| fits(words)).count();
        fitting >= FEWEST_PROCESSES && fitting * 4 >= processes.len() * 3
    };
    let ends_stack = |word: u64| is_pointer(word) && memory.word(word - 8) == Some(normal_exit);
    let hend = (1..PROCESS_WORDS)
        .find(|&at| most(&|words| words.get(at).copied().is_some_and(ends_stack)))?;
    let heap = hend - 1;
    // `htop`, `stop`, and the frame pointer, which not every build has, in this order.
    let stop = (1..heap).find(|&stop| {
        most(&|words| {
            let word = |at: usize| words.get(at).copied().unwrap_or_default();
            let (heap, hend) = (word(heap), word(hend));
            heap <= word(stop - 1) && word(stop - 1) <= word(stop) && word(stop) < hend
        })
    })?;
    let bytes = |word: usize| i16::try_from(word * 8).ok();
    let layout = ProcessLayout {
        stop: bytes(stop)?,
        frame_pointer: bytes(stop + 1)?,
        heap: bytes(heap)?,
        hend: bytes(hend)?,
    };
    (layout.hend - layout.first() < ProcessLayout::SPAN).then_some(layout)
}

/// Where each scheduler writes down its process: in front of its type (0 for those that run Erlang
/// code), its number, and its number among the dirty ones (0).
fn current_processes(memory: &impl Memory, first: u64, count: u64) -> Option<Vec<u64>> {
    if !is_pointer(first) || !(1..=MOST_SCHEDULERS).contains(&count) {
        return None;
    }
    let fits = |scheduler: u64, number_at: u64, number: u64| {
        let words = memory.words(scheduler + number_at - 16, 4);
        let &[process, kind, its_number, dirty] = words.as_slice() else {
            return false;
        };
        let runs = process == 0 || is_process(memory, process);
        runs && (kind, its_number, dirty) == (0, number, 0)
    };
    let offsets = (2..SCHEDULER_WORDS as u64).map(|word| word * 8);
    let mut offsets = offsets.filter(|&at| fits(first, at, 1));
    let all = |at: u64, size: u64| {
        (0..count).all(|i| {
            let scheduler = first.checked_add(i * size);
            scheduler.is_some_and(|scheduler| fits(scheduler, at, i + 1))
        })
    };
    offsets.find_map(|at| {
        let sizes = (1..=LARGEST_SCHEDULER / CACHE_LINE).map(|lines| lines * CACHE_LINE);
        let size = sizes.into_iter().find(|&size| all(at, size))?;
        let addresses = (0..count).map(|i| first + i * size + at - 16);
        Some(addresses.collect())
    })
}

/// The number of the scheduler that a thread of this name is, `2_scheduler` up to OTP 25,
/// `erts_sched_2` after.
pub(crate) fn scheduler_number(thread: &str) -> Option<usize> {
    let number = thread
        .strip_suffix("_scheduler")
        .or_else(|| thread.strip_prefix("erts_sched_"))?;
    number.parse().ok()
}

#[cfg(test)]
mod tests;
