//! The traits by which an event loop of clients has its connections and its poll, so that it runs on sockets
//! ([`ClientSocket`], [`crate::SystemPoll`]) and in the memory of one process, without an indirect call.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use measure::{Nanos, Time};
use mio::{Registry, Token};

use crate::socket::{ClientSocket, Output, Readiness, Received, SocketError, SocketOptions};
use crate::tls::{Connector, TlsError};

/// How connections to a host are made.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// The address to connect from, where that matters.
    pub source: Option<IpAddr>,
    /// The TLS configuration; `None` for plain TCP.
    pub tls: Option<Arc<Connector>>,
}

/// A client's connection that never blocks; see [`crate::Socket`] for the order of calls.
pub trait ClientStream: Send + 'static {
    /// Whether it is connected by now; sets the options then.
    fn finish_connecting(&mut self, options: SocketOptions) -> io::Result<bool>;

    /// Takes what the poll says.
    fn notice(&mut self, readiness: Readiness);

    /// Whether there may be something to read.
    fn is_readable(&self) -> bool;

    /// Whether bytes to write are taken.
    fn is_writable(&self) -> bool;

    /// Encrypted bytes that wait to be written.
    fn unsent(&self) -> usize;

    /// Whether it is to be secured and the handshake is not over.
    fn is_being_secured(&self) -> bool;

    /// The address of the other side.
    fn peer_address(&self) -> io::Result<SocketAddr>;

    /// Reads once into `plain`; `cipher` is room for encrypted bytes.
    /// Errors: the connection's loss, and what TLS refuses.
    fn read(&mut self, cipher: &mut Vec<u8>, plain: &mut [u8]) -> Result<Received, SocketError>;

    /// Writes as much as is taken. Errors: the connection's loss.
    fn flush(&mut self, output: &mut impl Output) -> Result<(), SocketError>;

    /// Ends both sides.
    fn hang_up(&mut self);

    /// Whether what is queued now can be written at once.
    #[inline]
    fn is_clear(&self) -> bool {
        self.is_writable() && self.unsent() == 0
    }

    /// Error of a time-out or an end during the handshake.
    fn unfinished(&self, detail: impl Display) -> Option<TlsError> {
        self.is_being_secured().then(|| TlsError::Unfinished(detail.to_string()))
    }
}

/// Makes connections, and watches them.
pub trait Dial {
    /// A connection of it.
    type Stream: ClientStream;

    /// Starts to connect; `token` names the connection among the poll's events.
    fn dial(&self, address: SocketAddr, options: &ConnectOptions, token: usize) -> Result<Self::Stream, SocketError>;
}

/// How long an event loop does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// First until then, whatever its connections do.
    pub pause: Option<Time>,
    /// Then until this time, or until something happens; `None` only looks what has happened.
    pub until: Option<Time>,
}

/// The poll that an event loop waits in.
pub trait Poller: Dial + Send + 'static {
    /// Ends a wait from another thread.
    type Waker: Wake;

    /// A handle that wakes this poll.
    fn waker(&self) -> io::Result<Self::Waker>;

    /// Waits until a connection is ready or `sleep` is over.
    fn wait(&mut self, sleep: Sleep) -> io::Result<()>;

    /// Events of the last wait, with the connections' tokens; other tokens mean nothing.
    fn events(&self) -> impl Iterator<Item = (usize, Readiness)>;
}

/// Ends the wait of a [`Poller`].
pub trait Wake: Send + 'static {
    /// Wakes it.
    fn wake(&self) -> io::Result<()>;
}

impl Wake for mio::Waker {
    fn wake(&self) -> io::Result<()> {
        Self::wake(self)
    }
}

impl Dial for Registry {
    type Stream = ClientSocket;

    fn dial(&self, address: SocketAddr, options: &ConnectOptions, token: usize) -> Result<ClientSocket, SocketError> {
        let ConnectOptions { source, tls } = options;
        ClientSocket::connect(address, *source, tls.as_deref(), self, Token(token))
    }
}

impl ClientStream for ClientSocket {
    fn finish_connecting(&mut self, options: SocketOptions) -> io::Result<bool> {
        Self::finish_connecting(self, options)
    }

    #[inline]
    fn notice(&mut self, readiness: Readiness) {
        Self::notice(self, readiness);
    }

    #[inline]
    fn is_readable(&self) -> bool {
        Self::is_readable(self)
    }

    #[inline]
    fn is_writable(&self) -> bool {
        self.writable
    }

    #[inline]
    fn unsent(&self) -> usize {
        Self::unsent(self)
    }

    fn is_being_secured(&self) -> bool {
        Self::is_being_secured(self)
    }

    fn peer_address(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    #[inline]
    fn read(&mut self, cipher: &mut Vec<u8>, plain: &mut [u8]) -> Result<Received, SocketError> {
        Self::read(self, cipher, plain)
    }

    #[inline]
    fn flush(&mut self, output: &mut impl Output) -> Result<(), SocketError> {
        Self::flush(self, output)
    }

    fn hang_up(&mut self) {
        Self::hang_up(self);
    }
}

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
    pub const fn new(addresses: VecDeque<SocketAddr>, options: ConnectOptions, deadline: Time) -> Self {
        Self { untried: addresses, options, deadline, give_up: None }
    }

    /// Starts to connect to the next address that can be tried. Errors: there is none, or what is wrong with the last.
    pub fn connect<D: Dial>(&mut self, dial: &D, token: usize, now: Time) -> Result<D::Stream, SocketError> {
        loop {
            let Some(address) = self.untried.pop_front() else {
                return Err(io::Error::other("the host has no address (of the source addresses' kind)").into());
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
    pub fn has_more(&self) -> bool {
        !self.untried.is_empty()
    }

    /// Whether the time for all addresses is over.
    pub fn is_over(&self, now: Time) -> bool {
        now >= self.deadline
    }

    /// Whether it is time to try the next address.
    pub fn is_late(&self, now: Time) -> bool {
        self.give_up.is_some_and(|at| at <= now)
    }
}
