//! The floor: what a load costs a client that makes bellows' system calls on bytes that were built
//! before, and does nothing else. What bellows costs beyond it is what could be saved at all.
//!
//! Both run in turn against one broker, again and again, because figures of different minutes
//! differ by more than the two do.

mod amqp10;
mod bare;
mod setup;

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use experiment::BrokerKind;
use measure::Clock;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::environment::{self, Bench, Embedded, rabbitmq};
use crate::own;
use crate::table::{Row, median};

/// Load before the measured part of each run.
const WARMUP_S: u64 = 3;

/// Load before the first run on a broker that is compiled while it runs.
const WARM_UP_OF_JAVA_S: u64 = 30;

/// Arguments of the bare program.
#[derive(clap::Args)]
pub struct Args {
    /// HOST:PORT of the broker
    #[arg(long)]
    address: String,
    /// Declared, and removed in the end
    #[arg(long)]
    queue: String,
    /// Bytes of a body
    #[arg(long)]
    size: usize,
    /// Messages without a confirm that are allowed; 0 asks for no confirms
    #[arg(long, default_value_t = 0)]
    window: u64,
    #[arg(long)]
    persistent: bool,
    #[arg(long)]
    durable: bool,
    #[arg(long)]
    stream: bool,
    #[arg(long)]
    max_length: Option<i64>,
    /// Consume as well, and acknowledge each delivery
    #[arg(long)]
    consume: bool,
    /// Go over AMQP 1.0, with links to this address; the window is the consumer's, too
    #[arg(long)]
    amqp10: Option<String>,
    /// Messages per second; as many as go where absent
    #[arg(long)]
    rate: Option<u64>,
    #[arg(long)]
    warmup: u64,
    #[arg(long)]
    seconds: u64,
}

/// Time, CPU time of this process, and messages: at one instant, or between two.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Reading {
    time_ns: u64,
    cpu_ns: u64,
    messages: u64,
}

impl Reading {
    fn now(messages: u64) -> Self {
        // As bellows reads its own: user and system time of all threads.
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self { time_ns: Clock.now().0, cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64, messages }
    }

    fn since(self, earlier: &Self) -> Self {
        Self {
            time_ns: self.time_ns - earlier.time_ns,
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            messages: self.messages - earlier.messages,
        }
    }
}

/// Is the bare program.
pub fn be(args: &Args) -> Result<()> {
    println!("{}", serde_json::to_string(&bare::run(args)?)?);
    Ok(())
}

/// A load, in both programs' options.
struct Case {
    name: &'static str,
    own: &'static str,
    bare: &'static [&'static str],
    /// At most this many times the floor.
    goal: f64,
    /// The broker is RabbitMQ, or else the embedded one, which leaves the machine to the client.
    rabbitmq: bool,
}

const CASES: [Case; 3] = [
    Case {
        name: "stream publish, 12 B, 2,000 unconfirmed",
        own: "producer queue://bellows-floor --queue-type stream --persistent --max-pending 2000 \
              --message-size 12",
        bare: &["--stream", "--persistent", "--window", "2000", "--size", "12"],
        goal: 1.5,
        rabbitmq: true,
    },
    Case {
        name: "classic queue, 1 KiB in and out",
        own: "client queue://bellows-floor --no-confirm --prefetch 0 --ack-every 1 \
              --message-size 1024",
        bare: &["--consume", "--size", "1024"],
        goal: 1.5,
        rabbitmq: true,
    },
    Case {
        name: "10,000 msg/s, 64 B, confirms",
        own: "producer queue://bellows-floor --rate 10000 --max-pending 100 --message-size 64 \
              --queue-args x-max-length=10000",
        bare: &["--rate", "10000", "--window", "100", "--size", "64", "--max-length", "10000"],
        goal: 1.15,
        rabbitmq: false,
    },
];

/// Loads over AMQP 1.0, on RabbitMQ and on Artemis.
const AMQP10: [Case; 2] = [
    Case {
        name: "AMQP 1.0, 1 KiB in and out",
        own: "client queue://bellows-floor --protocol amqp10 --max-pending 1000 --prefetch 1000 --ack-every 1 \
              --message-size 1024",
        bare: &["--consume", "--durable", "--window", "1000", "--size", "1024"],
        goal: 1.2,
        rabbitmq: true,
    },
    Case {
        name: "AMQP 1.0, 10,000 msg/s, 64 B in and out",
        own: "client queue://bellows-floor --protocol amqp10 --max-pending 1000 --prefetch 1000 --ack-every 1 \
              --message-size 64 --rate 10000",
        bare: &["--consume", "--durable", "--window", "1000", "--size", "64", "--rate", "10000"],
        goal: 1.1,
        rabbitmq: true,
    },
];

