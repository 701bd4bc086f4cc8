//! The judge: one pure function from the facts of a run to its limit and to warnings about its numbers. The order of
//! the questions matters. Was the requested rate met? Then nothing limited the run. Did the generator get the CPU that
//! it wanted? Was it at work all the time? Then its producers' waiting proves little, as the awaited answers may lie
//! unread. Only a generator with time to spare makes it evidence that its producers waited for the broker.

mod findings;
mod limits;
mod planned;
mod stalls;
mod thresholds;

use archive::{Cause, Facts, LimitedBy, Reason, Verdict, Warning};

pub(crate) use findings::{probed, profile_findings, profile_gaps, profile_incomplete};
use limits::Derived;
pub(crate) use planned::{Planned, filled};
pub(crate) use stalls::stalls;
pub use thresholds::{ACHIEVED, FULL, OTHERS};
use thresholds::{AWAY, WORTH};
pub(crate) use thresholds::{LAG_NS, LAG_PART};

/// The judgement of a run; `report` makes its sentences.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// Warnings, gravest first.
    pub(crate) findings: Vec<Warning>,
}

/// Concludes from the facts what limited the run, and which of its numbers are doubtful. `share` makes the facts of a
/// worker's share of them: the generator limits a run where it limits the share of one.
pub(crate) fn judge_shares(mut facts: Facts, share: impl Fn(&Facts, usize) -> Facts) -> Judgement {
    let of_worker = limiting(&mut facts, share);
    let derived = Derived::new(&facts);
    let Conclusion { limited_by, cause, mut because } = of_worker.unwrap_or_else(|| derived.decide());
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

/// Marks the workers whose shares the generator limits; the conclusion of the one that had the least time to spare.
fn limiting(facts: &mut Facts, share: impl Fn(&Facts, usize) -> Facts) -> Option<Conclusion> {
    let mut workers = std::mem::take(&mut facts.workers);
    let mut found: Vec<(f64, Conclusion)> = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        let own = share(facts, number);
        let conclusion = Derived::new(&own).decide();
        worker.limits = conclusion.limited_by == LimitedBy::Generator;
        if worker.limits {
            found.push((worker.at_work.max(worker.run_queue_wait), conclusion));
        }
    }
    facts.workers = workers;
    found.into_iter().max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, conclusion)| conclusion)
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

/// Values below which there is no trend.
const FEWEST: usize = 10;
/// Two-sided 1 % of the normal distribution.
const Z: f64 = 2.576;
/// The smallest change over the whole length that matters, as a part of the median.
const SMALLEST: f64 = 0.1;
/// Pairs grow with the square of the values; longer series are averaged down to this many.
const MOST_VALUES: usize = 300;

/// The change from the first to the last value as a part of the median, where the Mann-Kendall test (Econometrica 13,
/// 1945; "Rank Correlation Methods", 1975) sees a trend, by the Theil-Sen slope (1950; 1968), the median of all pairs'.
/// Seconds of one run depend on each other, so that slow fluctuations are trends, too: only large ones count.
pub(crate) fn trend(values: &[f64]) -> Option<f64> {
    if values.len() < FEWEST {
        return None;
    }
    let group = values.len().div_ceil(MOST_VALUES);
    let values: Vec<f64> = values.chunks_exact(group).map(|chunk| chunk.iter().sum::<f64>() / group as f64).collect();
    let mut score = 0i64;
    let mut slopes = Vec::new();
    for (i, early) in values.iter().enumerate() {
        for (distance, late) in (1u32..).zip(values.iter().skip(i + 1)) {
            score += i64::from(late > early) - i64::from(late < early);
            slopes.push((late - early) / f64::from(distance));
        }
    }
    // Variance without the correction for ties, which only makes the test more careful.
    let n = values.len() as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let z = (score.abs() - 1).max(0) as f64 / deviation;
    let median_value = compare::median(values)?;
    if z < Z || median_value <= 0.0 {
        return None;
    }
    let change = compare::median(slopes)? * (n - 1.0) / median_value;
    (change.abs() >= SMALLEST).then_some(change)
}

#[cfg(test)]
mod tests;
