//! A trace's results, on their way from threads that talk with nodes to the run: bounded, however late read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archive::TracedCall;
use measure::Time;

/// Bytes of calls that a run keeps: those of 100,000 calls with short arguments.
const MOST_BYTES: usize = 32 << 20;
/// Bytes that a line has beside its texts.
const LINE: usize = 200;

#[derive(Clone, Debug, Default)]
pub(crate) struct TraceState {
    pub(crate) scenario: String,
    pub(crate) function: String,
    pub(crate) node: String,
    /// When it began to be set up.
    pub(crate) began: Option<Time>,
    pub(crate) ended: Option<Time>,
    /// Why it ended before the load did, or did not begin; and the limit that did it, empty where that was none.
    pub(crate) why: Option<(String, String)>,
    pub(crate) kept: u64,
    pub(crate) left_out: u64,
    /// By this machine's clock, as all calls here.
    pub(crate) slowest: Option<TracedCall>,
}

/// Results of traces; clones share them. Comparisons of experiments ignore it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceLog(Arc<Mutex<Logged>>);

#[derive(Debug, Default)]
struct Logged {
    traces: Vec<TraceState>,
    calls: Vec<TracedCall>,
    bytes: usize,
    notes: Vec<String>,
    measured: Option<(Time, Time)>,
}

impl TraceLog {
    fn held(&self) -> MutexGuard<'_, Logged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, scenario: &str, function: String, node: String) -> usize {
        let mut held = self.held();
        held.traces.push(TraceState { scenario: scenario.to_owned(), function, node, ..TraceState::default() });
        held.traces.len() - 1
    }

    /// The measured phase begins and ends then, as far as that is known.
    pub(super) fn measured(&self, from: Time, until: Time) {
        self.held().measured = Some((from, until));
    }

    pub(super) fn measured_from(&self) -> Option<Time> {
        self.held().measured.map(|(from, _)| from)
    }

    pub(super) fn began(&self, traces: &[usize], at: Time) {
        let mut held = self.held();
        for trace in traces {
            if let Some(state) = held.traces.get_mut(*trace) {
                state.began = Some(at);
            }
        }
    }

    /// A trace has ended; the first reason counts.
    pub(super) fn ended(&self, trace: usize, at: Time, why: Option<(String, String)>) {
        let mut held = self.held();
        if let Some(state) = held.traces.get_mut(trace).filter(|it| it.ended.is_none()) {
            state.ended = Some(at);
            state.why = why;
        }
    }

    pub(super) fn note(&self, text: String) {
        self.held().notes.push(text);
    }

    /// Keeps a call of a trace, as far as there is room in the run's file.
    pub(super) fn keep(&self, trace: usize, at: Time, call: TracedCall) {
        let mut held = self.held();
        let is_measured = held.measured.is_some_and(|(from, until)| from <= at && at < until);
        let texts = [&call.name, &call.role, &call.function].into_iter().chain(&call.arguments);
        let bytes = LINE + texts.map(String::len).sum::<usize>();
        let has_room = held.bytes + bytes <= MOST_BYTES;
        let Some(state) = held.traces.get_mut(trace) else { return };
        let call = TracedCall { trace: state.scenario.clone(), t_ns: at.0, ..call };
        let is_slower = |slowest: &TracedCall| call.duration_ns > slowest.duration_ns;
        if is_measured && state.slowest.as_ref().is_none_or(is_slower) {
            state.slowest = Some(call.clone());
        }
        if has_room {
            state.kept += 1;
            held.bytes += bytes;
            held.calls.push(call);
        } else {
            state.left_out += 1;
        }
    }

    pub(crate) fn take(&self) -> (Vec<TracedCall>, Vec<String>) {
        let mut held = self.held();
        (std::mem::take(&mut held.calls), std::mem::take(&mut held.notes))
    }

    /// State of each trace, by scenario: those of several nodes begin in any order.
    pub(crate) fn traces(&self) -> Vec<TraceState> {
        let mut traces = self.held().traces.clone();
        traces.sort_by_cached_key(|it| it.scenario.clone());
        traces
    }
}

#[cfg(test)]
mod tests {
    use measure::Nanos;

    use super::*;

    fn call(duration_ns: u64, arguments: usize) -> TracedCall {
        TracedCall { duration_ns: Some(duration_ns), arguments: vec!["x".repeat(arguments)], ..TracedCall::default() }
    }

    #[test]
    fn traces_are_told_in_one_order_whichever_node_was_quicker() {
        let log = TraceLog::default();
        for (scenario, node) in [("trace_b", "two@h"), ("trace_a", "one@h")] {
            log.add(scenario, "m:f/1".into(), node.into());
        }
        assert_eq!(log.traces().into_iter().map(|it| it.node).collect::<Vec<String>>(), ["one@h", "two@h"]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_slowest_is_one_of_the_measured_phase() {
        let log = TraceLog::default();
        let trace = log.add("trace_slow", "m:f/1".into(), "n@h".into());
        let begin = Time(1_000);
        log.keep(trace, begin, call(99, 0));
        log.measured(begin, begin + Nanos(100));
        for (at, took) in [(0, 5), (50, 7), (99, 6), (100, 1_000)] {
            log.keep(trace, begin + Nanos(at), call(took, 0));
        }
        assert_eq!(log.take().0.len(), 5);
        for _ in 0..40 {
            log.keep(trace, begin, call(1, 1 << 20));
        }
        let state = log.traces().remove(0);
        let slowest = state.slowest.unwrap();
        assert_eq!((slowest.duration_ns, &*slowest.trace), (Some(7), "trace_slow"));
        assert_eq!((state.kept, state.left_out), (5 + 31, 9));
        assert_eq!(log.take().0.len(), 31);
        // The first reason for an end is the cause of the others.
        log.ended(trace, begin, Some(("why".into(), "rate".into())));
        log.ended(trace, begin, None);
        assert_eq!(log.traces()[0].why.as_ref().unwrap().0, "why");
    }
}
