//! The type system (part 1 of the specification, "Types"): values with their constructors.
//!
//! ```text
//! value = constructor, data            constructor = format code | 0x00 descriptor constructor
//!
//! 0x4_ nothing    0x5_ 1 byte    0x6_ 2     0x7_ 4     0x8_ 8     0x9_ 16
//! 0xA_ size u8, bytes                       0xB_ size u32, bytes
//! 0xC_ size u8, count u8, values            0xD_ size u32, count u32, values
//! 0xE_ size u8, count u8, constructor, data 0xF_ size u32, count u32, constructor, data
//! ```
//!
//! Lists, maps and arrays are views that are decoded as they are walked. A value inside is skipped
//! by its size, so that work is bounded by bytes, and descriptors nest at most [`MAX_DESCRIBED`] deep.

use crate::amqp091::{DecodeError, Reader};

/// How often a value may be described.
pub const MAX_DESCRIBED: usize = 8;
/// How many elements an array may have whose elements take no bytes.
const MAX_EMPTY: usize = 256;

/// A name of the protocol or of a broker, in ASCII.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbol<'a>(pub &'a str);

/// One value of any type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TypedValue<'a> {
    /// No value.
    #[default]
    Null,
    /// A truth value.
    Bool(bool),
    /// One byte, unsigned.
    Ubyte(u8),
    /// Two bytes, unsigned.
    Ushort(u16),
    /// Four bytes, unsigned.
    Uint(u32),
    /// Eight bytes, unsigned.
    Ulong(u64),
    /// One byte, signed.
    Byte(i8),
    /// Two bytes, signed.
    Short(i16),
    /// Four bytes, signed.
    Int(i32),
    /// Eight bytes, signed.
    Long(i64),
    /// A float of four bytes.
    Float(f32),
    /// A float of eight bytes.
    Double(f64),
    /// An IEEE 754 decimal of 4, 8 or 16 bytes, not decoded.
    Decimal(&'a [u8]),
    /// A Unicode character.
    Char(char),
    /// Milliseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// A UUID.
    Uuid([u8; 16]),
    /// Bytes of any meaning.
    Binary(&'a [u8]),
    /// A text in Unicode.
    Str(&'a str),
    /// A name.
    Symbol(Symbol<'a>),
    /// Values of any types.
    List(Items<'a>),
    /// Keys and values in turn.
    Map(Items<'a>),
    /// Values of one type.
    Array(Elements<'a>),
    /// A value with a meaning of its own.
    Described(Described<'a>),
}

/// A value's meaning: a number, or a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor<'a> {
    /// Domain in the upper, type in the lower four bytes; the protocol's own domain is 0.
    Code(u64),
    /// Such as `amqp:open:list`.
    Name(Symbol<'a>),
}

/// A described value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described<'a> {
    /// The value's meaning.
    pub descriptor: Descriptor<'a>,
    /// The value itself, with its constructor.
    raw: &'a [u8],
}

impl<'a> Described<'a> {
    /// The value itself. Errors: bytes that are no value.
    pub fn value(&self) -> Result<TypedValue<'a>, DecodeError> {
        TypedValue::read(&mut Reader::new(self.raw))
    }

    /// Keys and values of a described map; `None` where it is none.
    pub(super) fn map(&self) -> Option<Items<'a>> {
        match self.value() {
            Ok(TypedValue::Map(items)) => Some(items),
            _ => None,
        }
    }

    /// Takes the rest of a described value off, behind the 0 that begins it.
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let descriptor = read_descriptor(reader)?;
        let raw = reader.rest();
        skip(reader)?;
        let len = raw.len() - reader.rest().len();
        Ok(Self { descriptor, raw: raw.get(..len).unwrap_or_default() })
    }
}

fn read_descriptor<'a>(reader: &mut Reader<'a>) -> Result<Descriptor<'a>, DecodeError> {
    let at = reader.position();
    let code = reader.octet()?;
    match code {
        0x44 | 0x53 | 0x80 | 0xA3 | 0xB3 => {}
        _ => {
            let what = "a descriptor is neither an unsigned long nor a symbol";
            return Err(DecodeError { what, at });
        }
    }
    Ok(match read_data(reader, code)? {
        TypedValue::Symbol(name) => Descriptor::Name(name),
        TypedValue::Ulong(number) => Descriptor::Code(number),
        _ => Descriptor::Code(0),
    })
}

/// The values of a list or a map. Walking it yields each value, or why it cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Items<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Items<'a> {
    /// How many values are left.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none left.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value behind a text or a symbol in a map; `None` where it is not there, or cannot be read.
    pub fn get(mut self, name: &str) -> Option<TypedValue<'a>> {
        loop {
            let (key, value) = (self.next()?.ok()?, self.next()?.ok()?);
            match key {
                TypedValue::Str(key) | TypedValue::Symbol(Symbol(key)) if key == name => return Some(value),
                _ => {}
            }
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<TypedValue<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let mut reader = Reader::new(self.bytes);
        let value = TypedValue::read(&mut reader);
        self.bytes = reader.rest();
        if value.is_err() {
            self.count = 0;
        }
        Some(value)
    }
}

