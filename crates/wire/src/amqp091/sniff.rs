//! Telling what is at the other end when it is not AMQP 0-9-1 (specification 4.2.2: a server that
//! does not know the version answers with a header of its own and closes).

use super::error::{Error, Snippet};
use super::spec::PROTOCOL_HEADER;

/// Bytes that make a guess possible; fewer are waited for.
const ENOUGH: usize = 8;

/// How a greeting begins.
pub(super) enum Greeting {
    /// As expected, as far as it goes.
    Right,
    /// Otherwise, but too little to tell what it is.
    Doubtful,
    /// Another protocol, or none.
    Wrong(Error),
}

/// Judges the first bytes of the peer. `expected` is how the right greeting begins.
pub(super) fn greeting(input: &[u8], expected: &[u8]) -> Greeting {
    if input.iter().zip(expected).all(|(a, b)| a == b) {
        Greeting::Right
    } else if input.len() < ENOUGH {
        Greeting::Doubtful
    } else {
        Greeting::Wrong(wrong_protocol(input))
    }
}

/// The error, whatever the bytes are.
pub(super) fn wrong_protocol(input: &[u8]) -> Error {
    Error::WrongProtocol {
        guess: guess(input),
        offset: 0,
        bytes: Snippet::of(input),
    }
}

/// Says what a peer's first bytes look like.
pub(crate) fn guess(bytes: &[u8]) -> String {
    if let Some(version) = bytes.strip_prefix(b"AMQP") {
        return amqp(bytes, version);
    }
    if bytes.starts_with(b"HTTP/") {
        let line: Vec<u8> = bytes
            .iter()
            .copied()
            .take(64)
            .take_while(|b| !matches!(b, b'\r' | b'\n'))
            .collect();
        return format!(
            "it is an HTTP server ({}); AMQP is usually on port 5672",
            line.escape_ascii()
        );
    }
    KNOWN
        .iter()
        .find(|(start, _)| bytes.starts_with(start))
        .map_or("the protocol is unknown", |(_, name)| name)
        .to_owned()
}

/// How other protocols begin, from either side.
const KNOWN: &[(&[u8], &str)] = &[
    (
        b"\x15\x03",
        "it speaks TLS; AMQP over TLS (amqps) is usually on port 5671",
    ),
    (
        b"\x16\x03",
        "it speaks TLS; AMQP over TLS (amqps) is usually on port 5671",
    ),
    (b"SSH-", "it is an SSH server"),
    (b"GET ", "it is an HTTP client"),
    (b"POST ", "it is an HTTP client"),
    (b"HEAD ", "it is an HTTP client"),
    (b"CONNECT\n", "it speaks STOMP"),
    (b"CONNECTED\n", "it speaks STOMP"),
    (b"STOMP\n", "it speaks STOMP"),
    (b"ERROR\n", "it speaks STOMP"),
    (b"INFO {", "it is a NATS server"),
    (b"-ERR", "it looks like Redis"),
    (b"220 ", "it looks like SMTP or FTP"),
    (b"220-", "it looks like SMTP or FTP"),
    (b"\x10", "it looks like MQTT"),
    (b"\x20\x02", "it looks like MQTT"),
];

/// `AMQP`, then protocol id, major, minor and revision; 0-8 and 0-9 had other orders.
fn amqp(bytes: &[u8], version: &[u8]) -> String {
    match version {
        _ if bytes.starts_with(&PROTOCOL_HEADER) => {
            "it sent the AMQP 0-9-1 header where a connection.start or nothing was due".to_owned()
        }
        [0, 1, 0, 0, ..] => "it speaks AMQP 1.0".to_owned(),
        [2, 1, 0, 0, ..] => "it speaks AMQP 1.0 over TLS".to_owned(),
        [3, 1, 0, 0, ..] => "it speaks AMQP 1.0 with SASL".to_owned(),
        [1, 1, 0, 10, ..] => "it speaks AMQP 0-10".to_owned(),
        [0, 0, 9, 0, ..] | [1, 1, 0, 9, ..] => "it speaks AMQP 0-9".to_owned(),
        [1, 1, major, minor, ..] => format!("it speaks AMQP {major}-{minor}"),
        [a, b, c, d, ..] => format!("it speaks AMQP of the unknown version {a}.{b}.{c}.{d}"),
        _ => "it began an AMQP header".to_owned(),
    }
}
