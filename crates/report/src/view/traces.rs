//! Traces of functions on the broker's node, and inspections of it, as the page shows them.

use std::collections::BTreeMap;

use archive::{LookSpan, RunReader, RunSummary, TracedCall, read_slowest_calls};
use serde::Serialize;

/// Calls of each trace that are shown.
const MOST_CALLS: usize = 20;
/// Inspections that are shown; more are unusual.
const MOST_LOOKS: usize = 200;

/// A trace, and its slowest calls.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TraceView {
    /// The function.
    pub function: String,
    /// The Erlang node.
    pub node: String,
    /// Calls in the archive.
    pub kept: u64,
    /// When it ended before the load did, in seconds since the origin, and why.
    pub ended: Option<(f64, String)>,
    /// The slowest calls of the whole run, the slowest first.
    pub slowest: Vec<TracedCall>,
}

/// An inspection of the broker, in seconds since the origin.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LookBand {
    /// When it began.
    pub start: f64,
    /// When it ended.
    pub end: f64,
    /// The command: `bellows erlang top`.
    pub label: String,
    /// The inspection in a sentence.
    pub text: String,
}

/// The run's traces. What cannot be read is missing, and a note says so.
pub(super) fn traces(run: &RunReader, summary: &RunSummary, notes: &mut Vec<String>) -> Vec<TraceView> {
    let mut slowest = read_slowest_calls(&run.dir, MOST_CALLS).unwrap_or_else(|e| {
        notes.push(format!("traced calls cannot be shown: {e}"));
        BTreeMap::new()
    });
    let mut traces: Vec<TraceView> = summary
        .traces
        .iter()
        .map(|trace| TraceView {
            function: trace.function.clone(),
            node: trace.node.clone(),
            kept: trace.kept,
            ended: trace.ended_s.zip(trace.ended.clone()),
            slowest: slowest.remove(&trace.scenario).unwrap_or_default(),
        })
        .collect();
    // A run that was cut off has calls and no account of its traces.
    traces.extend(slowest.into_values().map(|calls| TraceView {
        function: calls.first().map_or_else(String::new, |it| it.function.clone()),
        node: String::new(),
        kept: 0,
        ended: None,
        slowest: calls,
    }));
    traces
}

/// The inspections of the run's broker.
pub(super) fn looks(looks: &[LookSpan]) -> Vec<LookBand> {
    let looks = looks.iter().take(MOST_LOOKS);
    let band = |look: &LookSpan| LookBand {
        start: look.start,
        end: look.end,
        label: look.command.clone(),
        text: crate::text::look(look),
    };
    looks.map(band).collect()
}
