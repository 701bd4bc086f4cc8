//! Live view of a run: one redrawn table on a terminal, lines in a pipe, nothing where nothing is wanted.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use archive::{Event, SeriesName, SeriesPoint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use measure::{Interval, Metric, MetricKind, Nanos, Phase, Summaries};

use super::live_beside::{LiveBeside, PageRequests};
use super::live_table::LiveTable;
use super::text::{Style, clock, prose, sanitise, wrap};
use super::{Shape, interval, out, phase_name};
use crate::numbers::{count, counted, seconds};

/// Waits longer than this show their duration.
const LONG: Duration = Duration::from_secs(1);
/// When a pipe is told first that something is still waited for, and the interval of reminders, in seconds.
const REMIND: u64 = 2;
const REMIND_EVERY: u64 = 10;
/// Seconds of a load that have a line each in a pipe, and how many share one from then on.
const OWN_LINES: u32 = 10;
const SHARED_LINE: f64 = 10.0;
/// Interval at which the time of a running step is renewed.
const TICK: Duration = Duration::from_millis(250);

/// Live view of a run.
#[derive(Debug)]
pub struct Live {
    view: View,
    closed: bool,
}

#[derive(Debug)]
enum View {
    Quiet(Reminders),
    Plain(Box<PlainView>),
    Table(Box<TableView>),
}

impl Live {
    /// No output until the summary.
    pub const fn quiet() -> Self {
        Self { view: View::Quiet(Reminders(None)), closed: false }
    }

    /// A line a second to `results`, of a long load, and of one of several runs, one in ten seconds; steps, phases and
    /// events to standard error, and a line before one of several runs.
    pub fn plain(shape: Shape, results: Box<dyn Write + Send>) -> Self {
        if shape.progress.is_some() {
            note(&run_heading(&shape, Instant::now()));
        }
        Self { view: View::Plain(Box::new(PlainView::new(shape, results))), closed: false }
    }

