//! A cluster of three real RabbitMQ nodes on one machine: a killed node, policies and definitions, and remains after
//! `kill -9`.

use crate::common;

use std::fs;
use std::path::Path;

use serde_json::Value;
use stacks::{FORMATS, Profile};

#[test]
fn a_killed_node_loses_no_confirmed_message_of_a_quorum_queue() {
    testkit::needs_rabbitmq!();
    let dir = &*common::folder();
    let queues = r#"{"queues": [{"name": "defined", "vhost": "/", "durable": true,
        "auto_delete": false, "arguments": {}}]}"#;
    fs::write(dir.join("queues.json"), queues).expect("write");
    fs::write(dir.join("cluster.toml"), include_str!("../data/experiments/cluster.toml")).expect("write");
    let summary = common::run(dir, &["run", "cluster.toml", "--json", "--quiet"]).json();
    let ledger = &summary["scenarios"]["messages"]["ledger"];
    assert_eq!((&ledger["lost"], &ledger["corrupt"]), (&0.into(), &0.into()), "{summary:#}");
    let fault = &summary["faults"][0];
    assert_eq!(fault["node"], 1, "{fault:#}");
    let (back, first) = (fault["back_s"].as_f64(), fault["first_confirm_s"].as_f64());
    // The other nodes went on confirming.
    assert!(first.is_some() && first < back, "{fault:#}");
    each_node_is_profiled(&summary);
    each_node_is_traced(&summary);
    each_node_is_scraped(&summary);
    queues_have_their_members(&summary);
    // The others went on while it was away.
    let nodes = summary["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 3, "{summary:#}");
    for node in nodes {
        assert!(node["cpu_cores"].as_f64().is_some_and(|it| it > 0.0), "{node:#}");
        let was_killed = node["node"] == 1;
        assert_eq!(node["ran_s"].is_number(), was_killed, "{node:#}");
        assert!(node["rss_mb"].as_f64().is_some_and(|it| it > 10.0), "{node:#}");
    }
}

/// A trace of a node sees its calls alone, and ends with it.
fn each_node_is_traced(summary: &Value) {
    let traces = &summary["traces"];
    let of = |name: &str| common::named(traces, "scenario", name);
    let (survivor, killed) = (of("trace_survivor"), of("trace_killed"));
    // Twenty calls of the measured phase, and what came before them.
    let kept = survivor["kept"].as_u64();
    assert!(kept.is_some_and(|it| (20..=40).contains(&it)), "{survivor:#}");
    assert!(killed["kept"].as_u64() > Some(0), "{killed:#}");
    let ended = killed["ended"].as_str().unwrap_or_default();
    assert_eq!(ended, "the run's own kill of node 1", "{killed:#}");
    assert_ne!(survivor["node"], killed["node"], "{traces:#?}");
}

/// Each node serves a page of its own, which is away while the node is killed.
fn each_node_is_scraped(summary: &Value) {
    let scrapes = summary["scrapes"].as_array().expect("scrapes");
    let shown: Vec<_> = scrapes.iter().map(|it| (it["name"].clone(), it["failed"] != 0)).collect();
    let expected = [0, 1, 2].map(|node| (Value::from(format!("/metrics/per-object of node {node}")), node == 1));
    assert_eq!(shown, expected, "{scrapes:#?}");
    for page in [0, 2].map(|node| &scrapes[node]) {
        assert!(page["completed"].as_u64() >= Some(10), "{page:#}");
        assert!(page["series"].as_u64() > Some(100), "{page:#}");
    }
}

/// The report has the leader of a quorum queue and all its members, and where the other queue is.
fn queues_have_their_members(summary: &Value) {
    let run = Path::new(summary["run_dir"].as_str().expect("a run folder"));
    let page = common::page(&run.join("report.html"));
    let queue = |name: &str| common::named(&page["topology"]["queues"], "name", name);
    let (quorum, defined) = (queue("quorum"), queue("defined"));
    let members = quorum["members"].as_array().expect("members");
    assert_eq!(members, &["node 0", "node 1", "node 2"], "{quorum:#}");
    for queue in [quorum, defined] {
        assert!(members.contains(&queue["leader"]), "{queue:#}");
    }
    assert_eq!(defined["members"], Value::Null, "{defined:#}");
}

/// Surviving nodes have profiles in files of their own, with the roles of their own processes.
fn each_node_is_profiled(summary: &Value) {
    let run = Path::new(summary["run_dir"].as_str().expect("a run folder"));
    for (node, name) in [(0, "cpu"), (2, "cpu@2")] {
        let profile = common::named(&summary["profiles"], "node", node);
        assert!(profile["samples"].as_u64() > Some(10), "{profile:#}");
        let read = Profile::open_as(&FORMATS, run, Some(name)).expect("a profile");
        assert_eq!(read.header.node, Some(node));
        assert_eq!(profile["samples"].as_u64(), Some(read.samples.len() as u64), "each file has its node's samples");
        let of_queue = read.processes.iter().any(|it| it.label().contains("quorum"));
        assert!(of_queue, "node {node} names its own processes");
        assert!(run.join(format!("{name}.svg")).exists());
    }
    let warnings = summary["warnings"].as_array().expect("warnings").iter();
    let texts: Vec<&str> = warnings.filter_map(|it| it["text"].as_str()).collect();
    // It is sampled again from its return on, and the warning says so with both times.
    let lacks = |text: &&str| text.contains("the profile of node 1 ends with the kill at");
    assert_eq!(texts.iter().filter(|it| lacks(it)).count(), 1, "{texts:#?}");
    let ended = |text: &&str| text.contains("covers it until then");
    assert!(!texts.iter().any(ended), "{texts:#?}");
    let pid = |event| Profile::open_as(&FORMATS, run, event).expect("a profile").header.pid;
    assert_ne!(pid(None), pid(Some("cpu@2")));
    common::run(run, &["top", &run.display().to_string(), "--event", "cpu@2"]).assert_ok();
    let drawn = &common::page(&run.join("report.html"))["profiles"];
    assert_eq!(drawn[0]["event"], "cpu", "{drawn:#}");
    common::named(drawn, "event", "cpu@2");
}

#[test]
#[ignore = "a cluster of its own: make prove"]
fn nothing_is_left_of_a_cluster_whose_bellows_is_killed() {
    testkit::needs_rabbitmq!();
    let dir = &*common::folder();
    let data = dir.join("data");
    fs::create_dir(&data).expect("a folder");
    fs::write(dir.join("two.toml"), "[broker]\nnodes = 2\n[profile]\nevents = []\n[[load]]\n").expect("write");
    let mut command = common::bellows(dir, &["run", "two.toml", "--quiet"]);
    let mut bellows = command.env("TMPDIR", &data).spawn().expect("it starts");
    let nodes = || {
        let names = fs::read_dir(&data).into_iter().flatten().flatten();
        names.filter(|it| it.path().join("broker.log").exists()).count()
    };
    let wait = |count: usize| common::wait_for("number of nodes", || nodes() == count);
    wait(2);
    bellows.kill().expect("SIGKILL");
    bellows.wait().expect("its end");
    wait(0);
}

fn pid_of_node(data: &Path, number: u8) -> Option<u32> {
    let address = format!(".{}", number + 1);
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let is_node = |pid: &u32| {
        let of = |file: &str| format!("/proc/{pid}/{file}");
        let command = fs::read(of("cmdline")).unwrap_or_default();
        let words = command.split(|it| *it == 0).map(String::from_utf8_lossy);
        let mut words = words.skip_while(|it| *it != "-name").skip(1);
        fs::read_link(of("cwd")).is_ok_and(|it| it.starts_with(data))
            && fs::read_to_string(of("comm")).is_ok_and(|it| it.starts_with("beam.smp"))
            && words.next().is_some_and(|name| name.ends_with(&address))
    };
    let found: Vec<u32> = pids.filter(is_node).collect();
    assert!(found.len() < 2, "{found:?} are node {number}");
    found.first().copied()
}

#[test]
#[ignore = "a cluster of its own: make prove"]
fn a_fault_that_fails_is_told_and_the_next_one_takes_place() {
    testkit::needs_rabbitmq!();
    let dir = &*common::folder();
    let data = dir.join("data");
    fs::create_dir(&data).expect("a folder");
    fs::write(dir.join("broken.toml"), include_str!("../data/experiments/broken.toml")).expect("write");
    let args = ["run", "broken.toml", "--json", "--quiet"];
    let started = common::start(common::bellows(dir, &args).env("TMPDIR", &data));
    common::wait_for("a load", || common::seconds_recorded(dir) > 0);
    // The node ends by itself, before its fault.
    let data = data.canonicalize().expect("a path");
    let pid = pid_of_node(&data, 1).expect("node 1");
    common::signal(pid, "KILL");
    let ended = started.end().ok();

    let summary = ended.printed();
    common::schema::assert_valid(&summary);
    let record = common::record(dir);
    for summary in [&summary, &record["summary"]] {
        let faults = &summary["faults"];
        assert_eq!(faults[0]["failed"], "RabbitMQ is gone", "{faults:#}");
        assert!(faults[0]["back_s"].is_null(), "{faults:#}");
        assert!(faults[1].get("failed").is_none(), "{faults:#}");
        assert!(faults[1]["back_s"].as_f64() >= Some(0.3), "{faults:#}");
        let warnings = summary["warnings"].as_array().expect("warnings");
        let is_told = |code: &str| warnings.iter().any(|it| it["code"] == code && it["tier"] != "note");
        assert!(is_told("faults_missed") && is_told("node_gone"), "{warnings:#?}");
    }

    // What is wrapped on a terminal is one sentence.
    let told = [
        " s: failed: RabbitMQ is gone",
        " s: node 0 back 0.",
        "of 2 faults, 1 failed (stop of node 1: RabbitMQ is gone)",
        "node 1 of the cluster was gone when the run ended",
    ];
    testkit::assert_has(common::words(&common::figures(dir)).join(" "), told);
}
