//! A connection between a client and a host: bytes on their way, and how it ends.

use std::collections::VecDeque;
use std::io;

use load::Readiness;
use measure::{Nanos, Time};

use super::tap::Tap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Bytes sent before still arrive.
    Orderly,
    /// Bytes not read are lost.
    Reset,
}

#[derive(Debug, Default)]
pub(super) struct Pipe {
    pieces: VecDeque<(Time, Vec<u8>)>,
    /// Bytes taken off the first piece.
    taken: usize,
    bytes: usize,
    end: Option<(Time, End)>,
    held_until: Time,
    last: Time,
}

impl Pipe {
    pub(super) fn room(&self, most: usize) -> usize {
        match self.end {
            Some(_) => 0,
            None => most.saturating_sub(self.bytes),
        }
    }

    /// Sends bytes, which never overtake others.
    pub(super) fn send(&mut self, arrives: Time, bytes: &[u8]) {
        self.last = self.last.max(arrives);
        self.bytes += bytes.len();
        match self.pieces.back_mut() {
            Some((at, piece)) if *at == self.last => piece.extend_from_slice(bytes),
            _ => self.pieces.push_back((self.last, bytes.to_vec())),
        }
    }

    pub(super) fn close(&mut self, at: Time, end: End) {
        if self.end.is_none() || end == End::Reset {
            let at = match end {
                End::Orderly => at.max(self.last),
                End::Reset => at,
            };
            self.end = Some((at, end));
        }
    }

    fn held(&self, at: Time) -> Time {
        at.max(self.held_until)
    }

    /// When its next byte arrives, of those that are not taken.
    pub(super) fn bytes_at(&self) -> Option<Time> {
        self.pieces.front().map(|(at, _)| self.held(*at))
    }

    pub(super) fn end_at(&self) -> Option<(Time, End)> {
        self.end.map(|(at, end)| match end {
            End::Orderly => (self.held(at), end),
            End::Reset => (at, end),
        })
    }

    pub(super) fn has_reset(&self, now: Time) -> bool {
        self.end.is_some_and(|(at, end)| end == End::Reset && at <= now)
    }

    pub(super) fn take(&mut self, now: Time, room: &mut [u8]) -> usize {
        let mut filled = 0;
        while let Some((at, piece)) = self.pieces.front()
            && at.max(&self.held_until) <= &now
            && filled < room.len()
        {
            let rest = &piece[self.taken..];
            let count = rest.len().min(room.len() - filled);
            room[filled..filled + count].copy_from_slice(&rest[..count]);
            (filled, self.taken) = (filled + count, self.taken + count);
            if self.taken == piece.len() {
                self.pieces.pop_front();
                self.taken = 0;
            }
        }
        self.bytes -= filled;
        filled
    }

