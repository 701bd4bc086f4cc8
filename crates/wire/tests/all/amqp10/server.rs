//! A client and a server in memory: random scripts, what a client must not do, and messages in both protocols' forms.

use std::collections::VecDeque;

use measure::Time;
use wire::amqp10::*;
use wire::amqp091::{BasicProperties, FieldTable, Properties, Reader, SecretStr, ServerConfig, Value};

use crate::amqp091::common::Random;

const NOW: Time = Time(5_000_000_000);
pub(crate) const SENDER: u32 = 0;
pub(crate) const RECEIVER: u32 = 1;

/// A server's embedder that keeps what comes, and a client.
pub(crate) struct Pair {
    pub(crate) client: Amqp10Client,
    pub(crate) server: Amqp10Server,
    /// Bodies that came to the server, with their numbers and whether they are settled.
    came: VecDeque<(u32, bool, Vec<u8>)>,
    /// Bodies that came to the client.
    back: Vec<(u32, Vec<u8>)>,
    /// Told to the client of what it sent, and to the server of what the client got: from, to and how.
    told: Vec<(u32, u32, String)>,
    settled: Vec<(u32, u32, String)>,
    /// Why links ended on the client's side.
    ended: Vec<String>,
}

fn state_of(state: Option<DeliveryState<'_>>) -> String {
    format!("{state:?}").split(['(', ')']).nth(1).unwrap_or_default().to_owned()
}

