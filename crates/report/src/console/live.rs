//! The view of a run that goes on: one redrawn table on a terminal, a line a second in a pipe,
//! nothing where nothing is wanted.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::time::{Duration, Instant};

use archive::{Event, ScenarioPoint, SeriesPoint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use measure::{Counters, Interval, Metric, Nanos, Phase, Summaries};

use super::shape::Shape;
use super::table::{Align, Table};
use super::text::{Style, clock, fit, sanitise, sparkline, wrap};
use super::{interval, out, phase_name, scenario};
use crate::numbers::{count, marked, per_second, seconds, three_digits};

/// How many seconds the sparklines look back.
const LOOK_BACK: usize = 10;
/// Who waits longer is told for how long.
const LONG: Duration = Duration::from_secs(1);
/// So often a pipe is told that something is still waited for.
const REMIND: Duration = Duration::from_secs(2);
/// Columns behind a step for its time: `: 3600 s`.
const WAITED: usize = 8;
/// The time of a step that goes on is renewed this often.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// What is shown while a run goes on.
#[derive(Debug)]
pub struct Live {
    view: View,
    closed: bool,
}

#[derive(Debug)]
enum View {
    Quiet,
    Plain(Box<PlainView>),
    Table(Box<TableView>),
}

impl Live {
    /// Nothing until the summary.
    #[must_use]
    pub const fn quiet() -> Self {
        Self {
            view: View::Quiet,
            closed: false,
        }
    }

    /// A line a second to `results`; steps, phases and events to standard error.
    #[must_use]
    pub fn plain(shape: Shape, results: Box<dyn Write + Send>) -> Self {
        let view = PlainView {
            shape,
            results: Results(results),
            step: None,
        };
        Self {
            view: View::Plain(Box::new(view)),
            closed: false,
        }
    }

    /// A table on standard error, redrawn with every interval.
    #[must_use]
    pub fn table(shape: Shape, style: Style) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.enable_steady_tick(TICK);
        let view = TableView {
            table: LiveTable::new(shape, style),
            bar,
        };
        view.show_waited(false);
        Self {
            view: View::Table(Box::new(view)),
            closed: false,
        }
    }

    /// Whether nobody reads the results any more (a closed pipe).
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Says what is being done before the load starts, or after it has ended.
    pub fn step(&mut self, text: &str) {
        match &mut self.view {
            View::Quiet => {}
            View::Plain(view) => view.step(&sanitise(text)),
            View::Table(view) => view.step(&sanitise(text)),
        }
    }

    /// Says for how long something is waited for.
    pub fn waiting(&mut self, text: &str, waited: Duration) {
        match &mut self.view {
            View::Quiet => {}
            View::Plain(_) => {
                let before = waited.saturating_sub(LONG).as_secs() / REMIND.as_secs();
                if waited.as_secs() / REMIND.as_secs() > before {
                    note(&format!(
                        "{}: {} s so far",
                        sanitise(text),
                        waited.as_secs()
                    ));
                }
            }
            View::Table(view) => view.waiting(&sanitise(text), waited),
        }
    }

    /// A phase begins.
    pub fn phase(&mut self, phase: Phase, length: Option<Nanos>) {
        match &mut self.view {
            View::Quiet => {}
            View::Plain(view) => {
                view.end_step();
                let name = phase_name(phase);
                note(&match (phase, length.filter(|l| *l > Nanos::ZERO)) {
                    (Phase::Drain, Some(length)) => format!("{name}, at most {length}"),
                    (_, Some(length)) => format!("{name} for {length}"),
                    (_, None) => name.to_owned(),
                });
            }
            View::Table(view) => {
                view.end_step();
                view.table.enter(phase);
                view.redraw();
            }
        }
    }

    /// An interval has passed.
    pub fn point(&mut self, point: &SeriesPoint, measured: &Interval) {
        let written = match &mut self.view {
            View::Quiet => Ok(()),
            View::Plain(view) => {
                let line = interval::line(&view.shape, point);
                view.results
                    .0
                    .write_all(out::harmless(&line).as_bytes())
                    .and_then(|()| view.results.0.flush())
            }
            View::Table(view) => {
                view.end_step();
                view.table.resize(out::style_aside());
                view.table.point(point, measured);
                view.redraw();
                Ok(())
            }
        };
        self.closed |= written.is_err();
    }

    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        self.say(&format!("{} {}", clock(event.t), event.label));
    }

    /// Leaves one line above what is redrawn.
    pub fn say(&mut self, text: &str) {
        let text = sanitise(text);
        match &mut self.view {
            View::Quiet => {}
            View::Plain(_) => note(&text),
            View::Table(view) => {
                let style = view.table.style;
                for line in wrap(&text, style.columns) {
                    view.bar.println(style.faint(&line));
                }
            }
        }
    }

    /// Takes the table off the screen; call it before anything else is printed.
    pub fn clear(&mut self) {
        match &mut self.view {
            View::Quiet => {}
            View::Plain(view) => view.end_step(),
            View::Table(view) => view.bar.finish_and_clear(),
        }
    }
}

