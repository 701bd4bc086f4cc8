//! Selection of a continuous recording's periods: `beam.smp@10:00..11:00`.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use measure::{Length, Nanos, Refused};

use crate::RunEntry;

const EXAMPLE: &str = "write NAME@FROM..TO, such as beam.smp@10:00..11:00, beam.smp@2026-11-22T10:00..11:00 or \
    beam.smp@-2h..-1h; times are UTC, as in the ids of runs";

/// Periods of a recording, or of a process, between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodRange {
    /// The recording's name or a process's; empty for all.
    name: String,
    /// Nanoseconds since 1970.
    from: u64,
    to: u64,
}

impl PeriodRange {
    /// The range that a text means; `None` where it is no such text.
    ///
    /// # Errors
    /// Why it is none, where it looks like one.
    pub fn parse(text: &str, now_unix_ns: u64) -> Option<Result<Self, Refused>> {
        let (name, range) = text.rsplit_once('@')?;
        let (from, to) = range.split_once("..")?;
        Some(Self::between(name, from.trim(), to.trim(), now_unix_ns))
    }

    fn between(name: &str, from: &str, to: &str, now: u64) -> Result<Self, Refused> {
        let today = date_of(now);
        let (from_ns, day) = match from {
            "" => (0, today),
            text => instant(text, today, now)?,
        };
        let is_time = time_alone(to).is_some();
        let mut to_ns = match to {
            "" => now,
            text => instant(text, day, now)?.0,
        };
        if is_time && to_ns <= from_ns {
            // After midnight.
            to_ns = to_ns.saturating_add(DAY);
        }
        if to_ns <= from_ns {
            return Err(Refused::new(
                format!("{to:?} is not after {from:?}"),
                EXAMPLE,
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            from: from_ns,
            to: to_ns,
        })
    }

    /// Whether a run is one of its periods, at least partly within the range.
    #[must_use]
    pub fn has(&self, entry: &RunEntry) -> bool {
        let Ok(record) = &entry.record else {
            return false;
        };
        let Some(period) = &record.period else {
            return false;
        };
        let length = entry.seconds().unwrap_or(period.every_s);
        let begin = record.origin_unix_ns;
        let end = begin.saturating_add(Nanos::from_secs_f64(length).0);
        let names = [&period.recording, &period.process, &record.name];
        (self.name.is_empty() || names.contains(&&self.name)) && begin < self.to && end > self.from
    }

    /// The range on the time axis of a profile, nanoseconds since its origin.
    #[must_use]
    pub const fn on_axis(&self, origin_unix_ns: u64) -> (u64, u64) {
        let from = self.from.saturating_sub(origin_unix_ns);
        (from, self.to.saturating_sub(origin_unix_ns))
    }

    /// The name that was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

const DAY: u64 = 86_400_000_000_000;

/// The moment that a text means, and its day. A time alone is on `day`, or the day before if that is yet to come.
fn instant(text: &str, day: Date, now: u64) -> Result<(u64, Date), Refused> {
    let refused = || Refused::new(format!("{text:?} is no time"), EXAMPLE);
    if text == "now" {
        return Ok((now, date_of(now)));
    }
    if let Some(ago) = text.strip_prefix('-') {
        let Length(ago) = ago.parse().map_err(|_| refused())?;
        let at = now.saturating_sub(ago.0);
        return Ok((at, date_of(at)));
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        let at = unix_ns(at).ok_or_else(refused)?;
        return Ok((at, date_of(at)));
    }
    let of = |at: DateTime| unix_ns(TimeZone::UTC.to_timestamp(at).ok()?);
    if let Some(time) = time_alone(text) {
        let at = of(day.to_datetime(time)).ok_or_else(refused)?;
        let at = if at > now { at.saturating_sub(DAY) } else { at };
        return Ok((at, date_of(at)));
    }
    let at: DateTime = text.parse().map_err(|_| refused())?;
    Ok((of(at).ok_or_else(refused)?, at.date()))
}

/// A time without a day; a text with both would be read as one, too.
fn time_alone(text: &str) -> Option<Time> {
    let alone = !text.contains(['-', 'T', 't', ' ']);
    text.parse().ok().filter(|_| alone)
}

fn unix_ns(at: Timestamp) -> Option<u64> {
    u64::try_from(at.as_nanosecond()).ok()
}

fn date_of(unix_ns: u64) -> Date {
    let at = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    TimeZone::UTC.to_datetime(at).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_people_write_them() {
        let ns = |text: &str| unix_ns(text.parse().unwrap()).unwrap();
        let now = ns("2026-11-22T12:30:00Z");
        for (text, name, from, to) in [
            (
                "beam.smp@10:00..11:00",
                "beam.smp",
                "2026-11-22T10:00:00Z",
                "2026-11-22T11:00:00Z",
            ),
            (
                "@13:00..14:00",
                "",
                "2026-11-21T13:00:00Z",
                "2026-11-21T14:00:00Z",
            ),
            (
                "a@23:30..00:30",
                "a",
                "2026-11-21T23:30:00Z",
                "2026-11-22T00:30:00Z",
            ),
            (
                "r@h@-2h..-1h",
                "r@h",
                "2026-11-22T10:30:00Z",
                "2026-11-22T11:30:00Z",
            ),
            (
                "a@-90m..",
                "a",
                "2026-11-22T11:00:00Z",
                "2026-11-22T12:30:00Z",
            ),
            (
                "a@..now",
                "a",
                "1970-01-01T00:00:00Z",
                "2026-11-22T12:30:00Z",
            ),
            (
                "a@2026-11-20T10:00..11:00",
                "a",
                "2026-11-20T10:00:00Z",
                "2026-11-20T11:00:00Z",
            ),
            (
                "a@2026-11-20..2026-11-21",
                "a",
                "2026-11-20T00:00:00Z",
                "2026-11-21T00:00:00Z",
            ),
            (
                "a@2026-11-20T10:00:30Z..-1h",
                "a",
                "2026-11-20T10:00:30Z",
                "2026-11-22T11:30:00Z",
            ),
        ] {
            let expected = PeriodRange {
                name: name.into(),
                from: ns(from),
                to: ns(to),
            };
            assert_eq!(PeriodRange::parse(text, now), Some(Ok(expected)), "{text}");
        }
        for wrong in [
            "a@x..y",
            "a@11:00..2026-11-20",
            "a@-1h..-2h",
            "a@99:00..",
            "a@-..-1h",
        ] {
            assert!(
                matches!(PeriodRange::parse(wrong, now), Some(Err(_))),
                "{wrong}"
            );
        }
        for other in ["last", "rabbit@host", "../x", "a..b@c"] {
            assert_eq!(PeriodRange::parse(other, now), None, "{other}");
        }
    }
}
