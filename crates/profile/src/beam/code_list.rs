//! The modules that the emulator's JIT has compiled, as it tells debuggers of them: a list in its memory that begins
//! at an exported variable (the JIT Compilation Interface of GDB). New modules are put in front.
//!
//! ```text
//! variable  version u32 = 1, 4 bytes, u64, first u64
//! entry     next u64, previous u64, record u64, its length u64
//! ```
//!
//! The emulator goes on meanwhile: it puts modules in front, and takes out those that are purged. So a list that does
//! not hold together is read once more.

use std::collections::HashMap;

use super::compiled::{CompiledModule, HEAD};
use crate::memory::Memory;

/// The variable.
pub(crate) const CODE_LIST: &str = "__jit_debug_descriptor";

const VERSION: u64 = 1;
/// Entries of a list: ten times those of the largest nodes.
const MOST_ENTRIES: usize = 1 << 17;
/// Bytes of a record, and of all that are read at a time.
const LARGEST_RECORD: usize = 64 << 20;
const MOST_BYTES: usize = 1 << 30;
/// How often a list is read before it is left for later.
const ATTEMPTS: usize = 3;

/// The list of a running emulator.
#[derive(Debug)]
pub(crate) struct CodeList {
    /// Where the variable is.
    address: u64,
    /// Entries by address, as they were when they were read.
    known: HashMap<u64, ListedCode>,
}

/// The emulator's memory holds no list, or one that changes all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoList;

/// What tells an entry from a later one at the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListedCode {
    record: u64,
    len: usize,
    /// The record's words after the first: the code's address, the number of its functions and its length.
    head: [u64; HEAD / 8 - 1],
}

impl CodeList {
    /// The list whose variable is there.
    pub(crate) fn at(address: u64) -> Self {
        Self {
            address,
            known: HashMap::new(),
        }
    }

    /// Has `take` see the modules that are new since the last time, in the order in which they were compiled; how many
    /// records those were, whatever they held.
    pub(crate) fn read_on(
        &mut self,
        memory: &impl Memory,
        take: &mut dyn FnMut(&CompiledModule<'_>),
    ) -> Result<usize, NoList> {
        if self.known.len() > MOST_ENTRIES {
            self.known.clear();
        }
        let mut attempts = (0..ATTEMPTS).filter_map(|_| self.new_entries(memory));
        let entries = attempts.next().ok_or(NoList)?;
        let mut left = MOST_BYTES;
        let mut bytes = Vec::new();
        for (_, entry) in entries.iter().rev() {
            let Some(rest) = left.checked_sub(entry.len) else {
                break;
            };
            left = rest;
            bytes.resize(entry.len, 0);
            // One that was taken out meanwhile may be anything.
            if memory.read(entry.record, &mut bytes)
                && let Some(module) = CompiledModule::parse(&bytes)
            {
                take(&module);
            }
        }
        let count = entries.len();
        self.known.extend(entries);
        Ok(count)
    }

    /// The entries in front of the first that is known, with their addresses; `None` where they are no list.
    fn new_entries(&self, memory: &impl Memory) -> Option<Vec<(u64, ListedCode)>> {
        let [version, _, first] = words(memory, self.address)?;
        if version & 0xffff_ffff != VERSION {
            return None;
        }
        let mut entries = Vec::new();
        let mut before = None;
        let mut next = first;
        while next != 0 {
            let [after, previous, record, len] = words(memory, next)?;
            let len = usize::try_from(len).ok()?;
            // Of the first one nothing is certain: others may have been put in front of it by now.
            let follows = before.is_none_or(|before| before == previous);
            if !follows || !(HEAD..=LARGEST_RECORD).contains(&len) || entries.len() >= MOST_ENTRIES
            {
                return None;
            }
            let [_, head @ ..]: [u64; HEAD / 8] = words(memory, record)?;
            let entry = ListedCode { record, len, head };
            if self.known.get(&next) == Some(&entry) {
                break;
            }
            entries.push((next, entry));
            before = Some(next);
            next = after;
            // As each one names the one before it, a circle goes through the first.
            if next == first {
                return None;
            }
        }
        Some(entries)
    }
}

fn words<const N: usize>(memory: &impl Memory, address: u64) -> Option<[u64; N]> {
    memory.words(address, N).try_into().ok()
}

#[cfg(test)]
#[path = "code_list_tests.rs"]
mod tests;
