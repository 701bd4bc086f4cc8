//! Opening the events of one sampling.
//!
//! An event that new threads inherit cannot have a ring unless it is bound to a processor, hence threads times
//! processors. Each program (of copies, of wake-ups) has one event more per processor, which shares its ring. A
//! tracepoint or probe runs a program for all threads at once: threads' own events then only tell names and ends.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use linux::{cpus, threads};
use measure::Problem;
use perf_event_open_sys::bindings as b;
use rustix::io::Errno;

use super::sys::{self, RingMap};
use super::{OpenTrigger, PerfEvents, PerfRings, Ring, TriggerPlace, permission};
use crate::events::{KernelEvent, Options, Weight};
use crate::record;
use crate::stack_copy::{StackCopier, WakeUps};
use crate::threads::{no_such_process, system};
use crate::unwind::Unwinder;

/// Rings hold half a second of samples of this size, without and with copies of stacks.
const TYPICAL_SAMPLE: u64 = 1024;
const TYPICAL_COPY: u64 = 4096;
/// The size of a copy in the first second, before it is known where the stacks of threads end. A thread that runs is
/// known after its first sample; of those that wait, each has its first in that second.
const FIRST_COPY: u64 = 32 << 10;
const SMALLEST_RING_PAGES: usize = 8;
const LARGEST_RING_BYTES: u64 = 8 << 20;
const LARGEST_RINGS_BYTES: u64 = 256 << 20;
const SMALLEST_RING_BYTES: u64 = 1 << 19;
/// Samples per second that rings are made for where each event is one.
const OFTEN: u32 = 2_000;
/// Functions of a waker's kernel stack. The way of a packet from the network card to its reader is 30 long.
const WAKER_FRAMES: u16 = 64;
/// Threads are listed again until no new one shows up, but no more often than this.
const LISTINGS: usize = 8;

/// An event that never happens.
const NO_SAMPLES: KernelEvent = KernelEvent::Software(b::PERF_COUNT_SW_DUMMY);

pub(crate) struct Opened {
    pub(crate) events: Arc<PerfEvents>,
    pub(crate) rings: PerfRings,
    /// Event number to the thread that it was opened on. Threads that inherited the event report the same number.
    pub(crate) owners: HashMap<u64, u32>,
    /// The numbers of the events whose samples are wake-ups.
    pub(crate) wakings: HashSet<u64>,
    pub(crate) granted: Capabilities,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// Kernel frames are in the stacks.
    pub(crate) kernel: bool,
    /// Only threads inherit the events, not child processes.
    pub(crate) threads_only: bool,
    pub(crate) count_lost: bool,
    /// The unwinder's program runs at each sample.
    pub(crate) copies: bool,
    /// Wake-ups of its threads are told.
    pub(crate) wake_ups: bool,
}

/// Opens the events, switched off, with as many capabilities as the kernel grants.
pub(crate) fn open(
    pid: u32,
    options: &Options,
    event: &KernelEvent,
    unwinder: &dyn Unwinder,
    wake_ups: Option<&Arc<WakeUps>>,
) -> Result<Opened, Problem> {
    if event.needs_program() && unwinder.copier().is_none() {
        return Err(permission::needs_program(&options.event.name));
    }
    let mut wanted = Capabilities {
        kernel: options.kernel,
        threads_only: true,
        count_lost: true,
        copies: unwinder.copier().is_some(),
        wake_ups: wake_ups.is_some(),
    };
    loop {
        let wake_ups = wake_ups.filter(|_| wanted.wake_ups);
        let refused = match open_with(wanted, pid, options, event, unwinder, wake_ups) {
            Ok(opened) => return Ok(opened),
            Err(Failure::Fatal(error)) => return Err(error),
            Err(Failure::Refused(errno)) => errno,
        };
        match refused {
            _ if wanted.wake_ups => wanted.wake_ups = false,
            Errno::ACCESS | Errno::PERM if event.needs_program() => {
                return Err(permission::needs_program(&options.event.name));
            }
            Errno::ACCESS | Errno::PERM if wanted.copies => wanted.copies = false,
            Errno::ACCESS | Errno::PERM if options.event.is_of_kernel() => {
                return Err(permission::of_kernel(pid, &options.event.kernel_name));
            }
            Errno::ACCESS | Errno::PERM if wanted.kernel => wanted.kernel = false,
            Errno::ACCESS | Errno::PERM => return Err(permission::refused(pid)),
            // Kernels before 6.0 do not know `PERF_FORMAT_LOST`.
            Errno::INVAL | Errno::TOOBIG if wanted.count_lost => wanted.count_lost = false,
            // Kernels before 5.13 do not know `inherit_thread`.
            Errno::INVAL | Errno::TOOBIG if wanted.threads_only => wanted.threads_only = false,
            Errno::INVAL if wanted.copies && !event.needs_program() => wanted.copies = false,
            Errno::INVAL => return Err(permission::invalid(options.frequency)),
            Errno::NOSYS | Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV => {
                return Err(permission::not_supported(refused));
            }
            other => {
                let error = io::Error::from(other);
                return Err(system(format_args!("open performance events on process {pid}"), error));
            }
        }
    }
}

