//! The bare program's counts, found by walking from frame to frame.

use anyhow::{Result, bail};

const METHOD: u8 = 1;
const BODY: u8 = 3;
/// Type, channel and size before a frame's payload; one byte comes after it.
const HEAD: usize = 7;
const OVERHEAD: usize = HEAD + 1;

/// Class and method as one number.
const ACK: u32 = 60 << 16 | 80;
const DELIVER: u32 = 60 << 16 | 60;

/// Walks over whole frames, and tells how many bytes they were.
#[inline]
fn walk(bytes: &[u8], mut frame: impl FnMut(u8, &[u8]) -> Result<()>) -> Result<usize> {
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + HEAD) {
        let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        let Some(payload) = bytes.get(at + HEAD..at + HEAD + size) else {
            break;
        };
        if at + OVERHEAD + size > bytes.len() {
            break;
        }
        frame(head[0], payload)?;
        at += OVERHEAD + size;
    }
    Ok(at)
}

#[inline]
fn method(payload: &[u8]) -> u32 {
    payload
        .first_chunk()
        .map_or(0, |id: &[u8; 4]| u32::from_be_bytes(*id))
}

#[cold]
fn unexpected(payload: &[u8]) -> Result<()> {
    let id = method(payload);
    bail!("the broker sent method {}.{}", id >> 16, id & 0xffff)
}

/// Walks over heartbeats.
pub fn nothing(bytes: &[u8]) -> Result<usize> {
    walk(bytes, |kind, payload| {
        if kind == METHOD {
            unexpected(payload)?;
        }
        Ok(())
    })
}

/// Messages that are confirmed.
pub struct Confirms {
    pub count: u64,
    /// All up to this one are.
    upto: u64,
    /// Later ones that are, at their tag modulo the length; how many there are.
    early: Vec<bool>,
    ahead: u64,
}

impl Confirms {
    pub fn new(window: u64) -> Self {
        Self {
            count: 0,
            upto: 0,
            early: vec![false; window.next_power_of_two() as usize],
            ahead: 0,
        }
    }

    #[inline]
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize> {
        walk(bytes, |kind, payload| {
            if kind != METHOD {
                return Ok(());
            }
            let (ACK, Some(tag), Some(multiple)) = (
                method(payload),
                payload.get(4..).and_then(<[u8]>::first_chunk),
                payload.get(12),
            ) else {
                return unexpected(payload);
            };
            self.confirm(u64::from_be_bytes(*tag), multiple & 1 != 0);
            Ok(())
        })
    }

    #[inline]
    fn confirm(&mut self, tag: u64, multiple: bool) {
        if multiple && self.ahead == 0 {
            self.count += tag.saturating_sub(self.upto);
            self.upto = self.upto.max(tag);
        } else if multiple {
            for tag in self.upto + 1..=tag {
                self.settle(tag);
            }
        } else if tag == self.upto + 1 && self.ahead == 0 {
            self.count += 1;
            self.upto = tag;
        } else if let Some(early) = self.slot(tag) {
            *early = true;
            self.count += 1;
            self.ahead += 1;
        }
    }

    /// The next one is confirmed, or was before.
    fn settle(&mut self, tag: u64) {
        self.upto = tag;
        if let Some(early) = self.slot(tag) {
            if std::mem::take(early) {
                self.ahead -= 1;
            } else {
                self.count += 1;
            }
        }
    }

    fn slot(&mut self, tag: u64) -> Option<&mut bool> {
        let at = tag as usize & (self.early.len() - 1);
        self.early.get_mut(at)
    }
}

/// Messages that have come, and the acknowledgement of each.
#[derive(Default)]
pub struct Deliveries {
    pub count: u64,
    pub acks: Vec<u8>,
}

/// A frame with `basic.ack` of tag 0 on channel 1.
const ACK_FRAME: [u8; 21] = [
    1, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 206,
];

impl Deliveries {
    #[inline]
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize> {
        walk(bytes, |kind, payload| {
            match kind {
                // Bodies are smaller than a frame.
                BODY => {
                    self.count += 1;
                    let at = self.acks.len() + 11;
                    self.acks.extend_from_slice(&ACK_FRAME);
                    self.acks[at..at + 8].copy_from_slice(&self.count.to_be_bytes());
                }
                METHOD if method(payload) != DELIVER => unexpected(payload)?,
                _ => {}
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(tag: u64, multiple: bool) -> Vec<u8> {
        let mut frame = ACK_FRAME.to_vec();
        frame[11..19].copy_from_slice(&tag.to_be_bytes());
        frame[19] = u8::from(multiple);
        frame
    }

    #[test]
    fn confirms_are_counted_once_in_any_order() {
        let mut confirms = Confirms::new(8);
        let frames = [
            ack(1, false),
            ack(3, false),
            ack(4, true),
            ack(6, false),
            ack(5, false),
            ack(7, true),
            ack(8, true),
        ];
        let counts = [1, 2, 4, 5, 6, 7, 8];
        for (frame, count) in frames.iter().zip(counts) {
            assert_eq!(confirms.take(frame).unwrap(), frame.len());
            assert_eq!(confirms.count, count);
        }
        assert_eq!(confirms.ahead, 0);
    }

    #[test]
    fn half_a_frame_is_left() {
        let bytes = [ack(1, false), ack(2, false)].concat();
        let mut confirms = Confirms::new(8);
        for cut in 21..42 {
            assert_eq!(confirms.take(&bytes[..cut]).unwrap(), 21);
        }
        assert!(nothing(&bytes).is_err(), "where none are expected");
    }

    #[test]
    fn each_body_is_counted_and_acknowledged() {
        let deliver = [1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 60, 206];
        let body = [3, 0, 1, 0, 0, 0, 2, 7, 7, 206];
        let mut deliveries = Deliveries::default();
        let bytes = [&deliver[..], &body, &deliver, &body].concat();
        assert_eq!(deliveries.take(&bytes).unwrap(), bytes.len());
        assert_eq!(deliveries.count, 2);
        assert_eq!(deliveries.acks, [ack(1, false), ack(2, false)].concat());
    }
}
