//! The scenarios, and the goal of each figure.

use std::process::Command;

use anyhow::{Context, Result};
use measure::{Metric, Nanos};

use crate::environment::{self, Bench, Embedded, WARMUP_S, perf_test, rabbitmq};
use crate::table::Row;
use crate::{against, amqp10, beside, connections, floor, micro, own, starts};

/// A scenario: measures and judges.
pub type Scenario = fn(&Bench) -> Result<Vec<Row>>;

/// All scenarios by name.
pub const ALL: &[(&str, Scenario)] = &[
    ("record", |_| Ok(micro::record())),
    ("profile-pipeline", |_| micro::profile_pipeline()),
    ("pages", micro::pages),
    ("stream-publish", stream_publish),
    ("classic-in-out", classic_in_out),
    ("floor", floor::floor),
    ("floor-amqp10", floor::amqp10),
    ("amqp10", amqp10::amqp10),
    ("embedded", embedded),
    ("connections", connections::scale),
    ("acks", connections::acks),
    ("tls", connections::tls),
    ("schedule", schedule),
    ("profiler", profiler),
    ("stacks", beside::stacks::stacks),
    ("events-kernel", beside::events::of_the_kernel),
    ("events-malloc", beside::events::of_malloc),
    ("starts", starts::starts),
    ("against", against::against),
];

/// 12-byte persistent messages into a stream, 2,000 unconfirmed.
fn stream_publish(bench: &Bench) -> Result<Vec<Row>> {
    let node = rabbitmq(bench, false)?;
    let url = node.url();
    let words = "producer queue://bellows-stream --queue-type stream --persistent \
                 --max-pending 2000 --message-size 12";
    let summary = own::load(&bench.bellows, &url, words, WARMUP_S, bench.seconds)?;
    let lapin = environment::run_peer(
        Command::new(std::env::current_exe()?)
            .args(["lapin", "--url", &format!("{url}/%2f"), "--queue", "lapin-stream"])
            .args(["--window", "2000", "--size", "12"])
            .args(["--seconds", &(WARMUP_S + bench.seconds).to_string()]),
        WARMUP_S as f64,
    )
    .context("lapin")?;
    let java = bench.perf_test_classpath.as_deref().map(|classpath| {
        perf_test(
            classpath,
            &url,
            bench.seconds,
            "--queue perf-test-stream --queue-args x-queue-type=stream --auto-delete false \
             --flag persistent --producers 1 --confirm 2000 --consumers 0",
        )
    });
    let java = java.transpose()?;
    let (cost, memory) = (own::cpu_us(&summary)?, own::memory_mb(&summary)?);
    let mut cpu = Row::new("stream publish, 12 B, confirms: client CPU", "us/msg", cost)
        .beside("lapin", lapin.cpu_us_per_message)
        .goal("at most 1/3 of lapin, 1/10 of PerfTest", {
            cost * 3.0 <= lapin.cpu_us_per_message && java.is_none_or(|java| cost * 10.0 <= java.cpu_us_per_message)
        });
    let mut rate = Row::new("stream publish: rate", "msg/s", summary.flow().sent.rate).beside("lapin", lapin.rate);
    let mut rss = Row::new("stream publish: client memory", "MB", memory)
        .beside("lapin", lapin.rss_mb)
        .goal("under 40 MB", memory < 40.0);
    if let Some(java) = java {
        cpu = cpu.beside("PerfTest", java.cpu_us_per_message);
        rate = rate.beside("PerfTest", java.rate);
        rss = rss.beside("PerfTest", java.rss_mb);
    } else {
        cpu = cpu.note("PerfTest left out: PERF_TEST_CLASSPATH names none");
    }
    node.stop()?;
    Ok(vec![cpu, rate, rss])
}

/// How messages go in and out of a classic queue, in bellows' and in PerfTest's options.
struct InOut {
    name: &'static str,
    own: &'static str,
    perf_test: &'static str,
    /// Whether the goal is about it.
    judged: bool,
}

/// 1 KiB in and out of a classic queue.
fn classic_in_out(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = in_out(
        bench,
        &InOut {
            name: "classic queue, 1 KiB in and out",
            own: "--no-confirm --prefetch 0 --ack-every 1",
            // Its defaults.
            perf_test: "",
            judged: true,
        },
    )?;
    rows.extend(in_out(
        bench,
        &InOut {
            name: "the same, 100 in flight, confirms",
            own: "--max-pending 100 --prefetch 200 --ack-every 100",
            perf_test: "--confirm 100 --qos 200 --multi-ack-every 100",
            judged: false,
        },
    )?);
    Ok(rows)
}

