//! Where samples come from.

pub(crate) mod blocked;
pub(crate) mod perf;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use measure::{Clock, Time};
use rustix::event::Timespec;

use crate::record::{KeptSample, Record};

/// A source of records: the rings of the kernel's events, or a script in a test.
pub(crate) trait SampleSource: Send {
    /// Waits for records, for one of `others` to be readable, or for the time-out; which of the others are readable.
    fn wait(&mut self, others: &[BorrowedFd<'_>], timeout: &Timespec) -> Vec<bool>;

    /// Hands over the records that have come. Those that followed a damaged one in the same ring are lost.
    fn fetch(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged>;

    /// Records lost so far, by the source's own count; 0 where it keeps none.
    fn lost(&self) -> u64;

    /// How often the event happened so far, whatever became samples; `None` where that is not known.
    fn counted(&self) -> Option<u64> {
        None
    }

    /// Hands over what happened before `at`, also of what still goes on. Call it when a fetch has begun after `at`.
    fn cut(&mut self, _at: Time, _take: &mut dyn FnMut(&Record<'_>)) {}

    /// From `at` on nothing is sampled for a while: hands over what happened before, and forgets what still goes on,
    /// whose end nobody sees. Call it when a fetch has begun after the events were switched off.
    fn pause(&mut self, _at: Time, _take: &mut dyn FnMut(&Record<'_>)) {}

    /// Hands over what was held back, where sampling has ended at `at`; what was left out, in words.
    fn end(&mut self, _at: Time, _take: &mut dyn FnMut(&Record<'_>)) -> Option<String> {
        None
    }
}

/// A ring held what cannot be a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Rings are fetched again after so many things were looked at, since reading names may take milliseconds.
const FETCH_EVERY: usize = 16;
/// Things that wait at most where more are fetched. A third of them have copies of stacks, of 57 KB at most: 40 MB.
const MOST_WAITING: usize = 2048;

/// Records of several rings in the order of time: fetched one by one, all wait until each was fetched once more.
#[derive(Debug)]
struct InOrder<T> {
    /// By instant and the order of arrival.
    waiting: BTreeMap<(u64, u64), T>,
    arrived: u64,
    /// When the rings were last fetched: all that is older has come.
    fetched: u64,
}

impl<T> InOrder<T> {
    const fn new() -> Self {
        Self { waiting: BTreeMap::new(), arrived: 0, fetched: 0 }
    }

    fn put(&mut self, time: u64, thing: T) {
        self.arrived += 1;
        self.waiting.insert((time, self.arrived), thing);
    }

    /// Whether the rings, which fill meanwhile, should be fetched before the next of so many things is looked at.
    fn wants_more(&self, looked_at: usize) -> bool {
        looked_at % FETCH_EVERY == FETCH_EVERY - 1 && self.waiting.len() < MOST_WAITING
    }

    /// Records before an instant, each with its time.
    fn until(&mut self, until: u64) -> impl Iterator<Item = (u64, T)> + use<T> {
        let later = self.waiting.split_off(&(until, 0));
        let before = std::mem::replace(&mut self.waiting, later);
        before.into_iter().map(|((time, _), thing)| (time, thing))
    }

    /// Records that no earlier one can follow, where a fetch that began at `begun` is done.
    fn settled(&mut self, begun: u64) -> impl Iterator<Item = (u64, T)> + use<T> {
        let before = std::mem::replace(&mut self.fetched, begun);
        self.until(before)
    }
}

#[derive(Debug)]
pub(crate) struct SamplesInOrder<S> {
    source: S,
    waiting: InOrder<KeptSample>,
}

impl<S> SamplesInOrder<S> {
    pub(crate) const fn of(source: S) -> Self {
        Self { source, waiting: InOrder::new() }
    }
}

impl<S: SampleSource> SamplesInOrder<S> {
    fn gather(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged> {
        let waiting = &mut self.waiting;
        self.source.fetch(&mut |record| match record {
            Record::Sample(sample) => waiting.put(sample.time, sample.keep()),
            other => take(other),
        })
    }
}

impl<S: SampleSource> SampleSource for SamplesInOrder<S> {
    fn wait(&mut self, others: &[BorrowedFd<'_>], timeout: &Timespec) -> Vec<bool> {
        self.source.wait(others, timeout)
    }

    fn fetch(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged> {
        let begun = Clock.now().0;
        let mut fetched = self.gather(take);
        for (number, (_, sample)) in self.waiting.settled(begun).enumerate() {
            if self.waiting.wants_more(number) {
                fetched = fetched.and(self.gather(take));
            }
            take(&Record::Sample(sample.get()));
        }
        fetched
    }

    fn lost(&self) -> u64 {
        self.source.lost()
    }

    fn counted(&self) -> Option<u64> {
        self.source.counted()
    }

    fn cut(&mut self, at: Time, take: &mut dyn FnMut(&Record<'_>)) {
        for (_, sample) in self.waiting.until(at.0) {
            take(&Record::Sample(sample.get()));
        }
    }

    fn end(&mut self, _at: Time, take: &mut dyn FnMut(&Record<'_>)) -> Option<String> {
        self.cut(Time(u64::MAX), take);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_of_two_rings_come_in_the_order_of_time() {
        let mut order = InOrder::new();
        let mut all = Vec::new();
        // Each fetch finds one ring in the state of a moment later than the other.
        let fetches = [
            (10, vec![(3, "a"), (9, "d"), (5, "b"), (12, "e")]),
            (20, vec![(8, "c"), (25, "g"), (12, "f")]),
            (30, vec![]),
        ];
        for (begun, things) in fetches {
            things.into_iter().for_each(|(time, it)| order.put(time, it));
            all.extend(order.settled(begun));
        }
        let wanted = [(3, "a"), (5, "b"), (8, "c"), (9, "d"), (12, "e"), (12, "f")];
        assert_eq!(all, wanted);
        assert_eq!(order.until(u64::MAX).collect::<Vec<_>>(), [(25, "g")]);
    }
}
