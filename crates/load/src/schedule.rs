//! When messages are due: `t_i = start + i / rate`, exact over the whole run.
//!
//! The rate is taken as the decimal number that was asked for (0.1 is one tenth, not the binary
//! fraction next to it) and kept as a ratio of integers, so that nothing drifts. Message `i` of a
//! group belongs to producer `i mod P`: each producer has every `P`-th instant of the one common
//! schedule, wherever it runs, and so the total is the total however it is divided.

use measure::{Rate, Time};

/// A constant rate: `messages` in every `nanos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    messages: u128,
    nanos: u128,
}

impl Schedule {
    /// Takes the rate as the decimal number that it prints as. Plans keep rates between 1e-6 and
    /// 1e9, for which all products below stay within 128 bits for over 60 years.
    pub(crate) fn new(rate: Rate) -> Self {
        let (digits, exponent) = decimal(rate.get());
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

    /// The part of the schedule that belongs to one of `producers`: messages `producer`,
    /// `producer + producers`, …
    pub(crate) fn ticker(self, start: Time, producer: u64, producers: u64) -> Ticker {
        let split = |messages: u64| {
            let nanos = u128::from(messages) * self.nanos;
            (saturate(nanos / self.messages), nanos % self.messages)
        };
        let (offset, rest) = split(producer);
        let (step, step_rest) = split(producers.max(1));
        Ticker {
            due: Time(start.0.saturating_add(offset)),
            rest,
            step,
            step_rest,
            modulus: self.messages,
        }
    }
}

/// The due times of one producer, one after the other. Each is the exact one rounded down to
/// nanoseconds; the remainder is carried, so rounding never adds up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticker {
    due: Time,
    rest: u128,
    step: u64,
    step_rest: u128,
    modulus: u128,
}

impl Ticker {
    /// When the next message is due.
    #[inline]
    pub(crate) const fn due(&self) -> Time {
        self.due
    }

    /// Goes on to the message after it.
    #[inline]
    pub(crate) const fn advance(&mut self) {
        self.due.0 = self.due.0.saturating_add(self.step);
        self.rest += self.step_rest;
        if self.rest >= self.modulus {
            self.rest -= self.modulus;
            self.due.0 = self.due.0.saturating_add(1);
        }
    }
}

/// How many of `total` messages belong to one of `producers`.
pub(crate) const fn share(total: u64, producer: u64, producers: u64) -> u64 {
    total / producers + (producer < total % producers) as u64
}

/// The shortest decimal number that reads back as `value`: digits and power of ten.
fn decimal(value: f64) -> (u128, i32) {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let fraction_digits = mantissa
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len() as i32);
    let digits = mantissa
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(0u128, |digits, byte| digits * 10 + u128::from(byte - b'0'));
    (
        digits,
        exponent.parse::<i32>().unwrap_or(0) - fraction_digits,
    )
}

const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rate: f64) -> Schedule {
        Schedule::new(Rate::per_second(rate).unwrap())
    }

    /// All due times of a group up to `count`, as (time, message number), from every producer's
    /// own ticker.
    fn all(rate: f64, producers: u64, count: u64) -> Vec<u64> {
        let mut times = vec![0; count as usize];
        for producer in 0..producers {
            let mut ticker = schedule(rate).ticker(Time(0), producer, producers);
            for k in 0..share(count, producer, producers) {
                times[(producer + k * producers) as usize] = ticker.due().0;
                ticker.advance();
            }
        }
        times
    }

    #[test]
    fn decimals_are_what_was_typed() {
        assert_eq!(decimal(0.1), (1, -1));
        assert_eq!(decimal(20_000.0), (2, 4));
        assert_eq!(decimal(33.25), (3_325, -2));
        assert_eq!(decimal(1e-6), (1, -6));
    }

    /// The definition, computed anew for every message: floor(i * 10^9 / rate).
    #[test]
    fn every_due_time_is_the_exact_one_rounded_down() {
        // Rates as (numerator, denominator) of messages per second.
        for (numerator, denominator) in [
            (1u128, 1u128),
            (3, 1),
            (7, 1),
            (20_000, 1),
            (999_983, 1),
            (1, 10),
            (1, 3),
            (33_333, 1000),
            (10u128.pow(9), 1),
        ] {
            if denominator == 3 {
                continue; // No decimal number is a third; see the next test for what is typed.
            }
            let rate = numerator as f64 / denominator as f64;
            for producers in [1, 2, 3, 7, 64] {
                for (i, time) in all(rate, producers, 5_000).into_iter().enumerate() {
                    let exact = i as u128 * 1_000_000_000 * denominator / numerator;
                    assert_eq!(
                        u128::from(time),
                        exact,
                        "rate {rate}, message {i} of {producers}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_long_run_does_not_drift() {
        // Ten million steps of 33 1/3 us: an error of 1 ns a step would be 10 ms.
        let mut ticker = schedule(30_000.0).ticker(Time(5), 0, 1);
        for _ in 0..10_000_000 {
            ticker.advance();
        }
        assert_eq!(ticker.due(), Time(5 + 10_000_000 * 100_000 / 3));
    }

    #[test]
    fn a_year_at_an_odd_rate_is_within_a_nanosecond() {
        // 0.333 per second, message 10^7 is due after 10^10 / 0.333 ns = 30,030,030.03 s.
        let schedule = schedule(0.333);
        let ticker = schedule.ticker(Time(0), 10_000_000, 1);
        assert_eq!(ticker.due(), Time(30_030_030_030_030_030));
    }

    #[test]
    fn a_rate_below_the_number_of_producers_is_kept() {
        // 10 messages per second over 3 producers, and 1 over 4.
        assert_eq!(all(10.0, 3, 11)[10], 1_000_000_000);
        assert_eq!(
            all(1.0, 4, 6),
            [0, 1, 2, 3, 4, 5].map(|s| s * 1_000_000_000)
        );
        assert_eq!(all(0.25, 3, 3), [0, 4_000_000_000, 8_000_000_000]);
    }

    #[test]
    fn far_futures_saturate() {
        let mut ticker = schedule(1e-6).ticker(Time(u64::MAX - 5), 0, 1);
        ticker.advance();
        assert_eq!(ticker.due(), Time(u64::MAX));
    }

    #[test]
    fn shares_add_up() {
        for total in [0, 1, 9, 10, 11, 1_000_003] {
            for producers in [1, 2, 3, 10, 17] {
                let sum: u64 = (0..producers).map(|p| share(total, p, producers)).sum();
                assert_eq!(sum, total);
            }
        }
    }
}
