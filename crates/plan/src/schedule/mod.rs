//! When messages are due. A [`RateProfile`] is a rate over time; `N(t)`, its integral, is how many messages are
//! requested until `t`. Message `i` of a group (from 0) is due when `N` passes `i`, computed from `i` alone: nothing is
//! rounded twice and nothing drifts, and every profile is exact to 1 ns (see [`Sine`](sine)). Rates are the decimal
//! numbers that were requested. Message `i` is producer `i mod P`'s, wherever that runs, so the total does not depend
//! on how it is divided. With [`Spacing::Poisson`] a producer's `k`-th message is due when `N` passes `P S_k`, where
//! `S_k` is the sum of `k + 1` exponential numbers of mean 1, kept in 2^-32: each producer is a Poisson process of its
//! share.

mod constant;
mod due_times;
mod linear;
mod pacer;
mod sine;
#[cfg(test)]
mod tests;
mod trace;

use std::sync::{Arc, OnceLock};

use measure::{Nanos, Rate};

use crate::Error;
pub use due_times::DueTimes;
pub use pacer::{Pacer, Requested};
pub use trace::Trace;

/// The slowest and the fastest rate whose exact arithmetic stays within 128 bits.
const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e9;
/// Highest rate of a shape's parts, in messages per second.
const FASTEST: u64 = 1_000_000_000;
/// Steps of one rate profile.
const MOST_STEPS: usize = 10_000;

/// When a group's producers send.
#[derive(Clone, Debug, Default)]
pub enum ArrivalProcess {
    /// As soon as the in-flight window allows.
    #[default]
    Unthrottled,
    /// Open loop: at intended times that do not depend on the broker.
    Scheduled(ArrivalSchedule),
    /// Closed loop: each producer waits for the answer to its message, then for the think time, then sends the next.
    /// The think time counts from the answer, so a slow broker is asked less often: latencies have coordinated omission
    /// by construction. Producers begin spread over the first think time.
    ThinkTime(Nanos),
}

impl ArrivalProcess {
    /// A constant total rate.
    pub fn constant(rate: Rate) -> Self {
        Self::Scheduled(ArrivalSchedule::constant(rate))
    }

    /// Whether messages are sent as fast as possible.
    pub const fn is_unthrottled(&self) -> bool {
        matches!(self, Self::Unthrottled)
    }
}

/// Messages per second, evenly, in total.
impl From<Rate> for ArrivalProcess {
    fn from(rate: Rate) -> Self {
        Self::constant(rate)
    }
}

/// A rate over time, and how messages are spaced in it.
#[derive(Clone, Debug)]
pub struct ArrivalSchedule {
    profile: RateProfile,
    spacing: Spacing,
    per_producer: bool,
    /// Made once, and shared by all copies.
    pacer: Arc<OnceLock<Arc<Pacer>>>,
}

/// A rate over time, from the start of the load (warm-up included). Rates are messages per second
/// with at most nine decimal places (a constant rate may have more).
#[derive(Clone, Debug, PartialEq)]
pub enum RateProfile {
    /// One rate all the time.
    Constant(Rate),
    /// One after the other.
    Steps {
        /// At least one.
        steps: Vec<Step>,
        /// Start over after the last; otherwise its final rate is kept.
        repeat: bool,
    },
    /// `mean + amplitude sin(2 pi t / period)`.
    Sine {
        /// Messages per second, above 0.
        mean: f64,
        /// From 0 to the mean.
        amplitude: f64,
        /// At most 10 days.
        period: Nanos,
    },
    /// The times of a recording.
    Trace {
        /// Recorded times.
        trace: Arc<Trace>,
        /// Start over after this long (at least the trace's own length); otherwise it plays once.
        every: Option<Nanos>,
    },
}

/// A part of [`RateProfile::Steps`]: from one rate to another along a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Messages per second at the beginning.
    pub from: f64,
    /// Messages per second at the end.
    pub to: f64,
    /// How long; at most 10 days where the rate changes.
    pub length: Nanos,
}

/// How messages are spaced in a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// One whenever the rate's integral passes a whole number.
    #[default]
    Even,
    /// A Poisson process: independent of each other, as many users are. The same seed gives the
    /// same times for the same number of producers.
    Poisson {
        /// Any number.
        seed: u64,
    },
}

impl Step {
    /// One rate for this long.
    pub const fn level(rate: f64, length: Nanos) -> Self {
        Self { from: rate, to: rate, length }
    }
}

impl RateProfile {
    /// From one rate to another, which is kept then.
    pub fn ramp(from: f64, to: f64, over: Nanos) -> Self {
        Self::Steps { steps: vec![Step { from, to, length: over }], repeat: false }
    }

    /// `rate` for `on`, then `idle` (often 0) for `off`, again and again.
    pub fn bursts(rate: f64, on: Nanos, idle: f64, off: Nanos) -> Self {
        Self::Steps { steps: vec![Step::level(rate, on), Step::level(idle, off)], repeat: true }
    }
}

impl ArrivalSchedule {
    /// A schedule; with `per_producer` the rate is each producer's, otherwise that of all producers of
    /// the group together.
    pub fn new(profile: RateProfile, spacing: Spacing, per_producer: bool) -> Self {
        Self { profile, spacing, per_producer, pacer: Arc::default() }
    }

    /// A constant total rate, evenly spaced.
    pub fn constant(rate: Rate) -> Self {
        Self::new(RateProfile::Constant(rate), Spacing::Even, false)
    }

    /// The rate over time.
    pub const fn profile(&self) -> &RateProfile {
        &self.profile
    }

    /// How messages are spaced.
    pub const fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// Whether the rate is each producer's.
    pub(crate) const fn is_per_producer(&self) -> bool {
        self.per_producer
    }

    /// The schedule made ready for a group of this many producers.
    /// Errors: [`Error::Invalid`] for rates and lengths that cannot be kept.
    pub fn pacer(&self, producers: u64) -> Result<Arc<Pacer>, Error> {
        match self.pacer.get() {
            Some(pacer) if pacer.producers == producers => Ok(Arc::clone(pacer)),
            // Of another number of producers: the plan has changed since.
            Some(_) => Pacer::new(self, producers).map(Arc::new),
            None => {
                let pacer = Arc::new(Pacer::new(self, producers)?);
                Ok(Arc::clone(self.pacer.get_or_init(|| pacer)))
            }
        }
    }
}

/// How many of `total` messages belong to one of `producers`.
pub const fn share(total: u64, producer: u64, producers: u64) -> u64 {
    total / producers + (producer < total % producers) as u64
}
