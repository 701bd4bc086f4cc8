//! The ledger itself: sets of all event loops together, and the sums over them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::set::Set;
use super::{BLOCK, Bits, MOST_BYTES, Parcel, WORDS, place};

/// Deliveries of one producer's messages to one queue, or to one subscriber.
#[derive(Clone, Debug, Default)]
struct Deliveries {
    /// Position among the producers.
    producer: usize,
    /// Delivered at least once without the redelivered flag, and how many such deliveries.
    plain: Set,
    plain_count: u64,
    /// Delivered at least once with it.
    flagged: Set,
    flagged_count: u64,
}

/// Where a message can stand. All counts are of messages, per queue, or per subscriber where each
/// gets every message, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerSummary {
    /// Sent, once per queue or subscriber that should get them.
    pub sent: u64,
    /// Delivered at least once.
    pub delivered: u64,
    /// Confirmed, and not delivered by the end of the drain.
    pub lost: u64,
    /// Never confirmed, and not delivered by the end of the drain.
    pub unconfirmed_missing: u64,
    /// Never confirmed, and delivered all the same.
    pub unconfirmed_delivered: u64,
    /// Deliveries of a message that had been delivered, without the redelivered flag.
    pub duplicated: u64,
    /// The same with the flag: what at-least-once delivery allows.
    pub duplicated_redelivered: u64,
    /// First deliveries, without the flag, of a message older than one that the same consumer had
    /// had from the same producer. Each event loop decides from what it has seen: where repetitions
    /// reach another consumer than the message did, this can be off by as many.
    pub reordered: u64,
    /// Deliveries whose content is not what was sent. Where the header is hit, nobody can tell
    /// which message it was, so it counts as missing too.
    pub corrupt: u64,
    /// Deliveries of another run's messages; they count nowhere else.
    pub foreign: u64,
    /// Whether memory sufficed for all counts to be exact.
    pub exact: bool,
}

/// What became of every message.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Messages sent, by producer.
    sent: Vec<u64>,
    confirmed: Vec<Set>,
    deliveries: Vec<Deliveries>,
    /// Counts of what is settled, and of what needs no sets.
    sums: Sums,
    /// By producer: blocks below are settled.
    settled_below: Vec<u64>,
    inexact: bool,
    most_bytes: usize,
    /// Deliveries that were taken for reordered and then found to be repetitions.
    not_reordered: u64,
}

/// [`LedgerSummary`] in the making.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    summary: LedgerSummary,
    /// Messages of which no delivery was without the redelivered flag.
    flagged_only: u64,
}

/// Counts of some blocks of a track.
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    lost: u64,
    missing: u64,
    unconfirmed: u64,
    flagged_only: u64,
}

impl Region {
    const fn add_to(self, sums: &mut Sums) {
        sums.summary.lost += self.lost;
        sums.summary.unconfirmed_missing += self.missing;
        sums.summary.unconfirmed_delivered += self.unconfirmed;
        sums.flagged_only += self.flagged_only;
    }
}

impl Ledger {
    /// A ledger of so many producers. Tracks are named: 0 to `producers - 1` are their confirms,
    /// and from there on the deliveries of the producers in `deliveries`, in this order.
    #[must_use]
    pub fn new(producers: usize, deliveries: &[usize]) -> Self {
        let of = |&producer: &usize| Deliveries {
            producer,
            ..Deliveries::default()
        };
        Self {
            sent: vec![0; producers],
            confirmed: vec![Set::default(); producers],
            deliveries: deliveries
                .iter()
                .filter(|producer| **producer < producers)
                .map(of)
                .collect(),
            settled_below: vec![0; producers],
            most_bytes: MOST_BYTES,
            ..Self::default()
        }
    }

    #[cfg(test)]
    pub(super) const fn with_most_bytes(mut self, bytes: usize) -> Self {
        self.most_bytes = bytes;
        self
    }

    /// Takes an event loop's notes.
    pub fn add(&mut self, parcel: &Parcel) {
        for block in &parcel.blocks {
            let track = block.track as usize;
            if let Some(confirmed) = self.confirmed.get_mut(track) {
                confirmed.insert(block.index, &block.bits);
            } else if let Some(to) = self.deliveries.get_mut(track - self.confirmed.len()) {
                to.plain_count += block.count;
                let overlap = to.plain.insert(block.index, &block.bits);
                if block.late {
                    self.not_reordered += overlap;
                }
            }
        }
        for &(track, sequence) in &parcel.flagged {
            let at = (track as usize).checked_sub(self.confirmed.len());
            if let Some(to) = at.and_then(|at| self.deliveries.get_mut(at)) {
                to.flagged_count += 1;
                let (index, word, bit) = place(sequence);
                let mut bits: Bits = [0; WORDS];
                bits[word] = bit;
                to.flagged.insert(index, &bits);
            }
        }
        if self.bytes() > self.most_bytes {
            self.settle();
        }
    }

