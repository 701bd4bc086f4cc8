//! Erlang stacks of a running BEAM: where a scheduler writes down which process it runs, where a process has the bounds
//! of its stack, and the names of compiled functions (`code_list`). The first two depend on release and build. Most
//! emulators export their variables, elsewhere they are found (`variables`); structures are recognised by invariants: a
//! scheduler holds its number, and a stack ends in the address that every process returns to (`beam_normal_exit`).

mod code_list;
mod compiled;
mod identifier;
mod schedulers;
mod variables;

use std::collections::{HashMap, HashSet};

use linux::maps::{self, Mapping};

pub(crate) use code_list::CodeList;
pub(crate) use compiled::CompiledModule;
pub use compiled::beam_functions;
use identifier::Places;
use identifier::is_identifier;
pub(crate) use identifier::{IdentifierLayout, ProcessId};
pub(crate) use schedulers::Scheduler;
pub(crate) use variables::{NAMES, Variables};

use crate::memory::Memory;

/// Words of `erts_proc` in which the table of processes is looked for.
const TABLE_WORDS: usize = 64;
/// Entries of the table that are looked at, and processes that are enough.
const TABLE_ENTRIES: usize = 4096;
const ENOUGH_PROCESSES: usize = 64;
/// A BEAM has more when it has just started.
const FEWEST_PROCESSES: usize = 8;
/// Bytes of a process in which the bounds of its heap are looked for.
const PROCESS_WORDS: usize = 64;
/// Addresses of user space, and not those that stand for nothing.
const POINTERS: std::ops::Range<u64> = 1 << 16..1 << 47;

/// Where a process has the emulator's code, if it is a BEAM.
pub(crate) fn emulator(maps: &[Mapping]) -> Option<&Mapping> {
    let is_emulator = |name: &str| name.starts_with("beam.");
    maps.iter().find(|it| maps::is_file(it) && it.path.rsplit('/').next().is_some_and(is_emulator))
}

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

    pub(crate) fn first(&self) -> i16 {
        [self.stop, self.frame_pointer, self.heap, self.hend].into_iter().min().unwrap_or_default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vm {
    pub(crate) process: ProcessLayout,
    /// Whether Erlang frames are chained by frame pointers, which `+JPperf` brings about.
    pub(crate) frame_pointers: bool,
    /// Return address of a process's last function.
    pub(crate) normal_exit: u64,
    /// Where each scheduler writes down which process it runs.
    pub(crate) current_process: HashMap<Scheduler, u64>,
    pub(crate) identifiers: IdentifierLayout,
}

/// The BEAM has no JIT, or is of another release: nothing says what processes return to.
const NO_EXIT: &str = "its record of compiled code was not found";
const NO_TABLE: &str = "its table of processes was not found";
const NO_PROCESS: &str = "the layout of its processes is unknown";
const NO_SCHEDULER: &str = "the layout of its schedulers is unknown";

impl Vm {
    /// Looks into a BEAM's memory; says why its Erlang stacks cannot be found.
    pub(crate) fn discover(memory: &impl Memory, variables: &Variables) -> Result<Self, &'static str> {
        let (normal_exit, frame_pointers) = variables.ends(memory).ok_or(NO_EXIT)?;
        let table = variables.tables().find_map(|at| processes(memory, at)).ok_or(NO_TABLE)?;
        let processes = table.entries;
        let process = process_layout(memory, &processes, normal_exit).ok_or(NO_PROCESS)?;
        let current_process = match variables.schedulers(memory) {
            Some((ordinary, dirty)) => schedulers::current_processes(memory, ordinary, &dirty),
            None => schedulers::among(memory, &variables.cache_lines()),
        };
        Ok(Self {
            process,
            frame_pointers,
            normal_exit,
            current_process: current_process.ok_or(NO_SCHEDULER)?,
            identifiers: IdentifierLayout::of(
                (processes.iter()).map(|entry| (entry.place, entry.identifier)),
                table.places,
            ),
        })
    }
}

struct Entry {
    place: usize,
    process: u64,
    identifier: u64,
}

struct Table {
    entries: Vec<Entry>,
    /// Places that it has noted, from OTP 26 on.
    places: Option<Places>,
}

/// Words between where the table's entries are noted and its size, and words that say the size.
const SIZE_AFTER: usize = 2;
const SIZE_WORDS: usize = 5;

/// The table of processes: the entries that most of them are found in.
fn processes(memory: &impl Memory, table: u64) -> Option<Table> {
    let words = memory.words(table, TABLE_WORDS);
    let found = words.iter().enumerate().filter(|(_, word)| is_pointer(**word)).map(|(at, entries)| {
        // No two processes have the same identifier; other things that begin alike may.
        let mut identifiers = HashSet::new();
        let entries = memory.words(*entries, TABLE_ENTRIES).into_iter().enumerate();
        let entries = entries.filter_map(|(place, process)| {
            let identifier = identifier_of(memory, process)?;
            identifiers.insert(identifier).then_some(Entry { place, process, identifier })
        });
        (at, entries.take(ENOUGH_PROCESSES).collect::<Vec<_>>())
    });
    let (at, entries) = found.max_by_key(|(_, entries)| entries.len())?;
    let size = at + SIZE_AFTER;
    (entries.len() >= FEWEST_PROCESSES)
        .then(|| Table { entries, places: words.get(size..size + SIZE_WORDS).and_then(Places::noted) })
}

fn is_pointer(word: u64) -> bool {
    word.is_multiple_of(8) && POINTERS.contains(&word)
}

/// Whether a process begins here, which is with its identifier.
fn is_process(memory: &impl Memory, address: u64) -> bool {
    identifier_of(memory, address).is_some()
}

/// First word of a process, its identifier.
fn identifier_of(memory: &impl Memory, address: u64) -> Option<u64> {
    let word = is_pointer(address).then(|| memory.word(address)).flatten();
    word.filter(|&word| is_identifier(word))
}

/// Where processes have the bounds of heap and stack, by most of them: some may be starting or collecting garbage.
fn process_layout(memory: &impl Memory, processes: &[Entry], normal_exit: u64) -> Option<ProcessLayout> {
    let processes: Vec<Vec<u64>> = (processes.iter())
        .map(|entry| memory.words(entry.process, PROCESS_WORDS))
        .filter(|words| !words.is_empty())
        .collect();
    let most = |fits: &dyn Fn(&[u64]) -> bool| {
        let fitting = processes.iter().filter(|words| fits(words)).count();
        fitting >= FEWEST_PROCESSES && fitting * 4 >= processes.len() * 3
    };
    let ends_stack = |word: u64| is_pointer(word) && memory.word(word - 8) == Some(normal_exit);
    let hend = (1..PROCESS_WORDS).find(|&at| most(&|words| words.get(at).copied().is_some_and(ends_stack)))?;
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
    let layout =
        ProcessLayout { stop: bytes(stop)?, frame_pointer: bytes(stop + 1)?, heap: bytes(heap)?, hend: bytes(hend)? };
    (layout.hend - layout.first() < ProcessLayout::SPAN).then_some(layout)
}

#[cfg(test)]
mod tests;