enum Failure {
    /// Something less may be allowed.
    Refused(Errno),
    Fatal(Problem),
}

fn open_with(
    wanted: Capabilities,
    pid: u32,
    options: &Options,
    event: &KernelEvent,
    unwinder: &dyn Unwinder,
    wake_ups: Option<&Arc<WakeUps>>,
) -> Result<Opened, Failure> {
    let cpus: Vec<u32> = cpus::online().into_iter().collect();
    let ring_pages = ring_pages(options, wanted.copies, cpus.len());
    let mut opener = Opener {
        attr: attributes(options, event, wanted, unwinder, ring_pages),
        event: event.clone(),
        cpus,
        ring_pages,
        copier: unwinder.copier().filter(|_| wanted.copies),
        wake_ups,
        user_chain: unwinder.needs_user_chain(),
        fds: Vec::new(),
        rings: Vec::new(),
        owners: HashMap::new(),
        opened: Vec::new(),
        pid,
    };
    opener.outputs()?;
    let mut triggers = opener.triggers()?;
    let wakings = opener.wakings(&mut triggers)?;
    for _ in 0..LISTINGS {
        let mut new = threads::ids(pid);
        new.retain(|tid| !opener.opened.contains(tid));
        // The main thread lives longest: its events own the rings.
        new.sort_by_key(|&tid| (tid != pid, tid));
        if new.is_empty() {
            break;
        }
        for tid in new {
            opener.opened.push(tid);
            opener.thread(tid)?;
        }
    }
    if opener.owners.is_empty() {
        return Err(Failure::Fatal(no_such_process(pid)));
    }
    let events =
        Arc::new(PerfEvents { fds: opener.fds, triggers, _wake_ups: wake_ups.cloned(), count_lost: wanted.count_lost });
    let rings = opener.rings.into_iter().map(|owned| owned.ring).collect();
    Ok(Opened {
        rings: PerfRings { events: Arc::clone(&events), rings },
        events,
        owners: opener.owners,
        wakings,
        granted: wanted,
    })
}

