//! State shared by the coordinator and the event loops while a load runs, and the reports in which all else travels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrayvec::ArrayString;
use measure::ledger::LedgerBatch;
use measure::{Nanos, Slice, ThreadUsage, Time};

use crate::report::Censored;
use crate::{Control, Error, RunEvent};
use plan::payload::Unreadable;

const NEVER: u64 = u64::MAX;

/// The instants that divide a run, on every thread the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boundaries {
    pub(crate) measure_at: Time,
    /// Nothing is due from here on.
    pub(crate) drain_at: Time,
    /// Nothing is counted from here on.
    pub(crate) end_at: Time,
}

/// A loop that is late for the end of sending may still send what was due before it, for this long.
pub(crate) const CATCH_UP: Nanos = Nanos(20_000_000);

/// One thread's progress, published once per turn of its loop.
#[derive(Debug, Default)]
pub(crate) struct ThreadProgress {
    open: AtomicU64,
    expected: AtomicU64,
    received: AtomicU64,
    uncertain: AtomicU64,
    taken: AtomicU64,
    undone: AtomicU64,
    /// In the drain: the last time that its part of the ledger was sent.
    handed_in: AtomicU64,
    /// The last fence that it has put up, its clients not settled behind it, and messages that others may get.
    fenced: AtomicU64,
    unsettled: AtomicU64,
    undelivered: AtomicU64,
    ready: AtomicU64,
    /// While a broker's return is watched: clients that are behind, and what consumers were asked.
    behind: AtomicU64,
    looked_since: AtomicU64,
}

/// A sum of [`ThreadProgress`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgressTotals {
    /// Messages sent and not confirmed.
    pub(crate) open: u64,
    /// Deliveries that the messages sent should lead to.
    pub(crate) expected: u64,
    /// Deliveries of this run's messages.
    pub(crate) received: u64,
    /// Of these, the ones that may be none of those expected: with the redelivered flag, dead-lettered, or where
    /// nobody sends to. The last two only where no ledger knows which they are.
    pub(crate) uncertain: u64,
}

impl ProgressTotals {
    /// Deliveries that are certainly of those expected. A thread may have counted on between the two reads.
    pub(crate) const fn certain(&self) -> u64 {
        self.received.saturating_sub(self.uncertain)
    }
}

/// Consumers' counts, whoever sent the messages; of a thread, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Activity {
    /// Deliveries that they took.
    pub(crate) taken: u64,
    /// Deliveries that came for those who take their time and are not done with them.
    pub(crate) undone: u64,
}

impl ThreadProgress {
    pub(crate) fn publish_behind(&self, clients: u64, since: Time) {
        self.behind.store(clients, Ordering::Relaxed);
        self.looked_since.store(since.0, Ordering::Release);
    }

    pub(crate) fn publish_ready(&self, clients: usize) {
        self.ready.store(clients as u64, Ordering::Relaxed);
    }

    pub(crate) fn publish(&self, totals: ProgressTotals, activity: Activity) {
        self.open.store(totals.open, Ordering::Relaxed);
        self.expected.store(totals.expected, Ordering::Relaxed);
        self.received.store(totals.received, Ordering::Relaxed);
        self.uncertain.store(totals.uncertain, Ordering::Relaxed);
        self.taken.store(activity.taken, Ordering::Relaxed);
        self.undone.store(activity.undone, Ordering::Relaxed);
    }

    /// The batches were sent before.
    pub(crate) fn publish_handed_in(&self, number: u64) {
        self.handed_in.store(number, Ordering::Release);
    }

