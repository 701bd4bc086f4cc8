//! How well one run knows its own quantiles: intervals by the stationary bootstrap (Politis, Romano 1994, Journal of
//! the American Statistical Association 89, 1303–1313). Slices near each other are alike, so that a resample joins
//! stretches of random length; behind the end of the run comes its beginning. The middle 95 % of the quantiles of what
//! is drawn are the interval. It holds the quantile of the run's own stationary distribution, and says nothing of how
//! far runs differ, which is why nothing is decided by it.

use crate::order::Draw;

/// Blocks of the mean length that a run must have: of fewer, the resamples are too much alike for an interval.
pub const LEAST_BLOCKS: f64 = 8.0;
/// Resamples: ends of intervals are the 13th of each side.
const RESAMPLES: usize = 500;
const TAIL: f64 = 0.025;
/// Keeps a rank from the next one where a share times a count is a whole number but for its last digit.
const ULP: f64 = 1e-12;

/// The values that were counted in a slice of a run, the smallest first, each with its count, which is none of 0.
pub type ValueCounts = Vec<(u64, u64)>;

/// Why a run gives no interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoInterval {
    /// It has fewer than [`LEAST_BLOCKS`] blocks.
    TooShort {
        /// Blocks that it has.
        blocks: f64,
    },
    /// Nothing was counted in it.
    Empty,
}

/// The 95 % interval of each quantile (0 to 1) within one run. `block` is the mean length of a stretch, in slices. The
/// same seed draws the same. A run that is too short, or empty, is refused.
pub fn within_one_run(
    slices: &[ValueCounts],
    block: f64,
    quantiles: &[f64],
    seed: u64,
) -> Result<Vec<(u64, u64)>, NoInterval> {
    let block = block.max(1.0);
    let filled = slices.iter().filter(|it| !it.is_empty()).count();
    if filled == 0 {
        return Err(NoInterval::Empty);
    }
    // Slices in which nothing was counted make a run longer, but not better known.
    let blocks = filled as f64 / block;
    if blocks < LEAST_BLOCKS {
        return Err(NoInterval::TooShort { blocks });
    }
    let mut run = Sliced::new(slices);
    let mut draw = Draw::new(seed);
    let mut weights = vec![0.0; slices.len()];
    let mut found: Vec<Vec<u64>> = vec![Vec::with_capacity(RESAMPLES); quantiles.len()];
    for _ in 0..RESAMPLES {
        resample(&mut draw, block, &mut weights);
        for (of, quantile) in found.iter_mut().zip(quantiles) {
            of.extend(run.quantile(*quantile, &weights));
        }
    }
    let ends = found.into_iter().map(|mut of| {
        of.sort_unstable();
        let at = |share: f64| {
            let rank = (share * of.len() as f64 - ULP).ceil().max(1.0) as usize;
            of.get(rank - 1).copied().ok_or(NoInterval::Empty)
        };
        Ok((at(TAIL)?, at(1.0 - TAIL)?))
    });
    ends.collect()
}

/// Draws how often each slice stands in a resample.
fn resample(draw: &mut Draw, block: f64, weights: &mut [f64]) {
    weights.fill(0.0);
    let slices = weights.len() as u64;
    let mut at = 0;
    for drawn in 0..slices {
        at = if drawn == 0 || draw.uniform() < 1.0 / block { draw.next() % slices } else { (at + 1) % slices };
        if let Some(weight) = weights.get_mut(at as usize) {
            *weight += 1.0;
        }
    }
}

/// The slices of a run, so that a quantile of any resample is found by halving.
struct Sliced {
    /// Each slice: its values, and how many lie at or below each.
    slices: Vec<Vec<(u64, f64)>>,
    counts: Vec<f64>,
    values: Vec<u64>,
    /// How many values of each slice lie at or below a value of the run, where that was asked.
    below: Vec<Option<Box<[f64]>>>,
}

impl Sliced {
    fn new(slices: &[ValueCounts]) -> Self {
        let mut values: Vec<u64> = slices.iter().flat_map(|it| it.iter().map(|of| of.0)).collect();
        values.sort_unstable();
        values.dedup();
        let slices: Vec<Vec<(u64, f64)>> = (slices.iter())
            .map(|slice| {
                let mut sum = 0.0;
                let cumulated = slice.iter().map(|&(value, count)| {
                    sum += count as f64;
                    (value, sum)
                });
                cumulated.collect()
            })
            .collect();
        Self {
            counts: (slices.iter()).map(|it| it.last().map_or(0.0, |it| it.1)).collect(),
            below: vec![None; values.len()],
            values,
            slices,
        }
    }

    /// The smallest value at or below which this share of a resample lies; `None` where it holds nothing.
    fn quantile(&mut self, quantile: f64, weights: &[f64]) -> Option<u64> {
        let whole = dot(&self.counts, weights);
        let rank = ((quantile - ULP) * whole).ceil().max(1.0);
        if rank > whole {
            return None;
        }
        let (mut low, mut high) = (0, self.values.len().checked_sub(1)?);
        while low < high {
            let middle = low + (high - low) / 2;
            if dot(self.at_or_below(middle)?, weights) >= rank { high = middle } else { low = middle + 1 }
        }
        self.values.get(low).copied()
    }

    fn at_or_below(&mut self, place: usize) -> Option<&[f64]> {
        let value = *self.values.get(place)?;
        let slices = &self.slices;
        let column = || -> Box<[f64]> {
            let counted = slices.iter().map(|slice| {
                let first = slice.partition_point(|it| it.0 <= value).checked_sub(1);
                first.and_then(|at| slice.get(at)).map_or(0.0, |it| it.1)
            });
            counted.collect()
        };
        Some(self.below.get_mut(place)?.get_or_insert_with(column))
    }
}

fn dot(counts: &[f64], weights: &[f64]) -> f64 {
    counts.iter().zip(weights).map(|(count, by)| count * by).sum()
}

#[cfg(test)]
#[path = "within_tests.rs"]
mod within_tests;
