//! The engine over a second protocol, so that nothing of the first one is left in it: a toy without
//! channels, whose subscriptions are known by their topics, and whose acknowledgements are cumulative.
//!
//! ```text
//! frame: kind u8, length u32 (little-endian), payload
//! to the broker     L login   S topic u8   P topic u8, body     A delivery u64   F fence   B bye
//! to the client     l         s topic u8   M topic u8, tag u64, body   C message u64   f   b
//! ```

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use measure::{Nanos, Slice, Time};

use super::*;
use crate::protocol::{
    BodyLengths, Confirm, ConnectionSpec, Event, Named, Outgoing, Progress, Received, Receiver, Routing, RoutingAddress,
    Sender, Server, WireSizes,
};
use crate::resolve::Addresses;
use crate::{Destination, Endpoint, Group, Phases, Sizes, System};
use plan::payload::FULL_LEN;
use transport::ConnectOptions;

const HEAD: usize = 5;

fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut frame = vec![kind, 0, 0, 0, 0];
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    let len = (frame.len() - HEAD) as u32;
    frame[1..HEAD].copy_from_slice(&len.to_le_bytes());
    frame
}

fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let len = u32::from_le_bytes(bytes.get(1..HEAD)?.try_into().ok()?) as usize;
    let payload = bytes.get(HEAD..HEAD + len)?;
    Some((bytes[0], payload, &bytes[HEAD + len..]))
}

fn topic_of(destination: &Destination) -> u8 {
    destination.name.as_bytes()[0]
}

#[derive(Clone, Copy, Debug)]
enum ToyClient {
    Producer { topic: u8, size: usize },
    Consumer { topic: u8 },
}

struct Toy {
    spec: ConnectionSpec<ToyClient>,
    out: Vec<u8>,
    answer: u8,
    unanswered: usize,
    is_ready: bool,
}

impl Toy {
    fn login() -> Vec<u8> {
        frame(b'L', &[])
    }

    fn consumer_of(&self, topic: u8) -> Option<usize> {
        let consumes = |client: &ToyClient| matches!(client, ToyClient::Consumer { topic: t } if *t == topic);
        self.spec.clients.iter().position(consumes)
    }
}

/// Topics are what they are: no bindings, no patterns.
struct ToyRouting;

impl Routing for ToyRouting {
    type Address = ToyAddress;

    fn new<'a>(_: impl Iterator<Item = Named<'a>> + Clone) -> Self {
        Self
    }

    fn published(&self, cluster: usize, to: &Destination, _: Option<String>) -> ToyAddress {
        ToyAddress(cluster, topic_of(to))
    }

    fn bindings(&self, cluster: usize, from: &Destination) -> Vec<ToyAddress> {
        vec![ToyAddress(cluster, topic_of(from))]
    }

    fn everyone_gets_all(_: &Destination) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ToyAddress(usize, u8);

impl RoutingAddress for ToyAddress {
    fn is_pattern(&self) -> bool {
        false
    }

    fn takes(&self) -> impl Fn(&Self) -> bool {
        move |published| self == published
    }
}

impl Connection for Toy {
    type ClientSpec = ToyClient;
    type Routing = ToyRouting;
    type Admin<'a, E: Environment> = ToyAdmin;
    type Handle<'a> = ToyHandle<'a>;

    const SIZES: WireSizes = WireSizes {
        frame_max: 4_096,
        acknowledgement: HEAD + 8,
        commit: 0,
        smallest_delivery: HEAD + 9,
        delivery_head: HEAD + 9,
    };

    fn validate(group: &Group) -> Result<(), Error> {
        let names_nothing = |destination: &Destination| destination.name.is_empty();
        match group.destinations.iter().any(names_nothing) {
            true => Err(Error::invalid("a topic has no name", "name it")),
            false => Ok(()),
        }
    }

    fn consumer(group: &Group, n: usize, _: bool) -> Result<ToyClient, Error> {
        let topic = topic_of(&group.destinations[n % group.destinations.len()]);
        Ok(ToyClient::Consumer { topic })
    }

    fn producer(_: &Group, to: &Destination, outgoing: Outgoing) -> Result<ToyClient, Error> {
        let BodyLengths::Same(size) = outgoing.bodies else {
            return Err(Error::invalid("bodies differ", "ask for one size"));
        };
        Ok(ToyClient::Producer { topic: topic_of(to), size })
    }

    fn queue_of(_: &Group, _: usize) -> Option<String> {
        None
    }

    fn trace_header(_: &[u8]) -> Option<&[u8]> {
        None
    }

