//! Samples of the kernel's performance events: one on every thread and processor; a processor's share a ring.

mod open;
pub(crate) mod permission;
mod sys;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use perf_event_open_sys::bindings as b;
use rustix::event::{PollFd, PollFlags, Timespec};

use self::sys::RingMap;
use super::{Damaged, SampleSource};
use crate::allocators::{Probe, Role};
use crate::events::KernelEvent;
use crate::record::{self, Next, Record};
use crate::stack_copy::WakeUps;
use crate::tracepoint::Tracepoint;

pub(crate) use open::{Capabilities, open};

/// The descriptors of the events, which switch sampling on and off.
#[derive(Debug)]
pub(crate) struct PerfEvents {
    fds: Vec<OwnedFd>,
    /// Events that make programs run for all threads at once.
    triggers: Vec<OpenTrigger>,
    /// Its map lets go of its events when it goes.
    _wake_ups: Option<Arc<WakeUps>>,
    /// Whether the events count the records that did not fit into a ring.
    count_lost: bool,
}

impl PerfEvents {
    pub(crate) fn enable(&self) -> io::Result<()> {
        // A thread that starts while its parent's events are switched on, one after another, may inherit some of them
        // switched off for good. By the second time all parents have theirs.
        for _ in 0..2 {
            self.fds.iter().try_for_each(|event| sys::enable(event.as_fd()))?;
        }
        // From here on they run; what they write to is switched on already.
        self.triggers.iter().try_for_each(OpenTrigger::enable)
    }

    /// Switches all events off; what would cost the process even so is closed, until they are switched on again.
    pub(crate) fn disable(&self) {
        self.triggers.iter().for_each(OpenTrigger::close);
        for event in &self.fds {
            let _ = sys::disable(event.as_fd());
        }
    }
}

#[derive(Debug)]
pub(crate) struct PerfRings {
    events: Arc<PerfEvents>,
    rings: Vec<Ring>,
}

#[derive(Debug)]
struct Ring {
    /// A descriptor of its own, to wait on.
    fd: OwnedFd,
    map: RingMap,
    /// Whether the descriptor tells of new records. Once the owner's thread has ended it is always
    /// ready, but others still write into the ring: from then on it is fetched once per time-out.
    polled: bool,
}

impl SampleSource for PerfRings {
    fn wait(&mut self, others: &[BorrowedFd<'_>], timeout: &Timespec) -> Vec<bool> {
        let rings = self.rings.iter().filter(|ring| ring.polled);
        let all = others.iter().copied().chain(rings.map(|ring| ring.fd.as_fd()));
        let mut fds: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // Interrupted by a signal: the rings are fetched all the same.
        let _ = rustix::event::poll(&mut fds, Some(timeout));
        let mut answers = fds.iter().map(PollFd::revents);
        let readable = answers.by_ref().take(others.len());
        let readable = readable.map(|answer| answer.contains(PollFlags::IN)).collect();
        let gone: Vec<_> = answers.map(|answer| answer.intersects(PollFlags::HUP | PollFlags::ERR)).collect();
        drop(fds);
        let polled = self.rings.iter_mut().filter(|ring| ring.polled);
        for (ring, gone) in polled.zip(gone) {
            ring.polled = !gone;
        }
        readable
    }

    fn fetch(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged> {
        let mut all = Ok(());
        let mut scratch = Vec::new();
        for ring in &mut self.rings {
            let head = ring.map.head();
            let mut tail = ring.map.tail();
            loop {
                match record::next_in_ring(&ring.map, head, tail, &mut scratch) {
                    Next::Record(raw, after) => {
                        if let Some(record) = record::parse(&raw) {
                            take(&record);
                        }
                        tail = after;
                        ring.map.set_tail(tail);
                    }
                    Next::Empty => break,
                    Next::Damaged => {
                        all = Err(Damaged);
                        ring.map.set_tail(head);
                        break;
                    }
                }
            }
        }
        all
    }

    fn lost(&self) -> u64 {
        let events = self.events.fds.iter().filter(|_| self.events.count_lost);
        // An event that cannot be read has lost nothing that is known.
        events.map(|event| sys::lost(event.as_fd())).filter_map(Result::ok).sum()
    }

    fn counted(&self) -> Option<u64> {
        self.events.fds.iter().map(|event| sys::counted(event.as_fd())).sum::<Result<u64, _>>().ok()
    }
}

#[derive(Clone, Debug)]
enum TriggerPlace {
    /// A place in the kernel, in every thread of the machine.
    Tracepoint(Tracepoint),
    /// A place in a file, in every thread of a process.
    Probe(Probe, u32),
}

impl TriggerPlace {
    fn open(&self, cpu: u32) -> io::Result<OwnedFd> {
        match self {
            Self::Tracepoint(tracepoint) => {
                let mut attr = b::perf_event_attr::default();
                attr.size = size_of::<b::perf_event_attr>() as u32;
                (attr.type_, attr.config) = KernelEvent::Tracepoint(*tracepoint).attribute();
                attr.set_disabled(1);
                sys::open(&attr, None, cpu)
            }
            Self::Probe(it, pid) => sys::open_probe(&it.path, it.offset, it.role == Role::Returns, *pid, cpu),
        }
    }
}

/// An event that makes a program run, whatever thread it happens in. While it is open the kernel calls the program,
/// switched on or not: one that shall cost whoever passes it nothing for a while is closed, and opened again.
#[derive(Debug)]
struct OpenTrigger {
    place: TriggerPlace,
    cpu: u32,
    program: OwnedFd,
    event: Mutex<Option<OwnedFd>>,
}

impl OpenTrigger {
    /// Opens the event. The program runs when it is enabled.
    fn open(place: TriggerPlace, cpu: u32, program: OwnedFd) -> io::Result<Self> {
        let event = place.open(cpu)?;
        Ok(Self { place, cpu, program, event: Mutex::new(Some(event)) })
    }

    fn enable(&self) -> io::Result<()> {
        let Ok(mut event) = self.event.lock() else { return Ok(()) };
        let event = match &mut *event {
            Some(event) => event,
            closed => closed.insert(self.place.open(self.cpu)?),
        };
        sys::set_program(event.as_fd(), self.program.as_fd())
    }

    fn close(&self) {
        if let Ok(mut event) = self.event.lock() {
            *event = None;
        }
    }
}