impl Pair {
    pub(crate) fn new(config: Amqp10Config, credentials: bool) -> Self {
        let mechanisms = if credentials { "PLAIN" } else { "PLAIN ANONYMOUS" }.to_owned();
        let server = Amqp10Server::new(&ServerConfig { mechanisms, ..ServerConfig::default() }, NOW);
        Self {
            client: Amqp10Client::new(config, NOW),
            server,
            came: VecDeque::new(),
            back: Vec::new(),
            told: Vec::new(),
            settled: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// With a session that has a sender and a receiver.
    pub(crate) fn with_links(config: Amqp10Config) -> Self {
        Self::new(config, false).opened()
    }

    fn opened(mut self) -> Self {
        let pair = &mut self;
        pair.talk(0);
        pair.client.begin(0).expect("begins");
        for (name, handle) in [("s", SENDER), ("r", RECEIVER)] {
            let source = Some(Source { address: TypedValue::Str("q"), ..Source::default() });
            let attach = Attach { name, handle, is_receiver: handle == RECEIVER, source, ..Attach::default() };
            pair.client.attach(0, &attach).expect("attaches");
        }
        pair.talk(0);
        self
    }

    /// Carries bytes until none are left, in pieces of `cut` bytes; 0 for all at once.
    pub(crate) fn talk(&mut self, cut: usize) {
        loop {
            let there = self.client.pending_output().to_vec();
            self.client.consume_output(there.len());
            carry(&there, cut, |input| self.serve(input));
            let back = self.server.pending_output().to_vec();
            self.server.consume_output(back.len());
            carry(&back, cut, |input| self.hear(input));
            if there.is_empty() && back.is_empty() {
                return;
            }
        }
    }

    fn serve(&mut self, input: &mut &[u8]) {
        while let Some(event) = self.server.poll(NOW, input).expect("a client") {
            let link = match event {
                Amqp10Event::Asked(Amqp10Request::Login { mechanism, user, password }) => {
                    assert_eq!((mechanism, user, password.0), ("PLAIN", "guest", &b"guest"[..]));
                    self.server.accept_login();
                    continue;
                }
                Amqp10Event::Asked(Amqp10Request::Open { .. }) => {
                    self.server.accept_open();
                    continue;
                }
                Amqp10Event::Asked(Amqp10Request::Link { session, handle, terminus, is_sender, .. }) => {
                    let expected = if is_sender { Terminus::Address("q") } else { Terminus::Anonymous };
                    assert_eq!((terminus, is_sender), (expected, handle % 2 == RECEIVER));
                    Some((session, handle))
                }
                Amqp10Event::Delivery { id, settled, message, .. } => {
                    self.came.push_back((id, settled, message.body.bytes().to_vec()));
                    None
                }
                Amqp10Event::Settled { first, last, state, .. } => {
                    self.settled.push((first, last, state_of(state)));
                    None
                }
                _ => None,
            };
            match link {
                Some((session, handle)) if handle < 2 => self.server.accept_link(session, handle, false),
                Some((session, handle)) => self.server.refuse_link(session, handle, "amqp:not-found", "none"),
                None => {}
            }
        }
    }

    fn hear(&mut self, input: &mut &[u8]) {
        while let Some(event) = self.client.poll(NOW, input).expect("a server") {
            match event {
                Amqp10Event::Delivery { id, message, .. } => self.back.push((id, message.body.bytes().to_vec())),
                Amqp10Event::Settled { first, last, state, .. } => self.told.push((first, last, state_of(state))),
                Amqp10Event::Detached { error, .. } | Amqp10Event::Ended { error, .. } => {
                    self.ended.push(error.map(|it| it.to_string()).unwrap_or_default());
                }
                _ => {}
            }
        }
    }
}

fn carry(bytes: &[u8], cut: usize, mut take: impl FnMut(&mut &[u8])) {
    let mut unread = Vec::new();
    for piece in bytes.chunks(if cut == 0 { bytes.len().max(1) } else { cut }) {
        unread.extend_from_slice(piece);
        let mut input = unread.as_slice();
        take(&mut input);
        let used = unread.len() - input.len();
        unread.drain(..used);
    }
    assert!(unread.is_empty(), "{unread:x?}");
}

fn config(frame_max: u32) -> Amqp10Config {
    Amqp10Config { frame_max, ..Amqp10Config::default() }
}

fn template(pair: &Pair, settled: bool) -> TransferTemplate {
    TransferTemplate::new(0, SENDER, settled, &MessageHead::default(), pair.client.frame_max()).expect("encodes")
}

/// The head of a section of data.
fn head(body: &[u8]) -> Vec<u8> {
    let mut head = vec![0, 0x53, 0x75, 0xB0];
    head.extend_from_slice(&(body.len() as u32).to_be_bytes());
    head
}

#[test]
fn random_scripts_lose_nothing_and_answer_everything_once() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut pair = Pair::with_links(config(random.pick(&[512, 600, 4_096, 131_072])));
        let templates = [false, true].map(|settled| template(&pair, settled));
        let (mut sent, mut delivered, mut unsettled, mut credit) = (Vec::new(), 0, 0, 0u32);
        for _ in 0..60 {
            match random.below(4) {
                0 => {
                    let more = random.below(20) as u32;
                    pair.client.flow(0, RECEIVER, more, random.coin());
                    credit += more;
                }
                1 => {
                    for _ in 0..random.below(10) {
                        let body = random.bytes(3_000);
                        let settled = random.coin();
                        pair.client.publish(&templates[usize::from(settled)], &body, |_| {});
                        sent.push((settled, body));
                    }
                }
                2 => {
                    // Answers all that has come, and sends it back.
                    while let Some((id, settled, body)) = pair.came.pop_front() {
                        if !settled {
                            pair.server.settle(0, id, id, DeliveryState::Accepted);
                            unsettled += 1;
                        }
                        assert_eq!((settled, body.clone()), sent[id as usize], "seed {seed}");
                        if pair.server.credit(0, RECEIVER, 1) > 0 {
                            pair.server.deliver(0, RECEIVER, false, &head(&body), &body);
                            delivered += 1;
                        }
                    }
                }
                _ => {
                    let last = pair.back.last().map(|it| it.0);
                    if let (Some((first, _)), Some(last)) = (pair.back.first(), last) {
                        pair.client.settle(0, *first, last, DeliveryState::Released);
                        pair.back.clear();
                    }
                }
            }
            pair.talk(random.pick(&[0, 0, 1, 7, 100]));
            assert!(pair.server.credit(0, RECEIVER, 1) == credit - delivered, "seed {seed}");
        }
        let told: u32 = pair.told.iter().map(|(first, last, _)| last - first + 1).sum();
        assert!(pair.told.iter().all(|it| it.2 == "Accepted"), "seed {seed}: {:?}", pair.told);
        let settled: u32 = pair.settled.iter().map(|(first, last, _)| last - first + 1).sum();
        assert_eq!((told, settled + pair.back.len() as u32), (unsettled, delivered), "seed {seed}");
    }
}

