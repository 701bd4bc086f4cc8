//! What whole stacks are worth and what they cost: `perf` in both of its modes and bellows in both of its own, one after
//! the other on one RabbitMQ.

use std::path::Path;

use anyhow::{Context, Result};
use archive::ProfileSummary;

use super::spread::Spread;
use super::{Ended, Load, Subject, beyond, bytes_below, noise, perf, rounds};
use crate::environment::{Bench, rabbitmq};
use crate::table::{Row, markdown};

/// Messages per second: enough that the broker is busy, and no core full with the load and a profiler beside it.
const RATE: u32 = 10_000;

/// Who samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    None,
    Perf,
    Bellows,
}

struct Method {
    name: &'static str,
    tool: Tool,
    args: &'static [&'static str],
}

/// The first is what others are compared with, the last what bellows does unless it is told otherwise.
const METHODS: [Method; 5] = [
    Method {
        name: "none",
        tool: Tool::None,
        args: &[],
    },
    Method {
        name: PERF_FP,
        tool: Tool::Perf,
        args: &["-g"],
    },
    Method {
        name: PERF_DWARF,
        tool: Tool::Perf,
        args: &["--call-graph", "dwarf"],
    },
    Method {
        name: OWN_FP,
        tool: Tool::Bellows,
        args: &["--stacks", "frame-pointers"],
    },
    Method {
        name: OWN,
        tool: Tool::Bellows,
        args: &[],
    },
];
const PERF_FP: &str = "perf -g";
const PERF_DWARF: &str = "perf --call-graph dwarf";
const OWN_FP: &str = "bellows, frame pointers";
const OWN: &str = "bellows";

/// What a profile came to, and what it took.
struct Sampled {
    summary: ProfileSummary,
    /// Bytes of all that was written.
    written: u64,
    /// CPU seconds of the profiler.
    cpu_s: f64,
    /// CPU seconds of `perf script`, where it was tried.
    script_s: Option<f64>,
}

/// A method after all rounds; costs are in cores.
struct Outcome {
    name: &'static str,
    samples_per_s: Spread,
    complete: Spread,
    unknown: Spread,
    lost: u64,
    copied: Spread,
    written: Spread,
    profiler: Spread,
    broker: Spread,
    p99_ms: Spread,
    /// `perf script` of the first round.
    script: Option<f64>,
}

impl Outcome {
    /// Cores from the first sample to names: what `perf` leaves to `perf script` is in it.
    fn total(&self) -> f64 {
        self.broker.median + self.profiler.median + self.script.unwrap_or(0.0)
    }
}

/// Stacks and cost of each method.
pub fn stacks(bench: &Bench) -> Result<Vec<Row>> {
    let perf = perf::version();
    if perf.is_none() {
        eprintln!("bench:   perf LEFT OUT: `perf --version` does not run here; install linux-perf");
    }
    let methods: Vec<&Method> = METHODS
        .iter()
        .filter(|method| method.tool != Tool::Perf || perf.is_some())
        .collect();
    let names: Vec<_> = methods.iter().map(|method| method.name).collect();
    let node = rabbitmq(bench, false)?;
    let title = format!(
        "RabbitMQ {} on {}, {RATE} msg/s in and out of a classic queue, {} Hz, {}",
        node.version(),
        node.runtime(),
        bench.frequency,
        perf.as_deref().unwrap_or("no perf")
    );
    let (turns, seconds) = Subject::with_folder(bench, &node, RATE, |subject| {
        let turns = rounds(subject, &names, |which, round| {
            turn(subject, methods[which], round == 0)
        })?;
        Ok((turns, subject.sampling().seconds as f64))
    })?;
    node.stop()?;
    let loads: Vec<Vec<Load>> = turns
        .iter()
        .map(|turns| turns.iter().map(|(load, _)| *load).collect())
        .collect();
    let mut outcomes = Vec::new();
    for ((method, turns), loads_with) in methods.iter().zip(&turns).zip(&loads).skip(1) {
        let sampled: Vec<&Sampled> = turns.iter().filter_map(|(_, it)| it.as_ref()).collect();
        outcomes.push(outcome(
            method.name,
            &sampled,
            &loads[0],
            loads_with,
            seconds,
        ));
    }
    show(&title, &loads[0], &outcomes);
    Ok(judge(&outcomes, perf.is_some()))
}

fn turn(subject: &Subject<'_>, method: &Method, first: bool) -> Result<(Load, Option<Sampled>)> {
    let data = subject.folder.join("perf.data");
    let command = match method.tool {
        Tool::None => None,
        Tool::Perf => Some(perf::record(
            subject.node.pid(),
            subject.sampling(),
            &data,
            method.args,
        )),
        Tool::Bellows => Some(subject.bellows(method.args)),
    };
    let (load, ended) = subject.turn(command)?;
    let sampled = match (method.tool, ended) {
        (Tool::Perf, Some(ended)) => Some(of_perf(&ended, &data, first)?),
        (Tool::Bellows, Some(ended)) => Some(of_bellows(subject, &ended)?),
        _ => None,
    };
    if let Some(sampled) = &sampled {
        eprintln!(
            "bench:     {:.1} us/msg of the broker, {:.2} s of the profiler, {} samples",
            load.broker_us, sampled.cpu_s, sampled.summary.samples
        );
    } else {
        eprintln!(
            "bench:     {:.1} us/msg of the broker, which took {:.2} cores at {:.0} msg/s",
            load.broker_us, load.broker_cores, load.rate
        );
    }
    Ok((load, sampled))
}

