//! Whole runs against the embedded broker: their output, their files, and their end.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use archive::{Finding, Tier, Warning};
use common::{Broker, Ended, bellows, folder, only_run, record, run, seconds_recorded, start, wait_for, words};
use serde_json::Value;

/// `bellows demo`, long enough for whole seconds, short enough for a test.
const DEMO: [&str; 7] =
    ["demo", "--set", "phases.warmup=500ms", "--set", "phases.measure=1500ms", "--set", "load.0.rate=2000"];

fn demo<'a>(more: &[&'a str]) -> Vec<&'a str> {
    DEMO.iter().chain(more).copied().collect()
}

#[test]
fn the_demo_ends_by_naming_its_report() {
    let dir = &*folder();
    let ended = run(dir, &demo(&[])).ok();
    let report = ended.report();
    let html = fs::read_to_string(dir.join(&report)).expect("report");
    assert!(html.to_lowercase().contains("<!doctype html>"));
    ended.prints([" s  warm-up  sent ", " s  measure  sent ", "\ndemo  ", "\nack response  "]);
    let is_told = |line: &str| line.starts_with("messages ") && line.contains(" 4,000 sent and received");
    assert!(ended.stdout.lines().any(is_told), "{}", ended.stdout);

    let listed = run(dir, &["runs"]);
    assert!(listed.stdout.lines().nth(1).is_some_and(|l| l.contains("complete")), "{listed:?}");
    // The command that made the run is the one that makes it again.
    assert_eq!(record(dir)["command"][1], "demo");
    run(dir, &["runs", "report", "last", "-o", "again.html"]).assert_ok();
    assert!(dir.join("again.html").is_file());
    the_next_command_names_a_run_that_is_kept_elsewhere(dir, &ended);
}

/// Such a run is not the last one.
fn the_next_command_names_a_run_that_is_kept_elsewhere(dir: &Path, usual: &Ended) {
    let next = |text: &str| text.rsplit("next").next().unwrap_or_default().to_owned();
    let elsewhere = run(dir, &demo(&["--runs", "my runs"])).ok();
    let run_dir = elsewhere.report();
    let run_dir = run_dir.parent().and_then(Path::to_str).expect("a folder");
    let (_, id) = run_dir.split_once("my runs/").expect("its folder");
    let name = format!("my runs/{id}'");
    assert!(!next(&usual.stdout).contains("runs/20"), "{usual:#?}");
    let shown = [&["runs", "show", run_dir][..], &["runs", "show", "last", "--runs", "my runs"]];
    for text in [elsewhere.stdout].into_iter().chain(shown.map(|args| run(dir, args).stdout)) {
        testkit::assert_has(next(&text), [name.as_str()]);
    }
    run(dir, &["runs", "show"]).prints_not(["my runs"]);
}

/// Calls of a C library keep no frame pointer, and of two stacks in three the callers were missing.
#[test]
fn quiet_leaves_the_summary_only_and_stacks_of_the_embedded_broker_are_whole_without_copies() {
    let dir = &*folder();
    // As many messages as give samples where a full machine lets the broker take many at once.
    let more = ["--quiet", "--set", "load.0.rate=6000", "--set", "profile.stacks=frame-pointers"];
    let ended = run(dir, &demo(&more)).ok();
    assert_eq!(ended.prints(["demo  "]).stderr, "");
    ended.report();
    let record = record(dir);
    let profile = &record["summary"]["profiles"][0];
    let of = |key: &str| profile[key].as_f64().unwrap_or_default();
    if of("samples") < 20.0 {
        testkit::skip!("this user may not profile: {}{profile:#}", ended.stderr);
    }
    assert!(of("complete_share") > 0.9, "{profile:#}");
}

