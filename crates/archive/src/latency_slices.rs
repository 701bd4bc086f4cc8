//! Latencies of a run in slices of a second or more, for intervals of quantiles within one run.

use hdrhistogram::Histogram;

/// Slices of a run; of a longer one they are wider.
const MOST_SLICES: usize = 600;
/// Different values in all slices together; of more, slices are wider: 16 bytes each.
const MOST_STEPS: usize = 1 << 20;
/// The shortest slice, in seconds.
const SHORTEST: f64 = 1.0;

/// No interval begins later or earlier, in seconds: that is 30,000 years.
pub(crate) const LATEST: f64 = 1e12;

/// Values of one metric in slices of equal width.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencySlices {
    start: f64,
    width: f64,
    slices: Vec<Vec<(u64, u64)>>,
    steps: usize,
}

/// Later intervals this much longer than the first give the length of all: ends are often a few milliseconds off.
const MUCH_LONGER: f64 = 1.5;

impl LatencySlices {
    /// Adds the values of an interval that begins at `start` and is `length` seconds long.
    pub fn add(&mut self, start: f64, length: f64, histogram: &Histogram<u64>) {
        let is_time = start.abs() < LATEST && (0.0..LATEST).contains(&length);
        if !is_time {
            return;
        }
        if self.width == 0.0 {
            self.start = start;
            self.width = SHORTEST;
        }
        // The first interval is often cut short: those behind it say how long they are.
        if self.slices.len() <= 1 && length > self.width * MUCH_LONGER {
            self.width = length;
        }
        // By its middle, so that ends which are a millisecond off change nothing.
        let middle = start + length / 2.0 - self.start;
        while self.place(middle) >= MOST_SLICES {
            self.widen();
        }
        let at = self.place(middle);
        if at >= self.slices.len() {
            self.slices.resize(at + 1, Vec::new());
        }
        let counts: Vec<(u64, u64)> = counts(histogram).collect();
        if let Some(slice) = self.slices.get_mut(at) {
            let before = slice.len();
            merge(slice, counts);
            self.steps += slice.len() - before;
        }
        while self.steps > MOST_STEPS && self.slices.len() > 1 {
            self.widen();
        }
    }

    fn place(&self, middle: f64) -> usize {
        // NaN and negative numbers become 0, too large ones the largest.
        (middle / self.width) as usize
    }

    /// Makes each two slices one.
    fn widen(&mut self) {
        self.width *= 2.0;
        let mut wider = Vec::with_capacity(self.slices.len().div_ceil(2));
        let mut slices = std::mem::take(&mut self.slices).into_iter();
        while let Some(mut slice) = slices.next() {
            merge(&mut slice, slices.next().unwrap_or_default());
            wider.push(slice);
        }
        self.steps = wider.iter().map(Vec::len).sum();
        self.slices = wider;
    }

    /// Multiplies every value.
    pub(crate) fn scale(&mut self, by: u64) {
        for (value, _) in self.slices.iter_mut().flatten() {
            *value = value.saturating_mul(by);
        }
    }

    /// Width of a slice in seconds; 0 where there is none.
    pub const fn width(&self) -> f64 {
        self.width
    }

    /// Values with their counts in each slice, the smallest first.
    pub fn slices(&self) -> &[Vec<(u64, u64)>] {
        &self.slices
    }
}

/// Values of a histogram with their counts, ascending; each is the largest of its counter, as in percentiles.
pub(crate) fn counts(histogram: &Histogram<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
    let steps = histogram.iter_recorded();
    steps.map(|step| (step.value_iterated_to(), step.count_at_value()))
}

/// Adds counts to others; both begin with the smallest value.
fn merge(into: &mut Vec<(u64, u64)>, counts: Vec<(u64, u64)>) {
    if into.is_empty() {
        *into = counts;
        return;
    }
    into.extend(counts);
    // Two runs of sorted values: this is a merge.
    into.sort_by_key(|it| it.0);
    into.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        is_same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: u64) -> Histogram<u64> {
        let mut histogram = measure::new_histogram();
        histogram.saturating_record(value);
        histogram
    }

    fn counted(of: &LatencySlices) -> u64 {
        of.slices().iter().flatten().map(|it| it.1).sum()
    }

    #[test]
    fn intervals_that_are_a_little_off_stand_in_a_slice_each_and_a_short_first_one_makes_none_empty() {
        let mut of = LatencySlices::default();
        for second in 0..100 {
            let off = if second % 2 == 0 { 0.02 } else { -0.02 };
            of.add(1e9 + f64::from(second) + off, 1.0 - off, &one(1_000));
        }
        assert_eq!((of.slices().len(), of.width()), (100, 1.0));
        assert!(of.slices().iter().all(|it| it.len() == 1));
        let mut of = LatencySlices::default();
        of.add(100.0, 0.1, &one(1_000));
        for number in 0..60 {
            of.add(100.1 + 10.0 * f64::from(number), 10.0, &one(1_000));
        }
        assert_eq!((of.slices().len(), of.width()), (60, 10.0));
        assert!(of.slices().iter().all(|it| !it.is_empty()));
    }

    #[test]
    fn a_longer_run_has_wider_slices_and_no_count_is_lost() {
        let mut of = LatencySlices::default();
        for second in 0..10_000 {
            of.add(f64::from(second), 1.0, &one(1_000 + second as u64 % 3));
        }
        assert_eq!(of.width(), 32.0);
        assert!(of.slices().len() <= MOST_SLICES);
        assert_eq!(counted(&of), 10_000);
        // Many different values take no more memory.
        let mut of = LatencySlices::default();
        let mut wide = measure::new_histogram();
        for value in 0..20_000u64 {
            wide.saturating_record(value * value);
        }
        for second in 0..400 {
            of.add(f64::from(second), 1.0, &wide);
        }
        assert!(of.steps <= MOST_STEPS && of.width() > 1.0, "{}", of.steps);
        assert_eq!(counted(&of), 400 * 20_000);
    }

    #[test]
    fn times_that_cannot_be_do_no_harm() {
        let mut of = LatencySlices::default();
        for (start, length) in [
            (0.0, 1.0),
            (1e300, 1.0),
            (-1e300, 1.0),
            (5.0, -3.0),
            (7.0, 0.0),
            (-5e11, 9e11),
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
        ] {
            of.add(start, length, &one(7));
        }
        assert_eq!(counted(&of), 3);
        assert!(of.slices().len() <= MOST_SLICES);
    }
}
