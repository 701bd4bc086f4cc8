//! Data of a broker that is prepared once: every run begins with a copy of it.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{bellows, folder, run, start};
use serde_json::Value;

/// Where the data is kept, below the folder that the commands run in.
const KEPT: &str = "kept";

/// A backlog in a stream and in a durable queue, 50 empty queues, and consumers that read the stream.
const EXPERIMENT: &str = include_str!("../data/experiments/prepared.toml");

fn experiment(dir: &Path, text: &str) {
    fs::write(dir.join("prepared.toml"), text).expect("a file");
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(path.clone(), fs::read(path).expect("a file"));
        }
    }
    all
}

fn records(dir: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    let mut folders = vec![dir.join(common::RUNS)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let record = entry.path().join("run.json");
            match fs::read(&record) {
                Ok(text) => found.push(serde_json::from_slice(&text).expect("JSON")),
                Err(_) => folders.push(entry.path()),
            }
        }
    }
    found
}

fn kept(dir: &Path) -> Vec<Value> {
    let listed = run(dir, &["runs", "data", "--dir", KEPT, "--json"]);
    listed.json().as_array().expect("a list").clone()
}

fn messages_in(record: &Value, queue: &str) -> Option<u64> {
    common::named(&record["topology"]["queues"], "name", queue)["messages"].as_u64()
}

#[test]
fn runs_begin_with_copies_of_what_was_prepared_once() {
    testkit::needs_rabbitmq!();
    let dir = &*folder();
    experiment(dir, EXPERIMENT);
    let twice = start(bellows(dir, &["run", "prepared.toml", "--repeat", "2"])).end_of_long().ok();
    let told = ["later runs start from copies\n", "a copy of prepared data"].map(|it| twice.stderr.matches(it).count());
    assert_eq!(told, [1, 2], "{}", twice.stderr);
    let kept = kept(dir);
    let data = testkit::only(&kept);
    let key = data["key"].as_str().expect("a key");
    let original = dir.join(KEPT).join(key);
    let before = files(&original);
    let found = records(dir);
    assert_eq!(found.len(), 2);
    for record in &found {
        let summary = &record["summary"];
        let messages = &summary["scenarios"]["messages"];
        assert_eq!(messages["received"]["total"], 20_000, "{summary:#}");
        // Their age is that of the data, and no latency of this run.
        assert_eq!(messages["latency"]["end_to_end"]["count"], 0, "{summary:#}");
        assert_eq!(messages_in(record, "backlog"), Some(2_000));
        assert_eq!(messages_in(record, "empty49"), Some(0));
        testkit::assert_has(record["events"].to_string(), ["a copy of prepared data"]);
    }

    assert!(before == files(&original), "the original has changed");
    run(dir, &["runs", "data", "--dir", KEPT, "--remove", key]).assert_ok();
    assert_eq!(fs::read_dir(dir.join(KEPT)).expect("the folder").count(), 0);
}

#[test]
#[ignore = "six starts of RabbitMQ: make prove"]
fn both_sides_of_a_comparison_begin_with_the_same_data() {
    let dir = &*folder();
    experiment(dir, EXPERIMENT);
    run(dir, &["run", "prepared.toml"]).assert_ok();
    // B would not prepare the same by itself.
    let line = "ab prepared.toml --pairs 2 --b-set broker.config.heartbeat=77 --set phases.measure=1s --quiet";
    let ended = start(bellows(dir, &common::words(line))).end_of_long();
    assert!(matches!(ended.code(), Some(0 | 3 | 4)), "{ended:#?}");
    // A pair that something disturbed is made again.
    let found = records(dir);
    assert!(found.len() >= 5 && found.len() % 2 == 1, "{ended:#?}");
    for record in &found {
        assert_eq!(record["summary"]["scenarios"]["messages"]["received"]["total"], 20_000, "{record:#}");
    }
    assert_eq!(kept(dir).len(), 1, "both sides began with the same data");
}

/// Whether a broker that is being filled has written messages of a stream.
fn is_filling(dir: &Path) -> bool {
    let brokers = fs::read_dir(dir.join(KEPT)).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = brokers.map(|entry| entry.path().join("data")).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|it| it == "segment") {
                if entry.metadata().is_ok_and(|file| file.len() > 100_000) {
                    return true;
                }
            } else {
                folders.push(path);
            }
        }
    }
    false
}

#[test]
#[ignore = "three starts of RabbitMQ: make prove"]
fn data_that_is_half_filled_when_bellows_is_killed_is_prepared_anew() {
    testkit::needs_rabbitmq!();
    let dir = &*folder();
    experiment(dir, &EXPERIMENT.replace("fill = 20_000", "fill = 400_000"));
    let killed = start(bellows(dir, &["run", "prepared.toml"]));
    common::wait_for("a queue that is being filled", || is_filling(dir));
    killed.signal("KILL");
    let ended = killed.end();
    assert_eq!(ended.code(), None, "{ended:#?}");
    assert_eq!(kept(dir), Vec::<Value>::new(), "half of it counts as nothing");
    start(bellows(dir, &["run", "prepared.toml"])).end_of_long().ok().says(["preparing the data of"]);
    let kept = kept(dir);
    let data = testkit::only(&kept);
    assert!(data["what"].to_string().contains("402,000 messages"), "{data:#}");
    // The guardian of the killed one has removed what it had filled by then.
    let brokers = || {
        let entries = fs::read_dir(dir.join(KEPT)).expect("the folder").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("bellows-")).collect::<Vec<_>>()
    };
    common::wait_for("the end of what was begun", || brokers().is_empty());
}

#[test]
fn what_cannot_be_kept_is_refused_before_anything_is_started() {
    let dir = &*folder();
    experiment(dir, EXPERIMENT);
    for (change, parts) in [
        ("broker.nodes=3", ["broker.data", "one node"]),
        ("prepare.1.persistent=false", ["prepare.1.persistent", "would be gone"]),
        ("prepare.1.rate=5", ["prepare.1.rate", "no effect"]),
        ("broker.kind=embedded", ["broker.data", "no effect"]),
    ] {
        run(dir, &["run", "prepared.toml", "--set", change]).assert_error(2, &parts);
    }
    assert!(!dir.join(KEPT).exists());
    run(dir, &["runs", "data", "--dir", KEPT]).ok().prints(["no prepared data"]);
    run(dir, &["runs", "data", "--dir", KEPT, "--remove", "0123"]).assert_error(1, &["no prepared data 0123", KEPT]);
}
