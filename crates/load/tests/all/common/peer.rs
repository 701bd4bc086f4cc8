//! A broker in a test's hands: it logs everybody in, and does then what the test says.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use measure::{Clock, Nanos};
use wire::amqp091::{
    BasicCancelOk, BasicConsumeOk, BasicDeliver, BasicGetEmpty, BasicQosOk, ConfirmSelectOk,
    EncodeMethod, Method, Properties, QueueBindOk, QueueDeclareOk, QueuePurgeOk, Server,
    ServerConfig, ServerEvent, TxCommitOk, TxSelectOk,
};

/// How long a peer waits for bytes before it looks what else there is to do.
const SLICE: Duration = Duration::from_millis(1);

/// What a client wants, as far as tests care.
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
    /// The connection is over.
    Gone,
}

/// One client's connection, seen from the broker.
pub(crate) struct Peer {
    pub(crate) server: Server,
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
    /// Where the stream consumers of this connection asked to begin, as numbers.
    pub(crate) offsets: Vec<Option<i64>>,
    /// The bodies that this connection has published.
    pub(crate) published: VecDeque<Vec<u8>>,
    /// Writes in pieces of up to this many bytes; 0 for all at once.
    pub(crate) dribble: usize,
}

/// Calls `serve` with each connection and its number, on a thread of its own.
pub(crate) fn listen(
    config: ServerConfig,
    serve: impl Fn(usize, Peer) + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let stream = stream.expect("connection");
            stream.set_read_timeout(Some(SLICE)).expect("time-out");
            stream.set_nodelay(true).expect("no delay");
            let peer = Peer {
                server: Server::new(config.clone(), Clock.now()),
                stream,
                input: Vec::new(),
                offsets: Vec::new(),
                published: VecDeque::new(),
                dribble: 0,
            };
            let serve = serve.clone();
            thread::spawn(move || serve(number, peer));
        }
    });
    address
}

/// A configuration with this heartbeat interval, in seconds.
pub(crate) fn beating(heartbeat_s: u16) -> ServerConfig {
    ServerConfig {
        heartbeat_s,
        timeout: Nanos::from_millis(20_000),
        ..ServerConfig::default()
    }
}

impl Peer {
    /// Writes what waits, and sends heartbeats that are due; `false` when the client has gone.
    pub(crate) fn write(&mut self) -> bool {
        let now = Clock.now();
        if self.server.handle_timeout(now).is_err() {
            return false;
        }
        let pending = self.server.pending_output();
        let all = pending.len();
        let piece = if self.dribble > 0 { self.dribble } else { all };
        let mut pieces = pending.chunks(piece.max(1));
        let written = pieces.all(|piece| self.stream.write_all(piece).is_ok());
        self.server.consume_output(all);
        written
    }

    /// Writes, reads for a moment, and tells what the client wants.
    pub(crate) fn turn(&mut self) -> Vec<Asked> {
        if !self.write() {
            return vec![Asked::Gone];
        }
        let mut room = [0; 64 << 10];
        match self.stream.read(&mut room) {
            Ok(0) => return vec![Asked::Gone],
            Ok(n) => self.input.extend_from_slice(&room[..n]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return vec![Asked::Gone],
        }
        let mut asked = Vec::new();
        let bytes = std::mem::take(&mut self.input);
        let mut input = &bytes[..];
        while let Some(event) = self.server.poll(Clock.now(), &mut input).expect("a client") {
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
                ServerEvent::Ack {
                    channel,
                    delivery_tag,
                    multiple,
                } => asked.push(Asked::Ack {
                    channel,
                    tag: delivery_tag,
                    multiple,
                }),
                ServerEvent::Publish { channel, body, .. } => {
                    self.published.push_back(body.to_vec());
                    asked.push(Asked::Publish(channel));
                }
                ServerEvent::Closed { .. } | ServerEvent::CloseOk => asked.push(Asked::Gone),
                _ => {}
            }
        }
        self.input = input.to_vec();
        if asked.contains(&Asked::Gone) {
            self.write();
        }
        asked
    }

    pub(crate) fn send(&mut self, channel: u16, method: &impl EncodeMethod) {
        self.server.send(channel, method).expect("sent");
    }

    /// Answers a method as a broker does that has everything.
    pub(crate) fn answer(&mut self, channel: u16, method: &str) {
        let consumer_tag = "c";
        match method {
            "queue.declare" => self.send(
                channel,
                &QueueDeclareOk {
                    queue: "queue",
                    ..QueueDeclareOk::default()
                },
            ),
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
        let deliver = BasicDeliver {
            consumer_tag: "c",
            delivery_tag: tag,
            redelivered,
            exchange: "",
            routing_key: "q",
        };
        let sent = self
            .server
            .send_content(channel, &deliver, properties, body);
        sent.expect("delivered");
    }

    /// Answers everything until the client goes.
    pub(crate) fn serve_politely(mut self) {
        loop {
            for asked in self.turn() {
                match asked {
                    Asked::Method(channel, method) => self.answer(channel, method),
                    Asked::Gone => return,
                    Asked::Ack { .. } | Asked::Publish(_) => {}
                }
            }
        }
    }
}
