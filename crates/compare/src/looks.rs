//! Looks at results before all runs are made. Each is a further chance to be wrong, so that each has a stricter level.

use std::iter::repeat_with;

use crate::difference::paired;
use crate::order::Draw;

/// Experiments without a difference that are played to find the level.
const PLAYED: usize = 20_000;

/// The level of each look, so that all of them together keep `level`, where an experiment ends at the first look that
/// shows a difference. Looks are numbers of pairs, ascending; those below 2 are none. It is found by playing
/// experiments in which nothing differs, from a seed of its own: the same looks always give the same level.
#[must_use]
pub fn level_of_each(looks: &[usize], level: f64) -> f64 {
    let mut looks: Vec<usize> = looks.iter().copied().filter(|look| *look >= 2).collect();
    looks.sort_unstable();
    looks.dedup();
    let Some(most) = looks.last().copied().filter(|_| looks.len() > 1) else {
        return level;
    };
    let mut draw = Draw::new(most as u64);
    let mut smallest: Vec<f64> = repeat_with(|| {
        let differences: Vec<f64> = repeat_with(|| draw.normal()).take(most).collect();
        let seen = looks.iter().filter_map(|look| differences.get(..*look));
        let p = seen.filter_map(|seen| Some(paired(seen)?.p));
        p.fold(1.0, f64::min)
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
