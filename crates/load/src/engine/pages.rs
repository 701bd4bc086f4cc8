//! An event loop's part of the ledger, and its way to the coordinator.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use measure::ledger::{Ledger, LedgerSummary, Notes, Odd, Parcel};

use super::accounts::Accounts;
use super::recipients::{Found, Recipient};
use super::shared::Report;
use crate::payload::{Header, Unreadable};

/// Parcels per thread. All exist from the beginning.
pub(crate) const PARCELS: usize = 4;

/// What an event loop counts by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    pub(crate) corrupt: u64,
    pub(crate) foreign: u64,
}

impl Oddities {
    pub(crate) const fn count(&mut self, cause: Unreadable) {
        match cause {
            Unreadable::Corrupt => self.corrupt += 1,
            Unreadable::Foreign => self.foreign += 1,
        }
    }
}

/// How much each producer has sent, for all event loops. Written before a message can reach its
/// broker, so that nothing is delivered which does not count here.
pub(crate) type Sent = Arc<[AtomicU64]>;

/// An event loop's notes.
#[derive(Debug)]
pub(crate) struct Pages {
    thread: usize,
    pub(crate) notes: Notes,
    pub(crate) odd: Oddities,
    sent: Sent,
    spare: Vec<Parcel>,
    returned: Receiver<Parcel>,
}

impl Pages {
    /// Pages for these tracks; emptied parcels come back through `returned`.
    pub(crate) fn new(
        thread: usize,
        tracks: &[u32],
        sent: Sent,
        returned: Receiver<Parcel>,
    ) -> Self {
        Self {
            thread,
            notes: Notes::new(tracks),
            odd: Oddities::default(),
            sent,
            spare: std::iter::repeat_with(Parcel::default)
                .take(PARCELS)
                .collect(),
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

    /// How much a producer has sent.
    #[inline]
    fn sent(&self, producer: u32) -> u64 {
        self.sent
            .get(producer as usize)
            .map_or(0, |sent| sent.load(Ordering::Acquire))
    }

    /// Sends what has gathered, if it is worth it.
    #[inline]
    pub(crate) fn send_when_due(&mut self, reports: &SyncSender<Report>) {
        if self.notes.is_due() {
            self.send(reports);
        }
    }

    /// Sends all that is noted so far; tells whether it went.
    pub(crate) fn send_all(&mut self, reports: &SyncSender<Report>) -> bool {
        self.notes.close();
        self.send(reports)
    }

    #[cold]
    fn send(&mut self, reports: &SyncSender<Report>) -> bool {
        self.spare.extend(self.returned.try_iter());
        let Some(empty) = self.spare.pop() else {
            return false;
        };
        let parcel = self.notes.exchange(empty);
        // The loop never waits: what the coordinator has no room for yet goes later.
        let report = Report::Parcel(self.thread, parcel, None);
        if let Err(TrySendError::Full(Report::Parcel(_, parcel, _))) = reports.try_send(report) {
            self.spare.push(self.notes.exchange(parcel));
            return false;
        }
        true
    }

    /// Sends all, at the end: `sent` is how much each producer has sent, `unsettled` the recipients to
    /// which something may still be on its way.
    pub(crate) fn finish(
        mut self,
        sent: Vec<(u32, u64)>,
        unsettled: Vec<u32>,
        reports: &SyncSender<Report>,
    ) {
        self.notes.close();
        let parcel = self.notes.exchange(Parcel::default());
        let last = Last {
            odd: self.odd,
            sent,
            unsettled,
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
    sent: Sent,
    /// Recipients to which something may still be on its way.
    unsettled: HashSet<u32>,
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
        let sent: Sent = std::iter::repeat_with(AtomicU64::default)
            .take(accounts.producers)
            .collect();
        for (thread, tracks) in accounts.threads.iter().enumerate() {
            let (sender, returned) = sync_channel(PARCELS + 1);
            give_back.push(sender);
            pages.push_back(Pages::new(thread, tracks, Arc::clone(&sent), returned));
        }
        let ledger = Ledger::new(accounts.producers, &accounts.deliveries);
        let books = Self {
            ledger,
            give_back,
            sent,
            unsettled: HashSet::new(),
        };
        (Some(books), pages)
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
        self.ledger.add_counts(odd.corrupt, odd.foreign);
        for (producer, count) in last.sent {
            self.ledger.set_sent(producer as usize, count);
        }
        self.unsettled.extend(last.unsettled);
    }

    /// Whether every message is accounted for, of which so many deliveries are expected.
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
            let is_settled = !self.unsettled.contains(&(at as u32));
            let most = found.held(at, recipient).filter(|_| is_settled);
            (recipient.tracks.clone(), most.unwrap_or(u64::MAX))
        });
        self.ledger.summary(&held.collect::<Vec<_>>())
    }
}

/// What comes with an event loop's last parcel.
#[derive(Debug)]
pub(crate) struct Last {
    pub(crate) odd: Oddities,
    /// Producers and how many messages each sent.
    pub(crate) sent: Vec<(u32, u64)>,
    /// Recipients to which something may still be on its way.
    pub(crate) unsettled: Vec<u32>,
}

/// A consumer's view of the ledger: whose messages it should get, and their tracks.
#[derive(Debug)]
pub(crate) struct Tracks {
    /// The producers of its destination, ascending.
    producers: Arc<[u32]>,
    /// Track of the first producer's deliveries; the others follow.
    first: usize,
    /// By producer: one more than the newest message that came here without the redelivered flag, 0
    /// for none.
    newest: Vec<u64>,
    /// Where the last message's producer was found.
    last: usize,
}

impl Tracks {
    pub(crate) fn new(producers: Arc<[u32]>, first: usize) -> Self {
        let newest = vec![0; producers.len()];
        Self {
            producers,
            first,
            newest,
            last: 0,
        }
    }

    /// Takes a delivery down.
    ///
    /// # Errors
    /// Where it is none that should come here: foreign with a producer that does not send here,
    /// corrupt with a sequence number that its producer has not reached.
    #[inline]
    pub(crate) fn take(
        &mut self,
        header: &Header,
        redelivered: bool,
        pages: &mut Pages,
    ) -> Result<(), Unreadable> {
        let producer = header.producer;
        if self.producers.get(self.last) != Some(&producer) {
            let at = self.producers.binary_search(&producer);
            self.last = at.map_err(|_| Unreadable::Foreign)?;
        }
        let at = self.last;
        let newest = self.newest.get_mut(at).ok_or(Unreadable::Foreign)?;
        let sequence = whole_sequence(header, pages.sent(producer)).ok_or(Unreadable::Corrupt)?;
        let (track, notes) = (self.first + at, &mut pages.notes);
        if redelivered {
            notes.note_odd(track, Odd::Redelivered, sequence);
        } else if sequence + 1 < *newest {
            notes.note_odd(track, Odd::Late, sequence);
        } else {
            *newest = sequence + 1;
            notes.note(track, sequence);
        }
        Ok(())
    }

    /// Whether one of the producers that send here has sent a message with this compact header.
    pub(crate) fn knows(&self, header: &Header, pages: &Pages) -> bool {
        self.producers.binary_search(&header.producer).is_ok()
            && whole_sequence(header, pages.sent(header.producer)).is_some()
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
