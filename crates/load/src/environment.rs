//! Where a load runs: its clock, its connections, and what runs beside each other. [`System`] is this
//! machine. Tests bring one in which time is a number and connections are memory, so that a whole load
//! runs in one thread, without a socket and without a sleep.
//!
//! The engine is compiled for each environment: for [`System`] every call is what it stands for.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use measure::{Clock, Time, wall_clock_unix_ns};
use transport::{Poller, Sleep, SystemPoll};

use crate::thread_time::{self, ThreadTime};

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

    /// A poll that hands over at most so many events at once.
    ///
    /// # Errors
    /// The system has none to give.
    fn poll(&self, events: usize) -> io::Result<Self::Poll>;

    /// Runs an event loop to its end.
    ///
    /// # Errors
    /// The system has no thread to give.
    fn run_loop(&self, name: String, event_loop: impl EventLoop) -> io::Result<Self::Task>;

    /// Does something that may wait for a broker, beside the coordinator.
    ///
    /// # Errors
    /// The system has no thread to give.
    fn run_beside(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self::Task>;

    /// Takes one value, if one comes in time.
    ///
    /// # Errors
    /// None came, or none will come.
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
        ThreadTime {
            cpu: thread_time::thread_cpu(),
            run_queue_wait: thread_time::run_queue_wait(),
        }
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

    fn run_beside(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
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
