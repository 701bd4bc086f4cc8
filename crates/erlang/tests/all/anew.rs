//! A module that is loaded anew while its functions are counted or traced.

use crate::common;

use std::time::Duration;

use common::{Beam, eval};
use erlang::calls::{Calls, CallsOptions, Counter};
use erlang::trace::{Trace, TraceEvent, TraceOptions};
use erlang::{Budget, Helper, Node, ProcessFilter};

/// A module whose function is called a hundred times a second, and a function that loads it anew.
fn fresh(home: &std::path::Path, node: &Node) {
    let file = home.join("fresh.erl");
    std::fs::write(&file, "-module(fresh).\n-export([f/0]).\nf() -> ok.\n").expect("a source");
    let load = format!(
        "{{ok, fresh, Code}} = compile:file(\"{}\", [binary]), \
         Load = fun () -> code:purge(fresh), {{module, fresh}} = code:load_binary(fresh, \"fresh.erl\", Code) end, \
         Load(), spawn(fun Loop() -> fresh:f(), timer:sleep(10), Loop() end), \
         persistent_term:put(load, Load), ok.",
        file.display()
    );
    eval(node, &load);
}

#[test]
fn a_module_that_is_loaded_anew_is_told() {
    const ANEW: &str = "persistent_term:put(again, spawn(fun Loop() -> timer:sleep(700), \
                        (persistent_term:get(load))(), Loop() end)), ok.";
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path());
    let node = beam.connect();
    fresh(home.path(), &node);
    let helper = Helper::load(&node).expect("loaded");
    let options = CallsOptions {
        counter: Counter::Time,
        functions: vec!["fresh".parse().expect("a pattern")],
        processes: ProcessFilter::All,
        duration: Duration::from_secs(2),
        blocks: 1,
        bursts: 0,
        budget: Budget::lasting(Duration::from_secs(20)),
    };
    let count = || Calls::count(&helper, &options, &|| false).expect("counted");
    let whole = count();
    assert_eq!(whole.loaded_anew, Vec::<String>::new());
    assert!(whole.functions[0].calls > 10, "{whole:?}");
    eval(&node, ANEW);
    assert_eq!(count().loaded_anew, ["fresh"]);

    let options = TraceOptions {
        functions: options.functions,
        arguments: None,
        processes: ProcessFilter::All,
        limit: 100_000,
        rate: 100_000,
        returns: false,
        argument_bytes: 0,
        budget: Budget::lasting(Duration::from_secs(4)),
    };
    let mut trace = Trace::start(&helper, &options).expect("a trace");
    let mut events = Vec::new();
    while trace.ended().is_none() {
        events.extend(trace.next(Duration::from_secs(5)).expect("events"));
    }
    let anew = TraceEvent::LoadedAnew("fresh".to_owned());
    // Several times: functions that are called before one are called after another.
    let first = events.iter().position(|it| *it == anew).expect("told");
    let last = events.iter().rposition(|it| *it == anew).expect("told");
    let others = events.iter().filter(|it| **it != anew).count();
    assert!(first + 5 < events.len() && last > 0, "{first} to {last} of {}", events.len());
    assert!(others > 5, "{others} of {}", events.len());
    trace.close().expect("closed");
    helper.close().expect("closed");
}
