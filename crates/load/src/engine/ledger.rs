//! An event loop's part of the ledger, and its way to the coordinator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use measure::ledger::{Anomaly, LedgerBatch, LedgerShard};

use super::shared::{AnomalyCounts, LastBatch, Report, Undelivered};
use plan::Owed;
use plan::payload::{Header, Unreadable};

/// Batches per thread. All exist from the beginning.
pub(crate) const BATCHES: usize = 4;

/// How much each producer has sent, for all event loops. Written before a message can reach its
/// broker, so that nothing is delivered which does not count here; [`UNKNOWN`] for other workers' producers.
pub(crate) type SentCounts = Arc<[AtomicU64]>;

/// Nobody here knows how much a producer has sent.
pub(crate) const UNKNOWN: u64 = u64::MAX;
/// Of a producer that runs elsewhere, a message is not as far ahead of the newest that came, …
const MOST_AHEAD: u64 = 1 << 31;
/// … nor so far where the header may be damaged.
const FEW_AHEAD: u64 = 1 << 20;

/// An event loop's part of the ledger, with the way to the coordinator.
#[derive(Debug)]
pub(crate) struct ThreadLedger {
    thread: usize,
    pub(crate) shard: LedgerShard,
    pub(crate) anomalies: AnomalyCounts,
    sent: SentCounts,
    spare: Vec<LedgerBatch>,
    returned: Receiver<LedgerBatch>,
}

impl ThreadLedger {
    /// A shard of these bitmaps; emptied batches come back through `returned`.
    pub(crate) fn new(thread: usize, bitmaps: &[u32], sent: SentCounts, returned: Receiver<LedgerBatch>) -> Self {
        Self {
            thread,
            shard: LedgerShard::new(bitmaps),
            anomalies: AnomalyCounts::default(),
            sent,
            spare: std::iter::repeat_with(LedgerBatch::default).take(BATCHES).collect(),
            returned,
        }
    }

    /// Says how much a producer has sent, before any of it is written to the socket.
    #[inline]
    pub(crate) fn publish_sent(&self, producer: u32, count: u64) {
        if let Some(sent) = self.sent.get(producer as usize) {
            sent.store(count, Ordering::Release);
        }
    }

    #[inline]
    fn sent(&self, producer: u32) -> u64 {
        self.sent.get(producer as usize).map_or(0, |sent| sent.load(Ordering::Acquire))
    }

    /// Sends what has gathered, if it is worth it.
    #[inline]
    pub(crate) fn send_when_due(&mut self, reports: &SyncSender<Report>) {
        if self.shard.is_due() {
            self.send(reports);
        }
    }

    /// Sends all that is noted so far; tells whether it went.
    pub(crate) fn send_all(&mut self, reports: &SyncSender<Report>) -> bool {
        self.shard.close();
        self.send(reports)
    }

    #[cold]
    fn send(&mut self, reports: &SyncSender<Report>) -> bool {
        self.spare.extend(self.returned.try_iter());
        let Some(empty) = self.spare.pop() else { return false };
        let batch = self.shard.exchange(empty);
        // The loop never waits: what the coordinator has no room for yet goes later.
        let report = Report::LedgerBatch(self.thread, batch, None);
        if let Err(TrySendError::Full(Report::LedgerBatch(_, batch, _))) = reports.try_send(report) {
            self.spare.push(self.shard.exchange(batch));
            return false;
        }
        true
    }

    /// Sends all, at the end: `sent` is how much each producer has sent, `undelivered` what may
    /// still come to its consumers, `owed` this loop's bitmaps that begin late.
    pub(crate) fn finish(
        mut self,
        sent: Vec<(u32, u64)>,
        undelivered: Vec<Undelivered>,
        owed: &[(usize, u64)],
        reports: &SyncSender<Report>,
    ) {
        let name = |(bitmap, from): &(usize, u64)| Some((self.shard.name(*bitmap)?, *from));
        let owed = owed.iter().filter_map(name).collect();
        self.shard.close();
        let batch = self.shard.exchange(LedgerBatch::default());
        let last = LastBatch { anomalies: self.anomalies, sent, undelivered, owed };
        // A coordinator that is gone wants no reports.
        let _ = reports.send(Report::LedgerBatch(self.thread, batch, Some(Box::new(last))));
    }
}

/// Producers that are asked whether a sequence number may be theirs.
const MOST_ASKED: usize = 64;

