//! Output streams: results to standard output, progress to standard error.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use archive::{Event, SeriesName, SeriesPoint};
use brokers::managed::Progress;
use measure::{Interval, Nanos, Phase};
use report::console::{self, Live, Shape, Style, out, sanitise};

use crate::{Done, Failure, signals};

pub(crate) fn print(text: &str) -> Result<(), Failure> {
    Ok(out::results(text)?)
}

/// Writes results through the pager of `PAGER`, else `less`, where the terminal has too few rows for them.
pub(crate) fn print_paged(text: &str) -> Result<(), Failure> {
    let style = style();
    let named = std::env::var("PAGER");
    let is_none = named.as_ref().is_ok_and(|it| it.trim().is_empty());
    if !style.terminal || is_none || text.lines().count() < style.rows {
        return print(text);
    }
    let mut pager = Command::new(if named.is_ok() { "sh" } else { "less" });
    pager.args(named.iter().flat_map(|named| ["-c", named.as_str()]));
    if std::env::var_os("LESS").is_none() {
        pager.env("LESS", "R");
    }
    let _theirs = signals::leave_interrupts()?;
    let Ok(mut pager) = pager.stdin(Stdio::piped()).spawn() else { return print(text) };
    if let Some(mut pages) = pager.stdin.take() {
        // Who leaves the pager early reads no further.
        let _ = pages.write_all(out::harmless(text).as_bytes());
    }
    match pager.wait() {
        // The shell found no such program, or may not run it.
        Ok(status) if matches!(status.code(), Some(126 | 127)) => print(text),
        _ => Ok(()),
    }
}

/// Rows of the terminal of standard output, now.
pub(crate) fn rows() -> usize {
    // What is no terminal of this kind has as many as most.
    ratatui::termion::terminal_size().map_or(24, |(_, rows)| rows.into())
}

/// Writes results in place of all that the terminal of standard output shows.
pub(crate) fn print_in_place(text: &str, is_first: bool) -> Result<(), Failure> {
    Ok(out::results_in_place(text, rows(), is_first)?)
}

pub(crate) fn data(bytes: &[u8]) -> Result<(), Failure> {
    Ok(out::data(bytes)?)
}

/// Prints lines beside the results, on standard error.
pub(crate) fn aside(text: &str) {
    out::aside(text);
}

/// Prints one line beside the results. Foreign text stays one line, unless the screen is too narrow.
pub(crate) fn line_aside(text: &str) {
    out::aside(&console::prose(&sanitise(text), style_aside()));
}

pub(crate) fn print_prose(text: &str) -> Result<(), Failure> {
    print(&console::prose(text, style()))
}

pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    print(&(out::harmless_json(&text).into_owned() + "\n"))
}

/// Prints a command's result: as JSON, or as text for people.
pub(crate) fn print_result(
    json: bool,
    value: &impl serde::Serialize,
    text: impl FnOnce(Style) -> String,
) -> Result<Done, Failure> {
    let printed = if json { print_json(value) } else { print(&text(style())) };
    printed.map(|()| Done::Fine)
}

pub(crate) fn print_json_line(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(io::Error::from)?;
    print(&(out::harmless_json(&text).into_owned() + "\n"))
}

/// A file that is written as a run goes.
pub(crate) struct Sheet {
    file: File,
    path: PathBuf,
}

impl Sheet {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|e| Failure::io("write", path, &e))?;
        Ok(Self { file, path: path.to_owned() })
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(|e| self.failed(&e))
    }

    pub(crate) fn failed(&self, source: &io::Error) -> Failure {
        Failure::io("write", &self.path, source)
    }
}

pub(crate) fn style() -> Style {
    Style::of(&io::stdout())
}

pub(crate) fn style_aside() -> Style {
    Style::of(&io::stderr())
}

pub(crate) fn live(shape: Shape, json: bool, quiet: bool) -> Live {
    let (out, progress) = (style(), style_aside());
    if quiet {
        Live::quiet()
    } else if progress.terminal && (out.terminal || json) {
        Live::table(shape, progress)
    } else if json {
        Live::plain(shape, Box::new(io::stderr()))
    } else {
        Live::plain(shape, Box::new(io::stdout()))
    }
}

/// Shows a run in progress, and stops it when the output's reader has gone.
pub(crate) struct Show {
    live: Live,
    control: load::Control,
    told: bool,
    /// Whether the broker's log is shown.
    logs: bool,
}

impl Show {
    pub(crate) const fn new(live: Live, control: load::Control, logs: bool) -> Self {
        Self { live, control, told: false, logs }
    }

    /// Clears the screen; returns whether the output's reader has gone.
    pub(crate) fn close(&mut self) -> bool {
        self.live.clear();
        self.live.is_closed()
    }

    /// Confirms once that the user asked for a stop.
    fn look(&mut self) {
        if self.control.is_stopping() && !self.told && !self.live.is_closed() {
            self.told = true;
            self.live.say("stopping in order; Ctrl-C once more ends at once");
        }
    }
}

impl session::Observer for Show {
    fn progress(&mut self, progress: Progress<'_>) {
        if matches!(progress, Progress::Step(_) | Progress::Waiting(..)) {
            self.look();
        }
        match progress {
            Progress::Step(text) => self.live.step(text),
            Progress::Waiting(text, waited) => self.live.waiting(text, waited),
            Progress::Ready(text) => self.live.ready(text),
            Progress::Logged(line) if self.logs => self.live.say(&format!("broker log: {line}")),
            Progress::Logged(_) => {}
        }
    }

    fn missing(&mut self, text: &str, waited: Duration) {
        self.look();
        self.live.missing(text, waited);
    }

    fn phase(&mut self, phase: Phase, length: Option<Nanos>) {
        self.look();
        self.live.phase(phase, length);
    }

    fn point(&mut self, point: &SeriesPoint, cumulative: &Interval) {
        self.look();
        self.live.point(point, cumulative);
        if self.live.is_closed() {
            self.control.stop();
        }
    }

    fn values(&mut self, values: &[(SeriesName, f64)]) {
        self.live.values(values);
    }

    fn page_failed(&mut self, page: &str) {
        self.live.page_failed(page);
    }

    fn event(&mut self, event: &Event) {
        self.live.event(event);
    }
}
