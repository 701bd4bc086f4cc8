//! A protocol's connection on its socket: connects to one of a node's addresses, secures, reads and
//! writes in batches. Whoever embeds it has the poll, the buffers and the events.

use std::net::SocketAddr;

use measure::{Nanos, Time};
use transport::{ClientStream, ConnectAttempt, Dial, Output, Readiness, Received, SocketError};

use super::Connection;
use crate::{Endpoint, Error, failure};

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The first bytes of the buffer, this many, are to be decoded.
    Bytes(usize),
    Nothing,
    End,
}

/// Order of calls: [`Driver::notice`] with each event of the poll; [`Driver::finish_connecting`] until
/// it is true; [`Driver::read`] while [`Driver::is_readable`], and [`Driver::keep`] with what was not
/// decoded of it; [`Driver::flush`] after something was queued.
pub(crate) struct Driver<C, S> {
    pub(crate) connection: C,
    socket: S,
    token: usize,
    /// The node's addresses that were not tried yet.
    attempt: ConnectAttempt,
    /// When the present address was tried.
    tried_at: Time,
    is_connected: bool,
    rest: UndecodedInput,
    /// Bytes that the rest needs before anything can be decoded.
    needed: usize,
    /// The rest may hold whole frames: the next read decodes it and reads nothing.
    pub(crate) undecoded: bool,
}

/// Bytes that were read and not decoded.
#[derive(Debug, Default)]
struct UndecodedInput {
    bytes: Vec<u8>,
    /// Room that it keeps, whatever it holds.
    reserved: usize,
    /// The most that it held since it was last trimmed, …
    most: usize,
    /// … and when it is trimmed next.
    trim_at: Time,
}

/// How often room that nothing needed is given back.
const TRIM_INTERVAL: Nanos = Nanos::SECOND;

impl UndecodedInput {
    fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
        self.reserved = self.reserved.max(bytes);
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.most = self.most.max(self.bytes.len());
    }

    /// Gives back what a peak took, where less than half of it was needed since the last time.
    fn trim(&mut self, now: Time) {
        if now < self.trim_at {
            return;
        }
        let needed = self.most.max(self.reserved);
        if self.bytes.capacity() / 2 > needed {
            self.bytes.shrink_to(needed);
        }
        (self.trim_at, self.most) = (now + TRIM_INTERVAL, self.bytes.len());
    }
}

struct Unsent<'a, C>(&'a mut C);

impl<C: Connection> Output for Unsent<'_, C> {
    #[inline]
    fn pending(&self) -> &[u8] {
        self.0.pending_output()
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.0.consume_output(bytes);
    }
}

impl<C: Connection, S: ClientStream> Driver<C, S> {
    pub(crate) fn connect(
        connection: C,
        mut attempt: ConnectAttempt,
        dial: &impl Dial<Stream = S>,
        token: usize,
        now: Time,
    ) -> Result<Self, Error> {
        let dialled = attempt.connect(dial, token, now);
        Ok(Self {
            socket: dialled.map_err(|error| not_connected(connection.endpoint(), &error))?,
            connection,
            token,
            attempt,
            tried_at: now,
            is_connected: false,
            rest: UndecodedInput::default(),
            needed: 0,
            undecoded: false,
        })
    }

    /// Starts to connect again, to a node that may be another.
    pub(crate) fn reconnect(
        &mut self,
        endpoint: &Endpoint,
        attempt: ConnectAttempt,
        dial: &impl Dial<Stream = S>,
        now: Time,
    ) -> Result<(), Error> {
        self.attempt = attempt;
        self.connection.restart(Some(endpoint), now);
        self.dial(dial, now)
    }

    fn dial(&mut self, dial: &impl Dial<Stream = S>, now: Time) -> Result<(), Error> {
        self.is_connected = false;
        self.tried_at = now;
        let dialled = self.attempt.connect(dial, self.token, now);
        self.socket = dialled.map_err(|error| not_connected(self.connection.endpoint(), &error))?;
        Ok(())
    }

    /// Whether it is connected by now. Where an address refuses or does not answer, the next is tried.
    pub(crate) fn finish_connecting(&mut self, dial: &impl Dial<Stream = S>, now: Time) -> Result<bool, Error> {
        let endpoint = self.connection.endpoint();
        match self.socket.finish_connecting(endpoint.connection.socket) {
            Ok(true) => {
                self.is_connected = true;
                return Ok(true);
            }
            Ok(false) if !self.attempt.is_late(now) => return Ok(false),
            Err(error) if !self.attempt.has_more() => return Err(failure::of_connect(endpoint, &error)),
            Ok(false) | Err(_) => {}
        }
        // The name has other addresses: one of another family, or another machine's.
        self.connection.restart(None, now);
        self.dial(dial, now)?;
        Ok(false)
    }

    /// Whether an address does not answer, and the next is to be tried.
    pub(crate) fn is_late(&self, now: Time) -> bool {
        !self.is_connected && self.attempt.is_late(now)
    }

    pub(crate) const fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Whether TLS is wanted and its handshake is not over.
    pub(crate) fn is_being_secured(&self) -> bool {
        self.socket.is_being_secured()
    }

    /// The address of the other side, and when it was first tried.
    pub(crate) fn peer(&self) -> std::io::Result<(SocketAddr, Time)> {
        Ok((self.socket.peer_address()?, self.tried_at))
    }

