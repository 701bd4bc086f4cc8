//! Writing frames (specification 4.2.3 to 4.2.6).
//!
//! ```text
//!  0      1         3             7                  size+7     size+8
//! +------+---------+-------------+------------------+-----------+
//! | type | channel |    size     |     payload      |    CE     |
//! +------+---------+-------------+------------------+-----------+
//!  octet   short       long         size bytes         octet
//!
//! method   type 1   class short, method short, fields
//! header   type 2   see `properties`
//! body     type 3   a part of the body, never above frame-max - 8 bytes
//! heartbeat type 8  empty, on channel 0
//! ```

use super::codec::Writer;
use super::error::EncodeError;
use super::properties::Properties;
use super::spec::{CLASS_BASIC, EncodeMethod, FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD};

/// Bytes of a frame around its payload.
pub(super) const OVERHEAD: usize = 8;
/// Bytes of a frame before its payload.
pub(super) const HEAD: usize = 7;
/// Bytes of a content header before the property flags.
pub(super) const CONTENT_HEAD: usize = 12;

#[inline]
fn head(kind: u8, channel: u16, size: usize) -> [u8; HEAD] {
    let [c0, c1] = channel.to_be_bytes();
    // Callers keep sizes below frame-max, which is 32 bits.
    let [s0, s1, s2, s3] = (size as u32).to_be_bytes();
    [kind, c0, c1, s0, s1, s2, s3]
}

/// Appends a method frame; on an error `out` is as before.
pub(super) fn put_method(
    out: &mut Vec<u8>,
    channel: u16,
    method: &impl EncodeMethod,
    frame_max: u32,
) -> Result<(), EncodeError> {
    let start = out.len();
    put_method_unchecked(out, channel, method, frame_max).inspect_err(|_| out.truncate(start))
}

fn put_method_unchecked(
    out: &mut Vec<u8>,
    channel: u16,
    method: &impl EncodeMethod,
    frame_max: u32,
) -> Result<(), EncodeError> {
    let start = out.len();
    let info = method.info();
    out.extend_from_slice(&head(FRAME_METHOD, channel, 0));
    out.extend_from_slice(&info.id.as_u32().to_be_bytes());
    method.encode_fields(&mut Writer::new(out))?;
    let size = out.len() - start - HEAD;
    out.push(FRAME_END);
    fits(info.name, size, frame_max)?;
    if let Some(slot) = out.get_mut(start..start + HEAD) {
        slot.copy_from_slice(&head(FRAME_METHOD, channel, size));
    }
    Ok(())
}

fn fits(what: &'static str, size: usize, frame_max: u32) -> Result<(), EncodeError> {
    let len = size + OVERHEAD;
    if len > frame_max as usize {
        return Err(EncodeError::Frame { what, len, frame_max });
    }
    Ok(())
}

/// Appends a content header and the body, split at `frame_max`; on an error `out` is as before.
#[inline]
pub(super) fn put_content(
    out: &mut Vec<u8>,
    channel: u16,
    properties: Properties<'_>,
    body: &[u8],
    frame_max: u32,
) -> Result<(), EncodeError> {
    let properties = properties.as_bytes();
    let size = CONTENT_HEAD + properties.len();
    fits("the message's properties", size, frame_max)?;
    out.reserve(size + body.len() + 2 * OVERHEAD);
    out.extend_from_slice(&head(FRAME_HEADER, channel, size));
    let mut fixed = [0; CONTENT_HEAD];
    let (class, rest) = fixed.split_at_mut(2);
    class.copy_from_slice(&CLASS_BASIC.to_be_bytes());
    if let Some(slot) = rest.last_chunk_mut::<8>() {
        *slot = (body.len() as u64).to_be_bytes();
    }
    out.extend_from_slice(&fixed);
    out.extend_from_slice(properties);
    out.push(FRAME_END);
    put_body(out, channel, body, body_part_max(frame_max));
    Ok(())
}

/// Appends a body in frames of at most `part_max` bytes each, which is above zero.
#[inline]
pub(super) fn put_body(out: &mut Vec<u8>, channel: u16, body: &[u8], part_max: usize) {
    for part in body.chunks(part_max.max(1)) {
        out.extend_from_slice(&head(FRAME_BODY, channel, part.len()));
        out.extend_from_slice(part);
        out.push(FRAME_END);
    }
}

/// The most body bytes that one frame holds.
pub(super) fn body_part_max(frame_max: u32) -> usize {
    (frame_max as usize).saturating_sub(OVERHEAD).max(1)
}

/// Appends a heartbeat frame.
pub(super) fn put_heartbeat(out: &mut Vec<u8>) {
    out.extend_from_slice(&head(FRAME_HEARTBEAT, 0, 0));
    out.push(FRAME_END);
}

/// Appends the frame of `basic.ack`, `basic.nack` or `basic.reject`, which all are a delivery tag and an octet of bits.
#[inline]
pub(super) fn put_settlement(out: &mut Vec<u8>, channel: u16, method: u16, tag: u64, bits: u8) {
    const SIZE: usize = 4 + 8 + 1;
    let mut frame = [0; SIZE + OVERHEAD];
    let [m0, m1] = method.to_be_bytes();
    let [c0, c1] = CLASS_BASIC.to_be_bytes();
    let (front, back) = frame.split_at_mut(HEAD);
    front.copy_from_slice(&head(FRAME_METHOD, channel, SIZE));
    let (id, back) = back.split_at_mut(4);
    id.copy_from_slice(&[c0, c1, m0, m1]);
    let (tag_slot, back) = back.split_at_mut(8);
    tag_slot.copy_from_slice(&tag.to_be_bytes());
    back.copy_from_slice(&[bits, FRAME_END]);
    out.extend_from_slice(&frame);
}

/// The beginning of a text that fits into a short string.
pub(super) fn short(text: &str) -> &str {
    let mut end = text.len().min(255);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
