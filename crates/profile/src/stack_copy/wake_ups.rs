//! Wake-ups of the process's threads, told by a program at the kernel's tracepoint `sched_waking`.
//!
//! It runs in the waker, whoever that is, and leaves the wake-ups of other processes' threads alone: it looks the
//! thread up in a table of those that have left their processor, which they enter by themselves when they do. A record
//! has the waker's thread, process and kernel stack from the kernel, and behind them
//!
//! ```text
//! thread on this machine (8 bytes)    in its own namespace (8, its process above)    the waker's name (16)
//! ```

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use linux::cpus;
use measure::Problem;

use super::PidNamespace;
use super::kernel::{KernelMap, KernelPrograms, Settings};
use crate::access::copies_remedy;
use crate::tracepoint::Tracepoint;

const TRACEPOINT: &str = "sched:sched_waking";
const THREAD_FIELD: &str = "pid";
/// Threads of which wake-ups are told; where there are more, the one that was not woken for longest makes room.
const THREADS: u32 = 16 << 10;

const WAKER_LENGTH: usize = 16;

#[derive(Debug)]
pub(crate) struct WakeUps {
    /// By processor: the event whose ring takes the records.
    outputs: KernelMap<i32>,
    /// The program that runs when a thread has entered the table.
    next: KernelMap<i32>,
    /// The program that runs at each wake-up on this machine.
    pub(crate) at_waking: OwnedFd,
    /// The program by which threads enter the table when they leave their processor.
    pub(crate) at_leaving: OwnedFd,
    pub(crate) tracepoint: Tracepoint,
    pub(crate) numbering: Numbering,
}

/// Which of a thread's numbers this process knows it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// That of this machine.
    OnMachine,
    /// That of the namespace that the process and this one are both in.
    Inside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakeRecord<'a> {
    pub(crate) tid: u32,
    /// The name of the thread that woke it, or that was interrupted.
    pub(crate) waker: &'a [u8],
}

impl WakeUps {
    /// Loads the programs for the threads of process `pid`, where the kernel allows it and shows the tracepoint.
    pub(crate) fn load(pid: u32) -> Result<Self, Problem> {
        let tracepoint = Tracepoint::find(TRACEPOINT, Some(THREAD_FIELD))?;
        let namespace = PidNamespace::of(pid);
        let numbering = Numbering::of(PidNamespace::of(std::process::id()), namespace)?;
        let mut settings =
            Settings { entries: vec![("outputs", cpus::end()), ("asleep", THREADS)], ..Settings::default() };
        settings.number_in(namespace);
        tracepoint.field.iter().for_each(|it| settings.read_field(*it));
        let load = || {
            let mut programs = KernelPrograms::load(&settings)?;
            Ok(Self {
                outputs: programs.table("outputs")?,
                next: programs.table("next")?,
                at_waking: programs.program("waking")?,
                at_leaving: programs.program("leaving")?,
                tracepoint,
                numbering,
            })
        };
        load().map_err(|error: io::Error| {
            Problem::new("the kernel does not allow a program on wake-ups", error, copies_remedy())
        })
    }

    /// Has a program run when a thread has entered the table.
    pub(super) fn go_on(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.next.set_descriptor(0, program)
    }

    /// Makes `event` the output of a processor.
    pub(crate) fn set_output(&self, cpu: u32, event: BorrowedFd<'_>) -> io::Result<()> {
        self.outputs.set_descriptor(cpu, event)
    }
}

impl Numbering {
    /// That by which a process in the namespace `own` knows threads of the namespace `theirs`.
    fn of(own: Option<PidNamespace>, theirs: Option<PidNamespace>) -> Result<Self, Problem> {
        if own.is_some() && own == theirs {
            return Ok(Self::Inside);
        }
        if own.is_some_and(|own| own.is_first()) {
            return Ok(Self::OnMachine);
        }
        Err(Problem::new(
            "the process is in a container inside this one",
            "its threads have other numbers in this container",
            "run bellows in the same container, or outside of containers",
        ))
    }

    /// Parses a record's raw part, which begins with its length in 32 bits; `None` where it is too short.
    pub(crate) fn parse(self, raw: &[u8]) -> Option<WakeRecord<'_>> {
        let (_length, raw) = raw.split_at_checked(4)?;
        let at = if self == Self::OnMachine { 0 } else { 8 };
        let tid = raw.get(at..at + 4)?.try_into().ok()?;
        let waker = raw.get(16..16 + WAKER_LENGTH)?;
        Some(WakeRecord {
            tid: u32::from_ne_bytes(tid),
            waker: waker.split(|&byte| byte == 0).next().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_any_length_are_read_by_either_number() {
        let mut raw = 32u32.to_ne_bytes().to_vec();
        raw.extend(70_000u64.to_ne_bytes());
        raw.extend((7u64 << 32 | 12).to_ne_bytes());
        raw.extend(*b"4_scheduler\0\xff\xff\xff\xff");
        let of = |numbering: Numbering| numbering.parse(&raw).map(|it| (it.tid, it.waker));
        assert_eq!(of(Numbering::OnMachine), Some((70_000, &b"4_scheduler"[..])));
        assert_eq!(of(Numbering::Inside), Some((12, &b"4_scheduler"[..])));
        for length in 0..raw.len() {
            assert_eq!(Numbering::Inside.parse(&raw[..length]), None);
        }
    }

    #[test]
    fn threads_are_known_by_the_number_that_both_see() {
        let first = PidNamespace { device: 4, inode: 0xefff_fffc };
        let other = |inode| PidNamespace { device: 4, inode };
        let of = |own, theirs| Numbering::of(Some(own), Some(theirs)).ok();
        assert_eq!(of(first, first), Some(Numbering::Inside));
        assert_eq!(of(other(1), other(1)), Some(Numbering::Inside));
        assert_eq!(of(first, other(1)), Some(Numbering::OnMachine));
        assert_eq!(of(other(1), other(2)), None);
        assert_eq!(Numbering::of(Some(first), None).ok(), Some(Numbering::OnMachine));
        assert!(Numbering::of(None, None).is_err());
    }
}