/// One line on standard error. A closed standard error is nobody's loss.
pub(super) fn note(text: &str) {
    out::aside(&format!("{text}\n"));
}

struct Results(Box<dyn Write + Send>);

impl std::fmt::Debug for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Results")
    }
}

#[derive(Debug)]
struct PlainView {
    shape: Shape,
    results: Results,
    /// What is being done, and since when.
    step: Option<(String, Instant)>,
}

impl PlainView {
    fn step(&mut self, text: &str) {
        self.end_step();
        note(text);
        self.step = Some((text.to_owned(), Instant::now()));
    }

    /// Says how long a step took, where it was long.
    fn end_step(&mut self) {
        if let Some((text, since)) = self.step.take()
            && since.elapsed() >= LONG
        {
            note(&format!(
                "{text}: took {}",
                seconds(since.elapsed().as_secs_f64())
            ));
        }
    }
}

#[derive(Debug)]
struct TableView {
    table: LiveTable,
    bar: ProgressBar,
}

impl TableView {
    /// Begins a step, whose time is shown behind it as long as it goes on.
    fn step(&mut self, text: &str) {
        self.table.waiting = None;
        if self.table.step != text {
            text.clone_into(&mut self.table.step);
            self.bar.reset_elapsed();
        }
        self.show_waited(true);
        self.redraw();
    }

    fn end_step(&mut self) {
        if !self.table.step.is_empty() {
            self.table.step.clear();
            self.show_waited(false);
        }
    }

    /// Before the load, what is waited for is the step itself.
    fn waiting(&mut self, text: &str, waited: Duration) {
        if self.table.is_loading() {
            self.table.waiting = Some(format!("{text}: {} s", waited.as_secs()));
            self.redraw();
        } else {
            self.step(text);
        }
    }

    fn show_waited(&self, show: bool) {
        let template = if show { "{msg}{waited}" } else { "{msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            let waited = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                if state.elapsed() >= LONG {
                    let _ = write!(text, ": {} s", state.elapsed().as_secs());
                }
            };
            self.bar.set_style(style.with_key("waited", waited));
        }
    }

    fn redraw(&self) {
        let text = self.table.lines().join("\n");
        self.bar.set_message(out::harmless(&text).into_owned());
        self.bar.tick();
    }
}

/// The table's content; drawing it is [`TableView`]'s work.
#[derive(Debug)]
pub(super) struct LiveTable {
    shape: Shape,
    style: Style,
    /// What is being done before or after the load; empty while the load goes on.
    step: String,
    /// What is waited for, and for how long.
    pub(super) waiting: Option<String>,
    phase: Option<Phase>,
    /// Seconds since the run's origin at which the phase began, once an interval said so.
    phase_start: Option<f64>,
    elapsed: f64,
    recent: VecDeque<SeriesPoint>,
    measured: Counters,
    measured_seconds: f64,
    latency: Summaries,
    scenarios: BTreeMap<&'static str, ScenarioPoint>,
}

impl LiveTable {
    pub(super) fn new(shape: Shape, style: Style) -> Self {
        Self {
            shape,
            // Its lines are drawn side by side, each filled up to the edge: words of two must not touch there.
            style: Style {
                columns: style.columns.saturating_sub(1),
                ..style
            },
            step: String::new(),
            waiting: None,
            phase: None,
            phase_start: None,
            elapsed: 0.0,
            recent: VecDeque::with_capacity(LOOK_BACK + 1),
            measured: Counters::default(),
            measured_seconds: 0.0,
            latency: Summaries::default(),
            scenarios: BTreeMap::new(),
        }
    }

