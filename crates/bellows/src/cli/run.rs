//! `run` and `demo`: an experiment from a file or built in. `run --observer`: the cost of profiling itself, for each
//! given event, frequency and way to unwind stacks.

use std::path::{Path, PathBuf};
use std::slice;
use std::time::Instant;

use archive::{ObserverRow, ObserverTable, RunState};
use clap::Args;
use clap::builder::PossibleValuesParser;
use experiment::{Experiment, ProfileSpec};
use measure::{Length, Problem, Rate};
use report::console::{self, RunsProgress, Shape};
use session::{Error, Event, RunOptions, Stacks};

use super::args::{EventArgs, OutputArgs, RequireArgs, given};
use super::carriers::FleetArgs;
use super::command_line::Assignment;
use super::perform::Watched;
use super::{complete, metrics, perform};
use crate::run_options::tell_alone;
use crate::{Done, Failure, output};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows run --list
  bellows run stream-publish
  bellows run mine.toml --rate 20000 --duration 30s --set load.0.prefetch=100
  bellows run stream-publish --require 'end-to-end p99 < 20ms' --require 'lost = 0'
  bellows run stream-publish --print > own.toml
  bellows run stream-publish --event cpu --event mmap
  bellows run classic-in-out --observer --event cpu,off-cpu --freq 99,999
  bellows run classic-in-out --broker-root /opt/rabbitmq_server-4.2.1 --json > run.json

`bellows help experiments` says what an experiment is, and `bellows help keys` names every key.")]
pub(crate) struct RunArgs {
    /// Built-in experiment, or a file (*.toml)
    #[arg(value_name = "NAME|FILE", required_unless_present = "list", add = complete::experiments())]
    experiment: Option<String>,
    /// List the built-in experiments
    #[arg(long, conflicts_with_all = ["experiment", "set"])]
    list: bool,
    /// Print the experiment as TOML and do nothing else: its own text, or where options change it, all its values
    /// without secrets
    #[arg(long, conflicts_with_all = ["list", "observer", "json"])]
    print: bool,
    /// RabbitMQ's prefix or root directory, instead of the machine's own
    #[arg(long, value_name = "DIR", env = "BELLOWS_BROKER_ROOT")]
    broker_root: Option<PathBuf>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    observer: ObserverArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    require: RequireArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows demo
  bellows demo --set broker.kind=rabbitmq
  bellows demo --duration 3s --json --quiet > run.json")]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    require: RequireArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(super) struct Changes {
    /// Change a value by its path: load.0.rate=20000, phases.measure=30s. May be repeated; what
    /// BELLOWS_SET holds (parted by commas) is changed first
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Assignment>,
    /// The environment's part of --set.
    #[arg(long, hide = true, env = "BELLOWS_SET", value_delimiter = ',')]
    set_before: Vec<Assignment>,
    /// Messages per second, such as 20000, 20k or 90/min: short for --set load.0.rate=RATE
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Measured phase, in seconds (or 500ms, 2m); 0 = until Ctrl-C, in `run` and `demo` alone: short for --set
    /// phases.measure=DURATION
    #[arg(long, value_name = "DURATION")]
    duration: Option<Length>,
    #[command(flatten)]
    event: EventArgs,
    /// Take no profile
    #[arg(long, conflicts_with_all = ["events", "min_block"])]
    no_profile: bool,
}

impl Changes {
    /// The changes of values but the rate, as they may be shown: `KEY=VALUE`, without secrets.
    pub(super) fn shown(&self) -> impl Iterator<Item = String> {
        let all = self.set_before.iter().chain(&self.set);
        let duration = self.duration.map(|it| format!("phases.measure={it}"));
        all.map(|it| web::redact::assignment(&it.0)).chain(duration)
    }

    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        let own = given([
            ("--set", !self.set.is_empty()),
            ("--rate", self.rate.is_some()),
            ("--duration", self.duration.is_some()),
            ("--no-profile", self.no_profile),
        ]);
        own.chain(self.event.given())
    }

    pub(super) fn apply(&self, experiment: &mut Experiment) -> Result<(), Failure> {
        for assignment in self.set_before.iter().chain(&self.set) {
            experiment.set(&assignment.0).map_err(Error::from)?;
        }
        let rate = self.rate.map(|rate| rate_of(experiment, rate)).transpose()?;
        let duration = self.duration.map(|it| format!("phases.measure={it}"));
        for (option, assignment) in [("--rate", rate), ("--duration", duration)] {
            if let Some(assignment) = assignment {
                experiment.set_by(option, &assignment).map_err(Error::from)?;
            }
        }
        self.event.apply(&mut experiment.profile);
        if self.no_profile {
            experiment.profile.events.clear();
            experiment.profile.blocks = None;
        }
        Ok(())
    }
}

