//! Parts of runs, with what their tests are about as arguments.

use archive::{ComparedFigure, Decision, FaultOutcome, Finding, QuantityUnit, RequirementOutcome};
use archive::{StallWait, Stalled, Stood};

pub(crate) fn fault(kind: &str, node: Option<u32>, t: f64) -> FaultOutcome {
    FaultOutcome { kind: kind.to_owned(), node, t, ..FaultOutcome::default() }
}

pub(crate) fn requirement(that: &str, met: Option<bool>, observed: Option<f64>) -> RequirementOutcome {
    RequirementOutcome { that: that.to_owned(), met, observed, ..RequirementOutcome::default() }
}

pub(crate) fn failed_requests(failed: u64, timed_out: u64, begun: u64, first_failure: &str) -> Finding {
    let (kind, unit) = ("http://h:1/".to_owned(), "requests".to_owned());
    Finding::CyclesFailed { kind, unit, failed, timed_out, begun, first_failure: first_failure.to_owned() }
}

pub(crate) fn generator_late(late_share: f64, lag_seconds_share: f64, scheduled: bool, unit: &str) -> Finding {
    Finding::GeneratorLate { late_share, lag_seconds_share, lag_max_ns: 3_000_000, scheduled, unit: unit.to_owned() }
}

pub(crate) fn stalled(who: Stalled, stood: Stood, wait: StallWait, fault: Option<&str>, unit: &str) -> Finding {
    Finding::Stalled { who, stood, wait, worker: None, fault: fault.map(str::to_owned), unit: unit.to_owned() }
}

/// A figure whose interval reaches a tenth to both sides of its change.
pub(crate) fn figure(name: &str, unit: QuantityUnit, decision: Decision, change: f64) -> ComparedFigure {
    ComparedFigure {
        name: name.to_owned(),
        unit,
        change,
        interval: (change - 0.1, change + 0.1),
        margin: 0.01,
        decision,
        needed: (decision == Decision::Undecided).then_some(23),
        ..ComparedFigure::default()
    }
}
