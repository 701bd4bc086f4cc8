//! The event loop: sockets on one side, [`Node`] on the other.
//!
//! One turn reads every readable connection once, lets the node deliver, and writes what there is
//! to write. Reads go through one buffer for all connections, so that ten thousand idle ones cost
//! nothing; what a frame leaves over waits in its connection's own.

use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use measure::{Clock, Nanos, Time};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Poll, Token};
use transport::tls::Acceptor;
use transport::{Received, ServerSocket, Timer, sleep_until};

use crate::Error;
use crate::config::Config;
use crate::connection::{Connection, NodeOutput};
use crate::connection_faults::STALL_LOOK;
use crate::faults::FaultLog;
use crate::node::{Node, Verdict};
use crate::slots::Key;

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

/// A port that clients connect to.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    /// How its connections are secured; `None` for plain TCP.
    pub(crate) tls: Option<Acceptor>,
    /// Whether clients may log in by a certificate.
    pub(crate) by_certificate: bool,
}

/// Everything of a broker that runs.
pub(crate) struct Reactor<'a> {
    poll: &'a mut Poll,
    listeners: &'a [Listener],
    node: Node,
    /// By the index of the connection's key, which is also its token.
    connections: HashMap<usize, Connection>,
    /// Connections to read in the next turn.
    queue: Vec<usize>,
    buffer: Vec<u8>,
    /// Room for encrypted bytes; empty while there are none.
    cipher: Vec<u8>,
    /// When to accept again, after the system had no descriptor left.
    accept_at: Option<Time>,
    tick_at: Time,
    /// Where there are faults to play.
    timer: Option<Timer>,
}

