//! Numbers as people write them, without the binary fraction's error.

/// The shortest decimal number that reads back as `value`: digits and power of ten.
pub(super) fn decimal(value: f64) -> (u128, i32) {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let fraction_digits = mantissa
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len() as i32);
    let digits = mantissa
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(0u128, |digits, byte| digits * 10 + u128::from(byte - b'0'));
    (
        digits,
        exponent.parse::<i32>().unwrap_or(0) - fraction_digits,
    )
}

/// `value` in billionths, where it is a decimal number of at most nine places from 0 to `most`.
pub(super) fn billionths(value: f64, most: u64) -> Option<u64> {
    if !value.is_finite() || value < 0.0 {
        return None;
    }
    let (digits, exponent) = decimal(value);
    let power = u32::try_from(exponent + 9).ok()?;
    let all = digits.checked_mul(10u128.checked_pow(power)?)?;
    u64::try_from(all)
        .ok()
        .filter(|all| u128::from(*all) <= u128::from(most) * 1_000_000_000)
}

/// Seconds, written as digits with at most one point, in nanoseconds rounded down.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let nanos = fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(9)
        .fold(0u64, |nanos, byte| nanos * 10 + u64::from(byte - b'0'));
    whole.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_what_was_typed() {
        assert_eq!(decimal(0.1), (1, -1));
        assert_eq!(decimal(20_000.0), (2, 4));
        assert_eq!(decimal(33.25), (3_325, -2));
        assert_eq!(decimal(1e-6), (1, -6));
    }

    #[test]
    fn billionths_take_nine_places_and_no_more() {
        assert_eq!(billionths(0.0, 1), Some(0));
        assert_eq!(billionths(33.25, 100), Some(33_250_000_000));
        assert_eq!(billionths(1e-9, 1), Some(1));
        assert_eq!(
            billionths(1e9, 1_000_000_000),
            Some(1_000_000_000_000_000_000)
        );
        for bad in [1.5e-9, 1e-10, -1.0, f64::NAN, f64::INFINITY, 1e300, 100.5] {
            assert_eq!(billionths(bad, 100), None, "{bad}");
        }
    }

    #[test]
    fn seconds_are_read_digit_by_digit() {
        for (text, nanos) in [
            ("0", 0),
            ("12", 12_000_000_000),
            ("0.1", 100_000_000),
            (".5", 500_000_000),
            ("7.", 7_000_000_000),
            ("1.0000000019", 1_000_000_001),
        ] {
            assert_eq!(seconds(text), Some(nanos), "{text}");
        }
        for bad in ["", ".", "-1", "1e3", "1.2.3", "abc", "99999999999999999999"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