fn attributes(
    options: &Options,
    event: &KernelEvent,
    wanted: Capabilities,
    unwinder: &dyn Unwinder,
    ring_pages: usize,
) -> b::perf_event_attr {
    let mut attr = b::perf_event_attr::default();
    attr.size = size_of::<b::perf_event_attr>() as u32;
    (attr.type_, attr.config) = match event {
        KernelEvent::Tracepoint(_) if wanted.copies => NO_SAMPLES.attribute(),
        event => event.attribute(),
    };
    attr.sample_type = record::SAMPLE_TYPE;
    if event.field().is_some() && !wanted.copies {
        attr.sample_type |= u64::from(b::PERF_SAMPLE_RAW);
    }
    attr.clockid = rustix::time::ClockId::Monotonic as i32;
    match options.event.frequency(options.frequency) {
        0 => attr.__bindgen_anon_1.sample_period = 1,
        frequency => {
            attr.__bindgen_anon_1.sample_freq = frequency.into();
            attr.set_freq(1);
        }
    }
    if options.event.weight == Weight::Blocked {
        attr.set_context_switch(1);
        attr.set_sample_id_all(1);
    }
    if wanted.count_lost {
        attr.read_format = b::PERF_FORMAT_LOST.into();
    }
    attr.set_disabled(1);
    attr.set_inherit(1);
    attr.set_inherit_thread(wanted.threads_only.into());
    attr.set_exclude_kernel((!wanted.kernel).into());
    attr.set_exclude_hv(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_task(1);
    attr.set_use_clockid(1);
    attr.set_watermark(1);
    let ring = ring_pages * rustix::param::page_size();
    attr.__bindgen_anon_2.wakeup_watermark = u32::try_from(ring / 4).unwrap_or(u32::MAX);
    unwinder.configure(&mut attr);
    attr
}

/// The attributes of an event that a program writes into, from those of its trigger. Its samples have the same fields,
/// and the program's record, which has the user's part of the call chain unless that is asked for.
fn output_attributes(mut attr: b::perf_event_attr, user_chain: bool) -> b::perf_event_attr {
    attr.type_ = b::PERF_TYPE_SOFTWARE;
    attr.config = b::PERF_COUNT_SW_BPF_OUTPUT.into();
    attr.sample_type = record::SAMPLE_TYPE | u64::from(b::PERF_SAMPLE_RAW);
    attr.set_freq(0);
    attr.__bindgen_anon_1.sample_period = 1;
    attr.set_exclude_callchain_kernel(attr.exclude_kernel());
    attr.set_exclude_callchain_user((!user_chain).into());
    attr.set_exclude_kernel(0);
    attr.set_inherit(0);
    attr.set_inherit_thread(0);
    attr.set_mmap(0);
    attr.set_mmap2(0);
    attr.set_comm(0);
    attr.set_task(0);
    attr.set_context_switch(0);
    attr.set_sample_id_all(0);
    attr
}

/// Attributes for the wake-up program: its samples have the waker's kernel stack.
fn waking_attributes(attr: b::perf_event_attr) -> b::perf_event_attr {
    let mut attr = output_attributes(attr, false);
    attr.set_exclude_callchain_kernel(0);
    attr.sample_max_stack = WAKER_FRAMES;
    attr
}

/// Pages of each of so many rings: a power of two.
fn ring_pages(options: &Options, copies: bool, rings: usize) -> usize {
    let (frequency, copy) = match options.event.frequency(options.frequency) {
        0 => (OFTEN, FIRST_COPY),
        frequency => (frequency, TYPICAL_COPY),
    };
    let sample = if copies { copy } else { TYPICAL_SAMPLE };
    let most = LARGEST_RINGS_BYTES / rings.max(1) as u64;
    let most = most.clamp(SMALLEST_RING_BYTES, LARGEST_RING_BYTES);
    let bytes = (u64::from(frequency) * sample / 2).clamp(SMALLEST_RING_BYTES, most);
    // The largest power of two that is no larger.
    let bytes = 1usize << bytes.next_power_of_two().min(most).ilog2();
    (bytes / rustix::param::page_size()).max(SMALLEST_RING_PAGES)
}

struct Opener<'w> {
    attr: b::perf_event_attr,
    event: KernelEvent,
    cpus: Vec<u32>,
    ring_pages: usize,
    copier: Option<Arc<StackCopier>>,
    wake_ups: Option<&'w Arc<WakeUps>>,
    /// The kernel also walks the user's frame pointers where the stack is copied.
    user_chain: bool,
    fds: Vec<OwnedFd>,
    rings: Vec<OwnedRing>,
    owners: HashMap<u64, u32>,
    opened: Vec<u32>,
    pid: u32,
}

/// A ring while events are being opened.
struct OwnedRing {
    ring: Ring,
    cpu: u32,
    /// Index into [`Opener::fds`] of the event that the ring belongs to.
    owner: usize,
}

