//! Cost of each event to a broker under load: recorded alone, at the default frequency, beside no recording at all.

use anyhow::{Context, Result};

use super::{Load, Spread, Subject, beyond, rounds, warnings};
use crate::environment::{Bench, rabbitmq_with};
use crate::table::{Row, markdown};

/// Events of the kernel and of the clock.
const OF_THE_KERNEL: Group = Group {
    name: "RabbitMQ",
    emulator: &[],
    rate: 10_000,
    events: &["cpu", "off-cpu", "context-switches", "page-faults", "mmap"],
};
/// Events of the C library: the Erlang VM leaves its memory to it if it is told so.
const OF_MALLOC: Group = Group {
    name: "RabbitMQ with +Mea min",
    emulator: &["+Mea", "min"],
    rate: 2_000,
    events: &["malloc", "malloc-bytes", "free"],
};
const NONE: &str = "none";

/// Events that are compared on one node.
struct Group {
    name: &'static str,
    /// Arguments of the emulator.
    emulator: &'static [&'static str],
    /// Messages per second.
    rate: u32,
    events: &'static [&'static str],
}

/// A recording's samples, and its cost.
struct Recorded {
    samples: u64,
    /// Sum of the weights: events that the samples stand for.
    weight: u64,
    /// Unit of the weights.
    unit: String,
    lost: u64,
    cpu_s: f64,
}

/// An event after all rounds; costs are in cores.
struct Outcome {
    event: &'static str,
    samples_per_s: Spread,
    weight_per_s: Spread,
    unit: String,
    lost: u64,
    profiler: Spread,
    broker: Spread,
    /// CPU time of the broker per message, beside none of the same round.
    ratio: Spread,
    us: Spread,
    rate: Spread,
    p99_ms: Spread,
}

/// Events of the clock and of the kernel.
pub fn of_the_kernel(bench: &Bench) -> Result<Vec<Row>> {
    events(bench, &OF_THE_KERNEL)
}

/// `malloc` and `free`.
pub fn of_malloc(bench: &Bench) -> Result<Vec<Row>> {
    events(bench, &OF_MALLOC)
}

fn events(bench: &Bench, group: &Group) -> Result<Vec<Row>> {
    let names: Vec<&'static str> = std::iter::once(NONE).chain(group.events.iter().copied()).collect();
    let node = rabbitmq_with(bench, group.emulator)?;
    let with: String = match group.emulator {
        [] => String::new(),
        words => format!(" with {}", words.join(" ")),
    };
    let title = format!(
        "RabbitMQ {} on {}{with}, {} msg/s in and out of a classic queue, {} Hz",
        node.version(),
        node.runtime(),
        group.rate,
        bench.frequency
    );
    let (turns, seconds) = Subject::with_folder(bench, &node, group.rate, |subject| {
        let turns = rounds(subject, &names, |which, _| turn(subject, names[which]))?;
        Ok((turns, subject.sampling().seconds as f64))
    })?;
    node.stop()?;
    let loads: Vec<Vec<Load>> = turns.iter().map(|turns| turns.iter().map(|(load, _)| *load).collect()).collect();
    let mut outcomes = Vec::new();
    for ((event, turns), with) in names.iter().zip(&turns).zip(&loads).skip(1) {
        let recorded: Vec<&Recorded> = turns.iter().filter_map(|(_, it)| it.as_ref()).collect();
        outcomes.push(outcome(event, &recorded, &loads[0], with, seconds));
    }
    show(&title, &loads[0], &outcomes);
    Ok(judge(group, &loads[0], &outcomes))
}

fn turn(subject: &Subject<'_>, event: &str) -> Result<(Load, Option<Recorded>)> {
    let command = (event != NONE).then(|| subject.bellows(&["--event", event]));
    let (load, ended) = subject.turn(command)?;
    eprintln!(
        "bench:     {:.1} us/msg of the broker, which took {:.2} cores at {:.0} msg/s, p99 {:.2} ms",
        load.broker_us, load.broker_cores, load.rate, load.p99_ms
    );
    let Some(ended) = ended else {
        return Ok((load, None));
    };
    let mut summary = ended.record()?;
    let profile = summary.profiles.pop().context("no profile")?;
    std::fs::remove_dir_all(subject.runs())?;
    let recorded = Recorded {
        samples: profile.samples,
        weight: profile.weight,
        unit: profile.unit,
        lost: profile.lost,
        cpu_s: ended.cpu_s,
    };
    Ok((load, Some(recorded)))
}