/// The values of an array, which share one constructor. Walking it yields each value without the
/// array's descriptor, or why it cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements<'a> {
    left: u32,
    count: u32,
    /// The constructor, and behind it all elements' data.
    raw: &'a [u8],
    code: u8,
    data: &'a [u8],
}

impl<'a> Elements<'a> {
    fn new(count: u32, raw: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(raw);
        let code = format_code(&mut reader)?;
        let data = reader.rest();
        let most = match code >> 4 {
            0x4 => MAX_EMPTY,
            _ => data.len(),
        };
        if count as usize > most {
            return Err(reader.error("an array has fewer bytes than elements"));
        }
        Ok(Self { left: count, count, raw, code, data })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<TypedValue<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let mut reader = Reader::new(self.data);
        let value = read_data(&mut reader, self.code);
        self.data = reader.rest();
        if value.is_err() {
            self.left = 0;
        }
        Some(value)
    }
}

impl<'a> TypedValue<'a> {
    /// Takes one value off. Errors: an unknown format code, and bytes that end within the value.
    #[inline]
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.octet()? {
            0 => Described::read(reader).map(Self::Described),
            code => read_data(reader, code),
        }
    }

    /// Text or a symbol.
    pub const fn as_str(self) -> Option<&'a str> {
        match self {
            Self::Str(text) | Self::Symbol(Symbol(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether a symbol is this value, or one of its elements: several of something are an array, one
    /// may stand by itself (section 1.4, "multiple").
    pub fn has_symbol(self, name: &str) -> bool {
        self.symbols().any(|it| it == name)
    }

    /// The symbols in it, as [`Self::has_symbol`] looks for them.
    pub(super) fn symbols(self) -> impl Iterator<Item = &'a str> {
        let (several, one) = match self {
            Self::Array(all) => (Some(all), None),
            one => (None, Some(one)),
        };
        let symbol = |value: Self| match value {
            Self::Symbol(Symbol(name)) => Some(name),
            _ => None,
        };
        several.into_iter().flatten().flatten().chain(one).filter_map(symbol)
    }

    /// Appends it, in its shortest form.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Null => out.push(0x40),
            Self::Bool(value) => out.push(if value { 0x41 } else { 0x42 }),
            Self::Ubyte(value) => put(out, 0x50, &[value]),
            Self::Ushort(value) => put(out, 0x60, &value.to_be_bytes()),
            Self::Uint(value) => match u8::try_from(value) {
                Ok(0) => out.push(0x43),
                Ok(small) => put(out, 0x52, &[small]),
                Err(_) => put(out, 0x70, &value.to_be_bytes()),
            },
            Self::Ulong(value) => match u8::try_from(value) {
                Ok(0) => out.push(0x44),
                Ok(small) => put(out, 0x53, &[small]),
                Err(_) => put(out, 0x80, &value.to_be_bytes()),
            },
            Self::Byte(value) => put(out, 0x51, &value.to_be_bytes()),
            Self::Short(value) => put(out, 0x61, &value.to_be_bytes()),
            Self::Int(value) => match i8::try_from(value) {
                Ok(small) => put(out, 0x54, &small.to_be_bytes()),
                Err(_) => put(out, 0x71, &value.to_be_bytes()),
            },
            Self::Long(value) => match i8::try_from(value) {
                Ok(small) => put(out, 0x55, &small.to_be_bytes()),
                Err(_) => put(out, 0x81, &value.to_be_bytes()),
            },
            Self::Float(value) => put(out, 0x72, &value.to_be_bytes()),
            Self::Double(value) => put(out, 0x82, &value.to_be_bytes()),
            Self::Decimal(bytes) => match bytes.len() {
                4 => put(out, 0x74, bytes),
                8 => put(out, 0x84, bytes),
                _ => put(out, 0x94, bytes),
            },
            Self::Char(value) => put(out, 0x73, &u32::from(value).to_be_bytes()),
            Self::Timestamp(value) => put(out, 0x83, &value.to_be_bytes()),
            Self::Uuid(bytes) => put(out, 0x98, &bytes),
            Self::Binary(bytes) => put_sized(out, 0xA0, bytes),
            Self::Str(text) => put_sized(out, 0xA1, text.as_bytes()),
            Self::Symbol(Symbol(text)) => put_sized(out, 0xA3, text.as_bytes()),
            Self::List(items) if items.is_empty() => out.push(0x45),
            Self::List(items) => put_counted(out, 0xC0, items.count, items.bytes),
            Self::Map(items) => put_counted(out, 0xC1, items.count, items.bytes),
            Self::Array(elements) => put_counted(out, 0xE0, elements.count, elements.raw),
            Self::Described(described) => {
                put_descriptor(out, described.descriptor);
                out.extend_from_slice(described.raw);
            }
        }
    }
}

