//! What a summary says of who limited the run, where the situation leaves no doubt however busy the
//! machine is.

mod common;

use common::{Broker, bellows, folder, start};
use serde_json::Value;

fn produce(more: &str) -> (Value, String) {
    let dir = folder();
    let broker = Broker::start(dir.path());
    let line = format!(
        "producer queue://verdict --url {} --warmup 300ms --duration 1 --json {more}",
        broker.url
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = bellows(dir.path(), &words);
    command.env("XDG_DATA_HOME", dir.path());
    let ended = start(command).end();
    ended.assert_ok();
    let object: Value = serde_json::from_str(&ended.stdout).expect("an object");
    (object["verdict"].clone(), ended.stderr)
}

#[test]
fn one_message_in_flight_waits_for_its_answer() {
    let (verdict, text) = produce("--max-pending 1 --message-size 64");
    let evidence = &verdict["evidence"];
    assert_eq!(evidence["in_flight_limit"], 1, "{verdict}");
    assert!(
        evidence["producers"]["budget"].as_f64() > Some(0.5),
        "{verdict}"
    );
    assert!(evidence["answer_ns"].as_u64() > Some(0), "{verdict}");
    assert!(evidence["broker"]["busiest_thread"].is_f64(), "{verdict}");
    assert_eq!(verdict["reasons"][0]["code"], "in_flight_full", "{verdict}");
    let sentence = verdict["sentence"].as_str().expect("a sentence");
    // Wrapped or not, the terminal says the same.
    let text: Vec<&str> = text.split_whitespace().collect();
    assert!(
        text.join(" ").contains(&format!("verdict: {sentence}")),
        "{text:?}"
    );
}

#[test]
fn an_alarm_limits_the_run() {
    let dir = folder();
    let broker = Broker::with(dir.path(), &["--memory-limit", "1MB"]);
    let line = format!(
        "producer queue://verdict --url {} --no-confirm --message-size 1024 --warmup 500ms \
         --duration 1 --json --quiet --no-archive",
        broker.url
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    let ended = start(bellows(dir.path(), &words)).end();
    ended.assert_ok();
    let object: Value = serde_json::from_str(&ended.stdout).expect("an object");
    let verdict = &object["verdict"];
    assert!(
        verdict["evidence"]["producers"]["blocked"].as_f64() > Some(0.8),
        "{verdict}"
    );
    if verdict["limited_by"] != "undecided" {
        assert_eq!(verdict["limited_by"], "broker", "{verdict}");
        assert!(
            verdict["sentence"]
                .to_string()
                .contains("connection.blocked"),
            "{verdict}"
        );
    }
}
