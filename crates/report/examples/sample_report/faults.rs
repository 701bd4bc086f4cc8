//! Additions of the state `faults`: churn beside the messages, every kind of stall, a gap in the series, long events.

use archive::{Event, RunSummary, ScenarioSummary, Stall, Stalled};
use measure::{Interval, Metric, MetricInfo, MetricKind, Nanos};

use crate::random::Random;

const NAME: &str = "churn";

const fn info(key: &'static str, kind: MetricKind, part: bool) -> MetricInfo {
    MetricInfo {
        key,
        name: key,
        unit: if matches!(kind, MetricKind::Histogram) { "ns" } else { "cycles" },
        kind,
        scenario: NAME,
        part,
        meaning: "as its name says",
    }
}

const fn latency(key: &'static str, part: bool) -> MetricInfo {
    info(key, MetricKind::Histogram, part)
}

/// A whole cycle, then its parts with their mean milliseconds.
static WHOLE: MetricInfo = latency("cycle", false);
static PARTS: [(MetricInfo, f64); 6] = [
    (latency("wait", true), 0.2),
    (latency("connect", true), 0.4),
    (latency("secure", true), 2.5),
    (latency("log_in", true), 4.0),
    (latency("open_channel", true), 0.9),
    (latency("close", true), 0.7),
];
static COMPLETED: MetricInfo = info("completed", MetricKind::Counter, false);

/// Seconds that the series lacks.
pub(crate) const HOLE: std::ops::Range<u32> = 20..23;

/// Records a second's cycles.
pub(crate) fn fill(interval: &mut Interval, random: &mut Random) {
    for _ in 0..100 {
        let mut whole = 0.0;
        for (part, mean) in &PARTS {
            let ms = mean * (0.4 * random.normal()).exp();
            whole += ms;
            let took = Nanos::from_secs_f64(ms / 1e3);
            interval.latencies.record(Metric::register(part), took);
        }
        let took = Nanos::from_secs_f64(whole / 1e3);
        interval.latencies.record(Metric::register(&WHOLE), took);
    }
    interval.counts.add(Metric::register(&COMPLETED), 100);
}

/// Adds scenario and stalls.
pub(crate) fn summarise(summary: &mut RunSummary, measured: &Interval) {
    summary.stalls = stalls();
    let scenario = ScenarioSummary {
        kind: "connections".into(),
        unit: "cycles".into(),
        rate: 100.0,
        counts: measured.counts.iter().collect(),
        headline: Some(Metric::register(&WHOLE)),
        latency: measured.latencies.of_scenario(NAME),
        ..ScenarioSummary::default()
    };
    summary.insert(NAME, scenario);
}

fn stalls() -> Vec<Stall> {
    let stall =
        |at_s, for_s, who, away| Stall { at_s, for_s, who, away, connections: 2, messages_delayed: 1_204, failed: 0 };
    vec![
        stall(9.0, 1.5, Stalled::Broker, false),
        stall(14.2, 0.2, Stalled::Broker, false),
        stall(19.8, 3.4, Stalled::Broker, true),
        stall(28.0, 0.8, Stalled::Generator, false),
        stall(33.0, 0.5, Stalled::Machine, false),
    ]
}

/// Events of a fault and its aftermath, more than fit as labels.
pub(crate) fn events() -> Vec<Event> {
    let label = |t, label: &str| Event { t, label: label.into() };
    let mut all = vec![
        label(9.0, "the broker was stopped"),
        label(10.5, "the broker is back, 1.51 s after the fault began"),
        label(10.6, "first confirm, 1.55 s after the fault began"),
        label(10.7, "backlog gone, 1.72 s after the fault began"),
        label(19.8, "the broker was killed"),
        label(
            20.0,
            "reconnecting: lost the connection to amqp://guest@127.0.0.1:33481/: Connection reset by peer (os error \
             104)",
        ),
        label(42.0, "connection.blocked: low on disk, the last of all events of this run"),
    ];
    all.extend((0..12).map(|i| label(23.2 + f64::from(i) / 100.0, "a connection is back")));
    all
}
