//! Writes the seeds of the fuzz targets' corpora, from real encodings, as files called `seed-...`:
//! `cargo run -p wire --example fuzz_seeds -- fuzz/corpus`

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use wire::amqp091::*;

/// The recorded conversation that the tests use, too.
const SESSION: &str = include_str!("../tests/data/rabbitmq-session.txt");
/// Session recorded from qpid-proton.
const PROTON: &str = include_str!("../tests/data/proton-session.txt");
/// In the client and server targets: begin with an open connection, cut at every byte or not.
const OPEN_CUT: u8 = 0x01;
const OPEN: u8 = 0xFF;
const FRESH: u8 = 0xFE;

struct Corpus {
    folder: PathBuf,
}

impl Corpus {
    fn put(&self, target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let folder = self.folder.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("seed-{name}")), bytes)
    }

    /// For the two targets whose first byte is a mode.
    fn put_mode(&self, target: &str, name: &str, mode: u8, bytes: &[u8]) -> std::io::Result<()> {
        self.put(target, name, &[&[mode], bytes].concat())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name the folder of the corpora")?;
    let corpus = Corpus { folder: Path::new(&folder).to_owned() };
    methods(&corpus)?;
    conversation(&corpus)?;
    contents(&corpus)?;
    greetings(&corpus)?;
    tables(&corpus)?;
    amqp10(&corpus)?;
    Ok(())
}

/// Frames of qpid-proton's server, and all values.
fn amqp10(corpus: &Corpus) -> Result<(), Box<dyn Error>> {
    let target = "amqp10_client_input";
    corpus.put_mode(target, "handshake", FRESH, wire::amqp10::fuzzing::HANDSHAKE)?;
    let mut all = Vec::new();
    for line in PROTON.lines().filter(|line| !line.starts_with('#')) {
        let [side, name, hex] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let bytes = unhex(hex)?;
        let payload = bytes.get(8..).unwrap_or_default();
        match side {
            "S" | "C" if payload.is_empty() => {}
            "S" | "C" => corpus.put("amqp10_value", &format!("{side}-{name}"), payload)?,
            _ => corpus.put("amqp10_value", name, &bytes)?,
        }
        if side == "S" && !name.starts_with("sasl") && name != "header" {
            corpus.put_mode(target, name, OPEN_CUT, &bytes)?;
            all.extend_from_slice(&bytes);
        }
    }
    corpus.put_mode(target, "conversation", OPEN, &all)?;
    Ok(())
}

/// Every method with fields of zero and nothing.
fn methods(corpus: &Corpus) -> Result<(), Box<dyn Error>> {
    for info in METHODS {
        let zeros = [0; 64];
        let Some(method) = Method::decode_fields(info.id, &mut Reader::new(&zeros))? else { continue };
        let mut payload = info.id.as_u32().to_be_bytes().to_vec();
        method.encode_fields(&mut Writer::new(&mut payload))?;
        corpus.put("method", info.name, &payload)?;
    }
    Ok(())
}

/// The recorded conversation: as a whole, and frame by frame on an open connection.
fn conversation(corpus: &Corpus) -> Result<(), Box<dyn Error>> {
    let (mut from_client, mut from_server) = (Vec::new(), Vec::new());
    for line in SESSION.lines().filter(|line| !line.starts_with('#')) {
        let [side, name, hex] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let bytes = unhex(hex)?;
        let (target, all) = match side {
            "C" => ("server_input", &mut from_client),
            _ => ("client_input", &mut from_server),
        };
        all.extend_from_slice(&bytes);
        for (i, frame) in frames(&bytes).into_iter().enumerate() {
            let payload = frame.get(7..frame.len() - 1).unwrap_or_default();
            match frame.first() {
                Some(&FRAME_METHOD) => {
                    corpus.put("method", &format!("recorded-{name}"), payload)?;
                }
                Some(&FRAME_HEADER) => {
                    corpus.put("properties", &format!("recorded-{name}-{i}"), payload.get(12..).unwrap_or_default())?;
                }
                _ => {}
            }
        }
        // Channel 3 of the recording is channel 1 in the targets.
        let moved: Vec<u8> = frames(&bytes)
            .into_iter()
            .flat_map(|mut frame| {
                if let Some(channel @ 3) = frame.get_mut(2) {
                    *channel = 1;
                }
                frame
            })
            .collect();
        corpus.put_mode(target, name, OPEN, &moved)?;
    }
    corpus.put_mode("server_input", "conversation", FRESH, &from_client)?;
    corpus.put_mode("client_input", "conversation", FRESH, &from_server)?;
    Ok(())
}

