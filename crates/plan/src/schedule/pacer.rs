//! A schedule made ready: from message numbers to instants and from instants to counts.

use std::sync::Arc;

use measure::Nanos;

use super::constant::{Constant, billionths};
use super::linear::{After, LONGEST_SLOPE, Linear, UNIT};
use super::sine::Sine;
use super::{ArrivalSchedule, FASTEST, MOST_STEPS, RATES, RateProfile, Spacing, Step, Trace};
use crate::Error;

/// 30 years in nanoseconds, for which all sums stay within 128 bits.
const LONGEST_CURVE: u128 = 1_000_000_000_000_000_000;
/// Fraction bits of a [`Position`].
const FRACTION: u32 = 32;

/// A number of messages in 2^-32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(pub(super) u128);

impl Position {
    pub(super) fn whole(messages: u64) -> Self {
        Self(u128::from(messages) << FRACTION)
    }

    /// Rounded to the nearest.
    pub(super) fn of(messages: f64) -> Self {
        Self((messages * f64::from(2u32).powi(FRACTION as i32)).round() as u128)
    }

    fn units(self) -> u128 {
        let fraction = self.0 & ((1 << FRACTION) - 1);
        (self.0 >> FRACTION).saturating_mul(UNIT).saturating_add((fraction * UNIT) >> FRACTION)
    }
}

