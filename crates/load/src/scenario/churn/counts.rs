//! What is counted of churn: the interval of the moment, and the tally of the measured phase.

use measure::{Clock, Latencies, Nanos, Phase, Slice, SliceRecorder, Time};

use super::super::awaited::{Awaited, Waiting};
use super::super::unanswered::Unanswered;
use super::metrics::{ChurnMetrics, CycleStep};
use super::slot::{Moments, SlotEvent};
use crate::report::Censored;
use crate::schedule::DueTimes;
use crate::{Error, OperationTally, RunEvent, Silence};

/// A cycle that begins later than this after its time counts as late.
const LATE: Nanos = Nanos(1_000_000);
/// Times of told silences that are remembered, the latest: silences that overlap end soon after each other.
const MOST_TOLD: usize = 32;

/// The interval of the moment, and the tally of cycles that were due in the measured phase.
pub(super) struct CycleCounts {
    pub(super) metrics: ChurnMetrics,
    /// Cycles that were due before are warm-up.
    pub(super) measure_at: Time,
    /// Being filled.
    pub(super) interval: Box<Slice>,
    /// For what was due in the warm-up and ends after it.
    pub(super) carried: Vec<SliceRecorder>,
    pub(super) tally: OperationTally,
    /// Connections that stay and are ready.
    pub(super) ready: usize,
    /// Cycles in flight, times in which none of them got on, and those in which the loop did not run.
    pub(super) unanswered: Unanswered,
    /// Times of silences that were told, apart from each other and in their order: what was due then is counted.
    told: Vec<(Time, Time)>,
    /// Steps that have ended.
    pub(super) handled: u64,
    /// Since when the loop waits, for room or for the time of the next cycle.
    waiting: Waiting,
}

impl CycleCounts {
    /// Each cycle sends this many messages.
    pub(super) fn new(now: Time, messages: u32) -> Self {
        let metrics = ChurnMetrics::resolve();
        let recorded = metrics.recorded();
        let mut counts = measure::Counts::with(&metrics.all());
        counts.add(metrics.messages, messages.into());
        Self {
            metrics,
            measure_at: Time(0),
            interval: Box::new(Slice::with(&recorded)),
            carried: Vec::new(),
            tally: OperationTally {
                counts,
                ..OperationTally::default()
            },
            ready: 0,
            unanswered: Unanswered::default(),
            told: Vec::new(),
            handled: 0,
            waiting: Waiting::since(now, Awaited::Room),
        }
    }

    /// The warm-up ends then.
    pub(super) fn measure_from(&mut self, start: Time, measure_at: Time) {
        self.measure_at = measure_at;
        if measure_at > start {
            let recorded = self.metrics.recorded();
            self.carried
                .resize_with(2, || SliceRecorder::with(&recorded));
        }
    }

