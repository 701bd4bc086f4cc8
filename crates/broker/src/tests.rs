//! A broker behind a socket, through a blocking client.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use measure::{Clock, Nanos};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use wire::Secret;
use wire::amqp091::{
    BasicConsume, BasicPublish, ChannelOpen, Client, ClientConfig, ConfirmSelect, EncodeMethod,
    Event, Properties, QueueDeclare,
};

use crate::{Broker, Config, Error, Running};

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Event that a client saw.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Open,
    Method(String),
    Delivery(Vec<u8>),
    Closed(u16, String),
    Other(String),
}

/// A client of user `guest`.
struct Connection {
    stream: TcpStream,
    client: Client,
    input: Vec<u8>,
    seen: VecDeque<Seen>,
}

impl Connection {
    /// Connects, logs in and opens channel 1.
    fn open(address: SocketAddr) -> Self {
        let mut connection = Self::start(TcpStream::connect(address).expect("a connection"));
        assert_eq!(connection.next(), Seen::Open);
        connection.ask(&ChannelOpen::default(), "ChannelOpenOk");
        connection
    }

    /// Begins the handshake on a socket.
    fn start(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let config = ClientConfig {
            user: "guest".to_owned(),
            password: Secret::new("guest"),
            ..ClientConfig::default()
        };
        let client = Client::new(config, Clock.now());
        Self {
            stream,
            client,
            input: Vec::new(),
            seen: VecDeque::new(),
        }
    }

    /// The next thing the broker says.
    fn next(&mut self) -> Seen {
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
    fn close_twice(mut self) -> TcpStream {
        self.flush();
        self.client.close(Clock.now(), 200, "bye");
        let close = self.client.pending_output().repeat(2);
        self.stream.write_all(&close).expect("bytes are taken");
        self.stream
    }

    /// Writes what is queued.
    fn flush(&mut self) {
        while !self.client.pending_output().is_empty() {
            let n = self
                .stream
                .write(self.client.pending_output())
                .expect("bytes are taken");
            self.client.consume_output(n);
        }
    }

    fn send(&mut self, method: &impl EncodeMethod) {
        self.client
            .send(1, method)
            .expect("a method that can be sent");
    }

    /// Sends a request whose answer begins with `answer`.
    fn ask(&mut self, method: &impl EncodeMethod, answer: &str) {
        self.send(method);
        match self.next() {
            Seen::Method(m) if m.starts_with(answer) => {}
            other => panic!("{answer} expected, not {other:?}"),
        }
    }

    fn publish(&mut self, queue: &str, body: &[u8]) {
        let publish = BasicPublish {
            routing_key: queue,
            ..BasicPublish::default()
        };
        self.client
            .send_content(1, &publish, Properties::NONE, body)
            .expect("a message");
    }
}

fn start(config: Config) -> Running {
    Broker::bind(config)
        .expect("a free port")
        .spawn()
        .expect("a thread")
}

fn queue(name: &str) -> QueueDeclare<'_> {
    QueueDeclare {
        queue: name,
        ..QueueDeclare::default()
    }
}

fn consume(queue: &str) -> BasicConsume<'_> {
    BasicConsume {
        queue,
        no_ack: true,
        ..BasicConsume::default()
    }
}

#[test]
fn messages_of_all_sizes_pass_unharmed() {
    let broker = start(Config::default());
    let mut producer = Connection::open(broker.local_addr());
    let mut consumer = Connection::open(broker.local_addr());
    producer.ask(&queue("q"), "QueueDeclareOk");
    consumer.ask(&consume("q"), "BasicConsumeOk");
    // Around the frame size (131,072 bytes with 8 of overhead), and far above it.
    for size in [
        0, 1, 12, 4096, 131_063, 131_064, 131_065, 262_128, 3_000_000,
    ] {
        let body: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        producer.publish("q", &body);
        producer.flush();
        match consumer.next() {
            Seen::Delivery(got) => assert!(got == body, "{size} bytes came as {}", got.len()),
            other => panic!("a delivery expected, not {other:?}"),
        }
    }
}

#[test]
fn a_consumer_that_reads_nothing_for_a_while_loses_nothing() {
    let broker = start(Config {
        memory_limit_bytes: 64 << 20,
        ..Config::default()
    });
    let mut producer = Connection::open(broker.local_addr());
    let mut consumer = Connection::open(broker.local_addr());
    producer.ask(&queue("q"), "QueueDeclareOk");
    consumer.ask(&consume("q"), "BasicConsumeOk");
    producer.ask(&ConfirmSelect::default(), "ConfirmSelectOk");
    let body = vec![7; 10_000];
    for _ in 0..2_000 {
        producer.publish("q", &body);
        producer.flush();
    }
    // 20 MB are confirmed while nobody reads them: more than sockets and output hold.
    let mut confirmed = 0;
    while confirmed < 2_000 {
        match producer.next() {
            Seen::Other(confirm) => {
                let digits = confirm.split("delivery_tag: ").nth(1).expect("a confirm");
                confirmed = digits
                    .split(',')
                    .next()
                    .and_then(|d| d.parse().ok())
                    .expect("a tag");
            }
            other => panic!("a confirm expected, not {other:?}"),
        }
    }
    for _ in 0..2_000 {
        assert!(matches!(consumer.next(), Seen::Delivery(got) if got == body));
    }
}

