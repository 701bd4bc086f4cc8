//! The metrics of a probe.
//!
//! ```text
//! due        sent                       first byte       last byte
//!  |-- wait ---|------- first byte --------|---- body -----|
//!              | connect, secure, if new   |
//!              |------------- from send -------------------|
//!  |--------------------- response ------------------------|
//! ```
//!
//! `response` counts from the time that the request was due, and so is free of coordinated omission.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use measure::{Metric, MetricInfo, MetricKind};

use crate::scenario::operations::OperationMetrics;

/// A part of a request, or the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestStep {
    Response,
    FromSend,
    Wait,
    FirstByte,
    Body,
    Connect,
    Secure,
}

/// Key, name, whether it is a part of the whole, and meaning; in the order of [`RequestStep`].
const STEPS: [(&str, &str, bool, &str); 7] = [
    (
        "response",
        "response",
        false,
        "due time to the response's last byte; what has none counts with the time that it waited: until its time-out, \
         or the run's end",
    ),
    (
        "from_send",
        "from send",
        false,
        "actual send time to the response's last byte",
    ),
    ("wait", "wait", true, "due time to the actual send time"),
    (
        "first_byte",
        "first byte",
        true,
        "actual send time to the response's first byte; includes connecting, where that was needed",
    ),
    (
        "body",
        "body",
        true,
        "the response's first byte to its last",
    ),
    (
        "connect",
        "connect",
        false,
        "the TCP connection, where a new one was needed",
    ),
    (
        "secure",
        "secure",
        false,
        "the TLS handshake of a new connection",
    ),
];

/// Key, name, unit, kind and meaning, in the order of the fields of [`ProbeMetrics`].
const COUNTS: [(&str, &str, &str, MetricKind, &str); 11] = [
    (
        "begun",
        "begun",
        "requests",
        MetricKind::Counter,
        "requests that were sent",
    ),
    (
        "completed",
        "completed",
        "requests",
        MetricKind::Counter,
        "responses with a status of 200 to 399",
    ),
    (
        "failed",
        "failed",
        "requests",
        MetricKind::Counter,
        "requests without such a response",
    ),
    (
        "late",
        "late",
        "requests",
        MetricKind::Counter,
        "requests that were sent over 1 ms after they were due",
    ),
    (
        "in_flight",
        "in flight",
        "requests",
        MetricKind::Peak,
        "most requests in flight at the same time",
    ),
    (
        "in_flight_at_end",
        "in flight at the end",
        "requests",
        MetricKind::Counter,
        "requests that had neither answer nor time-out when the run ended",
    ),
    (
        "status_4xx",
        "status 4xx",
        "requests",
        MetricKind::Counter,
        "responses with a status of 400 to 499",
    ),
    (
        "status_5xx",
        "status 5xx",
        "requests",
        MetricKind::Counter,
        "responses with a status of 500 and more",
    ),
    (
        "timed_out",
        "timed out",
        "requests",
        MetricKind::Counter,
        "requests without a whole response within the time-out",
    ),
    (
        "bytes",
        "bytes",
        "bytes",
        MetricKind::Counter,
        "bytes that were received, heads included",
    ),
    (
        "not_begun",
        "not begun",
        "requests",
        MetricKind::Counter,
        "requests that were due and found no room before the end: they count with the time that they had \
         waited by then",
    ),
];

/// The descriptions of all probes that were ever resolved, by their scenarios' names: one set per name, however
/// often it is resolved.
static KNOWN: LazyLock<Mutex<BTreeMap<String, &'static Described>>> = LazyLock::new(Mutex::default);

/// The metrics of one probe, described.
struct Described {
    scenario: &'static str,
    steps: [MetricInfo; STEPS.len()],
    counts: [MetricInfo; COUNTS.len()],
}

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
            steps: STEPS.map(|(key, of, part, meaning)| MetricInfo {
                key: keep(format!("{scenario}_{key}")),
                name: keep(shown(scenario, of)),
                unit: "ns",
                kind: MetricKind::Histogram,
                scenario: name,
                part,
                meaning,
            }),
            counts: COUNTS.map(|(key, of, unit, kind, meaning)| MetricInfo {
                key: keep(format!("{scenario}_{key}")),
                name: of,
                unit,
                kind,
                scenario: name,
                part: false,
                meaning,
            }),
        }));
        known.insert(scenario.to_owned(), described);
        described
    }
}

/// The name of a latency; where a probe has a name, that stands before it, since all latencies share a picture.
fn shown(scenario: &str, latency: &str) -> String {
    match scenario.strip_prefix("probe_") {
        Some(probe) => format!("{} {latency}", probe.replace('_', "-")),
        None => latency.to_owned(),
    }
}

/// The metrics of a probe, resolved.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeMetrics {
    pub(super) operations: OperationMetrics,
    steps: [Metric; STEPS.len()],
    pub(super) in_flight_at_end: Metric,
    pub(super) status_4xx: Metric,
    pub(super) status_5xx: Metric,
    pub(super) timed_out: Metric,
    pub(super) bytes: Metric,
}

impl ProbeMetrics {
    pub(super) fn resolve(scenario: &str) -> Self {
        let described = Described::of(scenario);
        let steps = described.steps.each_ref().map(Metric::register);
        let [
            begun,
            completed,
            failed,
            late,
            in_flight,
            in_flight_at_end,
            status_4xx,
            status_5xx,
            timed_out,
            bytes,
            not_begun,
        ] = described.counts.each_ref().map(Metric::register);
        let operations = OperationMetrics {
            scenario: described.scenario,
            words: ["request", "requests"],
            begun,
            completed,
            failed,
            late,
            in_flight,
            not_begun,
            in_flight_at_end: Some(in_flight_at_end),
            wait: steps[RequestStep::Wait as usize],
            latency: steps[RequestStep::Response as usize],
            opened: None,
        };
        Self {
            operations,
            steps,
            in_flight_at_end,
            status_4xx,
            status_5xx,
            timed_out,
            bytes,
        }
    }

    #[inline]
    pub(super) const fn step(&self, step: RequestStep) -> Metric {
        self.steps[step as usize]
    }

    /// Metrics that are recorded while it runs.
    pub(super) fn recorded(&self) -> Vec<Metric> {
        let counts = [self.status_4xx, self.status_5xx, self.timed_out, self.bytes];
        let common = self.operations.recorded();
        let all = self.steps.into_iter().chain(common);
        all.chain(counts).collect()
    }

    /// All, in the order of the registry.
    pub(super) fn all(&self) -> Vec<Metric> {
        let mut all = self.recorded();
        all.extend([self.in_flight_at_end, self.operations.not_begun]);
        all
    }
}