#[test]
fn json_is_one_object_that_its_schema_describes() {
    let dir = &*folder();
    let ended = run(dir, &demo(&["--json", "--quiet"])).ok();
    assert_eq!(ended.stderr, "");
    let object = ended.printed();
    let messages = &object["scenarios"]["messages"];
    common::schema::assert_valid(&object);
    assert_eq!(messages["sent"]["total"], 4_000);
    assert_eq!(messages["received"]["total"], 4_000);
    let record = record(dir);
    assert_eq!(record["summary"], object, "run.json holds another summary");

    // The validator itself notices what is wrong.
    let mut wrong = object;
    wrong["scenarios"]["messages"]["sent"]["total"] = Value::from(-1);
    wrong["scenarios"]["messages"]["latency"]["transfer"]["p99_ns"] = Value::from("fast");
    wrong["extra"] = Value::from(1);
    wrong["warnings"][0]["code"] = Value::from("made_up");
    wrong.as_object_mut().expect("object").remove("profiles");
    let found = common::schema::problems(&common::schema::of_runs(), &wrong);
    let places =
        ["messages.sent.total: minimum", "p99_ns: type", "$: additionalProperties", "code: enum", "$: required"];
    testkit::assert_has(found.join("\n"), places);
}

/// A run that was stopped in its drain printed a field that its schema lacked.
#[test]
fn the_schema_describes_all_that_a_warning_may_have() {
    let warning = Warning {
        event: Some("cycles".to_owned()),
        drain_cut: true,
        text: "told".to_owned(),
        ..Warning::new(Tier::Note, Finding::Interrupted { seconds: 2.0 })
    };
    let schema = common::schema::of_runs();
    let schema = &schema["properties"]["warnings"]["items"];
    let warning = serde_json::to_value(warning).expect("JSON");
    assert_eq!(warning["drain_cut"], true);
    assert_eq!(common::schema::problems(schema, &warning), Vec::<String>::new());
}

#[test]
fn strict_turns_warnings_into_5() {
    let dir = &*folder();
    // 1,000 messages are too few for the percentiles that are printed.
    let ended = run(dir, &demo(&["--strict", "--quiet", "--set", "load.0.rate=100"])).ends(5);
    ended.report();
}

#[test]
fn client_producer_and_consumer_count_the_same_messages() {
    let (broker, dir) = &common::broker_in_folder();
    let base = ["queue://Q", "--url", &broker.url, "--message-count", "500", "--json", "--quiet"];
    let with = |command: &str, more: &[&str]| run(dir, &[&[command], &base[..], more].concat()).json();
    let client = with("client", &["--max-pending", "50", "--no-archive"]);
    let messages = &client["scenarios"]["messages"];
    assert_eq!((&messages["sent"]["total"], &messages["received"]["total"]), (&500.into(), &500.into()));
    assert_eq!(client["run_dir"], "");
    let producer = &with("producer", &["--max-pending", "50"])["scenarios"]["messages"];
    assert_eq!((&producer["completed"]["total"], &producer["received"]["total"]), (&500.into(), &0.into()));
    let consumer = with("consumer", &["--ack-every", "10", "--hdr", "out.hlog"]);
    assert_eq!(consumer["scenarios"]["messages"]["received"]["total"], 500);
    assert!(fs::read_to_string(dir.join("out.hlog")).is_ok_and(|t| t.contains("end-to-end")));
    let runs = run(dir, &["runs", "--json"]).printed();
    assert_eq!(runs.as_array().map(Vec::len), Some(2), "--no-archive kept a run, or one is lost");
}

#[test]
fn show_latency_and_rate_decide_what_a_line_holds() {
    let (broker, dir) = &common::broker_in_folder();
    let lines = |more: &[&str]| {
        let base = ["client", "--url", &broker.url, "--duration", "1", "--no-archive"];
        let ended = run(dir, &[&base[..], more].concat()).ok();
        let end = ended.stdout.find("\nclient  ").expect("summary");
        ended.stdout[..end].to_owned()
    };
    assert!(!lines(&[]).contains(" p99 "));
    let all_out = lines(&["--show-latency"]);
    assert!(all_out.contains("  send ack p50 ") && !all_out.contains("send delay"));
    assert!(lines(&["--show-latency", "--rate", "100"]).contains("  send delay p50 "));
}

/// A client with a minute to go, once it has recorded two seconds.
fn long_run(dir: &Path, url: &str) -> common::Started {
    let args = ["client", "--url", url, "--rate", "500", "--max-pending", "100", "--duration", "60"];
    let client = start(bellows(dir, &args));
    wait_for("recorded second", || seconds_recorded(dir) >= 2);
    client
}

