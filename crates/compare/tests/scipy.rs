//! Spreads and intervals are SciPy's. `reference.py` wrote the values.

use compare::spread;
use serde_json::Value;

#[test]
fn spreads_are_those_of_scipy() {
    let text = include_str!("reference.json");
    let cases: Vec<Value> = serde_json::from_str(text).expect("cases");
    assert!(cases.len() > 30);
    for case in cases {
        let number = |value: &Value| value.as_f64().expect("a number");
        let values: Vec<f64> = case["values"]
            .as_array()
            .expect("values")
            .iter()
            .map(number)
            .collect();
        let found = spread(&values).expect("a spread");
        let close = |ours: f64, theirs: &Value| {
            let theirs = number(theirs);
            let scale = theirs
                .abs()
                .max(found.mean.abs())
                .max(found.sd.unwrap_or(0.0));
            assert!(
                (ours - theirs).abs() <= 1e-9 * scale,
                "{ours} {theirs} of {case}"
            );
        };
        close(found.mean, &case["mean"]);
        close(found.sd.expect("a deviation"), &case["sd"]);
        match found.interval {
            None => assert!(values.len() < 3),
            Some((low, high)) => {
                close(low, &case["interval"][0]);
                close(high, &case["interval"][1]);
            }
        }
    }
}
