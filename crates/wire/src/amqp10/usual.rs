//! The usual forms of what comes and goes for each message, straight from and to bytes. What is not in its usual form
//! is read by the table (`composite`), to the same effect; that costs several times as much.
//!
//! ```text
//! 0x00 0x53 code   0xC0 size u8 count u8   or   0xD0 size u32 count u32   fields ...
//! ```

use super::composite::{Composite, Disposition, HeaderSection, Transfer};

/// The fields of a list of the protocol's own, all of which are to be taken.
struct Fields<'a> {
    left: u32,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Of a list that begins `bytes` and is described by this number; and what comes behind it.
    #[inline]
    fn of(bytes: &'a [u8], code: u64) -> Option<(Self, &'a [u8])> {
        let (left, len, rest) = match *bytes {
            [0, 0x53, it, 0xC0, size, count, ref rest @ ..] if u64::from(it) == code => {
                (count.into(), usize::from(size).checked_sub(1)?, rest)
            }
            [0, 0x53, it, 0xD0, s0, s1, s2, s3, c0, c1, c2, c3, ref rest @ ..] if u64::from(it) == code => {
                let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
                (u32::from_be_bytes([c0, c1, c2, c3]), size.checked_sub(4)?, rest)
            }
            _ => return None,
        };
        let (bytes, rest) = rest.split_at_checked(len)?;
        Some((Self { left, bytes }, rest))
    }

    /// Takes one off where `usual` knows it; fields at the end that are not there are null.
    #[inline(always)]
    fn next<T: Default>(&mut self, usual: impl FnOnce(&'a [u8]) -> Option<(T, &'a [u8])>) -> Option<T> {
        if self.left == 0 {
            return Some(T::default());
        }
        let (value, rest) = usual(self.bytes)?;
        (self.left, self.bytes) = (self.left - 1, rest);
        Some(value)
    }

    #[inline(always)]
    fn null(&mut self) -> Option<()> {
        self.next(|bytes| Some(((), bytes.strip_prefix(&[0x40])?)))
    }

    #[inline(always)]
    fn flag(&mut self) -> Option<Option<bool>> {
        self.next(|bytes| match *bytes {
            [0x40, ref rest @ ..] => Some((None, rest)),
            [0x41, ref rest @ ..] => Some((Some(true), rest)),
            [0x42, ref rest @ ..] => Some((Some(false), rest)),
            _ => None,
        })
    }

    #[inline(always)]
    fn byte(&mut self) -> Option<Option<u8>> {
        self.next(|bytes| match *bytes {
            [0x40, ref rest @ ..] => Some((None, rest)),
            [0x50, value, ref rest @ ..] => Some((Some(value), rest)),
            _ => None,
        })
    }

    #[inline(always)]
    fn number(&mut self) -> Option<Option<u32>> {
        self.next(|bytes| match *bytes {
            [0x70, a, b, c, d, ref rest @ ..] => Some((Some(u32::from_be_bytes([a, b, c, d])), rest)),
            [0x52, value, ref rest @ ..] => Some((Some(value.into()), rest)),
            [0x43, ref rest @ ..] => Some((Some(0), rest)),
            [0x40, ref rest @ ..] => Some((None, rest)),
            _ => None,
        })
    }

    /// Bytes of any meaning, which are not looked at.
    #[inline(always)]
    fn binary(&mut self) -> Option<()> {
        self.next(|bytes| match *bytes {
            [0xA0, len, ref rest @ ..] => Some(((), rest.get(usize::from(len)..)?)),
            [0x40, ref rest @ ..] => Some(((), rest)),
            _ => None,
        })
    }

    #[inline(always)]
    const fn end(&self) -> Option<()> {
        if self.left == 0 && self.bytes.is_empty() { Some(()) } else { None }
    }
}

/// A transfer of a whole delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransferHead {
    pub(super) handle: u32,
    pub(super) id: u32,
    pub(super) settled: bool,
}

impl TransferHead {
    /// Takes one off a frame's body; the rest is its payload.
    #[inline(always)]
    pub(super) fn read(body: &[u8]) -> Option<(Self, &[u8])> {
        let (mut fields, payload) = Fields::of(body, Transfer::CODE)?;
        let (handle, id) = (fields.number()??, fields.number()??);
        fields.binary()?;
        fields.number()?;
        let (settled, more) = (fields.flag()?, fields.flag()?);
        let mut is_whole = more != Some(true);
        if fields.left > 0 {
            fields.byte()?;
            fields.null()?;
            fields.flag()?;
            is_whole &= fields.flag()? != Some(true);
            fields.flag()?;
        }
        fields.end()?;
        is_whole.then_some((Self { handle, id, settled: settled == Some(true) }, payload))
    }
}

