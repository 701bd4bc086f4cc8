//! The phases of a scenario as time passes, the ends of its slices, and the common start and end of scenarios.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use measure::{Clock, Nanos, Phase, Time};

use crate::seconds::SLICE;
use crate::share_progress::ProgressBoard;
use crate::{Control, PhaseTimes, Phases, ShareProgress};

/// Where the phases of a scenario lie on the time axis that all scenarios of a run share, and how far it has got.
///
/// Order of calls: [`PhaseClock::begin`] until it tells a phase; then [`PhaseClock::follow_stop`], and
/// [`PhaseClock::slice_end`] until it is `None`, each time that the scenario wakes up; [`PhaseClock::finish`].
#[derive(Debug)]
pub struct PhaseClock<'a> {
    planned: Phases,
    together: &'a StartBarrier,
    control: &'a Control,
    /// The common start; far away before [`PhaseClock::begin`].
    pub start: Time,
    /// Messages due before belong to the warm-up.
    pub measure_at: Time,
    /// First instant at which nothing more is due.
    pub last: Time,
    /// The next whole tenth of a second of the phase.
    tick: Time,
    is_stopped: bool,
    times: Vec<PhaseTimes>,
}

/// The end of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceEnd {
    /// When it is.
    pub at: Time,
    /// The phase of the next slice.
    pub next: Phase,
    /// Whether that begins with it.
    pub ends_phase: bool,
}

impl<'a> PhaseClock<'a> {
    /// Of a scenario that has not begun.
    pub const fn new(planned: Phases, together: &'a StartBarrier, control: &'a Control) -> Self {
        Self {
            planned,
            together,
            control,
            start: Time(u64::MAX),
            measure_at: Time(u64::MAX),
            last: Time(u64::MAX),
            tick: Time(u64::MAX),
            is_stopped: false,
            times: Vec::new(),
        }
    }

    /// The first phase, where all scenarios are ready; it begins at their common start.
    pub fn begin(&mut self) -> Option<Phase> {
        let start = self.together.start()?;
        if self.times.is_empty() {
            self.start = start;
            self.measure_at = start + self.planned.warmup;
            if let Some(length) = self.planned.measure {
                self.last = self.measure_at + length;
            }
            let first = match self.planned.warmup {
                Nanos::ZERO => Phase::Measure,
                _ => Phase::Warmup,
            };
            self.enter(first, start);
        }
        self.phase()
    }

    fn enter(&mut self, phase: Phase, at: Time) {
        if let Some(before) = self.times.last_mut() {
            before.end = at;
        }
        self.tick = at + SLICE;
        self.times.push(PhaseTimes { phase, start: at, end: at });
    }

    /// The present phase; `None` before the first.
    pub fn phase(&self) -> Option<Phase> {
        self.times.last().map(|it| it.phase)
    }

    /// Whether somebody stops the run, or another scenario has ended or could not begin.
    pub fn is_called_off(&self) -> bool {
        self.control.is_stopping() || self.together.ended().is_some()
    }

    /// Whether somebody has stopped the run while there was something to do.
    pub const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Whether the run was stopped when nothing more was due.
    pub fn is_drain_stopped(&self) -> bool {
        self.control.is_stopping() && !self.is_stopped
    }

    /// Ends the load where somebody stops the run, or another scenario has ended; whether it ends earlier than it did.
    pub fn follow_stop(&mut self, now: Time) -> bool {
        let before = self.last;
        if self.control.is_stopping() && !self.is_stopped {
            self.is_stopped = now < self.last;
            self.end_load(now);
        }
        if let Some(end) = self.together.ended() {
            self.end_load(end);
        }
        self.last < before
    }

    /// Nothing more is due from then on.
    pub fn end_load(&mut self, at: Time) {
        self.last = self.last.min(at);
    }

    /// The first end of slices that has passed. All scenarios' slices end at the same instants; unasked ones are one.
    pub fn slice_end(&mut self, now: Time) -> Option<SliceEnd> {
        let phase = self.phase()?;
        let (end, next) = self.phase_end(phase);
        if now >= end {
            self.enter(next, end);
            return Some(SliceEnd { at: end, next, ends_phase: true });
        }
        if now < self.tick {
            return None;
        }
        let slices = now.since(self.tick).0 / SLICE.0;
        let at = self.tick + Nanos(slices * SLICE.0);
        self.tick = at + SLICE;
        Some(SliceEnd { at, next: phase, ends_phase: false })
    }

    /// When the present slice ends.
    pub fn next_slice_end(&self) -> Time {
        let end = self.phase().map(|phase| self.phase_end(phase).0);
        end.map_or(self.tick, |end| end.min(self.tick))
    }

    fn phase_end(&self, phase: Phase) -> (Time, Phase) {
        match phase {
            Phase::Warmup if self.last <= self.measure_at => (self.last, Phase::Drain),
            Phase::Warmup => (self.measure_at, Phase::Measure),
            Phase::Measure => (self.last, Phase::Drain),
            Phase::Drain => (Time(u64::MAX), Phase::Drain),
        }
    }