    /// How many messages a producer sent in all.
    pub fn set_sent(&mut self, producer: usize, count: u64) {
        if let Some(sent) = self.sent.get_mut(producer) {
            *sent = count;
        }
    }

    /// Adds what an event loop counted by itself: reordered, corrupt and foreign deliveries.
    pub const fn add_counts(&mut self, reordered: u64, corrupt: u64, foreign: u64) {
        self.sums.summary.reordered += reordered;
        self.sums.summary.corrupt += corrupt;
        self.sums.summary.foreign += foreign;
    }

    /// Bytes that the sets take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let deliveries = self
            .deliveries
            .iter()
            .map(|to| to.plain.bytes() + to.flagged.bytes());
        self.confirmed.iter().map(Set::bytes).sum::<usize>() + deliveries.sum::<usize>()
    }

    /// Counts the older half of every producer's messages for good, and forgets its sets.
    fn settle(&mut self) {
        self.inexact = true;
        let mut until = self.settled_below.clone();
        for to in &self.deliveries {
            let (begin, end) = self.span(to);
            if let Some(until) = until.get_mut(to.producer) {
                *until = (*until).max(begin + (end - begin).div_ceil(2));
            }
        }
        let mut sums = self.sums;
        for to in &self.deliveries {
            let (begin, end) = (self.settled_below[to.producer], until[to.producer]);
            // All of them were sent: something newer was.
            self.count(to, begin..end, u64::MAX).add_to(&mut sums);
        }
        self.sums = sums;
        for to in &mut self.deliveries {
            to.plain.settle_below(until[to.producer]);
            to.flagged.settle_below(until[to.producer]);
        }
        for (confirmed, until) in self.confirmed.iter_mut().zip(&until) {
            confirmed.settle_below(*until);
        }
        self.settled_below = until;
    }

    /// The blocks of deliveries and their confirms that are not whole or not there.
    fn span(&self, to: &Deliveries) -> (u64, u64) {
        let (begin, end) = to.plain.span();
        let (flagged_begin, flagged_end) = to.flagged.span();
        let (confirmed_begin, confirmed_end) = self.confirmed[to.producer].span();
        (
            begin.max(flagged_begin).min(confirmed_begin),
            end.max(flagged_end).max(confirmed_end),
        )
    }

    /// Goes through blocks one by one. `sent` is the first sequence that was not.
    fn count(&self, to: &Deliveries, blocks: Range<u64>, sent: u64) -> Region {
        let confirmed = &self.confirmed[to.producer];
        let whole_below = confirmed.span().0.min(to.plain.span().0);
        let mut region = Region::default();
        for index in blocks.start.max(whole_below)..blocks.end {
            let (c, p, f) = (
                confirmed.bits(index),
                to.plain.bits(index),
                to.flagged.bits(index),
            );
            for word in 0..WORDS {
                let first = index * BLOCK + word as u64 * 64;
                let s = match sent.saturating_sub(first) {
                    0 => 0,
                    n if n >= 64 => u64::MAX,
                    n => (1 << n) - 1,
                };
                let (c, p, f) = (c[word], p[word], f[word]);
                let d = p | f;
                let count = |bits: u64| u64::from(bits.count_ones());
                region.lost += count(c & !d);
                region.missing += count(s & !c & !d);
                region.unconfirmed += count(d & !c);
                region.flagged_only += count(f & !p);
            }
        }
        region
    }

    /// The sums at the end of the drain.
    #[must_use]
    pub fn summary(&self) -> LedgerSummary {
        let mut sums = self.sums;
        for to in &self.deliveries {
            let sent = self.sent[to.producer];
            let begin = self.settled_below[to.producer];
            let end = self.span(to).1.max(sent.div_ceil(BLOCK));
            self.count(to, begin..end, sent).add_to(&mut sums);
            let summary = &mut sums.summary;
            summary.sent += sent;
            summary.delivered += to.plain.count();
            summary.duplicated += to.plain_count.saturating_sub(to.plain.count());
            summary.duplicated_redelivered += to.flagged_count;
        }
        let (summary, first) = (sums.summary, sums.flagged_only);
        LedgerSummary {
            delivered: summary.delivered + first,
            // One of each of these was the message's first delivery.
            duplicated_redelivered: summary.duplicated_redelivered.saturating_sub(first),
            reordered: summary.reordered.saturating_sub(self.not_reordered),
            exact: !self.inexact,
            ..summary
        }
    }
}
