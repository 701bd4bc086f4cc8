//! Deliveries on their way through consumers and event loops into the ledger.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;

use measure::ledger::{Ledger, LedgerBatch, LedgerSummary};
use measure::{EarlyDeliveries, Nanos, Slice, Time};

use super::{ThreadLedger, whole_sequence};
use crate::engine::consumer::{BitmapSpec, Consumer, ConsumerSpec, Ours};
use crate::protocol::Received;
use crate::protocol::amqp091::AmqpConnection;
use crate::{Ack, ServiceTime};
use plan::payload::{self, Header};
use plan::{Owed, SenderClock};

const RUN: u32 = 0x5EED_CAFE;
/// When every rig's load begins.
const START: Time = Time(1 << 40);

/// A producer, a consumer of its queue, and the event loop that sees both. Several of each, their copies and what is
/// lost on the way: `injected`, in virtual time; batches in any order: the ledger's own tests.
struct Rig {
    page: ThreadLedger,
    consumer: Consumer,
    sent: u64,
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
    /// All that was sent is confirmed.
    fn new(sent: u64, size: usize) -> Self {
        let mut page = ThreadLedger::new(0, &[0, 1], [AtomicU64::new(sent)].into(), sync_channel(8).1);
        page.shard.note_range(0, 0, sent);
        let bitmaps = Some(BitmapSpec { producers: [0].into(), first: 1 });
        let mut consumer = Consumer::new(ConsumerSpec { bitmaps, ..spec(size) });
        consumer.start(START);
        let now = START + Nanos(1_001);
        Self { page, consumer, sent, size, now, interval: Box::default() }
    }

    fn body_of(&self, run: u32, sequence: u64, time: Time) -> Vec<u8> {
        let mut body = vec![payload::FILLER; self.size];
        payload::write(&mut body, run, 0, sequence, time, time);
        body
    }

    fn take(&mut self, body: &[u8]) -> bool {
        self.consumer.take::<AmqpConnection>(
            Received { body, properties: &[], redelivered: false },
            self.now,
            &mut self.interval,
            &mut Nanos(0),
            Some(&mut self.page),
        )
    }

    fn deliver(&mut self, sequence: u64) -> bool {
        self.take(&self.body_of(RUN, sequence, self.now))
    }

    fn end(mut self) -> LedgerSummary {
        let mut ledger = Ledger::new(1, &[0]);
        self.page.shard.close();
        ledger.add(&self.page.shard.exchange(LedgerBatch::default()));
        ledger.add_counts(self.page.anomalies.corrupt, self.page.anomalies.foreign);
        ledger.set_sent(0, self.sent);
        ledger.summary(&[])
    }
}

fn clean(sent: u64) -> LedgerSummary {
    LedgerSummary { sent, delivered: sent, exact: true, ..LedgerSummary::default() }
}

#[test]
fn a_damaged_sequence_without_a_check_upsets_nothing_else() {
    let mut rig = Rig::new(1_000, 12);
    for n in 0..1_000 {
        let ours = rig.deliver(if n == 500 { 500 | 1 << 30 } else { n });
        assert_eq!(ours, n != 500);
    }
    let expected = LedgerSummary { delivered: 999, lost: 1, corrupt: 1, ..clean(1_000) };
    assert_eq!(rig.end(), expected);
}

/// A delivery that came earlier than the bound of the two clocks allows proves it wrong.
#[test]
fn instants_of_another_clock_are_moved_to_the_own_one() {
    for (size, ahead) in [(16, -900_000_000_000), (16, 900_000_000_000), (40, -1_000), (40, 7_000_000_000_000)] {
        let mut rig = Rig::new(3, size);
        let clock = Arc::new(SenderClock::default());
        clock.set(ahead, Nanos(1_000));
        let ours = rig.consumer.spec.ours.as_mut().expect("a run");
        (ours.clock, ours.clocks_apart) = (Some(Arc::clone(&clock)), Nanos::from_millis(100));
        for (sequence, after, expected) in [(0, -50_000, 50_000), (1, 900, 0), (2, 5_000, 0)] {
            let sent = clock.theirs(Time(rig.now.0.saturating_add_signed(after)));
            assert!(rig.take(&rig.body_of(RUN, sequence, sent)));
            let mut latency = Nanos(1);
            rig.consumer.end_of_batch(rig.now, &mut rig.interval, &mut latency);
            assert_eq!(latency, Nanos(expected), "{size}, {ahead}");
        }
        assert_eq!(rig.consumer.early(), EarlyDeliveries { count: 1, most: Nanos(5_000) });
        assert_eq!(rig.end(), clean(3), "{size}, {ahead}");
    }
}

