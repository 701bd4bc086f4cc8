//! The header at the front of every message body.
//!
//! ```text
//! 32 bytes and more (little-endian)             12 to 31 bytes
//!  0 run        u32                              0 producer  u16, masked by the run
//!  4 producer   u32                              2 sequence  u32, wraps; masked by the run
//!  8 sequence   u47 and a copy bit               6 t_i       48 bits, wraps every 78.2 h
//! 14 s_i - t_i  u48 ns                          12 check     u32, from 16 bytes on
//! 20 t_i        u64 ns, CLOCK_MONOTONIC
//! 28 check      u32
//! ```
//!
//! The compact form has the monotonic clock's low 48 bits; a reader restores the others from its
//! own clock, which is right for messages younger than 78.2 hours. It does not carry `s_i`, so
//! that `transfer` is known only where the producer sends unthrottled and `t_i = s_i`. Who reads it as another run's
//! finds a producer and a sequence number that nobody has, and the time as it is.
//!
//! The copy bit ([`COPY`]) marks what its producer sends again after a reconnect; the compact form has none.
//!
//! Where bodies must stay as they are, from files or as JSON, the full header is a *trace header* instead:
//! the message header [`TRACE_HEADER`], whose bytes are these 32. Its check covers the body's length too.
//!
//! The check covers the header and the body's length; behind it every byte is [`FILLER`]. Where it
//! is wrong, [`is_ours`] tells damage from what another program wrote. Damage to a header of 12 to 15
//! bytes can be told only where it makes a producer, a sequence number or a time that cannot be.

use measure::Time;

/// The smallest body: the compact header.
pub const COMPACT_LEN: usize = 12;
/// The smallest body with a compact header that has a check.
const CHECKED_LEN: usize = 16;
/// The smallest body with the full header.
pub const FULL_LEN: usize = 32;
/// The message header that holds the header of a body which must stay as it is.
pub const TRACE_HEADER: &str = "x-bellows";
/// [`Header::run`] of messages that queues are filled with before a run, whose own number is random; no UTF-8.
pub const PREFILL_RUN: u32 = 0xB8F1_77ED;
/// Byte that fills the body behind the header.
pub const FILLER: u8 = 0;

/// The compact form's clock wraps at this many nanoseconds.
const COMPACT_CLOCK: u64 = 1 << 48;
/// The largest number of 48 bits.
const MOST_48: u64 = (1 << 48) - 1;
/// Beside a sequence number in [`write_front`]: the message is sent again. Only the full header holds it.
pub const COPY: u64 = 1 << 47;

/// A message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// [`crate::Plan::run_id`]; `None` in the compact form.
    pub run: Option<u32>,
    /// Producer, counted over all groups; low 16 bits in the compact form.
    pub producer: u32,
    /// Position among the producer's messages; low 32 bits in the compact form.
    pub sequence: u64,
    /// A copy that was sent again after a reconnect; never in the compact form.
    pub is_copy: bool,
    /// When the message was due, `t_i`.
    pub intended: Time,
    /// When it was sent, `s_i`; `None` in the compact form.
    pub sent: Option<Time>,
}

/// Why a body has no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Something else wrote it, or another machine: too short, or its time lies in the future.
    Foreign,
    /// The check is wrong: damaged on the way, or not one of ours; see [`is_ours`].
    Corrupt,
}

/// Writes the header that fits the body. Bodies below [`COMPACT_LEN`] are left alone; plans refuse them.
#[inline]
pub fn write(body: &mut [u8], run: u32, producer: u32, sequence: u64, intended: Time, sent: Time) {
    let len = body.len();
    write_front(body, len, run, producer, sequence, intended, sent);
}

