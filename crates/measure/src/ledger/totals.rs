//! The ledger itself: sets of all event loops together, and the sums over them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::bitmap::DeliveryBitmap;
use super::shard::Chunk;
use super::{Anomaly, BLOCK, LedgerBatch, MOST_BYTES, MOST_PART_BYTES, WORDS, below};

/// Outcome of one producer's messages at the broker.
#[derive(Clone, Debug, Default)]
pub(super) struct Producer {
    pub(super) sent: u64,
    pub(super) confirmed: DeliveryBitmap,
    pub(super) returned: DeliveryBitmap,
    /// Blocks below are settled.
    pub(super) settled_below: u64,
}

/// Deliveries of one producer's messages to one queue, or to one subscriber.
#[derive(Clone, Debug, Default)]
pub(super) struct Deliveries {
    /// Position among the producers.
    pub(super) producer: usize,
    /// Delivered at least once without the redelivered flag, and in order for that consumer.
    pub(super) in_order: DeliveryBitmap,
    /// Delivered at least once without the flag, and late for that consumer.
    pub(super) late: DeliveryBitmap,
    /// Delivered at least once with the flag.
    pub(super) flagged: DeliveryBitmap,
    /// Delivered at least once without the flag, as a copy that was sent again.
    pub(super) resent: DeliveryBitmap,
    /// Deliveries without the flag, with it, and of copies without it.
    pub(super) plain_count: u64,
    pub(super) flagged_count: u64,
    pub(super) resent_count: u64,
    /// Of what is settled: confirmed, and neither returned nor delivered.
    pub(super) settled_missing: u64,
    /// Before this one, only what follows the first delivery is owed: see [`Ledger::owe_from`].
    pub(super) owed_from: u64,
}

impl Deliveries {
    fn add(&mut self, chunk: &Chunk, bytes: &mut usize) {
        let (set, count) = match chunk.anomaly {
            None => (&mut self.in_order, &mut self.plain_count),
            Some(Anomaly::Late) => (&mut self.late, &mut self.plain_count),
            Some(Anomaly::Redelivered) => (&mut self.flagged, &mut self.flagged_count),
            Some(Anomaly::Resent) => (&mut self.resent, &mut self.resent_count),
            Some(Anomaly::Returned) => return,
        };
        *count += chunk.count;
        insert(set, chunk, bytes);
        // Where all came in order, nothing else that came changes a count.
        let whole_below = self.in_order.full_below;
        for set in [&mut self.late, &mut self.flagged, &mut self.resent] {
            if set.bytes > 0 {
                *bytes -= set.bytes;
                set.settle_below(whole_below);
                *bytes += set.bytes;
            }
        }
    }

    /// Bytes that the sets take.
    pub(super) const fn bytes(&self) -> usize {
        self.in_order.bytes + self.late.bytes + self.flagged.bytes + self.resent.bytes
    }

    /// The first message that has to be delivered.
    fn owed_from(&self) -> u64 {
        if self.owed_from == 0 {
            return 0;
        }
        // A copy came after the place where they begin, whatever its number.
        let sets = [&self.in_order, &self.late, &self.flagged];
        let delivered = sets.iter().filter_map(|set| set.first()).min();
        delivered.map_or(self.owed_from, |first| first.min(self.owed_from))
    }
}

fn insert(set: &mut DeliveryBitmap, chunk: &Chunk, bytes: &mut usize) {
    *bytes -= set.bytes;
    set.insert(chunk);
    *bytes += set.bytes;
}

