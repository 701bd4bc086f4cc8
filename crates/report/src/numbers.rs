//! How numbers are written, in the terminal and in sentences. The formats of `perf-test` and of
//! `artemis perf` are their originals' and stand with them.

use measure::Nanos;

/// A whole number with separators between thousands: `3,288,000`.
#[must_use]
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits: `54,800`, `812`, `8.20`, `0.04`; `0` for nothing or for nonsense.
#[must_use]
pub(crate) fn three_digits(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return "0".to_owned();
    }
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        ..999.5 => format!("{value:.0}"),
        _ => {
            let unit = 10f64.powi(value.log10().floor() as i32 - 2);
            count(((value / unit).round() * unit) as u64)
        }
    }
}

/// A share (0 to 1) as a percentage without its sign: `9.50`, `0.02`, `100`.
#[must_use]
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value >= 99.95 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// A latency, with the mark of one that too few samples support.
pub(crate) fn marked(ns: u64, supported: bool) -> String {
    let value = Nanos(ns);
    if supported {
        value.to_string()
    } else {
        format!("~{value}")
    }
}

/// How many there were per second; 0 in no time at all.
pub(crate) fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (f64::NAN, "0"),
            (0.042, "0.04"),
            (8.2, "8.20"),
            (54.78, "54.8"),
            (812.4, "812"),
            (999.7, "1,000"),
            (54_812.0, "54,800"),
            (1_284_700.0, "1,280,000"),
        ] {
            assert_eq!(three_digits(value), text);
        }
        assert_eq!(count(3_288_000), "3,288,000");
        assert_eq!(count(12), "12");
        assert_eq!(percent(0.0669), "6.69");
        assert_eq!(percent(1.0), "100");
    }
}
