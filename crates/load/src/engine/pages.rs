//! An event loop's part of the ledger, and its way to the coordinator.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use measure::ledger::{Ledger, LedgerSummary, Noted, Notes, Parcel};

use super::accounts::Accounts;
use super::shared::Report;
use crate::payload::Header;

/// Parcels per thread. All exist from the beginning.
pub(crate) const PARCELS: usize = 4;

/// What an event loop counts by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    pub(crate) reordered: u64,
    pub(crate) corrupt: u64,
    pub(crate) foreign: u64,
}

/// An event loop's notes.
#[derive(Debug)]
pub(crate) struct Pages {
    thread: usize,
    pub(crate) notes: Notes,
    pub(crate) odd: Oddities,
    spare: Vec<Parcel>,
    returned: Receiver<Parcel>,
}

impl Pages {
    /// Pages for these tracks; emptied parcels come back through `returned`.
    pub(crate) fn new(thread: usize, tracks: &[u32], returned: Receiver<Parcel>) -> Self {
        Self {
            thread,
            notes: Notes::new(tracks),
            odd: Oddities::default(),
            spare: std::iter::repeat_with(Parcel::default)
                .take(PARCELS)
                .collect(),
            returned,
        }
    }

    /// Sends what has gathered, if it is worth it.
    #[inline]
    pub(crate) fn send_when_due(&mut self, reports: &SyncSender<Report>) {
        if self.notes.is_due() {
            self.send(reports);
        }
    }

    #[cold]
    fn send(&mut self, reports: &SyncSender<Report>) {
        self.spare.extend(self.returned.try_iter());
        let Some(empty) = self.spare.pop() else {
            return;
        };
        let parcel = self.notes.exchange(empty);
        // The loop never waits: what the coordinator has no room for yet goes later.
        let report = Report::Parcel(self.thread, parcel, None);
        if let Err(TrySendError::Full(Report::Parcel(_, parcel, _))) = reports.try_send(report) {
            self.spare.push(self.notes.exchange(parcel));
        }
    }

    /// Sends all, at the end; `sent` is how much each producer has sent.
    pub(crate) fn finish(mut self, sent: Vec<(u32, u64)>, reports: &SyncSender<Report>) {
        self.notes.close();
        let parcel = self.notes.exchange(Parcel::default());
        let last = Last {
            odd: self.odd,
            sent,
        };
        // A coordinator that is gone wants no reports.
        let _ = reports.send(Report::Parcel(self.thread, parcel, Some(Box::new(last))));
    }
}

/// The coordinator's side: the ledger, and the way back of emptied parcels.
#[derive(Debug)]
pub(crate) struct Books {
    ledger: Ledger,
    give_back: Vec<SyncSender<Parcel>>,
}

impl Books {
    /// Opens the books and each thread's pages; neither where there are no accounts.
    pub(crate) fn open(
        accounts: &Result<Accounts, Option<String>>,
        threads: usize,
    ) -> (Option<Self>, VecDeque<Pages>) {
        let Ok(accounts) = accounts else {
            return (None, VecDeque::new());
        };
        let mut give_back = Vec::with_capacity(threads);
        let mut pages = VecDeque::with_capacity(threads);
        for (thread, tracks) in accounts.threads.iter().enumerate() {
            let (sender, returned) = sync_channel(PARCELS + 1);
            give_back.push(sender);
            pages.push_back(Pages::new(thread, tracks, returned));
        }
        let ledger = Ledger::new(accounts.producers, &accounts.deliveries);
        (Some(Self { ledger, give_back }), pages)
    }

    pub(crate) fn add(&mut self, thread: usize, mut parcel: Parcel, last: Option<Box<Last>>) {
        self.ledger.add(&parcel);
        parcel.clear();
        if let Some(sender) = self.give_back.get(thread) {
            // An event loop that has ended wants nothing back.
            let _ = sender.try_send(parcel);
        }
        let Some(last) = last else {
            return;
        };
        let odd = last.odd;
        self.ledger
            .add_counts(odd.reordered, odd.corrupt, odd.foreign);
        for (producer, count) in last.sent {
            self.ledger.set_sent(producer as usize, count);
        }
    }

    pub(crate) fn summary(&self) -> LedgerSummary {
        self.ledger.summary()
    }
}

/// What comes with an event loop's last parcel.
#[derive(Debug)]
pub(crate) struct Last {
    pub(crate) odd: Oddities,
    /// Producers and how many messages each sent.
    pub(crate) sent: Vec<(u32, u64)>,
}

/// A consumer's view of the ledger: whose messages it should get, and their tracks.
#[derive(Debug)]
pub(crate) struct Tracks {
    /// The producers of its destination, ascending.
    producers: Arc<[u32]>,
    /// Track of the first producer's deliveries; the others follow.
    first: usize,
    /// By producer: one more than the highest sequence seen here, 0 for none.
    highest: Vec<u64>,
    /// Where the last message's producer was found.
    last: usize,
}

impl Tracks {
    pub(crate) fn new(producers: Arc<[u32]>, first: usize) -> Self {
        let highest = vec![0; producers.len()];
        Self {
            producers,
            first,
            highest,
            last: 0,
        }
    }

    /// Takes a delivery down.
    #[inline]
    pub(crate) fn take(&mut self, header: &Header, redelivered: bool, pages: &mut Pages) {
        let producer = header.producer;
        if self.producers.get(self.last) != Some(&producer) {
            match self.producers.binary_search(&producer) {
                Ok(at) => self.last = at,
                // Nobody who should send here.
                Err(_) => {
                    pages.odd.foreign += 1;
                    return;
                }
            }
        }
        let at = self.last;
        let Some(highest) = self.highest.get_mut(at) else {
            return;
        };
        let sequence = if header.run.is_none() {
            widen(header.sequence, *highest)
        } else {
            header.sequence
        };
        if redelivered {
            pages.notes.note_redelivered(self.first + at, sequence);
            return;
        }
        let noted = pages.notes.note(self.first + at, sequence);
        if sequence < *highest {
            pages.odd.reordered += u64::from(noted == Noted::New);
        } else {
            *highest = sequence + 1;
        }
    }
}

/// The sequence number nearest to `expected` that ends in these 32 bits.
const fn widen(low: u64, expected: u64) -> u64 {
    let ahead = (low as u32).wrapping_sub(expected as u32) as i32;
    expected.saturating_add_signed(ahead as i64)
}

#[cfg(test)]
mod tests {
    use super::widen;

    #[test]
    fn short_sequences_go_on_over_their_wrap() {
        const WRAP: u64 = 1 << 32;
        assert_eq!(widen(0, 0), 0);
        assert_eq!(widen(5, 3), 5);
        assert_eq!(widen(0, WRAP - 1), WRAP, "the next after the wrap");
        assert_eq!(widen(WRAP - 1, WRAP + 2), WRAP - 1, "late, from before it");
        assert_eq!(widen(7, 9 * WRAP + 6), 9 * WRAP + 7);
        assert_eq!(
            widen(u32::MAX as u64, 0),
            0,
            "nothing lies before the first"
        );
    }
}
