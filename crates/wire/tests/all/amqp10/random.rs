//! Random values there and back, random bytes, and random messages over a connection cut at random.

use wire::amqp10::*;
use wire::amqp091::Reader;

use crate::amqp091::common::Random;

/// Appends a random value; containers nest at most `depth` deep.
fn put(random: &mut Random, depth: usize, out: &mut Vec<u8>) {
    let number = random.next();
    let (bytes, text) = (random.bytes(300), random.text(40));
    let small = |bits: u32| number >> (64 - bits);
    match random.below(if depth > 0 { 22 } else { 19 }) {
        0 => TypedValue::Null.write(out),
        1 => TypedValue::Bool(random.coin()).write(out),
        2 => TypedValue::Ubyte(number as u8).write(out),
        3 => TypedValue::Ushort(number as u16).write(out),
        4 => TypedValue::Uint(small([1, 8, 32][random.below(3)]) as u32).write(out),
        5 => TypedValue::Ulong(small([1, 8, 64][random.below(3)])).write(out),
        6 => TypedValue::Byte(number as i8).write(out),
        7 => TypedValue::Short(number as i16).write(out),
        8 => TypedValue::Int(number as i32 >> [0, 26][random.below(2)]).write(out),
        9 => TypedValue::Long(number as i64 >> [0, 58][random.below(2)]).write(out),
        10 => TypedValue::Float(number as f32).write(out),
        11 => TypedValue::Double(number as f64).write(out),
        12 => TypedValue::Decimal(&number.to_be_bytes()).write(out),
        13 => TypedValue::Char(text.chars().next().unwrap_or('x')).write(out),
        14 => TypedValue::Timestamp(number as i64).write(out),
        15 => TypedValue::Uuid([number as u8; 16]).write(out),
        16 => TypedValue::Binary(&bytes).write(out),
        17 => TypedValue::Str(&text).write(out),
        18 => TypedValue::Symbol(Symbol("amqp:some")).write(out),
        19 => put_map(out, |out| {
            let pairs = random.below(4) as u32;
            (0..2 * pairs).for_each(|_| put(random, depth - 1, out));
            2 * pairs
        }),
        20 => {
            // As a list: a map of an even count, under the other code.
            let start = out.len();
            put_map(out, |out| {
                let values = 2 * random.below(150) as u32;
                (0..values).for_each(|_| put(random, 0, out));
                values
            });
            out[start] -= 1;
        }
        _ => {
            out.extend_from_slice(&[0, 0x53, number as u8 | 1]);
            put(random, depth - 1, out);
        }
    }
}

#[test]
fn values_come_back_as_they_were() {
    let mut random = Random::new(7);
    for round in 0..20_000 {
        let mut bytes = Vec::new();
        put(&mut random, 4, &mut bytes);
        let mut reader = Reader::new(&bytes);
        let value = TypedValue::read(&mut reader).unwrap_or_else(|e| panic!("round {round}: {e}: {bytes:x?}"));
        assert_eq!(reader.rest(), [], "round {round}");
        let mut written = Vec::new();
        value.write(&mut written);
        // A list without values has a form of its own.
        if bytes != [0xC0, 1, 0] {
            assert_eq!(written, bytes, "round {round}");
        }
    }
}

/// Appends what comes for each message, in forms that brokers use and some that none does.
fn put_usual(random: &mut Random, out: &mut Vec<u8>) {
    let number = |random: &mut Random| (random.next() >> [63, 56, 32][random.below(3)]) as u32;
    let flag = |random: &mut Random| [None, Some(true), Some(false)][random.below(3)];
    let (a, b) = (number(random), number(random));
    match random.below(3) {
        0 => Transfer {
            handle: a,
            delivery_id: random.coin().then_some(b),
            delivery_tag: random.coin().then_some(&[7; 32][..random.below(33)]),
            message_format: random.coin().then_some(0),
            settled: flag(random),
            more: flag(random),
            rcv_settle_mode: (random.below(4) == 0).then_some(1),
            state: (random.below(8) == 0).then_some(DeliveryState::Accepted),
            aborted: (random.below(4) == 0).then_some(random.coin()),
            batchable: flag(random),
            ..Transfer::default()
        }
        .write(out),
        1 => Disposition {
            is_receiver: random.coin(),
            first: a,
            last: random.coin().then_some(b),
            settled: flag(random),
            state: [None, Some(DeliveryState::Accepted), Some(DeliveryState::Released)][random.below(3)],
            batchable: flag(random),
        }
        .write(out),
        _ => HeaderSection {
            durable: flag(random),
            priority: random.coin().then_some(4),
            ttl: random.coin().then_some(a),
            first_acquirer: flag(random),
            delivery_count: random.coin().then_some(b),
        }
        .write(out),
    }
    if random.coin() {
        PropertiesSection { message_id: TypedValue::Ulong(b.into()), ..PropertiesSection::default() }.write(out);
    }
    if random.coin() {
        let body = random.bytes(300);
        put_descriptor(out, Descriptor::Code(0x75));
        TypedValue::Binary(&body).write(out);
    }
}

