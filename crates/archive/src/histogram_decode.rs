//! One histogram of a log, as anybody may have written it: what its header says is checked before it is believed.
//!
//! ```text
//! deflated   cookie 0x1c849314 (u32) | length (u32) | zlib: plain
//! plain      cookie 0x1c849313 (u32) | payload length (u32) | offset (u32) | digits (u32)
//!            | lowest (u64) | highest (u64) | ratio (f64) | payload
//! ```
//! (`EncodableHistogram` of the Java HdrHistogram, encoding V2; all numbers are big-endian.)

use std::io::Read as _;

use flate2::bufread::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

const DEFLATED: u32 = 0x1c84_9314;
const PLAIN: u32 = 0x1c84_9313;
const HEADER: usize = 40;
/// The product's own shape has 33,792 counters, Java's widest with three digits 55,296.
const MOST_COUNTERS: u64 = 1 << 17;
/// A counter takes at most nine bytes.
const LONGEST: u64 = HEADER as u64 + 9 * MOST_COUNTERS;

/// No interval has as many values.
const MOST_VALUES: u64 = 1 << 53;

/// Decodes a histogram. The error says what is wrong with it.
pub(crate) fn decode(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    if word(bytes, 0) != Some(DEFLATED) {
        return decode_plain(bytes);
    }
    let mut plain = Vec::new();
    ZlibDecoder::new(bytes.get(8..).unwrap_or_default())
        .take(LONGEST + 1)
        .read_to_end(&mut plain)
        .map_err(|e| format!("histogram: {e}"))?;
    decode_plain(&plain)
}

fn decode_plain(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    check(bytes)
        .ok_or("histogram: its header promises what is not there, or more than is believed")?;
    let decoded: Histogram<u64> = Deserializer::new()
        .deserialize(&mut &*bytes)
        .map_err(|e| format!("histogram: {e}"))?;
    // Sums of such counts are exact in a `f64`, too.
    match decoded.len() {
        ..MOST_VALUES => Ok(decoded),
        more => Err(format!(
            "histogram: {more} values in one interval cannot be"
        )),
    }
}

/// Whether lengths and bounds are those of a histogram that such a log can hold.
fn check(bytes: &[u8]) -> Option<()> {
    if word(bytes, 0)? != PLAIN || bytes.len() as u64 > LONGEST {
        return None;
    }
    let payload = bytes.get(HEADER..)?;
    let promised = usize::try_from(word(bytes, 4)?).ok()?;
    let counters = counters(word(bytes, 12)?, long(bytes, 16)?, long(bytes, 24)?)?;
    // The smallest number of all cannot be negated, and stands for a run of zeros that long.
    let endless = payload.windows(9).any(|number| number == [0xff; 9]);
    (promised <= payload.len() && counters <= MOST_COUNTERS && !endless).then_some(())
}

/// How many counters a histogram of these bounds has, as `HdrHistogram` computes it.
fn counters(digits: u32, lowest: u64, highest: u64) -> Option<u64> {
    if digits > 5 || lowest == 0 || highest < lowest.checked_mul(2)? {
        return None;
    }
    let in_bucket = (2 * 10u64.pow(digits)).next_power_of_two();
    let mut beyond = in_bucket.checked_mul(1 << lowest.ilog2())?;
    let mut buckets = 1;
    while beyond <= highest {
        buckets += 1;
        let Some(next) = beyond.checked_mul(2) else {
            break;
        };
        beyond = next;
    }
    Some((buckets + 1) * in_bucket / 2)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(word))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let long = bytes.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_be_bytes(long))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_counted_as_the_library_does() {
        for (digits, lowest, highest) in [
            (3, 1, 3_600_000_000_000),
            (3, 1, u64::MAX / 2),
            (1, 1, 2),
            (2, 1_000, 1_000_000),
            (5, 1, 10_000_000),
        ] {
            let made = Histogram::<u64>::new_with_bounds(lowest, highest, digits).unwrap();
            let counted = counters(digits.into(), lowest, highest).unwrap();
            assert_eq!(
                counted,
                made.distinct_values() as u64,
                "{digits} {lowest} {highest}"
            );
        }
        assert!(counters(3, 1, 3_600_000_000_000).unwrap() < MOST_COUNTERS);
        assert!(counters(5, 1, u64::MAX / 2).unwrap() > MOST_COUNTERS);
    }
}
