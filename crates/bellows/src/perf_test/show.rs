//! The test's lines, as it goes on.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use archive::Event;
use measure::{Interval, Nanos, Phase, Time};
use report::perf_test::Lines;
use session::Observer;

use super::exposition::Served;
use super::resolved::{Format, ResolvedRun};
use crate::failure::Failure;
use crate::output;

/// What is left of an interval when the test ends has a line of its own from here on.
const SHORTEST: Nanos = Nanos::from_millis(50);
/// An interval of the engine may be this much shorter than a second.
const SLACK: Nanos = Nanos::from_millis(500);

/// Prints the lines.
pub(super) struct PerfTestObserver {
    lines: Lines,
    format: Format,
    every: Nanos,
    csv: Option<Csv>,
    served: Option<Served>,
    control: load::Control,
    /// What was measured since the last line.
    since_line: Interval,
    /// Since when the test runs.
    start: Option<Time>,
    headed: bool,
    /// Why no more lines can be written.
    pub(super) failed: Option<Failure>,
}

struct Csv {
    path: PathBuf,
    file: File,
}

impl PerfTestObserver {
    /// Opens the CSV file, which it empties.
    pub(super) fn new(
        resolved: &ResolvedRun,
        served: Option<Served>,
        control: load::Control,
    ) -> Result<Self, Failure> {
        let csv = match &resolved.csv {
            Some(path) => Some(Csv::create(path, &resolved.lines)?),
            None => None,
        };
        Ok(Self {
            lines: resolved.lines.clone(),
            format: resolved.format,
            every: resolved.interval,
            csv,
            served,
            control,
            since_line: Interval::new(),
            start: None,
            headed: false,
            failed: None,
        })
    }

    /// Prints what is left when the measured phase has ended. Its last interval comes after the beginning of the
    /// drain was told, and before the drain's first interval.
    pub(super) fn finish(&mut self) {
        if self.start.is_some() && self.since_line.length() >= SHORTEST {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let start = self.start.unwrap_or(self.since_line.start);
        let time = self.since_line.end.since(start);
        let written = self.write(time);
        if let Err(failure) = written {
            // Nobody reads the lines, or the disk is full: the test has no purpose any more.
            self.failed.get_or_insert(failure);
            self.control.stop();
        }
        self.since_line.reset(self.since_line.end, Phase::Measure);
    }

    fn write(&mut self, time: Nanos) -> Result<(), Failure> {
        let interval = &self.since_line;
        if let Some(served) = &mut self.served {
            served.update(interval);
        }
        if let Some(csv) = &mut self.csv {
            csv.line(&self.lines.csv_line(interval, time))?;
        }
        let line = match self.format {
            Format::Default => self.lines.default_line(interval, time),
            Format::Compact if self.headed => self.lines.compact_line(interval, time),
            Format::Compact => format!(
                "{}\n{}",
                self.lines.compact_header(),
                self.lines.compact_line(interval, time)
            ),
        };
        self.headed = true;
        output::print(&(line + "\n"))
    }
}

impl Csv {
    fn create(path: &Path, lines: &Lines) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|e| Failure::io("write", path, &e))?;
        let mut csv = Self {
            path: path.to_owned(),
            file,
        };
        csv.line(&lines.csv_header())?;
        Ok(csv)
    }

    fn line(&mut self, line: &str) -> Result<(), Failure> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.map_err(|e| Failure::io("write", &self.path, &e))
    }
}

impl Observer for PerfTestObserver {
    fn interval(&mut self, interval: &Interval) {
        // There is a warm-up where consumers start slowly.
        if interval.phase == Phase::Drain {
            return self.finish();
        }
        if self.start.is_none() {
            self.start = Some(interval.start);
            self.since_line.reset(interval.start, interval.phase);
        }
        self.since_line.merge(interval);
        if self.since_line.length() + SLACK >= self.every {
            self.flush();
        }
    }

    fn event(&mut self, event: &Event) {
        output::line_aside(&format!("{:.3} s: {}", event.t, event.label));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_after_the_last_whole_interval_has_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.csv");
        let mut show = PerfTestObserver {
            lines: Lines::default(),
            format: Format::Default,
            every: Nanos(3_000_000_000),
            csv: Some(Csv::create(&path, &Lines::default()).unwrap()),
            served: None,
            control: load::Control::new(),
            since_line: Interval::new(),
            start: None,
            headed: false,
            failed: None,
        };
        let mut at = Time(5_000_000_000);
        let mut tell = |show: &mut PerfTestObserver, ms, phase| {
            let mut interval = Interval::new();
            interval.reset(at, phase);
            at = at + Nanos::from_millis(ms);
            interval.end = at;
            show.interval(&interval);
        };
        for ms in [1_000, 1_000, 1_000, 1_000] {
            tell(&mut show, ms, Phase::Measure);
        }
        // The end of a phase is told before its last interval is there.
        show.phase(Phase::Drain, None);
        tell(&mut show, 200, Phase::Measure);
        tell(&mut show, 100, Phase::Drain);
        tell(&mut show, 100, Phase::Drain);
        show.finish();
        let text = std::fs::read_to_string(&path).unwrap();
        let times = text.lines().skip(1).map(|line| line.split(',').nth(1));
        assert_eq!(
            times.collect::<Vec<_>>(),
            [Some("3.000"), Some("4.200")],
            "{text}"
        );
    }
}
