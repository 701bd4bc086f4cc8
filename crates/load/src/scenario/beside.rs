//! Scenarios beside each other: each on threads of its own, with one merged series.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

use measure::ledger::LedgerPart;
use measure::{Clock, Metric, Nanos, Slice, Waits};

use super::Scenario;
use crate::engine::series::{Merger, POOL};
use crate::seconds::Seconds;
use crate::{Control, Error, Outcome, Phases, Plan, Requested, RunEvent, Sink, SliceSink, StartBarrier, make_room};

/// A report of the scenario with this index.
enum FromScenario {
    Slice(usize, Box<Slice>),
    Event(usize, RunEvent),
    /// It has ended, and tells no more.
    Ended(usize),
}

/// Sends what one scenario reports to the thread that merges.
struct Forward {
    scenario: usize,
    /// Whether it is a part of the first scenario's load.
    is_first: bool,
    tell: Sender<FromScenario>,
    /// Slices that were merged.
    spare: Receiver<Box<Slice>>,
}

impl SliceSink for Forward {
    fn slice(&mut self, slice: &Slice) {
        let mut copy = self.spare.try_recv().unwrap_or_default();
        copy.reset(slice.start, slice.phase);
        copy.merge(slice);
        if !self.is_first {
            // What producers waited for belongs to the first scenario; all have event loops.
            copy.waits =
                Waits { loop_idle: slice.waits.loop_idle, loop_time: slice.waits.loop_time, ..Waits::default() };
        }
        // Whoever listens does so until all scenarios have ended.
        let _ = self.tell.send(FromScenario::Slice(self.scenario, copy));
    }

    fn event(&mut self, event: RunEvent) {
        let _ = self.tell.send(FromScenario::Event(self.scenario, event));
    }
}

/// Runs scenarios to their end and reports to `sink` on the calling thread. The phases, and what is told of them and of
/// silences, are those of the first one. All start at the same instant, and when one of them ends its load, so do the
/// others. Errors: where one of them could not start.
pub fn run(scenarios: &[Box<dyn Scenario>], control: &Control, sink: &mut dyn Sink) -> Result<Outcome, Error> {
    apart(scenarios)?;
    make_room(scenarios.iter().map(|it| it.connections()).sum())?;
    let mut seconds = Seconds::of(sink);
    let outcome = match scenarios {
        [] => Err(Error::invalid("there is no load", "give [[load]] or another scenario")),
        [alone] => alone.run(&together(scenarios), control, &mut seconds),
        several => run_all(several, false, &together(scenarios), control, &mut seconds),
    };
    seconds.finish();
    outcome
}

/// The common start of scenarios. One of them at most consists of shares.
fn together(scenarios: &[Box<dyn Scenario>]) -> StartBarrier {
    let shares = scenarios.iter().map(|it| it.shares());
    let notice = scenarios.iter().map(|it| it.notice()).max().unwrap_or_default();
    StartBarrier::of(shares.clone().sum()).with_shares(shares.max().unwrap_or(1), notice)
}

/// A load of messages that several carry, each its [`crate::Share`] of it: one scenario, whose counts, latencies and
/// ledger are the sums of theirs.
#[derive(Debug)]
pub struct Shares {
    plan: Plan,
    shares: Vec<Box<dyn Scenario>>,
}

impl Shares {
    /// The load of a plan that is not divided, and all of its shares, that of worker 0 first.
    pub const fn new(plan: Plan, shares: Vec<Box<dyn Scenario>>) -> Self {
        Self { plan, shares }
    }
}

impl Scenario for Shares {
    fn name(&self) -> &'static str {
        self.plan.name()
    }

    fn subject(&self) -> &str {
        self.plan.subject()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.plan.metrics()
    }

    fn requested(&self) -> Result<Option<Requested>, Error> {
        self.plan.requested()
    }

    fn in_flight_limit(&self) -> Option<u64> {
        self.plan.in_flight_limit()
    }

    /// Those of shares that run here.
    fn connections(&self) -> u64 {
        self.shares.iter().map(|it| it.connections()).sum()
    }

    fn plan(&self) -> Option<&Plan> {
        Some(&self.plan)
    }

    fn is_closed_loop(&self) -> bool {
        self.plan.is_closed_loop()
    }

    fn phases(&self) -> Phases {
        self.plan.phases
    }

    fn shares(&self) -> usize {
        self.shares.len()
    }

    fn notice(&self) -> Nanos {
        self.shares.iter().map(|it| it.notice()).max().unwrap_or_default()
    }

    fn run(&self, together: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error> {
        run_all(&self.shares, true, together, control, sink)
    }
}

/// Names and metrics of each scenario must be its own: summaries go by its name, and recorders by the metrics' keys.
fn apart(scenarios: &[Box<dyn Scenario>]) -> Result<(), Error> {
    for (at, scenario) in scenarios.iter().enumerate() {
        let name = scenario.name();
        let is_new = !scenarios.iter().take(at).any(|before| before.name() == name);
        let refused = Error::invalid(format!("there are two scenarios called {name}"), "merge them into one");
        refused.observed(name).unless(is_new)?;
        for metric in scenario.metrics() {
            let of = metric.info().scenario;
            let cause = format!("scenario {name} records metrics of scenario {of}");
            let refused = Error::invalid(cause, "give them different keys").observed(metric.key());
            refused.unless(of == name)?;
        }
    }
    Ok(())
}

