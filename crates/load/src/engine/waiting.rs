//! What producers wait for and what event loops have time for: the evidence for who limits a run. All
//! of it comes from the clock readings that the loop takes anyway.

use std::io::Read;

use measure::{Nanos, Time, Wait};

use super::client::{Client, ConnectionState};
use super::context::{Context, Tally};
use super::producer::SendState;

/// What left so long after its time was late; waking up takes a part of that always.
const LATE: Nanos = Nanos::from_millis(1);

impl Client {
    /// Notes what the time since the last call went into, and what the next will go into.
    #[inline]
    pub(super) fn account(&mut self, send_state: SendState, context: &mut Context<'_>) {
        let Some((wait, since)) = self.waiting else {
            return;
        };
        let now = context.tally.last_now;
        self.note(wait, since, context);
        self.waiting = Some((self.waits_for(send_state), now.max(since)));
        self.due = match send_state {
            SendState::Until(due) => Some(due),
            _ => None,
        };
    }

    /// Brings the account up to date, so that a long wait shows in every second of it.
    pub(crate) fn account_so_far(&mut self, context: &mut Context<'_>) {
        if let Some((wait, since)) = self.waiting {
            let now = context.tally.last_now;
            self.note(wait, since, context);
            let wait = if self.state == ConnectionState::Broken {
                Wait::Away
            } else {
                wait
            };
            self.waiting = Some((wait, now.max(since)));
        }
    }

    /// A message that the event loop comes to late waited for the schedule until it was due, and for
    /// the event loop from then on.
    #[inline]
    fn note(&self, wait: Wait, since: Time, context: &mut Context<'_>) {
        let now = context.tally.last_now;
        let waits = &mut context.series.current().waits;
        match self.due {
            Some(due) if wait == Wait::Schedule && now > due + LATE => {
                waits.note(Wait::Schedule, due.since(since));
                waits.note(Wait::Ready, now.since(due.max(since)));
            }
            _ => waits.note(wait, now.since(since)),
        }
    }

    fn waits_for(&self, send_state: SendState) -> Wait {
        match (self.state, send_state) {
            (ConnectionState::Running, _) if self.withheld => Wait::Blocked,
            (ConnectionState::Running, SendState::Full) => Wait::Budget,
            (ConnectionState::Running, _) if !self.may_write() => Wait::Socket,
            (ConnectionState::Running, SendState::More) => Wait::Ready,
            (ConnectionState::Running, SendState::Until(_) | SendState::Idle) => Wait::Schedule,
            _ => Wait::Away,
        }
    }
}

/// What a thread has spent, or spent in a span of time.
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
    #[cold]
    pub(crate) fn now(tally: &Tally) -> Self {
        Self {
            cpu: thread_cpu(),
            idle: tally.idle,
            run_queue_wait: run_queue_wait(),
            at: tally.last_now,
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
