//! `bellows limit` against the embedded broker: finding a known limit, resuming a stopped search, refusals.

use crate::common;

use std::fs;
use std::path::Path;

use common::{bellows, folder, folder_with, kept_with, run};
use serde_json::Value;

/// A consumer that takes 2,000 messages a second and holds few, so that the limit is known.
const LOAD: &str = "name = \"known\"\n[broker]\nkind = \"embedded\"\n[phases]\nwarmup = \"300ms\"\nmeasure = \"1s\"\n\
                    drain = \"500ms\"\n[[load]]\nconsumers = 1\nconsumer-rate = 2000\nprefetch = 10\n";

fn experiment() -> common::Folder {
    let dir = folder();
    fs::write(dir.join("known.toml"), LOAD).expect("an experiment");
    dir
}

fn trials(folder: &Path) -> Vec<Value> {
    common::read_json(&folder.join("limit.json"))["trials"].as_array().expect("trials").clone()
}

/// Trials are 920, 1,840, 3,680, 2,600 and 2,190: the limit lies in the middle of two of them, so that none is random.
const SEARCH: [&str; 8] = ["limit", "known.toml", "--from", "920", "--precision", "20%", "--confirm", "2"];

#[test]
#[ignore = "a search of many runs: make prove"]
fn a_limit_that_is_known_lies_in_the_interval_that_is_found() {
    let dir = &*experiment();
    let set = ["--set", "load.0.message-size=300"];
    let limit = run(dir, &[&SEARCH[..], &["--require", "lost = 0", "--json"], &set].concat()).ends(0).printed();
    let end = |name: &str| limit["found"][name].as_f64().expect("a rate");
    let (low, high) = (end("low"), end("high"));
    assert!((1_500.0..=1_900.0).contains(&low), "{low} {limit:#}");
    assert!(high > 2_100.0 && high <= low * 1.6, "{low} {high}");
    assert_eq!(limit["found"]["confirmed"], true);
    let last = limit["trials"].as_array().and_then(|it| it.iter().rfind(|trial| trial["outcome"] == "missed"));
    let why = last.expect("a trial that missed")["why"][0].as_str();
    assert!(why.is_some_and(|it| it.starts_with("the backlog grew")), "{why:?}");

    // The rates that people want next, as command lines that run.
    let calm = &limit["suggested"][0];
    let rate = calm["rate"].as_f64().expect("a rate");
    assert!((rate - low / 3.0).abs() < low * 0.01, "{calm}");
    let command = calm["command"].as_str().expect("a command line");
    assert!(command.contains("--set load.0.message-size=300 "), "what was tried: {command}");
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    let ended = run(dir, &[&arguments[..], &["--json", "--quiet"]].concat()).ends(0);
    let sent = ended.printed()["scenarios"]["messages"]["sent"]["rate"].as_f64();
    assert!(sent.is_some_and(|it| (it - rate).abs() < rate * 0.02), "{sent:?} {rate}");

    // Page, list and report know the folder.
    let (kept, suffix) = kept_with(dir, "limit.json");
    common::file_has(kept.join("report.html"), ["data-page=\"limit\""]);
    fs::remove_file(kept.join("report.html")).expect("removed");
    run(dir, &["runs", "report", &suffix]).ends(0);
    assert!(kept.join("report.html").is_file());
    let listed = run(dir, &["runs", "--json"]).printed();
    assert_eq!(listed.as_array().map(Vec::len), Some(trials(&kept).len() + 1), "{listed:#}");
}

