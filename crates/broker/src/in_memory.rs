//! The embedded broker without sockets, for tests: its owner carries the bytes and tells the time. What
//! it does, faults included, is what [`crate::Broker`] does: the node is the same.

use measure::Time;

use crate::node::{Node, Verdict};
use crate::reactor::TICK;
use crate::slots::Key;
use crate::{Config, FaultLog};

/// An embedded broker in its owner's hands.
///
/// The order of calls: [`InMemory::begin`]; while it says that the broker runs, [`InMemory::read`] for each
/// connection with bytes, [`InMemory::turn`], and [`InMemory::output`] and [`InMemory::written`] for each
/// connection. [`InMemory::next_due`] tells when to come back where nothing comes in.
#[derive(Debug)]
pub struct InMemory {
    pub(crate) node: Node,
    log: FaultLog,
    /// A fault lets it stand still: on account of which rule, since when and until when.
    stall: Option<(usize, Time, Time)>,
    tick_at: Time,
}

/// Names a connection of an [`InMemory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) Key);

/// State of a connection, as its owner must act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Hands over what the client sends.
    Input,
    /// Keeps what the client sends.
    Pause,
    /// Ends the connection when all output is written.
    End,
}

impl InMemory {
    /// A broker that starts now.
    pub fn new(config: Config, now: Time) -> Self {
        let log = FaultLog::default();
        Self { node: Node::new(config, log.clone()), log, stall: None, tick_at: now + TICK }
    }

    /// Counts of injected faults so far.
    pub fn fault_log(&self) -> FaultLog {
        self.log.clone()
    }

    /// A client connects.
    pub fn connect(&mut self, now: Time) -> ConnectionId {
        ConnectionId(self.node.connect(now, false))
    }

    /// A connection is gone.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        self.node.disconnect(connection.0);
    }

    /// Begins a turn: heartbeats, time-outs and faults that are due. Calls `gone` with each connection that
    /// ends by a reset. `false` while a fault lets the broker stand still: then nothing else is called.
    pub fn begin(&mut self, now: Time, mut gone: impl FnMut(ConnectionId)) -> bool {
        if let Some((rule, start, end)) = self.stall {
            if now < end {
                return false;
            }
            self.stall = None;
            self.node.stalled(rule, start, now);
        }
        self.node.advance(now);
        if let Some((rule, end)) = self.node.take_stall() {
            if now < end {
                self.stall = Some((rule, now, end));
                return false;
            }
            self.node.stalled(rule, now, now);
        }
        while let Some(key) = self.node.next_reset() {
            self.node.disconnect(key);
            gone(ConnectionId(key));
        }
        if self.tick_at <= now {
            self.tick_at = now + TICK;
            let mut late = Vec::new();
            self.node.tick(now, |key| late.push(key));
            for key in late {
                self.node.disconnect(key);
                gone(ConnectionId(key));
            }
        }
        true
    }

    /// Takes what it can use of what a client sent, and tells how many bytes; the others come again.
    pub fn read(&mut self, connection: ConnectionId, now: Time, input: &[u8]) -> usize {
        let mut rest = input;
        if self.wants(connection) == Wants::Input {
            self.node.input(connection.0, now, &mut rest);
        }
        input.len() - rest.len()
    }

    /// Delivers and answers.
    pub fn turn(&mut self) {
        self.node.turn();
        while self.node.next_touched().is_some() || self.node.next_resumed().is_some() {}
    }

    /// Bytes to be written to a connection.
    pub fn output(&self, connection: ConnectionId) -> &[u8] {
        self.node.output(connection.0)
    }

    /// The first bytes of the output are on their way.
    pub fn written(&mut self, connection: ConnectionId, bytes: usize) {
        self.node.written(connection.0, bytes);
    }

    /// State of a connection now.
    pub fn wants(&self, connection: ConnectionId) -> Wants {
        match self.node.verdict(connection.0) {
            Verdict::Read => Wants::Input,
            Verdict::Pause => Wants::Pause,
            Verdict::Finish => Wants::End,
        }
    }

    /// Whether another turn would do something at once, without new input.
    pub fn has_work(&self) -> bool {
        self.stall.is_none() && self.node.has_work()
    }

    /// When it has something to do of itself.
    pub fn next_due(&self) -> Time {
        match self.stall {
            Some((_, _, end)) => end,
            None => self.node.next_fault().map_or(self.tick_at, |fault| fault.min(self.tick_at)),
        }
    }

    /// Messages that wait in a queue, delivered and not acknowledged ones among them.
    pub fn depth(&self, queue: &str) -> Option<u64> {
        let key = self.node.vhost.queue_names.get(queue)?;
        let queue = self.node.vhost.queues.get(*key)?;
        Some(queue.ready() + queue.unacked())
    }
}
