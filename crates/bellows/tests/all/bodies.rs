//! Bodies that are sent as they are, read back from a real RabbitMQ by a client that has nothing of
//! bellows in it; and what of PerfTest needs a real broker beside them.

use crate::common;
use crate::common::managed;
use crate::perf_test::perf_test;

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use common::folder;

/// The least that can log in and get messages.
struct Getter {
    stream: TcpStream,
}

/// A frame of the server: kind and payload.
type Frame = (u8, Vec<u8>);

impl Getter {
    fn connect(url: &str) -> Self {
        let endpoint: load::Endpoint = url.parse().expect("url");
        let address = (endpoint.host.as_str(), endpoint.port);
        let stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(common::DEADLINE)).expect("time-out");
        let mut getter = Self { stream };
        getter.write(b"AMQP\0\0\x09\x01");
        getter.expect([10, 10]);
        let login = url.split_once("://").expect("a scheme").1;
        let login = login.split_once('@').map_or("guest:guest", |(login, _)| login);
        let login = format!("\0{}", login.replace(':', "\0"));
        let login = [&long(login.len())[..], login.as_bytes()].concat();
        getter.send(0, [10, 11], &[b"\0\0\0\0\x05PLAIN", &login[..], b"\x05en_US"].concat());
        getter.expect([10, 30]);
        getter.send(0, [10, 31], b"\x07\xFF\0\x02\0\0\0\0");
        getter.send(0, [10, 40], b"\x01/\0\0");
        getter.expect([10, 41]);
        getter.send(1, [20, 10], b"\0");
        getter.expect([20, 11]);
        getter
    }

    /// Properties as they are on the wire, and the body.
    fn get(&mut self, queue: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        let name = [&[queue.len() as u8], queue.as_bytes()].concat();
        self.send(1, [60, 70], &[&b"\0\0"[..], &name, b"\x01"].concat());
        let (_, method) = self.frame();
        if method[..4] == [0, 60, 0, 72] {
            return None;
        }
        assert_eq!(method[..4], [0, 60, 0, 71], "basic.get-ok");
        let (kind, header) = self.frame();
        assert_eq!(kind, 2);
        let size = u64::from_be_bytes(header[4..12].try_into().expect("a size"));
        let mut body = Vec::new();
        while (body.len() as u64) < size {
            let (kind, part) = self.frame();
            assert_eq!(kind, 3);
            body.extend(part);
        }
        Some((header[12..].to_vec(), body))
    }

    fn all(&mut self, queue: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::iter::from_fn(|| self.get(queue)).collect()
    }

    fn expect(&mut self, method: [u8; 2]) {
        let (_, payload) = self.frame();
        assert_eq!(payload[..4], [0, method[0], 0, method[1]], "{payload:?}");
    }

    fn send(&mut self, channel: u8, method: [u8; 2], fields: &[u8]) {
        let head = [&[1, 0, channel][..], &long(fields.len() + 4)].concat();
        self.write(&[&head[..], &[0, method[0], 0, method[1]], fields, b"\xCE"].concat());
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("write");
    }

    fn frame(&mut self) -> Frame {
        let mut head = [0; 7];
        self.stream.read_exact(&mut head).expect("a frame");
        let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
        let mut payload = vec![0; size as usize + 1];
        self.stream.read_exact(&mut payload).expect("a payload");
        assert_eq!(payload.pop(), Some(0xCE), "a frame's end");
        (head[0], payload)
    }
}

fn long(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

fn holds(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|w| w == part.as_bytes())
}

fn summary(url: &str, line: &str) -> serde_json::Value {
    let dir = &*folder();
    perf_test(dir, url, line).assert_ok();
    common::record(dir)["summary"]["scenarios"]["messages"].clone()
}

#[test]
fn bodies_arrive_as_they_are_at_any_client() {
    let (dir, node) = &managed::shared!();
    let url = node.url();

    json_is_json(dir, &url);
    files_are_files(dir, &url);
    the_ledger_is_kept(&url);
    exclusive_queues_have_names(&url);
    consumers_start_slowly(&url);
    streams_are_read_from_a_time_on(&url);
}