    /// A table on standard error, redrawn with every interval.
    pub fn table(shape: Shape, style: Style) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.enable_steady_tick(TICK);
        let view = TableView { table: LiveTable::new(shape, style), bar };
        view.show_waited(false);
        Self { view: View::Table(Box::new(view)), closed: false }
    }

    /// Whether the results have no reader any more (a closed pipe).
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Names the current step before the load starts, or after it has ended.
    pub fn step(&mut self, text: &str) {
        match &mut self.view {
            View::Quiet(_) => {}
            View::Plain(view) => view.step(&sanitise(text)),
            View::Table(view) => view.step(&sanitise(text)),
        }
    }

    /// Says for how long something is waited for.
    pub fn waiting(&mut self, text: &str, waited: Duration) {
        match &mut self.view {
            View::Quiet(_) => {}
            View::Plain(view) => view.reminded.due(text, waited).iter().for_each(|text| note(text)),
            View::Table(view) => view.waiting(&sanitise(text), waited),
        }
    }

    /// Says for how long something is waited for that the user may have to bring, in quiet, too.
    pub fn missing(&mut self, text: &str, waited: Duration) {
        match &mut self.view {
            View::Quiet(reminded) => reminded.due(text, waited).iter().for_each(|text| note(text)),
            _ => self.waiting(text, waited),
        }
    }

    /// A phase begins.
    pub fn phase(&mut self, phase: Phase, length: Option<Nanos>) {
        match &mut self.view {
            View::Quiet(_) => {}
            View::Plain(view) => {
                view.end_step();
                view.tell_phase();
                let name = phase_name(phase);
                let text = match (phase, length.filter(|l| *l > Nanos::ZERO)) {
                    (Phase::Drain, Some(length)) => format!("{name}, at most {length}"),
                    (_, Some(length)) => format!("{name} for {length}"),
                    (_, None) => name.to_owned(),
                };
                view.begins = Some((phase, text));
                // The last second of the phase before is still to come.
                if view.last.is_none() {
                    view.tell_phase();
                }
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
            View::Quiet(_) => Ok(()),
            View::Plain(view) => view.point(point),
            View::Table(view) => {
                view.end_step();
                view.resize(out::style_aside());
                view.table.point(point, measured);
                view.redraw();
                Ok(())
            }
        };
        self.closed |= written.is_err();
    }

    /// Named series have new values: pages that were scraped, and the memory of nodes.
    pub fn values(&mut self, values: &[(SeriesName, f64)]) {
        self.beside().into_iter().for_each(|it| it.add(values));
    }

    /// Readings beside the load; `None` where nothing is shown.
    fn beside(&mut self) -> Option<&mut LiveBeside> {
        match &mut self.view {
            View::Quiet(_) => None,
            View::Plain(view) => Some(&mut view.beside),
            View::Table(view) => Some(&mut view.table.beside),
        }
    }

    /// A request for a page of metrics brought none.
    pub fn page_failed(&mut self, page: &str) {
        self.beside().into_iter().for_each(|it| it.failed(page));
    }

    /// Requests for a page of metrics so far.
    pub fn page(&mut self, name: &str, requests: PageRequests) {
        self.beside().into_iter().for_each(|it| it.requested(name, requests));
    }

    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        self.say(&format!("{} {}", clock(event.t), event.label));
    }

    /// A broker was started: where it listens stays on the screen, but for one of several runs.
    pub fn ready(&mut self, text: &str) {
        let shape = match &self.view {
            View::Quiet(_) => return,
            View::Plain(view) => &view.shape,
            View::Table(view) => &view.table.shape,
        };
        if shape.progress.is_some() { self.step(text) } else { self.say(text) }
    }

    /// Writes one line above the live table.
    pub fn say(&mut self, text: &str) {
        let text = sanitise(text);
        match &mut self.view {
            View::Quiet(_) => {}
            View::Plain(_) => note(&text),
            View::Table(view) => {
                let style = view.table.style;
                wrap(&text, style.columns).iter().for_each(|line| view.bar.println(style.faint(line)));
            }
        }
    }

    /// Takes the table off the screen; call it before anything else is printed.
    pub fn clear(&mut self) {
        match &mut self.view {
            View::Quiet(_) => {}
            View::Plain(view) => {
                self.closed |= view.write_shared().is_err();
                view.end_step();
                view.tell_phase();
            }
            View::Table(view) => view.bar.finish_and_clear(),
        }
    }
}

/// Time of a command's runs so far, and the time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsProgress {
    began: Instant,
    run_began: Instant,
    runs: u32,
    total: Duration,
    longest: Duration,
    /// When the last run ends, if that is known, and whether that is the latest time.
    ends: Option<(Instant, bool)>,
}

impl RunsProgress {
    /// Begins with no runs.
    pub const fn new(began: Instant) -> Self {
        Self { began, run_began: began, runs: 0, total: Duration::ZERO, longest: Duration::ZERO, ends: None }
    }

    /// Begins the first of this many further runs, each expected to be as long as those before on average.
    pub fn begin(&mut self, runs: usize, now: Instant) -> Self {
        self.begun(self.total.checked_div(self.runs), runs, now, false)
    }

    /// Begins the first of at most this many further runs, none expected to be longer than the longest before.
    pub fn begin_of_at_most(&mut self, runs: usize, now: Instant) -> Self {
        self.begun(Some(self.longest).filter(|_| self.runs > 0), runs, now, true)
    }

    fn begun(&mut self, each: Option<Duration>, runs: usize, now: Instant, is_latest: bool) -> Self {
        let all = each.and_then(|each| each.checked_mul(u32::try_from(runs).ok()?));
        self.run_began = now;
        self.ends = all.and_then(|all| now.checked_add(all)).map(|ends| (ends, is_latest));
        *self
    }

    /// Ends a run, which counts for the length of further ones.
    pub fn end(&mut self, now: Instant) {
        let took = now.duration_since(self.run_began);
        self.runs += 1;
        self.total += took;
        self.longest = self.longest.max(took);
    }

