//! In a build without fleets: a load is carried by this process.

use clap::Args;
use experiment::Experiment;
use session::{Error, Observer, RunOptions, RunOutcome};

/// No options.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct FleetArgs {}

impl FleetArgs {
    /// Runs an experiment. Errors: as [`session::run`].
    pub(super) fn run(
        &self,
        experiment: &Experiment,
        options: &RunOptions,
        control: &load::Control,
        observer: &mut dyn Observer,
    ) -> Result<RunOutcome, Error> {
        session::run(experiment, options, control, observer)
    }
}