/// Where a message can stand. All counts are of messages, per queue, or per subscriber where each
/// gets every message, unless said otherwise. `sent` is the sum of `delivered`, `lost`,
/// `outstanding`, `returned` and `unconfirmed_missing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LedgerSummary {
    /// Sent, once per queue or subscriber that should get them.
    pub sent: u64,
    /// Delivered at least once.
    pub delivered: u64,
    /// Confirmed, neither returned nor delivered by the end of the drain, and not outstanding.
    pub lost: u64,
    /// Confirmed, neither returned nor delivered by the end of the drain, and the broker may hold them: a queue's own
    /// count says so, or it could not be asked, or a consumer's connection was down or had not given everything away.
    pub outstanding: u64,
    /// Given back by the broker, which had no queue for them, and not delivered; confirmed or not.
    pub returned: u64,
    /// Never confirmed, and neither returned nor delivered by the end of the drain.
    pub unconfirmed_missing: u64,
    /// Never confirmed, and delivered all the same.
    pub unconfirmed_delivered: u64,
    /// Deliveries without the redelivered flag, less the messages that had at least one. Copies are not among them, but
    /// where more of them came than were sent.
    pub duplicated: u64,
    /// Deliveries with the flag, less the messages that had no delivery without it: what at-least-once delivery allows.
    pub duplicated_redelivered: u64,
    /// Deliveries, without the flag, of copies that were sent again after a reconnect, less the messages that had no
    /// other delivery without the flag, and less those that are more than were sent.
    #[serde(default)]
    pub duplicated_resent: u64,
    /// Delivered only late: every delivery of the message was without the redelivered flag, of no copy, and to
    /// a consumer that had had a newer message of the same producer without the flag.
    pub reordered: u64,
    /// Deliveries with other content than was sent. A damaged header hides the message, which is missing, too.
    pub corrupt: u64,
    /// Deliveries of what no producer of this run sent here; they count nowhere else.
    pub foreign: u64,
    /// Whether memory sufficed for all counts to be exact.
    pub exact: bool,
}

impl LedgerSummary {
    /// Deliveries of messages beyond the first of each.
    pub const fn copies(&self) -> u64 {
        self.duplicated + self.duplicated_redelivered + self.duplicated_resent
    }

    /// Adds a summary of other producers' messages to other queues and subscribers.
    pub fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.lost = self.lost.saturating_add(other.lost);
        self.outstanding = self.outstanding.saturating_add(other.outstanding);
        self.returned = self.returned.saturating_add(other.returned);
        self.unconfirmed_missing = self.unconfirmed_missing.saturating_add(other.unconfirmed_missing);
        self.unconfirmed_delivered = self.unconfirmed_delivered.saturating_add(other.unconfirmed_delivered);
        self.duplicated = self.duplicated.saturating_add(other.duplicated);
        self.duplicated_redelivered = self.duplicated_redelivered.saturating_add(other.duplicated_redelivered);
        self.duplicated_resent = self.duplicated_resent.saturating_add(other.duplicated_resent);
        self.reordered = self.reordered.saturating_add(other.reordered);
        self.corrupt = self.corrupt.saturating_add(other.corrupt);
        self.foreign = self.foreign.saturating_add(other.foreign);
        self.exact &= other.exact;
    }
}

/// Outcome of every message.
#[derive(Debug, Default)]
pub struct Ledger {
    pub(super) producers: Vec<Producer>,
    pub(super) deliveries: Vec<Deliveries>,
    /// Counts of what is settled, and of what needs no sets.
    pub(super) sums: Sums,
    pub(super) inexact: bool,
    /// Other workers have the rest: see [`LedgerPart`](super::LedgerPart).
    is_part: bool,
    /// Copies that were sent again, where that is known.
    pub(super) copies: Option<u64>,
    /// Bytes that the sets take, and may take.
    bytes: usize,
    most_bytes: usize,
}

/// [`LedgerSummary`] in the making.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) summary: LedgerSummary,
    /// Messages of which every delivery without the redelivered flag was late.
    late_only: u64,
    /// Messages of which no delivery was without the flag.
    flagged_only: u64,
    /// Messages of which every delivery without the flag was of a copy.
    resent_only: u64,
    /// Sent, and not owed to who gets these deliveries.
    not_owed: u64,
}

