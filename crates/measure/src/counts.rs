//! Counters of the registry's metrics: what an interval counted of each.

use crate::{Metric, MetricInfo, MetricKind};

/// One number for each counter that a scenario has declared; none for messages, whose counts are
/// [`crate::Counters`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By index in the registry.
    values: Vec<Option<u64>>,
}

impl Counts {
    /// Zeros for the counters among these metrics; counting them later does not allocate.
    #[must_use]
    pub fn with(metrics: &[Metric]) -> Self {
        let mut counts = Self::default();
        for metric in metrics {
            if metric.info().kind != MetricKind::Histogram {
                counts.value(*metric);
            }
        }
        counts
    }

    #[inline]
    fn value(&mut self, metric: Metric) -> &mut u64 {
        let index = metric.index();
        if index >= self.values.len() {
            self.values.resize(index + 1, None);
        }
        self.values[index].get_or_insert(0)
    }

    /// Adds this many.
    #[inline]
    pub fn add(&mut self, metric: Metric, more: u64) {
        *self.value(metric) += more;
    }

    /// Keeps the largest value.
    #[inline]
    pub fn peak(&mut self, metric: Metric, value: u64) {
        let largest = self.value(metric);
        *largest = value.max(*largest);
    }

    /// Count of a metric; 0 where it was not declared.
    #[must_use]
    pub fn get(&self, metric: Metric) -> u64 {
        self.values
            .get(metric.index())
            .copied()
            .flatten()
            .unwrap_or(0)
    }

    /// All that was declared, in the order of the registry.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, u64)> {
        let all = self.values.iter().enumerate();
        all.filter_map(|(index, value)| Some((Metric::at(index), (*value)?)))
    }

    /// Adds what another interval counted.
    pub fn merge(&mut self, other: &Self) {
        for (metric, value) in other.iter() {
            match metric.info() {
                MetricInfo {
                    kind: MetricKind::Peak,
                    ..
                } => self.peak(metric, value),
                _ => self.add(metric, value),
            }
        }
    }

    /// Zeros for all that was declared.
    pub fn reset(&mut self) {
        for value in self.values.iter_mut().flatten() {
            *value = 0;
        }
    }
}

impl Extend<(Metric, u64)> for Counts {
    fn extend<T: IntoIterator<Item = (Metric, u64)>>(&mut self, counts: T) {
        for (metric, value) in counts {
            self.add(metric, value);
        }
    }
}

impl FromIterator<(Metric, u64)> for Counts {
    fn from_iter<T: IntoIterator<Item = (Metric, u64)>>(counts: T) -> Self {
        let mut all = Self::default();
        all.extend(counts);
        all
    }
}
