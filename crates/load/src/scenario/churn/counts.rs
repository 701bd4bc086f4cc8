//! Counts of cycles that not every operation has.

use measure::{Clock, Time};

use super::slot::{Moments, SlotEvent};
use super::{ChurnMetrics, NAME};
use crate::scenario::operations::OperationCounts;
use crate::{Error, RunEvent, Silence};

/// Times of told silences that are remembered, the latest: silences that overlap end soon after each other.
const MOST_TOLD: usize = 32;

/// Counts of cycles.
pub(super) type CycleCounts = OperationCounts<CycleFigures>;

/// Figures of cycles that not every operation has.
pub(super) struct CycleFigures {
    pub(super) metrics: ChurnMetrics,
    /// Connections that stay and are ready.
    pub(super) ready: usize,
    /// Times of silences that were told, apart from each other and in their order: what was due then is counted.
    told: Vec<(Time, Time)>,
}

impl CycleCounts {
    /// Each cycle sends this many messages.
    pub(super) fn new(now: Time, messages: u32) -> Self {
        let metrics = ChurnMetrics::resolve(NAME);
        let own = CycleFigures { metrics, ready: 0, told: Vec::new() };
        let mut counts = Self::with(metrics.operations(), metrics.recorded(), &metrics.all(), own, now);
        counts.tally.counts.add(metrics.messages, messages.into());
        counts
    }

    /// Takes what a slot tells; whether the slot is free again.
    pub(super) fn note(&mut self, what: SlotEvent, at: Moments) -> bool {
        match what {
            SlotEvent::Took(step) => {
                self.handled += 1;
                let metrics = self.own.metrics;
                if metrics.is_answer(step) {
                    let silence = self.unanswered.silence(at.asked, at.now);
                    self.heard(at.asked, at.now, silence);
                    if !metrics.is_last(step) {
                        self.unanswered.ask(at.now);
                    }
                }
                self.record(step, at.due, at.now.since(at.step_began));
            }
            SlotEvent::Opened => self.record(self.own.metrics.open, at.due, at.now.since(at.due)),
            SlotEvent::Ready => self.own.ready += 1,
            SlotEvent::Done => {
                self.add(self.metrics.completed, at.due, 1);
                self.record(self.metrics.latency, at.due, at.now.since(at.due));
                return true;
            }
        }
        false
    }

    /// The silences that are over, or all at the end. What was due until some time was `due_until` it; a cycle that was
    /// due in two silences at once counts for the first.
    pub(super) fn take_silences(&mut self, due_until: impl Fn(Time) -> f64, is_end: bool) -> Vec<Silence> {
        let over = self.unanswered.take(Clock.now(), self.handled, is_end);
        let mut over: Vec<Silence> = over.into_iter().flatten().collect();
        over.sort_by_key(|silence| silence.from);
        for silence in &mut over {
            let due: f64 =
                self.tell(silence.from, silence.until).map(|(from, until)| due_until(until) - due_until(from)).sum();
            // Whatever is in flight began meanwhile.
            silence.unsent = (due.round() as u64).saturating_sub(silence.in_flight);
        }
        over
    }

    /// Notes that a silence of this time is told; the parts of it that no other one covers.
    fn tell(&mut self, from: Time, until: Time) -> impl Iterator<Item = (Time, Time)> + use<> {
        let mut parts = Vec::new();
        let mut next = from;
        for (begin, end) in &self.own.told {
            parts.push((next, until.min(*begin)));
            next = next.max(*end);
        }
        parts.push((next, until));
        self.own.told.push((from, until));
        self.own.told.sort();
        self.own.told.dedup_by(|later, before| {
            let touches = later.0 <= before.1;
            if touches {
                before.1 = before.1.max(later.1);
            }
            touches
        });
        let old = self.own.told.len().saturating_sub(MOST_TOLD);
        self.own.told.drain(..old);
        parts.into_iter().filter(|(from, until)| from < until)
    }

    /// A cycle failed in a step; an event at its first time for this reason. One given up counts with its wait.
    pub(super) fn fail_cycle(&mut self, error: Error, at: Moments) -> Option<RunEvent> {
        let is_given_up = matches!(error, Error::TimedOut { .. });
        self.lost(at.asked, at.now, is_given_up);
        if is_given_up {
            self.record(self.metrics.latency, at.due, at.now.since(at.due));
        }
        self.fail(at.due, error)
    }
}

#[cfg(test)]
mod tests {
    use measure::Nanos;

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
        told.map(|it| (it.from.0 / MS, it.until.0 / MS, it.unsent + it.in_flight)).collect()
    }

    #[test]
    fn a_cycle_that_was_due_in_two_silences_is_delayed_once() {
        let mut counts = CycleCounts::new(Time(0), 0);
        // The broker was silent, and the loop stood still for a part of that time.
        counts.unanswered.silences.end(silence(1_000, 2_000));
        counts.unanswered.silences.come_back(silence(1_500, 2_500), 0);
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

    /// A broker that holds the second step of a cycle stands still as one that holds the first does.
    #[test]
    fn each_step_of_a_cycle_waits_for_the_broker() {
        let metrics = ChurnMetrics::resolve(NAME);
        for held in [metrics.declare, metrics.delete] {
            let mut counts = CycleCounts::new(Time(0), 0);
            let due = Time(1_000 * MS);
            counts.begin(due, due, due);
            let (mut asked, mut expected) = (due, Vec::new());
            for step in [metrics.declare, metrics.delete] {
                let now = asked + Nanos(if step == held { 2_000 * MS } else { MS });
                let (step_began, from) = (asked, asked.0 / MS);
                let moments = Moments { due, step_began, asked, now };
                assert!(!counts.note(SlotEvent::Took(step), moments));
                if step == held {
                    expected.push((from, now.0 / MS, 2_000));
                }
                if metrics.is_last(step) {
                    assert!(counts.note(SlotEvent::Done, moments));
                }
                asked = now;
            }
            assert_eq!(told(&mut counts), expected, "{held:?}");
        }
    }

    #[test]
    fn the_memory_of_told_silences_is_bounded() {
        let mut counts = CycleCounts::new(Time(0), 0);
        for at in 0..1_000 {
            counts.unanswered.silences.end(silence(at * 1_000, at * 1_000 + 200));
            assert_eq!(told(&mut counts).len(), 1);
        }
        assert_eq!(counts.own.told.len(), MOST_TOLD);
    }
}
