//! The processes of a recording: what they had mapped when a sample was taken, and what their threads were called.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use linux::maps::Mapping;
use perf_event_open_sys::bindings as b;
use stacks::{Frame, FrameKind};

use super::header::text;
use crate::memory::Mappings;
use crate::record::{Address, Fields, RawRecord};
use crate::stack_copy::{MemoryCopy, StackCopy};
use crate::symbols::{self, AddressSpace, RecordedSymbols};
use crate::unwind::{End, NativeUnwinder};

/// Processes and threads that are known at the same time, and mappings of all of them.
const MOST_TASKS: usize = 1 << 17;
const MOST_MAPPINGS: usize = 1 << 20;
/// Bytes of a thread's name, as the kernel has them, and of a path.
const LONGEST_NAME: usize = 16;
const LONGEST_PATH: usize = 4096;

/// Bits of `misc`: what a record is about.
const OF_DATA: u16 = 1 << 13;
const EXECUTED: u16 = 1 << 13;
const HAS_BUILD_ID: u16 = 1 << 14;
/// Protection of memory that can be executed.
const EXECUTABLE: u32 = 4;
/// The process that the kernel's own mappings have.
const KERNEL: u32 = u32::MAX;

#[derive(Default)]
pub(super) struct Processes {
    by_pid: HashMap<u32, Process>,
    threads: HashMap<u32, Thread>,
    /// Mappings of all of them; those that processes share count once.
    mappings: usize,
    /// Mappings for which there was no room.
    pub(super) left_out: u64,
    /// Processes and threads that ended, the first first, kept until room is needed: their last samples come behind.
    ended: VecDeque<(u32, u32)>,
    /// Numbers of builds by path, and whether the file that is there now has that number.
    builds: HashMap<String, Vec<u8>>,
    is_same: HashMap<String, bool>,
    /// Address of the kernel's first function.
    kernel_text: Option<u64>,
    symbols: RecordedSymbols,
    unwinder: NativeUnwinder,
    /// The process and the version of its memory whose files the unwinder has met.
    unwound: Option<(u32, u64)>,
    /// Changes of any process's memory so far.
    changes: u64,
}

struct Process {
    /// Shared with the process that it was forked from, until one of them changes.
    mappings: Rc<Mappings>,
    /// Language of its JIT map's functions.
    jit_kind: FrameKind,
    memory: Option<AddressSpace>,
    /// Changes with its memory; no two of them have the same, but those without memory have 0.
    version: u64,
    has_ended: bool,
}

impl Default for Process {
    fn default() -> Self {
        Self { mappings: Rc::default(), jit_kind: FrameKind::Native, memory: None, version: 0, has_ended: false }
    }
}

struct Thread {
    name: Rc<str>,
    has_ended: bool,
}

impl Processes {
    pub(super) fn new(builds: HashMap<String, Vec<u8>>) -> Self {
        Self { builds, unwinder: NativeUnwinder::unmapped(std::process::id()), ..Self::default() }
    }

    /// Takes a record that is no sample; what is too short or too many is left out.
    pub(super) fn record(&mut self, record: &RawRecord<'_>) {
        let fields = Fields(record.body);
        let taken = match record.kind {
            b::PERF_RECORD_MMAP => self.mapped(fields, record.misc, false),
            b::PERF_RECORD_MMAP2 => self.mapped(fields, record.misc, true),
            b::PERF_RECORD_COMM => self.named(fields, record.misc),
            b::PERF_RECORD_FORK => self.forked(fields, record.misc),
            b::PERF_RECORD_EXIT => self.exited(fields),
            _ => None,
        };
        taken.unwrap_or_default();
    }

    /// Name of a thread, as `perf` prints one without a name.
    pub(super) fn name(&self, tid: u32) -> Rc<str> {
        self.threads.get(&tid).map_or_else(|| format!(":{tid}").into(), |it| Rc::clone(&it.name))
    }

    /// Files that are others now than those that were recorded.
    pub(super) fn changed_files(&self) -> usize {
        self.is_same.values().filter(|same| !**same).count()
    }

