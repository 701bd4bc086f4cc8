//! Counts of requests that not every operation has.

use hdrhistogram::Histogram;
use measure::{Clock, Time};

use super::ProbeMetrics;
use crate::scenario::operations::OperationCounts;
use crate::{Error, RunEvent, Silence};

/// Requests that fail one after the other before the next answer is told, and how often it is.
const LONG_FAILURE: u64 = 3;
const MOST_RETURNS: u32 = 16;

/// An answer that failed is no silence unless it took so many times the median answer, failed ones included.
const SLOW_ANSWERS: u64 = 10;

pub(super) type RequestCounts = OperationCounts<RequestFigures>;

/// Figures of requests that not every operation has.
pub(super) struct RequestFigures {
    pub(super) metrics: ProbeMetrics,
    /// How long answers took, whatever they said.
    answers: Histogram<u64>,
    /// Requests that were sent twice.
    pub(super) resent: u64,
    /// Requests that have failed since the last one that did not.
    failed_since: u64,
    /// How often it was told that requests are answered again.
    told_returns: u32,
}

impl RequestCounts {
    pub(super) fn new(scenario: &str, now: Time) -> Self {
        let metrics = ProbeMetrics::resolve(scenario);
        let own =
            RequestFigures { metrics, answers: measure::new_histogram(), resent: 0, failed_since: 0, told_returns: 0 };
        Self::with(metrics.operations(), metrics.recorded(), &metrics.all(), own, now)
    }

    /// The whole response to a request has come, in order or not.
    pub(super) fn answered(&mut self, sent: Time, now: Time, status: u16) {
        // A silence counts once, whatever number waited through it.
        if !self.unanswered.waited(sent) {
            self.own.answers.saturating_record(now.since(sent).0);
        }
        // Whoever answers that it cannot has not stood still. The median is searched for among thousands of
        // counters: only where it decides.
        let is_stop = |silence: &Silence| {
            let usual = || self.own.answers.value_at_quantile(0.5);
            let length = silence.until.since(silence.from).0;
            status < 400 || length >= usual().saturating_mul(SLOW_ANSWERS)
        };
        let silence = self.unanswered.silence(sent, now).filter(is_stop);
        self.heard(sent, now, silence);
        self.handled += 1;
        if status >= 400 {
            self.unanswered.failed(sent);
        }
    }

    /// A request was answered in order; an event where several before it failed.
    pub(super) fn complete(&mut self, due: Time) -> Option<RunEvent> {
        self.add(self.metrics.completed, due, 1);
        let failed = std::mem::take(&mut self.own.failed_since);
        if failed < LONG_FAILURE || self.own.told_returns >= MOST_RETURNS {
            return None;
        }
        self.own.told_returns += 1;
        let failed = measure::count(failed);
        Some(RunEvent::Note(format!("requests are answered again, after {failed} that failed")))
    }

    /// A request has failed; an event where that is the first time for this reason.
    pub(super) fn fail_request(&mut self, due: Time, error: Error) -> Option<RunEvent> {
        self.own.failed_since += 1;
        self.fail(due, error)
    }

