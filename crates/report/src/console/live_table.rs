//! The table of a running load: its content, laid out for the screen; scenarios other than messages as far as there is
//! room.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use archive::{ScenarioPoint, SeriesPoint};
use measure::{Counters, Interval, LatencySummary, Metric, MetricKind, Nanos, Phase, Summaries};

use super::live_beside::LiveBeside;
use super::live_charts::{LatencyHistogram, MOST_VALUES, Trend, add_trends};
use super::scenario::{
    BYTES, called, counts_of, latencies, latency_name, latency_table, rate_with_unit, with_own_unit,
};
use super::table::{Table, or_dash, with_heads};
use super::text::{Style, clock, fit, fit_middle, sanitise, wrap};
use super::{Shape, interval, phase_name};
use crate::numbers::{bytes, count, duration, per_second, percentile, rate, three_digits};

/// Rows of selected series that stand beside a scenario in any case, where there is room.
const MOST_SELECTED: usize = 8;
/// Columns behind a step for its time: `: 3600 s`.
const WAITED: usize = 8;
/// Head of figures of the measured phase so far.
const MEASURED: &str = "measured";
/// Counts of messages that stay where there is no room for all.
const FIRST: [&str; 2] = ["sent", "received"];
/// Latencies of messages that stay where there is no room for all.
const HEADLINES: [Metric; 2] = [Metric::ACK_RESPONSE, Metric::END_TO_END];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Extent {
    #[default]
    Whole,
    Brief,
    /// A row each; of messages no latencies.
    Rows,
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

#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    messages: Extent,
    beside: Extent,
    /// Rows of scenarios beyond those that their extent has.
    more: usize,
    /// Lines for series that were selected of pages, heads included.
    series: usize,
    histogram: usize,
}

/// The table's content; drawing it is [`TableView`]'s work.
#[derive(Debug, Default)]
pub(super) struct LiveTable {
    pub(super) shape: Shape,
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
    pub(super) recent: VecDeque<SeriesPoint>,
    measured: Counters,
    measured_seconds: f64,
    latency: Summaries,
    scenarios: BTreeMap<String, ScenarioPoint>,
    histogram: Option<LatencyHistogram>,
}

impl LiveTable {
    pub(super) fn new(shape: Shape, style: Style) -> Self {
        Self {
            shape,
            // Its lines are drawn side by side, each filled up to the edge: words of two must not touch there.
            style: Style { columns: style.columns.saturating_sub(1), ..style },
            ..Self::default()
        }
    }

