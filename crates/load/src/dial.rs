//! An attempt to connect to a node: one of its addresses after the other, until one answers.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use measure::{Nanos, Time};
use mio::{Registry, Token};

use crate::engine::socket::{Failure, Route, Socket};
use crate::resolve::Addresses;
use crate::tls::Connector;

/// The addresses that are left to try, and until when the present one may take.
#[derive(Debug)]
pub(crate) struct Attempt {
    untried: VecDeque<SocketAddr>,
    source: Option<IpAddr>,
    tls: Option<Arc<Connector>>,
    /// All of them together may take this long.
    deadline: Time,
    /// Where others are left.
    give_up: Option<Time>,
}

impl Attempt {
    /// Of the `turn`-th connection to a node.
    pub(crate) fn new(
        addresses: &Addresses,
        (turn, source): (usize, Option<IpAddr>),
        tls: Option<Arc<Connector>>,
        deadline: Time,
    ) -> Self {
        Self {
            untried: addresses.in_turn(turn, source),
            source,
            tls,
            deadline,
            give_up: None,
        }
    }

    /// Begins to connect to the next address that can be tried.
    ///
    /// # Errors
    /// There is none, or what is wrong with the last.
    pub(crate) fn dial(
        &mut self,
        registry: &Registry,
        token: Token,
        now: Time,
    ) -> Result<Socket, Failure> {
        loop {
            let Some(address) = self.untried.pop_front() else {
                return Err(Failure::Transport(no_address()));
            };
            let left = self.untried.len() as u64;
            let each = Nanos(self.deadline.since(now).0 / (left + 1));
            self.give_up = (left > 0).then(|| now + each);
            let route = Route {
                address,
                source: self.source,
                tls: self.tls.clone(),
            };
            match Socket::dial(&route, registry, token) {
                Err(Failure::Transport(_)) if left > 0 => {}
                dialled => return dialled,
            }
        }
    }

    /// Whether another address is left to try.
    pub(crate) fn has_more(&self) -> bool {
        !self.untried.is_empty()
    }

    /// Whether it is time to try the next address.
    pub(crate) fn is_late(&self, now: Time) -> bool {
        self.give_up.is_some_and(|at| at <= now)
    }
}

/// What it means that a name has no address, or none that the source addresses can reach.
pub(crate) fn no_address() -> io::Error {
    io::Error::other("the host has no address (of the source addresses' kind)")
}
