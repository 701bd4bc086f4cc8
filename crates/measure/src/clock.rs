//! The one place where the product reads a clock for a measurement.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::Time;

/// The monotonic clock (`CLOCK_MONOTONIC`), shared by all processes of a machine and by the
/// kernel's profiler, so that messages, samples and CPU readings lie on one axis.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The present instant. About 20 ns where the kernel offers a user-space clock; read it once
    /// per batch, never once per message.
    #[must_use]
    pub fn now(self) -> Time {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Time(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }
}

/// Wall-clock time in nanoseconds since 1970-01-01 UTC; only for naming things, never for a
/// difference.
#[must_use]
pub fn wall_clock_unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_forward() {
        let a = Clock.now();
        let b = Clock.now();
        assert!(b >= a && a.0 > 0);
    }
}
