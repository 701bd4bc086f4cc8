//! The scenarios of a run: what is known of each, and what it achieved.

use load::Outcome;
use load::scenario::{Operations, Scenario};
use measure::{Counts, Interval};

use super::requested::Achieved;

/// What a run knows of one of its scenarios.
#[derive(Clone, Debug)]
pub(crate) struct ScenarioContext {
    pub(crate) name: &'static str,
    pub(crate) subject: String,
    /// `None` for messages.
    pub(crate) operations: Option<Operations>,
    /// What its schedules ask for; `None` where it is unthrottled or waits for answers.
    pub(crate) requested: Option<load::Requested>,
    pub(crate) in_flight_limit: Option<u64>,
    /// What was requested and achieved so far.
    pub(crate) achieved: Achieved,
}

impl ScenarioContext {
    pub(crate) fn of(scenario: &dyn Scenario) -> Result<Self, load::Error> {
        Ok(Self {
            name: scenario.name(),
            subject: scenario.subject().to_owned(),
            operations: scenario.operations(),
            requested: scenario.requested()?,
            in_flight_limit: scenario.in_flight_limit(),
            achieved: Achieved::default(),
        })
    }

    /// Of all that was due in the measured phase: operations that began, and how many of them over 1 ms late.
    /// Messages that were sent in it.
    pub(crate) fn begun_of_due(&self, outcome: &Outcome, measured: &Interval) -> (u64, u64) {
        let tally = outcome.tallies.get(self.name);
        match self.operations.as_ref().zip(tally) {
            None => self.begun(measured),
            Some((of, tally)) => counts_of(of, &tally.counts),
        }
    }

    /// Messages that were sent or operations that began, and how many of them over 1 ms late.
    pub(crate) fn begun(&self, interval: &Interval) -> (u64, u64) {
        match &self.operations {
            None => (interval.counters.sent, interval.counters.late),
            Some(of) => counts_of(of, &interval.counts),
        }
    }

    /// How long operations took once they had begun, nanoseconds on average.
    pub(crate) fn operation_took(&self, measured: &Interval) -> Option<u64> {
        let operations = self.operations.as_ref()?;
        let whole = measured.latencies.histogram(operations.latency);
        let scheduled = operations.scheduled;
        let waited = scheduled.map_or(0.0, |it| measured.latencies.histogram(it.wait).mean());
        (!whole.is_empty()).then(|| (whole.mean() - waited).max(0.0) as u64)
    }
}

/// Operations that began, and how many of them over 1 ms late.
fn counts_of(operations: &Operations, counts: &Counts) -> (u64, u64) {
    let late = operations.scheduled.map_or(0, |it| counts.get(it.late));
    (counts.get(operations.begun), late)
}
