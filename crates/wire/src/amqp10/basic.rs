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
//! one section of data, a value that is text or bytes    body
//! any other body, as it is encoded                      body, with the type amqp-1.0
//! ```
//!
//! Texts above 255 bytes, and everything else, are left out. A message whose properties would not go into one frame of
//! AMQP 0.9.1, as they have to, has no such form.

use super::composite::{Composite, HeaderSection, PropertiesSection};
use super::message::{ANNOTATIONS, APPLICATION_PROPERTIES, MessageBody, MessageParts, VALUE, put_data_head};
use super::types::{Descriptor, Symbol, TypedValue, put_descriptor, put_map};
use crate::amqp091::{BasicProperties, DEFAULT_FRAME_MAX, FieldTable, Properties, Table, Value};

const TYPE: &str = "x-basic-type";
/// The type of a message whose body is sections of AMQP 1.0.
const ENCODED: &str = "amqp-1.0";
/// Bytes of properties at most; the rest of a frame is more than enough for its head.
const PROPERTIES_MAX: usize = DEFAULT_FRAME_MAX as usize - 1_024;
/// Bytes that are kept for bodies.
const KEPT: usize = 1 << 20;
/// Milliseconds of a second.
const MILLIS: u64 = 1_000;

/// Turns messages of either protocol into those of the other, in memory that it keeps.
#[derive(Debug, Default)]
pub struct MessageMapping {
    bytes: Vec<u8>,
    body: Vec<u8>,
    headers: FieldTable,
}

impl MessageMapping {
    /// Properties and body of a message of AMQP 1.0; `None` where the properties are too large.
    pub fn to_basic<'a>(&'a mut self, message: &MessageParts<'a>) -> Option<(Properties<'a>, &'a [u8])> {
        let Self { bytes, body: encoded, headers } = self;
        bytes.clear();
        encoded.clear();
        headers.clear();
        let sections = message.before;
        if sections.0.len() > PROPERTIES_MAX {
            return None;
        }
        let header = sections.header().unwrap_or_default();
        let properties = sections.properties().unwrap_or_default();
        for (name, value) in pairs(sections.map(APPLICATION_PROPERTIES)) {
            if let Some(value) = simple_field(value) {
                headers.append(name, value);
            }
        }
        let (mut ttl, mut id) = ([0; 20], [0; 20]);
        let mut basic = BasicProperties {
            content_type: properties.content_type.and_then(|it| short(it.0)),
            content_encoding: properties.content_encoding.and_then(|it| short(it.0)),
            headers: Some(headers.view()).filter(|it| !it.is_empty()),
            delivery_mode: header.durable.map(|durable| 1 + u8::from(durable)),
            priority: header.priority,
            correlation_id: properties.correlation_id.as_str().and_then(short),
            reply_to: properties.reply_to.as_str().and_then(short),
            expiration: header.ttl.map(|ms| decimal(ms.into(), &mut ttl)),
            message_id: match properties.message_id {
                TypedValue::Ulong(number) => Some(decimal(number, &mut id)),
                value => value.as_str().and_then(short),
            },
            timestamp: properties.creation_time.and_then(|ms| u64::try_from(ms).ok()).map(|ms| ms / MILLIS),
            message_type: pairs(sections.map(ANNOTATIONS)).find(|it| it.0 == TYPE).and_then(|it| it.1.as_str()),
            user_id: properties.user_id.and_then(|it| str::from_utf8(it).ok()).and_then(short),
            app_id: properties.group_id.and_then(short),
            cluster_id: None,
        };
        basic.message_type = basic.message_type.and_then(short);
        let body = match message.body {
            MessageBody::Data(bytes) | MessageBody::Value(TypedValue::Binary(bytes)) => bytes,
            MessageBody::Value(TypedValue::Str(text)) => text.as_bytes(),
            MessageBody::Value(value) => {
                put_descriptor(encoded, Descriptor::Code(VALUE.0));
                value.write(encoded);
                basic.message_type = Some(ENCODED);
                &**encoded
            }
            MessageBody::Sections(sections) => {
                basic.message_type = Some(ENCODED);
                sections.0
            }
        };
        // All texts are short enough.
        if basic.encode(bytes).is_err() {
            return Some((Properties::NONE, body));
        }
        if bytes.len() > PROPERTIES_MAX {
            return None;
        }
        Some((Properties::from_bytes(bytes), body))
    }

    /// Frees the memory that a large body took.
    #[inline]
    pub fn shrink(&mut self) {
        self.body.clear();
        self.body.shrink_to(KEPT);
    }

    /// Bytes of a message of AMQP 1.0 that stand before its body, which is that of a message of AMQP 0.9.1.
    pub fn to_sections(&mut self, properties: Properties<'_>, redelivered: bool, body: &[u8]) -> &[u8] {
        let out = &mut self.bytes;
        out.clear();
        // Those that cannot be read are none.
        let basic = properties.decode().unwrap_or_default();
        let header = HeaderSection {
            durable: basic.delivery_mode.map(|mode| mode == 2),
            priority: basic.priority,
            ttl: basic.expiration.and_then(|it| it.parse().ok()),
            first_acquirer: Some(!redelivered),
            delivery_count: redelivered.then_some(1),
        };
        header.write(out);
        let is_encoded = basic.message_type == Some(ENCODED) && MessageParts::read(body).is_ok();
        if let Some(name) = basic.message_type.filter(|_| !is_encoded) {
            put_descriptor(out, Descriptor::Code(ANNOTATIONS.0));
            put_map(out, |out| {
                TypedValue::Symbol(Symbol(TYPE)).write(out);
                TypedValue::Str(name).write(out);
                2
            });
        }
        put_properties(&basic, out);
        if let Some(headers) = basic.headers {
            put_headers(headers, out);
        }
        if !is_encoded {
            put_data_head(out, body.len() as u32);
        }
        out
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
fn pairs<'a>(map: Option<super::types::Items<'a>>) -> impl Iterator<Item = (&'a str, TypedValue<'a>)> {
    let mut items = map.unwrap_or_default().flatten();
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
