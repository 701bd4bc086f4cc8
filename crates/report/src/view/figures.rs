//! Figures of the measured phase: the run's own summary, or sums of its seconds where it was cut off before that.

use std::collections::BTreeMap;

use archive::{
    BrokerSummary, Lasted, MESSAGES, MessageFlow, NodeSummary, PerMessage, ProgramSummary, Quantity, RequestedSummary,
    Rss, RunReader, RunRecord, RunSummary, ScenarioStart, ScenarioSummary, ScrapedPage, SeriesPoint, Throughput,
};
use measure::ledger::LedgerSummary;
use measure::{Counters, Counts, Metric, Phase, ScenarioRole, Summaries};
use serde::Serialize;
use serde_json::Value;

use super::distributions::Distributions;
use super::series::short;
use crate::numbers::figure;
use crate::text::refusal;

/// The figures of the measured phase; `null` where something could not be had.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Figures {
    /// Messages sent.
    pub sent: Throughput,
    /// Messages delivered.
    pub received: Throughput,
    /// Mean of the measured phase; `null` when unthrottled.
    pub requested_rate: Option<f64>,
    /// Messages that the broker refused.
    pub refused: u64,
    /// Messages that the broker returned.
    pub returned: u64,
    /// Deliveries with the redelivered flag.
    pub redelivered: u64,
    /// Outcome of every message; `null` where no ledger was kept.
    pub ledger: Option<LedgerSummary>,
    /// Share of the measured phase's messages sent over 1 ms late; `null` when unthrottled.
    pub late_share: Option<f64>,
    /// Measured length of the measured phase, seconds.
    pub measured_s: f64,
    /// Over which times the rates are, of a load that ended by itself; else `null`.
    pub lasted: Option<Lasted>,
    /// Latencies of messages.
    pub latency: Summaries,
    /// CPU time per message, microseconds.
    pub cpu_us_per_message: PerMessage,
    /// CPU in cores.
    pub cpu_cores: PerMessage,
    /// Peak resident memory, 10^6 bytes.
    pub rss_mb: Rss,
    /// The nodes of a cluster in their order, where several run on this machine.
    pub nodes: Vec<NodeSummary>,
    /// Outcomes of scenarios other than messages, by name.
    pub scenarios: BTreeMap<String, ScenarioSummary>,
    /// Other programs that loaded the broker; their output has the figures of their load.
    pub programs: Vec<ProgramSummary>,
    /// Cost of pages of metrics that were requested beside the load.
    pub scrapes: Vec<ScrapedPage>,
    /// Every figure of the whole run.
    pub rows: Vec<NamedFigure>,
    /// Latencies that were taken by the clocks of two machines.
    pub clock_bounds: BTreeMap<Metric, ClockBoundView>,
}

/// How well a latency is known that was taken by two clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ClockBoundView {
    /// Name of the latency.
    pub name: String,
    /// The most by which the clocks may be apart, nanoseconds.
    pub bound_ns: u64,
    /// Why it is not shown; `null` where it is.
    pub refused: Option<String>,
}

impl ClockBoundView {
    fn of(summary: &RunSummary, latency: Metric) -> Option<Self> {
        let of = summary.clock_bound(latency)?;
        let name = latency.name().to_owned();
        let refused = of.is_refused.then(|| refusal(&name, of.bound_s));
        Some(Self { name, bound_ns: (of.bound_s * 1e9).round() as u64, refused })
    }
}

/// A figure of the whole run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct NamedFigure {
    /// Its name in requirements and comparisons: `end-to-end p99`.
    pub name: String,
    /// Its value with a unit.
    pub value: String,
}

impl NamedFigure {
    /// Every figure that a run has.
    fn all(summary: &RunSummary) -> Vec<Self> {
        let row = |(of, value): (Quantity, f64)| Self { name: of.name(), value: figure(value, of.unit()) };
        Quantity::of_run(summary).into_iter().map(row).collect()
    }
}

