//! Deliveries on their way through consumers and event loops into the ledger.

mod chance;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;

use measure::ledger::{Ledger, LedgerBatch, LedgerSummary};
use measure::{EarlyDeliveries, Nanos, Slice, Time};

use super::{SentCounts, ThreadLedger, whole_sequence};
use crate::engine::consumer::{BitmapSpec, Consumer, ConsumerSpec, Ours};
use crate::protocol::Received;
use crate::protocol::amqp091::AmqpConnection;
use crate::{Ack, ServiceTime};
use plan::payload::{self, Header};
use plan::{Owed, SenderClock};

const RUN: u32 = 0x5EED_CAFE;
/// When every rig's load begins.
const START: Time = Time(1 << 40);

/// Some producers, the receivers of all their messages, and the event loops that see them.
struct Rig {
    producers: usize,
    receivers: usize,
    loops: Vec<ThreadLedger>,
    consumers: Vec<(usize, Consumer)>,
    batches: Vec<LedgerBatch>,
    sent: SentCounts,
    size: usize,
    now: Time,
    interval: Box<Slice>,
}

/// Messages that a queue was filled with before the run.
const PREFILLED: u64 = 7;

/// A consumer of a queue that none of this run's producers sends to.
fn spec(size: usize) -> ConsumerSpec {
    ConsumerSpec {
        ack: Ack::Auto,
        refuse: None,
        commit_every: 0,
        prefetch: 0,
        poll: None,
        service: ServiceTime::default(),
        delay: Nanos(0),
        message_size: size,
        responds: false,
        has_trace_header: false,
        budget: None,
        recipient: 0,
        is_counted: true,
        most_unacked: 0,
        owed: Owed::All,
        measures_age: true,
        ours: Some(Ours {
            run_id: RUN,
            prefilled: PREFILLED,
            unthrottled: true,
            bodies: None,
            clocks_apart: Nanos::ZERO,
            clock: None,
        }),
        is_sent_to: true,
        bitmaps: None,
    }
}

impl Rig {
    /// `consumers` are pairs of the loop that a consumer runs on and the receiver that it is part of.
    fn new(producers: usize, consumers: &[(usize, usize)], size: usize) -> Self {
        let receivers = consumers.iter().map(|c| c.1 + 1).max().unwrap_or(0);
        let loops = consumers.iter().map(|c| c.0 + 1).max().unwrap_or(0);
        let names: Vec<u32> = (0..(producers * (1 + receivers)) as u32).collect();
        let sent: SentCounts = std::iter::repeat_with(AtomicU64::default).take(producers).collect();
        let page = |at| ThreadLedger::new(at, &names, Arc::clone(&sent), sync_channel(8).1);
        let consumer = |&(at, receiver): &(usize, usize)| {
            let bitmaps =
                Some(BitmapSpec { producers: (0..producers as u32).collect(), first: producers * (1 + receiver) });
            let mut consumer = Consumer::new(ConsumerSpec { bitmaps, ..spec(size) });
            consumer.start(START);
            (at, consumer)
        };
        Self {
            producers,
            receivers,
            loops: (0..loops).map(page).collect(),
            consumers: consumers.iter().map(consumer).collect(),
            batches: Vec::new(),
            sent,
            size,
            now: START + Nanos(1),
            interval: Box::default(),
        }
    }

    fn body(&self, producer: usize, sequence: u64) -> Vec<u8> {
        let mut body = vec![payload::FILLER; self.size];
        let time = self.now;
        payload::write(&mut body, RUN, producer as u32, sequence, time, time);
        body
    }

    fn send(&mut self, producer: usize, count: u64) {
        self.now = self.now + Nanos(1_000);
        self.loops[0].publish_sent(producer as u32, count);
    }

    fn deliver_body(&mut self, consumer: usize, body: &[u8], flagged: bool) -> bool {
        let (at, consumer) = &mut self.consumers[consumer];
        let ledger = Some(&mut self.loops[*at]);
        let mut latency = Nanos(0);
        consumer.take::<AmqpConnection>(
            Received { body, properties: &[], redelivered: flagged },
            self.now,
            &mut self.interval,
            &mut latency,
            ledger,
        )
    }

    fn deliver(&mut self, consumer: usize, sequence: u64) -> bool {
        self.deliver_body(consumer, &self.body(0, sequence), false)
    }

    fn ship(&mut self, at: usize) {
        self.batches.push(self.loops[at].shard.exchange(LedgerBatch::default()));
    }