fn put(out: &mut Vec<u8>, code: u8, data: &[u8]) {
    out.push(code);
    out.extend_from_slice(data);
}

fn put_sized(out: &mut Vec<u8>, code: u8, data: &[u8]) {
    match u8::try_from(data.len()) {
        Ok(len) => out.extend_from_slice(&[code, len]),
        // Nothing that is sent reaches 4 GiB: frames end long before.
        Err(_) => put(out, code + 0x10, &(data.len() as u32).to_be_bytes()),
    }
    out.extend_from_slice(data);
}

fn put_counted(out: &mut Vec<u8>, code: u8, count: u32, data: &[u8]) {
    match (u8::try_from(data.len() + 1), u8::try_from(count)) {
        (Ok(len), Ok(count)) => out.extend_from_slice(&[code, len, count]),
        _ => {
            put(out, code + 0x10, &(data.len() as u32 + 4).to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
    }
    out.extend_from_slice(data);
}

/// Appends the beginning of a described value, behind which the value itself follows.
pub fn put_descriptor(out: &mut Vec<u8>, descriptor: Descriptor<'_>) {
    out.push(0);
    match descriptor {
        Descriptor::Code(code) => TypedValue::Ulong(code).write(out),
        Descriptor::Name(name) => TypedValue::Symbol(name).write(out),
    }
}

/// Appends a list; `fill` appends its values and tells how many.
pub(super) fn put_list(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> u32) {
    let start = out.len();
    put_compound(out, 0xC0, fill);
    if out.get(start..) == Some(&[0xC0, 1, 0]) {
        out.truncate(start);
        out.push(0x45);
    }
}

/// Appends a map; `fill` appends its keys and values and tells how many both are.
pub fn put_map(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> u32) {
    put_compound(out, 0xC1, fill);
}

fn put_compound(out: &mut Vec<u8>, code: u8, fill: impl FnOnce(&mut Vec<u8>) -> u32) {
    let start = out.len();
    out.extend_from_slice(&[code, 0, 0]);
    let count = fill(out);
    let len = out.len() - start - 3;
    match (u8::try_from(len + 1), u8::try_from(count)) {
        (Ok(len), Ok(count)) => {
            if let Some(head) = out.get_mut(start + 1..start + 3) {
                head.copy_from_slice(&[len, count]);
            }
        }
        _ => {
            let mut head = vec![code + 0x10];
            head.extend_from_slice(&(len as u32 + 4).to_be_bytes());
            head.extend_from_slice(&count.to_be_bytes());
            out.splice(start..start + 3, head);
        }
    }
}

/// Takes a constructor off, and returns its format code.
fn format_code(reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
    for _ in 0..=MAX_DESCRIBED {
        match reader.octet()? {
            0 => read_descriptor(reader).map(drop)?,
            code => return Ok(code),
        }
    }
    Err(reader.error("a value has too many descriptors"))
}

/// Takes one value off without looking into it.
fn skip(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let what = "the payload ends inside a value";
    let code = format_code(reader)?;
    let len = match code >> 4 {
        0x4 => 0,
        0x5 => 1,
        0x6 => 2,
        0x7 => 4,
        0x8 => 8,
        0x9 => 16,
        0xA | 0xC | 0xE => usize::from(reader.octet()?),
        0xB | 0xD | 0xF => reader.long()? as usize,
        _ => return Err(reader.error("unknown format code")),
    };
    reader.take(len, what).map(drop)
}

/// Takes the data behind a format code off.
#[inline]
fn read_data<'a>(reader: &mut Reader<'a>, code: u8) -> Result<TypedValue<'a>, DecodeError> {
    Ok(match code {
        0x40 => TypedValue::Null,
        0x41 => TypedValue::Bool(true),
        0x42 => TypedValue::Bool(false),
        0x43 => TypedValue::Uint(0),
        0x44 => TypedValue::Ulong(0),
        0x45 => TypedValue::List(Items::default()),
        0x50 => TypedValue::Ubyte(reader.octet()?),
        0x51 => TypedValue::Byte(reader.octet()?.cast_signed()),
        0x52 => TypedValue::Uint(reader.octet()?.into()),
        0x53 => TypedValue::Ulong(reader.octet()?.into()),
        0x54 => TypedValue::Int(reader.octet()?.cast_signed().into()),
        0x55 => TypedValue::Long(reader.octet()?.cast_signed().into()),
        0x56 => match reader.octet()? {
            0 => TypedValue::Bool(false),
            1 => TypedValue::Bool(true),
            _ => return Err(reader.error("a boolean is neither 0 nor 1")),
        },
        0x60 => TypedValue::Ushort(reader.short()?),
        0x61 => TypedValue::Short(reader.short()?.cast_signed()),
        0x70 => TypedValue::Uint(reader.long()?),
        0x71 => TypedValue::Int(reader.long()?.cast_signed()),
        0x72 => TypedValue::Float(f32::from_bits(reader.long()?)),
        0x73 => match char::from_u32(reader.long()?) {
            Some(value) => TypedValue::Char(value),
            None => return Err(reader.error("a character is none of Unicode's")),
        },
        0x80 => TypedValue::Ulong(reader.longlong()?),
        0x81 => TypedValue::Long(reader.longlong()?.cast_signed()),
        0x82 => TypedValue::Double(f64::from_bits(reader.longlong()?)),
        0x83 => TypedValue::Timestamp(reader.longlong()?.cast_signed()),
        _ => return read_sized(reader, code),
    })
}

