//! What is counted of a probe: the interval of the moment, and the tally of the measured phase.

use hdrhistogram::Histogram;
use measure::{Clock, Latencies, Metric, Nanos, Phase, Slice, SliceRecorder, Time};

use super::super::awaited::{Awaited, Waiting};
use super::super::unanswered::Unanswered;
use super::metrics::{ProbeMetrics, RequestStep};
use crate::report::Censored;
use crate::schedule::DueTimes;
use crate::{Error, OperationTally, RunEvent, Silence};

/// A request that is sent later than this after its time counts as late.
const LATE: Nanos = Nanos(1_000_000);

/// Requests that fail one after the other before the next answer is told, and how often it is.
const LONG_FAILURE: u64 = 3;
const MOST_RETURNS: u32 = 16;

/// An answer that failed is no silence unless it took so many times the median answer, failed ones included.
const SLOW_ANSWERS: u64 = 10;

/// The interval of the moment, and the tally of requests that were due in the measured phase.
pub(super) struct RequestCounts {
    pub(super) metrics: ProbeMetrics,
    /// Requests that were due before are warm-up.
    pub(super) measure_at: Time,
    /// Being filled.
    pub(super) interval: Box<Slice>,
    /// For what was due in the warm-up and ends after it.
    carried: Vec<SliceRecorder>,
    tally: OperationTally,
    /// Requests in flight, and times in which none of them was answered.
    unanswered: Unanswered,
    /// How long answers took, whatever they said.
    answers: Histogram<u64>,
    /// Requests that have ended.
    handled: u64,
    /// Requests that were begun.
    pub(super) begun: u64,
    /// Those of them that found no room when they were due, since the last silence that was told.
    delayed: u64,
    /// Requests that were sent twice.
    pub(super) resent: u64,
    /// Requests that have failed since the last one that did not.
    failed_since: u64,
    /// How often it was told that requests are answered again.
    told_returns: u32,
    /// Since when the loop waits, for room or for the time of the next request.
    waiting: Waiting,
}

