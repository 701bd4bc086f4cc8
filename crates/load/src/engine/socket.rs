//! A client's socket, with TLS or without: bytes in, bytes out, and what the poll said of it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::Arc;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use wire::amqp091::Client;
use wire::tls::CIPHER_BYTES;

use crate::protocol::amqp091::Connection;
use crate::resolve::Addresses;
use crate::tls::{ClientSession, Connector, Fault};
use crate::{ConnectionSettings, Endpoint};

/// Where to connect to, and how.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) address: SocketAddr,
    /// Where from, where that matters.
    pub(crate) source: Option<IpAddr>,
    /// Where it is secured.
    pub(crate) tls: Option<Arc<Connector>>,
}

/// A node, and the way to it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    pub(crate) addresses: Arc<Addresses>,
    /// Where it is secured.
    pub(crate) tls: Option<Arc<Connector>>,
}

/// The nodes of a group's broker; at least one.
pub(crate) type Nodes = Arc<[Node]>;

/// What a read brought.
pub(crate) enum Received {
    /// So many plain bytes.
    Bytes(usize),
    Nothing,
    /// The other side has ended.
    End,
}

/// Where plain bytes come from that are to be written.
pub(crate) trait Output {
    fn pending(&self) -> &[u8];
    /// So many of them were taken.
    fn consume(&mut self, bytes: usize);
}

impl Output for Connection {
    #[inline]
    fn pending(&self) -> &[u8] {
        self.pending_output()
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.consume_output(bytes);
    }
}

impl Output for Client {
    fn pending(&self) -> &[u8] {
        self.pending_output()
    }

    fn consume(&mut self, bytes: usize) {
        self.consume_output(bytes);
    }
}

/// Why a socket is of no more use.
#[derive(Debug)]
pub(crate) enum Failure {
    Transport(io::Error),
    Tls(Fault),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Transport(error)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Tls(fault)
    }
}

pub(crate) struct Socket {
    stream: TcpStream,
    session: Option<Box<ClientSession>>,
    readable: bool,
    pub(crate) writable: bool,
    read_closed: bool,
}

impl Socket {
    /// Starts to connect.
    pub(crate) fn dial(route: &Route, registry: &Registry, token: Token) -> Result<Self, Failure> {
        let mut stream = match route.source {
            None => TcpStream::connect(route.address)?,
            Some(source) => connect_from(source, route.address)?,
        };
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let session = match &route.tls {
            None => None,
            Some(connector) => Some(Box::new(connector.session()?)),
        };
        Ok(Self {
            stream,
            session,
            readable: false,
            writable: false,
            read_closed: false,
        })
    }

    /// Takes what the poll says.
    pub(crate) fn notice(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_error();
        self.read_closed |= event.is_read_closed() || event.is_error();
    }

    /// Whether it is connected by now.
    pub(crate) fn finish_connecting(&mut self, wanted: ConnectionSettings) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        if self.writable {
            self.stream.set_nodelay(wanted.no_delay)?;
            if let Some(bytes) = wanted.send_buffer {
                rustix::net::sockopt::set_socket_send_buffer_size(&self.stream, bytes)?;
            }
            if let Some(bytes) = wanted.receive_buffer {
                rustix::net::sockopt::set_socket_recv_buffer_size(&self.stream, bytes)?;
            }
        }
        Ok(self.writable)
    }

    /// There may be something to read.
    #[inline]
    pub(crate) const fn is_readable(&self) -> bool {
        self.readable
    }

    /// What is encoded now can be written at once.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.writable && self.unsent() == 0
    }

    /// Encrypted bytes that wait to be written.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.session
            .as_ref()
            .map_or(0, |session| session.pending().len())
    }

    /// Whether it is to be secured and is not yet.
    pub(crate) fn is_being_secured(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| !session.is_open())
    }

    /// Reads once into `plain`; `cipher` is room for encrypted bytes.
    #[inline]
    pub(crate) fn read(
        &mut self,
        cipher: &mut Vec<u8>,
        plain: &mut [u8],
    ) -> Result<Received, Failure> {
        if self.session.is_some() {
            return self.read_sealed(cipher, plain);
        }
        match self.read_raw(plain)? {
            None => Ok(Received::Nothing),
            Some(0) => Ok(Received::End),
            Some(n) => Ok(Received::Bytes(n)),
        }
    }

    /// `None` when there is nothing at present, 0 at the end.
    #[inline]
    fn read_raw(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match self.stream.read(room) {
            Ok(n) => {
                // Less than asked for: the socket is empty, and will say when it is not.
                self.readable = n == room.len() || self.read_closed;
                Ok(Some(n))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(None)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_sealed(&mut self, cipher: &mut Vec<u8>, plain: &mut [u8]) -> Result<Received, Failure> {
        let Some(mut session) = self.session.take() else {
            return Ok(Received::Nothing);
        };
        cipher.resize(CIPHER_BYTES, 0);
        // No longer than `plain`, because plain bytes are never more than encrypted ones. Beside the
        // largest frame that is half there `plain` has all but a few bytes of this room.
        let size = cipher.len().min(plain.len());
        let buffer = cipher.get_mut(..size).unwrap_or_default();
        let result = match self.read_raw(session.room(buffer)) {
            Err(error) => Err(error.into()),
            Ok(None) => Ok(Received::Nothing),
            Ok(Some(0)) => Ok(Received::End),
            Ok(Some(read)) => match session.receive(buffer, read, plain) {
                Err(fault) => Err(fault.into()),
                Ok(0) if session.has_ended() => Ok(Received::End),
                Ok(0) => Ok(Received::Nothing),
                Ok(n) => Ok(Received::Bytes(n)),
            },
        };
        self.session = Some(session);
        result
    }

    /// Writes as much as the socket takes.
    #[inline]
    pub(crate) fn flush(&mut self, output: &mut impl Output) -> Result<(), Failure> {
        if self.session.is_some() {
            return self.flush_sealed(output);
        }
        while self.writable {
            let pending = output.pending();
            if pending.is_empty() {
                break;
            }
            if let Some(n) = write_raw(&mut self.stream, &mut self.writable, pending)? {
                output.consume(n);
            }
        }
        Ok(())
    }

    /// Seals no more than is written at once, so that what waits is where everybody looks for it.
    fn flush_sealed(&mut self, output: &mut impl Output) -> Result<(), Failure> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        while self.writable {
            if session.pending().is_empty() {
                let taken = session.seal(output.pending())?;
                output.consume(taken);
                if session.pending().is_empty() {
                    break;
                }
            }
            if let Some(n) = write_raw(&mut self.stream, &mut self.writable, session.pending())? {
                session.consume(n);
            }
        }
        Ok(())
    }

    /// Drops the connection.
    pub(crate) fn hang_up(&mut self) {
        self.readable = false;
        self.writable = false;
        self.read_closed = false;
        self.session = None;
        // Fails only where the other side has gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// `None` when the socket takes nothing at present.
#[inline]
fn write_raw(
    stream: &mut TcpStream,
    writable: &mut bool,
    bytes: &[u8],
) -> io::Result<Option<usize>> {
    match stream.write(bytes) {
        Ok(n) => Ok(Some(n)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            *writable = false;
            Ok(None)
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

/// Connects from an address of this machine's: each has some 28,000 ports of its own.
fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    let family = match source {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(source, 0)).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(
            error.kind(),
            format!("cannot use the source address {source}: {error}"),
        )
    })?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(TcpStream::from_std(socket.into()))
}
