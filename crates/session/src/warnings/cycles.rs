//! What may be wrong with the numbers of churn.

use archive::{Warning, WarningCode};
use measure::{CycleCounts, LatencySummary};

use super::{Facts, LATE};

/// What was observed of the cycles that were due in the measured phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChurnFacts {
    /// `connections`, `channels` or `queues`.
    pub(crate) kind: &'static str,
    pub(crate) counts: CycleCounts,
    /// Due, and without room until the end.
    pub(crate) not_begun: u64,
    /// Cycles that may be under way.
    pub(crate) most_open: usize,
    /// There is a rate to keep.
    pub(crate) scheduled: bool,
    /// Why the first one failed, and what to do.
    pub(crate) first_failure: Option<String>,
    /// The latency of the whole cycle.
    pub(crate) cycle: LatencySummary,
}

pub(super) fn rate_not_achieved(facts: &Facts) -> Option<Warning> {
    let churn = facts.churn.as_ref().filter(|churn| churn.scheduled)?;
    let due = churn.counts.begun + churn.not_begun;
    let late = churn.counts.late as f64 / churn.counts.begun.max(1) as f64;
    let text = if churn.not_begun > 0 {
        format!(
            "{} of {due} cycles were due and found no room before the end: latencies are those of the \
             others, and theirs would have been the worst; raise --max-open (churn.max-open = {}), or \
             ask for less than the broker can take",
            churn.not_begun, churn.most_open
        )
    } else if late > LATE {
        format!(
            "{:.1} % of the cycles began over 1 ms late: cycle and open count that delay, as users \
             would feel it, and the step called wait shows it alone; raise --max-open \
             (churn.max-open = {}), leave the generator a free core, or ask for less",
            late * 100.0,
            churn.most_open
        )
    } else {
        return None;
    };
    Some(Warning::new(WarningCode::RateNotAchieved, text))
}

pub(super) fn cycles_failed(facts: &Facts) -> Option<Warning> {
    let churn = facts
        .churn
        .as_ref()
        .filter(|churn| churn.counts.failed > 0)?;
    let why = churn.first_failure.as_deref().unwrap_or("see the events");
    Some(Warning::new(
        WarningCode::CyclesFailed,
        format!(
            "{} of {} cycles of {} failed, and have no latency: what users felt is worse than the \
             percentiles say; the first: {why}",
            churn.counts.failed, churn.counts.begun, churn.kind
        ),
    ))
}

pub(super) fn too_few_samples(facts: &Facts) -> Option<Warning> {
    let cycle = &facts.churn.as_ref()?.cycle;
    let percentiles = LatencySummary::PERCENTILES.iter();
    let (_, first) = percentiles.into_iter().find(|(p, _)| !cycle.supports(*p))?;
    (cycle.count > 0).then(|| {
        Warning::new(
            WarningCode::TooFewSamples,
            format!(
                "cycle has {} samples, too few for {first} and above (a percentile needs 10 samples \
                 beyond it): those values are single events; measure longer, or at a higher rate",
                cycle.count
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(begun: u64, late: u64, failed: u64, not_begun: u64) -> Facts {
        let counts = CycleCounts {
            begun,
            late,
            failed,
            completed: begun - failed,
            under_way: 1,
        };
        Facts {
            churn: Some(ChurnFacts {
                kind: "connections",
                counts,
                not_begun,
                most_open: 7,
                scheduled: true,
                first_failure: Some("refused; look there".to_owned()),
                cycle: LatencySummary {
                    count: 1_000,
                    ..LatencySummary::default()
                },
            }),
            ..Facts::default()
        }
    }

    #[test]
    fn each_doubt_names_what_was_seen_and_what_to_do() {
        assert_eq!(rate_not_achieved(&facts(1_000, 10, 0, 0)), None);
        let late = rate_not_achieved(&facts(1_000, 11, 0, 0)).unwrap();
        assert!(late.text.contains("1.1 % of the cycles"), "{}", late.text);
        let none = rate_not_achieved(&facts(1_000, 11, 0, 40)).unwrap();
        assert!(none.text.contains("40 of 1040 cycles"), "{}", none.text);
        assert!(none.text.contains("max-open = 7"), "{}", none.text);
        assert_eq!(cycles_failed(&facts(1_000, 0, 0, 0)), None);
        let failed = cycles_failed(&facts(1_000, 0, 3, 0)).unwrap();
        assert!(failed.text.contains("3 of 1000"), "{}", failed.text);
        assert!(failed.text.contains("refused; look there"));
        let few = too_few_samples(&facts(1_000, 0, 0, 0)).unwrap();
        assert!(few.text.contains("too few for p99.9"), "{}", few.text);
        for rule in [rate_not_achieved, cycles_failed, too_few_samples] {
            assert_eq!(rule(&Facts::default()), None, "messages");
        }
    }
}
