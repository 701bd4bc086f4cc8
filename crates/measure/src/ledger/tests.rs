//! The ledger against a naive model.

use std::collections::{BTreeMap, BTreeSet};

use testkit::Random;

use super::*;

/// One message on its way to one receiver.
#[derive(Clone, Copy, Default)]
struct Fate {
    in_order: u64,
    late: u64,
    flagged: u64,
    resent: u64,
}

/// Expected totals of one producer and its receivers.
#[derive(Default)]
struct Model {
    sent: u64,
    confirmed: BTreeSet<u64>,
    returned: BTreeSet<u64>,
    receivers: Vec<BTreeMap<u64, Fate>>,
    /// By receiver: what was sent before is owed from the first on that was delivered.
    owed_from: Vec<u64>,
}

impl Model {
    fn add_to(&self, summary: &mut LedgerSummary) {
        let owed = |(receiver, from): (&BTreeMap<u64, Fate>, &u64)| {
            let is_original = |fate: &Fate| fate.in_order + fate.late + fate.flagged > 0;
            let first = receiver.iter().find(|(_, fate)| is_original(fate));
            first.map_or(u64::MAX, |(first, _)| *first).min(*from)
        };
        let receivers = self.receivers.iter().zip(&self.owed_from);
        let counted = receivers.flat_map(|all| {
            let from = owed(all);
            // A copy of an earlier one is delivered, too.
            let counts = move |n: &u64| *n >= from || all.0.contains_key(n);
            (0..self.sent).filter(counts).map(move |n| (all.0, n))
        });
        for (receiver, n) in counted {
            let fate = receiver.get(&n).copied().unwrap_or_default();
            let plain = fate.in_order + fate.late;
            let delivered = plain + fate.flagged + fate.resent > 0;
            let confirmed = self.confirmed.contains(&n);
            let one = |is: bool| u64::from(is);
            summary.sent += 1;
            summary.delivered += one(delivered);
            if !delivered {
                match (self.returned.contains(&n), confirmed) {
                    (true, _) => summary.returned += 1,
                    (false, true) => summary.lost += 1,
                    (false, false) => summary.unconfirmed_missing += 1,
                }
            }
            summary.unconfirmed_delivered += one(delivered && !confirmed);
            summary.duplicated += plain.saturating_sub(1);
            let first_is_copy = plain == 0 && fate.resent > 0;
            summary.duplicated_resent += fate.resent - one(first_is_copy);
            let first_is_flagged = plain + fate.resent == 0 && fate.flagged > 0;
            summary.duplicated_redelivered += fate.flagged - one(first_is_flagged);
            summary.reordered += one(fate.late > 0 && fate.in_order + fate.flagged + fate.resent == 0);
        }
    }
}

fn ship(notes: &mut LedgerShard, ledger: &mut Ledger) {
    let mut batch = notes.exchange(LedgerBatch::default());
    ledger.add(&batch);
    batch.clear();
}

/// Closes shards, and ships what they have left.
fn ship_all(shards: [&mut LedgerShard; 2], ledger: &mut Ledger) {
    for notes in shards {
        notes.close();
        ship(notes, ledger);
    }
}

