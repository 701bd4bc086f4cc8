//! Deliveries, through `wire`'s client, in virtual time.

use wire::amqp091::{BasicConsume, BasicGet, BasicNack, BasicReject, ChannelClose, QueueDeclare, QueuePurge, Value};

use crate::config::Config;
use crate::tests::harness::*;

#[test]
fn what_a_lost_consumer_had_goes_to_the_next_in_order_and_marked() {
    let (mut w, [producer, first, second]) = with_queue(Config::default());
    w.publish_numbers(producer, "q", 0..6);
    w.consume(first, "q", "c");
    assert_eq!(w.bodies(first), bodies(0..6));
    w.ack(first, 2, false);
    w.cut(first);
    w.consume(second, "q", "c");
    w.publish_numbers(producer, "q", 6..7);
    let seen: Vec<(String, bool)> = w.deliveries(second).into_iter().map(|(_, again, body)| (body, again)).collect();
    let expected = [("0", true), ("2", true), ("3", true), ("4", true), ("5", true), ("6", false)];
    assert_eq!(seen, expected.map(|(body, again)| (body.to_owned(), again)));
}

#[test]
fn prefetch_limits_each_consumer_and_acknowledgements_refill() {
    let (mut w, [producer, c]) = with_queue(Config::default());
    w.publish_numbers(producer, "q", 0..10);
    w.qos(c, 3, false);
    w.consume(c, "q", "c");
    assert_eq!(w.bodies(c), bodies(0..3));
    w.ack(c, 2, false);
    assert_eq!(w.bodies(c), bodies(3..4));
    w.ack(c, 4, true);
    assert_eq!(w.bodies(c), bodies(4..7));
    w.send(c, 1, &BasicReject { delivery_tag: 5, requeue: true });
    assert_eq!(w.bodies(c), ["4"], "back at its place, before the others");
    w.send(c, 1, &BasicNack { delivery_tag: 0, multiple: true, requeue: false });
    assert_eq!(w.bodies(c), bodies(7..10));
}

#[test]
fn a_shared_prefetch_counts_all_consumers_of_the_channel() {
    let (mut w, [producer, c]) = with_queue(Config::default());
    w.publish_numbers(producer, "q", 0..10);
    w.qos(c, 3, true);
    w.consume(c, "q", "a");
    w.consume(c, "q", "b");
    assert_eq!(w.bodies(c), bodies(0..3));
    w.ack(c, 1, false);
    assert_eq!(w.bodies(c), bodies(3..4));
}

#[test]
fn consumers_take_turns() {
    let (mut w, [producer, a, b]) = with_queue(Config::default());
    w.consume(a, "q", "c");
    w.consume(b, "q", "c");
    w.publish_numbers(producer, "q", 0..6);
    assert_eq!(w.bodies(a), ["0", "2", "4"]);
    assert_eq!(w.bodies(b), ["1", "3", "5"]);
}

#[test]
fn a_reader_that_stops_gets_a_bounded_amount_and_the_rest_later() {
    let (mut w, [producer, slow]) = with_queue(Config { unsent_limit_bytes: 10_000, ..Config::default() });
    w.send(slow, 1, &BasicConsume { no_ack: true, ..consume("q", "c") });
    w.seen(slow);
    w.set_reading(slow, false);
    w.fill(producer, "q", 100, 1000);
    w.pump();
    assert!((10_000..12_000).contains(&w.waiting(slow)), "{} bytes", w.waiting(slow));
    w.set_reading(slow, true);
    assert_eq!(w.bodies(slow).len(), 100);
}

/// The broker reads nothing of a client that has too much to read itself: what that client says
/// meanwhile cannot be heard, and it is not silent.
#[test]
fn a_slow_reader_that_beats_its_heart_is_not_given_up_and_a_silent_one_is() {
    let (mut w, [producer, slow]) = with_queue(Config { unsent_limit_bytes: 10_000, ..Config::default() });
    w.consume(slow, "q", "c");
    w.set_reading(slow, false);
    let body = "x".repeat(100_000);
    w.publish(producer, "", "q", &body);
    w.pump();
    for _ in 0..20 {
        w.send_raw(slow, b"\x08\0\0\0\0\0\0\xCE");
        w.pass(30);
    }
    w.set_reading(slow, true);
    assert_eq!(w.bodies(slow), [body]);
    w.pass(100);
    w.set_reading(slow, false); // Nor does it beat its heart any more.
    w.pass(60);
    assert_eq!(w.seen(slow), []);
    w.pass(80);
    assert_eq!(w.seen(slow), [Seen::End], "given up");
}