    /// Takes over the size of a terminal that may have changed.
    fn resize(&mut self, now: Style) {
        if now.terminal {
            self.style.columns = now.columns.saturating_sub(1);
            self.style.rows = now.rows;
        }
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = Some(phase);
        self.phase_start = None;
        self.elapsed = 0.0;
    }

    pub(super) fn point(&mut self, point: &SeriesPoint, measured: &Interval) {
        if self.phase != Some(point.phase) {
            self.enter(point.phase);
        }
        self.waiting = None;
        let start = *self.phase_start.get_or_insert(point.t);
        self.elapsed = point.t + point.dt - start;
        self.measured = measured.counters;
        self.measured_seconds = measured.length().as_secs_f64();
        self.latency = measured.latencies.messages();
        self.scenarios = ScenarioPoint::all_of(measured);
        self.recent.push_back(point.clone());
        if self.recent.len() > LOOK_BACK {
            self.recent.pop_front();
        }
    }

    /// All lines, none wider than the terminal, no more than it has rows.
    pub(super) fn lines(&self) -> Vec<String> {
        let columns = self.style.columns;
        let mut out = vec![
            self.style
                .strong(&fit(&sanitise(&self.shape.title), columns)),
        ];
        if self.phase.is_none() || self.recent.is_empty() {
            let phase = self.phase.filter(|_| self.step.is_empty());
            let step = match (&self.waiting, phase) {
                (Some(waiting), _) => waiting,
                (None, Some(phase)) => phase_name(phase),
                (None, None) => self.step.as_str(),
            };
            out.push(fit(step, columns.saturating_sub(WAITED)).into_owned());
            return out;
        }
        out.push(self.bar(columns));
        out.push(fit(self.waiting.as_deref().unwrap_or_default(), columns).into_owned());
        if self.has_messages() {
            self.rates(&mut out, columns);
            out.push(String::new());
            self.latencies(&mut out, columns);
            out.push(String::new());
        }
        let (measured, seconds) = (&self.scenarios, self.measured_seconds);
        let usage: Vec<String> = self
            .recent
            .back()
            .into_iter()
            .flat_map(interval::usage)
            .collect();
        let usage = wrap(&usage.join("; "), columns);
        let step = match self.step.is_empty() {
            true => Vec::new(),
            false => wrap(&self.step, columns.saturating_sub(WAITED)),
        };
        let rows = self.style.rows.saturating_sub(1 + step.len().max(1));
        let room = rows.saturating_sub(out.len() + usage.len());
        let recent = &self.recent;
        out.extend(scenario::live(recent, measured, seconds, self.style, room));
        out.extend(usage);
        out.truncate(rows.max(3));
        out.extend(step);
        out
    }

    /// Whether the load is on, and nothing is done before or after it.
    const fn is_loading(&self) -> bool {
        self.phase.is_some() && self.step.is_empty()
    }

    /// Whether there is any load; a profile alone has none.
    fn has_load(&self) -> bool {
        let mut points = self.recent.iter();
        self.has_messages() || points.any(|point| point.scenarios().next().is_some())
    }

    const fn has_messages(&self) -> bool {
        self.shape.producers || self.shape.consumers
    }