    /// Whether the kernel's functions have names; `None` where none was looked for.
    pub(super) fn knows_kernel(&self) -> Option<bool> {
        self.symbols.knows_kernel()
    }

    /// The frames of an address of a process or of the kernel, one at least, `caller` where it is a return address.
    pub(super) fn frames(&mut self, pid: u32, address: Address, caller: bool) -> Vec<Frame> {
        match address {
            Address::Kernel(ip) => {
                vec![self.symbols.kernel_frame(ip.saturating_sub(caller.into()), self.kernel_text)]
            }
            Address::User(ip) => {
                if !self.has_room_for_process(pid) {
                    return vec![Frame::unknown("")];
                }
                let process = self.by_pid.entry(pid).or_default();
                let memory = (process.memory).get_or_insert_with(|| AddressSpace::recorded(pid));
                memory.jit_kind = process.jit_kind;
                let mapping = process.mappings.at(ip.saturating_sub(caller.into()));
                self.symbols.user_frames(memory, mapping, ip, caller)
            }
        }
    }

    /// The version of a process's memory, as long as which its frames hold. The process is there, so it has not ended.
    pub(super) fn version(&mut self, pid: u32) -> u64 {
        let process = self.by_pid.get_mut(&pid);
        process.map_or(0, |process| {
            process.has_ended = false;
            process.version
        })
    }

    /// Takes the addresses of a copied stack; whether they reach the thread's first function.
    pub(super) fn unwind(&mut self, pid: u32, registers: [u64; 3], stack: &[u8], addresses: &mut Vec<Address>) -> bool {
        let Some(process) = self.by_pid.get(&pid) else { return false };
        if self.unwound != Some((pid, process.version)) {
            self.unwinder.forget_recorded();
            self.unwound = Some((pid, process.version));
        }
        let [ip, sp, bp] = registers;
        let copy = StackCopy {
            ip,
            sp,
            bp,
            native: MemoryCopy { start: sp, bytes: stack, ..MemoryCopy::default() },
            ..StackCopy::default()
        };
        let take = &mut |address| addresses.push(Address::User(address));
        matches!(self.unwinder.unwind(&copy, Some(&*process.mappings), take), End::Root { .. })
    }

