//! `traces.jsonl`: calls of functions that were traced on the broker's Erlang node beside the load, a line each; and a
//! run's summaries of traces and of other inspections of its broker.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::each_line;
use crate::{Error, file};

/// Bytes that a line may have: a call with 255 long arguments.
const LONGEST_LINE: u64 = 1 << 20;
/// Lines that are read of a file: no run writes more.
const MOST_LINES: u64 = 10_000_000;

/// A call that a trace saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct TracedCall {
    /// The trace's scenario: `trace`, or `trace_NAME`.
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub trace: String,
    /// When, in nanoseconds since the run's origin.
    pub t_ns: u64,
    /// The process that made it, such as `<0.512.0>`.
    pub pid: String,
    /// Role of that process: `queue`, `connection`; empty where that is not known.
    pub role: String,
    /// Its queue, its connection, or its registered name; empty where it has none.
    pub name: String,
    /// The function: `rabbit_mgmt_wm_queues:to_json/2`.
    pub function: String,
    /// Its arguments as texts, cut, secrets masked; empty where they were switched off.
    pub arguments: Vec<String>,
    /// How long it took, waits included; absent where its return was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// `ok`, or the class of the exception that ended it: `error`, `exit`, `throw`; empty if no return was seen.
    pub returned: String,
}

/// Outcome of a trace beside the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct TraceSummary {
    /// Its scenario, by which its latencies and counts are found: `trace`, or `trace_NAME`.
    pub scenario: String,
    /// The traced function: `rabbit_mgmt_wm_queues:to_json/2`.
    pub function: String,
    /// The Erlang node.
    pub node: String,
    /// When it began to be set up on the node, in seconds since the run's origin; absent where it did not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_s: Option<f64>,
    /// When it ended, in seconds since the origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_s: Option<f64>,
    /// Why it ended before the load did; absent where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Calls in `traces.jsonl`, those of warm-up and drain included.
    pub kept: u64,
    /// Calls that were seen and have no line there, because the file was long enough.
    pub left_out: u64,
    /// The slowest call of the measured phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<TracedCall>,
}

/// An inspection of the broker from outside the run, which cost it CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LookSpan {
    /// The command: `bellows erlang top`.
    pub command: String,
    /// The process that did.
    pub pid: u32,
    /// The inspected node of a cluster; absent where there is one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub node: Option<u32>,
    /// When it began, in seconds since the run's origin; negative where that was before.
    pub start: f64,
    /// When it ended, or the run did.
    pub end: f64,
    /// The command was killed; its end is when that was noticed.
    pub killed: bool,
}

/// Reads the `most` slowest calls of each trace of a run folder; none where it has no traces. Bad lines are skipped.
pub fn read_slowest_calls(dir: &Path, most: usize) -> Result<BTreeMap<String, Vec<TracedCall>>, Error> {
    let (mut slowest, mut lines) = (BTreeMap::new(), 0);
    each_line(&dir.join(file::TRACES), LONGEST_LINE, |line| {
        if let Ok(call) = serde_json::from_slice::<TracedCall>(line) {
            add(&mut slowest, call, most);
        }
        lines += 1;
        lines < MOST_LINES
    })?;
    Ok(slowest)
}

/// Traces that are distinguished in a file; an experiment has fewer.
const MOST_TRACES: usize = 100;

fn add(slowest: &mut BTreeMap<String, Vec<TracedCall>>, call: TracedCall, most: usize) {
    if slowest.len() >= MOST_TRACES && !slowest.contains_key(&call.trace) {
        return;
    }
    let calls = slowest.entry(call.trace.clone()).or_default();
    // Those that were never seen to return come last.
    let faster = |it: &TracedCall| it.duration_ns < call.duration_ns;
    let at = calls.iter().position(faster).unwrap_or(calls.len());
    if at < most {
        calls.insert(at, call);
        calls.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn call(trace: &str, t_ns: u64, duration_ns: Option<u64>) -> TracedCall {
        TracedCall { trace: trace.to_owned(), t_ns, duration_ns, ..TracedCall::default() }
    }

    #[test]
    fn the_slowest_calls_of_each_trace_are_read_and_what_is_damaged_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_slowest_calls(dir.path(), 3).unwrap().len(), 0);
        let all = [
            call("trace_a", 1, Some(5)),
            call("trace_a", 2, Some(50)),
            call("trace_b", 3, None),
            call("trace_a", 4, Some(7)),
            call("trace_a", 5, None),
            call("trace_a", 6, Some(50)),
        ];
        let mut text = String::from("{\"trace\": 7}\nnonsense\n");
        for call in &all {
            text += &(serde_json::to_string(call).unwrap() + "\n");
        }
        text += "{\"trace\":\"trace_a\",\"t_ns\":9";
        fs::write(dir.path().join(file::TRACES), text).unwrap();
        let slowest = read_slowest_calls(dir.path(), 3).unwrap();
        let times = |trace: &str| -> Vec<u64> { slowest[trace].iter().map(|call| call.t_ns).collect() };
        assert_eq!(times("trace_a"), [2, 6, 4]);
        assert_eq!(times("trace_b"), [3]);
        assert_eq!(slowest["trace_b"], [all[2].clone()]);
    }
}
