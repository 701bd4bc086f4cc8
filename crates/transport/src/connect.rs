//! An attempt to connect to a host: one of its addresses after the other, until one answers.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use measure::{Nanos, Time};

use crate::socket::SocketError;
use crate::stream::{ConnectOptions, Dial};

/// The addresses that are left to try, and how long the present one may take.
#[derive(Debug)]
pub struct ConnectAttempt {
    untried: VecDeque<SocketAddr>,
    options: ConnectOptions,
    /// All addresses together may take until then.
    deadline: Time,
    /// The present one may take until then, where others are left.
    give_up: Option<Time>,
}

impl ConnectAttempt {
    /// An attempt that tries `addresses` in their order, all of them until `deadline`.
    #[must_use]
    pub const fn new(
        addresses: VecDeque<SocketAddr>,
        options: ConnectOptions,
        deadline: Time,
    ) -> Self {
        Self {
            untried: addresses,
            options,
            deadline,
            give_up: None,
        }
    }

    /// Starts to connect to the next address that can be tried.
    ///
    /// # Errors
    /// There is none, or what is wrong with the last.
    pub fn connect<D: Dial>(
        &mut self,
        dial: &D,
        token: usize,
        now: Time,
    ) -> Result<D::Stream, SocketError> {
        loop {
            let Some(address) = self.untried.pop_front() else {
                return Err(no_address().into());
            };
            let left = self.untried.len() as u64;
            let each = Nanos(self.deadline.since(now).0 / (left + 1));
            self.give_up = (left > 0).then(|| now + each);
            match dial.dial(address, &self.options, token) {
                Err(SocketError::Io(_)) if left > 0 => {}
                connected => return connected,
            }
        }
    }

    /// Whether another address is left to try.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.untried.is_empty()
    }

    /// Whether the time for all addresses is over.
    #[must_use]
    pub fn is_over(&self, now: Time) -> bool {
        now >= self.deadline
    }

    /// Whether it is time to try the next address.
    #[must_use]
    pub fn is_late(&self, now: Time) -> bool {
        self.give_up.is_some_and(|at| at <= now)
    }
}

/// The error of a host name without an address, or with none that the source address can reach.
fn no_address() -> io::Error {
    io::Error::other("the host has no address (of the source addresses' kind)")
}