/// Whole, with a byte changed, and cut.
#[test]
fn usual_forms_mean_what_the_table_says() {
    let mut random = Random::new(9);
    for _ in 0..20_000 {
        let mut bytes = Vec::new();
        put_usual(&mut random, &mut bytes);
        fuzzing::value(&bytes);
        let at = random.below(bytes.len().min(40));
        bytes[at] = [random.next() as u8, 0x40, 0x43, 0x41][random.below(4)];
        fuzzing::value(&bytes);
        fuzzing::value(&bytes[..random.below(bytes.len())]);
    }
}

#[test]
fn any_bytes_are_a_value_or_an_error_and_so_is_any_input() {
    let mut random = Random::new(8);
    let mut valid = Vec::new();
    put(&mut random, 3, &mut valid);
    for _ in 0..20_000 {
        let mut bytes = random.bytes(60);
        fuzzing::value(&bytes);
        // Bytes that are nearly right get further.
        let mut near = valid.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(near.len().max(1));
            if let Some(byte) = near.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        fuzzing::value(&near);
        if random.below(50) == 0 {
            valid.clear();
            put(&mut random, 3, &mut valid);
        }
        fuzzing::client_input(&bytes);
        fuzzing::server_input(&bytes);
        bytes.splice(0..0, [1]);
        fuzzing::client_input(&bytes);
    }
}

#[test]
fn frames_that_are_nearly_right_give_the_same_events_however_they_are_cut() {
    nearly_right("S", fuzzing::client_input);
    nearly_right("C", fuzzing::server_input);
}

/// Plays frames that one side has sent.
fn nearly_right(from: &str, input_of: fn(&[u8])) {
    let mut random = Random::new(9);
    let frames: Vec<Vec<u8>> = super::recorded()
        .into_iter()
        .filter(|(side, name, _)| *side == from && !name.starts_with("sasl") && *name != "header")
        .map(|(_, _, bytes)| bytes)
        .collect();
    for _ in 0..5_000 {
        let mut input = vec![1 | (random.below(64) as u8) << 1];
        for _ in 0..1 + random.below(5) {
            let mut frame = frames[random.below(frames.len())].clone();
            // Proton's links have the other numbers; some of the changes make up for it.
            for _ in 0..random.below(3) {
                let at = random.below(frame.len().min(40));
                frame[at] = [random.next() as u8, 0x43, 1, 0x41][random.below(4)];
            }
            input.extend_from_slice(&frame);
        }
        input_of(&input);
    }
}

#[test]
fn composites_come_back_as_they_were() {
    let mut random = Random::new(10);
    for _ in 0..5_000 {
        let (tag, name) = (random.bytes(8), random.text(20));
        let number = random.next() as u32;
        let condition =
            Condition { condition: Symbol("amqp:not-found"), description: Some(&name), ..Condition::default() };
        let mut transactional = Vec::new();
        TransactionalState { txn_id: &tag, outcome: TypedValue::Bool(true) }.write(&mut transactional);
        let state = [
            DeliveryState::Accepted,
            DeliveryState::Released,
            DeliveryState::Rejected(Rejected { error: Some(condition) }),
            DeliveryState::Modified(Modified { delivery_failed: Some(true), ..Modified::default() }),
            DeliveryState::Received(PartlyReceived { section_number: 1, section_offset: 1 << 40 }),
            DeliveryState::Other(TypedValue::read(&mut Reader::new(&transactional)).expect("a state")),
        ][random.below(6)];
        let transfer = Performative::Transfer(Transfer {
            handle: number,
            delivery_id: Some(number.rotate_left(9)),
            delivery_tag: Some(&tag),
            settled: random.coin().then_some(true),
            more: random.coin().then(|| random.coin()),
            state: random.coin().then_some(state),
            ..Transfer::default()
        });
        let disposition = Performative::Disposition(Disposition {
            is_receiver: random.coin(),
            first: number,
            last: random.coin().then_some(number.wrapping_add(5)),
            settled: Some(true),
            state: Some(state),
            ..Disposition::default()
        });
        let attach = Performative::Attach(Attach {
            name: &name,
            handle: number % 256,
            is_receiver: random.coin(),
            source: Some(Source { address: TypedValue::Str(&name), ..Source::default() }),
            max_message_size: Some(u64::from(number) << 20),
            ..Attach::default()
        });
        for first in [transfer, disposition, attach] {
            let mut bytes = Vec::new();
            first.write(&mut bytes);
            assert_eq!(Performative::read(&mut Reader::new(&bytes)), Ok(first));
        }
    }
}
