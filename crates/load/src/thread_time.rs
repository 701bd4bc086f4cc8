//! The time that a thread spends: on a core, waiting for one, and with nothing to do.

use std::io::Read;

use measure::{Clock, Nanos, Time};

use crate::ThreadUsage;

/// CPU time and run-queue wait of a thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// CPU time.
    pub cpu: Nanos,
    /// Time in which it was ready to run and had no core; `None` where the kernel does not tell.
    pub run_queue_wait: Option<Nanos>,
}

/// Time of a thread so far, or in a span of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) cpu: Nanos,
    /// With nothing to do.
    pub(crate) idle: Nanos,
    /// Ready to run, and without a core.
    pub(crate) run_queue_wait: Option<Nanos>,
    at: Time,
    /// In all.
    pub(crate) time: Nanos,
}

impl Spent {
    pub(crate) const fn now(used: ThreadTime, idle: Nanos, now: Time) -> Self {
        Self {
            cpu: used.cpu,
            idle,
            run_queue_wait: used.run_queue_wait,
            at: now,
            time: Nanos::ZERO,
        }
    }

    pub(crate) fn since(&self, before: &Self) -> Self {
        let run_queue_wait = self.run_queue_wait.zip(before.run_queue_wait);
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            idle: self.idle.saturating_sub(before.idle),
            run_queue_wait: run_queue_wait.map(|(now, then)| now.saturating_sub(then)),
            at: self.at,
            time: self.at.since(before.at),
        }
    }
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// How long the calling thread has waited in a run queue: the second number of
/// `/proc/thread-self/schedstat` (`Documentation/scheduler/sched-stats.rst`), where the kernel keeps
/// it. Reads into the stack: event loops allocate nothing.
pub(crate) fn run_queue_wait() -> Option<Nanos> {
    let mut text = [0; 96];
    let mut file = std::fs::File::open("/proc/thread-self/schedstat").ok()?;
    let length = file.read(&mut text).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    let mut numbers = text.split_ascii_whitespace();
    let (cpu, waited) = (numbers.next()?, numbers.next()?);
    // A kernel without these statistics writes zeros.
    (cpu != "0").then(|| waited.parse().ok().map(Nanos))?
}

/// This thread's time beyond that at `before`.
pub(crate) fn spent(idle: Nanos, before: ThreadUsage) -> ThreadUsage {
    let starved = run_queue_wait();
    let waited =
        |now: Nanos| now.saturating_sub(before.measured_run_queue_wait.unwrap_or_default());
    ThreadUsage {
        total: thread_cpu(),
        measured: thread_cpu().saturating_sub(before.measured),
        measured_idle: idle.saturating_sub(before.measured_idle),
        measured_run_queue_wait: starved.map(waited),
        measured_time: Clock.now().since(Time(before.measured_time.0)),
        connections: 0,
        lost_connections: 0,
        down_connections: 0,
    }
}
