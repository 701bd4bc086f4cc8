//! A blocking client for tests over real sockets.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use measure::Clock;
use wire::Secret;
use wire::amqp091::{BasicPublish, ChannelOpen, Client, ClientConfig, EncodeMethod, Event, Properties};

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Event that a client saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Open,
    Method(String),
    Delivery(Vec<u8>),
    Closed(u16, String),
    Other(String),
}

/// A client of user `guest`.
pub(crate) struct Connection {
    stream: TcpStream,
    client: Client,
    input: Vec<u8>,
    seen: VecDeque<Seen>,
}

impl Connection {
    /// Connects, logs in and opens channel 1.
    pub(crate) fn open(address: SocketAddr) -> Self {
        let mut connection = Self::start(TcpStream::connect(address).expect("a connection"));
        assert_eq!(connection.next(), Seen::Open);
        connection.ask(&ChannelOpen::default(), "ChannelOpenOk");
        connection
    }

    /// Begins the handshake on a socket.
    pub(crate) fn start(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let config =
            ClientConfig { user: "guest".to_owned(), password: Secret::new("guest"), ..ClientConfig::default() };
        let client = Client::new(config, Clock.now());
        Self { stream, client, input: Vec::new(), seen: VecDeque::new() }
    }

    /// The next thing the broker says.
    pub(crate) fn next(&mut self) -> Seen {
        loop {
            self.flush();
            if let Some(seen) = self.seen.pop_front() {
                return seen;
            }
            let mut chunk = [0; 65536];
            let n = self.stream.read(&mut chunk).expect("bytes in time");
            assert_ne!(n, 0, "the broker closed the connection");
            self.input.extend_from_slice(&chunk[..n]);
            self.parse();
        }
    }

    fn parse(&mut self) {
        let mut input = &self.input[..];
        loop {
            let mut rest = input;
            let event = self.client.poll(Clock.now(), &mut rest).expect("AMQP");
            let seen = event.map(|event| match event {
                Event::Open { .. } => Seen::Open,
                Event::Method { method, .. } => Seen::Method(format!("{method:?}")),
                Event::Delivery { body, .. } => Seen::Delivery(body.to_vec()),
                Event::Closed { closing } => Seen::Closed(closing.code, closing.text.to_owned()),
                other => Seen::Other(format!("{other:?}")),
            });
            input = &input[input.len() - rest.len()..];
            match seen {
                Some(seen) => self.seen.push_back(seen),
                None => break,
            }
        }
        let used = self.input.len() - input.len();
        self.input.drain(..used);
    }

    /// Closes the connection twice in one piece, and hands the socket on.
    pub(crate) fn close_twice(mut self) -> TcpStream {
        self.flush();
        self.client.close(Clock.now(), 200, "bye");
        let close = self.client.pending_output().repeat(2);
        self.stream.write_all(&close).expect("bytes are taken");
        self.stream
    }

    /// Writes what is queued.
    pub(crate) fn flush(&mut self) {
        while !self.client.pending_output().is_empty() {
            let n = self.stream.write(self.client.pending_output()).expect("bytes are taken");
            self.client.consume_output(n);
        }
    }

    fn send(&mut self, method: &impl EncodeMethod) {
        self.client.send(1, method).expect("a method that can be sent");
    }

    /// Sends a request whose answer begins with `answer`.
    pub(crate) fn ask(&mut self, method: &impl EncodeMethod, answer: &str) {
        self.send(method);
        match self.next() {
            Seen::Method(m) if m.starts_with(answer) => {}
            other => panic!("{answer} expected, not {other:?}"),
        }
    }

    pub(crate) fn publish(&mut self, queue: &str, body: &[u8]) {
        let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
        self.client.send_content(1, &publish, Properties::NONE, body).expect("a message");
    }
}