impl Figures {
    /// Figures from the summary, and those that only its intervals have.
    pub(super) fn of(summary: &RunSummary, points: &[SeriesPoint]) -> Self {
        let all = Sum::of(points, |_| true).counters;
        let measured = Sum::of(points, |p| p.phase == Phase::Measure);
        let c = &measured.counters;
        let (flow, messages) = (summary.flow(), summary.messages());
        let requested_rate = messages.requested.as_ref().map(|it| it.rate);
        let requested_rate = requested_rate.or_else(|| ratio(measured.requested.0, measured.requested.1));
        Self {
            sent: flow.sent,
            received: flow.received,
            requested_rate,
            refused: all.nacked,
            returned: all.returned,
            redelivered: all.redelivered,
            ledger: flow.ledger,
            late_share: requested_rate.and_then(|_| ratio(c.late as f64, c.sent as f64)),
            measured_s: short(measured.seconds),
            lasted: flow.lasted,
            latency: Metric::MESSAGES
                .into_iter()
                .map(|metric| (metric, messages.latency.get(metric).clone()))
                .collect(),
            cpu_us_per_message: messages.cpu_us_each,
            cpu_cores: summary.cpu_cores,
            rss_mb: summary.rss_mb,
            nodes: summary.nodes.clone(),
            scenarios: summary.others().map(|(name, of)| (name.to_owned(), of.clone())).collect(),
            programs: summary.programs.clone(),
            scrapes: summary.scrapes.clone(),
            rows: NamedFigure::all(summary),
            clock_bounds: (Metric::MESSAGES.into_iter())
                .filter_map(|metric| Some((metric, ClockBoundView::of(summary, metric)?)))
                .collect(),
        }
    }
}

/// The summary of a run: its own, or the sum of its intervals where it was cut off before it could write one.
pub(super) fn summary_of(run: &RunReader, found: &Distributions) -> RunSummary {
    if let Some(summary) = &run.record.summary {
        return summary.clone();
    }
    let measured = Sum::of(&run.points, |p| p.phase == Phase::Measure);
    let all = Sum::of(&run.points, |_| true);
    let started = started(&run.record, &all);
    let mut summary = measured.summary(&all, &started, found.measured.messages());
    let experiment = &run.record.experiment;
    let kind = experiment.pointer("/broker/kind").and_then(Value::as_str);
    summary.broker = BrokerSummary { kind: kind.unwrap_or_default().to_owned(), ..BrokerSummary::default() };
    summary.warnings.clone_from(&run.record.warnings);
    for name in measured.scenarios.keys() {
        let scenario =
            ScenarioSummary { latency: found.measured.of_scenario(name), ..measured.scenario(&started, name) };
        summary.insert(name, scenario);
    }
    summary
}

/// Scenarios by name, as they began. Where the record is lost, those that the seconds have.
fn started(record: &RunRecord, all: &Sum) -> BTreeMap<String, ScenarioStart> {
    let has_messages = all.counters.sent + all.counters.received > 0;
    let seen = all.scenarios.keys().map(String::as_str);
    let mut started = record.scenarios.clone();
    for name in seen.chain(has_messages.then_some(MESSAGES)) {
        let start = started.entry(name.to_owned());
        start.or_insert_with(|| ScenarioStart { kind: name.to_owned(), ..ScenarioStart::default() });
    }
    started
}

fn unit_of(counts: &Counts) -> String {
    let first = counts.iter().next();
    first.map_or_else(String::new, |(metric, _)| metric.info().unit.to_owned())
}

/// Intervals added up.
#[derive(Debug, Default)]
struct Sum {
    counters: Counters,
    scenarios: BTreeMap<String, Counts>,
    seconds: f64,
    /// Requested messages, and the seconds in which a rate was requested.
    requested: (f64, f64),
    /// CPU-seconds, and the seconds for which they are known.
    broker: (f64, f64),
    client: (f64, f64),
    /// Peak resident bytes; 0 where unknown.
    broker_rss: u64,
    client_rss: u64,
}

impl Sum {
    fn of(points: &[SeriesPoint], wanted: impl Fn(&SeriesPoint) -> bool) -> Self {
        let mut sum = Self::default();
        for point in points.iter().filter(|p| wanted(p)) {
            sum.counters.add(&point.counters);
            for (name, scenario) in point.scenarios() {
                let counts = scenario.counts.iter().map(|(metric, count)| (*metric, *count));
                let own = sum.scenarios.entry(name.to_owned()).or_default();
                own.merge(&counts.collect());
            }
            sum.seconds += point.dt;
            if let Some(rate) = point.requested_rate {
                sum.requested.0 += rate * point.dt;
                sum.requested.1 += point.dt;
            }
            if let Some(usage) = point.broker {
                sum.broker.0 += usage.cpu_cores * point.dt;
                sum.broker.1 += point.dt;
                sum.broker_rss = sum.broker_rss.max(usage.rss_bytes);
            }
            if let Some(usage) = point.client {
                sum.client.0 += usage.cpu_cores * point.dt;
                sum.client.1 += point.dt;
                sum.client_rss = sum.client_rss.max(usage.rss_bytes);
            }
        }
        sum
    }

