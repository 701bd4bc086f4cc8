//! Parts of a run beside its load: they stand in one list, and are called in its order.

use std::time::Duration;

use archive::{FaultOutcome, RunRecord, RunSummary, SeriesName, TracedCall, Warning};
use load::{Outcome, RunEvent};
use measure::{Nanos, Phase, Time};

use super::returned::Returned;
use crate::usage::{Killed, Reading};

/// A part of a run beside its load. What takes time it does on threads of its own. The thread that keeps the run
/// calls it, and keeps what it has collected.
pub(crate) trait Companion {
    /// The run is about to keep an event of the load, or a second of it (`None`).
    fn before(&mut self, _event: Option<&RunEvent>) -> Collected {
        Collected::default()
    }

    /// The load begins at this instant.
    fn start(&mut self, _at: Time) -> Collected {
        Collected::default()
    }

    /// A phase begins at this instant; the run's own readings at its border are done.
    fn phase(&mut self, _phase: Phase, _at: Time) {}

    /// About a second has ended.
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

/// The end of a load, as companions see it.
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
    /// Nodes that are other processes from now on: back, or about to start.
    pub(crate) returned: Vec<Returned>,
    /// Nodes that were killed.
    pub(crate) killed: Vec<Killed>,
    /// Pages of which a request brought none.
    pub(crate) failed: Vec<String>,
    /// All current values of each source that has new ones.
    pub(crate) told: Vec<Vec<(SeriesName, f64)>>,
    /// Values to be archived.
    pub(crate) rows: Vec<SeriesRow>,
    pub(crate) calls: Vec<TracedCall>,
    /// Sentences, and the moments that they belong to.
    pub(crate) events: Vec<(Time, String)>,
    /// Sentences that belong to this moment.
    pub(crate) notes: Vec<String>,
    /// Readings that failed.
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
    /// Time of the request.
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

/// Values of series over one time.
#[derive(Debug)]
pub(crate) struct SeriesRow {
    pub(crate) since: Time,
    pub(crate) length: Nanos,
    pub(crate) values: Vec<(SeriesName, f64)>,
}
