//! Where a series of values changed its level: circular binary segmentation (A. B. Olshen and others, Biostatistics 5,
//! 2004), which also finds a change that went back, with the permutation test of E-divisive, by which MongoDB finds
//! regressions (D. Daly and others, ICPE 2020). Is a series best divided by one cut, a step, or are the values of a
//! window best set apart from those on both sides of it? Whether that is more than chance, the same values tell in
//! random orders. Then each part is asked in the same way, until none differs.

use crate::order::Draw;
use crate::spread::median;

/// Values that are looked at, at most: each cut is held against many orders of them.
pub const MOST_VALUES: usize = 600;
/// Random orders at the strictest levels; only a cut that may be a change needs them all.
const MOST_ORDERS: usize = 50_000;
/// Values in all orders together that are wanted.
const MOST_SHUFFLED: f64 = 600_000.0;
/// Fewer values are asked for a step alone: a window in them would be hardly longer than what is beside it.
const LEAST_FOR_WINDOWS: usize = 12;
/// Values further than this from the median, in standard deviations as neighbours tell them (a step says little of
/// these), count as this far, so that a run that lies apart hides no change.
const FARTHEST: f64 = 4.0;
/// The deviation of normal values, by the median difference of neighbours.
const DEVIATION: f64 = 1.0484;

/// How changes are looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeSearch {
    /// Chance to call anything a change in a series that has none.
    pub level: f64,
    /// Values that each part has at least.
    pub least: usize,
    /// Random orders that each cut is held against, at least; more where the level asks for them.
    pub orders: usize,
    /// The seed of their order.
    pub seed: u64,
    /// Values that differ by no more are one.
    pub resolution: f64,
}

impl Default for ChangeSearch {
    fn default() -> Self {
        Self { level: 0.05, least: 3, orders: 999, seed: 1, resolution: 0.0 }
    }
}

impl ChangeSearch {
    /// Whether so many values are asked for windows, too: three parts are the fewest that these make.
    fn has_windows(&self, values: usize) -> bool {
        values >= LEAST_FOR_WINDOWS.max(3 * self.least)
    }

    fn level_of_each(&self, values: usize) -> f64 {
        self.level / if self.has_windows(values) { 2.0 } else { 1.0 }
    }

    /// Random orders of so many values: of few, many are as good as a true change, so that more are needed.
    fn orders_of(&self, values: usize, level: f64) -> usize {
        let affordable = MOST_SHUFFLED / values.max(1) as f64;
        let wanted = (20.0 / level).min(affordable).max(2.0 / level);
        self.orders.max(wanted.ceil() as usize).min(MOST_ORDERS)
    }

    /// Values of a series, those that lie apart less far: a level is the mean of these. `None` of fewer than two.
    pub fn settled(&self, values: &[f64]) -> Option<Vec<f64>> {
        let middle = median(values.to_vec())?;
        let neighbours = values.iter().zip(values.iter().skip(1));
        let mut differences: Vec<f64> = neighbours.map(|(a, b)| (a - b).abs()).collect();
        let one = self.resolution.max(rounding(values));
        let mut bounds = (f64::NEG_INFINITY, f64::INFINITY);
        if median(differences.clone())? <= one {
            // Half of the neighbours are equal, so that the others' scale may be that of a change or of runs that lie
            // apart: fewer runs than a level has count as the next.
            bounds = inner(values, self.least.saturating_sub(1))?;
            differences.retain(|it| *it > one);
        }
        let most = median(differences).map_or(f64::INFINITY, |it| FARTHEST * DEVIATION * it);
        let bounds = (bounds.0.max(middle - most), bounds.1.min(middle + most));
        Some(values.iter().map(|it| it.max(bounds.0).min(bounds.1)).collect())
    }

