//! Values: nearly all of a page's are short integers and decimals.

/// Powers of ten that a double holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];
/// The largest integer up to which a double holds all of them.
const EXACT_INTEGERS: u64 = 1 << 53;
/// Digits that always fit into 64 bits.
const MAX_DIGITS: usize = 19;

/// Whether a number ends at this byte.
pub(super) fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b' ' | b'\t' | b'\r')
}

/// The number at the beginning of `text` and its length; `None` where there is none that ends at a blank or at the
/// end of the line.
#[inline]
pub(super) fn read(text: &str) -> Option<(f64, usize)> {
    match short(text.as_bytes()) {
        Some(found) => Some(found),
        None => any(text),
    }
}

/// An integer or a decimal of a few digits, exactly as the slow way reads it: both integers that are divided are exact
/// as doubles, so that only the quotient is rounded.
#[inline]
fn short(text: &[u8]) -> Option<(f64, usize)> {
    let negative = *text.first()? == b'-';
    let first = usize::from(negative);
    let (whole, mut at) = digits(text, first, 0)?;
    let mut digit_count = at - first;
    let mut value = whole as f64;
    let mut byte = *text.get(at)?;
    if byte == b'.' {
        let (all, end) = digits(text, at + 1, whole)?;
        let fraction = end - at - 1;
        digit_count += fraction;
        if all > EXACT_INTEGERS || fraction == 0 {
            return None;
        }
        value = all as f64 / EXACT_POWERS.get(fraction)?;
        at = end;
        byte = *text.get(at)?;
    }
    (at > first && digit_count <= MAX_DIGITS && is_end(byte))
        .then_some((if negative { -value } else { value }, at))
}

/// The digits from `at` on behind the ones that make `value`, and where they end.
#[inline]
fn digits(text: &[u8], mut at: usize, mut value: u64) -> Option<(u64, usize)> {
    loop {
        let digit = text.get(at)?.wrapping_sub(b'0');
        if digit > 9 {
            return Some((value, at));
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
}

/// Any number: exponents, infinities, `NaN`, many digits.
#[cold]
fn any(text: &str) -> Option<(f64, usize)> {
    let length = text.bytes().position(is_end).unwrap_or(text.len());
    let value = text.get(..length)?.parse().ok()?;
    Some((value, length))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_are_read_as_the_standard_library_reads_them() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..200_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let whole = state >> (state % 60);
            let text = match state % 4 {
                0 => format!("{whole}"),
                1 => format!("-{}.{}", whole % 1_000_000, state % 100_000),
                2 => format!("{}.{:09}", whole % 1_000, state % 1_000_000_000),
                _ => format!("{whole}.{}", state % 10),
            };
            let (value, length) = read(&format!("{text}\n")).unwrap();
            let expected: f64 = text.parse().unwrap();
            assert_eq!(value.to_bits(), expected.to_bits(), "{text}");
            assert_eq!(length, text.len());
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "\n", "-\n", ".\n", "1.2.3\n", "1x\n", "0x10\n", "1_000\n", "--1\n", " \n", "é\n",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(read("1e3 7\n"), Some((1000.0, 3)));
        assert_eq!(read("+Inf\n"), Some((f64::INFINITY, 4)));
        assert_eq!(read("-Inf\r\n"), Some((f64::NEG_INFINITY, 4)));
        assert!(read("NaN\n").unwrap().0.is_nan());
        assert_eq!(read("-0\n").unwrap().0.to_bits(), (-0.0_f64).to_bits());
        assert_eq!(read("5.\n"), Some((5.0, 2)));
        assert_eq!(
            read("18446744073709551616\n"),
            Some((18_446_744_073_709_551_616.0, 20))
        );
    }
}
