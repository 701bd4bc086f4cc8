//! The numbers and texts of a recording.

use std::borrow::Cow;

/// Error for bytes that end too early.
pub(super) const CUT_OFF: &str = "it is cut off";
/// Values that are read for each byte of a recording: those of a hostile one can be empty, and as many as it likes.
const VALUES_PER_BYTE: u64 = 4;
/// Values of one event that are kept.
const MOST_KEPT: u64 = 16 << 20;

/// Reads a stretch of a recording. All numbers but those of the header are packed, seven bits to a byte.
#[derive(Clone, Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    /// Values that may still be read.
    fuel: u64,
    /// Values that may still be kept.
    room: u64,
}

/// A text, or where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    Here(Cow<'a, str>),
    /// An index into the texts of the chunk.
    Constant(u64),
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            fuel: VALUES_PER_BYTE.saturating_mul(bytes.len() as u64),
            room: MOST_KEPT,
        }
    }

    /// Bytes that are left.
    pub(super) const fn len(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT_OFF)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| CUT_OFF.to_owned())
    }

    pub(super) fn byte(&mut self) -> Result<u8, String> {
        self.array().map(|[byte]| byte)
    }

    /// A number of the header.
    pub(super) fn wide(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_be_bytes)
    }

    /// A packed number; the ninth byte of the largest ones has eight bits.
    pub(super) fn number(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for at in 0..9 {
            let byte = self.byte()?;
            if at == 8 {
                return Ok(number | u64::from(byte) << 56);
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                break;
            }
        }
        Ok(number)
    }

    /// How many elements follow, each of a byte at least.
    pub(super) fn count(&mut self) -> Result<usize, String> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if count > self.rest.len() {
            return Err(format!("{count} elements in {} bytes", self.rest.len()));
        }
        Ok(count)
    }

    /// One more value is read.
    pub(super) fn value(&mut self) -> Result<(), String> {
        self.fuel = self.fuel.checked_sub(1).ok_or("too many empty values")?;
        Ok(())
    }

    /// One more value is kept.
    pub(super) fn kept(&mut self) -> Result<(), String> {
        self.room = self
            .room
            .checked_sub(1)
            .ok_or("an event of too many values")?;
        Ok(())
    }

    /// A text; `None` where there is none.
    pub(super) fn text(&mut self) -> Result<Option<Text<'a>>, String> {
        Ok(Some(Text::Here(match self.byte()? {
            0 => return Ok(None),
            1 => Cow::Borrowed(""),
            2 => return Ok(Some(Text::Constant(self.number()?))),
            3 => {
                let length = self.count()?;
                String::from_utf8_lossy(self.take(length)?)
            }
            4 => {
                let length = self.count()?;
                let mut units = Vec::with_capacity(length.min(1 << 16));
                for _ in 0..length {
                    units.push(self.number()? as u16);
                }
                Cow::Owned(String::from_utf16_lossy(&units))
            }
            5 => {
                let length = self.count()?;
                let chars = self.take(length)?.iter().map(|&byte| char::from(byte));
                Cow::Owned(chars.collect())
            }
            other => return Err(format!("a text of the unknown kind {other}")),
        })))
    }
}
