//! Our codec of AMQP 1.0 against two of others, `fe2o3-amqp-types` and `ntex-amqp-codec`: a peer reads the random
//! values, frames and messages that we write, and must find in each field what we wrote there; what it then writes
//! itself, in its own forms, we must read as the same. `make prove PARTS=clients` runs it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use fe2o3_amqp_types::messaging::message::__private::{Deserializable, Serializable};
use fe2o3_amqp_types::messaging::{Body, Message};
use fe2o3_amqp_types::{performatives, sasl};
use ntex_amqp_codec::types::Variant;
use ntex_amqp_codec::{Decode, Encode, protocol};
use ntex_bytes::{BytePages, Bytes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_amqp::Value;
use testkit::Random;
use wire::amqp10::*;
use wire::amqp091::{Reader, SecretStr};

const ROUNDS: u64 = 5_000;
/// Conditions of the specification and of a broker.
const NAMES: [&str; 4] = ["amqp:not-found", "amqp:link:stolen", "amqp:connection:forced", "example:of-its-own"];
const EXPIRY: [&str; 4] = ["link-detach", "session-end", "connection-close", "never"];
/// Kinds of values, by their first letters, that peers print as we do.
const PLAIN: [&str; 10] = ["Boo", "Uby", "Ush", "Uin", "Ulo", "Byt", "Sho", "Int", "Lon", "Cha"];

/// Reads bytes as a peer does: how it prints the value, and what it writes for it.
type Through = fn(&[u8]) -> (String, Vec<u8>);

fn fe2o3<T: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) -> (String, Vec<u8>) {
    let value: T = serde_amqp::from_slice(bytes).unwrap_or_else(|e| panic!("{e}: {bytes:x?}"));
    (format!("{value:?}"), serde_amqp::to_vec(&value).expect("written"))
}

fn fe2o3_message(bytes: &[u8]) -> (String, Vec<u8>) {
    let read: Deserializable<Message<Body<Value>>> =
        serde_amqp::from_slice(bytes).unwrap_or_else(|e| panic!("{e}: {bytes:x?}"));
    (format!("{read:?}"), serde_amqp::to_vec(&Serializable(read.0)).expect("written"))
}

fn ntex<T: Decode + Encode + Debug>(bytes: &[u8]) -> (String, Vec<u8>) {
    let mut input = Bytes::copy_from_slice(bytes);
    let value = T::decode(&mut input).unwrap_or_else(|e| panic!("{e:?}: {bytes:x?}"));
    assert!(input.is_empty(), "{value:?} is not all of {bytes:x?}");
    let mut out = BytePages::default();
    value.encode(&mut out);
    (format!("{value:?}"), out.freeze().to_vec())
}

/// All values in some bytes.
fn values(bytes: &[u8]) -> Vec<TypedValue<'_>> {
    let (mut reader, mut found) = (Reader::new(bytes), Vec::new());
    while !reader.rest().is_empty() {
        found.push(TypedValue::read(&mut reader).unwrap_or_else(|e| panic!("{e}: {bytes:x?}")));
    }
    found
}

fn all<'a, E: Debug>(items: impl Iterator<Item = Result<TypedValue<'a>, E>>) -> Vec<TypedValue<'a>> {
    items.map(|it| it.expect("a value")).collect()
}

/// Keys and values of a map, in the order of the keys, which a hash table loses.
fn entries<'a>(items: &[TypedValue<'a>]) -> Vec<TypedValue<'a>> {
    let mut pairs: Vec<_> = items.chunks(2).collect();
    pairs.sort_by_key(|pair| format!("{:?}", pair[0]));
    pairs.concat()
}

