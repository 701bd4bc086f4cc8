//! Responses as servers send them, and as none should.

use super::super::fuzzing::{Decoded, outcome, response};
use super::*;

fn decode(method: &str, input: &[u8]) -> Decoded {
    let whole = outcome(method, std::iter::once(input));
    assert_eq!(whole, outcome(method, input.chunks(1)), "byte by byte");
    whole
}

const OK: &str = "HTTP/1.1 200 OK\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const REUSABLE: &str = "End, reusable: true";
const USED_UP: &str = "End, reusable: false";

#[test]
fn bodies_end_where_their_heads_say() {
    let announced = format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nLink: y\r\n\r\n{OK}");
    let zipped = format!("{OK}Transfer-Encoding: gzip, Chunked\r\n\r\n1\r\na\r\n000\r\nx: y\r\nz: \r\n\r\n");
    let two_lengths = CHUNKED.replace("Transfer", "Content-Length: 1\r\nTransfer");
    for (method, input, body, last) in [
        ("GET", format!("{OK}Content-Length: 5\r\n\r\nhello"), "hello", REUSABLE),
        ("GET", "HTTP/1.1 200 OK\ncontent-length:5\n\nhello".to_owned(), "hello", REUSABLE),
        ("GET", format!("{OK}Content-Length: 0\r\n\r\n"), "", REUSABLE),
        ("HEAD", format!("{OK}Content-Length: 5\r\n\r\n"), "", REUSABLE),
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n".to_owned(), "", REUSABLE),
        ("GET", "HTTP/1.1 304 X\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), "", REUSABLE),
        ("GET", format!("{CHUNKED}5\r\nhello\r\nA;x=\"y\"\r\n, world...\r\n0\r\n\r\n"), "hello, world...", REUSABLE),
        ("GET", zipped, "a", REUSABLE),
        ("GET", format!("{OK}\r\nuntil the end"), "until the end", "End"),
        ("GET", format!("{announced}Content-Length: 1\r\n\r\na"), "a", REUSABLE),
        ("GET", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na".to_owned(), "a", USED_UP),
        ("GET", format!("{OK}Connection: x, Close\r\nContent-Length: 1\r\n\r\na"), "a", USED_UP),
        ("GET", format!("{two_lengths}2\r\nab\r\n0\r\n\r\n"), "ab", USED_UP),
    ] {
        let decoded = decode(method, input.as_bytes());
        assert_eq!(String::from_utf8_lossy(&decoded.body), body, "{input:?}");
        let end = decoded.events.iter().rev().find(|it| !it.contains("ended before"));
        assert_eq!(end.map(String::as_str), Some(last), "{input:?}");
    }
}

#[test]
fn what_breaks_the_protocol_is_said() {
    assert!(last_of("AMQP\0\0\u{9}\u{1}").contains("NotHttp"));
    for line in include_str!("../../tests/data/no-responses.txt").lines() {
        let (input, cause) = line.split_once(" ⇒ ").unwrap_or_default();
        let input = input.replace('↵', "\r\n");
        let last = last_of(&input);
        assert!(last.contains(cause), "{input:?}: {last}");
    }
}

fn last_of(input: &str) -> String {
    decode("GET", input.as_bytes()).events.pop().unwrap_or_default()
}

#[test]
fn nothing_grows_without_end() {
    let fill = |line: &str, times: usize| line.repeat(times);
    for (input, cause) in [
        (format!("{OK}{}", fill("a", 70_000)), "TooLarge head"),
        (format!("{OK}{}\r\n", fill("a: b\r\n", 129)), "TooLarge head"),
        (format!("{CHUNKED}1;{}", fill("x", 5_000)), "TooLarge chunk line"),
        (format!("{CHUNKED}0\r\n{}", fill("x: y\r\n", 3_000)), "TooLarge trailers"),
        (fill("HTTP/1.1 100 X\r\n\r\n", 17), "TooLarge announcement"),
    ] {
        assert!(last_of(&input).contains(cause), "{cause}");
    }
}

#[test]
fn headers_are_found_by_name() {
    let mut decoder = ResponseDecoder::default();
    decoder.expect("GET");
    let mut input: &[u8] = b"HTTP/1.1 200 OK\r\nContent-TYPE: text/plain\r\n\r\n";
    assert!(matches!(decoder.handle_input(&mut input), Ok(Some(HttpEvent::Head(_)))));
    assert_eq!(decoder.header("content-type"), Some(&b"text/plain"[..]));
    assert_eq!(decoder.header("x"), None);
}

/// Random mutations of good responses, in random pieces: no panic, and the same events.
#[test]
fn any_split_of_any_input_gives_the_same_events() {
    let seeds: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: \
         chunked\r\n\r\n5;a\r\nhello\r\n1f\r\n0123456789012345678901234567890\r\n0\r\na: b\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\nrest",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for round in 0..20_000 {
        let mut data = vec![random(256) as u8, random(256) as u8];
        data.extend_from_slice(seeds[round % seeds.len()]);
        for _ in 0..random(4) {
            let at = random(data.len());
            match random(3) {
                0 => data[at] = random(256) as u8,
                1 => drop(data.remove(at)),
                _ => data.insert(at, b"\r\n0:;\x00HTaf"[random(10)]),
            }
        }
        response(&data);
    }
}
