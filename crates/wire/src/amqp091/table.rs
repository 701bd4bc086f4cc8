//! Field tables (specification 4.2.5.5), with RabbitMQ's types.
//!
//! ```text
//! table = long size | (shortstr name, octet type, value)*        array = long size | (octet type, value)*
//!
//! t bool          I signed 32     f float 32                  S longstr      A array
//! b signed 8      i unsigned 32   d float 64                  x byte array   F table
//! B unsigned 8    l signed 64     D decimal: octet scale,     T timestamp    V void
//! s signed 16     L signed 64        then unsigned 32
//! u unsigned 16
//! ```
//!
//! The specification's grammar has `l` unsigned and `s` for short strings; brokers and clients
//! agreed on the above (RabbitMQ's "AMQP 0-9-1 errata", section 3). `L` is read, `l` is written.
//!
//! A [`Table`] or [`Array`] is a view of bytes that were checked once as a whole, so walking it
//! needs no allocation and cannot fail.

use std::fmt;

use super::codec::{Field, Reader, Writer};
use super::error::{DecodeError, EncodeError};

/// How deep tables and arrays may nest.
pub const MAX_NESTING: usize = 32;

/// One value of a table or an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Tag `t`: a truth value.
    Bool(bool),
    /// Tag `b`: one signed byte.
    I8(i8),
    /// Tag `B`: one unsigned byte.
    U8(u8),
    /// Tag `s`: two signed bytes.
    I16(i16),
    /// Tag `u`: two unsigned bytes.
    U16(u16),
    /// Tag `I`: four signed bytes.
    I32(i32),
    /// Tag `i`: four unsigned bytes.
    U32(u32),
    /// Tag `l`, and `L` on reading: eight signed bytes.
    I64(i64),
    /// Tag `f`: a float of four bytes.
    F32(f32),
    /// Tag `d`: a float of eight bytes.
    F64(f64),
    /// Tag `D`: `value / 10^scale`.
    Decimal {
        /// Number of decimal places.
        scale: u8,
        /// All digits.
        value: u32,
    },
    /// Tag `S`: bytes, by custom UTF-8.
    Str(&'a [u8]),
    /// Tag `A`: an array of values.
    Array(Array<'a>),
    /// Tag `T`: seconds since 1970-01-01 UTC.
    Timestamp(u64),
    /// Tag `F`: a nested table.
    Table(Table<'a>),
    /// Tag `V`: no value.
    Void,
    /// Tag `x`: bytes.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The text of a string value that is UTF-8.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::Str(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Any integer that fits.
    pub fn as_i64(self) -> Option<i64> {
        Some(match self {
            Self::I8(v) => v.into(),
            Self::U8(v) => v.into(),
            Self::I16(v) => v.into(),
            Self::U16(v) => v.into(),
            Self::I32(v) => v.into(),
            Self::U32(v) => v.into(),
            Self::I64(v) => v,
            _ => return None,
        })
    }

    /// A boolean.
    pub const fn as_bool(self) -> Option<bool> {
        match self {
            Self::Bool(v) => Some(v),
            _ => None,
        }
    }

    /// Takes the type octet and the value, `depth` containers deep.
    fn read(reader: &mut Reader<'a>, depth: usize) -> Result<Self, DecodeError> {
        let at = reader.position();
        Ok(match reader.octet()? {
            b't' => Self::Bool(reader.octet()? != 0),
            b'b' => Self::I8(reader.octet()?.cast_signed()),
            b'B' => Self::U8(reader.octet()?),
            b's' => Self::I16(reader.short()?.cast_signed()),
            b'u' => Self::U16(reader.short()?),
            b'I' => Self::I32(reader.long()?.cast_signed()),
            b'i' => Self::U32(reader.long()?),
            b'l' | b'L' => Self::I64(reader.longlong()?.cast_signed()),
            b'f' => Self::F32(f32::from_bits(reader.long()?)),
            b'd' => Self::F64(f64::from_bits(reader.longlong()?)),
            b'D' => Self::Decimal { scale: reader.octet()?, value: reader.long()? },
            b'S' => Self::Str(reader.longstr()?),
            b'A' => Self::Array(Array::read(reader, depth + 1)?),
            b'T' => Self::Timestamp(reader.longlong()?),
            b'F' => Self::Table(Table::read_nested(reader, depth + 1)?),
            b'V' => Self::Void,
            b'x' => Self::Bytes(reader.longstr()?),
            _ => return Err(DecodeError { what: "unknown type of a table field", at }),
        })
    }

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Bool(v) => writer.raw(&[b't', u8::from(*v)]),
            Self::I8(v) => writer.raw(&[b'b', v.cast_unsigned()]),
            Self::U8(v) => writer.raw(&[b'B', *v]),
            Self::I16(v) => tagged(writer, b's', &v.to_be_bytes()),
            Self::U16(v) => tagged(writer, b'u', &v.to_be_bytes()),
            Self::I32(v) => tagged(writer, b'I', &v.to_be_bytes()),
            Self::U32(v) => tagged(writer, b'i', &v.to_be_bytes()),
            Self::I64(v) => tagged(writer, b'l', &v.to_be_bytes()),
            Self::F32(v) => tagged(writer, b'f', &v.to_bits().to_be_bytes()),
            Self::F64(v) => tagged(writer, b'd', &v.to_bits().to_be_bytes()),
            Self::Decimal { scale, value } => {
                writer.raw(&[b'D', *scale]);
                writer.raw(&value.to_be_bytes());
            }
            Self::Str(v) => return counted(writer, b'S', v),
            Self::Array(v) => return counted(writer, b'A', v.bytes),
            Self::Timestamp(v) => tagged(writer, b'T', &v.to_be_bytes()),
            Self::Table(v) => return counted(writer, b'F', v.bytes),
            Self::Void => writer.raw(b"V"),
            Self::Bytes(v) => return counted(writer, b'x', v),
        }
        Ok(())
    }
}

