//! Rates, sizes and durations as people write them, on a command line and in a file: `2k`, `10/min`, `4KiB`, `1h30m`.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use jiff::fmt::friendly::{Designator, Spacing, SpanParser, SpanPrinter};
use serde::de::Visitor;
use serde::{Deserializer, Serialize};

use crate::{Nanos, Refused};

/// Messages per second; always finite and positive.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Rate(f64);

impl Rate {
    /// A rate, or `None` where the value is not finite or not above zero.
    pub fn per_second(value: f64) -> Option<Self> {
        (value.is_finite() && value > 0.0).then_some(Self(value))
    }

    /// Messages per second.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// The text is not repeated in the error: what was typed in the wrong place may be a secret.
impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = per_second(text).and_then(Self::per_second);
        rate.ok_or_else(|| "a rate is a number per second above 0, such as 20000, 0.5, 2k, 1M or 10/min".to_owned())
    }
}

/// The number per second, which reads back as the same rate.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hundreds of digits say less than an exponent.
        if self.0 >= 1e15 {
            return write!(f, "{:e}", self.0);
        }
        self.0.fmt(f)
    }
}

crate::read_from_text!(Rate, "a rate such as 20000, \"2k\" or \"10/min\"");

/// Reads a number per second from 0 on: `20000`, `0.5`, `2k`, `1M`, `10/min`, `90k/h`.
pub fn per_second(text: &str) -> Option<f64> {
    let (count, period) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match period.trim() {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    let (number, unit) = number_and_unit(count)?;
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        _ => return None,
    };
    let rate = number.parse::<f64>().ok()? * factor / seconds;
    (rate.is_finite() && rate >= 0.0).then_some(rate)
}

/// Reads a whole number of things: `10000`, `10k`, `1.5M`.
pub fn whole_number(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        _ => return None,
    };
    times(number, factor)
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The number for this machine's memory; what is beyond it becomes its largest.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Reads whole bytes with an optional unit of 1,000 (`2kB`) or 1,024 (`4KiB`). Errors do not repeat the text.
impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = number_and_unit(text).and_then(|(number, unit)| {
            let factor: u64 = match unit.to_ascii_lowercase().as_str() {
                "" | "b" => 1,
                "k" | "kb" => 1_000,
                "m" | "mb" => 1_000_000,
                "g" | "gb" => 1_000_000_000,
                "kib" => 1 << 10,
                "mib" => 1 << 20,
                "gib" => 1 << 30,
                _ => return None,
            };
            times(number, factor)
        });
        bytes.map(Self).ok_or_else(|| "a size is a whole number of bytes, such as 1024, 4KiB or 1MB".to_owned())
    }
}

/// A decimal number times a factor, where that is a whole number: `4.1` times a million is.
fn times(number: &str, factor: u64) -> Option<u64> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    if mantissa == "." || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits: u128 = format!("0{digits}").parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    let shift = exponent.parse::<i32>().ok()?.checked_sub(places)?;
    let (scaled, power) = (digits.checked_mul(factor.into())?, 10u128.checked_pow(shift.unsigned_abs())?);
    let value = match shift {
        0.. => scaled.checked_mul(power)?,
        _ => (scaled % power == 0).then_some(scaled / power)?,
    };
    u64::try_from(value).ok()
}

/// The number of bytes, which reads back as the same size.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

crate::read_from_text!(Bytes, "a size such as 1024, \"4KiB\" or \"1MB\"");

/// Splits `2.5kB` into the number's text and the unit; a number as `2e4` has no unit.
fn number_and_unit(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let is_unit = |c: char| c.is_ascii_alphabetic();
    let unit = text.trim_end_matches(is_unit).len();
    let (number, unit) = text.split_at_checked(unit)?;
    let number = number.trim_end();
    // Neither `inf` nor a sign is a quantity.
    number.starts_with(|c: char| c.is_ascii_digit() || c == '.').then_some((number, unit))
}

