//! Surroundings of scenarios: settings, a RabbitMQ, the embedded broker, PerfTest; and peers as processes, whose CPU is
//! read from outside, the same way for all.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use brokers::Broker;
use brokers::managed::Progress;
use brokers::rabbitmq::{Config, RabbitMq};
use experiment::{BrokerKind, BrokerSpec, Experiment};
use load::Control;

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
    let config = Config { tls, ..Config::default() };
    start(bench, config)
}

/// With further arguments of the emulator.
pub fn rabbitmq_with(bench: &Bench, emulator_arguments: &[&str]) -> Result<RabbitMq> {
    let words = emulator_arguments.iter().map(|&word| word.to_owned());
    let config = Config { emulator_arguments: words.collect(), ..Config::default() };
    start(bench, config)
}

fn start(bench: &Bench, config: Config) -> Result<RabbitMq> {
    let guard = vec![bench.bellows.clone().into_os_string(), brokers::guardian::SUBCOMMAND.into()];
    let config = Config { guard, ..config };
    Ok(RabbitMq::start(&config, &mut tell, &|| false)?)
}

fn tell(progress: Progress<'_>) {
    if let Progress::Step(step) = progress {
        eprintln!("bench:   {step}");
    }
}

/// A broker that speaks AMQP 1.0, for this scenario alone: Artemis, or the RabbitMQ that `scripts/setup test` fetches.
/// `None`, and a line that says why, where it is not there.
pub fn amqp10_broker(bench: &Bench, kind: BrokerKind) -> Result<Option<Box<dyn Broker>>> {
    let root = (kind == BrokerKind::Rabbitmq).then(|| std::env::var_os("BELLOWS_RABBITMQ_ROOT"));
    let root = root.map(|root| root.map_or_else(|| PathBuf::from(".tools/newest"), PathBuf::from));
    let broker = BrokerSpec { kind, root, ..BrokerSpec::default() };
    if let Err(error) = brokers::check_installed(&broker) {
        eprintln!("bench:   {} left out: {error}", kind.name());
        return Ok(None);
    }
    let experiment = Experiment { broker, ..Experiment::default() };
    Ok(Some(brokers::start(&experiment, None, &bench.bellows, &Control::new(), &mut tell)?))
}

/// PerfTest with these options.
pub fn perf_test(classpath: &str, url: &str, seconds: u64, args: &str) -> Result<Cost> {
    let mut command = Command::new("java");
    command.args(["-cp", classpath, "com.rabbitmq.perf.PerfTest", "--uri", url]);
    command.args(["--time", &(WARMUP_S + seconds).to_string()]);
    command.args(args.split_whitespace());
    run_peer(&mut command, WARMUP_S as f64).context("PerfTest")
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
        Ok(Self { url: url.to_owned(), child })
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

/// Rate, CPU time and memory of a peer after its warm-up.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Messages per second of the window.
    pub rate: f64,
    /// CPU-microseconds of the process per message (the larger of sent and received).
    pub cpu_us_per_message: f64,
    /// Peak resident memory in MB.
    pub rss_mb: f64,
}

/// Runs a peer that prints a line `time T s, … sent: N msg/s … received: N msg/s` each second, and
/// measures it between its first line after `warmup_s` and its last.
pub fn run_peer(command: &mut Command, warmup_s: f64) -> Result<Cost> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    let pid = child.id();
    let stdout = child.stdout.take().context("no output")?;
    let mut window: Option<Window> = None;
    let (mut messages, mut end, mut cpu_end, mut rss_mb) = (0.0, 0.0, 0.0, 0.0f64);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        let Some(time) = number_after(&line, "time ") else {
            continue;
        };
        let sent = number_after(&line, "sent: ").unwrap_or(0.0);
        let received = number_after(&line, "received: ").unwrap_or(0.0);
        let Ok(cpu) = cpu_seconds(pid) else { break };
        rss_mb = rss_mb.max(peak_rss_mb(pid).unwrap_or(0.0));
        if let Some(window) = &window {
            messages += sent.max(received) * (time - end);
            cpu_end = cpu - window.cpu;
        } else if time >= warmup_s {
            window = Some(Window { time, cpu });
        }
        end = time;
    }
    let status = child.wait()?;
    let Some(window) = window else { bail!("the peer printed no rate line and ended with {status}") };
    if messages == 0.0 {
        bail!("the peer handled no message after its warm-up and ended with {status}");
    }
    Ok(Cost { rate: messages / (end - window.time), cpu_us_per_message: cpu_end * 1e6 / messages, rss_mb })
}

struct Window {
    time: f64,
    cpu: f64,
}

/// The number that follows a label, thousands separators ignored.
fn number_after(line: &str, label: &str) -> Option<f64> {
    let rest = line.split_once(label)?.1;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// User and system time of a process, all its threads, in seconds.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(')').context("malformed stat")?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) / rustix::param::clock_ticks_per_second() as f64)
}

fn peak_rss_mb(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).context("no VmHWM")?;
    let kb: f64 = line.split_whitespace().nth(1).context("no value")?.parse()?;
    Ok(kb * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_lines_of_the_peers_are_read() {
        let line = "id: test-095915-123, time 12.001 s, sent: 57911 msg/s, received: 5 msg/s";
        let numbers = ["time ", "sent: ", "received: ", "confirmed: "].map(|name| number_after(line, name));
        assert_eq!(numbers, [Some(12.001), Some(57911.0), Some(5.0), None]);
    }
}
