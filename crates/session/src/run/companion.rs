//! Parts of a run beside its load: they stand in one list, and are called in its order.

use std::time::Duration;

use archive::{FaultOutcome, OwnFault, RunRecord, RunSummary, SeriesName, TracedCall, Warning};
use load::{Outcome, RunEvent};
use measure::{Clock, Nanos, Phase, Time};

use super::profiling::Returned;
use crate::look::{self, Inspections};
use crate::usage::{Killed, Reading, Starter};

/// A part of a run beside its load, with threads of its own; the thread that keeps the run keeps what it collects.
pub(crate) trait Companion {
    /// The run is about to keep an event of the load, or a second of it (`None`).
    fn before(&mut self, _event: Option<&RunEvent>) -> Collected {
        Collected::default()
    }

    fn start(&mut self, _at: Time) -> Collected {
        Collected::default()
    }

    /// A phase begins at this instant; the run's own readings at its border are done.
    fn phase(&mut self, _phase: Phase, _at: Time) {}

    fn second(&mut self, _second: &Second) -> Collected {
        Collected::default()
    }

    /// The load has ended, or could not begin. The last of the list is called first.
    fn load_ended(&mut self) -> Collected {
        Collected::default()
    }

    /// Ends its work, adds its sums to the run's, and warns of doubtful ones.
    fn finish(&mut self, _run: &mut LoadEnd<'_>) -> Collected {
        Collected::default()
    }
}

pub(crate) struct LoadEnd<'a> {
    pub(crate) outcome: &'a Outcome,
    pub(crate) record: &'a mut RunRecord,
    pub(crate) summary: &'a mut RunSummary,
}

/// A second of a run, or the part of one at the edge of a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Second {
    pub(crate) phase: Phase,
    /// Resource usage up to its beginning.
    pub(crate) before: Reading,
    /// Resource usage up to its end.
    pub(crate) after: Reading,
}

/// Results of a companion since the previous call, in the order in which they are kept.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) killed: Vec<Killed>,
    /// Killed nodes that start again.
    pub(crate) starters: Vec<Starter>,
    /// Nodes that are back, as other processes.
    pub(crate) returned: Vec<Returned>,
    /// Pages of which a request brought none.
    pub(crate) failed: Vec<String>,
    /// All current values of each source that has new ones.
    pub(crate) told: Vec<Vec<(SeriesName, f64)>>,
    pub(crate) rows: Vec<SeriesRow>,
    pub(crate) calls: Vec<TracedCall>,
    /// Sentences, and the moments that they belong to.
    pub(crate) events: Vec<(Time, String)>,
    /// Sentences that belong to this moment.
    pub(crate) notes: Vec<String>,
    pub(crate) unread: Vec<Unread>,
    /// All faults so far, when one of them has changed.
    pub(crate) faults: Option<Vec<FaultOutcome>>,
    /// The object of a wait, and how long it has lasted.
    pub(crate) waiting: Option<(String, Duration)>,
    pub(crate) warnings: Vec<Warning>,
}

/// A failed reading. Where a fault of the run itself explains it, no other reason is reported.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) asked: Time,
    /// When it was known that there is no answer.
    pub(crate) at: Time,
    /// The node that should have answered: 0 for a single broker, `None` for another peer.
    pub(crate) node: Option<usize>,
    /// The missing reading: `the memory of one@host is not read`.
    pub(crate) what: String,
    /// The whole sentence where no fault explains it.
    pub(crate) otherwise: String,
}

#[derive(Debug)]
pub(crate) struct SeriesRow {
    pub(crate) since: Time,
    pub(crate) length: Nanos,
    pub(crate) values: Vec<(SeriesName, f64)>,
}

/// Time span of a fault's effect: until what it took away was back and confirmed again.
pub(super) fn own_fault(fault: &FaultOutcome) -> Option<OwnFault> {
    let length = match (fault.back_s, fault.asked_s) {
        (Some(back), _) => back.max(fault.first_confirm_s.unwrap_or(0.0)),
        (None, Some(_)) => f64::INFINITY,
        (None, None) if fault.for_good => f64::INFINITY,
        // It took place in a moment; one that failed, or that takes nothing away, had no such time.
        (None, None) if fault.failed.is_none() && fault.watched => fault.first_confirm_s.unwrap_or(0.0),
        (None, None) => return None,
    };
    Some(OwnFault { name: named(fault), from_s: fault.t, until_s: fault.t + length })
}

/// The fault of the run itself that had a node away at some time between these, in seconds of the run.
pub(super) fn fault_of_node(faults: &[FaultOutcome], node: usize, from: f64, until: f64) -> Option<OwnFault> {
    let its = |fault: &&FaultOutcome| fault.node.unwrap_or(0) as usize == node;
    let mut its = faults.iter().filter(its).filter_map(own_fault);
    its.find(|it| it.from_s <= until && it.until_s >= from)
}

/// A fault as text: `kill of node 1`.
pub(super) fn named(fault: &FaultOutcome) -> String {
    fault.node.map_or_else(|| fault.kind.clone(), |node| format!("{} of node {node}", fault.kind))
}

impl Companion for Inspections {
    fn second(&mut self, _: &Second) -> Collected {
        self.read();
        Collected::default()
    }

    /// Keeps the looks into the broker, and warns of those during the load.
    fn finish(&mut self, run: &mut LoadEnd<'_>) -> Collected {
        self.read();
        let origin = run.record.origin;
        run.record.looks = self.spans(origin, Clock.now());
        let seconds = |at: Time| at.since(origin).as_secs_f64();
        let phases = run.outcome.phases.iter();
        let load = phases
            .filter(|it| it.phase != Phase::Drain)
            .map(|it| (seconds(it.start), seconds(it.end)))
            .reduce(|(begin, end), (from, to)| (begin.min(from), end.max(to)));
        let warning = load.and_then(|load| look::warning(&run.record.looks, load));
        Collected { warnings: warning.into_iter().collect(), ..Collected::default() }
    }
}
