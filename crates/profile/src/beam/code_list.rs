//! The modules that the emulator's JIT has compiled, as it tells debuggers of them: a list in its memory that begins
//! at an exported variable (the JIT Compilation Interface of GDB). New modules are put in front.
//!
//! ```text
//! variable  version u32 = 1, 4 bytes, u64, first u64
//! entry     next u64, previous u64, record u64, its length u64
//! ```
//!
//! The emulator goes on meanwhile, and takes out modules that are purged (not OTP 25): a list that does not hold
//! together is read once more. A module may stand where an earlier one stood: only what it says tells them apart.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use super::compiled::{CompiledModule, HEAD, of_emulator};
use super::is_pointer;
use crate::memory::Memory;

pub(crate) const CODE_LIST: &str = "__jit_debug_descriptor";

const VERSION: u64 = 1;
/// Entries of a list that are read, the newest: a hundred times those of a large node.
const MOST_ENTRIES: usize = 1 << 17;
/// Bytes of a record, and of all that are read at a time: a large node has 12 MB.
const LARGEST_RECORD: usize = 64 << 20;
const MOST_BYTES: usize = 256 << 20;
/// How often a list is read before it is left for later.
const ATTEMPTS: usize = 3;

#[derive(Debug)]
pub(crate) struct CodeList {
    address: u64,
    /// Entries by address, as they were when they were read, and the hash of their records.
    known: HashMap<u64, (ListedCode, Option<u64>)>,
}

/// Entry of the list, and how its record begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListedCode {
    next: u64,
    record: u64,
    len: usize,
    /// The record's words after the first: the code's address, the number of its functions and its length.
    head: [u64; HEAD / 8 - 1],
}

impl CodeList {
    pub(crate) fn at(address: u64) -> Self {
        Self { address, known: HashMap::new() }
    }

    /// Return address of processes' last function, and whether Erlang frames are chained.
    pub(super) fn ends(&self, memory: &impl Memory) -> Option<(u64, bool)> {
        let mut records = Records::of(memory);
        let mut attempts = (0..ATTEMPTS).filter_map(|_| self.new_entries(&mut records));
        let entries = attempts.next()?;
        entries.iter().rev().find_map(|(_, entry)| of_emulator(records.read(entry)?))
    }

    /// Has `take` see the modules that are new since the last time, in the order in which they were compiled; how many
    /// records those were, whatever they held. `None`: the memory holds no list, or one that changes all the time.
    pub(crate) fn read_on(&mut self, memory: &impl Memory, take: &mut dyn FnMut(&CompiledModule<'_>)) -> Option<usize> {
        if self.known.len() > 2 * MOST_ENTRIES {
            self.known.clear();
        }
        let mut records = Records::of(memory);
        let mut attempts = (0..ATTEMPTS).filter_map(|_| self.new_entries(&mut records));
        let entries = attempts.next()?;
        for &(address, entry) in entries.iter().rev() {
            // One that was taken out meanwhile may be anything.
            let record = records.read(&entry);
            if let Some(module) = record.and_then(CompiledModule::parse) {
                take(&module);
            }
            self.known.insert(address, (entry, record.map(digest)));
        }
        Some(entries.len())
    }

    /// The entries in front of the first that is known, with their addresses; `None` where they are no list.
    fn new_entries(&self, records: &mut Records<impl Memory>) -> Option<Vec<(u64, ListedCode)>> {
        let [version, _, first] = words(records.memory, self.address)?;
        if version & 0xffff_ffff != VERSION {
            return None;
        }
        let mut entries = Vec::new();
        let mut before = None;
        let mut at = first;
        while at != 0 {
            let [next, previous, record, len] = words(records.memory, at)?;
            let len = usize::try_from(len).ok()?;
            // Of the first one nothing is certain: others may have been put in front of it by now.
            let follows = before.is_none_or(|before| before == previous);
            if !follows || !(HEAD..=LARGEST_RECORD).contains(&len) {
                return None;
            }
            let [_, head @ ..]: [u64; HEAD / 8] = words(records.memory, record)?;
            let entry = ListedCode { next, record, len, head };
            if self.is_known(at, &entry, records) || entries.len() >= MOST_ENTRIES {
                break;
            }
            entries.push((at, entry));
            before = Some(at);
            at = next;
            // As each one names the one before it, a circle goes through the first.
            if at == first {
                return None;
            }
        }
        Some(entries)
    }

    fn is_known(&self, address: u64, entry: &ListedCode, records: &mut Records<impl Memory>) -> bool {
        let known = self.known.get(&address).filter(|(it, _)| it == entry);
        known.is_some_and(|(_, known)| records.read(entry).map(digest) == *known)
    }
}

/// Whether a list may begin with these words at an address of an emulator's variables.
pub(super) fn begins(memory: &impl Memory, address: u64, words: &[u64]) -> bool {
    let [version, _, first] = *words else { return false };
    // The last action is left there: none, one was put in, one was taken out.
    let is_version = version & 0xffff_ffff == VERSION && version >> 32 <= 2;
    // The node goes on: as it is now.
    let is_list = || {
        let first = self::words(memory, address).map(|[_, _, first]: [u64; 3]| first);
        let before = first.and_then(|first| self::words(memory, first));
        let is_first = before.is_some_and(|[_, previous]: [u64; 2]| previous == 0);
        let entries = CodeList::at(address).new_entries(&mut Records::of(memory));
        is_first && entries.is_some_and(|it| !it.is_empty())
    };
    is_version && is_pointer(first) && (0..ATTEMPTS).any(|_| is_list())
}

/// The records of a list, as many as may be read at a time.
struct Records<'m, M> {
    memory: &'m M,
    bytes: Vec<u8>,
    /// How many bytes may still be read.
    left: usize,
}

impl<'m, M: Memory> Records<'m, M> {
    fn of(memory: &'m M) -> Self {
        Self { memory, bytes: Vec::new(), left: MOST_BYTES }
    }

    fn read(&mut self, entry: &ListedCode) -> Option<&[u8]> {
        self.left = self.left.checked_sub(entry.len)?;
        self.bytes.resize(entry.len, 0);
        self.memory.read(entry.record, &mut self.bytes).then_some(&*self.bytes)
    }
}

fn digest(record: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(record);
    hasher.finish()
}

fn words<const N: usize>(memory: &impl Memory, address: u64) -> Option<[u64; N]> {
    memory.words(address, N).try_into().ok()
}

#[cfg(test)]
#[path = "code_list_tests.rs"]
mod tests;