    /// Takes over the size of a terminal that may have changed; whether its width has.
    pub(super) fn resize(&mut self, now: Style) -> bool {
        if !now.terminal {
            return false;
        }
        self.style.rows = now.rows;
        let columns = now.columns.saturating_sub(1);
        std::mem::replace(&mut self.style.columns, columns) != columns
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
        let histogram = |it: Metric| LatencyHistogram::of(it, measured.latencies.histogram(it));
        self.histogram = self.headline().and_then(histogram);
        self.recent.push_back(point.clone());
        if self.recent.len() > MOST_VALUES {
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
        let mut out = vec![self.style.strong(&fit_middle(&sanitise(&title), columns))];
        let progress = self.shape.progress.map(|runs| runs.text(Instant::now()));
        if self.phase.is_none() || self.recent.is_empty() {
            let phase = self.phase.filter(|_| self.step.is_empty());
            let step = match (&self.waiting, phase) {
                (Some(waiting), _) => waiting,
                (None, Some(phase)) => phase_name(phase),
                (None, None) => self.step.as_str(),
            };
            out.extend(progress.map(|it| fit(&it, columns).into_owned()));
            out.push(fit(step, columns.saturating_sub(WAITED)).into_owned());
            return out;
        }
        out.push(self.bar(columns));
        let third = self.waiting.as_ref().or(progress.as_ref());
        out.push(fit(third.map_or("", String::as_str), columns).into_owned());
        // Of nothing there are no lines.
        let step = wrap(&self.step, columns.saturating_sub(WAITED));
        let rows = self.style.rows.saturating_sub(1 + step.len().max(1));
        let room = rows.saturating_sub(out.len());
        out.extend(self.body(columns, room));
        out.truncate(rows.max(3));
        out.extend(step);
        out
    }

    /// Figures, as far as there is room: messages give way to scenarios beside them, which were asked for.
    fn body(&self, columns: usize, room: usize) -> Vec<String> {
        let is_whole = |it: &Extent| matches!(it, Extent::Whole | Extent::Brief);
        let has_beside = !self.beside.is_empty() || self.has_scenarios();
        let layouts = LAYOUTS.iter().filter(|(messages, _)| has_beside || is_whole(messages));
        let (mut layout, mut body) = (Layout::default(), Vec::new());
        for (messages, beside) in layouts {
            layout = Layout { messages: *messages, beside: *beside, ..Layout::default() };
            body = self.laid_out(layout, columns);
            if body.len() <= room {
                break;
            }
        }
        let free = room.saturating_sub(body.len());
        // Whoever selects series looks for them; but not for a hundred, while the rest of a probe has no room.
        let share = if self.scenarios.is_empty() { free } else { (free / 2).max(MOST_SELECTED.min(free)) };
        let with_series = Layout { series: share, ..layout };
        let filled = self.laid_out(with_series, columns);
        if filled.len() <= room {
            (layout, body) = (with_series, filled);
        }
        // One row after the other, as long as there are such.
        while body.len() < room {
            let next = Layout { more: layout.more + 1, ..layout };
            let filled = self.laid_out(next, columns);
            if filled.len() > room || filled.len() <= body.len() {
                break;
            }
            (layout, body) = (next, filled);
        }
        // The histogram goes first where there is no room.
        let with_histogram = Layout { histogram: room.saturating_sub(body.len()), ..layout };
        let filled = self.laid_out(with_histogram, columns);
        if filled.len() <= room {
            body = filled;
        }
        body
    }

    fn laid_out(&self, layout: Layout, columns: usize) -> Vec<String> {
        let Layout { messages, beside, more, series, histogram } = layout;
        let mut out = Vec::new();
        if self.has_messages() && messages != Extent::Nothing {
            self.rates(&mut out, messages);
            out.push(String::new());
        }
        if self.has_messages() && matches!(messages, Extent::Whole | Extent::Brief) {
            self.latencies(&mut out, messages);
            out.push(String::new());
        }
        out.extend(match beside {
            Extent::Whole => self.whole_scenarios(),
            Extent::Brief => self.brief_scenarios(more),
            _ => self.scenario_rows(more),
        });
        out.extend(self.histogram.iter().flat_map(|it| it.lines(histogram, MEASURED, self.style)));
        out.extend(self.beside.lines(self.style));
        out.extend(self.beside.selected(series, self.style));
        let usage = self.recent.back().into_iter().flat_map(|point| interval::usage(&self.shape, point));
        let usage: Vec<String> = usage.chain(self.beside.memory()).collect();
        out.extend(wrap(&usage.join("; "), columns));
        out
    }

    fn has_scenarios(&self) -> bool {
        self.recent.iter().any(|point| point.scenarios().next().is_some())
    }

    const fn has_messages(&self) -> bool {
        self.shape.producers || self.shape.consumers
    }

    /// One segment per phase, as long as the phase is, and the time in the present one.
    fn bar(&self, columns: usize) -> String {
        let phases = [Phase::Warmup, Phase::Measure, Phase::Drain]
            .into_iter()
            .filter(|p| *p != Phase::Warmup || self.shape.warmup > Nanos::ZERO)
            .filter(|p| *p != Phase::Drain || self.has_messages() || self.has_scenarios());
        let now = self.phase.unwrap_or_default();
        let planned = self.shape.planned(now).filter(|l| *l > Nanos::ZERO);
        let time =
            clock(self.elapsed) + &planned.map_or_else(String::new, |it| format!(" / {}", clock(it.as_secs_f64())));
        let names = "warm-up  measure  drain  ".len();
        let room = columns.saturating_sub(names + time.len() + 4).max(12);
        let warmup = self.shape.warmup.as_secs_f64();
        let measure = self.shape.measure.map_or(warmup.max(1.0) * 3.0, Nanos::as_secs_f64);
        let mut out = String::new();
        for phase in phases {
            let cells = match phase {
                Phase::Drain => 3,
                Phase::Warmup => segment(room - 3, warmup, warmup + measure),
                Phase::Measure if warmup > 0.0 => room - 3 - segment(room - 3, warmup, warmup + measure),
                Phase::Measure => room - 3,
            };
            let done = match (phase.cmp(&now), planned) {
                (std::cmp::Ordering::Less, _) => cells,
                (std::cmp::Ordering::Greater, _) => 0,
                (_, Some(length)) => ((self.elapsed / length.as_secs_f64()).min(1.0) * cells as f64) as usize,
                (_, None) => self.elapsed as usize % (cells + 1),
            };
            let name = phase_name(phase);
            let name = if phase == now { self.style.strong(name) } else { self.style.faint(name) };
            out.push_str(&format!(
                "{name} {}{} ",
                self.style.accent(&"━".repeat(done)),
                self.style.faint(&"─".repeat(cells - done))
            ));
        }
        out + " " + &time
    }

    fn rates(&self, out: &mut Vec<String>, extent: Extent) {
        // Numbers that grow must not move the columns.
        let mut table = Table::of("            <|  msg/s now|   measured|        count");
        let mut trends = Vec::new();
        let counts = interval::counts(&self.shape);
        let is_whole = extent == Extent::Whole;
        for (name, count_of) in counts.filter(|(name, _)| is_whole || FIRST.contains(name)) {
            let rate_of = |point: &SeriesPoint| per_second(count_of(&point.counters), point.dt);
            let measured = count_of(&self.measured);
            let begun = self.measured_seconds > 0.0;
            let or_dash = |value: String| if begun { value } else { "-".to_owned() };
            table.row(vec![
                name.to_owned(),
                three_digits(self.recent.back().map_or(0.0, rate_of)),
                or_dash(three_digits(per_second(measured, self.measured_seconds))),
                or_dash(count(measured)),
            ]);
            trends.push(Trend::new(self.recent.iter().map(rate_of), rate));
        }
        self.add(out, table, &trends, "", ", msg/s");
    }

    fn latencies(&self, out: &mut Vec<String>, extent: Extent) {
        // Before the measured phase there is only the warm-up to look at.
        let last = self.recent.back().map(|point| &point.latency);
        let is_measured = self.latency.filled().next().is_some();
        let shown = if is_measured { Some(&self.latency) } else { last };
        let span = span(is_measured, &self.recent);
        let mut trends = Vec::new();
        let mut table = Table::of(&format!("{span:12}<|     p50|     p99|   p99.9|     max"));
        for metric in Metric::MESSAGES
            .into_iter()
            .filter(|m| self.shape.shows(*m))
            .filter(|m| extent == Extent::Whole || HEADLINES.contains(m))
        {
            let Some(l) = shown.map(|all| all.get(metric)).filter(|l| l.count > 0) else {
                table.row(vec![metric.name().to_owned(), "-".to_owned()]);
                trends.push(Trend::new([], nanoseconds));
                continue;
            };
            let p99 = |point: &SeriesPoint| {
                let latency = point.latency.get(metric);
                // A second without an answer has no latency, least of all a low one.
                if latency.count > 0 { latency.p99_ns as f64 } else { f64::NAN }
            };
            let mut row = vec![metric.name().to_owned()];
            row.extend(["p50", "p99", "p99.9"].map(|it| percentile(l, it)));
            row.push(Nanos(l.max_ns).to_string());
            table.row(row);
            trends.push(Trend::new(self.recent.iter().map(p99), nanoseconds));
        }
        self.add(out, table, &trends, "p99, ", "");
    }

    /// Adds the lines of a table with the trends of its rows; `what` of a second they are of, and their unit.
    fn add(&self, out: &mut Vec<String>, mut table: Table, trends: &[Trend], what: &str, unit: &str) {
        let columns = self.style.columns;
        let room = table.room(columns, usize::MAX);
        let head = |last: usize| format!("{what}{}", last_seconds(&self.recent, last));
        add_trends(&mut table, trends, room, head, unit);
        out.extend(with_heads(table.lines(columns), |heads| self.style.faint(heads)));
    }

    /// The latency that is asked for first: of deliveries, else of answers, else of another scenario.
    fn headline(&self) -> Option<Metric> {
        let mut of_messages = HEADLINES.into_iter().rev().filter(|metric| self.shape.shows(*metric));
        let found = of_messages.find(|metric| self.latency.get(*metric).count > 0);
        found.or_else(|| self.scenarios.values().find_map(|it| Some(first_latency(&it.latency)?.0)))
    }
}

/// Cells of `room` for a part of a whole, at least two.
fn segment(room: usize, part: f64, whole: f64) -> usize {
    ((part / whole * room as f64) as usize).clamp(2, room.saturating_sub(2).max(2))
}

/// Counters of a scenario that are shown where there is no room for all: begun, completed and failed.
const FIRST_COUNTERS: usize = 3;

/// A scenario in the last second, and in the measured phase so far, where that has begun.
#[derive(Clone, Copy)]
struct LiveScenario<'a> {
    name: &'a str,
    now: &'a ScenarioPoint,
    whole: Option<&'a ScenarioPoint>,
}