fn tagged(writer: &mut Writer<'_>, tag: u8, bytes: &[u8]) {
    writer.raw(&[tag]);
    writer.raw(bytes);
}

fn counted(writer: &mut Writer<'_>, tag: u8, bytes: &[u8]) -> Result<(), EncodeError> {
    writer.raw(&[tag]);
    writer.longstr(bytes)
}

macro_rules! value_from {
    ($($ty:ty => $variant:ident),*) => {$(
        impl From<$ty> for Value<'_> {
            fn from(value: $ty) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

value_from!(bool => Bool, i8 => I8, u8 => U8, i16 => I16, u16 => U16, i32 => I32, u32 => U32,
    i64 => I64, f32 => F32, f64 => F64);

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Str(value.as_bytes())
    }
}

impl<'a> From<&'a FieldTable> for Value<'a> {
    fn from(value: &'a FieldTable) -> Self {
        Self::Table(value.view())
    }
}

impl<'a> From<&'a FieldArray> for Value<'a> {
    fn from(value: &'a FieldArray) -> Self {
        Self::Array(value.view())
    }
}

/// A checked, encoded table.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Table<'a> {
    bytes: &'a [u8],
}

impl<'a> Table<'a> {
    /// The table without fields.
    pub const EMPTY: Self = Self { bytes: &[] };

    fn read_nested(reader: &mut Reader<'a>, depth: usize) -> Result<Self, DecodeError> {
        read_container(reader, depth, |fields| next_field(fields, depth).map(|_| ())).map(|bytes| Self { bytes })
    }

    /// The encoded fields, without the length in front.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether there is no field.
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Names and values, in the order of the wire.
    pub const fn iter(self) -> Fields<'a> {
        Fields { reader: Reader::new(self.bytes) }
    }

    /// The value of a name; of its first occurrence should there be several.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// A copy that owns its bytes.
    pub fn to_owned(self) -> FieldTable {
        FieldTable { bytes: self.bytes.to_vec() }
    }
}

impl<'a> Field<'a> for Table<'a> {
    /// Takes a table (length and fields) off a payload, checking all of it.
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Self::read_nested(reader, 1)
    }
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.longstr(self.as_bytes())
    }
}

impl<'a> IntoIterator for Table<'a> {
    type Item = (&'a str, Value<'a>);
    type IntoIter = Fields<'a>;
    fn into_iter(self) -> Fields<'a> {
        self.iter()
    }
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Looks for a name in a table (length and fields) without checking what comes after it.
pub(super) fn find<'a>(reader: &mut Reader<'a>, name: &str) -> Result<Option<Value<'a>>, DecodeError> {
    let mut fields = Reader::new(reader.longstr()?);
    while !fields.rest().is_empty() {
        let (key, value) = next_field(&mut fields, 1)?;
        if key == name {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn next_field<'a>(reader: &mut Reader<'a>, depth: usize) -> Result<(&'a str, Value<'a>), DecodeError> {
    Ok((reader.shortstr()?, Value::read(reader, depth)?))
}

/// Walks a [`Table`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, Value<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        // Checked when the table was made, so the only error left is the end.
        next_field(&mut self.reader, 0).ok()
    }
}

