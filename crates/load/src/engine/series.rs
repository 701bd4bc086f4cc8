//! One thread's series of intervals: who is in which, and where each ends.
//!
//! Intervals end at instants that all threads share: every whole second of a phase, and the end
//! of the phase. What is recorded with a clock reading below the end belongs to the interval, so
//! bounds are exact however late the thread comes to close it. A thread whose intervals are not
//! taken back in time lets the present one grow over whole seconds, never over a phase.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use measure::{Counters, Interval, Metric, Nanos, Phase, Time};

use super::shared::{Boundaries, Report};

/// Intervals per thread. All exist from the beginning.
pub(crate) const POOL: usize = 6;
/// Kept for the ends of phases, of which there are at most two before the last.
const RESERVED: usize = 2;

pub(crate) struct Series {
    thread: usize,
    reports: SyncSender<Report>,
    returned: Receiver<Box<Interval>>,
    #[expect(
        clippy::vec_box,
        reason = "boxes travel through channels without a copy of the histograms"
    )]
    spare: Vec<Box<Interval>>,
    current: Box<Interval>,
    /// The next whole second of the phase.
    tick: Time,
    begun: bool,
    finished: bool,
}

impl Series {
    pub(crate) fn new(
        thread: usize,
        reports: SyncSender<Report>,
        returned: Receiver<Box<Interval>>,
        metrics: &[Metric],
    ) -> Self {
        let mut spare: Vec<_> = std::iter::repeat_with(|| Box::new(Interval::with(metrics)))
            .take(POOL)
            .collect();
        let current = spare.pop().unwrap_or_default();
        Self {
            thread,
            reports,
            returned,
            spare,
            current,
            tick: Time(u64::MAX),
            begun: false,
            finished: false,
        }
    }

    /// Starts the first interval.
    pub(crate) fn begin(&mut self, start: Time, boundaries: Boundaries) {
        let phase = if boundaries.measure_at <= start {
            Phase::Measure
        } else {
            Phase::Warmup
        };
        self.current.reset(start, phase);
        self.tick = start + Nanos::SECOND;
        self.begun = true;
    }

    pub(crate) const fn phase(&self) -> Phase {
        self.current.phase
    }

    /// Whether the last interval has been handed over.
    pub(crate) const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Where things are recorded. After the end they are recorded nowhere that anybody looks.
    #[inline]
    pub(crate) fn current(&mut self) -> &mut Interval {
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
            return false;
        }
        let phase = self.current.phase;
        while !self.finished && now >= self.end(boundaries) {
            self.close(boundaries);
        }
        self.finished || self.current.phase != phase
    }

    fn close(&mut self, boundaries: Boundaries) {
        let phase_end = self.phase_end(boundaries);
        // A stop that is asked for late may lie before the present interval.
        let end = self.tick.min(phase_end).max(self.current.start);
        self.spare.extend(self.returned.try_iter());
        if self.tick < phase_end {
            self.tick = self.tick + Nanos::SECOND;
            if self.spare.len() > RESERVED {
                self.hand_over(end, self.current.phase);
            }
            return;
        }
        if phase_end >= boundaries.end_at {
            self.finished = true;
        }
        let phase = if phase_end >= boundaries.drain_at {
            Phase::Drain
        } else {
            Phase::Measure
        };
        self.tick = end + Nanos::SECOND;
        self.hand_over(end, phase);
    }

    fn hand_over(&mut self, end: Time, next_phase: Phase) {
        let mut next = self.spare.pop().unwrap_or_default();
        next.reset(end, next_phase);
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
    threads: Vec<Arrivals>,
    merged: Interval,
    totals: Counters,
    measured: Counters,
}

struct Arrivals {
    waiting: std::collections::VecDeque<Box<Interval>>,
    /// End of what has gone into the present merged interval, or into the one before.
    covered: Time,
    give_back: SyncSender<Box<Interval>>,
}

impl Merger {
    pub(crate) fn new(give_back: Vec<SyncSender<Box<Interval>>>) -> Self {
        let threads = give_back
            .into_iter()
            .map(|give_back| Arrivals {
                waiting: std::collections::VecDeque::with_capacity(POOL),
                covered: Time(0),
                give_back,
            })
            .collect();
        Self {
            threads,
            merged: Interval::new(),
            totals: Counters::default(),
            measured: Counters::default(),
        }
    }

    pub(crate) const fn totals(&self) -> Counters {
        self.totals
    }

    pub(crate) const fn measured(&self) -> Counters {
        self.measured
    }

    /// Takes a thread's next interval, and shows what it completes.
    pub(crate) fn add(
        &mut self,
        thread: usize,
        interval: Box<Interval>,
        mut show: impl FnMut(&Interval),
    ) {
        if let Some(arrivals) = self.threads.get_mut(thread) {
            arrivals.waiting.push_back(interval);
        }
        while self.step() {
            let end = self.merged.end;
            if self.threads.iter().all(|thread| thread.covered == end) {
                self.emit(&mut show);
            }
        }
    }

    /// Shows what is left when no more will come, as when a thread has died.
    pub(crate) fn finish(&mut self, mut show: impl FnMut(&Interval)) {
        for thread in 0..self.threads.len() {
            while self.threads[thread].waiting.front().is_some() {
                let waiting = &self.threads[thread].waiting;
                let other_phase = waiting
                    .front()
                    .is_some_and(|next| next.phase != self.merged.phase);
                if other_phase && self.merged.end > self.merged.start {
                    self.emit(&mut show);
                }
                self.take(thread);
            }
        }
        if self.merged.end > self.merged.start {
            self.emit(&mut show);
        }
    }

    /// Merges the next interval of the thread that is furthest behind; `false` when it has to
    /// come first.
    fn step(&mut self) -> bool {
        let behind = (0..self.threads.len()).min_by_key(|thread| self.threads[*thread].covered);
        behind.is_some_and(|thread| self.take(thread))
    }

    fn take(&mut self, thread: usize) -> bool {
        let arrivals = &mut self.threads[thread];
        let Some(mut interval) = arrivals.waiting.pop_front() else {
            return false;
        };
        arrivals.covered = interval.end;
        if self.merged.end == self.merged.start {
            self.merged.reset(interval.start, interval.phase);
        }
        self.merged.merge(&interval);
        // Emptied here rather than on the event loop, which would be late by a tenth of a
        // millisecond for it.
        interval.reset(Time(0), Phase::Warmup);
        let _ = arrivals.give_back.try_send(interval);
        true
    }

    fn emit(&mut self, show: &mut impl FnMut(&Interval)) {
        self.totals.add(&self.merged.counters);
        if self.merged.phase == Phase::Measure {
            self.measured.add(&self.merged.counters);
        }
        show(&self.merged);
        let end = self.merged.end;
        self.merged.reset(end, self.merged.phase);
    }
}
