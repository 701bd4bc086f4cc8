//! The test's lines in progress.

use archive::Event;
use measure::{Interval, Nanos, Phase, Time};
use session::Observer;

use super::exposition::Served;
use super::resolved::{Format, ResolvedRun};
use crate::Failure;
use crate::output::{self, Sheet};

/// Shortest rest of an interval that has a line of its own when the test ends.
const SHORTEST: Nanos = Nanos::from_millis(50);
/// An interval of the engine may be this much shorter than a second.
const SLACK: Nanos = Nanos::from_millis(500);

pub(super) struct PerfTestObserver<'a> {
    of: &'a ResolvedRun,
    csv: Option<Sheet>,
    served: Option<Served>,
    control: load::Control,
    since_line: Interval,
    start: Option<Time>,
    headed: bool,
    /// Why no more lines can be written.
    pub(super) failed: Option<Failure>,
}

impl<'a> PerfTestObserver<'a> {
    /// Opens the CSV file, which it empties.
    pub(super) fn new(of: &'a ResolvedRun, served: Option<Served>, control: load::Control) -> Result<Self, Failure> {
        let mut csv = of.csv.as_deref().map(Sheet::create).transpose()?;
        if let Some(csv) = &mut csv {
            csv.write(&(of.lines.csv_header() + "\n"))?;
        }
        let since_line = Interval::new();
        Ok(Self { of, csv, served, control, since_line, start: None, headed: false, failed: None })
    }

    /// Prints the rest when the measured phase has ended, or the drain in a test that goes on to the last reception.
    /// The measured phase's last interval comes after the beginning of the drain, and before the drain's first
    /// interval.
    pub(super) fn finish(&mut self) {
        let Interval { phase, counters, .. } = &self.since_line;
        // After the last reception the test is over.
        let is_part = *phase != Phase::Drain || counters.sent + counters.received > 0;
        if self.start.is_some() && is_part && self.since_line.length() >= SHORTEST {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let start = self.start.unwrap_or(self.since_line.start);
        if let Err(failure) = self.write(self.since_line.end.since(start)) {
            // Nobody reads the lines, or the disk is full: the test has no purpose any more.
            self.failed.get_or_insert(failure);
            self.control.stop();
        }
        self.since_line.reset(self.since_line.end, self.since_line.phase);
    }

    /// Whether the test continues with an interval in which nothing is sent any more: like PerfTest's, one that counts
    /// its messages lasts until the last is received, within its time.
    fn receives(&self, interval: &Interval) -> bool {
        let (loads, phases) = (&self.of.experiment.load, &self.of.experiment.phases);
        let (is_counted, limit) = (loads.iter().any(|it| it.message_count > 0), phases.measure.0);
        let is_in_time = |start: Time| limit == Nanos::ZERO || interval.start.since(start) < limit;
        is_counted && phases.warmup.0 == Nanos::ZERO && self.start.is_some_and(is_in_time)
    }

    fn write(&mut self, time: Nanos) -> Result<(), Failure> {
        let (interval, lines) = (&self.since_line, &self.of.lines);
        if let Some(served) = &mut self.served {
            served.update(interval);
        }
        if let Some(csv) = &mut self.csv {
            csv.write(&(lines.csv_line(interval, time) + "\n"))?;
        }
        let line = match self.of.format {
            Format::Default => lines.default_line(interval, time),
            Format::Compact if self.headed => lines.compact_line(interval, time),
            Format::Compact => format!("{}\n{}", lines.compact_header(), lines.compact_line(interval, time)),
        };
        self.headed = true;
        output::print(&(line + "\n"))
    }
}

impl Observer for PerfTestObserver<'_> {
    fn interval(&mut self, interval: &Interval) {
        // There is a warm-up where consumers start slowly.
        if interval.phase == Phase::Drain {
            if !self.receives(interval) {
                return self.finish();
            }
            self.since_line.phase = Phase::Drain;
        }
        if self.start.is_none() {
            self.start = Some(interval.start);
            self.since_line.reset(interval.start, interval.phase);
        }
        self.since_line.merge(interval);
        if self.since_line.length() + SLACK >= self.of.interval {
            self.flush();
        }
    }

    fn event(&mut self, event: &Event) {
        output::line_aside(&format!("{:.3} s: {}", event.t, event.label));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{resolved, values};
    use super::*;

    /// Times of the lines, each of three seconds, of a test that sends for these milliseconds each, and then receives.
    fn lines(options: &str, sends: &[u64], receives: &[(u64, u64)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.csv");
        let values = values::tests::read(&format!("-i 3 -o {} {options}", path.display())).unwrap();
        let resolved = resolved::resolve(&values, "id".to_owned()).unwrap();
        let mut show = PerfTestObserver::new(&resolved, None, load::Control::new()).unwrap();
        let mut at = Time(5_000_000_000);
        let mut tell = |show: &mut PerfTestObserver<'_>, ms, phase, received| {
            let mut interval = Interval::new();
            interval.reset(at, phase);
            at = at + Nanos::from_millis(ms);
            interval.end = at;
            interval.counters.received = received;
            show.interval(&interval);
        };
        // The end of a phase is told before its last interval is there.
        for (left, ms) in (0..sends.len()).rev().zip(sends) {
            if left == 0 {
                show.phase(Phase::Drain, None);
            }
            tell(&mut show, *ms, Phase::Measure, 1);
        }
        for (ms, received) in receives {
            tell(&mut show, *ms, Phase::Drain, *received);
        }
        show.finish();
        let text = std::fs::read_to_string(&path).unwrap();
        let times = text.lines().skip(1).map(|line| line.split(',').nth(1));
        times.map(|it| it.unwrap().to_owned()).collect()
    }

    #[test]
    fn lines_go_on_until_the_last_message_is_received_and_what_is_left_has_one() {
        let sends = [1_000, 1_000, 1_000, 1_000, 200];
        assert_eq!(lines("", &sends, &[(100, 1), (100, 1)]), ["3.000", "4.200"]);
        let receives = [(1_000, 2), (1_000, 0), (1_000, 1), (1_000, 1), (500, 0)];
        assert_eq!(lines("-C 1", &[10], &receives), ["3.010", "4.510"]);
        assert_eq!(lines("-C 1", &[10], &receives[..3]), ["3.010"]);
        // Not beyond the time that the test may take.
        assert_eq!(lines("-C 1 -z 2", &[10], &receives), ["2.010"]);
    }
}
