//! A client in virtual time, whose server is a script.

use measure::{Nanos, Time};
use wire::Secret;
use wire::amqp10::*;
use wire::amqp091::Reader;

const NOW: Time = Time(5_000_000_000);
const FRAME_MAX: u32 = 512;

fn after(seconds: u64) -> Time {
    NOW + Nanos(seconds * 1_000_000_000)
}

fn frame<'a>(kind: u8, what: &impl Composite<'a>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 2, kind, 0, 0];
    what.write(&mut bytes);
    bytes.extend_from_slice(payload);
    let size = bytes.len() as u32;
    bytes[..4].copy_from_slice(&size.to_be_bytes());
    bytes
}

/// Lets the client hear `bytes`, whole; its events as text.
fn hear(client: &mut Amqp10Client, bytes: &[u8]) -> Vec<String> {
    let (mut events, mut input) = (Vec::new(), bytes);
    while let Some(event) = client.poll(NOW, &mut input).expect("it is right") {
        events.push(format!("{event:?}"));
    }
    assert_eq!(input, []);
    events
}

fn error_of(client: &mut Amqp10Client, mut bytes: &[u8]) -> Amqp10Error {
    loop {
        match client.poll(NOW, &mut bytes) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no error"),
            Err(error) => return error,
        }
    }
}

/// Client's output since the last call: performatives as text, with the lengths of their payloads.
fn said(client: &mut Amqp10Client) -> Vec<String> {
    let bytes = client.pending_output().to_vec();
    client.consume_output(bytes.len());
    let (mut rest, mut said) = (bytes.as_slice(), Vec::new());
    while let Some((size, _)) = rest.split_first_chunk::<4>() {
        if size == b"AMQP" {
            said.push(format!("{:?}", &rest[..8]));
            rest = &rest[8..];
            continue;
        }
        let size = u32::from_be_bytes(*size) as usize;
        assert!(size <= FRAME_MAX as usize, "{size}");
        let mut reader = Reader::new(&rest[8..size]);
        said.push(match size {
            8 => "heartbeat".to_owned(),
            _ => {
                let performative = Performative::read(&mut reader).expect("a performative");
                format!("{performative:?} {}", reader.rest().len())
            }
        });
        rest = &rest[size..];
    }
    said
}

fn config() -> Amqp10Config {
    Amqp10Config { frame_max: FRAME_MAX, channel_max: 3, ..Amqp10Config::default() }
}

/// An open connection with session 0, the sender `s` of handle 0 and the receiver `r` of handle 1.
fn open(incoming_window: u32, credit: u32) -> Amqp10Client {
    let mut client = Amqp10Client::new(config(), NOW);
    assert!(hear(&mut client, fuzzing::HANDSHAKE)[0].contains("Open"));
    client.begin(0).expect("begins");
    for (name, handle) in [("s", 0), ("r", 1)] {
        let attach = Attach { name, handle, is_receiver: handle == 1, ..Attach::default() };
        client.attach(0, &attach).expect("attaches");
    }
    let begin = Begin { remote_channel: Some(0), incoming_window, ..Begin::default() };
    let mut bytes = frame(0, &begin, &[]);
    // The peer's handles are the other way round.
    for (name, handle) in [("r", 0), ("s", 1)] {
        let mut target = Vec::new();
        Target::default().write(&mut target);
        let attach = Attach {
            name,
            handle,
            is_receiver: name == "s",
            source: Some(Source::default()),
            target: TypedValue::read(&mut Reader::new(&target)).expect("a target"),
            initial_delivery_count: Some(0),
            ..Attach::default()
        };
        bytes.extend(frame(0, &attach, &[]));
    }
    let flow = Flow {
        next_incoming_id: Some(0),
        incoming_window,
        handle: Some(1),
        delivery_count: Some(0),
        link_credit: Some(credit),
        ..Flow::default()
    };
    bytes.extend(frame(0, &flow, &[]));
    assert_eq!(hear(&mut client, &bytes).len(), 4);
    said(&mut client);
    client
}

