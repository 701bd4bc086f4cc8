//! Reading and writing the elementary types (specification 4.2.5, "AMQP Data Fields").
//!
//! ```text
//! octet     1 byte                        shortstr   octet length, then that many bytes of UTF-8
//! short     2 bytes, big endian           longstr    long length, then that many bytes
//! long      4 bytes                       table      long length, then fields (see `table`)
//! longlong  8 bytes                       timestamp  longlong, seconds since 1970-01-01 UTC
//! bit       neighbours share octets, the first one in the lowest bit
//! ```

use super::error::{DecodeError, EncodeError};

/// An `octet`.
pub type Octet = u8;
/// A `short`.
pub type Short = u16;
/// A `long`.
pub type Long = u32;
/// A `longlong`.
pub type LongLong = u64;
/// A `bit`.
pub type Bit = bool;
/// `timestamp`: seconds since 1970-01-01 UTC.
pub type Timestamp = u64;
/// `shortstr`: at most 255 bytes.
pub type ShortStr<'a> = &'a str;
/// `longstr`: arbitrary bytes.
pub type LongStr<'a> = &'a [u8];

/// A `longstr` that holds a credential; `Debug` prints `***`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SecretStr<'a>(pub &'a [u8]);

impl std::fmt::Debug for SecretStr<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Takes fields off a payload.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    bits: u8,
    /// Mask of the next bit in `bits`; 0 when the next bit starts a new octet.
    mask: u8,
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, bits: 0, mask: 0 }
    }

    /// Position of the next byte.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// A decode error at the present position.
    pub const fn error(&self, what: &'static str) -> DecodeError {
        DecodeError { what, at: self.at }
    }

    /// Takes `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        self.mask = 0;
        let taken = self
            .at
            .checked_add(n)
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or(DecodeError { what, at: self.at })?;
        self.at += n;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        self.mask = 0;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let (head, _) = rest.split_first_chunk::<N>().ok_or(DecodeError { what, at: self.at })?;
        self.at += N;
        Ok(*head)
    }

    /// Reads an `octet`.
    #[inline]
    pub fn octet(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_be_bytes(self.array("the payload ends inside an octet")?))
    }

    /// Reads a `short`.
    #[inline]
    pub fn short(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array("the payload ends inside a short")?))
    }

    /// Reads a `long`.
    #[inline]
    pub fn long(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array("the payload ends inside a long")?))
    }

    /// Reads a `longlong`.
    #[inline]
    pub fn longlong(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array("the payload ends inside a longlong")?))
    }

    /// Reads a `bit`; neighbouring bits share an octet.
    #[inline]
    pub fn bit(&mut self) -> Result<bool, DecodeError> {
        if self.mask == 0 {
            self.bits = self.octet()?;
            self.mask = 1;
        }
        let set = self.bits & self.mask != 0;
        self.mask <<= 1;
        Ok(set)
    }

    /// Reads a `shortstr`.
    #[inline(always)]
    pub fn shortstr(&mut self) -> Result<&'a str, DecodeError> {
        let at = self.at;
        let len = self.octet()?;
        let bytes = self.take(usize::from(len), "the payload ends inside a short string")?;
        // Many names are empty, and a call for each costs a nanosecond.
        if bytes.is_empty() {
            return Ok("");
        }
        std::str::from_utf8(bytes).map_err(|_| DecodeError { what: "a short string is not UTF-8", at })
    }

    /// Reads a `longstr`.
    #[inline]
    pub fn longstr(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.long()?;
        self.take(len as usize, "the payload ends inside a long string")
    }
}

/// Appends fields to a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Mask of the next bit in the last octet of `out`; 0 when the next bit starts a new one.
    mask: u8,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, mask: 0 }
    }

    /// Appends bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.mask = 0;
        self.out.extend_from_slice(bytes);
    }

    /// Appends a `bit`.
    #[inline]
    pub fn bit(&mut self, value: bool) {
        if self.mask == 0 {
            self.out.push(0);
            self.mask = 1;
        }
        if let (true, Some(last)) = (value, self.out.last_mut()) {
            *last |= self.mask;
        }
        self.mask <<= 1;
    }

    /// Appends a `shortstr`; refuses more than 255 bytes.
    #[inline]
    pub fn shortstr(&mut self, text: &str) -> Result<(), EncodeError> {
        let len = u8::try_from(text.len())
            .map_err(|_| EncodeError::ShortString { len: text.len(), start: text.chars().take(24).collect() })?;
        self.raw(&[len]);
        self.raw(text.as_bytes());
        Ok(())
    }

    /// Appends a `longstr`, or a table or array whose fields are encoded already.
    #[inline]
    pub fn longstr(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let len = u32::try_from(bytes.len()).map_err(|_| EncodeError::LongString { len: bytes.len() })?;
        self.raw(&len.to_be_bytes());
        self.raw(bytes);
        Ok(())
    }
}

/// A type that stands in the table of methods or properties.
pub trait Field<'a>: Sized {
    /// Takes one off the payload.
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
    /// Appends it.
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError>;
}

macro_rules! integer_fields {
    ($($ty:ty = $read:ident),*) => {$(
        impl Field<'_> for $ty {
            #[inline]
            fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                reader.$read()
            }
            #[inline]
            fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
                writer.raw(&self.to_be_bytes());
                Ok(())
            }
        }
    )*};
}

integer_fields!(u8 = octet, u16 = short, u32 = long, u64 = longlong);

impl Field<'_> for bool {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.bit()
    }
    #[inline]
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.bit(*self);
        Ok(())
    }
}

impl<'a> Field<'a> for &'a str {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.shortstr()
    }
    #[inline]
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.shortstr(self)
    }
}

impl<'a> Field<'a> for &'a [u8] {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.longstr()
    }
    #[inline]
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.longstr(self)
    }
}

impl<'a> Field<'a> for SecretStr<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.longstr().map(Self)
    }
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.longstr(self.0)
    }
}