/// Whether two values mean the same, in whatever forms.
fn same(a: TypedValue<'_>, b: TypedValue<'_>) -> bool {
    use TypedValue::{Array, Described, List, Map, Symbol};
    let pairwise = |a: Vec<TypedValue<'_>>, b: Vec<TypedValue<'_>>| {
        a.len() == b.len() && a.into_iter().zip(b).all(|(a, b)| same(a, b))
    };
    match (a, b) {
        (Described(a), Described(b)) if a.descriptor == b.descriptor => {
            match (a.value().expect("a value"), b.value().expect("a value")) {
                (List(a), List(b)) => same_fields(all(a), all(b)),
                (a, b) => same(a, b),
            }
        }
        (List(a), List(b)) => pairwise(all(a), all(b)),
        (Map(a), Map(b)) => pairwise(entries(&all(a)), entries(&all(b))),
        (Array(a), Array(b)) => pairwise(all(a), all(b)),
        // One of several stands for itself.
        (Array(several), one @ Symbol(_)) | (one @ Symbol(_), Array(several)) => all(several) == [one],
        (a, b) => a == b,
    }
}

/// Whether the fields of composites mean the same: one that is null, or not there, has its default.
fn same_fields(mut a: Vec<TypedValue<'_>>, mut b: Vec<TypedValue<'_>>) -> bool {
    use TypedValue::{Bool, Null, Symbol, Ubyte, Uint, Ushort};
    let is_default = |value: TypedValue<'_>| match value {
        Null | Bool(false) | Uint(0 | u32::MAX) | Ushort(u16::MAX) | Ubyte(0 | 2 | 4) => true,
        Symbol(name) => name.0 == "session-end",
        _ => false,
    };
    let count = a.len().max(b.len());
    a.resize(count, Null);
    b.resize(count, Null);
    let one = |(a, b)| same(a, b) || [a, b].contains(&Null) && is_default(a) && is_default(b);
    a.into_iter().zip(b).all(one)
}

/// Numbers, flags and texts of a printed struct by the names of their fields, in order; empty where a field is
/// something else.
fn fields(printed: &str) -> BTreeMap<&str, Vec<&str>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (at, _) in printed.match_indices(": ") {
        let name = printed[..at].rsplit(|c: char| !is_word(c)).next().unwrap_or_default();
        let mut value = &printed[at + 2..];
        // `Some(Handle(5))` is 5.
        while let Some((word, inner)) = value.split_once('(')
            && !word.is_empty()
            && word.chars().all(is_word)
        {
            value = inner;
        }
        let end = match value.strip_prefix('"') {
            Some(text) => text.find('"').map(|len| len + 2),
            None => value.find(|c: char| !is_word(c)),
        };
        let literal = &value[..end.unwrap_or(value.len())];
        // Not a date, and not the name of an enumeration's value.
        let is_one = literal.starts_with('"')
            || ["true", "false"].contains(&literal)
            || literal.parse::<u64>().is_ok() && !value[literal.len()..].starts_with('-');
        found.entry(name).or_default().push(if is_one { literal } else { "" });
    }
    found
}

/// Asserts that a peer understands bytes as we do, and we what it writes. How many fields were compared by name.
fn check(ours: &str, bytes: &[u8], through: Through) -> usize {
    let (theirs, written) = through(bytes);
    let (a, b) = (values(bytes), values(&written));
    assert!(a.len() == b.len() && a.into_iter().zip(b).all(|(a, b)| same(a, b)), "{ours}\n{theirs}\n{written:x?}");
    // A message begins with a section of a higher number.
    if !ours.is_empty() && bytes[2] < 0x50 {
        let read = Performative::read(&mut Reader::new(&written));
        assert!(read.is_ok(), "{ours}: {written:x?}: {read:?}");
    }
    let (mine, others) = (fields(ours), fields(&theirs));
    let mut compared = 0;
    for (name, literals) in mine {
        // Of values that we do not look into.
        if ["descriptor", "count", "code", "left"].contains(&name) {
            continue;
        }
        let Some(others) = others.get(name).filter(|it| it.len() == literals.len()) else { continue };
        for (mine, other) in literals.iter().zip(others).filter(|(a, b)| !a.is_empty() && !b.is_empty()) {
            assert_eq!(mine, other, "{name}: {ours}\n{theirs}");
            compared += 1;
        }
    }
    compared
}

/// Draws random things.
struct Draw(RefCell<Random>);

