//! AMQP 1.0: bellows beside the client libraries of others, on one broker in one run. Each library has a small program
//! in `peers/`, which is fetched and built here, in a folder of its own.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use experiment::BrokerKind;

use crate::environment::{self, Bench, Cost, WARMUP_S};
use crate::own;
use crate::table::Row;

/// Messages that may be in flight, and deliveries that may be on their way.
const WINDOW: &str = "1000";

/// A client library, and the program on it.
struct Library {
    name: &'static str,
    file: &'static str,
    program: &'static str,
    /// The shell's line that fetches and builds it, and words that run it.
    build: &'static str,
    run: &'static [&'static str],
}

const LIBRARIES: [Library; 3] = [
    Library {
        name: "Proton (Python)",
        file: "proton_peer.py",
        program: include_str!("peers/proton_peer.py"),
        build: "python3 -m pip install --quiet --target packages python-qpid-proton==0.40.0",
        run: &["python3", "proton_peer.py"],
    },
    Library {
        name: "rhea",
        file: "rhea_peer.js",
        program: include_str!("peers/rhea_peer.js"),
        build: "npm install --prefix . --silent --no-audit --no-fund rhea@3.0.4",
        run: &["node", "rhea_peer.js"],
    },
    Library {
        name: "go-amqp",
        file: "main.go",
        program: include_str!("peers/go_amqp_peer.go"),
        build: "go mod init peer && go get github.com/Azure/go-amqp@v1.4.0 && go build -o peer .",
        run: &["./peer"],
    },
];

impl Library {
    fn build(&self, folder: &Path) -> Result<()> {
        fs::write(folder.join(self.file), self.program)?;
        // 15 min, since Proton compiles its engine.
        let mut command = Command::new("timeout");
        command.args(["900", "sh", "-c", self.build]).current_dir(folder).stdin(Stdio::null());
        let output = command.output().context("timeout")?;
        if !output.status.success() {
            bail!("{}: {}", self.build, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> Result<Cost> {
        let mut command = Command::new("env");
        command.args(self.run).args(arguments).current_dir(folder);
        environment::run_peer(&mut command, WARMUP_S as f64)
    }

    /// Says why it is left out, where it is.
    fn told<T>(&self, result: Result<T>) -> Option<T> {
        result.inspect_err(|error| eprintln!("bench:   {} left out: {error:#}", self.name)).ok()
    }
}

/// 1 KiB and 64 B in and out, unsettled, on each broker that is installed.
pub fn amqp10(bench: &Bench) -> Result<Vec<Row>> {
    let folder = std::env::temp_dir().join(format!("bellows-bench-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let libraries = LIBRARIES.iter().filter(|library| library.told(library.build(&folder)).is_some());
    let rows = on_brokers(bench, &folder, &libraries.collect::<Vec<_>>());
    fs::remove_dir_all(&folder)?;
    rows
}

fn on_brokers(bench: &Bench, folder: &Path, libraries: &[&Library]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (kind, prefix) in [(BrokerKind::Artemis, ""), (BrokerKind::Rabbitmq, "/queues/")] {
        let Some(broker) = environment::amqp10_broker(bench, kind)? else { continue };
        let address = format!("{}:{}", broker.endpoint().host, broker.endpoint().port);
        for size in ["1024", "64"] {
            let words = format!(
                "client queue://amqp10-{size} --protocol amqp10 --message-size {size} --max-pending {WINDOW} \
                 --prefetch {WINDOW}"
            );
            let summary = own::load(&bench.bellows, &format!("amqp://{address}"), &words, WARMUP_S, bench.seconds)?;
            // bellows has made the queue, which stays.
            let link = format!("{prefix}amqp10-{size}");
            let seconds = (WARMUP_S + bench.seconds).to_string();
            let arguments: [&str; 5] = [&address, &link, size, WINDOW, &seconds];
            let (cost, own_rate) = (own::cpu_us(&summary)?, summary.flow().received.rate);
            let name = format!("{}, AMQP 1.0, {size} B in and out", kind.name());
            let mut cpu = Row::new(format!("{name}: client CPU"), "us/msg", cost);
            let mut rate = Row::new(format!("{name}: rate"), "msg/s", own_rate);
            let mut reached = true;
            for library in libraries {
                let Some(theirs) = library.told(library.run(folder, &arguments)) else { continue };
                cpu = cpu.beside(library.name, theirs.cpu_us_per_message);
                rate = rate.beside(library.name, theirs.rate);
                reached &= own_rate >= theirs.rate * 3.0 || cost * 10.0 <= theirs.cpu_us_per_message;
            }
            if !cpu.peers.is_empty() {
                cpu = cpu.goal("1/10 of each one's CPU, or 3 x its rate", reached);
            }
            rows.extend([cpu, rate]);
        }
        broker.stop()?;
    }
    Ok(rows)
}