    /// The fewest values in which a step can be told at this level. Those of half a series lie at one of its ends in
    /// two of all orders.
    pub fn least_values(&self) -> usize {
        let is_enough = |values: &usize| {
            let half = values / 2;
            let orders = (0..half).map(|it| (values - it) as f64 / (half - it) as f64);
            half >= self.least && 2.0 / orders.product::<f64>() <= self.level_of_each(*values)
        };
        (0..MOST_VALUES).find(is_enough).unwrap_or(MOST_VALUES)
    }

    /// The fewest values in which a window, a change that went back, can be told at this level.
    pub fn least_values_of_window(&self) -> usize {
        let is_enough = |values: &usize| self.windows(*values).is_some();
        (0..MOST_VALUES).find(is_enough).unwrap_or(MOST_VALUES)
    }

    /// The lengths of the shortest and the longest window that so many values can show at this level; `None` where they
    /// can show none. In a random order the values of a window lie together in as many ways as such a window has
    /// places, as do all others.
    pub fn windows(&self, values: usize) -> Option<(usize, usize)> {
        if !self.has_windows(values) {
            return None;
        }
        let longest = values - 2 * self.least;
        let places = |length: usize| if (self.least..=longest).contains(&length) { longest - length + 1 } else { 0 };
        let orders = |length: usize| {
            let factors = (0..length).map(|it| (values - it) as f64 / (length - it) as f64);
            factors.product::<f64>()
        };
        let is_told = |length: &usize| {
            let as_good = places(*length) + places(values - length);
            as_good as f64 / orders(*length) <= self.level_of_each(values)
        };
        let mut told = (self.least..=longest).filter(is_told);
        let shortest = told.next()?;
        Some((shortest, told.next_back().unwrap_or(shortest)))
    }
}

/// A place at which the level changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The number of the first value of the new level.
    pub at: usize,
    /// The share of random orders in which a cut was as good, corrected for the questions.
    pub p: f64,
}

/// The places at which the level changed, in the order of the series; of a longer series only the last [`MOST_VALUES`]
/// are looked at. Values that are no numbers are an error of the caller's: a part that has some has no change.
pub fn change_points(values: &[f64], search: ChangeSearch) -> Vec<ChangePoint> {
    let skipped = values.len().saturating_sub(MOST_VALUES);
    let search = ChangeSearch { least: search.least.max(1), ..search };
    let (whole, mut draw) = (search.level, Draw::new(search.seed));
    let mut found = Vec::new();
    let mut open = vec![(skipped, values.len(), whole)];
    while let Some((from, to, level)) = open.pop() {
        let search = ChangeSearch { level, ..search };
        let part = values.get(from..to).and_then(|it| Part::of(it, search));
        let Some((window, p)) = part.and_then(|it| it.change(search, &mut draw)) else { continue };
        let cuts = [from + window.from, from + window.to];
        let cuts: Vec<usize> = cuts.into_iter().filter(|it| *it > from && *it < to).collect();
        // The parts have the level together, each by its length.
        let share = |(start, end): (usize, usize)| level * (end - start) as f64 / (to - from) as f64;
        let starts = std::iter::once(from).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([to]);
        open.extend(starts.zip(ends).map(|it| (it.0, it.1, share(it))));
        let p = p * whole / level;
        found.extend(cuts.into_iter().map(|at| ChangePoint { at, p }));
    }
    found.sort_by_key(|it| it.at);
    for nth in 0..found.len() {
        let from = nth.checked_sub(1).map_or(skipped, |it| found.get(it).map_or(skipped, |it| it.at));
        let to = found.get(nth + 1).map_or(values.len(), |it| it.at);
        if let (Some(part), Some(point)) = (values.get(from..to), found.get_mut(nth)) {
            point.at = from + edge(part, point.at - from, search.least);
        }
    }
    found
}