/// Writes the front of a body of `len` bytes: a large one is cut into frames.
#[inline]
pub fn write_front(body: &mut [u8], len: usize, run: u32, producer: u32, sequence: u64, intended: Time, sent: Time) {
    if let Some(head) = body.first_chunk_mut::<FULL_LEN>() {
        let delay = sent.since(intended).0.min(MOST_48);
        // In words that are never read back: a read waits for all that was written before, up to 50 ns.
        let mut words = [
            u64::from(run) | u64::from(producer) << 32,
            sequence & MOST_48 | delay << 48,
            delay >> 16 | intended.0 << 32,
            intended.0 >> 32,
        ];
        words[3] |= u64::from(check_full(words, len)) << 32;
        for (place, word) in head.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    } else if let Some(head) = body.first_chunk_mut::<COMPACT_LEN>() {
        let (of_producer, of_sequence) = masks(run);
        head[0..2].copy_from_slice(&(producer as u16 ^ of_producer).to_le_bytes());
        head[2..6].copy_from_slice(&(sequence as u32 ^ of_sequence).to_le_bytes());
        head[6..12].copy_from_slice(&intended.0.to_le_bytes()[..6]);
        let check = check_compact(head, len);
        if let Some(place) = body.get_mut(COMPACT_LEN..CHECKED_LEN) {
            place.copy_from_slice(&check.to_le_bytes());
        }
    }
}

/// Reads the trace header of a body of this many bytes. Errors: where it is none; see [`Unreadable`].
#[inline]
pub fn read_trace_header(trace_header: &[u8], len: usize, now: Time) -> Result<Header, Unreadable> {
    let head = trace_header.first_chunk::<FULL_LEN>().ok_or(Unreadable::Foreign)?;
    read_full(head, len, now)
}

/// Reads the header, restoring a compact time from the reader's clock. The producer and the sequence number of a
/// compact header are right where `run` is its own. Errors: where there is none; see [`Unreadable`].
// A call of its own costs as much as the reading: 5 ns.
#[inline(always)]
pub fn read(body: &[u8], run: u32, now: Time) -> Result<Header, Unreadable> {
    if let Some(head) = body.first_chunk::<FULL_LEN>() {
        return read_full(head, body.len(), now);
    }
    let head = body.first_chunk::<COMPACT_LEN>().ok_or(Unreadable::Foreign)?;
    if let Some(check) = body.get(COMPACT_LEN..CHECKED_LEN)
        && check != check_compact(head, body.len()).to_le_bytes()
    {
        return Err(Unreadable::Corrupt);
    }
    let low = u64::from_le_bytes([head[6], head[7], head[8], head[9], head[10], head[11], 0, 0]);
    let age = now.0.wrapping_sub(low) % COMPACT_CLOCK;
    let intended = Time(now.0.checked_sub(age).ok_or(Unreadable::Foreign)?);
    Ok(Header { intended, ..compact(head, run) })
}

/// All but the time.
#[inline]
fn compact(head: &[u8; COMPACT_LEN], run: u32) -> Header {
    let (of_producer, of_sequence) = masks(run);
    let sequence = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
    Header {
        run: None,
        producer: u32::from(u16::from_le_bytes([head[0], head[1]]) ^ of_producer),
        sequence: u64::from(sequence ^ of_sequence),
        is_copy: false,
        intended: Time(0),
        sent: None,
    }
}

#[inline(always)]
fn read_full(head: &[u8; FULL_LEN], len: usize, now: Time) -> Result<Header, Unreadable> {
    let words = words(head);
    let [first, second, third, fourth] = words;
    if fourth >> 32 != u64::from(check_full(words, len)) {
        return Err(Unreadable::Corrupt);
    }
    let intended = intended_of(head);
    let delay = second >> 48 | (third & 0xFFFF_FFFF) << 16;
    let sent = Time(intended.0.saturating_add(delay));
    if intended.0 == 0 || sent > now {
        return Err(Unreadable::Foreign);
    }
    Ok(Header {
        run: Some(first as u32),
        producer: (first >> 32) as u32,
        sequence: second & (COPY - 1),
        is_copy: second & COPY != 0,
        intended,
        sent: Some(sent),
    })
}

#[inline]
fn intended_of(head: &[u8; FULL_LEN]) -> Time {
    Time(word(head, 16) >> 32 | word(head, 24) << 32)
}

/// Whether a body of this length has a check.
#[inline]
pub const fn has_check(len: usize) -> bool {
    len >= CHECKED_LEN
}

