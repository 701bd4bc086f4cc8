//! The runs that were kept: found, labelled, removed.

use crate::common;

use std::fs;
use std::path::Path;

use common::{RUNS, bellows, folder, only_run, run, start, wait_for};
use serde_json::Value;

fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut all = common::words("demo --no-profile --quiet --set phases.warmup=0s --set phases.measure=200ms");
    all.extend(["--set", "load.0.rate=1000", "--note=the first"]);
    all.extend(more);
    all
}

fn list(dir: &Path, more: &[&str]) -> Vec<Value> {
    let ended = run(dir, &[&["runs", "--json"], more].concat());
    ended.json().as_array().expect("an array").clone()
}

fn refuses(dir: &Path, args: &[&str], part: &str) {
    run(dir, args).ends(2).says([part]);
}

#[test]
fn runs_are_labelled_found_shown_and_removed() {
    let dir = &*folder();
    run(dir, &short(&["--tag", "base", "--tag=nightly"])).assert_ok();
    run(dir, &short(&[])).assert_ok();
    let all = list(dir, &[]);
    assert_eq!(all.len(), 2);
    assert_eq!(all[1]["labels"]["tags"], serde_json::json!(["base", "nightly"]));
    assert_eq!(all[0]["labels"]["note"], "the first");
    assert!(all[0]["bytes"].as_u64() > Some(1_000), "{:#}", all[0]);
    assert!(all[0]["seconds"].as_f64() >= Some(0.2), "{:#}", all[0]);

    assert_eq!(list(dir, &["--filter", "tag=night* state=complete broker=embedded*"]).len(), 1);
    assert!(list(dir, &["--filter", "tag=weekly"]).is_empty());
    refuses(dir, &["runs", "--filter", "colour=red"], "keys are id, name");

    let tagged = all[1]["id"].as_str().expect("an id");
    let suffix = &tagged[tagged.len() - 4..];
    run(dir, &["runs"]).prints(["  #base #nightly; note: the first\n", &format!("demo-{suffix} ")]);

    let noted = run(dir, &["runs", "note", suffix, "new disk"]);
    assert_eq!(noted.stdout, format!("{tagged}: #base #nightly; note: new disk\n"));
    let parts = [tagged, "#base #nightly; note: new disk", "ack response", "report.html"];
    run(dir, &["runs", "show", suffix]).prints(parts);
    refuses(dir, &["runs", "tag", suffix, "two words"], "letters, digits and");

    run(dir, &["runs", "rm", suffix]).assert_error(2, &["has a tag", "nothing was removed"]);
    run(dir, &["runs", "prune", "--keep", "0", "--dry-run"]).prints(["1 run would be removed"]);
    assert_eq!(list(dir, &[]).len(), 2);
    refuses(dir, &["runs", "prune"], "--keep");
    run(dir, &["runs", "prune", "--older-than", "30d"]).assert_ok();
    assert_eq!(list(dir, &[]).len(), 2);
    run(dir, &["runs", "prune", "--keep", "0"]).prints(["1 run removed, "]);
    let removed = run(dir, &["runs", "tag", "last", "base", "nightly", "--remove"]);
    assert_eq!(removed.stdout, format!("{tagged}: note: new disk\n"));
    run(dir, &["runs", "tag", "last", "gone", "--remove"]).ok().says(["the run has no tag gone"]);
    run(dir, &["runs", "rm", "last"]).assert_ok();
    assert!(list(dir, &[]).is_empty());
}

#[test]
fn a_run_that_goes_on_is_not_removed() {
    let dir = &*folder();
    let going = start(bellows(dir, &["demo", "--no-profile", "--set", "phases.measure=60s"]));
    wait_for("run", || fs::read_dir(dir.join(RUNS)).is_ok_and(|runs| runs.count() == 1));
    assert_eq!(list(dir, &[])[0]["active"], true);
    run(dir, &["runs", "rm", "last"]).assert_error(1, &["has not ended"]);
    run(dir, &["runs", "prune", "--keep", "0"]).prints(["0 runs removed"]);
    going.signal("KILL");
    going.end();
    assert!(only_run(dir).is_dir());
    run(dir, &["runs", "rm", "last"]).assert_ok();
    assert!(list(dir, &[]).is_empty());
}

#[test]
fn runs_lie_in_the_data_folder_unless_one_is_named() {
    let dir = &*folder();
    let without = |args: &[&str]| start(bellows(dir, args).env_remove("BELLOWS_RUNS").env("XDG_DATA_HOME", dir)).end();
    without(&short(&[])).assert_ok();
    let kept = dir.join("bellows").join("runs");
    assert_eq!(fs::read_dir(&kept).expect("runs").count(), 1);
    without(&["doctor", "--json"]).prints([&format!("in {}", kept.display())]);
}

#[test]
fn last_is_for_profiles_the_last_run_that_has_one() {
    let dir = &*folder();
    run(dir, &short(&[])).assert_ok();
    run(dir, &["top", "last"]).assert_error(1, &["none of 1 run in", "has a profile"]);
    run(dir, &["demo", "--quiet", "--set", "phases.warmup=0s", "--set", "phases.measure=1s"]).assert_ok();
    // A later run without samples does not hide it.
    run(dir, &short(&[])).assert_ok();
    let stopped = dir.join(RUNS).join("2099-01-01T00-00-00Z-stopped-aaaa");
    fs::create_dir(&stopped).expect("folder");
    fs::write(stopped.join("series.jsonl"), "").expect("series");
    fs::write(stopped.join("cpu.stacks"), "").expect("stacks");
    let ended = run(dir, &["top", "last"]);
    if ended.stderr.contains("none of 4 runs in") {
        testkit::skip!("this user may not profile");
    }
    let ended = ended.ok();
    ended.prints(["self %"]);
    // Nothing said that an older run's profile is shown.
    let first = ended.stdout.lines().next().unwrap_or_default();
    assert!(first.contains("-demo-") && first.contains(", "), "{first}");
}