    /// Ends the last phase; the times of all that lasted.
    pub fn finish(&mut self, end: Time) -> Vec<PhaseTimes> {
        if let Some(last) = self.times.last_mut() {
            last.end = end;
        }
        self.times.retain(|span| span.start < span.end);
        std::mem::take(&mut self.times)
    }
}

/// Between the last scenario's being ready and the start, so that all know it in time.
const NOTICE: Nanos = Nanos::from_millis(60);
const NEVER: u64 = u64::MAX;

/// The common start and the common end of the scenarios of a run, of which several may be shares of one load.
#[derive(Debug)]
pub struct StartBarrier {
    scenarios: usize,
    shares: usize,
    notice: Nanos,
    is_led: bool,
    ready: AtomicUsize,
    done: AtomicUsize,
    start: AtomicU64,
    end: AtomicU64,
    progress: ProgressBoard,
}

impl StartBarrier {
    /// Of this many scenarios.
    pub const fn of(scenarios: usize) -> Self {
        Self {
            scenarios,
            shares: 1,
            notice: if scenarios > 1 { NOTICE } else { Nanos::ZERO },
            is_led: false,
            ready: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            start: AtomicU64::new(NEVER),
            end: AtomicU64::new(NEVER),
            progress: ProgressBoard::new(),
        }
    }

    /// For a scenario that runs alone.
    pub const fn alone() -> Self {
        Self::of(1)
    }

    /// For a share whose load somebody else starts ([`StartBarrier::start_at`]) and ends ([`StartBarrier::end`]), who
    /// has to look whether it [is ready](StartBarrier::is_ready) and [is done](StartBarrier::is_done).
    pub const fn led() -> Self {
        let mut led = Self::of(1);
        led.is_led = true;
        led
    }

    /// Of scenarios of which this many are shares of one load; all hear of the start this long before.
    pub(crate) fn with_shares(self, shares: usize, notice: Nanos) -> Self {
        Self { shares, notice: notice.max(self.notice), ..self }
    }

    /// Whether nobody shares it.
    pub const fn is_alone(&self) -> bool {
        self.scenarios == 1 && !self.is_led
    }

    /// A scenario is connected and could begin; each says so once. The last one sets the start.
    pub fn ready(&self) {
        self.ready_at(Clock.now());
    }

    /// Tells that a scenario with a clock of its own is ready.
    pub(crate) fn ready_at(&self, now: Time) {
        let before = self.ready.fetch_add(1, Ordering::AcqRel);
        if before + 1 == self.scenarios && !self.is_led {
            self.start_at(now + self.notice);
        }
    }

    /// Whether all could begin.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) >= self.scenarios
    }

    /// Sets the start, of which loads must hear 30 ms before.
    pub fn start_at(&self, start: Time) {
        self.start.store(start.0, Ordering::Release);
    }

    /// A share of the load tells that it has nothing left of what ends the load, or that it has again. A load that is
    /// no share tells so itself, and ends.
    pub fn tell_done(&self, is_done: bool) {
        // A change of one share at a time: there are as many as have told.
        match is_done {
            true => self.done.fetch_add(1, Ordering::AcqRel),
            false => self.done.fetch_sub(1, Ordering::AcqRel),
        };
    }

    /// Whether all shares have nothing left of what ends their load.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) >= self.shares
    }

    /// Whether shares end their load by themselves when it [is done](StartBarrier::is_done).
    pub(crate) fn ends_when_done(&self) -> bool {
        !self.is_led && self.is_done()
    }

    /// A share of the load tells how far its drain is; nothing, where it was lost. Call it before
    /// [`StartBarrier::others_progress`].
    pub fn tell_progress(&self, worker: u32, progress: Option<ShareProgress>) {
        self.progress.tell(worker, progress);
    }

    /// The last that a share has told.
    pub fn progress_of(&self, worker: u32) -> Option<ShareProgress> {
        self.progress.of(worker)
    }

    /// Tells a share that is [led](StartBarrier::led) how far all others are.
    pub fn tell_others_progress(&self, progress: Option<ShareProgress>) {
        self.progress.tell_elsewhere(progress);
    }

    /// How far all other shares are in their drains; `None` where that of one is not known.
    pub fn others_progress(&self, worker: u32) -> Option<ShareProgress> {
        match self.is_led {
            true => self.progress.elsewhere(),
            false => self.progress.others(worker, self.shares),
        }
    }

    /// The instant at which the schedules of all scenarios start; `None` while one is not ready.
    pub fn start(&self) -> Option<Time> {
        known(&self.start)
    }

    /// A scenario ends its load at this instant, or could not begin; the first one counts.
    pub fn end(&self, at: Time) {
        self.end.fetch_min(at.0, Ordering::AcqRel);
    }

    /// When the others end: nothing is to begin from then on.
    pub fn ended(&self) -> Option<Time> {
        known(&self.end)
    }
}