/// Whether a body that cannot be right was one of this run's messages all the same: whether part of
/// its header is. It begins with the run's id; or the high part of its intended time (4.3 s and up)
/// lies in the run, from `start` to `now`; or, in a compact form, `known` says of its producer and its sequence number
/// how many of the two are this run's: both, or, where there is no check and so no damage that is certain, one of them
/// and the time. Zeros alone are nobody's.
///
/// Damage to one place of a checked header, up to 5 bytes (21 in full form), leaves one of these parts whole.
pub fn is_ours(body: &[u8], run: u32, start: Time, now: Time, known: impl FnOnce(&Header) -> usize) -> bool {
    let head = body.get(..FULL_LEN).unwrap_or(body);
    if head.iter().all(|byte| *byte == 0) {
        return false;
    }
    if head.starts_with(&run.to_le_bytes()) {
        return true;
    }
    let (first, last) = (start.0 >> 32, now.0 >> 32);
    if let Some(head) = body.first_chunk::<FULL_LEN>() {
        return (first..=last).contains(&(intended_of(head).0 >> 32));
    }
    let Some(head) = body.first_chunk::<COMPACT_LEN>() else { return false };
    let since = u16::from_le_bytes([head[10], head[11]]).wrapping_sub(first as u16);
    let within = u64::from(since) <= last.saturating_sub(first);
    match known(&compact(head, run)) {
        _ if within && has_check(body.len()) => true,
        0 => false,
        1 => within,
        _ => true,
    }
}

/// Whether a queue was filled with this body before the run began, by its header. A compact one is recognised by its
/// sequence number, which is below the number of messages per queue.
pub fn is_prefilled(head: &[u8], messages: u64) -> bool {
    if head.len() >= FULL_LEN {
        return head.starts_with(&PREFILL_RUN.to_le_bytes());
    }
    head.first_chunk::<COMPACT_LEN>().is_some_and(|head| compact(head, PREFILL_RUN).sequence < messages)
}

/// Whether what follows the header is what was sent.
#[inline]
pub fn is_whole(body: &[u8]) -> bool {
    let head = match body.len() {
        FULL_LEN.. => FULL_LEN,
        CHECKED_LEN.. => CHECKED_LEN,
        _ => COMPACT_LEN,
    };
    // Without an early end, so that it is done 32 bytes and more at a time.
    body.get(head..).is_none_or(|rest| rest.iter().fold(0, |all, byte| all | (byte ^ FILLER)) == 0)
}