    /// One segment per phase, as long as the phase is, and the time in the present one.
    fn bar(&self, columns: usize) -> String {
        let phases = [Phase::Warmup, Phase::Measure, Phase::Drain]
            .into_iter()
            .filter(|p| *p != Phase::Warmup || self.shape.warmup > Nanos::ZERO)
            .filter(|p| *p != Phase::Drain || self.has_load());
        let now = self.phase.unwrap_or_default();
        let planned = self.shape.planned(now).filter(|l| *l > Nanos::ZERO);
        let time = match planned {
            Some(length) => {
                format!("{} / {}", clock(self.elapsed), clock(length.as_secs_f64()))
            }
            None => clock(self.elapsed),
        };
        let names = "warm-up  measure  drain  ".len();
        let room = columns
            .min(100)
            .saturating_sub(names + time.len() + 4)
            .max(12);
        let warmup = self.shape.warmup.as_secs_f64();
        let measure = self
            .shape
            .measure
            .map_or(warmup.max(1.0) * 3.0, Nanos::as_secs_f64);
        let mut out = String::new();
        for phase in phases {
            let cells = match phase {
                Phase::Drain => 3,
                Phase::Warmup => segment(room - 3, warmup, warmup + measure),
                Phase::Measure if warmup > 0.0 => {
                    room - 3 - segment(room - 3, warmup, warmup + measure)
                }
                Phase::Measure => room - 3,
            };
            let done = match (phase.cmp(&now), planned) {
                (std::cmp::Ordering::Less, _) => cells,
                (std::cmp::Ordering::Greater, _) => 0,
                (_, Some(length)) => {
                    ((self.elapsed / length.as_secs_f64()).min(1.0) * cells as f64) as usize
                }
                (_, None) => self.elapsed as usize % (cells + 1),
            };
            let name = phase_name(phase);
            let name = if phase == now {
                self.style.strong(name)
            } else {
                self.style.faint(name)
            };
            out.push_str(&format!(
                "{name} {}{} ",
                self.style.accent(&"━".repeat(done)),
                self.style.faint(&"─".repeat(cells - done))
            ));
        }
        out + " " + &time
    }

    fn rates(&self, out: &mut Vec<String>, columns: usize) {
        use Align::{Left, Right};
        // Numbers that grow must not move the columns.
        let mut table = Table::new(&[
            ("            ", Left),
            ("  msg/s now", Right),
            ("   measured", Right),
            ("        count", Right),
            ("last 10 s", Left),
        ]);
        table.drop_in_order(&[4]);
        for (name, count_of) in interval::counts(&self.shape) {
            let rate = |point: &SeriesPoint| per_second(count_of(&point.counters), point.dt);
            let measured = count_of(&self.measured);
            let begun = self.measured_seconds > 0.0;
            let or_dash = |value: String| if begun { value } else { "-".to_owned() };
            table.row(vec![
                name.to_owned(),
                three_digits(self.recent.back().map_or(0.0, rate)),
                or_dash(three_digits(per_second(measured, self.measured_seconds))),
                or_dash(count(measured)),
                sparkline(self.recent.iter().map(rate)),
            ]);
        }
        self.add(out, &table, columns);
    }

    fn latencies(&self, out: &mut Vec<String>, columns: usize) {
        use Align::{Left, Right};
        // Before the measured phase there is only the warm-up to look at.
        let last = self.recent.back().map(|point| &point.latency);
        let is_measured = self.latency.filled().next().is_some();
        let shown = if is_measured {
            Some(&self.latency)
        } else {
            last
        };
        let span = format!("{:12}", scenario::span(is_measured));
        let mut table = Table::new(&[
            (span.as_str(), Left),
            ("     p50", Right),
            ("     p99", Right),
            ("   p99.9", Right),
            ("     max", Right),
            ("p99, last 10 s", Left),
        ]);
        table.drop_in_order(&[5]);
        for metric in Metric::MESSAGES
            .into_iter()
            .filter(|m| self.shape.shows(*m))
        {
            let Some(l) = shown.map(|all| all.get(metric)).filter(|l| l.count > 0) else {
                table.row(vec![metric.name().to_owned(), "-".to_owned()]);
                continue;
            };
            let cell = |ns: u64, percentile: f64| marked(ns, l.supports(percentile));
            let p99 = |point: &SeriesPoint| point.latency.get(metric).p99_ns as f64;
            table.row(vec![
                metric.name().to_owned(),
                cell(l.p50_ns, 50.0),
                cell(l.p99_ns, 99.0),
                cell(l.p99_9_ns, 99.9),
                Nanos(l.max_ns).to_string(),
                sparkline(self.recent.iter().map(p99)),
            ]);
        }
        self.add(out, &table, columns);
    }

    fn add(&self, out: &mut Vec<String>, table: &Table, columns: usize) {
        let mut lines = table.lines(columns);
        if let Some(heads) = lines.first_mut() {
            *heads = self.style.faint(heads);
        }
        out.append(&mut lines);
    }
}

/// Cells of `room` for a part of a whole, at least two.
fn segment(room: usize, part: f64, whole: f64) -> usize {
    ((part / whole * room as f64) as usize).clamp(2, room.saturating_sub(2).max(2))
}
