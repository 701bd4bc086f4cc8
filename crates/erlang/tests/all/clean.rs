//! Nothing stays behind on the node, however a command ends: killed, cut off, or with a link that is half open.

use crate::common;

use std::net::SocketAddr;
use std::process::Child;
use std::time::Duration;

use common::{Beam, WORKERS, all_events, eval, follow, left_behind, loaded, started};
use erlang::alloc::microstates;
use erlang::calls::{CallsOptions, RootOptions};
use erlang::term::{as_atom, as_int};
use erlang::timing::{TimeOptions, time};
use erlang::trace::{Trace, TraceEvent, TraceOptions};
use erlang::{Budget, ConnectOptions, Ended, Error, Helper, Node, ProcessFilter};
use testkit::{Proxy, Random};

/// Says to this program, run once more, that it is to be killed: name and port of the node, and what to do.
const CLIENT: &str = "BELLOWS_CLEAN_CLIENT";
/// A node hears nothing for this long before it gives us up.
const LEASE: Duration = Duration::from_millis(600);
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Deed {
    Trace,
    Calls,
    Follow,
    Time,
    Nothing,
    Account,
}

const DEEDS: [Deed; 6] = [Deed::Trace, Deed::Calls, Deed::Follow, Deed::Follow, Deed::Time, Deed::Nothing];

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Kill,
    Cut,
    HalfOpen,
    Drop,
}

fn trace_options() -> TraceOptions {
    let base = common::trace_options("lists", Duration::from_secs(60));
    TraceOptions { limit: 1_000_000, rate: 1_000_000, ..base }
}

fn calls_options() -> CallsOptions {
    let budget = Budget::lasting(Duration::from_secs(60));
    CallsOptions { blocks: 2, bursts: 3, budget, ..common::calls_options("lists", Duration::from_secs(1)) }
}

pub(crate) fn root_options() -> RootOptions {
    RootOptions {
        root: "lists:sort/1".parse().expect("a pattern"),
        functions: Vec::new(),
        processes: ProcessFilter::All,
        duration: Duration::from_secs(1),
        limit: 100_000,
        rate: 100_000,
        messages: 100_000_000,
        budget: Budget::lasting(Duration::from_secs(60)),
    }
}

pub(crate) fn time_options() -> TimeOptions {
    TimeOptions {
        call: "timer:sleep(1)".to_owned(),
        times: 100,
        duration: Duration::from_secs(1),
        traced: 20,
        functions: vec!["timer".parse().expect("a pattern")],
        value: false,
        messages: 1_000_000,
        budget: Budget::lasting(Duration::from_secs(60)),
    }
}

/// Does it until something ends it, and tells each step.
fn perform(options: &ConnectOptions, deed: Deed, tell: impl Fn(&str)) -> Result<(), Error> {
    let node = Node::connect(options)?;
    tell("connected");
    // The tests of the accounting wait for it first.
    let lease = if deed == Deed::Account { LEASE * 100 } else { LEASE };
    let helper = Helper::load_with_lease(&node, lease)?;
    tell("loaded");
    loop {
        match deed {
            Deed::Account => drop(microstates(&helper, Duration::from_secs(60), &|| false)?),
            Deed::Calls => drop(common::count(&helper, &calls_options(), &|| false)?),
            Deed::Follow => drop(follow(&helper, &root_options(), |_| false)?),
            Deed::Time => drop(time(&helper, &time_options(), || false, &mut None)?),
            Deed::Trace => {
                let mut trace = Trace::start(&helper, &trace_options())?;
                while trace.ended().is_none() {
                    trace.next(Duration::from_millis(200))?;
                }
                trace.close()?;
            }
            Deed::Nothing => {
                std::thread::sleep(Duration::from_millis(50));
                helper.node().call("erlang", "node", vec![])?;
            }
        }
    }
}

/// The program that a scene kills.
#[test]
fn client() {
    let Ok(what) = std::env::var(CLIENT) else { return };
    let mut words = what.split(' ');
    let mut word = || words.next().expect("name, port and deed");
    let name = word().parse().expect("a name");
    let options = common::options_at(name, word().parse().expect("a port"));
    let deed = word();
    let is_named = |it: &Deed| format!("{it:?}") == deed;
    let deed = DEEDS.into_iter().chain([Deed::Account]).find(is_named).expect("a deed");
    perform(&options, deed, |step| println!("client {step}")).expect("performed");
}

