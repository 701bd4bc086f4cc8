//! Variances that many functions tell together, all of them counted by the same samples in the same runs: empirical
//! Bayes (G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004). Not variances are alike but
//! their ratios to those of sampling, which rise with the number of samples (S. P. Lund and others, the same 11, 2012).
//! Functions whose runs differ by far more than the others' keep their own variance (B. Phipson and others, "Robust
//! hyperparameter estimation", Annals of Applied Statistics 10, 2016).

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};
use statrs::function::gamma::digamma;

use crate::difference::Difference;

/// Functions that tell of the others, at least.
const FEWEST: usize = 10;
/// Samples of a function in a run from which on its variance is like that of a normal distribution.
const LEAST_SAMPLES: f64 = 5.0;
/// Degrees of freedom that the others are good for at most: their estimate is one of a few hundred functions.
const MOST_FREEDOM: f64 = 100.0;

/// A difference between costs that are counted from samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledDifference {
    /// The difference that the runs show by themselves.
    pub difference: Difference,
    /// Its standard error if runs differed by the chance of sampling alone; 0 where that is not known.
    pub sampling: f64,
    /// Mean cost of both sides, in the difference's unit.
    pub cost: f64,
}

impl SampledDifference {
    /// How many times the variance is that of sampling.
    fn ratio(&self) -> f64 {
        (self.difference.error / self.sampling).powi(2)
    }

    /// Samples of a run: as many as leave this error.
    fn samples(&self) -> f64 {
        (self.cost / self.sampling).powi(2) * 2.0 / self.difference.count as f64
    }

    /// The difference whose error is that of sampling at least.
    pub fn floored(&self) -> Difference {
        self.difference.with_error(self.difference.error.max(self.sampling), self.difference.freedom)
    }
}

/// How much more than by chance of sampling runs differ, as many functions tell together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moderation {
    /// Variance, in variances of sampling, of a function that is hardly sampled.
    base: f64,
    /// Added to that by each sample of a run.
    per_sample: f64,
    /// Samples of the function that has most: nothing is known of what has more.
    most: f64,
    /// Degrees of freedom of the estimated variance.
    freedom: f64,
}

impl Moderation {
    /// Estimates it from functions that have no samples in common; `None` where they are too few.
    pub fn of(functions: &[SampledDifference]) -> Option<Self> {
        let tells = |it: &&SampledDifference| {
            let ratio = it.ratio();
            it.samples() >= LEAST_SAMPLES && ratio.is_finite() && ratio > 0.0
        };
        let known: Vec<&SampledDifference> = functions.iter().filter(tells).collect();
        if known.len() < FEWEST {
            return None;
        }
        let mut found = Self::line(&known);
        // The logarithms of ratios, less what their own degrees of freedom make of them.
        let own = |it: &SampledDifference| it.difference.freedom / 2.0;
        let apart =
            known.iter().map(|it| (it.ratio() / found.ratio(it.samples())).ln() - digamma(own(it)) + own(it).ln());
        let apart: Vec<f64> = apart.collect();
        let count = known.len() as f64;
        let mean = apart.iter().sum::<f64>() / count;
        let squares: f64 = apart.iter().map(|it| (it - mean).powi(2)).sum();
        let chance = known.iter().map(|it| trigamma(own(it))).sum::<f64>() / count;
        let half = inverse_trigamma(squares / (count - 1.0) - chance);
        let scale = (mean + digamma(half) - half.ln()).exp();
        found.base *= scale;
        found.per_sample *= scale;
        found.freedom = 2.0 * half;
        Some(found)
    }

    /// The ratios' line over samples, each ratio weighed by what it varies.
    fn line(known: &[&SampledDifference]) -> Self {
        let mut found = Self {
            base: 1.0,
            per_sample: 0.0,
            most: known.iter().map(|it| it.samples()).fold(0.0, f64::max),
            freedom: MOST_FREEDOM,
        };
        for _ in 0..ROUNDS {
            let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
            for it in known {
                let (x, y) = (it.samples(), it.ratio());
                let weight = it.difference.freedom / found.ratio(x).powi(2);
                w += weight;
                wx += weight * x;
                wy += weight * y;
                wxx += weight * x * x;
                wxy += weight * x * y;
            }
            let slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
            found.per_sample = if slope > 0.0 { slope } else { 0.0 };
            found.base = (wy - found.per_sample * wx) / w;
            if found.base < 1.0 {
                found.base = 1.0;
                found.per_sample = ((wxy - wx) / wxx).max(0.0);
            }
        }
        found
    }

    /// Variance, in variances of sampling, of a function with so many samples a run.
    fn ratio(&self, samples: f64) -> f64 {
        (self.base + self.per_sample * samples.min(self.most)).max(1.0)
    }