/// See [`ArrivalSchedule`].
#[derive(Clone, Debug)]
pub struct Pacer {
    pub(super) curve: Curve,
    pub(super) spacing: Spacing,
    /// The producers of the group.
    pub producers: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Curve {
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

impl Pacer {
    pub(super) fn new(schedule: &ArrivalSchedule, producers: u64) -> Result<Self, Error> {
        let times = if schedule.per_producer { producers } else { 1 };
        let even = schedule.spacing == Spacing::Even;
        let curve = match &schedule.profile {
            RateProfile::Constant(rate) => {
                let total = rate.get() * times as f64;
                refused_rate(total).unless(RATES.contains(&rate.get()) && RATES.contains(&total))?;
                if even {
                    Curve::Constant(Constant::new(*rate, times))
                } else {
                    let hold = rate_of(rate.get(), times)?;
                    Curve::Linear(Linear::new(&[], After::Hold(hold)))
                }
            }
            RateProfile::Steps { steps, repeat } => Curve::Linear(steps_of(steps, *repeat, times)?),
            RateProfile::Sine { mean, amplitude, period } => Curve::Sine(sine_of(*mean, *amplitude, *period, times)?),
            RateProfile::Trace { trace, every } => {
                let cause = "a trace has its own times, so it cannot have random arrivals";
                Error::invalid(cause, "leave arrivals out, or take another shape").unless(even)?;
                Curve::Trace { every: round_of(trace, *every)?, trace: Arc::clone(trace), each: schedule.per_producer }
            }
        };
        Ok(Self { curve, spacing: schedule.spacing, producers })
    }

    /// When the count passes `position`, in nanoseconds after the start; `None` for never.
    pub(super) fn instant(&self, position: Position) -> Option<u64> {
        match &self.curve {
            // Its due_times goes from one instant to the next.
            Curve::Constant(constant) => {
                let messages = u64::try_from(position.0 >> FRACTION).ok()?;
                Some(constant.even_steps(messages, 1).0)
            }
            Curve::Linear(linear) => linear.instant(position.units()),
            Curve::Sine(sine) => sine.instant(position.units()),
            Curve::Trace { trace, every, .. } => trace.instant(u64::try_from(position.0 >> FRACTION).ok()?, *every),
        }
    }

    /// Messages that are requested of the whole group until `t` after the start.
    pub fn until(&self, t: Nanos) -> f64 {
        match &self.curve {
            Curve::Constant(constant) => constant.until(t.0),
            Curve::Linear(linear) => linear.until(t.0),
            Curve::Sine(sine) => sine.until(t.0),
            Curve::Trace { trace, every, each } => {
                let copies = if *each { self.producers as f64 } else { 1.0 };
                trace.until(t.0, *every) * copies
            }
        }
    }

    /// Whether there is a last message.
    pub fn ends(&self) -> bool {
        match &self.curve {
            Curve::Constant(_) | Curve::Sine(_) => false,
            Curve::Linear(linear) => linear.ends(),
            Curve::Trace { every, .. } => every.is_none(),
        }
    }

    /// Whether counts differ from the rate's integral at random.
    const fn is_random(&self) -> bool {
        matches!(self.spacing, Spacing::Poisson { .. })
    }
}

fn refused_rate(rate: f64) -> Error {
    let help = "ask for 0.000001 to 1000000000, or for no rate to send unthrottled";
    Error::invalid(format!("a rate of {rate} messages per second cannot be kept"), help).observed(rate)
}

/// Billionths of a message per second of all producers together.
fn rate_of(rate: f64, times: u64) -> Result<u64, Error> {
    let whole = billionths(rate, FASTEST).ok_or_else(|| {
        let cause = format!("a rate of {rate} messages per second cannot be part of a schedule");
        Error::invalid(cause, "ask for 0 to 1000000000 with at most nine decimal places").observed(rate)
    })?;
    whole
        .checked_mul(times)
        .filter(|total| total / 1_000_000_000 <= FASTEST)
        .ok_or_else(|| refused_rate(rate * times as f64))
}

fn steps_of(steps: &[Step], repeat: bool, times: u64) -> Result<Linear, Error> {
    let count = steps.len();
    let help = format!("give 1 to {MOST_STEPS} steps of a rate and a length");
    let refused = Error::invalid(format!("a schedule of {count} steps cannot be kept"), help).observed(count);
    refused.unless((1..=MOST_STEPS).contains(&count))?;
    let mut parts = Vec::with_capacity(count);
    for step in steps {
        let (from, to) = (rate_of(step.from, times)?, rate_of(step.to, times)?);
        let is_fine = step.length.0 > 0 && (from == to || step.length.0 <= LONGEST_SLOPE);
        let Step { from: first, to: last, length } = step;
        let cause = format!("a step from {first} to {last} messages per second cannot last {length}");
        let help = "give each step a length above 0; a ramp lasts 10 days (240h) at most";
        Error::invalid(cause, help).observed(length).unless(is_fine)?;
        parts.push((from, to, length.0));
    }
    let length = parts.iter().map(|(_, _, ns)| u128::from(*ns)).sum::<u128>();
    let seconds = length / 1_000_000_000;
    let refused =
        Error::invalid(format!("the steps of the schedule last {seconds} s"), "let them last 30 years at most");
    refused.observed(seconds).unless(length <= LONGEST_CURVE)?;
    let sends = parts.iter().any(|(from, to, _)| from + to > 0);
    Error::invalid("all rates of the schedule are 0", "give at least one step a rate above 0").unless(sends)?;
    let last = parts.last().map_or(0, |(_, to, _)| *to);
    let after = if repeat { After::Repeat } else { After::Hold(last) };
    Ok(Linear::new(&parts, after))
}

fn sine_of(mean: f64, amplitude: f64, period: Nanos, times: u64) -> Result<Sine, Error> {
    let (rate, swing) = (rate_of(mean, times)?, rate_of(amplitude, times)?);
    let cause = format!("a sine of mean {mean} and amplitude {amplitude} would go below 0");
    let help = "give a mean above 0 and an amplitude from 0 to the mean";
    Error::invalid(cause, help).observed(amplitude).unless(rate > 0 && swing <= rate)?;
    let help = "give a period above 0 and of at most 10 days (240h)";
    let refused = Error::invalid(format!("a sine cannot have a period of {period}"), help).observed(period);
    refused.unless((1..=LONGEST_SLOPE).contains(&period.0))?;
    Ok(Sine::new(rate, swing, period.0))
}

fn round_of(trace: &Trace, every: Option<Nanos>) -> Result<Option<u64>, Error> {
    let Some(every) = every else { return Ok(None) };
    let cause = format!("the trace lasts {} and cannot start over every {every}", Nanos(trace.last()));
    let refused = Error::invalid(cause, "let it start over after its own length at least").observed(every);
    refused.unless(every.0 >= trace.last() && every.0 > 0).map(|()| Some(every.0))
}

/// Requested messages of all groups together, over time.
#[derive(Clone, Debug, Default)]
pub struct Requested {
    groups: Vec<Asked>,
}

/// Schedule of one group.
#[derive(Clone, Debug)]
struct Asked {
    pacer: Arc<Pacer>,
    /// How much of it these producers have.
    part: f64,
    message_count: Option<u64>,
    /// How much later than the load each producer begins; empty where none does.
    delays: Vec<Nanos>,
}

impl Requested {
    /// All that a schedule asks for. Errors: [`Error::Invalid`] for a schedule that cannot be kept.
    pub fn of(schedule: &ArrivalSchedule) -> Result<Self, Error> {
        let mut requested = Self::default();
        requested.add(schedule.pacer(1)?, 1.0, None, Vec::new());
        Ok(requested)
    }

    pub(crate) fn add(&mut self, pacer: Arc<Pacer>, part: f64, message_count: Option<u64>, delays: Vec<Nanos>) {
        self.groups.push(Asked { pacer, part, message_count, delays });
    }

    /// Messages requested between two instants after the start: the integral of the rate, up to
    /// the message count. Random arrivals deviate from it: see [`Self::deviation`].
    pub fn messages(&self, from: Nanos, to: Nanos) -> f64 {
        self.groups.iter().map(|group| group.between(from, to)).sum()
    }

    /// The share of time between two instants with messages due: below 1 only where all groups reach their count.
    pub fn share_due(&self, from: Nanos, to: Nanos) -> f64 {
        let share = |group: &Asked| match group.scheduled(to) - group.scheduled(from) {
            all if all > 0.0 => group.between(from, to) / all,
            _ => 1.0,
        };
        self.groups.iter().map(share).reduce(f64::max).unwrap_or(1.0)
    }

    /// The standard deviation of the number of messages due between two instants: 0 unless arrivals
    /// are random, and then the root of the messages expected.
    pub fn deviation(&self, from: Nanos, to: Nanos) -> f64 {
        let random = self.groups.iter().filter(|group| group.pacer.is_random());
        random.map(|group| group.between(from, to)).sum::<f64>().sqrt()
    }
}

impl Asked {
    fn between(&self, from: Nanos, to: Nanos) -> f64 {
        (self.until(to) - self.until(from)).max(0.0)
    }

    fn until(&self, t: Nanos) -> f64 {
        let most = self.message_count.map_or(f64::INFINITY, |count| count as f64);
        self.scheduled(t).min(most)
    }

    /// As [`Self::until`], without an end by the message count.
    fn scheduled(&self, t: Nanos) -> f64 {
        if self.delays.is_empty() {
            return self.part * self.pacer.until(t);
        }
        // Each producer has its share of the group's schedule, later.
        let begun = self.delays.iter().filter_map(|delay| t.0.checked_sub(delay.0));
        let all: f64 = begun.map(|t| self.pacer.until(Nanos(t))).sum();
        self.part * all / self.delays.len() as f64
    }
}