pub(crate) fn start_client(beam: &Beam, deed: Deed, when_loaded: bool) -> Child {
    let what = format!("{} {} {deed:?}", beam.name, beam.port);
    common::client("clean::client", CLIENT, what, when_loaded)
}

/// Kills a client that began `delay` ago, or at once when it has loaded.
fn kill(beam: &Beam, deed: Deed, delay: Duration, when_loaded: bool) {
    let client = start_client(beam, deed, when_loaded);
    std::thread::sleep(delay);
    common::kill(client);
}

fn through_proxy(beam: &Beam) -> (Proxy, ConnectOptions) {
    let proxy = Proxy::new(SocketAddr::from(([127, 0, 0, 1], beam.port))).expect("a proxy");
    let options = common::options_at(beam.name.clone(), proxy.address().port());
    (proxy, ConnectOptions { timeout: Duration::from_secs(2), ..options })
}

/// One client that ends in the middle of what it does; what is wrong afterwards.
fn scene(beam: &Beam, seed: u64) -> Option<String> {
    let mut random = Random::new(seed);
    let deed = random.of(&DEEDS);
    let end = random.of(&[End::Kill, End::Cut, End::HalfOpen, End::Drop]);
    let delay = Duration::from_millis(random.below(250));
    let witness = beam.connect();
    // Another bellows may be there at the same time, and stays longer.
    let other = random.one_in(3).then(|| Helper::load(&witness).expect("another"));
    let mut held = None;
    match end {
        End::Kill => kill(beam, deed, delay, random.one_in(2)),
        End::Drop => {
            let node = beam.connect();
            let helper = Helper::load_with_lease(&node, LEASE).expect("loaded");
            let trace = Trace::start(&helper, &trace_options()).expect("a trace");
            std::thread::sleep(delay);
            drop(trace);
            drop(helper);
        }
        End::Cut | End::HalfOpen => {
            let (proxy, options) = through_proxy(beam);
            std::thread::scope(|scope| {
                let client = scope.spawn(|| perform(&options, deed, |_| ()));
                std::thread::sleep(delay);
                if end == End::HalfOpen {
                    proxy.hold(true);
                    // The other one's modules and processes stay.
                    match other {
                        None => held = left_behind(&witness),
                        Some(_) => std::thread::sleep(LEASE * 2),
                    }
                }
                // Before the cut: one that connects behind it would go on for ever.
                proxy.keep_away(true);
                proxy.cut(Duration::ZERO);
                while !client.is_finished() {
                    std::thread::sleep(Duration::from_millis(50));
                    proxy.cut(Duration::ZERO);
                }
                proxy.hold(false);
            });
        }
    }
    if let Some(other) = other {
        other.close().expect("closed");
    }
    let left = held.or_else(|| left_behind(&witness));
    let alive = "length([P || P <- persistent_term:get(workers), is_process_alive(P)]).";
    let dead = (as_int(&eval(&witness, alive)) != Some(400)).then(|| "workers are gone".to_owned());
    let wrong = left.or(dead)?;
    Some(format!("{deed:?} {end:?} {delay:?}: {wrong}"))
}

#[test]
fn nothing_stays_behind_after_kills_and_cuts() {
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path(), &[]);
    eval(&beam.connect(), WORKERS);
    let seeds: Vec<u64> = testkit::seeds(12).collect();
    // A node before OTP 27 has one trace at a time.
    testkit::play(&seeds, 1, |seed| scene(&beam, seed)).assert_right("--test all clean::");
}

#[test]
fn a_lease_ends_what_is_cut_off_without_a_word() {
    let (_home, beam, witness) = started();
    eval(&witness, WORKERS);
    let (proxy, options) = through_proxy(&beam);
    let node = Node::connect(&options).expect("connected");
    // Renewed in time also where this process has no core for a second.
    let lease = LEASE * 3;
    let helper = Helper::load_with_lease(&node, lease).expect("loaded");
    let mut options = trace_options();
    // Events wait for a process without a core, too.
    options.budget.backlog = 1_000_000;
    let mut trace = Trace::start(&helper, &options).expect("a trace");
    let events = trace.next(Duration::from_secs(10)).expect("events");
    assert!(!events.is_empty(), "{:?}", trace.ended());
    // It lives longer than its lease where that is renewed.
    std::thread::sleep(lease + LEASE);
    trace.next(Duration::from_secs(1)).expect("still there");
    proxy.hold(true);
    assert_eq!(left_behind(&witness), None, "though the link is still open");
    proxy.keep_away(true);
    proxy.cut(Duration::ZERO);
    assert!(node.call("erlang", "node", vec![]).is_err());
}

