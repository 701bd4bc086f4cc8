//! Traces of functions on the broker's node, on their way into the run.

use std::collections::BTreeMap;

use archive::{FaultOutcome, Finding, Tier, TraceSummary, TracedCall, Warning};
use measure::{Nanos, Time};

use super::companion::{Collected, Companion, LoadEnd, Second, fault_of_node};
use crate::Error;
use crate::trace::{TraceLog, TraceState, TracedBroker};
use brokers::{Broker, BrokerError};
use experiment::Experiment;

/// The ways to the nodes that an experiment traces, and a log for its traces.
pub(super) fn traced_broker(experiment: &Experiment, broker: &dyn Broker) -> Result<TracedBroker, Error> {
    let mut traced = TracedBroker::default();
    let to_trace = experiment.nodes_to_trace();
    if to_trace.is_empty() {
        return Ok(traced);
    }
    let nodes = broker.erlang_nodes()?;
    for node in to_trace {
        let unknown = || BrokerError::Fault(format!("there is no node {node} to trace"));
        traced.nodes.insert(node, nodes.get(node as usize).cloned().ok_or_else(unknown)?);
    }
    Ok(traced)
}

#[derive(Debug, Default)]
pub(super) struct Tracing {
    log: TraceLog,
    origin: Time,
    /// The traced nodes: each one's name, and its number.
    nodes: BTreeMap<String, usize>,
}

impl Tracing {
    pub(super) fn of(traced: &TracedBroker, origin: Time) -> Self {
        let nodes = traced.nodes.iter().map(|(number, way)| (way.node.to_string(), *number as usize));
        Self { log: traced.log.clone(), origin, nodes: nodes.collect() }
    }

    /// The traces; one that a fault of the run itself ended, not a limit, names it.
    fn explained(&self, traces: Vec<TraceState>, faults: &[FaultOutcome]) -> Vec<TraceState> {
        let explained = |mut trace: TraceState| {
            let at = trace.ended.map(|at| at.since(self.origin).as_secs_f64());
            let node = self.nodes.get(&trace.node);
            let fault = node.zip(at).and_then(|(node, at)| fault_of_node(faults, *node, at, at));
            if let (Some((why, limit)), Some(fault)) = (&mut trace.why, fault)
                && limit.is_empty()
            {
                *why = format!("the run's own {}", fault.name);
            }
            trace
        };
        traces.into_iter().map(explained).collect()
    }

    /// Calls and notes since the previous call, by the run's clock.
    fn take(&mut self) -> Collected {
        let (calls, notes) = self.log.take();
        let calls = calls.into_iter().map(|call| timed(call, self.origin));
        Collected { calls: calls.collect(), notes, ..Collected::default() }
    }

    fn summaries(&self, traces: Vec<TraceState>) -> Vec<TraceSummary> {
        let seconds = |at: Time| at.since(self.origin).as_secs_f64();
        let summary = |state: TraceState| TraceSummary {
            scenario: state.scenario,
            function: state.function,
            node: state.node,
            began_s: state.began.map(seconds),
            ended_s: state.ended.map(seconds),
            ended: state.why.map(|(why, _)| why),
            kept: state.kept,
            left_out: state.left_out,
            slowest: state.slowest.map(|call| timed(call, self.origin)),
        };
        traces.into_iter().map(summary).collect()
    }

    /// Warns of traces, and of those that ended before their time; one cause is reported once.
    fn warnings(&self, traces: &[TraceState]) -> Vec<Warning> {
        let mut ended: BTreeMap<(String, String, String), (Vec<String>, f64)> = BTreeMap::new();
        for state in traces {
            let Some((why, limit)) = &state.why else { continue };
            let cause = (state.node.clone(), why.clone(), limit.clone());
            let at = state.ended.map_or(0.0, |at| at.since(self.origin).as_secs_f64());
            let (functions, first) = ended.entry(cause).or_insert((Vec::new(), at));
            functions.push(state.function.clone());
            *first = first.min(at);
        }
        let ended = ended.into_iter().map(|((_, why, limit), (functions, at))| {
            let ended = Finding::TraceEnded { functions: functions.join(", "), why, limit, at_s: at };
            Warning::new(Tier::Caution, ended)
        });
        let mut warnings: Vec<Warning> = ended.collect();
        let functions: Vec<&str> = traces.iter().map(|it| it.function.as_str()).collect();
        if !functions.is_empty() {
            let functions = functions.join(", ");
            warnings.push(Warning::new(Tier::Note, Finding::Traced { functions }));
        }
        warnings
    }
}

impl Companion for Tracing {
    fn start(&mut self, at: Time) -> Collected {
        self.origin = at;
        Collected::default()
    }

    fn second(&mut self, _: &Second) -> Collected {
        self.take()
    }

    fn finish(&mut self, run: &mut LoadEnd<'_>) -> Collected {
        // Faults end before traces do.
        let traces = self.explained(self.log.traces(), &run.summary.faults);
        let warnings = self.warnings(&traces);
        run.summary.traces = self.summaries(traces);
        Collected { warnings, ..self.take() }
    }
}

/// The part of a measured phase, begun at `from`, in which calls were counted: until its trace ended.
pub(super) fn counted_length(whole: Nanos, from: Option<Time>, ended: Option<Time>) -> Nanos {
    let counted = from.zip(ended).map(|(from, ended)| ended.since(from));
    counted.map_or(whole, |counted| counted.min(whole))
}

/// A call by the run's clock.
fn timed(logged: TracedCall, origin: Time) -> TracedCall {
    TracedCall { t_ns: Time(logged.t_ns).since(origin).0, ..logged }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_the_runs_own_fault_ended_says_so() {
        let tracing = Tracing {
            log: TraceLog::default(),
            origin: Time(1_000_000_000),
            nodes: BTreeMap::from([("one@h".into(), 0), ("two@h".into(), 1)]),
        };
        let ended = |node: &str, limit: &str| TraceState {
            scenario: node.to_owned(),
            function: "m:f/1".to_owned(),
            node: node.to_owned(),
            began: None,
            ended: Some(Time(9_000_000_000)),
            why: Some(("check that the node runs".into(), limit.into())),
            kept: 0,
            left_out: 0,
            slowest: None,
        };
        let of = |t: f64, node: u32| -> Vec<String> {
            let kill =
                FaultOutcome { kind: "kill".into(), node: Some(node), t, for_good: true, ..FaultOutcome::default() };
            let traces = vec![ended("one@h", ""), ended("two@h", "rate")];
            let traces = tracing.explained(traces, &[kill]).into_iter();
            traces.filter_map(|it| Some(it.why?.0)).filter(|why| why.contains("own")).collect()
        };
        assert_eq!(of(7.9, 0), ["the run's own kill of node 0"]);
        assert!(of(8.1, 0).is_empty(), "it had ended before");
        assert!(of(7.9, 1).is_empty(), "its limit ended that one");
    }

    #[test]
    fn calls_are_counted_until_a_trace_ends() {
        let whole = Nanos(100);
        let of = |ended| counted_length(whole, Some(Time(1_000)), ended).0;
        // The last one ended in the warm-up.
        assert_eq!([None, Some(1_040), Some(1_200), Some(900)].map(|at| of(at.map(Time))), [100, 40, 100, 0]);
        assert_eq!(counted_length(whole, None, Some(Time(1_040))), whole);
    }
}