fn outcome(event: &'static str, recorded: &[&Recorded], none: &[Load], with: &[Load], seconds: f64) -> Outcome {
    let of = |value: &dyn Fn(&Recorded) -> f64| Spread::of(recorded.iter().map(|it| value(it)));
    let pairs = none.iter().zip(with);
    let loads = |value: &dyn Fn(&Load) -> f64| Spread::of(with.iter().map(value));
    Outcome {
        event,
        samples_per_s: of(&|it| it.samples as f64 / seconds),
        weight_per_s: of(&|it| it.weight as f64 / seconds),
        unit: recorded.first().map_or_else(String::new, |it| it.unit.clone()),
        lost: recorded.iter().map(|it| it.lost).sum(),
        profiler: of(&|it| it.cpu_s / seconds),
        broker: beyond(none, with),
        ratio: Spread::of(pairs.map(|(none, with)| with.broker_us / none.broker_us)),
        us: loads(&|load| load.broker_us),
        rate: loads(&|load| load.rate),
        p99_ms: loads(&|load| load.p99_ms),
    }
}

/// Prints the table of the documents, and below it what must be known to read it.
fn show(title: &str, none: &[Load], outcomes: &[Outcome]) {
    let head = [
        "event",
        "samples/s",
        "stand for, a second",
        "lost",
        "profiler",
        "broker beyond none",
        "broker, beside none",
        "msg/s",
        "p99",
    ];
    let of = |value: &dyn Fn(&Load) -> f64| Spread::of(none.iter().map(value));
    let blank = || "-".to_owned();
    let alone = vec![
        NONE.to_owned(),
        blank(),
        blank(),
        blank(),
        blank(),
        blank(),
        blank(),
        format!("{:.0}", of(&|load| load.rate).median),
        format!("{:.2} ms", of(&|load| load.p99_ms)),
    ];
    let with = outcomes.iter().map(|it| {
        vec![
            format!("`{}`", it.event),
            format!("{:.0}", it.samples_per_s.median),
            stands_for(it.weight_per_s.median, &it.unit),
            it.lost.to_string(),
            format!("{:.2} %", it.profiler.times(100.0)),
            format!("{} %", it.broker.times(100.0)),
            format!("{:.2} x", it.ratio),
            format!("{:.0}", it.rate.median),
            format!("{:.2} ms", it.p99_ms),
        ]
    });
    let rows: Vec<_> = std::iter::once(alone).chain(with).collect();
    println!("{title}:\n\n{}", markdown(&head, &rows));
    println!(
        "Medians of {} rounds (quartiles in brackets). `profiler` and `broker beyond none` are in % of a core; the \
         broker alone takes {:.1} us a message, {} %. `broker, beside none` is its CPU time a message over that of the \
         same round without a recording.",
        none.len(),
        of(&|load| load.broker_us),
        of(&|load| load.broker_cores * 100.0)
    );
    println!("{}", warnings(none, outcomes.iter().map(|it| (it.event, it.broker))));
}

/// A sum of weights as people read it.
fn stands_for(weight: f64, unit: &str) -> String {
    match unit {
        "nanoseconds" => format!("{:.2} s", weight / 1e9),
        "bytes" => format!("{:.2} MB", weight / 1e6),
        unit => format!("{weight:.0} {unit}"),
    }
}

fn judge(group: &Group, none: &[Load], outcomes: &[Outcome]) -> Vec<Row> {
    let none_us = Spread::of(none.iter().map(|load| load.broker_us)).median;
    let row = |it: &Outcome| {
        let what = format!("{}, --event {}: broker CPU", group.name, it.event);
        Row::new(what, "us/msg", it.us.median)
            .beside(NONE, none_us)
            .note(format!("profiler {:.2} % of a core", it.profiler.median * 100.0))
    };
    outcomes.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::{Load, OF_MALLOC, Recorded, judge, outcome, stands_for};

    fn load(broker_us: f64) -> Load {
        Load { broker_us, broker_cores: broker_us * 2e-3, rate: 2_000.0, p99_ms: 2.0 }
    }

    #[test]
    fn weights_are_written_in_their_unit() {
        assert_eq!(stands_for(2.5e9, "nanoseconds"), "2.50 s");
        assert_eq!(stands_for(1_250_000.0, "bytes"), "1.25 MB");
        assert_eq!(stands_for(12.4, "calls"), "12 calls");
    }

    #[test]
    fn an_event_is_compared_with_none_of_the_same_round() {
        let none = [load(50.0), load(100.0), load(80.0)];
        let with = [load(60.0), load(120.0), load(96.0)];
        let recorded =
            |samples| Recorded { samples, weight: samples * 256, unit: "calls".to_owned(), lost: 1, cpu_s: 0.2 };
        let recorded = [recorded(100), recorded(300), recorded(200)];
        let recorded: Vec<_> = recorded.iter().collect();
        let outcome = outcome("malloc", &recorded, &none, &with, 10.0);
        assert!((outcome.ratio.low - 1.2).abs() < 1e-9 && (outcome.ratio.high - 1.2).abs() < 1e-9);
        assert_eq!((outcome.samples_per_s.median, outcome.weight_per_s.median), (20.0, 5_120.0));
        assert!((outcome.broker.median - 0.032).abs() < 1e-9);
        assert_eq!(outcome.lost, 3);
        let rows = judge(&OF_MALLOC, &none, &[outcome]);
        assert_eq!((rows[0].value, rows[0].peers[0].value), (96.0, 80.0));
    }
}
