//! One histogram of a log, from any writer: its header is checked before it is believed.
//!
//! ```text
//! deflated   cookie V0 0x1c849309, V1 0x1c849302, V2 0x1c849304, each | 0x10 (u32) | length (u32) | zlib: plain
//! V2         cookie 0x1c849313 (u32) | payload length (u32) | offset (u32) | digits (u32)
//!            | lowest (u64) | highest (u64) | ratio (f64) | counts as zig-zag LEB128, runs of zeros as one
//!            negative number
//! V1         cookie 0x1c849301 | bytes of a count * 16 | the same fields | counts of 2, 4 or 8 bytes
//! V0         cookie 0x1c849308 | bytes of a count * 16 | digits (u32) | lowest (u64) | highest (u64) | total (u64)
//!            | counts
//! ```
//! (`EncodableHistogram` and `AbstractHistogram` of the Java HdrHistogram; all numbers are big-endian.)

use std::io::Read as _;

use flate2::bufread::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// Bits of a cookie beside the encoding: bytes of a count, or a bit that V2 always has.
const BESIDE: u32 = 0xf0;
const DEFLATED: [u32; 3] = [0x1c84_9309, 0x1c84_9302, 0x1c84_9304];
const V0: u32 = 0x1c84_9308;
const V1: u32 = 0x1c84_9301;
const V2: u32 = 0x1c84_9303;
const PLAIN: u32 = 0x1c84_9313;
/// Histograms of floating-point numbers (`DoubleHistogram`), plain and deflated.
const OF_DOUBLES: [u32; 2] = [0x0c72_124e, 0x0c72_124f];
const HEADER: usize = 40;
const HEADER_V0: usize = 32;
/// Place in V2's header of the index offset, and of the ratio of floating-point values to integers.
const OFFSET: std::ops::Range<usize> = 8..12;
const RATIO: std::ops::Range<usize> = 32..40;
/// The product's own shape has 33,792 counters, Java's widest with three digits 55,296.
const MOST_COUNTERS: u64 = 1 << 17;
/// A counter takes at most nine bytes.
const LONGEST: u64 = HEADER as u64 + 9 * MOST_COUNTERS;

/// Values that no interval has.
const MOST_VALUES: u64 = 1 << 53;

const UNBELIEVED: &str = "histogram: its header is inconsistent with its data, or implausible";

