//! A constant rate, exact for any decimal number: `t_i = i / rate`.

use measure::Rate;

/// A constant rate: `messages` in every `nanos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constant {
    messages: u128,
    nanos: u128,
}

impl Constant {
    /// Takes the rate as the decimal number that it prints as, for each of `times` producers. Plans keep the whole
    /// between 1e-6 and 1e9, for which all products below stay within 128 bits for over 60 years.
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
        Self { messages: (messages / divisor).max(1), nanos: nanos / divisor }
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
        let even_steps = EvenSteps { rest, step, step_rest, modulus: self.messages };
        (offset, even_steps)
    }
}

/// From one instant to the next, each the exact one rounded down to nanoseconds; the remainder is carried.
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

    /// Passes over what is due before `end`, at most so many, from an earlier instant: how many, and the next one.
    pub(super) fn pass(&mut self, due: u64, end: u64, most: u64) -> (u64, u64) {
        // In parts of a nanosecond, of which there are `modulus`.
        let step = u128::from(self.step).saturating_mul(self.modulus).saturating_add(self.step_rest);
        let until = u128::from(end - due).saturating_mul(self.modulus) - self.rest;
        let count = until.div_ceil(step.max(1)).min(u128::from(most)) as u64;
        let passed = u128::from(count).saturating_mul(step).saturating_add(self.rest);
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

/// The shortest decimal number that reads back as `value`: digits and power of ten.
pub(super) fn decimal(value: f64) -> (u128, i32) {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let fraction_digits = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i32);
    let digits =
        mantissa.bytes().filter(u8::is_ascii_digit).fold(0u128, |digits, byte| digits * 10 + u128::from(byte - b'0'));
    (digits, exponent.parse::<i32>().unwrap_or(0) - fraction_digits)
}

/// `value` in billionths, where it is a decimal number of at most nine places from 0 to `most`.
pub(super) fn billionths(value: f64, most: u64) -> Option<u64> {
    if !value.is_finite() || value < 0.0 {
        return None;
    }
    let (digits, exponent) = decimal(value);
    let power = u32::try_from(exponent + 9).ok()?;
    let all = digits.checked_mul(10u128.checked_pow(power)?)?;
    u64::try_from(all).ok().filter(|all| u128::from(*all) <= u128::from(most) * 1_000_000_000)
}

/// Seconds, written as digits with at most one point, in nanoseconds rounded down.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos = fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(9)
        .fold(0u64, |nanos, byte| nanos * 10 + u64::from(byte - b'0'));
    whole.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn billionths_take_nine_places_and_no_more() {
        assert_eq!(billionths(0.0, 1), Some(0));
        assert_eq!(billionths(33.25, 100), Some(33_250_000_000));
        assert_eq!(billionths(1e-9, 1), Some(1));
        assert_eq!(billionths(1e9, 1_000_000_000), Some(1_000_000_000_000_000_000));
        for bad in [1.5e-9, 1e-10, -1.0, f64::NAN, f64::INFINITY, 1e300, 100.5] {
            assert_eq!(billionths(bad, 100), None, "{bad}");
        }
    }

    #[test]
    fn seconds_are_read_digit_by_digit() {
        for (text, nanos) in [
            ("0", 0),
            ("12", 12_000_000_000),
            ("0.1", 100_000_000),
            (".5", 500_000_000),
            ("7.", 7_000_000_000),
            ("1.0000000019", 1_000_000_001),
        ] {
            assert_eq!(seconds(text), Some(nanos), "{text}");
        }
        for bad in ["", ".", "-1", "1e3", "1.2.3", "abc", "99999999999999999999"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
