//! Worth and cost of whole stacks: `perf` in both of its modes and bellows in both of its own, one after the other on
//! one RabbitMQ.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use stacks::{Profile, ProfileSummary};
use wait4::Wait4;

use super::{Ended, Load, Sampling, Spread, Subject, beyond, bytes_below, is_sure, rounds, warnings};
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
    Method { name: "none", tool: Tool::None, args: &[] },
    Method { name: PERF_FP, tool: Tool::Perf, args: &["-g"] },
    Method { name: PERF_DWARF, tool: Tool::Perf, args: &["--call-graph", "dwarf"] },
    Method { name: OWN_FP, tool: Tool::Bellows, args: &["--stacks", "frame-pointers"] },
    Method { name: OWN, tool: Tool::Bellows, args: &[] },
];
const PERF_FP: &str = "perf -g";
const PERF_DWARF: &str = "perf --call-graph dwarf";
const OWN_FP: &str = "bellows, frame pointers";
const OWN: &str = "bellows";

/// A profile, and its cost.
struct Sampled {
    summary: ProfileSummary,
    /// Bytes of all that was written.
    written: u64,
    /// CPU seconds of the profiler.
    cpu_s: f64,
    /// CPU seconds of `perf script`, where it was tried.
    script_s: Option<f64>,
}

/// A method after all rounds; costs are in cores unless they say otherwise.
struct Outcome {
    name: &'static str,
    samples_per_s: Spread,
    complete: Spread,
    unknown: Spread,
    lost: u64,
    copied: Spread,
    written: Spread,
    /// From start to end.
    profiler: Spread,
    /// `perf script` of the first round.
    script: f64,
    broker: Spread,
    /// The broker's is more than chance.
    is_sure: bool,
    p99_ms: Spread,
}

impl Outcome {
    /// Until samples have names, which `perf` leaves to `perf script`.
    fn named(&self) -> f64 {
        self.profiler.median + self.script
    }

    /// With what the broker takes more; `None` where that is not known.
    fn total(&self) -> Option<f64> {
        self.is_sure.then(|| self.named() + self.broker.median)
    }
}

/// Stacks and cost of each method.
pub fn stacks(bench: &Bench) -> Result<Vec<Row>> {
    let perf = perf_version();
    if perf.is_none() {
        eprintln!("bench:   perf LEFT OUT: `perf --version` does not run here; install linux-perf");
    }
    let methods: Vec<&Method> = METHODS.iter().filter(|method| method.tool != Tool::Perf || perf.is_some()).collect();
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
        let turns = rounds(subject, &names, |which, round| turn(subject, methods[which], round == 0))?;
        Ok((turns, subject.sampling().seconds as f64))
    })?;
    node.stop()?;
    let loads: Vec<Vec<Load>> = turns.iter().map(|turns| turns.iter().map(|(load, _)| *load).collect()).collect();
    let mut outcomes = Vec::new();
    for ((method, turns), with) in methods.iter().zip(&turns).zip(&loads).skip(1) {
        let sampled: Vec<&Sampled> = turns.iter().filter_map(|(_, it)| it.as_ref()).collect();
        outcomes.push(outcome(method.name, &sampled, &loads[0], with, seconds));
    }
    show(&title, seconds, &loads[0], &outcomes);
    Ok(judge(&outcomes, perf.is_some()))
}

