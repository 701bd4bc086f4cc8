//! Where a series of values changed its level: E-divisive with means (D. S. Matteson, N. A. James, "A Nonparametric Approach
//! for Multiple Change Point Analysis of Multivariate Data", Journal of the American Statistical Association 109, 2014), as MongoDB
//! uses it for benchmarks (D. Daly and others, "The Use of Change Point Detection to Identify Software Performance Regressions
//! in a Continuous Integration System", ICPE 2020).
//!
//! The series is cut where the values on both sides differ most by their energy distance. Whether that is more than chance, the
//! same values tell in random orders: these have no change. Then each part is cut in the same way, until none differs.

use crate::order::Draw;

/// Values that are looked at, at most: each cut is held against many orders of them.
pub const MOST_VALUES: usize = 600;

/// How changes are looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeSearch {
    /// Chance to call anything a change in a series that has none.
    pub level: f64,
    /// Values that each part has at least.
    pub least: usize,
    /// Random orders that each cut is held against: with fewer than `1 / level` no cut can ever be a change.
    pub orders: usize,
    /// What determines them.
    pub seed: u64,
}

impl Default for ChangeSearch {
    fn default() -> Self {
        Self {
            level: 0.05,
            least: 3,
            orders: 399,
            seed: 1,
        }
    }
}

/// A place at which the level changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The number of the first value of the new level.
    pub at: usize,
    /// The share of random orders in which a cut was as good: the chance of one where nothing changed.
    pub p: f64,
}

/// The places at which the level changed, in the order of the series; of a longer series only the last [`MOST_VALUES`] are
/// looked at. Values that are no numbers are an error of the caller's: they compare as equal to all.
#[must_use]
pub fn change_points(values: &[f64], search: ChangeSearch) -> Vec<ChangePoint> {
    let skipped = values.len().saturating_sub(MOST_VALUES);
    let series = Series::of(values.get(skipped..).unwrap_or(&[]));
    let least = search.least.max(1);
    let mut draw = Draw::new(search.seed);
    let mut found: Vec<ChangePoint> = Vec::new();
    loop {
        let parts = parts(&found, series.count());
        let in_order: Vec<usize> = (0..series.count()).collect();
        let best = best_cut(&series, &in_order, &parts, least);
        let Some((at, strength)) = best.filter(|it| it.1 > series.rounding) else {
            break;
        };
        let mut as_good = 1;
        for _ in 0..search.orders {
            let shuffled = shuffled(&in_order, &parts, &mut draw);
            let chance = best_cut(&series, &shuffled, &parts, least);
            // Sums in another order differ in the last digits.
            as_good += usize::from(chance.is_some_and(|it| it.1 >= strength * (1.0 - 1e-9)));
            if as_good as f64 > search.level * (search.orders + 1) as f64 {
                // None of the further orders could make it a change.
                break;
            }
        }
        let p = as_good as f64 / (search.orders + 1) as f64;
        if p > search.level {
            break;
        }
        found.push(ChangePoint { at, p });
        found.sort_by_key(|it| it.at);
    }
    for it in &mut found {
        it.at += skipped;
    }
    found
}

/// How much the values before a place differ from those behind it, for every place: the energy distance of both parts,
/// weighted by their sizes.
#[must_use]
pub fn cut_strengths(values: &[f64]) -> Vec<f64> {
    let order: Vec<usize> = (0..values.len()).collect();
    strengths(&Series::of(values), &order)
}

/// The values of a series, with what of it lies beside each other. Sums of distances are found in it without looking at every pair.
struct Series {
    /// Less the smallest, so that equal ones have no distance.
    values: Vec<f64>,
    /// The place of each in the order of size, from 1 on.
    ranks: Vec<usize>,
    /// A strength below this is a sum's rounding.
    rounding: f64,
}

impl Series {
    fn of(values: &[f64]) -> Self {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut order: Vec<usize> = (0..values.len()).collect();
        let at = |index: &usize| values.get(*index).copied().unwrap_or(0.0);
        order.sort_by(|a, b| at(a).total_cmp(&at(b)));
        let mut ranks = vec![0; values.len()];
        for (rank, index) in (1..).zip(order) {
            if let Some(of) = ranks.get_mut(index) {
                *of = rank;
            }
        }
        Self {
            values: values.iter().map(|it| it - least).collect(),
            ranks,
            rounding: 1e-9 * (most - least).max(0.0),
        }
    }