#[test]
fn memory_blocks_publishers_until_it_drains() {
    let (mut w, [p, late, c]) = with_queue(Config { memory_limit_bytes: 1 << 20, ..Config::default() });
    w.fill(p, "q", 200, 10_000);
    assert_eq!(w.seen(p), [Seen::Blocked]);
    w.publish(late, "", "q", "late");
    assert_eq!(w.seen(late), [Seen::Blocked], "as soon as it publishes");
    // Blocked for hours, nobody is given up for being silent.
    w.pass(300);
    w.send(c, 1, &BasicConsume { no_ack: true, ..consume("q", "c") });
    w.pump();
    // The rest fills memory again before the consumer empties it; each time it is told.
    for publisher in [p, late] {
        let told = w.seen(publisher);
        assert_eq!(told.last(), Some(&Seen::Unblocked), "{told:?}");
        assert!(told.chunks(2).all(|c| c[0] == Seen::Unblocked), "{told:?}");
    }
    let all = w.bodies(c);
    assert_eq!(all.len(), 201, "nothing is lost");
}

#[test]
fn get_takes_one_and_says_what_is_left() {
    let (mut w, [c]) = with_queue(Config::default());
    let get = BasicGet { queue: "q", ..BasicGet::default() };
    assert_eq!(w.ask(c, 1, &get), Seen::GetEmpty);
    w.publish_numbers(c, "q", 0..2);
    let first = Seen::GetOk { redelivered: false, left: 1, body: "0".to_owned() };
    assert_eq!(w.ask(c, 1, &get), first);
    w.send(c, 1, &BasicReject { delivery_tag: 1, requeue: true });
    let again = Seen::GetOk { redelivered: true, left: 1, body: "0".to_owned() };
    assert_eq!(w.ask(c, 1, &BasicGet { no_ack: true, ..get }), again);
    let purge = QueuePurge { queue: "q", ..QueuePurge::default() };
    let one = Seen::Method("QueuePurgeOk { message_count: 1 }".to_owned());
    assert_eq!(w.ask(c, 1, &purge), one);
}

fn stream(w: &mut World, client: usize) {
    let arguments = table(&[("x-queue-type", Value::from("stream"))]);
    w.ask(client, 1, &QueueDeclare { queue: "s", durable: true, arguments: arguments.view(), ..Default::default() });
}

#[test]
fn a_stream_is_read_again_and_again() {
    let mut w = world();
    let (p, c) = (w.client(), w.client());
    stream(&mut w, p);
    w.publish_numbers(p, "s", 0..10);
    w.qos(c, 4, false);
    let from = |w: &mut World, tag: &str, offset: &str| {
        let offset = offset.parse::<i64>().map_or(Value::from(offset), Value::I64);
        let arguments = table(&[("x-stream-offset", offset)]);
        w.send(c, 1, &BasicConsume { arguments: arguments.view(), ..consume("s", tag) });
        w.bodies(c)
    };
    assert_eq!(from(&mut w, "first", "first"), bodies(0..4));
    assert_eq!(from(&mut w, "again", "first"), bodies(0..4));
    assert_eq!(from(&mut w, "number", "8"), bodies(8..10));
    assert_eq!(from(&mut w, "next", "next"), bodies(0..0));
    w.ack(c, 4, true);
    assert_eq!(w.bodies(c), bodies(4..8));
    w.publish_numbers(p, "s", 10..11);
    assert_eq!(w.bodies(c), ["10", "10"], "those who follow the end");
    w.send(c, 1, &BasicConsume { no_ack: true, ..consume("s", "x") });
    assert!(matches!(&w.seen(c)[..], [Seen::Closed(540, _), Seen::End]));
}

#[test]
fn closing_a_channel_gives_back_what_it_had() {
    let (mut w, [a, b]) = with_queue(Config::default());
    w.publish_numbers(a, "q", 0..3);
    w.consume(b, "q", "c");
    assert_eq!(w.bodies(b), bodies(0..3));
    assert_eq!(w.ask(b, 1, &ChannelClose::default()), method("ChannelClose"));
    w.consume(a, "q", "c");
    assert_eq!(w.bodies(a), bodies(0..3));
}

#[test]
fn who_does_not_read_the_answers_may_not_ask_for_more() {
    let (mut w, [producer, c]) = with_queue(Config { unsent_limit_bytes: 10_000, ..Config::default() });
    w.fill(producer, "q", 100, 1000);
    w.pump();
    w.set_reading(c, false);
    for _ in 0..100 {
        w.send(c, 1, &BasicGet { queue: "q", no_ack: true, ..BasicGet::default() });
    }
    w.pump();
    assert!((20_000..22_000).contains(&w.waiting(c)), "{} bytes", w.waiting(c));
    w.set_reading(c, true);
    assert_eq!(w.seen(c).len(), 100, "nothing that was asked for is forgotten");
}

#[test]
fn a_full_stream_leaves_memory_to_queues() {
    let (mut w, [p]) = with_queue(Config { memory_limit_bytes: 8 << 20, ..Config::default() });
    stream(&mut w, p);
    for (queue, count) in [("s", 2_000), ("q", 300)] {
        w.fill(p, queue, count, 10_000);
        assert_eq!(w.seen(p), [], "{queue}: nobody is blocked");
    }
}