#[test]
fn a_search_that_was_stopped_goes_on_and_makes_no_trial_twice() {
    let dir = &*experiment();
    let search = common::start(bellows(dir, &[&SEARCH[..], &["--json"]].concat()));
    let made = || folder_with(dir, "limit.json").map_or(0, |folder| trials(&folder).len());
    common::wait_for("a second trial", || made() >= 2);
    let (kept, suffix) = kept_with(dir, "limit.json");
    run(dir, &[&SEARCH[..], &["--resume", &suffix]].concat()).assert_error(1, &["another bellows"]);
    search.signal("INT");
    let stopped = search.end().ends(130);
    let told = stopped.says(["--resume"]).printed()["trials"].as_array().map(Vec::len);
    assert!(told >= Some(2), "one object: {}", stopped.stdout);
    let before = trials(&kept);
    assert!(before.len() >= 2, "{}", before.len());
    run(dir, &["runs", "history", "known"])
        .assert_error(1, &["no run of \"known\" counts"])
        .says(["trials of `limit` left out"]);

    run(dir, &["runs", "show", "-v", &suffix]).ok().prints(["920"]);
    run(dir, &["limit", "known.toml", "--from", "500", "--resume", &suffix]).ends(2);
    run(dir, &[&SEARCH[..], &["--resume", &suffix, "--json"]].concat()).ends(0);
    let after = trials(&kept);
    assert_eq!(after[..before.len()], before[..]);
    assert!(after.len() > before.len());
}

#[test]
fn an_end_that_is_not_found_is_said_and_told_by_the_code() {
    let dir = &*experiment();
    let few = ["--trials", "1", "--set", "phases.measure=300ms"];
    let search = |more: &[&str]| {
        // Where others have the cores, a trial tells nothing, and says so.
        let tries = std::iter::repeat_with(|| run(dir, &[&SEARCH[..], &few, more].concat())).take(60);
        let unclear = "trial 1 of at most 1, 920 msg/s: unclear";
        let mut told = tries.filter(|ended| !ended.stdout.contains(unclear));
        told.next().expect("a machine that is not full for a second")
    };
    search(&[]).ends(4).prints(["no higher rate failed", "1 run in "]);
    search(&["--strict"]).ends(5);
}

#[test]
fn what_cannot_be_searched_is_refused_with_a_remedy() {
    let dir = &*experiment();
    for [arguments, says] in testkit::table(include_str!("../data/no-limits.txt")) {
        let ended = run(dir, &common::words(&format!("limit known.toml {arguments}")));
        assert!(ended.stderr.contains(says), "{arguments:?}: {}", ended.stderr);
        assert!(matches!(ended.code(), Some(1 | 2)), "{arguments:?}");
    }
    assert_eq!(folder_with(dir, "limit.json"), None, "nothing is left of what is refused");
}

#[test]
#[ignore = "a search of many runs: make prove"]
fn throughputs_of_numbers_of_clients_are_fitted_and_gone_on_with() {
    let dir = &*experiment();
    // A consumer takes 2,000 messages a second, whatever the machine does meanwhile: they scale in proportion.
    let scale = |more: &str| {
        let line =
            "limit known.toml --confirm 1 --json --quiet --set load.0.prefetch=1000 --set load.0.max-pending=100";
        run(dir, &common::words(&format!("{line} --scale load.0.consumers={more}")))
    };
    scale("1,2,3").assert_error(2, &["4 to 50 different numbers"]);
    let made = scale("2,3,4,5").ends(0).printed();
    let law = &made["scale"]["law"];
    assert_eq!(made["scale"]["runs"].as_array().map(Vec::len), Some(4));
    let alone = law["alone"]["value"].as_f64().expect("a throughput");
    assert!((1_000.0..=4_000.0).contains(&alone), "{law:#}");
    let (folder, suffix) = kept_with(dir, "limit.json");
    assert_eq!(common::page(&folder.join("report.html"))["scale"]["noun"], "consumers");

    // Gone on with, only the further number is run, also where it is smaller than all others.
    let ended = scale(&format!("1,2,3,4,5 --resume {suffix}")).ends(0);
    assert_eq!(ended.printed()["scale"]["runs"].as_array().map(Vec::len), Some(5));
    run(dir, &["runs", "report", &suffix, "--redact"]).assert_ok();
    assert_eq!(common::page(&folder.join("report-redacted.html"))["name"], "experiment-1");
}
