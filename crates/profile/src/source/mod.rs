//! Where samples come from.

pub(crate) mod blocked;
pub(crate) mod in_order;
pub(crate) mod perf;

use std::os::fd::BorrowedFd;

use measure::Time;
use rustix::event::Timespec;

use crate::record::Record;

/// A source of records: the rings of the kernel's events, or a script in a test.
pub(crate) trait SampleSource: Send {
    /// Waits until there are records to fetch, one of `others` is readable, or the time-out is over;
    /// says which of the others are readable.
    fn wait(&mut self, others: &[BorrowedFd<'_>], timeout: &Timespec) -> Vec<bool>;

    /// Hands over the records that have come.
    ///
    /// # Errors
    /// A record was damaged; those that followed it in the same ring are lost.
    fn fetch(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged>;

    /// Records lost so far, by the source's own count; 0 where it keeps none.
    fn lost(&self) -> u64;

    /// How often the event happened so far, whatever became samples; `None` where that is not known.
    fn counted(&self) -> Option<u64> {
        None
    }

    /// Hands over what happened before `at`, of what still goes on the part before it. Call it when a fetch has begun
    /// after `at`.
    fn cut(&mut self, _at: Time, _take: &mut dyn FnMut(&Record<'_>)) {}

    /// From `at` on nothing is sampled for a while: hands over what happened before, and forgets what still goes on, whose end
    /// nobody sees. Call it when a fetch has begun after the events were switched off.
    fn pause(&mut self, _at: Time, _take: &mut dyn FnMut(&Record<'_>)) {}

    /// Hands over what was held back, where sampling has ended at `at`; what was left out, in words.
    fn end(&mut self, _at: Time, _take: &mut dyn FnMut(&Record<'_>)) -> Option<String> {
        None
    }
}

/// A ring held what cannot be a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;