    /// The silences that are over, or all at the end. What was due until some time was `due_until` it. What was sent
    /// meanwhile on connections of its own has silences of its own; unsent was what found no room.
    pub(super) fn take_silences(&mut self, due_until: impl Fn(Time) -> f64, is_end: bool) -> Vec<Silence> {
        let now = Clock.now();
        let over = self.unanswered.take(now, self.handled, is_end).into_iter().flatten();
        // Times in which the loop itself did not run are told of churn alone.
        let mut over: Vec<Silence> = over.filter(|it| !it.is_own).collect();
        // None is told with two.
        if let Some(first) = over.first_mut() {
            first.unsent = std::mem::take(&mut self.delayed);
            if is_end {
                let due = due_until(now).round() as u64;
                first.unsent += due.saturating_sub(self.begun);
            }
        } else if !self.unanswered.silences.is_pending() {
            self.delayed = 0;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use measure::{Nanos, Rate};

    use super::*;
    use crate::ArrivalSchedule;
    use plan::DueTimes;

    const MS: u64 = 1_000_000;

    fn silences(answers: &[(u64, u16)]) -> usize {
        let mut counts = RequestCounts::new("probe", Time(0));
        let mut found = 0;
        for (at, (took_ms, status)) in (1..).zip(answers) {
            let sent = Time(at * 10_000 * MS);
            counts.begin(sent, sent, sent);
            counts.answered(sent, sent + Nanos(took_ms * MS), *status);
            found += counts.take_silences(|_| 0.0, true).len();
        }
        found
    }

    /// A failed answer is one: a server that takes 150 ms for each has not stopped answering, one
    /// that suddenly takes far longer has.
    #[test]
    fn slow_failures_are_answers_and_no_silence() {
        let slow: Vec<_> = (0..30).map(|at| (140 + at % 7 * 12, 500)).collect();
        assert_eq!(silences(&slow), 0);
        assert_eq!(silences(&[&slow[..], &[(3_000, 503)]].concat()), 1);
        let fast = [(2, 200); 9];
        assert_eq!(silences(&[&fast[..], &[(150, 500)]].concat()), 1);
        // Of the others who judges them knows the median.
        assert_eq!(silences(&[(150, 200)]), 1);
    }

    /// Answers that waited through a standstill do not make the next one usual.
    #[test]
    fn standstills_of_a_failing_server_are_told_again() {
        let mut counts = RequestCounts::new("probe", Time(0));
        for round in 1..4 {
            let start = Time(round * 10_000 * MS);
            for at in 0..10 {
                let sent = start + Nanos(at * 50 * MS);
                counts.begin(sent, sent, sent);
                counts.answered(sent, sent + Nanos(2 * MS), 200);
            }
            let sent: Vec<Time> = (10..50).map(|at| start + Nanos(at * 50 * MS)).collect();
            sent.iter().for_each(|sent| counts.begin(*sent, *sent, *sent));
            for sent in sent {
                counts.answered(sent, start + Nanos(2_500 * MS), 503);
            }
            let told = counts.take_silences(|_| 0.0, true);
            let told: Vec<_> = told.iter().map(|it| (it.from, it.in_flight)).collect();
            assert_eq!(told, [(start + Nanos(500 * MS), 40)], "round {round}");
        }
    }

    #[test]
    fn begun_is_what_ended_and_what_is_in_flight() {
        let (start, measure_at) = (Time(0), Time(100 * MS));
        let mut counts = RequestCounts::new("probe", start);
        counts.measure_from(start, measure_at);
        let rate = Rate::per_second(20.0).expect("a rate");
        let pacer = ArrivalSchedule::constant(rate).pacer(1).expect("a pacer");
        let mut due_times = DueTimes::new(&pacer, start, 0, 0);
        let mut begun = Vec::new();
        while due_times.due() < Time(300 * MS) {
            let due = due_times.due();
            counts.begin(due, due, due);
            begun.push(due);
            due_times.advance();
        }
        assert_eq!(begun.len(), 6);
        // One of the warm-up is answered in the measured phase; two of the others are, one of them in the drain.
        for due in [begun[0], begun[2], begun[3]] {
            let _ = counts.complete(due);
        }
        let left = [begun[1], begun[4], begun[5]].into_iter();
        let metrics = counts.metrics;
        let at_end = counts.own.metrics.in_flight_at_end;
        let (tally, _) = counts.finish(Some(due_times), left, Time(300 * MS), Time(900 * MS));
        let count = |metric| tally.counts.get(metric);
        assert_eq!((count(metrics.begun), count(metrics.completed)), (4, 2));
        assert_eq!((count(metrics.failed), count(at_end)), (0, 2));
    }
}