    /// `8 runs in 12 min`: those that have ended; `None` without any.
    pub fn so_far(&self, now: Instant) -> Option<String> {
        let runs = counted(self.runs.into(), "run");
        (self.runs > 0).then(|| format!("{runs} in {}", rounded(now.duration_since(self.began))))
    }

    /// `12 min elapsed, 6 min left`.
    pub(super) fn text(&self, now: Instant) -> String {
        let elapsed = format!("{} elapsed", rounded(now.duration_since(self.began)));
        let Some((ends, is_latest)) = self.ends.filter(|(ends, _)| *ends > now) else { return elapsed };
        let left = rounded(ends.duration_since(now));
        match is_latest {
            true => format!("{elapsed}, at most {left} left unless trials disagree"),
            false => format!("{elapsed}, {left} left"),
        }
    }
}

/// A time without digits that nobody plans by: `89 s`, `12 min`, `2.5 h`.
fn rounded(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..90.0 => format!("{seconds:.0} s"),
        ..5_400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3_600.0),
    }
}

/// One of several runs, and their progress if any was made before it.
pub(super) fn run_heading(shape: &Shape, now: Instant) -> String {
    let progress = shape.progress.filter(|it| it.runs > 0).map(|it| format!("; {}", it.text(now)));
    sanitise(&format!("{}{}", shape.title, progress.unwrap_or_default())).into_owned()
}

fn note(text: &str) {
    out::aside(&prose(text, out::style_aside()));
}

struct Results(Box<dyn Write + Send>);

impl std::fmt::Debug for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Results")
    }
}

/// The last reminder of a wait, with the number of intervals waited.
#[derive(Debug)]
struct Reminders(Option<(String, u64)>);

impl Reminders {
    /// The text of a wait, once in each interval of reminders.
    fn due(&mut self, text: &str, waited: Duration) -> Option<String> {
        let number = u64::from(waited.as_secs() >= REMIND) + waited.as_secs() / REMIND_EVERY;
        let text = sanitise(text);
        let told = self.0.as_ref().filter(|(told, before)| *told == text && *before <= number);
        let is_due = number > told.map_or(0, |(_, before)| *before);
        is_due.then(|| {
            self.0 = Some((text.clone().into_owned(), number));
            format!("{text}: {} s so far", waited.as_secs())
        })
    }
}

#[derive(Debug)]
struct PlainView {
    shape: Shape,
    results: Results,
    step: Option<(String, Instant)>,
    reminded: Reminders,
    /// The phase that has begun, and its text, until the last second of the one before is shown.
    begins: Option<(Phase, String)>,
    /// Phase and end of the last second, in tenths of a second.
    last: Option<(Phase, u64)>,
    /// Lines of one second so far.
    lines: u32,
    /// Seconds that will have one line.
    shared: Option<SeriesPoint>,
    beside: LiveBeside,
}

impl PlainView {
    fn new(shape: Shape, results: Box<dyn Write + Send>) -> Self {
        let (results, beside) = (Results(results), LiveBeside::default());
        let (begins, last, shared) = (None, None, None);
        Self { shape, results, step: None, reminded: Reminders(None), begins, last, lines: 0, shared, beside }
    }

    fn step(&mut self, text: &str) {
        self.end_step();
        self.tell_phase();
        note(text);
        self.step = Some((text.to_owned(), Instant::now()));
    }

    /// The line of an interval; none for the milliseconds behind a second, whose time and phase are those of its line.
    fn line(&mut self, point: &SeriesPoint) -> Option<String> {
        if self.begins.as_ref().is_some_and(|(phase, _)| *phase == point.phase) {
            self.tell_phase();
        }
        let end = (point.phase, ((point.t + point.dt) * 10.0).round() as u64);
        if self.last.replace(end) == Some(end) {
            return None;
        }
        let is_load = self.shape.producers || self.shape.consumers || point.scenarios().next().is_some();
        let own_lines = if self.shape.progress.is_some() { 0 } else { OWN_LINES };
        if !is_load || self.lines < own_lines {
            self.lines += 1;
            return interval::line(&self.shape, point, &self.beside.news());
        }
        match &mut self.shared {
            Some(shared) => add(shared, point),
            None => self.shared = Some(point.clone()),
        }
        let is_due = self.shared.as_ref().is_some_and(|it| it.dt >= SHARED_LINE - 0.5);
        is_due.then(|| self.shared_line()).flatten()
    }

