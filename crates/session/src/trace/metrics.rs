//! What is measured of a trace.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use load::scenario::Operations;
use measure::{Metric, MetricInfo, MetricKind};

/// Key, name and meaning of the counters, in the order of the fields of [`TraceMetrics`].
const COUNTS: [(&str, &str, &str); 4] = [
    ("begun", "calls", "calls of the function"),
    ("completed", "returned", "calls that returned in order"),
    ("raised", "raised", "calls that an exception ended"),
    (
        "open",
        "open at the end",
        "calls whose return was not seen: they have no latency, and may have had the worst",
    ),
];

/// The metrics of one trace, described.
struct Described {
    scenario: &'static str,
    duration: MetricInfo,
    counts: [MetricInfo; COUNTS.len()],
}

/// The descriptions of all traces that were ever resolved, by their scenarios' names: one set per name.
static KNOWN: LazyLock<Mutex<BTreeMap<String, &'static Described>>> = LazyLock::new(Mutex::default);

impl Described {
    /// Metrics are registered for the life of the program, so their descriptions live as long.
    fn of(scenario: &str) -> &'static Self {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(described) = known.get(scenario) {
            return described;
        }
        let keep = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let name = keep(scenario.to_owned());
        let described: &'static Self = Box::leak(Box::new(Self {
            scenario: name,
            duration: MetricInfo {
                key: keep(format!("{scenario}_duration")),
                name: keep(shown(scenario)),
                unit: "ns",
                kind: MetricKind::Histogram,
                scenario: name,
                part: false,
                meaning: "a call of the traced function to its return, waits included",
            },
            counts: COUNTS.map(|(key, of, meaning)| MetricInfo {
                key: keep(format!("{scenario}_{key}")),
                name: of,
                unit: "calls",
                kind: MetricKind::Counter,
                scenario: name,
                part: false,
                meaning,
            }),
        }));
        known.insert(scenario.to_owned(), described);
        described
    }
}

/// The name of the latency; where a trace has a name, that stands before it, since all latencies share a picture.
fn shown(scenario: &str) -> String {
    match scenario.strip_prefix("trace_") {
        Some(name) => format!("{} call duration", name.replace('_', "-")),
        None => "call duration".to_owned(),
    }
}

/// The metrics of a trace, resolved.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceMetrics {
    pub(super) scenario: &'static str,
    pub(super) duration: Metric,
    pub(super) calls: Metric,
    pub(super) returned: Metric,
    pub(super) raised: Metric,
    pub(super) open: Metric,
}

impl TraceMetrics {
    pub(super) fn resolve(scenario: &str) -> Self {
        let described = Described::of(scenario);
        let [calls, returned, raised, open] = described.counts.each_ref().map(Metric::register);
        Self {
            scenario: described.scenario,
            duration: Metric::register(&described.duration),
            calls,
            returned,
            raised,
            open,
        }
    }

    /// What is recorded while it runs.
    pub(super) fn recorded(&self) -> Vec<Metric> {
        vec![self.duration, self.calls, self.returned, self.raised]
    }

    /// All, in the order in which they are shown.
    pub(super) fn all(&self) -> Vec<Metric> {
        let mut all = self.recorded();
        all.push(self.open);
        all
    }

    /// Others make the calls: what they end with is theirs to judge, and none is due at a time.
    pub(super) const fn operations(&self) -> Operations {
        Operations {
            one: "call",
            many: "calls",
            begun: self.calls,
            completed: self.returned,
            failed: None,
            scheduled: None,
            latency: self.duration,
        }
    }
}
