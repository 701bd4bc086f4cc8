//! The difference between two sides, from pairs of runs or from two sets of runs.

use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

use crate::order::Draw;

/// Degrees of freedom from which on Student's t is as good as normal, to nine digits at the usual levels.
const AS_NORMAL: f64 = 1e7;
/// Runs of each side that [`runs_to_separate`] looks at: the probability is 10^-16 then.
const MOST_SEPARATED: u32 = 30;
/// Pairs up to which every flip of signs is tried.
const MOST_FLIPPED: usize = 20;
/// Ways to divide runs among two sides up to which every one is tried: ten of each side have fewer.
const MOST_DIVIDED: f64 = 200_000.0;
const DRAWN: u32 = 19_999;

/// A difference with its error, on the scale of the values: of logarithms, it is the logarithm of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Pairs, or runs of the smaller side.
    pub count: usize,
    /// The mean of B less that of A.
    pub mean: f64,
    /// Standard error of the mean.
    pub error: f64,
    /// Degrees of freedom.
    pub freedom: f64,
    /// Two-sided probability of a difference at least as large where there is none.
    pub p: f64,
}

impl Difference {
    fn of(count: usize, mean: f64, error: f64, freedom: f64) -> Option<Self> {
        if !(mean.is_finite() && error.is_finite() && freedom >= 1.0) {
            return None;
        }
        let p = match error > 0.0 {
            true => (2.0 * tail(mean.abs() / error, freedom)).min(1.0),
            // Runs that agree in every digit.
            false if mean == 0.0 => 1.0,
            false => 0.0,
        };
        Some(Self { count, mean, error, freedom, p })
    }

    /// The interval that holds the true difference with this confidence (0 to 1).
    pub fn interval(&self, confidence: f64) -> (f64, f64) {
        let half = quantile(0.5 + confidence / 2.0, self.freedom) * self.error;
        (self.mean - half, self.mean + half)
    }

    /// The interval at a level (0.05) that agrees with the decision: it holds 0 where the difference is not `proven`.
    pub fn decided_interval(&self, level: f64, proven: bool) -> (f64, f64) {
        let (low, high) = self.interval(1.0 - level);
        if proven { (low, high) } else { (low.min(0.0), high.max(0.0)) }
    }

    /// This difference with another error, of so many degrees of freedom.
    pub(crate) fn with_error(self, error: f64, freedom: f64) -> Self {
        Self::of(self.count, self.mean, error, freedom).unwrap_or(self)
    }

    /// This difference in other units: so many of the new one are one of the old.
    pub fn scaled(&self, by: f64) -> Self {
        Self { mean: self.mean * by, error: self.error * by, ..*self }
    }

    /// The smallest difference that such runs show in four of five experiments, at a level (0.05).
    pub fn visible(&self, level: f64) -> f64 {
        let t = quantile(1.0 - level / 2.0, self.freedom) + quantile(0.8, self.freedom);
        t * self.error
    }
}

/// The difference that pairs show, each value B less A of a pair. `None` for fewer than two, or what is no number.
pub fn paired(differences: &[f64]) -> Option<Difference> {
    paired_from(differences, 0.0)
}

/// As [`paired`], where the variance is no smaller than this, as of counts their mean: few that agree show none.
pub(crate) fn paired_from(differences: &[f64], floor: f64) -> Option<Difference> {
    let (mean, variance) = moments(differences)?;
    let n = differences.len() as f64;
    Difference::of(differences.len(), mean, (variance.max(floor) / n).sqrt(), n - 1.0)
}

/// The difference between runs without pairs, by Welch's test; `None` for fewer than two, or what is no number.
pub fn unpaired(a: &[f64], b: &[f64]) -> Option<Difference> {
    unpaired_from(a, b, [0.0; 2])
}

/// As [`unpaired`], where the values of A and of B have no smaller variance than these.
fn unpaired_from(a: &[f64], b: &[f64], floors: [f64; 2]) -> Option<Difference> {
    let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(a)?, moments(b)?);
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let (of_a, of_b) = (variance_a.max(floors[0]) / n_a, variance_b.max(floors[1]) / n_b);
    let error = (of_a + of_b).sqrt();
    let freedom = match error > 0.0 {
        true => (of_a + of_b).powi(2) / (of_a.powi(2) / (n_a - 1.0) + of_b.powi(2) / (n_b - 1.0)),
        false => n_a + n_b - 2.0,
    };
    Difference::of(a.len().min(b.len()), mean_b - mean_a, error, freedom)
}

