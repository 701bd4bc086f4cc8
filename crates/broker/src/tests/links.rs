//! Clients over AMQP 1.0 beside those over AMQP 0.9.1, in virtual time.

use measure::{Nanos, Time};
use wire::Secret;
use wire::amqp10::{
    Amqp10Client, Amqp10Config, Amqp10Event, Attach, Composite, Condition, DeclareTransaction, DeclaredTransaction,
    DeliveryState, Discharge, Flow, MessageHead, Modified, PropertiesSection, Rejected, SaslMechanism, Source, Symbol,
    Target, TransactionCoordinator, TransactionalState, Transfer, TransferTemplate, TypedField, TypedValue, put_map,
};
use wire::amqp091::{
    BasicGet, BasicProperties, BasicPublish, ClientConfig, ExchangeDeclare, ExchangeDelete, FieldTable, Mechanism,
    Properties, QueueBind, QueueDeclare, QueueDelete, QueuePurge, Reader, Value,
};

use super::harness::*;
use crate::config::{Config, User};
use crate::faults::{Fault, FaultKind, FaultLog};
use crate::node::Verdict;
use crate::session::{Peer, Reply};
use crate::slots::Key;

const SENDER: u32 = 0;
const RECEIVER: u32 = 1;
const COORDINATOR: u32 = 2;
/// Outcomes, encoded.
const ACCEPTED: &[u8] = &[0, 0x53, 0x24, 0x45];
const RELEASED: &[u8] = &[0, 0x53, 0x26, 0x45];

/// A client with one session.
struct LinkClient {
    client: Amqp10Client,
    key: Key,
    /// Number and body of deliveries, with `!` where these came before.
    got: Vec<(u32, String)>,
    /// The state of each transfer, by number.
    told: Vec<(u32, &'static str)>,
    ended: Vec<String>,
    /// The application property `h` of the last delivery.
    header: Option<String>,
    /// Its sections from the message annotations on.
    sections: Vec<u8>,
    /// Where the last link leads.
    address: String,
    /// The id of the transaction that was declared last.
    transaction: Vec<u8>,
}

fn frame<'a>(kind: u8, what: &impl Composite<'a>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 2, kind, 0, 0];
    what.write(&mut bytes);
    bytes.extend_from_slice(payload);
    let size = bytes.len() as u32;
    bytes[..4].copy_from_slice(&size.to_be_bytes());
    bytes
}

impl LinkClient {
    fn connect(w: &mut World, config: Amqp10Config) -> Self {
        let key = w.node.connect(w.now, false);
        let client = Amqp10Client::new(config, w.now);
        let mut this = Self {
            client,
            key,
            got: Vec::new(),
            told: Vec::new(),
            ended: Vec::new(),
            header: None,
            sections: Vec::new(),
            address: String::new(),
            transaction: Vec::new(),
        };
        this.pump(w);
        this
    }

    fn open(w: &mut World) -> Self {
        let mut this = Self::connect(w, Amqp10Config::default());
        this.client.begin(0).expect("an open connection");
        this.pump(w);
        this
    }

    /// Attaches the sender or the receiver.
    fn attach(&mut self, w: &mut World, handle: u32, address: &str, settled: bool) {
        let address = TypedValue::Str(address);
        let ends = (Source { address, ..Source::default() }, Target { address, ..Target::default() });
        self.attach_to(w, handle, &ends, settled);
    }

    fn attach_to(&mut self, w: &mut World, handle: u32, ends: &(Source<'_>, Target<'_>), settled: bool) {
        let mut target = Vec::new();
        ends.1.write(&mut target);
        let attach = Attach {
            name: if handle == SENDER { "s" } else { "r" },
            handle,
            is_receiver: handle == RECEIVER,
            snd_settle_mode: Some(u8::from(settled)),
            source: Some(ends.0),
            target: TypedValue::read(&mut Reader::new(&target)).expect("a target"),
            ..Attach::default()
        };
        self.client.attach(0, &attach).expect("an open session");
        self.pump(w);
    }

    fn send(&mut self, w: &mut World, bodies: &[&str]) {
        let head = MessageHead { application_properties: &[("h", TypedValue::Long(5))], ..MessageHead::default() };
        let template = TransferTemplate::new(0, SENDER, false, &head, self.client.frame_max()).expect("encodes");
        for body in bodies {
            self.client.publish(&template, body.as_bytes(), |_| {});
        }
        self.pump(w);
    }

    /// Sends a message as it is encoded.
    fn transfer(&mut self, w: &mut World, id: u32, settled: bool, message: &[u8]) {
        let transfer = Transfer {
            handle: SENDER,
            delivery_id: Some(id),
            delivery_tag: Some(b"t"),
            settled: Some(settled),
            ..Transfer::default()
        };
        w.node.input(self.key, w.now, &mut frame(0, &transfer, message).as_slice());
        self.pump(w);
    }

    fn grant(&mut self, w: &mut World, more: u32) {
        self.client.flow(0, RECEIVER, more, false);
        self.pump(w);
    }

    fn settle(&mut self, w: &mut World, first: u32, last: u32, state: DeliveryState<'_>) {
        self.client.settle(0, first, last, state);
        self.pump(w);
    }

    /// Asks the management by the method and the path; the status.
    fn ask(&mut self, w: &mut World, id: u32, request: (&str, &str), body: &[u8]) -> String {
        let properties = PropertiesSection {
            message_id: TypedValue::Ulong(id.into()),
            to: TypedValue::Str(request.1),
            subject: Some(request.0),
            ..PropertiesSection::default()
        };
        let mut message = Vec::new();
        properties.write(&mut message);
        message.extend_from_slice(&[0, 0x53, 0x77]);
        message.extend_from_slice(body);
        self.transfer(w, id, false, &message);
        self.bodies().concat()
    }

    fn bodies(&mut self) -> Vec<String> {
        self.got.drain(..).map(|it| it.1).collect()
    }

