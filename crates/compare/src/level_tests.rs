//! Plays experiments on run-like data: seconds that depend on each other, runs that differ by themselves, and drift
//! over the whole time. The verdicts must be wrong as rarely as they say.

use crate::order::Draw;
use crate::{ComparedSideName, Decision, Rules, level_of_each, order, paired, sign_flip, unpaired, verdict};

const RULES: Rules = Rules { level: 0.05, own_level: 0.05, margin: 0.009_950_330_853_168_083 };
const EXPERIMENTS: u32 = 2_000;

/// The logarithms of what the runs of an experiment reached, and their sides, where B is faster by `effect`.
fn runs(draw: &mut Draw, order: &[ComparedSideName], effect: f64) -> Vec<(ComparedSideName, f64)> {
    let last = (order.len() - 1) as f64;
    let runs = order.iter().enumerate().map(|(index, side)| {
        let drift = 0.03 * index as f64 / last;
        let own = 0.007 * draw.normal();
        // The mean of 60 seconds with 2 % noise, each 0.7 of the one before.
        let mut second = 0.02 * draw.normal();
        let mut sum = 0.0;
        for _ in 0..60 {
            second = 0.7 * second + (1.0_f64 - 0.49).sqrt() * 0.02 * draw.normal();
            sum += second;
        }
        let of_side = if *side == ComparedSideName::B { effect } else { 0.0 };
        (*side, drift + own + sum / 60.0 + of_side)
    });
    runs.collect()
}

fn differences(runs: &[(ComparedSideName, f64)]) -> Vec<f64> {
    let pairs = runs.chunks_exact(2);
    pairs
        .map(|pair| match pair[0].0 {
            ComparedSideName::A => pair[1].1 - pair[0].1,
            ComparedSideName::B => pair[0].1 - pair[1].1,
        })
        .collect()
}

fn decide(differences: &[f64], level: f64) -> Decision {
    let found = paired(differences).unwrap();
    let rules = Rules { level, own_level: level, ..RULES };
    verdict(&found, found.p, sign_flip(differences), rules).0
}

fn share(seed: u64, pairs: usize, effect: f64, holds: impl Fn(&[(ComparedSideName, f64)]) -> bool) -> f64 {
    let mut draw = Draw::new(seed);
    let found = (0..EXPERIMENTS).filter(|_| {
        let order = order(draw.next(), pairs);
        holds(&runs(&mut draw, &order, effect))
    });
    found.count() as f64 / f64::from(EXPERIMENTS)
}

#[test]
fn no_change_is_called_one_as_rarely_as_the_level_says() {
    let called = |pairs| share(1, pairs, 0.0, |runs| decide(&differences(runs), 0.05).differs());
    for pairs in [6, 8, 12] {
        let false_ones = called(pairs);
        assert!((0.02..0.065).contains(&false_ones), "{pairs} {false_ones}");
    }
    // What a careful person does without pairs: the drift becomes a difference.
    let one_after_the_other = share(2, 6, 0.0, |runs| {
        let half = runs.len() / 2;
        let of = |part: &[(ComparedSideName, f64)]| part.iter().map(|run| run.1).collect::<Vec<_>>();
        unpaired(&of(&runs[..half]), &of(&runs[half..])).unwrap().p <= 0.05
    });
    assert!(one_after_the_other > 0.4, "{one_after_the_other}");
}

#[test]
fn changes_are_found_as_often_as_told() {
    // comparison.md: 8 pairs find 1 % in 47 of 100 experiments, 2 % in 95.
    for (effect, least, most) in [(0.01, 0.40, 0.54), (0.02, 0.91, 0.99)] {
        let found = share(4, 8, effect, |runs| decide(&differences(runs), 0.05).differs());
        assert!((least..most).contains(&found), "{effect} {found}");
    }
    // And what is far below the margin is not called a change.
    let same = share(5, 24, 0.0, |runs| {
        let decision = decide(&differences(runs), 0.05);
        matches!(decision, Decision::Same | Decision::Negligible)
    });
    assert!(same > 0.8, "{same}");
}

#[test]
fn looks_that_are_declared_keep_the_level() {
    let looks = [6, 8, 12, 16];
    let each = level_of_each(&looks, 0.05);
    let peeked = |level: f64| {
        share(7, 16, 0.0, |runs| {
            let all = differences(runs);
            let mut seen = looks.iter().map(|look| &all[..*look]);
            seen.any(|seen| decide(seen, level).differs())
        })
    };
    let declared = peeked(each);
    assert!((0.02..0.065).contains(&declared), "{declared}");
    let undeclared = peeked(0.05);
    assert!(undeclared > 0.075, "{undeclared}");
}