/// Messages of several frames, above the limit, interleaved, and with too much of a body.
fn contents(corpus: &Corpus) -> Result<(), Box<dyn Error>> {
    for (target, method) in [
        ("server_input", Method::from(BasicPublish { routing_key: "q", ..Default::default() })),
        ("client_input", Method::from(BasicDeliver { consumer_tag: "c", delivery_tag: 1, ..Default::default() })),
    ] {
        let mut fields = method.info().id.as_u32().to_be_bytes().to_vec();
        method.encode_fields(&mut Writer::new(&mut fields))?;
        let message = |channel: u8, size: u8, parts: &[usize]| {
            let mut header = vec![0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, size];
            header.extend(Properties::NONE.as_bytes());
            let mut all = vec![frame(FRAME_METHOD, channel, &fields), frame(FRAME_HEADER, channel, &header)];
            all.extend(parts.iter().map(|len| frame(FRAME_BODY, channel, &vec![channel; *len])));
            all
        };
        for (name, frames) in [
            ("empty", message(1, 0, &[])),
            ("one-frame", message(1, 12, &[12])),
            ("two-frames", message(1, 12, &[5, 7])),
            ("empty-frame", message(1, 12, &[0, 12])),
            ("too-much", message(1, 12, &[5, 8])),
            ("closed-channel", message(9, 1, &[1])),
        ] {
            corpus.put_mode(target, &format!("content-{name}"), OPEN, &frames.concat())?;
            corpus.put_mode(target, &format!("content-{name}-cut"), OPEN_CUT, &frames.concat())?;
        }
        let pairs = message(1, 12, &[5, 7]).into_iter().zip(message(2, 9, &[4, 5]));
        let interleaved: Vec<u8> = pairs.flat_map(|(a, b)| [a, b, frame(FRAME_HEARTBEAT, 0, &[])].concat()).collect();
        corpus.put_mode(target, "content-interleaved", OPEN, &interleaved)?;
        // 512 bytes are announced; the targets' limit is 300.
        let mut large = message(1, 0, &[100, 200, 212]).concat();
        let size_at = fields.len() + 8 + 7 + 10;
        if let Some(byte) = large.get_mut(size_at) {
            *byte = 2;
        }
        corpus.put_mode(target, "content-above-limit", OPEN, &large)?;
    }
    Ok(())
}

/// Other beginnings of a connection.
fn greetings(corpus: &Corpus) -> Result<(), Box<dyn Error>> {
    for (name, bytes) in [
        ("http", &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]),
        ("amqp10", b"AMQP\x00\x01\x00\x00"),
        ("tls", b"\x15\x03\x03\x00\x02\x02\x46"),
        ("short", b"AMQ"),
        ("size", b"\x01\x00\x00\xff\xff\xff\xff"),
    ] {
        for target in ["client_input", "server_input"] {
            corpus.put_mode(target, &format!("greeting-{name}"), FRESH, bytes)?;
        }
    }
    Ok(())
}

fn tables(corpus: &Corpus) -> Result<(), Box<dyn Error>> {
    let framed = |table: &FieldTable| {
        let fields = table.view().as_bytes();
        [&(fields.len() as u32).to_be_bytes(), fields].concat()
    };
    let mut all = FieldTable::new();
    let mut array = FieldArray::new();
    let values = [
        Value::Bool(true),
        Value::I8(-1),
        Value::U8(1),
        Value::I16(-2),
        Value::U16(2),
        Value::I32(-3),
        Value::U32(3),
        Value::I64(-4),
        Value::F32(0.5),
        Value::F64(-0.5),
        Value::Decimal { scale: 1, value: 10 },
        Value::Str(b"text"),
        Value::Timestamp(1),
        Value::Void,
        Value::Bytes(&[0, 1]),
    ];
    for (i, value) in values.into_iter().enumerate() {
        array.push(value)?;
        all.insert(&format!("f{i}"), value)?;
        let mut one = FieldTable::new();
        one.insert("k", value)?;
        corpus.put("table", &format!("type-{i}"), &framed(&one))?;
    }
    all.insert("array", &array)?;
    let copy = all.clone();
    all.insert("table", &copy)?;
    corpus.put("table", "all-types", &framed(&all))?;
    corpus.put("table", "empty", &framed(&FieldTable::new()))?;
    let mut nested = FieldTable::new();
    for _ in 1..MAX_NESTING {
        let inner = std::mem::take(&mut nested);
        nested.insert("n", &inner)?;
    }
    corpus.put("table", "deepest", &framed(&nested))?;
    // One level more than is allowed, which only bytes can say.
    let inner = framed(&nested);
    let deeper = [b"\x01nF".as_slice(), &inner].concat();
    let len = (deeper.len() as u32).to_be_bytes();
    corpus.put("table", "too-deep", &[&len, deeper.as_slice()].concat())?;
    let properties = BasicProperties {
        content_type: Some("a/b"),
        content_encoding: Some("c"),
        headers: Some(all.view()),
        delivery_mode: Some(2),
        priority: Some(9),
        correlation_id: Some("d"),
        reply_to: Some("e"),
        expiration: Some("1"),
        message_id: Some("f"),
        timestamp: Some(1),
        message_type: Some("g"),
        user_id: Some("h"),
        app_id: Some("i"),
        cluster_id: Some("j"),
    };
    corpus.put("properties", "all", &properties.to_bytes()?)?;
    corpus.put("properties", "none", Properties::NONE.as_bytes())?;
    Ok(())
}

fn frame(kind: u8, channel: u8, payload: &[u8]) -> Vec<u8> {
    let head = [kind, 0, channel, 0, 0, 0, payload.len() as u8];
    [&head, payload, &[FRAME_END]].concat()
}

/// The frames of a piece of the recording; what is no frame stays as it is.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(&[_, _, _, a, b, c, d]) = bytes.first_chunk() {
        let len = u32::from_be_bytes([a, b, c, d]) as usize + 8;
        let Some((frame, rest)) = bytes.split_at_checked(len) else { break };
        frames.push(frame.to_vec());
        bytes = rest;
    }
    if !bytes.is_empty() {
        frames.push(bytes.to_vec());
    }
    frames
}

fn unhex(hex: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    (0..hex.len() / 2).map(|i| Ok(u8::from_str_radix(hex.get(2 * i..2 * i + 2).unwrap_or_default(), 16)?)).collect()
}
