//! The part of a profile that a condition chooses, beside the rest.

use crate::common;

use std::fs;
use std::path::Path;

use archive::RunReader;
use serde_json::Value;
use stacks::Profile;

use common::Ended;

/// Slow for three seconds, fast for the rest.
const EXPERIMENT: &str = include_str!("../data/experiments/two-rates.toml");

fn top(dir: &Path, args: &[&str]) -> Ended {
    common::run(dir, &[&["top", "last"], args].concat())
}

fn rows(dir: &Path, args: &[&str]) -> Vec<Value> {
    let mut printed = top(dir, &[args, &["--json", "--limit", "100000"]].concat()).json();
    serde_json::from_value(printed["functions"].take()).expect("rows")
}

fn sum(rows: &[Value], at: impl Fn(&Value) -> &Value) -> f64 {
    rows.iter().filter_map(|row| at(row).as_f64()).sum()
}

#[test]
fn a_condition_chooses_seconds_and_the_rest_stands_beside() {
    let dir = &*common::folder();
    fs::write(dir.join("rates.toml"), EXPERIMENT).expect("write");
    let ended = common::run(dir, &["run", "rates.toml"]).ok();
    let folder = &ended.run_dir(dir);
    let whole = testkit::or_skip!(Profile::open(folder).map_err(|_| &ended.stderr));

    // The seconds that are chosen are those of the file, and every sample is in them or in the rest.
    let fast = rows(dir, &["--where", "sent rate > 4000"]);
    let slow = rows(dir, &["--where", "sent rate <= 4k"]);
    let samples = |rows: &[Value]| sum(rows, |row| &row["samples"]) as u64;
    let run = RunReader::open(folder).expect("a run");
    let is_fast = |t: u64| {
        let point = run.points.iter().find(|p| (p.t..p.t + p.dt).contains(&(t as f64 / 1e9)));
        point.is_some_and(|p| p.counters.sent as f64 / p.dt > 4000.0)
    };
    let expected = whole.samples.iter().filter(|s| is_fast(s.t)).count() as u64;
    assert!(expected > 0, "no sample of the fast seconds");
    assert!(samples(&fast).abs_diff(expected) <= 2, "{} is not {expected}", samples(&fast));
    assert!(samples(&fast) + samples(&slow) <= whole.total_weight());
    for part in [&fast, &slow] {
        for share in [sum(part, |row| &row["self"]), sum(part, |row| &row["rest"]["self"])] {
            assert!((share - 1.0).abs() < 1e-9, "{share}");
        }
    }

    // In order of the change.
    let by_change = rows(dir, &["--where", "sent rate > 4000", "--sort", "change"]);
    let change = |row: &Value| {
        let [own, rest] = [&row["self"], &row["rest"]["self"]].map(|it| it.as_f64().expect("a share"));
        let by_chance = row["rest"]["by_chance"].as_bool().expect("a flag");
        if by_chance { 0.0 } else { (own - rest).abs() }
    };
    assert!(by_change.is_sorted_by(|a, b| change(a) >= change(b)));
    let parts = [" seconds in which sent rate > 4000; rest: the other ", "rest %", "change"];
    top(dir, &["--where", "sent rate > 4000"]).prints(parts);

    // Percentiles that no summary holds come from the histograms.
    top(dir, &["--where", "ack response p95 > 1ns", "--json"]).assert_ok();

    top(dir, &["--where", "sent rate > 1M"]).assert_error(1, &["in none of 6 seconds sent rate > 1M held", "/s to "]);
    top(dir, &["--where", "lost > 0"]).assert_error(1, &["known for the whole run only"]);
    top(dir, &["--where", "no such p99 > 1ms"]).assert_error(1, &["no second is known"]);
    // On a busy machine somebody may.
    let stalls = run.record.summary.as_ref().map_or(0, |it| it.stalls.len());
    if stalls == 0 {
        top(dir, &["--where", "stall"]).assert_error(1, &["nobody stood still"]);
    }
    top(dir, &["--where", "fast"]).ends(2).says(["compares nothing", "or write `stall`"]);
    top(dir, &["--sort", "change"]).assert_error(2, &["a part to compare"]);
    let file = folder.join("cpu.stacks");
    let file = file.to_str().expect("a path");
    common::run(dir, &["top", file, "--where", "sent rate > 1"]).assert_error(2, &["--where needs a run"]);

    common::run(dir, &["flame", "last", "--where", "sent rate > 4000", "-o", "fast.svg"]).assert_ok();
    let svg = fs::read_to_string(dir.join("fast.svg")).expect("an image");
    // Its subtitle may have several lines.
    let parts = svg.split('<').filter_map(|it| it.split_once('>'));
    let texts: Vec<&str> = parts.map(|it| it.1).filter(|it| !it.is_empty()).collect();
    assert!(texts.join(" ").contains("seconds in which sent rate &gt; 4000"), "{svg:.600}");
    crate::differences::a_window_stands_beside_the_rest(dir, &run, &whole);
}