/// The first and the last delivery that a receiver accepts and settles.
#[inline(always)]
pub(super) fn accepted(body: &[u8]) -> Option<(u32, u32)> {
    let (mut fields, _) = Fields::of(body, Disposition::CODE)?;
    let is_receiver = fields.flag()? == Some(true);
    let (first, last) = (fields.number()??, fields.number()?);
    let is_settled = fields.flag()? == Some(true);
    let is_accepted = fields.next(|bytes| Some((true, bytes.strip_prefix(&ACCEPTED)?)))?;
    fields.flag()?;
    fields.end()?;
    (is_receiver && is_settled && is_accepted).then_some((first, last.unwrap_or(first)))
}

/// The outcome `accepted`, which has no fields.
const ACCEPTED: [u8; 4] = [0, 0x53, 0x24, 0x45];

/// Appends a frame by which a receiver accepts and settles deliveries.
#[inline]
pub(super) fn put_accepted(out: &mut Vec<u8>, channel: u16, first: u32, last: u32) {
    let mut frame = *b"\0\0\0\x1E\x02\0\0\0\0\x53\x15\xC0\x11\x05\x41\x70\0\0\0\0\x70\0\0\0\0\x41\0\x53\x24\x45";
    frame[6..8].copy_from_slice(&channel.to_be_bytes());
    frame[16..20].copy_from_slice(&first.to_be_bytes());
    frame[21..25].copy_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&frame);
}

/// Appends a frame with a whole message, a head and a body; `false`, and nothing is done, where it is too long.
#[inline]
pub(super) fn put_delivery(
    out: &mut Vec<u8>,
    channel: u16,
    transfer: TransferHead,
    message: [&[u8]; 2],
    frame_max: usize,
) -> bool {
    let mut frame = *b"\0\0\0\0\x02\0\0\0\0\x53\x14\xC0\x14\x06\x70\0\0\0\0\x70\0\0\0\0\xA0\x04\0\0\0\0\x43\x42\x42";
    let [head, body] = message;
    let size = frame.len() + head.len() + body.len();
    if size > frame_max {
        return false;
    }
    let id = transfer.id.to_be_bytes();
    frame[0..4].copy_from_slice(&(size as u32).to_be_bytes());
    frame[6..8].copy_from_slice(&channel.to_be_bytes());
    frame[15..19].copy_from_slice(&transfer.handle.to_be_bytes());
    frame[20..24].copy_from_slice(&id);
    frame[26..30].copy_from_slice(&id);
    if transfer.settled {
        frame[31] = 0x41;
    }
    out.reserve(size);
    out.extend_from_slice(&frame);
    out.extend_from_slice(head);
    out.extend_from_slice(body);
    true
}

/// Whether a message's header says that it may have been delivered before; `None` where that has another form.
#[inline]
pub(super) fn may_be_repeated(message: &[u8]) -> Option<bool> {
    match *message {
        // Sections stand in the order of their numbers.
        [] | [0, 0x53, 0x71..=0x78, ..] => return Some(false),
        _ => {}
    }
    let (mut fields, _) = Fields::of(message, HeaderSection::CODE)?;
    fields.flag()?;
    fields.byte()?;
    fields.number()?;
    let (first_acquirer, delivery_count) = (fields.flag()?, fields.number()?);
    fields.end()?;
    Some(first_acquirer == Some(false) || delivery_count > Some(0))
}

/// The sections before the body, and the body, where that is one section of bytes and nothing follows.
#[inline]
pub(super) fn data(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    loop {
        let rest = message.get(at..)?;
        let (code, kind, len, head) = match *rest {
            [0, 0x53, code, kind @ (0xA0 | 0xC0 | 0xC1), len, ..] => (code, kind, usize::from(len), 5),
            [0, 0x53, code, kind @ (0xB0 | 0xD0 | 0xD1), a, b, c, d, ..] => {
                (code, kind, u32::from_be_bytes([a, b, c, d]) as usize, 8)
            }
            [0, 0x53, code, 0x45, ..] => (code, 0x45, 0, 4),
            _ => return None,
        };
        match (code, kind) {
            (0x70..=0x74, _) => at += head + len,
            (0x75, 0xA0 | 0xB0) if rest.len() == head + len => return Some((message.get(..at)?, rest.get(head..)?)),
            _ => return None,
        }
    }
}
