//! The table of a running load: its content, laid out for the screen.

use std::collections::{BTreeMap, VecDeque};

use archive::{ScenarioPoint, SeriesPoint};
use measure::{Counters, Interval, Metric, Nanos, Phase, Summaries};

use super::live_beside::LiveBeside;
use super::live_scenarios::{self, LiveScenarios};
use super::table::{Table, with_heads};
use super::text::{Style, clock, fit, sanitise, sparkline, wrap};
use super::{Shape, interval, phase_name};
use crate::numbers::{count, marked, per_second, three_digits};

/// How many seconds the sparklines look back.
const LOOK_BACK: usize = 10;
/// Rows of selected series that stand beside a scenario in any case, where there is room.
const MOST_SELECTED: usize = 8;
/// Columns behind a step for its time: `: 3600 s`.
const WAITED: usize = 8;
/// Counts of messages that stay where there is no room for all.
const FIRST: [&str; 2] = ["sent", "received"];
/// Latencies of messages that stay where there is no room for all.
const HEADLINES: [Metric; 2] = [Metric::ACK_RESPONSE, Metric::END_TO_END];

/// Rows of messages, or of the activity beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// All rows.
    Whole,
    /// The first rows.
    Brief,
    /// A row each; of messages no latencies.
    Rows,
    /// No rows.
    Nothing,
}

/// Extents of messages and of the activity beside them, in the order in which they are tried.
const LAYOUTS: [(Extent, Extent); 6] = [
    (Extent::Whole, Extent::Whole),
    (Extent::Whole, Extent::Brief),
    (Extent::Whole, Extent::Rows),
    (Extent::Brief, Extent::Rows),
    (Extent::Rows, Extent::Rows),
    (Extent::Nothing, Extent::Rows),
];

/// Extent of each part.
#[derive(Clone, Copy, Debug)]
struct Layout {
    messages: Extent,
    beside: Extent,
    /// Rows of scenarios beyond those that their extent has.
    more: usize,
    /// Rows for series that were selected of pages, heads included.
    series: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            messages: Extent::Whole,
            beside: Extent::Whole,
            more: 0,
            series: 0,
        }
    }
}

