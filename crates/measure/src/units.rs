//! Units of time, and the one place where the product reads a clock for a measurement.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// One second.
    pub const SECOND: Self = Self(1_000_000_000);

    /// A whole number of milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A whole number of microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Seconds, rounded down to nanoseconds; negative and non-finite values become zero.
    pub fn from_secs_f64(seconds: f64) -> Self {
        if seconds.is_finite() && seconds > 0.0 { Self((seconds * 1e9) as u64) } else { Self::ZERO }
    }

    /// Length in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - other`, or zero where `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Nanos {
    fn from(value: Duration) -> Self {
        Self(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(value: Nanos) -> Self {
        Self::from_nanos(value.0)
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

/// Three significant digits with the unit that suits the value: `812 ns`, `4.21 ms`, `31.0 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        if ns < 1_000 {
            return write!(f, "{ns} ns");
        }
        // The bounds are those at which three digits would round up into the next unit.
        let (value, unit) = match ns {
            0..999_500 => (ns as f64 / 1e3, "µs"),
            999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
            _ => (ns as f64 / 1e9, "s"),
        };
        let decimals = usize::from(value < 9.995) + usize::from(value < 99.95);
        write!(f, "{value:.decimals$} {unit}")
    }
}

/// An instant: nanoseconds of the system's monotonic clock (`CLOCK_MONOTONIC`), which all
/// processes of a machine share. It means nothing on another machine or after a reboot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The time that has passed since `earlier`; zero where `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Time {
    type Output = Self;
    fn add(self, rhs: Nanos) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl Sub<Nanos> for Time {
    type Output = Self;
    fn sub(self, rhs: Nanos) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

/// The monotonic clock (`CLOCK_MONOTONIC`), shared by all processes of a machine and by the
/// kernel's profiler, so that messages, samples and CPU readings lie on one axis.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The present instant. About 20 ns with a user-space clock; read it once per batch, never per message.
    pub fn now(self) -> Time {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Time(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }
}

/// Wall-clock time in nanoseconds since 1970-01-01 UTC; only for naming things, never for a difference.
pub fn wall_clock_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_three_digits_in_the_unit_that_suits() {
        for [ns, text] in testkit::table(include_str!("../tests/data/durations.txt")) {
            let ns = ns.parse().expect("a number");
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }

    #[test]
    fn instants_never_wrap_below_zero() {
        assert_eq!(Time(5).since(Time(9)), Nanos::ZERO);
        assert_eq!(Time(5) - Nanos(9), Time(0));
    }
}