impl<'a> LiveScenario<'a> {
    fn shown(&self) -> &'a ScenarioPoint {
        self.whole.unwrap_or(self.now)
    }

    /// Metrics for spare room, each with its rank: counts of events, latencies, bytes, and last the counts that are 0.
    fn further(&self) -> Vec<(u8, Metric)> {
        let counters = counts_of(&self.now.counts, MetricKind::Counter).skip(FIRST_COUNTERS).map(|(metric, _)| {
            let number = self.shown().counts.get(&metric).copied().unwrap_or(0);
            match (number, metric.info().unit) {
                (0, _) => (3, metric),
                (_, BYTES) => (2, metric),
                _ => (0, metric),
            }
        });
        let first = first_latency(&self.shown().latency).map(|(metric, _)| metric);
        let latencies = self.shown().latency.filled().map(|(metric, _)| metric).filter(|it| Some(*it) != first);
        counters.chain(latencies.map(|metric| (1, metric))).collect()
    }

    fn failed(&self) -> String {
        let mut counters = counts_of(&self.shown().counts, MetricKind::Counter);
        let failed = counters.find(|(metric, _)| metric.name() == "failed");
        or_dash(failed.map(|(_, number)| count(number)))
    }

    fn in_flight(&self) -> String {
        let most = counts_of(&self.now.counts, MetricKind::Peak).next();
        or_dash(most.map(|(metric, most)| with_own_unit(most, metric.info().unit)))
    }
}

