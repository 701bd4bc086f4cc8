//! `bellows runs history` over runs of the embedded broker, of which the later ones have a fault.

use crate::common;

use std::fs;

use common::{folder, run};

#[test]
fn a_change_is_found_between_two_runs_and_others_are_left_out() {
    let dir = &*folder();
    let text = "name = \"nightly\"\n[broker]\nkind = \"embedded\"\n[profile]\nevents = []\n\
                [phases]\nwarmup = \"100ms\"\nmeasure = \"600ms\"\ndrain = \"5s\"\n\
                [[load]]\nrate = 500\n";
    fs::write(dir.join("fast.toml"), text).expect("an experiment");
    let slow = "[[fault]]\nkind = \"slow-ack\"\nat = \"0s\"\ndelay = \"20ms\"\n";
    // A fault is part of an experiment; the broker's configuration is not of the load, and may differ.
    let mut ids = Vec::new();
    for number in 0..11 {
        let summary = run(dir, &["run", "fast.toml", "--quiet", "--json"]).json();
        let kept = summary["run_dir"].as_str().expect("a folder");
        // As a slower broker would have it from the sixth run on, whatever this machine did.
        let p50_us = if number < 5 { 500 } else { 20_000 };
        set_latency(kept, 1_000 * (p50_us + number));
        ids.push(kept.rsplit('/').next().expect("a name").to_owned());
    }
    fs::write(dir.join("slow.toml"), format!("{text}{slow}")).expect("an experiment");
    let found = run(dir, &["runs", "history", "nightly", "--json"]).json();
    assert_eq!(found["runs"].as_array().map(Vec::len), Some(11), "{found:#}");
    let change = testkit::only(common::figure(&found, "ack response p50")["changes"].as_array().expect("changes"));
    assert_eq!((&change["between"], &change["worse"]), (&serde_json::json!([ids[4], ids[5]]), &true.into()));

    // The newest run decides: of another load, it is alone.
    run(dir, &["run", "slow.toml", "--quiet"]).assert_ok();
    // Runs of `ab` are newer, and decide nothing.
    let sides = ["ab", "slow.toml", "--pairs", "2", "--b-set", "load.0.message-size=4000", "--quiet"];
    assert!(matches!(run(dir, &sides).code(), Some(0 | 4)));
    let alone = run(dir, &["runs", "history", "nightly"]).ok();
    alone.prints([
        "1 run of nightly with the load of",
        "11 runs left out, such as",
        "of `ab` left out; --filter counts",
    ]);
    run(dir, &["runs", "history", "nightly", "--filter", "tag=none"]).assert_error(1, &["no run of \"nightly\""]);
    run(dir, &["runs", "history", "other"])
        .assert_error(1, &["no run of \"other\""])
        .says(["there are runs of nightly"]);
}

/// Has all percentiles of a run's answers be this long.
fn set_latency(run_dir: &str, nanoseconds: u64) {
    let path = std::path::Path::new(run_dir).join("run.json");
    let mut record = common::read_json(&path);
    let latency =
        record["summary"]["scenarios"]["messages"]["latency"]["ack_response"].as_object_mut().expect("a latency");
    for (_, value) in latency.iter_mut().filter(|it| it.0.ends_with("_ns")) {
        *value = nanoseconds.into();
    }
    fs::write(path, record.to_string()).expect("written");
}
