//! PerfTest's lines: one an interval, in its formats `default`, `compact` and CSV, and its summary. Percentiles are
//! those of every message; 99.9 and 99.99 stand at the end, in CSV also the maximum that PerfTest lacks.

use std::fmt::Write;

use measure::{Interval, Metric, Nanos};

/// Head of PerfTest's own percentiles; until 2.23 it had no maximum.
const HEADER: &str = "min/median/75th/95th/99th/max";
/// Head of added percentiles.
const MORE: &str = "99.9th/99.99th";

/// Widths of the columns of the format `compact`.
const TIME_WIDTH: usize = 10;
const RATE_WIDTH: usize = 13;
const LATENCY_WIDTH: usize = 27;

/// Columns of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The test has producers.
    pub published: bool,
    /// The test has consumers.
    pub received: bool,
    /// Messages are mandatory.
    pub returned: bool,
    /// Messages are confirmed.
    pub confirmed: bool,
}

impl Columns {
    const fn confirms(self) -> bool {
        self.published && self.confirmed
    }
}

/// The unit that latencies are printed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Millionths of a second.
    #[default]
    Micros,
    /// Thousandths of a second.
    Millis,
}

impl Unit {
    /// Its name, and its nanoseconds.
    const fn of(self) -> (&'static str, u64) {
        match self {
            Self::Micros => ("µs", 1_000),
            Self::Millis => ("ms", 1_000_000),
        }
    }
}

/// How a test is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The test's name.
    pub id: String,
    /// Its columns.
    pub columns: Columns,
    /// The unit of its latencies.
    pub unit: Unit,
}

/// Sums for the averages at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were received.
    pub received: u64,
    /// The time that all that took.
    pub length: Nanos,
}

/// A metric's minimum, median, 75, 95, 99, 99.9, 99.99, maximum in the unit of the lines; all 0 without messages.
type Latencies = [u64; 8];

impl Lines {
    /// The line that announces one channel of a client: `producer` or `consumer`.
    pub fn starting(&self, what: &str, client: usize, channel: Option<usize>) -> String {
        let channel = channel.map_or_else(String::new, |n| format!(", channel #{n}"));
        format!("id: {}, starting {what} #{client}{channel}", self.id)
    }

    /// An interval in the format `default`; `since_start` is the time at its end.
    pub fn default_line(&self, interval: &Interval, since_start: Nanos) -> String {
        let mut line = format!("id: {}, time {} s", self.id, seconds(since_start));
        line.extend(self.rates(interval).map(|(name, rate)| format!(", {name}: {rate} msg/s")));
        let latencies = self.latencies(interval);
        self.latency_part(&mut line, &latencies, HEADER, Self::usual);
        self.latency_part(&mut line, &latencies, MORE, Self::more);
        line
    }

    fn latency_part(
        &self,
        line: &mut String,
        latencies: &[(&str, Latencies)],
        header: &str,
        show: fn(&Self, &Latencies) -> String,
    ) {
        for (i, (name, values)) in latencies.iter().enumerate() {
            let head = if i == 0 { format!("{header} ") } else { String::new() };
            let _ = write!(line, ", {head}{name} latency: {}", show(self, values));
        }
    }

    /// The heading of the format `compact`.
    pub fn compact_header(&self) -> String {
        let mut line = format!("{:<TIME_WIDTH$}", "time");
        let empty = Interval::new();
        line.extend(self.rates(&empty).map(|(name, _)| format!("{name:>RATE_WIDTH$}")));
        let latencies = self.latencies(&empty);
        for behind in ["latency", "99.9+"] {
            line.extend(latencies.iter().map(|(name, _)| format!("{:>LATENCY_WIDTH$}", format!("{name} {behind}"))));
        }
        line
    }

    /// An interval in the format `compact`.
    pub fn compact_line(&self, interval: &Interval, since_start: Nanos) -> String {
        let mut line = format!("{:<TIME_WIDTH$}", format!("{}s", seconds(since_start)));
        line.extend(self.rates(interval).map(|(_, rate)| format!("{:>RATE_WIDTH$}", format!("{rate} msg/s"))));
        let latencies = self.latencies(interval);
        for show in [Self::usual, Self::more] {
            for (_, values) in &latencies {
                // Too wide a value moves the rest to the right.
                let _ = write!(line, " {:>1$}", show(self, values), LATENCY_WIDTH - 1);
            }
        }
        line
    }

    /// The heading of the CSV file.
    pub fn csv_header(&self) -> String {
        let unit = self.unit.of().0;
        let mut line = "id,time (s),published (msg/s),returned (msg/s),confirmed (msg/s),\
                        nacked (msg/s),received (msg/s)"
            .to_owned();
        for names in [&["min", "median", "75th p.", "95th p.", "99th p."][..], &["99.9th p.", "99.99th p.", "max"]] {
            for kind in ["consumer", "confirm"] {
                line.extend(names.iter().map(|name| format!(",{name} {kind} latency ({unit})")));
            }
        }
        line
    }

    /// An interval as a line of the CSV file.
    pub fn csv_line(&self, interval: &Interval, since_start: Nanos) -> String {
        let has = self.columns;
        let cell = |shown: bool, text: String| if shown { text } else { String::new() };
        let mut cells = vec![self.id.clone(), seconds(since_start)];
        cells.extend(self.all_rates(interval).map(|(shown, _, rate)| cell(shown, rate)));
        let consumer = self.values(interval, Metric::END_TO_END);
        let kinds = [(has.received, consumer), (has.confirms(), self.values(interval, Metric::ACK_RESPONSE))];
        for range in [0..5, 5..8] {
            for (shown, values) in &kinds {
                let values = values.get(range.clone()).unwrap_or_default();
                cells.extend(values.iter().map(|value| cell(*shown, value.to_string())));
            }
        }
        cells.join(",")
    }

