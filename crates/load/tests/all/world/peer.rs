//! A broker in a test's hands: it logs everybody in, and does then what the test says.

use std::collections::VecDeque;

use measure::{Nanos, Time};
use wire::amqp091::{
    BasicCancelOk, BasicConsumeOk, BasicDeliver, BasicGetEmpty, BasicQosOk, ConfirmSelectOk, EncodeMethod, Method,
    Properties, QueueBindOk, QueueDeclareOk, QueuePurgeOk, Server, ServerConfig, ServerEvent, TxCommitOk, TxSelectOk,
};

/// A client's request, as far as tests care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A method that waits for its answer.
    Method(u16, &'static str),
    Ack {
        channel: u16,
        tag: u64,
        multiple: bool,
    },
    Publish(u16),
    Gone,
}

/// One client's connection, seen from the broker.
pub(crate) struct Peer {
    pub(crate) server: Server,
    /// Where the stream consumers of this connection asked to begin, as numbers.
    pub(crate) offsets: Vec<Option<i64>>,
    pub(crate) published: VecDeque<Vec<u8>>,
    /// Writes in pieces of up to this many bytes; 0 for all at once.
    pub(crate) dribble: usize,
    pub(crate) is_deaf: bool,
    pub(crate) resets: bool,
}

/// A configuration with this heartbeat interval, in seconds.
pub(crate) fn beating(heartbeat_s: u16) -> ServerConfig {
    ServerConfig { heartbeat_s, timeout: Nanos::from_millis(20_000), ..ServerConfig::default() }
}

impl Peer {
    /// Decodes what has come, and tells what the client wants.
    fn hear(&mut self, bytes: &mut Vec<u8>, now: Time) -> Vec<Asked> {
        let mut asked = Vec::new();
        let mut input = &bytes[..];
        while let Some(event) = self.server.poll(now, &mut input).expect("a client") {
            match event {
                ServerEvent::Login { .. } => self.server.accept_login(),
                ServerEvent::Open { .. } => self.server.accept_open(),
                ServerEvent::Method { channel, method } => {
                    if let Method::BasicConsume(consume) = &method {
                        let offset = consume.arguments.get("x-stream-offset");
                        self.offsets.push(offset.and_then(|value| value.as_i64()));
                    }
                    asked.push(Asked::Method(channel, method.info().name));
                }
                ServerEvent::Ack { channel, delivery_tag, multiple } => {
                    asked.push(Asked::Ack { channel, tag: delivery_tag, multiple });
                }
                ServerEvent::Publish { channel, body, .. } => {
                    self.published.push_back(body.to_vec());
                    asked.push(Asked::Publish(channel));
                }
                ServerEvent::Closed { .. } | ServerEvent::CloseOk => asked.push(Asked::Gone),
                _ => {}
            }
        }
        let used = bytes.len() - input.len();
        bytes.drain(..used);
        asked
    }

    pub(crate) fn send(&mut self, channel: u16, method: &impl EncodeMethod) {
        self.server.send(channel, method).expect("sent");
    }

    /// Answers a method as a broker does that has everything.
    pub(crate) fn answer(&mut self, channel: u16, method: &str) {
        let consumer_tag = "c";
        match method {
            "queue.declare" => self.send(channel, &QueueDeclareOk { queue: "queue", ..QueueDeclareOk::default() }),
            "queue.bind" => self.send(channel, &QueueBindOk {}),
            "queue.purge" => self.send(channel, &QueuePurgeOk::default()),
            "basic.qos" => self.send(channel, &BasicQosOk {}),
            "basic.consume" => self.send(channel, &BasicConsumeOk { consumer_tag }),
            "basic.cancel" => self.send(channel, &BasicCancelOk { consumer_tag }),
            "basic.get" => self.send(channel, &BasicGetEmpty::default()),
            "confirm.select" => self.send(channel, &ConfirmSelectOk {}),
            "tx.select" => self.send(channel, &TxSelectOk {}),
            "tx.commit" => self.send(channel, &TxCommitOk {}),
            other => panic!("a client asks for {other}"),
        }
    }

