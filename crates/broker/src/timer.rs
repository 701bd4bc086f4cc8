//! A timer of nanosecond resolution; `epoll`'s own time-out counts milliseconds.

use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd};

use measure::Time;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::Error;

/// Wakes the event loop at a given time.
pub(crate) struct Timer {
    fd: OwnedFd,
    armed: Time,
}

impl Timer {
    pub(crate) fn new(registry: &Registry, token: Token) -> Result<Self, Error> {
        // Best effort: without it sleeps of this thread are up to 50 us longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let failed = |source| Error::EventLoop {
            what: "create a timer",
            source,
        };
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|errno| failed(errno.into()))?;
        registry
            .register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)
            .map_err(failed)?;
        Ok(Self { fd, armed: Time(0) })
    }

    /// Wakes the poll at `at`. Nothing needs to be read: every expiry is an event of its own.
    pub(crate) fn arm(&mut self, at: Time) -> Result<(), Error> {
        if at == self.armed {
            return Ok(());
        }
        self.armed = at;
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let time = Itimerspec {
            it_interval: zero,
            it_value: timespec(at),
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &time)
            .map(drop)
            .map_err(|errno| Error::EventLoop {
                what: "set a timer",
                source: errno.into(),
            })
    }
}

/// Sleeps without looking at anything.
pub(crate) fn sleep_until(at: Time) {
    // An early return only means another look at the clock.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(at));
}

fn timespec(at: Time) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(at.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (at.0 % 1_000_000_000) as _,
    }
}