    fn new(spec: ConnectionSpec<ToyClient>, _: Time) -> Self {
        Self { spec, out: Self::login(), answer: 0, unanswered: 1, is_ready: false }
    }

    fn restart(&mut self, _: Option<&Endpoint>, _: Time) {
        (self.out, self.unanswered, self.is_ready) = (Self::login(), 1, false);
    }

    fn endpoint(&self) -> &Endpoint {
        &self.spec.endpoint
    }

    fn poll<'a, 'i: 'a>(&'a mut self, _: Time, input: &mut &'i [u8]) -> Result<Option<(usize, Event<'a>)>, Error> {
        let Some((kind, payload, rest)) = split(input) else {
            return Ok(None);
        };
        *input = rest;
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
        Ok(Some(match kind {
            b'M' => {
                let client = self.consumer_of(payload[0]).expect("a subscription");
                let tag = number(&payload[1..]);
                let delivery = Received { body: &payload[9..], properties: &[], redelivered: false };
                (client, Event::Delivery { tag, delivery })
            }
            b'C' => (0, Event::Confirm(Confirm::of(number(payload)))),
            kind => {
                self.answer = kind;
                (0, Event::Answer)
            }
        }))
    }

    fn proceed(&mut self, _: Time) -> Result<Progress, Error> {
        self.unanswered -= 1;
        match self.answer {
            b'l' => {
                for client in &self.spec.clients {
                    if let ToyClient::Consumer { topic } = client {
                        self.out.extend(frame(b'S', &[&[*topic]]));
                        self.unanswered += 1;
                    }
                }
            }
            b's' => {}
            b'b' => return Ok(Progress::Closed),
            _ => return Ok(Progress::Answered),
        }
        if self.unanswered > 0 || std::mem::replace(&mut self.is_ready, true) {
            return Ok(Progress::Waiting);
        }
        Ok(Progress::Ready)
    }

    fn handle(&mut self, client: usize) -> ToyHandle<'_> {
        ToyHandle(&mut self.out, self.spec.clients[client])
    }

    fn fence(&mut self, _: usize) -> Result<(), Error> {
        self.unanswered += 1;
        self.out.extend(frame(b'F', &[]));
        Ok(())
    }

    fn is_answered(&self) -> bool {
        self.unanswered == 0
    }

    fn reserve(&mut self, output: usize) {
        self.out.reserve(output);
    }

    fn leave(&mut self, _: Time) -> Result<(), Error> {
        self.unanswered += 1;
        self.out.extend(frame(b'B', &[]));
        Ok(())
    }

    fn pending_output(&self) -> &[u8] {
        &self.out
    }

    fn consume_output(&mut self, bytes: usize) {
        self.out.drain(..bytes);
    }

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _: Time) -> Result<(), Error> {
        Ok(())
    }

    fn excuse_silence(&mut self, _: Time) {}

    fn needs(&self, _: &[u8]) -> usize {
        0
    }

    fn end_of_input(&self, _: &[u8]) -> Error {
        Error::invalid("the toy broker ended", "")
    }

    fn transport_failed(&self, error: &std::io::Error) -> Error {
        Error::invalid(error.to_string(), "")
    }

    fn timed_out(&self, _: Nanos) -> Error {
        Error::invalid("the toy broker is silent", "")
    }
}

struct ToyHandle<'a>(&'a mut Vec<u8>, ToyClient);

impl Sender for ToyHandle<'_> {
    fn publish(&mut self, fill: impl FnOnce(&mut [u8])) {
        if let ToyClient::Producer { topic, size } = self.1 {
            let mut body = vec![0; size];
            fill(&mut body);
            self.0.extend(frame(b'P', &[&[topic], &body]));
        }
    }

    fn publish_body(&mut self, _: &[u8], _: impl FnOnce(&mut [u8])) {}
    fn set_message_id(&mut self, _: &[u8]) {}
    fn set_timestamp(&mut self, _: u64) {}
    fn set_trace_header(&mut self, _: &[u8; FULL_LEN]) {}

    fn message_wire_len(&self) -> (usize, usize) {
        match self.1 {
            ToyClient::Producer { size, .. } => (HEAD + 1 + size, HEAD + 1 + size),
            ToyClient::Consumer { .. } => (1, 1),
        }
    }

    fn pending(&self) -> usize {
        self.0.len()
    }
}