fn json_is_json(dir: &Path, url: &str) {
    for (line, size, different) in [("-s 700 -bc 7", 700, 7..8), ("-bfc 1", 12, 2..50)] {
        perf_test(dir, url, &format!("-jb {line} -C 50 -c 10 -y 0 -u json -ad false -mp tenant=blue")).assert_ok();
        let got = Getter::connect(url).all("json");
        assert_eq!(got.len(), 50);
        for (properties, body) in &got {
            let read: serde_json::Value = serde_json::from_slice(body).expect("JSON");
            assert!(read.is_object(), "{read}");
            assert_eq!(body.len(), size);
            for part in ["application/json", "x-bellows", "tenant"] {
                assert!(holds(properties, part), "no {part}");
            }
        }
        let bodies: HashSet<_> = got.iter().map(|(_, body)| body).collect();
        assert!(different.contains(&bodies.len()), "{}", bodies.len());
    }
}

fn files_are_files(dir: &Path, url: &str) {
    let files: [(&str, Vec<u8>); 4] = [
        ("a.json", b"{\"order\": 1}".to_vec()),
        ("b.bin", (0..=255).cycle().take(300_000).collect()),
        ("c.txt", Vec::new()),
        ("d.txt", b"short".to_vec()),
    ];
    for (name, content) in &files {
        fs::write(dir.join(name), content).expect("write");
    }
    let names = "-B a.json,b.bin,c.txt,d.txt -T text/x-test";
    perf_test(dir, url, &format!("{names} -C 10 -y 0 -u files -ad false")).assert_ok();
    let got = Getter::connect(url).all("files");
    assert_eq!(got.len(), 10);
    for (n, (properties, body)) in got.iter().enumerate() {
        let (name, content) = &files[n % files.len()];
        assert!(body == content, "{name} has changed");
        assert!(holds(properties, "text/x-test"));
    }
}

/// The ledger works with any queue type and the shortest bodies.
fn the_ledger_is_kept(url: &str) {
    for queue in ["-u short", "-u quorum -qq", "-u stream -sq"] {
        let summary = summary(url, &format!("-jb -bc 9 -C 400 -c 50 {queue}"));
        let ledger = &summary["ledger"];
        let counts = ["lost", "duplicated", "reordered", "corrupt", "foreign"];
        assert!(counts.iter().all(|name| ledger[name] == 0), "{ledger}");
        assert_eq!(ledger["delivered"], 400, "{queue}");
        let measured = &summary["latencies"]["end-to-end"]["count"];
        assert!(measured.is_null() || measured == 400, "{summary}");
    }
}

fn exclusive_queues_have_names(url: &str) {
    for [line, sent, received] in testkit::table(include_str!("../data/perf-test/queues.txt")) {
        let summary = summary(url, line);
        assert_eq!(summary["sent"]["total"].to_string(), sent, "{line}");
        assert_eq!(summary["received"]["total"].to_string(), received, "{line}");
    }
}

/// Producers wait for both consumers, unless there is a delay.
fn consumers_start_slowly(url: &str) {
    let slow = summary(url, "-S -y 2 -r 20 -z 1 -u slow");
    assert_eq!(slow["received"]["total"], slow["sent"]["total"]);
    let sent = slow["sent"]["total"].as_u64().expect("a total");
    assert!((15..=25).contains(&sent), "{sent}");
    let delayed = summary(url, "-S -csd 1 -y 2 -r 20 -z 3 -u delayed");
    assert_eq!(delayed["received"]["total"], delayed["sent"]["total"]);
    let idle = summary(url, "-r 0 -z 1 -u idle");
    assert_eq!(idle["sent"]["total"], 0);
}

fn streams_are_read_from_a_time_on(url: &str) {
    perf_test(&folder(), url, "-sq -u log -C 100 -c 10 -y 0").assert_ok();
    for (line, received) in [("-sco 2020-01-01T00:00:00Z", 100), ("-sco 90", 10), ("-ca x-stream-offset=1h", 100)] {
        let line = format!("-p -u log -x 0 -q 50 -z 1 {line}");
        assert_eq!(summary(url, &line)["received"]["total"], received, "{line}");
    }
}
