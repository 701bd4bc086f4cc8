//! Numbers in sentences.

use measure::Nanos;

/// What to put before a lower bound.
pub(super) const fn at_least(lower_bound: bool) -> &'static str {
    if lower_bound { "at least " } else { "" }
}

/// Three significant digits, grouped: `3.11 M`, `54,800`, `12.5`.
pub(super) fn rate(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.log10().floor() as i32;
    if magnitude >= 6 {
        return format!("{} M", plain(value / 1e6, magnitude - 6));
    }
    if magnitude < 3 {
        return plain(value, magnitude);
    }
    let unit = 10f64.powi(magnitude - 2);
    count(((value / unit).round() * unit) as u64)
}

fn plain(value: f64, magnitude: i32) -> String {
    let decimals = usize::try_from(2 - magnitude).unwrap_or(0);
    format!("{value:.decimals$}")
}

/// A whole number, grouped by thousands.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(super) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value > 0.0 && value < 0.05 {
        "under 0.1 %".to_owned()
    } else if value > 0.0 && value < 9.95 {
        format!("{value:.1} %")
    } else {
        format!("{value:.0} %")
    }
}

pub(super) fn duration(ns: u64) -> String {
    Nanos(ns).to_string()
}

pub(super) fn seconds(seconds: f64) -> String {
    Nanos::from_secs_f64(seconds.max(0.0)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(rate(3_114_000.0), "3.11 M");
        assert_eq!(rate(54_812.0), "54,800");
        assert_eq!(rate(999.6), "1000");
        assert_eq!(rate(12.49), "12.5");
        assert_eq!(rate(0.0), "0");
        assert_eq!(rate(f64::NAN), "0");
        assert_eq!(percent(0.051), "5.1 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
