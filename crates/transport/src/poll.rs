//! The system's poll for one event loop of clients, with the waker that it needs, and a timer of nanosecond resolution;
//! `epoll`'s own time-out counts milliseconds.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use measure::Time;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::socket::{ClientSocket, Readiness, SocketError};
use crate::stream::{ConnectOptions, Dial, Poller, Sleep};

const TIMER: Token = Token(usize::MAX - 1);
const WAKER: Token = Token(usize::MAX);

/// A poll of sockets that wakes at a nanosecond.
#[derive(Debug)]
pub struct SystemPoll {
    poll: Poll,
    events: Events,
    timer: Timer,
}

impl SystemPoll {
    /// A poll that hands over at most so many events at once. Errors: no file descriptor is left.
    pub fn new(events: usize) -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::register(poll.registry(), TIMER)?;
        Ok(Self { poll, events: Events::with_capacity(events), timer })
    }
}

impl Dial for SystemPoll {
    type Stream = ClientSocket;

    fn dial(&self, address: SocketAddr, options: &ConnectOptions, token: usize) -> Result<ClientSocket, SocketError> {
        self.poll.registry().dial(address, options, token)
    }
}

impl Poller for SystemPoll {
    type Waker = Waker;

    fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), WAKER)
    }

    #[inline]
    fn wait(&mut self, sleep: Sleep) -> io::Result<()> {
        if let Some(pause) = sleep.pause {
            sleep_until(pause);
        }
        if let Some(until) = sleep.until {
            self.timer.arm(until)?;
        }
        let timeout = sleep.until.is_none().then_some(Duration::ZERO);
        match self.poll.poll(&mut self.events, timeout) {
            // Stopped and continued by a signal: what is in the sockets now came meanwhile.
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                let _ = self.poll.poll(&mut self.events, Some(Duration::ZERO));
                Ok(())
            }
            result => result,
        }
    }

    #[inline]
    fn events(&self) -> impl Iterator<Item = (usize, Readiness)> {
        self.events.iter().map(|event| (event.token().0, Readiness::from(event)))
    }
}

/// A `timerfd` on the clock of [`measure::Clock`] that wakes its poll at a given time. It is
/// edge-triggered, so nothing needs to be read: every expiry is an event of its own.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
    armed: Time,
}

impl Timer {
    /// A timer that is not set, for this thread's poll. Errors: no file descriptor is left.
    pub fn register(registry: &Registry, token: Token) -> io::Result<Self> {
        // Best effort: without it sleeps of this thread are up to 50 us longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { fd, armed: Time(0) })
    }

    /// Sets the timer to `at`, in place of the time that was set before. Errors: the kernel refuses the time.
    pub fn arm(&mut self, at: Time) -> io::Result<()> {
        if at == self.armed {
            return Ok(());
        }
        self.armed = at;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval: zero, it_value: timespec(at) };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &time)?;
        Ok(())
    }
}

/// Puts the thread to sleep until `at`, whatever its sockets do.
pub fn sleep_until(at: Time) {
    // An early return only means another look at the clock.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(at));
}

fn timespec(at: Time) -> Timespec {
    Timespec { tv_sec: i64::try_from(at.0 / 1_000_000_000).unwrap_or(i64::MAX), tv_nsec: (at.0 % 1_000_000_000) as _ }
}
