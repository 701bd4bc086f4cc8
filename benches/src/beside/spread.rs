//! A figure of several rounds: its median and its quartiles.

use std::fmt;

/// Median and quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    /// First quartile.
    pub low: f64,
    /// Third quartile.
    pub high: f64,
}

impl Spread {
    /// Of at least one value; quantiles between two values are interpolated (type 7 of Hyndman and Fan, 1996, as in R).
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let quantile = |q: f64| {
            let at = q * (values.len() as f64 - 1.0);
            let (below, above) = (at.floor() as usize, at.ceil() as usize);
            values[below] + (values[above] - values[below]) * at.fract()
        };
        Self {
            median: quantile(0.5),
            low: quantile(0.25),
            high: quantile(0.75),
        }
    }

    /// Converts to another unit.
    pub fn times(self, factor: f64) -> Self {
        Self {
            median: self.median * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }
}

/// `4.2 (3.9 to 4.6)`.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let Self { median, low, high } = self;
        write!(f, "{median:.digits$} ({low:.digits$} to {high:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    fn of(values: &[f64]) -> (f64, f64, f64) {
        let spread = Spread::of(values.iter().copied());
        (spread.low, spread.median, spread.high)
    }

    /// R: `quantile(c(7, 15, 36, 39, 40, 41))`.
    #[test]
    fn quartiles_are_those_of_r() {
        assert_eq!(
            of(&[41.0, 7.0, 39.0, 15.0, 36.0, 40.0]),
            (20.25, 37.5, 39.75)
        );
        assert_eq!(of(&[5.0, 1.0, 3.0, 2.0, 4.0]), (2.0, 3.0, 4.0));
        assert_eq!(of(&[3.0]), (3.0, 3.0, 3.0));
    }

    #[test]
    fn a_spread_is_written_with_its_quartiles() {
        let spread = Spread::of([0.01, 0.02, 0.03].into_iter()).times(100.0);
        assert_eq!(format!("{spread}"), "2.0 (1.5 to 2.5)");
        assert_eq!(format!("{spread:.0}"), "2 (2 to 2)");
    }
}
