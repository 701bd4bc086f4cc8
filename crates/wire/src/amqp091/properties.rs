//! Message properties as they travel in a content header (specification 4.2.6.1).
//!
//! ```text
//! content header payload
//!  0      2      4           12      14
//! +------+------+-----------+-------+------------------+
//! | class| 0    | body size | flags | values, by flags |
//! +------+------+-----------+-------+------------------+
//!  short  short  longlong    short
//! ```

use super::codec::{Reader, Writer};
use super::error::{DecodeError, EncodeError};
use super::spec::BasicProperties;
use super::table::{self, Value};

/// Flags of the first three properties, content type, content encoding and headers, and of the eighth.
const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;
const EXPIRATION: u16 = 1 << 8;

/// Flags and values, not decoded yet: most receivers only pass them on or ignore them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties<'a> {
    bytes: &'a [u8],
}

impl<'a> Properties<'a> {
    /// No property at all.
    pub const NONE: Self = Self { bytes: &[0, 0] };

    /// Takes flags and values as they stand on the wire, as those of [`Self::as_bytes`].
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Flags and values as they stand on the wire, to keep or to send on.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Decodes them. Errors: truncated values, text that is not UTF-8, unknown flags, left-over bytes.
    pub fn decode(self) -> Result<BasicProperties<'a>, DecodeError> {
        let mut reader = Reader::new(self.bytes);
        let flags = reader.short()?;
        if flags & !BasicProperties::FLAGS != 0 {
            return Err(DecodeError { what: "property flags that class basic does not have", at: 0 });
        }
        let properties = BasicProperties::decode_list(flags, &mut reader)?;
        if reader.rest().is_empty() { Ok(properties) } else { Err(reader.error("bytes after the last property")) }
    }

    /// The bytes of a header that is a byte array or a string, without decoding others or allocation.
    pub fn header_bytes(self, name: &str) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.bytes);
        let flags = reader.short().ok()?;
        if flags & HEADERS == 0 {
            return None;
        }
        for earlier in [CONTENT_TYPE, CONTENT_ENCODING] {
            if flags & earlier != 0 {
                reader.shortstr().ok()?;
            }
        }
        match table::find(&mut reader, name).ok()?? {
            Value::Bytes(bytes) | Value::Str(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The expiration. Where there is none nothing is decoded; properties that cannot be read have none.
    #[inline]
    pub fn expiration(self) -> Option<&'a str> {
        let flags = u16::from_be_bytes(*self.bytes.first_chunk()?);
        if flags & EXPIRATION == 0 { None } else { self.decode().ok()?.expiration }
    }
}

impl Default for Properties<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

impl BasicProperties<'_> {
    /// Appends flags and values. Errors: strings that are too long.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.flags().to_be_bytes());
        self.encode_list(&mut Writer::new(out))
    }

    /// Flags and values in a buffer of their own, for [`Properties::from_bytes`]. Errors: strings that are too long.
    pub fn to_bytes(&self) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes)?;
        Ok(bytes)
    }
}
