//! Charts of live tables: sparklines as long as the screen is wide, each with its scale, and a histogram of latencies.

use hdrhistogram::Histogram;
use measure::{Metric, Nanos};

use super::table::{GAP, Table};
use super::text::{Style, fit_middle, right, sanitise, width};
use crate::numbers::{count, percent_digits};

/// Values that a sparkline keeps: a column each on the widest screen.
pub(super) const MOST_VALUES: usize = 200;
/// Columns that a sparkline and its head need.
const LEAST_ROOM: usize = 15;
/// Columns for which long names are shortened.
const WANTED_ROOM: usize = 24;
/// Values that a sparkline shows before its scale is left out.
const LEAST_VALUES: usize = 8;
/// Parts into which a histogram divides the range of all latencies; each row is of as many of them.
const PARTS: usize = 24;
/// Rows of a histogram: the first number that has room, each a divisor of [`PARTS`].
const ROWS: [usize; 3] = [8, 6, 4];
/// Columns of the name of a latency, and the part of a wide screen that it may fill.
const MOST_NAME: usize = 30;
const NAME_PART: usize = 3;
/// Columns below which bars are left out.
const LEAST_BAR: usize = 8;

/// Values of a figure over time, for a sparkline in its row.
#[derive(Debug)]
pub(super) struct Trend {
    /// Oldest first; not a number where nothing came.
    values: Vec<f64>,
    /// Text of a value of the scale.
    written: fn(f64) -> String,
}

impl Trend {
    pub(super) fn new(values: impl IntoIterator<Item = f64>, written: fn(f64) -> String) -> Self {
        Self { values: values.into_iter().collect(), written }
    }

    fn last(&self, number: usize) -> impl Iterator<Item = f64> {
        let skipped = self.values.len().saturating_sub(number);
        self.values.iter().copied().skip(skipped)
    }

    /// Smallest and largest of the last values, the unit once: `3.01–3.23 ms`. Empty where there is none.
    fn scale(&self, number: usize) -> String {
        let known = || self.last(number).filter(|value| value.is_finite());
        let Some(largest) = known().reduce(f64::max) else { return String::new() };
        let most = (self.written)(largest);
        let least = (self.written)(known().fold(largest, f64::min));
        if least == most {
            return most;
        }
        match (least.split_once(' '), most.split_once(' ')) {
            (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}–{most}"),
            _ => format!("{least}–{most}"),
        }
    }
}

/// Columns for trends beside a table whose first column is shortened to `least` only so far as trends need.
pub(super) fn room_for_trends(table: &Table, columns: usize, least: usize) -> usize {
    let shortened = table.room(columns, least).min(WANTED_ROOM);
    table.room(columns, usize::MAX).max(shortened)
}

/// Adds a last column of sparklines, a row each, as long as they have room beside their scales. `head` names the time
/// of that many values; `unit` stands behind it where there is room. Adds nothing where there is none for either.
pub(super) fn add_trends(table: &mut Table, trends: &[Trend], room: usize, head: impl Fn(usize) -> String, unit: &str) {
    let longest = trends.iter().map(|trend| trend.values.len()).max().unwrap_or(0).min(MOST_VALUES).min(room);
    if room < LEAST_ROOM || longest == 0 {
        return;
    }
    let with_scales = values_beside_scales(trends, longest, room).filter(|number| *number >= LEAST_VALUES.min(longest));
    let number = with_scales.unwrap_or(longest);
    let cells = trends.iter().map(|trend| {
        if trend.values.is_empty() {
            return String::new();
        }
        let drawn = right(&sparkline(trend.last(number)), number);
        match with_scales {
            Some(_) => format!("{drawn}{}{}", " ".repeat(GAP), trend.scale(number)),
            None => drawn,
        }
    });
    let (short, whole) = (head(number), format!("{}{unit}", head(number)));
    let head = if width(&whole) <= room { whole } else { short };
    table.column(&head, cells.collect());
}

/// How many values have room beside their scales; `None` where there is none for any.
fn values_beside_scales(trends: &[Trend], longest: usize, room: usize) -> Option<usize> {
    let mut number = longest;
    while number > 0 {
        let scales = trends.iter().map(|trend| width(&trend.scale(number)));
        let beside = room.saturating_sub(GAP + scales.max().unwrap_or(0));
        if number <= beside {
            return Some(number);
        }
        number = beside.min(number - 1);
    }
    None
}

