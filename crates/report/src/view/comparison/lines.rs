//! Every run of both sides on one axis: rates and usage over time, and distributions of latency.

use archive::{Comparison, LatencyLog, QuantityUnit, RunReader, RunSummary, SeriesPoint, plain_name};
use measure::{Metric, Phase, Recorder, ScenarioRole, Summaries};
use serde::Serialize;

use super::super::distributions::{Curve, curve, curve_of};
use super::super::series::short;
use crate::numbers::per_second;

/// Runs of a side that are drawn at most: more lines are indistinguishable, and each is read whole.
const MOST_RUNS: usize = 40;
/// Points of a line: more would be drawn over each other.
const MOST_POINTS: usize = 300;
/// Nines between two points of a curve.
const STEP: f64 = 0.05;

/// A quantity over the measured phase, of every run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ComparedPanel {
    /// Title: `received rate`.
    pub title: String,
    /// Unit of the values.
    pub unit: QuantityUnit,
    /// Start of each interval in seconds since the measured phase began.
    pub t: Vec<f64>,
    /// Length of each interval.
    pub dt: Vec<f64>,
    /// A line for each run of A, in the order of its runs; `null` where something could not be had.
    pub a: Vec<Vec<Option<f64>>>,
    /// A line for each run of B.
    pub b: Vec<Vec<Option<f64>>>,
}

/// How a latency is distributed in the measured phase, of every run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ComparedCurve {
    /// Metric of the curves.
    pub metric: Metric,
    /// A curve for each run of A.
    pub a: Vec<Curve>,
    /// A curve for each run of B.
    pub b: Vec<Curve>,
}

/// Charts of all runs.
pub(super) struct Drawn {
    pub(super) panels: Vec<ComparedPanel>,
    pub(super) curves: Vec<ComparedCurve>,
}

/// Data of a run.
struct Line {
    loaded: ScenarioRole,
    points: Vec<SeriesPoint>,
    recorded: Recorder,
}

impl Drawn {
    pub(super) fn read(
        a: &[Option<RunReader>],
        b: &[Option<RunReader>],
        comparison: &Comparison,
        remarks: &mut Vec<String>,
    ) -> Self {
        remark_on_many(a.len().max(b.len()), remarks);
        let lines = |side: &[Option<RunReader>]| -> Vec<Line> {
            let drawn = side.iter().take(MOST_RUNS).flatten();
            drawn.map(Line::read).collect()
        };
        let (a, b) = (lines(a), lines(b));
        Self { panels: panels(&a, &b, comparison), curves: curves(&a, &b, comparison) }
    }

    /// The curves of logs, which hold nothing else.
    pub(super) fn of_logs(
        a: &[LatencyLog],
        b: &[LatencyLog],
        comparison: &Comparison,
        remarks: &mut Vec<String>,
    ) -> Self {
        remark_on_many(a.len().max(b.len()), remarks);
        let tags = a.iter().chain(b).flat_map(|log| &log.tags);
        let mut metrics: Vec<Metric> = Vec::new();
        for tag in tags {
            if !metrics.contains(&tag.metric) && is_decided(tag.metric, comparison) {
                metrics.push(tag.metric);
            }
        }
        let side = |logs: &[LatencyLog], metric: Metric| -> Vec<Curve> {
            let drawn = logs.iter().take(MOST_RUNS);
            let tags = drawn.flat_map(|log| log.tags.iter().find(|tag| tag.metric == metric));
            let curves = tags.filter_map(|tag| {
                let least = tag.values.first().map_or(0, |it| it.0);
                let values = tag.values.iter().copied();
                curve_of(metric, least, tag.count, values).map(|it| on_grid(&it))
            });
            curves.collect()
        };
        let curves = metrics.into_iter().map(|metric| ComparedCurve { metric, a: side(a, metric), b: side(b, metric) });
        Self { panels: Vec::new(), curves: curves.collect() }
    }
}

fn remark_on_many(runs: usize, remarks: &mut Vec<String>) {
    if runs > MOST_RUNS {
        remarks.push(format!(
            "lines over time and curves are those of the first {MOST_RUNS} runs of each side; all runs are dots"
        ));
    }
}

/// Whether figures of a latency are decided.
fn is_decided(metric: Metric, comparison: &Comparison) -> bool {
    let name = plain_name(&format!("{} p50", metric.name()));
    let mut figures = comparison.figures.iter();
    figures.any(|it| plain_name(&it.name) == name)
}

