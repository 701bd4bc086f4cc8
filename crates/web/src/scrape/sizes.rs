//! How large pages were: one that grows has no size but a middle and a largest.

use hdrhistogram::Histogram;
use measure::new_histogram;

/// A number that each page has.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    all: Histogram<u64>,
    least: u64,
    most: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            all: new_histogram(),
            least: u64::MAX,
            most: 0,
        }
    }
}

impl Sizes {
    pub(super) fn add(&mut self, size: u64) {
        self.all.saturating_record(size);
        self.least = self.least.min(size);
        self.most = self.most.max(size);
    }

    /// The middle one, within a thousandth; as it is where all are the same.
    pub(super) fn median(&self) -> u64 {
        let median = self.all.value_at_quantile(0.5);
        median.max(self.least).min(self.most)
    }

    /// The largest.
    pub(super) const fn max(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_are_the_same_are_told_exactly_and_others_by_their_middle() {
        let sizes = |of: &[u64]| {
            let mut sizes = Sizes::default();
            of.iter().for_each(|size| sizes.add(*size));
            (sizes.median(), sizes.max())
        };
        assert_eq!(sizes(&[]), (0, 0));
        assert_eq!(sizes(&[0]), (0, 0));
        assert_eq!(sizes(&[3_360_123; 5]), (3_360_123, 3_360_123));
        let (median, max) = sizes(&[7_150_000, 7_150_000, 7_150_001, 3_360_000]);
        assert!(median.abs_diff(7_150_000) < 7_150, "{median}");
        assert_eq!(max, 7_150_001);
    }
}