/// The values as bars of height relative to the largest, oldest at the left. Zero and absent
/// values are blank-based: `▁`. What is no number is blank: nothing came then.
fn sparkline(values: impl IntoIterator<Item = f64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let values: Vec<f64> = values.into_iter().collect();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: f64| {
        if value.is_nan() {
            return ' ';
        }
        let height = if largest > 0.0 { value / largest * 7.0 } else { 0.0 };
        BARS.get(height.round() as usize).copied().unwrap_or('█')
    };
    values.into_iter().map(bar).collect()
}

/// Latencies of one metric in parts of equal width on a logarithmic scale, from the smallest latency to the largest.
#[derive(Debug)]
pub(super) struct LatencyHistogram {
    metric: Metric,
    least_ns: f64,
    most_ns: f64,
    parts: [u64; PARTS],
}

impl LatencyHistogram {
    /// Reads a histogram in nanoseconds; `None` where it is empty.
    pub(super) fn of(metric: Metric, histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let least_ns = histogram.min().max(1) as f64;
        let most_ns = (histogram.max() as f64).max(least_ns);
        let each = (most_ns / least_ns).ln() / PARTS as f64;
        let mut parts = [0; PARTS];
        for step in histogram.iter_recorded() {
            let above = (step.value_iterated_to() as f64 / least_ns).ln();
            // Equal latencies have parts of no width.
            let part = if each > 0.0 { above / each } else { 0.0 };
            // A latency at the upper bound of a part belongs to it.
            let part = (part.ceil() as usize).saturating_sub(1).min(PARTS - 1);
            if let Some(number) = parts.get_mut(part) {
                *number += step.count_at_value();
            }
        }
        Some(Self { metric, least_ns, most_ns, parts })
    }

    /// Upper bounds of so many rows, and the latencies of each; rows of one text are one.
    fn rows(&self, number: usize) -> Vec<(String, u64)> {
        let mut rows: Vec<(String, u64)> = Vec::new();
        for (parts, row) in self.parts.chunks(PARTS / number).zip(1_u32..) {
            let share = f64::from(row) / number as f64;
            let bound = self.least_ns * (self.most_ns / self.least_ns).powf(share);
            let bound = Nanos(bound.round() as u64).to_string();
            let latencies: u64 = parts.iter().sum();
            match rows.last_mut() {
                Some((before, sum)) if *before == bound => *sum += latencies,
                _ => rows.push((bound, latencies)),
            }
        }
        rows
    }