/// A random run: producers with one or two receivers each, their notes on a few event loops, and
/// all batches in no order at all.
fn chance(seed: u64) -> (LedgerSummary, LedgerSummary) {
    let mut random = Random::new(seed);
    let mut models: Vec<Model> = Vec::new();
    let mut receivers = Vec::new();
    for producer in 0..1 + random.below(3) as usize {
        let count = 1 + random.below(2) as usize;
        receivers.extend(std::iter::repeat_n(producer, count));
        let most = [200, 400, 20_000][random.below(20).saturating_sub(17) as usize];
        models.push(Model {
            // Many short, some beyond a block, a few beyond all that is open at a time.
            sent: random.below(most),
            receivers: vec![BTreeMap::new(); count],
            owed_from: vec![0; count],
            ..Model::default()
        });
    }
    let producers = models.len();
    let names: Vec<u32> = (0..(producers + receivers.len()) as u32).collect();
    // Some loops have many bitmaps, so that each has little open.
    let idle = std::iter::repeat_n(u32::MAX, random.below(2) as usize * 600);
    let names: Vec<u32> = names.into_iter().chain(idle).collect();
    let mut loops: Vec<LedgerShard> = (0..1 + random.below(4)).map(|_| LedgerShard::new(&names)).collect();
    let mut batches = Vec::new();
    let chances = [1 + random.below(60), 2 + random.below(60), 2 + random.below(10)];
    let most = models.iter().map(|m| m.sent).max().unwrap_or(0);
    // Receivers may begin late, and know about when.
    let begins = if random.one_in(3) { random.below(300) } else { 0 };
    for n in 0..most {
        let mut first = 0;
        for (producer, model) in models.iter_mut().enumerate() {
            let bitmaps = producers + first;
            first += model.receivers.len();
            if n >= model.sent {
                continue;
            }
            let at = random.below(loops.len() as u64) as usize;
            if random.below(chances[0]) > 0 {
                model.confirmed.insert(n);
                loops[at].note_range(producer, n, 1);
            }
            if random.one_in(200) {
                model.returned.insert(n);
                loops[at].note_anomaly(producer, Anomaly::Returned, n);
            }
            for (at, fates) in model.receivers.iter_mut().enumerate() {
                if n < begins {
                    continue;
                }
                let mut n = n;
                // Most are delivered once, some never or again.
                while random.below(chances[1]) > 0 {
                    let by = random.below(chances[2]) as usize % loops.len();
                    let notes = &mut loops[by];
                    let fate = fates.entry(n).or_default();
                    match random.below(chances[2] * 3) {
                        0 => {
                            fate.late += 1;
                            notes.note_anomaly(bitmaps + at, Anomaly::Late, n);
                        }
                        1 => {
                            fate.flagged += 1;
                            notes.note_anomaly(bitmaps + at, Anomaly::Redelivered, n);
                        }
                        2 => {
                            fate.resent += 1;
                            notes.note_anomaly(bitmaps + at, Anomaly::Resent, n);
                        }
                        _ => {
                            fate.in_order += 1;
                            notes.note(bitmaps + at, n);
                        }
                    }
                    if random.below(3) > 0 {
                        break;
                    }
                    n -= random.below((n + 1 - begins).min(10_000));
                }
            }
        }
        for notes in &mut loops {
            if notes.is_due() || random.one_in(500) {
                batches.push(notes.exchange(LedgerBatch::default()));
            }
        }
    }
    for mut notes in loops {
        notes.close();
        batches.push(notes.exchange(LedgerBatch::default()));
    }
    let mut ledger = Ledger::new(producers, &receivers);
    // A worker that has some producers, one that has the others, and one that has all consumers.
    let mut apart = [&[][..], &[], receivers.as_slice()].map(|receivers| Ledger::new(producers, receivers).of_worker());
    while !batches.is_empty() {
        let batch = batches.swap_remove(random.below(batches.len() as u64) as usize);
        ledger.add(&batch);
        apart.iter_mut().for_each(|it| it.add(&batch));
    }
    let mut expected = LedgerSummary { exact: true, ..LedgerSummary::default() };
    let mut bitmap = producers;
    for (producer, model) in models.iter_mut().enumerate() {
        ledger.set_sent(producer, model.sent);
        apart.iter_mut().for_each(|it| it.set_sent(producer, model.sent));
        for owed_from in &mut model.owed_from {
            let later = begins + random.below(50);
            *owed_from = random.of(&[0, later, u64::MAX]);
            ledger.owe_from(bitmap, *owed_from);
            apart[2].owe_from(bitmap, *owed_from);
            bitmap += 1;
        }
        model.add_to(&mut expected);
    }
    let held = [(0..receivers.len(), random.below(9))];
    let mut parts = vec![apart[0].part(|at| at == 0, &[]), apart[1].part(|at| at > 0, &[])];
    parts.insert(random.below(3) as usize, apart[2].part(|_| false, &held));
    assert_eq!(LedgerPart::sum(&parts), Some(ledger.summary(&held)), "seed {seed}");
    assert_eq!((apart[2].delivered(), ledger.delivered()), (expected.delivered, expected.delivered), "seed {seed}");
    (ledger.summary(&[]), expected)
}

