//! The view of a run that goes on: one redrawn table on a terminal, a block a second in a pipe,
//! nothing where nothing is wanted.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::time::Duration;

use archive::{Event, ProcessUsage, ScenarioPoint, SeriesPoint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::{Interval, Metric, Nanos, Phase, Summaries};

use super::shape::Shape;
use super::text::{Style, clock, fit, left, right, sanitise, sparkline};
use super::{out, plain, scenario};
use crate::numbers::{count, marked, per_second, three_digits};

/// How many seconds the sparklines look back.
const LOOK_BACK: usize = 10;

/// What is shown while a run goes on.
#[derive(Debug)]
pub struct Live {
    view: View,
    closed: bool,
}

/// A bar over a known number of steps, on standard error; nothing where that is no terminal.
#[derive(Debug)]
pub struct Steps {
    bar: ProgressBar,
}

impl Steps {
    /// An empty bar; hidden where `style` is not that of a terminal.
    #[must_use]
    pub fn new(style: Style) -> Self {
        let target = if style.terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        if let Ok(template) = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {msg}") {
            bar.set_style(template.progress_chars("=> "));
        }
        Self { bar }
    }

    /// So many of so many are done, and this comes next.
    pub fn at(&self, done: usize, of: usize, text: &str) {
        self.bar.set_length(of as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(sanitise(text).into_owned());
        self.bar.tick();
    }

    /// Takes it off the screen.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
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

    /// A block a second to `results`; steps, phases and events to standard error.
    #[must_use]
    pub fn plain(shape: Shape, results: Box<dyn Write + Send>) -> Self {
        let view = PlainView {
            shape,
            results: Results(results),
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
        if let Ok(template) = ProgressStyle::with_template("{msg}") {
            bar.set_style(template);
        }
        let view = TableView {
            table: LiveTable::new(shape, style),
            bar,
        };
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
            View::Plain(_) => note(&sanitise(text)),
            View::Table(view) => {
                view.table.step = sanitise(text).into_owned();
                view.table.waiting = None;
                view.redraw();
            }
        }
    }

    /// Says for how long something is waited for; only where it can be redrawn.
    pub fn waiting(&mut self, text: &str, waited: Duration) {
        if let View::Table(view) = &mut self.view {
            let text = sanitise(text);
            view.table.waiting = Some(format!("{text}: {} s", waited.as_secs()));
            view.redraw();
        }
    }

    /// A phase begins.
    pub fn phase(&mut self, phase: Phase, length: Option<Nanos>) {
        match &mut self.view {
            View::Quiet => {}
            View::Plain(_) => note(&match length.filter(|l| *l > Nanos::ZERO) {
                Some(length) => format!("{} for {length}", phase_name(phase)),
                None => phase_name(phase).to_owned(),
            }),
            View::Table(view) => {
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
                let block = plain::block(&view.shape, point);
                view.results
                    .0
                    .write_all(out::harmless(&block).as_bytes())
                    .and_then(|()| view.results.0.flush())
            }
            View::Table(view) => {
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
                view.bar.println(style.faint(&fit(&text, style.columns)));
            }
        }
    }

    /// Takes the table off the screen; call it before anything else is printed.
    pub fn clear(&mut self) {
        if let View::Table(view) = &self.view {
            view.bar.finish_and_clear();
        }
    }
}

/// One line on standard error. A closed standard error is nobody's loss.
fn note(text: &str) {
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
}

#[derive(Debug)]
struct TableView {
    table: LiveTable,
    bar: ProgressBar,
}

impl TableView {
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
    step: String,
    /// What is waited for, and for how long.
    pub(super) waiting: Option<String>,
    phase: Option<Phase>,
    /// Seconds since the run's origin at which the phase began, once an interval said so.
    phase_start: Option<f64>,
    elapsed: f64,
    recent: VecDeque<SeriesPoint>,
    measured: [u64; 4],
    measured_seconds: f64,
    latency: Summaries,
    scenarios: BTreeMap<&'static str, ScenarioPoint>,
}

impl LiveTable {
    pub(super) fn new(shape: Shape, style: Style) -> Self {
        Self {
            shape,
            style,
            step: String::new(),
            waiting: None,
            phase: None,
            phase_start: None,
            elapsed: 0.0,
            recent: VecDeque::with_capacity(LOOK_BACK + 1),
            measured: [0; 4],
            measured_seconds: 0.0,
            latency: Summaries::default(),
            scenarios: BTreeMap::new(),
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
        let c = &measured.counters;
        self.measured = [c.sent, c.completed, c.received, c.blocked];
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
            let step = self.waiting.as_ref().unwrap_or(&self.step);
            out.push(fit(step, columns).into_owned());
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
        out.extend(scenario::live(&self.recent, measured, seconds, self.style));
        out.extend(self.usage().map(|line| fit(&line, columns).into_owned()));
        out.truncate(self.style.rows.saturating_sub(1).max(3));
        out
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
        let head = format!(
            "{}{}{}{}  last {LOOK_BACK} s",
            left("", 13),
            right("msg/s now", 12),
            right("measured", 12),
            right("count", 15)
        );
        out.push(self.style.faint(&fit(&head, columns)));
        type Pick = fn(&measure::Counters) -> u64;
        let rows: [(&str, bool, Pick); 4] = [
            ("sent", self.shape.producers, |c| c.sent),
            ("completed", self.shape.producers, |c| c.completed),
            ("received", self.shape.consumers, |c| c.received),
            ("blocked", self.shape.producers, |c| c.blocked),
        ];
        for ((name, _, pick), measured) in rows
            .iter()
            .zip(self.measured)
            .filter(|((_, shown, _), _)| *shown)
        {
            let series = self
                .recent
                .iter()
                .map(|p| per_second(pick(&p.counters), p.dt));
            let now = self
                .recent
                .back()
                .map_or(0.0, |p| per_second(pick(&p.counters), p.dt));
            let mean = per_second(measured, self.measured_seconds);
            let begun = self.measured_seconds > 0.0;
            let or_dash = |value: String| if begun { value } else { "-".to_owned() };
            let line = format!(
                "{}{}{}{}  {}",
                left(name, 13),
                right(&three_digits(now), 12),
                right(&or_dash(three_digits(mean)), 12),
                right(&or_dash(count(measured)), 15),
                sparkline(series)
            );
            out.push(fit(&line, columns).into_owned());
        }
    }

    fn latencies(&self, out: &mut Vec<String>, columns: usize) {
        let head = format!(
            "{}{}{}{}{}  p99, last {LOOK_BACK} s",
            left("", 13),
            right("p50", 10),
            right("p99", 10),
            right("p99.9", 10),
            right("max", 10)
        );
        out.push(self.style.faint(&fit(&head, columns)));
        for metric in Metric::MESSAGES
            .into_iter()
            .filter(|m| self.shape.shows(*m))
        {
            let whole = self.latency.get(metric);
            // Before the measured phase there is only the warm-up to look at.
            let last = self.recent.back().map(|p| p.latency.get(metric));
            let shown = if whole.count > 0 { Some(whole) } else { last };
            let Some(l) = shown.filter(|l| l.count > 0) else {
                out.push(left(metric.name(), 13) + &right("-", 10));
                continue;
            };
            let cell = |ns: u64, percentile: f64| right(&marked(ns, l.supports(percentile)), 10);
            let line = format!(
                "{}{}{}{}{}  {}",
                left(metric.name(), 13),
                cell(l.p50_ns, 50.0),
                cell(l.p99_ns, 99.0),
                cell(l.p99_9_ns, 99.9),
                right(&Nanos(l.max_ns).to_string(), 10),
                sparkline(
                    self.recent
                        .iter()
                        .map(|p| p.latency.get(metric).p99_ns as f64)
                )
            );
            out.push(fit(&line, columns).into_owned());
        }
    }

    fn usage(&self) -> Option<String> {
        let last = self.recent.back()?;
        let one = |name: &str, usage: Option<ProcessUsage>| {
            usage.map(|u| {
                format!(
                    "{name} {:.2} cores, {:.0} MB",
                    u.cpu_cores,
                    u.rss_bytes as f64 / 1e6
                )
            })
        };
        let parts: Vec<String> = [one("broker", last.broker), one("bellows", last.client)]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| parts.join("   "))
    }
}

/// Cells of `room` for a part of a whole, at least two.
fn segment(room: usize, part: f64, whole: f64) -> usize {
    ((part / whole * room as f64) as usize).clamp(2, room.saturating_sub(2).max(2))
}

const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Warmup => "warm-up",
        Phase::Measure => "measure",
        Phase::Drain => "drain",
    }
}