fn known(instant: &AtomicU64) -> Option<Time> {
    let instant = instant.load(Ordering::Acquire);
    (instant != NEVER).then_some(Time(instant))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ends(clock: &mut PhaseClock<'_>, now: Time) -> Vec<(u64, Phase, bool)> {
        let start = clock.start;
        std::iter::from_fn(|| clock.slice_end(now))
            .map(|it| (it.at.since(start).0 / MS, it.next, it.ends_phase))
            .collect()
    }

    /// 250 ms of warm-up and 150 ms of measuring.
    fn planned() -> Phases {
        Phases { warmup: Nanos(250 * MS), measure: Some(Nanos(150 * MS)), ..Phases::default() }
    }

    #[test]
    fn slices_end_at_tenths_of_a_second_of_their_phase() {
        use Phase::{Drain, Measure, Warmup};
        let (together, control) = (StartBarrier::alone(), Control::new());
        let mut clock = PhaseClock::new(planned(), &together, &control);
        assert_eq!((clock.begin(), clock.phase()), (None, None));
        assert_eq!(ends(&mut clock, Time(7)), []);
        together.ready();
        assert_eq!((clock.begin(), clock.begin()), (Some(Warmup), Some(Warmup)));
        let at = |ms: u64| clock_at(&together, ms);
        assert_eq!(ends(&mut clock, at(99)), []);
        assert_eq!(clock.next_slice_end(), at(100));
        assert_eq!(ends(&mut clock, at(100)), [(100, Warmup, false)]);
        // Late by a phase and some slices.
        assert_eq!(ends(&mut clock, at(360)), [(250, Measure, true), (350, Measure, false)]);
        assert_eq!(clock.next_slice_end(), at(400));
        assert_eq!(ends(&mut clock, at(730)), [(400, Drain, true), (700, Drain, false)]);
        let times = clock.finish(at(740));
        let times = times.iter().map(|it| (it.phase, it.end.since(it.start).0 / MS));
        assert_eq!(times.collect::<Vec<_>>(), [(Warmup, 250), (Measure, 150), (Drain, 340)]);
    }

    #[test]
    fn a_stop_ends_the_load_and_counts_as_one_where_something_was_left() {
        let (together, control) = (StartBarrier::alone(), Control::new());
        let mut clock = PhaseClock::new(planned(), &together, &control);
        together.ready();
        assert_eq!(clock.begin(), Some(Phase::Warmup));
        assert!(!clock.is_called_off() && !clock.follow_stop(clock.start));
        control.stop();
        let at = |ms: u64| clock_at(&together, ms);
        assert!(clock.is_called_off() && clock.follow_stop(at(40)) && clock.is_stopped());
        assert!(!clock.follow_stop(at(50)), "it has ended");
        assert_eq!(ends(&mut clock, at(60)), [(40, Phase::Drain, true)]);
        // Another scenario's end is no stop, and neither is one in the drain.
        let (together, control) = (StartBarrier::of(1), Control::new());
        let mut clock = PhaseClock::new(planned(), &together, &control);
        together.ready();
        assert_eq!(clock.begin(), Some(Phase::Warmup));
        together.end(clock.start + Nanos(300 * MS));
        assert!(clock.follow_stop(clock.start) && !clock.is_stopped());
        control.stop();
        assert!(!clock.follow_stop(clock.start + Nanos(320 * MS)) && !clock.is_stopped());
    }

    fn clock_at(together: &StartBarrier, ms: u64) -> Time {
        together.start().expect("it has begun") + Nanos(ms * MS)
    }

    #[test]
    fn all_start_at_one_instant_once_the_last_is_ready() {
        let together = StartBarrier::of(3);
        for _ in 0..2 {
            together.ready();
            assert_eq!(together.start(), None);
        }
        let before = Clock.now();
        together.ready();
        let start = together.start().expect("all are ready");
        assert!(start >= before + NOTICE, "each has time to hear of it");
        assert_eq!(together.ended(), None);
    }

    #[test]
    fn a_share_is_started_and_ended_by_whoever_leads_it() {
        let together = StartBarrier::led();
        assert!(!together.is_alone() && !together.is_ready() && !together.is_done());
        together.ready();
        assert_eq!((together.is_ready(), together.start()), (true, None));
        together.start_at(Time(70));
        assert_eq!(together.start(), Some(Time(70)));
        together.tell_done(true);
        assert_eq!((together.is_done(), together.ends_when_done()), (true, false), "others go on");
        // Beside others, the load ends when nobody has anything left.
        let together = StartBarrier::of(3).with_shares(2, Nanos::SECOND);
        together.tell_done(true);
        together.tell_done(false);
        together.tell_done(true);
        assert!(!together.ends_when_done());
        together.tell_done(true);
        assert!(together.ends_when_done());
        (0..3).for_each(|_| together.ready_at(Time(5)));
        assert_eq!(together.start(), Some(Time(1_000_000_005)));
    }

    #[test]
    fn one_that_fails_to_start_ends_the_others_that_never_start_and_the_first_end_counts() {
        let together = StartBarrier::of(2);
        together.ready();
        [9, 7, 8].into_iter().for_each(|at| together.end(Time(at)));
        assert_eq!((together.start(), together.ended()), (None, Some(Time(7))));
    }
}
