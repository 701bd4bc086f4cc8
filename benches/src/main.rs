//! `make bench`: speed and cost of bellows beside its peers, all in one run on one machine, because
//! only ratios of the same minute can be trusted. Prints a table and, with `--json`, the same as data.

mod against;
mod amqp10;
mod beside;
mod connections;
mod environment;
mod floor;
mod micro;
mod own;
mod peers;
mod scenarios;
mod starts;
mod table;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Speed and cost of bellows beside its peers, in one run")]
struct Cli {
    #[command(subcommand)]
    peer: Option<Peer>,
    /// Seconds measured per broker scenario, after 5 s of warm-up
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Runs of bellows and of what it takes turns with, each: the floor, an older bellows, other profilers
    #[arg(long, default_value_t = 5)]
    pairs: u64,
    /// Samples per second of the profilers in the scenarios "stacks" and "events"
    #[arg(long, default_value_t = 999)]
    freq: u32,
    /// For tries: one pair, and 3 s at most per scenario
    #[arg(long)]
    quick: bool,
    /// Only scenarios whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Write the results as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// The bellows to measure
    #[arg(long, default_value = "target/release/bellows")]
    bellows: PathBuf,
    /// An older bellows to take turns with, in the scenario "against", which needs one
    #[arg(long)]
    against: Option<PathBuf>,
    /// Class path of PerfTest; without it PerfTest is left out
    #[arg(long, env = "PERF_TEST_CLASSPATH")]
    perf_test_classpath: Option<String>,
    /// Folder with stackcollapse-perf.pl and flamegraph.pl; without it they are left out
    #[arg(long, env = "FLAMEGRAPH_DIR")]
    flamegraph_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Peer {
    /// Be the publisher written on lapin (the bench starts itself with this)
    #[command(hide = true)]
    Lapin(peers::Args),
    /// Be the bare program of the floor (the bench starts itself with this)
    #[command(hide = true)]
    Floor(floor::Args),
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    match cli.peer {
        Some(Peer::Lapin(args)) => return peers::publish(args),
        Some(Peer::Floor(args)) => return floor::be(&args),
        None => {}
    }
    let bellows = cli
        .bellows
        .canonicalize()
        .with_context(|| format!("no {}: build it with `cargo build --release -p bellows`", cli.bellows.display()))?;
    let bench = environment::Bench {
        bellows,
        seconds: if cli.quick { cli.seconds.min(3) } else { cli.seconds },
        pairs: if cli.quick { 1 } else { cli.pairs },
        frequency: cli.freq,
        against: cli.against,
        perf_test_classpath: cli.perf_test_classpath,
        flamegraph_dir: cli.flamegraph_dir,
    };
    let wanted = |name: &str| cli.only.as_deref().is_none_or(|only| name.contains(only));
    let mut rows = Vec::new();
    for (name, scenario) in scenarios::ALL {
        if wanted(name) {
            eprintln!("bench: {name} …");
            rows.extend(scenario(&bench).with_context(|| format!("scenario {name}"))?);
        }
    }
    print!("{}", table::text(&rows));
    if let Some(path) = cli.json {
        std::fs::write(&path, serde_json::to_vec_pretty(&rows)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
