//! Durations as people write them.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use jiff::fmt::friendly::{Designator, Spacing, SpanParser, SpanPrinter};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Nanos, Refused, from_number_or_text};

/// A duration: `"60s"`, `"500ms"`, `"2m"`, `"1h30m"`; a bare number is seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Length(pub Nanos);

const PARSER: SpanParser = SpanParser::new();
const PRINTER: SpanPrinter = SpanPrinter::new()
    .designator(Designator::HumanTime)
    .spacing(Spacing::None);

/// 30 years.
const LONGEST_NS: u64 = 1_000_000_000_000_000_000;

impl Length {
    /// Whole seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Nanos(seconds.saturating_mul(1_000_000_000)))
    }

    /// Whether it is no time at all.
    #[must_use]
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
        let length = length
            .filter(|length| !length.is_negative())
            .ok_or_else(|| {
                let help = "write \"60s\", \"500ms\", \"2m\" or \"1h30m\"";
                Refused::new(format!("{text:?} is no duration"), help)
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

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_number_or_text(deserializer, "a duration such as \"60s\" or \"500ms\"")
    }
}

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
        if self.min == self.max {
            self.min.fmt(f)
        } else {
            write!(f, "{}-{}", self.min, self.max)
        }
    }
}

impl Serialize for LengthRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LengthRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_number_or_text(
            deserializer,
            "a duration such as \"1s\", or a range such as \"1s-5s\"",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, written) in [
            ("60s", "1m"),
            ("90", "1m30s"),
            ("1.5", "1s500ms"),
            (".5s", "500ms"),
            ("1.5h", "1h30m"),
            ("1h30m", "1h30m"),
            ("1h 30m", "1h30m"),
            (" 100us ", "100us"),
            ("7ns", "7ns"),
            ("0", "0s"),
        ] {
            let length: Length = text.parse().expect(text);
            assert_eq!(length.to_string(), written, "{text}");
            assert_eq!(written.parse(), Ok(length), "{text}");
        }
        for text in [
            "",
            "-1s",
            "-1",
            "1s ago",
            "soon",
            "5 parsecs",
            "NaN",
            "1e300",
        ] {
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