impl Draw {
    fn new(seed: u64) -> Self {
        Self(RefCell::new(Random::new(seed)))
    }

    fn below(&self, bound: u64) -> u64 {
        self.0.borrow_mut().below(bound)
    }

    fn coin(&self) -> bool {
        self.below(2) == 0
    }

    fn of<'a>(&self, all: &[&'a str]) -> &'a str {
        self.0.borrow_mut().of(all)
    }

    fn maybe<T>(&self, value: T) -> Option<T> {
        (self.below(3) > 0).then_some(value)
    }

    /// Of one, two or four bytes.
    fn number(&self) -> u32 {
        (self.below(1 << 31) as u32) >> [0, 23, 31][self.below(3) as usize]
    }

    fn long(&self) -> u64 {
        u64::from(self.number()) << [0, 8, 32][self.below(3) as usize]
    }

    fn text(&self, alphabet: &[char]) -> String {
        let len = [self.below(20), 300][usize::from(self.below(20) == 0)];
        (0..len).map(|_| alphabet[self.below(alphabet.len() as u64) as usize]).collect()
    }

    fn symbol(&self) -> Symbol<'static> {
        Symbol(self.of(&NAMES))
    }

    /// A value that was written, or null.
    fn field<'a>(&self, bytes: &'a [u8]) -> TypedValue<'a> {
        self.maybe(values(bytes)[0]).unwrap_or_default()
    }
}

/// Appends a value of a kind that a map's key may have, too.
fn put_key(draw: &Draw, out: &mut Vec<u8>) {
    match draw.below(3) {
        0 => TypedValue::Str(&draw.text(&['a', 'é', '€'])).write(out),
        1 => TypedValue::Symbol(draw.symbol()).write(out),
        _ => TypedValue::Ulong(draw.long()).write(out),
    }
}

/// Appends a value without others in it.
fn put_simple(draw: &Draw, out: &mut Vec<u8>) {
    let (number, long) = (draw.number(), draw.long());
    match draw.below(16) {
        0 => TypedValue::Null.write(out),
        1 => TypedValue::Bool(draw.coin()).write(out),
        2 => TypedValue::Ubyte(number as u8).write(out),
        3 => TypedValue::Ushort(number as u16).write(out),
        4 => TypedValue::Uint(number).write(out),
        5 => TypedValue::Byte(number as i8).write(out),
        6 => TypedValue::Short(number as i16).write(out),
        7 => TypedValue::Int(number.cast_signed().wrapping_neg()).write(out),
        8 => TypedValue::Long(long.cast_signed().wrapping_neg()).write(out),
        9 => TypedValue::Float(number as f32).write(out),
        10 => TypedValue::Double(long as f64).write(out),
        11 => TypedValue::Decimal(&[number as u8; 16][..[4, 8, 16][draw.below(3) as usize]]).write(out),
        12 => TypedValue::Char(['a', 'é', '€', '💯'][draw.below(4) as usize]).write(out),
        13 => TypedValue::Timestamp(i64::from(number) << 8).write(out),
        14 => TypedValue::Uuid([number as u8; 16]).write(out),
        _ => TypedValue::Binary(&[7; 300][..(number % 300) as usize]).write(out),
    }
}

/// Appends a map of `count` pairs, whose keys differ.
fn put_pairs(draw: &Draw, count: u64, out: &mut Vec<u8>, key: fn(&str, &mut Vec<u8>), value: fn(&Draw, &mut Vec<u8>)) {
    put_map(out, |out| {
        for number in 0..count {
            key(&format!("{number}"), out);
            value(draw, out);
        }
        2 * count as u32
    });
}

fn put_symbol(name: &str, out: &mut Vec<u8>) {
    TypedValue::Symbol(Symbol(name)).write(out);
}

fn put_text(name: &str, out: &mut Vec<u8>) {
    TypedValue::Str(name).write(out);
}