impl Line {
    fn read(run: &RunReader) -> Self {
        let measured = |point: &&SeriesPoint| point.phase == Phase::Measure;
        Self {
            loaded: run.record.summary.as_ref().map(RunSummary::loaded).unwrap_or_default(),
            points: run.points.iter().filter(measured).cloned().collect(),
            // A run without latencies has no curve.
            recorded: run.merged(Phase::Measure).unwrap_or_default(),
        }
    }
}

type Value = fn(&SeriesPoint) -> Option<f64>;

/// Quantities over time, drawn where any run has them.
const SERIES: [(&str, QuantityUnit, Value); 4] = [
    ("received rate", QuantityUnit::PerSecond, |p| Some(per_second(p.counters.received, p.dt))),
    ("sent rate", QuantityUnit::PerSecond, |p| Some(per_second(p.counters.sent, p.dt))),
    ("broker CPU", QuantityUnit::Cores, |p| p.broker.map(|used| used.cpu_cores)),
    ("broker memory", QuantityUnit::Bytes, |p| {
        let there = p.broker.filter(|used| used.rss_bytes > 0)?;
        Some(there.rss_bytes as f64)
    }),
];

fn panels(a: &[Line], b: &[Line], comparison: &Comparison) -> Vec<ComparedPanel> {
    let mut panels = Vec::new();
    let are_of_servers = a.iter().chain(b).all(|run| run.loaded == ScenarioRole::Server);
    let target = if are_of_servers { ScenarioRole::Server } else { ScenarioRole::Broker }.target();
    for (title, unit, value) in SERIES {
        let title = title.replacen("broker", target, 1);
        // The received rate stands for the sent one.
        let is_known = |title: &str| panels.iter().any(|it: &ComparedPanel| it.title == title);
        if title == "sent rate" && is_known("received rate") {
            continue;
        }
        panels.extend(panel(a, b, &title, unit, &|point| value(point)));
    }
    if let Some(metric) = decided(a, b, comparison).first() {
        let title = format!("{} p99", metric.name());
        let p99 = |point: &SeriesPoint| {
            let mut filled = point.latencies().flat_map(Summaries::filled);
            let found = filled.find(|(name, _)| name == metric);
            found.map(|(_, it)| it.p99_ns as f64)
        };
        let at = panels.len().min(1);
        panels.splice(at..at, panel(a, b, &title, QuantityUnit::Ns, &p99));
    }
    panels
}

/// A panel, if any run has values for it.
fn panel(
    a: &[Line],
    b: &[Line],
    title: &str,
    unit: QuantityUnit,
    value: &dyn Fn(&SeriesPoint) -> Option<f64>,
) -> Option<ComparedPanel> {
    let runs = || a.iter().chain(b);
    let longest = runs().max_by_key(|run| run.points.len())?;
    // Runs are as long as each other but for a cut: their seconds stand below each other by number.
    let each = longest.points.len().div_ceil(MOST_POINTS).max(1);
    let start = longest.points.first()?.t;
    let (mut t, mut dt) = (Vec::new(), Vec::new());
    for part in longest.points.chunks(each) {
        let (first, last) = (part.first()?, part.last()?);
        t.push(short(first.t - start));
        dt.push(short(last.t + last.dt - first.t));
    }
    let line = |run: &Line| -> Vec<Option<f64>> {
        let mean = |part: &[SeriesPoint]| {
            let known: Vec<f64> = part.iter().filter_map(value).collect();
            (!known.is_empty()).then(|| short(known.iter().sum::<f64>() / known.len() as f64))
        };
        let mut values: Vec<Option<f64>> = run.points.chunks(each).map(mean).collect();
        values.resize(t.len(), None);
        values
    };
    let side = |side: &[Line]| -> Vec<Vec<Option<f64>>> { side.iter().map(line).collect() };
    let (of_a, of_b) = (side(a), side(b));
    let mut all = of_a.iter().chain(&of_b).flatten().flatten();
    let is_any = all.any(|value| *value > 0.0);
    is_any.then(|| ComparedPanel { title: title.to_owned(), unit, a: of_a, b: of_b, t, dt })
}

/// The latencies that are decided and were recorded.
fn decided(a: &[Line], b: &[Line], comparison: &Comparison) -> Vec<Metric> {
    let mut found: Vec<Metric> = Vec::new();
    for run in a.iter().chain(b) {
        for (metric, _) in run.recorded.filled() {
            if !found.contains(&metric) && is_decided(metric, comparison) {
                found.push(metric);
            }
        }
    }
    found.sort();
    found
}