    /// Ends the present interval, and hands it out for the next one.
    pub(super) fn exchange(&mut self, mut spare: Box<Slice>, end: Time, next: Phase) -> Box<Slice> {
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

    /// A cycle begins that could have begun since `possible`.
    pub(super) fn begin(&mut self, due: Time, possible: Time, now: Time) {
        self.unanswered.begin(now);
        let late = u64::from(now.since(due) > LATE);
        let lag = now.since(possible);
        self.interval.loop_lag_max = self.interval.loop_lag_max.max(lag);
        let ChurnMetrics {
            begun, late: lates, ..
        } = self.metrics;
        self.interval.counts.add(begun, 1);
        self.interval.counts.add(lates, late);
        if due >= self.measure_at {
            self.tally.counts.add(begun, 1);
            self.tally.counts.add(lates, late);
        }
        self.record(CycleStep::Wait, due, now.since(due));
    }

    /// Notes how many cycles are in flight.
    pub(super) fn in_flight(&mut self, cycles: usize) {
        let in_flight = self.metrics.in_flight;
        self.interval.counts.peak(in_flight, cycles as u64);
        if self.interval.phase == Phase::Measure {
            self.tally.counts.peak(in_flight, cycles as u64);
        }
    }

    /// Takes what a slot tells; whether the slot is free again.
    pub(super) fn note(&mut self, what: SlotEvent, at: Moments) -> bool {
        match what {
            SlotEvent::Took(step) => {
                self.handled += 1;
                // That is the kernel's answer, which it gives where nobody accepts, too.
                if step != CycleStep::Connect {
                    self.answered(at.now);
                }
                self.record(step, at.due, at.now.since(at.step_began));
            }
            SlotEvent::Opened => self.record(CycleStep::Open, at.due, at.now.since(at.due)),
            SlotEvent::Ready => self.ready += 1,
            SlotEvent::Done => {
                self.unanswered.ended();
                let completed = self.metrics.completed;
                self.interval.counts.add(completed, 1);
                let counts = u64::from(at.due >= self.measure_at);
                self.tally.counts.add(completed, counts);
                self.record(CycleStep::Cycle, at.due, at.now.since(at.due));
                return true;
            }
        }
        false
    }

    fn answered(&mut self, now: Time) {
        let silence = self.unanswered.silence(now);
        self.unanswered.answered(now, silence);
    }

    /// The silences that are over, or all at the end. What was due until some time was `due_until` it; a cycle that was
    /// due in two silences at once counts for the first.
    pub(super) fn take_silences(
        &mut self,
        due_until: impl Fn(Time) -> f64,
        end: bool,
    ) -> Vec<Silence> {
        let over = self.unanswered.take(Clock.now(), self.handled, end);
        let mut over: Vec<Silence> = over.into_iter().flatten().collect();
        over.sort_by_key(|silence| silence.from);
        for silence in &mut over {
            let due: f64 = self
                .tell(silence.from, silence.until)
                .map(|(from, until)| due_until(until) - due_until(from))
                .sum();
            // Whatever is in flight began meanwhile.
            silence.unsent = (due.round() as u64).saturating_sub(silence.in_flight);
        }
        over
    }

    /// Notes that a silence of this time is told; the parts of it that no other one covers.
    fn tell(&mut self, from: Time, until: Time) -> impl Iterator<Item = (Time, Time)> + use<> {
        let mut parts = Vec::new();
        let mut next = from;
        for (begin, end) in &self.told {
            parts.push((next, until.min(*begin)));
            next = next.max(*end);
        }
        parts.push((next, until));
        self.told.push((from, until));
        self.told.sort();
        self.told.dedup_by(|later, before| {
            let touches = later.0 <= before.1;
            if touches {
                before.1 = before.1.max(later.1);
            }
            touches
        });
        let old = self.told.len().saturating_sub(MOST_TOLD);
        self.told.drain(..old);
        parts.into_iter().filter(|(from, until)| from < until)
    }

    /// Hands out the tally, and the waits until now of what has no end: the cycles in flight, by their due times, and
    /// those that were due before `last` and are left, which found no room.
    pub(super) fn finish(
        &mut self,
        due_times: Option<DueTimes>,
        in_flight: impl Iterator<Item = Time>,
        last: Time,
        now: Time,
    ) -> (OperationTally, Option<Box<Censored>>) {
        let mut tally = std::mem::take(&mut self.tally);
        let mut censored = Censored::new(self.measure_at, now);
        let whole = [CycleStep::Cycle, CycleStep::Open].map(|step| self.metrics.step(step));
        in_flight.for_each(|due| censored.unanswered_operation(due, now, &whole[..1]));
        if let Some(mut due_times) = due_times {
            let [cycle, open] = whole;
            let metrics = [cycle, open, self.metrics.step(CycleStep::Wait)];
            censored.never_begun(&mut due_times.clone(), last, now, &metrics);
            due_times.pass(self.measure_at, u64::MAX);
            let not_begun = due_times.pass(last, u64::MAX);
            tally.counts.add(self.metrics.not_begun, not_begun);
        }
        (tally, (!censored.is_empty()).then(|| Box::new(censored)))
    }

    /// A cycle has failed in a step; an event where that is the first time for this reason. One that was given up counts
    /// with the time that it has waited.
    pub(super) fn fail(&mut self, error: Error, at: Moments) -> Option<RunEvent> {
        let Moments { due, now, .. } = at;
        self.interval.counts.add(self.metrics.failed, 1);
        if matches!(error, Error::TimedOut { .. }) {
            self.unanswered.give_up(now);
            self.record(CycleStep::Cycle, due, now.since(due));
        } else {
            self.answered(now);
            self.unanswered.failed(at.step_began);
            self.unanswered.ended();
        }
        if due < self.measure_at {
            return None;
        }
        self.tally.counts.add(self.metrics.failed, 1);
        let reason = self.tally.fail(error)?;
        Some(RunEvent::Note(format!("a cycle failed: {reason}")))
    }

    fn record(&mut self, step: CycleStep, due: Time, took: Nanos) {
        let metric = self.metrics.step(step);
        self.interval.due(due).record(metric, took);
    }

    /// Notes what the time since the last call went into, and what the next cycle waits for now.
    pub(super) fn wait_for(&mut self, now: Time, awaited: Awaited) {
        self.waiting
            .wait_for(&mut self.interval.waits, now, awaited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn silence(from_ms: u64, until_ms: u64) -> Silence {
        Silence {
            from: Time(from_ms * MS),
            until: Time(until_ms * MS),
            connections: 1,
            in_flight: 1,
            ..Silence::default()
        }
    }

    /// A cycle is due each millisecond.
    fn told(counts: &mut CycleCounts) -> Vec<(u64, u64, u64)> {
        let due_until = |at: Time| (at.0 / MS) as f64;
        let told = counts.take_silences(due_until, true).into_iter();
        told.map(|it| (it.from.0 / MS, it.until.0 / MS, it.unsent + it.in_flight))
            .collect()
    }

    #[test]
    fn a_cycle_that_was_due_in_two_silences_is_delayed_once() {
        let mut counts = CycleCounts::new(Time(0), 0);
        // The broker was silent, and the loop stood still for a part of that time.
        counts.unanswered.silences.end(silence(1_000, 2_000));
        counts
            .unanswered
            .silences
            .come_back(silence(1_500, 2_500), 0);
        let both = told(&mut counts);
        assert_eq!(both, [(1_000, 2_000, 1_000), (1_500, 2_500, 500)]);
        // One that began before and ended after those: what it has alone.
        counts.unanswered.silences.end(silence(900, 2_600));
        assert_eq!(told(&mut counts), [(900, 2_600, 200)]);
        // Apart from them, and within.
        counts.unanswered.silences.end(silence(3_000, 3_400));
        assert_eq!(told(&mut counts), [(3_000, 3_400, 400)]);
        counts.unanswered.silences.end(silence(3_100, 3_200));
        let within = told(&mut counts);
        assert_eq!(within, [(3_100, 3_200, 1)], "the one in flight");
    }

    #[test]
    fn the_memory_of_told_silences_is_bounded() {
        let mut counts = CycleCounts::new(Time(0), 0);
        for at in 0..1_000 {
            counts
                .unanswered
                .silences
                .end(silence(at * 1_000, at * 1_000 + 200));
            assert_eq!(told(&mut counts).len(), 1);
        }
        assert_eq!(counts.told.len(), MOST_TOLD);
    }
}