    /// The lines at the end. `named`: each begins with the test's name, as in the format `default`.
    pub fn summary(&self, measured: &Interval, sums: Sums, named: bool) -> String {
        let id = if named { format!("id: {}, ", self.id) } else { String::new() };
        let mut text = format!(
            "{id}sending rate avg: {} msg/s\n{id}receiving rate avg: {} msg/s\n",
            rate(sums.sent, sums.length),
            rate(sums.received, sums.length)
        );
        let latencies = self.latencies(measured);
        text.extend(latencies.iter().map(|(name, of)| format!("{id}{name} latency {HEADER} {}\n", self.usual(of))));
        text.extend(latencies.iter().map(|(name, of)| format!("{id}{name} latency {MORE} {}\n", self.more(of))));
        text
    }

    /// The rates by their names, and whether the test has them.
    fn all_rates(&self, interval: &Interval) -> [(bool, &'static str, String); 5] {
        let has = self.columns;
        let count = interval.counters;
        let all = [
            (has.published, "sent", count.sent),
            (has.published && has.returned, "returned", count.returned),
            (has.confirms(), "confirmed", count.completed),
            (has.confirms(), "nacked", count.nacked),
            (has.received, "received", count.received),
        ];
        all.map(|(shown, name, count)| (shown, name, rate(count, interval.length())))
    }

    fn rates(&self, interval: &Interval) -> impl Iterator<Item = (&'static str, String)> {
        self.all_rates(interval).into_iter().filter(|it| it.0).map(|(_, name, rate)| (name, rate))
    }

    fn latencies(&self, interval: &Interval) -> Vec<(&'static str, Latencies)> {
        let has = self.columns;
        let all = [(has.received, "consumer", Metric::END_TO_END), (has.confirms(), "confirm", Metric::ACK_RESPONSE)];
        all.into_iter().filter(|it| it.0).map(|(_, name, metric)| (name, self.values(interval, metric))).collect()
    }

    fn values(&self, interval: &Interval, metric: Metric) -> Latencies {
        let histogram = interval.latencies.histogram(metric);
        if histogram.is_empty() {
            return Latencies::default();
        }
        let at = |percentile| histogram.value_at_percentile(percentile);
        let (min, max) = (histogram.min(), histogram.max());
        [min, at(50.0), at(75.0), at(95.0), at(99.0), at(99.9), at(99.99), max]
            .map(|value| value.min(max) / self.unit.of().1)
    }

    fn usual(&self, [min, p50, p75, p95, p99, .., max]: &Latencies) -> String {
        format!("{min}/{p50}/{p75}/{p95}/{p99}/{max} {}", self.unit.of().0)
    }

    fn more(&self, [.., p99_9, p99_99, _]: &Latencies) -> String {
        format!("{p99_9}/{p99_99} {}", self.unit.of().0)
    }
}

fn seconds(time: Nanos) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// Messages a second as PerfTest writes them: whole from 10 on, two digits below.
fn rate(count: u64, length: Nanos) -> String {
    if count == 0 || length == Nanos::ZERO {
        return "0".to_owned();
    }
    let rate = count as f64 / length.as_secs_f64();
    if rate < 1.0 {
        format!("{rate:.2}")
    } else if rate < 10.0 {
        format!("{rate:.1}")
    } else {
        // PerfTest cuts, it does not round.
        format!("{}", rate as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Phase, Time};

    #[test]
    fn rates_are_cut_as_perf_test_cuts_them() {
        for (count, seconds, text) in [(0, 1, "0"), (1, 2, "0.50"), (19, 2, "9.5"), (7_206, 10, "720"), (1, 0, "0")] {
            assert_eq!(rate(count, Nanos(seconds * 1_000_000_000)), text);
        }
    }

    #[test]
    fn lines_have_the_columns_that_a_test_has() {
        let mut lines = Lines { id: "t".to_owned(), ..Lines::default() };
        lines.columns.published = true;
        let mut interval = Interval::new();
        interval.reset(Time(0), Phase::Measure);
        interval.end = Time(1_000_000_000);
        interval.counters.sent = 5;
        let end = Nanos(1_000_000_000);
        assert_eq!(lines.default_line(&interval, end), "id: t, time 1.000 s, sent: 5.0 msg/s");
        lines.columns.confirmed = true;
        for (us, number) in [(3_500, 1_999), (9_500, 1)] {
            interval.latencies.record_n(Metric::ACK_RESPONSE, Nanos::from_micros(us), number);
        }
        lines.unit = Unit::Millis;
        let line = lines.default_line(&interval, end);
        let latencies = "min/median/75th/95th/99th/max confirm latency: 3/3/3/3/3/9 ms, \
                         99.9th/99.99th confirm latency: 3/9 ms";
        assert!(line.ends_with(latencies), "{line}");
        testkit::assert_ends(lines.compact_line(&interval, end), "3/3/3/3/3/9 ms                     3/9 ms");
        assert_eq!(lines.csv_line(&interval, end).split(',').count(), lines.csv_header().split(',').count());
        let summary = lines.summary(&interval, Sums { sent: 5, received: 0, length: end }, false);
        assert_eq!(
            summary,
            "sending rate avg: 5.0 msg/s\nreceiving rate avg: 0 msg/s\n\
             confirm latency min/median/75th/95th/99th/max 3/3/3/3/3/9 ms\n\
             confirm latency 99.9th/99.99th 3/9 ms\n"
        );
    }
}
