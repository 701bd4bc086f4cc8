//! The metrics of churn.
//!
//! ```text
//! due        begun     connected    secured     logged in    channel       closed
//!  |-- wait ---|- connect -|-- secure --|-- log in --|- open ch. -|-- close --|
//!  |------------------- open ------------------------|                        |
//!  |------------------------------- cycle ------------------------------------|
//! ```
//!
//! `open` and `cycle` count from the time that the cycle was due, and so are free of coordinated
//! omission; the steps follow upon each other and add up to the cycle.

use measure::{Metric, MetricInfo, MetricKind};

use super::NAME;
use crate::scenario::operations::OperationMetrics;

/// A part of a cycle, or the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CycleStep {
    Cycle,
    Open,
    Wait,
    Connect,
    Secure,
    LogIn,
    OpenChannel,
    Declare,
    Delete,
    CloseChannel,
    Close,
}

impl CycleStep {
    /// Whether the broker ends it: to connect is answered by the kernel, also where nobody accepts.
    pub(super) fn is_answer(self) -> bool {
        self != Self::Connect
    }

    /// Whether the cycle asks nothing more after it.
    pub(super) const fn is_last(self) -> bool {
        matches!(self, Self::Delete | Self::CloseChannel | Self::Close)
    }
}

const fn step(
    key: &'static str,
    name: &'static str,
    part: bool,
    meaning: &'static str,
) -> MetricInfo {
    MetricInfo {
        key,
        name,
        unit: "ns",
        kind: MetricKind::Histogram,
        scenario: NAME,
        part,
        meaning,
    }
}

const fn count(
    key: &'static str,
    name: &'static str,
    kind: MetricKind,
    meaning: &'static str,
) -> MetricInfo {
    MetricInfo {
        key,
        name,
        unit: "cycles",
        kind,
        scenario: NAME,
        part: false,
        meaning,
    }
}

/// In the order of [`CycleStep`]: the whole first, then the parts in the order of time.
static STEPS: [MetricInfo; 11] = [
    step(
        "cycle",
        "cycle",
        false,
        "due time to the end of the cycle; what has none counts with the time that it waited: until its time-out, \
         or the run's end",
    ),
    step(
        "open",
        "open",
        false,
        "due time until what the cycle opens is open",
    ),
    step(
        "wait",
        "wait",
        true,
        "due time to the beginning of the cycle",
    ),
    step("connect", "connect", true, "the TCP connection"),
    step("secure", "secure", true, "the TLS handshake"),
    step(
        "log_in",
        "log in",
        true,
        "connected or secured until connection.open-ok",
    ),
    step(
        "open_channel",
        "open channel",
        true,
        "channel.open until channel.open-ok",
    ),
    step(
        "declare",
        "declare",
        true,
        "queue.declare until queue.declare-ok",
    ),
    step(
        "delete",
        "delete",
        true,
        "queue.delete until queue.delete-ok, and the messages before it",
    ),
    step(
        "close_channel",
        "close channel",
        true,
        "channel.close until channel.close-ok, and the messages before it",
    ),
    step(
        "close",
        "close",
        true,
        "connection.close until connection.close-ok, and the messages before it",
    ),
];

static COUNTS: [MetricInfo; 7] = [
    count("begun", "begun", MetricKind::Counter, "cycles that began"),
    count(
        "completed",
        "completed",
        MetricKind::Counter,
        "cycles that ended in order",
    ),
    count(
        "failed",
        "failed",
        MetricKind::Counter,
        "cycles that did not end in order",
    ),
    count(
        "late",
        "late",
        MetricKind::Counter,
        "cycles that began over 1 ms after they were due",
    ),
    count(
        "under_way",
        "in flight",
        MetricKind::Peak,
        "most cycles in flight at the same time",
    ),
    count(
        "not_begun",
        "not begun",
        MetricKind::Counter,
        "cycles that were due and found no room before the end: they count with the time that they had \
         waited by then",
    ),
    count(
        "messages",
        "messages each",
        MetricKind::Peak,
        "messages that each cycle sends",
    ),
];

/// The metrics of churn, resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChurnMetrics {
    pub(crate) operations: OperationMetrics,
    steps: [Metric; STEPS.len()],
    pub(crate) messages: Metric,
}

impl ChurnMetrics {
    pub(crate) fn resolve() -> Self {
        let steps = STEPS.each_ref().map(Metric::register);
        let [
            begun,
            completed,
            failed,
            late,
            in_flight,
            not_begun,
            messages,
        ] = COUNTS.each_ref().map(Metric::register);
        let operations = OperationMetrics {
            scenario: NAME,
            words: ["cycle", "cycles"],
            begun,
            completed,
            failed,
            late,
            in_flight,
            not_begun,
            in_flight_at_end: None,
            wait: steps[CycleStep::Wait as usize],
            latency: steps[CycleStep::Cycle as usize],
            opened: Some(steps[CycleStep::Open as usize]),
        };
        Self {
            operations,
            steps,
            messages,
        }
    }

    #[inline]
    pub(crate) const fn step(&self, step: CycleStep) -> Metric {
        self.steps[step as usize]
    }

    /// Metrics that are recorded while it runs.
    pub(crate) fn recorded(&self) -> Vec<Metric> {
        let counts = self.operations.recorded();
        self.steps.into_iter().chain(counts).collect()
    }

    /// All, in the order of the registry.
    pub(crate) fn all(&self) -> Vec<Metric> {
        let mut all = self.recorded();
        all.extend([self.operations.not_begun, self.messages]);
        all
    }
}