/// The difference between counts of events, such as failures: pairs of runs, or two sets of them. Their variance is
/// that of Poisson's distribution at least. `None` as [`paired`] and [`unpaired`].
pub fn counted(a: &[f64], b: &[f64], are_pairs: bool) -> Option<Difference> {
    let all = a.iter().chain(b);
    let mean = all.clone().sum::<f64>() / all.count().max(1) as f64;
    match are_pairs {
        true => {
            let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
            paired_from(&differences, 2.0 * mean)
        }
        false => unpaired_from(a, b, [mean; 2]),
    }
}

/// The share of all ways to give the differences other signs that lie as far from 0 as they do: a test that assumes
/// nothing of how they are distributed. `None` for no pair, more than 20, or what is no number.
pub fn sign_flip(differences: &[f64]) -> Option<f64> {
    let n = differences.len();
    if n == 0 || n > MOST_FLIPPED || differences.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let size: f64 = differences.iter().map(|d| d.abs()).sum();
    let mut signed = differences.to_vec();
    let mut flipped: f64 = differences.iter().sum();
    let least = flipped.abs() - size * 1e-12;
    let mut as_far = 0_u64;
    let all = 1_u64 << n;
    // In Gray's order each flip differs from the one before in one sign.
    for step in 1..=all {
        as_far += u64::from(flipped.abs() >= least);
        if let Some(value) = signed.get_mut(step.trailing_zeros() as usize) {
            flipped -= 2.0 * *value;
            *value = -*value;
        }
    }
    Some(as_far as f64 / all as f64)
}

/// The share of all ways to divide the values among two sides of these sizes whose means lie as far apart: a test of
/// runs that stand in no pairs which assumes nothing of how values are distributed, such as losses that are all or
/// nothing. Of more ways than can be tried, so many are drawn, the same ones each time. `None` for an empty side, or
/// what is no number.
pub fn permuted(a: &[f64], b: &[f64]) -> Option<f64> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    if a.is_empty() || b.is_empty() || all.iter().any(|it| !it.is_finite()) {
        return None;
    }
    let (sum, size) = all.iter().fold((0.0, 0.0), |(sum, size), it| (sum + it, size + it.abs()));
    let expected = sum * a.len() as f64 / all.len() as f64;
    let least = (a.iter().sum::<f64>() - expected).abs() - size * 1e-12;
    let is_as_far = |of_a: f64| (of_a - expected).abs() >= least;
    if ways_to_choose(a.len(), all.len()) <= MOST_DIVIDED {
        let (mut as_far, mut ways) = (0_u64, 0_u64);
        divide(&all, a.len(), 0.0, &mut |of_a| {
            ways += 1;
            as_far += u64::from(is_as_far(of_a));
        });
        return Some(as_far as f64 / ways as f64);
    }
    let (mut draw, mut shuffled) = (Draw::new(1), all);
    let as_far = (0..DRAWN).filter(|_| {
        draw.shuffle(&mut shuffled);
        is_as_far(shuffled.iter().take(a.len()).sum())
    });
    Some((as_far.count() + 1) as f64 / f64::from(DRAWN + 1))
}

fn ways_to_choose(some: usize, all: usize) -> f64 {
    (1..=some).fold(1.0, |ways, n| ways * (all - some + n) as f64 / n as f64)
}

/// Tells the sum of each way to choose so many of the values, added to what was chosen before.
fn divide(values: &[f64], some: usize, sum: f64, tell: &mut impl FnMut(f64)) {
    if some == 0 {
        return tell(sum);
    }
    for (at, value) in values.iter().enumerate() {
        let rest = values.get(at + 1..).unwrap_or(&[]);
        if rest.len() + 1 < some {
            break;
        }
        divide(rest, some - 1, sum + value, tell);
    }
}

/// The probability that runs of two sides which are all alike divide so that what some of them have (a failure, say) is
/// in every run of one side and in none of the other: Fisher's exact test of such a table, at most twice its one tail.
pub fn separated(a: usize, b: usize) -> f64 {
    (2.0 / ways_to_choose(a, a + b)).min(1.0)
}

/// The probability that runs of two sides which are all alike divide so, or less evenly: Fisher's exact test,
/// two-sided. Of each side how many runs have something, and how many there are.
pub fn fisher(a: (usize, usize), b: (usize, usize)) -> f64 {
    let have = a.0 + b.0;
    // The logarithms of n!, whose differences are those of numbers of ways.
    let mut factorials = vec![0.0];
    for n in 1..=a.1 + b.1 {
        let before = factorials.last().copied().unwrap_or(0.0);
        factorials.push(before + (n as f64).ln());
    }
    let of = |n: usize| factorials.get(n).copied().unwrap_or(0.0);
    let ways = |all: usize, some: usize| of(all) - of(some) - of(all - some);
    let least = have.saturating_sub(b.1);
    let most = have.min(a.1);
    let chance = |of_a: usize| (ways(a.1, of_a) + ways(b.1, have - of_a) - ways(a.1 + b.1, have)).exp();
    if !(least..=most).contains(&a.0) {
        return 1.0;
    }
    let observed = chance(a.0) * (1.0 + 1e-9);
    (least..=most).map(chance).filter(|it| *it <= observed).sum::<f64>().min(1.0)
}

