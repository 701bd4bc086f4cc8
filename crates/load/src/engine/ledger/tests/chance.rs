//! Random deliveries, against what a list of them says.

use measure::ledger::Anomaly;
use testkit::Random;

use super::*;

#[derive(Clone, Copy)]
struct Delivery {
    consumer: usize,
    producer: usize,
    sequence: u64,
    flagged: bool,
    /// Its consumer had had a newer one without the flag.
    late: bool,
}

/// Everything that happened, in the order of time.
struct Story {
    rig: Rig,
    random: Random,
    /// By consumer, the receiver that it is part of.
    receiver_of: Vec<usize>,
    /// By producer: the first sequence number of the story, and the next one.
    first: Vec<u64>,
    next: Vec<u64>,
    confirmed: Vec<Vec<u64>>,
    returned: Vec<Vec<u64>>,
    deliveries: Vec<Delivery>,
    /// By receiver: what it is still to get, with the flag or not.
    waiting: Vec<Vec<(usize, u64, bool)>>,
    corrupt: u64,
    foreign: u64,
}

impl Story {
    fn new(seed: u64, first: u64) -> Self {
        let mut random = Random::new(seed);
        for _ in 0..5 {
            random.below(9);
        }
        let sizes = [12, 14, 16, 31, 32, 40];
        let size = sizes[random.below(if first > 0 { 4 } else { 6 }) as usize];
        let producers = 1 + random.below(if first > 0 { 1 } else { 3 }) as usize;
        let receivers = 1 + random.below(2);
        let consumers: Vec<(usize, usize)> =
            (0..receivers + random.below(4)).map(|at| (random.below(3) as usize, (at % receivers) as usize)).collect();
        let mut rig = Rig::new(producers, &consumers, size);
        // What came before the story: all of it once, in order.
        for bitmap in 0..producers * (1 + receivers as usize) {
            rig.loops[0].shard.note_range(bitmap, 0, first);
        }
        Self {
            rig,
            random,
            receiver_of: consumers.iter().map(|c| c.1).collect(),
            first: vec![first; producers],
            next: vec![first; producers],
            confirmed: vec![Vec::new(); producers],
            returned: vec![Vec::new(); producers],
            deliveries: Vec::new(),
            waiting: vec![Vec::new(); receivers as usize],
            corrupt: 0,
            foreign: 0,
        }
    }