    /// Moves bytes until nothing moves any more.
    fn pump(&mut self, w: &mut World) {
        loop {
            w.node.advance(w.now);
            let said = self.client.pending_output().to_vec();
            self.client.consume_output(said.len());
            let mut input = said.as_slice();
            w.node.input(self.key, w.now, &mut input);
            assert!(input.is_empty() || w.node.verdict(self.key) != Verdict::Read, "{input:x?}");
            w.pump();
            let back = w.node.output(self.key).to_vec();
            w.node.written(self.key, back.len());
            self.hear(w.now, &back);
            if said.is_empty() && back.is_empty() && !w.node.has_work() {
                return;
            }
        }
    }

    fn hear(&mut self, now: Time, mut input: &[u8]) {
        loop {
            match self.client.poll(now, &mut input) {
                Ok(Some(Amqp10Event::Delivery { id, message, .. })) => {
                    let body = match message.before.properties().and_then(|it| it.subject) {
                        Some(status) => status.into(),
                        None => String::from_utf8_lossy(message.body.bytes()),
                    };
                    let header = message.before.header().unwrap_or_default();
                    let again = if header.first_acquirer == Some(false) { "!" } else { "" };
                    let failed = header.delivery_count.map_or_else(String::new, |count| count.to_string());
                    self.got.push((id, format!("{body}{again}{failed}")));
                    self.header = message.before.application_property("h").map(|it| format!("{it:?}"));
                    self.sections = message.lasting().0.to_vec();
                }
                Ok(Some(Amqp10Event::Attached { address, .. })) => {
                    address.unwrap_or_default().clone_into(&mut self.address);
                }
                Ok(Some(Amqp10Event::Settled { first, last, state, .. })) => {
                    let state = match state {
                        Some(DeliveryState::Accepted) => "accepted",
                        Some(DeliveryState::Released) => "released",
                        Some(DeliveryState::Rejected(it)) => it.error.map_or("rejected", reason),
                        Some(DeliveryState::Other(state)) => match DeclaredTransaction::of(state) {
                            Ok(it) => {
                                it.txn_id.clone_into(&mut self.transaction);
                                "declared"
                            }
                            Err(_) => enlisted(state),
                        },
                        _ => "?",
                    };
                    self.told.extend((first..=last).map(|id| (id, state)));
                }
                Ok(Some(
                    Amqp10Event::Detached { error, .. }
                    | Amqp10Event::Ended { error, .. }
                    | Amqp10Event::Closed { error },
                )) => {
                    self.ended.extend(error.map(|it| it.condition.0.to_owned()));
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => return self.ended.push(error.to_string()),
            }
        }
    }
}

fn reason(error: Condition<'_>) -> &'static str {
    match error.condition.0 {
        "amqp:not-found" => "not found",
        "amqp:transaction:unknown-id" => "unknown",
        "amqp:transaction:rollback" => "rolled back",
        "amqp:resource-limit-exceeded" => "too much",
        other => panic!("{other}"),
    }
}

fn enlisted(state: TypedValue<'_>) -> &'static str {
    let state = TransactionalState::of(state).expect("a transaction's state");
    assert_eq!(DeliveryState::of_value(Some(state.outcome)), Ok(DeliveryState::Accepted));
    "enlisted"
}

fn value(bytes: &[u8]) -> TypedValue<'_> {
    TypedValue::read(&mut Reader::new(bytes)).expect("a value")
}

impl LinkClient {
    /// A client with all links to or from a queue, and one to the coordinator.
    fn transactional(w: &mut World, address: &str) -> Self {
        let mut this = Self::open(w);
        this.attach(w, SENDER, address, false);
        this.attach(w, RECEIVER, "/queues/q", false);
        let mut target = Vec::new();
        TransactionCoordinator::default().write(&mut target);
        let source = Some(Source::default());
        let attach = Attach { name: "c", handle: COORDINATOR, source, target: value(&target), ..Attach::default() };
        this.client.attach(0, &attach).expect("an open session");
        this.pump(w);
        this
    }

    /// Asks the coordinator; the state that it answers with.
    fn request<'a>(&mut self, w: &mut World, request: &impl Composite<'a>) -> &'static str {
        let id = self.client.send_value(0, COORDINATOR, request).expect("credit");
        self.pump(w);
        let at = self.told.iter().position(|it| it.0 == id).expect("an answer");
        self.told.remove(at).1
    }

    /// Declares a transaction; its id.
    fn declare(&mut self, w: &mut World) -> Vec<u8> {
        assert_eq!(self.request(w, &DeclareTransaction::default()), "declared");
        self.transaction.clone()
    }

    fn discharge(&mut self, w: &mut World, txn_id: &[u8], fail: bool) -> &'static str {
        self.request(w, &Discharge { txn_id, fail: Some(fail) })
    }

    /// Sends messages in a transaction; their states.
    fn send_in(&mut self, w: &mut World, id: &[u8], bodies: &[&str]) -> Vec<&'static str> {
        let head = MessageHead::default();
        let template = TransferTemplate::transactional(0, SENDER, id, &head, self.client.frame_max()).expect("encodes");
        for body in bodies {
            self.client.publish(&template, body.as_bytes(), |_| {});
        }
        self.pump(w);
        self.states()
    }

    fn settle_in(&mut self, w: &mut World, id: &[u8], delivery: u32, outcome: &[u8]) {
        let mut state = Vec::new();
        TransactionalState { txn_id: id, outcome: value(outcome) }.write(&mut state);
        self.settle(w, delivery, delivery, DeliveryState::Other(value(&state)));
    }

    fn states(&mut self) -> Vec<&'static str> {
        self.told.drain(..).map(|it| it.1).collect()
    }
}

fn get(w: &mut World, client: usize) -> Seen {
    w.ask(client, 1, &BasicGet { queue: "q", no_ack: true, ..BasicGet::default() })
}

