//! Declarations and routes through a whole virtual host, without connections.

use wire::amqp091::{ExchangeDeclare, QueueDeclare, Table, Value};

use crate::exchange::Destination;
use crate::memory::Memory;
use crate::slots::{Key, Slots};
use crate::tests::harness::table;
use crate::vhost::{RouteCache, VirtualHost};

struct Fixture {
    vhost: VirtualHost,
    me: Key,
    other: Key,
}

fn fixture() -> Fixture {
    let mut connections = Slots::default();
    let [me, other] = std::array::from_fn(|_| connections.insert(()));
    Fixture { vhost: VirtualHost::new(Memory::new(u64::MAX, u64::MAX)), me, other }
}

fn queue(name: &str) -> QueueDeclare<'_> {
    QueueDeclare { queue: name, ..QueueDeclare::default() }
}

fn exchange<'a>(name: &'a str, kind: &'a str) -> ExchangeDeclare<'a> {
    ExchangeDeclare { exchange: name, kind, ..ExchangeDeclare::default() }
}

impl Fixture {
    fn queue(&mut self, name: &str) -> Key {
        self.vhost.declare_queue(self.me, &queue(name)).expect("a queue")
    }

    fn exchange(&mut self, name: &str, kind: &str) {
        self.vhost.declare_exchange(&exchange(name, kind)).expect("an exchange");
    }

    fn bind(&mut self, source: &str, to: Destination, key: &str) {
        self.vhost.bind(source, to, key, Table::EMPTY).expect("a binding");
    }

    fn route(&mut self, exchange: &str, key: &str) -> Vec<Key> {
        let mut cache = RouteCache::default();
        self.vhost.route(exchange, key, &[0, 0], &mut cache).expect("a route");
        cache.queues().to_vec()
    }

    fn refused(&mut self, by: Key, wanted: &QueueDeclare<'_>) -> (u16, String) {
        let refusal = self.vhost.declare_queue(by, wanted).expect_err("a refusal");
        (refusal.code, refusal.text)
    }
}

#[test]
fn declaring_again_is_allowed_only_when_nothing_differs() {
    let mut f = fixture();
    let (me, other) = (f.me, f.other);
    let first = f.queue("q");
    assert_eq!(f.queue("q"), first);
    let text = "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': \
                received 'true' but current is 'false'";
    assert_eq!(f.refused(me, &QueueDeclare { durable: true, ..queue("q") }), (406, text.to_owned()));
    assert_eq!(f.refused(me, &QueueDeclare { exclusive: true, ..queue("q") }).0, 405);
    f.vhost.declare_queue(me, &QueueDeclare { exclusive: true, ..queue("mine") }).unwrap();
    assert_eq!(f.refused(other, &queue("mine")).0, 405);
    let passive = QueueDeclare { passive: true, ..queue("none") };
    assert_eq!(f.refused(me, &passive), (404, "NOT_FOUND - no queue 'none' in vhost '/'".to_owned()));
    let text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'";
    assert_eq!(f.refused(me, &queue("amq.mine")), (403, text.to_owned()));
    let quorum = table(&[("x-queue-type", Value::from("quorum"))]);
    let transient = QueueDeclare { arguments: quorum.view(), ..queue("quorum") };
    assert!(f.refused(me, &transient).1.contains("invalid property 'non-durable'"));
}

#[test]
fn exchanges_are_compared_and_reserved() {
    let mut f = fixture();
    f.exchange("x", "topic");
    f.exchange("x", "topic");
    let mut refused = |wanted: &ExchangeDeclare<'_>| {
        let refusal = f.vhost.declare_exchange(wanted).expect_err("a refusal");
        (refusal.code, refusal.closes_connection, refusal.text)
    };
    let text = "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': \
                received 'fanout' but current is 'topic'";
    assert_eq!(refused(&exchange("x", "fanout")).2, text);
    assert_eq!(refused(&exchange("y", "odd")).0, 503);
    assert!(refused(&exchange("y", "odd")).1);
    assert_eq!(refused(&exchange("amq.mine", "topic")).0, 403);
    assert_eq!(refused(&exchange("", "direct")).0, 403);
    assert_eq!(refused(&ExchangeDeclare { passive: true, ..exchange("y", "") }).0, 404);
    let predeclared = ExchangeDeclare { durable: true, ..exchange("amq.topic", "topic") };
    assert_eq!(f.vhost.declare_exchange(&predeclared), Ok(()));
    assert_eq!(f.vhost.delete_exchange("amq.topic", false).map_err(|r| r.code), Err(403));
    assert_eq!(f.vhost.delete_exchange("never", false), Ok(()));
}

