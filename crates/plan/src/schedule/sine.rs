//! A rate that swings: `mean + amplitude sin(2 pi t / period)`. Whole periods are counted in whole numbers and so are
//! exact. Inside one, `N(t) = mean t + amplitude period / pi sin^2(pi t / period)` is inverted by Newton's method
//! inside a bracket, to less than a nanosecond where the rate is above a hundredth of its mean; where the rate touches
//! zero, to a millionth of a message.

use std::f64::consts::PI;

/// Rates in billionths of a message per second, the period in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sine {
    mean: u64,
    amplitude: u64,
    period: u64,
}

/// Newton's method doubles the digits in each step, halving needs one step per bit: enough for either.
const MOST_STEPS: usize = 80;

impl Sine {
    /// The amplitude is not above the mean, which is above zero, as the period is.
    pub(super) const fn new(mean: u64, amplitude: u64, period: u64) -> Self {
        Self { mean, amplitude, period }
    }

    /// Units of a period.
    fn total(self) -> u128 {
        2 * u128::from(self.mean) * u128::from(self.period)
    }

    /// Units counted until `x` ns into the period, and the rate there in units per ns.
    fn count(self, x: f64) -> (f64, f64) {
        let (mean, amplitude, period) = (self.mean as f64, self.amplitude as f64, self.period as f64);
        let (sin, cos) = (PI * x / period).sin_cos();
        (2.0 * (mean * x + amplitude * period / PI * sin * sin), 2.0 * (mean + amplitude * 2.0 * sin * cos))
    }

    /// See [`super::linear::Linear::instant`].
    pub(super) fn instant(self, units: u128) -> Option<u64> {
        let round = u64::try_from(units.checked_div(self.total())?).ok()?;
        let wanted = (units % self.total()) as f64;
        let (mut low, mut high) = (0.0, self.period as f64);
        let mut x = wanted / self.total() as f64 * high;
        for _ in 0..MOST_STEPS {
            let (count, rate) = self.count(x);
            if count > wanted {
                high = x;
            } else {
                low = x;
            }
            let newton = x - (count - wanted) / rate;
            let next = if newton > low && newton < high { newton } else { low.midpoint(high) };
            let step = (next - x).abs();
            x = next;
            if step < 0.01 {
                break;
            }
        }
        // A result on the edge of a nanosecond is taken for the nanosecond.
        let within = ((x + 0.01) as u64).min(self.period);
        round.checked_mul(self.period)?.checked_add(within)
    }

    /// Messages until `t` ns after the start.
    pub(super) fn until(self, t: u64) -> f64 {
        let (rounds, rest) = (t / self.period, t % self.period);
        let whole = self.total().saturating_mul(u128::from(rounds));
        let unit = super::linear::UNIT;
        let (count, _) = self.count(rest as f64);
        (whole / unit) as f64 + ((whole % unit) as f64 + count) / unit as f64
    }
}