fn template(handle: u32) -> TransferTemplate {
    let message = MessageHead {
        properties: PropertiesSection {
            message_id: TypedValue::Str("ID:0"),
            correlation_id: TypedValue::Str("c"),
            creation_time: Some(1),
            group_id: Some("g"),
            ..PropertiesSection::default()
        },
        application_properties: &[("k", TypedValue::Str("v")), ("t", TypedValue::Binary(&[0; 4]))],
        ..MessageHead::default()
    };
    TransferTemplate::new(0, handle, false, &message, FRAME_MAX).expect("it fits")
}

#[test]
fn the_login_is_what_the_specification_draws() {
    let mut client = Amqp10Client::new(config(), NOW);
    assert_eq!(client.pending_output(), SASL_HEADER);
    assert!(!format!("{client:?}").contains("guest"));
    hear(&mut client, &fuzzing::HANDSHAKE[..29]);
    assert_eq!(
        client.pending_output()[8..],
        *b"\0\0\0\x23\x02\x01\0\0\0\x53\x41\xC0\x16\x02\xA3\x05PLAIN\xA0\x0C\0guest\0guest"
    );
    let events = hear(&mut client, &fuzzing::HANDSHAKE[29..]);
    assert!(events[0].contains("frame_max: 512, channel_max: 3"), "{events:?}");
    assert!(said(&mut client)[3].contains("idle_time_out: Some(60000)"));
    client.close(NOW);
    assert!(said(&mut client)[0].starts_with("Close"));
    assert_eq!(hear(&mut client, &frame(0, &Close::default(), &[])), ["CloseOk"]);
}