fn curves(a: &[Line], b: &[Line], comparison: &Comparison) -> Vec<ComparedCurve> {
    let of = |metric: Metric| {
        let side = |side: &[Line]| -> Vec<Curve> {
            let curve = |run: &Line| {
                let mut filled = run.recorded.filled();
                let (_, sum) = filled.find(|(name, _)| *name == metric)?;
                curve(metric, sum).map(|it| on_grid(&it))
            };
            side.iter().filter_map(curve).collect()
        };
        ComparedCurve { metric, a: side(a), b: side(b) }
    };
    decided(a, b, comparison).into_iter().map(of).collect()
}

/// The values of a curve at places that all runs have in common.
fn on_grid(of: &Curve) -> Curve {
    let last = of.nines.last().copied().unwrap_or(0.0);
    let steps = (last / STEP).floor().max(0.0) as usize;
    let mut places = of.nines.iter().zip(&of.ns).peekable();
    let mut points = Vec::with_capacity(steps + 1);
    for step in 0..=steps {
        let nines = step as f64 * STEP;
        while places.next_if(|(at, _)| **at < nines - 1e-9).is_some() {}
        let Some((_, ns)) = places.peek() else { break };
        points.push((nines, **ns));
    }
    Curve {
        metric: of.metric,
        count: of.count,
        nines: points.iter().map(|it| short(it.0)).collect(),
        ns: points.iter().map(|it| it.1).collect(),
    }
}

#[cfg(test)]
mod tests {
    use archive::{ComparedFigure, ProcessUsage};
    use measure::Counters;

    use super::*;

    fn run(rates: &[u64], latency: u64) -> Line {
        let point = |(at, sent): (usize, &u64)| {
            let (t, phase, counters) =
                (5.0 + at as f64, Phase::Measure, Counters { sent: *sent, ..Default::default() });
            let broker = Some(ProcessUsage { cpu_cores: 0.5, ..ProcessUsage::default() });
            SeriesPoint { t, dt: 1.0, phase, counters, broker, ..SeriesPoint::default() }
        };
        let mut histogram = measure::new_histogram();
        for step in 0..1_000 {
            histogram.saturating_record(latency + step);
        }
        let mut recorded = Recorder::new();
        let due = measure::DueHistogram { metric: Metric::ACK_RESPONSE, due: Phase::Measure, histogram: &histogram };
        recorded.add_due(Phase::Measure, [due]).expect("one shape");
        Line { loaded: ScenarioRole::Server, points: rates.iter().enumerate().map(point).collect(), recorded }
    }

    #[test]
    fn every_run_is_a_line_from_the_start_of_its_measured_phase_and_has_no_more_points_than_an_axis() {
        let (a, b) = ([run(&[100, 102], 1_000)], [run(&[90], 2_000)]);
        let figures = vec![ComparedFigure { name: "ack response p50".into(), ..ComparedFigure::default() }];
        let comparison = Comparison { figures, ..Comparison::default() };
        let found = panels(&a, &b, &comparison);
        let titles: Vec<&str> = found.iter().map(|it| it.title.as_str()).collect();
        assert_eq!(titles, ["sent rate", "server CPU"], "nothing came out, and no memory is known");
        let sent = found.first().expect("a panel");
        assert_eq!((&sent.t[..], &sent.dt[..]), (&[0.0, 1.0][..], &[1.0, 1.0][..]));
        assert_eq!(sent.a, [[Some(100.0), Some(102.0)]]);
        assert_eq!(sent.b, [[Some(90.0), None]], "the shorter run ends");
        let curves = curves(&a, &b, &comparison);
        let ack = testkit::only(&curves);
        assert_eq!((ack.a.len(), ack.b.len()), (1, 1));
        let (of_a, of_b) = (&ack.a[0], &ack.b[0]);
        let both = of_a.nines.len().min(of_b.nines.len());
        assert_eq!(of_a.nines[..both], of_b.nines[..both], "one grid");
        assert!(of_a.ns.iter().zip(&of_b.ns).all(|(a, b)| a < b));
        let long = run(&vec![7; 604_800 / 60], 1_000);
        let found = panels(&[long], &[], &Comparison::default());
        let sent = found.first().expect("a panel");
        assert!(sent.t.len() <= MOST_POINTS, "{}", sent.t.len());
        assert!(sent.a.iter().flatten().all(|it| *it == Some(7.0)));
    }
}