#[test]
fn a_transaction_takes_effect_when_it_is_committed_and_not_before() {
    let (mut w, [old]) = with_queue(Config::default());
    let mut new = LinkClient::transactional(&mut w, "/queues/q");
    let (first, second) = (new.declare(&mut w), new.declare(&mut w));
    // One of them takes three frames, which all name the transaction.
    let large = "z".repeat(300_000);
    assert_eq!(new.send_in(&mut w, &first, &["a", &large]), ["enlisted"; 2]);
    assert_eq!(new.send_in(&mut w, &second, &["never"]), ["enlisted"]);
    new.send(&mut w, &["at once"]);
    assert_eq!(new.states(), ["accepted"]);
    new.grant(&mut w, 9);
    assert_eq!(new.bodies(), ["at once"]);
    assert_eq!(new.discharge(&mut w, &first, false), "accepted");
    assert_eq!((new.states(), new.bodies()), (vec!["accepted"; 2], vec!["a".to_owned(), large.clone()]));
    assert_eq!(new.discharge(&mut w, &second, true), "accepted");
    assert_eq!((new.states(), new.bodies()), (vec!["released"], vec![]));
    // Deliveries: one outcome is undone, others hold.
    let (first, second) = (new.declare(&mut w), new.declare(&mut w));
    new.settle_in(&mut w, &first, 0, ACCEPTED);
    new.settle_in(&mut w, &second, 1, ACCEPTED);
    new.settle_in(&mut w, &second, 2, RELEASED);
    // What is in a transaction has its outcome.
    new.settle(&mut w, 0, 2, DeliveryState::Released);
    assert_eq!(new.bodies(), [""; 0]);
    assert_eq!(new.discharge(&mut w, &first, true), "accepted");
    assert_eq!(new.bodies(), ["at once!"]);
    assert_eq!(new.discharge(&mut w, &second, false), "accepted");
    assert_eq!(new.bodies(), [format!("{large}!")]);
    // Neither is there any more.
    assert_eq!(new.discharge(&mut w, &first, false), "unknown");
    assert_eq!(new.send_in(&mut w, &first, &["never"]), ["unknown"]);
    assert_eq!(new.ended, [""; 0]);
    new.settle_in(&mut w, &second, 3, ACCEPTED);
    assert_eq!(new.ended, ["amqp:transaction:unknown-id"]);
    assert_eq!(get(&mut w, old), Seen::GetOk { redelivered: true, left: 1, body: "at once".to_owned() });
    w.node.disconnect(new.key);
    assert_eq!(w.node.clear(), 0, "all memory is free");
}

#[test]
fn what_is_open_is_rolled_back_with_its_link_session_or_connection() {
    let limit = Config::default().memory_limit_bytes;
    for end in ["link", "session", "connection"] {
        let (mut w, [old]) = with_queue(Config::default());
        w.publish(old, "", "q", "there");
        w.pump();
        let mut new = LinkClient::transactional(&mut w, "/queues/q");
        new.grant(&mut w, 1);
        let id = new.declare(&mut w);
        new.settle_in(&mut w, &id, 0, ACCEPTED);
        let is_publisher = |w: &World, key| w.node.sessions.get(key).is_some_and(|it| it.peer.is_publisher);
        assert!(!is_publisher(&w, new.key), "a consumer that commits must not wait for memory");
        assert_eq!(new.send_in(&mut w, &id, &["never"]), ["enlisted"]);
        assert!(is_publisher(&w, new.key) && !w.node.vhost.memory.takes_in_transaction(limit / 4));
        match end {
            "link" => new.client.detach(0, COORDINATOR).expect("an open session"),
            "session" => new.client.end_session(0).expect("an open session"),
            _ => w.node.disconnect(new.key),
        }
        new.pump(&mut w);
        assert_eq!(new.states(), if end == "link" { vec!["released"] } else { vec![] });
        assert_eq!(get(&mut w, old), Seen::GetOk { redelivered: true, left: 0, body: "there".to_owned() }, "{end}");
        assert!(w.node.vhost.memory.takes_in_transaction(limit / 4));
        w.node.disconnect(new.key);
        assert_eq!(w.node.clear(), 0, "all memory is free");
    }
}

#[test]
fn a_transaction_that_cannot_be_committed_whole_is_rolled_back() {
    let mut w = world();
    let old = w.client();
    let arguments = table(&[("x-max-length", Value::I32(2)), ("x-overflow", Value::from("reject-publish"))]);
    w.ask(old, 1, &QueueDeclare { queue: "q", arguments: arguments.view(), ..QueueDeclare::default() });
    w.ask(old, 1, &ExchangeDeclare { exchange: "x", kind: "fanout", ..ExchangeDeclare::default() });
    w.ask(old, 1, &QueueBind { queue: "q", exchange: "x", ..QueueBind::default() });
    let mut new = LinkClient::transactional(&mut w, "/exchanges/x");
    for (bodies, outcome, state) in
        [(&["a", "b", "c"][..], "rolled back", "released"), (&["a", "b"], "accepted", "accepted")]
    {
        let id = new.declare(&mut w);
        new.send_in(&mut w, &id, bodies);
        assert_eq!(new.discharge(&mut w, &id, false), outcome);
        assert_eq!(new.states(), vec![state; bodies.len()]);
    }
    assert_eq!(get(&mut w, old), Seen::GetOk { redelivered: false, left: 1, body: "a".to_owned() });
    let id = new.declare(&mut w);
    new.send_in(&mut w, &id, &["c"]);
    w.ask(old, 1, &ExchangeDelete { exchange: "x", ..ExchangeDelete::default() });
    assert_eq!((new.discharge(&mut w, &id, false), new.states()), ("rolled back", vec!["released"]));
    assert_eq!(new.ended, [""; 0]);
}

#[test]
fn transactions_are_bounded_and_the_coordinator_answers_all() {
    let (mut w, [old]) = with_queue(Config { memory_limit_bytes: 64 << 10, ..Config::default() });
    let mut new = LinkClient::transactional(&mut w, "/queues/q");
    let id = new.declare(&mut w);
    let [large, half] = [20_000, 10_000].map(|len| "z".repeat(len));
    assert_eq!(new.send_in(&mut w, &id, &[&large, &half, &half]), ["too much", "enlisted", "too much"]);
    assert_eq!((new.discharge(&mut w, &id, false), new.states()), ("accepted", vec!["accepted"]));
    for _ in 0..64 {
        new.declare(&mut w);
    }
    assert_eq!(new.request(&mut w, &DeclareTransaction::default()), "too much");
    w.ask(old, 1, &QueuePurge { queue: "q", ..QueuePurge::default() });
    // Who sends settled hears it by the end of the link.
    let mut state = Vec::new();
    TransactionalState { txn_id: b"none", outcome: TypedValue::Null }.write(&mut state);
    for (handle, condition) in [(SENDER, "amqp:transaction:unknown-id"), (COORDINATOR, "amqp:not-allowed")] {
        let mut new = LinkClient::transactional(&mut w, "/queues/q");
        let transfer = Transfer {
            handle,
            delivery_id: Some(0),
            delivery_tag: Some(b"t"),
            settled: Some(true),
            state: Some(DeliveryState::Other(value(&state))),
            ..Transfer::default()
        };
        w.node.input(new.key, w.now, &mut frame(0, &transfer, b"\0\x53\x77\x40").as_slice());
        new.pump(&mut w);
        assert_eq!(new.ended, [condition]);
    }
    assert_eq!(get(&mut w, old), Seen::GetEmpty);
}