impl LiveTable {
    fn all_scenarios(&self) -> impl Iterator<Item = LiveScenario<'_>> {
        let (measured, seconds) = (&self.scenarios, self.measured_seconds);
        let last = self.recent.back().into_iter().flat_map(SeriesPoint::scenarios);
        last.map(move |(name, now)| LiveScenario { name, now, whole: measured.get(name).filter(|_| seconds > 0.0) })
    }

    /// The rates and latencies of all scenarios; before the measured phase, those of the last second.
    fn whole_scenarios(&self) -> Vec<String> {
        let mut out = Vec::new();
        for of in self.all_scenarios() {
            out.extend(self.scenario_rates(of, |_| true));
            out.push(String::new());
            let span = span(of.whole.is_some(), &self.recent);
            out.extend(latencies(&of.shown().latency, &span, self.style));
            out.push(String::new());
        }
        out
    }

    /// Each scenario's first counts, one table of first latencies, and `more` rows of the next most important figures.
    fn brief_scenarios(&self, more: usize) -> Vec<String> {
        let further = self.most_telling(more, |_| true);
        let (mut out, mut shown, mut is_measured) = (Vec::new(), Vec::new(), false);
        for of in self.all_scenarios() {
            let first = counts_of(&of.now.counts, MetricKind::Counter).take(FIRST_COUNTERS);
            let first: Vec<Metric> = first.map(|(metric, _)| metric).collect();
            out.extend(self.scenario_rates(of, |metric| first.contains(&metric) || further.contains(&metric)));
            out.push(String::new());
            is_measured = of.whole.is_some();
            let first = first_latency(&of.shown().latency).map(|(metric, _)| metric);
            let filled = of.shown().latency.filled();
            shown.extend(filled.filter(|(it, _)| Some(*it) == first || further.contains(it)));
        }
        if !out.is_empty() {
            out.extend(latency_table(shown.into_iter(), &span(is_measured, &self.recent), false, self.style));
            out.push(String::new());
        }
        out
    }

    /// One table of all scenarios, a row each: its first latency, how many of its operations failed, and the most that
    /// were in flight in the last second; and `more` rows of further latencies.
    fn scenario_rows(&self, more: usize) -> Vec<String> {
        let Some(first) = self.all_scenarios().next() else { return Vec::new() };
        let further = self.most_telling(more, |metric| metric.info().kind == MetricKind::Histogram);
        let span = span(first.whole.is_some(), &self.recent);
        let mut table = Table::of(&format!("{span:12}<|     p50|     p99|     max|  count|failed|in flight"));
        table.drop = &[4, 1];
        for of in self.all_scenarios() {
            let latencies = &of.shown().latency;
            let first = first_latency(latencies);
            let mut row = match first {
                Some((metric, latency)) => latency_cells(metric, latency),
                None => std::iter::once(called(of.name)).chain(std::iter::repeat_n("-".to_owned(), 4)).collect(),
            };
            row.extend([of.failed(), of.in_flight()]);
            table.row(row);
            let first = first.map(|(metric, _)| metric);
            let others = latencies.filled().filter(|(it, _)| Some(*it) != first && further.contains(it));
            others.for_each(|(metric, latency)| table.row(latency_cells(metric, latency)));
        }
        let mut out = table.latency_lines(self.style);
        out.push(String::new());
        out
    }

    /// The first of the figures for spare room, one scenario after the other.
    fn most_telling(&self, number: usize, is_wanted: impl Fn(Metric) -> bool) -> Vec<Metric> {
        let mut all: Vec<(u8, usize, Metric)> = Vec::new();
        for of in self.all_scenarios() {
            let wanted = of.further().into_iter().filter(|(_, it)| is_wanted(*it));
            all.extend(wanted.enumerate().map(|(place, (rank, it))| (rank, place, it)));
        }
        all.sort_by_key(|(rank, place, _)| (*rank, *place));
        all.into_iter().map(|(_, _, metric)| metric).take(number).collect()
    }

    /// The counters of a scenario that are wanted, and its largest values, which stand below them.
    fn scenario_rates(&self, of: LiveScenario<'_>, is_wanted: impl Fn(Metric) -> bool) -> Vec<String> {
        let LiveScenario { name, now, whole } = of;
        let unit = counts_of(&now.counts, MetricKind::Counter).next().map_or("", |(metric, _)| metric.info().unit);
        // Numbers that grow must not move the columns.
        let now_of = format!("{}/s now", sanitise(unit));
        let heads = format!("<|{now_of:>11}|   measured|      count");
        let mut table = Table::of(&heads).titled(0, &format!("{:12}", called(name)));
        let mut trends = Vec::new();
        let value = |point: &SeriesPoint, metric: Metric| {
            point.scenarios.get(name).and_then(|it| it.counts.get(&metric)).copied().unwrap_or(0)
        };
        let of_measured = |metric: Metric| Some(whole?.counts.get(&metric).copied().unwrap_or(0));
        let counters = counts_of(&now.counts, MetricKind::Counter);
        for (metric, _) in counters.filter(|(metric, _)| is_wanted(*metric)) {
            let unit = metric.info().unit;
            let rate_of = |point: &SeriesPoint| per_second(value(point, metric), point.dt);
            let shown: fn(f64) -> String = match unit {
                BYTES => |rate| rate_with_unit(rate, BYTES),
                _ => three_digits,
            };
            let number = of_measured(metric);
            table.row(vec![
                sanitise(metric.name()).into_owned(),
                shown(self.recent.back().map_or(0.0, rate_of)),
                or_dash(number.map(|number| shown(per_second(number, self.measured_seconds)))),
                or_dash(number.map(|number| with_own_unit(number, unit))),
            ]);
            trends.push(Trend::new(self.recent.iter().map(rate_of), shown));
        }
        // A largest value is no rate: that of the last second, and that of all.
        for (metric, _) in counts_of(&now.counts, MetricKind::Peak) {
            let unit = metric.info().unit;
            let written: fn(f64) -> String = match unit {
                BYTES => |most| bytes(most as u64),
                _ => |most| count(most as u64),
            };
            let last = self.recent.back().map_or(0, |point| value(point, metric));
            let most = of_measured(metric);
            table.row(vec![
                format!("{}, most", sanitise(metric.name())),
                with_own_unit(last, unit),
                String::new(),
                or_dash(most.map(|most| with_own_unit(most, unit))),
            ]);
            let values = self.recent.iter().map(|point| value(point, metric) as f64);
            trends.push(Trend::new(values, written));
        }
        let room = table.room(self.style.columns, usize::MAX);
        let unit = format!(", {}/s", sanitise(unit));
        add_trends(&mut table, &trends, room, |last| last_seconds(&self.recent, last), &unit);
        table.faint_lines(self.style)
    }
}