#[test]
fn hundreds_of_connections_are_served_at_once() {
    let broker = start(Config::default());
    let mut all: Vec<Connection> = (0..300)
        .map(|_| Connection::open(broker.local_addr()))
        .collect();
    for (i, connection) in all.iter_mut().enumerate() {
        let name = format!("q{i}");
        connection.ask(&queue(&name), "QueueDeclareOk");
        connection.ask(&consume(&name), "BasicConsumeOk");
    }
    for (i, connection) in all.iter_mut().enumerate() {
        connection.publish(&format!("q{}", (i + 1) % 300), &i.to_le_bytes());
        connection.flush();
    }
    for (i, connection) in all.iter_mut().enumerate() {
        let sender: usize = (i + 299) % 300;
        assert_eq!(
            connection.next(),
            Seen::Delivery(sender.to_le_bytes().to_vec())
        );
    }
}

#[test]
fn what_is_no_amqp_is_answered_with_the_protocol_header_and_closed() {
    let broker = start(Config::default());
    let mut good = Connection::open(broker.local_addr());
    let mut bad = TcpStream::connect(broker.local_addr()).expect("a connection");
    bad.set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    bad.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("written");
    let mut answer = Vec::new();
    bad.read_to_end(&mut answer).expect("an answer and an end");
    assert_eq!(answer, b"AMQP\x00\x00\x09\x01");
    good.ask(&queue("q"), "QueueDeclareOk");
}

/// A client that sees the end before it has looked at the answer takes it for a loss, as amqp091-go does.
#[test]
fn a_client_that_closes_twice_has_its_answer_and_ends_the_connection_itself() {
    let broker = start(Config::default());
    let mut stream = Connection::open(broker.local_addr()).close_twice();
    let mut answer = [0; 64];
    let length = stream.read(&mut answer).expect("an answer");
    // connection.close-ok in a frame of channel 0.
    assert_eq!(answer[..length], [1, 0, 0, 0, 0, 0, 4, 0, 10, 0, 51, 0xCE]);
    let time_out = |stream: &TcpStream, ms| {
        let time_out = stream.set_read_timeout(Some(Duration::from_millis(ms)));
        time_out.expect("a time-out");
    };
    time_out(&stream, 300);
    let early = stream.read(&mut answer);
    assert!(early.is_err(), "{early:?}");
    // One that does not end it is not waited for.
    time_out(&stream, 20_000);
    assert_eq!(stream.read(&mut answer).expect("an end, and no reset"), 0);
}

#[test]
fn who_says_nothing_is_not_waited_for_longer_than_configured() {
    let config = Config {
        handshake_timeout: Nanos::from_millis(500),
        ..Config::default()
    };
    let broker = start(config);
    let began = Instant::now();
    let mut silent = TcpStream::connect(broker.local_addr()).expect("a connection");
    silent
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    let mut half = TcpStream::connect(broker.local_addr()).expect("a connection");
    half.set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    half.write_all(b"AMQP").expect("written");
    for stream in [&mut silent, &mut half] {
        let mut rest = Vec::new();
        // An end or a reset, either is one.
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert!(began.elapsed() >= Duration::from_millis(500));
}

#[test]
fn stopping_says_goodbye() {
    let broker = start(Config::default());
    let mut client = Connection::open(broker.local_addr());
    broker.stop_handle().stop();
    let Seen::Closed(code, text) = client.next() else {
        panic!("no goodbye")
    };
    assert_eq!(code, 320);
    assert!(text.starts_with("CONNECTION_FORCED"), "{text}");
    broker.wait().expect("an orderly end");
}

#[test]
fn an_address_in_use_is_named() {
    let broker = start(Config::default());
    let config = Config {
        listen: broker.local_addr(),
        ..Config::default()
    };
    match Broker::bind(config) {
        Err(error @ Error::Listen { .. }) => {
            let text = error.to_string();
            assert!(text.contains(&broker.local_addr().to_string()), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// The limit is the whole process's: `scripts/test` gives each test its own.
#[test]
fn newcomers_wait_while_no_descriptor_is_left_and_nothing_spins() {
    let broker = Broker::bind(Config::default()).expect("a free port");
    let address = broker.local_addr();
    // The system completes these connections; the broker has yet to accept them.
    let waiting: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(address).expect("a connection"))
        .collect();
    let highest = std::fs::read_dir("/proc/self/fd")
        .expect("descriptors")
        .count() as u64;
    let limit = getrlimit(Resource::Nofile);
    let scarce = Rlimit {
        current: Some(highest + 4),
        ..limit
    };
    setrlimit(Resource::Nofile, scarce).expect("a lower limit");
    let _running = broker.spawn().expect("a thread");

    let mut clients: Vec<Connection> = waiting.into_iter().map(Connection::start).collect();
    let mut served = clients.remove(0);
    assert_eq!(served.next(), Seen::Open, "those who are in are served");
    let (began, cpu) = (Clock.now(), cpu_time());
    std::thread::sleep(Duration::from_secs(1));
    let (wall, cpu) = (Duration::from(Clock.now().since(began)), cpu_time() - cpu);
    assert!(cpu < wall / 5, "{cpu:?} of CPU time in {wall:?} of waiting");

    // Each one that leaves lets one in.
    drop(served);
    for mut client in clients {
        assert_eq!(client.next(), Seen::Open);
        client.ask(&ChannelOpen::default(), "ChannelOpenOk");
        client.ask(
            &QueueDeclare {
                queue: "q",
                ..QueueDeclare::default()
            },
            "QueueDeclareOk",
        );
    }
    let mut last = Connection::open(address);
    last.publish("q", b"all is well again");
    last.flush();
    last.ask(
        &QueueDeclare {
            queue: "q",
            ..QueueDeclare::default()
        },
        "QueueDeclareOk",
    );
}