    /// A difference with the variance that its own runs and the other functions tell together.
    pub fn moderated(&self, it: &SampledDifference) -> Difference {
        let (own, freedom) = (it.ratio(), it.difference.freedom);
        if !own.is_finite() {
            return it.floored();
        }
        let others = self.ratio(it.samples());
        // How rarely the runs of a function like the others differ by more: what is far from them does not follow them.
        let is_like = FisherSnedecor::new(freedom, self.freedom).map_or(0.0, |fisher| fisher.sf(own / others));
        let of_others = self.freedom * is_like;
        let all = of_others + freedom;
        let ratio = ((of_others * others + freedom * own) / all).max(1.0);
        // Runs may differ beyond sampling by something that all functions share, such as a slower machine: however many
        // functions show it, it was seen in no more runs than there are. F. E. Satterthwaite, "An approximate
        // distribution of estimates of variance components", Biometrics Bulletin 2, 1946.
        let shared = freedom * (ratio / (ratio - 1.0)).powi(2);
        it.difference.with_error(it.sampling * ratio.sqrt(), all.min(shared))
    }
}

/// Times that the line is drawn, with the weights of the one before.
const ROUNDS: u32 = 8;

/// The derivative of the digamma function, of positive numbers.
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum += x.powi(-2);
        x += 1.0;
    }
    // M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 1964, 6.4.12.
    let y = x.powi(-2);
    sum + 1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y / 42.0))
}

/// Half of the degrees of freedom whose logarithm of a variance varies so.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = (0.1_f64, MOST_FREEDOM / 2.0);
    if value.is_nan() || value <= trigamma(high) {
        return high;
    }
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > value { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::paired_from;
    use crate::order::Draw;

    /// A function whose runs have so many times the variance of sampling.
    fn sampled(ratio: f64, cost: f64) -> SampledDifference {
        let error = ratio.sqrt();
        let difference = paired_from(&[0.0; 8], 8.0 * ratio).expect("a difference");
        assert!((difference.error - error).abs() < 1e-12);
        SampledDifference { difference, sampling: 1.0, cost }
    }

    /// A variance of so many degrees of freedom, whose mean is 1.
    fn variance(draw: &mut Draw, freedom: u32) -> f64 {
        let squares = (0..freedom).map(|_| draw.normal().powi(2));
        squares.sum::<f64>() / f64::from(freedom)
    }

    #[test]
    fn the_derivative_of_digamma_is_that_of_the_handbook() {
        let pi_squared = std::f64::consts::PI.powi(2);
        for (x, value) in [(1.0, pi_squared / 6.0), (0.5, pi_squared / 2.0), (10.0, 0.105_166_335_681_686)] {
            assert!((trigamma(x) - value).abs() < 1e-9, "{x}");
            assert!((inverse_trigamma(value) - x).abs() < 1e-6, "{x}");
        }
        assert_eq!([-1.0, f64::NAN].map(inverse_trigamma), [MOST_FREEDOM / 2.0; 2]);
    }

    /// Smyth's model: true variances are those of the prior, by chance, and the runs' those of these.
    #[test]
    fn what_all_functions_tell_is_found() {
        let mut draw = Draw::new(3);
        let functions: Vec<SampledDifference> = (0..4_000)
            .map(|_| {
                let cost = 10.0 + 90.0 * draw.uniform();
                let others = 1.5 + 0.02 * (cost * cost / 4.0);
                let ratio = others * variance(&mut draw, 7) / variance(&mut draw, 20);
                sampled(ratio, cost)
            })
            .collect();
        let found = Moderation::of(&functions).expect("many");
        assert!((15.0..26.0).contains(&found.freedom), "{found:?}");
        assert!((found.per_sample - 0.02).abs() < 0.002, "{found:?}");
        assert!((found.base - 1.5).abs() < 0.5, "{found:?}");
    }

    #[test]
    fn what_all_have_in_common_is_known_better_and_what_is_apart_few_or_unknown_is_not() {
        let mut draw = Draw::new(4);
        let alike: Vec<SampledDifference> = (0..200).map(|_| sampled(variance(&mut draw, 7), 50.0)).collect();
        let found = Moderation::of(&alike).expect("many");
        let one = found.moderated(&sampled(1.0, 50.0));
        assert!((0.95..1.1).contains(&one.error) && one.freedom > 40.0, "{one:?}");
        // Sampling leaves no less, whatever few runs show.
        assert!(found.moderated(&sampled(0.01, 50.0)).error >= 1.0);
        assert!(found.moderated(&sampled(0.0, 50.0)).error >= 1.0);
        let apart = found.moderated(&sampled(20.0, 50.0));
        assert!((apart.error - 20.0_f64.sqrt()).abs() < 0.05, "{apart:?}");
        assert!(apart.freedom < 8.0, "{apart:?}");
        // All differ by far more than by sampling: that may be one and the same, of which 200 functions know no more
        // than one.
        let louder: Vec<SampledDifference> = alike.iter().map(|it| sampled(30.0 * it.ratio(), 50.0)).collect();
        let found = Moderation::of(&louder).expect("many");
        let one = found.moderated(&sampled(30.0, 50.0));
        assert!((7.0..8.0).contains(&one.freedom), "{one:?}");
        assert_eq!(Moderation::of(&[sampled(1.0, 50.0); FEWEST - 1]), None);
        assert_eq!(Moderation::of(&[sampled(1.0, 1.0); 100]), None);
        let unknown = SampledDifference { sampling: 0.0, ..sampled(2.0, 50.0) };
        assert_eq!(Moderation::of(&[unknown; 100]), None);
        assert_eq!(Moderation::of(&[sampled(1.0, 50.0); 100]).expect("many").moderated(&unknown), unknown.difference);
        assert_eq!(sampled(0.25, 50.0).floored().error, 1.0);
    }
}