#[test]
fn what_one_protocol_publishes_the_other_consumes() {
    let (mut w, [old]) = with_queue(Config::default());
    let mut new = LinkClient::open(&mut w);
    new.attach(&mut w, SENDER, "/exchanges/amq.topic/a.b", false);
    new.attach(&mut w, RECEIVER, "/queues/q", false);
    w.ask(old, 1, &QueueBind { queue: "q", exchange: "amq.topic", routing_key: "a.*", ..QueueBind::default() });
    new.send(&mut w, &["from 1.0"]);
    assert_eq!(new.told, [(0, "accepted")]);
    let got = w.ask(old, 1, &BasicGet { queue: "q", no_ack: true, ..BasicGet::default() });
    assert_eq!(got, Seen::GetOk { redelivered: false, left: 0, body: "from 1.0".to_owned() });
    let mut headers = FieldTable::new();
    headers.insert("h", Value::Bytes(b"x")).unwrap();
    let properties = BasicProperties { headers: Some(headers.view()), ..BasicProperties::default() };
    let properties = properties.to_bytes().unwrap();
    let publish = BasicPublish { routing_key: "q", ..BasicPublish::default() };
    let large = "z".repeat(300_000);
    w.publish_as(old, &publish, Properties::from_bytes(&properties), &large);
    w.pump();
    assert_eq!(new.got, [], "no credit");
    new.grant(&mut w, 1);
    assert_eq!(new.bodies(), [large]);
    assert_eq!(new.header.take(), Some("Binary([120])".to_owned()));
    new.settle(&mut w, 0, 0, DeliveryState::Accepted);
    new.send(&mut w, &["there and back"]);
    new.grant(&mut w, 1);
    assert_eq!((new.bodies(), new.header.take()), (vec!["there and back".to_owned()], Some("Long(5)".to_owned())));
    new.settle(&mut w, 1, 1, DeliveryState::Accepted);
    // Properties that no frame of AMQP 0.9.1 holds would end their consumer's connection.
    let (mut message, half) = (Vec::new(), "p".repeat(100_000));
    let application_properties = &[("a", TypedValue::Str(&half)), ("b", TypedValue::Str(&half))];
    MessageHead { application_properties, ..MessageHead::default() }.write(&mut message);
    let (front, rest) = message.split_at(100_000);
    for (delivery_id, part, more) in [(Some(2), front, true), (None, rest, false)] {
        let transfer =
            Transfer { handle: SENDER, delivery_id, delivery_tag: Some(b"t"), more: Some(more), ..Transfer::default() };
        w.node.input(new.key, w.now, &mut frame(0, &transfer, part).as_slice());
    }
    new.pump(&mut w);
    assert_eq!(new.told.last(), Some(&(2, "rejected")));
    w.cut(old);
    w.node.disconnect(new.key);
    assert_eq!(w.node.clear(), 0, "all memory is free");
}

#[test]
fn sections_stay_as_they_came_over_one_protocol_and_are_converted_for_the_other() {
    let (mut w, [old]) = with_queue(Config::default());
    let mut new = LinkClient::open(&mut w);
    new.attach(&mut w, SENDER, "/queues/q", false);
    new.attach(&mut w, RECEIVER, "/queues/q", false);
    let properties = PropertiesSection { subject: Some("news"), ..PropertiesSection::default() };
    let mut head = Vec::new();
    MessageHead { properties, application_properties: &[("h", TypedValue::Long(5))], ..MessageHead::default() }
        .write(&mut head);
    let (value, sequence) = (&b"\0\x53\x77\xA1\x01v"[..], &b"\0\x53\x76\xC0\x05\x02\x54\x01\x54\x02"[..]);
    let parts = &b"\0\x53\x75\xA0\x01a\0\x53\x75\xA0\x01b"[..];
    let bodies = [(value, value), (sequence, sequence), (parts, &b"ab"[..])];
    for (id, (body, converted)) in (0..).zip(bodies) {
        let message = [&head[..], body].concat();
        new.transfer(&mut w, id, false, &message);
        new.grant(&mut w, 1);
        assert_eq!(new.sections, message);
        new.settle(&mut w, id, id, DeliveryState::Released);
        let got = w.ask(old, 1, &BasicGet { queue: "q", no_ack: true, ..BasicGet::default() });
        let body = String::from_utf8_lossy(converted).into_owned();
        assert_eq!(got, Seen::GetOk { redelivered: true, left: 0, body });
    }
    // A dead letter keeps them, and says why it died.
    let arguments =
        table(&[("x-dead-letter-exchange", Value::from("")), ("x-dead-letter-routing-key", Value::from("q"))]);
    w.ask(old, 1, &QueueDeclare { queue: "dying", arguments: arguments.view(), ..QueueDeclare::default() });
    let mut other = LinkClient::open(&mut w);
    other.attach(&mut w, SENDER, "/queues/dying", false);
    other.attach(&mut w, RECEIVER, "/queues/dying", false);
    let mut message = Vec::new();
    let forged = ["x-first-death-reason", "x-first-death-queue"].map(|name| (name, TypedValue::Str("forged")));
    MessageHead { properties, application_properties: &forged, ..MessageHead::default() }.write(&mut message);
    message.extend_from_slice(value);
    other.transfer(&mut w, 0, false, &message);
    other.grant(&mut w, 1);
    assert_eq!(other.sections, message, "it never died");
    other.settle(&mut w, 0, 0, DeliveryState::Rejected(Rejected::default()));
    new.grant(&mut w, 1);
    let annotations = new.sections.strip_suffix(&*message).expect("all sections").to_vec();
    assert!(annotations.ends_with(b"x-first-death-exchange\xA1\0"), "{annotations:x?}");
    assert!(annotations.windows(8).any(|it| it == b"rejected"), "{annotations:x?}");
    // One that is sent again as it came dies again.
    let last = new.got.last().map_or(0, |it| it.0);
    new.settle(&mut w, last, last, DeliveryState::Accepted);
    let again = new.sections.clone();
    other.transfer(&mut w, 1, false, &again);
    other.grant(&mut w, 1);
    other.settle(&mut w, 1, 1, DeliveryState::Rejected(Rejected::default()));
    new.grant(&mut w, 1);
    let count = new.sections.windows(19).filter(|it| it == b"x-first-death-queue").count();
    assert_eq!(count, 2, "an annotation, and the application property: {:x?}", new.sections);
}

