//! A worker's part of the ledger of a load whose producers send to other workers' consumers, as bytes of LEB128. Parts
//! are united in any order: a producer's confirms are in one of them, and each queue's deliveries are.
//!
//! ```text
//! producers of the load | 1 where counts are not exact | corrupt | foreign | 1 + copies, 0 where not known
//! own producers   how many, each: position | sent | confirmed | returned
//! deliveries      how many, each: producer | owed from | 3 counts | in order | late | flagged | resent
//! held            how many, each: first of these deliveries | how many | messages
//! set             whole blocks | messages | blocks, each: index | where its messages begin and end
//! ```

use std::fmt;
use std::ops::Range;

use super::bitmap::DeliveryBitmap;
use super::totals::{Deliveries, Ledger, LedgerSummary, Producer};
use super::{MOST_BYTES, MOST_MESSAGES};
use crate::leb128::{put_number, take_number, take_numbers};

/// Producers of a load at most, bitmaps of deliveries of a part, and queues.
const MOST_PRODUCERS: u64 = 1 << 16;
/// Bitmaps of all queues of a part at most.
const MOST_HELD: u64 = 1 << 20;
/// Blocks that are looked into at most, for some seconds.
const MOST_BLOCKS: u64 = 1 << 22;

/// A worker's part of a ledger.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LedgerPart(Vec<u8>);

impl fmt::Debug for LedgerPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ledger of {} bytes", self.0.len())
    }
}

impl LedgerPart {
    /// A part as it travelled; [`LedgerPart::sum`] checks it.
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Its bytes, for [`LedgerPart::new`].
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The sums over all parts of a load, but for the messages of producers whose part is missing; `None` where one of
    /// them is torn or larger than a worker's can be, they are not of one load, or the sums would take minutes.
    pub fn sum(parts: &[Self]) -> Option<LedgerSummary> {
        let mut all = LedgerUnion { copies: Some(0), ..LedgerUnion::default() };
        parts.iter().try_for_each(|part| all.add(&part.0))?;
        all.summary()
    }
}

impl Ledger {
    /// The part of a worker whose producers these are, by position. `held` is that of [`Ledger::summary`].
    pub fn part(&self, is_own: impl Fn(usize) -> bool, held: &[(Range<usize>, u64)]) -> LedgerPart {
        let mut out = Vec::new();
        let put = |out: &mut Vec<u8>, numbers: &[u64]| numbers.iter().for_each(|number| put_number(out, *number));
        let summary = &self.sums.summary;
        let copies = self.copies.map_or(0, |copies| copies.saturating_add(1));
        put(
            &mut out,
            &[self.producers.len() as u64, u64::from(self.inexact), summary.corrupt, summary.foreign, copies],
        );
        let own: Vec<_> = self.producers.iter().enumerate().filter(|(at, _)| is_own(*at)).collect();
        put(&mut out, &[own.len() as u64]);
        for (at, producer) in own {
            put(&mut out, &[at as u64, producer.sent]);
            producer.confirmed.write(&mut out);
            producer.returned.write(&mut out);
        }
        put(&mut out, &[self.deliveries.len() as u64]);
        for to in &self.deliveries {
            let counts = [to.plain_count, to.flagged_count, to.resent_count];
            put(&mut out, &[to.producer as u64, to.owed_from]);
            put(&mut out, &counts);
            [&to.in_order, &to.late, &to.flagged, &to.resent].into_iter().for_each(|set| set.write(&mut out));
        }
        put(&mut out, &[held.len() as u64]);
        for (bitmaps, most) in held {
            put(&mut out, &[bitmaps.start as u64, bitmaps.len() as u64, *most]);
        }
        LedgerPart(out)
    }
}

/// Parts that are put together.
#[derive(Debug, Default)]
struct LedgerUnion {
    ledger: Ledger,
    /// Producers of the load; `None` before a part has told.
    producers: Option<u64>,
    /// Producers whose part has come.
    is_known: Vec<bool>,
    held: Vec<(Range<usize>, u64)>,
    /// Copies that were sent again; `None` where a part does not tell.
    copies: Option<u64>,
}

