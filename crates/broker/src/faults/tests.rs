//! Every fault in virtual time.

use measure::{Nanos, Time};
use wire::amqp091::ConfirmSelect;

use super::*;
use crate::config::Config;
use crate::tests::harness::{Seen, World, bodies};

const MS: Nanos = Nanos::from_millis(1);

fn every(kind: FaultKind, n: u64) -> Fault {
    Fault { amount: Amount::Every(n), ..Fault::new(kind) }
}

fn at(kind: FaultKind, ms: u64) -> Fault {
    Fault { at: Some(Nanos::from_millis(ms)), ..Fault::new(kind) }
}

fn world(faults: &[Fault]) -> (World, FaultLog) {
    let log = FaultLog::default();
    (World::with_log(Config { faults: faults.to_vec(), ..Config::default() }, log.clone()), log)
}

fn counts(world: &mut World, log: &FaultLog) -> Vec<u64> {
    world.pump();
    log.injections().faults.iter().map(|f| f.count).collect()
}

fn pass(world: &mut World, time: Nanos) {
    world.now = world.now + time;
    world.pump();
}

/// A producer's and a consumer's connection, with a queue.
fn pair(w: &mut World) -> (usize, usize) {
    let (p, c) = (w.client(), w.client());
    w.queue(p, "q");
    w.consume(c, "q", "tag");
    (p, c)
}

/// The bodies of ten messages as a consumer gets them, those with the redelivered flag with a star.
fn ten(faults: &[Fault]) -> (Vec<String>, Vec<u64>) {
    let (mut w, log) = world(faults);
    let (p, c) = pair(&mut w);
    w.publish_numbers(p, "q", 0..10);
    let mut got = w.deliveries(c);
    // More than the longest hold.
    pass(&mut w, Nanos::from_millis(21));
    got.extend(w.deliveries(c));
    let last = got.len() as u64;
    assert!(got.iter().map(|it| it.0).eq(1..=last), "each delivery has a tag of its own");
    if last > 0 {
        w.ack(c, last, true);
        assert_eq!(w.seen(c), [], "every tag can be acknowledged");
    }
    let texts = got.into_iter().map(|(_, again, text)| if again { text + "*" } else { text });
    (texts.collect(), counts(&mut w, &log))
}

fn texts(deliveries: &[(u64, bool, String)]) -> Vec<&str> {
    deliveries.iter().map(|d| &*d.2).collect()
}

#[test]
fn deliveries_are_lost_doubled_held_and_slowed() {
    for (kind, n, expected, count) in [
        (FaultKind::Lose, 4, "0 1 2 4 5 6 8 9", 2),
        (FaultKind::Duplicate { redelivered: true }, 5, "0 1 2 3 4 4* 5 6 7 8 9 9*", 2),
        // 2 is let past by 3 and 4; 7 likewise, because nothing is counted while one is held; the
        // last is not overtaken and goes when its time is up.
        (FaultKind::Reorder { by: 2 }, 3, "0 1 3 4 2 5 6 8 9 7", 2),
        // It is not lost, and nobody overtook it.
        (FaultKind::Reorder { by: 1 }, 10, "0 1 2 3 4 5 6 7 8 9", 0),
        (FaultKind::SlowRoute { millionths: 20_000 }, 2, "0 1 2 3 4 5 6 7 8 9", 5),
    ] {
        let (got, counts) = ten(&[every(kind, n)]);
        assert_eq!((got.join(" ").as_str(), counts), (expected, vec![count]), "{kind:?}");
    }
}

#[test]
fn damage_is_one_bit() {
    let (got, counts) = ten(&[every(FaultKind::Corrupt { byte: Some(0) }, 2)]);
    for (at, text) in got.iter().enumerate() {
        let changed = at.to_string().as_bytes()[0] ^ text.as_bytes()[0];
        let bits = if at % 2 == 1 { 1 } else { 0 };
        // A changed byte that is no text prints as the replacement character.
        assert!(changed.count_ones() == bits || text.starts_with('\u{fffd}'), "{at}: {text}");
    }
    assert_eq!(counts, [5]);
    let (_, counts) = ten(&[every(FaultKind::Corrupt { byte: Some(1) }, 1)]);
    assert_eq!(counts, [0], "no body has a second byte");
}