/// A burst just before the end, which the tracer has not worked through by then.
#[test]
fn calls_that_were_made_in_time_are_told_however_late_the_tracer_is() {
    const CALLS: u64 = 15_000;
    let (_home, _beam, node, helper) = loaded();
    for argument_bytes in [0, 100] {
        let base = common::trace_options("lists:flatlength/1", Duration::from_millis(1_500));
        let budget = Budget { backlog: 1_000_000, ..base.budget };
        let options = TraceOptions { rate: 1_000_000, returns: false, argument_bytes, budget, ..base };
        let mut trace = Trace::start(&helper, &options).expect("a trace");
        let burst = format!(
            "spawn(fun () -> timer:sleep(1200), [lists:flatlength([1, 2]) || _ <- lists:seq(1, {CALLS})] end), ok."
        );
        eval(&node, &burst);
        let calls = all_events(&mut trace).len() as u64;
        assert_eq!(trace.ended(), Some(&Ended::Time), "{argument_bytes}");
        assert_eq!(calls, CALLS, "{argument_bytes}");
        trace.close().expect("closed");
    }
}

/// The reason for which the node refuses a trace.
fn refused(helper: &Helper, options: &TraceOptions) -> Option<String> {
    let mut trace = Trace::start(helper, options).expect("asked");
    trace.next(Duration::from_secs(10)).err().map(|error| error.to_string())
}

#[test]
fn what_can_never_match_is_refused_and_what_there_is_is_named() {
    let (_home, _beam, node, helper) = loaded();
    let told = |function: &str, arguments: Option<&str>| {
        let base = common::trace_options(function, Duration::from_millis(200));
        refused(&helper, &TraceOptions { arguments: arguments.map(str::to_owned), ..base })
    };
    for (function, arguments, says) in [
        ("lists:keyfind/3", Some("_, N when N > 1"), "another number of arguments"),
        ("lists:keyfind/2", None, "there is /3"),
        ("lists:keyfnid/3", None, "there is keyfind"),
        // A list's rest is none of arguments.
        ("lists:keyfind/3", Some("A | _"), "is not Erlang"),
    ] {
        testkit::assert_has(told(function, arguments).expect("refused"), [says]);
    }
    for fits in ["_, N, _ when N > 1", "A, B, C", "_, _, [_ | _]"] {
        assert_eq!(told("lists:keyfind/3", Some(fits)), None, "{fits}");
    }
    // One of the arities of a name is enough.
    assert_eq!(told("lists:seq", Some("_, _")), None);
    assert!(told("lists:seq", Some("_, _, _, _")).is_some());
    helper.close().expect("closed");
    assert_eq!(left_behind(&node), None);
}

#[test]
fn another_trace_is_left_alone() {
    let (_home, _beam, node, helper) = loaded();
    eval(&node, WORKERS);
    if node.release() >= 27 {
        eprintln!("nodes of this release have trace sessions");
        return;
    }
    let theirs = "T = spawn(fun Sink() -> receive _ -> Sink() end end), register(theirs, T), \
                  erlang:trace(hd([P || P <- processes(), P =/= T, {_, {erlang, apply, 2}} <- [process_info(P, \
                  initial_call)]]), true, [call, {tracer, T}]).";
    eval(&node, theirs);
    let says = || refused(&helper, &trace_options()).expect("refused");
    testkit::assert_has(says(), ["another trace runs", "theirs"]);
    let flags = "length([P || P <- processes(), {flags, [call]} <- [erlang:trace_info(P, flags)]]).";
    assert_eq!(as_int(&eval(&node, flags)), Some(1), "theirs goes on");

    let error = follow(&helper, &root_options(), |_| false).expect_err("refused");
    testkit::assert_has(error.to_string(), ["another trace runs"]);
    // Calls are timed all the same, without a look at what they call.
    let timing = time(&helper, &time_options(), || false, &mut None).expect("timed");
    assert!(!timing.times.is_empty() && timing.path.is_none());
    testkit::assert_has(timing.refused.expect("refused").to_string(), ["another trace runs"]);
    assert_eq!(as_int(&eval(&node, flags)), Some(1), "theirs goes on");

    // A pattern without a process counts, too.
    eval(
        &node,
        "exit(whereis(theirs), kill), timer:sleep(50), erlang:trace_pattern({lists, sort, 1}, true, [call_count]).",
    );
    testkit::assert_has(says(), ["lists:sort/1"]);
    let count = eval(&node, "element(2, erlang:trace_info({lists, sort, 1}, call_count)).");
    assert!(as_int(&count) >= Some(0), "{count:?}");
    eval(&node, "erlang:trace_pattern({lists, sort, 1}, false, [call_count]).");

    // Counters of time, too, which nothing else shows, of a function that is wanted.
    eval(&node, "erlang:trace_pattern({lists, sort, 1}, true, [call_time]).");
    testkit::assert_has(says(), ["1 function has"]);
    let error = common::count(&helper, &calls_options(), &|| false).expect_err("refused");
    testkit::assert_has(error.to_string(), ["another trace runs"]);
    helper.close().expect("closed");
    let counter = eval(&node, "is_list(element(2, erlang:trace_info({lists, sort, 1}, call_time))).");
    assert_eq!(as_atom(&counter), Some("true"), "theirs goes on");
    eval(&node, "erlang:trace_pattern({lists, sort, 1}, false, [call_time]).");
    assert_eq!(left_behind(&node), None);
}

