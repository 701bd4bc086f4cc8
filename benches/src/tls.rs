//! Cost of encryption to the client: one load on one RabbitMQ node without TLS and with it, one after the other.

use anyhow::{Context, Result};

use crate::environment::{Bench, perf_test, rabbitmq};
use crate::own;
use crate::table::Row;

/// Messages per second. At one rate a record holds as many messages on both ways, and the broker, which
/// pays for encryption too, limits neither.
const RATE: &str = "5000";

/// CPU per message with TLS beside without.
pub fn tls(bench: &Bench) -> Result<Vec<Row>> {
    let node = rabbitmq(bench, true)?;
    let endpoint = node.endpoint()?;
    let ca = endpoint
        .tls
        .and_then(|tls| tls.ca)
        .context("no authority")?;
    let ca = ca.to_str().context("a path that is no text")?;
    let (plain_url, tls_url) = (node.plain_url(), node.url());
    let name = "classic queue, 1 KiB in and out, 5,000 msg/s, confirms";
    let plain = own(bench, &plain_url, &[])?;
    let tls = own(bench, &tls_url, &["--ca", ca])?;
    let mut row =
        Row::new(format!("{name}, TLS: client CPU"), "us/msg", tls).beside("without TLS", plain);
    if let Some(classpath) = bench.perf_test_classpath.as_deref() {
        let args = format!(
            "--queue perf-test-tls --producers 1 --consumers 1 --size 1024 --rate {RATE} \
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

fn own(bench: &Bench, url: &str, more: &[&str]) -> Result<f64> {
    let seconds = bench.seconds.to_string();
    let mut arguments = vec![
        "client",
        "queue://bellows-tls",
        "--message-size",
        "1024",
        "--rate",
        RATE,
        "--max-pending",
        "100",
        "--prefetch",
        "200",
        "--ack-every",
        "100",
        "--url",
        url,
        "--warmup",
        "5",
        "--duration",
        &seconds,
    ];
    arguments.extend_from_slice(more);
    let summary = own::run(&bench.bellows, &arguments)?;
    summary
        .messages()
        .cpu_us_each
        .client
        .context("bellows told no CPU time")
}