/// Bytes `at` to `at + 8`; zero beyond the end.
#[inline]
fn word(head: &[u8; FULL_LEN], at: usize) -> u64 {
    head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[inline]
fn words(head: &[u8; FULL_LEN]) -> [u64; 4] {
    [0, 8, 16, 24].map(|at| word(head, at))
}

/// Of all but the upper half of the last word, where it stands itself.
#[inline]
const fn check_full(words: [u64; 4], len: usize) -> u32 {
    let half = fold(words[0] ^ KEYS[0], words[1] ^ KEYS[1]);
    let whole = fold(half ^ words[2], KEYS[2] ^ words[3] & 0xFFFF_FFFF ^ (len as u64).rotate_left(32));
    (whole ^ whole >> 32) as u32
}

#[inline]
fn check_compact(head: &[u8; COMPACT_LEN], len: usize) -> u32 {
    let mut wide = [0; FULL_LEN];
    if let Some(front) = wide.first_chunk_mut::<COMPACT_LEN>() {
        *front = *head;
    }
    check_full(words(&wide), len)
}

/// Odd numbers with as many ones as zeros, from the digits of pi.
const KEYS: [u64; 3] = [0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7345, 0xA409_3822_299F_31D1];

/// Masks of a run's compact headers: for the producer and the sequence number.
#[inline]
const fn masks(run: u32) -> (u16, u32) {
    let mixed = fold(run as u64 ^ KEYS[1], KEYS[2]);
    ((mixed >> 32) as u16, mixed as u32)
}

/// Both halves of the product: every bit of the input reaches most of the result.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_header_reads_back_and_leaves_the_rest_alone() {
        let mut body = [0xAA; 40];
        for (mark, is_copy) in [(0, false), (COPY, true)] {
            write(&mut body, 7, u32::MAX, (COPY - 2) | mark, Time(5), Time(9));
            let header = read(&body, 7, Time(9)).unwrap();
            assert_eq!((header.run, header.producer, header.sequence), (Some(7), u32::MAX, COPY - 2));
            assert_eq!((header.intended, header.sent, header.is_copy), (Time(5), Some(Time(9)), is_copy));
        }
        assert_eq!(body[32..], [0xAA; 8]);
    }

    #[test]
    fn every_size_below_32_has_the_compact_header() {
        for size in COMPACT_LEN..FULL_LEN {
            let mut body = vec![0; size];
            write(&mut body, 7, 65_537, (1 << 32) + 3, Time(1_000), Time(2_000));
            let header = read(&body, 7, Time(1_500)).unwrap();
            assert_eq!((header.producer, header.sequence), (1, 3), "both wrap");
            assert_eq!((header.intended, header.sent, header.run), (Time(1_000), None, None));
            // Another run's reader finds the time, and messages of nobody.
            let other = read(&body, 8, Time(1_500)).unwrap();
            assert_eq!(other.intended, Time(1_000));
            assert!(other.producer != 1 && other.sequence > 1 << 20, "{other:?}");
        }
    }

    #[test]
    fn the_compact_clock_survives_its_wrap() {
        for sent in [COMPACT_CLOCK - 1, COMPACT_CLOCK, 5 * COMPACT_CLOCK - 3, (1 << 60) + 17] {
            for age in [0, 1, 50_000_000, COMPACT_CLOCK - 1] {
                let mut body = [0; COMPACT_LEN];
                write(&mut body, 0, 0, 0, Time(sent), Time(sent));
                assert_eq!(read(&body, 0, Time(sent + age)).unwrap().intended, Time(sent));
            }
        }
    }

    #[test]
    fn what_no_producer_of_this_machine_wrote_has_no_header() {
        let now = Time(1 << 40);
        assert_eq!(read(&[0; COMPACT_LEN - 1], 0, now), Err(Unreadable::Foreign), "too short");
        assert_eq!(read(&[0; 64], 0, now), Err(Unreadable::Corrupt), "zeros");
        assert_eq!(read(&[b'x'; 64], 0, now), Err(Unreadable::Corrupt), "text");
        let mut body = [0; 32];
        write(&mut body, 0, 0, 0, Time(10), Time(30));
        assert_eq!(read(&body, 0, Time(20)), Err(Unreadable::Foreign), "from the future");
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        for size in [16, 17, 31, 32, 33, 100] {
            let mut body = vec![FILLER; size];
            write(&mut body, 3, 5, 70_000, Time(1_000), Time(2_000));
            let now = Time(5_000);
            assert!(read(&body, 3, now).is_ok() && is_whole(&body));
            for bit in 0..size * 8 {
                body[bit / 8] ^= 1 << (bit % 8);
                let seen = read(&body, 3, now) == Err(Unreadable::Corrupt) || !is_whole(&body);
                assert!(seen, "bit {bit} of {size} bytes");
                body[bit / 8] ^= 1 << (bit % 8);
            }
            let cut = &body[..size - 1];
            let seen = read(cut, 3, now).is_err();
            assert!(seen || size - 1 < CHECKED_LEN, "{size} bytes cut by one");
        }
    }

    #[test]
    fn a_label_tells_of_a_body_of_any_length() {
        for len in [0, 1, 12, 5_000] {
            let mut trace_header = [0; FULL_LEN];
            write_front(&mut trace_header, len, 7, 3, 9, Time(5), Time(6));
            let header = read_trace_header(&trace_header, len, Time(8)).unwrap();
            assert_eq!((header.run, header.sequence), (Some(7), 9));
            let cut = read_trace_header(&trace_header, len + 1, Time(8));
            assert_eq!(cut, Err(Unreadable::Corrupt), "a byte is missing");
            let short = read_trace_header(&trace_header[1..], len, Time(8));
            assert_eq!(short, Err(Unreadable::Foreign));
        }
    }

    #[test]
    fn a_delay_beyond_its_room_is_cut_and_not_mixed_up() {
        let mut body = [0; 32];
        write(&mut body, 1, 2, 3, Time(7), Time(7 + (1 << 50)));
        let header = read(&body, 1, Time(1 << 51)).unwrap();
        assert_eq!(header.intended, Time(7));
        assert_eq!(header.sent, Some(Time(7 + MOST_48)));
    }
}