#[test]
fn a_message_waits_for_the_clients_window() {
    let mut pair = Pair::with_links(config(512));
    pair.client.flow(0, RECEIVER, 5, false);
    pair.talk(0);
    // The session of this client takes two frames.
    let window = |next, incoming_window| {
        let flow = Flow { next_incoming_id: Some(next), incoming_window, ..Flow::default() };
        let mut bytes = vec![0, 0, 0, 0, 2, 0, 0, 0];
        flow.write(&mut bytes);
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        bytes
    };
    pair.serve(&mut window(0, 2).as_slice());
    let body = vec![9; 2_000];
    pair.server.deliver(0, RECEIVER, true, &head(&body), &body);
    pair.server.deliver(0, RECEIVER, true, &head(b"2"), b"2");
    assert_eq!(pair.server.credit(0, RECEIVER, 1), 0);
    pair.talk(0);
    assert_eq!(pair.back, []);
    assert!(pair.server.unsent() > 1_000);
    pair.serve(&mut window(2, 1_000).as_slice());
    pair.talk(0);
    assert_eq!(pair.back, [(0, body), (1, b"2".to_vec())]);
    assert_eq!(pair.server.unsent(), 0);
}

#[test]
fn links_are_refused_detached_and_drained_and_sessions_end_with_reasons() {
    let mut pair = Pair::with_links(config(512));
    pair.client.attach(0, &Attach { name: "no", handle: 2, ..Attach::default() }).expect("attaches");
    pair.talk(0);
    assert_eq!(pair.ended, ["amqp:not-found (none)"]);
    pair.client.flow(0, RECEIVER, 9, false);
    pair.talk(0);
    pair.server.end_drain(0, RECEIVER);
    assert_eq!(pair.server.pending_output(), [], "nobody asked for it");
    pair.server.detach(0, SENDER, "amqp:resource-deleted", "gone");
    pair.server.end_session(0, "amqp:not-allowed", "over");
    pair.server.end_session(0, "amqp:not-allowed", "twice");
    pair.talk(0);
    assert_eq!(pair.ended[1..], ["amqp:resource-deleted (gone)", "amqp:not-allowed (over)"]);
    pair.client.begin(0).expect("the number is free again");
    pair.talk(0);
    pair.server.close(NOW, "amqp:connection:forced", "bye");
    pair.talk(0);
    assert!(!pair.server.is_open() && !pair.server.is_closing());
}

/// A frame on a channel.
fn frame<'a>(kind: u8, channel: u8, what: &impl Composite<'a>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 2, kind, 0, channel];
    what.write(&mut bytes);
    bytes.extend_from_slice(payload);
    let size = bytes.len() as u32;
    bytes[..4].copy_from_slice(&size.to_be_bytes());
    bytes
}

