//! One thread's series of intervals: who is in which, and where each ends.
//! Intervals end at instants that all threads share: tenths of a second of a phase, and its end; bounds are exact
//! however late the thread comes to close it. One whose intervals are not taken back in time lets the present one grow,
//! never over a phase. A phase whose end becomes known after its time ends on each thread behind what that recorded.
//! Messages due in the warm-up and answered later go into a recorder of their own. Recorders come from one pool.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use measure::{Counters, Metric, Nanos, Phase, Slice, SliceRecorder, Time};

use super::shared::{Boundaries, Report};
use crate::seconds::SLICE;

/// Intervals per thread, and recorders. All exist from the beginning.
pub(crate) const POOL: usize = 9;
/// Recorders kept for the ends of phases, of which there are at most two before the last.
const RESERVED: usize = 2;
/// Recorders kept beside those for whole seconds: a coordinator that is late for some seconds costs their tenths.
const FOR_SECONDS: usize = 3;

pub(crate) struct Series {
    thread: usize,
    reports: SyncSender<Report>,
    returned: Receiver<Box<Slice>>,
    #[expect(clippy::vec_box, reason = "boxes travel through channels without a copy of the histograms")]
    spare: Vec<Box<Slice>>,
    /// Empty recorders of no interval; those of `spare` hold nothing.
    recorders: Vec<SliceRecorder>,
    current: Box<Slice>,
    /// The next whole [`SLICE`] of the phase.
    tick: Time,
    /// The next whole second of the phase.
    second: Time,
    /// Behind the last reading of the clock.
    seen: Time,
    warms_up: bool,
    begun: bool,
    finished: bool,
}

impl Series {
    /// Allocates all that recording these will need, with a warm-up or without.
    pub(crate) fn new(
        thread: usize,
        reports: SyncSender<Report>,
        returned: Receiver<Box<Slice>>,
        metrics: &[Metric],
        warms_up: bool,
    ) -> Self {
        let recorder = || SliceRecorder::with(metrics);
        let mut current = Box::<Slice>::default();
        current.latencies = recorder();
        Self {
            thread,
            reports,
            returned,
            spare: std::iter::repeat_with(Box::default).take(POOL - 1).collect(),
            recorders: std::iter::repeat_with(recorder).take(POOL - 1).collect(),
            current,
            tick: Time(u64::MAX),
            second: Time(u64::MAX),
            seen: Time(0),
            warms_up,
            begun: false,
            finished: false,
        }
    }

    pub(crate) fn begin(&mut self, start: Time, boundaries: Boundaries) {
        let phase = if boundaries.measure_at <= start { Phase::Measure } else { Phase::Warmup };
        self.current.reset(start, phase);
        self.tick = start + SLICE;
        self.second = start + Nanos::SECOND;
        self.begun = true;
    }

    pub(crate) const fn phase(&self) -> Phase {
        self.current.phase
    }

    pub(crate) const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Where things are recorded. After the end they are recorded nowhere that anybody looks.
    #[inline]
    pub(crate) fn current(&mut self) -> &mut Slice {
        &mut self.current
    }

    /// The first instant that no longer belongs to the present interval.
    #[inline]
    pub(crate) fn end(&self, boundaries: Boundaries) -> Time {
        self.tick.min(self.phase_end(boundaries))
    }

    fn phase_end(&self, boundaries: Boundaries) -> Time {
        match self.current.phase {
            Phase::Warmup => boundaries.measure_at.min(boundaries.drain_at),
            Phase::Measure => boundaries.drain_at,
            Phase::Drain => boundaries.end_at,
        }
    }

    /// Closes the intervals that have ended by `now`; tells whether the phase has changed.
    #[inline]
    pub(crate) fn roll(&mut self, now: Time, boundaries: Boundaries) -> bool {
        if !self.begun || self.finished || now < self.end(boundaries) {
            self.seen = now + Nanos(1);
            return false;
        }
        let phase = self.current.phase;
        while !self.finished && now >= self.end(boundaries) {
            self.close(now, boundaries);
        }
        self.seen = now + Nanos(1);
        self.finished || self.current.phase != phase
    }

