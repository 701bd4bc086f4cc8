//! The latencies of a slice: counted as an HDR histogram counts them, in memory that is taken page by page. A
//! [`hdrhistogram::Histogram`] writes all of its 270 KB when it is made, emptied and added; here only what lies between
//! the shortest and the longest latency is looked at.

use hdrhistogram::Histogram;

use crate::{HIGHEST_NS, Latencies, Nanos, Recorder};

/// One bucket for each nanosecond below two to this power.
const EXACT_BITS: u32 = 11;
/// Buckets of each power of two above.
const HALF: usize = 1 << (EXACT_BITS - 1);
/// Buckets up to one hour, and those of the same power of two, as [`crate::new_histogram`] has; a test compares.
const BUCKETS: usize = 33 * HALF;

/// The bucket of a latency. Above an hour it is that of an hour.
#[inline]
const fn bucket(latency: Nanos) -> usize {
    let value = if latency.0 < HIGHEST_NS { latency.0 } else { HIGHEST_NS };
    let power = (u64::BITS - EXACT_BITS).saturating_sub((value | 1).leading_zeros());
    power as usize * HALF + (value >> power) as usize
}

/// The shortest latency in a bucket.
const fn lowest(bucket: usize) -> u64 {
    let power = (bucket / HALF).saturating_sub(1);
    ((bucket - power * HALF) as u64) << power
}

/// The latencies of one metric in a slice.
#[derive(Clone, Debug)]
pub struct SliceHistogram {
    counts: Box<[u64]>,
    /// First bucket that may hold something; behind `last` where none does.
    first: usize,
    last: usize,
}

impl SliceHistogram {
    /// Buckets that may hold something.
    fn used(&self) -> &[u64] {
        self.counts.get(self.first..=self.last).unwrap_or_default()
    }

    /// Buckets that hold something, shortest latencies first, and how many each holds.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        let used = (self.first..).zip(self.used().iter().copied());
        used.filter(|(_, count)| *count > 0)
    }

    /// How many latencies were recorded.
    pub fn count(&self) -> u64 {
        self.used().iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The latencies that are told apart, shortest first, each as the longest of its bucket, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Nanos, u64)> {
        self.buckets().map(|(bucket, count)| (Nanos(lowest(bucket + 1) - 1), count))
    }

    /// Adds to a bucket, as another program counted it; whether there is one.
    pub fn add(&mut self, bucket: usize, count: u64) -> bool {
        let Some(sum) = self.counts.get_mut(bucket) else { return false };
        if count > 0 {
            *sum = sum.saturating_add(count);
            self.first = self.first.min(bucket);
            self.last = self.last.max(bucket);
        }
        true
    }

    fn add_to(&self, sum: &mut Histogram<u64>) {
        for (bucket, count) in self.buckets() {
            sum.saturating_record_n(lowest(bucket), count);
        }
    }
}

impl Latencies for SliceHistogram {
    fn none() -> Self {
        Self {
            // Zeroes from the kernel, which no one has written.
            counts: vec![0; BUCKETS].into_boxed_slice(),
            first: usize::MAX,
            last: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.first > self.last
    }

    #[inline]
    fn record(&mut self, latency: Nanos, count: u64) {
        if count > 0 {
            let bucket = bucket(latency);
            self.counts[bucket] = self.counts[bucket].saturating_add(count);
            self.first = self.first.min(bucket);
            self.last = self.last.max(bucket);
        }
    }

    fn reset(&mut self) {
        if let Some(used) = self.counts.get_mut(self.first..=self.last) {
            used.fill(0);
        }
        (self.first, self.last) = (usize::MAX, 0);
    }

    fn merge(&mut self, other: &Self) {
        let mine = self.counts.get_mut(other.first..=other.last);
        for (mine, theirs) in mine.unwrap_or_default().iter_mut().zip(other.used()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// One histogram per metric, filled by one thread; a [`Recorder`] of intervals sums them up.
pub type SliceRecorder = Recorder<SliceHistogram>;

impl SliceRecorder {
    pub(crate) fn add_to(&self, sum: &mut Recorder) {
        for (metric, histogram) in self.filled() {
            histogram.add_to(sum.histogram_mut(metric));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metric, new_histogram};

    /// Every bound between buckets, and what lies beside it.
    fn bounds() -> impl Iterator<Item = u64> {
        (0..BUCKETS).map(lowest).flat_map(|at| [at.saturating_sub(1), at, at + 1])
    }

    #[test]
    fn each_latency_is_counted_where_an_hdr_histogram_counts_it() {
        let empty = new_histogram();
        assert_eq!(empty.distinct_values(), BUCKETS);
        for value in bounds() {
            let expected = empty.lowest_equivalent(value.min(HIGHEST_NS));
            assert_eq!(lowest(bucket(Nanos(value))), expected, "{value}");
        }
    }

    #[test]
    fn longer_than_an_hour_counts_as_an_hour() {
        let mut recorder = SliceRecorder::default();
        recorder.record(Metric::TRANSFER, Nanos(u64::MAX));
        recorder.record_n(Metric::TRANSFER, Nanos(u64::MAX - 1), u64::MAX);
        let mut sum = Recorder::new();
        recorder.add_to(&mut sum);
        let histogram = sum.histogram(Metric::TRANSFER);
        assert_eq!((histogram.len(), histogram.iter_recorded().count()), (u64::MAX, 1));
        let mut hour = new_histogram();
        hour.saturating_record(HIGHEST_NS);
        assert_eq!(histogram.max(), hour.max());
        sum.record(Metric::SEND_ACK, Nanos(u64::MAX));
        assert_eq!(sum.histogram(Metric::SEND_ACK).max(), hour.max());
    }

    #[test]
    fn a_sum_equals_the_histogram_of_the_same_latencies() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed >> 17
        };
        let mut recorder = SliceRecorder::with(&[Metric::SEND_ACK]);
        for _ in 0..20 {
            let (mut sum, mut expected) = (Recorder::new(), new_histogram());
            let powers = random() % 47;
            let far = [0, HIGHEST_NS].into_iter();
            let near = (0..1_000).map(|_| (random() >> powers).min(HIGHEST_NS));
            let values: Vec<u64> = near.chain(far.take(powers as usize % 3)).collect();
            for value in values {
                let count = random() % 3;
                recorder.record_n(Metric::SEND_ACK, Nanos(value), count);
                if count > 0 {
                    expected.saturating_record_n(value, count);
                }
            }
            recorder.add_to(&mut sum);
            assert!(*sum.histogram(Metric::SEND_ACK) == expected, "{powers}");
            let whole = expected.len();
            let mut both = recorder.clone();
            both.merge(&SliceRecorder::default());
            both.merge(&recorder);
            let (_, histogram) = both.filled().next().expect("something");
            assert_eq!(histogram.count(), 2 * whole);
            let pairs = expected.iter_recorded().map(|it| {
                let count = it.count_since_last_iteration();
                (Nanos(it.value_iterated_to()), 2 * count)
            });
            assert!(histogram.iter().eq(pairs), "{powers}");
            recorder.reset();
            assert!(recorder.is_empty());
            let mut nothing = Recorder::new();
            recorder.add_to(&mut nothing);
            assert!(nothing.is_empty());
        }
    }
}
