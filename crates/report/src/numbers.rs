//! How numbers are written in the terminal and in sentences, but for `perf-test`'s and `artemis perf`'s formats.

use archive::{QuantityUnit, RequirementOutcome, SeriesUnit};
use measure::{LatencySummary, Nanos};
pub(crate) use measure::{count, counted};
use stacks::ProfileHeader;

/// Three significant digits: `54,800`, `812`, `8.20`, `0.04`; `0` for nothing or for nonsense.
pub fn three_digits(value: f64) -> String {
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

/// A rate in a sentence: `3.11 M`, `54,800`, `12.5`.
pub fn rate(value: f64) -> String {
    if value >= 999_500.0 && value.is_finite() { three_digits(value / 1e6) + " M" } else { three_digits(value) }
}

pub(crate) const fn at_least(lower_bound: bool) -> &'static str {
    if lower_bound { "at least " } else { "" }
}

/// Nanoseconds in the unit that suits them.
pub(crate) fn duration(ns: u64) -> String {
    Nanos(ns).to_string()
}

/// Seconds in the unit that suits them.
pub(crate) fn seconds(seconds: f64) -> String {
    Nanos::from_secs_f64(seconds.max(0.0)).to_string()
}

/// Seconds as a number, without digits that say nothing: `60`, `59.9`, `0.42`.
pub(crate) fn seconds_digits(value: f64) -> String {
    let text = three_digits(value);
    match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|b| b == b'0') => whole.to_owned(),
        _ => text,
    }
}

/// A share (0 to 1) in a sentence: `under 0.1 %`, `5.1 %`, `99.6 %`. All is `100 %`, and nothing less.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value > 0.0 && value < 0.05 {
        "under 0.1 %".to_owned()
    } else if NEARLY_ALL.contains(&share) {
        format!("{} %", (share * 1e4).floor() / 100.0)
    } else if value > 0.0 && value < 9.95 {
        format!("{value:.1} %")
    } else {
        format!("{value:.0} %")
    }
}

/// Shares that are less than all and would round to it; the rest is an error of sums.
const NEARLY_ALL: std::ops::Range<f64> = 0.9949..1.0 - 1e-9;

/// A share (0 to 1) as a percentage without its sign: `9.50`, `0.02`, `100`.
pub(crate) fn percent_digits(share: f64) -> String {
    let value = share * 100.0;
    match NEARLY_ALL.contains(&share) {
        true => format!("{:.2}", (share * 1e4).floor() / 100.0),
        false if value >= 99.95 => format!("{value:.0}"),
        false => format!("{value:.2}"),
    }
}

/// Instead of the smallest visible change, and of an interval.
pub(crate) const TOO_FEW_RUNS: &str = "too few runs";

/// How slow it was: `p99 31.0 ms`, of fewer samples the highest supported percentile, of few `max 9.10 ms`.
pub(crate) fn slowest(of: &LatencySummary) -> String {
    let told = [(99.0, "p99", of.p99_ns), (90.0, "p90", of.p90_ns), (50.0, "p50", of.p50_ns)];
    let (_, name, ns) = told.into_iter().find(|it| of.supports(it.0)).unwrap_or((100.0, "max", of.max_ns));
    format!("{name} {}", Nanos(ns))
}

/// Meaning of a percentile's mark.
pub(crate) const FOOTNOTE: &str = "~ fewer than ten samples lie beyond this percentile";

/// A latency, with the mark of one that too few samples support.
pub(crate) fn marked(ns: u64, supported: bool) -> String {
    let value = Nanos(ns);
    if supported { value.to_string() } else { format!("~{value}") }
}

/// A percentile by its name, such as `p99`, with a mark where too few samples support it.
pub(crate) fn percentile(of: &LatencySummary, name: &str) -> String {
    let found = LatencySummary::PERCENTILES.into_iter().zip(of.percentile_values()).find(|((_, it), _)| *it == name);
    found.map_or_else(String::new, |((percentile, _), ns)| marked(ns, of.supports(percentile)))
}