impl RequestCounts {
    pub(super) fn new(scenario: &str, now: Time) -> Self {
        let metrics = ProbeMetrics::resolve(scenario);
        Self {
            metrics,
            measure_at: Time(0),
            interval: Box::new(Slice::with(&metrics.recorded())),
            carried: Vec::new(),
            tally: OperationTally {
                counts: measure::Counts::with(&metrics.all()),
                ..OperationTally::default()
            },
            unanswered: Unanswered::default(),
            answers: measure::new_histogram(),
            handled: 0,
            begun: 0,
            delayed: 0,
            resent: 0,
            failed_since: 0,
            told_returns: 0,
            waiting: Waiting::since(now, Awaited::Due(Time(u64::MAX))),
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

    /// Counts by the time at which something happens, and by the time at which its request was due.
    pub(super) fn add(&mut self, metric: Metric, due: Time, count: u64) {
        self.interval.counts.add(metric, count);
        if due >= self.measure_at {
            self.tally.counts.add(metric, count);
        }
    }

    pub(super) fn record(&mut self, step: RequestStep, due: Time, took: Nanos) {
        let metric = self.metrics.step(step);
        self.interval.due(due).record(metric, took);
    }

    /// A request is sent that could have been since `possible`.
    pub(super) fn begin(&mut self, due: Time, possible: Time, now: Time) {
        self.begun += 1;
        self.unanswered.begin(now);
        self.delayed += u64::from(possible > due);
        let lag = now.since(possible);
        self.interval.loop_lag_max = self.interval.loop_lag_max.max(lag);
        self.add(self.metrics.begun, due, 1);
        self.add(self.metrics.late, due, u64::from(now.since(due) > LATE));
        self.record(RequestStep::Wait, due, now.since(due));
    }

    /// Notes what the time since the last call went into, and what the next request waits for now.
    pub(super) fn wait_for(&mut self, now: Time, awaited: Awaited) {
        self.waiting
            .wait_for(&mut self.interval.waits, now, awaited);
    }

    /// Notes how many requests are in flight.
    pub(super) fn in_flight(&mut self, requests: usize) {
        let in_flight = self.metrics.in_flight;
        self.interval.counts.peak(in_flight, requests as u64);
        if self.interval.phase == Phase::Measure {
            self.tally.counts.peak(in_flight, requests as u64);
        }
    }

    /// The whole response to a request has come, in order or not.
    pub(super) fn answered(&mut self, sent: Time, now: Time, status: u16) {
        self.answers.saturating_record(now.since(sent).0);
        // Whoever answers that it cannot has not stood still. The median is searched for among thousands of counters: only
        // where it decides.
        let is_stop = |silence: &Silence| {
            let usual = || self.answers.value_at_quantile(0.5);
            let length = silence.until.since(silence.from).0;
            status < 400 || length >= usual().saturating_mul(SLOW_ANSWERS)
        };
        let silence = self.unanswered.silence(now).filter(is_stop);
        self.heard(now, silence);
        self.ended(sent, status >= 400);
    }

    /// A request has ended without a response.
    pub(super) fn lost(&mut self, sent: Time, now: Time, is_given_up: bool) {
        if is_given_up {
            self.handled += 1;
            self.unanswered.give_up(now);
            return;
        }
        self.heard(now, self.unanswered.silence(now));
        self.ended(sent, true);
    }

    fn heard(&mut self, now: Time, silence: Option<Silence>) {
        if silence.is_some() {
            // What began in it is in flight.
            self.delayed = 0;
        }
        self.unanswered.answered(now, silence);
    }

    fn ended(&mut self, sent: Time, has_failed: bool) {
        self.handled += 1;
        if has_failed {
            self.unanswered.failed(sent);
        }
        self.unanswered.ended();
    }

    /// A request was answered in order; an event where several before it failed.
    pub(super) fn complete(&mut self, due: Time) -> Option<RunEvent> {
        self.add(self.metrics.completed, due, 1);
        let failed = std::mem::take(&mut self.failed_since);
        if failed < LONG_FAILURE || self.told_returns >= MOST_RETURNS {
            return None;
        }
        self.told_returns += 1;
        let failed = measure::count(failed);
        Some(RunEvent::Note(format!(
            "requests are answered again, after {failed} that failed"
        )))
    }

    /// A request has failed; an event where that is the first time for this reason.
    pub(super) fn fail(&mut self, due: Time, error: Error) -> Option<RunEvent> {
        self.add(self.metrics.failed, due, 1);
        self.failed_since += 1;
        if due < self.measure_at {
            return None;
        }
        let reason = self.tally.fail(error)?;
        Some(RunEvent::Note(format!("a request failed: {reason}")))
    }

    /// The silences that are over, or all at the `end`, when so many requests were due that never began. What was sent
    /// meanwhile on connections of its own has silences of its own; unsent was what found no room.
    pub(super) fn take_silences(
        &mut self,
        end: Option<u64>,
    ) -> impl Iterator<Item = Silence> + use<> {
        let over = self
            .unanswered
            .take(Clock.now(), self.handled, end.is_some());
        if over.iter().all(Option::is_none) {
            if !self.unanswered.silences.is_pending() {
                self.delayed = 0;
            }
            return over.into_iter().flatten();
        }
        // None is told with two.
        let mut unsent = std::mem::take(&mut self.delayed) + end.unwrap_or_default();
        let told = over.map(|silence| {
            silence.map(|silence| Silence {
                unsent: std::mem::take(&mut unsent),
                ..silence
            })
        });
        told.into_iter().flatten()
    }

    /// Hands out the tally, and the waits until now of what has no answer: the requests in flight, by their due times,
    /// and those that were due before `last` and are left, which found no room.
    pub(super) fn finish(
        &mut self,
        mut due_times: DueTimes,
        in_flight: impl Iterator<Item = Time>,
        last: Time,
        now: Time,
    ) -> (OperationTally, Option<Box<Censored>>) {
        let mut tally = std::mem::take(&mut self.tally);
        let mut censored = Censored::new(self.measure_at, now);
        let response = self.metrics.step(RequestStep::Response);
        let wait = self.metrics.step(RequestStep::Wait);
        let at_end = self.metrics.in_flight_at_end;
        for due in in_flight {
            censored.unanswered_operation(due, now, &[response]);
            tally.counts.add(at_end, u64::from(due >= self.measure_at));
        }
        censored.never_begun(&mut due_times.clone(), last, now, &[response, wait]);
        due_times.pass(self.measure_at, u64::MAX);
        let not_begun = due_times.pass(last, u64::MAX);
        tally.counts.add(self.metrics.not_begun, not_begun);
        (tally, (!censored.is_empty()).then(|| Box::new(censored)))
    }
}

#[cfg(test)]
mod tests {
    use measure::Rate;

    use super::*;
    use crate::ArrivalSchedule;

    const MS: u64 = 1_000_000;

    fn silences(answers: &[(u64, u16)]) -> usize {
        let mut counts = RequestCounts::new("probe", Time(0));
        let mut found = 0;
        for (at, (took_ms, status)) in (1..).zip(answers) {
            let sent = Time(at * 10_000 * MS);
            counts.begin(sent, sent, sent);
            counts.answered(sent, sent + Nanos(took_ms * MS), *status);
            found += counts.take_silences(Some(0)).count();
        }
        found
    }

    /// A failed answer is one: a server that takes 150 ms for each has not stopped answering, one that suddenly takes far longer has.
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

    /// Each request that was begun is completed, has failed, or is in flight at the end: those of the warm-up are none of them.
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
        let (tally, _) = counts.finish(due_times, left, Time(300 * MS), Time(900 * MS));
        let count = |metric| tally.counts.get(metric);
        assert_eq!((count(metrics.begun), count(metrics.completed)), (4, 2));
        assert_eq!(
            (count(metrics.failed), count(metrics.in_flight_at_end)),
            (0, 2)
        );
    }
}
