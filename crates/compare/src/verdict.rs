//! The decision on a difference.

use serde::{Deserialize, Serialize};

use crate::difference::{Difference, pairs_needed, sign_flip};

/// The level of the sign-flip test that guards the verdict, or the verdict's own where that is laxer: it assumes
/// nothing of the distribution, and is coarse with few pairs.
const GUARD: f64 = 0.10;
/// The fewest pairs, or runs of each side, that can be called different: with fewer pairs, every flip of signs is
/// likelier than the guard's level; fewer runs that happen to agree are no measure of how far runs differ.
pub const LEAST_PAIRS: usize = 5;

/// Decision on a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It differs, and by more than the margin as far as can be told.
    Changed,
    /// It differs, and by less than the margin.
    Negligible,
    /// It differs by less than the margin, if at all.
    Same,
    /// Too little evidence.
    #[default]
    Undecided,
}

impl Decision {
    /// Whether a figure differs, by however little.
    pub const fn differs(self) -> bool {
        matches!(self, Self::Changed | Self::Negligible)
    }
}

/// Whether so many pairs, or runs of each side, can be called different; else it is no question, and takes no level.
pub const fn can_differ(count: usize) -> bool {
    count >= LEAST_PAIRS
}

/// Levels and margin of a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Chance to call something changed that is not (0.05), all questions that are asked together.
    pub level: f64,
    /// The level that this question alone is held against: the same where there is no other.
    pub own_level: f64,
    /// The difference that matters, on the scale of the values: of logarithms `ln(1.01)`.
    pub margin: f64,
}

/// The guard of a difference: that there are enough pairs or runs, and of pairs the exact test.
pub fn guard(difference: &Difference, pairs: Option<&[f64]>) -> Option<f64> {
    match pairs {
        _ if !can_differ(difference.count) => Some(1.0),
        Some(differences) => sign_flip(differences),
        None => None,
    }
}

/// Whether what guards a difference lets it be called one at a level.
pub fn is_guarded(guard: Option<f64>, level: f64) -> bool {
    guard.is_none_or(|guard| guard <= GUARD.max(level))
}

/// The probability that decides at a level: where the guard does not let a difference be called one, that of the guard.
/// A difference is called one where it is the level at most.
pub fn guarded(p: f64, guard: Option<f64>, level: f64) -> f64 {
    match guard {
        Some(guard) if !is_guarded(Some(guard), level) => p.max(guard),
        _ => p,
    }
}

/// Decides; `p` is the difference's own, or corrected for other questions, and `guard` that of [`guard`]. Where the
/// runs do not tell, also how many pairs in all would tell a difference of the margin, `None` beyond counting.
pub fn verdict(difference: &Difference, p: f64, guard: Option<f64>, rules: Rules) -> (Decision, Option<u32>) {
    let Rules { level, own_level, margin } = rules;
    let differs = guarded(p, guard, level) <= level;
    let (low, high) = difference.interval(1.0 - 2.0 * level);
    let is_within = -margin <= low && high <= margin;
    match (differs, is_within) {
        (true, false) => (Decision::Changed, None),
        (true, true) => (Decision::Negligible, None),
        // Few runs that happen to agree are no measure of how far runs differ.
        (false, true) if can_differ(difference.count) => (Decision::Same, None),
        (false, _) => {
            let deviation = difference.error * (difference.count as f64).sqrt();
            // As many as there are do not tell, and the guard asks for some.
            let least = difference.count + 1;
            let least = guard.map_or(least, |_| least.max(LEAST_PAIRS));
            let needed = pairs_needed(deviation, margin, own_level);
            (Decision::Undecided, needed.map(|it| it.max(u32::try_from(least).unwrap_or(u32::MAX))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::paired;

    fn of(differences: &[f64]) -> (Decision, Option<u32>) {
        let found = paired(differences).unwrap();
        let rules = Rules { level: 0.05, own_level: 0.05, margin: 1.01_f64.ln() };
        verdict(&found, found.p, guard(&found, Some(differences)), rules)
    }

    #[test]
    fn each_verdict_has_its_case_and_needs_more_pairs_where_the_level_is_stricter() {
        let noise = [0.001, -0.002, 0.0015, -0.0005, 0.002, -0.001, 0.0, -0.001];
        let by = |shift: f64| noise.map(|value| value + shift);
        assert_eq!(of(&by(0.05)).0, Decision::Changed);
        assert_eq!(of(&by(-0.05)).0, Decision::Changed);
        assert_eq!(of(&by(0.005)).0, Decision::Negligible);
        assert_eq!(of(&by(0.0)).0, Decision::Same);
        let loud = noise.map(|value| value * 20.0);
        let (Decision::Undecided, Some(pairs)) = of(&loud) else { panic!("{:?}", of(&loud)) };
        assert!((20..200).contains(&pairs), "{pairs}");
        let noise = [0.02, -0.019, 0.021, -0.018, 0.02, -0.02];
        let found = paired(&noise).unwrap();
        let needed = |own_level| {
            let rules = Rules { level: 0.05, own_level, margin: 1.01_f64.ln() };
            match verdict(&found, 1.0, None, rules) {
                (Decision::Undecided, pairs) => pairs.unwrap(),
                other => panic!("{other:?}"),
            }
        };
        let deviation = found.error * 6.0_f64.sqrt();
        let exact = |level| pairs_needed(deviation, 1.01_f64.ln(), level).unwrap();
        assert_eq!((needed(0.05), needed(0.005)), (exact(0.05), exact(0.005)));
        assert!(needed(0.005) > needed(0.05) && needed(0.05) > 6);
    }

    /// Two pairs that happened to agree were called the same.
    #[test]
    fn few_pairs_that_agree_or_differ_are_not_believed_and_what_the_guard_refuses_lies_above_the_level() {
        for pairs in 2..8 {
            let differences = [0.0001, -0.0001, 0.0, 0.0001, -0.0001, 0.0, 0.0001];
            assert_eq!(of(&differences[..pairs]).0 == Decision::Same, can_differ(pairs), "{pairs} pairs");
        }
        // By Student's t these three differ; every flip of three signs is as likely as one in four.
        assert!(paired(&[0.5, 0.5001, 0.4999]).unwrap().p < 0.001);
        // Nor is it said that two or three would do.
        let told = (Decision::Undecided, Some(5));
        assert_eq!(of(&[0.5, 0.5001, 0.4999]), told);
        // At a lax level the guard is no stricter than it.
        for level in [0.001, 0.05, 0.1, 0.15, 0.2] {
            for guard in [0.03125, 0.0625, 0.125, 0.1875, 0.25, 1.0].map(Some) {
                let p = guarded(0.0001, guard, level);
                assert_eq!(p <= level, is_guarded(guard, level), "{level} {guard:?}");
            }
        }
        assert!(is_guarded(Some(0.125), 0.2) && !is_guarded(Some(0.125), 0.05));
        assert_eq!([Some(1.0), None].map(|guard| guarded(0.7, guard, 0.05)), [1.0, 0.7]);
    }
}
