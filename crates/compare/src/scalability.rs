//! The Universal Scalability Law: throughput X of N clients, `X(N) = λN / (1 + σ(N-1) + κN(N-1))`.
//!
//! λ is what one client alone gets, σ the share of the work that waits for what is shared (contention), κ what each
//! pair of clients costs to agree (coherence). N. J. Gunther, "A General Theory of Computational Scalability Based on
//! Rational Functions" (2008), <https://arxiv.org/abs/0808.1431>. Fitted by least squares (Levenberg and Marquardt); σ
//! and κ are not negative.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Distinct numbers of clients below which three parameters say nothing.
pub const LEAST_CLIENT_COUNTS: usize = 4;
/// Explained share of the variance, and distance of a mean from the curve, beyond which the law is a poor fit.
const LEAST_EXPLAINED: f64 = 0.9;
const MOST_OFF: f64 = 0.1;
/// Steps of a fit; it takes ten or so.
const MOST_STEPS: usize = 500;

/// A throughput that so many clients had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalePoint {
    /// Clients: 1 or more.
    pub clients: f64,
    /// Operations per second of all of them.
    pub throughput: f64,
}

/// A value and its 95 % interval, where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ScaleEstimate {
    /// The value.
    pub value: f64,
    /// The interval; `None` where the value lies at its bound, or runs are too few.
    pub interval: Option<(f64, f64)>,
}

/// The Universal Scalability Law, `X(N) = λN / (1 + σ(N-1) + κN(N-1))`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleLaw {
    /// Messages per second of one client alone, λ.
    pub alone: ScaleEstimate,
    /// Contention, σ: share of the work that waits for shared resources.
    pub contention: ScaleEstimate,
    /// Coherence, κ: coordination cost of each pair of clients.
    pub coherence: ScaleEstimate,
    /// The number of clients with the highest throughput; `None` where it cannot be told.
    pub peak: Option<f64>,
    /// Why it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_peak: Option<ScaleDoubt>,
    /// Share of the variance that the law explains.
    pub r_squared: f64,
    /// The largest distance of a mean from the curve, as a share of the curve.
    pub worst_residual: f64,
}

/// Why runs with different numbers of clients give no number with the highest throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleDoubt {
    /// From this number of clients on the generator limited most runs: the curve is not the broker's.
    Generator(u32),
    /// The law does not fit the throughputs.
    PoorFit,
    /// Coherence is at its bound, 0: by the law more clients never have less.
    NeverFalls,
    /// The interval of coherence holds 0, or is not known.
    NotProven,
    /// The peak is far beyond the tried numbers of clients.
    FarBeyond,
}

impl ScaleLaw {
    /// Whether the law is the broker's, and the throughputs follow it.
    pub const fn is_followed(&self) -> bool {
        !matches!(self.no_peak, Some(ScaleDoubt::PoorFit | ScaleDoubt::Generator(_)))
    }

    /// Whether the law describes the throughputs so badly that its parameters explain little.
    pub fn is_poor(&self) -> bool {
        self.r_squared < LEAST_EXPLAINED || self.worst_residual > MOST_OFF
    }

    /// The throughput of so many clients.
    pub fn throughput(&self, clients: f64) -> f64 {
        law([self.alone.value, self.contention.value, self.coherence.value], clients)
    }

    /// The number of clients at which the curve is highest; `None` where more clients always have more.
    pub fn highest(&self) -> Option<f64> {
        let (contention, coherence) = (self.contention.value, self.coherence.value);
        (coherence > 0.0).then(|| ((1.0 - contention).max(0.0) / coherence).sqrt().max(1.0))
    }

    /// Throughput lost to contention and coherence, as shares of that without them: the whole, and both parts.
    pub fn lost(&self, clients: f64) -> [f64; 3] {
        let contention = self.contention.value * (clients - 1.0);
        let coherence = self.coherence.value * clients * (clients - 1.0);
        let extra = contention + coherence;
        let lost = extra / (1.0 + extra);
        if extra > 0.0 { [lost, lost * contention / extra, lost * coherence / extra] } else { [0.0; 3] }
    }
}

fn law([alone, contention, coherence]: [f64; 3], n: f64) -> f64 {
    alone * n / (1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0))
}

