//! Our counts equal those of the node's own tool for one piece of work.

use crate::common;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use common::{eval, loaded};
use erlang::term::as_text;
use erlang::trace::{Trace, TraceEvent, TraceOptions};
use erlang::{Budget, Ended, Helper, Node};

/// Tries until two measurements of the same work agree on a busy machine.
const TRIES: u32 = 40;
/// Times may differ by this factor, where `BELLOWS_WITHIN` names no smaller one: other work on the machine falls on one
/// of the two. `make prove` asks for 1.1.
const WITHIN: f64 = 1.5;
/// A list that makes `dict:from_list/1` call functions of its module some 250,000 times.
const WORK: &str = "L = [{N rem 5000, N} || N <- lists:seq(1, 30000)], ";

/// Waits until the counters run.
const BEGUN: &str = "fun Wait() -> case erlang:trace_info({dict, store, 3}, call_time) of \
     {_, false} -> timer:sleep(1), Wait(); _ -> ok end end().";

/// Calls and microseconds of functions.
type Counts = BTreeMap<String, (u64, f64)>;

fn by_eprof(node: &Node, file: &str) -> Counts {
    let source = format!(
        "{WORK} eprof:start(), {{ok, _}} = eprof:profile([], dict, from_list, [L], {{dict, '_', '_'}}), \
         ok = eprof:log(\"{file}\"), eprof:analyze(total), stopped = eprof:stop(), \
         {{ok, Text}} = file:read_file(\"{file}\"), Text."
    );
    let text = as_text(&eval(node, &source)).expect("a text");
    let row = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, calls, _, time, ..] = words.as_slice() else { return None };
        let is_ours = name.starts_with("dict:");
        is_ours.then_some((name.replace('\'', ""), (calls.parse().ok()?, time.parse().ok()?)))
    };
    text.lines().filter_map(row).collect()
}

fn by_us(node: &Node, helper: &Helper) -> Counts {
    let options = common::calls_options("dict", Duration::from_secs(2));
    let calls = thread::scope(|scope| {
        let counted = scope.spawn(|| common::count(helper, &options, &|| false).expect("counted"));
        // Counters of a session of ours are not seen by others.
        match node.release() {
            ..27 => drop(eval(node, BEGUN)),
            27.. => thread::sleep(Duration::from_secs(1)),
        }
        let run =
            format!("{WORK} {{P, M}} = spawn_monitor(dict, from_list, [L]), receive {{'DOWN', M, _, P, _}} -> ok end.");
        eval(node, &run);
        counted.join().expect("joined")
    });
    assert_eq!(calls.ended, Ended::Time);
    calls.functions.iter().map(|it| (it.function.clone(), (it.calls, it.own as f64))).collect()
}

fn least(of: &mut Counts, more: &Counts) {
    for (name, (calls, time)) in more {
        let known = of.entry(name.clone()).or_insert((*calls, *time));
        *known = (*calls, known.1.min(*time));
    }
}

#[test]
fn calls_and_times_are_those_of_eprof() {
    let (home, _beam, node, helper) = loaded();
    let file = home.path().join("eprof").display().to_string();
    let (mut theirs, mut ours) = (Counts::new(), Counts::new());
    let within = std::env::var("BELLOWS_WITHIN").map_or(WITHIN, |it| it.parse().expect("a number"));
    for attempt in 1..=TRIES {
        // Whatever else the machine does makes times longer, never shorter.
        least(&mut theirs, &by_eprof(&node, &file));
        least(&mut ours, &by_us(&node, &helper));
        let calls = |of: &Counts| of.iter().map(|(name, it)| (name.clone(), it.0)).collect::<Vec<_>>();
        let time = |of: &Counts| of.values().map(|it| it.1).sum::<f64>();
        let all: u64 = theirs.values().map(|it| it.0).sum();
        assert!(all > 100_000, "{theirs:?}");
        let same_calls = calls(&theirs) == calls(&ours);
        let ratio = time(&ours) / time(&theirs);
        if same_calls && (1.0 / within..within).contains(&ratio) {
            eprintln!("{all} calls in both, own time {ratio:.3} times eprof's, after {attempt}");
            break;
        }
        assert!(attempt < TRIES, "ratio {ratio}: {theirs:?} by eprof, {ours:?} by us");
    }
}

#[test]
fn budgets_end_traces_and_say_which_limit_tripped() {
    let (_home, _beam, node, helper) = loaded();
    eval(&node, "[spawn(fun Loop() -> lists:seq(1, 300), Loop() end) || _ <- [1, 2]], ok.");
    let usual = common::trace_options("lists:seq/2", Duration::from_secs(10));
    let ended = |options: &TraceOptions| {
        let mut trace = Trace::start(&helper, options).expect("a trace");
        let events = common::all_events(&mut trace);
        let ended = trace.ended().cloned().expect("ended");
        trace.close().expect("closed");
        (ended, events)
    };
    let (few, events) = ended(&TraceOptions { limit: 5, ..usual.clone() });
    assert_eq!(few, Ended::Limit(5));
    let returned = |event: &&TraceEvent| matches!(event, TraceEvent::Return(it) if it.value.starts_with("[1,2,"));
    assert_eq!(events.iter().filter(returned).count(), 5, "{events:?}");

    let tripped = |options: &TraceOptions| match ended(options).0 {
        Ended::Tripped { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    // Two processes that do nothing else are faster than the tracer: only the rate may end this.
    let large = Budget { backlog: 1_000_000, ..usual.budget };
    let unlimited = Budget { tracer_bytes: 1 << 32, node_bytes: 1 << 32, run_queue: 1000, ..large };
    assert_eq!(tripped(&TraceOptions { rate: 50, budget: unlimited, ..usual.clone() }), "rate");
    let with = |budget| TraceOptions { budget, ..usual.clone() };
    assert_eq!(tripped(&with(Budget { backlog: 50, ..usual.budget })), "backlog");
    assert_eq!(tripped(&with(Budget { tracer_bytes: 1000, ..large })), "tracer_memory");

    // A loop that goes on in tail calls never returns: no more than some of its calls are left on its stack.
    let stack = || {
        let words = eval(&node, "element(2, process_info(whereis(kernel_sup), stack_size)).");
        erlang::term::as_int(&words).expect("words")
    };
    let before = stack();
    eval(&node, "spawn(fun Ask() -> supervisor:which_children(kernel_sup), timer:sleep(1), Ask() end), ok.");
    let endless = TraceOptions { functions: vec!["gen_server:loop".parse().expect("a pattern")], ..usual.clone() };
    for _ in 0..2 {
        assert_eq!(tripped(&endless), "nested");
    }
    let left = stack() - before;
    assert!(left < 2_000, "{left} words are left on the stack");

    // Time, where nothing comes.
    let mut quiet = TraceOptions { arguments: Some("A, _ when A > 5".to_owned()), ..usual };
    quiet.budget.time = Duration::from_millis(300);
    assert_eq!(ended(&quiet).0, Ended::Time);
    helper.close().expect("closed");
}
