//! Peers that are no nodes, or bad ones: each gets one line, in time, and no memory.

use crate::hostile_node;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use erlang::term::{TermError, decode};
use erlang::{ConnectOptions, Error, Frame, Node};
use hostile_node::{answer, challenge, message, options, serve, server};

const TIMEOUT: Duration = Duration::from_millis(1500);

/// The failure to connect to a port, as one line.
fn refused(port: u16) -> String {
    let address = Some(("127.0.0.1".into(), port));
    line(Node::connect(&ConnectOptions { address, ..options(TIMEOUT) }).expect_err("no node"))
}

/// The failure to find a node by an EPMD.
fn unknown(port: u16) -> String {
    line(Node::connect(&ConnectOptions { epmd_port: port, ..options(TIMEOUT) }).expect_err("no EPMD"))
}

fn line(error: Error) -> String {
    let sentence = error.problem().sentence();
    assert!(!sentence.contains('\n'), "{sentence}");
    assert!(sentence.len() < 600, "{sentence}");
    sentence
}

/// Reads until the other side has ended it.
fn until_ended(mut stream: TcpStream) -> std::io::Result<()> {
    while stream.read(&mut [0; 64])? > 0 {}
    Ok(())
}

fn says(what: &'static [u8]) -> u16 {
    server(move |mut stream| {
        let _ = stream.read(&mut [0; 1000])?;
        stream.write_all(what)
    })
}

