//! A module that is loaded anew while its functions are counted or traced.

use crate::common;

use std::time::Duration;

use common::{eval, loaded};
use erlang::Node;
use erlang::trace::{Trace, TraceEvent, TraceOptions};

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
    let (home, _beam, node, helper) = loaded();
    fresh(home.path(), &node);
    let options = common::calls_options("fresh", Duration::from_secs(2));
    let count = || common::count(&helper, &options, &|| false).expect("counted");
    let whole = count();
    assert_eq!(whole.loaded_anew, Vec::<String>::new());
    assert!(whole.functions[0].calls > 10, "{whole:?}");
    eval(&node, ANEW);
    assert_eq!(count().loaded_anew, ["fresh"]);

    let base = common::trace_options("fresh", Duration::from_secs(4));
    let options = TraceOptions { returns: false, argument_bytes: 0, ..base };
    let mut trace = Trace::start(&helper, &options).expect("a trace");
    let events = common::all_events(&mut trace);
    let anew = TraceEvent::LoadedAnew("fresh".to_owned());
    // Several times: functions that are called before one are called after another.
    let first = events.iter().position(|it| *it == anew).expect("told");
    let last = events.iter().rposition(|it| *it == anew).expect("told");
    let others = events.iter().filter(|it| **it != anew).count();
    assert!(first + 5 < events.len() && last > 0, "{first} to {last} of {}", events.len());
    assert!(others > 5, "{others} of {}", events.len());
}
