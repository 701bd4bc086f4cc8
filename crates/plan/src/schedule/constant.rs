//! A constant rate, exact for any decimal number: `t_i = i / rate`.

use measure::Rate;

use super::exact::decimal;

/// A constant rate: `messages` in every `nanos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constant {
    messages: u128,
    nanos: u128,
}

impl Constant {
    /// Takes the rate as the decimal number that it prints as, for each of `times` producers.
    /// Plans keep the whole between 1e-6 and 1e9, for which all products below stay within 128
    /// bits for over 60 years.
    pub(super) fn new(rate: Rate, times: u64) -> Self {
        let (digits, exponent) = decimal(rate.get());
        let digits = digits.saturating_mul(u128::from(times));
        let power = |exponent: u32| 10u128.saturating_pow(exponent);
        let (messages, seconds) = if exponent >= 0 {
            (digits.saturating_mul(power(exponent.unsigned_abs())), 1)
        } else {
            (digits, power(exponent.unsigned_abs()))
        };
        let nanos = seconds.saturating_mul(1_000_000_000);
        let divisor = gcd(messages, nanos).max(1);
        Self {
            messages: (messages / divisor).max(1),
            nanos: nanos / divisor,
        }
    }

    /// When this many messages are due: whole nanoseconds, and the remainder in parts of `self.messages`.
    fn split(self, messages: u64) -> (u64, u128) {
        let nanos = u128::from(messages) * self.nanos;
        let whole = u64::try_from(nanos / self.messages).unwrap_or(u64::MAX);
        (whole, nanos % self.messages)
    }

    /// Messages due until `t` ns after the start.
    pub(super) fn until(self, t: u64) -> f64 {
        let product = u128::from(t) * self.messages;
        (product / self.nanos) as f64 + (product % self.nanos) as f64 / self.nanos as f64
    }

    /// Every `step`-th instant from message `first` on.
    pub(super) fn even_steps(self, first: u64, step: u64) -> (u64, EvenSteps) {
        let (offset, rest) = self.split(first);
        let (step, step_rest) = self.split(step.max(1));
        let even_steps = EvenSteps {
            rest,
            step,
            step_rest,
            modulus: self.messages,
        };
        (offset, even_steps)
    }
}

/// From one instant to the next. Each is the exact one rounded down to nanoseconds; the remainder
/// is carried, so rounding never adds up.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvenSteps {
    rest: u128,
    step: u64,
    step_rest: u128,
    modulus: u128,
}

impl EvenSteps {
    #[inline]
    pub(super) const fn after(&mut self, due: u64) -> u64 {
        let due = due.saturating_add(self.step);
        self.rest += self.step_rest;
        if self.rest >= self.modulus {
            self.rest -= self.modulus;
            due.saturating_add(1)
        } else {
            due
        }
    }

    /// Passes over what is due before `end`, at most so many, from an instant before `end` on: how many, and the
    /// instant after them.
    pub(super) fn pass(&mut self, due: u64, end: u64, most: u64) -> (u64, u64) {
        // In parts of a nanosecond, of which there are `modulus`.
        let step = u128::from(self.step)
            .saturating_mul(self.modulus)
            .saturating_add(self.step_rest);
        let until = u128::from(end - due).saturating_mul(self.modulus) - self.rest;
        let count = until.div_ceil(step.max(1)).min(u128::from(most)) as u64;
        let passed = u128::from(count)
            .saturating_mul(step)
            .saturating_add(self.rest);
        self.rest = passed % self.modulus;
        let passed = u64::try_from(passed / self.modulus).unwrap_or(u64::MAX);
        (count, due.saturating_add(passed))
    }
}

const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
