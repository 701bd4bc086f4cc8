//! The thread that fetches samples while sampling is on.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archive::profile::{Footer, Sample, StacksWriter};
use measure::{Clock, Nanos, Time};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::time::ClockId;

use crate::events::{Events, Ring};
use crate::record::{self, Record, SampleRecord};
use crate::ring::{self, Next};
use crate::sampler::{Outcome, Target};
use crate::source::{Stack, StackSource};
use crate::stacker::Stacker;
use crate::symbols::Symbols;
use crate::sys;
use crate::threads::Threads;

/// Rings are emptied at least this often. Ten wake-ups a second cost little, and leave each ring
/// five times as much room as it needs.
const PERIOD: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// The file is flushed and new mappings are looked for this often.
const FLUSH_EVERY: Nanos = Nanos::SECOND;

/// What the sampler and its thread tell each other.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The events.
    pub(crate) events: Vec<OwnedFd>,
    /// Wakes the thread.
    pub(crate) wake: OwnedFd,
    pub(crate) stop: AtomicBool,
    /// The process has ended.
    pub(crate) ended: AtomicBool,
}

/// All that the thread needs.
pub(crate) struct Drain {
    target: Target,
    rings: Vec<Ring>,
    owners: HashMap<u64, u32>,
    threads_only: bool,
    lost_is_counted: bool,
    threads: Threads,
    source: Box<dyn StackSource>,
    stacker: Stacker,
    sink: StacksWriter,
    origin: Time,
    outcome: Outcome,
    /// Samples whose stack reaches its root.
    complete: u64,
    stack: Stack,
}

impl std::fmt::Debug for Drain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drain")
            .field("pid", &self.target.pid)
            .finish_non_exhaustive()
    }
}

impl Drain {
    /// `events` without its descriptors, which stay with the sampler.
    pub(crate) fn new(
        target: Target,
        events: Events,
        symbols: Symbols,
        source: Box<dyn StackSource>,
        mut sink: StacksWriter,
    ) -> Self {
        let direct = events.owners.values().copied();
        Self {
            threads: Threads::new(target.pid, &target.status.name, direct),
            rings: events.rings,
            owners: events.owners,
            threads_only: events.threads_only,
            lost_is_counted: events.lost_is_counted,
            source,
            stacker: Stacker::new(symbols),
            origin: sink.header_mut().map_or(Time(0), |header| header.origin),
            sink,
            outcome: Outcome::default(),
            complete: 0,
            stack: Stack::default(),
            target,
        }
    }

    /// Fetches samples until told to stop or the process has ended, and ends the file.
    pub(crate) fn run(mut self, from: Time, shared: &Arc<Shared>) -> Outcome {
        let cpu_before = thread_cpu();
        let mut waiting: Vec<bool> = vec![true; self.rings.len()];
        let mut flushed = from;
        loop {
            let ended = self.wait(shared, &mut waiting);
            let stop = shared.stop.load(Ordering::Acquire);
            self.fetch();
            if Clock.now().since(flushed) >= FLUSH_EVERY {
                flushed = Clock.now();
                self.every_second();
            }
            if ended && !stop {
                shared.ended.store(true, Ordering::Release);
                self.note_end(from);
            }
            if ended || stop {
                break;
            }
        }
        self.count_lost(&shared.events);
        self.finish(from, cpu_before)
    }

    /// Adds what was lost and never told: the kernel writes a record of it in front of the next one
    /// that fits, and after the last samples there is none.
    fn count_lost(&mut self, events: &[OwnedFd]) {
        if !self.lost_is_counted {
            return;
        }
        let counted = events.iter().map(|event| sys::lost(event.as_fd()));
        // An event that cannot be read has lost nothing that is known.
        let counted: u64 = counted.filter_map(Result::ok).sum();
        let untold = counted.saturating_sub(self.outcome.lost);
        if untold > 0 {
            self.outcome.lost += untold;
            self.sink.lost(untold);
        }
    }

    /// Waits for the period, for a ring that fills up, or for a word from the sampler; says
    /// whether the process has ended.
    fn wait(&self, shared: &Shared, waiting: &mut [bool]) -> bool {
        let mut fds = vec![PollFd::new(&shared.wake, PollFlags::IN)];
        fds.extend(
            self.target
                .pidfd
                .iter()
                .map(|fd| PollFd::new(fd, PollFlags::IN)),
        );
        let first_ring = fds.len();
        let polled: Vec<usize> = (0..self.rings.len())
            .filter(|&i| waiting.get(i) == Some(&true))
            .collect();
        let rings = polled.iter().filter_map(|&i| self.rings.get(i));
        fds.extend(rings.map(|ring| PollFd::new(&ring.fd, PollFlags::IN)));
        // Interrupted by a signal: the rings are looked at all the same.
        let _ = rustix::event::poll(&mut fds, Some(&PERIOD));
        // A ring whose owner's thread has ended is always ready, but others still write into it:
        // from now on it is looked at once per period.
        for (&i, fd) in polled.iter().zip(fds.iter().skip(first_ring)) {
            if fd.revents().intersects(PollFlags::HUP | PollFlags::ERR)
                && let Some(flag) = waiting.get_mut(i)
            {
                *flag = false;
            }
        }
        match &self.target.pidfd {
            Some(_) => fds
                .get(1)
                .is_some_and(|fd| fd.revents().contains(PollFlags::IN)),
            None => crate::procfs::threads(self.target.pid).is_empty(),
        }
    }

