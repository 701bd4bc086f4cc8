//! A client's side of a connection in memory, and its poll.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use load::{
    ClientStream, ConnectOptions, Dial, Output, Poller, Readiness, Received, Sleep, SocketError, SocketOptions, Wake,
};

use super::World;
use super::host::host_of;
use super::link::Link;
use super::tap::Tap;

/// Events that a poll has not told yet.
pub(super) type Events = Arc<Mutex<Vec<(usize, Readiness)>>>;

pub(crate) struct Poll {
    pub(super) world: World,
    pub(super) number: usize,
    pub(super) events: Events,
}

pub(crate) struct Waker(World, usize);

impl Wake for Waker {
    fn wake(&self) -> io::Result<()> {
        self.0.state().polls[self.1].is_woken = true;
        Ok(())
    }
}

impl Poller for Poll {
    type Waker = Waker;

    fn waker(&self) -> io::Result<Waker> {
        Ok(Waker(self.world.clone(), self.number))
    }

    fn wait(&mut self, sleep: Sleep) -> io::Result<()> {
        self.world.wait(self.number, sleep);
        Ok(())
    }

    fn events(&self) -> impl Iterator<Item = (usize, Readiness)> {
        std::mem::take(&mut *self.events.lock().expect("events")).into_iter()
    }
}

impl Dial for Poll {
    type Stream = Stream;

    fn dial(&self, address: SocketAddr, _: &ConnectOptions, token: usize) -> Result<Stream, SocketError> {
        let now = self.world.time();
        let mut state = self.world.state();
        let (least, most) = state.pace.travel_ns;
        let round_trip = state.draw(2 * least, 2 * most);
        let host = host_of(address).filter(|host| *host < state.hosts.len());
        let host = host.ok_or_else(|| io::Error::from(io::ErrorKind::NetworkUnreachable))?;
        let is_refused = state.hosts[host].is_away;
        let mut link = Link::new(self.number, token, host, now + round_trip, is_refused);
        link.tap = state.is_tapped.then(|| Tap { client: (self.number, token), ..Tap::default() });
        state.links.push(link);
        Ok(Stream {
            world: self.world.clone(),
            link: state.links.len() - 1,
            address,
            is_readable: false,
            is_writable: false,
            is_read_closed: false,
        })
    }
}

pub(crate) struct Stream {
    world: World,
    link: usize,
    address: SocketAddr,
    is_readable: bool,
    is_writable: bool,
    is_read_closed: bool,
}

impl ClientStream for Stream {
    fn finish_connecting(&mut self, _: SocketOptions) -> io::Result<bool> {
        if self.world.state().links[self.link].is_refused(self.world.time()) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(self.is_writable)
    }

    fn notice(&mut self, readiness: Readiness) {
        self.is_readable |= readiness.is_readable;
        self.is_writable |= readiness.is_writable;
        self.is_read_closed |= readiness.is_read_closed;
    }

    fn is_readable(&self) -> bool {
        self.is_readable
    }

    fn is_writable(&self) -> bool {
        self.is_writable
    }

    fn unsent(&self) -> usize {
        0
    }

    fn is_being_secured(&self) -> bool {
        false
    }

    fn peer_address(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn read(&mut self, _: &mut Vec<u8>, plain: &mut [u8]) -> Result<Received, SocketError> {
        let now = self.world.time();
        let mut state = self.world.state();
        match state.links[self.link].read(now, plain)? {
            Some(0) => Ok(Received::End),
            Some(bytes) => Ok(Received::Bytes(bytes)),
            None => {
                self.is_readable = self.is_read_closed;
                Ok(Received::Nothing)
            }
        }
    }

    fn flush(&mut self, output: &mut impl Output) -> Result<(), SocketError> {
        let now = self.world.time();
        while self.is_writable && !output.pending().is_empty() {
            let mut state = self.world.state();
            let piece = state.draw_piece(output.pending().len());
            let (least, most) = state.pace.travel_ns;
            let arrives = now + state.draw(least, most);
            let room = state.pace.buffer;
            let bytes = &output.pending()[..piece];
            match state.links[self.link].write(arrives, bytes, room)? {
                0 => self.is_writable = false,
                written => output.consume(written),
            }
        }
        Ok(())
    }

    fn hang_up(&mut self) {
        (self.is_readable, self.is_writable) = (false, false);
        self.is_read_closed = false;
        self.world.state().hang_up(self.link, self.world.time());
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.world.state().hang_up(self.link, self.world.time());
    }
}