/// SplitMix64's increment, the golden ratio.
pub const SCATTER_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads neighbouring numbers evenly: SplitMix64 (Steele, Lea, Flood: "Fast splittable …", 2014) of this state.
#[inline]
pub const fn scatter(state: u64) -> u64 {
    let x = state.wrapping_add(SCATTER_STEP);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Reads a value that a file holds as a number or as text; `expected` names it in the error about anything else.
pub fn from_number_or_text<'de, T, D>(deserializer: D, expected: &'static str) -> Result<T, D::Error>
where
    T: FromStr<Err: Into<Refused>>,
    D: Deserializer<'de>,
{
    struct NumberOrText(&'static str);
    impl Visitor<'_> for NumberOrText {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_i64<E>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }
        fn visit_u64<E>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }
        fn visit_f64<E>(self, number: f64) -> Result<String, E> {
            Ok(number.to_string())
        }
        fn visit_str<E>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }
    }
    let text = deserializer.deserialize_any(NumberOrText(expected))?;
    text.parse().map_err(|refused: T::Err| refused.into().into_error())
}

/// A duration: `"60s"`, `"500ms"`, `"2m"`, `"1h30m"`; a bare number is seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Length(pub Nanos);

const PARSER: SpanParser = SpanParser::new();
const PRINTER: SpanPrinter = SpanPrinter::new().designator(Designator::HumanTime).spacing(Spacing::None);

/// 30 years.
const LONGEST_NS: u64 = 1_000_000_000_000_000_000;

impl Length {
    /// Whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Nanos(seconds.saturating_mul(1_000_000_000)))
    }

    /// Whether it is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0.0 == 0
    }
}

/// A bare number is seconds; the rest is jiff's friendly format.
impl FromStr for Length {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let written = text.trim();
        let length = match written.parse() {
            Ok(seconds) => SignedDuration::try_from_secs_f64(seconds).ok(),
            // The zero in front makes `.5s` a number, and keeps signs out.
            Err(_) => PARSER.parse_duration(format!("0{written}")).ok(),
        };
        let length = length.filter(|length| !length.is_negative()).ok_or_else(|| {
            let help = "write \"60s\", \"500ms\", \"2m\" or \"1h30m\"";
            Refused::new(format!("{text:?} is not a duration"), help)
        })?;
        u64::try_from(length.as_nanos())
            .ok()
            .filter(|ns| *ns <= LONGEST_NS)
            .map(|ns| Self(Nanos(ns)))
            .ok_or_else(|| Refused::new(format!("{text:?} is longer than 30 years"), "write less"))
    }
}

/// In jiff's friendly format: `1m30s`, `500ms`, `2h`.
impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = SignedDuration::from_nanos(i64::try_from(self.0.0).unwrap_or(i64::MAX));
        f.write_str(&PRINTER.duration_to_string(&length))
    }
}

crate::kept_as_text!(Length, "a duration such as \"60s\" or \"500ms\"");

/// One length, or any between two: `"1s"`, `"30s-60s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthRange {
    /// The shortest.
    pub min: Length,
    /// The longest.
    pub max: Length,
}

impl FromStr for LengthRange {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let (min, max): (Length, Length) = (min.parse()?, max.parse()?);
        if min > max {
            let what = format!("{text:?} ends before it begins");
            return Err(Refused::new(what, format!("write {max}-{min}")));
        }
        Ok(Self { min, max })
    }
}

impl fmt::Display for LengthRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { self.min.fmt(f) } else { write!(f, "{}-{}", self.min, self.max) }
    }
}

crate::kept_as_text!(LengthRange, "a duration such as \"1s\", or a range such as \"1s-5s\"");

#[cfg(test)]
mod tests {
    use testkit::Random;

    use super::*;