    /// Empties all rings.
    fn fetch(&mut self) {
        self.stacker.refresh_jit();
        let mut rings = std::mem::take(&mut self.rings);
        let mut scratch = Vec::new();
        for ring in &mut rings {
            let head = ring.map.head();
            let mut tail = ring.map.tail();
            loop {
                match ring::next(&ring.map, head, tail, &mut scratch) {
                    Next::Record(raw, after) => {
                        if let Some(record) = record::parse(&raw) {
                            self.record(&record);
                        }
                        tail = after;
                        ring.map.set_tail(tail);
                    }
                    Next::Empty => break,
                    Next::Damaged => {
                        self.note("a ring held a damaged record; what followed in it was dropped");
                        ring.map.set_tail(head);
                        break;
                    }
                }
            }
        }
        self.rings = rings;
    }

    fn record(&mut self, record: &Record<'_>) {
        match *record {
            Record::Sample(sample) => self.sample(&sample),
            Record::Lost(count) => {
                self.outcome.lost = self.outcome.lost.saturating_add(count);
                self.sink.lost(count);
            }
            Record::Throttle => {
                self.outcome.throttled += 1;
                self.sink.throttled(1);
            }
            Record::Comm { pid, tid, name } if pid == self.target.pid => {
                self.threads.renamed(tid, name);
            }
            Record::Fork {
                pid,
                tid,
                parent_tid,
            } if pid == self.target.pid => {
                self.threads.started(tid, parent_tid);
            }
            Record::Exit { tid } => self.threads.exited(tid),
            Record::Mmap { pid } if pid == self.target.pid => self.stacker.refresh_mappings(),
            _ => {}
        }
    }

    fn sample(&mut self, sample: &SampleRecord<'_>) {
        // A thread that is just ending has no numbers any more; its event is ours nevertheless.
        let ours = sample.pid == self.target.pid || (self.threads_only && sample.pid == u32::MAX);
        let owner = self.owners.get(&sample.id).copied().unwrap_or(sample.tid);
        let tid = if sample.tid == u32::MAX {
            owner
        } else {
            sample.tid
        };
        if !ours || !self.threads.counts(tid, owner) {
            return;
        }
        self.source.stack(sample, &mut self.stack);
        let node = self
            .stacker
            .node(&self.stack, Time(sample.time), &mut self.sink);
        let thread = self.sink.thread(self.threads.name(tid));
        self.sink.sample(&Sample {
            t: Time(sample.time).since(self.origin).0,
            weight: 1,
            stack: node.id,
            thread,
            cpu: u16::try_from(sample.cpu).unwrap_or(u16::MAX),
            complete: node.complete,
        });
        self.outcome.samples += 1;
        self.complete += u64::from(node.complete);
    }

    fn every_second(&mut self) {
        self.sink.flush();
        self.stacker.refresh();
        self.threads.forget();
    }

    fn note_end(&mut self, from: Time) {
        let after = Clock.now().since(from);
        self.note(&format!(
            "process {} ended {after} after sampling began; the profile covers it until then",
            self.target.pid
        ));
    }

    fn finish(mut self, from: Time, cpu_before: Nanos) -> Outcome {
        if let Some(why) = self.stacker.symbols().refused_jit_map() {
            let why = why.to_owned();
            self.note(&why);
        }
        if let Some(kind) = self.stacker.symbols().runtime_without_jit_map() {
            self.note(crate::symbols::remedy_without_jit_map(kind));
        }
        if self.complete < self.outcome.samples / 2 {
            let share = 100.0 * self.complete as f64 / self.outcome.samples as f64;
            self.note(&format!(
                "only {share:.0} % of the stacks reach the root of their thread or Erlang process, \
                 because code without frame pointers cuts the others short: shares at the leaf \
                 (self) hold, total shares of callers are too small"
            ));
        }
        self.outcome.own_cpu = thread_cpu().saturating_sub(cpu_before);
        let footer = Footer {
            from: from.since(self.origin).0,
            to: Clock.now().since(self.origin).0,
            own_cpu_ns: self.outcome.own_cpu.0,
        };
        if let Err(error) = self.sink.finish(footer) {
            self.outcome.notes.push(format!(
                "the stacks file ends before the samples do: {error}; make room on the disk"
            ));
        }
        self.outcome
    }

    /// A note for the profile and for the outcome, once.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.outcome.notes.iter().any(|note| note == text) {
            self.sink.note(text);
            self.outcome.notes.push(text.to_owned());
        }
    }
}

/// CPU time of the calling thread.
fn thread_cpu() -> Nanos {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
