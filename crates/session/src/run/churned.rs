//! The sums of a churn.

use archive::{ChurnSummary, FailureCount, PerMessage};
use load::churn::ChurnTally;
use measure::{CycleCounts, Step};

use super::recording::Recording;
use super::work::Churning;
use crate::usage::Usage;

impl Recording<'_> {
    /// Counts of the measured phase, by the time at which something happened.
    fn cycles(&self) -> CycleCounts {
        self.measured.cycles.unwrap_or_default()
    }

    /// What began in the measured phase, and what of it over 1 ms late: messages or cycles.
    pub(crate) fn begun(&self) -> (u64, u64) {
        let (messages, cycles) = (&self.measured.counters, self.cycles());
        (messages.sent + cycles.begun, messages.late + cycles.late)
    }

    /// How long cycles took once they had begun, nanoseconds on average.
    pub(crate) fn cycle_took(&self) -> Option<u64> {
        let mean = |step: Step| self.measured.latencies.histogram(step).mean();
        let cycles = !self.measured.latencies.histogram(Step::Cycle).is_empty();
        cycles.then(|| (mean(Step::Cycle) - mean(Step::Wait)).max(0.0) as u64)
    }

    /// What became of the cycles; `None` where messages were the load.
    pub(super) fn churn_summary(
        &self,
        outcome: &load::Outcome,
        usage: &Usage,
        own_cores: f64,
    ) -> Option<ChurnSummary> {
        let Churning { kind, messages, .. } = self.setting.churn?;
        let none = ChurnTally::default();
        let tally = outcome.churn.as_deref().unwrap_or(&none);
        let seconds = self.measured_length.as_secs_f64();
        let ended = self.cycles().completed + self.cycles().failed;
        let ms_each = |cores: f64| (ended > 0).then(|| cores * seconds * 1e3 / ended as f64);
        let mut failures: Vec<FailureCount> = tally
            .failures
            .iter()
            .map(|(reason, count)| FailureCount {
                reason: crate::redact::text(reason),
                count: *count,
            })
            .collect();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        Some(ChurnSummary {
            kind: kind.name().to_owned(),
            rate: if seconds > 0.0 {
                self.cycles().completed as f64 / seconds
            } else {
                0.0
            },
            counts: tally.counts,
            not_begun: tally.not_begun,
            failures,
            messages,
            cpu_ms_per_cycle: PerMessage {
                broker: usage.broker.and_then(|used| ms_each(used.cpu_cores)),
                client: usage
                    .client
                    .and_then(|used| ms_each((used.cpu_cores - own_cores).max(0.0))),
            },
            steps: self.measured.latencies.steps(),
        })
    }
}
