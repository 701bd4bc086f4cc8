//! `bellows ab --over` against the embedded broker: cells whose runs are interleaved, resumed, decided together, and
//! refused with a remedy.

use crate::ab::{SLOW, experiment_of};
use crate::common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{bellows, folder, folder_with, kept_with, read_json, run, wait_for};
use serde_json::Value;

/// Two cells, by two keys.
const OVER: [&str; 4] = ["--over", "load.0.message-size=12,2000", "--over", "load.0.producers=2"];

fn experiment() -> common::Folder {
    let dir = folder();
    experiment_of(&dir, 100, 400);
    dir
}

/// The runs of each cell.
fn made(folder: &Path) -> Vec<Vec<Value>> {
    let matrix = read_json(&folder.join("matrix.json"));
    let cells = matrix["cells"].as_array().expect("cells").iter();
    let runs = |cell: &Value| {
        let pairs = folder.join(cell["folder"].as_str().expect("a name"));
        read_json(&pairs.join("pairs.json"))["runs"].as_array().expect("runs").clone()
    };
    cells.map(runs).collect()
}

#[test]
fn every_cell_is_a_comparison_and_all_are_decided_together() {
    let dir = &*experiment();
    let ab = ["ab", "turns.toml", "--pairs", "5", "--seed", "3"];
    let files = ["--junit", "ab.xml", "--markdown", "ab.md", "--go-bench", "ab.txt", "-o", "ab.html", "--json"];
    let ended = run(dir, &[&ab[..], &SLOW, &OVER, &files].concat()).ends(3);
    let found = ended.printed();
    assert_eq!(found["keys"][0]["key"], "load.0.message-size");
    let cells = found["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    assert_eq!(cells[1]["values"], serde_json::json!(["2000", "2"]));
    let figures: usize = cells.iter().map(|cell| cell["comparison"]["figures"].as_array().map_or(0, Vec::len)).sum();
    let mut changed = 0;
    for cell in cells {
        let of = &cell["comparison"];
        assert_eq!(of["family"]["figures"], figures, "{of:#}");
        assert_eq!(of["b"]["runs"].as_array().map(Vec::len), Some(5));
        let mut all = of["figures"].as_array().expect("figures").iter();
        let p50 = all.find(|it| it["name"] == "ack response p50");
        changed += usize::from(p50.expect("p50")["decision"] == "changed");
    }

    // A machine that is not left alone may hide one of them.
    assert!(changed >= 1, "{found:#}");

    // A pair of each cell, then the next one of each. A run in which nothing went has no rate in its line.
    // Beside it stands the line that each begins with.
    let lines = ended.stderr.lines();
    let told = lines.filter(|line| line.contains(": pair ") && !line.starts_with("turns, "));
    assert!(told.clone().count() >= 20, "{}", ended.stderr);
    let first = told.map_while(|line| {
        let (cell, side) = line.split_once(": pair 1 of 5, ")?;
        Some((cell, side.get(..1)?))
    });
    let first: BTreeSet<_> = first.collect();
    assert_eq!(first.len(), 4, "{}", ended.stderr);
    for (name, part) in [
        ("ab.xml", "tests=\"2\" failures="),
        ("ab.xml", "name=\"message-size=2000, producers=2\""),
        ("ab.md", "| message-size | producers |"),
        ("ab.txt", "\nBenchmarkTurns/message-size=12/producers=2 1 "),
        ("ab.html", "data-page=\"matrix\""),
    ] {
        common::file_has(dir.join(name), [part]);
    }
    again(dir, &found);
}

/// Per cell: the runs of B that count, and the decision of each figure.
fn decisions(of: &Value) -> Vec<(Value, Vec<(Value, Value)>)> {
    let cells = of["cells"].as_array().expect("cells").iter();
    let cells = cells.map(|cell| &cell["comparison"]);
    let figures = |of: &Value| {
        let figures = of["figures"].as_array().expect("figures").iter();
        let decided = figures.map(|it| (it["name"].clone(), it["decision"].clone()));
        decided.collect()
    };
    cells.map(|it| (it["b"]["runs"].clone(), figures(it))).collect()
}

/// The folder alone leads to equal decisions, and its pages are made again.
fn again(dir: &Path, found: &Value) {
    let (folder, end) = kept_with(dir, "matrix.json");
    let path = folder.to_str().expect("a name");
    let again = run(dir, &["ab", path, "--json"]).ends(3).printed();
    assert_eq!(decisions(&again), decisions(found));
    let parts = ["B is worse in ", "message-size (rows) by producers (columns)\n", "\nbroker cpu\n  12 / 2 "];
    run(dir, &["ab", &end, "--verbose"]).prints(parts);
    for cell in found["cells"].as_array().expect("cells") {
        let cell = folder.join(cell["folder"].as_str().expect("a name"));
        assert!(read_json(&cell.join("comparison.json"))["figures"].is_array());
        std::fs::remove_file(cell.join("report.html")).expect("a page of its own");
    }
    std::fs::remove_file(folder.join("report.html")).expect("a page");
    run(dir, &["runs", "report", path]).assert_ok();
    common::file_has(folder.join("report.html"), ["data-page=\"matrix\""]);
    assert!(folder.join("cell-2-2000-2/report.html").is_file());

    // A cell can be looked at by itself, and its runs are listed with all others.
    let cell = folder.join("cell-1-12-2");
    run(dir, &["ab", cell.to_str().expect("a name"), "--verbose"]).prints(["ack response p50"]);
    run(dir, &["runs", "--filter", "tag=cell-2"]).prints(["pair-5"]);
}

#[test]
fn cells_that_were_killed_are_gone_on_with_and_no_run_is_made_twice() {
    let dir = &*experiment();
    let all = ["ab", "turns.toml", "--pairs", "2", "--aa", "--quiet", "--set", "load.0.rate=200"];
    let all = [&all[..], &OVER].concat();
    let mut child = bellows(dir, &all).spawn().expect("bellows");
    let done = || folder_with(dir, "matrix.json").map(|it| made(&it)).unwrap_or_default();
    wait_for("three runs", || done().iter().map(Vec::len).sum::<usize>() >= 3);
    let before = done();
    child.kill().expect("killed");
    child.wait().expect("ended");
    let (folder, suffix) = kept_with(dir, "matrix.json");
    let other = ["ab", "turns.toml", "--aa", "--set", "load.0.rate=200", "--resume", &suffix];
    run(dir, &other).assert_error(2, &["other cells"]);
    let less = [&other[..], &OVER[..2]].concat();
    run(dir, &less).assert_error(2, &["other cells"]);

    let ended = run(dir, &[&all[..], &["--resume", &suffix]].concat());
    // A full machine may spoil every run of a cell, and the other run of a pair that is spoiled is not made.
    let none_counts = ended.code() == Some(1) && ended.stderr.contains("valid");
    assert!(none_counts || matches!(ended.code(), Some(0 | 3 | 4)), "{}{}", ended.stdout, ended.stderr);
    let after = made(&folder);
    for (before, after) in before.iter().zip(&after) {
        assert!(after.starts_with(before), "{before:?} {after:?}");
        let is_spoiled = after.iter().any(|run| run["spoiled"].is_string());
        assert!(after.len() >= if is_spoiled { 2 } else { 4 }, "{after:?}");
        let turns: BTreeSet<_> = after.iter().map(|run| format!("{} {}", run["pair"], run["side"])).collect();
        assert_eq!(turns.len(), after.len(), "a run was made twice: {after:?}");
    }
    assert!(none_counts || ended.stdout.contains("A against itself in 2 cells"), "{}", ended.stdout);
}

#[test]
fn what_makes_no_matrix_says_why_before_anything_runs() {
    let dir = &*experiment();
    let ab = |more: &[&str]| run(dir, &[&["ab", "turns.toml", "--aa"], more].concat());
    for [more, why] in testkit::table(include_str!("../data/no-matrices.txt")) {
        ab(&common::words(more)).assert_error(2, &[why]);
    }
    let many: Vec<String> = (1..=101).map(|n| n.to_string()).collect();
    ab(&["--over", &format!("load.0.rate={}", many.join(","))]).assert_error(2, &["101 cells", "100 are the most"]);
    assert!(folder_with(dir, "matrix.json").is_none(), "nothing was begun");
}
