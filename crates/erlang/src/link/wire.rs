//! A socket, with TLS or without, that is read and written as if it blocked, until a deadline: what the
//! handshakes of `erl_dist` run on. Once they are over the I/O thread takes it.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_io::{AsyncRead, AsyncWrite};
use mio::{Events, Token};
use transport::tls::{CIPHER_BYTES, Connector, TlsError};
use transport::{ClientSocket, Output, Received, SocketError, SocketOptions};

pub(super) const SOCKET: Token = Token(0);
pub(super) const WAKE: Token = Token(1);

/// Bytes that wait to be written.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    head: usize,
}

impl Outgoing {
    /// Takes bytes over, and leaves `bytes` empty.
    pub(super) fn append(&mut self, bytes: &mut Vec<u8>) {
        if self.pending().is_empty() {
            self.bytes.clear();
            self.head = 0;
            std::mem::swap(&mut self.bytes, bytes);
        } else {
            self.bytes.append(bytes);
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

impl Output for Outgoing {
    fn pending(&self) -> &[u8] {
        self.bytes.get(self.head..).unwrap_or_default()
    }

    fn consume(&mut self, bytes: usize) {
        self.head += bytes;
        if self.head >= self.bytes.len() {
            self.bytes.clear();
            self.head = 0;
        }
    }
}

/// A socket, and what was read and not used.
pub(super) struct Wire {
    pub(super) poll: mio::Poll,
    pub(super) events: Events,
    pub(super) socket: ClientSocket,
    pub(super) cipher: Vec<u8>,
    pub(super) plain: Vec<u8>,
    pub(super) outgoing: Outgoing,
    /// The part of `plain` that was read and not used.
    unused: (usize, usize),
    deadline: Instant,
    heard: Arc<AtomicU64>,
}

/// The addresses of a host, looked up by a thread, since the system knows no time-out. An error after the deadline.
pub(super) fn resolve(host: &str, port: u16, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    let (sender, receiver) = mpsc::channel();
    let (host, left) = (host.to_owned(), deadline.saturating_duration_since(Instant::now()));
    thread::Builder::new().name("bellows-resolve".into()).spawn(move || {
        let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // Nobody waits any more after the deadline.
        let _ = sender.send(found);
    })?;
    let found: Vec<SocketAddr> = receiver.recv_timeout(left).map_err(|_| timed_out())??;
    if found.is_empty() { Err(io::Error::other("no address is known")) } else { Ok(found) }
}

impl Wire {
    /// Connects to the first of the addresses that answers. An error says why the last one does not.
    pub(super) fn connect(
        addresses: &[SocketAddr],
        tls: Option<&Connector>,
        deadline: Instant,
    ) -> Result<Self, SocketError> {
        let mut last = SocketError::Io(io::Error::other("there is no address"));
        for (i, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let others = u32::try_from(addresses.len() - i).unwrap_or(1);
            let until = Instant::now() + left / others;
            match Self::connect_to(*address, tls, until) {
                Ok(mut wire) => {
                    wire.deadline = deadline;
                    return Ok(wire);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn connect_to(address: SocketAddr, tls: Option<&Connector>, until: Instant) -> Result<Self, SocketError> {
        let poll = mio::Poll::new()?;
        let socket = ClientSocket::connect(address, None, tls, poll.registry(), SOCKET)?;
        let mut wire = Self {
            poll,
            events: Events::with_capacity(16),
            socket,
            cipher: Vec::new(),
            plain: vec![0; CIPHER_BYTES],
            outgoing: Outgoing::default(),
            unused: (0, 0),
            deadline: until,
            heard: Arc::default(),
        };
        while !wire.socket.finish_connecting(SocketOptions::default())? {
            wire.wait()?;
        }
        while wire.socket.is_being_secured() {
            wire.secure()?;
        }
        Ok(wire)
    }

    /// A step of TLS' handshake.
    fn secure(&mut self) -> Result<(), SocketError> {
        self.socket.flush(&mut self.outgoing)?;
        if self.socket.is_readable() {
            return match self.socket.read(&mut self.cipher, &mut self.plain) {
                Ok(Received::Bytes(count)) => {
                    self.unused = (0, count);
                    Ok(())
                }
                Ok(Received::Nothing) => Ok(()),
                Ok(Received::End) => Err(TlsError::Unfinished("the end came first".into()).into()),
                Err(error) => {
                    // The alert that says why; the connection is of no more use.
                    let _ = self.socket.flush(&mut self.outgoing);
                    Err(error)
                }
            };
        }
        match self.wait() {
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Err(TlsError::Unfinished("nothing came in time".into()).into())
            }
            waited => Ok(waited?),
        }
    }

    /// Waits for the socket, until the deadline.
    fn wait(&mut self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(timed_out()) } else { self.poll_once(Some(left)) }
    }

    /// Waits for the socket or the waker.
    pub(super) fn poll_once(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &self.events {
            if event.token() == SOCKET {
                self.socket.notice(event.into());
            }
        }
        Ok(())
    }

    /// Reads once; what came is in [`Wire::unused`].
    pub(super) fn fill(&mut self) -> Result<Received, SocketError> {
        let received = self.socket.read(&mut self.cipher, &mut self.plain)?;
        if let Received::Bytes(count) = received {
            self.unused = (0, count);
        }
        Ok(received)
    }

    /// Bytes read and not used.
    pub(super) fn unused(&self) -> &[u8] {
        let (start, end) = self.unused;
        self.plain.get(start..end).unwrap_or_default()
    }

    pub(super) const fn use_all(&mut self) {
        self.unused = (0, 0);
    }

    /// Counts the bytes that a handshake has read, for those who want to know how far a handshake got.
    pub(super) fn heard(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.heard)
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, SocketError> {
        loop {
            let unused = self.unused();
            if !unused.is_empty() {
                let count = unused.len().min(buffer.len());
                let (from, to) = (unused.get(..count), buffer.get_mut(..count));
                if let (Some(from), Some(to)) = (from, to) {
                    to.copy_from_slice(from);
                }
                self.unused.0 += count;
                self.heard.fetch_add(count as u64, Ordering::Relaxed);
                return Ok(count);
            }
            if !self.socket.is_readable() {
                self.wait()?;
                continue;
            }
            if self.fill()? == Received::End {
                return Ok(0);
            }
        }
    }

    fn flush_all(&mut self) -> Result<(), SocketError> {
        loop {
            self.socket.flush(&mut self.outgoing)?;
            if self.outgoing.pending().is_empty() && self.socket.unsent() == 0 {
                return Ok(());
            }
            self.wait()?;
        }
    }
}

/// A [`Wire`] for the futures of `erl_dist`. Over Erlang's own TLS, which has packets of one kind only, messages of a
/// handshake are `wide`: their lengths have four bytes, where `erl_dist` reads and writes two.
pub(super) struct Dialogue {
    pub(super) wire: Wire,
    is_wide: bool,
    written: Vec<u8>,
    /// The rest of a length of two bytes, and the bytes of the message after it.
    head: [u8; 2],
    heads: usize,
    left: usize,
}

impl Dialogue {
    pub(super) const fn new(wire: Wire, is_wide: bool) -> Self {
        Self { wire, is_wide, written: Vec::new(), head: [0; 2], heads: 0, left: 0 }
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_wide {
            return self.wire.read_some(buffer).map_err(as_io);
        }
        if self.heads == 0 && self.left == 0 {
            let mut length = [0; 4];
            for byte in &mut length {
                if self.wire.read_some(std::slice::from_mut(byte)).map_err(as_io)? == 0 {
                    return Ok(0);
                }
            }
            let [0, 0, high, low] = length else {
                let size = u32::from_be_bytes(length);
                return Err(io::Error::other(format!("a message of the handshake has {size} bytes")));
            };
            self.head = [high, low];
            self.heads = 2;
            self.left = usize::from(u16::from_be_bytes(self.head));
        }
        if self.heads > 0 {
            let Some(first) = buffer.first_mut() else { return Ok(0) };
            *first = self.head[2 - self.heads];
            self.heads -= 1;
            return Ok(1);
        }
        let most = buffer.len().min(self.left);
        let read = self.wire.read_some(buffer.get_mut(..most).unwrap_or_default()).map_err(as_io)?;
        self.left -= read;
        Ok(read)
    }
}

impl AsyncRead for Dialogue {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.get_mut().read_some(buffer))
    }
}

impl AsyncWrite for Dialogue {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    /// Each message is flushed by itself.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.written.is_empty() {
            if this.is_wide {
                this.wire.outgoing.push(&[0, 0]);
            }
            this.wire.outgoing.push(&this.written);
            this.written.clear();
        }
        Poll::Ready(this.wire.flush_all().map_err(as_io))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

/// Runs what only waits for a [`Wire`], which blocks instead.
pub(super) fn run<T>(work: impl Future<Output = T>) -> io::Result<T> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => Err(io::Error::other("a handshake waits for something else")),
    }
}

pub(super) fn as_io(error: SocketError) -> io::Error {
    match error {
        SocketError::Io(error) => error,
        SocketError::Tls(error) => io::Error::other(error.to_string()),
    }
}

fn timed_out() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "nothing came in time")
}
