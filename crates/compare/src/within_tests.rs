//! Coverage on data that depend on each other, and what has no interval.

use super::*;

/// A run of slices whose level, a logarithm, follows an AR(1) process with this correlation and a standard deviation of
/// 1 in the long run; values of a slice are normal around it with the same deviation. In thousandths of a unit.
fn run(draw: &mut Draw, slices: usize, correlation: f64) -> Vec<ValueCounts> {
    let mut level = draw.normal();
    let step = (1.0 - correlation * correlation).sqrt();
    let mut all = Vec::with_capacity(slices);
    for _ in 0..slices {
        level = correlation * level + step * draw.normal();
        let values = (0..100).map(|_| {
            let value = level + draw.normal();
            (((value + 100.0) * 1_000.0) as u64, 1)
        });
        let mut values: ValueCounts = values.collect();
        values.sort_unstable();
        all.push(values);
    }
    all
}

/// The share of runs whose interval holds the true quantile of the stationary distribution: normal, variance 2.
fn coverage(slices: usize, block: f64, correlation: f64) -> [f64; 3] {
    const RUNS: u64 = 100;
    let mut held = [0_u64; 3];
    for seed in 0..RUNS {
        let made = run(&mut Draw::new(seed), slices, correlation);
        let found = within_one_run(&made, block, &ASKED.map(|it| it.0), 1).expect("long enough");
        for (held, (found, quantile)) in held.iter_mut().zip(found.iter().zip(ASKED)) {
            let truth = ((100.0 + 2.0_f64.sqrt() * quantile.1) * 1_000.0) as u64;
            *held += u64::from((found.0..=found.1).contains(&truth));
        }
    }
    held.map(|it| it as f64 / RUNS as f64)
}

/// Quantiles, and the same of the standard normal distribution.
const ASKED: [(f64, f64); 3] = [(0.5, 0.0), (0.9, 1.281_552), (0.99, 2.326_348)];

/// As docs/compare.md says, the nominal 95 % are reached where slices do not depend on each other, and missed where
/// they do, the more the rarer the event is.
#[test]
fn intervals_hold_the_quantile_of_the_stationary_distribution_as_often_as_is_said() {
    let within = |found: [f64; 3], least: [f64; 3], most: f64, what: &str| {
        for (found, least) in found.into_iter().zip(least) {
            assert!((least..=most).contains(&found), "{what}: {found} is not {least} to {most}");
        }
    };
    let alone = coverage(60, 5.0, 0.0);
    within(alone, [0.80, 0.80, 0.74], 0.99, "a minute, independent");
    let minute = coverage(60, 5.0, 0.7);
    within(minute, [0.70, 0.66, 0.54], 0.92, "a minute, AR(1) 0.7");
    let longer = coverage(300, 10.0, 0.7);
    within(longer, [0.78, 0.78, 0.70], 0.98, "five minutes, AR(1) 0.7");
    // Intervals of single slices would be far too narrow.
    let slices = coverage(60, 1.0, 0.7);
    assert!(slices[0] < minute[0] - 0.1, "{slices:?} {minute:?}");
}

#[test]
fn what_has_no_interval_says_why_and_equal_or_extreme_values_have_one() {
    let one = |value: u64| -> ValueCounts { vec![(value, 1)] };
    let slices: Vec<ValueCounts> = (0..60).map(one).collect();
    let asked = [0.5, 0.99];
    let too_short = |slices: &[ValueCounts], block| match within_one_run(slices, block, &asked, 1) {
        Err(NoInterval::TooShort { blocks }) => blocks,
        other => panic!("{other:?}"),
    };
    assert_eq!(too_short(&slices, 10.0), 6.0);
    assert_eq!(too_short(&slices[..1], 1.0), 1.0);
    assert_eq!(too_short(&slices[..7], 0.0), 7.0, "no block is shorter than a slice");
    // Empty slices make no run longer.
    let mut sparse = vec![ValueCounts::default(); 500];
    sparse.extend_from_slice(&slices[..7]);
    assert_eq!(too_short(&sparse, 1.0), 7.0);
    for empty in [&[][..], &[ValueCounts::default()]] {
        assert_eq!(within_one_run(empty, 5.0, &asked, 1), Err(NoInterval::Empty));
    }
    assert_eq!(within_one_run(&slices, 5.0, &[], 1), Ok(Vec::new()));
    let equal: Vec<ValueCounts> = vec![vec![(7, 5)]; 40];
    assert_eq!(within_one_run(&equal, 5.0, &[0.0, 0.5, 0.999, 1.0], 1), Ok(vec![(7, 7); 4]));
    let huge: Vec<ValueCounts> = (0..40).map(|at| vec![(at, u64::MAX), (u64::MAX, u64::MAX)]).collect();
    let found = within_one_run(&huge, 5.0, &[0.25, 1.0], 1).expect("intervals");
    assert!(found[0].1 < 40 && found[1] == (u64::MAX, u64::MAX), "{found:?}");
    // Slices in which nothing was counted, among others.
    let holes: Vec<ValueCounts> = (0..80u64).map(|at| vec![(at, 1); (at % 2) as usize]).collect();
    let found = within_one_run(&holes, 5.0, &[0.5], 1).expect("an interval");
    assert!((1..40).contains(&found[0].0) && (40..80).contains(&found[0].1), "{found:?}");
}