/// Over a long way both may be further apart than usual, which makes nothing foreign or corrupt.
#[test]
fn messages_within_the_bound_of_two_clocks_are_this_runs() {
    let mut rig = Rig::new(2, 40);
    let clock = Arc::new(SenderClock::default());
    let ours = rig.consumer.spec.ours.as_mut().expect("a run");
    (ours.clock, ours.clocks_apart) = (Some(Arc::clone(&clock)), Nanos::from_millis(100));
    for (sequence, from_now, bound, is_taken) in [(0, 250, 1, false), (0, 250, 300, true), (1, 450, 300, false)] {
        clock.set(7_000_000_000, Nanos::from_millis(bound));
        let sent = clock.theirs(rig.now + Nanos::from_millis(from_now));
        assert_eq!(rig.take(&rig.body_of(RUN, sequence, sent)), is_taken, "{from_now}");
    }
    let ours = rig.consumer.spec.ours.as_ref().expect("a run");
    let is_before = |ms| ours.is_before(rig.now, rig.now + Nanos::from_millis(ms));
    assert_eq!([350, 450].map(is_before), [false, true], "the start, too");
}

#[test]
fn what_another_program_wrote_is_foreign() {
    let mut rig = Rig::new(10, 40);
    for len in [0, 3, 11, 12, 15, 16, 31, 32, 200] {
        assert!(!rig.take(&vec![b'x'; len]));
        assert!(!rig.take(&vec![0; len]));
    }
    let earlier = rig.body_of(RUN ^ 1, 5, Time(7));
    rig.take(&earlier);
    let damaged = [&earlier[..33], &[1], &earlier[34..]].concat();
    rig.take(&damaged);
    let summary = rig.end();
    assert_eq!((summary.foreign, summary.corrupt), (20, 0));
}

/// Messages that a queue was filled with are neither foreign nor corrupt, even if they are older than this boot.
#[test]
fn messages_of_a_filled_queue_are_in_no_ledger() {
    for size in [12, 15, 16, 31, 32, 40] {
        let mut rig = Rig::new(10, size);
        let mut deliver = |run: u32, sequence: u64, intended: Time| {
            assert!(!rig.take(&rig.body_of(run, sequence, intended)));
        };
        for sequence in 0..PREFILLED {
            deliver(payload::PREFILL_RUN, sequence, Time(7));
        }
        if size >= 32 {
            deliver(payload::PREFILL_RUN, 0, Time(u64::MAX / 2));
        }
        deliver(RUN ^ 1, 5, Time(7));
        let summary = rig.end();
        assert_eq!((summary.foreign, summary.corrupt), (1, 0), "{size}");
    }
}

/// Any damage to one place of up to 5 bytes, or 21 of a full header, is told from what another program wrote.
#[test]
fn damage_is_corrupt_wherever_it_hits() {
    for size in [16, 20, 31, 32, 40] {
        let mut rig = Rig::new(100, size);
        let good = rig.body_of(RUN, 99, rig.now);
        let mut damaged = 0;
        let longest = if size < 32 { 5 } else { 21 };
        for first in 0..size {
            for len in 1..=longest.min(size - first) {
                let mut body = good.clone();
                body[first..first + len].iter_mut().for_each(|b| *b ^= 0xA5);
                rig.take(&body);
                damaged += 1;
            }
        }
        for len in 16..size {
            rig.take(&good[..len]);
            damaged += 1;
        }
        let summary = rig.end();
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
    for size in [12, 16, 31] {
        let mut rig = Rig::new(WRAP + 20, size);
        rig.page.shard.note_range(1, 0, WRAP - 20);
        (WRAP - 20..WRAP + 20).for_each(|n| assert!(rig.deliver(n)));
        assert_eq!(rig.end(), clean(WRAP + 20), "{size}");
    }
}

#[test]
fn other_runs_are_told_apart_at_every_size() {
    for size in 12..=40 {
        for run in [RUN - 1, RUN ^ 1 << 31, 1, 0x0BAD_CAFE] {
            let mut rig = Rig::new(1_000, size);
            for n in 0..1_000 {
                rig.deliver(n);
                for time in [START - Nanos(2_000_000_000), rig.now] {
                    rig.take(&rig.body_of(run, n, time));
                }
            }
            let expected = LedgerSummary { foreign: 2_000, ..clean(1_000) };
            assert_eq!(rig.end(), expected, "{size} bytes, run {run:x}");
        }
    }
}

/// A dead-lettered message was not sent to its last queue; its latency is known all the same.
#[test]
fn what_comes_another_way_is_foreign_there() {
    for size in [12, 16, 40] {
        let mut rig = Rig::new(10, size);
        rig.consumer = Consumer::new(spec(size));
        rig.consumer.start(START);
        (0..10).for_each(|n| assert!(rig.deliver(n)));
        let expected = LedgerSummary { delivered: 0, lost: 10, foreign: 10, ..clean(10) };
        assert_eq!(rig.end(), expected);
    }
}