    #[inline]
    pub(crate) fn notice(&mut self, readiness: Readiness) {
        self.socket.notice(readiness);
    }

    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        self.socket.is_readable() || self.undecoded
    }

    /// Whether what is queued now can be written at once.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.socket.is_clear() && self.connection.pending_output().is_empty()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.socket.is_writable()
    }

    pub(crate) fn unwritten(&self) -> usize {
        self.connection.pending_output().len() + self.socket.unsent()
    }

    /// Reads once behind what was kept; `cipher` is room for encrypted bytes. `now` may be some time ago.
    pub(crate) fn read(&mut self, buffer: &mut [u8], cipher: &mut Vec<u8>, now: Time) -> Result<Input, Error> {
        let kept = self.rest.bytes.len();
        let mut filled = kept;
        if !std::mem::take(&mut self.undecoded) {
            let (_, tail) = buffer.split_at_mut(kept.min(buffer.len()));
            match self.socket.read(cipher, tail) {
                Ok(Received::Bytes(n)) => filled += n,
                Ok(Received::Nothing) => return Ok(Input::Nothing),
                Ok(Received::End) => return Ok(Input::End),
                Err(error) => return Err(self.broken_by(&error)),
            }
            if filled < self.needed {
                // A part of one frame: copied once, however small the pieces are that it comes in.
                self.rest.extend(&buffer[kept..filled]);
                self.connection.excuse_silence(now);
                return Ok(Input::Nothing);
            }
        }
        buffer[..kept].copy_from_slice(&self.rest.bytes);
        Ok(Input::Bytes(filled))
    }

    /// Keeps what was not decoded of the last read.
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        self.rest.bytes.clear();
        self.rest.extend(rest);
        self.needed = self.connection.needs(&self.rest.bytes);
    }

    /// Makes room for this many bytes that are read and cannot be decoded.
    pub(crate) fn reserve(&mut self, input: usize) {
        self.rest.reserve(input);
    }

    /// Writes as much as the socket takes. `reads` if the embedder reads: a peer that closed may have said why.
    pub(crate) fn flush(&mut self, reads: bool) -> Result<(), Error> {
        match self.socket.flush(&mut Unsent(&mut self.connection)) {
            Ok(()) => Ok(()),
            Err(error) if error.is_loss() && reads && self.is_readable() => Ok(()),
            Err(error) => Err(self.broken_by(&error)),
        }
    }

    /// Sends the rest of a connection that an error ends, such as an answer to its close: what the socket takes.
    #[cold]
    pub(crate) fn part(&mut self, error: Error, now: Time) -> Error {
        self.connection.give_up(now);
        let _ = self.flush(false);
        error
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        self.rest.trim(now);
        if self.connection.next_timeout().is_some_and(|due| due <= now) {
            self.connection.handle_timeout(now).map_err(|error| self.unless_secured(error))?;
        }
        Ok(())
    }

    pub(crate) fn ended(&self) -> Error {
        self.unless_secured(self.connection.end_of_input(&self.rest.bytes))
    }

    /// The error of a step in progress that took longer than `allowed`.
    pub(crate) fn timed_out(&self, allowed: Nanos) -> Error {
        self.unless_secured(self.connection.stage().timed_out(self.connection.endpoint(), allowed))
    }

    fn broken_by(&self, error: &SocketError) -> Error {
        let (endpoint, stage) = (self.connection.endpoint(), self.connection.stage());
        match error {
            SocketError::Io(error) => stage.lost(endpoint.to_string(), failure::one_line(&error.to_string()), C::HELP),
            SocketError::Tls(error) => failure::of_tls(endpoint, error),
        }
    }

    /// The error, or that TLS was not agreed on.
    fn unless_secured(&self, error: Error) -> Error {
        match self.socket.unfinished(&error).filter(|_| self.is_connected) {
            Some(unfinished) => failure::of_tls(self.connection.endpoint(), &unfinished),
            None => error,
        }
    }

    pub(crate) fn hang_up(&mut self) {
        self.rest.bytes.clear();
        self.needed = 0;
        self.undecoded = false;
        self.socket.hang_up();
    }
}

fn not_connected(endpoint: &Endpoint, error: &SocketError) -> Error {
    match error {
        SocketError::Io(error) => failure::of_connect(endpoint, error),
        SocketError::Tls(error) => failure::of_tls(endpoint, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_a_peak_took_is_given_back() {
        let mut rest = UndecodedInput::default();
        rest.reserve(1_000);
        let at = |second: u64| Time(second * Nanos::SECOND.0);
        rest.trim(at(1));
        for second in 2..5 {
            rest.extend(&[0; 200_000]);
            rest.bytes.clear();
            rest.extend(&[7; 10]);
            rest.trim(at(second));
            assert!(rest.bytes.capacity() >= 200_000, "it is needed again");
            rest.bytes.clear();
        }
        rest.extend(&[7; 10]);
        rest.trim(at(4));
        assert!(rest.bytes.capacity() >= 200_000, "not at once");
        rest.trim(at(5));
        assert!((1_000..3_000).contains(&rest.bytes.capacity()), "{rest:?}");
        assert_eq!(rest.bytes, [7; 10]);
    }
}