    fn shared_line(&mut self) -> Option<String> {
        let shared = self.shared.take()?;
        interval::line(&self.shape, &shared, &self.beside.news())
    }

    /// The line of an interval, behind that of seconds of another phase.
    fn point(&mut self, point: &SeriesPoint) -> io::Result<()> {
        if self.shared.as_ref().is_some_and(|it| it.phase != point.phase) {
            self.write_shared()?;
        }
        let line = self.line(point);
        self.write(line)
    }

    fn write_shared(&mut self) -> io::Result<()> {
        let line = self.shared_line();
        self.write(line)
    }

    fn write(&mut self, line: Option<String>) -> io::Result<()> {
        let Some(line) = line else { return Ok(()) };
        self.results.0.write_all(out::harmless(&line).as_bytes())?;
        self.results.0.flush()
    }

    fn tell_phase(&mut self) {
        if let Some((_, text)) = self.begins.take() {
            note(&text);
        }
    }

    fn end_step(&mut self) {
        if let Some((text, since)) = self.step.take()
            && since.elapsed() >= LONG
        {
            note(&format!("{text}: took {}", seconds(since.elapsed().as_secs_f64())));
        }
    }
}

/// Adds a second to others: rates are those of all, and each latency is that of the second with the longest.
fn add(all: &mut SeriesPoint, next: &SeriesPoint) {
    all.dt += next.dt;
    all.counters.add(&next.counters);
    all.latency = longest(&all.latency, &next.latency);
    (all.broker, all.client) = (next.broker.or(all.broker), next.client.or(all.client));
    for (name, of) in &next.scenarios {
        let all = all.scenarios.entry(name.clone()).or_default();
        for (metric, number) in &of.counts {
            let sum = all.counts.entry(*metric).or_default();
            *sum = if metric.info().kind == MetricKind::Peak { (*sum).max(*number) } else { *sum + number };
        }
        all.latency = longest(&all.latency, &of.latency);
    }
}

fn longest(a: &Summaries, b: &Summaries) -> Summaries {
    let metrics: BTreeSet<Metric> = a.filled().chain(b.filled()).map(|(metric, _)| metric).collect();
    let longer = |metric| [a.get(metric), b.get(metric)].into_iter().max_by_key(|it| it.max_ns).cloned();
    metrics.into_iter().filter_map(|metric| Some((metric, longer(metric)?))).collect()
}

#[derive(Debug)]
struct TableView {
    table: LiveTable,
    bar: ProgressBar,
}

impl TableView {
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