/// A checked, encoded array.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Array<'a> {
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    fn read(reader: &mut Reader<'a>, depth: usize) -> Result<Self, DecodeError> {
        read_container(reader, depth, |values| Value::read(values, depth).map(|_| ())).map(|bytes| Self { bytes })
    }

    /// The values, in order.
    pub const fn iter(self) -> Values<'a> {
        Values { reader: Reader::new(self.bytes) }
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Values<'a>;
    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Walks an [`Array`].
#[derive(Clone, Debug)]
pub struct Values<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;
    fn next(&mut self) -> Option<Self::Item> {
        Value::read(&mut self.reader, 0).ok()
    }
}

/// Takes a table or an array off a payload, checking each element of it.
fn read_container<'a>(
    reader: &mut Reader<'a>,
    depth: usize,
    check: impl Fn(&mut Reader<'a>) -> Result<(), DecodeError>,
) -> Result<&'a [u8], DecodeError> {
    if depth > MAX_NESTING {
        return Err(reader.error("field tables nest too deep"));
    }
    let bytes = reader.longstr()?;
    let start = reader.position() - bytes.len();
    let mut elements = Reader::new(bytes);
    while !elements.rest().is_empty() {
        check(&mut elements).map_err(|error| DecodeError { at: error.at + start, ..error })?;
    }
    Ok(bytes)
}

/// A table that owns its bytes; built field by field.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldTable {
    bytes: Vec<u8>,
}

impl FieldTable {
    /// A table without fields.
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// The table to put into a method or into properties.
    pub fn view(&self) -> Table<'_> {
        Table { bytes: &self.bytes }
    }

    /// Sets a field, replacing an earlier one of that name.
    /// Errors: a name above 255 bytes, or too deep a nesting; the table is as before then.
    pub fn insert<'v>(&mut self, name: &str, value: impl Into<Value<'v>>) -> Result<(), EncodeError> {
        let value = value.into();
        check_depth(value)?;
        let mut bytes = Vec::with_capacity(self.bytes.len() + name.len() + 16);
        let mut writer = Writer::new(&mut bytes);
        for (key, old) in self.view().iter().filter(|(key, _)| *key != name) {
            writer.shortstr(key)?;
            old.write(&mut writer)?;
        }
        writer.shortstr(name)?;
        value.write(&mut writer)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Forgets all fields, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends a field, which must not be there yet; one that cannot be sent is left out.
    pub(crate) fn append(&mut self, name: &str, value: Value<'_>) {
        let before = self.bytes.len();
        let mut writer = Writer::new(&mut self.bytes);
        if writer.shortstr(name).and_then(|()| value.write(&mut writer)).is_err() {
            self.bytes.truncate(before);
        }
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<Value<'_>> {
        self.view().get(name)
    }

    /// Names and values.
    pub fn iter(&self) -> Fields<'_> {
        self.view().iter()
    }

    /// Whether there is no field.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl fmt::Debug for FieldTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

/// An array that owns its bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldArray {
    bytes: Vec<u8>,
}

impl FieldArray {
    /// An array without values.
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// The array to put into a table.
    pub fn view(&self) -> Array<'_> {
        Array { bytes: &self.bytes }
    }

    /// Appends a value. Errors: too deep a nesting; the array is as before then.
    pub fn push<'v>(&mut self, value: impl Into<Value<'v>>) -> Result<(), EncodeError> {
        let value = value.into();
        check_depth(value)?;
        let before = self.bytes.len();
        value.write(&mut Writer::new(&mut self.bytes)).inspect_err(|_| {
            self.bytes.truncate(before);
        })
    }
}

impl fmt::Debug for FieldArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

/// Refuses a value that would make its container nest deeper than a peer may accept.
fn check_depth(value: Value<'_>) -> Result<(), EncodeError> {
    // The container itself is one level.
    if depth_of(value) < MAX_NESTING { Ok(()) } else { Err(EncodeError::Nesting) }
}

fn depth_of(value: Value<'_>) -> usize {
    match value {
        Value::Table(table) => 1 + table.iter().map(|(_, v)| depth_of(v)).max().unwrap_or(0),
        Value::Array(array) => 1 + array.iter().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}
