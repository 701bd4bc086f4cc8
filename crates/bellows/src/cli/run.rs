//! `run` and `demo`: an experiment from a file or built in.

use std::path::{Path, PathBuf};

use clap::Args;
use experiment::Experiment;
use measure::Problem;
use report::console::Shape;
use session::Error;

use super::args::{EventArgs, OutputArgs, RequireArgs};
use super::command_line::Assignment;
use super::observer::{self, Observed, ObserverArgs};
use super::{complete, perform};
use crate::failure::{Done, Failure};
use crate::output;

const RUN_EXAMPLES: &str = "\
Examples:
  bellows run --list
  bellows run stream-publish
  bellows run mine.toml --set load.0.rate=20000 --set phases.measure=30s
  bellows run stream-publish --event cpu --event mmap
  bellows run classic-in-out --observer --event cpu,off-cpu --freq 99,999
  bellows run classic-in-out --broker-root /opt/rabbitmq_server-4.2.1 --json > run.json

`bellows help experiments` says what an experiment is, and `bellows help keys` names every key.";

const DEMO_EXAMPLES: &str = "\
Examples:
  bellows demo
  bellows demo --set broker.kind=rabbitmq
  bellows demo --set phases.measure=3s --json --quiet > run.json";

const AFTER_DEMO: &str = "\
In the report: latency over time, then the flame graph.
Next:
  bellows top last              functions by CPU time
  bellows run stream-publish    RabbitMQ at full speed
  bellows help getting-started  load on your own broker";

/// Options of `bellows run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Built-in experiment, or a file (*.toml)
    #[arg(value_name = "NAME|FILE", required_unless_present = "list", add = complete::experiments())]
    experiment: Option<String>,
    /// List the built-in experiments
    #[arg(long, conflicts_with_all = ["experiment", "set"])]
    list: bool,
    /// RabbitMQ's prefix or root directory, instead of the machine's own
    #[arg(long, value_name = "DIR", env = "BELLOWS_BROKER_ROOT")]
    broker_root: Option<PathBuf>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    observer: ObserverArgs,
    #[command(flatten)]
    require: RequireArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Options of `bellows demo`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_EXAMPLES)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    require: RequireArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Changes to an experiment.
#[derive(Debug, Args)]
pub(super) struct Changes {
    /// Change a value by its path: load.0.rate=20000, phases.measure=30s. May be repeated; what
    /// BELLOWS_SET holds (parted by commas) is changed first
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Assignment>,
    /// The environment's part of --set.
    #[arg(long, hide = true, env = "BELLOWS_SET", value_delimiter = ',')]
    set_before: Vec<Assignment>,
    #[command(flatten)]
    event: EventArgs,
    /// Take no profile
    #[arg(long, conflicts_with_all = ["events", "min_block"])]
    no_profile: bool,
}

impl Changes {
    /// The changes of values as they may be shown: `KEY=VALUE`, without secrets.
    pub(super) fn shown(&self) -> impl Iterator<Item = String> {
        let all = self.set_before.iter().chain(&self.set);
        all.map(|it| web::redact::assignment(&it.0))
    }

    /// Makes them.
    pub(super) fn apply(&self, experiment: &mut Experiment) -> Result<(), Failure> {
        for assignment in self.set_before.iter().chain(&self.set) {
            experiment.set(&assignment.0).map_err(Error::from)?;
        }
        self.event.apply(&mut experiment.profile);
        if self.no_profile {
            experiment.profile.events.clear();
            experiment.profile.blocks = None;
        }
        Ok(())
    }
}

impl RunArgs {
    /// Runs the experiment.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let Some(name) = self.experiment.as_deref().filter(|_| !self.list) else {
            return list();
        };
        let mut experiment = load(name)?;
        if let Some(root) = self.broker_root {
            experiment.broker.root = Some(root);
        }
        self.changes.apply(&mut experiment)?;
        let named = self.changes.event.named();
        match self.observer.apply(experiment, named)? {
            Observed::Once(experiment) => {
                let shape = perform::shape(&experiment);
                let (output, require) = (&self.output, &self.require);
                perform::experiment(&experiment, output, require, true, shape).map(|run| run.done)
            }
            Observed::Each(experiments) => {
                self.require.none_with("--observer and several events")?;
                observer::table(&experiments, &self.output)
            }
        }
    }
}

impl DemoArgs {
    /// Runs the built-in experiment that needs nothing installed.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let mut experiment = Experiment::built_in("demo").map_err(Error::from)?;
        self.changes.apply(&mut experiment)?;
        let shape = Shape {
            next: Some(AFTER_DEMO),
            ..perform::shape(&experiment)
        };
        perform::experiment(&experiment, &self.output, &self.require, true, shape)
            .map(|run| run.done)
    }
}

/// The experiment of a name or a file.
pub(super) fn load(name: &str) -> Result<Experiment, Failure> {
    let path = Path::new(name);
    let looks_like_file =
        path.extension().is_some_and(|e| e == "toml") || name.contains('/') || path.is_file();
    if !looks_like_file {
        return Ok(Experiment::built_in(name).map_err(Error::from)?);
    }
    let text = std::fs::read_to_string(path).map_err(|source| {
        Failure::Usage(Problem::new(
            format!("cannot read {name}"),
            source,
            "`bellows run --list` lists the built-in experiments",
        ))
    })?;
    Ok(Experiment::from_toml(&text, name).map_err(Error::from)?)
}

fn list() -> Result<Done, Failure> {
    let all = experiment::built_ins();
    let rows: Vec<(&str, String)> = all.iter().map(|e| (e.name, e.description())).collect();
    output::print(&report::console::listed(&rows, output::style()))?;
    Ok(Done::Fine)
}
