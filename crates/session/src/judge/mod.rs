//! The judge: one pure function from the facts of a run to its limit and to warnings about its numbers. The order of
//! the questions matters. Was the requested rate met? Then nothing limited the run. Did the generator get the CPU that
//! it wanted? Was it at work all the time? Then its producers' waiting proves little, as the awaited answers may lie
//! unread. Only a generator with time to spare makes it evidence that its producers waited for the broker.

mod findings;
mod limits;
mod planned;
mod stalls;
mod thresholds;
mod trend;

use archive::{Cause, Facts, LimitedBy, Reason, Verdict, Warning};

pub(crate) use findings::{probed, profile_findings, profile_gaps, profile_incomplete};
use limits::Derived;
pub(crate) use planned::{Planned, filled};
pub(crate) use stalls::stalls;
pub use thresholds::{ACHIEVED, FULL, OTHERS};
use thresholds::{AWAY, WORTH};
pub(crate) use thresholds::{LAG_NS, LAG_PART};
pub(crate) use trend::trend;

/// The judgement of a run; `report` makes its sentences.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// Warnings, gravest first.
    pub(crate) findings: Vec<Warning>,
}

/// Concludes from the facts what limited the run, and which of its numbers are doubtful.
pub(crate) fn judge(facts: Facts) -> Judgement {
    let derived = Derived::new(&facts);
    let Conclusion { limited_by, cause, mut because } = derived.decide();
    let away = facts.producers.is_some_and(|time| time.away >= AWAY);
    if away && !because.is_empty() && !because.contains(&"away") {
        because.insert(1, "away");
    }
    let first = derived.told_first(&cause).filter(|_| !because.is_empty());
    if let Some((code, place)) = first.filter(|it| !because.contains(&it.0)) {
        because.insert(place, code);
    }
    let findings = findings::findings(&derived, &cause);
    let reasons = ordered(reasons(&derived), &because);
    let verdict = Verdict { limited_by, cause: Some(cause), sentence: String::new(), reasons, facts: facts.clone() };
    Judgement { verdict, findings }
}

#[derive(Debug)]
struct Conclusion {
    limited_by: LimitedBy,
    cause: Cause,
    because: Vec<&'static str>,
}

impl Conclusion {
    fn new(limited_by: LimitedBy, cause: Cause, because: &[&'static str]) -> Self {
        Self { limited_by, cause, because: because.to_vec() }
    }

    fn undecided(cause: Cause, because: &[&'static str]) -> Self {
        Self::new(LimitedBy::Undecided, cause, because)
    }
}

/// The reasons that decided first, in the order of their weight.
fn ordered(codes: Vec<&str>, because: &[&str]) -> Vec<Reason> {
    let place = |code: &str| because.iter().position(|it| *it == code);
    let mut reasons: Vec<Reason> = codes
        .into_iter()
        .map(|code| Reason { code: code.to_owned(), text: String::new(), decided: place(code).is_some() })
        .collect();
    reasons.sort_by_key(|reason| place(&reason.code).unwrap_or(usize::MAX));
    reasons
}

/// Codes of the facts that are worth a line.
fn reasons(derived: &Derived<'_>) -> Vec<&'static str> {
    let e = derived.e;
    let mut waits = e.producers.map_or_else(Vec::new, |time| {
        vec![
            (time.budget, "in_flight_full"),
            (time.credit, "no_credit"),
            (time.socket, "socket_full"),
            (time.blocked, "blocked"),
            (time.away, "away"),
            (time.ready, "ready"),
            (time.schedule, "schedule"),
        ]
    });
    waits.retain(|wait| wait.0 >= WORTH);
    waits.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shared = e.same_machine && !e.apart && e.broker.is_some();
    let rest = [
        (derived.consumers_behind(), "consumers_behind"),
        (e.ended.behind.in_faults + e.ended.deliveries_behind.in_faults > 0.0, "own_fault"),
        (e.stalls().next().is_some(), "stalls"),
        (!e.loops.is_empty(), "loop_busy"),
        (e.run_queue_wait() >= WORTH, "loop_run_queue_wait"),
        (e.broker.is_some(), "broker_cpu"),
        (e.broker.is_none(), "broker_unknown"),
        (e.cores < e.all_cores(), "affinity"),
        (e.idle.is_some(), "machine_idle"),
        (shared && (derived.full || e.all_cores() <= 2), "shared_cores"),
        (e.proxy.is_some(), "relay"),
        (e.round_trip_ns.is_some(), "round_trip"),
        (e.connections.is_some(), "connections"),
        (e.capacity.is_some(), "capacity"),
        (e.capacity.is_none() && !e.is_churn(), "not_calibrated"),
    ];
    let requested = e.requested_rate.map(|_| "requested");
    let rest = rest.into_iter().filter_map(|(holds, code)| holds.then_some(code));
    requested.into_iter().chain(waits.into_iter().map(|wait| wait.1)).chain(rest).collect()
}

#[cfg(test)]
mod tests;
