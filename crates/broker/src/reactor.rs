//! The event loop: sockets on one side, [`Node`] on the other.
//!
//! One turn reads every readable connection once, lets the node deliver, and writes what there is
//! to write. Reads go through one buffer for all connections, so that ten thousand idle ones cost
//! nothing; what a frame leaves over waits in its connection's own.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use measure::{Clock, Nanos, Time, Timer, sleep_until};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use rustls::ServerConfig;
use wire::tls::{CIPHER_BYTES, ServerSession};

use crate::config::Config;
use crate::faults::{FaultLog, STALL_LOOK};
use crate::node::{Node, Verdict};
use crate::slots::Key;
use crate::socket::Socket;
use crate::{Error, Stop};

pub(crate) const LISTENER: Token = Token(usize::MAX);
pub(crate) const WAKER: Token = Token(usize::MAX - 1);
const TIMER: Token = Token(usize::MAX - 2);
pub(crate) const TLS_LISTENER: Token = Token(usize::MAX - 3);

/// Bytes read from one connection per turn at most, above the largest frame (128 KiB).
const READ_BYTES: usize = 256 << 10;
/// How often heartbeats and time-outs are looked at: often enough that nobody is silent for two of the
/// shortest heartbeats, which are a second each.
pub(crate) const TICK: Nanos = Nanos::from_millis(250);
/// How long nothing is accepted after the system had no descriptor left.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(200);

/// Where clients come in.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    /// Where connections are encrypted.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Whether clients may log in by a certificate.
    pub(crate) by_certificate: bool,
}

/// Everything of a broker that runs.
pub(crate) struct Reactor<'a> {
    poll: &'a mut Poll,
    doors: &'a [Door],
    node: Node,
    /// By the index of the connection's key, which is also its token.
    sockets: HashMap<usize, Socket>,
    /// Sockets to read in the next turn.
    queue: Vec<usize>,
    buffer: Vec<u8>,
    /// For encrypted bytes; empty where there are none.
    cipher: Vec<u8>,
    /// When to accept again, after the system had no descriptor left.
    accept_at: Option<Time>,
    tick_at: Time,
    /// Where there are faults to play.
    timer: Option<Timer>,
}

/// A timer that wakes the poll.
fn timer(registry: &Registry) -> Result<Timer, Error> {
    let failed = |source| Error::EventLoop {
        what: "create a timer",
        source,
    };
    let timer = Timer::new().map_err(failed)?;
    registry
        .register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)
        .map_err(failed)?;
    Ok(timer)
}

impl<'a> Reactor<'a> {
    pub(crate) fn new(
        config: Config,
        log: FaultLog,
        poll: &'a mut Poll,
        doors: &'a [Door],
    ) -> Result<Self, Error> {
        let timer = (!config.faults.is_empty())
            .then(|| timer(poll.registry()))
            .transpose()?;
        Ok(Self {
            poll,
            doors,
            node: Node::new(config, log),
            sockets: HashMap::new(),
            queue: Vec::new(),
            buffer: vec![0; READ_BYTES],
            cipher: if doors.iter().any(|door| door.tls.is_some()) {
                vec![0; CIPHER_BYTES]
            } else {
                Vec::new()
            },
            accept_at: None,
            tick_at: Clock.now() + TICK,
            timer,
        })
    }