#[test]
fn chance_is_the_same_every_time_and_ends_at_its_count() {
    let fault =
        |seed, count| Fault { amount: Amount::Chance { probability: 0.5, seed }, count, ..Fault::new(FaultKind::Lose) };
    let (one, again) = (ten(&[fault(7, None)]), ten(&[fault(7, None)]));
    assert_eq!(one, again);
    assert_ne!(one.0, ten(&[fault(8, None)]).0);
    assert_eq!(one.0.len() as u64 + one.1[0], 10);
    assert_eq!(ten(&[fault(7, Some(1))]).1, [1]);
}

#[test]
fn confirms_leave_when_their_time_has_come() {
    let slow = Fault { length: Some(Nanos::from_millis(10)), ..at(FaultKind::SlowAck(MS), 0) };
    let refuse = every(FaultKind::Nack, 3);
    let (mut w, log) = world(&[slow, refuse]);
    let p = w.client();
    w.queue(p, "q");
    w.ask(p, 1, &ConfirmSelect::default());
    let confirm = |tag, multiple, nack| Seen::Confirm { tag, multiple, nack };
    w.publish_numbers(p, "q", 0..2);
    pass(&mut w, Nanos(400_000));
    w.publish_numbers(p, "q", 2..4);
    assert_eq!(w.seen(p), []);
    assert_eq!(w.node.next_fault(), Some(w.now + Nanos(600_000)), "to the nanosecond");
    pass(&mut w, Nanos(599_999));
    assert_eq!(w.seen(p), []);
    pass(&mut w, Nanos(1));
    assert_eq!(w.seen(p), [confirm(2, true, false)]);
    pass(&mut w, Nanos(400_000));
    assert_eq!(w.seen(p), [confirm(3, false, true), confirm(4, false, false)]);
    // The end of the fault: the next ones are confirmed at once.
    pass(&mut w, Nanos(10_000_000));
    w.publish_numbers(p, "q", 4..5);
    assert_eq!(w.seen(p), [confirm(5, false, false)]);
    assert_eq!(counts(&mut w, &log), [4, 1]);
    assert_eq!(log.injections().published, 4);
}

#[test]
fn connections_and_channels_end_as_the_script_says() {
    let producers = |fault: Fault| Fault { who: Who::Producers, ..fault };
    for (fault, expected) in [
        (at(FaultKind::Drop { in_order: true }, 5), "Closed(320"),
        (at(FaultKind::Drop { in_order: false }, 5), "End"),
        (at(FaultKind::CloseChannel, 5), "ChannelClosed(406"),
    ] {
        let (mut w, log) = world(&[producers(fault)]);
        let (p, c) = pair(&mut w);
        w.publish_numbers(p, "q", 0..3);
        pass(&mut w, Nanos::from_millis(4));
        assert_eq!(w.seen(p), []);
        pass(&mut w, MS);
        let seen = format!("{:?}", w.seen(p));
        assert!(seen.contains(expected), "{seen}");
        assert_eq!(w.bodies(c), bodies(0..3), "consumers go on");
        assert_eq!(counts(&mut w, &log), [1]);
        let span = log.injections().faults[0].span.expect("a span");
        let origin = log.injections().origin.expect("an origin");
        assert_eq!(span.start.since(origin), Nanos::from_millis(5));
    }
    let (mut w, log) = world(&[at(FaultKind::Reset, 5)]);
    w.client();
    pass(&mut w, Nanos::from_millis(5));
    assert!(w.node.next_reset().is_some() && w.node.next_reset().is_none());
    assert_eq!(counts(&mut w, &log), [1]);
}

#[test]
fn a_dropped_consumer_gets_its_messages_again_with_the_flag() {
    let drop = Fault { who: Who::Consumers, ..at(FaultKind::Drop { in_order: true }, 5) };
    let hold = Fault { count: Some(1), ..every(FaultKind::Reorder { by: 9 }, 2) };
    let (mut w, log) = world(&[drop, hold]);
    let (p, c) = pair(&mut w);
    w.publish_numbers(p, "q", 0..4);
    assert_eq!(w.bodies(c), ["0", "2", "3"]);
    pass(&mut w, Nanos::from_millis(5));
    let c = w.client();
    w.consume(c, "q", "tag");
    let got = w.deliveries(c);
    assert_eq!(texts(&got), ["0", "1", "2", "3"]);
    assert!(got.iter().all(|d| d.1));
    w.pump();
    assert_eq!(log.injections().redelivered, 3, "1 had never gone out");
}

