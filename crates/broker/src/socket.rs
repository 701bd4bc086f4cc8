//! A connection's socket, with TLS or without: bytes in, bytes out.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;
use wire::tls::ServerSession;

use crate::node::Node;
use crate::slots::Key;
use crate::tls::common_name;

pub(crate) struct Socket {
    pub(crate) stream: TcpStream,
    pub(crate) key: Key,
    session: Option<Box<ServerSession>>,
    /// The start of a frame whose rest has not come, or what waits while the connection is paused.
    pub(crate) held: Vec<u8>,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// Whether the client sends no more: there is an end to be read.
    pub(crate) is_ending: bool,
    /// Whether we send no more.
    pub(crate) is_shut: bool,
    /// Whether it is in the list of sockets to read.
    pub(crate) is_queued: bool,
    /// TLS has failed: what still comes is read and thrown away.
    is_deaf: bool,
    /// The client's certificate was looked at.
    is_named: bool,
    /// The client was told that TLS ends.
    has_said_end: bool,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Plain bytes.
    pub(crate) bytes: usize,
    /// Nothing will follow them.
    pub(crate) ended: bool,
    /// TLS has failed just now.
    pub(crate) failed: bool,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, key: Key, session: Option<ServerSession>) -> Self {
        Self {
            stream,
            key,
            session: session.map(Box::new),
            held: Vec::new(),
            is_readable: false,
            is_writable: true,
            is_ending: false,
            is_shut: false,
            is_queued: false,
            is_deaf: false,
            is_named: false,
            has_said_end: false,
        }
    }

    /// Reads once into `room`; `cipher` is room for encrypted bytes. Notes whether there may be
    /// more.
    pub(crate) fn read(&mut self, cipher: &mut [u8], room: &mut [u8]) -> Received {
        let Some(mut session) = self.session.take() else {
            return self.read_raw(room);
        };
        // No longer than `room`, because plain bytes are never more than encrypted ones.
        let size = cipher.len().min(room.len());
        let cipher = cipher.get_mut(..size).unwrap_or_default();
        let space = if self.is_deaf {
            &mut *cipher
        } else {
            session.room(cipher)
        };
        let mut received = self.read_raw(space);
        let bytes = std::mem::take(&mut received.bytes);
        if !self.is_deaf && bytes > 0 {
            match session.receive(cipher, bytes, room) {
                Ok(plain) => received.bytes = plain,
                Err(_) => {
                    received.failed = true;
                    self.is_deaf = true;
                }
            }
            received.ended |= session.has_ended();
        }
        self.session = Some(session);
        received
    }

    fn read_raw(&mut self, room: &mut [u8]) -> Received {
        if !self.is_readable {
            return Received::default();
        }
        let read = self.stream.read(room);
        // A read that does not fill the buffer has emptied the socket; what comes later is a new
        // event.
        self.is_readable = read
            .as_ref()
            .is_ok_and(|n| *n == room.len() || self.is_ending);
        let (bytes, ended) = match read {
            Ok(bytes) => (bytes, bytes == 0),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                (0, false)
            }
            Err(_) => (0, true),
        };
        Received {
            bytes,
            ended,
            failed: false,
        }
    }

    /// The name in the client's certificate, once, as soon as it is known.
    pub(crate) fn take_name(&mut self) -> Option<&str> {
        let session = self.session.as_ref().filter(|session| session.is_open())?;
        if std::mem::replace(&mut self.is_named, true) {
            return None;
        }
        common_name(session.certificate()?)
    }

    /// Writes the connection's output, as far as the system takes it. Seals no more than is
    /// written at once, so that what waits is where the node counts it.
    pub(crate) fn flush(&mut self, node: &mut Node) -> io::Result<()> {
        while self.is_writable {
            let Some(session) = &mut self.session else {
                let output = node.output(self.key);
                if output.is_empty() {
                    return Ok(());
                }
                let written = write_some(&mut self.stream, &mut self.is_writable, output)?;
                if written > 0 {
                    node.written(self.key, written);
                }
                continue;
            };
            if session.pending().is_empty() {
                let sealed = session
                    .seal(node.output(self.key))
                    .map_err(|_| ErrorKind::InvalidData)?;
                if sealed > 0 {
                    node.written(self.key, sealed);
                }
                if session.pending().is_empty() {
                    return Ok(());
                }
            }
            let written = write_some(&mut self.stream, &mut self.is_writable, session.pending())?;
            session.consume(written);
        }
        Ok(())
    }

    /// Whether encrypted bytes wait to be written.
    pub(crate) fn has_sealed(&self) -> bool {
        let waits = |session: &ServerSession| !session.pending().is_empty();
        self.session.as_deref().is_some_and(waits)
    }

    /// Tells the client, once, that TLS ends here as it should.
    pub(crate) fn say_end(&mut self) {
        if let Some(session) = &mut self.session
            && !std::mem::replace(&mut self.has_said_end, true)
        {
            session.say_end();
        }
    }
}

/// Nothing when the socket takes nothing at present.
fn write_some(stream: &mut TcpStream, is_writable: &mut bool, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(e) if e.kind() == ErrorKind::WouldBlock => {
            *is_writable = false;
            Ok(0)
        }
        Err(e) if e.kind() == ErrorKind::Interrupted => Ok(0),
        result => result,
    }
}
