//! `[[load]]` with `kind = "command"`: other programs as the load, and Artemis under its own.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::profile::{FrameKind, Profile};
use serde_json::Value;

use common::Ended;

fn run(dir: &Path, experiment: &str) -> Ended {
    fs::write(dir.join("it.toml"), experiment).expect("write");
    common::start(common::bellows(dir, &["run", "it.toml"])).end_of_long()
}

fn folder(dir: &Path, ended: &Ended) -> PathBuf {
    dir.join(ended.report())
        .parent()
        .expect("a folder")
        .to_owned()
}

fn record(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("run.json")).expect("run.json");
    serde_json::from_str(&text).expect("JSON")
}

fn experiment(commands: &[&str]) -> String {
    let head = "name = 'x'\nbroker.kind = 'embedded'\nphases = { warmup = '1s', measure = '2s', drain = '1s' }\n";
    let load = |command: &&str| format!("[[load]]\nkind = 'command'\ncommand = {command}\n");
    head.to_owned() + &commands.iter().map(load).collect::<String>()
}

#[test]
fn programs_run_until_the_measured_phase_ends_and_count_as_the_generator() {
    let dir = common::folder();
    let dir = dir.path();
    let busy = "['sh', '-c', 'echo at {host}:{port} of {url}; while :; do :; done']";
    let silent = "['sleep', '600']";
    let ended = run(dir, &experiment(&[busy, silent]));
    ended.assert_ok();
    assert!(ended.took < Duration::from_secs(30), "{:?}", ended.took);
    let folder = folder(dir, &ended);
    let said = fs::read_to_string(folder.join("load-0.log")).expect("a log");
    assert!(said.starts_with("at 127.0.0.1:"), "{said}");
    assert!(
        said.contains("amqp://") && !said.contains(":guest@"),
        "{said}"
    );
    assert_eq!(fs::read(folder.join("load-1.log")).expect("a log"), b"");
    let record = record(&folder);
    let programs = &record["summary"]["scenarios"]["command"];
    assert_eq!(programs["programs_started"], 2, "{programs:#}");
    assert_eq!(programs["programs_ended"], 2, "{programs:#}");
    let client = &record["summary"]["client"];
    let cores = client["cpu_cores"].as_f64().expect("cores");
    assert!(cores > 0.2, "the busy program's time counts: {client:#}");
    let phases = record["phases"].as_array().expect("phases");
    let length =
        |of: &Value| of["end"].as_f64().unwrap_or(0.0) - of["start"].as_f64().unwrap_or(0.0);
    let measured = phases
        .iter()
        .find(|of| of["phase"] == "measure")
        .expect("measured");
    assert!((length(measured) - 2.0).abs() < 0.3, "{measured:#}");
}

#[test]
fn a_program_that_fails_fails_the_run_and_one_that_ends_well_ends_it() {
    let dir = common::folder();
    let dir = dir.path();
    let failing = "['sh', '-c', 'sleep 1.5; echo the disk is on fire; exit 7']";
    let ended = run(dir, &experiment(&[failing]));
    ended.assert_error(1, &["sh failed", "exit code 7", "the disk is on fire"]);
    let missing = "['no-such-program']";
    let ended = run(dir, &experiment(&[missing]));
    ended.assert_error(1, &["no-such-program", "cannot be started"]);
    let short = "['sleep', '2']";
    let ended = run(dir, &experiment(&[short]));
    ended.assert_ok();
}

/// Where `scripts/setup artemis` puts it.
fn has_artemis() -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(".tools/artemis/lib/artemis-boot.jar").exists()
}

#[test]
fn artemis_runs_under_its_own_load_and_its_profile_is_whole() {
    if !has_artemis() {
        testkit::skip!("no Artemis; scripts/setup artemis");
    }
    let dir = common::folder();
    let dir = dir.path();
    let arguments = [
        "run",
        "artemis-perf",
        "--set",
        "phases.warmup=8s",
        "--set",
        "phases.measure=6s",
    ];
    let ended = common::start(common::bellows(dir, &arguments)).end_of_long();
    ended.assert_ok();
    let folder = folder(dir, &ended);
    let record = record(&folder);
    let broker = record["versions"]["broker"].as_str().expect("a broker");
    assert!(broker.starts_with("ActiveMQ Artemis 2."), "{broker}");
    let said = fs::read_to_string(folder.join("load-0.log")).expect("a log");
    assert!(said.contains("--- received:"), "{said}");
    let Ok(profile) = Profile::open(&folder) else {
        testkit::skip!("this user may not profile: {}", ended.stderr);
    };
    let summary = profile.summary(20);
    assert!(summary.samples > 500, "{summary:?}");
    assert!(summary.complete_share >= 0.95, "{summary:?}");
    assert!(summary.unknown_share < 0.02, "{summary:?}");
    let of_artemis = profile.frames.iter().filter(|frame| {
        frame.kind == FrameKind::Java && frame.name.starts_with("org.apache.activemq.artemis.")
    });
    assert!(of_artemis.count() > 20);
    // Nothing of it is left.
    let pid = record["summary"]["broker"]["pid"]
        .as_u64()
        .expect("a process");
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}