    /// Serves until `stop` is used.
    pub(crate) fn run(&mut self, stop: &Stop) -> Result<(), Error> {
        let mut events = Events::with_capacity(1024);
        self.accept(Clock.now());
        while !stop.is_stopped() {
            let timeout = self.timeout(Clock.now())?;
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(Error::EventLoop {
                        what: "wait for events",
                        source,
                    });
                }
            }
            let now = self.play_faults(Clock.now(), stop);
            for event in &events {
                self.note(event, now);
            }
            self.turn(now);
            self.keep_time(now);
        }
        self.node.shut_down(Clock.now());
        self.write_touched();
        self.node.tell_faults();
        Ok(())
    }

    /// Does what a script of faults says is to be done now; returns the time afterwards.
    fn play_faults(&mut self, mut now: Time, stop: &Stop) -> Time {
        if self.timer.is_none() {
            return now;
        }
        self.node.advance(now);
        while let Some((rule, end)) = self.node.take_stall() {
            let start = now;
            while now < end && !stop.is_stopped() {
                sleep_until(end.min(now + STALL_LOOK));
                now = Clock.now();
            }
            self.node.stalled(rule, start, now);
            self.node.advance(now);
        }
        while let Some(key) = self.node.next_reset() {
            self.reset(key);
        }
        now
    }

    /// Ends a connection so that the other side gets a reset, and loses what it has not read.
    fn reset(&mut self, key: Key) {
        if let Some(socket) = self.sockets.get(&key.index()) {
            // Where it fails the connection ends all the same.
            let _ = rustix::net::sockopt::set_socket_linger(&socket.stream, Some(Duration::ZERO));
        }
        self.close(key);
    }

    /// How long to wait for events.
    fn timeout(&mut self, now: Time) -> Result<Option<Duration>, Error> {
        let fault = self.node.next_fault();
        let is_due = fault.is_some_and(|fault| fault <= now);
        if !self.queue.is_empty() || self.node.has_work() || is_due {
            return Ok(Some(Duration::ZERO));
        }
        if let (Some(fault), Some(timer)) = (fault, &mut self.timer) {
            timer.arm(fault).map_err(|source| Error::EventLoop {
                what: "set a timer",
                source,
            })?;
        }
        let tick = (!self.sockets.is_empty()).then_some(self.tick_at);
        // The kernel counts whole milliseconds: one more makes sure that the time has come.
        let next = [tick, self.accept_at].into_iter().flatten().min();
        Ok(next.map(|next| Duration::from(next.since(now)) + Duration::from_millis(1)))
    }

    fn note(&mut self, event: &Event, now: Time) {
        match event.token() {
            LISTENER | TLS_LISTENER => self.accept(now),
            WAKER | TIMER => {}
            Token(index) => {
                let Some(socket) = self.sockets.get_mut(&index) else {
                    return;
                };
                let key = socket.key;
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    socket.is_readable = true;
                    socket.is_ending |= event.is_read_closed() || event.is_error();
                    enqueue(socket, index, &mut self.queue);
                }
                if event.is_writable() {
                    socket.is_writable = true;
                    self.write(key);
                }
            }
        }
    }

    fn turn(&mut self, now: Time) {
        // What becomes readable meanwhile waits for the next turn, so that everybody gets one.
        for index in std::mem::take(&mut self.queue) {
            if let Some(socket) = self.sockets.get_mut(&index) {
                socket.is_queued = false;
                self.read(index, now);
            }
        }
        self.node.turn();
        self.write_touched();
        while let Some(key) = self.node.next_resumed() {
            if let Some(socket) = self.sockets.get_mut(&key.index()) {
                enqueue(socket, key.index(), &mut self.queue);
            }
        }
    }

    fn keep_time(&mut self, now: Time) {
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept(now);
        }
        if self.tick_at > now {
            return;
        }
        self.tick_at = now + TICK;
        let mut gone = Vec::new();
        self.node.tick(now, |key| gone.push(key));
        self.write_touched();
        for key in gone {
            self.close(key);
        }
    }

    fn accept(&mut self, now: Time) {
        self.accept_at = None;
        for door in self.doors {
            while self.accept_at.is_none() {
                match door.listener.accept() {
                    Ok((stream, _)) => self.welcome(stream, door, now),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    // A client that went away before it was accepted is no reason to stop.
                    Err(e)
                        if matches!(
                            e.kind(),
                            ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                        ) => {}
                    // No descriptor or memory left: the others go on, newcomers wait.
                    Err(_) => self.accept_at = Some(now + ACCEPT_PAUSE),
                }
            }
        }
    }

    fn welcome(&mut self, mut stream: TcpStream, door: &Door, now: Time) {
        // Answers are small and awaited; a socket that cannot do without delay still works.
        let _ = stream.set_nodelay(true);
        let session = door
            .tls
            .as_ref()
            .map(|c| ServerSession::server(Arc::clone(c)));
        let Ok(session) = session.transpose() else {
            return;
        };
        let key = self.node.connect(now, door.by_certificate);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self
            .poll
            .registry()
            .register(&mut stream, Token(key.index()), interest)
            .is_err()
        {
            self.node.disconnect(key);
            return;
        }
        let socket = Socket::new(stream, key, session);
        self.sockets.insert(key.index(), socket);
    }

    /// Reads a connection once and hands the bytes to the node.
    fn read(&mut self, index: usize, now: Time) {
        let Self {
            sockets,
            buffer,
            cipher,
            node,
            queue,
            ..
        } = self;
        let Some(socket) = sockets.get_mut(&index) else {
            return;
        };
        let key = socket.key;
        if node.verdict(key) == Verdict::Pause {
            // Nothing is read from a blocked publisher, but one that is gone need not wait.
            if socket.is_ending {
                self.close(key);
            }
            return;
        }
        let held = socket.held.len();
        if buffer.len() < held + READ_BYTES / 2 {
            buffer.resize(held + READ_BYTES, 0);
        }
        let Some((front, room)) = buffer.split_at_mut_checked(held) else {
            return;
        };
        front.copy_from_slice(&socket.held);
        let received = socket.read(cipher, room);
        if let Some(name) = socket.take_name() {
            node.identify(key, name);
        }
        let ended = received.ended;
        let mut input = buffer.get(..held + received.bytes).unwrap_or_default();
        let verdict = if received.failed {
            node.abandon(key);
            Verdict::Finish
        } else {
            node.input(key, now, &mut input)
        };
        socket.held.clear();
        socket.held.extend_from_slice(input);
        if socket.held.is_empty() && socket.held.capacity() > READ_BYTES {
            socket.held = Vec::new();
        }
        let must_write = socket.has_sealed();
        match verdict {
            _ if ended => self.close(key),
            Verdict::Finish => {
                socket.held.clear();
                if socket.is_readable {
                    enqueue(socket, index, queue);
                }
                self.finish(key);
            }
            Verdict::Read if socket.is_readable => enqueue(socket, index, queue),
            Verdict::Read | Verdict::Pause => {}
        }
        if must_write {
            self.write(key);
        }
    }

    fn write_touched(&mut self) {
        while let Some(key) = self.node.next_touched() {
            self.write(key);
        }
    }

    /// Writes a connection's output, as far as the system takes it.
    fn write(&mut self, key: Key) {
        let Some(socket) = self.sockets.get_mut(&key.index()) else {
            return;
        };
        if socket.flush(&mut self.node).is_err() {
            self.close(key);
        } else if self.node.verdict(key) == Verdict::Finish {
            self.finish(key);
        }
    }

    /// Ends our side once everything is written. The rest of what the client sends is still read,
    /// because closing on unread bytes would destroy our last words on their way.
    fn finish(&mut self, key: Key) {
        let Some(socket) = self.sockets.get_mut(&key.index()) else {
            return;
        };
        if !self.node.output(key).is_empty() {
            return;
        }
        if self.node.ends_orderly(key) {
            socket.say_end();
        }
        // What cannot be written to a client that is gone need not be.
        let _ = socket.flush(&mut self.node);
        if !socket.has_sealed() && !std::mem::replace(&mut socket.is_shut, true) {
            // A client that is gone already is what was wanted.
            let _ = socket.stream.shutdown(std::net::Shutdown::Write);
        }
    }

    fn close(&mut self, key: Key) {
        if let Some(mut socket) = self.sockets.remove(&key.index()) {
            // Dropping the stream ends the registration in any case.
            let _ = self.poll.registry().deregister(&mut socket.stream);
        }
        self.node.disconnect(key);
    }
}

fn enqueue(socket: &mut Socket, index: usize, queue: &mut Vec<usize>) {
    if !std::mem::replace(&mut socket.is_queued, true) {
        queue.push(index);
    }
}