    /// The head, at most eight rows and, if there is room, a blank line; no lines where four rows have no room.
    pub(super) fn lines(&self, room: usize, span: &str, style: Style) -> Vec<String> {
        let Some(number) = ROWS.into_iter().find(|rows| *rows < room) else { return Vec::new() };
        let rows = self.rows(number);
        let all: u64 = self.parts.iter().sum();
        let largest = rows.iter().map(|(_, latencies)| *latencies).max().unwrap_or(0).max(1);
        let name = sanitise(self.metric.name());
        let most = MOST_NAME.max(style.columns / NAME_PART);
        let head = format!("{} up to", fit_middle(&name, most));
        let mut table = Table::of("|share %|      count").titled(0, &head);
        for (bound, latencies) in &rows {
            let share = *latencies as f64 / all.max(1) as f64;
            table.row(vec![bound.clone(), percent_digits(share), count(*latencies)]);
        }
        let longest = table.room(style.columns, usize::MAX);
        if longest >= LEAST_BAR {
            let bar = |(_, latencies): &(String, u64)| {
                let length = *latencies as f64 / largest as f64 * longest as f64;
                // What there is can be seen, however little it is.
                "■".repeat((length.round() as usize).max(usize::from(*latencies > 0)))
            };
            table.column(span, rows.iter().map(bar).collect());
        }
        let mut lines = table.faint_lines(style);
        if lines.len() < room {
            lines.push(String::new());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use measure::new_histogram;

    use super::*;
    use crate::numbers::rate;

    #[test]
    fn sparklines_scale_to_the_largest_and_name_the_smallest_and_the_largest_value() {
        assert_eq!(sparkline([0.0, 50.0, 100.0]), "▁▅█");
        assert_eq!(sparkline([0.0, 0.0]), "▁▁");
        assert_eq!(sparkline([1.0, f64::NAN, 1.0]), "█ █");
        let ms = |value: f64| Nanos((value * 1e6) as u64).to_string();
        let of = |values: &[f64], written: fn(f64) -> String| Trend::new(values.iter().copied(), written);
        assert_eq!(of(&[3.01, f64::NAN, 3.23], ms).scale(3), "3.01–3.23 ms");
        assert_eq!(of(&[0.301, 3.23], ms).scale(2), "301 µs–3.23 ms");
        assert_eq!(of(&[0.301, 3.23], ms).scale(1), "3.23 ms");
        assert_eq!(of(&[8_114.0, 8_110.0], rate).scale(2), "8,110");
        assert_eq!(of(&[0.0, 1_284_700.0], rate).scale(2), "0–1.28 M");
        assert_eq!(of(&[f64::NAN], ms).scale(1), "");
    }

    #[test]
    fn sparklines_are_as_long_as_the_room_beside_their_scales() {
        let values = || (0..300).map(f64::from);
        for room in 0..300 {
            let mut table = Table::of("name<");
            table.row(vec!["sent".to_owned()]);
            table.row(vec!["none".to_owned()]);
            let trends = [Trend::new(values(), rate), Trend::new([], rate)];
            let head = |last: usize| format!("last {last} s");
            add_trends(&mut table, &trends, room, head, ", msg/s");
            let lines = table.lines(usize::MAX);
            let added = width(&lines[1]).saturating_sub("sent  ".len());
            assert!(added <= room, "{room}: {lines:#?}");
            assert_eq!(lines[2], "none");
            if room < LEAST_ROOM {
                assert_eq!(lines[0], "name");
                continue;
            }
            let number = lines[1].chars().filter(|c| ('▁'..='█').contains(c)).count();
            assert!(lines[0].starts_with(&format!("name  last {number} s")));
            let beside = room - "  300–299".chars().count();
            if beside < LEAST_VALUES {
                assert_eq!(number, room, "the scale gives way: {lines:#?}");
                continue;
            }
            assert!(lines[1].ends_with("–299"), "{room}: {lines:#?}");
            assert_eq!(number, beside.min(MOST_VALUES));
            assert!(lines[0].ends_with(" s, msg/s"), "{room}: {lines:#?}");
        }
    }

    #[test]
    fn a_histogram_has_every_latency_once_and_names_the_largest() {
        let metric = Metric::END_TO_END;
        assert!(LatencyHistogram::of(metric, &new_histogram()).is_none());
        let mut histogram = new_histogram();
        for (us, number) in [(100, 900), (200, 90), (5_000, 9), (250_000, 1)] {
            histogram.record_n(us * 1_000, number).unwrap();
        }
        let of = LatencyHistogram::of(metric, &histogram).unwrap();
        for number in ROWS {
            let rows = of.rows(number);
            assert_eq!(rows.len(), number);
            assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), 1_000);
            assert_eq!(rows.last().unwrap(), &("250 ms".to_owned(), 1));
        }
        let columns = 60;
        let style = Style { columns, ..Style::PLAIN };
        assert!(of.lines(4, "measured", style).is_empty());
        for (room, rows) in [(5, 4), (6, 4), (7, 6), (8, 6), (9, 8), (99, 8)] {
            let lines = of.lines(room, "measured", style);
            assert_eq!(lines.len(), room.min(rows + 2), "{lines:#?}");
            assert!(lines[0].starts_with("end-to-end up to"), "{lines:#?}");
            assert!(lines.iter().all(|line| width(line) <= columns), "{lines:#?}");
            assert_eq!(width(&lines[1]), columns, "the most fill the line");
            assert!(lines[rows].ends_with(" 1  ■"), "{lines:#?}");
        }
        // Equal ones are one row.
        let mut histogram = new_histogram();
        histogram.record_n(4_210_000, 8_114).unwrap();
        let of = LatencyHistogram::of(Metric::ACK_RESPONSE, &histogram).unwrap();
        assert_eq!(of.rows(8), [("4.21 ms".to_owned(), 8_114)]);
    }
}
