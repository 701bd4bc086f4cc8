//! The kinds of load that an experiment can ask for.

use load::scenario::Scenario;
use load::{Endpoint, Error};

use crate::Experiment;
use crate::command::CommandPlan;

/// Makes a scenario from the options that an experiment has for it, for messages that are marked with
/// this run's number; none where the experiment does not ask for it.
pub type MakeScenario = fn(&Experiment, &Endpoint, u32) -> Result<Vec<Box<dyn Scenario>>, Error>;

/// All kinds of load, one line each. Where an experiment asks for several, they run beside each other;
/// requested rate, verdict and phases are those of the first.
pub const SCENARIOS: &[MakeScenario] = &[messages, churn, command, probes, traces];

fn messages(
    experiment: &Experiment,
    endpoint: &Endpoint,
    run_id: u32,
) -> Result<Vec<Box<dyn Scenario>>, Error> {
    if experiment.load.is_empty() || experiment.has_commands() {
        return Ok(Vec::new());
    }
    Ok(vec![Box::new(experiment.plan(endpoint, run_id)?)])
}

fn churn(
    experiment: &Experiment,
    endpoint: &Endpoint,
    _: u32,
) -> Result<Vec<Box<dyn Scenario>>, Error> {
    let plan = experiment.churn_plan(endpoint)?;
    Ok(plan.into_iter().map(boxed).collect())
}

fn command(
    experiment: &Experiment,
    endpoint: &Endpoint,
    _: u32,
) -> Result<Vec<Box<dyn Scenario>>, Error> {
    let plan = CommandPlan::of(experiment, endpoint);
    Ok(plan.into_iter().map(boxed).collect())
}

fn probes(experiment: &Experiment, _: &Endpoint, _: u32) -> Result<Vec<Box<dyn Scenario>>, Error> {
    Ok(experiment.probe_plans()?.into_iter().map(boxed).collect())
}

/// They come last: none is a load.
fn traces(experiment: &Experiment, _: &Endpoint, _: u32) -> Result<Vec<Box<dyn Scenario>>, Error> {
    let plans = experiment.traced_nodes().map_err(Error::Invalid)?;
    Ok(plans.into_iter().flatten().map(boxed).collect())
}

fn boxed<S: Scenario + 'static>(scenario: S) -> Box<dyn Scenario> {
    Box::new(scenario)
}