/// Appends an array: of numbers, or of symbols in either form.
fn put_array(draw: &Draw, is_of_symbols: bool, out: &mut Vec<u8>) {
    let count = 1 + draw.below(5) as u8;
    let mut data: Vec<u8> = Vec::new();
    let code = match (is_of_symbols, draw.coin()) {
        (false, true) => 0x71,
        (false, false) => 0x80,
        (true, true) => 0xA3,
        (true, false) => 0xB3,
    };
    for _ in 0..count {
        let name = draw.symbol().0;
        match code {
            0x71 => data.extend(draw.number().to_be_bytes()),
            0x80 => data.extend(draw.long().to_be_bytes()),
            0xA3 => data.push(name.len() as u8),
            _ => data.extend((name.len() as u32).to_be_bytes()),
        }
        if is_of_symbols {
            data.extend(name.as_bytes());
        }
    }
    out.extend([0xE0, data.len() as u8 + 2, count, code]);
    out.extend(data);
}

/// Appends any value; those that hold others nest at most `depth` deep.
fn put_value(draw: &Draw, depth: usize, out: &mut Vec<u8>) {
    match draw.below(if depth > 0 { 8 } else { 4 }) {
        0 => put_key(draw, out),
        1..4 => put_simple(draw, out),
        4 => put_array(draw, draw.coin(), out),
        5 => put_map(out, |out| {
            let count = draw.below(4);
            for number in 0..count {
                TypedValue::Uint(number as u32).write(out);
                put_value(draw, depth - 1, out);
            }
            2 * count as u32
        }),
        6 => put_items(draw, depth, out),
        _ => {
            let code = Descriptor::Code(1 + draw.long());
            put_descriptor(out, if draw.coin() { code } else { Descriptor::Name(draw.symbol()) });
            put_value(draw, depth - 1, out);
        }
    }
}

/// Appends a list: a map of an even count, under the other code.
fn put_items(draw: &Draw, depth: usize, out: &mut Vec<u8>) {
    let start = out.len();
    put_map(out, |out| {
        let count = 2 * draw.below(20) as u32;
        (0..count).for_each(|_| put_value(draw, depth - 1, out));
        count
    });
    out[start] -= 1;
}

#[test]
fn values_are_read_alike() {
    let draw = Draw::new(1);
    for _ in 0..ROUNDS {
        let mut bytes = Vec::new();
        put_value(&draw, 4, &mut bytes);
        let ours = format!("{:?}", values(&bytes)[0]);
        for peer in [fe2o3::<Value> as Through, ntex::<Variant>] {
            check("", &bytes, peer);
            let (theirs, _) = peer(&bytes);
            let theirs = theirs.replace("Boolean(", "Bool(");
            assert_eq!(ours[..3], theirs[..3], "{ours} {theirs}");
            assert!(!PLAIN.contains(&&ours[..3]) || ours == theirs, "{ours} {theirs}");
        }
    }
}

/// Bytes and texts that a frame borrows.
struct Pool {
    texts: [String; 3],
    /// One symbol, or an array of some.
    symbols: Vec<u8>,
    map: Vec<u8>,
    filter: Vec<u8>,
    unsettled: Vec<u8>,
    outcome: Vec<u8>,
    target: Vec<u8>,
    array: Vec<u8>,
}

impl Pool {
    /// `is_plain`: filters are not described, as the peer knows none that are.
    fn new(draw: &Draw, is_plain: bool) -> Self {
        let mut it = Self {
            texts: [(); 3].map(|()| draw.text(&['a', '0', 'é'])),
            symbols: Vec::new(),
            map: Vec::new(),
            filter: Vec::new(),
            unsettled: Vec::new(),
            outcome: Vec::new(),
            target: Vec::new(),
            array: Vec::new(),
        };
        match draw.coin() {
            true => TypedValue::Symbol(draw.symbol()).write(&mut it.symbols),
            false => put_array(draw, true, &mut it.symbols),
        }
        put_array(draw, true, &mut it.array);
        put_pairs(draw, 1 + draw.below(3), &mut it.map, put_symbol, put_simple);
        put_map(&mut it.filter, |out| {
            put_symbol("selector", out);
            if !is_plain {
                put_descriptor(out, Descriptor::Name(Symbol("apache.org:selector-filter:string")));
            }
            put_text("n > 5", out);
            2
        });
        put_map(&mut it.unsettled, |out| {
            TypedValue::Binary(&[1, 2]).write(out);
            TypedValue::Null.write(out);
            TypedValue::Binary(&[3]).write(out);
            Accepted {}.write(out);
            4
        });
        Modified { delivery_failed: draw.maybe(true), ..Modified::default() }.write(&mut it.outcome);
        let target = Target {
            address: TypedValue::Str("/queues/q"),
            durable: draw.maybe(draw.below(3) as u32),
            expiry_policy: Some(Symbol(draw.of(&EXPIRY))),
            timeout: draw.maybe(draw.number()),
            dynamic: draw.maybe(draw.coin()),
            capabilities: TypedValue::Symbol(draw.symbol()),
            ..Target::default()
        };
        target.write(&mut it.target);
        it
    }

