//! Whether a rate has a trend, by the Mann-Kendall test (Econometrica 13, 1945; "Rank Correlation Methods", 1975).
//! Seconds of one run depend on each other, so that it sees trends in slow fluctuations; a trend counts only where the
//! Theil-Sen slope (1950; 1968), the median of all pairs' slopes, over the whole length is a tenth of the median.

const FEWEST: usize = 10;
/// Two-sided 1 % of the normal distribution.
const Z: f64 = 2.576;
/// The smallest change over the whole length that matters, as a part of the median.
const SMALLEST: f64 = 0.1;
/// Pairs grow with the square of the values; longer series are averaged down to this many.
const MOST: usize = 300;

/// The change from the first to the last value as a part of the median, by the Theil-Sen slope, where there is a trend.
pub(crate) fn trend(values: &[f64]) -> Option<f64> {
    if values.len() < FEWEST {
        return None;
    }
    let group = values.len().div_ceil(MOST);
    let values: Vec<f64> = values.chunks_exact(group).map(|chunk| chunk.iter().sum::<f64>() / group as f64).collect();
    let mut score = 0i64;
    let mut slopes = Vec::new();
    for (i, early) in values.iter().enumerate() {
        for (distance, late) in (1u32..).zip(values.iter().skip(i + 1)) {
            score += i64::from(late > early) - i64::from(late < early);
            slopes.push((late - early) / f64::from(distance));
        }
    }
    // Variance without the correction for ties, which only makes the test more careful.
    let n = values.len() as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let z = (score.abs() - 1).max(0) as f64 / deviation;
    let median_value = compare::median(values)?;
    if z < Z || median_value <= 0.0 {
        return None;
    }
    let change = compare::median(slopes)? * (n - 1.0) / median_value;
    (change.abs() >= SMALLEST).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise of +-1 that is the same in every run.
    fn noise(i: u32) -> f64 {
        f64::from(i.wrapping_mul(2_654_435_761) >> 16 & 0xff) / 128.0 - 1.0
    }

    fn series(n: u32, value: impl Fn(f64) -> f64) -> Vec<f64> {
        (0..n).map(|i| value(f64::from(i) / f64::from(n - 1)) + 20.0 * noise(i)).collect()
    }

    #[test]
    fn a_rise_and_a_fall_have_their_size_and_what_is_level_small_or_one_bad_second_is_no_trend() {
        let mut one_bad = series(30, |_| 1_000.0);
        one_bad[29] = 0.0;
        let level = [30, 3_600].map(|seconds| series(seconds, |_| 1_000.0));
        let others = [series(60, |x| 1_000.0 + 50.0 * x), one_bad, vec![], vec![1.0; 9], vec![0.0; 50], vec![7.0; 50]];
        for values in level.iter().chain(&others) {
            assert_eq!(trend(values), None, "{values:?}");
        }
        let rise = trend(&series(30, |x| 1_000.0 + 300.0 * x)).unwrap();
        assert!((0.2..0.35).contains(&rise), "{rise}");
        let fall = trend(&series(2_000, |x| 1_000.0 - 500.0 * x)).unwrap();
        assert!((-0.8..-0.5).contains(&fall), "{fall}");
    }
}