/// Bytes in the SI unit that suits them: `812 B`, `1.20 MB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (mut value, mut units) = (bytes as f64 / 1e3, UNITS.into_iter());
    let mut unit = units.next().unwrap_or_default();
    while value >= 999.5
        && let Some(larger) = units.next()
    {
        (value, unit) = (value / 1e3, larger);
    }
    format!("{} {unit}", three_digits(value))
}

/// A raw value: whole numbers whole, others with three decimals.
pub(crate) fn value_as_it_is(value: f64) -> String {
    let is_whole = value.fract() == 0.0 && value.abs() < 1e15;
    match (is_whole, value.is_sign_negative() && value != 0.0) {
        (true, false) => count(value as u64),
        (true, true) => format!("-{}", count(-value as u64)),
        (false, _) if value.is_finite() && (1e-3..1e15).contains(&value.abs()) => format!("{value:.3}"),
        (false, _) => format!("{value:e}"),
    }
}

/// A value of a series with its unit: `12,345`, `12.5/s`, `1.20 MB`, `0.42 cores`.
pub(crate) fn series_value(value: f64, unit: SeriesUnit) -> String {
    let is_size = value.is_finite() && value >= 0.0;
    match unit {
        SeriesUnit::PerSecond => format!("{}/s", rate(value)),
        SeriesUnit::Bytes if is_size => bytes(value as u64),
        SeriesUnit::BytesPerSecond if is_size => format!("{}/s", bytes(value as u64)),
        SeriesUnit::Cores => format!("{} cores", three_digits(value)),
        SeriesUnit::Share if is_size => percent(value),
        _ => value_as_it_is(value),
    }
}

/// Weight of samples in the unit of their event: `1,234 calls`, `1.20 MB`, `3.40 s`.
pub(crate) fn weight(weight: u64, unit: &str) -> String {
    match unit {
        "nanoseconds" => duration(weight),
        "bytes" => bytes(weight),
        "" | "samples" => counted(weight, "sample"),
        ProfileHeader::WEIGHT => format!("a weight of {}", count(weight)),
        unit => format!("{} {unit}", count(weight)),
    }
}

/// Head of a column of weights: `calls`, `ms`.
pub(crate) fn weight_head(unit: &str) -> &str {
    match unit {
        "nanoseconds" => "ms",
        "" => "samples",
        unit => unit,
    }
}

/// A weight below [`weight_head`].
pub(crate) fn weight_digits(weight: u64, unit: &str) -> String {
    if unit == "nanoseconds" { three_digits(weight as f64 / 1e6) } else { count(weight) }
}

/// Observed value of a requirement, at which probe where several were asked, or why it cannot be told.
pub(crate) fn observed(requirement: &RequirementOutcome) -> String {
    let Some(value) = requirement.observed else {
        return requirement.why.clone().unwrap_or_else(|| "it was not measured".to_owned());
    };
    let value = apart(value, requirement.bound, requirement.unit);
    match &requirement.decided_by {
        Some(probe) => format!("{value} (probe {probe})"),
        None => value,
    }
}

/// A value with digits enough to be told from another: `0.0423 cores` missed 0.042, and `0.04 cores` seems to meet it.
fn apart(value: f64, other: f64, unit: QuantityUnit) -> String {
    let usual = figure(value, unit);
    if value == other || usual != figure(other, unit) {
        return usual;
    }
    match unit {
        QuantityUnit::Ns => format!("{} ns", count(value.round() as u64)),
        QuantityUnit::PerSecond => format!("{value:.3}/s"),
        QuantityUnit::Share => format!("{:.4} %", value * 100.0),
        QuantityUnit::Count => value.to_string(),
        QuantityUnit::Bytes => format!("{} bytes", count(value.round() as u64)),
        QuantityUnit::Cores => format!("{value:.4} cores"),
    }
}

pub(crate) fn bound(requirement: &RequirementOutcome) -> String {
    figure(requirement.bound, requirement.unit)
}

pub(crate) fn figure(value: f64, unit: QuantityUnit) -> String {
    match unit {
        QuantityUnit::Ns => duration(value.round() as u64),
        QuantityUnit::PerSecond => format!("{}/s", three_digits(value)),
        QuantityUnit::Share => percent(value),
        QuantityUnit::Count if value.fract() != 0.0 => three_digits(value),
        QuantityUnit::Count => count(value as u64),
        QuantityUnit::Bytes => bytes(value.round() as u64),
        QuantityUnit::Cores => format!("{} cores", three_digits(value)),
    }
}

