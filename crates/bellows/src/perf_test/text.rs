//! Values as PerfTest writes them: `a=1,b=2`, `50mb`, `PT10M30S`, `perf-test-%03d`.

use jiff::{Span, SpanRelativeTo};
use load::Argument;

use super::values::bad;
use crate::failure::Failure;

/// Reads `key=value,…`: booleans and integers become such, the rest is text.
pub(super) fn key_values(option: &str, text: &str) -> Result<Vec<(String, Argument)>, Failure> {
    let one = |entry: &str| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        if key.is_empty() {
            return Err(bad(option, text, "key=value, several divided by commas"));
        }
        Ok((key.to_owned(), value_of(key, value)))
    };
    let entries = text.split(',').filter(|entry| !entry.trim().is_empty());
    entries.map(one).collect()
}

fn value_of(key: &str, value: &str) -> Argument {
    if (key, value) == ("x-dead-letter-exchange", "amq.default") {
        // The default exchange has no name that could be written.
        return Argument::Text(String::new());
    }
    let Ok(value) = value.parse();
    value
}

/// Reads `1000`, `50mb`, `20gb`: powers of 1,000.
pub(super) fn byte_capacity(option: &str, text: &str) -> Result<i64, Failure> {
    let lower = text.to_lowercase();
    let units = [("kb", 1), ("mb", 2), ("gb", 3), ("tb", 4)];
    let unit = units.iter().find(|(name, _)| lower.ends_with(name));
    let (digits, factor) = match unit {
        Some((name, power)) => (lower.strip_suffix(name), 1_000i64.pow(*power)),
        None => (Some(lower.as_str()), 1),
    };
    let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse::<i64>().ok());
    number
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| bad(option, text, "bytes, such as 50mb or 100gb"))
}

/// Reads an ISO 8601 duration of days and less, in whole seconds, as `java.time.Duration` does.
pub(super) fn seconds_of_duration(option: &str, text: &str) -> Result<u64, Failure> {
    let iso = Some(text).filter(|text| text.starts_with(['P', 'p']));
    let span = iso.and_then(|text| text.parse::<Span>().ok());
    span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok())
        .and_then(|length| u64::try_from(length.as_secs()).ok())
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| {
            let needed = "an ISO 8601 duration above 0, such as PT15M or P5DT8H";
            bad(option, text, needed)
        })
}

/// `%d`, `%5d` and `%03d` with a number in their place, `%%` for a per cent sign; `None` for
/// anything else, and where there is no number.
pub(super) fn formatted(pattern: &str, number: u32) -> Option<String> {
    let mut text = String::new();
    let mut rest = pattern;
    let mut numbers = 0;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            text.push('%');
            rest = after;
            continue;
        }
        let (width, after) = after.split_once('d')?;
        let zeros = width.starts_with('0');
        let columns = match width {
            "" => 0,
            width => width.parse::<usize>().ok().filter(|n| *n <= 255)?,
        };
        if zeros {
            text.push_str(&format!("{number:0columns$}"));
        } else {
            text.push_str(&format!("{number:columns$}"));
        }
        numbers += 1;
        rest = after;
    }
    text.push_str(rest);
    (numbers > 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_perf_test_reads_them() {
        let pairs = key_values("queue-args", "x-a=1,x-b=true,x-c=text,x-d,x-e=a=b").expect("read");
        let text: Vec<_> = pairs.iter().map(|(k, v)| format!("{k} {v:?}")).collect();
        assert_eq!(
            text,
            [
                "x-a Integer(1)",
                "x-b Flag(true)",
                "x-c Text(\"text\")",
                "x-d Text(\"\")",
                "x-e Text(\"a=b\")"
            ]
        );
        assert!(key_values("queue-args", "=1").is_err());
        for (written, bytes) in [("0", 0), ("50mb", 50_000_000), ("3GB", 3_000_000_000)] {
            assert_eq!(byte_capacity("max-length-bytes", written).ok(), Some(bytes));
        }
        for wrong in ["", "mb", "1.5gb", "-1", "9999999999tb", "5mib"] {
            assert!(byte_capacity("max-length-bytes", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_and_patterns_are_read() {
        for (written, seconds) in [
            ("PT10M30S", 630),
            ("P5DT8H", 460_800),
            ("pt1h", 3_600),
            ("P1D", 86_400),
        ] {
            assert_eq!(seconds_of_duration("max-age", written).ok(), Some(seconds));
        }
        for wrong in [
            "", "P", "PT", "10M", "PT0S", "PTM", "PT1S2M", "P1DT", "PT-1M",
        ] {
            assert!(seconds_of_duration("max-age", wrong).is_err(), "{wrong}");
        }
        for (pattern, name) in [
            ("q-%d", Some("q-7")),
            ("%03d", Some("007")),
            ("%%%3d", Some("%  7")),
            ("q", None),
            ("%x", None),
            ("%", None),
        ] {
            assert_eq!(formatted(pattern, 7).as_deref(), name, "{pattern}");
        }
    }
}
