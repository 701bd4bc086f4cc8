//! Whose work a real RabbitMQ does.

mod common;

use std::fs;

use serde_json::Value;

#[test]
fn the_work_of_two_queues_is_told_apart() {
    if !testkit::has_rabbitmq() {
        testkit::skip!("rabbitmq-server is not installed: apt-get install rabbitmq-server");
    }
    let dir = common::folder();
    let load = |queue: &str, rate: u32| {
        format!("[[load]]\ndestination = \"queue://{queue}\"\nrate = {rate}\nmax-pending = 1000\n")
    };
    let experiment = format!(
        "name = \"work\"\n[broker]\nkind = \"rabbitmq\"\n[phases]\nwarmup = \"1s\"\nmeasure = \"5s\"\n{}{}",
        load("busy", 3000),
        load("idle", 1000)
    );
    fs::write(dir.path().join("work.toml"), experiment).expect("write");
    let ended = common::start(common::bellows(dir.path(), &["run", "work.toml"])).end();
    ended.assert_ok();
    let report = dir.path().join(ended.report());
    let record = fs::read(report.with_file_name("run.json")).expect("run.json");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    let Some(profile) = record["summary"]["profiles"].get(0) else {
        testkit::skip!("this user may not profile: {}", ended.stderr);
    };
    if profile["copied_share"].as_f64().unwrap_or(0.0) < 0.5 {
        testkit::skip!("this user may not copy stacks: {}", ended.stderr);
    }
    assert!(ended.stdout.contains("whose work: "), "{}", ended.stdout);
    let rows = |by: &str| {
        let args = ["top", "last", "--by", by, "--json", "--limit", "1000"];
        let ended = common::start(common::bellows(dir.path(), &args)).end();
        ended.assert_ok();
        let rows: Vec<Value> = serde_json::from_str(&ended.stdout).expect("rows");
        move |of: &str| {
            let row = rows.iter().find(|row| row["of"] == of);
            row.and_then(|row| row["share"].as_f64()).unwrap_or(0.0)
        }
    };
    let share = rows("process");
    let (busy, idle) = (share("queue busy"), share("queue idle"));
    // A queue handles what comes together for less, so that three times the rate is less than three times the
    // work.
    assert!(busy > 0.02 && idle > 0.005, "{busy} and {idle}");
    assert!((1.2..4.5).contains(&(busy / idle)), "{busy} and {idle}");
    let role = rows("role");
    assert!(
        (role("queue") - busy - idle).abs() < 0.01,
        "{}",
        role("queue")
    );
    assert!(role("channel") > 0.05, "{}", role("channel"));
    let connection = rows("connection");
    let of = |queue: &str| connection(&format!("bellows producer 0 of queue://{queue}"));
    assert!(of("busy") > 0.0, "{}", ended.stdout);
    assert!(rows("vhost")("/") > 0.3);
}
