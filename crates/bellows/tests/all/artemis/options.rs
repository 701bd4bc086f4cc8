//! The command line: Artemis' forms and options, and clear errors for impossible requests.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use regex::Regex;

use super::common::{folder, listener, run, words};
use super::{Bench, number};

#[test]
fn what_cannot_be_done_is_refused_with_the_remedy() {
    let dir = &*folder();
    let client = |options: &[&str]| run(dir, &[&["artemis", "perf", "client"], options].concat());
    for (options, parts) in [
        (&["--url", "ssl://localhost:61616?confirmationWindowSize=20000"][..], &["--url ssl://", "CORE"][..]),
        (&["--url", "amqp://me:secret@h?confirmationWindowSize=1"], &["--url has options after its ?"]),
        (&["--url", "http://h"], &["--url: the broker's URL cannot be used", "\"http\""]),
        (&["--consumer-url", "ssl://h:1"], &["--consumer-url ssl://"]),
        (&["--protocol", "CORE"], &["--protocol CORE"]),
        (&["--consumer-protocol", "MQTT"], &["\"MQTT\" is unknown"]),
        (&["--acceptor", "artemis"], &["--acceptor artemis"]),
        (&["ADDRESS::QUEUE"], &["\"ADDRESS::QUEUE\""]),
        (&["--durable"], &["--durable needs --clientID"]),
        (&["--durable", "--clientID", "me", "queue://Q"], &["--durable is about subscriptions"]),
        (&["--shared", "2"], &["--shared is about subscriptions"]),
        (&["--message-size", "5"], &["--message-size 5"]),
    ] {
        client(options).assert_error(2, parts).says_not(["secret"]).prints_not(["secret"]);
    }
    // What clap refuses, as picocli does.
    for options in [
        &["--nonsense"][..],
        &["--duration", "1", "--duration", "2"],
        &["--duration", "1.5"],
        &["--num-destinations", "0"],
        &["--durable=true"],
        &["--rate", "none"],
    ] {
        client(options).ends(2);
    }
    // Another tool has it, or has it by another name.
    for (tool, option, told) in [
        (
            "consumer",
            "--message-size",
            "a consumer sends nothing: it is an option of 'bellows artemis perf client' and",
        ),
        ("consumer", "--consumer-url", "'--url'"),
        ("producer", "--durable", "a producer consumes nothing: it is an option of 'bellows artemis perf client' and"),
        ("client", "--num-connections", "'--consumer-connections'"),
    ] {
        run(dir, &["artemis", "perf", tool, option, "1"]).ends(2).says([told]);
    }
    assert!(fs::read_dir(dir).expect("folder").next().is_none(), "nothing is left");
}

#[test]
fn every_producer_has_its_subscribers_on_every_topic() {
    let bench = Bench::new();
    let url = bench.broker.url.clone();
    // Two names, two topics each; two subscriptions each, shared by three.
    let line = format!(
        "topic://A --durable --clientID me --shared 2 --consumers=3 --num-destinations 2 --producers 2 --message-count \
         402 topic://B --consumer-url {url} --threads 2 --persistent --max-pending 20 --json j.json"
    );
    bench.perf("client", &words(&line)).assert_ok();
    let summary = bench.summary("j.json");
    assert_eq!(["totalSent", "totalReceived"].map(|it| number(&summary[it])), [402, 804], "{summary}");
}