fn latency_cells(metric: Metric, latency: &LatencySummary) -> Vec<String> {
    let [p50, p99] = ["p50", "p99"].map(|it| percentile(latency, it));
    vec![latency_name(metric), p50, p99, Nanos(latency.max_ns).to_string(), count(latency.count)]
}

/// The latency that a scenario is about: the first that is a whole.
fn first_latency(all: &Summaries) -> Option<(Metric, &LatencySummary)> {
    all.filled().find(|(metric, _)| !metric.info().part)
}

/// The time that latencies of the live table are of: the measured phase so far, or the last interval before it.
fn span(is_measured: bool, recent: &VecDeque<SeriesPoint>) -> String {
    if is_measured { MEASURED.to_owned() } else { last_seconds(recent, 1) }
}

/// `last 60 s`, by the length of so many intervals; `last 1.3 s` with a phase that is shorter than one.
fn last_seconds(recent: &VecDeque<SeriesPoint>, number: usize) -> String {
    let lengths = recent.iter().rev().take(number).map(|point| point.dt);
    match lengths.sum::<f64>() {
        seconds if seconds < 0.95 => format!("last {:.1} s", seconds.max(0.1)),
        // An interval that ended a warm-up makes it no whole number of seconds.
        seconds if seconds < 9.95 && (seconds - seconds.round()).abs() >= 0.05 => format!("last {seconds:.1} s"),
        seconds => format!("last {seconds:.0} s"),
    }
}

fn nanoseconds(value: f64) -> String {
    duration(value as u64)
}