/// The law that lies closest to the points, its peak not told; `None` where fewer than four numbers of clients have a
/// throughput.
pub fn scalability(points: &[ScalePoint]) -> Option<ScaleLaw> {
    let is_valid = |it: &&ScalePoint| {
        it.clients >= 1.0 && it.clients.is_finite() && it.throughput > 0.0 && it.throughput.is_finite()
    };
    let points: Vec<ScalePoint> = points.iter().filter(is_valid).copied().collect();
    let mut counts: Vec<f64> = points.iter().map(|it| it.clients).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    if counts.len() < LEAST_CLIENT_COUNTS {
        return None;
    }
    // Numbers of order 1, whatever the throughput is.
    let scale = points.iter().map(|it| it.throughput / it.clients).fold(0.0, f64::max);
    let scaled: Vec<ScalePoint> =
        points.iter().map(|it| ScalePoint { throughput: it.throughput / scale, ..*it }).collect();
    // Where a parameter would be negative, it is at its bound: each choice of those is a fit of its own, and the best
    // one counts.
    let free = [[true, true, true], [true, true, false], [true, false, true], [true, false, false]];
    let fits = free.iter().map(|free| fit(&scaled, *free));
    let feasible = fits.filter(|it| it.at.iter().all(|value| *value >= 0.0 && value.is_finite()));
    let best = feasible.min_by(|a, b| a.squares.total_cmp(&b.squares))?;
    Some(told(&scaled, &counts, &best, scale))
}

struct Fit {
    at: [f64; 3],
    free: [bool; 3],
    squares: f64,
}

fn squares(points: &[ScalePoint], at: [f64; 3]) -> f64 {
    points.iter().map(|it| (it.throughput - law(at, it.clients)).powi(2)).sum()
}

/// How the law changes with each parameter that is free.
fn gradient(at: [f64; 3], free: [bool; 3], n: f64) -> [f64; 3] {
    let [alone, contention, coherence] = at;
    let below = 1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0);
    let by_alone = n / below;
    let by_below = -alone * n / (below * below);
    let mut all = [by_alone, by_below * (n - 1.0), by_below * n * (n - 1.0)];
    all.iter_mut().zip(free).filter(|it| !it.1).for_each(|(it, _)| *it = 0.0);
    all
}

/// `JᵀJ`, with ones for parameters that are fixed, and `Jᵀr`.
fn normal(points: &[ScalePoint], at: [f64; 3], free: [bool; 3]) -> ([[f64; 3]; 3], [f64; 3]) {
    let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for point in points {
        let gradient = gradient(at, free, point.clients);
        let residual = point.throughput - law(at, point.clients);
        for ((row, right), own) in matrix.iter_mut().zip(&mut right).zip(gradient) {
            *right += own * residual;
            for (cell, other) in row.iter_mut().zip(gradient) {
                *cell += own * other;
            }
        }
    }
    for ((i, row), _) in matrix.iter_mut().enumerate().zip(free).filter(|it| !it.1) {
        row.get_mut(i).into_iter().for_each(|cell| *cell = 1.0);
    }
    (matrix, right)
}

fn fit(points: &[ScalePoint], free: [bool; 3]) -> Fit {
    let mut at = [1.0, if free[1] { 0.05 } else { 0.0 }, if free[2] { 0.001 } else { 0.0 }];
    let mut least = squares(points, at);
    let mut damping = 1e-3;
    for _ in 0..MOST_STEPS {
        let (mut matrix, right) = normal(points, at, free);
        for (i, row) in matrix.iter_mut().enumerate() {
            row.get_mut(i).into_iter().for_each(|cell| *cell += *cell * damping);
        }
        let Some(inverse) = inverse(matrix) else { break };
        let step = times(inverse, right);
        let mut next = at;
        next.iter_mut().zip(step).for_each(|(it, step)| *it += step);
        let squares = squares(points, next);
        if squares.is_finite() && squares <= least && next[0] > 0.0 {
            let is_still = step.iter().zip(at).all(|(step, at)| step.abs() <= 1e-13 * (at.abs() + 1e-9));
            (at, least) = (next, squares);
            damping = (damping / 10.0).max(1e-12);
            if is_still {
                break;
            }
        } else {
            damping *= 10.0;
            if damping > 1e16 {
                break;
            }
        }
    }
    Fit { at, free, squares: least }
}

