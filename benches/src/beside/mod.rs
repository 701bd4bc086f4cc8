//! A profiler beside a steady load: what it costs the broker, what it costs itself, and what its stacks are worth.
//!
//! Methods take turns on one node: each once in a round, in another order each round. The load of a turn is a process
//! of its own, and the profiler begins in its warm-up and ends after its measured phase, so that the broker's CPU time
//! of that phase holds all that the kernel does for the profiler on the broker's threads.

pub mod events;
pub mod stacks;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use archive::RunSummary;
use brokers::rabbitmq::RabbitMq;
use measure::Metric;
use wait4::Wait4;

use crate::environment::Bench;
use crate::micro::Random;
use crate::own;

/// Load before the measured phase.
const WARMUP_S: u64 = 4;
/// The profiler begins so long after the load's process.
const LEAD: Duration = Duration::from_secs(1);
/// The profiler goes on so long after the measured phase, which begins a little late: connecting takes time.
const TAIL_S: u64 = 1;

/// A broker under a load of so many messages a second.
struct Subject<'b> {
    bench: &'b Bench,
    node: &'b RabbitMq,
    rate: u32,
    /// Holds the profilers' files for a turn.
    folder: PathBuf,
}

/// Settings of every profiler.
#[derive(Clone, Copy)]
struct Sampling {
    /// Samples per second and thread.
    frequency: u32,
    seconds: u64,
}

/// How the load went in a turn.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// CPU-microseconds of the broker per message.
    broker_us: f64,
    /// CPU time of the broker per second.
    broker_cores: f64,
    /// Messages received per second.
    rate: f64,
    /// End-to-end latency.
    p99_ms: f64,
}

/// A profiler that has ended.
struct Ended {
    stdout: PathBuf,
    /// User and system time, of its children too.
    cpu_s: f64,
}

impl<'b> Subject<'b> {
    /// Runs `turns` with a folder that is removed afterwards.
    fn with_folder<R>(
        bench: &'b Bench,
        node: &'b RabbitMq,
        rate: u32,
        turns: impl FnOnce(&Self) -> Result<R>,
    ) -> Result<R> {
        let folder = std::env::temp_dir().join(format!("bellows-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let subject = Self { bench, node, rate, folder };
        let result = turns(&subject);
        std::fs::remove_dir_all(&subject.folder)?;
        result
    }

    fn sampling(&self) -> Sampling {
        Sampling {
            frequency: self.bench.frequency,
            seconds: WARMUP_S - LEAD.as_secs() + self.bench.pair_seconds() + TAIL_S,
        }
    }

    /// `bellows record` on the broker, its run folder in [`Self::runs`].
    fn bellows(&self, args: &[&str]) -> Command {
        let Sampling { frequency, seconds } = self.sampling();
        let mut command = Command::new(&self.bench.bellows);
        command
            .args(["record", "--pid", &self.node.pid().to_string()])
            .args(["--freq", &frequency.to_string(), "--json", "--quiet"])
            .args(["--duration", &seconds.to_string()])
            .arg("--runs")
            .arg(self.runs())
            .args(args);
        command
    }

    fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    /// A turn: the load, and the profiler beside it where there is one.
    fn turn(&self, profiler: Option<Command>) -> Result<(Load, Option<Ended>)> {
        let line = format!(
            "client queue://profiled --rate {} --message-size 64 --max-pending 2000 --prefetch 2000 --ack-every 100 \
             --url {} --pid {} --warmup {WARMUP_S} --duration {}",
            self.rate,
            self.node.url(),
            self.node.pid(),
            self.bench.pair_seconds(),
        );
        let load = own::start(&self.bench.bellows, &line.split(' ').collect::<Vec<_>>())?;
        sleep(LEAD);
        let ended = profiler.map(|mut command| self.wait_for(&mut command));
        // Waited for before the profiler's failure is told, so that no load is left behind.
        let load = figures(&load.finish()?)?;
        Ok((load, ended.transpose()?))
    }

    fn wait_for(&self, command: &mut Command) -> Result<Ended> {
        let (stdout, stderr) = (self.folder.join("stdout"), self.folder.join("stderr"));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let ended = child.wait4()?;
        if !ended.status.success() {
            let error = std::fs::read_to_string(&stderr).unwrap_or_default();
            bail!("{command:?} ended with {}: {}", ended.status, error.trim());
        }
        Ok(Ended { stdout, cpu_s: (ended.rusage.utime + ended.rusage.stime).as_secs_f64() })
    }
}

impl Ended {
    /// Parses the output of `bellows record --json`.
    fn record(&self) -> Result<RunSummary> {
        let text = std::fs::read(&self.stdout)?;
        serde_json::from_slice(&text).context("bellows record printed no run object")
    }
}

fn figures(summary: &RunSummary) -> Result<Load> {
    let latency = summary.messages().latency.get(Metric::END_TO_END);
    let of_broker = "bellows told no CPU time of the broker";
    Ok(Load {
        broker_us: summary.messages().cpu_us_each.broker.context(of_broker)?,
        broker_cores: summary.cpu_cores.broker.context(of_broker)?,
        rate: summary.flow().received.rate,
        p99_ms: latency.p99_ns as f64 / 1e6,
    })
}

/// Runs every method once a round, and hands back what each gave, round by round. The first turn of a node is dearer:
/// one goes before that does not count.
fn rounds<R>(
    subject: &Subject<'_>,
    names: &[&str],
    mut turn: impl FnMut(usize, u64) -> Result<R>,
) -> Result<Vec<Vec<R>>> {
    let bench = subject.bench;
    subject.turn(None)?;
    let mut results: Vec<Vec<R>> = names.iter().map(|_| Vec::new()).collect();
    for round in 0..bench.pairs {
        for which in order(names.len(), round) {
            eprintln!("bench:   round {} of {}: {}", round + 1, bench.pairs, names[which]);
            let result = turn(which, round).with_context(|| names[which].to_owned())?;
            results[which].push(result);
        }
    }
    Ok(results)
}

/// The order of a round: random, and the same each time that the bench runs.
fn order(count: usize, round: u64) -> Vec<usize> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (round + 1));
    // Seeds that differ in few bits begin alike.
    for _ in 0..64 {
        random.next();
    }
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.next() as usize % (last + 1));
    }
    order
}

