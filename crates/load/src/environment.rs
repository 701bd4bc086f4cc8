//! Where a load runs: its clock, its connections, and what runs beside each other. [`System`] is this
//! machine. Tests bring one in which time is a number and connections are memory, so that a whole load
//! runs in one thread, without a socket and without a sleep.
//!
//! The engine is compiled for each environment: for [`System`] every call is what it stands for.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use measure::{Clock, Nanos, Problem, ThreadUsage, Time, counted, wall_clock_unix_ns};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use transport::{Poller, Sleep, SystemPoll};

use crate::Error;

/// Where a load runs.
pub trait Environment: Clone + Send + 'static {
    /// The connections of one event loop.
    type Poll: Poller;
    /// A thread, or whatever stands for one, beside the load's coordinator.
    type Task: Task;

    /// The present instant.
    fn now(&self) -> Time;

    /// The wall clock's time since 1970 less [`Environment::now`], in nanoseconds.
    fn wall_offset(&self) -> u64;

    /// CPU time and waits of the calling thread.
    fn thread_time(&self) -> ThreadTime;

    /// A poll that hands over at most so many events at once, where the system has one to give.
    fn poll(&self, events: usize) -> io::Result<Self::Poll>;

    /// Runs an event loop to its end, where the system has a thread to give.
    fn run_loop(&self, name: String, event_loop: impl EventLoop) -> io::Result<Self::Task>;

    /// Does something that may wait for a broker, beside the coordinator, where the system has a thread to give.
    fn run_beside(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Self::Task>;

    /// Takes one value, if one comes in time; an error tells whether one may come later.
    fn receive<T>(&self, from: &Receiver<T>, timeout: Duration) -> Result<T, RecvTimeoutError>;
}

/// A thread, or whatever stands for one.
pub trait Task {
    /// Whether it has ended.
    fn is_finished(&self) -> bool;

    /// Waits for its end; `false` where that was a panic.
    fn join(self) -> bool;
}

/// An event loop: [`EventLoop::step`] and [`EventLoop::wait`] in turn, until the first returns `None`.
pub trait EventLoop: Send + 'static {
    /// Does what there is to do now, and tells how long there is nothing more.
    fn step(&mut self) -> Option<Sleep>;

    /// Waits by its own poll.
    fn wait(&mut self, sleep: Sleep);
}

/// This machine: the monotonic clock, sockets and threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Environment for System {
    type Poll = SystemPoll;
    type Task = JoinHandle<()>;

    #[inline]
    fn now(&self) -> Time {
        Clock.now()
    }

    fn wall_offset(&self) -> u64 {
        wall_clock_unix_ns().saturating_sub(Clock.now().0)
    }

    fn thread_time(&self) -> ThreadTime {
        ThreadTime { cpu: thread_cpu(), run_queue_wait: run_queue_wait() }
    }

    fn poll(&self, events: usize) -> io::Result<SystemPoll> {
        SystemPoll::new(events)
    }

    fn run_loop(&self, name: String, mut event_loop: impl EventLoop) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name(name).spawn(move || {
            // The timer slack is a property of the thread.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            while let Some(sleep) = event_loop.step() {
                event_loop.wait(sleep);
            }
        })
    }

    fn run_beside(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name(name.to_owned()).spawn(work)
    }

    fn receive<T>(&self, from: &Receiver<T>, timeout: Duration) -> Result<T, RecvTimeoutError> {
        from.recv_timeout(timeout)
    }
}

impl Task for JoinHandle<()> {
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }

    fn join(self) -> bool {
        Self::join(self).is_ok()
    }
}

/// CPU time and run-queue wait of a thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// CPU time.
    pub cpu: Nanos,
    /// Time in which it was ready to run and had no core; `None` where the kernel does not tell.
    pub run_queue_wait: Option<Nanos>,
}

impl ThreadTime {
    /// All that a thread has used until now, with the present instant as its measured time.
    pub(crate) fn usage(self, idle: Nanos, now: Time) -> ThreadUsage {
        ThreadUsage {
            total: self.cpu,
            measured: self.cpu,
            measured_idle: idle,
            measured_run_queue_wait: self.run_queue_wait,
            measured_time: Nanos(now.0),
            ..ThreadUsage::default()
        }
    }
}

fn thread_cpu() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// How long the calling thread has waited in a run queue: the second number of
/// `/proc/thread-self/schedstat` (`Documentation/scheduler/sched-stats.rst`), where the kernel keeps
/// it. Reads into the stack: event loops allocate nothing.
fn run_queue_wait() -> Option<Nanos> {
    let mut text = [0; 96];
    let mut file = std::fs::File::open("/proc/thread-self/schedstat").ok()?;
    let length = file.read(&mut text).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    let mut numbers = text.split_ascii_whitespace();
    let (cpu, waited) = (numbers.next()?, numbers.next()?);
    // A kernel without these statistics writes zeros.
    (cpu != "0").then(|| waited.parse().ok().map(Nanos))?
}

/// Files that are open beside the connections: event loops, the profiler's rings, the archive.
const OTHERS: u64 = 200;

/// Raises this process's limit on open files as far as it may. Errors: [`Error::Limit`], where that is not enough.
pub fn make_room(connections: u64) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    // Fails where somebody forbids it: the soft limit then counts.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let allowed = match raised {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    enough(connections, allowed)
}

/// `allowed`: `None` is no limit.
fn enough(connections: u64, allowed: Option<u64>) -> Result<(), Error> {
    let needed = connections + OTHERS;
    match allowed {
        Some(allowed) if allowed < needed => Err(Error::Limit(Problem::new(
            format!("with {} some {} are needed", counted(connections, "connection"), counted(needed, "open file")),
            format!("this process may have {}", counted(allowed, "file")),
            format!(
                "raise the hard limit to {needed} or more: LimitNOFILE= of a systemd unit, nofile \
                 in /etc/security/limits.conf, --ulimit nofile= of a container"
            ),
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_low_a_limit_names_what_is_needed_and_what_is_allowed() {
        assert_eq!(enough(10_000, None), Ok(()));
        assert_eq!(enough(10_000, Some(20_000)), Ok(()));
        let error = enough(10_000, Some(4_096)).expect_err("too low");
        testkit::assert_has(error.to_string(), ["10,200 open files", "4,096 files"]);
        assert!(error.problem().help.contains("nofile") && !error.is_usage());
    }
}
