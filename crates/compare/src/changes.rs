//! Where a series of values changed its level: E-divisive with means (D. S. Matteson, N. A. James, "A Nonparametric Approach
//! for Multiple Change Point Analysis of Multivariate Data", Journal of the American Statistical Association 109, 2014), as MongoDB
//! uses it for benchmarks (D. Daly and others, "The Use of Change Point Detection to Identify Software Performance Regressions
//! in a Continuous Integration System", ICPE 2020).
//!
//! The series is cut where the values on both sides differ most by their energy distance. Whether that is more than chance, the
//! same values tell in random orders: these have no change. Then each part is cut in the same way, until none differs.

use crate::order::Draw;

/// Values that are looked at, at most: distances of all pairs are kept.
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
    let distances = Distances::of(values.get(skipped..).unwrap_or(&[]));
    let least = search.least.max(1);
    let mut draw = Draw::new(search.seed);
    let mut found: Vec<ChangePoint> = Vec::new();
    loop {
        let parts = parts(&found, distances.count);
        let in_order: Vec<usize> = (0..distances.count).collect();
        let best = best_cut(&distances, &in_order, &parts, least);
        let Some((at, strength)) = best.filter(|it| it.1 > 0.0) else {
            break;
        };
        let mut as_good = 1;
        for _ in 0..search.orders {
            let shuffled = shuffled(&in_order, &parts, &mut draw);
            let chance = best_cut(&distances, &shuffled, &parts, least);
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
    let distances = Distances::of(values);
    let order: Vec<usize> = (0..values.len()).collect();
    strengths(&distances, &order)
}

/// The distance of every two values.
struct Distances {
    count: usize,
    of: Vec<f64>,
}

impl Distances {
    fn of(values: &[f64]) -> Self {
        let of = values
            .iter()
            .flat_map(|a| values.iter().map(move |b| (a - b).abs()));
        Self {
            count: values.len(),
            of: of.collect(),
        }
    }

    fn between(&self, a: usize, b: usize) -> f64 {
        self.of.get(a * self.count + b).copied().unwrap_or(0.0)
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
    distances: &Distances,
    order: &[usize],
    parts: &[(usize, usize)],
    least: usize,
) -> Option<(usize, f64)> {
    let of_part = |(from, to): &(usize, usize)| {
        let part = order.get(*from..*to)?;
        let strengths = strengths(distances, part);
        let last = part.len().checked_sub(least)?;
        let places = least..=last;
        let cuts = places.filter_map(|at| Some((from + at, *strengths.get(at)?)));
        cuts.reduce(|best, next| if next.1 > best.1 { next } else { best })
    };
    let cuts = parts.iter().filter_map(of_part);
    cuts.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

fn strengths(distances: &Distances, part: &[usize]) -> Vec<f64> {
    let n = part.len();
    // Sums of the distances of all pairs across the cut, before it, and behind it.
    let (mut across, mut before) = (0.0, 0.0);
    let mut behind: f64 = 0.0;
    for (i, a) in part.iter().enumerate() {
        behind += part
            .iter()
            .skip(i)
            .map(|b| distances.between(*a, *b))
            .sum::<f64>();
    }
    let mut strengths = Vec::with_capacity(n);
    for (at, moved) in part.iter().enumerate() {
        let (left, right) = (at as f64, (n - at) as f64);
        let mean = |sum: f64, pairs: f64| if pairs > 0.0 { sum / pairs } else { 0.0 };
        let energy = 2.0 * mean(across, left * right)
            - mean(2.0 * before, left * left)
            - mean(2.0 * behind, right * right);
        strengths.push(energy * left * right / n as f64);
        let to = |others: &[usize]| -> f64 {
            others.iter().map(|it| distances.between(*moved, *it)).sum()
        };
        let (earlier, later) = part.split_at(at);
        let (to_earlier, to_later) = (to(earlier), to(later));
        across += to_later - to_earlier;
        before += to_earlier;
        behind -= to_later;
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
