//! The broker over real sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::peer::{Connection, Seen};
use crate::{Broker, Config, Running, Stop};
use measure::Nanos;
use wire::amqp091::{BasicConsume, ConfirmSelect, QueueDeclare};

fn start(config: Config) -> Running {
    Broker::bind(config).expect("a free port").spawn().expect("a thread")
}

fn queue(name: &str) -> QueueDeclare<'_> {
    QueueDeclare { queue: name, ..QueueDeclare::default() }
}

fn consume(queue: &str) -> BasicConsume<'_> {
    BasicConsume { queue, no_ack: true, ..BasicConsume::default() }
}

#[test]
fn a_consumer_that_reads_nothing_for_a_while_loses_nothing() {
    let broker = start(Config { memory_limit_bytes: 64 << 20, ..Config::default() });
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
                confirmed = digits.split(',').next().and_then(|d| d.parse().ok()).expect("a tag");
            }
            other => panic!("a confirm expected, not {other:?}"),
        }
    }
    for _ in 0..2_000 {
        assert!(matches!(consumer.next(), Seen::Delivery(got) if got == body));
    }
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
        stream.set_read_timeout(Some(Duration::from_millis(ms))).expect("a time-out");
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
    let config = Config { handshake_timeout: Nanos::from_millis(500), ..Config::default() };
    let broker = start(config);
    let began = Instant::now();
    let mut silent = TcpStream::connect(broker.local_addr()).expect("a connection");
    silent.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let mut half = TcpStream::connect(broker.local_addr()).expect("a connection");
    half.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    half.write_all(b"AMQP").expect("written");
    for stream in [&mut silent, &mut half] {
        let mut rest = Vec::new();
        // An end or a reset, either is one.
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(began.elapsed() >= Duration::from_millis(500));
}

#[test]
fn stopping_says_goodbye() {
    let mut broker = Broker::bind(Config::default()).expect("a free port");
    let (address, stop) = (broker.local_addr(), Stop::new());
    let handle = stop.clone();
    let running = std::thread::spawn(move || broker.run(&handle));
    let mut client = Connection::open(address);
    stop.stop();
    let Seen::Closed(code, text) = client.next() else { panic!("no goodbye") };
    assert_eq!(code, 320);
    assert!(text.starts_with("CONNECTION_FORCED"), "{text}");
    running.join().unwrap().expect("an orderly end");
}