impl Sums {
    const fn add(&mut self, region: Self) {
        self.summary.lost += region.summary.lost;
        self.summary.returned += region.summary.returned;
        self.summary.unconfirmed_missing += region.summary.unconfirmed_missing;
        self.summary.unconfirmed_delivered += region.summary.unconfirmed_delivered;
        self.summary.reordered += region.summary.reordered;
        self.late_only += region.late_only;
        self.flagged_only += region.flagged_only;
        self.resent_only += region.resent_only;
        self.not_owed += region.not_owed;
    }
}

impl Ledger {
    /// A ledger of this many producers. Bitmaps are named: 0 to `producers - 1` are their confirms,
    /// and from there on the deliveries of the producers in `deliveries`, in this order.
    pub fn new(producers: usize, deliveries: &[usize]) -> Self {
        let of = |&producer: &usize| Deliveries { producer, ..Deliveries::default() };
        Self {
            producers: vec![Producer::default(); producers],
            deliveries: deliveries.iter().filter(|producer| **producer < producers).map(of).collect(),
            most_bytes: MOST_BYTES,
            ..Self::default()
        }
    }

    /// The ledger of a worker, whose producers send to other workers' consumers: its [`Ledger::part`] counts.
    #[must_use]
    pub const fn of_worker(mut self) -> Self {
        (self.is_part, self.most_bytes) = (true, MOST_PART_BYTES);
        self
    }

    #[cfg(test)]
    pub(super) const fn with_most_bytes(mut self, bytes: usize) -> Self {
        self.most_bytes = bytes;
        self
    }

    /// So many copies were sent again: each comes once at most to whoever gets its message.
    pub const fn set_copies(&mut self, copies: u64) {
        self.copies = Some(copies);
    }

    /// Deliveries of copies, of `resent` in all, that the broker itself must have duplicated.
    fn duplicated_copies(&self, resent: u64) -> u64 {
        let mut each = vec![0_u64; self.producers.len()];
        for to in &self.deliveries {
            each[to.producer] += 1;
        }
        let most = each.into_iter().max().unwrap_or_default();
        self.copies.map_or(0, |copies| resent.saturating_sub(copies.saturating_mul(most)))
    }

    /// Takes an event loop's notes. Their order changes nothing.
    pub fn add(&mut self, batch: &LedgerBatch) {
        self.inexact |= batch.dropped > 0;
        for chunk in &batch.chunks {
            let bitmap = chunk.bitmap as usize;
            let bytes = &mut self.bytes;
            if let Some(producer) = self.producers.get_mut(bitmap) {
                match chunk.anomaly {
                    None => insert(&mut producer.confirmed, chunk, bytes),
                    Some(Anomaly::Returned) => insert(&mut producer.returned, chunk, bytes),
                    Some(Anomaly::Late | Anomaly::Redelivered | Anomaly::Resent) => {}
                }
            } else if let Some(to) = self.deliveries.get_mut(bitmap - self.producers.len()) {
                to.add(chunk, bytes);
            }
        }
        while self.bytes > self.most_bytes && self.settle() {}
    }

    /// How many messages a producer sent in all.
    pub fn set_sent(&mut self, producer: usize, count: u64) {
        if let Some(producer) = self.producers.get_mut(producer) {
            producer.sent = count;
        }
    }

    /// Messages before this sequence number need not come; the first that does tells where they begin: deliveries,
    /// counted as in [`Ledger::new`], begin at a place in a stream, and a stream keeps the order of what a producer
    /// sends.
    pub fn owe_from(&mut self, bitmap: usize, sequence: u64) {
        let at = bitmap.checked_sub(self.producers.len());
        if let Some(to) = at.and_then(|at| self.deliveries.get_mut(at)) {
            to.owed_from = sequence;
        }
    }

    /// Adds what an event loop counted by itself: corrupt and foreign deliveries.
    pub const fn add_counts(&mut self, corrupt: u64, foreign: u64) {
        self.sums.summary.corrupt += corrupt;
        self.sums.summary.foreign += foreign;
    }