    /// Before the load, the wait is a step of its own.
    fn waiting(&mut self, text: &str, waited: Duration) {
        if self.table.phase.is_some() && self.table.step.is_empty() {
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

    /// Takes over the size of a terminal that may have changed. The terminal broke or joined lines of another width, so
    /// that their places are lost: the screen is drawn again.
    fn resize(&mut self, now: Style) {
        if self.table.resize(now) {
            self.bar.suspend(out::clear_screen_aside);
        }
    }

    fn redraw(&self) {
        let text = self.table.lines().join("\n");
        self.bar.set_message(out::harmless(&text).into_owned());
        self.bar.tick();
    }
}

/// A known number of steps, on standard error: a bar on a terminal, a line for each step in a pipe, or nothing.
#[derive(Debug)]
pub enum Steps {
    /// Nothing is shown.
    Quiet,
    /// A line for each step.
    Plain,
    /// One bar for all of them, and their time.
    Bar(ProgressBar),
}

impl Steps {
    /// A bar where `style` is that of a terminal, else lines.
    pub fn new(style: Style) -> Self {
        if !style.terminal {
            return Self::Plain;
        }
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        if let Ok(template) = ProgressStyle::with_template("[{bar:30}] {human_pos}/{human_len}, {elapsed}\n{msg}") {
            bar.set_style(template.progress_chars("=> "));
        }
        bar.enable_steady_tick(TICK);
        Self::Bar(bar)
    }

    /// The number done, of how many, and the next step.
    pub fn at(&self, done: usize, of: usize, text: &str) {
        let text = sanitise(text);
        match self {
            Self::Quiet => {}
            Self::Plain => {
                let number = count((done + 1).min(of) as u64);
                note(&format!("{number}/{}: {text}", count(of as u64)));
            }
            Self::Bar(bar) => {
                bar.set_length(of as u64);
                bar.set_position(done as u64);
                bar.set_message(text.into_owned());
                bar.tick();
            }
        }
    }

    /// Takes it off the screen.
    pub fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> PlainView {
        PlainView::new(Shape { producers: true, ..Shape::default() }, Box::new(io::sink()))
    }

    /// The drain's last milliseconds had a line with the time of the one before.
    #[test]
    fn a_time_of_a_phase_has_one_line() {
        let mut view = view();
        let mut line = |phase, t, dt| {
            let point = SeriesPoint { t, dt, phase, ..SeriesPoint::default() };
            view.line(&point).is_some()
        };
        assert!(line(Phase::Measure, 9.0, 1.0));
        assert!(line(Phase::Drain, 10.0, 0.02));
        assert!(line(Phase::Drain, 10.02, 0.98));
        assert!(!line(Phase::Drain, 11.0, 0.01));
    }

    /// A long run in a pipe printed 400 letters per second.
    #[test]
    fn a_long_load_has_one_line_in_ten_seconds_with_all_their_messages_and_the_longest_latency() {
        let shape = Shape { producers: true, latency: true, ..Shape::default() };
        let mut view = PlainView::new(shape, Box::new(io::sink()));
        let mut line = |second: u32, phase| {
            let mut point = SeriesPoint { t: second.into(), dt: 1.0, phase, ..SeriesPoint::default() };
            point.counters.sent = if second == 25 { 0 } else { 1_000 };
            let max_ns = if second == 25 { 900_000_000 } else { 1_000_000 };
            let of = measure::LatencySummary { count: 1, max_ns, ..measure::LatencySummary::default() };
            point.latency = std::iter::once((Metric::ACK_RESPONSE, of)).collect();
            view.line(&point)
        };
        let lines: Vec<String> = (0..47).filter_map(|second| line(second, Phase::Measure)).collect();
        assert_eq!(lines.len(), 13, "{lines:#?}");
        assert!(lines[11].starts_with("   30.0 s  measure  sent 900 msg/s"), "{lines:#?}");
        assert!(lines[11].contains("ack response 900 ms") && lines[12].contains(" 1.00 ms"), "{lines:#?}");
        // The seconds since then have a line when their phase ends.
        assert!(view.shared_line().is_some_and(|it| it.starts_with("   47.0 s  measure  sent 1,000 msg/s")));
    }

    /// The lines of ten seconds were narrower, and had neither all counts nor the CPU.
    #[test]
    fn all_lines_of_a_load_have_the_same_columns() {
        let shape = Shape { consumers: true, latency: true, ..Shape::default() };
        let mut view = PlainView::new(shape, Box::new(io::sink()));
        let scenario = "probe_live_columns";
        let metric = |key, name, kind| {
            let info = measure::MetricInfo { key, name, unit: "requests", kind, scenario, part: false, meaning: name };
            Metric::register(Box::leak(Box::new(info)))
        };
        let begun = metric("probe_live_columns_begun", "begun", MetricKind::Counter);
        let completed = metric("probe_live_columns_completed", "completed", MetricKind::Counter);
        let response = metric("probe_live_columns_response", "response", MetricKind::Histogram);
        let of = measure::LatencySummary { count: 1, max_ns: 1_000_000, ..measure::LatencySummary::default() };
        let used = archive::ProcessUsage { cpu_cores: 0.5, rss_bytes: 100_000_000, ..archive::ProcessUsage::default() };
        let probe = archive::ScenarioPoint {
            counts: [(begun, 100), (completed, 100)].into(),
            latency: std::iter::once((response, of.clone())).collect(),
        };
        let mut line = |second: u32| {
            let mut point = SeriesPoint { t: second.into(), dt: 1.0, phase: Phase::Measure, ..SeriesPoint::default() };
            point.counters.received = 10_000;
            point.latency = std::iter::once((Metric::END_TO_END, of.clone())).collect();
            (point.broker, point.client) = (Some(used), Some(used));
            point.scenarios.insert(scenario.to_owned(), probe.clone());
            view.line(&point)
        };
        let lines: Vec<String> = (0..30).filter_map(&mut line).collect();
        assert_eq!(lines.len(), 12, "{lines:#?}");
        let columns = |line: &str| {
            let parts = line.trim_end().split("  ").filter(|part| !part.is_empty());
            parts.map(|part| part.replace(|c: char| c.is_ascii_digit() || ",. ".contains(c), "")).collect::<Vec<_>>()
        };
        assert!(lines.iter().all(|line| columns(line) == columns(&lines[0])), "{lines:#?}");
        testkit::assert_has(
            &lines[11],
            ["end-to-end 1.00 ms", "begun 100/s", "broker 0.50 cores", "bellows 0.50 cores"],
        );
    }

    /// A quiet run waited a minute for workers without a word.
    #[test]
    fn a_quiet_run_tells_of_what_is_missing_and_of_no_other_wait() {
        let mut live = Live::quiet();
        let told = |live: &Live| matches!(&live.view, View::Quiet(Reminders(Some(_))));
        live.waiting("starting RabbitMQ", Duration::from_secs(9));
        live.missing("waiting for workers", Duration::from_secs(1));
        assert!(!told(&live));
        live.missing("waiting for workers", Duration::from_secs(2));
        assert!(told(&live));
    }

    /// Seconds that are a little longer or shorter brought a reminder twice.
    #[test]
    fn a_wait_has_each_reminder_once() {
        let mut reminders = Reminders(None);
        let mut told = |ms| reminders.due("away", Duration::from_millis(ms));
        let all = [1_000, 2_010, 3_005, 3_990, 9_995, 10_010, 11_000, 19_990, 20_020, 21_000];
        let all: Vec<String> = all.into_iter().filter_map(&mut told).collect();
        assert_eq!(all, ["away: 2 s so far", "away: 10 s so far", "away: 20 s so far"]);
        // Another wait.
        assert_eq!(told(2_000).as_deref(), Some("away: 2 s so far"));
    }

    /// The line of the drain stood before that of the last measured second.
    #[test]
    fn a_phase_is_named_behind_the_last_second_of_the_one_before() {
        let mut live = Live { view: View::Plain(Box::new(view())), closed: false };
        let point = |t: f64, phase| SeriesPoint { t, dt: 1.0, phase, ..SeriesPoint::default() };
        let begins = |live: &Live| match &live.view {
            View::Plain(view) => view.begins.clone().map(|(_, text)| text),
            _ => None,
        };
        let measured = Interval::new();
        live.phase(Phase::Measure, None);
        assert_eq!(begins(&live), None);
        live.point(&point(0.0, Phase::Measure), &measured);
        live.phase(Phase::Drain, Some(Nanos::from_millis(10_000)));
        live.point(&point(1.0, Phase::Measure), &measured);
        assert_eq!(begins(&live).as_deref(), Some("drain, at most 10.0 s"));
        live.point(&point(2.0, Phase::Drain), &measured);
        assert_eq!(begins(&live), None);
    }
}