/// A ledger calls no message reordered that came again with the flag.
#[test]
fn overtaken_deliveries_that_come_again_with_the_flag_are_told_apart() {
    let drop = |ms| Fault { who: Who::Consumers, ..at(FaultKind::Drop { in_order: true }, ms) };
    let overtake = every(FaultKind::Reorder { by: 1 }, 2);
    let (mut w, log) = world(&[overtake, drop(5), drop(10)]);
    let (p, c) = pair(&mut w);
    w.publish_numbers(p, "q", 0..6);
    assert_eq!(w.bodies(c), ["0", "2", "1", "3", "5", "4"]);
    assert_eq!(counts(&mut w, &log)[0], 2);
    w.ack(c, 3, true);
    w.pump();
    for again in 1..=2 {
        pass(&mut w, Nanos::from_millis(5));
        let c = w.client();
        w.consume(c, "q", "tag");
        assert_eq!(texts(&w.deliveries(c)), ["3", "4", "5"]);
        w.pump();
        let injections = log.injections();
        assert_eq!(injections.redelivered, 3 * again);
        assert_eq!(injections.reordered_redelivered, 1, "4, once; 1 is settled");
    }
}

#[test]
fn publishers_are_blocked_for_a_time() {
    let block = Fault { length: Some(MS), ..at(FaultKind::Block, 5) };
    let (mut w, log) = world(&[block]);
    let p = w.client();
    w.queue(p, "q");
    w.publish_numbers(p, "q", 0..1);
    pass(&mut w, Nanos::from_millis(5));
    assert_eq!(w.seen(p), [Seen::Blocked]);
    pass(&mut w, MS);
    assert_eq!(w.seen(p), [Seen::Unblocked]);
    assert_eq!(counts(&mut w, &log), [1], "the publisher");
    let span = log.injections().faults[0].span.expect("a span");
    assert_eq!(span.end.map(|end| end.since(span.start)), Some(MS));
}

#[test]
fn frames_are_cut_at_any_byte() {
    for after in 1..30 {
        let cut = at(FaultKind::Cut { after: Some(after) }, 5);
        let (mut w, log) = world(&[cut]);
        let (p, c) = pair(&mut w);
        pass(&mut w, Nanos::from_millis(5));
        assert_eq!(w.seen(c), [], "nothing to cut yet");
        w.publish_numbers(p, "q", 0..1);
        assert_eq!(w.seen(c), [Seen::End], "{after}");
        assert_eq!(counts(&mut w, &log), [1]);
    }
}

#[test]
fn times_may_be_told() {
    let log = FaultLog::default();
    let config = Config { faults: vec![at(FaultKind::Lose, 5)], fault_origin: Origin::Declared, ..Config::default() };
    let mut w = World::with_log(config, log.clone());
    let (p, c) = pair(&mut w);
    pass(&mut w, Nanos::SECOND);
    w.publish_numbers(p, "q", 0..1);
    assert_eq!(w.bodies(c), ["0"]);
    log.begin(w.now);
    log.begin(Time(1));
    pass(&mut w, Nanos::from_millis(4));
    w.publish_numbers(p, "q", 1..2);
    assert_eq!(w.bodies(c), ["1"]);
    pass(&mut w, MS);
    w.publish_numbers(p, "q", 2..3);
    assert_eq!(w.bodies(c), [""; 0]);
}

/// Clients went on while the broker stood still; what they said waits in their sockets.
#[test]
fn a_stall_of_many_heartbeats_costs_no_client_its_connection() {
    let (mut w, _) = world(&[Fault { length: Some(Nanos(300_000_000_000)), ..at(FaultKind::Stall, 5) }]);
    let c = w.client();
    pass(&mut w, Nanos::from_millis(5));
    let (rule, end) = w.node.take_stall().expect("it stands still");
    let start = w.now;
    w.now = end;
    w.node.stalled(rule, start, end);
    let mut gone = 0;
    w.node.tick(w.now, |_| gone += 1);
    assert_eq!(gone, 0);
    assert_eq!(w.seen(c), []);
}
