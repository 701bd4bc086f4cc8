//! Events and outcomes of a worker's load, as they travel.

use std::collections::BTreeMap;

use fleet::{ClockLine, LoadOutcome, PhaseSpan};
use load::{Censored, Error, Outcome, PhaseTimes, RunEvent, ShareProgress, Silence};
use measure::{Nanos, Problem, Time};
use serde::{Deserialize, Serialize};

/// Something that a worker's load reports beside its slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerReport {
    /// An event of the load.
    Event(RunEvent),
    /// Whether nothing is left here of what ends the load.
    Done(bool),
    /// How far the drain of a load is, whose messages go to other workers.
    Progress(ShareProgress),
    /// The most by which the clock of those who send to it could be off, all through its load: what it was told of that
    /// clock may have come late.
    SendersBound(Nanos),
    /// Usage of the worker's process since its part began.
    Usage {
        /// CPU time.
        cpu: Nanos,
        /// Resident memory at present.
        rss_bytes: u64,
        /// Threads at present.
        threads: u32,
    },
}

/// Something that a worker's load has to know of the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerNews {
    /// How far the drains of all others are; nothing while one has not told.
    Progress(Option<ShareProgress>),
    /// The clock of the producers that send to its consumers.
    Senders(ClockLine),
}

/// Whether the coordinator has to hear of it.
pub(super) const fn is_told(event: &RunEvent) -> bool {
    !matches!(
        event,
        RunEvent::Connecting { .. }
            | RunEvent::NotHeard { .. }
            | RunEvent::ProgramStarted { .. }
            | RunEvent::ProgramEnded(_)
    )
}

/// The event with its instants by another clock.
pub(super) fn moved(event: RunEvent, by: impl Fn(Time) -> Time) -> RunEvent {
    match event {
        RunEvent::Started { at } => RunEvent::Started { at: by(at) },
        RunEvent::PhaseStarted { phase, at } => RunEvent::PhaseStarted { phase, at: by(at) },
        RunEvent::Blocked { at, reason } => RunEvent::Blocked { at: by(at), reason },
        RunEvent::Unblocked { at } => RunEvent::Unblocked { at: by(at) },
        RunEvent::Lost { at, detail } => RunEvent::Lost { at: by(at), detail },
        RunEvent::Recovered { at } => RunEvent::Recovered { at: by(at) },
        RunEvent::FirstConfirm { at } => RunEvent::FirstConfirm { at: by(at) },
        RunEvent::BacklogGone { at } => RunEvent::BacklogGone { at: by(at) },
        RunEvent::Silence(of) => RunEvent::Silence(Silence { from: by(of.from), until: by(of.until), ..of }),
        other => other,
    }
}

/// The outcome as it travels, without its latencies.
pub(super) fn sent(outcome: &Outcome) -> LoadOutcome {
    let censored = outcome.censored.as_deref();
    LoadOutcome {
        start: outcome.start,
        phases: outcome.phases.iter().map(|it| PhaseSpan { phase: it.phase, start: it.start, end: it.end }).collect(),
        totals: outcome.totals,
        measured: outcome.measured,
        unconfirmed: outcome.unconfirmed,
        unanswered: censored.map_or(0, |it| it.unanswered),
        unsent: censored.map_or(0, |it| it.unsent),
        interrupted: outcome.interrupted,
        drain_cut: outcome.drain_cut,
        error: outcome.error.as_ref().map(|it| it.problem().sentence()),
        ledger: outcome.ledger,
        threads: outcome.threads.clone(),
        spun: outcome.spun,
        tallies: BTreeMap::new(),
    }
}

/// The outcome of a worker of this name, with its instants by the own clock.
pub(super) fn received(of: &LoadOutcome, name: &str, censored: Option<Censored>, by: impl Fn(Time) -> Time) -> Outcome {
    let phase = |it: &PhaseSpan| PhaseTimes { phase: it.phase, start: by(it.start), end: by(it.end) };
    let failed = |why: &String| {
        Error::Program(Problem::new(format!("the load of worker {name} failed"), why, "see what that worker printed"))
    };
    Outcome {
        phases: of.phases.iter().map(phase).collect(),
        totals: of.totals,
        measured: of.measured,
        unconfirmed: of.unconfirmed,
        censored: censored.map(Box::new),
        interrupted: of.interrupted,
        drain_cut: of.drain_cut,
        error: of.error.as_ref().map(failed),
        is_gap: false,
        ledger: of.ledger,
        threads: of.threads.clone(),
        spun: of.spun,
        ..Outcome::started(by(of.start))
    }
}

#[cfg(test)]
mod tests {
    use measure::{Counters, Phase, ThreadUsage};

    use super::*;

    /// A worker's report is the same on the other side, at other instants.
    #[test]
    fn events_and_outcomes_arrive_as_they_were() {
        let by = |at: Time| at + Nanos(1_000);
        let silence = Silence { from: Time(5), until: Time(7), connections: 3, ..Silence::default() };
        let started = RunEvent::PhaseStarted { phase: Phase::Measure, at: Time(9) };
        for (event, expected) in [
            (
                RunEvent::Silence(silence),
                RunEvent::Silence(Silence { from: Time(1_005), until: Time(1_007), ..silence }),
            ),
            (started, RunEvent::PhaseStarted { phase: Phase::Measure, at: Time(1_009) }),
            (RunEvent::Note("é\n".into()), RunEvent::Note("é\n".into())),
        ] {
            let text = serde_json::to_value(WorkerReport::Event(event)).expect("JSON");
            let Ok(WorkerReport::Event(read)) = serde_json::from_value(text) else { panic!("an event") };
            assert_eq!(moved(read, by), expected);
        }
        let of = LoadOutcome {
            start: Time(3),
            phases: vec![PhaseSpan { phase: Phase::Drain, start: Time(4), end: Time(8) }],
            totals: Counters { sent: 5, ..Counters::default() },
            threads: vec![ThreadUsage { measured: Nanos(2), connections: 4, ..ThreadUsage::default() }],
            error: Some("it broke".into()),
            drain_cut: true,
            ..LoadOutcome::default()
        };
        let received = received(&of, "a", None, by);
        assert_eq!(
            (received.start, received.phases[0].end, received.threads[0].connections),
            (Time(1_003), Time(1_008), 4)
        );
        assert!(received.error.as_ref().is_some_and(|it| it.to_string().contains("worker a failed: it broke")));
        let again = sent(&received);
        let as_it_was =
            LoadOutcome { start: by(of.start), phases: again.phases.clone(), error: again.error.clone(), ..of };
        assert_eq!(again, as_it_was);
    }
}
