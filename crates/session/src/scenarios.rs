//! The kinds of load that an experiment can ask for.

use load::scenario::Scenario;
use load::{Endpoint, Error};

use crate::command::CommandPlan;
use crate::trace::{TracePlan, TracedBroker};
use experiment::Experiment;

/// The inputs from which a scenario is built.
#[derive(Clone, Copy, Debug)]
pub struct Occasion<'a> {
    /// The load and its length.
    pub experiment: &'a Experiment,
    /// The broker.
    pub endpoint: &'a Endpoint,
    /// The run's number, which its messages are marked with.
    pub run_id: u32,
    /// How to reach the broker's nodes for traces.
    pub traced: &'a TracedBroker,
}

/// Makes a scenario from the options that an experiment has for it; none where the experiment does not ask for it.
pub type MakeScenario = fn(&Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error>;

/// All scenarios, one line each; they run beside each other. Requested rate, verdict and phases are the first's.
pub const SCENARIOS: &[MakeScenario] = &[messages, churn, command, probes, traces];

fn messages(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    if of.experiment.load.is_empty() || of.experiment.has_commands() {
        return Ok(Vec::new());
    }
    Ok(vec![Box::new(of.experiment.plan(of.endpoint, of.run_id)?)])
}

fn churn(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    Ok(of.experiment.churn_plan(of.endpoint)?.into_iter().map(boxed).collect())
}

fn command(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    Ok(CommandPlan::of(of.experiment, of.endpoint).into_iter().map(boxed).collect())
}

fn probes(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    Ok(of.experiment.probe_plans()?.into_iter().map(boxed).collect())
}

/// Traces come last: none is a load.
fn traces(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    let nodes = of.experiment.traced_nodes().map_err(Error::Invalid)?;
    let (warmup, measure) = (of.experiment.phases.warmup.0, of.experiment.phases.measure.0);
    Ok(nodes.into_iter().flat_map(|it| TracePlan::all_of(it, of.traced, warmup, measure)).map(boxed).collect())
}

fn boxed<S: Scenario + 'static>(scenario: S) -> Box<dyn Scenario> {
    Box::new(scenario)
}
