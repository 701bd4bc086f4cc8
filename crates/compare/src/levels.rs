//! Several questions at once: probabilities corrected so that the level holds for all of them together. Looks at
//! results before all runs are made are such: each is a further chance to be wrong, so that each has a stricter level.

use std::iter::repeat_with;

use super::difference::paired;
use super::order::Draw;

/// Corrects probabilities by Holm's method: with these, the chance to call anything changed where nothing has is the
/// level. In the order of the input; what is no number stays, and counts as no question.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let order = ascending(p);
    let questions = order.len();
    let mut corrected = p.to_vec();
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        if let Some(p) = corrected.get_mut(index) {
            largest = largest.max((*p * (questions - rank) as f64).min(1.0));
            *p = largest;
        }
    }
    corrected
}

/// The level that each probability is held against by Holm's method: those that are below theirs are what [`holm`]
/// calls changed at this level. An interval of this confidence leaves out 0 where its figure has changed, and there
/// alone.
pub fn holm_levels(p: &[f64], level: f64) -> Vec<f64> {
    let order = ascending(p);
    let questions = order.len();
    let mut levels = vec![level; p.len()];
    let mut open = questions;
    let mut has_changed = true;
    for index in order {
        let own = level / open.max(1) as f64;
        has_changed &= p.get(index).is_some_and(|p| *p <= own);
        open -= usize::from(has_changed);
        if let Some(level) = levels.get_mut(index) {
            *level = own;
        }
    }
    levels
}

/// Corrects probabilities by the method of Benjamini and Hochberg: of all that these call changed, the share in which
/// nothing has is the level. In the order of the input; what is no number stays, and counts as no question.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let order = ascending(p);
    let questions = order.len() as f64;
    let mut corrected = p.to_vec();
    let mut least: f64 = 1.0;
    for (rank, index) in order.into_iter().enumerate().rev() {
        if let Some(p) = corrected.get_mut(index) {
            least = least.min(*p * questions / (rank + 1) as f64);
            *p = least;
        }
    }
    corrected
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let numbers = p.iter().enumerate().filter(|(_, p)| p.is_finite());
    let mut order: Vec<(usize, f64)> = numbers.map(|(index, p)| (index, *p)).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    order.into_iter().map(|(index, _)| index).collect()
}

/// Experiments without a difference that are played to find the level.
const PLAYED: usize = 20_000;

/// The level of each look, so that all of them together keep `level`, where an experiment ends at the first look that
/// shows a difference. Looks are numbers of pairs, ascending; those below 2 are none. It is found by playing
/// experiments in which nothing differs, from a seed of its own: the same looks always give the same level.
pub fn level_of_each(looks: &[usize], level: f64) -> f64 {
    let mut looks: Vec<usize> = looks.iter().copied().filter(|look| *look >= 2).collect();
    looks.sort_unstable();
    looks.dedup();
    let Some(most) = looks.last().copied().filter(|_| looks.len() > 1) else { return level };
    let mut draw = Draw::new(most as u64);
    let mut smallest: Vec<f64> = repeat_with(|| {
        let differences: Vec<f64> = repeat_with(|| draw.normal()).take(most).collect();
        let seen = looks.iter().filter_map(|look| differences.get(..*look));
        seen.filter_map(|seen| Some(paired(seen)?.p)).fold(1.0, f64::min)
    })
    .take(PLAYED)
    .collect();
    smallest.sort_by(f64::total_cmp);
    let place = (PLAYED as f64 * level) as usize;
    smallest.get(place).copied().unwrap_or(level).min(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_divide_as_corrected_probabilities_do_and_what_is_no_number_is_no_question() {
        for p in [
            vec![0.001, 0.02, 0.013, 0.2, 0.9],
            vec![0.01, 0.01, 0.01],
            vec![0.04],
            vec![0.012, 0.04, f64::NAN, 0.03],
            vec![],
        ] {
            let levels = holm_levels(&p, 0.05);
            for ((p, level), corrected) in p.iter().zip(&levels).zip(holm(&p)) {
                assert_eq!(p <= level, corrected <= 0.05, "{p} {level} {corrected}");
            }
        }
        assert_eq!(holm_levels(&[0.2, 0.001], 0.05), [0.05, 0.025]);
        let p = [0.01, f64::NAN, 0.02];
        let corrected = holm(&p);
        assert_eq!(corrected[0], 0.02);
        assert!(corrected[1].is_nan());
        assert_eq!(corrected[2], 0.02);
        assert!(benjamini_hochberg(&p)[1].is_nan());
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[1.0, 1.0]), [1.0, 1.0]);
    }

    #[test]
    fn more_looks_are_stricter() {
        assert_eq!(level_of_each(&[8], 0.05), 0.05);
        assert_eq!(level_of_each(&[], 0.05), 0.05);
        let two = level_of_each(&[8, 16], 0.05);
        let four = level_of_each(&[4, 8, 12, 16], 0.05);
        // Pocock's levels for looks at normal data are 0.0294 and 0.0182.
        assert!((0.025..0.034).contains(&two), "{two}");
        assert!((0.014..0.024).contains(&four), "{four}");
        assert_eq!(two, level_of_each(&[16, 8, 8, 1], 0.05));
    }
}
