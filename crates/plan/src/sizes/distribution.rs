//! Random sizes.

use std::f64::consts::TAU;
use std::sync::Arc;

use crate::Error;
use crate::random::Random;

use super::MOST_VALUES;

/// Distribution of random sizes; values outside the bounds are moved onto them.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Every size from the first to the last equally often.
    Uniform {
        /// The smallest.
        min: usize,
        /// The largest.
        max: usize,
    },
    /// A normal distribution.
    Normal {
        /// Its mean.
        mean: f64,
        /// Its standard deviation.
        deviation: f64,
        /// The smallest.
        min: usize,
        /// The largest.
        max: usize,
    },
    /// A size whose logarithm is normal: many small messages, and a few large ones.
    LogNormal {
        /// Half of the sizes are below.
        median: f64,
        /// The standard deviation of the natural logarithm.
        sigma: f64,
        /// The smallest.
        min: usize,
        /// The largest.
        max: usize,
    },
    /// An exponential distribution.
    Exponential {
        /// Its mean.
        mean: f64,
        /// The smallest.
        min: usize,
        /// The largest.
        max: usize,
    },
    /// Sizes with weights: (12, 9.0) and (2000, 1.0) gives nine small messages for each large one.
    Weighted(Vec<(usize, f64)>),
}

impl Distribution {
    /// The smallest and the largest size, where there is one.
    pub(super) fn range(&self) -> Option<(usize, usize)> {
        match self {
            Self::Uniform { min, max }
            | Self::Normal { min, max, .. }
            | Self::LogNormal { min, max, .. }
            | Self::Exponential { min, max, .. } => Some((*min, *max)),
            Self::Weighted(values) => super::ends(values.iter().map(|(size, _)| *size)),
        }
    }

    pub(super) fn validate(&self) -> Result<(), Error> {
        let numbers = match self {
            Self::Uniform { .. } | Self::Weighted(_) => [0.0; 2],
            Self::Normal { mean, deviation, .. } => [*mean, *deviation],
            Self::LogNormal { median, sigma, .. } => [*median, *sigma],
            Self::Exponential { mean, .. } => [*mean, 0.0],
        };
        let odd = numbers.iter().find(|n| !n.is_finite() || **n < 0.0);
        let (what, observed, help) = match self {
            Self::Weighted(values) if values.is_empty() || values.len() > MOST_VALUES => (
                format!("{} weighted message sizes cannot be used", values.len()),
                values.len().to_string(),
                "give 1 to 100000 sizes with their weights",
            ),
            Self::Weighted(values) if !can_weigh(values) => (
                "the weights of the message sizes make no sense".to_owned(),
                String::new(),
                "give each a weight of 0 or more, and at least one a weight above 0",
            ),
            _ => match (odd, self.range()) {
                (Some(odd), _) => (
                    format!("message sizes cannot be drawn with {odd}"),
                    odd.to_string(),
                    "give two numbers of 0 or more",
                ),
                (None, Some((min, max))) if min > max => (
                    format!("message sizes from {min} to {max} are none"),
                    format!("from {min} to {max}"),
                    "give the smaller size first",
                ),
                _ => return Ok(()),
            },
        };
        Err(Error::invalid(what, help).observed(observed))
    }
}

fn can_weigh(values: &[(usize, f64)]) -> bool {
    let sum: f64 = values.iter().map(|(_, weight)| weight).sum();
    values.iter().all(|(_, weight)| *weight >= 0.0) && sum > 0.0 && sum.is_finite()
}

/// A distribution made ready for one producer.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    random: Random,
    from: Source,
    min: f64,
    max: f64,
}

#[derive(Clone, Debug)]
enum Source {
    Uniform {
        min: u64,
        count: u64,
    },
    Normal {
        mean: f64,
        deviation: f64,
    },
    /// The logarithm's mean and deviation.
    LogNormal {
        mean: f64,
        deviation: f64,
    },
    Exponential {
        mean: f64,
    },
    /// Sizes with the sum of all weights up to each.
    Weighted(Arc<[(f64, usize)]>),
}

impl Draw {
    pub(super) fn new(distribution: &Distribution, random: Random) -> Self {
        let from = match distribution {
            Distribution::Uniform { min, max } => {
                Source::Uniform { min: *min as u64, count: max.saturating_sub(*min) as u64 + 1 }
            }
            Distribution::Normal { mean, deviation, .. } => Source::Normal { mean: *mean, deviation: *deviation },
            Distribution::LogNormal { median, sigma, .. } => Source::LogNormal { mean: median.ln(), deviation: *sigma },
            Distribution::Exponential { mean, .. } => Source::Exponential { mean: *mean },
            Distribution::Weighted(values) => Source::Weighted(sums(values)),
        };
        let (min, max) = distribution.range().unwrap_or((0, 0));
        Self { random, from, min: min as f64, max: max as f64 }
    }

    /// The size of a producer's `sequence`-th message.
    #[inline]
    pub(super) fn size(&self, sequence: u64) -> usize {
        let drawn = match &self.from {
            Source::Uniform { min, count } => {
                // The high half of a product: even to 2^-64 of the count.
                let product = u128::from(self.random.word(sequence)) * u128::from(*count);
                let drawn = product >> 64;
                return (min + drawn as u64) as usize;
            }
            Source::Weighted(sums) => {
                let all = sums.last().map_or(0.0, |(sum, _)| *sum);
                let drawn = self.random.unit(sequence) * all;
                let at = sums.partition_point(|(sum, _)| *sum < drawn);
                return sums.get(at).map_or(0, |(_, size)| *size);
            }
            Source::Normal { mean, deviation } => mean + deviation * self.normal(sequence),
            Source::LogNormal { mean, deviation } => (mean + deviation * self.normal(sequence)).exp(),
            Source::Exponential { mean } => -mean * self.random.unit(sequence).ln(),
        };
        drawn.round().clamp(self.min, self.max) as usize
    }

    /// Box and Muller's way from two even numbers to a normal one.
    fn normal(&self, sequence: u64) -> f64 {
        let first = self.random.unit(sequence.wrapping_mul(2));
        let second = self.random.unit(sequence.wrapping_mul(2).wrapping_add(1));
        (-2.0 * first.ln()).sqrt() * (TAU * second).cos()
    }
}

fn sums(values: &[(usize, f64)]) -> Arc<[(f64, usize)]> {
    let mut sum = 0.0;
    values
        .iter()
        .filter(|(_, weight)| *weight > 0.0)
        .map(|(size, weight)| {
            sum += weight;
            (sum, *size)
        })
        .collect()
}
