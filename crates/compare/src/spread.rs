//! How a figure spreads over runs.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Runs below which an interval of the mean says nothing: with two, Student's t multiplies by 12.7.
const LEAST_RUNS: usize = 3;
/// Runs below which none can be told to lie apart.
const LEAST_RUNS_APART: usize = 5;
/// Distances from the median, in standard deviations as the median distance tells, beyond which a run lies apart.
const APART: f64 = 5.0;
/// Share of the median within which no run lies apart, however close the others are to each other.
const CLOSE: f64 = 0.05;
/// The standard deviation of a normal distribution divided by its median distance from the median.
const SCALE: f64 = 1.482_602_218_505_602;

/// How a figure spreads over runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Spread {
    /// Arithmetic mean of the values.
    pub mean: f64,
    /// Sample standard deviation (n - 1); `None` for one value.
    pub sd: Option<f64>,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// 95 % interval of the mean by Student's t; `None` for fewer than three values.
    pub interval: Option<(f64, f64)>,
}

/// The spread of a value per run; `None` where no value is a number.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let runs = values.len();
    let n = runs as f64;
    // Divided first: the sum of large numbers may have no place in a float.
    let mean = values.iter().map(|v| v / n).sum::<f64>();
    let sd = (runs > 1).then(|| values.iter().map(|v| (v - mean).powi(2) / (n - 1.0)).sum::<f64>().sqrt());
    let half = sd
        .filter(|_| runs >= LEAST_RUNS)
        .and_then(|sd| Some(StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(0.975) * sd / n.sqrt()));
    Some(Spread {
        mean,
        sd,
        min: values.iter().copied().reduce(f64::min)?,
        max: values.iter().copied().reduce(f64::max)?,
        interval: half.map(|half| (mean - half, mean + half)),
    })
}

/// The runs, by index, whose value lies far from the others'; none of fewer than five, as nobody is the odd one there.
pub fn apart(values: &[Option<f64>]) -> Vec<usize> {
    let known = || values.iter().flatten().copied().filter(|v| v.is_finite());
    if known().count() < LEAST_RUNS_APART {
        return Vec::new();
    }
    let Some(middle) = median(known().collect()) else { return Vec::new() };
    let distance = median(known().map(|v| (v - middle).abs()).collect()).unwrap_or(0.0);
    let limit = (APART * SCALE * distance).max(CLOSE * middle.abs());
    let far = values
        .iter()
        .enumerate()
        .filter(|(_, value)| value.is_some_and(|value| value.is_finite() && (value - middle).abs() > limit));
    far.map(|(run, _)| run).collect()
}

/// The middle value, or the mean of the two in the middle; `None` of no values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some(lower / 2.0 + upper / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degenerate_values_are_told_as_they_are() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[f64::NAN, f64::INFINITY]), None);
        let one = spread(&[7.0]).unwrap();
        assert_eq!((one.mean, one.sd, one.interval), (7.0, None, None));
        let two = spread(&[7.0, 9.0]).unwrap();
        assert_eq!((two.mean, two.interval), (8.0, None));
        let equal = spread(&[5.0; 4]).unwrap();
        assert_eq!((equal.sd, equal.interval), (Some(0.0), Some((5.0, 5.0))));
        let mixed = spread(&[1.0, f64::NAN, 3.0]).unwrap();
        assert_eq!((mixed.sd.is_some(), mixed.mean), (true, 2.0));
        assert!(spread(&[f64::MAX, f64::MAX]).unwrap().mean.is_finite());
    }

    #[test]
    fn a_run_that_lies_apart_is_found() {
        let some = |values: &[f64]| apart(&values.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(some(&[100.0, 101.0, 99.0, 100.5, 60.0]), [4]);
        assert_eq!(some(&[60.0, 101.0, 99.0, 100.5]), Vec::<usize>::new());
        // Spread as wide as that is no outlier, nor is a close one among equals.
        assert_eq!(some(&[100.0, 140.0, 60.0, 120.0, 80.0]), Vec::<usize>::new());
        assert_eq!(some(&[100.0, 100.0, 100.0, 100.0, 104.0]), Vec::<usize>::new());
        assert_eq!(some(&[0.0, 0.0, 0.0, 0.0, 4.0]), [4]);
        assert_eq!(apart(&[Some(1.0), None, Some(1.0), Some(1.0), Some(1.0), Some(9.0)]), [5]);
    }
}