    #[test]
    fn rates_have_multiples_and_periods() {
        for [text, rate] in testkit::table(include_str!("../tests/data/rates.txt")) {
            let rate = rate.parse::<f64>().expect("a number");
            assert_eq!(text.parse::<Rate>().map(Rate::get), Ok(rate), "{text}");
        }
        for bad in [
            "", "0", "-1", "+1", "abc", "k", "2m", "2kk", "inf", "NaN", "1e999", "2/", "2/day", "1/s/s", "é", "0x10",
            "2 4",
        ] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        assert_eq!(per_second("0"), Some(0.0));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::per_second(bad), None);
        }
    }

    #[test]
    fn numbers_of_things_are_whole_and_have_multiples() {
        for (text, number) in
            [("0", 0), ("1000", 1_000), ("1k", 1_000), (" 2.5k ", 2_500), ("1M", 1_000_000), ("1e3", 1_000)]
        {
            assert_eq!(whole_number(text), Some(number), "{text}");
        }
        for bad in ["", "k", "-1", "0.5", "1.0001k", "1K", "1kB", "1/s", "é", "1e30M"] {
            assert_eq!(whole_number(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_have_decimal_and_binary_units_and_are_exact() {
        for tenths in 1..20_000u64 {
            let text = format!("{}.{}MB", tenths / 10, tenths % 10);
            assert_eq!(text.parse(), Ok(Bytes(tenths * 100_000)), "{text}");
        }
        for [text, bytes] in testkit::table(include_str!("../tests/data/sizes.txt")) {
            assert_eq!(text.parse(), Ok(Bytes(bytes.parse().expect("a number"))), "{text}");
        }
        let wrong = "|x|5 parsecs|-1|0.5|1.0001KiB|1.0001kB|99999999999GB|99999999999999999999GB|1e30|1e400|\
            1e-1|1e|inf|é|.|0x1|1..2";
        for bad in wrong.split('|') {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same() {
        for seed in testkit::seeds(200) {
            let mut random = Random::new(seed);
            let (high, low) = (random.below(1 << 31), random.below(1 << 31));
            let bits = (high << 33) ^ (low << 7);
            if let Some(rate) = Rate::per_second(f64::from_bits(bits)) {
                assert_eq!(rate.to_string().parse(), Ok(rate), "{rate}");
            }
            let bytes = Bytes(bits >> random.below(64));
            assert_eq!(bytes.to_string().parse(), Ok(bytes));
            let json = serde_json::to_string(&bytes).expect("JSON");
            assert_eq!(serde_json::from_str::<Bytes>(&json).ok(), Some(bytes));

            let number = random.below(1 << 20);
            let (unit, factor) =
                random.of(&[("", 1), ("kB", 1_000), ("KiB", 1 << 10), ("MB", 1_000_000), ("GiB", 1 << 30)]);
            assert_eq!(format!("{number}{unit}").parse(), Ok(Bytes(number * factor)));
            let (unit, factor) = random.of(&[("", 1.0), ("k", 1e3), ("M", 1e6)]);
            let (period, seconds) = random.of(&[("", 1.0), ("/s", 1.0), ("/min", 60.0), ("/h", 3_600.0)]);
            let rate = number as f64 * factor / seconds;
            assert_eq!(per_second(&format!("{number}{unit}{period}")), Some(rate));
        }
    }

    #[test]
    fn no_text_breaks_the_parsers() {
        for seed in testkit::seeds(500) {
            let mut random = Random::new(seed);
            let pieces = ["1", "0", ".", "k", "KiB", "/", "min", "-", "e", "é", " ", "9999999999", "inf"];
            let text: String = (0..random.below(8)).map(|_| random.of(&pieces)).collect();
            let _ = (text.parse::<Rate>(), text.parse::<Bytes>());
        }
    }

    #[test]
    fn durations_are_read_and_written() {
        for [text, written] in testkit::table(include_str!("../tests/data/lengths.txt")) {
            let length: Length = text.parse().expect(text);
            assert_eq!(length.to_string(), written, "{text}");
            assert_eq!(written.parse(), Ok(length), "{text}");
        }
        for text in ["", "-1s", "-1", "1s ago", "soon", "5 parsecs", "NaN", "1e300"] {
            assert!(text.parse::<Length>().is_err(), "{text}");
        }
        let long = "300000h".parse::<Length>().unwrap_err();
        assert!(long.what.contains("30 years"), "{long}");
    }

    #[test]
    fn ranges_are_read_and_written() {
        let written = |text: &str| text.parse::<LengthRange>().map(|range| range.to_string());
        assert_eq!(written("1s"), Ok("1s".into()));
        assert_eq!(written("500ms-2s"), Ok("500ms-2s".into()));
        assert_eq!(written("30-60"), Ok("30s-1m".into()));
        assert!(written("5s-1s").unwrap_err().help.contains("1s-5s"));
        assert!(written("-1s").is_err() && written("soon").is_err());
    }
}