    /// Bytes that the sets take.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts the older half of every producer's messages for good, and forgets its sets. Tells
    /// whether there was anything to forget.
    fn settle(&mut self) -> bool {
        self.inexact = true;
        if self.is_part {
            return self.settle_part();
        }
        let mut until: Vec<u64> = self.producers.iter().map(|p| p.settled_below).collect();
        for to in &self.deliveries {
            let (begin, end) = self.span(to);
            let until = &mut until[to.producer];
            *until = (*until).max(begin + end.saturating_sub(begin).div_ceil(2));
        }
        let mut sums = self.sums;
        let mut missing = Vec::with_capacity(self.deliveries.len());
        for to in &self.deliveries {
            let blocks = self.producers[to.producer].settled_below..until[to.producer];
            // All of them were sent: something newer was.
            let region = self.count(to, blocks, u64::MAX);
            missing.push(region.summary.lost);
            sums.add(region);
        }
        self.sums = sums;
        for (to, missing) in self.deliveries.iter_mut().zip(missing) {
            to.settled_missing += missing;
            for set in [&mut to.in_order, &mut to.late, &mut to.flagged, &mut to.resent] {
                set.settle_below(until[to.producer]);
            }
        }
        let mut forgot = false;
        for (producer, until) in self.producers.iter_mut().zip(until) {
            producer.confirmed.settle_below(until);
            producer.returned.settle_below(until);
            forgot |= until > producer.settled_below;
            producer.settled_below = until;
        }
        self.bytes = self.count_bytes();
        forgot
    }

    /// Takes the older half of every set for whole, as nobody here knows the others.
    fn settle_part(&mut self) -> bool {
        let mut forgot = false;
        for producer in &mut self.producers {
            forgot |= producer.confirmed.settle_half() | producer.returned.settle_half();
        }
        for to in &mut self.deliveries {
            for set in [&mut to.in_order, &mut to.late, &mut to.flagged, &mut to.resent] {
                forgot |= set.settle_half();
            }
        }
        self.bytes = self.count_bytes();
        forgot
    }

    fn count_bytes(&self) -> usize {
        let producers = self.producers.iter().map(|p| p.confirmed.bytes + p.returned.bytes);
        let deliveries = self.deliveries.iter().map(Deliveries::bytes);
        producers.sum::<usize>() + deliveries.sum::<usize>()
    }

    /// The blocks of deliveries and their confirms that are not whole or not there.
    fn span(&self, to: &Deliveries) -> (u64, u64) {
        let Producer { confirmed, returned, .. } = &self.producers[to.producer];
        let delivered = [&to.in_order, &to.late, &to.flagged, &to.resent];
        let whole_below = delivered.iter().map(|set| set.full_below).max();
        let end = delivered.iter().map(|set| set.end()).max();
        (whole_below.unwrap_or(0).min(confirmed.full_below), end.unwrap_or(0).max(confirmed.end()).max(returned.end()))
    }

    /// Blocks through which [`Self::summary`] goes one by one.
    pub(super) fn open_blocks(&self) -> u64 {
        let of = |to: &Deliveries| {
            let producer = &self.producers[to.producer];
            let whole_below = producer.confirmed.full_below.min(to.in_order.full_below);
            self.span(to).1.max(producer.sent.div_ceil(BLOCK)).saturating_sub(whole_below)
        };
        self.deliveries.iter().map(of).sum()
    }

