//! A cluster of three real RabbitMQ nodes on one machine: a node that is killed, policies and definitions, and what is
//! left after `kill -9`.

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use archive::profile::{FORMATS, Profile};
use serde_json::Value;

const EXPERIMENT: &str = r#"
name = "cluster"
[broker]
kind = "rabbitmq"
nodes = 3
definitions = "queues.json"
[[broker.policy]]
pattern = "^defined$"
definition = { max-length = 100000 }
[phases]
warmup = "500ms"
measure = "6s"
drain = "30s"
[profile]
frequency = 99
[[fault]]
at = "500ms"
kind = "kill"
node = 1
for = "500ms"
[[load]]
destination = "queue://quorum"
queue-type = "quorum"
persistent = true
producers = 3
consumers = 3
rate = 200
max-pending = 200
message-size = 100
ack = 20
nodes = "all"
recover = "100ms-400ms"
[[load]]
destination = "queue://defined"
declare = false
rate = 20
max-pending = 200
message-size = 100
nodes = [2, 0]
recover = "100ms-400ms"
"#;

#[test]
fn a_killed_node_loses_no_confirmed_message_of_a_quorum_queue() {
    if !testkit::has_rabbitmq() {
        testkit::skip!("rabbitmq-server is not installed: apt-get install rabbitmq-server");
    }
    let dir = common::folder();
    let queues = r#"{"queues": [{"name": "defined", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}}]}"#;
    fs::write(dir.path().join("queues.json"), queues).expect("write");
    fs::write(dir.path().join("cluster.toml"), EXPERIMENT).expect("write");
    let args = ["run", "cluster.toml", "--json", "--quiet"];
    let ended = common::start(common::bellows(dir.path(), &args)).end();
    ended.assert_ok();
    let summary: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let ledger = &summary["ledger"];
    assert_eq!(ledger["lost"], 0, "{summary:#}");
    assert_eq!(ledger["corrupt"], 0, "{summary:#}");
    let fault = &summary["faults"][0];
    assert_eq!(fault["node"], 1, "{fault:#}");
    assert!(fault["back_s"].as_f64().is_some(), "{fault:#}");
    // The other nodes went on confirming.
    assert!(fault["first_confirm_s"].is_null(), "{fault:#}");
    each_node_is_profiled(&summary);
    // The others went on while it was away.
    let nodes = summary["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 3, "{summary:#}");
    for node in nodes {
        // Its CPU is read once a second, and node 1 was killed before that.
        let was_killed = node["node"] == 1;
        assert!(
            was_killed || node["cpu_cores"].as_f64().is_some_and(|it| it > 0.0),
            "{node:#}"
        );
        assert!(
            node["rss_mb"].as_f64().is_some_and(|it| it > 10.0),
            "{node:#}"
        );
    }
}

/// Those that were not killed, in files of their own and with the roles of their own processes.
fn each_node_is_profiled(summary: &Value) {
    let run = Path::new(summary["run_dir"].as_str().expect("a run folder"));
    let profiles = summary["profiles"].as_array().expect("profiles");
    for (node, name) in [(0, "cpu"), (2, "cpu@2")] {
        let profile = profiles.iter().find(|it| it["node"] == node);
        let profile = profile.unwrap_or_else(|| panic!("no profile of node {node}: {summary:#}"));
        assert!(profile["samples"].as_u64() > Some(10), "{profile:#}");
        let read = Profile::open_as(&FORMATS, run, Some(name)).expect("a profile");
        assert_eq!(read.header.node, Some(node));
        assert_eq!(
            profile["samples"].as_u64(),
            Some(read.samples.len() as u64),
            "each file has its node's samples"
        );
        let of_queue = read
            .processes
            .iter()
            .any(|it| it.label().contains("quorum"));
        assert!(of_queue, "node {node} names its own processes");
        assert!(run.join(format!("{name}.svg")).exists());
    }
    let pids = [None, Some("cpu@2")].map(|event| {
        let read = Profile::open_as(&FORMATS, run, event).expect("a profile");
        read.header.pid
    });
    assert_ne!(pids[0], pids[1]);
    let (page, _) = common::page_parts(&run.join("report.html"));
    let drawn = page["profiles"].as_array().expect("profiles").iter();
    let drawn: Vec<&str> = drawn.filter_map(|it| it["event"].as_str()).collect();
    assert!(
        drawn.starts_with(&["cpu"]) && drawn.contains(&"cpu@2"),
        "{drawn:?}"
    );
}

#[test]
fn nothing_is_left_of_a_cluster_whose_bellows_is_killed() {
    if !testkit::has_rabbitmq() {
        testkit::skip!("rabbitmq-server is not installed: apt-get install rabbitmq-server");
    }
    let dir = common::folder();
    let data = dir.path().join("data");
    fs::create_dir(&data).expect("a folder");
    let file = "[broker]\nnodes = 3\n[profile]\nevents = []\n[[load]]\n";
    fs::write(dir.path().join("three.toml"), file).expect("write");
    let mut command = common::bellows(dir.path(), &["run", "three.toml", "--quiet"]);
    let mut bellows = command.env("TMPDIR", &data).spawn().expect("it starts");
    let nodes = || {
        let names = fs::read_dir(&data).into_iter().flatten().flatten();
        names
            .filter(|it| it.path().join("broker.log").exists())
            .count()
    };
    let wait = |count: usize| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while nodes() != count {
            assert!(Instant::now() < deadline, "{} nodes, not {count}", nodes());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait(3);
    bellows.kill().expect("SIGKILL");
    bellows.wait().expect("its end");
    wait(0);
}