    fn text(&self, draw: &Draw) -> &str {
        &self.texts[draw.below(3) as usize]
    }

    fn source(&self, draw: &Draw) -> Source<'_> {
        Source {
            address: TypedValue::Str(self.text(draw)),
            durable: draw.maybe(draw.below(3) as u32),
            expiry_policy: Some(Symbol(draw.of(&EXPIRY))),
            timeout: draw.maybe(draw.number()),
            dynamic: draw.maybe(draw.coin()),
            dynamic_node_properties: draw.field(&self.map),
            distribution_mode: draw.maybe(Symbol(draw.of(&["move", "copy"]))),
            filter: draw.field(&self.filter),
            default_outcome: draw.field(&self.outcome),
            outcomes: draw.field(&self.symbols),
            capabilities: draw.field(&self.symbols),
        }
    }

    fn error(&self, draw: &Draw) -> Option<Condition<'_>> {
        draw.maybe(Condition {
            condition: draw.symbol(),
            description: draw.maybe(self.text(draw)),
            info: draw.field(&self.map),
        })
    }

    fn state(&self, draw: &Draw) -> Option<DeliveryState<'_>> {
        Some(match draw.below(6) {
            0 => DeliveryState::Accepted,
            1 => DeliveryState::Released,
            2 => DeliveryState::Rejected(Rejected { error: self.error(draw) }),
            3 => DeliveryState::Modified(Modified {
                delivery_failed: draw.maybe(draw.coin()),
                undeliverable_here: draw.maybe(draw.coin()),
                message_annotations: draw.field(&self.map),
            }),
            4 => DeliveryState::Received(PartlyReceived { section_number: draw.number(), section_offset: draw.long() }),
            _ => return None,
        })
    }

    /// A frame that opens something.
    fn opening(&self, draw: &Draw) -> Performative<'_> {
        let symbols = || draw.field(&self.symbols);
        match draw.below(3) {
            0 => Performative::Open(Open {
                container_id: self.text(draw),
                hostname: draw.maybe(self.text(draw)),
                max_frame_size: draw.maybe(draw.number()),
                channel_max: draw.maybe(draw.number() as u16),
                idle_time_out: draw.maybe(draw.number()),
                outgoing_locales: symbols(),
                incoming_locales: symbols(),
                offered_capabilities: symbols(),
                desired_capabilities: symbols(),
                properties: draw.field(&self.map),
            }),
            1 => Performative::Begin(Begin {
                remote_channel: draw.maybe(draw.number() as u16),
                next_outgoing_id: draw.number(),
                incoming_window: draw.number(),
                outgoing_window: draw.number(),
                handle_max: draw.maybe(draw.number()),
                offered_capabilities: symbols(),
                desired_capabilities: symbols(),
                properties: draw.field(&self.map),
            }),
            _ => Performative::Attach(Attach {
                name: self.text(draw),
                handle: draw.number(),
                is_receiver: draw.coin(),
                snd_settle_mode: draw.maybe(draw.below(3) as u8),
                rcv_settle_mode: draw.maybe(draw.below(2) as u8),
                source: draw.maybe(self.source(draw)),
                target: draw.field(&self.target),
                unsettled: draw.field(&self.unsettled),
                incomplete_unsettled: draw.maybe(draw.coin()),
                initial_delivery_count: draw.maybe(draw.number()),
                max_message_size: draw.maybe(draw.long()),
                offered_capabilities: symbols(),
                desired_capabilities: symbols(),
                properties: draw.field(&self.map),
            }),
        }
    }

    /// Any other frame.
    fn frame(&self, draw: &Draw) -> Performative<'_> {
        match draw.below(9) {
            0 => Performative::Flow(Flow {
                next_incoming_id: draw.maybe(draw.number()),
                incoming_window: draw.number(),
                next_outgoing_id: draw.number(),
                outgoing_window: draw.number(),
                handle: draw.maybe(draw.number()),
                delivery_count: draw.maybe(draw.number()),
                link_credit: draw.maybe(draw.number()),
                available: draw.maybe(draw.number()),
                drain: draw.maybe(draw.coin()),
                echo: draw.maybe(draw.coin()),
                properties: draw.field(&self.map),
            }),
            1 => Performative::Transfer(Transfer {
                handle: draw.number(),
                delivery_id: draw.maybe(draw.number()),
                delivery_tag: draw.maybe(self.text(draw).as_bytes()),
                message_format: draw.maybe(draw.number()),
                settled: draw.maybe(draw.coin()),
                more: draw.maybe(draw.coin()),
                rcv_settle_mode: draw.maybe(draw.below(2) as u8),
                state: self.state(draw),
                resume: draw.maybe(draw.coin()),
                aborted: draw.maybe(draw.coin()),
                batchable: draw.maybe(draw.coin()),
            }),
            2 => Performative::Disposition(Disposition {
                is_receiver: draw.coin(),
                first: draw.number(),
                last: draw.maybe(draw.number()),
                settled: draw.maybe(draw.coin()),
                state: self.state(draw),
                batchable: draw.maybe(draw.coin()),
            }),
            3 => Performative::Detach(Detach {
                handle: draw.number(),
                closed: draw.maybe(draw.coin()),
                error: self.error(draw),
            }),
            4 => Performative::End(End { error: self.error(draw) }),
            5 => Performative::Close(Close { error: self.error(draw) }),
            _ => self.opening(draw),
        }
    }

    /// A frame of a login, and how `fe2o3-amqp-types` reads it.
    fn login(&self, draw: &Draw) -> (Performative<'_>, Through) {
        let bytes = self.text(draw).as_bytes();
        match draw.below(5) {
            0 => {
                let mechanisms = values(&self.array)[0];
                (Performative::SaslMechanisms(SaslMechanisms { mechanisms }), fe2o3::<sasl::SaslMechanisms>)
            }
            1 => {
                let init = SaslInit {
                    mechanism: draw.symbol(),
                    initial_response: draw.maybe(SecretStr(bytes)),
                    hostname: draw.maybe(self.text(draw)),
                };
                (Performative::SaslInit(init), fe2o3::<sasl::SaslInit>)
            }
            2 => (Performative::SaslChallenge(SaslChallenge { challenge: bytes }), fe2o3::<sasl::SaslChallenge>),
            3 => (Performative::SaslResponse(SaslResponse { response: SecretStr(bytes) }), fe2o3::<sasl::SaslResponse>),
            _ => {
                let outcome = SaslOutcome { code: draw.below(5) as u8, additional_data: draw.maybe(bytes) };
                (Performative::SaslOutcome(outcome), fe2o3::<sasl::SaslOutcome>)
            }
        }
    }
}