#[test]
fn a_link_without_an_address_sends_each_message_to_its_own() {
    let (mut w, [old]) = with_queue(Config::default());
    let mut new = LinkClient::open(&mut w);
    new.attach_to(&mut w, SENDER, &Default::default(), false);
    let message = |to: &str| {
        let to = Some(to).filter(|it| !it.is_empty()).map_or(TypedValue::Null, TypedValue::Str);
        let mut message = Vec::new();
        PropertiesSection { to, ..PropertiesSection::default() }.write(&mut message);
        message.extend_from_slice(b"\0\x53\x75\xA0\x01x");
        message
    };
    let all = [
        ("/queues/q", "accepted"),
        ("/queues/q", "accepted"),
        ("/queues/nowhere", "released"),
        ("/exchanges/nowhere/k", "not found"),
        ("/queue/q", "not found"),
        ("", "not found"),
        ("/exchanges/amq.fanout", "released"),
        ("q", "accepted"),
    ];
    for (id, (to, state)) in (0..).zip(all) {
        new.transfer(&mut w, id, false, &message(to));
        assert_eq!(new.told.last(), Some(&(id, state)), "{to}");
    }
    assert_eq!(new.ended, [""; 0]);
    // The sender of a settled one hears no other way.
    new.transfer(&mut w, all.len() as u32, true, &message("/queue/q"));
    assert_eq!(new.ended, ["amqp:not-found"]);
    let got = w.ask(old, 1, &BasicGet { queue: "q", no_ack: true, ..BasicGet::default() });
    assert_eq!(got, Seen::GetOk { redelivered: false, left: 2, body: "x".to_owned() });
}

#[test]
fn a_dynamic_link_has_a_queue_of_its_own_for_as_long_as_it_is_there() {
    let (mut w, [old]) = with_queue(Config::default());
    let mut asking = LinkClient::open(&mut w);
    let source = Source { dynamic: Some(true), ..Source::default() };
    asking.attach_to(&mut w, RECEIVER, &(source, Target::default()), false);
    let queue = asking.address.strip_prefix("/queues/").expect("a queue").to_owned();
    asking.grant(&mut w, 2);
    let mut answering = LinkClient::open(&mut w);
    answering.attach(&mut w, SENDER, &asking.address, false);
    answering.send(&mut w, &["from 1.0"]);
    w.publish(old, "", &queue, "from 0.9.1");
    w.pump();
    asking.pump(&mut w);
    assert_eq!(asking.bodies(), ["from 1.0", "from 0.9.1"]);
    answering.attach(&mut w, RECEIVER, &asking.address, false);
    assert_eq!(answering.ended, ["amqp:resource-locked"], "nobody else reads it");
    asking.client.detach(0, RECEIVER).expect("an open session");
    asking.pump(&mut w);
    assert_eq!(w.node.vhost.queues.len(), 1);
    // One that a client sends to is read by others.
    let target = Target { dynamic: Some(true), ..Target::default() };
    asking.attach_to(&mut w, SENDER, &(Source::default(), target), false);
    asking.send(&mut w, &["kept"]);
    let mut reading = LinkClient::open(&mut w);
    reading.attach(&mut w, RECEIVER, &asking.address, true);
    reading.grant(&mut w, 1);
    assert_eq!(reading.bodies(), ["kept"]);
    w.node.disconnect(asking.key);
    reading.pump(&mut w);
    assert_eq!((&reading.ended[..], w.node.vhost.queues.len()), (&["amqp:resource-deleted".to_owned()][..], 1));
}

#[test]
fn a_stream_is_read_over_a_link_from_where_that_says() {
    let mut w = world();
    let old = w.client();
    let arguments = table(&[("x-queue-type", Value::from("stream"))]);
    w.ask(old, 1, &QueueDeclare { queue: "s", durable: true, arguments: arguments.view(), ..QueueDeclare::default() });
    w.publish_numbers(old, "s", 0..2);
    let mut new = LinkClient::open(&mut w);
    new.attach(&mut w, SENDER, "/queues/s", false);
    new.send(&mut w, &["2"]);
    let open = |w: &mut World, offset: TypedValue<'_>, settled: bool| {
        let mut filter = Vec::new();
        put_map(&mut filter, |out| {
            TypedValue::Symbol(Symbol("rabbitmq:stream-offset-spec")).write(out);
            offset.write(out);
            2
        });
        let filter = TypedValue::read(&mut Reader::new(&filter)).expect("a map");
        let source = Source { address: TypedValue::Str("/queues/s"), filter, ..Source::default() };
        let mut new = LinkClient::open(w);
        new.attach_to(w, RECEIVER, &(source, Target::default()), settled);
        new
    };
    for (offset, settled, bodies) in [
        (TypedValue::Str("first"), false, &["0", "1", "2"][..]),
        (TypedValue::Ulong(1), true, &["1", "2"]),
        (TypedValue::Str("next"), false, &[]),
        (TypedValue::Null, true, &[]),
    ] {
        let mut new = open(&mut w, offset, settled);
        new.grant(&mut w, 2);
        new.grant(&mut w, 2);
        assert_eq!(new.bodies(), bodies, "{offset:?}");
        let place = b"x-stream-offset\x55\x02";
        let has_place = new.sections.windows(place.len()).any(|it| it == place);
        assert_eq!(has_place, !bodies.is_empty(), "{:x?}", new.sections);
        if has_place {
            new.settle(&mut w, 0, 0, DeliveryState::Accepted);
        }
        assert_eq!(new.ended, [""; 0]);
    }
    let mut new = open(&mut w, TypedValue::Str("first"), false);
    new.grant(&mut w, 1);
    assert_eq!(new.bodies(), ["0"], "by its credit");
    // Whatever cannot be followed is refused: it was confirmed, and the link began at the next message.
    let list = TypedValue::read(&mut Reader::new(&[0x45])).expect("a list");
    for offset in [TypedValue::Str("yesterday"), TypedValue::Ulong(u64::MAX), list] {
        assert_eq!(open(&mut w, offset, false).ended, ["amqp:precondition-failed"], "{offset:?}");
    }
}