fn turn(subject: &Subject<'_>, method: &Method, first: bool) -> Result<(Load, Option<Sampled>)> {
    let (data, pid) = (subject.folder.join("perf.data"), subject.node.pid());
    let command = match method.tool {
        Tool::None => None,
        Tool::Perf => Some(perf_record(pid, subject.sampling(), &data, method.args)),
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
        summary: read_perf_data(data)?,
        written: data.metadata()?.len(),
        cpu_s: ended.cpu_s,
        script_s: first.then(|| perf_script(data)).transpose()?,
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

fn outcome(name: &'static str, sampled: &[&Sampled], none: &[Load], with: &[Load], seconds: f64) -> Outcome {
    let of = |value: &dyn Fn(&Sampled) -> f64| Spread::of(sampled.iter().map(|it| value(it)));
    let samples = |it: &Sampled| (it.summary.samples as f64).max(1.0);
    let broker = beyond(none, with);
    let script = sampled.iter().find_map(|it| it.script_s);
    Outcome {
        name,
        samples_per_s: of(&|it| it.summary.samples as f64 / seconds),
        complete: of(&|it| it.summary.complete_share * 100.0),
        unknown: of(&|it| it.summary.unknown_share * 100.0),
        lost: sampled.iter().map(|it| it.summary.lost).sum(),
        copied: of(&|it| it.summary.copied_bytes as f64),
        written: of(&|it| it.written as f64 / samples(it)),
        profiler: of(&|it| it.cpu_s / seconds),
        broker,
        is_sure: is_sure(broker, none),
        p99_ms: Spread::of(with.iter().map(|load| load.p99_ms)),
        script: script.unwrap_or(0.0) / seconds,
    }
}

/// A row's name, and its figure of a profiler.
type Figure<'a> = (&'a str, &'a dyn Fn(&Outcome) -> String);

/// Prints the table of the documents, and below it what must be known to read it.
fn show(title: &str, seconds: f64, none: &[Load], outcomes: &[Outcome]) {
    let by_name = |name| outcomes.iter().find(|it| it.name == name);
    let (perf, own) = (by_name(PERF_FP), by_name(OWN_FP));
    let percent = |cores: Spread| cores.times(100.0).to_string();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let named = |it: &Outcome, of: Option<&Outcome>| of.map(|of| format!("{:.2}", it.named() / of.named()));
    let total = |it: &Outcome, of: Option<&Outcome>| {
        let (it, of) = it.total().zip(of?.total())?;
        Some(format!("{:.2}", it / of))
    };
    let unless_0 = |figure: f64, text: String| or_dash(Some(text).filter(|_| figure > 0.0));
    let share = |cores: f64| format!("{:.1}", cores * 100.0);
    let us = |it: &Outcome| it.broker.times(1e6 / it.samples_per_s.median.max(1.0));
    let figures: [Figure; 16] = [
        ("samples a second", &|it| format!("{:.0}", it.samples_per_s.median)),
        ("lost", &|it| it.lost.to_string()),
        ("complete, %", &|it| format!("{:.1}", it.complete.median)),
        ("with an `[unknown]`, %", &|it| format!("{:.1}", it.unknown.median)),
        ("stack bytes copied for a sample", &|it| unless_0(it.copied.median, format!("{:.0}", it.copied.median))),
        ("bytes on disk for a sample", &|it| format!("{:.0}", it.written.median)),
        ("profiler, % of a core", &|it| percent(it.profiler)),
        ("`perf script`, % of a core", &|it| unless_0(it.script, share(it.script))),
        ("until samples have names, % of a core", &|it| share(it.named())),
        ("over `perf -g`", &|it| or_dash(named(it, perf))),
        ("over frame pointers", &|it| or_dash(named(it, own))),
        ("broker beyond none, % of a core", &|it| percent(it.broker)),
        ("the same for a sample, us", &|it| us(it).to_string()),
        ("all that, over `perf -g`", &|it| or_dash(total(it, perf))),
        ("all that, over frame pointers", &|it| or_dash(total(it, own))),
        ("end-to-end p99, ms", &|it| it.p99_ms.to_string()),
    ];
    let names = outcomes.iter().map(|it| it.name);
    let head: Vec<&str> = std::iter::once("").chain(names).collect();
    let rows = figures.iter().map(|(what, figure)| {
        let cells = outcomes.iter().map(figure);
        std::iter::once((*what).to_owned()).chain(cells).collect()
    });
    println!("{title}:\n\n{}", markdown(&head, &rows.collect::<Vec<_>>()));
    println!(
        "Medians of {} rounds of {seconds} s, quartiles in brackets. The broker alone takes {} % of a core, p99 {} ms. \
         `perf script` is of the first round: bellows names its samples itself. A ratio above 1.00 is dearer; those \
         with the broker are `-` where what it takes beyond none cannot be told from chance.",
        none.len(),
        Spread::of(none.iter().map(|load| load.broker_cores * 100.0)),
        Spread::of(none.iter().map(|load| load.p99_ms)),
    );
    println!("{}", warnings(none, outcomes.iter().map(|it| (it.name, it.broker))));
}

/// The figures that have goals.
fn judge(outcomes: &[Outcome], has_perf: bool) -> Vec<Row> {
    let Some(own) = outcomes.iter().find(|it| it.name == OWN) else {
        return Vec::new();
    };
    let row = |what: &str, unit, value: &dyn Fn(&Outcome) -> f64| {
        let row = Row::new(format!("stacks of a loaded RabbitMQ: {what}"), unit, value(own));
        let others = outcomes.iter().filter(|it| it.name != OWN);
        others.fold(row, |row, it| row.beside(it.name, value(it)))
    };
    let complete = own.complete.median;
    let dwarf = outcomes.iter().find(|it| it.name == PERF_DWARF);
    let mut cost = row("profiler until samples have names", "% core", &|it| it.named() * 100.0);
    cost = match dwarf {
        Some(dwarf) => cost.goal("below perf's copies of stacks", own.named() < dwarf.named()),
        None => cost,
    };
    if !has_perf {
        cost = cost.note("perf left out: `perf --version` does not run here");
    }
    vec![
        row("complete", "%", &|it| it.complete.median).goal("at least 97 %", complete >= 97.0),
        row("with an [unknown]", "%", &|it| it.unknown.median),
        cost,
    ]
}

/// The version of `perf`; `None` where there is none that runs here.
fn perf_version() -> Option<String> {
    let output = Command::new("perf").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// `perf record` of a process.
fn perf_record(pid: u32, sampling: Sampling, data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("perf");
    command
        // Without -N it copies the programs of the process to the home directory.
        .args(["record", "-q", "-N", "-e", "cpu-clock"])
        .args(["-F", &sampling.frequency.to_string()])
        .args(args)
        .args(["-p", &pid.to_string(), "-o"])
        .arg(data)
        .args(["--", "sleep", &sampling.seconds.to_string()]);
    command
}

/// Its file as bellows reads it, so that the same rules say what is complete and what has no name.
fn read_perf_data(data: &Path) -> Result<ProfileSummary> {
    let profile = Profile::open_as(&[profile::PERF_DATA], data, None)?;
    Ok(profile.summary(0))
}

/// CPU seconds of `perf script`, which every further tool reads its stacks from.
fn perf_script(data: &Path) -> Result<f64> {
    let mut child = Command::new("perf")
        .args(["script", "-i"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("perf script")?;
    let ended = child.wait4()?;
    if !ended.status.success() {
        bail!("perf script ended with {}", ended.status);
    }
    Ok((ended.rusage.utime + ended.rusage.stime).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use stacks::ProfileSummary;

    use super::{Load, METHODS, OWN, Sampled, judge, outcome};

    fn load(broker_us: f64) -> Load {
        Load { broker_us, broker_cores: broker_us / 100.0, rate: 10_000.0, p99_ms: 2.0 }
    }

    fn sampled(samples: u64, cpu_s: f64, script_s: Option<f64>) -> Sampled {
        Sampled {
            summary: ProfileSummary { samples, complete_share: 0.98, lost: 3, ..ProfileSummary::default() },
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
        assert!((perf.named() - 0.26).abs() < 1e-9);
        assert!(perf.total().is_some_and(|cores| (cores - 0.29).abs() < 1e-9));
        assert_eq!((perf.lost, perf.written.median), (6, 100.0));
        let own = outcome(OWN, &turns[1..], &none, &with, 10.0);
        assert!((own.named() - 0.07).abs() < 1e-9);
        let rows = judge(&[perf, own], true);
        assert_eq!(rows[0].value, 98.0);
        let last = &rows[2].peers[0];
        assert_eq!(last.name, "perf -g");
        assert!((last.ratio - 7.0 / 26.0).abs() < 1e-9);
    }

    #[test]
    fn no_samples_divide_by_nothing() {
        let none = [load(50.0)];
        let turns = [sampled(0, 0.5, None)];
        let turns: Vec<_> = turns.iter().collect();
        let outcome = outcome(OWN, &turns, &none, &none, 10.0);
        assert_eq!(outcome.written.median, 0.0);
        // It cost the broker nothing, which chance does, too.
        assert_eq!(outcome.total(), None);
    }

    #[test]
    fn nothing_is_compared_with_something() {
        assert_eq!(METHODS[0].name, "none");
        assert_eq!(METHODS[4].name, OWN);
    }
}
