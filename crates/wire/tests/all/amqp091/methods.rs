//! Our table of methods against RabbitMQ's, and every method there and back.

use wire::amqp091::{
    BasicProperties, EncodeError, EncodeMethod, FieldTable, Kind, METHODS, Method, MethodId, Properties, Reader, Value,
    Writer,
};

use crate::amqp091::common::Random;

const LAYOUTS: &str = include_str!("../../data/amqp091-layouts.txt");

struct Layout {
    id: MethodId,
    name: &'static str,
    kind: Kind,
    types: Vec<&'static str>,
}

fn layouts() -> Vec<Layout> {
    LAYOUTS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut words = line.split(' ');
            let mut word = || words.next().expect("four words at least");
            let id = MethodId { class: word().parse().expect("class"), method: word().parse().expect("method") };
            let name = word();
            let kind = match word() {
                "sync" => Kind::Sync,
                "async" => Kind::Async,
                "content" => Kind::Content,
                other => panic!("kind {other}"),
            };
            Layout { id, name, kind, types: words.collect() }
        })
        .collect()
}

/// A payload of random fields. `bit`s that are neighbours share an octet.
fn random_fields(types: &[&str], random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bits = 0;
    for ty in types {
        if *ty == "bit" {
            if bits % 8 == 0 {
                out.push(0);
            }
            *out.last_mut().expect("an octet of bits") |= u8::from(random.coin()) << (bits % 8);
            bits += 1;
            continue;
        }
        bits = 0;
        match *ty {
            "octet" => out.push(random.next() as u8),
            "short" => out.extend((random.next() as u16).to_be_bytes()),
            "long" => out.extend((random.next() as u32).to_be_bytes()),
            "longlong" | "timestamp" => out.extend(random.next().to_be_bytes()),
            "shortstr" => {
                let text = random.text(255);
                out.push(text.len() as u8);
                out.extend(text.as_bytes());
            }
            "longstr" => {
                let bytes = random.bytes(600);
                out.extend((bytes.len() as u32).to_be_bytes());
                out.extend(bytes);
            }
            "table" => {
                let table = random.table(3);
                out.extend((table.view().as_bytes().len() as u32).to_be_bytes());
                out.extend(table.view().as_bytes());
            }
            other => panic!("type {other}"),
        }
    }
    out
}

#[test]
fn every_method_is_rabbitmqs_survives_the_round_trip_and_is_refused_when_it_is_cut() {
    let layouts = layouts();
    assert_eq!(layouts.len(), METHODS.len());
    let mut random = Random::new(0x5eed);
    for layout in layouts {
        let name = layout.name;
        let info = layout.id.info().unwrap_or_else(|| panic!("no method {name}"));
        assert_eq!((info.name, info.kind), (name, layout.kind));
        assert_eq!((layout.id.name(), layout.id.kind()), (name.to_owned(), Some(layout.kind)));
        let mut payload = Vec::new();
        for _ in 0..200 {
            payload = random_fields(&layout.types, &mut random);
            let mut reader = Reader::new(&payload);
            let method = Method::decode_fields(layout.id, &mut reader)
                .unwrap_or_else(|e| panic!("{name}: {e}"))
                .unwrap_or_else(|| panic!("{name} is not there"));
            assert_eq!(reader.rest(), b"", "{name} leaves bytes");
            assert_eq!(method.info().id, layout.id);
            let mut encoded = Vec::new();
            method.encode_fields(&mut Writer::new(&mut encoded)).expect("encodes");
            assert_eq!(encoded, payload, "{name}");
        }
        for len in 0..payload.len() {
            let decoded = Method::decode_fields(layout.id, &mut Reader::new(&payload[..len]));
            assert!(decoded.is_err(), "{name} cut at {len} of {}", payload.len());
        }
    }
}

#[test]
fn random_bytes_never_panic_a_decoder() {
    let mut random = Random::new(99);
    for _ in 0..20_000 {
        let bytes = random.bytes(80);
        for layout in layouts() {
            let _ = Method::decode_fields(layout.id, &mut Reader::new(&bytes));
        }
        let _ = Properties::from_bytes(&bytes).decode();
    }
}

#[test]
fn all_combinations_of_properties_survive_the_round_trip() {
    let mut headers = FieldTable::new();
    headers.insert("x-stream-offset", 42i64).expect("inserts");
    let text = |present: bool, text: &'static str| present.then_some(text);
    for flags in 0..1u16 << 14 {
        let has = |bit: u16| flags & (1 << bit) != 0;
        let properties = BasicProperties {
            content_type: text(has(0), "text/plain"),
            content_encoding: text(has(1), "gzip"),
            headers: has(2).then(|| headers.view()),
            delivery_mode: has(3).then_some(2),
            priority: has(4).then_some(9),
            correlation_id: text(has(5), "c"),
            reply_to: text(has(6), "amq.rabbitmq.reply-to"),
            expiration: text(has(7), "60000"),
            message_id: text(has(8), "m"),
            timestamp: has(9).then_some(1_700_000_000),
            message_type: text(has(10), ""),
            user_id: text(has(11), "guest"),
            app_id: text(has(12), "bellows"),
            cluster_id: text(has(13), "c1"),
        };
        let bytes = properties.to_bytes().expect("encodes");
        assert_eq!(Properties::from_bytes(&bytes).decode(), Ok(properties));
    }
}

#[test]
fn properties_that_the_class_does_not_have_are_refused() {
    for flags in [0x0001u16, 0x0002, 0x8001] {
        let bytes = [flags.to_be_bytes().as_slice(), &[0, 0, 0, 0]].concat();
        let error = Properties::from_bytes(&bytes).decode().expect_err("unknown flag");
        assert!(error.what.contains("does not have"), "{error}");
    }
    assert!(Properties::from_bytes(&[0]).decode().is_err());
    assert!(Properties::from_bytes(&[0, 0, 0]).decode().is_err(), "a byte too many");
}

#[test]
fn names_above_255_bytes_are_refused_with_their_length() {
    let long = "q".repeat(256);
    let method = wire::amqp091::QueueDeclare { queue: &long, ..Default::default() };
    let error = method.encode_fields(&mut Writer::new(&mut Vec::new())).expect_err("too long");
    assert!(matches!(error, EncodeError::ShortString { len: 256, .. }), "{error}");
    assert!(error.to_string().contains("256"), "{error}");
    let mut table = FieldTable::new();
    assert!(table.insert(&long, Value::Void).is_err());
    assert!(table.is_empty());
}
