//! A schedule made ready: from message numbers to instants and from instants to counts.

use std::sync::Arc;

use measure::Nanos;

use super::constant::Constant;
use super::exact::billionths;
use super::linear::{After, LONGEST_SLOPE, Linear, UNIT};
use super::sine::Sine;
use super::{Arrivals, FASTEST, MOST_STEPS, RATES, Schedule, Shape, Step, Trace};
use crate::Error;

/// 30 years in nanoseconds, for which all sums stay within 128 bits.
const LONGEST_COURSE: u128 = 1_000_000_000_000_000_000;
/// Fraction bits of a [`Place`].
const FRACTION: u32 = 32;

/// A number of messages in 2^-32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(pub(super) u128);

impl Place {
    pub(super) fn whole(messages: u64) -> Self {
        Self(u128::from(messages) << FRACTION)
    }

    /// Rounded to the nearest.
    pub(super) fn of(messages: f64) -> Self {
        Self((messages * f64::from(2u32).powi(FRACTION as i32)).round() as u128)
    }

    fn units(self) -> u128 {
        let fraction = self.0 & ((1 << FRACTION) - 1);
        (self.0 >> FRACTION)
            .saturating_mul(UNIT)
            .saturating_add((fraction * UNIT) >> FRACTION)
    }
}

/// See [`Schedule`].
#[derive(Clone, Debug)]
pub(crate) struct Timetable {
    pub(super) course: Course,
    pub(super) arrivals: Arrivals,
    pub(super) producers: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Course {
    Constant(Constant),
    Linear(Linear),
    Sine(Sine),
    Trace {
        trace: Arc<Trace>,
        every: Option<u64>,
        /// Every producer sends all of it.
        each: bool,
    },
}

impl Timetable {
    pub(super) fn new(schedule: &Schedule, producers: u64) -> Result<Self, Error> {
        let times = if schedule.per_producer { producers } else { 1 };
        let even = schedule.arrivals == Arrivals::Even;
        let course = match &schedule.shape {
            Shape::Constant(rate) => {
                let total = rate.get() * times as f64;
                if !RATES.contains(&rate.get()) || !RATES.contains(&total) {
                    return Err(refused_rate(total));
                }
                if even {
                    Course::Constant(Constant::new(*rate, times))
                } else {
                    let hold = rate_of(rate.get(), times)?;
                    Course::Linear(Linear::new(&[], After::Hold(hold)))
                }
            }
            Shape::Steps { steps, repeat } => Course::Linear(steps_of(steps, *repeat, times)?),
            Shape::Sine {
                mean,
                amplitude,
                period,
            } => Course::Sine(sine_of(*mean, *amplitude, *period, times)?),
            Shape::Trace { trace, every } => {
                if !even {
                    return Err(Error::invalid(
                        "a trace has its own times, so it cannot have random arrivals",
                        "leave arrivals out, or take another shape",
                    ));
                }
                Course::Trace {
                    every: round_of(trace, *every)?,
                    trace: Arc::clone(trace),
                    each: schedule.per_producer,
                }
            }
        };
        Ok(Self {
            course,
            arrivals: schedule.arrivals,
            producers,
        })
    }

    /// When the count passes `place`, in nanoseconds after the start; `None` for never.
    pub(super) fn instant(&self, place: Place) -> Option<u64> {
        match &self.course {
            // Its ticker goes from one instant to the next.
            Course::Constant(constant) => {
                let messages = u64::try_from(place.0 >> FRACTION).ok()?;
                Some(constant.beat(messages, 1).0)
            }
            Course::Linear(linear) => linear.instant(place.units()),
            Course::Sine(sine) => sine.instant(place.units()),
            Course::Trace { trace, every, .. } => {
                trace.instant(u64::try_from(place.0 >> FRACTION).ok()?, *every)
            }
        }
    }

    /// Messages that the whole group is asked for until `t` after the start.
    pub(crate) fn until(&self, t: Nanos) -> f64 {
        match &self.course {
            Course::Constant(constant) => constant.until(t.0),
            Course::Linear(linear) => linear.until(t.0),
            Course::Sine(sine) => sine.until(t.0),
            Course::Trace { trace, every, each } => {
                let copies = if *each { self.producers as f64 } else { 1.0 };
                trace.until(t.0, *every) * copies
            }
        }
    }