    /// The end, with the batches in an order of the caller's.
    fn end(mut self, order: impl FnOnce(&mut Vec<LedgerBatch>)) -> LedgerSummary {
        let receivers: Vec<usize> = (0..self.receivers).flat_map(|_| 0..self.producers).collect();
        let mut ledger = Ledger::new(self.producers, &receivers);
        for at in 0..self.loops.len() {
            self.loops[at].shard.close();
            self.ship(at);
            let anomalies = self.loops[at].anomalies;
            ledger.add_counts(anomalies.corrupt, anomalies.foreign);
        }
        order(&mut self.batches);
        self.batches.iter().for_each(|batch| ledger.add(batch));
        for (producer, sent) in self.sent.iter().enumerate() {
            ledger.set_sent(producer, sent.load(std::sync::atomic::Ordering::Relaxed));
        }
        ledger.summary(&[])
    }
}

/// One producer that sent so much, all of it confirmed, and one consumer.
fn confirmed(sent: u64, size: usize) -> Rig {
    let mut rig = Rig::new(1, &[(0, 0)], size);
    rig.send(0, sent);
    rig.loops[0].shard.note_range(0, 0, sent);
    rig
}

fn clean(sent: u64) -> LedgerSummary {
    LedgerSummary { sent, delivered: sent, exact: true, ..LedgerSummary::default() }
}

#[test]
fn a_damaged_sequence_without_a_check_upsets_nothing_else() {
    let mut rig = confirmed(1_000, 12);
    for n in 0..1_000 {
        let ours = rig.deliver(0, if n == 500 { 500 | 1 << 30 } else { n });
        assert_eq!(ours, n != 500);
    }
    let expected = LedgerSummary { delivered: 999, lost: 1, corrupt: 1, ..clean(1_000) };
    assert_eq!(rig.end(|_| ()), expected);
}

/// A delivery that came earlier than the bound of the two clocks allows proves it wrong.
#[test]
fn instants_of_another_clock_are_moved_to_the_own_one() {
    for (size, ahead) in [(16, -900_000_000_000), (16, 900_000_000_000), (40, -1_000), (40, 7_000_000_000_000)] {
        let mut rig = confirmed(3, size);
        let clock = Arc::new(SenderClock::default());
        clock.set(ahead, Nanos(1_000));
        let ours = rig.consumers[0].1.spec.ours.as_mut().expect("a run");
        (ours.clock, ours.clocks_apart) = (Some(Arc::clone(&clock)), Nanos::from_millis(100));
        for (sequence, after, expected) in [(0, -50_000, 50_000), (1, 900, 0), (2, 5_000, 0)] {
            let sent = clock.theirs(Time(rig.now.0.saturating_add_signed(after)));
            let mut body = vec![payload::FILLER; size];
            payload::write(&mut body, RUN, 0, sequence, sent, sent);
            assert!(rig.deliver_body(0, &body, false));
            let mut latency = Nanos(1);
            rig.consumers[0].1.end_of_batch(rig.now, &mut rig.interval, &mut latency);
            assert_eq!(latency, Nanos(expected), "{size}, {ahead}");
        }
        assert_eq!(rig.consumers[0].1.early(), EarlyDeliveries { count: 1, most: Nanos(5_000) });
        assert_eq!(rig.end(|_| ()), clean(3), "{size}, {ahead}");
    }
}

/// Over a long way both may be further apart than usual, which makes nothing foreign or corrupt.
#[test]
fn messages_within_the_bound_of_two_clocks_are_this_runs() {
    let mut rig = confirmed(2, 40);
    let clock = Arc::new(SenderClock::default());
    let ours = rig.consumers[0].1.spec.ours.as_mut().expect("a run");
    (ours.clock, ours.clocks_apart) = (Some(Arc::clone(&clock)), Nanos::from_millis(100));
    for (sequence, from_now, bound, is_taken) in [(0, 250, 1, false), (0, 250, 300, true), (1, 450, 300, false)] {
        clock.set(7_000_000_000, Nanos::from_millis(bound));
        let sent = clock.theirs(rig.now + Nanos::from_millis(from_now));
        let mut body = vec![payload::FILLER; 40];
        payload::write(&mut body, RUN, 0, sequence, sent, sent);
        assert_eq!(rig.deliver_body(0, &body, false), is_taken, "{from_now}");
    }
    let ours = rig.consumers[0].1.spec.ours.as_ref().expect("a run");
    let is_before = |ms| ours.is_before(rig.now, rig.now + Nanos::from_millis(ms));
    assert_eq!([350, 450].map(is_before), [false, true], "the start, too");
}