/// The smallest probability that [`fisher`] has of tables with these sums.
pub fn least_fisher(a: (usize, usize), b: (usize, usize)) -> f64 {
    let have = a.0 + b.0;
    let table = |of_a: usize| fisher((of_a, a.1), (have - of_a, b.1));
    let [least, most] = [have.saturating_sub(b.1), have.min(a.1)];
    table(least).min(table(most))
}

/// The runs of each side that so can show a difference at a level, the least.
pub fn runs_to_separate(level: f64) -> Option<u32> {
    (2..=MOST_SEPARATED).find(|runs| separated(*runs as usize, *runs as usize) <= level)
}

/// How many pairs would show a difference of `size` in four of five experiments, at a level (0.05), where differences
/// of pairs have this standard deviation. `None` beyond a million.
pub fn pairs_needed(deviation: f64, size: f64, level: f64) -> Option<u32> {
    if !(deviation.is_finite() && size > 0.0) {
        return None;
    }
    let enough = |pairs: u32| {
        let freedom = f64::from(pairs - 1);
        let t = quantile(1.0 - level / 2.0, freedom) + quantile(0.8, freedom);
        (t * deviation / size).powi(2) <= f64::from(pairs)
    };
    // More pairs are better: the least is found by halving.
    let (mut low, mut high) = (1, 1_000_000);
    if !enough(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        (low, high) = if enough(middle) { (low, middle) } else { (middle, high) };
    }
    Some(high)
}

fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    // The distance from the first value keeps digits where all are alike.
    let first = *values.first()?;
    let mean = values.iter().map(|value| value - first).sum::<f64>() / n;
    Some((first + mean, values.iter().map(|value| (value - first - mean).powi(2)).sum::<f64>() / (n - 1.0)))
}

fn tail(t: f64, freedom: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(student) if freedom < AS_NORMAL => student.sf(t),
        _ => Normal::standard().sf(t),
    }
}

