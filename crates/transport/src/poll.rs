//! The system's poll for one event loop of clients, with the timer and the waker that it needs.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use mio::{Events, Poll, Token, Waker};

use crate::readiness::Readiness;
use crate::socket::{ClientSocket, SocketError};
use crate::stream::{ConnectOptions, Dial, Poller, Sleep};
use crate::timer::{Timer, sleep_until};

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
    /// A poll that hands over at most so many events at once.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new(events: usize) -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::register(poll.registry(), TIMER)?;
        Ok(Self {
            poll,
            events: Events::with_capacity(events),
            timer,
        })
    }
}

impl Dial for SystemPoll {
    type Stream = ClientSocket;

    fn dial(
        &self,
        address: SocketAddr,
        options: &ConnectOptions,
        token: usize,
    ) -> Result<ClientSocket, SocketError> {
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
        let timeout = match sleep.until {
            Some(until) => {
                self.timer.arm(until)?;
                None
            }
            None => Some(Duration::ZERO),
        };
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
        self.events
            .iter()
            .map(|event| (event.token().0, Readiness::from(event)))
    }
}