    fn close(&mut self, now: Time, boundaries: Boundaries) {
        let phase_end = self.phase_end(boundaries);
        // A boundary that was announced late lies before what is recorded.
        let end = self.tick.min(phase_end).max(self.current.start).max(self.seen);
        for mut interval in self.returned.try_iter() {
            self.recorders.push(std::mem::take(&mut interval.latencies));
            self.recorders.extend(interval.carried.take());
            self.spare.push(interval);
        }
        if self.tick < phase_end {
            let is_second = self.tick >= self.second;
            if is_second {
                self.second = self.second + Nanos::SECOND;
            }
            self.tick = self.tick + SLICE;
            // A pause is one slice up to its last whole second, and one up to its end: empty tenths would use the
            // recorders up, and what comes behind the pause would go into one with it.
            let next = if is_second { self.second } else { self.tick };
            let pauses = now >= next && self.current.is_empty();
            let kept = if is_second { RESERVED } else { RESERVED + FOR_SECONDS };
            if !pauses && self.recorders.len() > kept {
                self.hand_over(end, self.current.phase, boundaries);
            }
            return;
        }
        if phase_end >= boundaries.end_at {
            self.finished = true;
        }
        let phase = if phase_end >= boundaries.drain_at { Phase::Drain } else { Phase::Measure };
        self.tick = phase_end.max(self.current.start) + SLICE;
        self.second = phase_end.max(self.current.start) + Nanos::SECOND;
        self.current.ends_phase = true;
        self.hand_over(end, phase, boundaries);
    }

    fn hand_over(&mut self, end: Time, next_phase: Phase, boundaries: Boundaries) {
        let mut next = self.spare.pop().unwrap_or_default();
        next.reset(end, next_phase);
        next.latencies = self.recorders.pop().unwrap_or_default();
        let until = match next_phase {
            Phase::Warmup | Phase::Measure => Time(u64::MAX),
            Phase::Drain => boundaries.drain_at,
        };
        // Without a warm-up nothing is due in it, not even what another program's producers had sent before.
        let from = if next_phase == Phase::Warmup || !self.warms_up { Time(0) } else { boundaries.measure_at };
        next.set_due(from, until);
        self.current.hand_on_carried(&mut next, &mut self.recorders);
        let mut done = std::mem::replace(&mut self.current, next);
        done.end = end;
        let report = Report::Interval(self.thread, done);
        // The channel has room for all intervals that exist; only events could crowd it.
        if let Err(TrySendError::Full(report)) = self.reports.try_send(report) {
            // A coordinator that is gone wants no reports.
            let _ = self.reports.send(report);
        }
    }
}

/// Puts the threads' series together.
pub(crate) struct Merger {
    threads: Vec<Spacing>,
    merged: Slice,
    totals: Counters,
    measured: Counters,
}

struct Spacing {
    waiting: std::collections::VecDeque<Box<Slice>>,
    /// End of what has gone into the present merged interval, or into the one before.
    covered: Time,
    has_ended: bool,
    give_back: SyncSender<Box<Slice>>,
}

impl Spacing {
    /// All that has come was taken, and no more will come.
    fn is_over(&self) -> bool {
        self.has_ended && self.waiting.is_empty()
    }

    /// Empties an interval here rather than on the event loop, which has better to do.
    fn give_back(&self, mut interval: Box<Slice>) {
        interval.reset(Time(0), Phase::Warmup);
        let _ = self.give_back.try_send(interval);
    }
}

fn count(interval: &Slice, totals: &mut Counters, measured: &mut Counters) {
    totals.add(&interval.counters);
    if interval.phase == Phase::Measure {
        measured.add(&interval.counters);
    }
}