/// A sequence number that its producer has not reached is damaged, which only that one's worker knows.
#[test]
fn parts_of_workers_know_what_was_never_sent_and_torn_ones_have_no_sum() {
    let apart = |deliveries: &[usize]| Ledger::new(2, deliveries).of_worker();
    let (mut sender, mut receiver, mut shard) = (apart(&[]), apart(&[0]), LedgerShard::new(&[0, 2]));
    shard.note_range(0, 0, 5_000);
    shard.note_range(1, 0, 5_003);
    shard.note(1, 1 << 31);
    shard.close();
    let batch = shard.exchange(LedgerBatch::default());
    receiver.add(&batch);
    sender.add(&batch);
    sender.set_sent(0, 5_000);
    let (sent, received) = (sender.part(|_| true, &[]), receiver.part(|_| false, &[]));
    let sum = LedgerPart::sum(&[received.clone(), sent.clone()]).expect("parts");
    assert_eq!((sum.sent, sum.delivered, sum.corrupt, sum.lost), (5_000, 5_000, 4, 0));
    let missing = LedgerPart::sum(std::slice::from_ref(&received)).expect("a part");
    assert_eq!((missing.sent, missing.delivered, missing.corrupt), (0, 0, 0), "nobody knows what was sent");
    assert!(sum.exact != missing.exact && sum.exact);
    assert_eq!(LedgerPart::sum(&[sent.clone(), sent.clone()]), None);
    let other = |producers| Ledger::new(producers, &[]).part(|_| false, &[]);
    assert_eq!(LedgerPart::sum(&[sent.clone(), other(1)]), None);
    assert_eq!(LedgerPart::sum(&[other(0), sent.clone()]), None);
    let mut random = Random::new(3);
    for length in 0..sent.bytes().len() {
        assert_eq!(LedgerPart::sum(&[LedgerPart::new(sent.bytes()[..length].to_vec())]), None);
        let mut hit = sent.bytes().to_vec();
        hit[length] ^= 1 << random.below(8);
        // Whatever it says, it says so soon.
        let _ = LedgerPart::sum(&[LedgerPart::new(hit), received.clone()]);
    }
}

/// A few bytes could ask for hours, or for all memory.
#[test]
fn parts_that_no_worker_can_have_are_refused_at_once() {
    let sum = |sent: u64, queues: u64, held: &[[u64; 3]], blocks: u64| {
        let head = [1, 0, 0, 0, 0, 1, 0, sent, 0, blocks * BLOCK, blocks];
        // Full blocks are confirmed, from the second on; nothing is returned.
        let confirmed = (1..=blocks).flat_map(|at| [at, 1, 0]);
        let deliveries = std::iter::repeat_n([0; 17], queues as usize).flatten();
        let held = std::iter::once(held.len() as u64).chain(held.iter().flatten().copied());
        let all = head.into_iter().chain(confirmed).chain([0; 3]).chain([queues]).chain(deliveries).chain(held);
        let mut bytes = Vec::new();
        all.for_each(|number| crate::leb128::put_number(&mut bytes, number));
        LedgerPart::sum(&[LedgerPart::new(bytes)]).map(|it| (it.unconfirmed_missing, it.exact))
    };
    assert_eq!(sum(5, 3, &[[0, 3, 7]], 0), Some((15, true)));
    assert_eq!(sum(MOST_MESSAGES, 3_000, &[], 0), None, "blocks to look into");
    assert_eq!(sum(5, 70_000, &[], 0), None, "deliveries");
    assert_eq!(sum(5, 1, &vec![[0, 1, 7]; 70_000], 0), None, "queues");
    assert_eq!(sum(5, 30_000, &[[0, 30_000, 7]; 40], 0), None, "deliveries of queues");
    assert_eq!(sum(5, 1, &[], 1_100_000), None, "memory");
}

#[test]
fn it_counts_what_a_map_would_count() {
    for seed in testkit::seeds(200) {
        let (summary, expected) = chance(seed);
        assert_eq!(summary, expected, "seed {seed}");
        let fates = summary.delivered + summary.lost + summary.returned;
        assert_eq!(summary.sent, fates + summary.unconfirmed_missing);
    }
}

#[test]
fn copies_that_come_more_often_than_they_were_sent_are_the_brokers_duplicates() {
    // Of 20 messages that are lost but for a copy, and of each copy so many deliveries.
    for (deliveries, copies, by_broker, by_copy) in
        [(1, Some(20), 0, 0), (2, Some(20), 20, 0), (2, None, 0, 20), (5, Some(20), 80, 0), (2, Some(30), 10, 10)]
    {
        let mut notes = LedgerShard::new(&[0, 1]);
        for n in (0..20).flat_map(|n| std::iter::repeat_n(n, deliveries)) {
            notes.note_anomaly(1, Anomaly::Resent, n);
        }
        notes.close();
        let mut ledger = Ledger::new(1, &[0]);
        ship(&mut notes, &mut ledger);
        ledger.set_sent(0, 20);
        copies.into_iter().for_each(|copies| ledger.set_copies(copies));
        let summary = ledger.summary(&[]);
        assert_eq!((summary.delivered, summary.duplicated, summary.duplicated_resent), (20, by_broker, by_copy));
        assert_eq!(LedgerPart::sum(&[ledger.part(|_| true, &[])]), Some(summary), "also of several workers");
    }
}