/// A consumer's view of the ledger: whose messages it should get, and their bitmaps.
#[derive(Debug)]
pub(crate) struct ProducerBitmaps {
    /// The producers of its destination, ascending.
    producers: Arc<[u32]>,
    /// Track of the first producer's deliveries; the others follow.
    first: usize,
    /// By producer: one more than the newest message that came here without the redelivered flag, 0 for none. Copies
    /// that were sent again are not looked at.
    newest: Vec<u64>,
    /// By producer, where the consumer begins at a place in a stream: what was sent before is owed from the first
    /// on that came only ([`measure::ledger::Ledger::owe_from`]).
    owed_from: Vec<u64>,
    /// Where the last message's producer was found.
    last: usize,
}

impl ProducerBitmaps {
    pub(crate) fn new(producers: Arc<[u32]>, first: usize, owed: Owed) -> Self {
        let newest = vec![0; producers.len()];
        let owed_from = match owed {
            Owed::All => Vec::new(),
            // Before it comes, or before [`Self::begin`], nothing.
            Owed::SinceSubscribed | Owed::SinceFirst => vec![u64::MAX; producers.len()],
        };
        Self { producers, first, newest, owed_from, last: 0 }
    }

    /// From now on all that is sent is owed.
    pub(crate) fn begin(&mut self, ledger: &ThreadLedger) {
        for (from, producer) in self.owed_from.iter_mut().zip(&*self.producers) {
            *from = ledger.sent(*producer).min(*from);
        }
    }

    /// The bitmaps of which not all is owed, and from when on it is.
    pub(crate) fn owed(&self) -> impl Iterator<Item = (usize, u64)> {
        self.owed_from.iter().enumerate().map(|(at, from)| (self.first + at, *from))
    }

    /// Takes a delivery down that should come here: it is foreign with a producer that does not send here, and corrupt
    /// with a sequence number that its producer has not reached.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        header: &Header,
        redelivered: bool,
        ledger: &mut ThreadLedger,
    ) -> Result<(), Unreadable> {
        let producer = header.producer;
        if self.producers.get(self.last) != Some(&producer) {
            let at = self.producers.binary_search(&producer);
            self.last = at.map_err(|_| Unreadable::Foreign)?;
        }
        let at = self.last;
        let newest = self.newest.get_mut(at).ok_or(Unreadable::Foreign)?;
        let sent = match ledger.sent(producer) {
            UNKNOWN => newest.saturating_add(MOST_AHEAD),
            sent => sent,
        };
        let sequence = whole_sequence(header, sent).ok_or(Unreadable::Corrupt)?;
        let (bitmap, shard) = (self.first + at, &mut ledger.shard);
        if redelivered || header.is_copy {
            let anomaly = if redelivered { Anomaly::Redelivered } else { Anomaly::Resent };
            shard.note_anomaly(bitmap, anomaly, sequence);
        } else if sequence + 1 < *newest {
            shard.note_anomaly(bitmap, Anomaly::Late, sequence);
        } else {
            *newest = sequence + 1;
            shard.note(bitmap, sequence);
        }
        Ok(())
    }

    /// Class of a delivery that [`Self::take`] refused, and that has this header; `checked` if that is as it was sent.
    #[cold]
    pub(crate) fn misfit(
        &self,
        header: &Header,
        refused: Unreadable,
        checked: bool,
        ledger: &ThreadLedger,
    ) -> Unreadable {
        match header.run {
            Some(_) => refused,
            // Its time is right, and the rest may be damaged.
            None if !checked && self.known(header, ledger) > 0 => Unreadable::Corrupt,
            None => Unreadable::Foreign,
        }
    }

    /// How many of a compact header's producer and sequence number are of those who send here: 0 to 2.
    #[cold]
    pub(crate) fn known(&self, header: &Header, ledger: &ThreadLedger) -> usize {
        let has_sent = |(producer, newest): (&u32, &u64)| {
            let sent = match ledger.sent(*producer) {
                UNKNOWN => newest.saturating_add(FEW_AHEAD),
                sent => sent,
            };
            whole_sequence(header, sent).is_some()
        };
        let mut all = self.producers.iter().zip(&self.newest);
        match self.producers.binary_search(&header.producer) {
            Ok(at) => 1 + usize::from(all.nth(at).is_some_and(has_sent)),
            Err(_) => usize::from(all.take(MOST_ASKED).any(has_sent)),
        }
    }
}

/// The sequence number that a header tells of a producer that has sent so much: in the compact form
/// the last one that ends in its 32 bits. `None` if it has not been sent.
pub(crate) fn whole_sequence(header: &Header, sent: u64) -> Option<u64> {
    if header.run.is_some() {
        return (header.sequence < sent).then_some(header.sequence);
    }
    let last = sent.checked_sub(1)?;
    let back = (last as u32).wrapping_sub(header.sequence as u32);
    last.checked_sub(u64::from(back))
}

#[cfg(test)]
mod tests;