impl Merger {
    pub(crate) fn new(give_back: Vec<SyncSender<Box<Slice>>>) -> Self {
        let threads = give_back
            .into_iter()
            .map(|give_back| Spacing {
                waiting: std::collections::VecDeque::with_capacity(POOL),
                covered: Time(0),
                has_ended: false,
                give_back,
            })
            .collect();
        Self { threads, merged: Slice::default(), totals: Counters::default(), measured: Counters::default() }
    }

    pub(crate) const fn totals(&self) -> Counters {
        self.totals
    }

    pub(crate) const fn measured(&self) -> Counters {
        self.measured
    }

    /// Takes a thread's next interval, and shows what it completes.
    pub(crate) fn add(&mut self, thread: usize, interval: Box<Slice>, mut show: impl FnMut(&Slice)) {
        if let Some(arrivals) = self.threads.get_mut(thread) {
            arrivals.waiting.push_back(interval);
        }
        while self.step(&mut show) {}
    }

    /// No more will come from this thread: the others do not wait for it.
    pub(crate) fn end(&mut self, thread: usize, mut show: impl FnMut(&Slice)) {
        if let Some(arrivals) = self.threads.get_mut(thread) {
            arrivals.has_ended = true;
        }
        while self.step(&mut show) {}
    }

    /// Shows what is left when no more will come, as when a thread has died.
    pub(crate) fn finish(&mut self, mut show: impl FnMut(&Slice)) {
        loop {
            while self.step(&mut show) {}
            // Those who are waited for do not come.
            if let Some(thread) = self.behind(|thread| !thread.waiting.is_empty()) {
                self.take(thread);
                continue;
            }
            self.emit(&mut show);
            if self.threads.iter().all(|thread| thread.waiting.is_empty()) {
                return;
            }
        }
    }

    /// Merges the next interval of the thread that is furthest behind; `false` when that has to come
    /// first. Who has left the phase waits for the others. The slices of an only thread are shown as they are.
    fn step(&mut self, show: &mut impl FnMut(&Slice)) -> bool {
        if let [thread] = &mut *self.threads {
            let Some(slice) = thread.waiting.pop_front() else { return false };
            if slice.end > slice.start {
                count(&slice, &mut self.totals, &mut self.measured);
                show(&slice);
            }
            thread.give_back(slice);
            return true;
        }
        let Some(thread) = self.behind(|_| true) else {
            self.emit(show);
            return self.threads.iter().any(|thread| !thread.waiting.is_empty());
        };
        if !self.take(thread) {
            return false;
        }
        let end = self.merged.end;
        if self.threads.iter().all(|thread: &Spacing| thread.covered == end || thread.is_over()) {
            self.emit(show);
        }
        true
    }

    /// Of these threads, the one that is furthest behind in the phase that is being merged.
    fn behind(&self, wanted: impl Fn(&Spacing) -> bool) -> Option<usize> {
        let phase = (!self.is_empty()).then_some(self.merged.phase);
        let stays = |thread: &Spacing| {
            let next = thread.waiting.front().map(|next| next.phase);
            phase.zip(next).is_none_or(|(phase, next)| next <= phase)
        };
        (0..self.threads.len())
            .filter(|at| {
                let thread = &self.threads[*at];
                !thread.is_over() && stays(thread) && wanted(thread)
            })
            .min_by_key(|at| self.threads[*at].covered)
    }

    fn is_empty(&self) -> bool {
        self.merged.end == self.merged.start
    }

    fn take(&mut self, thread: usize) -> bool {
        let is_first = self.is_empty();
        let arrivals = &mut self.threads[thread];
        let Some(interval) = arrivals.waiting.pop_front() else { return false };
        arrivals.covered = interval.end;
        if is_first {
            self.merged.reset(interval.start, interval.phase);
        }
        self.merged.merge(&interval);
        arrivals.give_back(interval);
        true
    }

    fn emit(&mut self, show: &mut impl FnMut(&Slice)) {
        if self.is_empty() {
            return;
        }
        count(&self.merged, &mut self.totals, &mut self.measured);
        show(&self.merged);
        let end = self.merged.end;
        self.merged.reset(end, self.merged.phase);
    }
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;