    fn any(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    fn publish(&mut self) {
        let producer = self.any(self.next.len());
        for _ in 0..=self.random.below(20) {
            let n = self.next[producer];
            self.next[producer] += 1;
            if !self.random.one_in(20) {
                self.confirmed[producer].push(n);
                let at = self.any(self.rig.loops.len());
                self.rig.loops[at].shard.note_range(producer, n, 1);
            }
            if self.random.one_in(40) {
                self.returned[producer].push(n);
                let shard = &mut self.rig.loops[0].shard;
                shard.note_anomaly(producer, Anomaly::Returned, n);
            }
            for waiting in &mut self.waiting {
                // Some are lost, some are to come twice.
                for _ in 0..[0, 1, 1, 1, 1, 1, 1, 2][self.random.below(8) as usize] {
                    waiting.push((producer, n, self.random.one_in(15)));
                }
            }
        }
        self.rig.send(producer, self.next[producer]);
    }

    fn deliver(&mut self) {
        let consumer = self.any(self.receiver_of.len());
        let random = &mut self.random;
        let waiting = &mut self.waiting[self.receiver_of[consumer]];
        if waiting.is_empty() {
            return;
        }
        let at = if random.one_in(12) { random.below(waiting.len() as u64) } else { 0 };
        let (producer, n, flagged) = waiting.remove(at as usize);
        if random.one_in(12) {
            // Comes again, mostly as what a consumer gave back.
            let again = (producer, n, !random.one_in(3));
            let at = random.below(waiting.len() as u64 + 1);
            waiting.insert(at as usize, again);
        }
        let mut body = self.rig.body(producer, n);
        let readable = !self.random.one_in(25) || self.damage(&mut body);
        self.rig.deliver_body(consumer, &body, flagged);
        if !readable {
            return;
        }
        let newer = |d: &Delivery| (d.consumer, d.producer, d.flagged) == (consumer, producer, false) && d.sequence > n;
        let late = !flagged && self.deliveries.iter().any(newer);
        self.deliveries.push(Delivery { consumer, producer, sequence: n, flagged, late });
    }

    /// Flips a bit, where a reader can tell that; says whether the header is still whole.
    fn damage(&mut self, body: &mut [u8]) -> bool {
        let head = match body.len() {
            32.. => 32,
            16.. => 16,
            // Without a check only filler will do.
            _ => 12,
        };
        let from = if head == 12 { 12 } else { 0 };
        if from == body.len() {
            return true;
        }
        let at = from + self.any(body.len() - from);
        body[at] ^= 1 << self.random.below(8);
        self.corrupt += 1;
        at >= head
    }

    fn deliver_foreign(&mut self) {
        let consumer = self.any(self.receiver_of.len());
        let letter = b'a' + self.random.below(26) as u8;
        let mut body = vec![letter; self.any(80)];
        if self.random.one_in(2) {
            // Of an earlier run.
            body = vec![payload::FILLER; self.rig.size];
            let sequence = self.random.below(100);
            payload::write(&mut body, RUN - 1, 0, sequence, Time(5), Time(6));
        }
        self.rig.deliver_body(consumer, &body, false);
        self.foreign += 1;
    }

    fn unfold(&mut self, steps: u64) {
        for _ in 0..steps {
            match self.random.below(40) {
                0..4 => self.publish(),
                4 => self.deliver_foreign(),
                5 => {
                    let at = self.any(self.rig.loops.len());
                    self.rig.ship(at);
                }
                _ => self.deliver(),
            }
        }
    }

    fn expected(&self) -> LedgerSummary {
        let mut sum =
            LedgerSummary { corrupt: self.corrupt, foreign: self.foreign, exact: true, ..LedgerSummary::default() };
        for receiver in 0..self.waiting.len() {
            for producer in 0..self.next.len() {
                sum.sent += self.next[producer];
                sum.delivered += self.first[producer];
                for n in self.first[producer]..self.next[producer] {
                    self.add_message((receiver, producer, n), &mut sum);
                }
            }
        }
        sum
    }

    fn add_message(&self, (receiver, producer, n): (usize, usize, u64), sum: &mut LedgerSummary) {
        let of_it = |d: &&Delivery| {
            let to = self.receiver_of[d.consumer];
            (to, d.producer, d.sequence) == (receiver, producer, n)
        };
        let all: Vec<&Delivery> = self.deliveries.iter().filter(of_it).collect();
        let confirmed = self.confirmed[producer].contains(&n);
        if all.is_empty() {
            match (self.returned[producer].contains(&n), confirmed) {
                (true, _) => sum.returned += 1,
                (false, true) => sum.lost += 1,
                (false, false) => sum.unconfirmed_missing += 1,
            }
            return;
        }
        let flagged = all.iter().filter(|d| d.flagged).count() as u64;
        let plain = all.len() as u64 - flagged;
        sum.delivered += 1;
        sum.unconfirmed_delivered += u64::from(!confirmed);
        sum.duplicated += plain.saturating_sub(1);
        sum.duplicated_redelivered += if plain > 0 { flagged } else { flagged - 1 };
        sum.reordered += u64::from(all.iter().all(|d| d.late));
    }

    fn check(mut self, steps: u64, what: &str) {
        self.unfold(steps);
        let expected = self.expected();
        let Self { rig, mut random, .. } = self;
        let summary = rig.end(|batches| {
            for at in (1..batches.len()).rev() {
                batches.swap(at, random.below(at as u64 + 1) as usize);
            }
        });
        assert_eq!(summary, expected, "{what}");
    }
}

/// Several consumers of several queues on several event loops; what they get is lost, repeated,
/// swapped, given back, damaged and mixed with what others wrote, and batches arrive in any order.
#[test]
fn every_count_is_what_a_list_of_all_deliveries_says() {
    for seed in 1..=1_000 {
        Story::new(seed, 0).check(100 + seed % 300, &format!("seed {seed}"));
    }
}

#[test]
fn every_count_holds_over_the_wrap_of_short_sequence_numbers() {
    for seed in 1..=3 {
        Story::new(seed, (1 << 32) - 20 * seed).check(400, &format!("seed {seed}"));
    }
}
