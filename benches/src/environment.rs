//! Surroundings of scenarios: settings, a RabbitMQ, the embedded broker, PerfTest.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use brokers::managed::Progress;
use brokers::rabbitmq::{Config, RabbitMq};

use crate::process;

/// Seconds of load before the measured part of a scenario.
pub const WARMUP_S: u64 = 5;

/// Settings that all scenarios share.
pub struct Bench {
    pub bellows: PathBuf,
    pub seconds: u64,
    /// Runs of bellows and of what stands beside it, each, where they take turns.
    pub pairs: u64,
    /// Samples per second of the profilers that are compared.
    pub frequency: u32,
    /// An older bellows.
    pub against: Option<PathBuf>,
    pub perf_test_classpath: Option<String>,
    pub flamegraph_dir: Option<PathBuf>,
}

impl Bench {
    /// Seconds measured of each of many runs.
    pub fn pair_seconds(&self) -> u64 {
        self.seconds.min(8)
    }
}

/// A node for this scenario alone.
pub fn rabbitmq(bench: &Bench, tls: bool) -> Result<RabbitMq> {
    let config = Config {
        tls,
        ..Config::default()
    };
    start(bench, config)
}

/// With further arguments of the emulator.
pub fn rabbitmq_with(bench: &Bench, emulator_arguments: &[&str]) -> Result<RabbitMq> {
    let words = emulator_arguments.iter().map(|&word| word.to_owned());
    let config = Config {
        emulator_arguments: words.collect(),
        ..Config::default()
    };
    start(bench, config)
}

fn start(bench: &Bench, config: Config) -> Result<RabbitMq> {
    let guard = vec![
        bench.bellows.clone().into_os_string(),
        brokers::guardian::SUBCOMMAND.into(),
    ];
    let config = Config { guard, ..config };
    let mut progress = |progress: Progress<'_>| {
        if let Progress::Step(step) = progress {
            eprintln!("bench:   {step}");
        }
    };
    Ok(RabbitMq::start(&config, &mut progress, &|| false)?)
}

/// PerfTest with these options.
pub fn perf_test(classpath: &str, url: &str, seconds: u64, args: &str) -> Result<process::Cost> {
    let mut command = Command::new("java");
    command.args(["-cp", classpath, "com.rabbitmq.perf.PerfTest", "--uri", url]);
    command.args(["--time", &(WARMUP_S + seconds).to_string()]);
    command.args(args.split_whitespace());
    process::run(&mut command, WARMUP_S as f64).context("PerfTest")
}

/// The embedded broker as a child; ends when dropped.
pub struct Embedded {
    child: Child,
    pub url: String,
}

impl Embedded {
    pub fn start(bellows: &Path) -> Result<Self> {
        let mut child = Command::new(bellows)
            .args(["broker", "--listen", "127.0.0.1:0", "--exit-with-stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let Some(url) = line.trim().strip_prefix("ready ") else {
            bail!("the embedded broker said {line:?} instead of `ready amqp://…`");
        };
        Ok(Self {
            url: url.to_owned(),
            child,
        })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if self.child.wait().is_err() {
            eprintln!("bench: the embedded broker did not end");
        }
    }
}