#[test]
fn an_epmd_that_talks_nonsense_or_nothing_gets_one_line() {
    let nothing = server(|mut stream| {
        let _ = stream.read(&mut [0; 1000])?;
        until_ended(stream)
    });
    let begun = Instant::now();
    assert!(unknown(nothing).contains("did not answer in time"));
    assert!(begun.elapsed() < 2 * TIMEOUT, "{:?}", begun.elapsed());
    assert!(unknown(says(b"")).contains("is not EPMD"));
    assert!(unknown(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")).contains("is not EPMD"));
    assert!(unknown(says(&[119, 1])).contains("knows no node \"node\""));
    // What it knows instead, where it tells that.
    let names = server(|mut stream| {
        let mut request = [0; 1000];
        let read = stream.read(&mut request)?;
        match request.get(2) {
            Some(b'n') => {
                stream.write_all(b"\0\0\x11\x11name rabbit at port 25672\nname a\x1b[2J at port 1\nnonsense\n")
            }
            _ if read > 0 => stream.write_all(&[119, 1]),
            _ => Ok(()),
        }
    });
    testkit::assert_has(unknown(names), ["knows no node", "rabbit"]);
    let endless_names = server(|mut stream| {
        let mut request = [0; 1000];
        let _ = stream.read(&mut request)?;
        match request.get(2) {
            Some(b'n') => loop {
                stream.write_all(&[b'n'; 1 << 16])?;
            },
            _ => stream.write_all(&[119, 1]),
        }
    });
    assert!(unknown(endless_names).contains("knows no node"));
    assert!(unknown(says(&[119, 7])).contains("is not EPMD"));
    assert!(unknown(says(&[119, 0, 1])).contains("ended the connection"));
    // Port 0, and a name and a remark whose lengths lie.
    assert!(unknown(says(&[119, 0, 0, 0, 77, 0, 0, 6, 0, 5, 0, 1, b'n', 0, 0])).contains("port 0"));
    assert!(unknown(says(&[119, 0, 1, 1, 77, 0, 0, 6, 0, 5, 255, 255, b'n'])).contains("ended the connection"));
    let endless = server(|mut stream| {
        stream.write_all(&[119, 0, 1, 1, 77, 0, 0, 6, 0, 5, 255, 255])?;
        loop {
            stream.write_all(&[b'n'; 1 << 16])?;
        }
    });
    unknown(endless);
    let slow = server(|mut stream| {
        for byte in [119, 0, 1, 1, 77, 0, 0, 6, 0, 5, 255, 255].iter().cycle() {
            stream.write_all(&[*byte])?;
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    });
    assert!(unknown(slow).contains("did not answer in time"));
}

#[test]
fn a_handshake_that_goes_wrong_at_any_step_gets_one_line() {
    assert!(refused(says(b"")).contains("ended the connection"));
    assert!(refused(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")).contains("refuses the connection"));
    assert!(refused(says(b"\0\x0csnot_allowed")).contains("not_allowed"));
    assert!(refused(says(b"\0\x06salive")).contains("names are in use"));
    assert!(refused(says(b"\0\x05swhat")).contains("what"));
    let much = [b"\xff\xff".as_slice(), &[b's'; 65_535]].concat();
    let told = refused(says(Box::leak(much.into_boxed_slice())));
    assert!(told.contains("unknown status") && told.len() < 500, "{told}");
    assert!(refused(says(b"\0\x08snamed:\xff\xff")).contains("refuses the connection"));
    let wrong_digest = [&b"a"[..], &[7; 16]].concat();
    let answers = [b"sok".to_vec(), challenge("node@127.0.0.1"), wrong_digest];
    let told = ["ended the connection", "ended the connection", "refuses the cookie", "its proof"];
    for (count, told) in told.into_iter().enumerate() {
        let answers = answers[..count].to_vec();
        let ends_then = server(move |mut stream| {
            message(&mut stream)?;
            for bytes in &answers {
                answer(&mut stream, bytes)?;
                // The client answers a challenge alone.
                if bytes.starts_with(b"N") {
                    message(&mut stream)?;
                }
            }
            Ok(())
        });
        testkit::assert_has(refused(ends_then), [told]);
    }
    let silent = server(|mut stream| {
        message(&mut stream)?;
        answer(&mut stream, b"sok")?;
        until_ended(stream)
    });
    assert!(refused(silent).contains("did not answer in time"));
    let endless = server(|mut stream| {
        loop {
            stream.write_all(&[0xff; 1 << 16])?;
        }
    });
    refused(endless);
}

/// A node whose peer does not matter.
fn node(then: impl Fn(TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> u16 {
    serve(move |stream, _| then(stream))
}

#[test]
fn frames_that_cannot_be_taken_end_the_connection() {
    let frame = |bytes: Vec<u8>| {
        node(move |mut stream| {
            stream.write_all(&bytes)?;
            until_ended(stream)
        })
    };
    // 4 GB, and what is no message.
    assert!(refused(frame(vec![255; 100])).contains("4294967295 bytes"));
    assert!(refused(frame(vec![0, 0, 0, 1, 5])).contains("a message is wrong"));
    assert!(refused(frame(vec![0, 0, 0, 3, 112, 131, 106])).contains("a message is wrong"));
    // An atom cache and compressed terms, which were not agreed on.
    assert!(refused(frame(vec![0, 0, 0, 3, 131, 68, 0])).contains("a message is wrong"));
    assert!(refused(frame(vec![0, 0, 0, 4, 112, 131, 82, 0])).contains("a message is wrong"));
    assert!(refused(frame(vec![0, 0, 0, 4, 112, 131, 80, 0])).contains("a message is wrong"));
    // Fragments, which were not agreed on: nobody puts them together.
    let mut fragment = vec![0, 0, 0, 19, 131, 69];
    fragment.extend([0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 0]);
    assert!(refused(frame(fragment)).contains("a message is wrong"));
    assert!(refused(frame(vec![0, 0, 0, 3, 131, 70, 0])).contains("a message is wrong"));
    // Operations that nobody knows are left alone, as are ticks and what is for nobody.
    let mut harmless = vec![0, 0, 0, 0];
    harmless.extend([0, 0, 0, 6, 112, 131, 104, 1, 97, 99]);
    let told = refused(frame(harmless));
    // A node that is let go late does not answer either, which is said first.
    let silent = ["did not answer in time", "no answer for"];
    assert!(silent.iter().any(|it| told.contains(it)), "{told}");
    let nested: Vec<u8> = [112, 131].into_iter().chain([108, 0, 0, 0, 1].repeat(100_000)).collect();
    let mut bytes = u32::try_from(nested.len()).expect("short").to_be_bytes().to_vec();
    bytes.extend(nested);
    assert!(refused(frame(bytes)).contains("nested deeper"));
    let ticks = node(|mut stream| {
        loop {
            stream.write_all(&[0; 1 << 16])?;
        }
    });
    assert!(refused(ticks).contains("did not answer in time"));
    let atoms = node(|mut stream| {
        for i in 0_u32.. {
            let mut bytes = vec![0, 0, 0, 13, 112, 131, 104, 1, 119, 6];
            bytes.extend(format!("{i:06}").bytes().take(6));
            bytes[3] = 12;
            stream.write_all(&bytes)?;
        }
        Ok(())
    });
    refused(atoms);
    assert!(refused(node(|_| Ok(()))).contains("the node ended it"));
}

#[test]
fn terms_are_refused_before_they_are_decoded() {
    let wrong = |bytes: &[u8]| decode(bytes).expect_err("no term");
    assert_eq!(wrong(&[]), TermError::Truncated);
    assert_eq!(wrong(&[131]), TermError::Truncated);
    assert_eq!(wrong(&[130, 106]), TermError::Unknown { tag: 130, at: 0 });
    for tag in [0, 68, 80, 82, 117, 255] {
        assert_eq!(wrong(&[131, tag, 0, 0]), TermError::Unknown { tag, at: 1 });
    }
    // Lengths of 4 GB: of a list, a tuple, a map, a binary, an integer.
    for tag in [108, 105, 116, 109] {
        assert_eq!(wrong(&[131, tag, 255, 255, 255, 255, 106]), TermError::Truncated);
    }
    testkit::assert_has(wrong(&[131, 111, 255, 255, 255, 255, 0]).to_string(), ["too long"]);
    // Bits that do not exist.
    for bits in [0, 9] {
        let error = wrong(&[131, 77, 0, 0, 0, 1, bits, 1]);
        assert!(matches!(error, TermError::Malformed(_)), "{error}");
    }
    // Not a number.
    assert!(matches!(wrong(&[131, 70, 127, 240, 0, 0, 0, 0, 0, 0]), TermError::Malformed(_)));
    let mut many = vec![131, 108];
    many.extend(5_000_000_u32.to_be_bytes());
    many.extend(vec![106; 5_000_001]);
    assert!(matches!(wrong(&many), TermError::TooMany(_)));
    assert!(matches!(wrong(&[131, 106, 106]), TermError::Malformed(_)));
}

#[test]
fn what_the_fuzzer_has_found_and_seeds_are_read_without_harm() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/erlang_frame");
    let mut seen = 0;
    for entry in std::fs::read_dir(corpus).expect("a corpus").flatten() {
        let bytes = std::fs::read(entry.path()).expect("a file");
        let _ = Frame::read(&bytes);
        let _ = decode(&bytes);
        for end in 0..bytes.len() {
            let _ = Frame::read(&bytes[..end]);
        }
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}
