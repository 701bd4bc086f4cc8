//! `erlang calls --root` and `erlang time` at a real RabbitMQ, whose management API is asked meanwhile.

use crate::common;
use crate::common::managed::{self, SharedNode};

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{ask_for_queues, run};
use erlang::Node;
use erlang::term::as_text;
use serde_json::Value;

const ROOT: &str = "rabbit_mgmt_wm_queues:to_json/2";

#[test]
fn the_management_api_is_followed_into_the_processes_that_it_asks() {
    let (dir, rabbit) = &managed::shared!();
    let port = rabbit.management();
    let url = format!("http://127.0.0.1:{port}");
    run(dir, &["topology", "generate", "--queues", "50", "-o", "d.json"]).assert_ok();
    run(dir, &["topology", "apply", "d.json", "--management", &url]).assert_ok();
    let (stop, told) = (AtomicBool::new(false), AtomicU64::new(0));
    let followed = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                told.fetch_add(u64::from(ask_for_queues(port)), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let arguments = ["--root", ROOT, "--for", "8", "-o", "path.folded", "--waits", "--json"];
        let followed = rabbit.inspect(dir, "calls", &arguments);
        stop.store(true, Ordering::Relaxed);
        followed
    })
    .json();
    assert!(told.load(Ordering::Relaxed) > 0, "the API was asked");
    api_calls_are_followed(&followed, dir);
    a_function_is_timed(dir, rabbit);
    nothing_is_left(&Node::connect(&rabbit.erlang()).expect("connected"));
}

fn api_calls_are_followed(followed: &Value, dir: &Path) {
    let calls = &followed["durations"]["calls"];
    assert!(calls.as_u64() > Some(0), "{followed:#}");
    assert!(followed["untraced"]["calls"].as_u64() > Some(0), "{followed:#}");
    let found = |name: &str| common::named(&followed["functions"], "function", name);
    assert_eq!(&found(ROOT)["calls"], calls);
    // It reads queues out of a cache, which is a process.
    let cache = found("[rabbit_mgmt_db_cache_queues]");
    assert!(cache["calls"].as_u64() > Some(0), "{cache:#}");
    found("rabbit_mgmt_db_cache:handle_call/3");
    let stacks = std::fs::read_to_string(dir.join("path.folded")).expect("stacks");
    let below = "gen_server:call/3;[rabbit_mgmt_db_cache_queues];rabbit_mgmt_db_cache:handle_call/3";
    assert!(stacks.lines().all(|line| line.starts_with(ROOT)), "{stacks}");
    assert!(stacks.contains(below), "{stacks}");
}

fn a_function_is_timed(dir: &Path, rabbit: &SharedNode) {
    let call = "rabbit_amqqueue:list(<<\"/\">>)";
    let timed = rabbit.inspect(dir, "time", &[call, "--times", "50", "--json", "-o", "time.svg"]).json();
    assert_eq!(timed["times"]["calls"], 50, "{timed:#}");
    assert!(timed["first_ns"].as_u64() > Some(0), "{timed:#}");
    assert!(timed["collected"]["words_per_call"].as_u64() > Some(50), "{timed:#}");
    let entry = common::named(&timed["traced"]["functions"], "function", "rabbit_amqqueue:list/1");
    assert_eq!(entry["calls"], 5, "{timed:#}");
    common::file_has(dir.join("time.svg"), ["rabbit_amqqueue:list/1"]);
    // Names are checked there, and nothing else than a call of terms is made.
    rabbit.inspect(dir, "time", &["rabbit_amqqueue:no(1)"]).assert_error(1, &["no such function"]);
    let nested = ["rabbit_amqqueue:list(erlang:halt())"];
    rabbit.inspect(dir, "time", &nested).assert_error(2, &["not a call of a function with terms"]);
}

fn nothing_is_left(node: &Node) {
    let question = testkit::left_on_node(&["gen", "gen_server", "rabbit_mgmt_wm_queues", "rabbit_amqqueue"]);
    common::wait_for("clean node", || {
        let left = node.evaluate(common::DEADLINE, &question).expect("an answer");
        as_text(&left).expect("a text") == testkit::NOTHING_LEFT
    });
}