fn of_perf(ended: &Ended, data: &Path, first: bool) -> Result<Sampled> {
    let sampled = Sampled {
        summary: perf::read(data)?,
        written: data.metadata()?.len(),
        cpu_s: ended.cpu_s,
        script_s: first.then(|| perf::script(data)).transpose()?,
    };
    std::fs::remove_file(data)?;
    Ok(sampled)
}

fn of_bellows(subject: &Subject<'_>, ended: &Ended) -> Result<Sampled> {
    let mut summary = ended.record()?;
    let sampled = Sampled {
        summary: summary.profiles.pop().context("no profile")?,
        written: bytes_below(&subject.runs())?,
        cpu_s: ended.cpu_s,
        script_s: None,
    };
    std::fs::remove_dir_all(subject.runs())?;
    Ok(sampled)
}

fn outcome(
    name: &'static str,
    sampled: &[&Sampled],
    none: &[Load],
    with: &[Load],
    seconds: f64,
) -> Outcome {
    let of = |value: &dyn Fn(&Sampled) -> f64| Spread::of(sampled.iter().map(|it| value(it)));
    let samples = |it: &Sampled| (it.summary.samples as f64).max(1.0);
    Outcome {
        name,
        samples_per_s: of(&|it| it.summary.samples as f64 / seconds),
        complete: of(&|it| it.summary.complete_share * 100.0),
        unknown: of(&|it| it.summary.unknown_share * 100.0),
        lost: sampled.iter().map(|it| it.summary.lost).sum(),
        copied: of(&|it| it.summary.copied_bytes as f64),
        written: of(&|it| it.written as f64 / samples(it)),
        profiler: of(&|it| it.cpu_s / seconds),
        broker: beyond(none, with),
        p99_ms: Spread::of(with.iter().map(|load| load.p99_ms)),
        script: sampled
            .iter()
            .find_map(|it| it.script_s)
            .map(|s| s / seconds),
    }
}

/// Prints the table of the documents, and below it what must be known to read it.
fn show(title: &str, none: &[Load], outcomes: &[Outcome]) {
    let total = |name| {
        let of = outcomes.iter().find(|it| it.name == name);
        of.map(Outcome::total)
    };
    let (perf, own) = (total(PERF_FP), total(OWN_FP));
    let percent = |cores: Spread| format!("{} %", cores.times(100.0));
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let beside =
        |it: &Outcome, of: Option<f64>| or_dash(of.map(|of| format!("{:.2}", it.total() / of)));
    let copied = |it: &Outcome| Some(it.copied.median).filter(|&bytes| bytes > 0.0);
    let figures: [(&str, &dyn Fn(&Outcome) -> String); 13] = [
        ("samples a second", &|it| {
            format!("{:.0}", it.samples_per_s.median)
        }),
        ("lost", &|it| it.lost.to_string()),
        ("complete", &|it| format!("{:.1} %", it.complete.median)),
        ("with an `[unknown]`", &|it| {
            format!("{:.1} %", it.unknown.median)
        }),
        ("stack bytes copied for a sample", &|it| {
            or_dash(copied(it).map(|it| format!("{it:.0}")))
        }),
        ("bytes on disk for a sample", &|it| {
            format!("{:.0}", it.written.median)
        }),
        ("profiler, % of a core", &|it| percent(it.profiler)),
        ("broker beyond none, % of a core", &|it| percent(it.broker)),
        ("`perf script`, % of a core", &|it| {
            or_dash(it.script.map(|cores| format!("{:.1} %", cores * 100.0)))
        }),
        ("in all, % of a core", &|it| {
            format!("{:.1} %", it.total() * 100.0)
        }),
        ("in all, over `perf -g`", &|it| beside(it, perf)),
        ("in all, over frame pointers", &|it| beside(it, own)),
        ("end-to-end p99, ms", &|it| it.p99_ms.to_string()),
    ];
    let head: Vec<&str> = std::iter::once("")
        .chain(outcomes.iter().map(|it| it.name))
        .collect();
    let rows = figures.iter().map(|(what, figure)| {
        let cells = outcomes.iter().map(figure);
        std::iter::once((*what).to_owned()).chain(cells).collect()
    });
    println!("{title}:\n\n{}", markdown(&head, &rows.collect::<Vec<_>>()));
    let broker = Spread::of(none.iter().map(|load| load.broker_cores * 100.0));
    let p99 = Spread::of(none.iter().map(|load| load.p99_ms));
    println!(
        "Medians of {} rounds, quartiles in brackets. The broker alone takes {broker} % of a core, p99 {p99} ms. `in all` \
         is profiler, broker beyond none and `perf script` together, because bellows names its samples itself: above 1.00 a \
         method is dearer than the one it is set over.",
        none.len()
    );
    println!(
        "{}",
        warnings(none, outcomes.iter().map(|it| (it.name, it.broker)))
    );
}

