//! The broker under load, and its state when the run begins.

use archive::RunWriter;
use load::scenario::Scenario;
use measure::{Problem, Time};

use super::observer_effect::Blocks;
use super::profiling::Profiling;
use super::recording::RunContext;
use super::scenarios::ScenarioContext;
use super::{Start, Texts};
use crate::judge::{Planned, filled};
use crate::usage::ProcUsage;
use crate::{Error, Observer, calibration};
use brokers::{Broker, Identity, Processes};
use experiment::{Experiment, ProfileSpec};

/// The broker that is loaded, as it was when the run began.
pub(super) struct Loaded {
    pub(super) identity: Identity,
    endpoint: load::Endpoint,
    /// Endpoints of a cluster's nodes.
    nodes: Vec<load::Endpoint>,
    /// Further processes only where they are brokers.
    processes: Processes,
}

impl Loaded {
    pub(super) fn of(broker: &dyn Broker) -> Self {
        let mut processes = broker.processes();
        for pid in &mut processes.further {
            *pid = pid.filter(|pid| brokers::is_broker(*pid));
        }
        Self {
            identity: broker.identity().clone(),
            endpoint: broker.endpoint().clone(),
            nodes: broker.nodes(),
            processes,
        }
    }

    /// Ids of all its known processes.
    pub(super) fn pids(&self) -> Vec<u32> {
        let Processes { main, further, .. } = &self.processes;
        main.iter()
            .chain(further.iter().flatten())
            .copied()
            .collect()
    }

    /// A reader of the broker's usage.
    pub(super) fn usage(&self) -> Box<ProcUsage> {
        let Processes { main, further, .. } = &self.processes;
        let of_nodes = self.nodes.iter().map(|node| node.port);
        let one = self.nodes.is_empty().then_some(self.endpoint.port);
        let usage = ProcUsage::new(*main)
            .with_further(further.iter().copied().flatten())
            .connected_to(of_nodes.chain(one))
            .returning_at(self.processes.returns_at(&self.endpoint));
        Box::new(match self.nodes.is_empty() {
            true => usage,
            false => usage.of_nodes(),
        })
    }

    /// Facts known before these scenarios begin.
    pub(super) fn context(
        &self,
        scenarios: &[Box<dyn Scenario>],
        origin: Time,
        experiment: &Experiment,
        texts: Texts,
    ) -> Result<RunContext, Error> {
        let first = scenarios.first().ok_or_else(nothing_to_do)?;
        let contexts = scenarios.iter().map(|it| ScenarioContext::of(&**it));
        let plan = first.plan();
        let processes = &self.processes;
        Ok(RunContext {
            origin,
            phases: first.phases(),
            scenarios: contexts.collect::<Result<_, _>>()?,
            broker: self.identity.summary(processes.main),
            shared_machine: processes.on_this_machine,
            sees_all_brokers: processes.further.iter().all(Option::is_some),
            listener: processes.listener,
            profile: experiment.profile.options(),
            insecure: self.endpoint.tls.as_ref().is_some_and(|tls| tls.insecure),
            planned: Planned {
                capacity: plan.and_then(|plan| calibration::kept()?.capacity(plan)),
                filled: plan.map_or(0, |plan| filled(plan, experiment, &self.endpoint)),
                ..Planned::of(&**first)
            },
            requirements: (experiment.require.iter())
                .map(|spec| spec.that.clone())
                .collect(),
            texts,
        })
    }

    /// Prepares the profiles of a run that is archived: of each node of a cluster one, with its number.
    pub(super) fn profiling(
        &self,
        options: &[profile::Options],
        start: &Start,
        writer: Option<&RunWriter>,
        observer: &mut dyn Observer,
    ) -> Profiling {
        let Some(writer) = writer.filter(|_| !options.is_empty()) else {
            return Profiling::off();
        };
        observer.step("preparing the profiler");
        let nodes = 0..self.nodes.len().max(1);
        let of_each = nodes.map(|node| match self.processes.of_node(node) {
            // A run without a profile is worth having: the warning says what to do.
            Some(pid) => start
                .profiling(options, pid, self.number(node), writer)
                .unwrap_or_else(|e| Profiling::unavailable(&e.problem().sentence())),
            None => Profiling::unavailable(
                "the broker's process is not known: it runs on another machine or for another user; \
                 give its number with --set broker.pid=N, or set profile.events = []",
            ),
        });
        of_each.reduce(Profiling::and).unwrap_or_default()
    }

    /// The number of a node, where there are several.
    fn number(&self, node: usize) -> Option<u32> {
        let node = u32::try_from(node).ok();
        node.filter(|_| self.nodes.len() > 1)
    }

    /// Blocks with profiling and without, where requested.
    pub(super) fn blocks(&self, spec: &ProfileSpec, seed: u64) -> Blocks {
        let wanted = spec.blocks;
        wanted.map_or_else(Blocks::default, |length| {
            Blocks::wanted(length.0, seed, self.usage())
        })
    }
}

/// The problem of an experiment of which no scenario takes anything; validation finds that first.
fn nothing_to_do() -> Error {
    Error::Usage(Problem::new(
        "the experiment has no load",
        "",
        "add [[load]], [churn] or [[probe]]",
    ))
}
