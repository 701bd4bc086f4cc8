//! Churn as a run: its folder, its counts beside those of the broker, its end by force.

use crate::common;
use crate::common::managed;

use std::fs;
use std::path::Path;

use common::{Ended, bellows, folder, run, start};
use serde_json::Value;

const REFUSED: &str = include_str!("../data/experiments/refused-logins.toml");

fn object(ended: &Ended) -> Value {
    let object = ended.json();
    common::schema::assert_valid(&object);
    object
}

#[test]
fn refused_logins_are_counted_exactly_and_a_stall_counts_for_all_that_were_due() {
    let dir = &*folder();
    fs::write(dir.join("refused.toml"), REFUSED).expect("file");
    let object = object(&run(dir, &["run", "refused.toml", "--json", "--quiet"]));
    let churn = &object["scenarios"]["churn"];
    assert_eq!(common::named(&object["faults"], "kind", "refuse-login")["count"], 37, "{object:#}");
    let of = |key: &str| churn[key].as_u64().expect("a count");
    assert_eq!((of("begun"), of("failed"), of("not_begun")), (300, 37, 0), "{churn:#}");
    assert_eq!(of("completed"), 300 - 37, "{churn:#}");
    let failures = churn["failures"].as_array().expect("failures");
    assert_eq!(failures.len(), 1, "one reason: {failures:#?}");
    assert_eq!(failures[0]["count"], 37);
    let steps = &churn["latency"];
    assert_eq!(steps["cycle"]["count"], 300 - 37);
    assert_eq!(steps["connect"]["count"], 300, "refusals come after it");
    // 20 cycles were due in the stall, evenly: the slowest of them waited for nearly all of it.
    let max = steps["cycle"]["max_ns"].as_u64().expect("max");
    assert!(max > 90_000_000, "{steps:#}");
    let p50 = steps["cycle"]["p50_ns"].as_u64().expect("p50");
    assert!(p50 < max / 2, "{steps:#}");
    let asked = &churn["requested"];
    assert_eq!(asked["rate"].as_f64().map(f64::round), Some(200.0), "{asked:#}");
    common::named(&object["warnings"], "code", "cycles_failed");

    run(dir, &["runs"]).prints(["cycles"]);
    run(dir, &["runs", "report", "last"]).assert_ok();
    let tags = ["Tag=warmup_cycle,", "Tag=cycle,", "Tag=log_in,", "Tag=close,"];
    common::file_has(common::only_run(dir).join("latency.hlog"), tags);
}

#[test]
fn a_killed_churn_leaves_a_readable_folder() {
    let (broker, dir) = &common::broker_in_folder();
    let args = ["churn", "connections", "--url", &broker.url, "--rate", "100", "--duration", "60"];
    let churn = start(bellows(dir, &args));
    common::wait_for("recorded second", || common::seconds_recorded(dir) >= 2);
    churn.signal("KILL");
    let _ = churn.end();
    run(dir, &["runs"]).prints(["unfinished"]);
    let report = run(dir, &["runs", "report", "last"]).ok();
    let parts = ["connections per second opened and closed", "<th>log in</th>"];
    common::file_has(dir.join(report.stdout.trim_end()), parts);
}

#[test]
fn a_broker_that_refuses_every_login_is_an_error_and_leaves_no_folder() {
    let dir = &*folder();
    let text = REFUSED.replace("at = \"300ms\", ", "").replace(", count = 37", "");
    fs::write(dir.join("all.toml"), text).expect("file");
    run(dir, &["run", "all.toml", "--quiet"]).assert_error(1, &["ACCESS_REFUSED"]);
    assert_eq!(fs::read_dir(dir.join("runs")).map_or(0, Iterator::count), 0);
}