/// Cores the broker took more than without a profiler, round by round, because the machine's speed changes.
fn beyond(none: &[Load], with: &[Load]) -> Spread {
    let rounds = none.iter().zip(with);
    Spread::of(rounds.map(|(none, with)| (with.broker_us - none.broker_us) * with.rate / 1e6))
}

/// How far the broker's CPU time spreads by itself, in cores: a smaller cost cannot be told from none.
fn noise(none: &[Load]) -> f64 {
    let spread = Spread::of(none.iter().map(|load| load.broker_us * load.rate / 1e6));
    spread.high - spread.low
}

/// Whether the broker's CPU time grew by more than it spreads by itself.
fn is_sure(cost: Spread, none: &[Load]) -> bool {
    cost.low > 0.0 && cost.median >= noise(none)
}

/// Which costs cannot be told from none.
fn warnings<'o>(none: &[Load], costs: impl Iterator<Item = (&'o str, Spread)>) -> String {
    let unsure: Vec<_> = costs.filter(|(_, cost)| !is_sure(*cost, none)).map(|(name, _)| name).collect();
    if unsure.is_empty() {
        return String::new();
    }
    format!(
        "WARNING: alone, the broker's CPU time spreads by {:.1} % of a core between the quartiles of its rounds. What \
         it takes beyond that cannot be told from none with: {}. A higher --freq or more --pairs can tell.\n",
        noise(none) * 100.0,
        unsure.join("; ")
    )
}

/// Bytes of all files below a folder.
fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => bytes_below(&entry.path())?,
            false => metadata.len(),
        };
    }
    Ok(bytes)
}

/// Median and quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    /// First quartile.
    pub low: f64,
    /// Third quartile.
    pub high: f64,
}