#[test]
fn a_trace_does_not_trace_itself() {
    let (_home, _beam, node, helper) = loaded();
    eval(&node, "spawn(fun F() -> lists:reverse([1, 2, 3]), timer:sleep(20), F() end).");
    // What the trace's own processes call again and again.
    let functions = ["lists:reverse/1", "queue", "maps", "lists"].map(|it| it.parse().unwrap()).into();
    let options = TraceOptions { functions, limit: 100, rate: 100_000, ..trace_options() };
    let mut trace = Trace::start(&helper, &options).expect("a trace");
    let name = |event: &TraceEvent| match event {
        TraceEvent::Call(call) => Some(format!("{} {}", call.role, call.name)),
        _ => None,
    };
    let names: Vec<String> = all_events(&mut trace).iter().filter_map(name).collect();
    assert!(names.len() > 30, "{names:?}");
    let ours = names.iter().filter(|name| name.contains("bellows")).count();
    assert_eq!(ours, 0, "{names:?}");
}

/// A node with `-erl_epmd_port` takes its own port for that of all nodes: whoever wants to answer us when we have gone
/// connects to itself, and logs that.
#[test]
fn a_node_does_not_look_for_a_client_that_was_killed() {
    let home = tempfile::tempdir().expect("a folder");
    let log = home.path().join("erl.log");
    let handler = format!("[{{handler, default, logger_std_h, #{{config => #{{file => \"{}\"}}}}}}]", log.display());
    let beam = Beam::start(home.path(), &["-kernel", "logger", &handler]);
    let node = beam.connect();
    eval(&node, WORKERS);
    // The log is written, and by whom.
    eval(&node, "logger:error(\"this is the log\").");
    for deed in [Deed::Calls, Deed::Trace, Deed::Time, Deed::Calls] {
        kill(&beam, deed, Duration::from_millis(600), true);
        assert_eq!(left_behind(&node), None, "{deed:?}");
    }
    // A connection attempt is logged within the second.
    std::thread::sleep(Duration::from_secs(2));
    let logged = std::fs::read_to_string(&log).expect("a log");
    assert!(logged.contains("this is the log"), "{logged}");
    assert!(!logged.contains("Cannot get connection id"), "{logged}");
}

#[test]
fn several_that_come_and_go_at_once_write_nothing_into_the_log() {
    let (home, beam, node) = started();
    let ear = "-module(ear).\n-export([log/2]).\nlog(Event, _) -> persistent_term:put({heard, make_ref()}, Event).\n";
    common::load(home.path(), &node, "ear", ear);
    eval(&node, "ok = logger:add_handler(ear, ear, #{}), ok.");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let helper = Helper::load(&beam.connect()).expect("loaded");
                    helper.close().expect("closed");
                }
            });
        }
    });
    assert_eq!(left_behind(&node), None);
    let heard = "lists:flatten(io_lib:format(\"~p\", [[E || {{heard, _}, E} <- persistent_term:get()]])).";
    let heard = erlang::term::as_text(&eval(&node, heard));
    assert_eq!(heard.as_deref(), Some("[]"));
}
