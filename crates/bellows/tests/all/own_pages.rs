//! Pages that a run serves itself for its probes, read from a real RabbitMQ's node.

use crate::common;

use std::path::Path;

use common::{folder, run};

#[test]
#[ignore = "a start and a restart of its own: make prove"]
fn a_page_of_queues_answers_before_and_after_a_restart_of_the_node() {
    testkit::needs_rabbitmq!();
    let dir = &*folder();
    std::fs::write(dir.join("pages.toml"), include_str!("../data/experiments/pages.toml")).expect("a file");
    let summary = run(dir, &["run", "pages.toml", "--json", "--quiet"]).json();
    for probe in ["probe_api", "probe_page"] {
        let counts = &summary["scenarios"][probe];
        let [completed, failed] =
            ["completed", "failed"].map(|what| counts[format!("{probe}_{what}")].as_u64().expect(what));
        // 12 are due before the kill; without a new connection to the node none would follow.
        assert!(completed > 20, "{probe}: {completed} completed, {failed} failed");
        assert!(failed > 0, "{probe}: the restart takes seconds");
    }
}

/// With `--verbose` a start shows the broker's log.
fn the_brokers_log_is_shown(stderr: &str) {
    let logged: Vec<&str> = stderr.lines().filter(|line| line.starts_with("broker log: ")).collect();
    assert!(logged.len() > 10, "{stderr}");
    testkit::assert_has(logged.join("\n"), ["Starting RabbitMQ", "connection"]);
}

/// A page of the broker's own metrics beside one that this process serves at `other`.
pub(crate) fn scrapes(other: &str) -> String {
    format!(
        "[[scrape]]\nurl = \"/metrics/per-object\"\nevery = \"1s\"\nselect = [\"sum(rabbitmq_queue_messages)\"]\n\
         [[scrape]]\nname = \"other\"\nurl = \"{other}\"\nevery = \"1s\"\n"
    )
}

/// Checks the output and the folder of a run with [`scrapes`] and `--verbose`.
pub(crate) fn the_brokers_own_page_is_scraped_and_anothers_is_told(dir: &Path, run_dir: &Path, stderr: &str) {
    the_brokers_log_is_shown(stderr);
    let record = common::read_json(&run_dir.join("run.json"));
    let is_of_broker = |name: &str| {
        let page = common::named(&record["summary"]["scrapes"], "name", name);
        assert!(page["completed"].as_u64() > Some(1), "{page:#}");
        page["is_of_broker"] == true
    };
    assert!(is_of_broker("/metrics/per-object") && !is_of_broker("other"));
    assert!(stderr.contains(&format!("page other is served by process {} ", std::process::id())), "{stderr}");
    // The run says which page that was, and its report can be given to others, who do not hear what else runs here.
    assert_eq!(record["experiment"]["scrape"][0]["url"], "/metrics/per-object");
    let report = run_dir.display().to_string();
    run(dir, &["runs", "report", &report, "--redact", "-o", "red.html"]).assert_ok();
    let page = common::page(&dir.join("red.html")).to_string();
    testkit::assert_has(&page, ["is served by process"]);
    testkit::assert_lacks(&page, ["looks_into_a_runs_node"]);
    // Where there is no such page, nothing is started.
    let wrong = "[broker]\nkind = \"embedded\"\n[phases]\nmeasure = \"1s\"\n[[load]]\n[[scrape]]\nurl = \"/metrics\"\n";
    std::fs::write(dir.join("wrong.toml"), wrong).expect("a file");
    run(dir, &["run", "wrong.toml"]).assert_error(2, &["scrape.0.url", "is a path"]);
}

#[test]
fn a_page_that_no_broker_has_is_refused_before_anything_starts() {
    let dir = &*folder();
    let load = "[[load]]\nrate = 1\n[phases]\nmeasure = \"1s\"\n";
    for (broker, probe, said) in [
        ("kind = \"embedded\"", "page = \"queues\"", "Erlang node"),
        ("kind = \"attach\"", "page = \"queues\"", "Erlang node"),
        ("kind = \"rabbitmq\"", "", "probe.0.url"),
        ("kind = \"rabbitmq\"", "page = \"queues\"\nurl = \"/api\"", "one of url and page"),
        ("kind = \"rabbitmq\"", "page = \"nodes\"", "unknown value"),
    ] {
        let text = format!("[broker]\n{broker}\n{load}[[probe]]\n{probe}\n");
        std::fs::write(dir.join("wrong.toml"), text).expect("a file");
        run(dir, &["run", "wrong.toml"]).assert_error(2, &[said]);
    }
}