/// The assignment that `--rate` stands for: of the only load that sends, else of the only probe or churn.
fn rate_of(experiment: &Experiment, rate: Rate) -> Result<String, Failure> {
    let loads = experiment.load.iter().enumerate();
    let loads = loads.filter(|(_, load)| load.has_producers());
    let mut all: Vec<String> = loads.map(|(number, _)| format!("load.{number}.rate={rate}")).collect();
    if all.is_empty() {
        let probes = (0..experiment.probe.len()).map(|number| format!("probe.{number}.rate={rate}"));
        let churn = experiment.churn.iter().map(|_| format!("churn.rate={rate}"));
        all.extend(churn.chain(probes));
    }
    match all.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            Err(Failure::usage(format!("{} sends nothing at a rate", experiment.name), "leave out --rate")
                .observed(rate))
        }
        several => Err(Failure::usage(
            format!("--rate is for one load, and {} has {} that send", experiment.name, several.len()),
            format!("give each its own: --set {}", several.join(" --set ")),
        )
        .observed(rate)),
    }
}

impl RunArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let Some(name) = self.experiment.as_deref().filter(|_| !self.list) else { return list() };
        let (written, text) = self.require.noted(name, self.output.strict, read(name))?;
        let mut experiment = written.clone();
        // It is this machine's, and no part of what is printed. Where only other servers are probed, none is started.
        let is_for_none = self.print || experiment.asks_servers_alone();
        if let Some(root) = self.broker_root.filter(|_| !is_for_none) {
            experiment.broker.root = Some(root);
        }
        let changed = self.changes.apply(&mut experiment);
        self.require.noted(name, self.output.strict, changed)?;
        let named = &self.changes.event.events;
        match self.observer.apply(experiment, named)? {
            Observed::Once(mut experiment) if self.print => {
                experiment.require.extend(self.require.resolve());
                let text = if *experiment == written { text } else { experiment.to_toml() };
                output::data(text.as_bytes())?;
                Ok(Done::Fine)
            }
            Observed::Once(experiment) => {
                let shape = perform::shape(&experiment);
                let (output, require) = (&self.output, &self.require);
                perform::experiment(&experiment, &self.fleet, output, require, true, shape).map(|run| run.done)
            }
            Observed::Each(experiments) => {
                self.require.none_with("--observer and several events")?;
                observer_table(&experiments, &self.output)
            }
        }
    }
}

impl DemoArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let mut experiment = Experiment::built_in("demo").map_err(Error::from)?;
        self.changes.apply(&mut experiment)?;
        let shape = perform::shape(&experiment);
        let fleet = FleetArgs::default();
        perform::experiment(&experiment, &fleet, &self.output, &self.require, true, shape).map(|run| run.done)
    }
}

/// Whether a name is that of an experiment: a built-in one, or a file.
pub(super) fn is_experiment(name: &str) -> bool {
    let path = Path::new(name);
    let is_file = path.is_file() || path.extension().is_some_and(|e| e == "toml");
    is_file || experiment::built_ins().iter().any(|it| it.name == name)
}

pub(super) fn load(name: &str) -> Result<Experiment, Failure> {
    read(name).map(|(experiment, _)| experiment)
}

