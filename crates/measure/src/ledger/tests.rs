//! The ledger against a naive model.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// xorshift64: enough to visit odd orders, the same ones every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What the ledger should say of one producer and one queue.
#[derive(Default)]
struct Model {
    sent: u64,
    confirmed: BTreeSet<u64>,
    deliveries: BTreeMap<u64, (u64, u64)>,
}

impl Model {
    fn summary(&self) -> LedgerSummary {
        let delivered = |n: &u64| self.deliveries.contains_key(n);
        let mut summary = LedgerSummary {
            sent: self.sent,
            delivered: self.deliveries.len() as u64,
            exact: true,
            ..LedgerSummary::default()
        };
        for n in 0..self.sent {
            match (self.confirmed.contains(&n), delivered(&n)) {
                (true, false) => summary.lost += 1,
                (false, false) => summary.unconfirmed_missing += 1,
                (false, true) => summary.unconfirmed_delivered += 1,
                (true, true) => {}
            }
        }
        for &(plain, flagged) in self.deliveries.values() {
            summary.duplicated += plain.saturating_sub(1);
            summary.duplicated_redelivered += if plain > 0 { flagged } else { flagged - 1 };
        }
        summary
    }
}

fn ship(notes: &mut Notes, ledger: &mut Ledger) {
    let mut parcel = notes.exchange(Parcel::default());
    ledger.add(&parcel);
    parcel.clear();
}

/// Three event loops share a queue; messages are confirmed, lost, repeated and flagged by chance.
#[test]
fn it_counts_what_a_map_would_count() {
    for seed in 1..=20 {
        let mut random = Random(seed);
        let mut model = Model::default();
        let mut ledger = Ledger::new(1, &[0]);
        let mut confirms = Notes::new(&[0]);
        let mut loops: Vec<Notes> = (0..3).map(|_| Notes::new(&[1])).collect();
        model.sent = 9_000 + random.below(30_000);
        let mut deliver = |model: &mut Model, n: u64, at: u64, flagged: bool| {
            let entry = model.deliveries.entry(n).or_default();
            let notes = &mut loops[at as usize];
            if flagged {
                entry.1 += 1;
                notes.note_redelivered(0, n);
            } else {
                entry.0 += 1;
                notes.note(0, n);
            }
            if notes.is_due() {
                ship(notes, &mut ledger);
            }
        };
        for n in 0..model.sent {
            if random.below(50) > 0 {
                model.confirmed.insert(n);
                confirms.note_range(0, n, 1);
            }
            if random.below(40) > 0 {
                deliver(&mut model, n, random.below(3), random.below(30) == 0);
            }
            while random.below(20) == 0 {
                let old = n - random.below((n + 1).min(20_000));
                deliver(&mut model, old, random.below(3), random.below(2) == 0);
            }
        }
        for notes in loops.iter_mut().chain([&mut confirms]) {
            notes.close();
            ship(notes, &mut ledger);
        }
        ledger.set_sent(0, model.sent);
        assert_eq!(ledger.summary(), model.summary(), "seed {seed}");
    }
}

#[test]
fn ranges_are_the_same_as_one_by_one() {
    let mut random = Random(7);
    for _ in 0..200 {
        let (first, count) = (random.below(10_000), random.below(9_000));
        let (mut one, mut other) = (Ledger::new(1, &[0]), Ledger::new(1, &[0]));
        let (mut by_range, mut by_one) = (Notes::new(&[0]), Notes::new(&[0]));
        by_range.note_range(0, first, count);
        (first..first + count).for_each(|n| {
            by_one.note(0, n);
        });
        for (notes, ledger) in [(&mut by_range, &mut one), (&mut by_one, &mut other)] {
            notes.close();
            ship(notes, ledger);
            ledger.set_sent(0, 20_000);
        }
        assert_eq!(one.summary(), other.summary());
        assert_eq!(one.summary().lost, count);
        assert_eq!(one.summary().unconfirmed_missing, 20_000 - count);
    }
}

#[test]
fn a_repetition_is_seen_at_once_while_its_block_is_open() {
    let mut notes = Notes::new(&[1]);
    assert_eq!(notes.note(0, 4_095), Noted::New);
    assert_eq!(notes.note(0, 4_096), Noted::New);
    assert_eq!(notes.note(0, 4_095), Noted::Again);
    assert_eq!(notes.note(5, 0), Noted::New, "no such track");
}

/// A delivery far behind looks reordered on its event loop, until the ledger knows it for a
/// repetition.
#[test]
fn a_late_repetition_is_not_reordered() {
    let mut ledger = Ledger::new(1, &[0]);
    let mut notes = Notes::new(&[1]);
    for n in 0..40_000 {
        if n != 100 {
            notes.note(0, n);
        }
    }
    // 100 comes late, 101 comes again.
    notes.note(0, 100);
    notes.note(0, 101);
    ledger.add_counts(2, 0, 0);
    notes.close();
    ship(&mut notes, &mut ledger);
    ledger.set_sent(0, 40_000);
    let summary = ledger.summary();
    assert_eq!((summary.reordered, summary.duplicated), (1, 1));
    assert_eq!(summary.delivered, 40_000);
}

/// 10^9 messages, of which every 1,000th is lost: tens of megabytes, and every one is counted.
#[test]
fn a_thousand_million_messages_fit_in_tens_of_megabytes() {
    let mut ledger = Ledger::new(1, &[0]);
    let mut confirms = Notes::new(&[0]);
    let mut deliveries = Notes::new(&[1]);
    const ALL: u64 = 1_000_000_000;
    let mut most = 0;
    for first in (0..ALL).step_by(1_000) {
        confirms.note_range(0, first, 1_000);
        deliveries.note_range(0, first, 999);
        for notes in [&mut confirms, &mut deliveries] {
            if notes.is_due() {
                ship(notes, &mut ledger);
            }
        }
        if first % 50_000_000 == 0 {
            most = most.max(ledger.bytes());
        }
    }
    for notes in [&mut confirms, &mut deliveries] {
        notes.close();
        ship(notes, &mut ledger);
    }
    ledger.set_sent(0, ALL);
    let summary = ledger.summary();
    assert_eq!(summary.lost, ALL / 1_000);
    assert!(summary.exact);
    assert!(most < 40 << 20, "{most} bytes");
}

/// Fragments beyond all measure: memory stays bounded, and the summary says that it had to.
#[test]
fn fragments_are_settled_before_they_fill_the_memory() {
    const BOUND: usize = 200_000;
    let mut ledger = Ledger::new(1, &[0]).with_most_bytes(BOUND);
    let (mut confirms, mut deliveries) = (Notes::new(&[0]), Notes::new(&[1]));
    let sent = 8_000_000;
    for n in 0..sent {
        confirms.note_range(0, n, 1);
        if n % 2 == 0 {
            deliveries.note(0, n);
        }
        for notes in [&mut confirms, &mut deliveries] {
            if notes.is_due() {
                ship(notes, &mut ledger);
                assert!(ledger.bytes() <= BOUND);
            }
        }
    }
    for notes in [&mut confirms, &mut deliveries] {
        notes.close();
        ship(notes, &mut ledger);
    }
    ledger.set_sent(0, sent);
    let summary = ledger.summary();
    assert!(!summary.exact);
    assert_eq!((summary.sent, summary.delivered), (sent, sent / 2));
    assert_eq!((summary.lost, summary.duplicated), (sent / 2, 0));
}
