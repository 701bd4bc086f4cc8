//! The coordinator's side of the ledger: takes the batches of all event loops.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use measure::ledger::{Ledger, LedgerBatch, LedgerSummary};

use super::ledger::{BATCHES, SentCounts, ThreadLedger};
use super::ledger_layout::LedgerLayout;
use super::recipients::{Found, Recipient};
use super::report::{LastBatch, Undelivered};

/// The coordinator's side: the ledger, and the way back of emptied batches.
#[derive(Debug)]
pub(crate) struct LedgerCollector {
    ledger: Ledger,
    give_back: Vec<SyncSender<LedgerBatch>>,
    sent: SentCounts,
    /// Deliveries that recipients may still get.
    undelivered: HashMap<u32, Undelivered>,
}

impl LedgerCollector {
    /// Makes the collector and each thread's ledger; neither where no ledger is kept.
    pub(crate) fn open(
        ledger_layout: &Result<LedgerLayout, Option<String>>,
        threads: usize,
    ) -> (Option<Self>, VecDeque<ThreadLedger>) {
        let Ok(ledger_layout) = ledger_layout else {
            return (None, VecDeque::new());
        };
        let mut give_back = Vec::with_capacity(threads);
        let mut shards = VecDeque::with_capacity(threads);
        let sent: SentCounts = std::iter::repeat_with(AtomicU64::default)
            .take(ledger_layout.producers)
            .collect();
        for (thread, bitmaps) in ledger_layout.threads.iter().enumerate() {
            let (sender, returned) = sync_channel(BATCHES + 1);
            give_back.push(sender);
            shards.push_back(ThreadLedger::new(
                thread,
                bitmaps,
                Arc::clone(&sent),
                returned,
            ));
        }
        let ledger = Ledger::new(ledger_layout.producers, &ledger_layout.deliveries);
        let collector = Self {
            ledger,
            give_back,
            sent,
            undelivered: HashMap::new(),
        };
        (Some(collector), shards)
    }

    pub(crate) fn add(
        &mut self,
        thread: usize,
        mut batch: LedgerBatch,
        last: Option<Box<LastBatch>>,
    ) {
        self.ledger.add(&batch);
        batch.clear();
        if let Some(sender) = self.give_back.get(thread) {
            // An event loop that has ended wants nothing back.
            let _ = sender.try_send(batch);
        }
        let Some(last) = last else {
            return;
        };
        let anomalies = last.anomalies;
        self.ledger.add_counts(anomalies.corrupt, anomalies.foreign);
        for (producer, count) in last.sent {
            self.ledger.set_sent(producer as usize, count);
        }
        for (bitmap, from) in last.owed {
            self.ledger.owe_from(bitmap as usize, from);
        }
        for one in last.undelivered {
            // Consumers of one queue have asked for the same messages.
            let all = self.undelivered.entry(one.recipient).or_default();
            all.in_queue = all.in_queue.max(one.in_queue);
            all.in_flight = all.in_flight.saturating_add(one.in_flight);
        }
    }

    /// Whether every message is accounted for, of which this many deliveries are expected.
    pub(crate) fn is_complete(&mut self, expected: u64) -> bool {
        for (producer, sent) in self.sent.iter().enumerate() {
            let sent = sent.load(Ordering::Acquire);
            self.ledger.set_sent(producer, sent);
        }
        let summary = self.ledger.summary(&[]);
        summary.lost == 0 && summary.delivered >= expected
    }

    /// The sums at the end, with what each recipient's queue may hold.
    pub(crate) fn summary(&self, recipients: &[Recipient], found: &Found) -> LedgerSummary {
        let held = recipients.iter().enumerate().map(|(at, recipient)| {
            let its = self.undelivered.get(&(at as u32));
            let its = its.copied().unwrap_or_default();
            let held = found.held(at, recipient).unwrap_or(u64::MAX);
            let most = held.max(its.in_queue).saturating_add(its.in_flight);
            (recipient.bitmaps.clone(), most)
        });
        self.ledger.summary(&held.collect::<Vec<_>>())
    }
}