/// Passes bytes on to a broker, and keeps them.
fn tap(broker: &str) -> (String, Arc<Mutex<Vec<u8>>>) {
    let (listener, address) = listener();
    let url = format!("amqp://{address}");
    let (kept, broker) = (Arc::new(Mutex::new(Vec::new())), broker.to_owned());
    let keep = Arc::clone(&kept);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let to_broker = TcpStream::connect(&broker).expect("broker");
            let mut back = (to_broker.try_clone().expect("clone"), client.try_clone().expect("clone"));
            thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
            let (mut client, mut to_broker, keep) = (client, to_broker, Arc::clone(&keep));
            thread::spawn(move || {
                let mut bytes = [0; 4_096];
                while let Ok(n @ 1..) = client.read(&mut bytes) {
                    keep.lock().expect("lock").extend_from_slice(&bytes[..n]);
                    to_broker.write_all(&bytes[..n]).expect("write");
                }
                let _ = to_broker.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    (url, kept)
}

#[test]
fn messages_carry_what_was_asked_for() {
    let bench = Bench::new();
    let (url, kept) = tap(bench.broker.address());
    let line = format!(
        "artemis perf producer --url {url} --ttl 1500 --group blue --enable-msg-id --enable-timestamp --message-count \
         3 --silent"
    );
    run(bench.dir.path(), &words(&line)).assert_ok();
    let bytes = kept.lock().expect("lock").clone();
    let count = |wanted: &[u8]| bytes.windows(wanted.len()).filter(|w| w == &wanted).count();
    assert_eq!(count(b"\x0bJMSXGroupIDS\0\0\0\x04blue"), 3);
    assert_eq!(count(b"\x041500"), 3);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("after 1970").as_secs();
    for sequence in 0..3 {
        let end = format!("-00000000-{sequence:016x}");
        let at = bytes.windows(end.len()).position(|w| w == end.as_bytes()).expect("id");
        assert!(bytes[at - 11..].starts_with(b"ID:"));
        let stamp: [u8; 8] = bytes[at + end.len()..][..8].try_into().expect("timestamp");
        assert!(now.abs_diff(u64::from_be_bytes(stamp)) < 60, "{stamp:?}");
    }
}

#[test]
fn transactions_and_shared_connections_move_every_message() {
    let bench = Bench::new();
    for (json, options) in [
        ("tx.json", &["--tx", "--commit-interval", "7"][..]),
        ("old.json", &["--tx-size", "10", "--tx", "--rate", "500"]),
        ("each.json", &["--tx", "--shared-connections", "--consumer-connections", "2"]),
    ] {
        let line = format!(
            "--message-count 300 --producers 3 --consumers 3 --show-latency --threads 2 --json {json} queue://TX"
        );
        let mut all = words(&line);
        all.extend(options);
        bench.perf("client", &all).assert_ok();
        let summary = bench.summary(json);
        let counts = ["totalSent", "totalCompleted", "totalReceived"].map(|it| number(&summary[it]));
        // Every acknowledgement was timed, those of a commit too.
        assert_eq!((counts, number(&summary["totalSendTime"]["count"])), ([300; 3], 300), "{options:?}: {summary}");
        // What was not committed would be in the queue still.
        bench.perf("consumer", &["--duration", "1", "queue://TX"]).prints(["--- total received:            0 \n"]);
    }
}

#[test]
fn silent_prints_no_block_and_verbose_says_what_is_done() {
    let bench = Bench::new();
    let silent = bench.perf("producer", &["--silent", "--duration", "1", "--threads", "9"]).ok();
    assert_eq!(silent.stdout.lines().count(), 1, "{silent:?}");
    testkit::assert_begins(&silent.stdout, "Connection brokerURL = amqp://127.0.0.1:");
    let told =
        "Doesn't make sense to set workers > producers: auto-adjusting it to be the same as the producer count\n";
    assert_eq!(silent.stderr, told);
    // As it was typed, whoever logs in.
    let other = bench.perf("producer", &["--silent", "--duration", "1", "--user", "somebody"]).stdout;
    testkit::assert_begins(other, "Connection brokerURL = amqp://127.0.0.1:");
    let kept = ["--verbose", "--runs", "runs", "--message-count", "5"];
    bench.perf("consumer", &kept).ok().says(["connecting\n", "\nreport: "]);
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The options in the first column of the page's tables.
fn documented() -> BTreeSet<String> {
    let page = fs::read_to_string(root().join("docs/artemis-perf.md")).expect("page");
    let row = Regex::new(r"(?m)^\| `(--[A-Za-z-]+)[^`]*` \|").expect("regex");
    row.captures_iter(&page).map(|c| c[1].to_owned()).collect()
}

#[test]
fn the_page_lists_every_option_and_no_other_and_all_of_artemis() {
    let dir = &*folder();
    let mut known = BTreeSet::from(["--tx-size".to_owned()]);
    let option = Regex::new(r"(?m)^ +(?:-\w, )?(--[A-Za-z-]+)").expect("regex");
    for tool in ["client", "producer", "consumer"] {
        let help = run(dir, &["artemis", "perf", tool, "--help"]).ok();
        assert!(help.stdout.contains("Examples:\n"), "{help:?}");
        known.extend(option.captures_iter(&help.stdout).map(|c| c[1].to_owned()));
    }
    // Ours: what the page says of it stands beside the table.
    known.remove("--help");
    // Lines of the examples.
    known.retain(|name| name != "--");
    let page = documented();
    assert_eq!(page, known);
    // `artemis help perf client|producer|consumer` of 2.40.
    let theirs = "--acceptor --clientID --commit-interval --consumer-connections \
        --consumer-protocol --consumer-url --consumers --duration --durable --enable-msg-id \
        --enable-timestamp --group --hdr --json --max-pending --message-count --message-size \
        --num-connections --num-destinations --password --persistent --producers --protocol --rate \
        --shared --shared-connections --show-latency --silent --threads --ttl --tx --tx-size --url \
        --user --verbose --warmup";
    let missing: Vec<&str> = theirs.split_whitespace().filter(|o| !page.contains(*o)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