fn written(frame: &Performative<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    bytes
}

#[test]
fn frames_are_read_alike() {
    let (draw, mut compared) = (Draw::new(2), 0);
    for round in 0..ROUNDS {
        let is_plain = round % 2 == 0;
        let pool = Pool::new(&draw, is_plain);
        let frame = pool.frame(&draw);
        let peer: Through = if is_plain { ntex::<protocol::Frame> } else { fe2o3::<performatives::Performative> };
        let ours = match frame {
            Performative::Attach(Attach { target: target @ TypedValue::Described(_), .. }) => {
                format!("{frame:?} {:?}", Target::of(target).expect("a target"))
            }
            _ => format!("{frame:?}"),
        };
        compared += check(&ours, &written(&frame), peer);
        let (frame, other) = pool.login(&draw);
        let peer: Through = if is_plain { ntex::<protocol::SaslFrameBody> } else { other };
        compared += check(&format!("{frame:?}"), &written(&frame), peer);
    }
    assert!(compared > 2 * ROUNDS as usize, "{compared} fields");
}

/// Appends a section that is a map.
fn put_section(draw: &Draw, code: u64, key: fn(&str, &mut Vec<u8>), out: &mut Vec<u8>) {
    if draw.coin() {
        put_descriptor(out, Descriptor::Code(code));
        put_pairs(draw, 1 + draw.below(30), out, key, put_simple);
    }
}