    /// Goes through blocks one by one. `sent` is the first sequence that was not.
    fn count(&self, to: &Deliveries, blocks: Range<u64>, sent: u64) -> Sums {
        let producer = &self.producers[to.producer];
        let whole_below = producer.confirmed.full_below.min(to.in_order.full_below);
        let owed_from = to.owed_from();
        let mut sums = Sums::default();
        for index in blocks.start.max(whole_below)..blocks.end {
            let confirmed = producer.confirmed.bits(index);
            let returned = producer.returned.bits(index);
            let in_order = to.in_order.bits(index);
            let late = to.late.bits(index);
            let flagged = to.flagged.bits(index);
            let resent = to.resent.bits(index);
            for word in 0..WORDS {
                let first = index * BLOCK + word as u64 * 64;
                let s = below(sent, first);
                let (c, r) = (confirmed[word], returned[word]);
                let (i, l, f, x) = (in_order[word], late[word], flagged[word], resent[word]);
                let d = i | l | f | x;
                let o = !below(owed_from, first);
                let count = |bits: u64| u64::from(bits.count_ones());
                sums.summary.lost += count(c & !r & !d & o);
                sums.summary.returned += count(r & !d & o);
                sums.summary.unconfirmed_missing += count(s & !c & !r & !d & o);
                sums.not_owed += count(s & !d & !o);
                sums.summary.unconfirmed_delivered += count(d & !c);
                sums.summary.reordered += count(l & !i & !f & !x);
                sums.late_only += count(l & !i);
                sums.flagged_only += count(f & !i & !l & !x);
                sums.resent_only += count(x & !i & !l);
            }
        }
        sums
    }

    /// Messages that were delivered at least once, of each bitmap of deliveries.
    pub fn delivered(&self) -> u64 {
        let of = |to: &Deliveries| {
            let others = [&to.late, &to.flagged, &to.resent];
            let end = others.iter().map(|set| set.end()).max().unwrap_or(0);
            let only_elsewhere = |index: u64| {
                let in_order = to.in_order.bits(index);
                let all = others.map(|set| set.bits(index));
                let word = |at: usize| all.iter().fold(0, |bits, set| bits | set[at]) & !in_order[at];
                (0..WORDS).map(|at| u64::from(word(at).count_ones())).sum::<u64>()
            };
            to.in_order.count + (to.in_order.full_below..end).map(only_elsewhere).sum::<u64>()
        };
        self.deliveries.iter().map(of).sum()
    }

    /// The sums at the end of the drain. `held` says how many messages the broker may still hold for
    /// bitmaps of deliveries, counted from the first of them: for a queue its own count, for one that
    /// nobody knows about [`u64::MAX`]. This many of what is missing there are outstanding, not lost.
    pub fn summary(&self, held: &[(Range<usize>, u64)]) -> LedgerSummary {
        let mut sums = self.sums;
        let (mut in_order, mut plain, mut flagged, mut resent) = (0, 0, 0, 0);
        let mut missing = Vec::with_capacity(self.deliveries.len());
        for to in &self.deliveries {
            let producer = &self.producers[to.producer];
            let end = self.span(to).1.max(producer.sent.div_ceil(BLOCK));
            let region = self.count(to, producer.settled_below..end, producer.sent);
            missing.push(region.summary.lost + to.settled_missing);
            sums.add(region);
            sums.summary.sent += producer.sent;
            in_order += to.in_order.count;
            plain += to.plain_count;
            flagged += to.flagged_count;
            resent += to.resent_count;
        }
        let of = |(bitmaps, most): &(Range<usize>, u64)| {
            let missing = missing.get(bitmaps.clone()).unwrap_or_default();
            missing.iter().sum::<u64>().min(*most)
        };
        let outstanding = held.iter().map(of).sum();
        let plain_messages = in_order + sums.late_only;
        let again = resent.saturating_sub(sums.resent_only);
        let by_broker = self.duplicated_copies(resent).min(again);
        LedgerSummary {
            lost: sums.summary.lost.saturating_sub(outstanding),
            outstanding,
            sent: sums.summary.sent - sums.not_owed,
            delivered: plain_messages + sums.flagged_only + sums.resent_only,
            // One of each of these was the message's first delivery.
            duplicated: plain.saturating_sub(plain_messages) + by_broker,
            duplicated_redelivered: flagged.saturating_sub(sums.flagged_only),
            duplicated_resent: again - by_broker,
            exact: !self.inexact,
            ..sums.summary
        }
    }
}
