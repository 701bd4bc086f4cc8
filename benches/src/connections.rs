//! Cost of a message to a client that shares its process with thousands of connections, and how it is acknowledged. The
//! embedded broker answers: its cost per message does not depend on the number of connections, and it leaves the
//! machine to the client. Then the cost of encryption: one load on one RabbitMQ node without TLS and with it.

use anyhow::{Context, Result};

use crate::environment::{Bench, Embedded, WARMUP_S, perf_test, rabbitmq};
use crate::own;
use crate::table::Row;

/// Connections, the first being what the others are compared with.
const CONNECTIONS: [usize; 4] = [1, 100, 1_000, 10_000];
/// Messages per second, all connections together. At one rate a message costs one write and its confirm
/// one read with 1 connection as with 10,000; unthrottled, one connection would send hundreds with one
/// write, and the rows would compare batches.
const RATE: &str = "10000";

/// CPU per message for 1 to 10,000 connections.
pub fn scale(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for count in CONNECTIONS {
        match at(bench, count) {
            Ok(cost) => rows.push(row(count, cost, rows.first().map(|one| one.value))),
            // A limit of descriptors, mostly: the other rows are worth having.
            Err(error) => eprintln!("bench:   {count} connections left out: {error:#}"),
        }
    }
    Ok(rows)
}

fn row(count: usize, cost: f64, one: Option<f64>) -> Row {
    let row = Row::new(format!("{count} connections, 10,000 msg/s in all, 64 B, confirms: client CPU"), "us/msg", cost);
    match one {
        None => row,
        Some(one) if count == 10_000 => {
            row.beside("1 connection", one).goal("at most 2 x 1 connection", cost <= one * 2.0)
        }
        Some(one) => row.beside("1 connection", one),
    }
}

fn at(bench: &Bench, count: usize) -> Result<f64> {
    let broker = Embedded::start(&bench.bellows)?;
    let words = format!(
        "producer queue://connections --producers {count} --rate {RATE} --max-pending 100 \
         --message-size 64 --queue-args x-max-length=10000"
    );
    let seconds = bench.seconds.min(10);
    own::cpu_us(&own::load(&bench.bellows, &broker.url, &words, 3, seconds)?)
}

/// CPU per message in and out, by the way that consumers acknowledge.
pub fn acks(bench: &Bench) -> Result<Vec<Row>> {
    let ways = [
        ("--auto-ack", "--auto-ack"),
        ("one ack per delivery", "--ack-every 1"),
        ("one ack per 100", "--ack-every 100"),
    ];
    let mut rows: Vec<Row> = Vec::new();
    for (name, way) in ways {
        let broker = Embedded::start(&bench.bellows)?;
        let words = format!("client queue://acks --max-pending 1000 --prefetch 1000 --message-size 64 {way}");
        let seconds = bench.seconds.min(10);
        let summary = own::load(&bench.bellows, &broker.url, &words, 2, seconds)?;
        let cost = own::cpu_us(&summary)?;
        let mut row = Row::new(format!("embedded broker, 64 B in and out, {name}: client CPU"), "us/msg", cost)
            .note(format!("{:.0} msg/s out", summary.flow().received.rate));
        if let Some(first) = rows.first() {
            row = row.beside("--auto-ack", first.value);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Messages per second. At one rate a record holds as many messages on both ways, and the broker, which
/// pays for encryption too, limits neither.
const TLS_RATE: &str = "5000";

/// CPU per message with TLS beside without.
pub fn tls(bench: &Bench) -> Result<Vec<Row>> {
    let node = rabbitmq(bench, true)?;
    let endpoint = node.endpoint()?;
    let ca = endpoint.tls.and_then(|tls| tls.ca).context("no authority")?;
    let ca = ca.to_str().context("a path that is no text")?;
    let (plain_url, tls_url) = (node.plain_url(), node.url());
    let name = "classic queue, 1 KiB in and out, 5,000 msg/s, confirms";
    let plain = own_cost(bench, &plain_url, "")?;
    let tls = own_cost(bench, &tls_url, &format!("--ca {ca}"))?;
    let mut row = Row::new(format!("{name}, TLS: client CPU"), "us/msg", tls).beside("without TLS", plain);
    if let Some(classpath) = bench.perf_test_classpath.as_deref() {
        let args = format!(
            "--queue perf-test-tls --producers 1 --consumers 1 --size 1024 --rate {TLS_RATE} \
             --confirm 100 --qos 200 --multi-ack-every 100"
        );
        // It takes any certificate unless told otherwise.
        let java = |url: &str| {
            let cost = perf_test(classpath, url, bench.seconds, &args)?;
            anyhow::Ok(cost.cpu_us_per_message)
        };
        let (java_plain, java_tls) = (java(&plain_url)?, java(&tls_url)?);
        row = row.beside("PerfTest", java_tls).note(format!(
            "PerfTest without TLS: {java_plain:.2} us/msg, with it {:.2} times as much",
            java_tls / java_plain
        ));
    } else {
        row = row.note("PerfTest left out: PERF_TEST_CLASSPATH names none");
    }
    node.stop()?;
    Ok(vec![row])
}

fn own_cost(bench: &Bench, url: &str, more: &str) -> Result<f64> {
    let words = format!(
        "client queue://bellows-tls --message-size 1024 --rate {TLS_RATE} --max-pending 100 \
         --prefetch 200 --ack-every 100 {more}"
    );
    let summary = own::load(&bench.bellows, url, &words, WARMUP_S, bench.seconds)?;
    own::cpu_us(&summary)
}