    pub(crate) fn publish_fenced(&self, number: u64, unsettled: usize, undelivered: u64) {
        self.unsettled.store(unsettled as u64, Ordering::Relaxed);
        self.undelivered.store(undelivered, Ordering::Relaxed);
        self.fenced.store(number, Ordering::Release);
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// 0 until it is known; written after the boundaries.
    start: AtomicU64,
    measure_at: AtomicU64,
    drain_at: AtomicU64,
    end_at: AtomicU64,
    abort: AtomicBool,
    pub(crate) control: Control,
    /// In the drain, how often all parts of the ledger were requested, and fences.
    ledger_request: AtomicU64,
    fence: AtomicU64,
    /// Consumers have caught up with the return of a broker when they have had a message due since.
    caught_up_from: AtomicU64,
    /// Producers with a message count that have not reached it.
    pub(crate) producers_left: AtomicU64,
    /// Deliveries that groups of consumers with a message count still wait for.
    pub(crate) budgets: Vec<Arc<AtomicU64>>,
    pub(crate) progress: Vec<ThreadProgress>,
}

impl Shared {
    pub(crate) fn new(control: Control, threads: usize, producers_left: u64, budgets: Vec<Arc<AtomicU64>>) -> Self {
        Self {
            start: AtomicU64::new(0),
            measure_at: AtomicU64::new(NEVER),
            drain_at: AtomicU64::new(NEVER),
            end_at: AtomicU64::new(NEVER),
            abort: AtomicBool::new(false),
            control,
            ledger_request: AtomicU64::new(0),
            fence: AtomicU64::new(0),
            caught_up_from: AtomicU64::new(NEVER),
            producers_left: AtomicU64::new(producers_left),
            budgets,
            progress: std::iter::repeat_with(ThreadProgress::default).take(threads).collect(),
        }
    }

    pub(crate) fn set_start(&self, start: Time, warmup: Nanos, measure: Option<Nanos>) {
        let measure_at = start + warmup;
        self.measure_at.store(measure_at.0, Ordering::Relaxed);
        if let Some(measure) = measure {
            self.drain_at.store((measure_at + measure).0, Ordering::Relaxed);
        }
        self.start.store(start.0, Ordering::Release);
    }

    /// `None` until all clients are set up.
    #[inline]
    pub(crate) fn start(&self) -> Option<Time> {
        let start = self.start.load(Ordering::Acquire);
        (start != 0).then_some(Time(start))
    }

    #[inline]
    pub(crate) fn boundaries(&self) -> Boundaries {
        let end_at = self.end_at.load(Ordering::Relaxed);
        Boundaries {
            measure_at: Time(self.measure_at.load(Ordering::Relaxed)),
            drain_at: Time(self.drain_at.load(Ordering::Relaxed).min(end_at)),
            end_at: Time(end_at),
        }
    }

    /// Brings the end of sending forward.
    pub(crate) fn drain_at(&self, at: Time) {
        self.drain_at.fetch_min(at.0, Ordering::Relaxed);
    }

    /// Ends sending at once, without a moment for what was due before.
    #[cold]
    pub(crate) fn expire(&self) {
        self.drain_at(self.control.sends_until() - CATCH_UP);
        self.control.expire();
    }

    /// Brings the end of counting forward.
    pub(crate) fn end_at(&self, at: Time) {
        self.end_at.fetch_min(at.0, Ordering::Relaxed);
    }

