//! A message of AMQP 1.0 as AMQP 0.9.1 has it, and the other way round, as RabbitMQ maps them.
//!
//! ```text
//! AMQP 1.0                                              AMQP 0.9.1
//! header: durable, priority, ttl                        delivery-mode, priority, expiration
//! properties: message-id, user-id, reply-to,            message-id, user-id, reply-to,
//!   correlation-id, content-type, content-encoding,     correlation-id, content-type, content-encoding,
//!   creation-time, group-id                             timestamp, app-id
//! message annotation x-basic-type                       type
//! application properties that are simple values         headers
//! sections of data, one after the other                 body
//! any other body and the footer, as they are encoded    body, with the type amqp-1.0
//! ```
//!
//! Texts above 255 bytes, and everything else, such as `subject` and `to`, are left out. A message whose properties
//! would not go into one frame of AMQP 0.9.1, as they have to, has no such form. A broker that keeps the sections
//! ([`MessageParts::lasting`]) passes them on over AMQP 1.0 without a loss.

use super::composite::{Composite, HeaderSection, PropertiesSection, is};
use super::message::{ANNOTATIONS, APPLICATION_PROPERTIES, MessageParts, Sections, put_data_head};
use super::types::{Descriptor, Items, Symbol, TypedValue, put_descriptor, put_map};
use crate::amqp091::{BasicProperties, DEFAULT_FRAME_MAX, FieldTable, Properties, Table, Value};

const TYPE: &str = "x-basic-type";
/// The type of a message whose body is sections of AMQP 1.0.
const ENCODED: &str = "amqp-1.0";
/// Bytes of properties at most; the rest of a frame is more than enough for its head.
const PROPERTIES_MAX: usize = DEFAULT_FRAME_MAX as usize - 1_024;
/// The annotation that tells where in a stream a message stands.
const STREAM_OFFSET: &str = "x-stream-offset";
/// The header that tells of all deaths: an array, and so no client's application property.
const DEATHS: &str = "x-death";
/// Headers that tell of a dead letter's first death, and are annotations here.
const FIRST_DEATH: [&str; 3] = ["x-first-death-reason", "x-first-death-queue", "x-first-death-exchange"];
/// Milliseconds of a second.
const MILLIS: u64 = 1_000;

/// An annotation that a broker adds to a message.
type Annotation<'a> = (&'static str, TypedValue<'a>);

/// Turns messages of either protocol into those of the other, in memory that it keeps.
#[derive(Debug, Default)]
pub struct MessageMapping {
    bytes: Vec<u8>,
    headers: FieldTable,
}

/// Sections before a message's body of which AMQP 0.9.1 has something.
#[derive(Default)]
struct KnownSections<'a> {
    header: HeaderSection,
    properties: PropertiesSection<'a>,
    annotations: Items<'a>,
    application_properties: Items<'a>,
}

impl<'a> KnownSections<'a> {
    /// Reads them; `None` where one cannot be read.
    fn read(sections: Sections<'a>) -> Option<Self> {
        let mut known = Self::default();
        for section in sections {
            let section = section.ok()?;
            let is = |(code, name)| is(section.descriptor, code, name);
            if is((HeaderSection::CODE, HeaderSection::NAME)) {
                known.header = HeaderSection::of(TypedValue::Described(section)).ok()?;
            } else if is((PropertiesSection::CODE, PropertiesSection::NAME)) {
                known.properties = PropertiesSection::of(TypedValue::Described(section)).ok()?;
            } else if is(ANNOTATIONS) {
                known.annotations = section.map()?;
            } else if is(APPLICATION_PROPERTIES) {
                known.application_properties = section.map()?;
            }
        }
        Some(known)
    }
}

