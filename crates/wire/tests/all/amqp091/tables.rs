//! Field tables: bytes by hand, limits, and random ones there and back.

use wire::amqp091::{Array, EncodeError, Field, FieldArray, FieldTable, MAX_NESTING, Reader, Table, Value};

use crate::amqp091::common::Random;

fn read(bytes: &[u8]) -> Result<Table<'_>, String> {
    Table::read(&mut Reader::new(bytes)).map_err(|e| e.to_string())
}

/// Adds the length in front.
fn framed(fields: &[u8]) -> Vec<u8> {
    [&(fields.len() as u32).to_be_bytes(), fields].concat()
}

/// Every type once, written by hand from the errata's table.
const ALL: &[u8] = b"\
    \x01tt\x01\
    \x01bb\xf8\
    \x01BB\xc8\
    \x01ss\xff\xf0\
    \x01uu\xea\x60\
    \x01II\xff\xff\xff\xe0\
    \x01ii\xee\x6b\x28\x00\
    \x01ll\xff\xff\xff\xff\xff\xff\xff\xc0\
    \x01ff\x3f\xc0\x00\x00\
    \x01dd\xc0\x02\x00\x00\x00\x00\x00\x00\
    \x01DD\x02\x00\x00\x01\x3a\
    \x01SS\x00\x00\x00\x02hi\
    \x01AA\x00\x00\x00\x09S\x00\x00\x00\x01xVt\x00\
    \x01TT\x00\x00\x00\x00\x65\x53\xf1\x00\
    \x01FF\x00\x00\x00\x03\x01vV\
    \x01VV\
    \x01xx\x00\x00\x00\x02\x00\xff";

fn all() -> FieldTable {
    let mut inner = FieldTable::new();
    inner.insert("v", Value::Void).expect("inserts");
    let mut array = FieldArray::new();
    for value in [Value::Str(b"x"), Value::Void, Value::Bool(false)] {
        array.push(value).expect("pushes");
    }
    let mut table = FieldTable::new();
    let mut put = |name: &str, value: Value<'_>| table.insert(name, value).expect("inserts");
    put("t", true.into());
    put("b", (-8i8).into());
    put("B", 200u8.into());
    put("s", (-16i16).into());
    put("u", 60_000u16.into());
    put("I", (-32i32).into());
    put("i", 4_000_000_000u32.into());
    put("l", (-64i64).into());
    put("f", 1.5f32.into());
    put("d", (-2.25f64).into());
    put("D", Value::Decimal { scale: 2, value: 314 });
    put("S", "hi".into());
    put("A", (&array).into());
    put("T", Value::Timestamp(1_700_000_000));
    put("F", (&inner).into());
    put("V", Value::Void);
    put("x", Value::Bytes(&[0, 255]));
    table
}

#[test]
fn every_type_is_written_and_read_as_the_errata_have_it_and_an_unknown_one_is_named() {
    assert_eq!(all().view().as_bytes(), ALL);
    let bytes = framed(ALL);
    let table = read(&bytes).expect("reads");
    let expected = all();
    assert_eq!(table, expected.view());
    assert!(table.iter().eq(expected.iter()));
    assert_eq!(table.iter().count(), 17);
    assert_eq!(table.get("i").and_then(Value::as_i64), Some(4_000_000_000));
    assert_eq!(table.get("S").and_then(Value::as_str), Some("hi"));
    assert_eq!(table.get("t").and_then(Value::as_bool), Some(true));
    assert_eq!(table.get("none"), None);
    assert_eq!(format!("{table:?}").chars().take(29).collect::<String>(), "{\"t\": Bool(true), \"b\": I8(-8)");
    // The upper-case l is a signed 64, too.
    let bytes = framed(b"\x01nL\xff\xff\xff\xff\xff\xff\xff\xfb");
    assert_eq!(read(&bytes).expect("reads").get("n"), Some(Value::I64(-5)));
    let error = read(&framed(b"\x01a?\x00")).expect_err("no type ?");
    assert_eq!(error, "unknown type of a table field (byte 6 of the payload)");
}

#[test]
fn every_truncation_is_an_error() {
    for len in 0..ALL.len() {
        // A table that says it is complete, but ends inside a field, or between two of them.
        let bytes = framed(&ALL[..len]);
        let at_boundary = read(&bytes).is_ok_and(|t| t.iter().count() < 17);
        assert!(at_boundary || read(&bytes).is_err(), "cut at {len}");
        // A table that says it is longer than its bytes.
        let bytes = framed(ALL);
        assert!(read(&bytes[..len]).is_err(), "ends at {len}");
    }
}

/// `depth` tables inside each other.
fn nested(depth: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 1..depth {
        bytes = [b"\x00F".as_slice(), &framed(&bytes)].concat();
    }
    framed(&bytes)
}

#[test]
fn nesting_is_bounded_on_reading_and_writing() {
    assert!(read(&nested(MAX_NESTING)).is_ok());
    let error = read(&nested(MAX_NESTING + 1)).expect_err("too deep");
    assert!(error.contains("nest too deep"), "{error}");
    // Far deeper must not exhaust the stack.
    assert!(read(&nested(5_000)).is_err());

    let mut table = FieldTable::new();
    for depth in 1..=MAX_NESTING + 1 {
        let mut outer = FieldTable::new();
        let inserted = outer.insert("", &table);
        assert_eq!(inserted, if depth < MAX_NESTING { Ok(()) } else { Err(EncodeError::Nesting) });
        if inserted.is_err() {
            break;
        }
        table = outer;
    }
    assert!(read(&framed(table.view().as_bytes())).is_ok());
}

#[test]
fn inserting_again_replaces() {
    let mut table = FieldTable::new();
    table.insert("a", 1i32).expect("inserts");
    table.insert("b", 2i32).expect("inserts");
    table.insert("a", "new").expect("inserts");
    assert_eq!(table.iter().count(), 2);
    assert_eq!(table.get("a").and_then(Value::as_str), Some("new"));
}

#[test]
fn random_tables_survive_the_round_trip() {
    let mut random = Random::new(3);
    for _ in 0..2_000 {
        let table = random.table(4);
        let bytes = framed(table.view().as_bytes());
        let back = read(&bytes).expect("reads");
        assert_eq!(back, table.view());
        let mut again = FieldTable::new();
        for (name, value) in back {
            again.insert(name, value).expect("inserts");
        }
        assert_eq!(again, table);
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random::new(4);
    for _ in 0..50_000 {
        let bytes = framed(&random.bytes(40));
        if let Ok(table) = read(&bytes) {
            let _ = format!("{table:?}");
        }
    }
    assert!(Array::default().iter().next().is_none());
}