    fn count(&self) -> usize {
        self.values.len()
    }

    fn at(&self, index: usize) -> RankedValue {
        RankedValue {
            value: self.values.get(index).copied().unwrap_or(0.0),
            rank: self.ranks.get(index).copied().unwrap_or(1),
        }
    }
}

/// A value, and its place in the order of size, from 1 on.
#[derive(Clone, Copy)]
struct RankedValue {
    value: f64,
    rank: usize,
}

/// Values of a series, by their ranks: a Fenwick tree of their number and sum.
struct Ranked {
    sums: Vec<(f64, f64)>,
    all: (f64, f64),
}

impl Ranked {
    fn new(count: usize) -> Self {
        Self {
            sums: vec![(0.0, 0.0); count + 1],
            all: (0.0, 0.0),
        }
    }

    /// Adds a value so many times; -1 takes it away.
    fn add(&mut self, of: RankedValue, times: f64) {
        let mut at = of.rank.max(1);
        let more = |sum: &mut (f64, f64)| {
            sum.0 += times;
            sum.1 += times * of.value;
        };
        while let Some(sum) = self.sums.get_mut(at) {
            more(sum);
            at += at & at.wrapping_neg();
        }
        more(&mut self.all);
    }

    /// The sum of a value's distances from all of them.
    fn distance(&self, RankedValue { value, rank }: RankedValue) -> f64 {
        let (mut count, mut sum) = (0.0, 0.0);
        let mut at = rank;
        while let Some(of) = self.sums.get(at).filter(|_| at > 0) {
            count += of.0;
            sum += of.1;
            at -= at & at.wrapping_neg();
        }
        let (others, of_others) = (self.all.0 - count, self.all.1 - sum);
        value * count - sum + of_others - value * others
    }
}

/// From where to where the parts between changes reach.
fn parts(found: &[ChangePoint], count: usize) -> Vec<(usize, usize)> {
    let starts = std::iter::once(0).chain(found.iter().map(|it| it.at));
    let ends = found.iter().map(|it| it.at).chain([count]);
    starts.zip(ends).collect()
}

/// The strongest cut of all parts, and its strength.
fn best_cut(
    series: &Series,
    order: &[usize],
    parts: &[(usize, usize)],
    least: usize,
) -> Option<(usize, f64)> {
    let of_part = |(from, to): &(usize, usize)| {
        let part = order.get(*from..*to)?;
        let strengths = strengths(series, part);
        let last = part.len().checked_sub(least)?;
        let places = least..=last;
        let cuts = places.filter_map(|at| Some((from + at, *strengths.get(at)?)));
        cuts.reduce(|best, next| if next.1 > best.1 { next } else { best })
    };
    let cuts = parts.iter().filter_map(of_part);
    cuts.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

fn strengths(series: &Series, part: &[usize]) -> Vec<f64> {
    let n = part.len();
    let (mut earlier, mut later) = (Ranked::new(series.count()), Ranked::new(series.count()));
    for index in part {
        later.add(series.at(*index), 1.0);
    }
    let of_all = part.iter().map(|it| later.distance(series.at(*it)));
    // Sums of the distances of all pairs across the cut, before it, and behind it.
    let (mut across, mut before) = (0.0, 0.0);
    let mut behind = of_all.sum::<f64>() / 2.0;
    let mut strengths = Vec::with_capacity(n);
    for (at, index) in part.iter().enumerate() {
        let (left, right) = (at as f64, (n - at) as f64);
        let mean = |sum: f64, pairs: f64| if pairs > 0.0 { sum / pairs } else { 0.0 };
        let energy = 2.0 * mean(across, left * right)
            - mean(2.0 * before, left * left)
            - mean(2.0 * behind, right * right);
        strengths.push(energy * left * right / n as f64);
        let moved = series.at(*index);
        let (to_earlier, to_later) = (earlier.distance(moved), later.distance(moved));
        across += to_later - to_earlier;
        before += to_earlier;
        behind -= to_later;
        later.add(moved, -1.0);
        earlier.add(moved, 1.0);
    }
    strengths
}

/// The same parts, each in a random order.
fn shuffled(order: &[usize], parts: &[(usize, usize)], draw: &mut Draw) -> Vec<usize> {
    let mut out = order.to_vec();
    for (from, to) in parts {
        for last in (from + 1..*to).rev() {
            let other = from + (draw.uniform() * (last - from + 1) as f64) as usize;
            out.swap(last, other.min(last));
        }
    }
    out
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
