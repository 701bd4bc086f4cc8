//! Frames of qpid-proton are read, and written again unchanged but for the form of lists.

use measure::Time;
use wire::amqp10::*;
use wire::amqp091::Reader;

use super::recorded;

const NOW: Time = Time(5_000_000_000);

fn of(side: &'static str) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let all = recorded().into_iter().filter(move |(it, ..)| *it == side);
    all.map(|(_, name, bytes)| (name, bytes))
}

#[test]
fn values_are_read_as_proton_means_them() {
    let all: Vec<_> = of("V").collect();
    let of = |name: &str| {
        let (_, bytes) = all.iter().find(|(it, _)| *it == name).expect("recorded");
        TypedValue::read(&mut Reader::new(bytes)).expect(name)
    };
    assert_eq!(of("null"), TypedValue::Null);
    assert_eq!((of("true"), of("false")), (TypedValue::Bool(true), TypedValue::Bool(false)));
    assert_eq!((of("ubyte"), of("byte")), (TypedValue::Ubyte(200), TypedValue::Byte(-8)));
    assert_eq!((of("ushort"), of("short")), (TypedValue::Ushort(60_000), TypedValue::Short(-16)));
    for (name, number) in [("uint0", 0), ("uint8", 255), ("uint32", 4_000_000_000)] {
        assert_eq!(of(name), TypedValue::Uint(number));
    }
    assert_eq!((of("int8"), of("int32")), (TypedValue::Int(-32), TypedValue::Int(-70_000)));
    for (name, number) in [("ulong0", 0), ("ulong8", 20), ("ulong64", 1 << 63)] {
        assert_eq!(of(name), TypedValue::Ulong(number));
    }
    assert_eq!((of("long8"), of("long64")), (TypedValue::Long(-64), TypedValue::Long(-(1 << 40))));
    assert_eq!(of("char"), TypedValue::Char('é'));
    assert_eq!(of("timestamp"), TypedValue::Timestamp(1_700_000_000_000));
    assert_eq!((of("float"), of("double")), (TypedValue::Float(1.5), TypedValue::Double(-2.25)));
    assert_eq!(of("decimal32"), TypedValue::Decimal(&[0, 0, 0, 7]));
    assert_eq!(of("uuid"), TypedValue::Uuid(5_u128.to_be_bytes()));
    assert_eq!(of("binary"), TypedValue::Binary(&[0, 255]));
    assert_eq!((of("string"), of("symbol").as_str()), (TypedValue::Str("hi"), Some("amqp:x")));
    assert_eq!(of("long-string").as_str().map(str::len), Some(300));
    let items = |value| match value {
        TypedValue::List(items) | TypedValue::Map(items) => items.map(|it| it.expect("a value")).collect(),
        TypedValue::Array(items) => items.map(|it| it.expect("a value")).collect(),
        other => vec![other],
    };
    let list = [TypedValue::Long(1), TypedValue::Str("a"), TypedValue::Null];
    assert_eq!(items(of("list")), list);
    assert_eq!(items(of("empty-list")), []);
    assert_eq!(items(of("map")), [TypedValue::Str("a"), TypedValue::Long(1)]);
    assert_eq!(items(of("array")), [1, 2, 3].map(TypedValue::Int));
    assert!(of("described-array").has_symbol("b") && !of("described-array").has_symbol("c"));
    let TypedValue::Described(described) = of("described") else {
        panic!("{:?}", of("described"));
    };
    assert_eq!(described.descriptor, Descriptor::Code(0x77));
    assert_eq!(described.value(), Ok(TypedValue::Str("text")));
}

#[test]
fn values_are_written_as_proton_writes_them_but_for_the_form_of_compounds() {
    for (name, bytes) in of("V") {
        let mut reader = Reader::new(&bytes);
        let value = TypedValue::read(&mut reader).expect(name);
        assert_eq!(reader.rest(), [], "{name}");
        let mut written = Vec::new();
        value.write(&mut written);
        match bytes[0] {
            // Proton always takes the long form.
            0xD0 | 0xD1 | 0xF0 => {
                assert_eq!(written[0], bytes[0] - 0x10, "{name}");
                assert_eq!(written[3..], bytes[9..], "{name}");
            }
            _ => assert_eq!(written, bytes, "{name}"),
        }
    }
}

#[test]
fn performatives_are_read_and_written_again() {
    let mut seen = 0;
    for (side, name, bytes) in recorded() {
        if !["C", "S"].contains(&side) || name == "header" {
            continue;
        }
        let mut reader = Reader::new(&bytes[8..]);
        let first = Performative::read(&mut reader).expect(name);
        assert_eq!(first.name(), format!("amqp:{name}:list"));
        let mut written = Vec::new();
        first.write(&mut written);
        let again = Performative::read(&mut Reader::new(&written)).expect(name);
        let mut twice = Vec::new();
        again.write(&mut twice);
        assert_eq!(written, twice, "{name}");
        seen += 1;
    }
    assert!(seen > 25, "{seen}");
}