    pub(super) fn take_all(&mut self, now: Time, to: &mut Vec<u8>) {
        while self.bytes_at().is_some_and(|at| at <= now) {
            if let Some((_, piece)) = self.pieces.pop_front() {
                to.extend_from_slice(&piece[self.taken..]);
                self.bytes -= piece.len() - self.taken;
                self.taken = 0;
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) poll: usize,
    token: usize,
    pub(super) host: usize,
    /// When the client knows that it is connected, or refused.
    connected_at: Time,
    is_refused: bool,
    pub(super) to_host: Pipe,
    pub(super) to_client: Pipe,
    /// States that the client's poll has told already.
    has_told_connected: bool,
    told_bytes_until: Time,
    has_told_end: bool,
    wants_room: bool,
    has_room: bool,
    /// Bytes of the host for the client found no room.
    pub(super) host_wants_room: bool,
    /// The client has no more use for it.
    pub(super) is_hung_up: bool,
    /// The host has forgotten it.
    pub(super) is_over: bool,
    pub(super) tap: Option<Tap>,
}

impl Link {
    pub(super) fn new(poll: usize, token: usize, host: usize, connected_at: Time, is_refused: bool) -> Self {
        Self { poll, token, host, connected_at, is_refused, is_over: is_refused, ..Self::default() }
    }

    pub(super) fn is_refused(&self, now: Time) -> bool {
        self.is_refused && self.connected_at <= now
    }

    /// When the host can accept it.
    pub(super) fn comes_at(&self) -> Time {
        self.connected_at
    }

    /// When the client's poll has something to tell of it.
    pub(super) fn tells_at(&self) -> Time {
        let never = Time(u64::MAX);
        if self.is_hung_up {
            return never;
        }
        if !self.has_told_connected {
            return self.connected_at;
        }
        if self.has_room {
            return Time(0);
        }
        // The poll tells edges: what has come since it told the last time.
        let pieces = self.to_client.pieces.iter();
        let new = match self.to_client.pieces.back() {
            Some((last, _)) if self.to_client.held(*last) > self.told_bytes_until => {
                pieces.map(|(at, _)| self.to_client.held(*at)).find(|at| *at > self.told_bytes_until)
            }
            _ => None,
        };
        let end = self.to_client.end_at().filter(|_| !self.has_told_end);
        new.unwrap_or(never).min(end.map_or(never, |(at, _)| at))
    }

    /// News of it for the client's poll now.
    pub(super) fn tell(&mut self, now: Time) -> Option<(usize, Readiness)> {
        if self.tells_at() > now {
            return None;
        }
        let is_connected = !std::mem::replace(&mut self.has_told_connected, true);
        let has_room = std::mem::take(&mut self.has_room);
        let has_ended = self.to_client.end_at().is_some_and(|(at, _)| at <= now);
        self.has_told_end |= has_ended;
        let has_bytes = self.to_client.bytes_at().is_some_and(|at| at <= now);
        self.told_bytes_until = now;
        let is_error = self.is_refused || self.to_client.has_reset(now);
        let readiness = Readiness {
            is_readable: has_bytes || has_ended || is_error,
            is_writable: is_connected || has_room || is_error,
            is_read_closed: has_ended || is_error,
        };
        Some((self.token, readiness))
    }

    /// Bytes for the client; 0 at the end, `None` where there is nothing at present.
    pub(super) fn read(&mut self, now: Time, room: &mut [u8]) -> io::Result<Option<usize>> {
        if self.to_client.has_reset(now) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let filled = self.to_client.take(now, room);
        if filled > 0 {
            if let Some(tap) = &mut self.tap {
                tap.read.extend_from_slice(&room[..filled]);
            }
            return Ok(Some(filled));
        }
        let has_ended = self.to_client.bytes_at().is_none() && self.to_client.end_at().is_some_and(|(at, _)| at <= now);
        Ok(has_ended.then_some(0))
    }

    /// Takes bytes of the client's, and tells how many.
    pub(super) fn write(&mut self, arrives: Time, bytes: &[u8], room: usize) -> io::Result<usize> {
        if self.to_client.has_reset(arrives) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // After the host has ended nobody reads it.
        let count = match self.to_host.end {
            Some(_) => bytes.len(),
            None => self.to_host.room(room).min(bytes.len()),
        };
        if self.to_host.end.is_none() {
            self.to_host.send(arrives, &bytes[..count]);
            if let Some(tap) = &mut self.tap {
                tap.written.extend_from_slice(&bytes[..count]);
            }
        }
        self.wants_room = count == 0;
        Ok(count)
    }

    /// The client has taken bytes that the host waited for.
    pub(super) fn host_has_room(&self, most: usize) -> bool {
        self.host_wants_room && self.to_client.room(most) > most / 4
    }

    /// The host has taken bytes.
    pub(super) fn make_room(&mut self, most: usize) {
        if self.wants_room && self.to_host.room(most) > most / 4 {
            (self.wants_room, self.has_room) = (false, true);
        }
    }

    /// Both sides lose it; the host notices later.
    pub(super) fn cut(&mut self, now: Time, later: Nanos) {
        if self.is_refused {
            return;
        }
        self.to_client.close(now, End::Reset);
        self.to_host.close(now + later, End::Reset);
    }

    pub(super) fn hold(&mut self, until: Time) {
        for pipe in [&mut self.to_host, &mut self.to_client] {
            pipe.held_until = pipe.held_until.max(until);
        }
    }
}
