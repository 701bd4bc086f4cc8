//! What is counted of churn: the interval of the moment, and the tally of the measured phase.

use measure::{Interval, Nanos, Phase, Step, Time, Wait};

use super::ChurnTally;
use super::slot::{Moments, Told};
use crate::{Error, Event};

/// A cycle that begins later than this after its time counts as late.
const LATE: Nanos = Nanos(1_000_000);

/// What was counted.
pub(super) struct Counts {
    /// Cycles that were due before are warm-up.
    pub(super) measure_at: Time,
    /// Being filled.
    pub(super) interval: Box<Interval>,
    pub(super) tally: ChurnTally,
    /// Connections that stay and are ready.
    pub(super) ready: usize,
    /// Since when the loop waits, for room or for the time of the next cycle.
    waiting: (Time, Awaited),
}

/// What the next cycle waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    /// One of those that are under way has to end.
    Room,
    /// Its time; from then on the loop.
    Due(Time),
}

impl Counts {
    pub(super) fn new(now: Time) -> Self {
        Self {
            measure_at: Time(0),
            interval: Box::new(Interval::of_cycles()),
            tally: ChurnTally::default(),
            ready: 0,
            waiting: (now, Awaited::Room),
        }
    }

    /// A cycle begins that could have begun since `possible`.
    pub(super) fn begin(&mut self, due: Time, possible: Time, now: Time) {
        let late = u64::from(now.since(due) > LATE);
        let lag = now.since(possible);
        self.interval.loop_lag_max = self.interval.loop_lag_max.max(lag);
        if let Some(cycles) = &mut self.interval.cycles {
            cycles.counts.begun += 1;
            cycles.counts.late += late;
        }
        if due >= self.measure_at {
            self.tally.counts.begun += 1;
            self.tally.counts.late += late;
        }
        self.record(Step::Wait, due, now.since(due));
    }

    /// So many cycles are under way.
    pub(super) fn under_way(&mut self, cycles: usize) {
        let cycles = cycles as u64;
        if let Some(current) = &mut self.interval.cycles {
            current.counts.under_way = current.counts.under_way.max(cycles);
        }
        if self.interval.phase == Phase::Measure {
            let most = &mut self.tally.counts.under_way;
            *most = cycles.max(*most);
        }
    }

    /// Takes what a slot tells; whether the slot is free again.
    pub(super) fn note(&mut self, what: Told, at: Moments) -> bool {
        match what {
            Told::Took(step) => self.record(step, at.due, at.now.since(at.step_began)),
            Told::Opened => self.record(Step::Open, at.due, at.now.since(at.due)),
            Told::Ready => self.ready += 1,
            Told::Done => {
                if let Some(cycles) = &mut self.interval.cycles {
                    cycles.counts.completed += 1;
                }
                self.tally.counts.completed += u64::from(at.due >= self.measure_at);
                self.record(Step::Cycle, at.due, at.now.since(at.due));
                return true;
            }
        }
        false
    }

    /// A cycle has failed; an event where that is the first time for this reason.
    pub(super) fn fail(&mut self, due: Time, error: Error) -> Option<Event> {
        if let Some(cycles) = &mut self.interval.cycles {
            cycles.counts.failed += 1;
        }
        if due < self.measure_at {
            return None;
        }
        let tally = &mut self.tally;
        tally.counts.failed += 1;
        let reason = error.to_string();
        tally.first_failure.get_or_insert(error);
        if let Some(count) = tally.failures.get_mut(&reason) {
            *count += 1;
            return None;
        }
        if tally.failures.len() >= ChurnTally::MOST_REASONS {
            let others = ChurnTally::OTHERS.to_owned();
            *tally.failures.entry(others).or_default() += 1;
            return None;
        }
        let event = Event::Note(format!("a cycle failed: {reason}"));
        tally.failures.insert(reason, 1);
        Some(event)
    }

    /// Nothing of the warm-up gets into the histograms of what counts.
    fn record(&mut self, step: Step, due: Time, took: Nanos) {
        let counts = due >= self.measure_at || self.interval.phase == Phase::Warmup;
        if let Some(cycles) = self.interval.cycles.as_mut().filter(|_| counts) {
            cycles.record(step, took);
        }
    }

    /// Notes what the time since the last call went into, and what the next cycle waits for now.
    pub(super) fn wait_for(&mut self, now: Time, awaited: Awaited) {
        let (since, before) = std::mem::replace(&mut self.waiting, (now, awaited));
        let waits = &mut self.interval.waits;
        match before {
            Awaited::Room => waits.note(Wait::Budget, now.since(since)),
            Awaited::Due(due) => {
                let due = due.max(since).min(now);
                waits.note(Wait::Schedule, due.since(since));
                waits.note(Wait::Ready, now.since(due));
            }
        }
    }
}
