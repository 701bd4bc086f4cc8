//! The series in InfluxDB's line protocol: `measurement,tag=value field=value nanoseconds`.

use std::fmt::Write as _;

use super::open_metrics::suffix;
use super::snapshot::{BOUNDS, Durations, Labels, Snapshot, Value};

/// All series at one time, one line each. Names are those of the OpenMetrics page.
pub(super) fn lines(snapshot: &Snapshot, unix_ns: u64) -> Vec<u8> {
    let mut out = String::new();
    for (name, family) in snapshot.families() {
        let name = match suffix(family.unit) {
            Some(unit) => format!("{name}_{unit}"),
            None => name.to_owned(),
        };
        for (labels, value) in &family.members {
            // A name is letters, digits and `_`.
            out.push_str(&name);
            tags(labels, &mut out);
            out.push(' ');
            fields(value, &mut out);
            // Writing to a string cannot fail.
            let _ = writeln!(out, " {unix_ns}");
        }
    }
    out.into_bytes()
}

/// Tags need a value; commas, blanks and equals signs are escaped. A line cannot hold a line break, and a backslash at
/// the end of a value would escape the next character.
fn tags(labels: &Labels, out: &mut String) {
    for (key, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(out, ",{key}=");
        for c in value.chars() {
            match c {
                ',' | ' ' | '=' => out.extend(['\\', c]),
                '\\' => out.push('/'),
                c if c.is_control() => out.push('_'),
                c => out.push(c),
            }
        }
    }
}

fn fields(value: &Value, out: &mut String) {
    let _ = match value {
        Value::Gauge(value) => write!(out, "gauge={value}"),
        Value::Total(total) => write!(out, "counter={total}"),
        Value::Durations(durations) => durations_of(durations, out),
    };
}

/// Count, sum, and how many were no longer than each bound, as Telegraf writes them.
fn durations_of(durations: &Durations, out: &mut String) -> std::fmt::Result {
    write!(out, "count={},sum={}", durations.count(), durations.sum_s)?;
    let mut below = 0;
    for (bound, count) in BOUNDS.iter().zip(durations.counts) {
        below += count;
        write!(out, ",{bound}={below}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use archive::{SeriesName, SeriesUnit};

    use super::*;

    #[test]
    fn names_cannot_end_a_tag_or_a_line() {
        let mut snapshot = Snapshot::new("my run");
        let series = SeriesName::new("page", "ready", SeriesUnit::Count);
        let series = series.with("queue", "a,b=c d\ne\\").with("vhost", "");
        snapshot.tell(&[(series, 2.5)]);
        let text = String::from_utf8(lines(&snapshot, 17)).unwrap();
        let expected =
            "bellows_page_ready,experiment=my\\ run,queue=a\\,b\\=c\\ d_e/ gauge=2.5 17\n";
        assert_eq!(text, expected);
    }
}
