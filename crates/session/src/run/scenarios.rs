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

    /// Operations that ended in order, as the rate of the measured phase counts them: those that were due in it, whenever their
    /// answers came, and no more than ended in it, where a backlog grew. Where some did not begin, those that ended in it: a backlog
    /// of the warm-up is work, too.
    pub(crate) fn completed(&self, outcome: &Outcome, measured: &Interval) -> u64 {
        let Some(of) = &self.operations else {
            return 0;
        };
        let ended = measured.counts.get(of.completed);
        let scheduled = of.scheduled.filter(|_| self.requested.is_some());
        let tally = outcome.tallies.get(self.name).zip(scheduled);
        match tally.filter(|(tally, it)| tally.counts.get(it.not_begun) == 0) {
            Some((tally, _)) => tally.counts.get(of.completed).min(ended),
            None => ended,
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

#[cfg(test)]
mod tests {
    use load::OperationTally;
    use measure::Time;

    use super::*;
    use crate::Experiment;

    /// A request each two seconds: one of the warm-up is answered in the measured phase, one of that in the drain.
    #[test]
    fn the_rate_counts_what_was_due_in_the_measured_phase() {
        let text = "name = \"x\"\n[[probe]]\nurl = \"http://localhost:1/x\"\nevery = \"2s\"\n";
        let experiment = Experiment::from_toml(text, "x.toml").expect("an experiment");
        let plans = experiment.probe_plans().expect("a probe");
        let scenario = ScenarioContext::of(&plans[0]).expect("a scenario");
        let of = scenario.operations.expect("requests");
        let mut measured = Interval::new();
        measured.counts.add(of.completed, 6);
        let counted = |completed, not_begun| {
            let mut tally = OperationTally::default();
            tally.counts.add(of.completed, completed);
            tally
                .counts
                .add(of.scheduled.expect("a schedule").not_begun, not_begun);
            let mut outcome = Outcome::started(Time(0));
            outcome.tallies.insert(scenario.name, tally);
            scenario.completed(&outcome, &measured)
        };
        assert_eq!(counted(5, 0), 5);
        // All began, and waited ever longer for their answers.
        assert_eq!(counted(12, 0), 6);
        // It could not keep up: what it did in that time is its rate.
        assert_eq!(counted(2, 3), 6);
    }
}