#[test]
fn a_load_with_recover_outlives_its_broker() {
    let dir = &*folder();
    let broker = Broker::start(dir);
    let address = broker.address().to_owned();
    let line = format!(
        "client --url {} --rate 500 --max-pending 100 --duration 4 --recover 50ms-150ms --resend --json",
        broker.url
    );
    let client = start(bellows(dir, &words(&line)));
    wait_for("recorded second", || seconds_recorded(dir) >= 1);
    // So that some are in flight when it is killed.
    testkit::signal(broker.child.0.id(), "STOP");
    std::thread::sleep(Duration::from_millis(60));
    drop(broker);
    std::thread::sleep(Duration::from_millis(400));
    let _second = Broker::start_at(dir, &address);
    let summary = client.end().json();
    let messages = &summary["scenarios"]["messages"];
    let warnings = summary["warnings"].as_array().expect("warnings");
    // A machine without a free core at the end leaves some unsent, and says so.
    let unanswered = warnings.iter().find(|it| it["code"] == "messages_unanswered");
    let unsent = unanswered.and_then(|it| it["values"]["unsent"].as_u64()).unwrap_or(0);
    let sent = messages["sent"]["total"].as_u64().expect("a count");
    assert_eq!(sent + unsent, 2_000, "{summary:#}");
    // They are sent again, and the second broker answers them.
    assert!(messages["resent"].as_u64() > Some(0), "{summary:#}");
    assert_eq!(messages["completed"]["total"].as_u64(), Some(sent), "{summary:#}");
    assert_eq!(messages["ledger"]["unconfirmed_missing"], 0, "{summary:#}");
    let max = messages["latency"]["ack_response"]["max_ns"].as_u64();
    assert!(max.is_some_and(|ns| ns >= 380_000_000), "{summary:#}");
    assert!(warnings.iter().any(|w| w["code"] == "connections_lost"), "{summary:#}");
    let record = record(dir);
    let labels = record["events"].to_string();
    assert!(labels.contains("connections reconnect") && labels.contains("are back"), "{labels}");
}

#[test]
fn the_first_signal_ends_in_order() {
    for name in ["INT", "TERM"] {
        let (broker, dir) = &common::broker_in_folder();
        let client = long_run(dir, &broker.url);
        client.signal(name);
        let ended = client.end().ok();
        assert!(ended.took < Duration::from_secs(20), "{ended:#?}");
        assert!(ended.prints(["client  stopped: "]).report().is_file(), "{ended:#?}");
        let record = record(dir);
        assert_eq!(record["state"], "interrupted");
        let messages = &record["summary"]["scenarios"]["messages"];
        let (sent, received) = (&messages["sent"], &messages["received"]);
        assert_eq!(sent["total"], received["total"], "the drain was left out");
    }
}

/// A run without a measured phase has no percentiles, and leaves nothing.
#[test]
fn a_signal_before_the_measured_phase_says_that_nothing_was_measured() {
    let (broker, dir) = &common::broker_in_folder();
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let args = ["client", "--url", &broker.url, "--warmup", "60", "--duration", "60", "--json"];
        let client = start(bellows(dir, &args));
        wait_for("recorded second", || seconds_recorded(dir) >= 1);
        client.signal(name);
        let ended = client.end().ends(code);
        assert!(ended.stderr.ends_with("stopped in warm-up: nothing measured\n"), "{ended:#?}");
        assert!(!ended.stderr.contains("error:"), "{ended:#?}");
        let value = ended.printed();
        assert_eq!(value["error"]["cause"], "stopped in warm-up", "{value}");
        let left = fs::read_dir(dir.join(common::RUNS)).expect("the folder of runs");
        assert_eq!(left.flatten().filter(|it| it.path().is_dir()).count(), 0);
    }
    // A broker that never answers: its start is what was stopped.
    let silent = common::server_that_says(b"");
    let url = format!("amqp://{silent}");
    let client = start(bellows(dir, &["client", "--url", &url, "--no-archive"]));
    std::thread::sleep(Duration::from_millis(700));
    client.signal("INT");
    let ended = client.end().ends(130);
    assert!(ended.stderr.ends_with("stopped in start: nothing measured\n"), "{ended:#?}");
}

