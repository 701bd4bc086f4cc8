//! When messages are due. A [`RateProfile`] is a rate over time; `N(t)`, its integral, is how many messages are
//! requested until `t`. Message `i` of a group (from 0) is due when `N` passes `i`, computed from `i` alone: nothing is
//! rounded twice and nothing drifts, and every profile is exact to 1 ns (see [`Sine`](sine)). Rates are the decimal
//! numbers that were requested. Message `i` is producer `i mod P`'s, wherever that runs, so the total does not depend
//! on how it is divided. With [`Spacing::Poisson`] a producer's `k`-th message is due when `N` passes `P S_k`, where
//! `S_k` is the sum of `k + 1` exponential numbers of mean 1, kept in 2^-32: each producer is a Poisson process of its
//! share.

mod constant;
mod linear;
mod pacer;
mod sine;
mod trace;

use std::sync::{Arc, OnceLock};

use measure::{Nanos, Rate, Time};

use crate::Error;
use crate::random::Random;
use constant::EvenSteps;
use pacer::{Curve, Position};
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

/// The due times of one producer.
#[derive(Clone, Debug)]
pub struct DueTimes {
    due: Time,
    steps: Steps,
}

#[derive(Clone, Debug)]
enum Steps {
    /// From one instant to the next.
    Even(EvenSteps),
    /// From one message to the next, and to its instant.
    Positions { pacer: Arc<Pacer>, start: Time, next: Position, step: Position },
    /// Random arrivals.
    Random {
        pacer: Arc<Pacer>,
        start: Time,
        /// Messages so far, and the sum of their gaps.
        count: u64,
        sum: u128,
        random: Random,
        /// How many more are passed over by their own gaps; later ones have the mean gap.
        to_draw: u64,
    },
}

/// Random arrivals of a group that are passed over one by one.
const MOST_DRAWN: u64 = 1 << 20;

/// Due time that never comes.
const NEVER: Time = Time(u64::MAX);

impl DueTimes {
    /// The part of a schedule that belongs to `producer`: messages `producer`,
    /// `producer + producers`, … Random differs by `id`, the producer's number over all groups: two
    /// groups of the same seed do not send at the same instants.
    pub fn new(pacer: &Arc<Pacer>, start: Time, producer: u64, id: u32) -> Self {
        let producers = pacer.producers.max(1);
        let mut due_times = match (&pacer.curve, pacer.spacing) {
            (_, Spacing::Poisson { seed }) => Self {
                due: start,
                steps: Steps::Random {
                    pacer: Arc::clone(pacer),
                    start,
                    count: 0,
                    sum: 0,
                    random: Random::new(seed, u64::from(id)),
                    to_draw: MOST_DRAWN / producers,
                },
            },
            (Curve::Constant(constant), Spacing::Even) => {
                let (offset, even_steps) = constant.even_steps(producer, producers);
                return Self { due: Time(start.0.saturating_add(offset)), steps: Steps::Even(even_steps) };
            }
            (course, Spacing::Even) => {
                let all = matches!(course, Curve::Trace { each: true, .. });
                let (first, step) = if all { (0, 1) } else { (producer, producers) };
                Self {
                    due: start,
                    steps: Steps::Positions {
                        pacer: Arc::clone(pacer),
                        start,
                        next: Position::whole(first),
                        step: Position::whole(step),
                    },
                }
            }
        };
        due_times.advance();
        due_times
    }

    /// When the next message is due.
    #[inline]
    pub const fn due(&self) -> Time {
        self.due
    }

    /// Whether there is no next message.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.due == NEVER
    }

    /// Goes on to the message after it.
    #[inline]
    pub fn advance(&mut self) {
        match &mut self.steps {
            Steps::Even(even_steps) => self.due.0 = even_steps.after(self.due.0),
            _ => self.advance_by_position(),
        }
    }

    fn advance_by_position(&mut self) {
        let (pacer, start, position) = match &mut self.steps {
            Steps::Even(_) => return,
            Steps::Positions { pacer, start, next, step } => {
                let position = *next;
                next.0 += step.0;
                (pacer, *start, position)
            }
            Steps::Random { pacer, start, count, sum, random, .. } => {
                // An exponential number of mean 1, by inversion.
                *sum += Position::of(-random.unit(*count).ln()).0;
                *count += 1;
                let position = Position(sum.saturating_mul(u128::from(pacer.producers)));
                (pacer, *start, position)
            }
        };
        // The last bit of a root may not turn the order around.
        self.due = instant(pacer, start, position).max(self.due);
    }

    /// Passes over what is due before `end`, at most so many; their number. Takes time by its logarithm.
    pub fn pass(&mut self, end: Time, most: u64) -> u64 {
        if self.due >= end || most == 0 {
            return 0;
        }
        match &mut self.steps {
            Steps::Even(even_steps) => {
                let (count, due) = even_steps.pass(self.due.0, end.0, most);
                self.due = Time(due);
                count
            }
            Steps::Positions { .. } => self.pass_positions(end, most),
            Steps::Random { .. } => self.pass_random(end, most),
        }
    }

    /// Passes random arrivals. Gaps of unsent messages are unseen: of very many, the last have the mean gap.
    fn pass_random(&mut self, end: Time, most: u64) -> u64 {
        let mut count = 0;
        while count < most && self.due < end {
            let Steps::Random { pacer, start, sum, to_draw, .. } = &mut self.steps else {
                return count + self.pass_positions(end, most - count);
            };
            if let Some(left) = to_draw.checked_sub(1) {
                *to_draw = left;
                self.advance_by_position();
                count += 1;
            } else {
                let producers = u128::from(pacer.producers);
                let next = sum.saturating_add(Position::whole(1).0);
                self.steps = Steps::Positions {
                    next: Position(next.saturating_mul(producers)),
                    step: Position::whole(pacer.producers),
                    pacer: Arc::clone(pacer),
                    start: *start,
                };
            }
        }
        count
    }

    fn pass_positions(&mut self, end: Time, most: u64) -> u64 {
        let Steps::Positions { pacer, start, next, step } = &mut self.steps else { return 0 };
        let ahead = |count: u64| Position(next.0.saturating_add(u128::from(count) * step.0));
        // Whether the `count`-th after this one is due before.
        let is_before = |count: u64| instant(pacer, *start, ahead(count - 1)) < end;
        let (mut low, mut high) = (0, 1);
        while high < most && is_before(high) {
            (low, high) = (high, high.saturating_mul(2).min(most));
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if is_before(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        // The last bit of a root may turn the order around.
        let first = (high.saturating_sub(3).max(1)..high).find(|count| !is_before(*count));
        let count = first.unwrap_or(high);
        *next = ahead(count - 1);
        self.advance_by_position();
        count
    }
}

fn instant(pacer: &Pacer, start: Time, position: Position) -> Time {
    let offset = pacer.instant(position);
    offset.and_then(|offset| start.0.checked_add(offset)).map_or(NEVER, Time)
}

#[cfg(test)]
mod tests;