/// Counts other than 0, in words: `3 failed`.
pub(crate) fn nonzero(all: &[(u64, &str)]) -> Vec<String> {
    let there = all.iter().filter(|(number, _)| *number > 0);
    there.map(|(number, what)| format!("{} {what}", count(*number))).collect()
}

/// How many there were per second; 0 in no time at all.
pub(crate) fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::requirement;

    /// Of a probe called `100` it was `16 of 100`, and in a row of its own it stands in brackets.
    #[test]
    fn a_probe_is_no_number_whatever_its_name() {
        let (unit, decided_by) = (QuantityUnit::Count, Some("100".to_owned()));
        let of = RequirementOutcome { unit, decided_by, ..requirement("", None, Some(16.0)) };
        assert_eq!(observed(&of), "16 (probe 100)");
    }

    /// `missed: 0.04 cores` stood beside `broker cores <= 0.042`.
    #[test]
    fn a_value_that_missed_is_told_from_its_bound() {
        for (unit, value, bound, text) in [
            (QuantityUnit::Cores, 0.0423, 0.042, "0.0423 cores"),
            (QuantityUnit::Share, 0.004_012, 0.004, "0.4012 %"),
            (QuantityUnit::Share, 0.9992, 1.0, "99.92 %"),
            (QuantityUnit::Share, 0.999_999, 1.0, "99.99 %"),
            (QuantityUnit::Ns, 1_000_100.0, 1e6, "1,000,100 ns"),
            (QuantityUnit::PerSecond, 9_999.5, 1e4, "9999.500/s"),
            (QuantityUnit::Cores, 0.5, 0.042, "0.50 cores"),
        ] {
            let of = RequirementOutcome { observed: Some(value), bound, unit, ..RequirementOutcome::default() };
            assert_eq!(observed(&of), text);
        }
    }

    /// A percentile that the table marks is no headline: of 30 samples the 99th is the largest.
    #[test]
    fn a_headline_takes_the_highest_percentile_that_the_sample_supports() {
        let (p50_ns, p90_ns, p99_ns, max_ns) = (2_000_000, 9_000_000, 423_000_000, 424_000_000);
        let of = |count| LatencySummary { count, p50_ns, p90_ns, p99_ns, max_ns, ..LatencySummary::default() };
        for (count, told) in
            [(1_000, "p99 423 ms"), (999, "p90 9.00 ms"), (100, "p90 9.00 ms"), (30, "p50 2.00 ms"), (19, "max 424 ms")]
        {
            assert_eq!(slowest(&of(count)), told, "{count}");
        }
    }

    #[test]
    fn numbers_keep_three_digits_and_read_well_in_sentences() {
        let values = [0.0, f64::NAN, 0.042, 8.2, 54.78, 812.4, 999.7, 54_812.0, 1_284_700.0].map(three_digits);
        assert_eq!(values, ["0", "0", "0.04", "8.20", "54.8", "812", "1,000", "54,800", "1,280,000"]);
        assert_eq!(count(3_288_000), "3,288,000");
        assert_eq!(count(12), "12");
        assert_eq!(percent_digits(0.0669), "6.69");
        assert_eq!(percent_digits(1.0), "100");
        let rates = [3_114_000.0, 54_812.0, 999.6, 12.49, 0.0, f64::NAN].map(rate);
        assert_eq!(rates, ["3.11 M", "54,800", "1,000", "12.5", "0", "0"]);
        assert_eq!(percent(0.051), "5.1 %");
        // `100 %` stood in a sentence on a rate that was not met.
        let shares = [0.996, 0.9996, 0.999_999, 1.0 - 1e-12, 1.0, 1.04].map(percent);
        assert_eq!(shares, ["99.6 %", "99.96 %", "99.99 %", "100 %", "100 %", "104 %"]);
        assert_eq!([0.996, 0.9996].map(percent_digits), ["99.60", "99.96"]);
        let sizes = [0, 999, 1_000, 999_600, 1_204_000, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0 B", "999 B", "1.00 kB", "1.00 MB", "1.20 MB", "18,400 PB"]);
    }
}
