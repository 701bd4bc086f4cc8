//! One connection, with TLS or without: bytes in, bytes out, and what the poll said of it.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, sockopt};
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;

use crate::tls::{CIPHER_BYTES, Connector, Session, Side, TlsError};

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This many plain bytes.
    Bytes(usize),
    /// Nothing at present.
    Nothing,
    /// The other side sends nothing more.
    End,
}

/// Plain bytes that are to be written.
pub trait Output {
    /// The bytes that wait.
    fn pending(&self) -> &[u8];
    /// The first `bytes` of them are on their way.
    fn consume(&mut self, bytes: usize);
}

/// Why a socket is of no more use.
#[derive(Debug)]
pub enum SocketError {
    /// The system's error.
    Io(io::Error),
    /// The connection is not secured, or not any more.
    Tls(TlsError),
}

impl SocketError {
    /// Whether the connection just ended: what the other side said before may say why.
    pub const fn is_loss(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Tls(TlsError::Unfinished(_)))
    }
}

impl From<io::Error> for SocketError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<TlsError> for SocketError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

/// Options of a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// `SO_SNDBUF` in bytes; `None` leaves it to the system.
    pub send_buffer: Option<usize>,
    /// `SO_RCVBUF` in bytes; `None` leaves it to the system.
    pub receive_buffer: Option<usize>,
    /// `TCP_NODELAY`: small pieces are sent at once. Otherwise Nagle's algorithm is measured, too.
    pub no_delay: bool,
}

impl Default for SocketOptions {
    /// The system's buffers, without Nagle's algorithm.
    fn default() -> Self {
        Self { send_buffer: None, receive_buffer: None, no_delay: true }
    }
}

/// A client's socket.
pub type ClientSocket = Socket<UnbufferedClientConnection>;
/// A server's socket.
pub type ServerSocket = Socket<UnbufferedServerConnection>;

/// One connection's socket, registered with a poll (edge-triggered). Order of calls: [`Socket::notice`] with each
/// event; [`Socket::read`] while [`Socket::is_readable`]; [`Socket::flush`] after something was queued.
pub struct Socket<S> {
    pub(crate) stream: TcpStream,
    session: Option<Box<Session<S>>>,
    readable: bool,
    /// Whether the system takes bytes to write.
    pub(crate) writable: bool,
    read_closed: bool,
    /// TLS has failed: what still comes is read and thrown away.
    discards: bool,
}

impl ClientSocket {
    /// Starts to connect, from the address `source` where that matters.
    pub fn connect(
        address: SocketAddr,
        source: Option<IpAddr>,
        tls: Option<&Connector>,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, SocketError> {
        let stream = match source {
            None => TcpStream::connect(address)?,
            Some(source) => connect_from(source, address)?,
        };
        let session = tls.map(Connector::session).transpose()?;
        Ok(Self::new(stream, session, false, registry, token)?)
    }

    /// Whether it is connected by now; sets the options then.
    /// Errors: why no connection came about, or an option that the system refuses.
    pub fn finish_connecting(&mut self, options: SocketOptions) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        if self.writable {
            self.stream.set_nodelay(options.no_delay)?;
            if let Some(bytes) = options.send_buffer {
                sockopt::set_socket_send_buffer_size(&self.stream, bytes)?;
            }
            if let Some(bytes) = options.receive_buffer {
                sockopt::set_socket_recv_buffer_size(&self.stream, bytes)?;
            }
        }
        Ok(self.writable)
    }
}

impl ServerSocket {
    /// Takes a connection that a listener accepted. Errors: the poll does not watch it.
    pub fn accept(
        stream: TcpStream,
        session: Option<Session<UnbufferedServerConnection>>,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        // Answers are small and awaited; a socket that cannot do without delay still works.
        let _ = stream.set_nodelay(true);
        Self::new(stream, session, true, registry, token)
    }
}

impl<S: Side> Socket<S> {
    fn new(
        mut stream: TcpStream,
        session: Option<Session<S>>,
        writable: bool,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let session = session.map(Box::new);
        Ok(Self { stream, session, readable: false, writable, read_closed: false, discards: false })
    }

    /// Takes what the poll says.
    #[inline]
    pub fn notice(&mut self, readiness: Readiness) {
        self.readable |= readiness.is_readable;
        self.writable |= readiness.is_writable;
        self.read_closed |= readiness.is_read_closed;
    }

    /// Whether there may be something to read.
    #[inline]
    pub const fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether the other side has sent its last byte, which may not be read yet.
    #[inline]
    pub const fn is_read_closed(&self) -> bool {
        self.read_closed
    }

    /// Encrypted bytes that wait to be written.
    #[inline]
    pub fn unsent(&self) -> usize {
        let pending = |session: &Session<S>| session.pending().len();
        self.session.as_deref().map_or(0, pending)
    }

    /// Whether it is to be secured and the handshake is not over.
    pub fn is_being_secured(&self) -> bool {
        let session = self.session.as_deref();
        session.is_some_and(|session| !session.is_open())
    }

    /// The session, once its handshake is over.
    pub fn session(&self) -> Option<&Session<S>> {
        self.session.as_deref().filter(|session| session.is_open())
    }

    /// Reads once into `plain`; `cipher` is room for encrypted bytes, which all sockets of a thread share. Errors: the
    /// connection's loss, and what TLS refuses. After the latter the alert waits to be written ([`Socket::unsent`]),
    /// and further reads throw away what comes.
    #[inline]
    pub fn read(&mut self, cipher: &mut Vec<u8>, plain: &mut [u8]) -> Result<Received, SocketError> {
        if self.session.is_some() { self.read_sealed(cipher, plain) } else { Ok(self.read_raw(plain)?) }
    }