/// Decodes a histogram. The error names the fault.
pub(crate) fn decode(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    if !word(bytes, 0).is_some_and(|cookie| DEFLATED.contains(&(cookie & !BESIDE))) {
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
    let cookie = word(bytes, 0).ok_or("histogram: it is too short for one")?;
    let decoded = match cookie & !BESIDE {
        V0 | V1 => decode_old(bytes, cookie)?,
        V2 => {
            check(bytes).ok_or(UNBELIEVED)?;
            let bytes = for_integers(bytes);
            let decoded = Deserializer::new().deserialize(&mut &*bytes);
            decoded.map_err(|e| format!("histogram: {e}"))?
        }
        _ if OF_DOUBLES.contains(&cookie) => {
            return Err("histogram: it is one of floating-point numbers (DoubleHistogram)".into());
        }
        _ => return Err(format!("histogram: {cookie:#010x} begins no encoding")),
    };
    // Sums of such counts are exact in a `f64`, too.
    match decoded.len() {
        ..MOST_VALUES => Ok(decoded),
        more => Err(format!("histogram: {more} values in one interval are implausible")),
    }
}

/// A V2 record as one of integers: HdrHistogramJS writes an integer 1 as ratio, and an offset of indices without one.
fn for_integers(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if long(&bytes, RATIO.start) == Some(1)
        && let Some(offset) = bytes.get_mut(OFFSET)
    {
        offset.fill(0);
    }
    if let Some(ratio) = bytes.get_mut(RATIO) {
        ratio.copy_from_slice(&1.0f64.to_be_bytes());
    }
    bytes
}

/// Decodes V0 and V1, whose counts have fixed sizes.
fn decode_old(bytes: &[u8], cookie: u32) -> Result<Histogram<u64>, String> {
    let (at, header) = match cookie & !BESIDE {
        V0 => (4, HEADER_V0),
        _ => (12, HEADER),
    };
    let bounds = || {
        let digits = u8::try_from(word(bytes, at)?).ok()?;
        let (lowest, highest) = (long(bytes, at + 4)?, long(bytes, at + 12)?);
        let is_shifted = header == HEADER && word(bytes, 8)? != 0;
        let counters = counters(digits.into(), lowest, highest)?;
        (counters <= MOST_COUNTERS && !is_shifted).then_some((digits, lowest, highest))
    };
    let (digits, lowest, highest) = bounds().ok_or(UNBELIEVED)?;
    let mut payload = bytes.get(header..).ok_or(UNBELIEVED)?;
    if header == HEADER {
        let promised = word(bytes, 4).map_or(0, |it| it as usize);
        payload = payload.get(..promised).ok_or(UNBELIEVED)?;
    }
    let size = (((cookie & BESIDE) >> 4) & 0xe) as usize;
    if !matches!(size, 2 | 4 | 8) {
        return Err(format!("histogram: a count of {size} bytes is invalid"));
    }
    let mut decoded =
        Histogram::<u64>::new_with_bounds(lowest, highest, digits).map_err(|e| format!("histogram: {e}"))?;
    for (index, count) in payload.chunks_exact(size).enumerate() {
        let count = count.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
        if count == 0 {
            continue;
        }
        if count > MOST_VALUES {
            return Err(format!("histogram: a count of {count} is invalid"));
        }
        let value = value_at(index as u64, digits.into(), lowest);
        let recorded = value.is_some_and(|value| decoded.record_n(value, count).is_ok());
        if !recorded {
            return Err("histogram: it has more counts than its bounds have room for".into());
        }
    }
    Ok(decoded)
}

/// The lowest value that a counter stands for, as `HdrHistogram` computes it.
fn value_at(index: u64, digits: u32, lowest: u64) -> Option<u64> {
    let half = in_bucket(digits) / 2;
    let (bucket, within) = match index / half {
        0 => (0, index),
        bucket => (bucket - 1, index % half + half),
    };
    let shift = u32::try_from(bucket).ok()? + lowest.ilog2();
    (shift < within.leading_zeros()).then(|| within << shift)
}

/// Counters of the first bucket.
const fn in_bucket(digits: u32) -> u64 {
    (2 * 10u64.pow(digits)).next_power_of_two()
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
pub(crate) fn counters(digits: u32, lowest: u64, highest: u64) -> Option<u64> {
    if digits > 5 || lowest == 0 || highest < lowest.checked_mul(2)? {
        return None;
    }
    let in_bucket = in_bucket(digits);
    let mut beyond = in_bucket.checked_mul(1 << lowest.ilog2())?;
    let mut buckets = 1;
    while beyond <= highest {
        buckets += 1;
        let Some(next) = beyond.checked_mul(2) else { break };
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

    /// Java's reader of both is asked in `bellows/tests/logs.rs`.
    #[test]
    fn counts_of_old_encodings_stand_where_the_library_puts_them() {
        for (digits, lowest) in [(1u8, 1u64), (2, 1), (3, 1), (3, 1_000)] {
            let mut made = Histogram::<u64>::new_with_bounds(lowest, 3_600_000_000_000, digits).unwrap();
            let mut value = lowest;
            while value < 3_000_000_000_000 {
                made.record_n(value, 1 + value % 7).unwrap();
                value += value / 3 + 1;
            }
            let counts: Vec<u64> = made.iter_all().map(|it| it.count_at_value()).collect();
            for (size, v0) in [(2, false), (4, false), (8, false), (2, true), (8, true)] {
                let mut bytes = Vec::new();
                let cookie = (if v0 { V0 } else { V1 }) | (size << 4);
                bytes.extend(cookie.to_be_bytes());
                if !v0 {
                    bytes.extend((counts.len() as u32 * size).to_be_bytes());
                    bytes.extend(0u32.to_be_bytes());
                }
                bytes.extend(u32::from(digits).to_be_bytes());
                bytes.extend(made.low().to_be_bytes());
                bytes.extend(made.high().to_be_bytes());
                // The ratio of V1, the total of V0.
                bytes.extend(1f64.to_be_bytes());
                for count in &counts {
                    bytes.extend(&count.to_be_bytes()[8 - size as usize..]);
                }
                assert_eq!(decode(&bytes).as_ref(), Ok(&made), "{digits} {size} {v0}");
                bytes.truncate(bytes.len() - 1);
                assert!(v0 || decode(&bytes).is_err(), "a payload that is cut off");
                bytes.truncate(20);
                assert!(decode(&bytes).is_err());
            }
        }
        testkit::assert_has(decode(&0x0c72_124e_u32.to_be_bytes()).unwrap_err(), ["floating-point"]);
    }

    #[test]
    fn counters_are_counted_as_the_library_does() {
        for (digits, lowest, highest) in
            [(3, 1, 3_600_000_000_000), (3, 1, u64::MAX / 2), (1, 1, 2), (2, 1_000, 1_000_000), (5, 1, 10_000_000)]
        {
            let made = Histogram::<u64>::new_with_bounds(lowest, highest, digits).unwrap();
            let counted = counters(digits.into(), lowest, highest).unwrap();
            assert_eq!(counted, made.distinct_values() as u64, "{digits} {lowest} {highest}");
        }
        assert!(counters(3, 1, 3_600_000_000_000).unwrap() < MOST_COUNTERS);
        assert!(counters(5, 1, u64::MAX / 2).unwrap() > MOST_COUNTERS);
    }
}