/// A client that settles nothing let the lists of its deliveries grow without end.
#[test]
fn unsettled_deliveries_of_a_stream_are_bounded_and_counted() {
    let mut w = World::new(Config { memory_limit_bytes: 128 << 10, ..Config::default() });
    let old = w.client();
    let arguments = table(&[("x-queue-type", Value::from("stream"))]);
    w.ask(old, 1, &QueueDeclare { queue: "s", durable: true, arguments: arguments.view(), ..QueueDeclare::default() });
    let mut new = LinkClient::open(&mut w);
    new.attach(&mut w, RECEIVER, "/queues/s", false);
    new.grant(&mut w, 1_000_000);
    w.publish_numbers(old, "s", 0..400);
    new.pump(&mut w);
    assert_eq!(new.bodies().len(), 256, "64 bytes each of an eighth");
    new.settle(&mut w, 0, 99, DeliveryState::Accepted);
    assert_eq!(new.bodies().len(), 100);
    new.client.detach(0, RECEIVER).expect("an open session");
    new.pump(&mut w);
    w.cut(old);
    w.node.disconnect(new.key);
    assert_eq!(w.node.clear(), 0, "all memory is free");
}

#[test]
fn transfers_are_accepted_released_or_rejected() {
    let mut w = world();
    let old = w.client();
    let arguments = table(&[("x-max-length", Value::I32(2)), ("x-overflow", Value::from("reject-publish"))]);
    w.ask(old, 1, &QueueDeclare { queue: "q", arguments: arguments.view(), ..QueueDeclare::default() });
    let mut new = LinkClient::open(&mut w);
    new.attach(&mut w, SENDER, "/queues/q", false);
    new.send(&mut w, &["a", "b", "c"]);
    assert_eq!(new.told, [(0, "accepted"), (1, "accepted"), (2, "rejected")]);
    w.ask(old, 1, &QueueDelete { queue: "q", ..QueueDelete::default() });
    new.send(&mut w, &["d"]);
    assert_eq!(new.told[3..], [(3, "released")]);
    // An exchange that goes takes the link with it.
    let mut other = LinkClient::open(&mut w);
    other.attach(&mut w, SENDER, "/exchanges/amq.fanout", false);
    other.send(&mut w, &["e"]);
    assert_eq!(other.told, [(0, "released")]);
    let exchange = ExchangeDeclare { exchange: "x", kind: "fanout", ..ExchangeDeclare::default() };
    w.ask(old, 1, &exchange);
    let mut third = LinkClient::open(&mut w);
    third.attach(&mut w, SENDER, "/exchanges/x/k", false);
    w.ask(old, 1, &ExchangeDelete { exchange: "x", ..ExchangeDelete::default() });
    third.send(&mut w, &["f"]);
    assert_eq!((&third.ended[..], &third.told[..]), (&["amqp:not-found".to_owned()][..], &[][..]));
}

#[test]
fn deliveries_go_by_credit_and_come_back_unless_they_are_settled() {
    let (mut w, [old]) = with_queue(Config::default());
    w.queue(old, "dead");
    w.publish_numbers(old, "q", 0..6);
    let mut new = LinkClient::open(&mut w);
    new.attach(&mut w, RECEIVER, "/queues/q", false);
    new.grant(&mut w, 2);
    assert_eq!(new.bodies(), ["0", "1"]);
    new.grant(&mut w, 2);
    assert_eq!(new.bodies(), ["2", "3"]);
    new.settle(&mut w, 1, 2, DeliveryState::Released);
    new.settle(&mut w, 0, 1, DeliveryState::Accepted);
    new.settle(
        &mut w,
        3,
        3,
        DeliveryState::Modified(Modified { undeliverable_here: Some(true), ..Default::default() }),
    );
    new.grant(&mut w, 3);
    assert_eq!(new.bodies(), ["1!", "2!", "4"], "the fourth was refused for good; a release counts as no failure");
    let failed = || DeliveryState::Modified(Modified { delivery_failed: Some(true), ..Default::default() });
    for (id, again) in [(6, "4!1"), (7, "4!2")] {
        new.settle(&mut w, id, id, failed());
        new.grant(&mut w, 1);
        assert_eq!(new.bodies(), [again]);
    }
    new.settle(&mut w, 4, 4, DeliveryState::Rejected(Rejected::default()));
    // One that is gone twice, and one that never came.
    new.settle(&mut w, 4, 4, DeliveryState::Accepted);
    assert_eq!(new.ended, [""; 0]);
    new.client.detach(0, RECEIVER).expect("an open session");
    new.pump(&mut w);
    let mut other = LinkClient::open(&mut w);
    other.attach(&mut w, RECEIVER, "q", true);
    other.grant(&mut w, 1);
    assert_eq!(other.bodies(), ["2!"], "what the link had comes back to the queue");
    // A drain uses up what is left.
    let flow = Flow {
        handle: Some(RECEIVER),
        delivery_count: Some(1),
        link_credit: Some(9),
        incoming_window: 1_000,
        drain: Some(true),
        ..Flow::default()
    };
    w.node.input(other.key, w.now, &mut frame(0, &flow, &[]).as_slice());
    other.pump(&mut w);
    assert_eq!(other.bodies(), ["4!2", "5"]);
    w.publish_numbers(old, "q", 7..8);
    other.pump(&mut w);
    assert_eq!(other.bodies(), [""; 0], "the credit is gone");
    other.settle(&mut w, 77, 77, DeliveryState::Accepted);
    assert_eq!(other.ended, ["amqp:not-allowed"], "nobody settles what was not sent");
}