    fn mapped(&mut self, mut fields: Fields<'_>, misc: u16, with_file: bool) -> Option<()> {
        let (pid, _tid) = (fields.u32()?, fields.u32()?);
        let (start, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut build = None;
        let mut executable = misc & OF_DATA == 0;
        if with_file {
            let file = fields.take(24)?;
            if misc & HAS_BUILD_ID != 0 {
                build = file.get(4..4 + usize::from(file[0]).min(20));
            }
            let (protection, _flags) = (fields.u32()?, fields.u32()?);
            executable = protection & EXECUTABLE != 0;
        }
        let path = text(first(fields.0, LONGEST_PATH));
        if pid == KERNEL {
            if path.starts_with("[kernel.kallsyms]") && start > 0 {
                self.kernel_text.get_or_insert(start);
            }
            return Some(());
        }
        let end = start.checked_add(length).filter(|end| *end > start && executable)?;
        if let Some(build) = build {
            self.builds.insert(path.clone(), build.to_vec());
        }
        let before = path.strip_suffix(" (deleted)");
        let path = before.unwrap_or(&path);
        // Another file has this name now: its functions are none of these.
        let deleted = before.is_some() || !self.is_recorded(path);
        let mapping = Mapping {
            start,
            end,
            offset,
            // Of all files that had the name, two are told apart: one that can be read, and one that cannot.
            inode: deleted.into(),
            path: path.into(),
            deleted,
        };
        self.map(pid, mapping);
        Some(())
    }

    fn map(&mut self, pid: u32, mapping: Mapping) {
        let copied = self.by_pid.get_mut(&pid).map_or(0, |process| {
            process.has_ended = false;
            process.mappings.len() - process.own_mappings()
        });
        // One that lies inside another one parts it.
        if !self.has_room_for_process(pid) || !self.has_room(|it| it.mappings + copied + 2 <= MOST_MAPPINGS) {
            self.left_out += 1;
            return;
        }
        let process = self.by_pid.entry(pid).or_default();
        let before = process.own_mappings();
        process.jit_kind = symbols::compiled_by(process.jit_kind, &mapping.path);
        let mappings = Rc::make_mut(&mut process.mappings);
        mappings.insert(mapping);
        self.mappings = self.mappings - before + mappings.len();
        self.changes += 1;
        process.version = self.changes;
    }

    /// Whether the file that has this name now is the one that was recorded, as far as is known.
    fn is_recorded(&mut self, path: &str) -> bool {
        let Some(recorded) = self.builds.get(path).filter(|_| path.starts_with('/')) else { return true };
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
        self.name_thread(tid, text(first(fields.0, LONGEST_NAME)).into());
        Some(())
    }

    fn name_thread(&mut self, tid: u32, name: Rc<str>) {
        if self.has_room(|it| it.threads.len() < MOST_TASKS || it.threads.contains_key(&tid)) {
            self.threads.insert(tid, Thread { name, has_ended: false });
        }
    }

    fn forked(&mut self, mut fields: Fields<'_>, misc: u16) -> Option<()> {
        let (pid, parent) = (fields.u32()?, fields.u32()?);
        let (tid, parent_tid) = (fields.u32()?, fields.u32()?);
        let name = self.threads.get(&parent_tid).map(|it| Rc::clone(&it.name));
        // Numbers are used again: what had them before has ended.
        self.threads.remove(&tid);
        if let Some(name) = name {
            self.name_thread(tid, name);
        }
        if pid == parent {
            return Some(());
        }
        self.forget(pid);
        if !self.has_room_for_process(pid) {
            self.left_out += 1;
            return None;
        }
        // `perf` also writes this record for processes that were there before, whose mappings follow.
        let parent = (self.by_pid.get(&parent)).filter(|_| misc & EXECUTED == 0)?;
        let (mappings, jit_kind) = (Rc::clone(&parent.mappings), parent.jit_kind);
        self.changes += 1;
        let child = Process { mappings, jit_kind, version: self.changes, ..Process::default() };
        self.by_pid.insert(pid, child);
        Some(())
    }

    fn exited(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (pid, _parent) = (fields.u32()?, fields.u32()?);
        let tid = fields.u32()?;
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.has_ended = true;
        }
        if let Some(process) = self.by_pid.get_mut(&pid).filter(|_| pid == tid) {
            process.has_ended = true;
        }
        self.ended.push_back((pid, tid));
        if self.ended.len() > MOST_TASKS {
            self.forget_ended();
        }
        Some(())
    }

    /// Forgets the thread that ended first; `false` where there is none.
    fn forget_ended(&mut self) -> bool {
        let Some((pid, tid)) = self.ended.pop_front() else { return false };
        if self.threads.get(&tid).is_some_and(|it| it.has_ended) {
            self.threads.remove(&tid);
        }
        if pid == tid && self.by_pid.get(&pid).is_some_and(|it| it.has_ended) {
            self.forget(pid);
        }
        true
    }

    /// Takes all of a process's memory away.
    fn forget(&mut self, pid: u32) {
        if let Some(gone) = self.by_pid.remove(&pid) {
            self.mappings = self.mappings.saturating_sub(gone.own_mappings());
        }
    }

    fn has_room_for_process(&mut self, pid: u32) -> bool {
        self.has_room(|it| it.by_pid.len() < MOST_TASKS || it.by_pid.contains_key(&pid))
    }

    /// Whether there is room; threads that have ended make some.
    fn has_room(&mut self, fits: impl Fn(&Self) -> bool) -> bool {
        while !fits(self) {
            if !self.forget_ended() {
                return false;
            }
        }
        true
    }
}

impl Process {
    /// How many mappings it does not share with another process.
    fn own_mappings(&self) -> usize {
        if Rc::strong_count(&self.mappings) == 1 { self.mappings.len() } else { 0 }
    }
}

fn first(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(..most).unwrap_or(bytes)
}