/// The value below which this share of Student's distribution lies.
fn quantile(share: f64, freedom: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(student) if freedom < AS_NORMAL => student.inverse_cdf(share),
        _ => Normal::standard().inverse_cdf(share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_has_no_difference_and_runs_that_agree_in_every_digit_differ_or_not() {
        for values in [&[][..], &[1.0], &[1.0, f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(paired(values), None, "{values:?}");
            assert_eq!(unpaired(values, &[1.0, 2.0]), None);
            assert_eq!(unpaired(&[1.0, 2.0], values), None);
        }
        assert_eq!(sign_flip(&[]), None);
        assert_eq!(sign_flip(&[f64::NAN, 1.0]), None);
        assert_eq!(sign_flip(&[0.0; 21]), None);
        let same = paired(&[0.0; 4]).unwrap();
        assert_eq!((same.p, same.interval(0.95)), (1.0, (0.0, 0.0)));
        let other = paired(&[0.25; 4]).unwrap();
        assert_eq!((other.p, other.interval(0.95)), (0.0, (0.25, 0.25)));
        assert_eq!(sign_flip(&[0.0; 4]), Some(1.0));
        assert_eq!(sign_flip(&[0.25; 4]), Some(2.0 / 16.0));
        let equal = unpaired(&[3.0; 3], &[3.0; 4]).unwrap();
        assert_eq!((equal.p, equal.count), (1.0, 3));
    }

    #[test]
    fn counts_that_agree_have_the_variance_of_counts() {
        // Two failures in each run, and four: the poisson.test of R says 0.10 of 10 beside 20.
        for are_pairs in [false, true] {
            let found = counted(&[2.0; 5], &[4.0; 5], are_pairs).unwrap();
            assert!((found.p - 0.12).abs() < 0.03, "{found:?}");
            let many = counted(&[200.0; 5], &[400.0; 5], are_pairs).unwrap();
            assert!(many.p < 1e-3, "{many:?}");
            // None is a value.
            let begun = counted(&[0.0; 8], &[16.0; 8], are_pairs).unwrap();
            assert!(begun.p < 1e-4, "{begun:?}");
            assert_eq!(counted(&[0.0; 8], &[0.0; 8], are_pairs).unwrap().p, 1.0);
        }
        assert_eq!(counted(&[0.0; 8], &[16.0; 8], false).unwrap().scaled(1e-3).mean, 0.016);
    }

    #[test]
    fn runs_that_stand_in_no_pairs_are_divided_in_every_way() {
        // SciPy: permutation_test of the difference of means, exact: all of one side in 2 of 252; of 8 in 2 of 12,870.
        let of = |a: &[f64], b: &[f64]| permuted(a, b).unwrap();
        assert!((of(&[0.0; 5], &[1.0; 5]) - 2.0 / 252.0).abs() < 1e-12);
        assert!((of(&[0.0; 8], &[3.0; 8]) - 2.0 / 12_870.0).abs() < 1e-12);
        assert_eq!(of(&[4.0; 3], &[4.0; 3]), 1.0);
        // Four of eight that lost all, and none of eight: Fisher's test of such a table.
        let some = [0.0, 900.0, 0.0, 900.0, 900.0, 0.0, 900.0, 0.0];
        assert!((of(&[0.0; 8], &some) - fisher((0, 8), (4, 8))).abs() < 1e-12);
        // Of more than can be tried, some are drawn.
        let many = of(&[0.0; 20], &[[0.0, 900.0]; 10].concat());
        let exact = fisher((0, 20), (10, 20));
        assert!((many - exact).abs() < 1e-3, "{many} {exact}");
        assert_eq!(permuted(&[], &[1.0]), None);
        assert_eq!(permuted(&[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn uneven_tables_and_few_runs_have_the_probability_of_fishers_test() {
        // SciPy: fisher_exact([[a, n - a], [b, m - b]]).
        for (a, b, p) in [
            ((0, 8), (4, 12), 0.116_615),
            ((0, 8), (8, 8), 0.000_155_4),
            ((1, 9), (11, 13), 0.001_548),
            ((3, 10), (3, 10), 1.0),
            ((0, 0), (2, 5), 1.0),
        ] {
            assert!((fisher(a, b) - p).abs() < 1e-5, "{a:?} {b:?} {}", fisher(a, b));
            assert!((fisher(b, a) - p).abs() < 1e-5);
        }
        // Of eight and eight, two can show nothing, however they divide.
        let least = least_fisher((1, 8), (1, 8));
        assert!((least - fisher((0, 8), (2, 8))).abs() < 1e-12 && least > 0.05);
        assert!(least_fisher((3, 8), (3, 8)) < 0.01);
        // More than there are is no table.
        assert_eq!(fisher((5, 3), (0, 3)), 1.0);
        // SciPy: fisher_exact([[3, 0], [0, 3]]) is 0.1, of 5 it is 0.00794, of 8 it is 0.000155.
        for (runs, p) in [(1, 1.0), (2, 1.0 / 3.0), (3, 0.1), (5, 0.007_937), (8, 0.000_155_4)] {
            assert!((separated(runs, runs) - p).abs() < 1e-6, "{runs}");
        }
        assert!((separated(2, 3) - 0.2).abs() < 1e-12 && separated(3, 2) == separated(2, 3));
        assert_eq!((separated(0, 0), separated(0, 5)), (1.0, 1.0));
        assert_eq!([0.05, 0.005, 0.0, f64::NAN].map(runs_to_separate), [Some(4), Some(6), None, None]);
        assert!(separated(1_000, 1_000) >= 0.0);
    }

    #[test]
    fn pairs_that_would_tell() {
        // Less noise than the difference: the fewest pairs that have a deviation at all.
        assert!(pairs_needed(0.001, 0.01, 0.05).unwrap() <= 3);
        for (deviation, difference) in [(f64::NAN, 0.01), (0.01, 0.0), (1e6, 0.01)] {
            assert_eq!(pairs_needed(deviation, difference, 0.05), None, "{deviation} {difference}");
        }
        let more = pairs_needed(0.02, 0.01, 0.05).unwrap();
        let fewer = pairs_needed(0.01, 0.01, 0.05).unwrap();
        // Twice the noise asks for about four times the pairs.
        assert!((3 * fewer..5 * fewer).contains(&more), "{fewer} {more}");
        // What is visible is what as many would tell: twelve differences with a deviation of exactly 0.01.
        let spread = 0.01 * (11.0_f64 / 12.0).sqrt();
        let differences: Vec<f64> = (0..12).map(|n| if n % 2 == 0 { spread } else { -spread }).collect();
        let visible = paired(&differences).unwrap().visible(0.05);
        assert_eq!(pairs_needed(0.01, visible * 1.000_001, 0.05), Some(12));
        assert!(pairs_needed(0.01, visible * 0.999, 0.05) > Some(12));
    }
}