    pub(crate) fn clients_ready(&self) -> u64 {
        self.progress.iter().map(|progress: &ThreadProgress| progress.ready.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn set_caught_up_from(&self, at: Time) {
        self.caught_up_from.store(at.0, Ordering::Relaxed);
    }

    pub(crate) fn caught_up_from(&self) -> Time {
        Time(self.caught_up_from.load(Ordering::Relaxed))
    }

    /// Whether every thread has looked since then, and found nobody behind.
    pub(crate) fn nobody_is_behind(&self, since: Time) -> bool {
        self.progress.iter().all(|progress| {
            progress.looked_since.load(Ordering::Acquire) == since.0 && progress.behind.load(Ordering::Relaxed) == 0
        })
    }

    pub(crate) fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Asks every loop for its part of the ledger as it is now; [`Self::all_handed_in`] tells when it is there.
    pub(crate) fn request_ledger(&self) -> u64 {
        self.ledger_request.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The last time that parts of the ledger were requested.
    #[inline]
    pub(crate) fn ledger_request(&self) -> u64 {
        self.ledger_request.load(Ordering::Relaxed)
    }

    pub(crate) fn all_handed_in(&self, number: u64) -> bool {
        self.progress.iter().all(|progress: &ThreadProgress| progress.handed_in.load(Ordering::Acquire) >= number)
    }

    /// Asks every loop to put up a fence on its channels.
    pub(crate) fn put_up_fence(&self) -> u64 {
        self.fence.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number of the last fence; 0 before the first.
    #[inline]
    pub(crate) fn fence(&self) -> u64 {
        self.fence.load(Ordering::Relaxed)
    }

    /// Whether nothing is left to come behind a fence that all have passed.
    pub(crate) fn nothing_is_left(&self, fence: u64) -> bool {
        let left = |progress: &ThreadProgress| progress.undelivered.load(Ordering::Relaxed);
        self.all_settled(fence) && self.progress.iter().all(|it| left(it) == 0)
    }

    /// Whether it is known of all clients how much may still come to them behind a fence.
    pub(crate) fn all_settled(&self, fence: u64) -> bool {
        self.progress.iter().all(|progress| {
            progress.fenced.load(Ordering::Acquire) == fence && progress.unsettled.load(Ordering::Relaxed) == 0
        })
    }

    /// Whether everybody who had a message count has reached it; `false` where nobody had one.
    pub(crate) fn counts_reached(&self, anybody_counts: bool) -> bool {
        anybody_counts && self.all_is_sent() && self.budgets.iter().all(|budget| budget.load(Ordering::Relaxed) == 0)
    }

    /// Whether no producer with a message count has something to send.
    pub(crate) fn all_is_sent(&self) -> bool {
        self.producers_left.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn totals(&self) -> ProgressTotals {
        let mut sum = ProgressTotals::default();
        for progress in &self.progress {
            sum.open += progress.open.load(Ordering::Relaxed);
            sum.expected += progress.expected.load(Ordering::Relaxed);
            sum.received += progress.received.load(Ordering::Relaxed);
            sum.uncertain += progress.uncertain.load(Ordering::Relaxed);
        }
        sum
    }

    pub(crate) fn activity(&self) -> Activity {
        let mut sum = Activity::default();
        for progress in &self.progress {
            sum.taken += progress.taken.load(Ordering::Relaxed);
            sum.undone += progress.undone.load(Ordering::Relaxed);
        }
        sum
    }
}

/// Room for a short string of AMQP.
pub(crate) type Reason = ArrayString<255>;

/// A report from an event loop to the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    /// All of a thread's clients are set up.
    Ready,
    /// A chunk of the ledger, and with the last one what the thread counted by itself.
    LedgerBatch(usize, LedgerBatch, Option<Box<LastBatch>>),
    Interval(usize, Box<Slice>),
    Event(RunEvent),
    /// `connection.blocked`, as its event, but without an allocation on the event loop.
    Blocked {
        at: Time,
        reason: Reason,
    },
    /// Messages due and not answered at the end, where there are any.
    Censored(Box<Censored>),
    CountReached,
    /// A client that reconnects was refused, and tries again.
    Refused(Error),
    /// A client failed; the thread goes on with the others until it is told to end.
    Failed(Error),
    /// The thread has closed its connections.
    Finished(usize, ThreadUsage),
}

/// Deliveries that an event loop counts beside its bitmaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnomalyCounts {
    pub(crate) corrupt: u64,
    pub(crate) foreign: u64,
}

impl AnomalyCounts {
    pub(crate) const fn count(&mut self, cause: Unreadable) {
        match cause {
            Unreadable::Corrupt => self.corrupt += 1,
            Unreadable::Foreign => self.foreign += 1,
        }
    }
}

/// The most messages that consumers of a recipient may still get.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undelivered {
    pub(crate) recipient: u32,
    /// Messages in its queue, where only the consumers' connection could ask.
    pub(crate) in_queue: u64,
    /// Messages that no count of the queue tells; [`u64::MAX`] where that is unknown.
    pub(crate) in_flight: u64,
}

/// Goes with an event loop's last batch.
#[derive(Debug)]
pub(crate) struct LastBatch {
    pub(crate) anomalies: AnomalyCounts,
    /// Producers and how many messages each sent.
    pub(crate) sent: Vec<(u32, u64)>,
    pub(crate) undelivered: Vec<Undelivered>,
    /// Names of bitmaps, and the message from which on all is owed.
    pub(crate) owed: Vec<(u32, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread whose deliveries are all uncertain has counted on between the two reads.
    #[test]
    fn deliveries_that_are_certain_are_never_less_than_none() {
        let totals = ProgressTotals { received: 3, uncertain: 5, ..ProgressTotals::default() };
        assert_eq!(totals.certain(), 0);
    }
}
