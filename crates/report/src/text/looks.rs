//! Sentences on inspections of the broker under load: traces of the run's own, and other commands.

use archive::{LookSpan, TraceSummary};

use crate::numbers::{count, counted, duration, seconds};

/// Text and remedy of a trace that ended before the load did.
pub(super) fn trace_ended(functions: &str, why: &str, limit: &str, at_s: f64) -> (String, &'static str) {
    (
        format!(
            "the trace of {functions} ended at {at_s:.1} s: {why}; its calls, rate and durations cover the time until \
             then"
        ),
        match limit {
            "limit" => "trace.limit allows more",
            "rate" => "trace.rate allows more",
            "backlog" => "trace.max-backlog allows more",
            "node_memory" => "trace.max-memory allows more",
            "run_queue" => "trace.max-run-queue allows more",
            "unread" => "leave out arguments (trace.arguments = false), or trace a function called less often",
            "nested" => "trace a function that returns",
            "tracer_memory" | "open_calls" => "trace a function called less often",
            _ => "",
        },
    )
}

/// Text and remedy of traces.
pub(super) fn traced(functions: &str) -> (String, &'static str) {
    (
        format!(
            "calls of {functions} were traced on the broker's node, which costs CPU per call: the broker's figures \
             include that cost"
        ),
        "compare such runs only with runs that have the same [[trace]]",
    )
}

/// Text and remedy of inspections by other commands.
pub(super) fn looked_into(looks: u64, commands: &str, length: f64) -> (String, &'static str) {
    (
        format!(
            "the broker was inspected {} while the load ran ({commands}), for {} in all: that costs it CPU; the time \
             axis shows when",
            counted(looks, "time"),
            seconds(length)
        ),
        "",
    )
}

/// An inspection, in one sentence.
pub fn look(look: &LookSpan) -> String {
    let node = look.node.map_or_else(|| " the broker".to_owned(), |it| format!(" node {it}"));
    let end = if look.killed { ", when it was killed" } else { "" };
    format!(
        "{} (process {}) inspected{node} from {:.1} s to {:.1} s{end}",
        look.command, look.pid, look.start, look.end
    )
}

/// A trace, in one sentence: its function, its node, how many calls are archived, and the slowest.
pub fn trace(trace: &TraceSummary) -> String {
    let mut text = format!("{} on {}: {} in traces.jsonl", trace.function, trace.node, counted(trace.kept, "call"));
    if trace.left_out > 0 {
        text += &format!(", {} left out", count(trace.left_out));
    }
    if let Some((slowest, took)) = trace.slowest.as_ref().and_then(|call| Some((call, call.duration_ns?))) {
        let who = [slowest.pid.as_str(), &slowest.role, &slowest.name];
        let who: Vec<&str> = who.into_iter().filter(|it| !it.is_empty()).collect();
        text += &format!("; slowest {} at {:.1} s in {}", duration(took), slowest.t_ns as f64 / 1e9, who.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use archive::TracedCall;

    use super::*;

    #[test]
    fn a_look_and_a_trace_are_a_sentence_each_and_the_end_of_one_says_which_key_allows_more() {
        let why = "withdrew from the node: 501 calls in one second, and 500 are allowed";
        let (text, remedy) = trace_ended("lists:map/2", why, "rate", 3.24);
        let until = "its calls, rate and durations cover the time until then";
        assert_eq!(text, format!("the trace of lists:map/2 ended at 3.2 s: {why}; {until}"));
        assert_eq!(remedy, "trace.rate allows more");
        let command = "bellows erlang top".into();
        let killed = LookSpan { command, pid: 7, node: Some(1), start: -0.5, end: 3.0, killed: true };
        let text = "bellows erlang top (process 7) inspected node 1 from -0.5 s to 3.0 s, when it was killed";
        assert_eq!(look(&killed), text);
        let mut traced =
            TraceSummary { function: "m:f/1".into(), node: "n@h".into(), kept: 1_200, ..TraceSummary::default() };
        assert_eq!(trace(&traced), "m:f/1 on n@h: 1,200 calls in traces.jsonl");
        let (pid, role, duration_ns) = ("<0.1.0>".into(), "queue".into(), Some(1_500_000));
        traced.slowest = Some(TracedCall { t_ns: 2_500_000_000, pid, role, duration_ns, ..TracedCall::default() });
        assert!(trace(&traced).ends_with("; slowest 1.50 ms at 2.5 s in <0.1.0> queue"));
    }
}