/// Which costs cannot be told from none.
pub(super) fn warnings<'o>(
    none: &[Load],
    costs: impl Iterator<Item = (&'o str, Spread)>,
) -> String {
    let noise = noise(none);
    let lost: Vec<_> = costs
        .filter(|(_, cost)| cost.median.abs() < noise)
        .map(|(name, _)| name)
        .collect();
    if lost.is_empty() {
        return String::new();
    }
    format!(
        "WARNING: without a profiler the broker's CPU time spreads by {:.1} % of a core between quartiles, which is more \
         than what it was found to take beyond that with: {}\n",
        noise * 100.0,
        lost.join("; ")
    )
}

/// The figures that have goals.
fn judge(outcomes: &[Outcome], has_perf: bool) -> Vec<Row> {
    let Some(own) = outcomes.iter().find(|it| it.name == OWN) else {
        return Vec::new();
    };
    let row = |what: &str, unit, value: &dyn Fn(&Outcome) -> f64| {
        let row = Row::new(
            format!("stacks of a loaded RabbitMQ: {what}"),
            unit,
            value(own),
        );
        let others = outcomes.iter().filter(|it| it.name != OWN);
        others.fold(row, |row, it| row.beside(it.name, value(it)))
    };
    let complete = own.complete.median;
    let dwarf = outcomes.iter().find(|it| it.name == PERF_DWARF);
    let mut cost = row("CPU time in all", "% core", &|it| it.total() * 100.0);
    cost = match dwarf {
        Some(dwarf) => cost.goal("below perf's copies of stacks", own.total() < dwarf.total()),
        None => cost,
    };
    if !has_perf {
        cost = cost.note("perf left out: `perf --version` does not run here");
    }
    vec![
        row("complete", "%", &|it| it.complete.median).goal("at least 97 %", complete >= 97.0),
        row("with an [unknown]", "%", &|it| it.unknown.median),
        row("profiler alone", "% core", &|it| it.profiler.median * 100.0),
        cost,
    ]
}

#[cfg(test)]
mod tests {
    use archive::ProfileSummary;

    use super::{Load, METHODS, OWN, Sampled, Spread, judge, outcome, warnings};

    fn load(broker_us: f64) -> Load {
        Load {
            broker_us,
            broker_cores: broker_us / 100.0,
            rate: 10_000.0,
            p99_ms: 2.0,
        }
    }

    fn sampled(samples: u64, cpu_s: f64, script_s: Option<f64>) -> Sampled {
        Sampled {
            summary: ProfileSummary {
                samples,
                complete_share: 0.98,
                lost: 3,
                ..ProfileSummary::default()
            },
            written: samples * 100,
            cpu_s,
            script_s,
        }
    }

    #[test]
    fn what_perf_script_takes_is_part_of_the_cost() {
        let none = [load(50.0), load(50.0)];
        let with = [load(52.0), load(54.0)];
        let turns = [sampled(1_000, 0.5, Some(2.0)), sampled(1_000, 0.7, None)];
        let turns: Vec<_> = turns.iter().collect();
        let perf = outcome("perf -g", &turns, &none, &with, 10.0);
        assert!((perf.broker.median - 0.03).abs() < 1e-9);
        assert!((perf.profiler.median - 0.06).abs() < 1e-9);
        assert!((perf.total() - 0.29).abs() < 1e-9);
        assert_eq!((perf.lost, perf.written.median), (6, 100.0));
        let own = outcome(OWN, &turns[1..], &none, &with, 10.0);
        assert!((own.total() - 0.1).abs() < 1e-9);
        let rows = judge(&[perf, own], true);
        assert_eq!(rows[0].value, 98.0);
        let last = &rows[3].peers[0];
        assert_eq!(last.name, "perf -g");
        assert!((last.ratio - 10.0 / 29.0).abs() < 1e-9);
    }

    #[test]
    fn no_samples_divide_by_nothing() {
        let none = [load(50.0)];
        let turns = [sampled(0, 0.5, None)];
        let turns: Vec<_> = turns.iter().collect();
        let outcome = outcome(OWN, &turns, &none, &none, 10.0);
        assert_eq!(outcome.written.median, 0.0);
    }

    #[test]
    fn costs_within_the_noise_are_named() {
        // Quartiles at 50.5 and 51.5 us: 1 us, or 1 % of a core.
        let none = [load(50.0), load(51.0), load(52.0)];
        let cost = |cores| Spread::of([cores].into_iter());
        let costs = [("cheap", cost(0.009)), ("dear", cost(0.05))];
        let text = warnings(&none, costs.into_iter());
        assert!(text.contains("cheap") && !text.contains("dear"), "{text}");
        assert_eq!(warnings(&none, [("dear", cost(-0.05))].into_iter()), "");
    }

    #[test]
    fn nothing_is_compared_with_something() {
        assert_eq!(METHODS[0].name, "none");
        assert_eq!(METHODS[4].name, OWN);
    }
}
