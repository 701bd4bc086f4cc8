//! Ways to publish and consume beyond the usual, against a real RabbitMQ.

use crate::common;
use crate::common::managed;

use serde_json::Value;

/// The summary's messages of these loads.
fn run(url: &str, until: Option<&str>, text: &str) -> Value {
    let dir = common::folder();
    let until = until.map_or_else(String::new, |until| format!("until = {until:?}\n"));
    let settings = format!(
        "threads = 2\n{until}[broker]\nkind = \"attach\"\nurl = \"{url}\"\n[phases]\nwarmup = 0\nmeasure = 0\n\
         [profile]\nevents = []\n"
    );
    std::fs::write(dir.join("workloads.toml"), settings + text).expect("write");
    common::run(&dir, &["run", "workloads.toml", "--json", "--quiet"]).json()["scenarios"]["messages"].clone()
}

#[test]
fn every_way_to_publish_and_consume_loses_nothing_on_rabbitmq() {
    let (_, node) = &managed::shared!();
    let total = |messages: &Value, name: &str| messages[name]["total"].as_u64().expect("a total");
    let totals = |messages: &Value| ["sent", "completed", "received"].map(|name| total(messages, name));
    // The fourth group's messages reach two queues.
    let messages = run(&node.url(), None, include_str!("../data/experiments/workloads.toml"));
    assert_eq!(totals(&messages), [6 * 500 + 250, 6 * 500 + 250, 7 * 500], "{messages:#}");
    for count in ["lost", "duplicated", "reordered", "corrupt", "foreign"] {
        assert_eq!(messages["ledger"][count], 0, "{count}: {messages:#}");
    }

    // A transaction's messages are acknowledged by its commit, and the next waits for it.
    let text = "[[load]]\ndestination = \"queue://commits\"\ncommit-every = 100\n\
                message-count = 1000\nconsumers = 0\npersistent = true\n";
    let messages = run(&node.url(), None, text);
    assert_eq!(total(&messages, "completed"), 1_000);
    assert_eq!(messages["latency"]["send_ack"]["count"], 1_000, "{messages:#}");

    // Replies answer requests, and nothing else does.
    let text = "[[load]]\ndestination = \"queue://asked\"\nrequest-reply = true\nmax-pending = 20\n\
                producers = 3\nconsumers = 2\nrate = 2000\nmessage-count = 2000\nprefetch = 50\n";
    let messages = run(&node.url(), None, text);
    assert_eq!((totals(&messages), &messages["ledger"]["lost"]), ([2_000; 3], &0.into()));
    let median = |name: &str| messages["latency"][name]["p50_ns"].as_u64();
    assert!(median("ack_response") > median("end_to_end"), "a reply comes after its request: {messages:#}");

    // What waits there is refused once; then nothing is left, and that ends the run.
    let text = "[[load]]\ndestination = \"queue://commits\"\nproducers = 0\nrefuse = \"discard\"\n";
    for left in [1_000, 0] {
        assert_eq!(total(&run(&node.url(), Some("empty"), text), "received"), left);
    }
}