    /// Whether there is a last message.
    pub(crate) fn ends(&self) -> bool {
        match &self.course {
            Course::Constant(_) | Course::Sine(_) => false,
            Course::Linear(linear) => linear.ends(),
            Course::Trace { every, .. } => every.is_none(),
        }
    }

    /// Whether counts differ from the rate's integral by chance.
    pub(crate) const fn is_random(&self) -> bool {
        matches!(self.arrivals, Arrivals::Poisson { .. })
    }
}

fn refused_rate(rate: f64) -> Error {
    Error::invalid(
        format!("a rate of {rate} messages per second cannot be kept"),
        "ask for 0.000001 to 1000000000, or for no rate to send all-out",
    )
}

/// Billionths of a message per second of all producers together.
fn rate_of(rate: f64, times: u64) -> Result<u64, Error> {
    let whole = billionths(rate, FASTEST).ok_or_else(|| {
        Error::invalid(
            format!("a rate of {rate} messages per second cannot be part of a schedule"),
            "ask for 0 to 1000000000 with at most nine decimal places",
        )
    })?;
    whole
        .checked_mul(times)
        .filter(|total| total / 1_000_000_000 <= FASTEST)
        .ok_or_else(|| refused_rate(rate * times as f64))
}

fn steps_of(steps: &[Step], repeat: bool, times: u64) -> Result<Linear, Error> {
    if steps.is_empty() || steps.len() > MOST_STEPS {
        return Err(Error::invalid(
            format!("a schedule of {} steps cannot be kept", steps.len()),
            format!("give 1 to {MOST_STEPS} steps of a rate and a length"),
        ));
    }
    let mut parts = Vec::with_capacity(steps.len());
    for step in steps {
        let (from, to) = (rate_of(step.from, times)?, rate_of(step.to, times)?);
        let length = step.length.0;
        if length == 0 || (from != to && length > LONGEST_SLOPE) {
            return Err(Error::invalid(
                format!(
                    "a step from {} to {} messages per second cannot last {}",
                    step.from, step.to, step.length
                ),
                "give each step a length above 0; a ramp lasts 10 days (240h) at most",
            ));
        }
        parts.push((from, to, length));
    }
    let length = parts.iter().map(|(_, _, ns)| u128::from(*ns)).sum::<u128>();
    if length > LONGEST_COURSE {
        return Err(Error::invalid(
            format!(
                "the steps of the schedule last {} s",
                length / 1_000_000_000
            ),
            "let them last 30 years at most",
        ));
    }
    if parts.iter().all(|(from, to, _)| from + to == 0) {
        return Err(Error::invalid(
            "all rates of the schedule are 0",
            "give at least one step a rate above 0",
        ));
    }
    let last = parts.last().map_or(0, |(_, to, _)| *to);
    let after = if repeat {
        After::Repeat
    } else {
        After::Hold(last)
    };
    Ok(Linear::new(&parts, after))
}

fn sine_of(mean: f64, amplitude: f64, period: Nanos, times: u64) -> Result<Sine, Error> {
    let (rate, swing) = (rate_of(mean, times)?, rate_of(amplitude, times)?);
    if rate == 0 || swing > rate {
        return Err(Error::invalid(
            format!("a sine of mean {mean} and amplitude {amplitude} would go below 0"),
            "give a mean above 0 and an amplitude from 0 to the mean",
        ));
    }
    if period.0 == 0 || period.0 > LONGEST_SLOPE {
        return Err(Error::invalid(
            format!("a sine cannot have a period of {period}"),
            "give a period above 0 and of at most 10 days (240h)",
        ));
    }
    Ok(Sine::new(rate, swing, period.0))
}

fn round_of(trace: &Trace, every: Option<Nanos>) -> Result<Option<u64>, Error> {
    match every {
        Some(every) if every.0 < trace.last() || every.0 == 0 => Err(Error::invalid(
            format!(
                "the trace lasts {} and cannot begin anew every {every}",
                Nanos(trace.last())
            ),
            "let it begin anew after its own length at least",
        )),
        every => Ok(every.map(|every| every.0)),
    }
}