impl Opener<'_> {
    /// Opens the events that the copier's program writes into.
    fn outputs(&mut self) -> Result<(), Failure> {
        let Some(copier) = self.copier.clone() else { return Ok(()) };
        let attr = output_attributes(self.attr, self.user_chain);
        self.program_events(&attr, |cpu, event| copier.set_output(cpu, event)).map(drop)
    }

    /// Opens events that a program writes into, one of each processor; their numbers.
    fn program_events(
        &mut self,
        attr: &b::perf_event_attr,
        set_output: impl Fn(u32, BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<HashSet<u64>, Failure> {
        let mut numbers = HashSet::new();
        for cpu in self.cpus.clone() {
            let opened = sys::open(attr, None, cpu).and_then(|fd| {
                set_output(cpu, fd.as_fd())?;
                Ok((sys::id(fd.as_fd())?, fd))
            });
            let (number, fd) = opened.map_err(|error| self.refused(error))?;
            numbers.insert(number);
            self.output(&fd, cpu)?;
            self.fds.push(fd);
        }
        Ok(numbers)
    }

    /// Opens the tracepoint, or the probes, that the copier's programs shall run at, where that is the event.
    fn triggers(&self) -> Result<Vec<OpenTrigger>, Failure> {
        let Some(copier) = &self.copier else { return Ok(Vec::new()) };
        let places = match &self.event {
            KernelEvent::Software(_) => Vec::new(),
            KernelEvent::Tracepoint(it) => vec![TriggerPlace::Tracepoint(*it)],
            KernelEvent::Calls(calls) => calls.iter().map(|it| TriggerPlace::Tracepoint(it.1)).collect(),
            KernelEvent::Probes(probes) => {
                let places = probes.places.iter().map(|it| TriggerPlace::Probe(it.clone(), self.pid));
                places.chain(probes.exec.map(TriggerPlace::Tracepoint)).collect()
            }
        };
        places.into_iter().zip(copier.programs()).map(|(place, program)| self.trigger(place, program)).collect()
    }

    /// Opens what tells wake-ups; the numbers of the events that have them as samples.
    fn wakings(&mut self, triggers: &mut Vec<OpenTrigger>) -> Result<HashSet<u64>, Failure> {
        let Some(wake_ups) = self.wake_ups else { return Ok(HashSet::new()) };
        let attr = waking_attributes(self.attr);
        let numbers = self.program_events(&attr, |cpu, event| wake_ups.set_output(cpu, event))?;
        triggers.push(self.trigger(TriggerPlace::Tracepoint(wake_ups.tracepoint), wake_ups.at_waking.as_fd())?);
        Ok(numbers)
    }

    fn trigger(&self, place: TriggerPlace, program: BorrowedFd<'_>) -> Result<OpenTrigger, Failure> {
        let cpu = self.cpus.first().copied().unwrap_or(0);
        let opened = program.try_clone_to_owned().and_then(|program| OpenTrigger::open(place, cpu, program));
        opened.map_err(|error| self.refused(error))
    }

    /// The program that runs at each event of a thread's own.
    fn thread_program(&self) -> Option<BorrowedFd<'_>> {
        let copier = self.copier.as_ref().filter(|_| self.event.is_of_thread());
        // Where wake-ups are told, the copier's runs behind theirs.
        let leaving = self.wake_ups.map(|it| it.at_leaving.as_fd());
        leaving.or_else(|| copier?.programs().next())
    }

    fn refused(&self, error: io::Error) -> Failure {
        match Errno::from_io_error(&error) {
            Some(Errno::MFILE | Errno::NFILE) => Failure::Fatal(self.too_many_files()),
            Some(errno) => Failure::Refused(errno),
            None => self.fatal("open a performance event", error),
        }
    }

    /// Opens the events of one thread; one that has ended meanwhile is passed over.
    fn thread(&mut self, tid: u32) -> Result<(), Failure> {
        for cpu in self.cpus.clone() {
            let fd = match sys::open(&self.attr, Some(tid), cpu) {
                Ok(fd) => fd,
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::SRCH) => return Ok(()),
                    // A processor that was switched off since it was listed.
                    Some(Errno::NODEV) if !self.fds.is_empty() => continue,
                    _ => return Err(self.refused(error)),
                },
            };
            if let Some(program) = self.thread_program() {
                sys::set_program(fd.as_fd(), program).map_err(|error| self.refused(error))?;
            }
            let id = sys::id(fd.as_fd()).map_err(|e| self.fatal("read an event's number", e))?;
            self.output(&fd, cpu)?;
            self.owners.insert(id, tid);
            self.fds.push(fd);
        }
        Ok(())
    }

    /// Joins the processor's ring, or makes it.
    fn output(&mut self, fd: &OwnedFd, cpu: u32) -> Result<(), Failure> {
        let owner = self.rings.iter().find(|ring| ring.cpu == cpu);
        let owner = owner.map(|ring| ring.owner);
        if let Some(owner) = owner.and_then(|at| self.fds.get(at)) {
            return sys::set_output(fd.as_fd(), owner.as_fd()).map_err(|e| self.fatal("share a ring", e));
        }
        let map = self.map(fd)?;
        let fd = fd.try_clone().map_err(|error| self.refused(error))?;
        self.rings.push(OwnedRing { ring: Ring { fd, map, polled: true }, cpu, owner: self.fds.len() });
        Ok(())
    }

    /// Maps a ring, a smaller one where the limit of locked memory (`kernel.perf_event_mlock_kb`, `ulimit -l`) is low.
    fn map(&self, fd: &OwnedFd) -> Result<RingMap, Failure> {
        let mut pages = self.ring_pages;
        loop {
            match RingMap::new(fd.as_fd(), pages) {
                Ok(map) => return Ok(map),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::PERM | Errno::NOMEM | Errno::AGAIN) if pages > SMALLEST_RING_PAGES => pages /= 2,
                    Some(Errno::PERM | Errno::NOMEM | Errno::AGAIN) => {
                        return Err(Failure::Fatal(permission::locked_memory(pages)));
                    }
                    _ => return Err(self.fatal("map a ring", error)),
                },
            }
        }
    }

    fn too_many_files(&self) -> Problem {
        let threads = threads::ids(self.pid).len().max(self.opened.len());
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let (opened, limit) = (self.fds.len(), limit.unwrap_or(u64::MAX));
        let needed = threads * self.cpus.len() + self.cpus.len();
        Problem::new(
            "out of file descriptors",
            format_args!("{opened} of {needed} events are open, and the limit is {limit}"),
            format!("raise it with `ulimit -n {}`", needed + 256),
        )
    }

    fn fatal(&self, what: &str, source: io::Error) -> Failure {
        Failure::Fatal(system(format_args!("{what} for process {}", self.pid), source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EVENTS, Event};

    fn bytes(event: &Event, frequency: u32, rings: usize) -> u64 {
        let options = Options { event: event.clone(), frequency, ..Options::default() };
        let pages = ring_pages(&options, true, rings);
        assert!(pages.is_power_of_two());
        (pages * rustix::param::page_size()) as u64
    }

    #[test]
    fn rings_hold_the_largest_copies_in_bounded_memory() {
        for event in &EVENTS {
            for frequency in [1, 999, 9_999, u32::MAX / 2] {
                for rings in [0, 1, 2, 3, 64, 100, 512] {
                    let ring = bytes(event, frequency, rings);
                    assert!((SMALLEST_RING_BYTES..=LARGEST_RING_BYTES).contains(&ring));
                    assert!(ring * rings as u64 <= LARGEST_RINGS_BYTES, "{rings} of {ring}");
                }
            }
        }
        let off_cpu = Event::named("off-cpu").unwrap();
        // Each is 35 KB where it is not known yet where stacks end.
        let samples = bytes(&off_cpu, 999, 2) * 2 / (35 << 10);
        assert!(samples > 450, "{samples}");
        assert_eq!(bytes(&Event::usual(), 999, 2), 2 << 20);
    }
}
