//! Standard output and the files of a run, during it and at its end.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use archive::Event;
use measure::{Clock, Counters, Interval, Nanos, Phase, wall_clock_unix_ns};
use report::artemis::{self, End};

use super::Showing;
use crate::failure::Failure;
use crate::output;

/// Shorter intervals are the edge of a phase: they have no block, for no second has gone by. The
/// sums and the HDR log have them all the same.
const WHOLE_SECOND: Nanos = Nanos::from_millis(500);

/// Shows a run as Artemis does.
pub(super) struct Screen {
    showing: Showing,
    control: load::Control,
    totals: Counters,
    json: Option<Samples>,
    hdr: Option<Sheet>,
    /// The failure of the output, for which the run was stopped.
    trouble: Option<Failure>,
}

impl Screen {
    pub(super) const fn new(showing: Showing, control: load::Control) -> Self {
        Self {
            showing,
            control,
            totals: Counters {
                sent: 0,
                completed: 0,
                received: 0,
                blocked: 0,
                nacked: 0,
                returned: 0,
                redelivered: 0,
                late: 0,
            },
            json: None,
            hdr: None,
            trouble: None,
        }
    }

    /// Prints the summary and completes the files.
    pub(super) fn end(mut self, success: bool, measured: &Interval) -> Result<(), Failure> {
        if let Some(trouble) = self.trouble {
            return Err(trouble);
        }
        let end = End {
            success,
            totals: &self.totals,
            measured,
        };
        let sides = self.showing.sides;
        if let Some(json) = &mut self.json {
            json.add(&artemis::summary_sample(sides, end, unix_ns() / 1_000_000))?;
            json.sheet.write("\n]")?;
        }
        if self.showing.silent {
            return Ok(());
        }
        output::print(&artemis::summary(sides, end))
    }

    fn open_files(&mut self) -> Result<(), Failure> {
        if let Some(path) = self.showing.json.take() {
            let mut sheet = Sheet::create(path)?;
            sheet.write("[\n")?;
            self.json = Some(Samples { sheet, count: 0 });
        }
        if let Some(path) = self.showing.hdr.take() {
            let mut sheet = Sheet::create(path)?;
            sheet.write(artemis::HDR_HEADER)?;
            self.hdr = Some(sheet);
        }
        Ok(())
    }

    fn show(&mut self, interval: &Interval) -> Result<(), Failure> {
        let sides = self.showing.sides;
        let end_ns = unix_ns().saturating_sub(Clock.now().since(interval.end).0);
        if let Some(hdr) = &mut self.hdr {
            let start_s = end_ns.saturating_sub(interval.length().0) as f64 / 1e9;
            let lines = artemis::histogram_lines(sides, interval, start_s);
            hdr.write(&lines.map_err(|e| hdr.failed(&e))?)?;
        }
        if interval.length() < WHOLE_SECOND {
            return Ok(());
        }
        if let Some(json) = &mut self.json {
            json.add(&artemis::interval_sample(
                sides,
                interval,
                end_ns / 1_000_000,
            ))?;
        }
        if self.showing.silent {
            return Ok(());
        }
        output::print(&artemis::block(sides, interval, self.showing.latencies))
    }

    /// Ends the run in order at the first trouble with the output.
    fn keep_going(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Failure>) {
        if self.trouble.is_none()
            && let Err(failure) = step(self)
        {
            self.trouble = Some(failure);
            self.control.stop();
        }
    }

    fn say(&self, text: &str) {
        if self.showing.verbose {
            // A courtesy: standard output and the files are the result.
            output::line_aside(text);
        }
    }
}

impl session::Observer for Screen {
    fn step(&mut self, text: &str) {
        self.say(text);
    }

    fn phase(&mut self, phase: Phase, length: Option<Nanos>) {
        let name = phase.name();
        match length {
            Some(length) => self.say(&format!("{name}: {length}")),
            None => self.say(&format!("{name}: until Ctrl-C or the last message")),
        }
        self.keep_going(Self::open_files);
    }

    fn interval(&mut self, interval: &Interval) {
        self.totals.add(&interval.counters);
        self.keep_going(|screen| screen.show(interval));
    }

    fn event(&mut self, event: &Event) {
        self.say(&event.label);
    }
}

fn unix_ns() -> u64 {
    wall_clock_unix_ns()
}

/// An array of samples, one on each line.
struct Samples {
    sheet: Sheet,
    count: u64,
}

impl Samples {
    fn add(&mut self, sample: &str) -> Result<(), Failure> {
        let between = if self.count > 0 { ",\n" } else { "" };
        self.count += 1;
        self.sheet.write(&format!("{between}{sample}"))
    }
}

/// A file that is written as the run goes.
struct Sheet {
    file: File,
    path: PathBuf,
}

impl Sheet {
    fn create(path: PathBuf) -> Result<Self, Failure> {
        let file = File::create(&path).map_err(|e| Failure::io("write", &path, &e))?;
        Ok(Self { file, path })
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|e| self.failed(&e))
    }

    fn failed(&self, source: &io::Error) -> Failure {
        let path: &Path = &self.path;
        Failure::io("write", path, source)
    }
}
