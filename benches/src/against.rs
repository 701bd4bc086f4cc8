//! An older bellows and this one in turn, so that a change that makes messages dearer is seen before users see it.

use std::path::Path;

use anyhow::Result;

use crate::environment::{Bench, Embedded, rabbitmq};
use crate::own;
use crate::table::{Row, median};

/// The most that CPU time per message may grow, as a ratio of medians.
const DEAREST: f64 = 1.03;

/// A load that both versions run.
struct Load {
    name: &'static str,
    on_embedded: bool,
    words: &'static str,
}

const LOADS: &[Load] = &[
    Load {
        name: "stream publish, 12 B, confirms",
        on_embedded: false,
        words: "producer queue://stream --queue-type stream --persistent --max-pending 2000 \
                --message-size 12",
    },
    Load {
        name: "classic queue, 1 KiB in and out",
        on_embedded: false,
        words: "client queue://classic --message-size 1024 --no-confirm --prefetch 0 \
                --ack-every 1",
    },
    Load {
        name: "the same, 100 in flight, confirms",
        on_embedded: false,
        words: "client queue://windowed --message-size 1024 --max-pending 100 --prefetch 200 \
                --ack-every 100",
    },
    Load {
        name: "10,000 msg/s in and out, 64 B",
        on_embedded: false,
        words: "client queue://paced --rate 10000 --max-pending 2000 --message-size 64",
    },
    Load {
        name: "embedded broker, 12 B, unconfirmed",
        on_embedded: true,
        words: "producer queue://out --no-confirm --message-size 12 \
                --queue-args x-max-length=100000",
    },
    Load {
        name: "embedded broker, 12 B in and out",
        on_embedded: true,
        words: "client queue://in-out --message-size 12 --max-pending 2000 --prefetch 2000 \
                --ack-every 100",
    },
];

#[derive(Clone, Copy)]
struct Cost {
    cpu_us: f64,
    memory_mb: f64,
}

/// Runs each load with both versions in turn; the order changes from pair to pair.
pub fn against(bench: &Bench) -> Result<Vec<Row>> {
    let Some(older) = &bench.against else {
        eprintln!("bench:   left out: --against names no older bellows");
        return Ok(Vec::new());
    };
    let node = rabbitmq(bench, false)?;
    let embedded = Embedded::start(&bench.bellows)?;
    let mut rows = Vec::new();
    for load in LOADS {
        let url = if load.on_embedded { embedded.url.clone() } else { node.url() };
        let mut pairs = Vec::new();
        for pair in 0..bench.pairs {
            let mut costs = [None; 2];
            let versions = [older.as_path(), bench.bellows.as_path()];
            for turn in 0..2 {
                let which = (pair as usize + turn) % 2;
                costs[which] = run(versions[which], load, &url, bench.pair_seconds())?;
            }
            if let [Some(old), Some(new)] = costs {
                eprintln!(
                    "bench:   {}, pair {} of {}: {:.3} us/msg after {:.3}",
                    load.name,
                    pair + 1,
                    bench.pairs,
                    new.cpu_us,
                    old.cpu_us
                );
                pairs.push((old, new));
            }
        }
        rows.extend(judge(load, &pairs));
    }
    node.stop()?;
    Ok(rows)
}

fn run(bellows: &Path, load: &Load, url: &str, seconds: u64) -> Result<Option<Cost>> {
    let summary = own::load(bellows, url, load.words, 3, seconds)?;
    let cpu = summary.messages().cpu_us_each.client;
    Ok(cpu.zip(summary.rss_mb.client).map(|(cpu_us, memory_mb)| Cost { cpu_us, memory_mb }))
}

fn judge(load: &Load, pairs: &[(Cost, Cost)]) -> Vec<Row> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let of = |value: fn(&(Cost, Cost)) -> f64| median(pairs.iter().map(value));
    let ratio = of(|(old, new)| new.cpu_us / old.cpu_us);
    let ratios = pairs.iter().map(|(old, new)| new.cpu_us / old.cpu_us);
    let lowest = ratios.clone().fold(f64::INFINITY, f64::min);
    let highest = ratios.fold(0.0, f64::max);
    let (old_mb, new_mb) = (of(|pair| pair.0.memory_mb), of(|pair| pair.1.memory_mb));
    vec![
        Row::new(format!("{}: client CPU", load.name), "us/msg", of(|pair| pair.1.cpu_us))
            .beside("older", of(|pair| pair.0.cpu_us))
            .goal("no more than 3 % dearer", ratio <= DEAREST)
            .note(format!("median ratio of {} pairs {ratio:.3}, from {lowest:.2} to {highest:.2}", pairs.len())),
        Row::new(format!("{}: client memory", load.name), "MB", new_mb)
            .beside("older", old_mb)
            .goal("no more than before", new_mb <= old_mb * DEAREST),
    ]
}