#[test]
fn ranges_are_the_same_as_one_by_one() {
    let mut random = Random::new(7);
    for _ in 0..200 {
        let (first, count) = (random.below(10_000), random.below(9_000) << random.below(2));
        let (mut one, mut other) = (Ledger::new(1, &[0]), Ledger::new(1, &[0]));
        let (mut by_range, mut by_one) = (LedgerShard::new(&[0]), LedgerShard::new(&[0]));
        by_range.note_range(0, first, count);
        (first..first + count).for_each(|n| {
            by_one.note(0, n);
        });
        for (notes, ledger) in [(&mut by_range, &mut one), (&mut by_one, &mut other)] {
            notes.close();
            ship(notes, ledger);
            ledger.set_sent(0, 40_000);
        }
        assert_eq!(one.summary(&[]), other.summary(&[]));
        assert_eq!(one.summary(&[]).lost, count);
        assert_eq!(one.summary(&[]).unconfirmed_missing, 40_000 - count);
    }
}

#[test]
fn tracks_that_do_not_exist_are_left_alone() {
    let mut notes = LedgerShard::new(&[0, 1]);
    notes.note(2, 5);
    notes.note_range(2, 5, 5);
    notes.note_anomaly(2, Anomaly::Late, 5);
    notes.close();
    assert!(notes.exchange(LedgerBatch::default()).chunks.is_empty());
}

#[test]
fn a_clean_run_leaves_hardly_anything_to_send() {
    let mut notes = LedgerShard::new(&[0, 1]);
    for n in 0..1_000_000 {
        notes.note(1, n);
    }
    notes.note_range(0, 0, 1_000_000);
    notes.close();
    let batch = notes.exchange(LedgerBatch::default());
    assert!(batch.chunks.len() <= 8, "{} chunks", batch.chunks.len());
}

#[test]
fn notes_stay_bounded_where_nobody_takes_them() {
    const NOTES: u64 = 400_000;
    for anomaly in [None, Some(Anomaly::Redelivered)] {
        let mut notes = LedgerShard::new(&[1]);
        for n in 0..NOTES {
            match anomaly {
                None => notes.note(0, n * CHUNK),
                Some(anomaly) => notes.note_anomaly(0, anomaly, n * CHUNK),
            }
        }
        let mut batch = notes.exchange(LedgerBatch::default());
        assert!(batch.chunks.len() <= 1 << 17, "{} chunks", batch.chunks.len());
        assert!(batch.dropped > 0);
        let mut ledger = Ledger::new(1, &[0]);
        ledger.add(&batch);
        assert!(!ledger.summary(&[]).exact);
        batch.clear();
        assert!(batch.chunks.capacity() < 10_000);
    }
}

/// 25,000 producers with one queue each: what event loop and coordinator keep of a bitmap.
#[test]
fn many_tracks_take_little_each() {
    let names: Vec<u32> = (0..50_000).collect();
    let producers: Vec<usize> = (0..25_000).collect();
    let mut ledger = Ledger::new(25_000, &producers);
    let mut notes = LedgerShard::new(&names);
    for n in 0..200 {
        for bitmap in 0..50_000 {
            notes.note(bitmap, n);
        }
    }
    notes.close();
    ship(&mut notes, &mut ledger);
    let bytes = ledger.bytes();
    assert!(bytes < 50_000 * 64, "{bytes} bytes");
    producers.iter().for_each(|p| ledger.set_sent(*p, 201));
    let summary = ledger.summary(&[]);
    assert_eq!((summary.delivered, summary.lost), (5_000_000, 0));
    assert_eq!(summary.unconfirmed_missing, 25_000);
}

#[test]
fn a_thousand_million_messages_fit_in_tens_of_megabytes() {
    let mut ledger = Ledger::new(1, &[0]);
    let mut confirms = LedgerShard::new(&[0]);
    let mut deliveries = LedgerShard::new(&[1]);
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
    ship_all([&mut confirms, &mut deliveries], &mut ledger);
    ledger.set_sent(0, ALL);
    let summary = ledger.summary(&[]);
    assert_eq!(summary.lost, ALL / 1_000);
    assert!(summary.exact);
    assert!(most < 40 << 20, "{most} bytes");
}

#[test]
fn fragments_are_settled_before_they_fill_the_memory() {
    const BOUND: usize = 200_000;
    let mut ledger = Ledger::new(1, &[0]).with_most_bytes(BOUND);
    let (mut confirms, mut deliveries) = (LedgerShard::new(&[0]), LedgerShard::new(&[1]));
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
    ship_all([&mut confirms, &mut deliveries], &mut ledger);
    ledger.set_sent(0, sent);
    let summary = ledger.summary(&[]);
    assert!(!summary.exact);
    assert_eq!((summary.sent, summary.delivered), (sent, sent / 2));
    assert_eq!((summary.lost, summary.duplicated), (sent / 2, 0));
}