impl Spread {
    /// Of at least one value; quantiles between two values are interpolated (type 7 of Hyndman and Fan, 1996, as in R).
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let quantile = |q: f64| {
            let at = q * (values.len() as f64 - 1.0);
            let (below, above) = (at.floor() as usize, at.ceil() as usize);
            values[below] + (values[above] - values[below]) * at.fract()
        };
        Self { median: quantile(0.5), low: quantile(0.25), high: quantile(0.75) }
    }

    /// Converts to another unit.
    pub fn times(self, factor: f64) -> Self {
        Self { median: self.median * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// `4.2 (3.9 to 4.6)`.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let Self { median, low, high } = self;
        write!(f, "{median:.digits$} ({low:.digits$} to {high:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, Spread, beyond, bytes_below, noise, order, warnings};

    fn load(broker_us: f64, rate: f64) -> Load {
        Load { broker_us, broker_cores: broker_us * rate / 1e6, rate, p99_ms: 1.0 }
    }

    #[test]
    fn every_round_has_every_method_once_and_orders_differ() {
        let orders: Vec<_> = (0..8).map(|round| order(5, round)).collect();
        for mut order in orders.clone() {
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4]);
        }
        let firsts: std::collections::BTreeSet<_> = orders.iter().map(|order| order[0]).collect();
        assert!(firsts.len() > 2, "{orders:?}");
        assert_eq!(order(5, 3), order(5, 3));
        assert!(order(0, 0).is_empty());
    }

    /// The machine was half as fast in the second round: against other rounds, the profiler would have cost -30 us.
    #[test]
    fn what_a_profiler_costs_is_taken_round_by_round() {
        let none = [load(50.0, 10_000.0), load(100.0, 10_000.0)];
        let with = [load(55.0, 10_000.0), load(110.0, 10_000.0)];
        let beyond = beyond(&none, &with);
        assert!((beyond.median - 0.075).abs() < 1e-9, "{beyond:?}");
        assert!((noise(&none) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn costs_within_the_noise_are_named() {
        // Quartiles at 50.5 and 51.5 us: 1 us, or 1 % of a core.
        let none = [50.0, 51.0, 52.0].map(|us| load(us, 10_000.0));
        let cost = |rounds: [f64; 3]| Spread::of(rounds.into_iter());
        let costs = [
            ("small", cost([0.009; 3])),
            ("large", cost([0.05; 3])),
            ("below nothing", cost([-0.05; 3])),
            ("everywhere", cost([-0.1, 0.05, 0.2])),
        ];
        let text = warnings(&none, costs.into_iter());
        assert!(text.contains("with: small; below nothing; everywhere."), "{text}");
        let sure = [("large", cost([0.05; 3]))];
        assert_eq!(warnings(&none, sure.into_iter()), "");
    }

    #[test]
    fn files_of_nested_folders_count() {
        let folder = std::env::temp_dir().join(format!("bytes-below-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        std::fs::write(folder.join("one"), [0; 10]).unwrap();
        std::fs::write(folder.join("a/b/two"), [0; 32]).unwrap();
        let bytes = bytes_below(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(bytes.unwrap(), 42);
    }

    fn of(values: &[f64]) -> (f64, f64, f64) {
        let spread = Spread::of(values.iter().copied());
        (spread.low, spread.median, spread.high)
    }

    /// R: `quantile(c(7, 15, 36, 39, 40, 41))`.
    #[test]
    fn quartiles_are_those_of_r() {
        assert_eq!(of(&[41.0, 7.0, 39.0, 15.0, 36.0, 40.0]), (20.25, 37.5, 39.75));
        assert_eq!(of(&[5.0, 1.0, 3.0, 2.0, 4.0]), (2.0, 3.0, 4.0));
        assert_eq!(of(&[3.0]), (3.0, 3.0, 3.0));
    }

    #[test]
    fn a_spread_is_written_with_its_quartiles() {
        let spread = Spread::of([0.01, 0.02, 0.03].into_iter()).times(100.0);
        assert_eq!(format!("{spread}"), "2.0 (1.5 to 2.5)");
        assert_eq!(format!("{spread:.0}"), "2 (2 to 2)");
    }
}
