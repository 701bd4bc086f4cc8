//! `record`: a profile without load.

use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args};
use measure::Length;
use report::console::{self, FunctionRowOf, FunctionSort, FunctionTable, Shape};
use session::experiment::ProfileSpec;
use session::{RecordOptions, Stacks, Target};

use super::args::{EventArgs, OutputArgs, no_samples};
use super::perform::{self, CarriedOut, Watched};
use crate::failure::{Done, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  bellows record --pid 4711 --duration 30
  bellows record --name beam.smp --freq 99 --duration 60
  bellows record --name beam.smp --event cpu --event off-cpu --duration 30
  bellows top last";

/// What `bellows record` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("process").args(["pid", "name"]).required(true))]
pub(crate) struct RecordArgs {
    /// Process to profile
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Process to profile, by the name of its command, executable or Erlang node (rabbit@host, or rabbit)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    event: EventArgs,
    /// Samples per second of each running thread, of events that are too many to take each
    #[arg(long, value_name = "HZ", default_value_t = 999, env = "BELLOWS_FREQ",
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    freq: u32,
    /// How stacks are unwound: by what makes most of them whole, or by frame pointers alone
    #[arg(long, value_name = "HOW", default_value = "whole",
          value_parser = PossibleValuesParser::new(Stacks::ALL.map(|(name, _)| name)))]
    stacks: String,
    /// How long, in seconds (or 500ms, 2m); 0 lasts until Ctrl-C
    #[arg(long, value_name = "LENGTH", default_value = "30")]
    duration: Length,
    #[command(flatten)]
    output: OutputArgs,
}

impl RecordArgs {
    /// Profiles, and prints the functions and the report's path.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let target = match (self.pid, self.name) {
            (Some(pid), _) => Target::Pid(pid),
            (None, name) => Target::Name(name.unwrap_or_default()),
        };
        let mut profile = ProfileSpec {
            frequency: self.freq,
            stacks: self.stacks,
            ..ProfileSpec::default()
        };
        self.event.apply(&mut profile);
        let record = RecordOptions {
            target,
            profile,
            duration: (!self.duration.is_zero()).then_some(self.duration.0),
            name: "record".to_owned(),
        };
        let shape = Shape {
            title: "record".into(),
            measure: record.duration,
            ..Shape::default()
        };
        let runs = Some(self.output.runs.runs.clone());
        let watched = Watched::start()?;
        let carried = perform::carry_out(
            &self.output,
            runs,
            shape,
            &watched,
            |options, control, observer| session::record(&record, options, control, observer),
        )?;
        let profiles = &carried.outcome.profiles;
        let is_empty = profiles.iter().all(|profile| profile.samples.is_empty());
        match &carried.outcome.record.summary {
            // The error is the one JSON value.
            Some(_) if self.output.json && is_empty => {}
            Some(summary) if self.output.json => output::print_json(summary)?,
            _ => show(&carried)?,
        }
        carried.report?;
        watched.check()?;
        if is_empty {
            let first = profiles.first().map(|profile| profile.header.kind);
            return Err(no_samples("the profile", first.unwrap_or_default()));
        }
        perform::judge(&self.output, &carried.outcome.record)
    }
}

fn show(carried: &CarriedOut) -> Result<(), Failure> {
    let style = output::style();
    let mut warnings = carried.outcome.record.warnings.clone();
    let profiles = &carried.outcome.profiles;
    // The tables' own notes say these.
    warnings.retain(|warning| profiles.iter().all(|it| !it.notes.contains(&warning.text)));
    output::print(&console::warnings(&warnings, style))?;
    for profile in profiles {
        let table = FunctionTable {
            of: FunctionRowOf::Function,
            limit: 12,
            sort: FunctionSort::SelfShare,
            only: &|_| true,
            rest: None,
            which: None,
        };
        output::print(&console::functions(profile, &table, style))?;
    }
    match carried.place() {
        Some(place) => output::print(&format!("report: {}\n", place.display())),
        None => Ok(()),
    }
}
