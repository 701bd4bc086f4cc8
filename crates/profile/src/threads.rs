//! The process that is sampled, and its threads: their names, and which event speaks for each.

use std::collections::HashMap;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::path::Path;

use linux::{Status, threads};
use measure::Problem;
use rustix::process::{Pid, PidfdFlags};

/// Nothing runs under this number.
pub fn no_such_process(pid: u32) -> Problem {
    let help = "`bellows doctor` lists the brokers that run here";
    Problem::new(format!("no process {pid}"), "it does not exist or has ended", help)
}

/// An operation that the system refuses.
pub(crate) fn system(what: impl Display, source: impl Display) -> Problem {
    let help = "check ulimit -a and the kernel's settings (sysctl kernel.perf_event_paranoid)";
    Problem::new(format!("cannot {what}"), source, help)
}

/// Threads and their names, from the kernel's records; an older name is looked up at the thread's first sample.
#[derive(Debug)]
pub(crate) struct Threads {
    pid: u32,
    /// For threads that nothing else is known of.
    process_name: String,
    threads: HashMap<u32, Thread>,
    /// Threads that events were opened on.
    direct: Vec<u32>,
}

#[derive(Debug, Default)]
struct Thread {
    name: Option<String>,
    parent: Option<u32>,
    /// The thread whose event this thread's samples are taken from.
    source: Option<u32>,
    exited: Exited,
}

/// Records of one thread lie in several rings, so that a few come after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Exited {
    #[default]
    No,
    Lately,
    Before,
}

impl Threads {
    pub(crate) fn new(pid: u32, process_name: &str, direct: impl Iterator<Item = u32>) -> Self {
        let mut direct: Vec<u32> = direct.collect();
        direct.sort_unstable();
        direct.dedup();
        Self { pid, process_name: process_name.to_owned(), threads: HashMap::new(), direct }
    }

    /// Whether a sample of thread `tid` by the event opened on `owner` counts. A thread that started meanwhile may have
    /// an event of its own and inherit a second: its own comes first, else the one that spoke first.
    pub(crate) fn counts(&mut self, tid: u32, owner: u32) -> bool {
        let own = self.direct.binary_search(&tid).is_ok();
        let thread = self.threads.entry(tid).or_default();
        *thread.source.get_or_insert(if own { tid } else { owner }) == owner
    }

    pub(crate) fn name(&mut self, tid: u32) -> &str {
        let known = self.threads.get(&tid).is_some_and(|thread| thread.name.is_some());
        if !known {
            let parent = self.threads.get(&tid).and_then(|thread| thread.parent);
            let of_parent = || self.threads.get(&parent?)?.name.clone();
            let name = threads::name(self.pid, tid).or_else(of_parent);
            let name = name.unwrap_or_else(|| self.process_name.clone());
            self.threads.entry(tid).or_default().name = Some(name);
        }
        let thread = self.threads.get(&tid);
        thread.and_then(|thread| thread.name.as_deref()).unwrap_or(&self.process_name)
    }

    pub(crate) fn renamed(&mut self, tid: u32, name: &[u8]) {
        let name = String::from_utf8_lossy(name).into_owned();
        self.threads.entry(tid).or_default().name = Some(name);
    }

    pub(crate) fn started(&mut self, tid: u32, parent: u32) {
        let thread = self.threads.entry(tid).or_default();
        if thread.exited != Exited::No {
            // The kernel gave the number to somebody else.
            *thread = Thread::default();
        }
        thread.parent = Some(parent);
    }

    pub(crate) fn exited(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.exited = Exited::Lately;
        }
        if let Ok(at) = self.direct.binary_search(&tid) {
            self.direct.remove(at);
        }
    }

    /// Forgets the threads that ended before the last call.
    pub(crate) fn forget(&mut self) {
        self.threads.retain(|_, thread| {
            let gone = thread.exited == Exited::Before;
            if thread.exited == Exited::Lately {
                thread.exited = Exited::Before;
            }
            !gone
        });
    }
}

/// A process that was seen to exist and to have a user space.
pub(crate) struct Target {
    pub(crate) pid: u32,
    pub(crate) status: Status,
    /// Becomes readable when the process ends; none on kernels before 5.3.
    pub(crate) pidfd: Option<OwnedFd>,
}

impl Target {
    pub(crate) fn find(pid: u32) -> Result<Self, Problem> {
        if !Path::new(&format!("/proc/{pid}")).exists() {
            return Err(no_such_process(pid));
        }
        let status = Status::of(pid).map_err(|error| system(format_args!("read /proc/{pid}/status"), error))?;
        if status.tgid != pid {
            let (tgid, name) = (status.tgid, &status.name);
            return Err(Problem::new(
                format!("{pid} is not a process"),
                format!("it is the thread {name} of process {tgid}"),
                format!("profile {tgid}"),
            ));
        }
        if matches!(status.state, 'Z' | 'X') {
            return Err(no_such_process(pid));
        }
        if !status.has_memory {
            let (cause, name) = (format!("process {pid} cannot be profiled"), status.name);
            return Err(Problem::new(cause, format!("{name} is a thread of the kernel"), "choose a user process"));
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let open = |number| rustix::process::pidfd_open(number, PidfdFlags::empty()).ok();
        Ok(Self { pid, status, pidfd: number.and_then(open) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(direct: &[u32]) -> Threads {
        // A process that does not exist, so that nothing is found in /proc.
        Threads::new(u32::MAX, "main", direct.iter().copied())
    }

    #[test]
    fn a_thread_with_two_events_is_counted_by_one() {
        let mut threads = threads(&[1, 2]);
        assert!(threads.counts(2, 2) && !threads.counts(2, 1), "its own event counts");
        // 3 inherited the events of 1 and of 2.
        assert!(threads.counts(3, 1) && !threads.counts(3, 2) && threads.counts(3, 1));
        // The number 2 is given to another thread, which inherits from 1.
        threads.exited(2);
        threads.started(2, 1);
        assert!(threads.counts(2, 1) && !threads.counts(2, 2));
    }

    #[test]
    fn names_come_from_records_then_parents_then_the_process() {
        let mut threads = threads(&[1]);
        assert_eq!(threads.name(1), "main");
        threads.renamed(5, b"worker");
        threads.started(6, 5);
        assert_eq!(threads.name(6), "worker");
        threads.renamed(6, b"\xffodd");
        assert_eq!(threads.name(6), "\u{fffd}odd");
        threads.exited(6);
        threads.forget();
        assert_eq!(threads.name(6), "\u{fffd}odd", "samples may come late");
        threads.forget();
        assert_eq!(threads.name(6), "main");
    }
}
