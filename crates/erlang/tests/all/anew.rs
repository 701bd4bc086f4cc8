//! A module that is loaded anew while its functions are counted or traced.

use crate::common;

use std::time::Duration;

use common::{eval, loaded};
use erlang::trace::{Trace, TraceEvent, TraceOptions};

#[test]
fn a_module_that_is_loaded_anew_is_told() {
    const ANEW: &str = "spawn(fun Loop() -> timer:sleep(700), code:purge(fresh), {module, fresh} = \
                        code:load_binary(fresh, \"fresh.erl\", persistent_term:get(fresh)), Loop() end), ok.";
    let (home, _beam, node, helper) = loaded();
    common::load(home.path(), &node, "fresh", "-module(fresh).\n-export([f/0]).\nf() -> ok.\n");
    eval(&node, "spawn(fun Loop() -> fresh:f(), timer:sleep(10), Loop() end), ok.");
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
