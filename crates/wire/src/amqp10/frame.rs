//! Frames (specification 2.3).
//!
//! ```text
//!  0         4      5      6         8          4 * doff       size
//! +---------+------+------+---------+---- ... --+--- ... ------+
//! |  size   | doff | type | channel | extended  |     body     |
//! +---------+------+------+---------+---- ... --+--- ... ------+
//!  u32       u8     u8     u16       ignored     performative, payload
//!
//! type 0   AMQP; an empty body is a heartbeat          type 1   SASL
//! ```

use super::composite::Composite;
use crate::amqp091::DecodeError;

/// Bytes of a frame before its body.
pub(super) const HEAD: usize = 8;
/// Frame type of everything but the login.
pub(super) const FRAME_AMQP: u8 = 0;
/// Frame type of the login.
pub(super) const FRAME_SASL: u8 = 1;

/// A frame that has come whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeFrame<'i> {
    pub(super) kind: u8,
    pub(super) channel: u16,
    pub(super) body: &'i [u8],
    /// All of its bytes.
    pub(super) size: usize,
}

/// The size of the first frame; 0 where that is not known.
#[inline]
pub(super) fn size(input: &[u8]) -> usize {
    let head = input.first_chunk().copied();
    head.map_or(0, u32::from_be_bytes) as usize
}

/// Takes a frame off; `None` where it is not there as a whole.
#[inline]
pub(super) fn take<'i>(input: &mut &'i [u8], frame_max: usize) -> Result<Option<WholeFrame<'i>>, DecodeError> {
    let bytes: &'i [u8] = input;
    let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
    let wrong = |what| Err(DecodeError { what, at: 0 });
    let [_, _, _, _, doff, kind, channel @ ..] = *head;
    let (size, begin) = (size(head), usize::from(doff) * 4);
    if begin < HEAD || size < begin {
        return wrong("a frame is smaller than its head");
    }
    if size > frame_max {
        return wrong("a frame is above the limit that this side has set");
    }
    let Some((whole, rest)) = bytes.split_at_checked(size) else { return Ok(None) };
    *input = rest;
    Ok(Some(WholeFrame {
        kind,
        channel: u16::from_be_bytes(channel),
        body: whole.get(begin..).unwrap_or_default(),
        size,
    }))
}

/// The head of a frame of `size` bytes in all.
#[inline]
pub(super) fn head(kind: u8, channel: u16, size: usize) -> [u8; HEAD] {
    // Callers keep sizes below the frame's limit, which is 32 bits.
    let [s0, s1, s2, s3] = (size as u32).to_be_bytes();
    let [c0, c1] = channel.to_be_bytes();
    [s0, s1, s2, s3, 2, kind, c0, c1]
}

/// Appends a frame without payload.
#[inline]
pub(super) fn put<'a>(out: &mut Vec<u8>, kind: u8, channel: u16, performative: &impl Composite<'a>) {
    let start = out.len();
    out.extend_from_slice(&head(kind, channel, 0));
    performative.write(out);
    close(out, start);
}

/// Writes the size of a frame that begins at `start` and ends here.
#[inline]
pub(super) fn close(out: &mut [u8], start: usize) {
    let size = (out.len() - start) as u32;
    if let Some(slot) = out.get_mut(start..start + 4) {
        slot.copy_from_slice(&size.to_be_bytes());
    }
}

/// Appends a heartbeat.
pub(super) fn put_heartbeat(out: &mut Vec<u8>) {
    out.extend_from_slice(&head(FRAME_AMQP, 0, HEAD));
}
