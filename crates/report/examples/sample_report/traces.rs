//! A made-up trace beside a load, and inspections of its broker by other commands.

use archive::{LookSpan, RunWriter, TraceSummary, TracedCall};

use crate::State;
use crate::random::Random;

/// Calls that the trace has seen.
const CALLS: u64 = 60;

pub(crate) fn looks(state: &State) -> Vec<LookSpan> {
    if !has_any(state) {
        return Vec::new();
    }
    let look =
        |command: &str, start, end| LookSpan { command: command.into(), pid: 4711, start, end, ..LookSpan::default() };
    vec![
        look("bellows erlang top", 2.0, 5.5),
        look("bellows erlang calls", 4.0, 9.0),
        look("<img src=x onerror=alert(1)>", 17.0, 19.0),
    ]
}

pub(crate) fn summaries(state: &State) -> Vec<TraceSummary> {
    if !has_any(state) {
        return Vec::new();
    }
    vec![TraceSummary {
        scenario: "trace_queues".into(),
        function: "rabbit_mgmt_wm_queues:to_json/2".into(),
        node: "bellows-1f2e3d4c5b6a7988@127.0.0.1".into(),
        began_s: Some(3.0),
        ended_s: Some(14.2),
        ended: Some("withdrew from the node: 501 calls in one second, and 500 are allowed".into()),
        kept: CALLS,
        left_out: 0,
        slowest: calls(state).into_iter().max_by_key(|it| it.duration_ns),
    }]
}

fn has_any(state: &State) -> bool {
    state.hostile
}

fn calls(state: &State) -> Vec<TracedCall> {
    let mut random = Random(7);
    let name = if state.hostile { "<script>alert(1)</script>\u{1b}[31m" } else { "" };
    let request = "#{bindings => #{}, body_length => 0, cert => undefined, has_body => false, headers => \
                   #{<<\"authorization\">> => ***, <<\"host\">> => <<\"127.0.0.1:15672\">>, \
                   <<\"user-agent\">> => <<\"bellows/0.1.0\">>}, method => <<\"GET\">>, \
                   path => <<\"/api/queues\">>, qs => <<\"columns=name,messages_ready\">>…";
    (0..CALLS)
        .map(|call| TracedCall {
            trace: "trace_queues".into(),
            t_ns: 4_000_000_000 + call * 170_000_000,
            pid: format!("<0.{}.0>", 4_000 + 9 * call),
            role: "cowboy_stream_h".into(),
            name: name.into(),
            function: "rabbit_mgmt_wm_queues:to_json/2".into(),
            arguments: vec![request.into(), format!("{{context,{{user,<<\"guest\">>,[administrator]}},***,{name}}}")],
            duration_ns: (call % 20 != 7).then(|| 2_000_000 + (random.unit() * 4e7) as u64),
            returned: if call % 20 == 7 { "" } else { "ok" }.into(),
        })
        .collect()
}

/// Writes the calls as a run does.
pub(crate) fn write(writer: &mut RunWriter, state: &State) {
    if has_any(state) {
        calls(state).iter().for_each(|call| writer.append_call(call));
    }
}