    /// The operations of a scenario, without their latency.
    fn scenario(&self, started: &BTreeMap<String, ScenarioStart>, name: &str) -> ScenarioSummary {
        let counts = self.scenarios.get(name).cloned().unwrap_or_default();
        let start = started.get(name).cloned().unwrap_or_default();
        let mut of = ScenarioSummary {
            kind: start.kind,
            unit: unit_of(&counts),
            role: ScenarioRole::of(name),
            counts: counts.iter().collect(),
            headline: start.headline,
            ..ScenarioSummary::default()
        };
        let completed = of.count("completed");
        // Where none came to its end in order, what was used is what it took to refuse them, or other work.
        let ended = match completed {
            0 => 0,
            _ => completed + of.count("failed"),
        };
        of.rate = ratio(completed as f64, self.seconds).unwrap_or(0.0);
        of.cpu_us_each = self.cpu_us_each(ended, name, started);
        of
    }

    /// CPU time per operation of a scenario. Where other load ran beside it, nobody knows whose time it was.
    fn cpu_us_each(&self, operations: u64, name: &str, started: &BTreeMap<String, ScenarioStart>) -> PerMessage {
        let is_load = |name: &str| ScenarioRole::of(name) != ScenarioRole::Watcher;
        let mut others = started.keys().filter(|other| *other != name);
        let is_alone = is_load(name) && !others.any(|other| is_load(other));
        let us_each = |seconds: f64| {
            let us = ratio(seconds * 1e6, operations as f64);
            us.filter(|us| is_alone && *us > 0.0)
        };
        PerMessage { broker: us_each(self.broker.0), client: us_each(self.client.0) }
    }

    fn summary(&self, all: &Self, started: &BTreeMap<String, ScenarioStart>, latency: Summaries) -> RunSummary {
        let c = &self.counters;
        let throughput =
            |total: u64, count: u64| Throughput { total, rate: ratio(count as f64, self.seconds).unwrap_or(0.0) };
        let megabytes = |bytes: u64| (bytes > 0).then(|| short(bytes as f64 / 1e6));
        let mut summary = RunSummary {
            cpu_cores: PerMessage {
                broker: ratio(self.broker.0, self.broker.1),
                client: ratio(self.client.0, self.client.1),
            },
            rss_mb: Rss { broker: megabytes(self.broker_rss), client: megabytes(self.client_rss) },
            ..RunSummary::default()
        };
        if !started.contains_key(MESSAGES) {
            return summary;
        }
        *summary.flow_mut() = MessageFlow {
            sent: throughput(all.counters.sent, c.sent),
            completed: throughput(all.counters.completed, c.completed),
            received: throughput(all.counters.received, c.received),
            blocked: throughput(all.counters.blocked, c.blocked),
            ..MessageFlow::default()
        };
        let of = summary.messages_mut();
        let requested = ratio(self.requested.0, self.requested.1);
        of.requested = requested.map(|rate| RequestedSummary { rate, ..RequestedSummary::default() });
        of.latency = latency;
        let messages = c.sent.max(c.received);
        of.rate = ratio(messages as f64, self.seconds).unwrap_or(0.0);
        of.cpu_us_each = self.cpu_us_each(messages, MESSAGES, started);
        summary
    }
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::{Finding, ProcessUsage, ScenarioPoint, Tier, Warning};
    use measure::MetricInfo;

    fn point(phase: Phase, t: f64, dt: f64, sent: u64, cores: f64) -> SeriesPoint {
        let broker = Some(ProcessUsage { cpu_cores: cores, rss_bytes: 5_000_000, threads: 1 });
        let counters = Counters { sent, ..Counters::default() };
        SeriesPoint { t, dt, phase, counters, broker, ..SeriesPoint::default() }
    }

