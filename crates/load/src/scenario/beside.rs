//! Scenarios beside each other: each on threads of its own, with one merged series.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

use measure::{Clock, Nanos, Slice, Waits};

use super::Scenario;
use crate::engine::series::{Merger, POOL};
use crate::seconds::Seconds;
use crate::{Control, Error, Outcome, RunEvent, Sink, SliceSink, StartBarrier, make_room};

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
    tell: Sender<FromScenario>,
    /// Slices that were merged.
    spare: Receiver<Box<Slice>>,
}

impl SliceSink for Forward {
    fn slice(&mut self, slice: &Slice) {
        let mut copy = self.spare.try_recv().unwrap_or_default();
        copy.reset(slice.start, slice.phase);
        copy.merge(slice);
        if self.scenario > 0 {
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
        [alone] => alone.run(&StartBarrier::alone(), control, &mut seconds),
        several => run_all(several, control, &mut seconds),
    };
    seconds.finish();
    outcome
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

fn run_all(scenarios: &[Box<dyn Scenario>], control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error> {
    let together = StartBarrier::of(scenarios.len());
    let (tell, told) = channel();
    let (give_back, spares): (Vec<_>, Vec<_>) = scenarios.iter().map(|_| sync_channel(POOL + 1)).unzip();
    let mut merger = Merger::new(give_back);
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(scenarios.len());
        for (index, (scenario, spare)) in scenarios.iter().zip(spares).enumerate() {
            let mut forward = Forward { scenario: index, tell: tell.clone(), spare };
            let together = &together;
            // A broker's return is watched by the first one.
            let control = if index == 0 { control.clone() } else { control.without_watch() };
            let work = move || {
                let outcome = scenario.run(together, &control, &mut forward);
                together.end(Clock.now());
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
        for told in told {
            match told {
                FromScenario::Slice(scenario, slice) => {
                    merger.add(scenario, slice, |merged| sink.slice(merged));
                }
                FromScenario::Ended(scenario) => merger.end(scenario, |merged| sink.slice(merged)),
                FromScenario::Event(
                    1..,
                    RunEvent::Started { .. } | RunEvent::PhaseStarted { .. } | RunEvent::Silence(_),
                ) => {}
                FromScenario::Event(_, event) => sink.event(event),
            }
        }
        merger.finish(|merged| sink.slice(merged));
        let outcomes =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined(outcomes.collect())
    })
}

/// All outcomes in one. Phases are those of the first scenario, and the drain is as long as the longest.
fn joined(outcomes: Vec<Result<Outcome, Error>>) -> Result<Outcome, Error> {
    // Where one could not start, the others have never started either: its error is the cause.
    let all: Result<Vec<Outcome>, Error> = outcomes.into_iter().collect();
    let mut all = all?.into_iter();
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
        sum.ledger = sum.ledger.or(other.ledger);
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
    Ok(sum)
}