/// The table's content; drawing it is [`TableView`]'s work.
#[derive(Debug)]
pub(super) struct LiveTable {
    shape: Shape,
    pub(super) style: Style,
    /// The current step before or after the load; empty during the load.
    pub(super) step: String,
    /// The reason for waiting, and how long it has lasted.
    pub(super) waiting: Option<String>,
    pub(super) phase: Option<Phase>,
    pub(super) beside: LiveBeside,
    /// Seconds since the run's origin at which the phase began, once an interval said so.
    phase_start: Option<f64>,
    elapsed: f64,
    recent: VecDeque<SeriesPoint>,
    measured: Counters,
    measured_seconds: f64,
    latency: Summaries,
    scenarios: BTreeMap<String, ScenarioPoint>,
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
            beside: LiveBeside::default(),
            phase_start: None,
            elapsed: 0.0,
            recent: VecDeque::with_capacity(LOOK_BACK + 1),
            measured: Counters::default(),
            measured_seconds: 0.0,
            latency: Summaries::default(),
            scenarios: BTreeMap::new(),
        }
    }

    pub(super) const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Takes over the size of a terminal that may have changed; whether its width has.
    pub(super) fn resize(&mut self, now: Style) -> bool {
        if !now.terminal {
            return false;
        }
        let before = self.style.columns;
        self.style.columns = now.columns.saturating_sub(1);
        self.style.rows = now.rows;
        before != self.style.columns
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        if phase == Phase::Measure && self.phase != Some(phase) {
            self.beside.begin();
        }
        self.phase = Some(phase);
        self.phase_start = None;
        self.elapsed = 0.0;
    }

    pub(super) fn point(&mut self, point: &SeriesPoint, measured: &Interval) {
        if self.phase < Some(point.phase) {
            self.enter(point.phase);
        }
        self.waiting = None;
        // The last second of a phase comes when the next one may have begun.
        if self.phase == Some(point.phase) {
            let start = *self.phase_start.get_or_insert(point.t);
            self.elapsed = point.t + point.dt - start;
        }
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
        let title = match self.shape.about.as_str() {
            "" => self.shape.title.clone(),
            about => format!("{} {about}", self.shape.title),
        };
        let mut out = vec![self.style.strong(&fit(&sanitise(&title), columns))];
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
        let step = match self.step.is_empty() {
            true => Vec::new(),
            false => wrap(&self.step, columns.saturating_sub(WAITED)),
        };
        let rows = self.style.rows.saturating_sub(1 + step.len().max(1));
        let room = rows.saturating_sub(out.len());
        out.extend(self.body(columns, room));
        out.truncate(rows.max(3));
        out.extend(step);
        out
    }

    /// Figures, as far as there is room: messages give way to scenarios beside them, which were asked for.
    fn body(&self, columns: usize, room: usize) -> Vec<String> {
        let is_alone = !self.has_beside();
        let layouts = LAYOUTS
            .iter()
            .filter(|(messages, _)| !is_alone || matches!(messages, Extent::Whole | Extent::Brief));
        let (mut layout, mut body) = (Layout::default(), Vec::new());
        for (messages, beside) in layouts {
            layout = Layout {
                messages: *messages,
                beside: *beside,
                ..Layout::default()
            };
            body = self.laid_out(layout, columns);
            if body.len() <= room {
                break;
            }
        }
        let free = room.saturating_sub(body.len());
        // Whoever selects series looks for them; but not for a hundred, while the rest of a probe has no room.
        let share = match self.scenarios.is_empty() {
            true => free,
            false => (free / 2).max(MOST_SELECTED.min(free)),
        };
        let with_series = Layout {
            series: share,
            ..layout
        };
        let filled = self.laid_out(with_series, columns);
        if filled.len() <= room {
            (layout, body) = (with_series, filled);
        }
        // One row after the other, as long as there are such.
        while body.len() < room {
            let next = Layout {
                more: layout.more + 1,
                ..layout
            };
            let filled = self.laid_out(next, columns);
            if filled.len() > room || filled.len() <= body.len() {
                break;
            }
            (layout, body) = (next, filled);
        }
        body
    }

    fn laid_out(&self, layout: Layout, columns: usize) -> Vec<String> {
        let Layout {
            messages,
            beside,
            more,
            series,
        } = layout;
        let mut out = Vec::new();
        if self.has_messages() && messages != Extent::Nothing {
            self.rates(&mut out, messages, columns);
            out.push(String::new());
        }
        if self.has_messages() && matches!(messages, Extent::Whole | Extent::Brief) {
            self.latencies(&mut out, messages, columns);
            out.push(String::new());
        }
        let scenarios = LiveScenarios {
            recent: &self.recent,
            measured: &self.scenarios,
            seconds: self.measured_seconds,
            style: self.style,
        };
        out.extend(match beside {
            Extent::Whole => scenarios.whole(),
            Extent::Brief => scenarios.brief(more),
            _ => scenarios.rows(more),
        });
        out.extend(self.beside.lines(self.style));
        out.extend(self.beside.selected(series, self.style));
        let last = self.recent.back().into_iter();
        let usage: Vec<String> = last
            .flat_map(|point| interval::usage(&self.shape, point))
            .chain(self.beside.memory())
            .collect();
        out.extend(wrap(&usage.join("; "), columns));
        out
    }

    /// Whether anything is requested beside messages.
    fn has_beside(&self) -> bool {
        let mut points = self.recent.iter();
        !self.beside.is_empty() || points.any(|point| point.scenarios().next().is_some())
    }

    /// Whether the load is on, and nothing is done before or after it.
    pub(super) const fn is_loading(&self) -> bool {
        self.phase.is_some() && self.step.is_empty()
    }

    /// Whether there is a load; a profile alone has none.
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

    fn rates(&self, out: &mut Vec<String>, extent: Extent, columns: usize) {
        // Numbers that grow must not move the columns.
        let mut table = Table::of("            <|  msg/s now|   measured|        count|last 10 s<");
        table.drop_in_order(&[4]);
        let counts = interval::counts(&self.shape);
        let is_whole = extent == Extent::Whole;
        for (name, count_of) in counts.filter(|(name, _)| is_whole || FIRST.contains(name)) {
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

    fn latencies(&self, out: &mut Vec<String>, extent: Extent, columns: usize) {
        // Before the measured phase there is only the warm-up to look at.
        let last = self.recent.back().map(|point| &point.latency);
        let is_measured = self.latency.filled().next().is_some();
        let shown = if is_measured {
            Some(&self.latency)
        } else {
            last
        };
        let span = live_scenarios::span(is_measured);
        let mut table = Table::of(&format!(
            "{span:12}<|     p50|     p99|   p99.9|     max|p99, last 10 s<"
        ));
        table.drop_in_order(&[5]);
        for metric in Metric::MESSAGES
            .into_iter()
            .filter(|m| self.shape.shows(*m))
            .filter(|m| extent == Extent::Whole || HEADLINES.contains(m))
        {
            let Some(l) = shown.map(|all| all.get(metric)).filter(|l| l.count > 0) else {
                table.row(vec![metric.name().to_owned(), "-".to_owned()]);
                continue;
            };
            let cell = |ns: u64, percentile: f64| marked(ns, l.supports(percentile));
            let p99 = |point: &SeriesPoint| {
                let latency = point.latency.get(metric);
                // A second without an answer has no latency, least of all a low one.
                if latency.count > 0 {
                    latency.p99_ns as f64
                } else {
                    f64::NAN
                }
            };
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
        let lines = table.lines(columns);
        out.extend(with_heads(lines, |heads| self.style.faint(heads)));
    }
}

/// Cells of `room` for a part of a whole, at least two.
fn segment(room: usize, part: f64, whole: f64) -> usize {
    ((part / whole * room as f64) as usize).clamp(2, room.saturating_sub(2).max(2))
}