impl<'a> Reactor<'a> {
    pub(crate) fn new(
        config: Config,
        log: FaultLog,
        poll: &'a mut Poll,
        listeners: &'a [Listener],
    ) -> Result<Self, Error> {
        let timer = (!config.faults.is_empty())
            .then(|| Timer::register(poll.registry(), TIMER))
            .transpose()
            .map_err(|source| Error::EventLoop { what: "create a timer", source })?;
        Ok(Self {
            poll,
            listeners,
            node: Node::new(config, log),
            connections: HashMap::new(),
            queue: Vec::new(),
            buffer: vec![0; READ_BYTES],
            cipher: Vec::new(),
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
                Err(source) => return Err(Error::EventLoop { what: "wait for events", source }),
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
        if let Some(connection) = self.connections.remove(&key.index()) {
            connection.socket.reset();
        }
        self.node.disconnect(key);
    }

    /// How long to wait for events.
    fn timeout(&mut self, now: Time) -> Result<Option<Duration>, Error> {
        let fault = self.node.next_fault();
        let is_due = fault.is_some_and(|fault| fault <= now);
        if !self.queue.is_empty() || self.node.has_work() || is_due {
            return Ok(Some(Duration::ZERO));
        }
        if let (Some(fault), Some(timer)) = (fault, &mut self.timer) {
            timer.arm(fault).map_err(|source| Error::EventLoop { what: "set a timer", source })?;
        }
        let tick = (!self.connections.is_empty()).then_some(self.tick_at);
        // The kernel counts whole milliseconds: one more makes sure that the time has come.
        let next = [tick, self.accept_at, self.node.next_expiry()];
        let next = next.into_iter().flatten().min();
        Ok(next.map(|next| Duration::from(next.since(now)) + Duration::from_millis(1)))
    }

    fn note(&mut self, event: &Event, now: Time) {
        match event.token() {
            LISTENER | TLS_LISTENER => self.accept(now),
            WAKER | TIMER => {}
            Token(index) => {
                let Some(connection) = self.connections.get_mut(&index) else { return };
                let key = connection.key;
                connection.socket.notice(event.into());
                if connection.socket.is_readable() {
                    enqueue(connection, &mut self.queue);
                }
                if event.is_writable() {
                    self.write(key);
                }
            }
        }
    }

    fn turn(&mut self, now: Time) {
        // What becomes readable meanwhile waits for the next turn, so that everybody gets one.
        for index in std::mem::take(&mut self.queue) {
            if let Some(connection) = self.connections.get_mut(&index) {
                connection.is_queued = false;
                self.read(index, now);
            }
        }
        self.node.turn();
        self.write_touched();
        while let Some(key) = self.node.next_resumed() {
            if let Some(connection) = self.connections.get_mut(&key.index()) {
                enqueue(connection, &mut self.queue);
            }
        }
    }

    fn keep_time(&mut self, now: Time) {
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept(now);
        }
        if self.node.next_expiry().is_some_and(|at| at < now) {
            self.node.expire(now);
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
        for listener in self.listeners {
            while self.accept_at.is_none() {
                match listener.socket.accept() {
                    Ok((stream, _)) => self.welcome(stream, listener, now),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    // A client that went away before it was accepted is no reason to stop.
                    Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                    // No descriptor or memory left: the others go on, newcomers wait.
                    Err(_) => self.accept_at = Some(now + ACCEPT_PAUSE),
                }
            }
        }
    }

    fn welcome(&mut self, stream: TcpStream, listener: &Listener, now: Time) {
        let session = listener.tls.as_ref().map(Acceptor::session);
        let Ok(session) = session.transpose() else { return };
        let key = self.node.connect(now, listener.by_certificate);
        let token = Token(key.index());
        match ServerSocket::accept(stream, session, self.poll.registry(), token) {
            Ok(socket) => {
                let connection = Connection::new(socket, key);
                self.connections.insert(key.index(), connection);
            }
            Err(_) => self.node.disconnect(key),
        }
    }

    /// Reads a connection once and hands the bytes to the node.
    fn read(&mut self, index: usize, now: Time) {
        let Self { connections, buffer, cipher, node, queue, .. } = self;
        let Some(connection) = connections.get_mut(&index) else { return };
        let key = connection.key;
        if node.verdict(key) == Verdict::Pause {
            // Nothing is read from a blocked publisher, but one that is gone need not wait.
            if connection.socket.is_read_closed() {
                self.close(key);
            }
            return;
        }
        let held = connection.held.len();
        if buffer.len() < held + READ_BYTES / 2 {
            buffer.resize(held + READ_BYTES, 0);
        }
        let Some((front, room)) = buffer.split_at_mut_checked(held) else { return };
        front.copy_from_slice(&connection.held);
        let received = match connection.socket.is_readable() {
            true => connection.socket.read(cipher, room),
            false => Ok(Received::Nothing),
        };
        if let Some(name) = connection.take_name() {
            node.identify(key, name);
        }
        let (bytes, ended, has_failed) = match received {
            Ok(Received::Bytes(bytes)) => (bytes, false, false),
            Ok(Received::Nothing) => (0, false, false),
            Ok(Received::End) => (0, true, false),
            Err(error) => (0, error.is_loss(), !error.is_loss()),
        };
        let mut input = buffer.get(..held + bytes).unwrap_or_default();
        let verdict = if has_failed {
            node.abandon(key);
            Verdict::Finish
        } else {
            node.input(key, now, &mut input)
        };
        connection.held.clear();
        connection.held.extend_from_slice(input);
        if connection.held.is_empty() && connection.held.capacity() > READ_BYTES {
            connection.held = Vec::new();
        }
        let must_write = connection.socket.unsent() > 0;
        match verdict {
            _ if ended => self.close(key),
            Verdict::Finish => {
                connection.held.clear();
                if connection.socket.is_readable() {
                    enqueue(connection, queue);
                }
                self.finish(key);
            }
            Verdict::Read if connection.socket.is_readable() => enqueue(connection, queue),
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
        let Some(connection) = self.connections.get_mut(&key.index()) else { return };
        let node = &mut self.node;
        let flushed = connection.socket.flush(&mut NodeOutput { node, key });
        if flushed.is_err() {
            self.close(key);
        } else if self.node.verdict(key) == Verdict::Finish {
            self.finish(key);
        }
    }

    /// Ends our side once everything is written, of a connection that the client has closed only where the client does
    /// not. The rest of what it sends is still read, because closing on unread bytes would destroy our last words.
    fn finish(&mut self, key: Key) {
        let Some(Connection { socket, is_shut, .. }) = self.connections.get_mut(&key.index()) else { return };
        let node = &mut self.node;
        if !node.output(key).is_empty() || node.is_to_end(key) {
            return;
        }
        if node.ends_orderly(key) {
            socket.say_end();
        }
        // What cannot be written to a client that is gone need not be.
        let _ = socket.flush(&mut NodeOutput { node, key });
        if socket.unsent() == 0 && !std::mem::replace(is_shut, true) {
            socket.shut_down();
        }
    }

    fn close(&mut self, key: Key) {
        // Dropping the socket ends its registration.
        self.connections.remove(&key.index());
        self.node.disconnect(key);
    }
}

fn enqueue(connection: &mut Connection, queue: &mut Vec<usize>) {
    if !std::mem::replace(&mut connection.is_queued, true) {
        queue.push(connection.key.index());
    }
}

/// Asks a running broker to end; clones ask the same broker. Safe to call from any thread.
#[derive(Clone, Default)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    stopped: AtomicBool,
    waker: Mutex<Option<Arc<mio::Waker>>>,
}

impl Stop {
    /// A handle that has not been used yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the broker to close its connections and return. Asking again changes nothing.
    pub fn stop(&self) {
        self.inner.stopped.store(true, Ordering::SeqCst);
        let waker = self.inner.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = waker.as_ref() {
            // A failed wake-up only delays the end until the event loop's next tick.
            let _ = waker.wake();
        }
    }

    /// Whether [`Stop::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.inner.stopped.load(Ordering::SeqCst)
    }

    /// Names the event loop that [`Stop::stop`] wakes.
    pub(crate) fn attach(&self, waker: Arc<mio::Waker>) {
        *self.inner.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("stopped", &self.is_stopped()).finish_non_exhaustive()
    }
}