#[test]
fn a_message_finds_each_queue_once_through_chains_and_circles() {
    let mut f = fixture();
    let (a, b) = (f.queue("a"), f.queue("b"));
    assert_eq!(f.route("", "a"), [a], "the default exchange knows queues by name");
    assert!(f.route("", "none").is_empty());
    f.exchange("one", "topic");
    f.exchange("two", "fanout");
    let [one, two] = ["one", "two"].map(|x| f.vhost.exchange_key(x).unwrap());
    f.bind("one", Destination::Queue(a), "k.#");
    f.bind("one", Destination::Queue(a), "k.*");
    f.bind("one", Destination::Exchange(two), "#");
    f.bind("two", Destination::Exchange(one), "");
    f.bind("two", Destination::Queue(b), "");
    assert_eq!(f.route("one", "k.1"), [a, b]);
    assert_eq!(f.route("one", "other"), [b]);
    let mut cache = RouteCache::default();
    let missing = f.vhost.route("none", "k", &[0, 0], &mut cache).expect_err("a refusal");
    assert_eq!(missing.text, "NOT_FOUND - no exchange 'none' in vhost '/'");
}

#[test]
fn a_cached_route_notices_every_change() {
    let mut f = fixture();
    let a = f.queue("a");
    f.exchange("x", "direct");
    let mut cache = RouteCache::default();
    let mut route = |f: &mut Fixture| f.vhost.route("x", "k", &[0, 0], &mut cache).map(|()| cache.queues().to_vec());
    assert_eq!(route(&mut f), Ok(vec![]));
    f.bind("x", Destination::Queue(a), "k");
    assert_eq!(route(&mut f), Ok(vec![a]));
    f.vhost.unbind("x", Destination::Queue(a), "k", Table::EMPTY).unwrap();
    assert_eq!(route(&mut f), Ok(vec![]));
    f.bind("x", Destination::Queue(a), "k");
    assert_eq!(route(&mut f), Ok(vec![a]));
    f.vhost.remove_queue(a);
    assert_eq!(route(&mut f), Ok(vec![]));
    assert_eq!(f.vhost.delete_exchange("x", true), Ok(()), "its last binding went with the queue");
    assert!(route(&mut f).is_err());
}

#[test]
fn an_unroutable_message_tries_the_alternate_exchange() {
    let mut f = fixture();
    let (a, b) = (f.queue("a"), f.queue("b"));
    f.exchange("spare", "fanout");
    f.bind("spare", Destination::Queue(b), "");
    let arguments = table(&[("alternate-exchange", Value::from("spare"))]);
    let wanted = ExchangeDeclare { arguments: arguments.view(), ..exchange("x", "direct") };
    f.vhost.declare_exchange(&wanted).unwrap();
    f.bind("x", Destination::Queue(a), "k");
    assert_eq!(f.route("x", "k"), [a]);
    assert_eq!(f.route("x", "other"), [b]);
    let refusal = f.vhost.declare_exchange(&exchange("x", "direct")).expect_err("a refusal");
    assert!(refusal.text.contains("received none but current is the value 'spare'"));
}

#[test]
fn headers_decide_and_are_never_cached() {
    let mut f = fixture();
    let a = f.queue("a");
    let arguments = table(&[("colour", Value::from("red"))]);
    f.vhost.bind("amq.headers", Destination::Queue(a), "", arguments.view()).unwrap();
    let properties = |colour: &str| {
        let headers = table(&[("colour", Value::from(colour))]);
        let mut bytes = 0x2000u16.to_be_bytes().to_vec();
        bytes.extend((headers.view().as_bytes().len() as u32).to_be_bytes());
        bytes.extend(headers.view().as_bytes());
        bytes
    };
    let mut cache = RouteCache::default();
    for (colour, expected) in [("red", vec![a]), ("blue", vec![]), ("red", vec![a])] {
        f.vhost.route("amq.headers", "k", &properties(colour), &mut cache).unwrap();
        assert_eq!(cache.queues(), expected, "{colour}");
    }
}

#[test]
fn deleting_may_depend_on_the_state_of_a_queue_or_an_exchange() {
    let mut f = fixture();
    let a = f.queue("a");
    f.vhost.declare_exchange(&ExchangeDeclare { auto_delete: true, ..exchange("x", "topic") }).unwrap();
    f.bind("x", Destination::Queue(a), "k");
    assert!(f.vhost.delete_exchange("x", true).is_err(), "in use");
    f.vhost.remove_queue(a);
    assert!(f.vhost.exchange_key("x").is_err(), "it deletes itself with its last binding");
    let (me, other) = (f.me, f.other);
    f.vhost.declare_queue(me, &QueueDeclare { exclusive: true, ..queue("q") }).unwrap();
    assert_eq!(f.vhost.delete_queue(other, "q", false, false).map_err(|r| r.code).err(), Some(405));
    let q = f.vhost.queue_key(me, "q").unwrap();
    let record =
        crate::log::Record { exchange: "", routing_key: "q", properties: &[0, 0], body: b"x", has_sections: false };
    assert!(f.vhost.enqueue(&[q], &record));
    let refusal = f.vhost.delete_queue(me, "q", false, true).expect_err("not empty");
    assert_eq!(refusal.text, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty");
    assert_eq!(f.vhost.delete_queue(me, "q", true, false), Ok(1));
    assert_eq!(f.vhost.delete_queue(me, "q", true, true), Ok(0), "gone already");
    assert_eq!(f.vhost.memory.used(), 0);
}
