//! Sums of periods, printed as Perl prints them.

use std::fmt;
use std::ops::AddAssign;

/// A sum of periods: exact as far as 64 bits go, then as floating point, as Perl adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Total {
    Exact(u64),
    Rounded(f64),
}

impl Total {
    /// A period in digits.
    pub(super) fn of(digits: &[u8]) -> Self {
        let text = std::str::from_utf8(digits).unwrap_or_default();
        let exact = text.parse().map(Self::Exact);
        exact.unwrap_or_else(|_| Self::Rounded(text.parse().unwrap_or(0.0)))
    }

    fn rounded(self) -> f64 {
        match self {
            Self::Exact(value) => value as f64,
            Self::Rounded(value) => value,
        }
    }

    /// The sum as a whole number, the largest one where it is larger.
    pub(super) fn saturated(self) -> u64 {
        match self {
            Self::Exact(value) => value,
            Self::Rounded(value) => value as u64,
        }
    }
}

impl AddAssign for Total {
    fn add_assign(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::Exact(a), Self::Exact(b)) if a.checked_add(b).is_some() => Self::Exact(a + b),
            (a, b) => Self::Rounded(a.rounded() + b.rounded()),
        };
    }
}

/// Fifteen digits, without zeros at their end: C's `%.15g` for what is too large for 64 bits.
impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exact(value) => value.fmt(f),
            Self::Rounded(value) if value.is_infinite() => f.write_str("Inf"),
            Self::Rounded(value) => {
                let text = format!("{value:.14e}");
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let digits = digits.trim_end_matches('0').trim_end_matches('.');
                write!(f, "{digits}e+{exponent:0>2}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_beyond_64_bits_are_rounded_and_not_wrapped() {
        let mut total = Total::of(b"18446744073709551615");
        assert_eq!(total.to_string(), "18446744073709551615");
        total += Total::Exact(1);
        assert_eq!(total.to_string(), "1.84467440737096e+19");
        assert_eq!(
            Total::of(b"20000000000000000000").to_string(),
            "2e+19",
            "zeros at the end are left out"
        );
        assert_eq!(total.saturated(), u64::MAX);
        assert_eq!(Total::of("9".repeat(400).as_bytes()).to_string(), "Inf");
        assert_eq!(Total::of(b"007").to_string(), "7");
    }
}
