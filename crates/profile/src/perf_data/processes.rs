//! The processes of a recording: what they had mapped when a sample was taken, and what their threads were called.

use std::collections::{BTreeMap, HashMap};

use archive::profile::Frame;
use linux::maps::Mapping;
use perf_event_open_sys::bindings as b;

use super::header::text;
use crate::record::{Address, Fields, RawRecord};
use crate::stack_copy::{MemoryCopy, StackCopy};
use crate::symbols::{self, RecordedProcess, RecordedSymbols};
use crate::unwind::{End, NativeUnwinder};

/// Processes and threads that are known at the same time, and mappings of all of them.
const MOST_TASKS: usize = 1 << 17;
const MOST_MAPPINGS: usize = 1 << 20;

/// Bits of `misc`: what a record is about.
const OF_DATA: u16 = 1 << 13;
const EXECUTED: u16 = 1 << 13;
const HAS_BUILD_ID: u16 = 1 << 14;
/// Protection of memory that can be executed.
const EXECUTABLE: u32 = 4;
/// The process that the kernel's own mappings have.
const KERNEL: u32 = u32::MAX;

/// All processes.
pub(super) struct Processes {
    by_pid: HashMap<u32, Process>,
    names: HashMap<u32, String>,
    mappings: usize,
    /// Numbers of builds by path, and whether the file that is there now has that number.
    builds: HashMap<String, Vec<u8>>,
    is_same: HashMap<String, bool>,
    /// Address of the kernel's first function.
    kernel_text: Option<u64>,
    symbols: RecordedSymbols,
    unwinder: NativeUnwinder,
    /// The process and the version of its mappings that the unwinder has.
    unwound: Option<(u32, u64)>,
    /// Changes of any process's mappings so far.
    changes: u64,
}

#[derive(Default)]
struct Process {
    mappings: BTreeMap<u64, Mapping>,
    memory: Option<RecordedProcess>,
    /// Changes with its mappings; no two of them have the same.
    version: u64,
    /// The version that `memory` was told.
    named: u64,
}

impl Processes {
    /// None yet.
    pub(super) fn new(builds: HashMap<String, Vec<u8>>) -> Self {
        Self {
            by_pid: HashMap::new(),
            names: HashMap::new(),
            mappings: 0,
            builds,
            is_same: HashMap::new(),
            kernel_text: None,
            symbols: RecordedSymbols::default(),
            unwinder: NativeUnwinder::unmapped(std::process::id()),
            unwound: None,
            changes: 0,
        }
    }

    /// Takes a record that is no sample; what is too short or too many is left out.
    pub(super) fn record(&mut self, record: &RawRecord<'_>) {
        let fields = Fields(record.body);
        let taken = match record.kind {
            b::PERF_RECORD_MMAP => self.mapped(fields, record.misc, false),
            b::PERF_RECORD_MMAP2 => self.mapped(fields, record.misc, true),
            b::PERF_RECORD_COMM => self.named(fields, record.misc),
            b::PERF_RECORD_FORK => self.forked(fields),
            _ => None,
        };
        taken.unwrap_or_default();
    }

    /// What a thread is called, as `perf` prints one without a name.
    pub(super) fn name(&self, tid: u32) -> String {
        let known = self.names.get(&tid);
        known.cloned().unwrap_or_else(|| format!(":{tid}"))
    }

    /// Files that are others now than those that were recorded.
    pub(super) fn changed_files(&self) -> usize {
        self.is_same.values().filter(|same| !**same).count()
    }

    /// Whether the kernel's functions have names; `None` where none was looked for.
    pub(super) fn knows_kernel(&self) -> Option<bool> {
        self.symbols.knows_kernel()
    }

    /// The frame of an address of a process or of the kernel, `caller` where it is a return address.
    pub(super) fn frame(&mut self, pid: u32, address: Address, caller: bool) -> Frame {
        let symbols = &mut self.symbols;
        match address {
            Address::Kernel(ip) => {
                let ip = ip.saturating_sub(caller.into());
                symbols.kernel_frame(ip, self.kernel_text)
            }
            Address::User(ip) => {
                let process = self.by_pid.entry(pid).or_default();
                let memory = process
                    .memory
                    .get_or_insert_with(|| RecordedProcess::new(pid));
                if process.named != process.version {
                    process.named = process.version;
                    memory.set_mappings(process.mappings.values().cloned().collect(), symbols);
                }
                symbols.user_frame(memory, ip, caller)
            }
        }
    }

    /// Whether the frames of a process's addresses have to be asked again.
    pub(super) fn has_changed(&self, pid: u32) -> bool {
        self.by_pid
            .get(&pid)
            .is_some_and(|it| it.named != it.version)
    }

    /// Takes the addresses of a copied stack; whether they reach the thread's first function.
    pub(super) fn unwind(
        &mut self,
        pid: u32,
        registers: [u64; 3],
        stack: &[u8],
        addresses: &mut Vec<Address>,
    ) -> bool {
        let Some(process) = self.by_pid.get(&pid) else {
            return false;
        };
        if self.unwound != Some((pid, process.version)) {
            let mappings = process.mappings.values().cloned().collect();
            self.unwinder.set_mappings(mappings);
            self.unwound = Some((pid, process.version));
        }
        let [ip, sp, bp] = registers;
        let copy = StackCopy {
            ip,
            sp,
            bp,
            native: MemoryCopy {
                start: sp,
                bytes: stack,
            },
            ..StackCopy::default()
        };
        let end = self.unwinder.unwind(&copy, &mut |address| {
            addresses.push(Address::User(address));
        });
        matches!(end, End::Root { .. })
    }