/// A client of ours that does what proton's did, so that proton's server answers it.
fn replayed(cut: usize) -> Vec<String> {
    let config = Amqp10Config { mechanism: SaslMechanism::Anonymous, frame_max: 512, ..Amqp10Config::default() };
    let mut client = Amqp10Client::new(config, NOW);
    let (mut log, mut unread) = (Vec::new(), Vec::new());
    let bytes: Vec<u8> = of("S").flat_map(|(_, bytes)| bytes).collect();
    for piece in bytes.chunks(cut) {
        unread.extend_from_slice(piece);
        let mut input = unread.as_slice();
        loop {
            let event = client.poll(NOW, &mut input).expect("proton keeps to the protocol");
            let Some(event) = event else { break };
            let is_open = matches!(event, Amqp10Event::Open { .. });
            log.push(format!("{event:?}"));
            if is_open {
                client.begin(0).expect("begins");
                for (handle, name) in [(0, "s"), (1, "r")] {
                    let attach = Attach { name, handle, is_receiver: name == "r", ..Attach::default() };
                    client.attach(0, &attach).expect("attaches");
                }
            }
        }
        let read = unread.len() - input.len();
        unread.drain(..read);
    }
    assert!(unread.is_empty());
    log.push(format!("{:?}", client.pending_output()));
    log
}

#[test]
fn a_client_hears_what_protons_server_says() {
    let log = replayed(usize::MAX);
    let has = |n: usize, parts: &[&str]| {
        assert!(parts.iter().all(|part| log[n].contains(part)), "{} lacks {parts:?}", log[n]);
    };
    has(0, &["Open", "frame_max: 512"]);
    has(1, &["Begun { session: 0, incoming_window: "]);
    has(2, &["Attached", "handle: 0", "exists: true"]);
    has(3, &["Attached", "handle: 1", "exists: true"]);
    has(4, &["Flow", "handle: Some(0)", "link_credit: Some(10)"]);
    has(5, &["Settled", "first: 0", "Accepted"]);
    has(6, &["Settled", "first: 1", "Rejected", "amqp:resource-limit-exceeded"]);
    has(7, &["Settled", "first: 2", "Released"]);
    has(8, &["Settled", "first: 3", "Modified", "delivery_failed: Some(true)"]);
    has(9, &["Delivery", "handle: 1", "id: 0", "Data("]);
    has(10, &["Detached", "handle: 0"]);
    has(11, &["Closed", "amqp:connection:forced", "bye"]);
    assert_eq!(log.len(), 13, "{log:#?}");
    for cut in 1..40 {
        assert_eq!(replayed(cut), log, "cut into pieces of {cut}");
    }
}

#[test]
fn messages_are_taken_apart() {
    let all: Vec<_> = of("M").collect();
    let of = |name: &str| {
        let (_, bytes) = all.iter().find(|(it, _)| *it == name).expect("recorded");
        MessageParts::read(bytes).expect(name)
    };
    assert_eq!(of("text").body.bytes(), "héllo".as_bytes());
    assert_eq!(of("bytes").body.bytes(), [0, 1]);
    assert_eq!(of("number").body, MessageBody::Value(TypedValue::Long(300)));
    assert!(matches!(of("map").body, MessageBody::Value(TypedValue::Map(map)) if map.len() == 2));
}

#[test]
fn the_sections_of_a_message_are_found() {
    let sent = of("C").find(|(name, _)| *name == "transfer").expect("recorded").1;
    let mut reader = Reader::new(&sent[8..]);
    Performative::read(&mut reader).expect("a transfer");
    let parts = MessageParts::read(reader.rest()).expect("a message");
    assert_eq!(parts.body, MessageBody::Data(b"body"));
    let header = parts.before.header().expect("a header");
    assert_eq!((header.durable, header.priority, header.ttl), (Some(true), Some(7), Some(30_000)));
    let properties = parts.before.properties().expect("properties");
    assert_eq!(properties.message_id, TypedValue::Str("id-1"));
    assert_eq!((properties.user_id, properties.subject), (Some(&b"me"[..]), Some("s")));
    assert_eq!(properties.content_type, Some(Symbol("text/plain")));
    assert_eq!(properties.creation_time, Some(1_700_000_000_000));
    let of = |name: &str| parts.before.application_property(name);
    assert_eq!(of("k"), Some(TypedValue::Str("v")));
    assert_eq!(of("b"), Some(TypedValue::Binary(&[0, 255])));
    assert_eq!(of("other"), None);
}
