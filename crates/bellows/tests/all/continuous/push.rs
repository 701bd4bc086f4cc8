//! Servers that profiles are sent to: well-behaved and other ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::Value;
use stacks::Profile;

use super::common::pages::{Request, serve};
use super::{Busy, common, ended_periods, periods, record, refused, stop, unique};

/// The path of a request, and the values of its query by their names.
fn path_and_query(request: &Request) -> (&str, BTreeMap<&str, String>) {
    let (path, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    (path, pairs.map(|(name, value)| (name, decoded(value))).collect())
}

fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at(2);
        out.push(u8::from_str_radix(hex, 16).expect("hex"));
        out.extend(rest.as_bytes());
    }
    String::from_utf8(out).expect("text")
}

type Answer = fn(&mut TcpStream);

/// A server that answers each connection in turn; the last answer holds for all further ones.
fn server(answers: Vec<Answer>) -> (String, Receiver<Request>) {
    let (tell, told) = channel();
    let number = AtomicUsize::new(0);
    let address = serve(move |request, stream| {
        let _ = tell.send(request);
        let number = number.fetch_add(1, Ordering::Relaxed);
        answers[number.min(answers.len() - 1)](stream);
    });
    (format!("http://{address}"), told)
}

/// Says this behind the version.
fn say(stream: &mut TcpStream, answer: &str) {
    let _ = write!(stream, "HTTP/1.1 {answer}");
}

