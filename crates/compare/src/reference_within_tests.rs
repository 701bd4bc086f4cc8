//! Intervals within one run are those that numpy and arch find from the samples themselves. `within.py` wrote the
//! values.

use crate::{ValueCounts, within_one_run};
use serde_json::Value;

fn numbers(of: &Value) -> Vec<u64> {
    of.as_array().expect("numbers").iter().map(|it| it.as_u64().expect("a number")).collect()
}

#[test]
fn intervals_are_those_of_numpy_and_arch() {
    let read: Value = serde_json::from_str(include_str!("reference/within.json")).expect("values");
    let quantiles: Vec<f64> =
        (read["quantiles"].as_array().expect("quantiles").iter()).map(|it| it.as_f64().expect("a share")).collect();
    let cases = read["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 3);
    for case in cases {
        let slices: Vec<ValueCounts> = (case["slices"].as_array().expect("slices").iter())
            .map(|slice| numbers(slice).into_iter().map(|value| (value, 1)).collect())
            .collect();
        let block = case["block"].as_f64().expect("a length");
        let seed = case["seed"].as_u64().expect("a seed");
        let found = within_one_run(&slices, block, &quantiles, seed).expect("intervals");
        for (at, (low, high)) in found.into_iter().enumerate() {
            assert_eq!(numbers(&case["exact"][at]), [low, high], "{at} of block {block}");
            // Ends of 500 resamples: the 13th of each side varies.
            let theirs = numbers(&case["arch"][at]);
            let width = (theirs[1] - theirs[0]) as f64;
            for (ours, theirs) in [low, high].into_iter().zip(theirs) {
                let off = ours.abs_diff(theirs) as f64;
                assert!(off < 0.15 * width, "{ours} {theirs} at {at} of block {block}");
            }
        }
    }
}
