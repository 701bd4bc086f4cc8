//! Ctrl-C while the broker hangs, or while clients connect.

use crate::common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{bellows, only_run, run, start, wait_for};
use testkit::Proxy;

/// Whether the run's series has a line of the drain.
fn is_draining(dir: &std::path::Path) -> bool {
    let series = fs::read_to_string(only_run(dir).join("series.jsonl"));
    series.is_ok_and(|text| text.contains("\"drain\""))
}

#[test]
fn a_ctrl_c_in_the_drain_of_a_broker_that_hangs_ends_soon_and_says_what_it_waits_for() {
    let (broker, dir) = &common::broker_in_folder();
    let client = start(bellows(dir, &["client", "--url", &broker.url, "--rate", "500", "--duration", "3"]));
    wait_for("a recorded second", || common::seconds_recorded(dir) >= 1);
    common::signal(broker.child.id(), "STOP");
    wait_for("the drain", || is_draining(dir));
    client.signal("INT");
    let asked = Instant::now();
    let ended = client.end();
    let took = asked.elapsed();
    common::signal(broker.child.id(), "CONT");
    ended.assert_ok();
    assert!(took < Duration::from_secs(5), "{took:?}: {ended:#?}");
    ended.says([
        "\nstopping in order; Ctrl-C once more ends at once\n",
        "\nwaiting for answers to messages (",
        " missing), at most 500 ms\n",
    ]);
}

#[test]
fn a_ctrl_c_while_clients_connect_deletes_the_queues_that_were_made() {
    let (broker, dir) = &common::broker_in_folder();
    let proxy = Proxy::new(broker.address().parse().expect("an address")).expect("a proxy");
    // Of the connections that follow, the set-up's and the last one pass; the producer's has no answer.
    let _first = TcpStream::connect(proxy.address()).expect("a connection");
    proxy.hold_half(true);
    let url = format!("amqp://{}", proxy.address());
    let args = ["producer", "queue://made", "--url", &url, "--delete"];
    let mut producer = bellows(dir, &args);
    let mut producer = producer.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("start");
    let mut told = BufReader::new(producer.stderr.take().expect("piped")).lines();
    let connecting = "connecting: 0 of 1 client";
    let mut line = || told.next().and_then(Result::ok);
    while line().expect("it is connecting") != connecting {}
    common::signal(producer.id(), "INT");
    let rest: Vec<String> = std::iter::from_fn(line).collect();
    assert_eq!(producer.wait().expect("its end").code(), Some(130), "{rest:#?}");
    let last = rest.last().map(String::as_str);
    assert_eq!(last, Some("stopped in start: nothing measured"), "{rest:#?}");
    assert!(!rest.iter().any(|it| it.contains("left behind")), "{rest:#?}");
    let args = ["consumer", "queue://made", "--url", &broker.url, "--no-declare", "--message-count", "1"];
    run(dir, &args).assert_error(1, &["\"made\""]);
}
