//! Traces of a RabbitMQ's functions beside a load, and looks of other commands into a run's node, on its time axis.

use crate::common;
use crate::common::managed::{self, SharedNode};
use crate::common::pages::page_after;
use crate::own_pages;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::{bellows, folder, run, start, wait_for};
use erlang::term::{Term, as_atom, as_tuple, atom, int, tuple};
use erlang::{Helper, Node};
use serde_json::Value;

const FUNCTION: &str = "rabbit_mgmt_wm_queues:to_json/2";

fn warnings<'a>(summary: &'a Value, code: &str) -> Vec<&'a Value> {
    let all = summary["warnings"].as_array().expect("warnings");
    all.iter().filter(|it| it["code"] == code).collect()
}

fn lines(run_dir: &Value) -> Vec<Value> {
    let path = Path::new(run_dir.as_str().expect("a folder")).join("traces.jsonl");
    let text = fs::read_to_string(&path).expect("traced calls");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// A run against a broker that is there and stays.
fn attached(rabbit: &SharedNode, trace: &str) -> String {
    let broker = rabbit.broker();
    format!(
        "phases = {{ warmup = \"1s\", measure = \"6s\", drain = \"5s\" }}\nprofile.events = []\n{broker}\n\
         [[load]]\ndestination = \"queue://orders\"\nrate = 100\n\
         [[probe]]\nname = \"queues\"\nurl = \"/api/queues?columns=name\"\nevery = \"200ms\"\n\
         [[trace]]\nname = \"queues\"\n{trace}\n"
    )
}

fn is_false(term: &Term) -> bool {
    as_atom(term) == Some("false")
}

/// No module of bellows is loaded there, and nothing is traced.
fn assert_clean(rabbit: &SharedNode) {
    let node = Node::connect(&rabbit.erlang()).expect("a connection");
    let ask = |module: &str, function: &str, arguments| node.call(module, function, arguments).expect("an answer");
    let module = || vec![atom(Helper::module())];
    assert!(is_false(&ask("erlang", "module_loaded", module())));
    assert!(is_false(&ask("erlang", "check_old_code", module())));
    let function = tuple([atom("rabbit_mgmt_wm_queues"), atom("to_json"), int(2)]);
    let traced = ask("erlang", "trace_info", vec![function, atom("traced")]);
    let traced = as_tuple(&traced).expect("{traced, Value}");
    assert!(traced.last().is_some_and(is_false), "{traced:?}");
    let claimed = ask("erlang", "whereis", vec![atom("bellows_tracing")]);
    assert_eq!(as_atom(&claimed), Some("undefined"));
}

#[test]
fn each_request_of_a_probe_is_a_call_that_a_trace_sees_and_nothing_stays_on_the_node() {
    let (dir, rabbit) = &managed::shared!();
    let file = dir.join("traced.toml");
    let of = |trace: &str| attached(rabbit, trace);
    // Two at one node are one trace there, and each has its own calls.
    let two =
        format!("call = \"{FUNCTION}\"\n[[trace]]\nname = \"asked\"\ncall = \"rabbit_mgmt_wm_queues:is_authorized/2\"");
    fs::write(&file, of(&two)).expect("a file");
    let summary = run(dir, &["run", "traced.toml", "--json", "--quiet"]).json();
    let probe = &summary["scenarios"]["probe_queues"];
    let trace = &summary["scenarios"]["trace_queues"];
    // Every request that was sent in the measured phase calls the function once, a few milliseconds later.
    let requests = probe["probe_queues_completed"].as_u64().expect("a count");
    let calls = trace["trace_queues_begun"].as_u64().expect("a count");
    assert!((29..=31).contains(&requests), "{probe}");
    assert!(calls.abs_diff(requests) <= 1, "{requests}: {trace}");
    let asked = &summary["scenarios"]["trace_asked"];
    let others = asked["trace_asked_begun"].as_u64().expect("a count");
    assert!(others.abs_diff(requests) <= 1, "{requests}: {asked}");
    assert_eq!(summary["traces"].as_array().map(Vec::len), Some(2));
    let latency = &trace["latency"]["trace_queues_duration"];
    assert_eq!(latency["count"], trace["trace_queues_completed"], "{trace}");
    let response = probe["latency"]["probe_queues_response"]["p50_ns"].as_u64();
    assert!(latency["p50_ns"].as_u64() < response, "{latency}");
    // What it saw is archived, with who made it and with what.
    let told = common::named(&summary["traces"], "function", FUNCTION);
    assert_eq!(told["scenario"], "trace_queues");
    let mut lines = lines(&summary["run_dir"]);
    lines.retain(|line| line["function"] == FUNCTION);
    assert_eq!(told["kept"].as_u64(), Some(lines.len() as u64));
    assert!(lines.len() as u64 >= calls, "warm-up and drain are kept, too");
    for line in &lines {
        assert_eq!(line["returned"], "ok", "{line}");
        assert!(line["duration_ns"].as_u64() > Some(0), "{line}");
        assert!(line["pid"].as_str().is_some_and(|it| it.starts_with('<')), "{line}");
        assert_eq!(line["arguments"].as_array().map(Vec::len), Some(2), "{line}");
    }
    assert!(warnings(&summary, "trace_ended").is_empty(), "{summary:#}");
    assert_eq!(warnings(&summary, "traced").len(), 1);
    assert_clean(rabbit);
    // Calls after the limit are nobody's, and arguments can be left out.
    let trace = format!(
        "call = \"{FUNCTION}\"\nlimit = 15\narguments = false\n[[require]]\nthat = \"queues call duration max < 60s\""
    );
    fs::write(&file, of(&trace)).expect("a file");
    let ran = run(dir, &["run", "traced.toml", "--json", "--quiet"]);
    let summary = ran.printed();
    // What the first calls met the others need not.
    let required = &summary["requirements"][0];
    assert_eq!((&required["met"], &required["why"]), (&Value::Null, &"its trace ended before the load did".into()));
    let trace = &summary["scenarios"]["trace_queues"];
    let calls = trace["trace_queues_begun"].as_u64();
    assert!((1..=15).contains(&calls.unwrap_or(0)), "{trace}");
    // Five a second come for as long as it lasts, which is a part of the six seconds.
    let rate = trace["rate"].as_f64().expect("a rate");
    assert!((3.0..8.0).contains(&rate), "{trace}");
    let [ended] = warnings(&summary, "trace_ended")[..] else {
        panic!("{summary:#}");
    };
    assert_eq!(ended["values"]["limit"], "limit", "{ended}");
    assert!(ended["text"].as_str().is_some_and(|it| it.contains("trace.limit allows more")));
    let lines = self::lines(&summary["run_dir"]);
    // And those of the warm-up.
    assert!((15..=30).contains(&lines.len()), "{}", lines.len());
    assert!(lines.iter().all(|it| it["arguments"].as_array().is_some_and(Vec::is_empty)));
    assert_clean(rabbit);
    // What cannot be traced is told before the load begins.
    fs::write(&file, of("call = \"rabbit_nowhere:f/1\"")).expect("a file");
    run(dir, &["run", "traced.toml", "--json", "--quiet"])
        .assert_error(1, &["the node has no such module", "rabbit_nowhere"]);
    assert_clean(rabbit);
}

/// The Erlang node of a run, from its log.
fn node_of(log: &Path) -> Option<String> {
    let text = fs::read_to_string(log).ok()?;
    let (_, rest) = text.split_once("Erlang node ")?;
    Some(rest.split(';').next()?.to_owned())
}

/// Starts a run, and waits until it is measured.
fn started(dir: &Path) -> (common::Started, String, PathBuf) {
    let text = include_str!("../data/experiments/looked-into.toml").to_owned()
        + &own_pages::scrapes(&page_after(Duration::ZERO));
    fs::write(dir.join("looked.toml"), text).expect("a file");
    let log = dir.join("log");
    // What it tells is needed while it runs.
    let script = format!("exec {} run looked.toml --verbose 2>{}", env!("CARGO_BIN_EXE_bellows"), log.display());
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(dir).stdin(Stdio::null()).env("BELLOWS_RUNS", common::RUNS);
    File::create(&log).expect("a file");
    let run = start(shell);
    wait_for("the node's name", || node_of(&log).is_some());
    let node = node_of(&log).expect("a name");
    wait_for("the measured phase", || {
        let runs = fs::read_dir(dir.join(common::RUNS)).into_iter().flatten();
        let slices = runs.flatten().map(|it| it.path().join("slices.jsonl"));
        let mut slices = slices.filter_map(|it| fs::read_to_string(it).ok());
        slices.any(|it| it.contains("\"measure\""))
    });
    (run, node, log)
}

#[test]
fn looks_into_a_runs_node_stand_on_its_time_axis_and_a_budget_that_trips_is_told() {
    testkit::needs_rabbitmq!();
    let dir = &*folder();
    let (began, node, log) = started(dir);
    // Whoever names it as bellows' own looks into the same.
    let short = node.split('@').next().expect("a name");
    let top = ["erlang", "top", short, "--once", "--every", "1s"];
    run(dir, &top).assert_ok();
    let counting = ["erlang", "calls", short, "lists", "--for", "60s"];
    let counting = start(bellows(dir, &counting));
    std::thread::sleep(Duration::from_secs(2));
    counting.signal("KILL");
    let _ = counting.end();
    began.end().assert_ok();
    let folder = common::only_run(dir);
    let record = common::read_json(&folder.join("run.json"));
    let looks = record["looks"].as_array().expect("looks");
    let [top, calls] = &looks[..] else {
        panic!("{looks:#?}");
    };
    let length = |look: &Value| {
        let at = |key: &str| look[key].as_f64().expect("seconds");
        at("end") - at("start")
    };
    let said = looks.iter().map(|look| (look["command"].as_str(), &look["killed"]));
    let expected =
        [(Some("bellows erlang top"), &Value::Bool(false)), (Some("bellows erlang calls"), &Value::Bool(true))];
    assert_eq!(said.collect::<Vec<_>>(), expected);
    assert!((1.0..8.0).contains(&length(top)), "{top}");
    // It was noticed within a second or two, and not at its end of a minute.
    assert!((0.5..8.0).contains(&length(calls)), "{calls}");
    let summary = &record["summary"];
    assert_eq!(warnings(summary, "looked_into").len(), 1, "{summary:#}");
    let [tripped] = warnings(summary, "trace_ended")[..] else {
        panic!("{summary:#}");
    };
    assert_eq!(tripped["values"]["limit"], "rate", "{tripped}");
    assert_eq!(summary["traces"][0]["function"], "rabbit_channel:handle_cast/2");
    let said = fs::read_to_string(log).expect("what it said");
    own_pages::the_brokers_own_page_is_scraped_and_anothers_is_told(dir, &folder, &said);
    let page = common::page(&folder.join("report.html"));
    assert_eq!(page["looks"].as_array().map(Vec::len), Some(2), "{page:#}");
    let trace = &page["traces"][0];
    assert!(trace["slowest"].as_array().is_some_and(|it| !it.is_empty()), "{trace:#}");
    assert!(trace["ended"].is_array(), "{trace:#}");
    testkit::assert_has(common::figures(dir), ["traced: rabbit_channel:handle_cast/2"]);
}
