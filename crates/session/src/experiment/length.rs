//! Lengths of time as people write them.

use std::fmt;
use std::str::FromStr;

use measure::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time: `"60s"`, `"500ms"`, `"2m"`, `"1h30m"`; a bare number is seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Length(pub Nanos);

const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

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

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("{text:?} is no length of time; write \"60s\", \"500ms\", \"2m\" or \"1h30m\"")
        };
        let mut rest = text.trim();
        let mut total = 0f64;
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            let letters = after
                .find(|c: char| !c.is_ascii_alphabetic())
                .unwrap_or(after.len());
            let (unit, next) = after.split_at(letters);
            let number: f64 = number.parse().map_err(|_| bad())?;
            let unit_ns = if unit.is_empty() && next.is_empty() && rest.len() == text.trim().len() {
                1_000_000_000
            } else {
                UNITS
                    .iter()
                    .find(|(name, _)| *name == unit)
                    .ok_or_else(bad)?
                    .1
            };
            total += number * unit_ns as f64;
            rest = next;
        }
        if total > 1e18 {
            return Err(format!("{text:?} is longer than 30 years"));
        }
        Ok(Self(Nanos(total.round() as u64)))
    }
}

/// In the largest unit that divides it: `90s`, `500ms`, `2m`.
impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.0;
        if ns == 0 {
            return f.write_str("0s");
        }
        let unit = UNITS
            .iter()
            .rev()
            .find(|(_, unit)| ns.is_multiple_of(*unit));
        let (name, unit) = unit.unwrap_or(&UNITS[0]);
        write!(f, "{}{name}", ns / unit)
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Seconds(f64),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Seconds(seconds) => seconds.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
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
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let (min, max): (Length, Length) = (min.parse()?, max.parse()?);
        if min > max {
            return Err(format!("{text:?} ends before it begins; write {max}-{min}"));
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
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Seconds(f64),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Seconds(seconds) => seconds.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_written() {
        let written = |text: &str| text.parse::<LengthRange>().map(|range| range.to_string());
        assert_eq!(written("1s"), Ok("1s".into()));
        assert_eq!(written("500ms-2s"), Ok("500ms-2s".into()));
        assert_eq!(written("30-60"), Ok("30s-1m".into()));
        assert!(written("5s-1s").unwrap_err().contains("1s-5s"));
        assert!(written("-1s").is_err() && written("soon").is_err());
    }
}