/// Runs scenarios that are all shares of one load, or none, each on a thread of its own.
fn run_all(
    scenarios: &[Box<dyn Scenario>],
    are_shares: bool,
    together: &StartBarrier,
    control: &Control,
    sink: &mut dyn SliceSink,
) -> Result<Outcome, Error> {
    let (tell, told) = channel();
    let (give_back, spares): (Vec<_>, Vec<_>) = scenarios.iter().map(|_| sync_channel(POOL + 1)).unzip();
    let mut merger = Merger::new(give_back);
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(scenarios.len());
        for (index, (scenario, spare)) in scenarios.iter().zip(spares).enumerate() {
            let is_first = are_shares || index == 0;
            let mut forward = Forward { scenario: index, is_first, tell: tell.clone(), spare };
            // A broker's return is watched by the first one.
            let control = if index == 0 { control.clone() } else { control.without_watch() };
            let work = move || {
                let outcome = scenario.run(together, &control, &mut forward);
                if !outcome.as_ref().is_ok_and(|it| it.is_gap) {
                    together.end(Clock.now());
                }
                let _ = forward.tell.send(FromScenario::Ended(index));
                outcome
            };
            let thread = thread::Builder::new().name(scenario.name().to_owned());
            match thread.spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    together.end(Clock.now());
                    return Err(Error::machine("start a thread", error));
                }
            }
        }
        drop(tell);
        let (mut has_started, mut begun) = (false, None);
        for told in told {
            match told {
                FromScenario::Slice(scenario, slice) => {
                    merger.add(scenario, slice, |merged| sink.slice(merged));
                }
                FromScenario::Ended(scenario) => merger.end(scenario, |merged| sink.slice(merged)),
                // Of shares any may be lost: the first one that tells of a phase counts.
                FromScenario::Event(_, RunEvent::Started { at }) if are_shares => {
                    if !std::mem::replace(&mut has_started, true) {
                        sink.event(RunEvent::Started { at });
                    }
                }
                FromScenario::Event(_, RunEvent::PhaseStarted { phase, at }) if are_shares => {
                    if begun < Some(phase) {
                        begun = Some(phase);
                        sink.event(RunEvent::PhaseStarted { phase, at });
                    }
                }
                FromScenario::Event(1.., RunEvent::Started { .. } | RunEvent::PhaseStarted { .. }) => {}
                FromScenario::Event(1.., RunEvent::Silence(_)) if !are_shares => {}
                FromScenario::Event(_, event) => sink.event(event),
            }
        }
        merger.finish(|merged| sink.slice(merged));
        let outcomes =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined(outcomes.collect(), are_shares)
    })
}

/// All outcomes in one. Phases are those of the first scenario, and the drain is as long as the longest. Ledgers are
/// those of shares, or one scenario's; of shares there is one only where all that were not lost have theirs, or parts.
fn joined(outcomes: Vec<Result<Outcome, Error>>, are_shares: bool) -> Result<Outcome, Error> {
    // Where one could not start, the others have never started either: its error is the cause.
    let all: Result<Vec<Outcome>, Error> = outcomes.into_iter().collect();
    let mut all = all?;
    // Phases of a share that was lost end with it, also where the load fails for that.
    all.sort_by_key(|it| (it.is_gap, are_shares && it.error.is_some()));
    let parts: Option<Vec<LedgerPart>> = all.iter().filter(|it| !it.is_gap).map(|it| it.ledger_part.clone()).collect();
    let of_parts = parts.filter(|it| are_shares && !it.is_empty()).and_then(|parts| LedgerPart::sum(&parts));
    let mut all = all.into_iter();
    let mut sum = all.next().unwrap_or_else(Outcome::never_started);
    for other in all {
        sum.totals.add(&other.totals);
        sum.measured.add(&other.measured);
        sum.unconfirmed += other.unconfirmed;
        sum.interrupted |= other.interrupted;
        sum.drain_cut |= other.drain_cut;
        sum.error = sum.error.or(other.error);
        match (&mut sum.censored, other.censored) {
            (Some(all), Some(theirs)) => all.merge(&theirs),
            (one, theirs) => *one = one.take().or(theirs),
        }
        sum.ledger = match (sum.ledger, other.ledger) {
            (Some(mut all), Some(theirs)) if are_shares => {
                all.add(&theirs);
                Some(all)
            }
            (one, theirs) if !are_shares || other.is_gap => one.or(theirs),
            _ => None,
        };
        sum.threads.extend(other.threads);
        sum.spun |= other.spun;
        sum.tallies.extend(other.tallies);
        if let (Some(last), Some(theirs)) = (sum.phases.last_mut(), other.phases.last())
            && last.phase == theirs.phase
        {
            last.end = last.end.max(theirs.end);
        }
    }
    sum.phases.retain(|span| span.end.since(span.start) > Nanos::ZERO);
    (sum.ledger, sum.ledger_part) = (sum.ledger.or(of_parts), None);
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use measure::{Phase, Problem, Time};

    use super::*;
    use crate::PhaseTimes;

    #[test]
    fn a_share_that_was_lost_tells_nothing_of_the_phases_of_the_others() {
        let of = |phase, start, end| PhaseTimes { phase, start: Time(start), end: Time(end) };
        let lost = Error::Program(Problem::new("a worker was lost", "it was silent", "see why"));
        let lost = Outcome { phases: vec![of(Phase::Measure, 1, 5)], error: Some(lost), ..Outcome::started(Time(1)) };
        let phases = vec![of(Phase::Measure, 1, 9), of(Phase::Drain, 9, 10)];
        let whole = Outcome { phases: phases.clone(), ..Outcome::started(Time(1)) };
        let sum = joined(vec![Ok(lost), Ok(whole)], true).expect("an outcome");
        assert!(sum.phases == phases && sum.error.is_some(), "{sum:?}");
    }
}