/// Appends a message; `several`: its body may be of several sections.
fn put_message(draw: &Draw, several: bool, out: &mut Vec<u8>) -> String {
    let (id, text) = (draw.text(&['a', 'é']), draw.text(&['0', '€']));
    let id =
        [TypedValue::Str(&id), TypedValue::Ulong(draw.long()), TypedValue::Uuid([7; 16]), TypedValue::Binary(&[8])]
            [draw.below(4) as usize];
    let header = HeaderSection {
        durable: draw.maybe(draw.coin()),
        priority: draw.maybe(draw.number() as u8),
        ttl: draw.maybe(draw.number()),
        first_acquirer: draw.maybe(draw.coin()),
        delivery_count: draw.maybe(draw.number()),
    };
    let properties = PropertiesSection {
        message_id: draw.maybe(id).unwrap_or_default(),
        user_id: draw.maybe(text.as_bytes()),
        to: draw.maybe(TypedValue::Str(&text)).unwrap_or_default(),
        subject: draw.maybe(text.as_str()),
        reply_to: draw.maybe(TypedValue::Str("/queues/back")).unwrap_or_default(),
        correlation_id: draw.maybe(id).unwrap_or_default(),
        content_type: draw.maybe(draw.symbol()),
        content_encoding: draw.maybe(draw.symbol()),
        absolute_expiry_time: draw.maybe(i64::from(draw.number())),
        creation_time: draw.maybe(i64::from(draw.number())),
        group_id: draw.maybe(text.as_str()),
        group_sequence: draw.maybe(draw.number()),
        reply_to_group_id: draw.maybe("of the group"),
    };
    header.write(out);
    put_section(draw, 0x71, put_symbol, out);
    put_section(draw, 0x72, put_symbol, out);
    properties.write(out);
    put_section(draw, 0x74, put_text, out);
    let code = 0x75 + draw.below(3);
    for _ in 0..=u64::from(several && code < 0x77 && draw.coin()) {
        put_descriptor(out, Descriptor::Code(code));
        match code {
            0x75 => TypedValue::Binary(text.as_bytes()).write(out),
            0x76 => put_items(draw, 2, out),
            _ => put_key(draw, out),
        }
    }
    put_section(draw, 0x78, put_symbol, out);
    format!("{header:?} {properties:?}")
}

#[test]
fn messages_are_read_alike() {
    let (draw, mut compared) = (Draw::new(3), 0);
    for round in 0..ROUNDS {
        let is_ntex = round % 2 == 0;
        let mut bytes = Vec::new();
        let ours = put_message(&draw, is_ntex, &mut bytes);
        let peer: Through = if is_ntex { ntex::<ntex_amqp_codec::Message> } else { fe2o3_message };
        compared += check(&ours, &bytes, peer);
        let (_, theirs) = peer(&bytes);
        if let MessageBody::Data(body) = MessageParts::read(&bytes).expect("a message").body {
            assert_eq!(MessageParts::read(&theirs).map(|it| it.body), Ok(MessageBody::Data(body)));
        }
    }
    assert!(compared > 3 * ROUNDS as usize, "{compared} fields");
}
