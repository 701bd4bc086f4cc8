//! The cost of profiling itself: blocks with it and without.

use crate::common;

use archive::{ObserverEffect, RunReader};
use common::{RUNS, folder, run};
use stacks::Profile;

/// Grace period for samples after sampling was to be switched off, ns.
const LATE: u64 = 60_000_000;

/// The blocks of a run of the embedded broker, more or less profiled.
fn observed<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut all = common::words(
        "run demo --observer --quiet --set profile.blocks=500ms --set phases.warmup=500ms --set phases.drain=1s",
    );
    all.extend(more);
    all
}

fn effect_of(run: &RunReader) -> Option<ObserverEffect> {
    let summary = run.record.summary.as_ref().expect("a summary");
    if summary.profiles.is_empty() { None } else { summary.observer_effect.clone() }
}

#[test]
#[ignore = "a measurement of many blocks: make prove"]
fn samples_come_from_the_blocks_with_profiling_and_their_cost_is_told() {
    let dir = &*folder();
    let ended = run(dir, &observed(&["--freq", "9999", "--set", "phases.measure=8s"])).ok();
    let of = RunReader::open(&common::only_run(dir)).expect("a readable run");
    let effect = testkit::or_skip!(effect_of(&of).ok_or("this user may not profile"));
    assert_eq!(effect.blocks.len(), 16, "{effect:?}");
    assert_eq!(effect.pairs + effect.left_out, 8);
    assert!(effect.pairs >= 4, "{effect:?}");
    for pair in effect.blocks.chunks(2) {
        assert_ne!(pair[0].on, pair[1].on, "{pair:?}");
    }
    let profile = Profile::open(&of.dir).expect("a profile");
    let (mut on, mut late) = (0, 0);
    for block in &effect.blocks {
        let (from, to) = ((block.start * 1e9) as u64, (block.end * 1e9) as u64);
        let taken = profile.samples.iter().filter(|it| (from..to).contains(&it.t));
        if block.on {
            let taken = taken.count();
            assert!(taken > 20, "{block:?}");
            on += taken;
        } else {
            late += taken.filter(|it| it.t >= from + LATE).count();
        }
    }
    // Whoever switches waits for a core where the machine is busy.
    assert!(late < on / 20, "{late} in blocks without profiling, {on} in those with it");
    // 9,999 stacks a second are copied in half of the time: that costs the broker CPU.
    let cpu = effect.broker_cpu_us.expect("the broker's CPU");
    assert!(cpu.off > 0.0 && cpu.change > 0.0, "{cpu:?}");
    assert!(cpu.low < cpu.change && cpu.change < cpu.high, "{cpu:?}");
    // It has a target rate.
    assert!(effect.paced && effect.rate.is_none(), "{effect:?}");
    assert_eq!(effect.latency, "end-to-end");
    // What the samples stand for is set against the CPU time of the blocks with them alone.
    let summary = of.record.summary.as_ref().expect("a summary");
    let covered = summary.profiles[0].cpu_share.expect("a share of CPU time");
    assert!(covered > 0.6, "{covered} of the CPU time was sampled");

    let said = common::words(&common::figures(dir)).join(" ");
    testkit::assert_has(said, ["what profiling cost", "the rate was as requested", "pairs of 0.50 s blocks"]);
    assert!(std::fs::read_to_string(dir.join(ended.report())).expect("a report").len() > 10_000);
}

#[test]
fn each_event_is_a_row_of_a_table() {
    let dir = folder();
    let more = ["--event", "cpu,page-faults", "--json", "--set", "phases.measure=3s", "--set", "load.0.rate=3000"];
    let table = run(dir.path(), &observed(&more)).json();
    assert_eq!(table["schema"], "bellows.observer/1");
    let rows = table["rows"].as_array().expect("rows");
    let named: Vec<_> = rows.iter().map(|row| row["event"].as_str()).collect();
    assert_eq!(named, [Some("cpu"), Some("page-faults")], "{table}");
    for row in rows {
        let dir = dir.path().join(row["run_dir"].as_str().expect("a folder"));
        let run = RunReader::open(&dir).expect("a run");
        let effect = serde_json::to_value(effect_of(&run)).expect("JSON");
        assert_eq!(row["observer_effect"], effect);
    }
}

#[test]
fn blocks_that_tell_nothing_are_refused() {
    let dir = &*folder();
    let refused = [
        (&["--no-profile"][..], "nothing is sampled"),
        (&["--event", "malloc-held"], "would count as held"),
        (&["--set", "phases.measure=2s"], "2 pairs of blocks"),
        (&["--set", "profile.blocks=100ms"], "too short"),
        (&["--set", "profile.blocks=550ms"], "tenths of a second"),
        (&["--event", "cpu,off-cpu", "--repeat", "3"], "neither repeated nor judged"),
    ];
    for (more, why) in refused {
        run(dir, &observed(more)).assert_error(2, &[why]);
    }
    run(dir, &["run", "demo", "--freq", "99,999"]).assert_error(2, &["several frequencies"]);
    assert!(!dir.join(RUNS).exists(), "nothing was run");
}