/// The experiment of a name or a file, and its text.
fn read(name: &str) -> Result<(Experiment, String), Failure> {
    let path = Path::new(name);
    let looks_like_file = path.extension().is_some_and(|e| e == "toml") || name.contains('/') || path.is_file();
    if !looks_like_file {
        let read = Experiment::built_in(name).map_err(Error::from)?;
        let all = experiment::built_ins();
        let text = all.iter().find(|it| it.name == name).map(|it| it.text);
        return Ok((read, text.unwrap_or_default().to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|source| {
        let help = "`bellows run --list` lists the built-in experiments";
        Failure::Usage(Problem::new(format!("cannot read {name}"), source, help))
    })?;
    let read = Experiment::from_toml(&text, name).map_err(Error::from)?;
    Ok((read, text))
}

fn list() -> Result<Done, Failure> {
    let all = experiment::built_ins();
    let rows: Vec<(&str, String)> = all.iter().map(|e| (e.name, e.description())).collect();
    output::print(&console::listed(&rows, output::style())).map(|()| Done::Fine)
}

const BLOCK: Length = Length::seconds(1);

#[derive(Debug, Args)]
#[command(next_help_heading = "Profile")]
struct ObserverArgs {
    /// Tell what profiling itself costs: switch it on and off in blocks of a second (profile.blocks), in random order;
    /// with several events, frequencies or ways to unwind, a run for each and a table. See
    /// `bellows help observer-effect`
    #[arg(long)]
    observer: bool,
    /// Samples per second of each running thread, of events that are too many to take each; several with --observer
    #[arg(long, value_name = "HZ,…", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=50_000))]
    freq: Vec<u32>,
    /// How stacks are unwound: by what makes most of them whole, or by frame pointers alone; both with --observer
    #[arg(long, value_name = "HOW,…", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(Stacks::ALL.map(|(name, _)| name)))]
    stacks: Vec<String>,
}

enum Observed {
    Once(Box<Experiment>),
    Each(Vec<Experiment>),
}

impl ObserverArgs {
    /// Changes how the experiment is profiled, whose events `events` were named on the command line.
    fn apply(&self, mut experiment: Experiment, events: &[String]) -> Result<Observed, Failure> {
        let profile = &mut experiment.profile;
        if self.observer {
            profile.blocks.get_or_insert(BLOCK);
        }
        let events = if events.is_empty() { profile.events.clone() } else { events.to_vec() };
        let several = self.freq.len() > 1 || self.stacks.len() > 1;
        if !self.observer && several {
            let cause = "several frequencies, or ways to unwind stacks, are several runs";
            return Err(Failure::usage(cause, "name one of each, or compare what they cost with --observer"));
        }
        if self.observer && (several || events.len() > 1) {
            return Ok(Observed::Each(self.each(&experiment, &events)));
        }
        set(profile, self.freq.first().copied(), self.stacks.first());
        Ok(Observed::Once(Box::new(experiment)))
    }

    /// The experiment with each event, frequency and way to unwind.
    fn each(&self, experiment: &Experiment, events: &[String]) -> Vec<Experiment> {
        let profile = &experiment.profile;
        let frequencies = if self.freq.is_empty() { slice::from_ref(&profile.frequency) } else { &self.freq };
        let stacks = if self.stacks.is_empty() { slice::from_ref(&profile.stacks) } else { &self.stacks };
        let mut all = Vec::new();
        for event in events {
            let paced = Event::named(event).is_some_and(|event| event.has_frequency());
            // Where each event is a sample, all frequencies are one.
            let distinct = if paced { frequencies.len() } else { 1 };
            for frequency in frequencies.iter().take(distinct) {
                for way in stacks {
                    let mut one = experiment.clone();
                    one.profile.events = vec![event.clone()];
                    set(&mut one.profile, Some(*frequency), Some(way));
                    all.push(one);
                }
            }
        }
        all
    }
}

fn set(profile: &mut ProfileSpec, frequency: Option<u32>, stacks: Option<&String>) {
    if let Some(frequency) = frequency {
        profile.frequency = frequency;
    }
    if let Some(stacks) = stacks {
        profile.stacks.clone_from(stacks);
    }
}

/// Runs each in turn, and prints the cost of profiling. The first that does not end as planned is the last.
fn observer_table(experiments: &[Experiment], output: &OutputArgs) -> Result<Done, Failure> {
    for experiment in experiments {
        experiment.validate().map_err(Error::from)?;
    }
    let watched = Watched::start()?;
    let name = experiments.first().map_or("", |it| it.name.as_str());
    let mut exporter = output.metrics.start(name, output.quiet)?;
    let mut found = ObserverTable { schema: ObserverTable::SCHEMA.to_owned(), name: name.to_owned(), rows: Vec::new() };
    let (mut done, mut broken) = (Done::Fine, None);
    let mut progress = RunsProgress::new(Instant::now());
    for (number, experiment) in experiments.iter().enumerate() {
        let mut row = row_of(experiment);
        let about = format!("run {} of {}, {}", number + 1, experiments.len(), told(&row));
        let left = experiments.len() - number;
        let shape = Shape {
            title: format!("{name}, {about}"),
            progress: Some(progress.begin(left, Instant::now())),
            ..perform::shape(experiment)
        };
        let runs = Some(output.runs.runs.clone());
        let work = |options: &RunOptions, control: &load::Control, observer: &mut dyn session::Observer| {
            tell_alone();
            session::run(experiment, options, control, observer)
        };
        let carried = match perform::carry_out(output, runs, shape, &watched, exporter.as_mut(), work) {
            Ok(carried) => carried,
            // What the earlier ones measured is told before this one's failure.
            Err(failure) => {
                broken = Some(failure);
                break;
            }
        };
        progress.end(Instant::now());
        let record = &carried.outcome.record;
        if !output.quiet {
            output::aside(&console::repeated(&about, record, output::style_aside()));
        }
        done = done.max(perform::judge(output, record)?);
        if let Some(summary) = &record.summary {
            row.run_dir.clone_from(&summary.run_dir);
            row.observer_effect.clone_from(&summary.observer_effect);
        }
        found.rows.push(row);
        if record.state != RunState::Complete || watched.control.is_stopping() {
            break;
        }
    }
    metrics::finish(exporter);
    if !found.rows.is_empty() {
        output::print_result(output.json, &found, |style| console::observer_table(&found, style))?;
    }
    watched.check()?;
    broken.map_or(Ok(done), Err)
}

fn row_of(experiment: &Experiment) -> ObserverRow {
    let profile = &experiment.profile;
    let event = profile.events.first().cloned().unwrap_or_default();
    let paced = Event::named(&event).is_some_and(|event| event.has_frequency());
    ObserverRow {
        frequency: paced.then_some(profile.frequency),
        stacks: profile.stacks.clone(),
        event,
        ..ObserverRow::default()
    }
}

/// `cpu at 999 Hz, whole stacks`.
fn told(row: &ObserverRow) -> String {
    let often = row.frequency.map_or_else(String::new, |hertz| format!(" at {hertz} Hz"));
    format!("{}{often}, stacks {}", row.event, row.stacks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(freq: &[u32], stacks: &[&str]) -> ObserverArgs {
        ObserverArgs { observer: true, freq: freq.to_vec(), stacks: stacks.iter().map(|it| (*it).to_owned()).collect() }
    }

    fn demo() -> Experiment {
        Experiment::built_in("demo").expect("the demo")
    }

    #[test]
    fn a_rate_is_that_of_the_only_load_that_sends() {
        let rate = Rate::per_second(20_000.0).expect("a rate");
        let set = |text: &str| {
            let experiment = Experiment::from_toml(text, "test").expect(text);
            rate_of(&experiment, rate).map_err(|failure| match failure {
                Failure::Usage(problem) => problem,
                other => panic!("{other:?}"),
            })
        };
        for (text, wanted) in [
            ("[[load]]\nrate = 5", "load.0.rate=20000"),
            ("[[load]]\nproducers = 0\n[[load]]", "load.1.rate=20000"),
            ("[[load]]\n[churn]\nkind = \"queues\"", "load.0.rate=20000"),
            ("[churn]\nkind = \"queues\"", "churn.rate=20000"),
        ] {
            assert_eq!(set(text).as_deref(), Ok(wanted), "{text}");
        }
        let several = set("[[load]]\n[[load]]").expect_err("several loads");
        assert_eq!(several.help, "give each its own: --set load.0.rate=20000 --set load.1.rate=20000");
        let none = set("[[load]]\nproducers = 0\n").expect_err("no load that sends");
        assert!(none.cause.contains("sends nothing"), "{none}");
    }

    #[test]
    fn each_event_has_a_run_of_each_frequency_where_it_has_one() {
        let events = ["cpu", "off-cpu", "page-faults"].map(str::to_owned);
        let args = args(&[99, 9_999], &["whole", "frame-pointers"]);
        let Ok(Observed::Each(all)) = args.apply(demo(), &events) else {
            panic!("several runs");
        };
        let rows: Vec<String> = all.iter().map(|it| told(&row_of(it))).collect();
        assert_eq!(rows.len(), 4 + 2 + 4, "{rows:?}");
        assert_eq!(rows[0], "cpu at 99 Hz, stacks whole");
        assert_eq!(rows[4], "off-cpu, stacks whole");
        assert!(all.iter().all(|it| it.profile.blocks == Some(BLOCK)));
        assert!(all.iter().all(|it| it.profile.events.len() == 1));
    }

    #[test]
    fn one_of_each_is_one_run() {
        let mut longer = demo();
        longer.profile.blocks = Some(Length::seconds(2));
        for (given, freq, blocks) in [(demo(), &[4_999][..], BLOCK), (longer, &[], Length::seconds(2))] {
            let Ok(Observed::Once(one)) = args(freq, &[]).apply(given, &[]) else {
                panic!("one run");
            };
            assert_eq!(one.profile.blocks, Some(blocks));
            assert!(freq.is_empty() || freq == [one.profile.frequency]);
        }
    }
}