#[test]
fn links_end_with_their_queues_and_lead_nowhere_else() {
    let (mut w, [old]) = with_queue(Config::default());
    w.ask(old, 1, &QueueDeclare { queue: "mine", exclusive: true, ..QueueDeclare::default() });
    for (handle, address, condition) in [
        (RECEIVER, "/queues/nowhere", "amqp:not-found"),
        (RECEIVER, "/queues/mine", "amqp:resource-locked"),
        (RECEIVER, "topic://t", "amqp:not-implemented"),
        (RECEIVER, "/management", "amqp:precondition-failed"),
        (SENDER, "/exchanges/nowhere/k", "amqp:not-found"),
        (SENDER, "", "amqp:not-implemented"),
    ] {
        let mut new = LinkClient::open(&mut w);
        new.attach(&mut w, handle, address, false);
        assert_eq!(new.ended, [condition], "{address}");
    }
    let mut new = LinkClient::open(&mut w);
    new.attach(&mut w, RECEIVER, "/queues/q", false);
    w.ask(old, 1, &QueueDelete { queue: "q", ..QueueDelete::default() });
    new.pump(&mut w);
    assert_eq!(new.ended, ["amqp:resource-deleted"]);
    let vhost = Amqp10Config { hostname: "vhost:other".to_owned(), ..Amqp10Config::default() };
    assert_eq!(LinkClient::connect(&mut w, vhost).ended, ["amqp:not-allowed"]);
    let wrong = Amqp10Config { password: Secret::from("wrong"), ..Amqp10Config::default() };
    assert!(LinkClient::connect(&mut w, wrong).ended[0].contains("wrong user or password"));
}

#[test]
fn nobody_is_let_in_without_a_password_where_guest_has_another() {
    for (password, comes_in) in [("guest", true), ("secret", false)] {
        let mut w = World::new(Config { users: vec![User::new("guest", password)], ..Config::default() });
        let mechanism = SaslMechanism::Anonymous;
        let new = LinkClient::connect(&mut w, Amqp10Config { mechanism, ..Amqp10Config::default() });
        assert_eq!(new.ended.is_empty(), comes_in, "{:?}", new.ended);
        // Nor by leaving the login out.
        let key = w.node.connect(w.now, false);
        for piece in [&b"AMQP\0"[..], b"AMQP\0\x01\0\0"] {
            w.node.input(key, w.now, &mut &*piece);
        }
        assert_eq!(w.node.verdict(key) == Verdict::Read, comes_in);
        if comes_in {
            let user = "nobody".to_owned();
            let old = w.arrive(ClientConfig { mechanism: Mechanism::Anonymous, user, ..guest() });
            assert_eq!(w.seen(old), [Seen::Open]);
        }
    }
}

#[test]
fn users_log_in_by_scram_with_their_own_passwords_alone() {
    let mut w = World::new(Config { users: vec![User::new("a,b", "secret")], ..Config::default() });
    for (name, password, comes_in) in
        [("a,b", "secret", true), ("a,b", "wrong", false), ("guest", "guest", false), ("a,b", "secret", true)]
    {
        let (user, password) = (name.to_owned(), Secret::from(password));
        let (mechanism, nonce) = (SaslMechanism::ScramSha256, "nonce".to_owned());
        let config = Amqp10Config { user, password, mechanism, nonce, ..Amqp10Config::default() };
        let new = LinkClient::connect(&mut w, config);
        assert_eq!(new.ended.is_empty(), comes_in, "{name}: {:?}", new.ended);
    }
    // Whether there is a user of a name is not to be seen.
    let challenge = |name: &str| match Peer::begin_scram(name, &[]) {
        Reply::Challenge(keys) => keys,
        other => panic!("{other:?}"),
    };
    assert!(challenge("nobody") == challenge("nobody") && challenge("nobody") != challenge("other"));
}

