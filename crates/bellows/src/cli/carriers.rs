//! Who carries the load of a run: this process, or the workers of a fleet in a build that has fleets.

use clap::Args;
use experiment::Experiment;
use session::{Error, Observer, RunOptions, RunOutcome};

#[cfg(feature = "fleet")]
use super::args::{from_one, is_typed};
#[cfg(feature = "fleet")]
use super::command_line::Url;
#[cfg(feature = "fleet")]
use super::fleet::ServerArgs;
use crate::run_options::tell_alone;

/// Options of commands whose load a fleet can carry.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Fleet")]
pub(super) struct FleetArgs {
    /// Have workers carry the load: the NATS server that they have joined, nats://HOST:4222. See `bellows help fleet`
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "URL", env = "BELLOWS_FLEET", hide_env_values = true)]
    fleet: Option<Url>,
    /// Wait until this many workers are free, a minute at most, instead of taking those that are
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "N", requires = "fleet", value_parser = from_one)]
    workers: Option<usize>,
    /// Go on with fewer where this many workers at most are lost, instead of failing
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "N", requires = "fleet", value_parser = from_one)]
    tolerate: Option<usize>,
    #[cfg(feature = "fleet")]
    #[command(flatten)]
    server: ServerArgs,
}

impl FleetArgs {
    /// Runs an experiment, whose load a fleet carries where one is named. Errors: as [`session::run`], and where there
    /// is no fleet.
    pub(super) fn run(
        &self,
        experiment: &Experiment,
        options: &RunOptions,
        control: &load::Control,
        observer: &mut dyn Observer,
    ) -> Result<RunOutcome, Error> {
        #[cfg(feature = "fleet")]
        if let Some(url) = self.fleet.as_ref().filter(|it| !it.0.is_empty() || is_typed(true, "BELLOWS_FLEET")) {
            let crew = super::fleet::Crew { wanted: self.workers, tolerated: self.tolerate.unwrap_or(0) };
            return self.server.run(url, crew, experiment, options, control, observer);
        }
        tell_alone();
        session::run(experiment, options, control, observer)
    }
}
