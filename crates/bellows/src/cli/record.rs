//! `record`: a profile without load.

use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args};
use experiment::ProfileSpec;
use measure::Length;
use report::console::Shape;
use session::{RecordOptions, RunOutcome, Stacks, Target};
use stacks::EventKind;

use super::args::{EventArgs, OutputArgs, no_samples};
use super::metrics;
use super::perform::{self, CarriedOut, Watched};
use super::record_every::{EveryArgs, Subjects, one_name};
use crate::{Done, Failure, output};

/// Samples per second of recordings of days: too few to be felt, and no divisor of work at 10 or 100 Hz.
const CONTINUOUS_FREQUENCY: u32 = 49;
const DURATION: Length = Length::seconds(30);
/// Busy cores below which a process and its descendants count as idle.
const LEAST_CORES: f64 = 0.01;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows record --pid 4711 --duration 30
  bellows record --name beam.smp --freq 99 --duration 60
  bellows record --name beam.smp --event cpu --event off-cpu --duration 30
  bellows top last
  bellows record --name beam.smp --every 60s --keep 24h --label env=prod
  bellows record --name beam.smp --every 60s --push http://127.0.0.1:4040
  bellows top beam.smp@10:00..11:00")]
#[command(group = ArgGroup::new("process").args(["pid", "names"]).required(true))]
pub(crate) struct RecordArgs {
    /// Process to profile
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Process to profile, by the name of its command, executable or Erlang node (rabbit@host, or rabbit); with --every
    /// all processes of that name, and --name may be repeated
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    event: EventArgs,
    /// Samples per second of each running thread, of events that are too many to take each [default: 999; with --every
    /// 49]
    #[arg(long, value_name = "HZ", env = "BELLOWS_FREQ",
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    freq: Option<u32>,
    /// How stacks are unwound: by what makes most of them whole, or by frame pointers alone
    #[arg(long, value_name = "HOW", default_value = "whole",
          value_parser = PossibleValuesParser::new(Stacks::ALL.map(|(name, _)| name)))]
    stacks: String,
    /// How long, in seconds (or 500ms, 2m); 0 lasts until Ctrl-C [default: 30; with --every 0]
    #[arg(long, value_name = "DURATION")]
    duration: Option<Length>,
    #[command(flatten)]
    every: EveryArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl RecordArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let mut profile = ProfileSpec { stacks: self.stacks, ..ProfileSpec::default() };
        profile.frequency = match (self.freq, self.every.every) {
            (Some(frequency), _) => frequency,
            (None, Some(_)) => CONTINUOUS_FREQUENCY,
            (None, None) => profile.frequency,
        };
        self.event.apply(&mut profile);
        self.event.check(&profile)?;
        if let Some(every) = self.every.every {
            let subjects = Subjects { pid: self.pid, names: self.names, profile, duration: self.duration };
            return self.every.execute(every, subjects, &self.output);
        }
        let duration = self.duration.unwrap_or(DURATION);
        let record = RecordOptions {
            target: match self.pid {
                Some(pid) => Target::Pid(pid),
                None => Target::Name(one_name(&self.names)?),
            },
            profile,
            duration: (!duration.is_zero()).then_some(duration.0),
            name: "record".to_owned(),
        };
        let shape = Shape { title: "record".into(), measure: record.duration, ..Shape::default() };
        let (output, runs) = (&self.output, Some(self.output.runs.runs.clone()));
        let watched = Watched::start()?;
        let mut exporter = output.metrics.start(&shape.title, output.quiet)?;
        let carried =
            perform::carry_out(output, runs, shape, &watched, exporter.as_mut(), |options, control, show| {
                session::record(&record, options, control, show)
            })?;
        metrics::finish(exporter);
        let profiles = &carried.outcome.profiles;
        let is_empty = profiles.iter().all(|profile| profile.samples.is_empty());
        match &carried.outcome.record.summary {
            // The error is the one JSON value.
            Some(_) if self.output.json && is_empty => {}
            Some(summary) if self.output.json => output::print_json(summary)?,
            _ => show(&self.output, &carried)?,
        }
        let judged = carried.judged(&self.output);
        carried.report?;
        watched.check()?;
        if is_empty {
            return Err(nothing_sampled(&carried.outcome));
        }
        judged
    }
}

/// The failure of a recording without samples. The CPU that it shows is that of descendants, too.
fn nothing_sampled(outcome: &RunOutcome) -> Failure {
    let kind = outcome.profiles.first().map(|profile| profile.header.kind).unwrap_or_default();
    let summary = outcome.record.summary.as_ref();
    let cores = summary.and_then(|it| it.cpu_cores.broker).filter(|cores| *cores >= LEAST_CORES);
    let pid = summary.and_then(|it| it.broker.pid).filter(|_| kind == EventKind::OnCpu && cores.is_some());
    let child = pid.and_then(session::busiest_descendant);
    let (Some(cores), Some(pid), Some((child, command))) = (cores, pid, child) else {
        return no_samples("the profile", kind);
    };
    let used = format!("{cores:.2} cores");
    let cause = format!("the profile has no samples: process {pid} itself used no CPU, its child processes {used}");
    let help = format!("record the child that works: `bellows record --pid {child}` ({command})");
    Failure::failed(cause, help).observed(used)
}

fn show(output: &OutputArgs, carried: &CarriedOut) -> Result<(), Failure> {
    match (&carried.outcome.record.summary, carried.place()) {
        (Some(summary), _) => output::print(&carried.brief(output, summary, output::style())),
        (None, Some(place)) => output::print(&format!("report: {}\n", place.display())),
        (None, None) => Ok(()),
    }
}