fn fine(stream: &mut TcpStream) {
    say(stream, "200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
}

fn assert_pprof(dir: &Path, body: &[u8]) {
    let file = dir.join("pushed.pb.gz");
    fs::write(&file, body).expect("write");
    assert!(Profile::open(&file).expect("a pprof").total_weight() > 0);
}

#[test]
fn profiles_are_pushed_as_each_server_wants_them() {
    let dir = &*common::folder();
    testkit::skip_for!(refused(dir));
    let name = unique("pushed");
    let _busy = Busy::start(dir, &name);
    let (url, told) = server(vec![fine]);
    let line = format!("record --freq 499 --name {name} --every 1s --label env=test --push-user me --push-tenant team");
    let args = common::words(&line);
    for (path, expected) in [
        ("", "/ingest"),
        ("/push.v1.PusherService/Push", "/push.v1.PusherService/Push"),
        ("/profiles/writeraw", "/profiles/writeraw"),
    ] {
        let url = format!("{url}{path}");
        let started = common::start(
            common::bellows(dir, &[&args[..], &["--push", &url]].concat()).env("BELLOWS_PUSH_TOKEN", "s3cret"),
        );
        // However late the program gets a core: two periods in which it had one.
        let waited = || told.recv_timeout(common::DEADLINE).expect("a request");
        let mut requests = vec![waited(), waited()];
        let ended = stop(started);
        assert!(!format!("{ended:?}").contains("not sent"), "{ended:#?}");
        requests.extend(told.try_iter());
        for request in &requests {
            assert_eq!(path_and_query(request).0, expected);
            assert_eq!(request.header("x-scope-orgid"), Some("team"));
            let pair = base64::engine::general_purpose::STANDARD.encode("me:s3cret");
            assert_eq!(request.header("authorization"), Some(&*format!("Basic {pair}")));
            match expected {
                "/ingest" => assert_ingest(dir, &name, request),
                _ => assert_series(dir, &name, expected, request),
            }
        }
    }
    let kept = periods(dir);
    assert!(!format!("{kept:?}").contains("s3cret"));
}

fn assert_ingest(dir: &Path, name: &str, request: &Request) {
    let (_, query) = path_and_query(request);
    assert!(query["name"].starts_with(&format!("{name}{{")), "{query:?}");
    assert!(query["name"].contains("env=test"), "{query:?}");
    assert_eq!(query["format"], "pprof");
    assert_eq!(query["sampleRate"], "499");
    let seconds = |key: &str| query[key].parse::<u64>().expect("seconds");
    assert!((0..=2).contains(&(seconds("until") - seconds("from"))), "{query:?}");
    assert_pprof(dir, &request.body);
}

fn assert_series(dir: &Path, name: &str, path: &str, request: &Request) {
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let series = &body["series"][0];
    let labels = match path {
        "/profiles/writeraw" => &series["labels"]["labels"],
        _ => &series["labels"],
    };
    let labels = labels.as_array().expect("labels");
    for (label, value) in [("__name__", "process_cpu"), ("service_name", name), ("env", "test")] {
        let pair = serde_json::json!({"name": label, "value": value});
        assert!(labels.contains(&pair), "{labels:?}");
    }
    let raw = series["samples"][0]["rawProfile"].as_str().expect("text");
    let raw = base64::engine::general_purpose::STANDARD.decode(raw).expect("base64");
    assert_pprof(dir, &raw);
}

#[test]
fn whatever_a_server_does_the_recording_goes_on() {
    let dir = &*common::folder();
    testkit::skip_for!(refused(dir));
    // With the requests that the server sees: a second one begins when the first has ended.
    let hostile: [(Answer, usize, &str); 5] = [
        (|_| thread::sleep(Duration::from_secs(30)), 1, "not sent"),
        (|s| say(s, "500 X\r\nContent-Length: 13\r\n\r\nno \x1b[31m s3cret"), 2, "500"),
        (|s| s.shutdown(Shutdown::Both).unwrap_or_default(), 2, "does not accept profiles"),
        (endless, 2, "400"),
        (
            |s| say(s, "307 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
            2,
            "give --push the new address",
        ),
    ];
    for (number, (answer, seen, part)) in hostile.into_iter().enumerate() {
        let name = unique(&format!("h{number}"));
        let _busy = Busy::start(dir, &name);
        let (url, told) = server(vec![answer]);
        let token = dir.join("token");
        fs::write(&token, "s3cret\n").expect("write");
        let token = token.display().to_string();
        let args = ["--name", &name, "--every", "1s", "--push", &url, "--push-token-file", &token];
        let (before, started) = (ended_periods(dir), record(dir, &args));
        // However late the program gets a core.
        for _ in 0..seen {
            told.recv_timeout(common::DEADLINE).expect("a request");
        }
        common::wait_for("two periods", || ended_periods(dir) >= before + 2);
        let stopped = Instant::now();
        let ended = stop(started);
        assert!(stopped.elapsed() < Duration::from_secs(10), "{ended:#?}");
        ended.says([part]).says_not(["s3cret", "\u{1b}"]);
        assert!(ended.stderr.matches("does not accept profiles").count() <= 1, "told once: {ended:#?}");
        assert!(periods(dir).iter().filter(|(_, it)| it.name == name).count() >= 2, "{ended:#?}");
    }
}

fn endless(stream: &mut TcpStream) {
    say(stream, "400 X\r\nContent-Length: 99999999999\r\n\r\n");
    while stream.write_all(&[b'x'; 65_536]).is_ok() {}
}

#[test]
fn a_server_that_comes_back_gets_what_waited() {
    let dir = &*common::folder();
    testkit::skip_for!(refused(dir));
    let name = unique("back");
    let _busy = Busy::start(dir, &name);
    let busy_now: Answer = |stream| say(stream, "503 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let (url, told) = server(vec![busy_now, fine]);
    let ended = record(dir, &["--name", &name, "--every", "1s", "--duration", "4s", "--push", &url]).end().ok();
    ended.says(["503", "again"]).says_not(["not sent"]);
    let requests: Vec<Request> = told.try_iter().collect();
    let [first, second] = [0, 1].map(|at| path_and_query(&requests[at]));
    assert_eq!(first, second, "the first was tried again");
    let distinct: BTreeSet<_> = requests.iter().map(|it| &it.body).collect();
    assert_eq!(distinct.len(), requests.len() - 1);
}
