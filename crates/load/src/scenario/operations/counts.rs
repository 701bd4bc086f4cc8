//! Counts of operations: the interval of the moment, and the tally of the measured phase.

use measure::{Counts, Metric, Nanos, Phase, Slice, SliceRecorder, Time, Wait};

use super::OperationMetrics;
use super::unanswered::Unanswered;
use crate::report::Censored;
use crate::{Error, OperationTally, RunEvent, Silence};
use plan::DueTimes;

/// An operation that begins later than this after its due time counts as late.
const LATE: Nanos = Nanos(1_000_000);

/// The interval of the moment, and the tally of operations that were due in the measured phase.
pub(crate) struct OperationCounts<F> {
    pub(crate) metrics: OperationMetrics,
    recorded: Vec<Metric>,
    /// Operations that were due before are warm-up.
    pub(crate) measure_at: Time,
    pub(crate) interval: Box<Slice>,
    /// For operations that were due in the warm-up and end after it.
    carried: Vec<SliceRecorder>,
    pub(crate) tally: OperationTally,
    /// Operations in flight, times in which none of them got on, and those in which the loop did not run.
    pub(crate) unanswered: Unanswered,
    /// Answers that were taken.
    pub(crate) handled: u64,
    pub(crate) begun: u64,
    /// Those of them that found no room when they were due, since the last silence that was told.
    pub(crate) delayed: u64,
    /// Since when the loop waits, and what for.
    waiting: (Time, Awaited),
    /// Figures that only this kind of operation has.
    pub(crate) own: F,
}

impl<F> OperationCounts<F> {
    /// Records some of the metrics in each interval, and counts all of them in the tally.
    pub(crate) fn with(metrics: OperationMetrics, recorded: Vec<Metric>, all: &[Metric], own: F, now: Time) -> Self {
        Self {
            metrics,
            measure_at: Time(0),
            interval: Box::new(Slice::with(&recorded)),
            recorded,
            carried: Vec::new(),
            tally: OperationTally { counts: Counts::with(all), ..OperationTally::default() },
            unanswered: Unanswered::default(),
            handled: 0,
            begun: 0,
            delayed: 0,
            waiting: (now, Awaited::Room),
            own,
        }
    }

    pub(crate) fn measure_from(&mut self, start: Time, measure_at: Time) {
        self.measure_at = measure_at;
        if measure_at > start {
            self.carried.resize_with(2, || SliceRecorder::with(&self.recorded));
        }
    }

    pub(crate) fn new_interval(&self) -> Box<Slice> {
        Box::new(Slice::with(&self.recorded))
    }

    /// Ends the present interval, and hands it out for the next one.
    pub(crate) fn exchange(&mut self, mut spare: Box<Slice>, end: Time, next: Phase) -> Box<Slice> {
        let interval = &mut self.interval;
        interval.end = end.max(interval.start);
        interval.ends_phase = next != interval.phase;
        interval.waits.loop_time = interval.length();
        self.carried.extend(spare.carried.take());
        spare.reset(interval.end, next);
        if next != Phase::Warmup {
            spare.set_due(self.measure_at, Time(u64::MAX));
        }
        interval.hand_on_carried(&mut spare, &mut self.carried);
        std::mem::replace(interval, spare)
    }

    /// Counts by the time at which something happens, and by the time at which its operation was due.
    pub(crate) fn add(&mut self, metric: Metric, due: Time, count: u64) {
        self.interval.counts.add(metric, count);
        if due >= self.measure_at {
            self.tally.counts.add(metric, count);
        }
    }

    pub(crate) fn record(&mut self, metric: Metric, due: Time, took: Nanos) {
        self.interval.due(due).record(metric, took);
    }

    /// An operation begins that could have begun since `possible`.
    pub(crate) fn begin(&mut self, due: Time, possible: Time, now: Time) {
        self.begun += 1;
        self.unanswered.ask(now);
        self.delayed += u64::from(possible > due);
        let lag = now.since(possible);
        self.interval.loop_lag_max = self.interval.loop_lag_max.max(lag);
        self.add(self.metrics.begun, due, 1);
        self.add(self.metrics.late, due, u64::from(now.since(due) > LATE));
        self.record(self.metrics.wait, due, now.since(due));
    }

    /// Notes what the time since the last call went into, and what the next operation waits for now.
    pub(crate) fn wait_for(&mut self, now: Time, awaited: Awaited) {
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

    pub(crate) fn in_flight(&mut self, operations: usize) {
        let in_flight = self.metrics.in_flight;
        self.interval.counts.peak(in_flight, operations as u64);
        if self.interval.phase == Phase::Measure {
            self.tally.counts.peak(in_flight, operations as u64);
        }
    }

    /// One of those in flight has an answer to what it asked then, which ends this silence.
    pub(crate) fn heard(&mut self, asked: Time, now: Time, silence: Option<Silence>) {
        if silence.is_some_and(|silence| silence.in_flight > 0) {
            // What began in it is in flight.
            self.delayed = 0;
        }
        self.unanswered.answered(asked, now, silence);
    }

    /// An operation has failed that had asked then, or is given up.
    pub(crate) fn lost(&mut self, asked: Time, now: Time, is_given_up: bool) {
        if is_given_up {
            return self.unanswered.give_up(asked, now);
        }
        self.heard(asked, now, self.unanswered.silence(asked, now));
        self.unanswered.failed(asked);
    }

    /// Counts a failure; an event where that is the first one for this reason.
    pub(crate) fn fail(&mut self, due: Time, error: Error) -> Option<RunEvent> {
        self.add(self.metrics.failed, due, 1);
        if due < self.measure_at {
            return None;
        }
        let reason = self.tally.fail(error)?;
        let [one, _] = self.metrics.words;
        Some(RunEvent::Note(format!("a {one} failed: {reason}")))
    }

    /// Hands out the tally, and the waits until now of what has no end: the operations in flight, by their due times,
    /// and those that were due before `last` and are left, which found no room.
    pub(crate) fn finish(
        &mut self,
        due_times: Option<DueTimes>,
        in_flight: impl Iterator<Item = Time>,
        last: Time,
        now: Time,
    ) -> (OperationTally, Option<Box<Censored>>) {
        let mut tally = std::mem::take(&mut self.tally);
        let mut censored = Censored::new(self.measure_at, now);
        let metrics = self.metrics;
        for due in in_flight {
            censored.unanswered_operation(due, now, &[metrics.latency]);
            if let Some(at_end) = metrics.in_flight_at_end {
                tally.counts.add(at_end, u64::from(due >= self.measure_at));
            }
        }
        if let Some(mut due_times) = due_times {
            let from_due = [Some(metrics.latency), metrics.opened, Some(metrics.wait)];
            let from_due: Vec<Metric> = from_due.into_iter().flatten().collect();
            censored.never_begun(&mut due_times.clone(), last, now, &from_due);
            due_times.pass(self.measure_at, u64::MAX);
            let not_begun = due_times.pass(last, u64::MAX);
            tally.counts.add(metrics.not_begun, not_begun);
        }
        (tally, (!censored.is_empty()).then(|| Box::new(censored)))
    }
}

/// The cause for which the next operation has to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaited {
    /// One of those in flight has to end.
    Room,
    /// Its time; from then on the loop.
    Due(Time),
}