/// Data of more than eight bytes, or of a size of its own.
fn read_sized<'a>(reader: &mut Reader<'a>, code: u8) -> Result<TypedValue<'a>, DecodeError> {
    let what = "the payload ends inside a value";
    let at = reader.position();
    let (len, count) = match code {
        0x74 => (4, 0),
        0x84 => (8, 0),
        0x94 | 0x98 => (16, 0),
        0xA0 | 0xA1 | 0xA3 => (usize::from(reader.octet()?), 0),
        0xB0 | 0xB1 | 0xB3 => (reader.long()? as usize, 0),
        0xC0 | 0xC1 | 0xE0 => {
            let (len, count) = (reader.octet()?, reader.octet()?);
            (counted(usize::from(len), 1, at)?, u32::from(count))
        }
        0xD0 | 0xD1 | 0xF0 => {
            let (len, count) = (reader.long()?, reader.long()?);
            (counted(len as usize, 4, at)?, count)
        }
        _ => return Err(reader.error("unknown format code")),
    };
    let bytes = reader.take(len, what)?;
    let text = || {
        let what = "a text is not UTF-8";
        std::str::from_utf8(bytes).map_err(|_| DecodeError { what, at })
    };
    Ok(match code {
        0x74 | 0x84 | 0x94 => TypedValue::Decimal(bytes),
        0x98 => TypedValue::Uuid(bytes.try_into().unwrap_or_default()),
        0xA0 | 0xB0 => TypedValue::Binary(bytes),
        0xA1 | 0xB1 => TypedValue::Str(text()?),
        0xA3 | 0xB3 => match text()? {
            text if text.is_ascii() => TypedValue::Symbol(Symbol(text)),
            _ => return Err(reader.error("a symbol is not ASCII")),
        },
        0xE0 | 0xF0 => TypedValue::Array(Elements::new(count, bytes)?),
        _ => {
            let is_map = code & 1 == 1;
            if count as usize > len || is_map && count % 2 == 1 {
                let what = "a list or map has a wrong number of values";
                return Err(DecodeError { what, at });
            }
            let items = Items { count, bytes };
            if is_map { TypedValue::Map(items) } else { TypedValue::List(items) }
        }
    })
}

/// The bytes behind a count of `width` bytes, which the size comprises.
fn counted(len: usize, width: usize, at: usize) -> Result<usize, DecodeError> {
    let what = "a list, map or array is too short for its count";
    len.checked_sub(width).ok_or(DecodeError { what, at })
}
