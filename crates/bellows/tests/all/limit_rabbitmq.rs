//! `bellows limit --scale` on a real RabbitMQ: throughput by number of producers, the law fitted to it, and the result:
//! a peak, or why there is none.

use crate::common;
use crate::common::managed;

use common::{bellows, folder, run, start};

const NUMBERS: [u64; 4] = [1, 2, 3, 4];

#[test]
#[ignore = "a search of many runs: make prove"]
fn numbers_of_producers_of_a_real_broker_are_fitted_and_told() {
    let dir = &*folder();
    let args = common::words(
        "limit classic-in-out --scale load.0.producers=1,2,3,4 --confirm 1 --set phases.warmup=300ms --set \
         phases.measure=1s --set phases.drain=3s --json --quiet",
    );
    let node = managed::shared_node();
    let ended = start(bellows(dir, &args).args(node.options())).end_of_long();
    let found = ended.printed();
    let scale = &found["scale"];
    let runs = scale["runs"].as_array().expect("runs");
    let mut made: Vec<u64> = runs.iter().filter_map(|it| it["clients"].as_u64()).collect();
    made.sort_unstable();
    assert_eq!(made, NUMBERS);
    for run in runs {
        assert!(run["throughput"].as_f64() > Some(500.0), "{run}");
        assert!(run["broker_cores"].as_f64() > Some(0.05), "{run}");
    }
    let law = &scale["law"];
    assert!(law["alone"]["value"].as_f64() > Some(500.0), "{law:#}");
    for of in ["contention", "coherence"] {
        assert!(law[of]["value"].as_f64() >= Some(0.0), "{law:#}");
    }
    // One of both, never neither.
    let (peak, doubt) = (law["peak"].is_number(), !law["no_peak"].is_null());
    assert_ne!(peak, doubt, "{law:#}");
    let no_peak = law["no_peak"].to_string();
    let is_followed = !no_peak.contains("poor_fit") && !no_peak.contains("generator");
    let code = if is_followed { 0 } else { 4 };
    assert_eq!(ended.code(), Some(code), "{no_peak}: {}", ended.stderr);

    // The page says the same.
    let (kept, suffix) = common::kept_with(dir, "limit.json");
    let page = common::page(&kept.join("report.html"));
    let told = page["scale"]["explained"].to_string();
    assert_eq!(told.contains("peaks at"), peak, "{told}");
    assert!(peak || told.contains("no peak") || told.contains("never pass less"), "{told}");
    assert_eq!(page["scale"]["law"]["peak"].is_number(), peak);
    run(dir, &["runs", "report", &suffix, "--redact"]).assert_ok();
    let page = common::page(&kept.join("report-redacted.html"));
    assert_eq!(page["scale"]["runs"].as_array().map(Vec::len), Some(4));
}