    /// Answers a method; the channel, where that subscribes.
    pub(crate) fn attend(&mut self, asked: Asked) -> Option<u16> {
        let Asked::Method(channel, method) = asked else { return None };
        self.answer(channel, method);
        (method == "basic.consume").then_some(channel)
    }

    pub(crate) fn deliver(&mut self, channel: u16, tag: u64, redelivered: bool, body: &[u8]) {
        self.deliver_with(channel, tag, redelivered, Properties::NONE, body);
    }

    pub(crate) fn deliver_with(
        &mut self,
        channel: u16,
        tag: u64,
        redelivered: bool,
        properties: Properties<'_>,
        body: &[u8],
    ) {
        let deliver =
            BasicDeliver { consumer_tag: "c", delivery_tag: tag, redelivered, exchange: "", routing_key: "q" };
        self.server.send_content(channel, &deliver, properties, body).expect("delivered");
    }
}

pub(crate) trait Serve: Send {
    /// Hears what the client wants, and tells after how long it is to be called again where nothing comes;
    /// `None` ends the connection.
    fn turn(&mut self, peer: &mut Peer, asked: Vec<Asked>, now: Time) -> Option<Nanos>;
}

impl<F: FnMut(&mut Peer, Vec<Asked>, Time) -> Option<Nanos> + Send> Serve for F {
    fn turn(&mut self, peer: &mut Peer, asked: Vec<Asked>, now: Time) -> Option<Nanos> {
        self(peer, asked, now)
    }
}

pub(crate) const IDLE: Nanos = Nanos::from_millis(100);

pub(crate) fn polite() -> Box<dyn Serve> {
    Box::new(|peer: &mut Peer, asked: Vec<Asked>, _: Time| {
        for asked in asked {
            peer.attend(asked);
        }
        Some(IDLE)
    })
}

pub(super) struct PeerConnection {
    peer: Peer,
    serve: Box<dyn Serve>,
    pub(super) input: Vec<u8>,
    due: Time,
    is_gone: bool,
}

impl PeerConnection {
    pub(super) fn new(config: ServerConfig, serve: Box<dyn Serve>, now: Time) -> Self {
        Self {
            peer: Peer {
                server: Server::new(config, now),
                offsets: Vec::new(),
                published: VecDeque::new(),
                dribble: 0,
                is_deaf: false,
                resets: false,
            },
            serve,
            input: Vec::new(),
            due: now,
            is_gone: false,
        }
    }

    pub(super) const fn due(&self) -> Time {
        self.due
    }

    pub(super) const fn is_deaf(&self) -> bool {
        self.peer.is_deaf
    }

    /// Does what there is to do; `false` where the connection is over.
    pub(super) fn turn(&mut self, now: Time) -> bool {
        if self.is_gone || self.peer.server.handle_timeout(now).is_err() {
            return false;
        }
        let asked = self.peer.hear(&mut self.input, now);
        if asked.contains(&Asked::Gone) {
            // The last answer still goes.
            self.is_gone = true;
            self.due = now;
            return false;
        }
        match self.serve.turn(&mut self.peer, asked, now) {
            Some(pause) => self.due = now + Nanos(pause.0.max(1)),
            None => return false,
        }
        true
    }

    pub(super) const fn resets(&self) -> bool {
        self.peer.resets
    }

    pub(super) fn output(&self) -> usize {
        self.peer.server.pending_output().len()
    }

    /// How many of so many are written at once.
    pub(super) const fn piece(&self, count: usize) -> usize {
        match self.peer.dribble {
            0 => count,
            piece if piece < count => piece,
            _ => count,
        }
    }

    pub(super) fn write(&mut self, count: usize, to: impl FnOnce(&[u8])) {
        to(&self.peer.server.pending_output()[..count]);
        self.peer.server.consume_output(count);
    }
}