/// Cost and rate of one run.
#[derive(Clone, Copy)]
struct Run {
    us_per_message: f64,
    rate: f64,
}

/// bellows over the floor, for each case.
pub fn floor(bench: &Bench) -> Result<Vec<Row>> {
    CASES.iter().map(|case| judge(bench, case)).collect()
}

/// bellows over the floor, for AMQP 1.0 on each broker that is installed.
pub fn amqp10(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (kind, link) in [(BrokerKind::Artemis, "bare-floor"), (BrokerKind::Rabbitmq, "/queues/bare-floor")] {
        let Some(broker) = environment::amqp10_broker(bench, kind)? else { continue };
        let endpoint = broker.endpoint();
        let url = format!("amqp://{}:{}", endpoint.host, endpoint.port);
        if kind == BrokerKind::Artemis && bench.pairs > 1 {
            // Java compiles as it runs, and its first minute would be compared with its second.
            own::load(&bench.bellows, &url, AMQP10[0].own, 0, WARM_UP_OF_JAVA_S)?;
        }
        for case in &AMQP10 {
            let mut row = pairs(bench, case, &url, &["--amqp10", link])?;
            row.what = format!("{}, {}", kind.name(), row.what);
            rows.push(row);
        }
        broker.stop()?;
    }
    Ok(rows)
}

fn judge(bench: &Bench, case: &Case) -> Result<Row> {
    if case.rabbitmq {
        let node = rabbitmq(bench, false)?;
        let row = pairs(bench, case, &node.url(), &[]);
        node.stop()?;
        row
    } else {
        let broker = Embedded::start(&bench.bellows)?;
        pairs(bench, case, &broker.url, &[])
    }
}

/// `further` are arguments of the bare program.
fn pairs(bench: &Bench, case: &Case, url: &str, further: &[&str]) -> Result<Row> {
    let pairs = bench.pairs.max(1);
    let (mut floors, mut owns) = (Vec::new(), Vec::new());
    for pair in 1..=pairs {
        let floor = bare(bench, case, url, further)?;
        let own = bellows(bench, case, url)?;
        eprintln!(
            "bench:   {}, pair {pair} of {pairs}: {:.3} us/msg over {:.3}",
            case.name, own.us_per_message, floor.us_per_message
        );
        floors.push(floor);
        owns.push(own);
    }
    let cost = |runs: &[Run]| median(runs.iter().map(|run| run.us_per_message));
    let rate = |runs: &[Run]| median(runs.iter().map(|run| run.rate));
    let (own, floor) = (cost(&owns), cost(&floors));
    let ratios = floors.iter().zip(&owns);
    let mut ratios: Vec<_> = ratios.map(|(floor, own)| own.us_per_message / floor.us_per_message).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    let goal = case.goal;
    Ok(Row::new(format!("{}: client CPU", case.name), "us/msg", own)
        .beside("the floor", floor)
        .goal(format!("at most {goal} x the floor"), own <= goal * floor)
        .note(format!(
            "medians of {pairs} pairs, whose ratios were {least:.2} to {most:.2}; {:.0} msg/s, the \
                 floor {:.0}",
            rate(&owns),
            rate(&floors)
        )))
}

fn bellows(bench: &Bench, case: &Case, url: &str) -> Result<Run> {
    let summary = own::load(&bench.bellows, url, case.own, WARMUP_S, bench.pair_seconds())?;
    Ok(Run { us_per_message: own::cpu_us(&summary)?, rate: summary.flow().sent.rate.max(summary.flow().received.rate) })
}

fn bare(bench: &Bench, case: &Case, url: &str, further: &[&str]) -> Result<Run> {
    let address = url.strip_prefix("amqp://").unwrap_or(url);
    let address = address.rsplit('@').next().unwrap_or(address);
    let output = Command::new(std::env::current_exe()?)
        .args(["floor", "--queue", "bare-floor", "--address", address])
        .args(case.bare)
        .args(further)
        .args(["--warmup", &WARMUP_S.to_string()])
        .args(["--seconds", &bench.pair_seconds().to_string()])
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        bail!("the floor: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let measured: Reading = serde_json::from_slice(&output.stdout).context("the floor's figures")?;
    if measured.messages == 0 {
        bail!("the floor handled no message after its warm-up");
    }
    Ok(Run {
        us_per_message: measured.cpu_ns as f64 / 1e3 / measured.messages as f64,
        rate: measured.messages as f64 * 1e9 / measured.time_ns as f64,
    })
}