    fn mapped(&mut self, mut fields: Fields<'_>, misc: u16, with_file: bool) -> Option<()> {
        let (pid, _tid) = (fields.u32()?, fields.u32()?);
        let (start, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut build = None;
        let (mut inode, mut executable) = (0, misc & OF_DATA == 0);
        if with_file {
            let file = fields.take(24)?;
            if misc & HAS_BUILD_ID != 0 {
                let size = usize::from(file[0]).min(20);
                build = file.get(4..4 + size);
            } else {
                inode = Fields(file.get(8..)?).u64()?;
            }
            let (protection, _flags) = (fields.u32()?, fields.u32()?);
            executable = protection & EXECUTABLE != 0;
        }
        let path = text(fields.0);
        if pid == KERNEL {
            if path.starts_with("[kernel.kallsyms]") && start > 0 {
                self.kernel_text.get_or_insert(start);
            }
            return Some(());
        }
        let end = start.checked_add(length).filter(|end| *end > start)?;
        if !executable || self.mappings >= MOST_MAPPINGS || self.by_pid.len() >= MOST_TASKS {
            return None;
        }
        if let Some(build) = build {
            self.builds.insert(path.clone(), build.to_vec());
        }
        let (path, deleted) = match path.strip_suffix(" (deleted)") {
            Some(path) => (path.to_owned(), true),
            None => (path, false),
        };
        // Another file has this name now: its functions are none of these.
        let deleted = deleted || !self.is_recorded(&path);
        let process = self.by_pid.entry(pid).or_default();
        process.make_room(start, end);
        process.mappings.insert(
            start,
            Mapping {
                start,
                end,
                offset,
                inode,
                path,
                deleted,
            },
        );
        self.changes += 1;
        process.version = self.changes;
        self.mappings += 1;
        Some(())
    }

    /// Whether the file that has this name now is the one that was recorded, as far as is known.
    fn is_recorded(&mut self, path: &str) -> bool {
        let Some(recorded) = self.builds.get(path).filter(|_| path.starts_with('/')) else {
            return true;
        };
        if let Some(known) = self.is_same.get(path) {
            return *known;
        }
        let is_same = symbols::build_id(path).is_none_or(|now| now == *recorded);
        self.is_same.insert(path.to_owned(), is_same);
        is_same
    }

    fn named(&mut self, mut fields: Fields<'_>, misc: u16) -> Option<()> {
        let (pid, tid) = (fields.u32()?, fields.u32()?);
        if misc & EXECUTED != 0 {
            self.forget(pid);
        }
        if self.names.len() < MOST_TASKS {
            self.names.insert(tid, text(fields.0));
        }
        Some(())
    }

    fn forked(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (pid, parent) = (fields.u32()?, fields.u32()?);
        let (tid, parent_tid) = (fields.u32()?, fields.u32()?);
        if let Some(name) = self.names.get(&parent_tid).cloned()
            && self.names.len() < MOST_TASKS
        {
            self.names.insert(tid, name);
        }
        if pid == parent || self.by_pid.len() >= MOST_TASKS {
            return Some(());
        }
        let mappings = self.by_pid.get(&parent)?.mappings.clone();
        self.forget(pid);
        if self.mappings + mappings.len() > MOST_MAPPINGS {
            return None;
        }
        self.mappings += mappings.len();
        self.changes += 1;
        let child = Process {
            mappings,
            version: self.changes,
            ..Process::default()
        };
        self.by_pid.insert(pid, child);
        Some(())
    }

    /// Takes all of a process's memory away.
    fn forget(&mut self, pid: u32) {
        if let Some(gone) = self.by_pid.remove(&pid) {
            self.mappings = self.mappings.saturating_sub(gone.mappings.len());
            self.changes += 1;
            let empty = Process {
                version: self.changes,
                ..Process::default()
            };
            self.by_pid.insert(pid, empty);
        }
    }
}

impl Process {
    /// Cuts `start..end` out of what is mapped.
    fn make_room(&mut self, start: u64, end: u64) {
        let before = self.mappings.range(..start).next_back();
        let first = before.filter(|(_, it)| it.end > start).map(|(at, _)| *at);
        let inside = self.mappings.range(start..end).map(|(at, _)| *at);
        let overlapping: Vec<u64> = first.into_iter().chain(inside).collect();
        for at in overlapping {
            let Some(old) = self.mappings.remove(&at) else {
                continue;
            };
            if old.start < start {
                let mut left = old.clone();
                left.end = start;
                self.mappings.insert(left.start, left);
            }
            if old.end > end {
                let mut right = old;
                right.offset = right.offset.wrapping_add(end - right.start);
                right.start = end;
                self.mappings.insert(end, right);
            }
        }
    }
}
