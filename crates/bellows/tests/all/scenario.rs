//! A new kind of load needs a folder of its own and one line of registration: console, JSON, archive
//! and page then show its metrics.

use crate::common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use common::folder;
use experiment::Experiment;
use load::scenario::{Operations, Scenario, Scheduled};
use load::{Control, Error, OperationTally, Outcome, PhaseTimes, Phases, Requested, SliceSink, StartBarrier};
use measure::{Clock, Counts, Metric, MetricInfo, MetricKind, Nanos, Phase, ScenarioRole, Slice};
use report::console::{self, Shape, Style};
use session::{MakeScenario, NoObserver, Occasion, RunOptions};

const fn metric(key: &'static str, kind: MetricKind) -> MetricInfo {
    MetricInfo {
        key,
        name: key,
        unit: match kind {
            MetricKind::Histogram => "ns",
            MetricKind::Counter | MetricKind::Peak => "ticks",
        },
        kind,
        scenario: "toy",
        part: false,
        meaning: "what a toy does",
    }
}

static METRICS: [MetricInfo; 4] = [
    metric("ticked", MetricKind::Histogram),
    metric("ticks", MetricKind::Counter),
    metric("missed", MetricKind::Counter),
    metric("largest", MetricKind::Peak),
];

/// Ticks every ten milliseconds, and touches no broker.
#[derive(Debug)]
struct Toy {
    measure: Nanos,
}

fn metrics() -> [Metric; 4] {
    METRICS.each_ref().map(Metric::register)
}

impl Scenario for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn subject(&self) -> &str {
        "toys"
    }

    fn metrics(&self) -> Vec<Metric> {
        metrics().to_vec()
    }

    fn operations(&self) -> Option<Operations> {
        let [ticked, ticks, missed, _] = metrics();
        Some(Operations {
            one: "tick",
            many: "ticks",
            role: ScenarioRole::Broker,
            begun: ticks,
            completed: ticks,
            failed: Some(missed),
            scheduled: Some(Scheduled { late: missed, not_begun: missed, wait: ticked }),
            latency: ticked,
        })
    }

    fn requested(&self) -> Result<Option<Requested>, Error> {
        Ok(None)
    }

    fn in_flight_limit(&self) -> Option<u64> {
        None
    }

    fn phases(&self) -> Phases {
        Phases { warmup: Nanos::ZERO, measure: Some(self.measure), drain: Nanos::ZERO }
    }

    fn run(&self, together: &StartBarrier, _: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error> {
        let [ticked, ticks, _, largest] = metrics();
        together.ready();
        let start = loop {
            // It is announced before it comes.
            if let Some(start) = together.start().filter(|start| *start <= Clock.now()) {
                break start;
            }
            thread::sleep(Duration::from_millis(1));
        };
        let end = start + self.measure;
        let mut slice = Slice::with(&self.metrics());
        slice.reset(start, Phase::Measure);
        while Clock.now() < end && together.ended().is_none() {
            slice.counts.add(ticks, 1);
            slice.counts.peak(largest, 7);
            slice.latencies.record(ticked, Nanos::from_millis(2_000));
            thread::sleep(Duration::from_millis(10));
        }
        slice.end = end;
        let tally = OperationTally {
            counts: [(ticks, slice.counts.get(ticks)), (largest, 7)].into_iter().collect::<Counts>(),
            ..OperationTally::default()
        };
        sink.slice(&slice);
        Ok(Outcome {
            phases: vec![PhaseTimes { phase: Phase::Measure, start, end }],
            tallies: BTreeMap::from([("toy", tally)]),
            ..Outcome::started(start)
        })
    }
}

fn toy(of: &Occasion<'_>) -> Result<Vec<Box<dyn Scenario>>, Error> {
    Ok(vec![Box::new(Toy { measure: of.experiment.phases.measure.0 })])
}

/// The line of registration.
const SCENARIOS: &[MakeScenario] = &[session::SCENARIOS[0], session::SCENARIOS[1], toy];

#[test]
fn a_scenario_of_its_own_is_shown_by_everything() {
    let dir = &*folder();
    let experiment =
        Experiment::from_toml(include_str!("../data/experiments/toy.toml"), "toy.toml").expect("an experiment");
    let options = RunOptions {
        runs_dir: Some(dir.join("runs")),
        labels: archive::Labels::default(),
        command: Vec::new(),
        bellows_exe: PathBuf::from(env!("CARGO_BIN_EXE_bellows")),
        scenarios: SCENARIOS,
        carrier: session::Carrier::Alone,
        texts: session::Texts::default(),
    };
    let outcome = session::run(&experiment, &options, &Control::new(), &mut NoObserver);
    let outcome = outcome.expect("it runs");
    let summary = outcome.record.summary.as_ref().expect("a summary");

    let json = serde_json::to_value(summary).expect("JSON");
    let messages = &json["scenarios"]["messages"];
    let (toy, churn) = (&json["scenarios"]["toy"], &json["scenarios"]["churn"]);
    let ticks = toy["ticks"].as_u64().expect("ticks");
    assert!((20..=150).contains(&ticks), "{toy:#}");
    assert_eq!(toy["latency"]["ticked"]["count"], ticks, "{toy:#}");
    assert_eq!(toy["largest"], 7);
    assert_eq!((&churn["begun"], &churn["completed"]), (&150.into(), &150.into()), "{churn:#}");
    // The last message is due when the phase ends.
    let sent = messages["sent"]["total"].as_u64().expect("a number");
    assert!((299..=300).contains(&sent), "{json:#}");
    assert_eq!(messages["latency"]["ack_response"]["count"], sent);
    let rates = [messages, churn].map(|of| of["requested"]["rate"].as_f64().map(f64::round));
    assert_eq!(rates, [Some(200.0), Some(100.0)]);

    let shape = Shape { producers: true, consumers: true, latency: true, ..Shape::default() };
    let text = console::summary(&shape, &outcome.record, summary, None, Style::PLAIN);
    // The first sentence is of the messages and of the slowest load beside them; each has its table. Of so few ticks
    // the 99th percentile is not told.
    let told = format!("ticks {ticks}");
    testkit::assert_has(text, ["toy: ticked p", "0 2.00 s", "churn: begun", &told, "ticked", "cycle"]);

    let folder = outcome.run_dir.expect("a folder");
    let run = archive::RunReader::open(&folder).expect("a run");
    let measured = run.merged(Phase::Measure).expect("histograms");
    assert_eq!(measured.histogram(metrics()[0]).len(), ticks);
    // One series: each interval has what all saw of it.
    let whole = run.points.iter().find(|point| point.dt > 0.9).expect("a second");
    assert!(whole.counters.sent > 150, "{whole:?}");
    assert!(whole.scenarios.get("churn").is_some_and(|it| it.counts.values().sum::<u64>() > 150));

    let page = common::page(&report::html::write_report(&folder).expect("a report"));
    for key in ["ticked", "ticks", "cycle"] {
        common::named(&page["metrics"], "key", key);
    }
    assert_eq!(page["figures"]["scenarios"]["toy"]["ticks"], ticks);
    assert!(page["series"]["counts"]["ticks"].is_array());
    common::named(&page["curves"], "metric", "ticked");
    let record = common::read_json(&folder.join("run.json"));
    assert_eq!(common::named(&record["metrics"], "key", "ticked")["unit"], "ns");
}