/// The cut between two levels that leaves the smallest distances from their medians, `known` where none is better.
/// Beside values that count as less far than they are, a run of one level may look like one of the other.
fn edge(part: &[f64], known: usize, least: usize) -> usize {
    let apart = |values: &[f64]| {
        let middle = median(values.to_vec()).unwrap_or_default();
        values.iter().map(|it| (it - middle).abs()).sum::<f64>()
    };
    let cost = |at: usize| part.split_at_checked(at).map_or(f64::INFINITY, |(a, b)| apart(a) + apart(b));
    let cuts = least..=part.len().saturating_sub(least);
    let better = |best: (usize, f64), at: usize| match cost(at) {
        found if found < best.1 * (1.0 - 1e-9) => (at, found),
        _ => best,
    };
    cuts.fold((known, cost(known)), better).0
}

/// A window of a part, and the share of the part's variance that its difference from the rest explains.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    from: usize,
    to: usize,
    explained: f64,
}

impl Window {
    fn better(self, other: Self) -> Self {
        if other.explained > self.explained { other } else { self }
    }
}

struct Question {
    best: Window,
    as_good: usize,
}

impl Question {
    fn ask(&mut self, other: Window) {
        // Sums in another order differ in the last digits.
        self.as_good += usize::from(other.explained >= self.best.explained * (1.0 - 1e-9));
    }
}

/// Values with a mean of 0 and a variance of 1.
struct Part(Vec<f64>);

impl Part {
    /// `None` where all values are one, or some are no numbers.
    fn of(values: &[f64], search: ChangeSearch) -> Option<Self> {
        let mut near = search.settled(values)?;
        let spread = near.iter().fold(f64::NEG_INFINITY, |most, it| most.max(*it))
            - near.iter().fold(f64::INFINITY, |least, it| least.min(*it));
        let count = near.len() as f64;
        let mut deviation = 0.0;
        // Twice: beside values that hardly differ, the mean is rounded by much.
        for _ in 0..2 {
            let mean = near.iter().sum::<f64>() / count;
            near.iter_mut().for_each(|it| *it -= mean);
            deviation = (near.iter().map(|it| it * it).sum::<f64>() / count).sqrt();
        }
        let differ = spread > search.resolution && deviation > rounding(values);
        let is_known = differ && deviation.is_finite();
        is_known.then(|| Self(near.iter().map(|it| it / deviation).collect()))
    }

    /// Where the part changed, for a step as the window before it, and the chance of that where it did not.
    fn change(&self, search: ChangeSearch, draw: &mut Draw) -> Option<(Window, f64)> {
        let count = self.0.len();
        let is_asked = search.has_windows(count);
        let level = search.level_of_each(count);
        let sums = self.sums();
        let mut step = Question { best: best_step(&sums, search.least)?, as_good: 1 };
        let mut window = Question { best: best_window(&sums, search.least, true), as_good: 1 };
        let orders = search.orders_of(count, level);
        // Of few orders each is taken once: this one is the first.
        let exact = Some(self.orders()).filter(|it| *it <= orders as f64);
        let orders = exact.map_or(orders, |it| it as usize - 1);
        let most = level * (orders + 1) as f64;
        let is_open = |it: &Question| it.as_good as f64 <= most;
        let mut shuffled = Self(self.0.clone());
        for _ in 0..orders {
            // None of the further orders could make it a change.
            if !(is_open(&step) || is_asked && is_open(&window)) {
                return None;
            }
            match exact {
                Some(_) => shuffled.advance(),
                None => draw.shuffle(&mut shuffled.0),
            }
            let sums = shuffled.sums();
            step.ask(best_step(&sums, search.least)?);
            if is_asked {
                window.ask(best_window(&sums, search.least, true));
            }
        }
        let of_step = is_open(&step).then_some(step);
        let of_window = Some(window).filter(|it| is_asked && is_open(it));
        let found = match (of_step, of_window) {
            (Some(step), Some(window)) => {
                if is_window(&sums, search.least, step.best) {
                    window
                } else {
                    step
                }
            }
            (step, window) => step.or(window)?,
        };
        let p = found.as_good as f64 / (orders + 1) as f64 * search.level / level;
        let best = match found.best.from {
            0 => found.best,
            _ => best_window(&sums, search.least, false),
        };
        Some((best, p))
    }

