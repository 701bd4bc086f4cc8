//! The header at the front of every message body.
//!
//! ```text
//! 32 bytes and more (little-endian)          12 to 31 bytes
//!  0 run        u32                           0 producer  u16
//!  4 producer   u32                           2 sequence  u32, wraps
//!  8 sequence   u64                           6 t_i       48 bits, wraps every 78.2 h
//! 16 t_i        u64 ns, CLOCK_MONOTONIC
//! 24 s_i        u64 ns, CLOCK_MONOTONIC
//! ```
//!
//! The compact form has the monotonic clock's low 48 bits; a reader restores the others from its
//! own clock, which is right for messages younger than 78.2 hours. It does not carry `s_i`, so
//! that `transfer` is known only where the producer sends all-out and `t_i = s_i`.

use measure::Time;

/// The smallest body: the compact header.
pub const COMPACT_LEN: usize = 12;
/// The smallest body with the full header.
pub const FULL_LEN: usize = 32;

/// The compact form's clock wraps at this many nanoseconds.
const COMPACT_CLOCK: u64 = 1 << 48;

/// What a producer writes into a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// [`crate::Plan::run_id`]; `None` in the compact form.
    pub run: Option<u32>,
    /// Producer, counted over all groups; low 16 bits in the compact form.
    pub producer: u32,
    /// Position among the producer's messages; low 32 bits in the compact form.
    pub sequence: u64,
    /// `t_i`.
    pub intended: Time,
    /// `s_i`; `None` in the compact form.
    pub sent: Option<Time>,
}

/// Writes the header that fits the body. Bodies below [`COMPACT_LEN`] are left alone; plans with
/// such bodies are refused.
#[inline]
pub fn write(body: &mut [u8], run: u32, producer: u32, sequence: u64, intended: Time, sent: Time) {
    if let Some(head) = body.first_chunk_mut::<FULL_LEN>() {
        head[0..4].copy_from_slice(&run.to_le_bytes());
        head[4..8].copy_from_slice(&producer.to_le_bytes());
        head[8..16].copy_from_slice(&sequence.to_le_bytes());
        head[16..24].copy_from_slice(&intended.0.to_le_bytes());
        head[24..32].copy_from_slice(&sent.0.to_le_bytes());
    } else if let Some(head) = body.first_chunk_mut::<COMPACT_LEN>() {
        head[0..2].copy_from_slice(&(producer as u16).to_le_bytes());
        head[2..6].copy_from_slice(&(sequence as u32).to_le_bytes());
        head[6..12].copy_from_slice(&intended.0.to_le_bytes()[..6]);
    }
}

/// Reads the header, restoring a compact time from the reader's clock. `None` for a body that is
/// too short, or whose times cannot be a producer's on this machine (zero, out of order or in the
/// future), as in messages that something else has written.
#[inline]
#[must_use]
pub fn read(body: &[u8], now: Time) -> Option<Header> {
    if let Some(head) = body.first_chunk::<FULL_LEN>() {
        let word = |at: usize| {
            u64::from_le_bytes([
                head[at],
                head[at + 1],
                head[at + 2],
                head[at + 3],
                head[at + 4],
                head[at + 5],
                head[at + 6],
                head[at + 7],
            ])
        };
        let (first, intended, sent) = (word(0), Time(word(16)), Time(word(24)));
        let plausible = intended.0 > 0 && intended <= sent && sent <= now;
        plausible.then_some(Header {
            run: Some(first as u32),
            producer: (first >> 32) as u32,
            sequence: word(8),
            intended,
            sent: Some(sent),
        })
    } else {
        let head = body.first_chunk::<COMPACT_LEN>()?;
        let low =
            u64::from_le_bytes([head[6], head[7], head[8], head[9], head[10], head[11], 0, 0]);
        let age = now.0.wrapping_sub(low) % COMPACT_CLOCK;
        Some(Header {
            run: None,
            producer: u32::from(u16::from_le_bytes([head[0], head[1]])),
            sequence: u64::from(u32::from_le_bytes([head[2], head[3], head[4], head[5]])),
            intended: Time(now.0.checked_sub(age)?),
            sent: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_header_reads_back_and_leaves_the_rest_alone() {
        let mut body = [0xAA; 40];
        write(&mut body, 7, u32::MAX, u64::MAX - 1, Time(5), Time(9));
        let header = read(&body, Time(9)).unwrap();
        assert_eq!(
            header,
            Header {
                run: Some(7),
                producer: u32::MAX,
                sequence: u64::MAX - 1,
                intended: Time(5),
                sent: Some(Time(9)),
            }
        );
        assert_eq!(body[32..], [0xAA; 8]);
    }

    #[test]
    fn every_size_below_32_has_the_compact_header() {
        for size in COMPACT_LEN..FULL_LEN {
            let mut body = vec![0; size];
            write(
                &mut body,
                7,
                65_537,
                (1 << 32) + 3,
                Time(1_000),
                Time(2_000),
            );
            let header = read(&body, Time(1_500)).unwrap();
            assert_eq!((header.producer, header.sequence), (1, 3), "both wrap");
            assert_eq!(
                (header.intended, header.sent, header.run),
                (Time(1_000), None, None)
            );
        }
    }

    #[test]
    fn the_compact_clock_survives_its_wrap() {
        for sent in [
            COMPACT_CLOCK - 1,
            COMPACT_CLOCK,
            5 * COMPACT_CLOCK - 3,
            (1 << 60) + 17,
        ] {
            for age in [0, 1, 50_000_000, COMPACT_CLOCK - 1] {
                let mut body = [0; COMPACT_LEN];
                write(&mut body, 0, 0, 0, Time(sent), Time(sent));
                assert_eq!(read(&body, Time(sent + age)).unwrap().intended, Time(sent));
            }
        }
    }

    #[test]
    fn what_no_producer_of_this_machine_wrote_has_no_header() {
        assert_eq!(read(&[0; COMPACT_LEN - 1], Time(1)), None);
        assert_eq!(read(&[0; 64], Time(1 << 40)), None, "zeros");
        assert_eq!(
            read(&[b'x'; 64], Time(1 << 40)),
            None,
            "text: a time far in the future"
        );
        let mut body = [0; 32];
        write(&mut body, 0, 0, 0, Time(10), Time(9));
        assert_eq!(read(&body, Time(20)), None, "sent before it was intended");
    }
}
