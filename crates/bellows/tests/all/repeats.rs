//! One run repeated several times.

use crate::common;

use std::fs;
use std::path::Path;

use common::{Ended, RUNS, bellows, folder, run, start, wait_for};
use serde_json::Value;

fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut all =
        common::words("demo --no-profile --set phases.warmup=0s --set phases.measure=1s --set load.0.rate=2000");
    all.extend(more);
    all
}

fn runs(dir: &Path) -> Vec<String> {
    let found = fs::read_dir(dir.join(RUNS)).expect("runs");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a name");
    let mut names: Vec<String> = found.flatten().map(name).collect();
    names.sort();
    names
}

fn repeats(report: &Path) -> Value {
    common::read_json(&report.with_file_name("repeats.json"))
}

#[test]
fn repeated_runs_say_how_far_their_figures_spread() {
    let dir = &*folder();
    let ended = run(dir, &short(&["--repeat", "3", "--quiet", "--junit", "out.xml"])).ok();
    // The summary alone.
    ended.prints_not(["run 1 of 3"]).prints(["3 runs of demo\n"]);
    assert_eq!(runs(dir).len(), 3);
    common::file_has(dir.join("out.xml"), ["tests=\"3\"", "run 3: the run"]);

    // The last run's folder holds what they say together, computed from each run's own summary.
    let found = repeats(&dir.join(ended.report()));
    let sent = common::figure(&found, "sent rate");
    let rate = |run: &Value| {
        let record = common::read_json(&dir.join(RUNS).join(run["id"].as_str().expect("id")).join("run.json"));
        record["summary"]["scenarios"]["messages"]["sent"]["rate"].as_f64().expect("a rate")
    };
    let rates: Vec<f64> = found["runs"].as_array().expect("runs").iter().map(rate).collect();
    let values: Vec<f64> = sent["values"].as_array().expect("values").iter().filter_map(Value::as_f64).collect();
    assert_eq!(values, rates);
    run(dir, &["runs", "prune", "--keep", "1"]).assert_ok();
    run(dir, &["runs", "rm", "last"]).assert_ok();
    assert_eq!(runs(dir).len(), 0, "repeats.json goes with its run");
    let mean = rates.iter().sum::<f64>() / 3.0;
    assert!((sent["mean"].as_f64().expect("mean") - mean).abs() < 1e-6 * mean);
    assert!(sent["interval"].is_array(), "{sent}");
}

#[test]
fn repeated_runs_say_what_became_of_their_requirements() {
    let dir = &*folder();
    let more =
        ["--repeat=2", "--require=sent rate <= 1", "--require=sent rate >= 1", "--require=end-to-end p99.999 <= 1h"];
    let ended = run(dir, &short(&more)).ends(3);
    ended.prints([
        "run 1 of 2: 1 of 3 requirements missed, sent rate ",
        "run 2 of 2: 1 of 3 requirements missed, ",
        "\nrequirement               runs met  MISSED  unknown ",
        "\nsent rate <= 1                   0       2        0  2,0",
        "\nsent rate >= 1                   2       0        0  ",
        "\nend-to-end p99.999 <= 1h         0       0        2  ",
        "\n  fewer than ten",
    ]);
}

#[test]
fn repeats_are_one_object_for_machines() {
    let dir = &*folder();
    // One that missed what was required decides.
    let ended = run(dir, &short(&["--repeat", "2", "--json", "--require", "sent rate <= 1"])).ends(3);
    let object = ended.printed();
    assert_eq!(object["schema"], "bellows.repeats/1");
    let valid = |name: &str, value: &Value| {
        let schema = common::read_json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name));
        assert_eq!(common::schema::problems(&schema, value), Vec::<String>::new());
    };
    valid("repeats.schema.json", &object);
    valid("run.schema.json", &object["summaries"][1]);
    assert_eq!(object["summaries"].as_array().map(Vec::len), Some(2));
    assert_eq!(object["summaries"][1]["schema"], "bellows.run/2");
    assert!(object["figures"][0]["interval"].is_null(), "two runs have no interval");
    // Lines about single runs stand beside the object, or nowhere.
    ended.says(["run 1 of 2: "]);
    let quiet = run(dir, &short(&["--repeat", "2", "--json", "--quiet"]));
    assert_eq!(quiet.says_not(["run 1 of 2"]).json()["schema"], "bellows.repeats/1");
}

#[test]
fn a_run_that_is_stopped_ends_the_series_and_does_not_count() {
    let dir = &*folder();
    let started = start(bellows(dir, &short(&["--repeat", "20", "--quiet"])));
    let series = |path: &str| fs::read_to_string(dir.join(RUNS).join(path).join("series.jsonl"));
    wait_for("a second run in progress", || {
        dir.join(RUNS).exists()
            && runs(dir).len() == 2
            && runs(dir).iter().all(|id| series(id).is_ok_and(|text| !text.is_empty()))
    });
    started.signal("INT");
    let ended: Ended = started.end();
    assert!(ended.took < common::DEADLINE / 2, "{ended:?}");
    let count = runs(dir).len();
    assert!(count < 20, "{ended:?}");
    ended.prints(["of 20 runs of demo ended as planned"]);
    let found = repeats(&dir.join(ended.report()));
    assert_eq!(found["requested"], 20);
    assert_eq!(found["runs"].as_array().map(Vec::len), Some(count));
}

/// An empty table, and the exit code of success, would be taken for a result.
#[test]
fn a_stop_before_a_run_is_complete_says_what_was_stopped() {
    let stopped = |dir: &Path, more: &[&str]| -> Ended {
        let started = start(bellows(dir, &[&short(&["--repeat", "3", "--set"])[..], more].concat()));
        wait_for("a recorded second", || common::seconds_recorded(dir) >= 1);
        started.signal("INT");
        started.end().ends(130)
    };
    let dir = &*folder();
    let ended = stopped(dir, &["phases.measure=60s"]);
    let kept = common::only_run(dir);
    let said = "stopped in run 1 of 3: no run was completed; what it measured until then is in";
    testkit::assert_ends(&ended.stderr, format!("{said} {}\n", kept.display()));
    ended.prints_not(["mean"]);

    let ended = stopped(&folder(), &["phases.warmup=60s", "--json"]);
    testkit::assert_ends(&ended.stderr, "stopped in warm-up of run 1 of 3: nothing measured\n");
    assert_eq!(ended.printed()["error"]["cause"], "stopped in warm-up of run 1 of 3");
}

#[test]
fn how_often_is_a_number_from_one_to_a_thousand() {
    let dir = &*folder();
    for wrong in ["0", "-1", "1001", "many"] {
        run(dir, &["demo", "--repeat", wrong]).ends(2).says(["--repeat"]);
    }
    let endless = ["client", "--repeat", "2", "--url", "amqp://127.0.0.1:1"];
    run(dir, &endless).assert_error(2, &["--repeat 2", "end by themselves"]);
}
