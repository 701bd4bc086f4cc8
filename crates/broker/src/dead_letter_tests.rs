//! Messages that queues dead-letter.

use measure::Nanos;
use wire::amqp091::{
    BasicGet, BasicNack, BasicProperties, BasicPublish, Properties, QueueDeclare, QueueDelete, TxSelect, Value,
};

use crate::dead_letters::{DeadLetter, FIRST_DEATH, ORIGINAL_EXPIRATION, Reason, deaths, is_circle, text, with_death};
use crate::tests::harness::{Seen, World, table, world};

fn declare(w: &mut World, c: usize, queue: &str, arguments: &[(&str, Value<'_>)]) {
    let arguments = table(arguments);
    let declare = QueueDeclare { queue, arguments: arguments.view(), ..QueueDeclare::default() };
    let answer = w.ask(c, 1, &declare);
    assert!(matches!(&answer, Seen::Method(it) if it.starts_with("QueueDeclareOk")), "{answer:?}");
}

fn all_of(w: &mut World, c: usize, queue: &str) -> Vec<String> {
    let get = BasicGet { queue, no_ack: true, ..BasicGet::default() };
    let mut bodies = Vec::new();
    loop {
        match w.ask(c, 1, &get) {
            Seen::GetOk { body, .. } => bodies.push(body),
            other => {
                assert_eq!(other, Seen::GetEmpty);
                return bodies;
            }
        }
    }
}

fn to_dead<'a>(more: &[(&'a str, Value<'a>)]) -> Vec<(&'a str, Value<'a>)> {
    let to = [("x-dead-letter-exchange", Value::from("")), ("x-dead-letter-routing-key", Value::from("dead"))];
    [&to, more].concat()
}

/// A world with a client, and with a queue that dead-letters and has these arguments besides.
fn dead_lettering(more: &[(&str, Value<'_>)]) -> (World, usize) {
    let mut w = world();
    let c = w.client();
    w.queue(c, "dead");
    declare(&mut w, c, "q", &to_dead(more));
    (w, c)
}

#[test]
fn what_is_refused_for_good_goes_where_the_queue_says_and_what_is_given_back_does_not() {
    let (mut w, c) = dead_lettering(&[]);
    w.publish_numbers(c, "q", 0..4);
    w.consume(c, "q", "c");
    assert_eq!(w.bodies(c).len(), 4);
    let nack = |delivery_tag, requeue| BasicNack { delivery_tag, multiple: false, requeue };
    w.send(c, 1, &nack(1, false));
    w.send(c, 1, &nack(3, false));
    w.send(c, 1, &nack(2, true));
    w.ack(c, 4, false);
    assert_eq!(w.bodies(c), ["1"]);
    assert_eq!(all_of(&mut w, c, "dead"), ["0", "2"]);
    // Without a queue that takes them they are forgotten.
    w.ask(c, 1, &QueueDelete { queue: "dead", ..QueueDelete::default() });
    w.send(c, 1, &nack(5, false));
    w.pump();
    let queue = w.node.vhost.queue_names["q"];
    let queue = w.node.vhost.queues.get(queue).unwrap();
    assert_eq!((queue.ready(), queue.unacked()), (0, 0));
}

#[test]
fn what_a_queue_has_given_up_goes_on_though_the_queue_is_deleted_at_once() {
    let (mut w, c) = dead_lettering(&[("x-max-length", Value::I32(2))]);
    w.publish_numbers(c, "q", 0..2);
    w.consume(c, "q", "c");
    assert_eq!(w.bodies(c).len(), 2);
    w.send(c, 1, &BasicNack { delivery_tag: 2, multiple: false, requeue: false });
    w.send(c, 1, &QueueDelete { queue: "q", ..QueueDelete::default() });
    w.pump();
    assert!(w.seen(c).len() > 1, "the consumer's end, and the answer");
    assert_eq!(all_of(&mut w, c, "dead"), ["1"]);
}

#[test]
fn messages_expire_in_their_time_those_that_are_out_when_they_come_back() {
    let (mut w, c) = dead_lettering(&[("x-message-ttl", Value::I32(1_000))]);
    w.publish_numbers(c, "q", 0..3);
    w.qos(c, 1, false);
    w.consume(c, "q", "c");
    assert_eq!(w.bodies(c), ["0"]);
    w.pass_by(Nanos::from_millis(250), 3);
    w.publish_numbers(c, "q", 3..5);
    assert_eq!(all_of(&mut w, c, "dead"), [""; 0]);
    w.pass_by(Nanos::from_millis(250), 2);
    assert_eq!(all_of(&mut w, c, "dead"), ["1", "2"]);
    w.send(c, 1, &BasicNack { delivery_tag: 1, multiple: false, requeue: true });
    assert_eq!(w.bodies(c), ["3"]);
    assert_eq!(all_of(&mut w, c, "dead"), ["0"]);
    w.pass(2);
    assert_eq!(all_of(&mut w, c, "dead"), ["4"]);
    // Who gets it at once gets it, however short it lives.
    declare(&mut w, c, "at-once", &[("x-message-ttl", Value::I32(0))]);
    w.consume(c, "at-once", "d");
    w.publish(c, "", "at-once", "x");
    assert_eq!(w.bodies(c), ["x"]);
}

fn publish_expiring(w: &mut World, c: usize, queue: &str, expiration: &str, body: &str) {
    let properties = BasicProperties { expiration: Some(expiration), ..BasicProperties::default() };
    let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
    w.publish_as(c, &publish, Properties::from_bytes(&properties.to_bytes().unwrap()), body);
    w.pump();
}

#[test]
fn a_message_expires_by_what_it_says_itself_or_its_queue_whichever_is_sooner() {
    let (mut w, c) = dead_lettering(&[]);
    let ttl = [("x-message-ttl", Value::I32(1_000))];
    declare(&mut w, c, "both", &to_dead(&ttl));
    publish_expiring(&mut w, c, "q", "100", "own 100");
    publish_expiring(&mut w, c, "both", "300", "both 300");
    publish_expiring(&mut w, c, "both", "3000", "both 3000");
    w.publish(c, "", "q", "own never");
    for (ms, dead) in [(100, ""), (50, "own 100"), (200, "both 300"), (600, ""), (100, "both 3000")] {
        w.pass_by(Nanos::from_millis(ms), 1);
        assert_eq!(all_of(&mut w, c, "dead").join(", "), dead);
    }
    w.pass(100);
    assert_eq!(all_of(&mut w, c, "q"), ["own never"]);
    assert_eq!(w.node.next_expiry(), None);
}

#[test]
fn what_has_expired_behind_another_message_goes_when_it_is_next_and_nobody_gets_it() {
    let (mut w, c) = dead_lettering(&[]);
    w.publish(c, "", "q", "a");
    publish_expiring(&mut w, c, "q", "100", "b");
    w.publish(c, "", "q", "c");
    publish_expiring(&mut w, c, "q", "5000", "d");
    w.pass(1);
    assert_eq!(all_of(&mut w, c, "dead"), [""; 0]);
    // In the same turn in which the one before it is delivered.
    w.consume(c, "q", "x");
    assert_eq!(w.bodies(c), ["a", "c", "d"]);
    assert_eq!(all_of(&mut w, c, "dead"), ["b"]);
    // What is given back has not become younger; it is waited for behind the one that stays.
    let nack = BasicNack { delivery_tag: 3, multiple: true, requeue: true };
    w.qos(c, 0, false);
    w.ask(c, 1, &wire::amqp091::BasicCancel { consumer_tag: "x", ..Default::default() });
    w.send(c, 1, &nack);
    w.pass(6);
    assert_eq!(all_of(&mut w, c, "dead"), [""; 0]);
    let get = BasicGet { queue: "q", ..BasicGet::default() };
    for body in ["a", "c"] {
        let got = w.ask(c, 1, &get);
        assert!(matches!(&got, Seen::GetOk { body: it, .. } if it == body), "{got:?}");
    }
    assert_eq!(all_of(&mut w, c, "dead"), ["d"]);
}

/// Also where the next one is to be waited for only since the one before it was taken.
#[test]
fn a_message_that_becomes_the_next_expires_in_its_time() {
    let (mut w, c) = dead_lettering(&[]);
    publish_expiring(&mut w, c, "q", "100000", "a");
    publish_expiring(&mut w, c, "q", "2000", "b");
    w.ask(c, 1, &BasicGet { queue: "q", ..BasicGet::default() });
    let soon = w.now + Nanos::from_millis(2_000);
    assert_eq!(w.node.next_expiry(), Some(soon));
    assert_eq!(w.node.vhost.expiring.len(), 1);
    w.ask(c, 1, &QueueDelete { queue: "q", ..QueueDelete::default() });
    assert_eq!(w.node.next_expiry(), None);
}

#[test]
fn an_expiration_that_is_no_number_closes_the_channel() {
    for in_transaction in [false, true] {
        let mut w = world();
        let c = w.client();
        w.queue(c, "q");
        if in_transaction {
            w.ask(c, 1, &TxSelect::default());
        }
        publish_expiring(&mut w, c, "q", "100ms", "x");
        let text = "PRECONDITION_FAILED - invalid expiration '100ms': {leftover_string,\"ms\"}";
        assert_eq!(w.seen(c), [Seen::ChannelClosed(406, text.to_owned())]);
    }
}

/// One message that stays does not keep the times of all that came after it.
#[test]
fn times_of_messages_that_are_gone_are_forgotten() {
    let (mut w, c) = dead_lettering(&[("x-message-ttl", Value::I32(1_000_000))]);
    w.publish(c, "", "q", "stays");
    let get = BasicGet { queue: "q", ..BasicGet::default() };
    w.ask(c, 1, &get);
    let body = "x".repeat(1_000);
    for _ in 0..10_000 {
        w.publish(c, "", "q", &body);
        all_of(&mut w, c, "q");
    }
    let queue = w.node.vhost.queue_names["q"];
    let queue = w.node.vhost.queues.get(queue).unwrap();
    assert!(queue.expiries() < 2_000, "{}", queue.expiries());
}

#[test]
fn what_a_full_queue_drops_is_a_dead_letter_and_circles_end() {
    let (mut w, c) = dead_lettering(&[("x-max-length", Value::I32(2))]);
    w.publish_numbers(c, "q", 0..5);
    assert_eq!(all_of(&mut w, c, "dead"), ["0", "1", "2"]);
    assert_eq!(all_of(&mut w, c, "q"), ["3", "4"]);
    let round = [("x-message-ttl", Value::I32(100)), ("x-dead-letter-exchange", Value::from(""))];
    declare(&mut w, c, "round", &round);
    w.publish(c, "", "round", "x");
    w.pass(3);
    assert_eq!(all_of(&mut w, c, "round"), [""; 0]);
    w.node.clear();
    assert_eq!(w.node.vhost.memory.used(), 0);
}

#[test]
fn dead_letters_on_their_way_take_memory_of_the_broker() {
    let (mut w, c) = dead_lettering(&[("x-message-ttl", Value::I32(1_000))]);
    w.fill(c, "q", 500, 1_000);
    w.pump();
    let now = w.node.vhost.now;
    w.node.expire(now + Nanos::from_millis(2_000));
    let used = w.node.vhost.memory.used();
    assert!(used >= 500_000, "{used}");
    let queue = w.node.vhost.queue_names["q"];
    let vhost = &mut w.node.vhost;
    vhost.queues.get_mut(queue).unwrap().clear(&mut vhost.memory);
    assert_eq!(vhost.memory.used(), 0);
}

#[test]
fn only_queues_with_messages_wait_for_their_expiry() {
    let mut w = world();
    let c = w.client();
    for number in 0..200 {
        declare(&mut w, c, &format!("q{number}"), &[("x-message-ttl", Value::I32(1_000))]);
    }
    assert_eq!(w.node.vhost.expiring.len(), 0);
    assert_eq!(w.node.next_expiry(), None);
    w.publish_numbers(c, "q7", 0..50);
    w.publish_numbers(c, "q8", 0..1);
    assert_eq!(w.node.vhost.expiring.len(), 2);
    w.pass(3);
    assert_eq!(w.node.vhost.expiring.len(), 0);
    assert_eq!(all_of(&mut w, c, "q7"), [""; 0]);
    w.publish_numbers(c, "q7", 0..1);
    assert_eq!(w.node.vhost.expiring.len(), 1);
}

#[test]
fn headers_tell_of_all_deaths_the_last_first() {
    let letter = |properties, reason| {
        let (exchange, routing_key) = ("orders".into(), "new".into());
        DeadLetter { exchange, routing_key, properties, body: Vec::new(), has_sections: false, reason }
    };
    let once = with_death(&letter(BasicProperties::default().to_bytes().unwrap(), Reason::Expired), "a").unwrap();
    let twice = with_death(&letter(once, Reason::Rejected), "b").unwrap();
    let thrice = with_death(&letter(twice.clone(), Reason::Expired), "a").unwrap();
    let headers = |bytes: &[u8]| Properties::from_bytes(bytes).decode().unwrap().headers.expect("headers").to_owned();
    let told = headers(&thrice);
    let told: Vec<_> = deaths(told.view())
        .map(|it| {
            let count = it.get("count").and_then(Value::as_i64);
            format!("{} {} {count:?}", text(it, "queue"), text(it, "reason"))
        })
        .collect();
    assert_eq!(told, ["a expired Some(2)", "b rejected Some(1)"]);
    let first = headers(&thrice);
    assert_eq!(text(first.view(), FIRST_DEATH), "expired");
    assert_eq!(text(first.view(), "x-first-death-queue"), "a");
    assert_eq!(text(first.view(), "x-first-death-exchange"), "orders");
    // Somebody refused it since it was in the first, which may have it once more.
    assert!(!is_circle(&twice, "a") && is_circle(&thrice, "a"));
    // Its own time to live would end it again.
    let own = BasicProperties { expiration: Some("100"), ..BasicProperties::default() };
    let own = letter(own.to_bytes().unwrap(), Reason::MaxLength);
    let died = with_death(&own, "a").unwrap();
    assert_eq!(Properties::from_bytes(&died).expiration(), None);
    let told = headers(&with_death(&letter(died, Reason::MaxLength), "a").unwrap());
    let death = deaths(told.view()).next().unwrap();
    assert_eq!(text(death, ORIGINAL_EXPIRATION), "100");
    // What cannot be read could go round for ever.
    assert_eq!(with_death(&letter(vec![0x80], Reason::Expired), "a"), None);
}
