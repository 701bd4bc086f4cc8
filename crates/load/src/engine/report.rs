//! Reports from event loops to the coordinator.

use arrayvec::ArrayString;
use measure::ledger::LedgerBatch;
use measure::{Slice, Time};

use crate::report::Censored;
use crate::{Error, RunEvent, ThreadUsage};
use plan::payload::Unreadable;

/// Room for a short string of AMQP.
pub(crate) type Reason = ArrayString<255>;

/// A report from an event loop to the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    /// All of a thread's clients are set up.
    Ready,
    /// A chunk of the ledger, and with the last one what the thread counted by itself.
    LedgerBatch(usize, LedgerBatch, Option<Box<LastBatch>>),
    /// A finished interval of a thread.
    Interval(usize, Box<Slice>),
    Event(RunEvent),
    /// `connection.blocked`, as its event, but without an allocation on the event loop.
    Blocked {
        at: Time,
        reason: Reason,
    },
    /// Messages due and not answered at the end, where there are any.
    Censored(Box<Censored>),
    /// Somebody reached a message count.
    CountReached,
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