#[test]
fn the_second_signal_ends_at_once() {
    let (broker, dir) = &common::broker_in_folder();
    let client = long_run(dir, &broker.url);
    // A stopped broker keeps the drain waiting.
    common::signal(broker.child.id(), "STOP");
    client.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    client.signal("INT");
    let asked = std::time::Instant::now();
    let ended = client.end();
    common::signal(broker.child.id(), "CONT");
    assert_eq!(ended.code(), Some(130), "{ended:#?}");
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
}

#[test]
fn after_kill_9_the_folder_is_readable_and_no_embedded_broker_is_left() {
    let dir = &*folder();
    let bellows = start(bellows(dir, &demo(&["--no-profile", "--set", "phases.measure=60s"])));
    wait_for("recorded second", || seconds_recorded(dir) >= 2);
    let children = children(bellows.child.id());
    assert!(!children.is_empty(), "the embedded broker is not a child process");
    bellows.signal("KILL");
    let ended = bellows.end();
    assert_eq!(ended.code(), None, "{ended:?}");
    wait_for("end of the embedded broker", || {
        children.iter().all(|pid| !Path::new(&format!("/proc/{pid}/exe")).exists())
    });
    run(dir, &["runs"]).prints(["unfinished"]);
    let report = run(dir, &["runs", "report", "last"]).ok();
    let path = report.stdout.trim_end();
    assert!(fs::metadata(dir.join(path)).is_ok_and(|m| m.len() > 10_000), "{report:?}");
    assert!(seconds_recorded(dir) >= 2);
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("tasks").flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|l| l.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>()).collect()
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let (broker, dir) = &common::broker_in_folder();
    let script = format!(
        "'{}' client --url {} --rate 500 --duration 60 2>err | head -n 3; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_bellows"),
        broker.url
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(dir).env("BELLOWS_RUNS", common::RUNS).stdin(Stdio::null());
    let ended = start(bash).end();
    assert!(ended.took < Duration::from_secs(20), "{ended:#?}");
    assert!(ended.stdout.ends_with("\n0\n"), "{ended:#?}");
    let stderr = fs::read_to_string(dir.join("err")).expect("err");
    assert!(!stderr.contains("panicked") && !stderr.contains("error:"), "{stderr}");
}

#[test]
fn what_was_asked_for_stands_against_what_was_sent() {
    let (broker, dir) = &common::broker_in_folder();
    let client = |more: &[&str]| run(dir, &[&["client", "--url", &broker.url, "--json"], more].concat());
    let line = "--schedule steps:100@1s,400@1s,arrivals=poisson --message-size 50,3000 --duration 2 --max-pending 500";
    let ended = client(&words(line));
    let object = ended.json();
    common::schema::assert_valid(&object);
    let requested = &object["scenarios"]["messages"]["requested"];
    let total = requested["total"].as_f64().expect("a number");
    assert!((total - 500.0).abs() < 5.0, "{requested}");
    let sent = object["scenarios"]["messages"]["sent"]["total"].as_f64().expect("a number");
    // The root of 500 is 22.
    assert!((sent - 500.0).abs() < 110.0, "{sent}");
    let windows = requested["over_time"].as_array().expect("windows");
    let asked = |at: usize| windows[at]["requested"].as_f64().expect("a number");
    assert!((asked(0) - 100.0).abs() < 5.0 && (asked(1) - 400.0).abs() < 5.0);
    // All else that is told.
    ended.says([" requested", " s  measure  sent ", "\nclient  ", "\nreport "]);
    common::file_has(only_run(dir).join("series.jsonl"), ["\"requested_rate\":"]);

    let messages =
        &client(&["--think-time", "5ms", "--message-count", "50", "--no-archive"]).json()["scenarios"]["messages"];
    assert_eq!((&messages["closed_loop"], &messages["requested"]), (&true.into(), &Value::Null));
}

#[test]
fn without_a_ledger_bodies_may_be_smaller_than_its_header() {
    let (broker, dir) = &common::broker_in_folder();
    let line = format!("producer --url {} --message-size 4 --message-count 20 --json --no-archive", broker.url);
    run(dir, &words(&line)).assert_error(2, &["a message of 4 bytes"]);
    let summary = run(dir, &words(&(line + " --no-ledger"))).json();
    let messages = &summary["scenarios"]["messages"];
    assert_eq!((&messages["completed"]["total"], &messages["ledger"]), (&20.into(), &Value::Null));
}