#[test]
fn what_a_client_must_not_do_closes_the_connection_with_its_condition() {
    let transfer =
        |handle, id| Transfer { handle, delivery_id: Some(id), delivery_tag: Some(b"t"), ..Transfer::default() };
    let part = |id| frame(0, 0, &Transfer { more: Some(true), ..transfer(SENDER, id) }, &[7; 400]);
    let settled = Disposition { is_receiver: true, first: 5, ..Disposition::default() };
    let long = "n".repeat(2_000);
    let attach = |name, handle| Attach { name, handle, ..Attach::default() };
    let nested = [[0u8; 1].as_slice(), &[0x53, 1]].concat().repeat(40);
    let mut annotated = vec![0, 0x53, 0x72, 0xD1];
    annotated.extend_from_slice(&[0xFF; 12]);
    for (bytes, condition) in [
        (vec![0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0], "framing-error"),
        (vec![0, 0, 0, 4, 2, 0, 0, 0], "framing-error"),
        (frame(1, 0, &SaslInit::default(), &[]), "framing-error"),
        (frame(0, 0, &settled, &[]), "not-allowed"),
        (frame(0, 9, &Flow::default(), &[]), "not-allowed"),
        (frame(0, 0, &Begin::default(), &[]), "not-allowed"),
        (frame(0, 3, &Begin { remote_channel: Some(0), ..Begin::default() }, &[]), "not-allowed"),
        (frame(0, 0, &attach("again", SENDER), &[]), "not-allowed"),
        (frame(0, 0, &attach("high", 256), &[]), "not-allowed"),
        (frame(0, 0, &attach(&long, 3), &[]), "invalid-field"),
        (frame(0, 0, &Detach { handle: 9, ..Detach::default() }, &[]), "not-allowed"),
        (frame(0, 0, &transfer(RECEIVER, 0), &[]), "not-allowed"),
        ([part(0), frame(0, 0, &transfer(SENDER, 1), &[])].concat(), "not-allowed"),
        (
            [frame(0, 0, &transfer(SENDER, 0), &head(b"")), frame(0, 0, &transfer(SENDER, 2), &head(b""))].concat(),
            "not-allowed",
        ),
        (frame(0, 0, &transfer(SENDER, 0), &annotated), "decode-error"),
        ([vec![0, 0, 0, 128, 2, 0, 0, 0], nested].concat(), "decode-error"),
        (part(0).repeat(10), "message-size-exceeded"),
    ] {
        let small = ServerConfig { max_body: 2_000, ..ServerConfig::default() };
        let server = Amqp10Server::new(&small, NOW);
        let mut pair = Pair { server, ..Pair::new(config(512), false) }.opened();
        let mut input = bytes.as_slice();
        let error = loop {
            match pair.server.poll(NOW, &mut input) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("no error by {bytes:x?}"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains(condition), "{condition}: {error}");
        assert!(String::from_utf8_lossy(pair.server.pending_output()).contains(condition), "the client is told");
        assert!(!pair.server.is_open());
    }
}

#[test]
fn sessions_and_links_are_as_many_as_a_server_can_keep() {
    let mut pair = Pair::with_links(config(512));
    let mut bytes = Vec::new();
    for channel in 1..=255 {
        bytes.extend(frame(0, channel, &Begin::default(), &[]));
        bytes.extend(frame(0, channel, &Attach { name: "l", handle: 255, ..Attach::default() }, &[]));
    }
    let mut input = bytes.as_slice();
    let mut links = 0;
    let error = loop {
        match pair.server.poll(NOW, &mut input) {
            Ok(event) => links += u32::from(matches!(event.expect("an error"), Amqp10Event::Asked(_))),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("resource-limit-exceeded") && links == 15, "{links} {error}");
}

#[test]
fn logins_are_offered_refused_and_left_out() {
    let mut pair = Pair::new(config(512), true);
    let mut input = &AMQP_HEADER[..];
    assert!(pair.server.poll(NOW, &mut input).is_err(), "who must log in is told so");
    assert_eq!(pair.server.pending_output(), SASL_HEADER);
    let mut pair = Pair::new(config(512), false);
    pair.serve(&mut &AMQP_HEADER[..]);
    pair.serve(&mut frame(0, 0, &Open { container_id: "c", ..Open::default() }, &[]).as_slice());
    assert!(pair.server.is_open());
    let mut pair = Pair::new(config(512), true);
    pair.server = Amqp10Server::new(&ServerConfig::default(), NOW);
    let said = pair.client.pending_output().to_vec();
    pair.client.consume_output(said.len());
    pair.serve(&mut said.as_slice());
    let back = pair.server.pending_output().to_vec();
    pair.server.consume_output(back.len());
    pair.hear(&mut back.as_slice());
    let mut input = pair.client.pending_output();
    let asked = pair.server.poll(NOW, &mut input).expect("a client").map(|event| format!("{event:?}"));
    assert!(asked.is_some_and(|it| it.contains("PLAIN") && it.contains("***")), "no password is shown");
    pair.server.refuse_login();
    let refused = pair.server.pending_output().to_vec();
    let error = pair.client.poll(NOW, &mut refused.as_slice()).unwrap_err();
    assert!(matches!(error, Amqp10Error::Refused { code: 1, .. }), "{error}");
}

/// The exchange of RFC 7677, and one whose proof is wrong.
#[test]
fn a_login_by_scram_is_let_in_by_its_proof_alone() {
    let keys = ScramKeys::derive("pencil", *b"\x5b\x6d\x99\x68\x9d\x12\x35\x8e\xec\xa0\x4b\x14\x12\x36\xfa\x81");
    let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    for (proof, is_right) in [("dHzb", true), ("eHzb", false)] {
        let mut server = Amqp10Server::new(&ServerConfig::default(), NOW);
        let first = SecretStr(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let mechanism = Symbol(SCRAM_SHA_256);
        let init = SaslInit { mechanism, initial_response: Some(first), hostname: None };
        let bytes = [&SASL_HEADER[..], &frame(1, 0, &init, &[])].concat();
        let asked = server.poll(NOW, &mut bytes.as_slice()).expect("a client");
        assert_eq!(asked, Some(Amqp10Event::Asked(Amqp10Request::Scram { user: "user" })));
        server.consume_output(server.pending_output().len());
        server.accept_login();
        assert_eq!(server.pending_output(), [], "nothing is proved");
        server.challenge(&keys, &nonce[20..]);
        let challenge = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        assert!(server.pending_output().ends_with(challenge.as_bytes()));
        let response = format!("c=biws,r={nonce},p={proof}ZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let bytes = frame(1, 0, &SaslResponse { response: SecretStr(response.as_bytes()) }, &[]);
        match server.poll(NOW, &mut bytes.as_slice()) {
            Ok(asked) => assert_eq!(asked, Some(Amqp10Event::Asked(Amqp10Request::Proved)).filter(|_| is_right)),
            Err(error) => assert!(!is_right && matches!(error, Amqp10Error::Refused { code: 1, .. }), "{error}"),
        }
        server.accept_login();
        let said = String::from_utf8_lossy(server.pending_output()).into_owned();
        assert_eq!(said.contains("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), is_right, "{said:?}");
    }
}

fn value(bytes: &[u8]) -> TypedValue<'_> {
    TypedValue::read(&mut Reader::new(bytes)).expect("a value")
}

#[test]
fn links_lead_to_nodes_that_are_there_or_made_to_none_or_into_streams() {
    let name = Symbol("rabbitmq:stream-offset-spec");
    let (mut made, mut nobody, mut coordinator, mut filter) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    TransactionCoordinator::default().write(&mut coordinator);
    Target { dynamic: Some(true), ..Target::default() }.write(&mut made);
    Target::default().write(&mut nobody);
    put_map(&mut filter, |out| {
        TypedValue::Symbol(name).write(out);
        put_descriptor(out, Descriptor::Name(name));
        TypedValue::Ulong(7).write(out);
        2
    });
    let sender = Attach { name: "new", handle: 4, ..Attach::default() };
    let receiver = |source| Attach { is_receiver: true, source: Some(source), ..sender };
    let dynamic = Source { dynamic: Some(true), ..Source::default() };
    let stream = Source { address: TypedValue::Str("q"), filter: value(&filter), ..Source::default() };
    for (attach, terminus, offset) in [
        (Attach { target: value(&made), ..sender }, Terminus::Dynamic, None),
        (Attach { target: value(&nobody), ..sender }, Terminus::Anonymous, None),
        (Attach { target: value(&coordinator), ..sender }, Terminus::Coordinator, None),
        (Attach { target: TypedValue::Bool(true), ..sender }, Terminus::Other, None),
        (receiver(dynamic), Terminus::Dynamic, None),
        (receiver(Source::default()), Terminus::Other, None),
        (receiver(stream), Terminus::Address("q"), Some(TypedValue::Ulong(7))),
    ] {
        let mut pair = Pair::with_links(config(512));
        let bytes = frame(0, 0, &attach, &[]);
        let asked = pair.server.poll(NOW, &mut bytes.as_slice()).expect("a client");
        let Some(Amqp10Event::Asked(Amqp10Request::Link { terminus: found, offset: at, .. })) = asked else {
            panic!("{asked:?}");
        };
        assert_eq!((found, at), (terminus, offset));
        let (address, is_made) = match terminus {
            Terminus::Dynamic => (TypedValue::Str("made"), Some(true)),
            Terminus::Address(address) => (TypedValue::Str(address), None),
            Terminus::Anonymous | Terminus::Coordinator | Terminus::Other => (TypedValue::Null, None),
        };
        match terminus {
            Terminus::Dynamic => pair.server.accept_dynamic_link(0, 4, "made"),
            _ => pair.server.accept_link(0, 4, true),
        }
        let answer = pair.server.pending_output();
        let answer = Performative::read(&mut Reader::new(&answer[8..]));
        let Ok(Performative::Attach(answer)) = answer else { panic!("{answer:?}") };
        if terminus == Terminus::Coordinator {
            let capabilities = TypedValue::Symbol(Symbol("amqp:local-transactions"));
            assert_eq!(TransactionCoordinator::of(answer.target), Ok(TransactionCoordinator { capabilities }));
            continue;
        }
        let (source, target) = (answer.source.expect("a source"), Target::of(answer.target).expect("a target"));
        let end = match attach.is_receiver {
            true => (source.address, source.dynamic),
            false => (target.address, target.dynamic),
        };
        assert_eq!(end, (address, is_made), "{terminus:?}");
        assert_eq!(source.filter, attach.source.unwrap_or_default().filter);
    }
}

#[test]
fn messages_keep_what_both_protocols_have_on_the_way_there_and_back() {
    let properties = PropertiesSection {
        message_id: TypedValue::Str("id"),
        user_id: Some(b"guest"),
        correlation_id: TypedValue::Str("7"),
        reply_to: TypedValue::Str("/queues/r"),
        content_type: Some(Symbol("text/plain")),
        content_encoding: Some(Symbol("gzip")),
        creation_time: Some(1_700_000_000_000),
        group_id: Some("app"),
        ..PropertiesSection::default()
    };
    let application_properties = [
        ("text", TypedValue::Str("é")),
        ("bytes", TypedValue::Binary(&[0xFF, 0])),
        ("number", TypedValue::Long(-5)),
        ("flag", TypedValue::Bool(true)),
        ("float", TypedValue::Double(0.5)),
        ("nothing", TypedValue::Null),
    ];
    let header =
        HeaderSection { durable: Some(true), priority: Some(3), ttl: Some(60_000), ..HeaderSection::default() };
    let mut message = Vec::new();
    MessageHead { header, properties, application_properties: &application_properties }.write(&mut message);
    message.extend([head(b"body"), b"body".to_vec()].concat());
    let (mut there, mut back) = (MessageMapping::default(), MessageMapping::default());
    let parts = MessageParts::read(&message).expect("a message");
    let (basic, body) = (there.to_basic(&parts).expect("small properties"), parts.basic_body());
    let decoded = basic.decode().expect("properties");
    assert_eq!((decoded.expiration, decoded.delivery_mode, decoded.app_id), (Some("60000"), Some(2), Some("app")));
    assert_eq!((basic.header_bytes("bytes"), &*body), (Some(&[0xFF, 0][..]), &b"body"[..]));
    let again = [back.to_sections(basic, Some(1), None, &body), &*body].concat();
    let read = MessageParts::read(&again).expect("a message");
    let redelivered = HeaderSection { first_acquirer: Some(false), delivery_count: Some(1), ..header };
    assert_eq!((read.before.header(), read.before.properties()), (Some(redelivered), Some(properties)));
    for (name, value) in application_properties {
        assert_eq!(read.before.application_property(name), Some(value), "{name}");
    }
    assert_eq!(read.body, MessageBody::Data(b"body"));
}

#[test]
fn sections_that_are_kept_come_back_bit_for_bit_and_other_bodies_than_data_are_encoded() {
    let (mut there, mut back) = (MessageMapping::default(), MessageMapping::default());
    let annotations = b"\0\x53\x72\xC1\x0B\x02\xA3\x06x-mine\x54\x05";
    for (body, basic_body, message_type) in [
        (&b"\0\x53\x75\xA0\x01x"[..], &b"x"[..], None),
        (b"\0\x53\x75\xA0\x01x\0\x53\x75\xA0\x01y", b"xy", None),
        (b"\0\x53\x77\xA1\x01x", b"\0\x53\x77\xA1\x01x\0\x53\x78\xC1\x01\0", Some("amqp-1.0")),
        (b"\0\x53\x76\x45\0\x53\x76\x45", b"\0\x53\x76\x45\0\x53\x76\x45\0\x53\x78\xC1\x01\0", Some("amqp-1.0")),
    ] {
        let mut message = Vec::new();
        HeaderSection { durable: Some(true), ..HeaderSection::default() }.write(&mut message);
        // Annotations of one hop.
        message.extend_from_slice(b"\0\x53\x71\xC1\x01\0");
        let from = message.len();
        message.extend_from_slice(annotations);
        let properties =
            PropertiesSection { subject: Some("s"), to: TypedValue::Str("/queues/q"), ..Default::default() };
        properties.write(&mut message);
        message.extend([body, b"\0\x53\x78\xC1\x01\0"].concat());
        let parts = MessageParts::read(&message).expect("a message");
        let basic = there.to_basic(&parts).expect("small properties");
        let decoded = basic.decode().expect("properties");
        assert_eq!((&*parts.basic_body(), decoded.message_type), (basic_body, message_type));
        let (head, rest) = back.to_head(basic, None, None, parts.lasting());
        assert_eq!(rest, &message[from..]);
        let again = [head, rest].concat();
        let read = MessageParts::read(&again).expect("a message");
        let header = HeaderSection { durable: Some(true), first_acquirer: Some(true), ..HeaderSection::default() };
        assert_eq!((read.before.header(), read.before.properties()), (Some(header), Some(properties)));
        // Where it stands in a stream joins its own annotations.
        let (head, rest) = back.to_head(basic, None, Some(7), parts.lasting());
        assert!(head.ends_with(b"x-mine\x54\x05\xA3\x0Fx-stream-offset\x55\x07"), "{head:x?}");
        assert_eq!(rest, &message[from + annotations.len()..]);
    }
    // What the broker says replaces what the message said of itself.
    let own = b"\0\x53\x72\xC1\x17\x04\xA3\x0Fx-stream-offset\x55\x05\x54\x01\x40\0\x53\x77\x40";
    let parts = MessageParts::read(own).expect("a message");
    let (head, _) = back.to_head(Properties::NONE, None, Some(7), parts.lasting());
    assert!(head.ends_with(b"\x04\x54\x01\x40\xA3\x0Fx-stream-offset\x55\x07"), "{head:x?}");
    // A header that is no list of its fields.
    let wrong = MessageParts::read(b"\0\x53\x70\xC0\x02\x01\x43\0\x53\x77\x40").expect("a message");
    assert!(there.to_basic(&wrong).is_none());
}

#[test]
fn types_are_annotations_and_headers_application_properties() {
    let (mut there, mut back) = (MessageMapping::default(), MessageMapping::default());
    let mut headers = FieldTable::new();
    headers.insert("nested", &FieldTable::new()).expect("a table");
    headers.insert("kept", Value::I8(1)).expect("a number");
    let basic = BasicProperties {
        message_type: Some("order"),
        headers: Some(headers.view()),
        expiration: Some("soon"),
        ..BasicProperties::default()
    };
    let bytes = basic.to_bytes().expect("encodes");
    let sections = [back.to_sections(Properties::from_bytes(&bytes), None, Some(3), b"z"), b"z"].concat();
    assert!(sections.windows(18).any(|it| it == b"x-stream-offset\x55\x03\0"), "{sections:x?}");
    let read = MessageParts::read(&sections).expect("a message");
    assert_eq!(read.before.application_property("kept"), Some(TypedValue::Byte(1)));
    assert_eq!(read.before.application_property("nested"), None);
    assert_eq!(read.before.header().and_then(|it| it.ttl), None);
    let basic = there.to_basic(&read).expect("small properties");
    assert_eq!(basic.decode().expect("properties").message_type, Some("order"));
    // Properties have to go into one frame of AMQP 0.9.1.
    let (mut message, large) = (Vec::new(), "x".repeat(131_072));
    MessageHead { application_properties: &[("k", TypedValue::Str(&large))], ..MessageHead::default() }
        .write(&mut message);
    assert!(there.to_basic(&MessageParts::read(&message).expect("a message")).is_none());
    // What only looks like sections is bytes.
    let basic = BasicProperties { message_type: Some("amqp-1.0"), ..BasicProperties::default() };
    let bytes = basic.to_bytes().expect("encodes");
    let sections = [back.to_sections(Properties::from_bytes(&bytes), None, None, b"\x01"), b"\x01"].concat();
    assert_eq!(MessageParts::read(&sections).expect("a message").body, MessageBody::Data(b"\x01"));
    assert!(TypedValue::read(&mut Reader::new(&sections)).is_ok());
}