fn times(matrix: [[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
}

/// The inverse of a symmetric matrix by its adjugate.
fn inverse(m: [[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let [[a, b, c], [d, e, f], [g, h, i]] = m;
    let determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
    if !determinant.is_normal() {
        return None;
    }
    let adjugate = [
        [e * i - f * h, c * h - b * i, b * f - c * e],
        [f * g - d * i, a * i - c * g, c * d - a * f],
        [d * h - e * g, b * g - a * h, a * e - b * d],
    ];
    Some(adjugate.map(|row| row.map(|it| it / determinant)))
}

fn told(points: &[ScalePoint], counts: &[f64], best: &Fit, scale: f64) -> ScaleLaw {
    let freedom = points.len() as f64 - best.free.iter().filter(|it| **it).count() as f64;
    let (matrix, _) = normal(points, best.at, best.free);
    let covariance = inverse(matrix).filter(|_| freedom > 0.0);
    let quantile = StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(f64::NAN, |it| it.inverse_cdf(0.975));
    let estimate = |which: usize, scale: f64| {
        let value = best.at.get(which).copied().unwrap_or_default() * scale;
        let is_free = best.free.get(which).copied().unwrap_or_default();
        let cell = covariance.and_then(|it| it.get(which).and_then(|row| row.get(which)).copied());
        let half = cell.map(|it| quantile * (it * best.squares / freedom).sqrt() * scale);
        let half = half.filter(|it| is_free && it.is_finite());
        ScaleEstimate { value, interval: half.map(|half| (value - half, value + half)) }
    };
    let mean = points.iter().map(|it| it.throughput).sum::<f64>() / points.len() as f64;
    let total: f64 = points.iter().map(|it| (it.throughput - mean).powi(2)).sum();
    let off = |count: &f64| {
        let own: Vec<f64> = points.iter().filter(|it| it.clients == *count).map(|it| it.throughput).collect();
        let mean = own.iter().sum::<f64>() / own.len().max(1) as f64;
        (mean / law(best.at, *count) - 1.0).abs()
    };
    ScaleLaw {
        alone: estimate(0, scale),
        contention: estimate(1, 1.0),
        coherence: estimate(2, 1.0),
        peak: None,
        no_peak: None,
        r_squared: if total > 0.0 { 1.0 - best.squares / total } else { 0.0 },
        worst_residual: counts.iter().map(off).fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(at: [f64; 3], counts: &[f64]) -> Vec<ScalePoint> {
        let of = |n: &f64| ScalePoint { clients: *n, throughput: law(at, *n) };
        counts.iter().map(of).collect()
    }

    #[test]
    fn a_law_is_found_again_and_its_peak() {
        let found = scalability(&points([995.6, 0.0267, 0.000_769], &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0])).unwrap();
        assert!((found.highest().unwrap() - ((1.0 - 0.0267) / 0.000_769_f64).sqrt()).abs() < 1e-3);
        assert!(found.r_squared > 0.999_999 && found.worst_residual < 1e-9);
        let [all, contention, coherence] = found.lost(32.0);
        assert!((contention + coherence - all).abs() < 1e-12);
        assert!((found.throughput(32.0) - 995.6 * 32.0 * (1.0 - all)).abs() < 1e-3);
    }

    #[test]
    fn parameters_are_never_negative_and_too_few_or_senseless_points_have_no_law() {
        // More than in proportion: neither contention nor coherence.
        let found = scalability(&points([100.0, -0.01, 0.0], &[1.0, 2.0, 4.0, 8.0])).unwrap();
        assert_eq!((found.contention.value, found.coherence.value), (0.0, 0.0));
        assert_eq!((found.contention.interval, found.highest()), (None, None));
        assert_eq!(found.lost(8.0), [0.0; 3]);
        // A plain queue: contention alone.
        let found = scalability(&points([100.0, 0.5, -0.001], &[1.0, 2.0, 4.0, 8.0])).unwrap();
        assert!(found.contention.value > 0.4 && found.coherence.value == 0.0);
        assert_eq!(scalability(&points([100.0, 0.1, 0.0], &[1.0, 2.0, 4.0])), None);
        let mut some = points([100.0, 0.1, 0.0], &[1.0, 2.0, 4.0, 4.0, 4.0]);
        some.push(ScalePoint { clients: 8.0, throughput: f64::NAN });
        some.push(ScalePoint { clients: f64::INFINITY, throughput: 1.0 });
        some.push(ScalePoint { clients: 0.0, throughput: 1.0 });
        assert_eq!(scalability(&some), None);
        assert_eq!(scalability(&[]), None);
        // All equal: it is found how much of it is contention, and nothing is divided by zero.
        let flat: Vec<ScalePoint> =
            [1.0, 2.0, 4.0, 8.0].iter().map(|n| ScalePoint { clients: *n, throughput: 5.0 }).collect();
        let found = scalability(&flat).unwrap();
        assert!((found.contention.value - 1.0).abs() < 1e-6, "{found:?}");
        assert_eq!(found.r_squared, 0.0);
    }
}