impl Receiver for ToyHandle<'_> {
    fn acknowledge(&mut self, tag: u64, _: bool) {
        self.0.extend(frame(b'A', &[&tag.to_le_bytes()]));
    }

    fn refuse(&mut self, _: u64, _: bool, _: bool) {}

    fn subscribe(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

struct ToyAdmin(Server);

impl<'a, E: Environment> Admin<'a, E> for ToyAdmin {
    fn connect(
        environment: &E,
        endpoint: &Endpoint,
        _: ConnectOptions,
        timeout: Nanos,
        control: &'a Control,
    ) -> Result<Self, Interruption> {
        let addresses = Addresses::of(environment, endpoint, timeout, control)?;
        Ok(Self(Server {
            product: "Toy".into(),
            version: String::new(),
            cluster: String::new(),
            address: addresses.in_turn(0, None)[0],
            addresses,
            round_trip: Nanos::ZERO,
            answer: Nanos::ZERO,
            most_clients: 8,
        }))
    }

    fn server(&self) -> &Server {
        &self.0
    }

    fn prepare(&mut self, _: &Group, _: &mut Vec<Made>) -> Result<(), Interruption> {
        Ok(())
    }

    fn purge(&mut self, _: &Group) -> Result<(), Interruption> {
        Ok(())
    }

    fn delete(&mut self, _: &Made) -> Result<(), Interruption> {
        Ok(())
    }

    fn depth(&mut self, _: &str) -> Result<Option<(u32, u32)>, Interruption> {
        Ok(None)
    }

    fn close(self) -> Result<(), Interruption> {
        Ok(())
    }
}

/// By topic: the subscribers, and how many deliveries each has had.
type Subscribers = Arc<Mutex<HashMap<u8, Vec<(TcpStream, u64)>>>>;

/// A broker whose thread ends with its connections.
fn broker() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let subscribers = Subscribers::default();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let subscribers = Arc::clone(&subscribers);
            std::thread::spawn(move || serve(stream, &subscribers));
        }
    });
    address
}

fn serve(mut stream: TcpStream, subscribers: &Subscribers) {
    let (mut input, mut buffer, mut published) = (Vec::new(), [0; 4_096], 0_u64);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        input.extend_from_slice(&buffer[..read]);
        while let Some((kind, payload, rest)) = split(&input) {
            let mut subscribers = subscribers.lock().unwrap();
            match kind {
                b'S' => {
                    let its = subscribers.entry(payload[0]).or_default();
                    its.push((stream.try_clone().unwrap(), 0));
                    stream.write_all(&frame(b's', &[payload])).unwrap();
                }
                b'P' => {
                    for (subscriber, tag) in subscribers.entry(payload[0]).or_default() {
                        *tag += 1;
                        let parts = [&payload[..1], &tag.to_le_bytes()[..], &payload[1..]];
                        // A subscriber that is gone wants nothing.
                        let _ = subscriber.write_all(&frame(b'M', &parts));
                    }
                    published += 1;
                    let confirm = frame(b'C', &[&published.to_le_bytes()]);
                    stream.write_all(&confirm).unwrap();
                }
                b'A' => {}
                kind => stream.write_all(&frame(kind.to_ascii_lowercase(), &[])).unwrap(),
            }
            let left = rest.len();
            input.drain(..input.len() - left);
        }
    }
}

struct Unheard;

impl SliceSink for Unheard {
    fn slice(&mut self, _: &Slice) {}
    fn event(&mut self, _: RunEvent) {}
}

#[test]
fn the_engine_speaks_a_protocol_without_channels() {
    let address = broker();
    let endpoint = Endpoint::new(address.ip().to_string(), address.port());
    let topics = vec![Destination::topic("a"), Destination::topic("b")];
    let mut group = Group::new(endpoint, topics);
    group.producers.per_destination = 1;
    group.producers.max_pending = 10;
    group.producers.message_count = Some(1_000);
    group.producers.sizes = Sizes::Fixed(40);
    group.consumers.per_destination = 2;
    // One connection has a subscription of each topic.
    group.consumers.connections = Some(3);
    let plan = Plan {
        groups: vec![group],
        threads: 2,
        phases: Phases { drain: Nanos::from_millis(5_000), ..Phases::default() },
        ..Plan::default()
    };
    let outcome = run::<Toy, System>(&System, &plan, &Together::alone(), &Control::new(), &mut Unheard).unwrap();
    assert_eq!(outcome.error, None);
    let totals = outcome.totals;
    assert_eq!((totals.sent, totals.completed), (1_000, 1_000));
    assert_eq!(totals.received, 2_000, "two subscribers of each topic");
    let ledger = outcome.ledger.expect("a ledger");
    assert_eq!((ledger.delivered, ledger.lost), (2_000, 0));
}