impl LedgerUnion {
    fn add(&mut self, mut bytes: &[u8]) -> Option<()> {
        let bytes = &mut bytes;
        let [producers, inexact, corrupt, foreign, copies] = take_numbers(bytes)?;
        if producers > MOST_PRODUCERS || corrupt.max(foreign).max(copies) > MOST_MESSAGES {
            return None;
        }
        if self.producers.is_none() {
            self.producers = Some(producers);
            self.is_known.resize(producers as usize, false);
            self.ledger.producers.resize_with(producers as usize, Producer::default);
        }
        if self.producers != Some(producers) {
            return None;
        }
        self.ledger.inexact |= inexact != 0;
        self.ledger.add_counts(corrupt, foreign);
        self.copies = self.copies.zip(copies.checked_sub(1)).map(|(all, copies)| all + copies);
        let mut set_bytes = 0;
        for _ in 0..take_number(bytes)? {
            set_bytes += self.add_producer(bytes)?;
            (set_bytes <= MOST_BYTES).then_some(())?;
        }
        let first = self.ledger.deliveries.len();
        for _ in 0..take_count(bytes)? {
            let to = take_deliveries(bytes).filter(|to| to.producer < self.is_known.len())?;
            set_bytes += to.bytes();
            (set_bytes <= MOST_BYTES).then_some(())?;
            self.ledger.deliveries.push(to);
        }
        let end = self.ledger.deliveries.len();
        let mut held = 0;
        for _ in 0..take_count(bytes)? {
            let [from, count, most] = take_numbers(bytes)?;
            held = count.checked_add(held).filter(|held| *held <= MOST_HELD)?;
            let from = usize::try_from(from).ok()?.checked_add(first)?;
            let to = usize::try_from(count).ok()?.checked_add(from).filter(|to| *to <= end)?;
            self.held.push((from..to, most));
        }
        bytes.is_empty().then_some(())
    }

    /// Adds a producer; bytes that its sets take.
    fn add_producer(&mut self, bytes: &mut &[u8]) -> Option<usize> {
        let [at, sent] = take_numbers(bytes)?;
        let (confirmed, returned) = (DeliveryBitmap::read(bytes)?, DeliveryBitmap::read(bytes)?);
        let set_bytes = confirmed.bytes + returned.bytes;
        let at = usize::try_from(at).ok()?;
        let (is_known, producer) = (self.is_known.get_mut(at)?, self.ledger.producers.get_mut(at)?);
        *producer = Producer { sent, confirmed, returned, ..Producer::default() };
        (!std::mem::replace(is_known, true) && sent <= MOST_MESSAGES).then_some(set_bytes)
    }

    fn summary(mut self) -> Option<LedgerSummary> {
        let Ledger { producers, deliveries, sums, .. } = &mut self.ledger;
        for to in deliveries {
            let sent = producers.get(to.producer).map_or(0, |producer| producer.sent);
            if self.is_known.get(to.producer) != Some(&true) {
                *to = Deliveries { producer: to.producer, ..Deliveries::default() };
            }
            // A consumer does not know how many messages another worker's producer has sent.
            let plain = to.in_order.forget_from(sent) + to.late.forget_from(sent);
            let (flagged, resent) = (to.flagged.forget_from(sent), to.resent.forget_from(sent));
            to.plain_count = to.plain_count.saturating_sub(plain);
            to.flagged_count = to.flagged_count.saturating_sub(flagged);
            to.resent_count = to.resent_count.saturating_sub(resent);
            sums.summary.corrupt += plain + flagged + resent;
        }
        // What went to consumers of a missing part is not known either.
        self.ledger.inexact |= self.is_known.contains(&false);
        self.copies.into_iter().for_each(|copies| self.ledger.set_copies(copies));
        (self.ledger.open_blocks() <= MOST_BLOCKS).then(|| self.ledger.summary(&self.held))
    }
}

fn take_count(bytes: &mut &[u8]) -> Option<u64> {
    take_number(bytes).filter(|count| *count <= MOST_PRODUCERS)
}

fn take_deliveries(bytes: &mut &[u8]) -> Option<Deliveries> {
    let [producer, owed_from, plain_count, flagged_count, resent_count] = take_numbers(bytes)?;
    let is_possible = [plain_count, flagged_count, resent_count].iter().all(|count| *count <= MOST_MESSAGES);
    let producer = usize::try_from(producer).ok().filter(|_| is_possible)?;
    let mut set = || DeliveryBitmap::read(bytes);
    let (in_order, late, flagged, resent) = (set()?, set()?, set()?, set()?);
    let sets = Deliveries { producer, in_order, late, flagged, resent, ..Deliveries::default() };
    Some(Deliveries { plain_count, flagged_count, resent_count, owed_from, ..sets })
}