#[test]
fn queues_exchanges_and_bindings_are_made_over_one_protocol_alone() {
    let mut w = world();
    let old = w.client();
    let mut new = LinkClient::open(&mut w);
    new.attach(&mut w, SENDER, "/management", true);
    new.attach(&mut w, RECEIVER, "/management", true);
    new.grant(&mut w, 100);
    let map = |fields: &[(&str, TypedValue<'_>)]| {
        let mut map = Vec::new();
        put_map(&mut map, |out| {
            for (name, value) in fields {
                TypedValue::Str(name).write(out);
                value.write(out);
            }
            2 * fields.len() as u32
        });
        map
    };
    let of = |map: &'static [u8]| TypedValue::read(&mut Reader::new(map)).expect("a map");
    let limit = of(b"\xC1\x11\x02\xA1\x0Cx-max-length\x54\x05");
    let wider = of(b"\xC1\x11\x02\xA1\x0Cx-max-length\x54\x06");
    let text = "x".repeat(1_025);
    let long = map(&[("x-queue-type", TypedValue::Str(&text))]);
    let long = map(&[("arguments", TypedValue::read(&mut Reader::new(&long)).expect("a map"))]);
    let queue = |arguments| map(&[("durable", TypedValue::Bool(true)), ("arguments", arguments)]);
    let binding = map(&[
        ("source", TypedValue::Str("x y")),
        ("destination_queue", TypedValue::Str("a/b")),
        ("binding_key", TypedValue::Str("k")),
    ]);
    let mut ids = 0..;
    let mut ask = |w: &mut World, new: &mut LinkClient, method: &str, path: &str, body: &[u8]| {
        new.ask(w, ids.next().expect("a number"), (method, path), body)
    };
    let null = [0x40];
    for (method, path, body, status) in [
        ("GET", "/queues/a%2Fb", &null[..], "404"),
        ("PUT", "/queues/a%2Fb", &queue(limit)[..], "201"),
        ("PUT", "/queues/a%2Fb", &queue(limit)[..], "200"),
        ("PUT", "/queues/a%2Fb", &queue(wider)[..], "409"),
        ("GET", "/queues/a%2Fb", &null[..], "200"),
        ("PUT", "/queues/amq.mine", &null[..], "403"),
        // An argument that is too long is left out.
        ("PUT", "/queues/long", &long[..], "201"),
        ("PUT", "/exchanges/x%20y", &map(&[("type", TypedValue::Str("topic"))])[..], "204"),
        ("POST", "/bindings", &binding[..], "204"),
        ("POST", "/bindings", &null[..], "404"),
        ("PATCH", "/queues/a", &null[..], "404"),
    ] {
        assert_eq!(ask(&mut w, &mut new, method, path, body), status, "{method} {path}");
    }
    w.publish(old, "x y", "k", "bound");
    w.pump();
    let binding = "/bindings/src=x%20y;dstq=a%2Fb;key=k;args=";
    assert_eq!(ask(&mut w, &mut new, "DELETE", &format!("{binding}{}", "z".repeat(16_384)), &null), "404");
    assert_eq!(ask(&mut w, &mut new, "DELETE", binding, &null), "204");
    w.publish(old, "x y", "k", "unbound");
    let got = w.ask(old, 1, &BasicGet { queue: "a/b", no_ack: true, ..BasicGet::default() });
    assert_eq!(got, Seen::GetOk { redelivered: false, left: 0, body: "bound".to_owned() });
    for (path, status) in [
        ("/queues/a%2Fb/messages", "200"),
        ("/queues/a%2Fb", "200"),
        ("/queues/long", "200"),
        ("/exchanges/x%20y", "204"),
        ("/bindings/x", "404"),
    ] {
        assert_eq!(ask(&mut w, &mut new, "DELETE", path, &null), status, "{path}");
    }
    assert!(new.ended.is_empty() && w.node.vhost.queues.len() == 0, "{:?}", new.ended);
}

fn fault(kind: FaultKind, count: u64) -> Fault {
    Fault { count: Some(count), ..Fault::new(kind) }
}

#[test]
fn faults_hit_links_as_they_hit_channels() {
    let faults = [
        fault(FaultKind::Nack, 1),
        fault(FaultKind::SlowAck(Nanos::from_millis(50)), 1),
        fault(FaultKind::Duplicate { redelivered: false }, 1),
        fault(FaultKind::Lose, 1),
    ];
    let log = FaultLog::default();
    let mut w = World::with_log(Config { faults: faults.to_vec(), ..Config::default() }, log.clone());
    let old = w.client();
    w.queue(old, "q");
    let mut new = LinkClient::open(&mut w);
    new.attach(&mut w, SENDER, "/queues/q", false);
    new.attach(&mut w, RECEIVER, "/queues/q", true);
    new.send(&mut w, &["refused", "twice", "lost", "kept"]);
    assert_eq!(new.told, [], "the first answer is late, and others wait for it");
    w.now = w.now + Nanos::from_millis(50);
    new.pump(&mut w);
    assert_eq!(new.told, [(0, "rejected"), (1, "accepted"), (2, "accepted"), (3, "accepted")]);
    new.grant(&mut w, 9);
    assert_eq!(new.bodies(), ["twice", "twice", "kept"]);
    assert_eq!(log.injections().faults.iter().map(|it| it.count).collect::<Vec<_>>(), [1; 4]);
}

#[test]
fn connection_faults_end_sessions_and_connections_with_their_conditions() {
    for (kind, condition) in [
        (FaultKind::CloseChannel, "amqp:precondition-failed"),
        (FaultKind::Drop { in_order: true }, "amqp:connection:forced"),
    ] {
        let at = Some(Nanos::from_millis(10));
        let faults = vec![Fault { at, ..fault(kind, 1) }];
        let mut w = World::new(Config { faults, ..Config::default() });
        let mut new = LinkClient::open(&mut w);
        w.now = w.now + Nanos::from_millis(20);
        new.pump(&mut w);
        assert_eq!(new.ended, [condition]);
    }
}

#[test]
fn damaged_links_harm_nobody_else() {
    let (mut w, [old]) = with_queue(Config::default());
    let mut sent = Vec::new();
    let mut client = Amqp10Client::new(Amqp10Config::default(), w.now);
    let key = w.node.connect(w.now, false);
    // A whole conversation, as a client has it.
    for step in 0..12 {
        match step {
            4 => client.begin(0).expect("open"),
            6 => {
                for (name, handle) in [("s", SENDER), ("r", RECEIVER), ("c", COORDINATOR)] {
                    let source = Some(Source { address: TypedValue::Str("q"), ..Source::default() });
                    let attach = Attach { name, handle, is_receiver: handle == RECEIVER, source, ..Attach::default() };
                    let target = if handle == COORDINATOR { value(b"\0\x53\x30\x45") } else { attach.target };
                    client.attach(0, &Attach { target, ..attach }).expect("attaches");
                }
            }
            7 => assert!(client.send_value(0, COORDINATOR, &DeclareTransaction::default()).is_some()),
            9 => assert!(client.send_value(0, COORDINATOR, &Discharge { txn_id: &[0; 8], fail: None }).is_some()),
            8 => client.flow(0, RECEIVER, 5, true),
            10 => client.close(w.now),
            _ => {}
        }
        sent.extend_from_slice(client.pending_output());
        let said = client.pending_output().to_vec();
        client.consume_output(said.len());
        w.node.input(key, w.now, &mut said.as_slice());
        w.node.turn();
        let back = w.node.output(key).to_vec();
        w.node.written(key, back.len());
        let mut input = back.as_slice();
        while client.poll(w.now, &mut input).expect("a broker").is_some() {}
    }
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..3_000 {
        let mut bytes = sent.clone();
        for _ in 0..=random(3) {
            let at = 8 + random(bytes.len() - 8);
            bytes[at] = random(256) as u8;
        }
        let key = w.node.connect(w.now, false);
        let mut left = bytes.as_slice();
        while w.node.verdict(key) == Verdict::Read && !left.is_empty() {
            let mut piece = &left[..left.len().min(1 + random(200))];
            let offered = piece.len();
            w.node.input(key, w.now, &mut piece);
            let used = offered - piece.len();
            w.node.turn();
            w.node.written(key, w.node.output(key).len());
            if used == 0 && random(4) == 0 {
                break;
            }
            left = &left[used..];
        }
        w.node.disconnect(key);
    }
    w.publish(old, "", "q", "alive");
    let got = w.ask(old, 1, &BasicGet { queue: "q", no_ack: true, ..BasicGet::default() });
    assert_eq!(got, Seen::GetOk { redelivered: false, left: 0, body: "alive".to_owned() });
}