/// The ready-made experiment, short: both kinds of load start and end together, and each keeps its rate.
#[test]
fn connections_come_and_go_beside_messages() {
    let (dir, node) = &managed::shared!();
    let node = node.options();
    let mut line = common::words(
        "run churn-beside --set phases.warmup=1s --set phases.measure=3s --set load.0.rate=500 --set churn.rate=20 \
         --json --quiet",
    );
    line.extend(node.iter().map(String::as_str));
    let object = object(&run(dir, &line));
    let messages = &object["scenarios"]["messages"];
    let churn = &object["scenarios"]["churn"];
    assert_eq!((&churn["begun"], &churn["completed"]), (&60.into(), &60.into()));
    assert_eq!(churn["latency"]["log_in"]["count"], 60, "{churn:#}");
    // Without a core some are due and never leave.
    let sent = messages["sent"]["total"].as_u64().unwrap_or(0);
    assert!((1_800..=2_000).contains(&sent), "{object:#}");
    assert_eq!(messages["received"]["total"], sent, "{object:#}");
    let measured = messages["latency"]["end_to_end"]["count"].as_u64().unwrap_or(0);
    assert!((1_300..=1_500).contains(&measured), "{object:#}");
    assert_eq!(messages["ledger"]["lost"], 0);
    // The CPU of either cannot be told from the other's.
    assert_eq!(messages["cpu_us_each"]["broker"], Value::Null);
    assert_eq!(churn["cpu_us_each"]["broker"], Value::Null);
    let rate = |of: &Value| of["requested"]["rate"].as_f64().map(f64::round);
    assert_eq!((rate(messages), rate(churn)), (Some(500.0), Some(20.0)));
    // Whenever the last cycle began: requested and achieved are of the same cycles as the counts.
    let achieved = churn["requested"]["achieved"].as_f64().expect("a share");
    assert!((achieved - 1.0).abs() < 1e-9, "{churn:#}");
    let series = fs::read_to_string(common::only_run(dir).join("series.jsonl")).expect("a series");
    let both = series.lines().filter(|line| {
        let point: Value = serde_json::from_str(line).expect("JSON");
        point["counters"]["sent"].as_u64() > Some(400) && point["scenarios"]["churn"]["begun"].as_u64() > Some(10)
    });
    assert!(both.count() >= 3, "each second has both: {series}");
}

/// The ready-made experiment, short: RabbitMQ takes every kind, and the flame graph has its code.
#[test]
fn rabbitmq_ends_every_cycle_in_order() {
    let (dir, node) = &managed::shared!();
    let node = node.options();
    for (kind, step) in [("connections", "log_in"), ("queues", "declare")] {
        let line = format!(
            "run connection-churn --set phases.warmup=1s --set phases.measure=3s --set churn.rate=40 --set \
             churn.kind={kind} --json --quiet"
        );
        let mut line = common::words(&line);
        line.extend(node.iter().map(String::as_str));
        let object = object(&run(dir, &line));
        let churn = &object["scenarios"]["churn"];
        let count = |key: &str| churn[key].as_u64().expect("a count");
        // A machine whose disk is busy may hold the node up for a second: what was due then is not begun.
        assert_eq!(count("begun") + count("not_begun"), 120, "{churn:#}");
        assert!(count("begun") > 40, "{churn:#}");
        assert_eq!(churn["completed"], churn["begun"], "{churn:#}");
        assert_eq!(churn["latency"][step]["count"], churn["begun"], "{churn:#}");
        assert!(object["verdict"].is_object());
        let copied = object["profiles"][0]["copied_share"].as_f64();
        if step == "log_in" && copied.is_some_and(|share| share > 0.5) {
            roles_of_what_has_ended(dir);
        }
    }
}

/// The connections have gone when the node reads its processes: their stacks name the roles.
fn roles_of_what_has_ended(dir: &Path) {
    let rows = run(dir, &["top", "last", "--by", "role", "--json"]).json();
    let connections = common::named(&rows, "of", "connection");
    assert!(connections["share"].as_f64() > Some(0.05), "{connections}");
    assert!(connections["from_stacks"].as_u64() > Some(20), "{connections}");
    run(dir, &["top", "last", "--by", "role"]).prints(["known by their stacks alone"]);
}