fn in_out(bench: &Bench, what: &InOut) -> Result<Vec<Row>> {
    let node = rabbitmq(bench, false)?;
    let url = node.url();
    let words = format!("client queue://bellows-classic --message-size 1024 {}", what.own);
    let summary = own::load(&bench.bellows, &url, &words, WARMUP_S, bench.seconds)?;
    let (cost, memory) = (own::cpu_us(&summary)?, own::memory_mb(&summary)?);
    let name = what.name;
    let mut cpu = Row::new(format!("{name}: client CPU"), "us/msg", cost);
    let mut rate = Row::new(format!("{name}: rate"), "msg/s", summary.flow().received.rate);
    let mut rss = Row::new(format!("{name}: client memory"), "MB", memory).goal("under 40 MB", memory < 40.0);
    if let Some(classpath) = bench.perf_test_classpath.as_deref() {
        let args = format!("--queue perf-test-classic --producers 1 --consumers 1 --size 1024 {}", what.perf_test);
        let java = perf_test(classpath, &url, bench.seconds, &args)?;
        let reached = cost * 10.0 <= java.cpu_us_per_message;
        cpu = cpu.beside("PerfTest", java.cpu_us_per_message);
        if what.judged {
            cpu = cpu.goal("at most 1/10 of PerfTest", reached);
        }
        rate = rate.beside("PerfTest", java.rate);
        rss = rss.beside("PerfTest", java.rss_mb);
    } else {
        cpu = cpu.note("PerfTest left out: PERF_TEST_CLASSPATH names none");
    }
    node.stop()?;
    Ok(vec![cpu, rate, rss])
}

/// All out against the embedded broker, unconfirmed.
fn embedded(bench: &Bench) -> Result<Vec<Row>> {
    let broker = Embedded::start(&bench.bellows)?;
    let words = "producer queue://all-out --no-confirm --message-size 12 \
                 --queue-args x-max-length=100000";
    let seconds = bench.seconds.min(10);
    let summary = own::load(&bench.bellows, &broker.url, words, 2, seconds)?;
    let rate = summary.flow().sent.rate;
    let memory = own::memory_mb(&summary)?;
    let goal = if rate >= 2e6 { "2 M msg/s" } else { "floor of 1 M msg/s (stretch 2 M)" };
    Ok(vec![
        Row::new("embedded broker, 12 B, unconfirmed, one thread", "msg/s", rate).goal(goal, rate >= 1e6),
        Row::new("embedded broker: client memory", "MB", memory).goal("under 40 MB", memory < 40.0),
    ])
}

/// 20,000 msg/s on RabbitMQ: how late is the generator?
fn schedule(bench: &Bench) -> Result<Vec<Row>> {
    let node = rabbitmq(bench, false)?;
    let words = "producer queue://bellows-rated --rate 20000 --max-pending 2000 --message-size 64 \
                 --queue-args x-max-length=100000";
    let summary = own::load(&bench.bellows, &node.url(), words, WARMUP_S, bench.seconds)?;
    node.stop()?;
    let delay = summary.messages().latency.get(Metric::SEND_DELAY);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let busy = [summary.messages().cpu_us_each.broker, summary.messages().cpu_us_each.client]
        .into_iter()
        .flatten()
        .sum::<f64>()
        * summary.flow().sent.rate
        / 1e6;
    let free = cores as f64 - busy;
    let p99_us = delay.p99_ns as f64 / 1e3;
    Ok(vec![
        Row::new("20,000 msg/s on RabbitMQ: send delay p99", "us", p99_us)
            .goal("under 100 us with a free core", p99_us < 100.0)
            .note(format!(
                "{free:.2} of {cores} cores were free; p50 {}, p99.9 {}, max {}; rate {:.0} msg/s",
                Nanos(delay.p50_ns),
                Nanos(delay.p99_9_ns),
                Nanos(delay.max_ns),
                summary.flow().sent.rate
            )),
    ])
}

/// RabbitMQ under load, profiled by bellows and by `perf` at once; then both are turned into text and pictures.
fn profiler(bench: &Bench) -> Result<Vec<Row>> {
    let node = rabbitmq(bench, false)?;
    let folder = std::env::temp_dir().join(format!("bellows-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = micro::profiler(bench, &node, &folder);
    std::fs::remove_dir_all(&folder)?;
    node.stop()?;
    result
}