#[test]
fn what_another_program_wrote_is_foreign() {
    let mut rig = confirmed(10, 40);
    for len in [0, 3, 11, 12, 15, 16, 31, 32, 200] {
        assert!(!rig.deliver_body(0, &vec![b'x'; len], false));
        assert!(!rig.deliver_body(0, &vec![0; len], false));
    }
    let earlier = {
        let mut body = vec![0; 40];
        payload::write(&mut body, RUN ^ 1, 0, 5, Time(7), Time(8));
        body
    };
    rig.deliver_body(0, &earlier, false);
    let damaged = [&earlier[..33], &[1], &earlier[34..]].concat();
    rig.deliver_body(0, &damaged, false);
    let summary = rig.end(|_| ());
    assert_eq!((summary.foreign, summary.corrupt), (20, 0));
}

/// Messages that a queue was filled with are neither foreign nor corrupt, even if they are older than this boot.
#[test]
fn messages_of_a_filled_queue_are_in_no_ledger() {
    for size in [12, 15, 16, 31, 32, 40] {
        let mut rig = confirmed(10, size);
        let mut deliver = |run: u32, sequence: u64, intended: Time| {
            let mut body = vec![0; size];
            payload::write(&mut body, run, 0, sequence, intended, intended);
            assert!(!rig.deliver_body(0, &body, false));
        };
        for sequence in 0..PREFILLED {
            deliver(payload::PREFILL_RUN, sequence, Time(7));
        }
        if size >= 32 {
            deliver(payload::PREFILL_RUN, 0, Time(u64::MAX / 2));
        }
        deliver(RUN ^ 1, 5, Time(7));
        let summary = rig.end(|_| ());
        assert_eq!((summary.foreign, summary.corrupt), (1, 0), "{size}");
    }
}

/// Any damage to one place of up to 5 bytes, or 21 of a full header, is told from what another program wrote.
#[test]
fn damage_is_corrupt_wherever_it_hits() {
    for size in [16, 20, 31, 32, 40] {
        let mut rig = confirmed(100, size);
        let good = rig.body(0, 99);
        let mut damaged = 0;
        let longest = if size < 32 { 5 } else { 21 };
        for first in 0..size {
            for len in 1..=longest.min(size - first) {
                let mut body = good.clone();
                body[first..first + len].iter_mut().for_each(|b| *b ^= 0xA5);
                rig.deliver_body(0, &body, false);
                damaged += 1;
            }
        }
        for len in 16..size {
            rig.deliver_body(0, &good[..len], false);
            damaged += 1;
        }
        let summary = rig.end(|_| ());
        assert_eq!((summary.corrupt, summary.foreign), (damaged, 0), "{size}");
    }
}

#[test]
fn short_sequences_go_on_over_their_wrap() {
    const WRAP: u64 = 1 << 32;
    let whole = |sequence, sent| {
        let header = Header { run: None, producer: 0, sequence, is_copy: false, intended: START, sent: None };
        whole_sequence(&header, sent)
    };
    assert_eq!(whole(0, 0), None, "nothing has been sent");
    assert_eq!(whole(0, 1), Some(0));
    assert_eq!(whole(1, 1), None, "not yet");
    assert_eq!(whole(WRAP - 1, WRAP), Some(WRAP - 1));
    assert_eq!(whole(0, WRAP), Some(0));
    assert_eq!(whole(0, WRAP + 1), Some(WRAP), "after the wrap");
    assert_eq!(whole(WRAP - 1, WRAP + 2), Some(WRAP - 1), "before it");
    assert_eq!(whole(7, 9 * WRAP + 8), Some(9 * WRAP + 7));
    assert_eq!(whole(8, 9 * WRAP + 8), Some(8 * WRAP + 8), "an old one");
}

#[test]
fn other_runs_are_told_apart_at_every_size() {
    for size in 12..=40 {
        for run in [RUN - 1, RUN ^ 1 << 31, 1, 0x0BAD_CAFE] {
            let mut rig = confirmed(1_000, size);
            for n in 0..1_000 {
                rig.deliver(0, n);
                for time in [START - Nanos(2_000_000_000), rig.now] {
                    let mut body = vec![payload::FILLER; size];
                    payload::write(&mut body, run, 0, n, time, time);
                    rig.deliver_body(0, &body, false);
                }
            }
            let expected = LedgerSummary { foreign: 2_000, ..clean(1_000) };
            assert_eq!(rig.end(|_| ()), expected, "{size} bytes, run {run:x}");
        }
    }
}

/// A dead-lettered message was not sent to its last queue; its latency is known all the same.
#[test]
fn what_comes_another_way_is_foreign_there() {
    for size in [12, 16, 40] {
        let mut rig = confirmed(10, size);
        let mut elsewhere = Consumer::new(spec(size));
        elsewhere.start(START);
        rig.consumers.push((0, elsewhere));
        (0..10).for_each(|n| assert!(rig.deliver(1, n)));
        let expected = LedgerSummary { delivered: 0, lost: 10, foreign: 10, ..clean(10) };
        assert_eq!(rig.end(|_| ()), expected);
    }
}
