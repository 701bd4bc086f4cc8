//! `limit --scale`: runs with different numbers of clients, and the law that their throughputs follow.

use archive::{LimitTrials, RunState, ScaleRuns};
use experiment::Experiment;
use measure::counted;
use report::console::Shape;
use session::{Error, Observer, RunOptions};
use study::{at_scale, check_one_group, next_scale, scale_law, scale_run};

use std::path::PathBuf;

use super::args::OutputArgs;
use super::find;
use super::limit_end::tell;
use super::perform::{Watched, carry_out, shape, tell_one};
use crate::failure::{Done, Failure};

/// Runs with different numbers of clients, as far as they were made.
pub(super) struct Scaling<'a> {
    pub(super) output: &'a OutputArgs,
    pub(super) dir: PathBuf,
    pub(super) experiment: Experiment,
    pub(super) trials: LimitTrials,
}

/// Refuses numbers of clients that the experiment cannot have, before anything is started.
pub(super) fn check(experiment: &Experiment, scale: &ScaleRuns) -> Result<Experiment, Failure> {
    let mut first = None;
    check_one_group(experiment, &scale.key).map_err(Failure::Usage)?;
    for clients in &scale.values {
        let scaled = at_scale(experiment, &scale.key, *clients).map_err(Error::from)?;
        scaled.validate().map_err(Error::from)?;
        if !scaled.ends_by_itself() {
            return Err(Failure::usage(
                "a run needs an end",
                "give it one, such as --set phases.measure=30s",
            ));
        }
        first.get_or_insert(scaled);
    }
    first.ok_or_else(|| Failure::usage("there are no numbers of clients", "give --scale some"))
}

/// The experiment as a resumed folder holds it: with the least number of clients that it had then. Further numbers may
/// be smaller.
pub(super) fn as_then(
    experiment: &Experiment,
    stopped: &LimitTrials,
    fresh: &LimitTrials,
) -> Result<serde_json::Value, Failure> {
    let least = |of: &LimitTrials| of.scale.as_ref()?.values.first().copied();
    match (&fresh.scale, least(stopped)) {
        (Some(scale), Some(least)) => {
            let then = at_scale(experiment, &scale.key, least).map_err(Error::from)?;
            Ok(then.to_json())
        }
        _ => Ok(fresh.experiment.clone()),
    }
}

impl Scaling<'_> {
    /// Makes the runs and prints their result.
    pub(super) fn execute(mut self) -> Result<Done, Failure> {
        let watched = Watched::start()?;
        let broken = self.make_all(&watched).err();
        let told = tell(self.output, &self.dir, &self.trials);
        watched.check()?;
        match (broken, told) {
            // What was measured is shown before what ended it.
            (Some(failure), Ok(_)) => Err(failure.already_printed()),
            (Some(failure), Err(_)) => Err(failure),
            (None, told) => told,
        }
    }

    fn make_all(&mut self, watched: &Watched) -> Result<(), Failure> {
        while let Some(clients) = self.trials.scale.as_ref().and_then(next_scale) {
            match self.make_one(clients, watched) {
                // Before it was ready: what was made before is kept all the same.
                Err(Failure::Stopped(_)) => return Err(self.stopped()),
                other => other?,
            }
            if watched.control().is_stopping() {
                return Err(self.stopped());
            }
        }
        Ok(())
    }

    fn make_one(&mut self, clients: u32, watched: &Watched) -> Result<(), Failure> {
        let Some(scale) = self.trials.scale.as_mut() else {
            return Ok(());
        };
        let scaled = at_scale(&self.experiment, &scale.key, clients).map_err(Error::from)?;
        let all = scale.values.len() * scale.repeats as usize;
        let about = format!(
            "run {} of {all}, {}",
            scale.runs.len() + 1,
            counted(clients.into(), scale.noun().trim_end_matches('s'))
        );
        let shape = Shape {
            title: format!("{}, {about}", self.trials.name),
            several: true,
            ..shape(&scaled)
        };
        let work = |options: &RunOptions, control: &load::Control, observer: &mut dyn Observer| {
            session::run_again_if_not_ready(&scaled, options, control, observer)
        };
        let carried = carry_out(
            self.output,
            Some(self.dir.clone()),
            shape,
            watched,
            None,
            work,
        )?;
        let record = carried.outcome.record;
        match record.state {
            RunState::Complete => {}
            // It is made anew when somebody goes on.
            RunState::Interrupted => return Ok(()),
            _ => return Err(Failure::of_run(record)),
        }
        scale.runs.push(scale_run(clients, &record));
        scale.law = scale_law(scale);
        self.trials.write(&self.dir)?;
        tell_one(self.output, &about, &record)?;
        carried.report.map(|_| ())
    }

    /// How to resume after a signal.
    fn stopped(&self) -> Failure {
        let made = self.trials.scale.as_ref().map_or(0, |it| it.runs.len());
        let made = counted(made as u64, "run");
        find::stopped(&format!("stopped after {made}"), &self.dir)
    }
}