    #[test]
    fn rates_divide_by_the_measured_length_and_totals_include_warm_up() {
        let points = [
            point(Phase::Warmup, 0.0, 1.0, 500, 2.0),
            point(Phase::Measure, 1.0, 2.0, 4_000, 1.0),
            point(Phase::Measure, 3.0, 0.5, 1_000, 2.0),
        ];
        let all = Sum::of(&points, |_| true);
        let measured = Sum::of(&points, |p| p.phase == Phase::Measure);
        let started = started(&RunRecord::default(), &all);
        let summary = measured.summary(&all, &started, Summaries::default());
        let figures = Figures::of(&summary, &points);
        assert_eq!(figures.sent.total, 5_500);
        assert!((figures.sent.rate - 2_000.0).abs() < 1e-9);
        // 3 CPU-seconds for 5,000 messages.
        assert_eq!(figures.cpu_us_per_message.broker, Some(600.0));
        assert_eq!(figures.cpu_cores.broker, Some(1.2));
        assert_eq!(figures.cpu_cores.client, None);
        assert_eq!(figures.rss_mb.broker, Some(5.0));
        assert_eq!(figures.late_share, None);
        let latency = Metric::TRANSFER.name().to_owned();
        let bound = Finding::ClockBound { latency, p50_s: None, bound_s: 8e-5 };
        let unknown = RunSummary { warnings: vec![Warning::new(Tier::Caution, bound)], ..summary };
        let bounds = Figures::of(&unknown, &points).clock_bounds;
        let of = bounds.get(&Metric::TRANSFER).expect("the bound of one");
        assert_eq!((bounds.len(), of.bound_ns, of.refused.is_some()), (1, 80_000, true));
    }

    /// Four measured seconds of 1,000 messages and, in this scenario, of 80 completed operations.
    fn beside(scenario: &str) -> Sum {
        const fn info([key, name, scenario, unit]: [&'static str; 4]) -> MetricInfo {
            MetricInfo { key, name, scenario, meaning: name, ..MetricInfo::counter(unit) }
        }
        static COMPLETED: MetricInfo = info(["probe_completed", "completed", "probe", "requests"]);
        static RETURNED: MetricInfo = info(["trace_completed", "returned", "trace", "calls"]);
        let info = match ScenarioRole::of(scenario) {
            ScenarioRole::Watcher => &RETURNED,
            _ => &COMPLETED,
        };
        let counts = [(Metric::register_for(scenario, info), 80)].into();
        let of_scenario = ScenarioPoint { counts, ..ScenarioPoint::default() };
        let mut point = point(Phase::Measure, 0.0, 4.0, 1_000, 1.0);
        point.scenarios.insert(scenario.to_owned(), of_scenario);
        Sum::of(&[point], |_| true)
    }

    fn start(kind: &str) -> ScenarioStart {
        ScenarioStart { kind: kind.to_owned(), ..ScenarioStart::default() }
    }

    /// A probe of the management API was taken for its path. CPU is that of four seconds for 1,000 messages and for 80
    /// operations, and unknown beside other load.
    #[test]
    fn a_cut_off_run_says_of_a_scenario_what_it_was_as_it_began_and_whose_cpu_is_known() {
        for (name, unit, kind, of_messages, alone) in [
            ("probe_web_shop", "requests", "/api/queues of the management API", None, Some(50_000.0)),
            ("trace_publish", "calls", "rabbit_channel:handle_method/3", Some(4_000.0), None),
        ] {
            let sum = beside(name);
            let all = started(&RunRecord::default(), &sum);
            let summary = sum.summary(&sum, &all, Summaries::default());
            assert_eq!(summary.messages().cpu_us_each.broker, of_messages, "{name}");
            assert!((summary.messages().rate - 250.0).abs() < 1e-9);
            assert_eq!(sum.scenario(&all, name).cpu_us_each.broker, None);
            let mut record = RunRecord::default();
            record.scenarios.insert(name.to_owned(), start(kind));
            assert_eq!(sum.scenario(&record.scenarios, name).cpu_us_each.broker, alone, "{name}");
            let found = sum.scenario(&started(&record, &sum), name);
            assert_eq!((found.unit.as_str(), found.kind.as_str()), (unit, kind));
            assert!((found.rate - 20.0).abs() < 1e-9, "{name}: {}", found.rate);
            // Where the record is lost, too, its name is all that is known.
            assert_eq!(sum.scenario(&all, name).kind, name);
        }
    }

    #[test]
    fn a_cut_off_run_has_messages_where_it_was_to_have_any() {
        for (name, has) in [(MESSAGES, true), ("command", false)] {
            let none = Sum::default();
            let started = BTreeMap::from([(name.to_owned(), start("x"))]);
            let summary = none.summary(&none, &started, Summaries::default());
            assert_eq!(summary.scenarios().next().is_some(), has, "{name}");
            assert!(summary.flow().sent.rate.abs() < f64::EPSILON);
            assert_eq!(summary.messages().cpu_us_each.broker, None);
        }
    }
}