    /// The sums of the first values: of none, of one, and so on.
    fn sums(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let sums = self.0.iter().map(|it| {
            sum += it;
            sum
        });
        std::iter::once(0.0).chain(sums).collect()
    }

    /// How many orders of the values there are; equal ones have no order.
    fn orders(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let (mut orders, mut before) = (1.0, 0);
        for equal in sorted.chunk_by(|a, b| a == b) {
            // Places of these among all so far.
            let places = (1..=equal.len()).map(|it| (before + it) as f64 / it as f64);
            orders *= places.product::<f64>();
            before += equal.len();
        }
        orders.round()
    }

    /// Goes on to the next order of the values; after the last the first follows.
    fn advance(&mut self) {
        let values = &mut self.0;
        let rises = |pair: &[f64]| matches!(pair, [a, b] if a < b);
        let at = values.windows(2).rposition(rises);
        let rest = at.map_or(0, |it| it + 1);
        if let Some((before, value)) = at.and_then(|it| Some((it, *values.get(it)?)))
            && let Some(larger) = values.iter().rposition(|it| *it > value)
        {
            values.swap(before, larger);
        }
        values.split_at_mut(rest).1.reverse();
    }
}

/// Whether a window says so much more than a step that its second end is worth it, by the modified Bayesian information
/// criterion (N. R. Zhang, D. O. Siegmund, Biometrics 63, 2007).
fn is_window(sums: &[f64], least: usize, step: Window) -> bool {
    let window = best_window(sums, least, false);
    let count = (sums.len() - 1) as f64;
    let unexplained = |it: Window| (1.0 - it.explained).max(1e-9);
    count * (unexplained(step) / unexplained(window)).ln() > 3.0 * count.ln()
}

/// The best of all cuts, as the window before it.
fn best_step(sums: &[f64], least: usize) -> Option<Window> {
    let count = sums.len().checked_sub(1)?;
    let cuts = least..=count.checked_sub(least)?;
    let windows = cuts.map(|at| {
        let sum = sums.get(at).copied().unwrap_or(0.0);
        Window { from: 0, to: at, explained: sum * sum / (at * (count - at)) as f64 }
    });
    windows.reduce(Window::better)
}

/// The best of all windows with enough values on either side; of `some` lengths, each an eighth above the one before.
fn best_window(sums: &[f64], least: usize, some: bool) -> Window {
    let count = sums.len().saturating_sub(1);
    let next = |length: &usize| Some(length + if some { (length / 8).max(1) } else { 1 });
    let lengths = std::iter::successors(Some(least), next);
    let lengths = lengths.take_while(|it| it + 2 * least <= count);
    let windows = lengths.filter_map(|length| {
        let starts = sums.get(least..=count - least - length)?;
        let ends = sums.get(least + length..=count - least)?;
        let of_all = starts.iter().zip(ends).map(|(start, end)| end - start);
        let (at, sum) =
            of_all.enumerate().reduce(|best, next| if next.1.abs() > best.1.abs() { next } else { best })?;
        Some(Window {
            from: least + at,
            to: least + at + length,
            explained: sum * sum / (length * (count - length)) as f64,
        })
    });
    windows.reduce(Window::better).unwrap_or_default()
}

/// The smallest and the largest value where so many at either end are left out; the middle where that would be more.
fn inner(values: &[f64], apart: usize) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let apart = apart.min(last / 2);
    Some((*sorted.get(apart)?, *sorted.get(last - apart)?))
}

/// Values that differ by less are equal.
fn rounding(values: &[f64]) -> f64 {
    1e-12 * values.iter().fold(0.0_f64, |most, it| most.max(it.abs()))
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