impl MessageMapping {
    /// Properties of a message of AMQP 1.0; `None` where they are too large, or cannot be read.
    pub fn to_basic(&mut self, message: &MessageParts<'_>) -> Option<Properties<'_>> {
        let Self { bytes, headers } = self;
        bytes.clear();
        headers.clear();
        if message.before.0.len() > PROPERTIES_MAX {
            return None;
        }
        let KnownSections { header, properties, annotations, application_properties } =
            KnownSections::read(message.before)?;
        for (name, value) in pairs(application_properties) {
            if let Some(value) = simple_field(value) {
                headers.append(name, value);
            }
        }
        let (mut ttl, mut id, mut correlation) = ([0; 20], [0; 20], [0; 20]);
        let message_type = match message.is_data() {
            true => pairs(annotations).find(|it| it.0 == TYPE).and_then(|it| it.1.as_str()).and_then(short),
            false => Some(ENCODED),
        };
        let basic = BasicProperties {
            content_type: properties.content_type.and_then(|it| short(it.0)),
            content_encoding: properties.content_encoding.and_then(|it| short(it.0)),
            headers: Some(headers.view()).filter(|it| !it.is_empty()),
            delivery_mode: header.durable.map(|durable| 1 + u8::from(durable)),
            priority: header.priority,
            correlation_id: id_text(properties.correlation_id, &mut correlation),
            reply_to: properties.reply_to.as_str().and_then(short),
            expiration: header.ttl.map(|ms| decimal(ms.into(), &mut ttl)),
            message_id: id_text(properties.message_id, &mut id),
            timestamp: properties.creation_time.and_then(|ms| u64::try_from(ms).ok()).map(|ms| ms / MILLIS),
            message_type,
            user_id: properties.user_id.and_then(|it| str::from_utf8(it).ok()).and_then(short),
            app_id: properties.group_id.and_then(short),
            cluster_id: None,
        };
        // All texts are short enough.
        if basic.encode(bytes).is_err() {
            return Some(Properties::NONE);
        }
        if bytes.len() > PROPERTIES_MAX {
            return None;
        }
        Some(Properties::from_bytes(bytes))
    }

    /// Bytes of a message of AMQP 1.0 that stand before its body, which is that of a message of AMQP 0.9.1; with
    /// `offset` where it came from a stream. `redelivered`: of one that was delivered before, how often that failed.
    pub fn to_sections(
        &mut self,
        properties: Properties<'_>,
        redelivered: Option<u16>,
        offset: Option<u64>,
        body: &[u8],
    ) -> &[u8] {
        let out = &mut self.bytes;
        out.clear();
        // Those that cannot be read are none.
        let basic = properties.decode().unwrap_or_default();
        put_header(&basic, redelivered, out);
        let is_encoded = basic.message_type == Some(ENCODED) && MessageParts::read(body).is_ok();
        let message_type = basic.message_type.filter(|_| !is_encoded).map(|it| (TYPE, TypedValue::Str(it)));
        put_annotations(Items::default(), &[message_type, stream_offset(offset)], out);
        put_properties(&basic, out);
        if let Some(headers) = basic.headers {
            put_headers(headers, out);
        }
        if !is_encoded {
            put_data_head(out, body.len() as u32);
        }
        out
    }

    /// Bytes that stand before the sections of a message of AMQP 1.0 that last, and those of these that follow, where a
    /// broker has kept them beside its properties: the header, and annotations where there are new ones.
    pub fn to_head<'a>(
        &'a mut self,
        properties: Properties<'_>,
        redelivered: Option<u16>,
        offset: Option<u64>,
        lasting: Sections<'a>,
    ) -> (&'a [u8], &'a [u8]) {
        let out = &mut self.bytes;
        out.clear();
        let basic = properties.decode().unwrap_or_default();
        put_header(&basic, redelivered, out);
        let headers = basic.headers.filter(|it| matches!(it.get(DEATHS), Some(Value::Array(_))));
        let of_death = |name| Some((name, simple_value(headers?.get(name)?)?));
        let [reason, queue, exchange] = FIRST_DEATH.map(of_death);
        let added = [reason, queue, exchange, stream_offset(offset)];
        if added.iter().all(Option::is_none) {
            return (out, lasting.0);
        }
        let mut behind = lasting;
        let annotations = match behind.next() {
            Some(Ok(it)) if is(it.descriptor, ANNOTATIONS.0, ANNOTATIONS.1) => it.map(),
            _ => None,
        };
        put_annotations(annotations.unwrap_or_default(), &added, out);
        (out, if annotations.is_some() { behind.0 } else { lasting.0 })
    }
}

fn stream_offset(offset: Option<u64>) -> Option<Annotation<'static>> {
    offset.map(|it| (STREAM_OFFSET, TypedValue::Long(it.cast_signed())))
}

fn put_header(basic: &BasicProperties<'_>, redelivered: Option<u16>, out: &mut Vec<u8>) {
    let header = HeaderSection {
        durable: basic.delivery_mode.map(|mode| mode == 2),
        priority: basic.priority,
        ttl: basic.expiration.and_then(|it| it.parse().ok()),
        first_acquirer: Some(redelivered.is_none()),
        delivery_count: redelivered.filter(|failed| *failed > 0).map(u32::from),
    };
    header.write(out);
}

/// Appends message annotations: those of a message, as far as they can be read, and others, which replace those of
/// their names; nothing where none are.
fn put_annotations(mut known: Items<'_>, added: &[Option<Annotation<'_>>], out: &mut Vec<u8>) {
    let start = out.len();
    put_descriptor(out, Descriptor::Code(ANNOTATIONS.0));
    let mut count = 0;
    put_map(out, |out| {
        while let (Some(Ok(key)), Some(Ok(value))) = (known.next(), known.next()) {
            if !added.iter().flatten().any(|it| key.as_str() == Some(it.0)) {
                key.write(out);
                value.write(out);
                count += 2;
            }
        }
        for (name, value) in added.iter().flatten() {
            TypedValue::Symbol(Symbol(name)).write(out);
            value.write(out);
            count += 2;
        }
        count
    });
    if count == 0 {
        out.truncate(start);
    }
}