    #[inline]
    fn read_raw(&mut self, room: &mut [u8]) -> io::Result<Received> {
        // The system's call itself: a C library's keeps no frame pointer, and hides callers where no stack is copied.
        let received = recv(&self.stream, &mut *room, RecvFlags::empty());
        match received.map_err(io::Error::from) {
            Ok((0, _)) => Ok(Received::End),
            Ok((n, _)) => {
                // Less than requested: the socket is empty, and will say when it is not.
                self.readable = n == room.len() || self.read_closed;
                Ok(Received::Bytes(n))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(Received::Nothing)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    fn read_sealed(&mut self, cipher: &mut Vec<u8>, plain: &mut [u8]) -> Result<Received, SocketError> {
        if self.discards {
            return Ok(match self.read_raw(plain)? {
                Received::Bytes(_) => Received::Nothing,
                received => received,
            });
        }
        let Some(mut session) = self.session.take() else { return Ok(Received::Nothing) };
        cipher.resize(CIPHER_BYTES, 0);
        // No longer than `plain`, because plain bytes are never more than encrypted ones. Beside the
        // largest frame that is half there `plain` has all but a few bytes of this room.
        let size = cipher.len().min(plain.len());
        let buffer = cipher.get_mut(..size).unwrap_or_default();
        let received = if session.has_ended() { Ok(Received::End) } else { self.read_raw(session.room(buffer)) };
        let unfinished = |why: &dyn Display| Err(TlsError::Unfinished(why.to_string()).into());
        let result = match received {
            Ok(Received::Bytes(read)) => match session.receive(buffer, read, plain) {
                Ok(0) => Ok(Received::Nothing),
                Ok(plain) => Ok(Received::Bytes(plain)),
                Err(error) => {
                    self.discards = true;
                    Err(error.into())
                }
            },
            Ok(Received::End) if !session.is_open() => unfinished(&"the other side ended the connection"),
            Err(error) if !session.is_open() => unfinished(&error),
            Ok(received) => Ok(received),
            Err(error) => Err(error.into()),
        };
        // The end that came with the last bytes is found by the next read.
        self.readable |= session.has_ended();
        self.session = Some(session);
        result
    }

    /// Writes as much as the system takes. With TLS no more is sealed than is written at once, so that what waits is
    /// where everybody looks for it: in `output`. Errors: the connection's loss.
    #[inline]
    pub fn flush(&mut self, output: &mut impl Output) -> Result<(), SocketError> {
        if self.session.is_some() {
            return self.flush_sealed(output);
        }
        while self.writable {
            let pending = output.pending();
            if pending.is_empty() {
                break;
            }
            let written = write_raw(&self.stream, &mut self.writable, pending)?;
            if written > 0 {
                output.consume(written);
            }
        }
        Ok(())
    }

    fn flush_sealed(&mut self, output: &mut impl Output) -> Result<(), SocketError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        while self.writable {
            if session.pending().is_empty() {
                let sealed = session.seal(output.pending())?;
                if sealed > 0 {
                    output.consume(sealed);
                }
                if session.pending().is_empty() {
                    break;
                }
            }
            match write_raw(&self.stream, &mut self.writable, session.pending()) {
                Ok(written) => session.consume(written),
                Err(error) if session.is_open() => return Err(error.into()),
                Err(error) => return Err(TlsError::Unfinished(error.to_string()).into()),
            }
        }
        Ok(())
    }

    /// Queues the word that nothing more is sent (`close_notify`), where the connection is secured.
    pub fn say_end(&mut self) {
        if let Some(session) = &mut self.session {
            session.say_end();
        }
    }

    /// Ends our side; the other may go on sending.
    pub fn shut_down(&mut self) {
        // Fails only where the other side has gone already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends both sides.
    pub fn hang_up(&mut self) {
        self.readable = false;
        self.writable = false;
        self.read_closed = false;
        self.session = None;
        // Fails only where the other side has gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Ends the connection by a reset: the other side loses what it has not read.
    pub fn reset(self) {
        // Where it fails the connection ends all the same.
        let _ = sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
    }
}

/// How much was written; 0 when the socket takes nothing at present.
#[inline]
fn write_raw(stream: &TcpStream, writable: &mut bool, bytes: &[u8]) -> io::Result<usize> {
    match send(stream, bytes, SendFlags::NOSIGNAL).map_err(io::Error::from) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            *writable = false;
            Ok(0)
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
        result => result,
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
        io::Error::new(error.kind(), format!("cannot use the source address {source}: {error}"))
    })?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(TcpStream::from_std(socket.into()))
}

/// Whether a connection can be read and written, as a poll tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There may be something to read, if only an end or an error.
    pub is_readable: bool,
    /// Bytes to write are taken.
    pub is_writable: bool,
    /// The other side has sent its last byte.
    pub is_read_closed: bool,
}

impl From<&Event> for Readiness {
    #[inline]
    fn from(event: &Event) -> Self {
        let (is_error, is_read_closed) = (event.is_error(), event.is_read_closed());
        Self {
            is_readable: event.is_readable() || is_read_closed || is_error,
            is_writable: event.is_writable() || is_error,
            is_read_closed: is_read_closed || is_error,
        }
    }
}
