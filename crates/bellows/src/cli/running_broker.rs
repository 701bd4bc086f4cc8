//! Options of every command that runs a load on a running broker.

use clap::Args;
use experiment::{Experiment, Origin, PhasesSpec, ProfileSpec};
use measure::Length;
use report::console::Shape;

use super::args::{EventArgs, OutputArgs, RequireArgs};
use super::connect::ConnectArgs;
use super::option_names::OPTION_NAMES;
use super::perform::{self, Performed};
use crate::failure::Failure;

/// The broker, what is kept and shown of a run on it, and what is required of the run.
#[derive(Debug, Args)]
pub(super) struct RunningBrokerArgs {
    /// Warm-up before the measured phase, in seconds (or 500ms, 2m)
    #[arg(long, value_name = "DURATION", default_value = "0")]
    warmup: Length,
    /// Profile the broker, which must run on this machine
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    event: EventArgs,
    /// Keep no run folder and write no report
    #[arg(long, conflicts_with_all = ["profile", "events"])]
    no_archive: bool,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
    #[command(flatten)]
    require: RequireArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl RunningBrokerArgs {
    /// An experiment on this broker that has no load yet.
    ///
    /// # Errors
    /// As [`ConnectArgs::spec`].
    pub(super) fn experiment(&self, name: String, measure: Length) -> Result<Experiment, Failure> {
        let mut profile = ProfileSpec::default();
        if !self.profile {
            profile.events.clear();
        }
        self.event.apply(&mut profile);
        Ok(Experiment {
            name,
            broker: self.connect.clone().spec()?,
            phases: PhasesSpec {
                warmup: self.warmup,
                measure,
                ..PhasesSpec::default()
            },
            profile,
            origin: Origin::options(OPTION_NAMES),
            ..Experiment::default()
        })
    }

    /// Runs the experiment and shows it.
    ///
    /// # Errors
    /// As [`perform::experiment`].
    pub(super) fn perform(
        &self,
        experiment: &Experiment,
        shape: Shape,
    ) -> Result<Performed, Failure> {
        let keep = !self.no_archive;
        perform::experiment(experiment, &self.output, &self.require, keep, shape)
    }
}