fn put_properties(basic: &BasicProperties<'_>, out: &mut Vec<u8>) {
    let text = |text: Option<_>| text.map_or(TypedValue::Null, TypedValue::Str);
    // Symbols are ASCII.
    let symbol = |text: Option<_>| text.filter(|it: &&str| it.is_ascii()).map(Symbol);
    let properties = PropertiesSection {
        message_id: text(basic.message_id),
        user_id: basic.user_id.map(str::as_bytes),
        reply_to: text(basic.reply_to),
        correlation_id: text(basic.correlation_id),
        content_type: symbol(basic.content_type),
        content_encoding: symbol(basic.content_encoding),
        creation_time: basic.timestamp.and_then(|s| i64::try_from(s.saturating_mul(MILLIS)).ok()),
        group_id: basic.app_id,
        ..PropertiesSection::default()
    };
    if properties != PropertiesSection::default() {
        properties.write(out);
    }
}

fn put_headers(headers: Table<'_>, out: &mut Vec<u8>) {
    put_descriptor(out, Descriptor::Code(APPLICATION_PROPERTIES.0));
    put_map(out, |out| {
        let mut count = 0;
        for (name, value) in headers.iter() {
            if let Some(value) = simple_value(value) {
                TypedValue::Str(name).write(out);
                value.write(out);
                count += 2;
            }
        }
        count
    });
}

/// Keys and values of a map, as far as keys are text.
fn pairs<'a>(map: Items<'a>) -> impl Iterator<Item = (&'a str, TypedValue<'a>)> {
    let mut items = map.flatten();
    std::iter::from_fn(move || Some((items.next()?, items.next()?)))
        .filter_map(|(key, value)| key.as_str().map(|key| (key, value)))
}

/// A simple value of AMQP 1.0 as AMQP 0.9.1 has it.
pub fn simple_field(value: TypedValue<'_>) -> Option<Value<'_>> {
    Some(match value {
        TypedValue::Null => Value::Void,
        TypedValue::Bool(it) => Value::Bool(it),
        TypedValue::Ubyte(it) => Value::U8(it),
        TypedValue::Ushort(it) => Value::U16(it),
        TypedValue::Uint(it) => Value::U32(it),
        TypedValue::Ulong(it) => Value::I64(i64::try_from(it).ok()?),
        TypedValue::Byte(it) => Value::I8(it),
        TypedValue::Short(it) => Value::I16(it),
        TypedValue::Int(it) => Value::I32(it),
        TypedValue::Long(it) => Value::I64(it),
        TypedValue::Float(it) => Value::F32(it),
        TypedValue::Double(it) => Value::F64(it),
        TypedValue::Timestamp(ms) => Value::Timestamp(u64::try_from(ms).ok()? / MILLIS),
        TypedValue::Binary(it) => Value::Bytes(it),
        TypedValue::Str(it) | TypedValue::Symbol(Symbol(it)) => Value::Str(it.as_bytes()),
        _ => return None,
    })
}

/// A simple value of AMQP 0.9.1 as AMQP 1.0 has it.
pub fn simple_value(value: Value<'_>) -> Option<TypedValue<'_>> {
    Some(match value {
        Value::Void => TypedValue::Null,
        Value::Bool(it) => TypedValue::Bool(it),
        Value::U8(it) => TypedValue::Ubyte(it),
        Value::U16(it) => TypedValue::Ushort(it),
        Value::U32(it) => TypedValue::Uint(it),
        Value::I8(it) => TypedValue::Byte(it),
        Value::I16(it) => TypedValue::Short(it),
        Value::I32(it) => TypedValue::Int(it),
        Value::I64(it) => TypedValue::Long(it),
        Value::F32(it) => TypedValue::Float(it),
        Value::F64(it) => TypedValue::Double(it),
        Value::Timestamp(s) => TypedValue::Timestamp(i64::try_from(s.saturating_mul(MILLIS)).ok()?),
        Value::Bytes(it) => TypedValue::Binary(it),
        Value::Str(it) => str::from_utf8(it).map_or(TypedValue::Binary(it), TypedValue::Str),
        Value::Decimal { .. } | Value::Array(_) | Value::Table(_) => return None,
    })
}

fn short(text: &str) -> Option<&str> {
    (text.len() <= usize::from(u8::MAX)).then_some(text)
}

/// The id of a message as AMQP 0.9.1 has it.
fn id_text<'a>(id: TypedValue<'a>, digits: &'a mut [u8; 20]) -> Option<&'a str> {
    match id {
        TypedValue::Ulong(number) => Some(decimal(number, digits)),
        id => id.as_str().and_then(short),
    }
}

/// A number as text.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &str {
    let mut first = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        first = at;
        if number == 0 {
            break;
        }
    }
    digits.get(first..).and_then(|it| str::from_utf8(it).ok()).unwrap_or_default()
}
