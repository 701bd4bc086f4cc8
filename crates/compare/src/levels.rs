//! Several questions at once: probabilities corrected so that the level holds for all of them together.

/// Corrects probabilities by Holm's method: with these, the chance to call anything changed where nothing has is the
/// level. In the order of the input; what is no number stays, and counts as no question.
#[must_use]
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
#[must_use]
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
#[must_use]
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

/// The indices of numbers, the smallest first.
fn ascending(p: &[f64]) -> Vec<usize> {
    let numbers = p.iter().enumerate().filter(|(_, p)| p.is_finite());
    let mut order: Vec<(usize, f64)> = numbers.map(|(index, p)| (index, *p)).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    order.into_iter().map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_divide_as_corrected_probabilities_do() {
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
    }

    #[test]
    fn what_is_no_number_is_no_question() {
        let p = [0.01, f64::NAN, 0.02];
        let corrected = holm(&p);
        assert_eq!(corrected[0], 0.02);
        assert!(corrected[1].is_nan());
        assert_eq!(corrected[2], 0.02);
        assert!(benjamini_hochberg(&p)[1].is_nan());
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[1.0, 1.0]), [1.0, 1.0]);
    }
}