#[test]
fn who_is_not_let_in_is_told_why() {
    let refused = frame(1, &SaslOutcome { code: 1, additional_data: None }, &[]);
    let mut client = Amqp10Client::new(config(), NOW);
    hear(&mut client, &fuzzing::HANDSHAKE[..29]);
    let error = error_of(&mut client, &refused);
    assert!(error.to_string().contains("wrong user or password"), "{error}");
    let secret = Amqp10Config { password: Secret::from("s3cret"), ..config() };
    let mut client = Amqp10Client::new(Amqp10Config { mechanism: SaslMechanism::External, ..secret }, NOW);
    let error = error_of(&mut client, &fuzzing::HANDSHAKE[..29]);
    assert_eq!(error, Amqp10Error::NoMechanism { offered: "PLAIN".to_owned(), wanted: "EXTERNAL" });
    for (bytes, guess) in [
        (&b"AMQP\x00\x00\x09\x01"[..], "RabbitMQ speaks AMQP 1.0 from 4.0 on"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x50\x00", "TLS"),
    ] {
        let error = error_of(&mut Amqp10Client::new(config(), NOW), bytes);
        assert!(error.to_string().contains(guess), "{error}");
    }
}

/// The exchange of RFC 7677, and servers that do not keep to it.
#[test]
fn a_login_by_scram_wants_the_servers_proof_too() {
    const FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const LAST: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    let challenge = |text: &str| frame(1, &SaslChallenge { challenge: text.as_bytes() }, &[]);
    let outcome =
        |text: Option<&str>| frame(1, &SaslOutcome { code: 0, additional_data: text.map(str::as_bytes) }, &[]);
    let offer = SaslMechanisms { mechanisms: TypedValue::Symbol(Symbol(SCRAM_SHA_256)) };
    let begun = |nonce: &str| {
        let (user, password, nonce) = ("user".to_owned(), Secret::from("pencil"), nonce.to_owned());
        let client = Amqp10Config { user, password, mechanism: SaslMechanism::ScramSha256, nonce, ..config() };
        (Amqp10Client::new(client, NOW), [&SASL_HEADER[..], &frame(1, &offer, &[])].concat())
    };
    for end in [outcome(Some(LAST)), [challenge(LAST), outcome(None)].concat()] {
        let (mut client, offered) = begun("rOprNGfwEbeRWgbNEkqO");
        hear(&mut client, &[offered, challenge(FIRST), end].concat());
        let sent = String::from_utf8_lossy(client.pending_output()).into_owned();
        for part in ["n,,n=user,r=rOprNGfwEbeRWgbNEkqO", ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "bellows"] {
            assert!(sent.contains(part), "{part}: {sent:?}");
        }
        assert!(!sent.contains("pencil"), "{sent:?}");
    }
    for (nonce, frames, why) in [
        ("rOprNGfwEbeRWgbNEkqO", [challenge(FIRST), outcome(None)].concat(), "did not prove"),
        ("rOprNGfwEbeRWgbNEkqO", [challenge(FIRST), outcome(Some("v=AAAA"))].concat(), "did not prove"),
        ("rOprNGfwEbeRWgbNEkqO", outcome(Some(LAST)), "did not prove"),
        ("rOprNGfwEbeRWgbNEkqO", [challenge(FIRST), challenge(LAST).repeat(2)].concat(), "goes on after its proof"),
        ("rOprNGfwEbeRWgbNEkqO", challenge(&FIRST.replace("4096", "4294967295")), "iteration count is 4294967295"),
        ("other", challenge(FIRST), "does not go on from the client's nonce"),
        ("", Vec::new(), "no random nonce"),
    ] {
        let (mut client, offered) = begun(nonce);
        let error = error_of(&mut client, &[offered, frames].concat()).to_string();
        assert!(error.contains(why), "{why}: {error}");
        let sent = String::from_utf8_lossy(client.pending_output()).into_owned();
        assert!(!sent.contains("bellows") && !sent.contains("pencil"), "{sent:?}");
    }
    let mut plain = Amqp10Client::new(config(), NOW);
    let error = error_of(&mut plain, &[&fuzzing::HANDSHAKE[..29], &challenge(FIRST)].concat());
    assert!(error.to_string().contains("sasl-challenge"), "{error}");
}

#[test]
fn credit_and_window_limit_what_may_be_sent() {
    let mut client = open(5, 3);
    let template = template(0);
    assert_eq!(template.wire_len(10).0, 1);
    assert_eq!((client.credit(0, 0, 1), client.credit(0, 0, 2), client.credit(0, 0, 6)), (3, 2, 0));
    client.publish(&template, &[7; 10], |front| front[0] = 1);
    client.publish(&template, &[7; 900], |front| front[0] = 2);
    let frames = said(&mut client);
    assert_eq!(frames.len(), 1 + template.wire_len(900).0 as usize, "{frames:#?}");
    assert!(frames[0].contains("delivery_id: Some(0), delivery_tag: Some([0, 0, 0, 0])"), "{frames:#?}");
    assert!(frames[1].contains("delivery_id: Some(1), delivery_tag: Some([0, 0, 0, 1])"), "{frames:#?}");
    assert!(frames[1].contains("more: Some(true)") && frames[2].contains("delivery_id: None"));
    assert!(frames.last().expect("frames").contains("more: Some(false)"));
    // Three of five frames are gone, and two of three credits.
    assert_eq!((client.credit(0, 0, 1), client.credit(0, 0, 2)), (1, 1));
    let flow = Flow { next_incoming_id: Some(1), incoming_window: 5, handle: Some(1), ..Flow::default() };
    let granted = Flow { delivery_count: Some(1), link_credit: Some(u32::MAX), ..flow };
    let events = hear(&mut client, &frame(0, &granted, &[]));
    assert!(events[0].contains("uncounted: 1"), "{events:?}");
    assert_eq!((client.credit(0, 0, 1), client.credit(0, 0, 3)), (3, 1), "two frames and a message are on their way");
    let drained = Flow { drain: Some(true), delivery_count: Some(2), link_credit: Some(9), ..flow };
    hear(&mut client, &frame(0, &drained, &[]));
    assert_eq!((client.credit(0, 0, 1), client.delivery_count(0, 0)), (0, 11));
    assert!(said(&mut client)[0].contains("link_credit: Some(0)"));
    // Credit that was drained counts as used, on both sides.
    let events = hear(&mut client, &frame(0, &Flow { delivery_count: Some(11), ..flow }, &[]));
    assert!(events[0].contains("uncounted: 0"), "{events:?}");
}

#[test]
fn an_outcome_is_settled_here_where_the_peer_settles_second() {
    let mut client = open(10, 10);
    client.publish(&template(0), &[7; 10], |_| {});
    said(&mut client);
    let outcome = |settled, state| {
        frame(0, &Disposition { is_receiver: true, settled: Some(settled), state, ..Disposition::default() }, &[])
    };
    assert!(hear(&mut client, &outcome(false, None)).is_empty(), "it says nothing");
    let events = hear(&mut client, &outcome(false, Some(DeliveryState::Accepted)));
    assert!(events[0].contains("Accepted"), "{events:?}");
    let answer = said(&mut client);
    assert!(answer[0].contains("is_receiver: false, first: 0, last: None, settled: Some(true)"), "{answer:?}");
    hear(&mut client, &outcome(true, Some(DeliveryState::Accepted)));
    assert!(said(&mut client).is_empty(), "it is settled on both sides");
}

/// Our receiver joins frames of our sender.
#[test]
fn a_message_of_several_frames_comes_back_whole() {
    let mut sender = open(1_000, 1_000);
    let mut receiver = open(1_000, 1_000);
    // The receiver knows its peer's sender as 0.
    let mut template = template(0);
    template.set_message_id(b"ID:7");
    template.set_creation_time(0x0102_0304_0506_0708);
    template.set_last_property(&[9, 8, 7, 6]);
    let body: Vec<u8> = (0..2_000).map(|n| n as u8).collect();
    for len in [0, 1, 300, 450, 513, 2_000] {
        sender.publish(&template, &body[..len], |front| {
            front.iter_mut().take(4).for_each(|byte| *byte = 0xEE);
        });
        let bytes = sender.pending_output().to_vec();
        assert_eq!(bytes.len(), template.wire_len(len).1);
        sender.consume_output(bytes.len());
        let mut input = bytes.as_slice();
        let event = receiver.poll(NOW, &mut input).expect("it is right");
        let Some(Amqp10Event::Delivery { session: 0, handle: 1, settled: false, message, .. }) = event else {
            panic!("{event:?}");
        };
        let MessageBody::Data(got) = message.body else { panic!("{:?}", message.body) };
        let mut expected = body[..len].to_vec();
        expected.iter_mut().take(4).for_each(|byte| *byte = 0xEE);
        assert_eq!(got, expected);
        let properties = message.before.properties().expect("properties");
        assert_eq!(properties.message_id, TypedValue::Str("ID:7"));
        assert_eq!(properties.correlation_id, TypedValue::Str("c"));
        assert_eq!((properties.creation_time, properties.group_id), (Some(0x0102_0304_0506_0708), Some("g")));
        assert_eq!(message.before.application_property("t"), Some(TypedValue::Binary(&[9, 8, 7, 6])));
    }
    assert_eq!(receiver.delivery_count(0, 1), 6);
}

#[test]
fn a_receiver_grants_credit_and_settles_in_ranges() {
    let mut client = open(10, 10);
    client.flow(0, 1, 50, false);
    assert!(said(&mut client)[0].contains("handle: Some(1), delivery_count: Some(0), link_credit: Some(50)"));
    let transfer = |id| Transfer { handle: 0, delivery_id: Some(id), delivery_tag: Some(b"t"), ..Transfer::default() };
    for id in 0..3 {
        let events = hear(&mut client, &frame(0, &transfer(id), b"\0\x53\x75\xA0\x01x"));
        assert!(events[0].contains(&format!("id: {id}")), "{events:?}");
    }
    client.settle(0, 0, 2, DeliveryState::Accepted);
    client.flow(0, 1, 3, true);
    let said = said(&mut client);
    assert!(said[0].contains("first: 0, last: Some(2), settled: Some(true), state: Some(Accepted)"), "{said:?}");
    assert!(said[1].contains("delivery_count: Some(3), link_credit: Some(50)"), "{said:?}");
    assert!(said[1].contains("echo: Some(true)"), "{said:?}");
    // A sender asks by the same means, and grants nothing.
    client.flow(0, 0, 0, true);
    assert!(self::said(&mut client)[0].contains("handle: Some(0)"));
}

/// The state of a delivery as that of a transaction.
fn transactional(state: Option<DeliveryState<'_>>) -> TransactionalState<'_> {
    let Some(DeliveryState::Other(value)) = state else { panic!("{state:?}") };
    TransactionalState::of(value).expect("a transactional state")
}

#[test]
fn requests_for_transactions_are_values_and_each_frame_of_a_message_names_its_transaction() {
    let mut client = open(1_000, 3);
    assert_eq!(client.send_value(0, 0, &DeclareTransaction::default()), Some(0));
    assert!(client.pending_output().ends_with(b"\0\x53\x77\0\x53\x31\x45"));
    let discharge = Discharge { txn_id: b"one", fail: Some(false) };
    assert_eq!(client.send_value(0, 0, &discharge), Some(1));
    assert!(client.pending_output().ends_with(b"\0\x53\x77\0\x53\x32\xC0\x07\x02\xA0\x03one\x42"));
    client.consume_output(client.pending_output().len());

    let message = MessageHead { application_properties: &[("k", TypedValue::Str("v"))], ..MessageHead::default() };
    let mut template = TransferTemplate::transactional(0, 0, b"one", &message, FRAME_MAX).expect("it fits");
    assert!(!template.set_transaction(b"three") && template.set_transaction(b"two"));
    client.publish(&template, &[7; 1_200], |front| front.fill(8));
    let bytes = client.pending_output();
    assert_eq!(bytes.len(), template.wire_len(1_200).1);
    let (mut rest, mut message) = (bytes, Vec::new());
    let mut frames = 0;
    while let Some((size, _)) = rest.split_first_chunk::<4>() {
        let (frame, behind) = rest.split_at(u32::from_be_bytes(*size) as usize);
        let mut reader = Reader::new(&frame[8..]);
        let Ok(Performative::Transfer(transfer)) = Performative::read(&mut reader) else { panic!("{frame:?}") };
        assert_eq!(transfer.more, Some(!behind.is_empty()));
        assert_eq!(transactional(transfer.state), TransactionalState { txn_id: b"two", outcome: TypedValue::Null });
        message.extend_from_slice(reader.rest());
        (rest, frames) = (behind, frames + 1);
    }
    assert_eq!(frames, template.wire_len(1_200).0);
    let MessageBody::Data(body) = MessageParts::read(&message).expect("a message").body else { panic!("{message:?}") };
    assert!(body.len() == 1_200 && body.starts_with(&[8]) && body.ends_with(&[7]));
    assert_eq!(client.send_value(0, 0, &discharge), None, "three credits are used up");
}

#[test]
fn a_coordinators_answers_are_read_and_hostile_ones_are_none() {
    let state = |bytes: &[u8]| {
        let disposition = [b"\0\x53\x15\xC0".as_slice(), &[bytes.len() as u8 + 6, 6, 0x41, 0x43, 0x40, 0x41], bytes];
        let disposition = [&disposition.concat()[..], b"\x40"].concat();
        let mut bytes = ((disposition.len() + 8) as u32).to_be_bytes().to_vec();
        bytes.extend([2, 0, 0, 0]);
        bytes.extend(disposition);
        let mut client = open(5, 5);
        let mut input = bytes.as_slice();
        let event = client.poll(NOW, &mut input).expect("it is right");
        let Some(Amqp10Event::Settled { first: 0, state: Some(DeliveryState::Other(value)), .. }) = event else {
            panic!("{event:?}");
        };
        DeclaredTransaction::of(value).map(|it| it.txn_id.to_vec())
    };
    assert_eq!(state(b"\0\x53\x33\xC0\x05\x01\xA0\x02id"), Ok(b"id".to_vec()));
    assert_eq!(state(b"\0\xA3\x12amqp:declared:list\xC0\x05\x01\xA0\x02id"), Ok(b"id".to_vec()));
    for hostile in [
        &b"\0\x53\x33\x45"[..],
        b"\0\x53\x33\xC0\x05\x01\xA1\x02id",
        b"\0\x53\x33\xC0\x06\x02\xA0\x02id\x41",
        b"\0\x53\x33\xC0\x05\x01\xA0\xFFid",
        b"\0\x53\x34\xC0\x05\x01\xA0\x02id",
    ] {
        assert!(state(hostile).is_err(), "{hostile:?}");
    }
}

#[test]
fn what_nobody_asked_for_ends_the_connection() {
    let delivery = Transfer { handle: 7, delivery_id: Some(0), ..Transfer::default() };
    for (bytes, what) in [
        (frame(0, &delivery, &[]), "unexpected transfer"),
        (frame(0, &Transfer { handle: 1, ..delivery }, &[]), "unexpected transfer"),
        (frame(0, &Begin { remote_channel: Some(9), ..Begin::default() }, &[]), "unrequested session"),
        (frame(0, &Attach { name: "other", handle: 5, ..Attach::default() }, &[]), "unrequested link"),
        (frame(1, &SaslOutcome::default(), &[]), "type 1"),
        (b"\0\0\x02\x01\x02\0\0\0".to_vec(), "limit"),
        (b"\0\0\0\x07\x02\0\0\0".to_vec(), "smaller"),
        (b"\0\0\0\x0B\x02\0\0\0\0\x53\x99".to_vec(), "inside"),
    ] {
        let error = error_of(&mut open(5, 5), &bytes);
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn heartbeats_are_sent_and_missed() {
    let open = Open { container_id: "s", idle_time_out: Some(4_000), channel_max: Some(0), ..Open::default() };
    let mut client = Amqp10Client::new(Amqp10Config { heartbeat_s: 10, ..config() }, NOW);
    let before_open = fuzzing::HANDSHAKE.len() - 22;
    hear(&mut client, &fuzzing::HANDSHAKE[..before_open]);
    assert_eq!(client.next_timeout(), Some(after(10)), "the handshake takes ten seconds at most");
    hear(&mut client, &frame(0, &open, &[]));
    said(&mut client);
    assert_eq!(client.next_timeout(), Some(after(2)));
    client.handle_timeout(after(2)).expect("nothing is late");
    assert!(said(&mut client).is_empty(), "it had written");
    client.handle_timeout(after(4)).expect("nothing is late");
    assert_eq!(said(&mut client), ["heartbeat"]);
    client.excuse_silence(after(5));
    for second in 5..25 {
        client.handle_timeout(after(second)).expect("nothing is late");
    }
    let error = client.handle_timeout(after(25)).expect_err("silence");
    assert!(matches!(error, Amqp10Error::Silent { silent } if silent == Nanos(20_000_000_000)), "{error}");
    assert_eq!(client.next_timeout(), None);
}

#[test]
fn a_handshake_that_hangs_is_given_up() {
    let error = Amqp10Client::new(config(), NOW).handle_timeout(after(10)).expect_err("it hangs");
    assert!(error.to_string().contains("greeting"), "{error}");
    let error = open(1, 1).end_of_input(b"abc");
    assert!(error.to_string().contains("while it was in use"), "{error}");
}

#[test]
fn links_end_from_either_side_and_sessions_from_the_peers() {
    let mut client = open(5, 5);
    let error = Condition { condition: Symbol("amqp:resource-deleted"), ..Condition::default() };
    let detach = Detach { handle: 1, closed: Some(true), error: Some(error) };
    let events = hear(&mut client, &frame(0, &detach, &[]));
    assert!(events[0].contains("handle: 0") && events[0].contains("resource-deleted"), "{events:?}");
    assert!(said(&mut client)[0].starts_with("Detach(Detach { handle: 0"));
    client.detach(0, 1).expect("detaches");
    said(&mut client);
    hear(&mut client, &frame(0, &Detach { handle: 0, ..detach }, &[]));
    assert!(said(&mut client).is_empty(), "an answer is not answered");
    let events = hear(&mut client, &frame(0, &End::default(), &[]));
    assert!(events[0].starts_with("Ended"), "{events:?}");
    assert!(said(&mut client)[0].starts_with("End(End"));
    client.begin(0).expect("the number is free again");
    assert!(client.begin(4).is_err(), "the peer allows 3");
}

#[test]
fn an_aborted_delivery_is_told_and_takes_a_number() {
    let mut client = open(10, 10);
    client.flow(0, 1, 50, false);
    let part =
        Transfer { handle: 0, delivery_id: Some(0), delivery_tag: Some(b"t"), more: Some(true), ..Transfer::default() };
    let end = Transfer { delivery_id: None, delivery_tag: None, more: None, aborted: Some(true), ..part };
    let mut bytes = frame(0, &part, b"half");
    bytes.extend(frame(0, &end, &[]));
    let events = hear(&mut client, &bytes);
    assert_eq!(events, ["Aborted { session: 0, handle: 1, id: 0 }"]);
    assert_eq!(client.delivery_count(0, 1), 1);
    client.flow(0, 1, 1, false);
    assert!(said(&mut client)[1].contains("delivery_count: Some(1), link_credit: Some(50)"));
}

/// A peer that begins a message on each link, and ends none.
#[test]
fn parts_of_messages_are_bounded_for_all_links_together() {
    let config = Amqp10Config { max_body: 1_000, ..config() };
    let mut client = Amqp10Client::new(config, NOW);
    hear(&mut client, fuzzing::HANDSHAKE);
    client.begin(0).expect("begins");
    hear(&mut client, &frame(0, &Begin { remote_channel: Some(0), ..Begin::default() }, &[]));
    let names = ["a", "b", "c"];
    for (name, handle) in names.into_iter().zip(0..) {
        let attach = Attach { name, handle, is_receiver: true, ..Attach::default() };
        client.attach(0, &attach).expect("attaches");
        hear(&mut client, &frame(0, &Attach { is_receiver: false, ..attach }, &[]));
    }
    let part = |handle, id, more| Transfer { handle, delivery_id: Some(id), more: Some(more), ..Transfer::default() };
    let body = [b"\0\x53\x75\xB0\0\0\x01\x88".as_slice(), &[7; 392]].concat();
    // What is over does not count any more, whichever link it came on.
    for id in 0..9 {
        let handle = id % 3;
        let mut bytes = frame(0, &part(handle, id, true), &body[..300]);
        bytes.extend(frame(0, &part(handle, id, false), &body[300..]));
        assert_eq!(hear(&mut client, &bytes).len(), 1);
    }
    let all: Vec<u8> = (0..3).flat_map(|handle| frame(0, &part(handle, 9 + handle, true), &body)).collect();
    let error = error_of(&mut client, &all);
    assert!(error.to_string().contains("message-size-exceeded"), "{error}");
    assert!(said(&mut client).last().expect("a close").contains("message-size-exceeded"));
}
