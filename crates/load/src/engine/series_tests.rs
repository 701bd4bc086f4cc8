use std::sync::mpsc::{Receiver, sync_channel};

use measure::Metric;

use super::*;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn at(ms: u64) -> Time {
    Time(SECOND + ms * MS)
}

struct Thread {
    series: Series,
    reports: Receiver<Report>,
    returns: SyncSender<Box<Slice>>,
}

fn thread(number: usize, warms_up: bool) -> Thread {
    let (reports, arrive) = sync_channel(64);
    let (returns, returned) = sync_channel(POOL + 1);
    let measured = [Metric::ACK_RESPONSE];
    Thread { series: Series::new(number, reports, returned, &measured, warms_up), reports: arrive, returns }
}

impl Thread {
    /// A message that was due at `due` is answered at `now`.
    fn answer(&mut self, due: Time, now: Time, boundaries: Boundaries) {
        self.series.roll(now, boundaries);
        let interval = self.series.current();
        interval.counters.completed += 1;
        interval.due(due).record(Metric::ACK_RESPONSE, now.since(due));
    }

    #[expect(clippy::vec_box, reason = "boxes go back as they came")]
    fn intervals(&self) -> Vec<Box<Slice>> {
        let intervals = self.reports.try_iter().map(|report| match report {
            Report::Interval(_, interval) => interval,
            other => panic!("{other:?}"),
        });
        intervals.collect()
    }
}

/// Latencies of what was due in the warm-up, and of what was due after it.
fn counts(slice: &Slice) -> (u64, u64) {
    let count = |phase: Phase| slice.histograms().filter(|it| it.due == phase).map(|it| it.histogram.count()).sum();
    (count(Phase::Warmup), count(Phase::Measure))
}

#[test]
fn recorders_for_the_warm_up_are_used_again() {
    let boundaries = Boundaries { measure_at: at(1_000), drain_at: at(60_000), end_at: at(60_000) };
    let mut thread = thread(0, true);
    thread.series.begin(at(0), boundaries);
    let mut early = 0;
    for second in 1..60 {
        thread.answer(at(second), at(second * 1_000 + 500), boundaries);
        for mut interval in thread.intervals() {
            early += counts(&interval).0;
            interval.reset(Time(0), Phase::Warmup);
            thread.returns.send(interval).unwrap();
        }
    }
    assert_eq!(early, 58);
    thread.series.roll(at(60_000), boundaries);
    let told = thread.intervals();
    let used = told.iter().chain([&thread.series.current]).map(|interval| 1 + usize::from(interval.carried.is_some()));
    let spare = thread.series.recorders.len();
    assert_eq!(used.sum::<usize>() + spare, POOL, "no other was ever allocated");
}

/// Two threads and a coordinator that has lost its processor between the reading of the clock and the
/// announcement: one of the threads has gone over the end of sending, and over a whole second too.
#[test]
fn a_boundary_that_is_announced_late_divides_nothing_that_is_recorded() {
    let unknown = Boundaries { measure_at: at(0), drain_at: Time(u64::MAX), end_at: Time(u64::MAX) };
    let known = Boundaries { drain_at: at(995), ..unknown };
    let ended = Boundaries { end_at: at(1_400), ..known };
    let mut threads = [thread(0, false), thread(1, false)];
    for thread in &mut threads {
        thread.series.begin(at(0), unknown);
    }
    let [fast, slow] = &mut threads;
    fast.answer(at(990), at(1_003), unknown);
    slow.answer(at(980), at(998), unknown);
    // From here on it is known.
    fast.answer(at(994), at(1_010), known);
    slow.answer(at(994), at(1_011), known);
    fast.answer(at(994), at(1_450), known);
    slow.answer(at(994), at(1_300), known);
    for thread in &mut threads {
        thread.series.roll(at(1_500), ended);
        assert!(thread.series.is_finished());
    }
    let mut shown = Vec::new();
    let give_back = threads.iter().map(|thread| thread.returns.clone());
    let mut merger = Merger::new(give_back.collect());
    let told: Vec<_> = threads.iter().map(Thread::intervals).collect();
    for (number, intervals) in told.into_iter().enumerate() {
        let mut from = at(0);
        for interval in intervals {
            assert_eq!(interval.start, from);
            from = interval.end;
            merger.add(number, interval, |it| {
                shown.push((it.phase, it.counters, it.end));
            });
        }
    }
    merger.finish(|it| shown.push((it.phase, it.counters, it.end)));
    let count =
        |phase| shown.iter().filter(|(of, ..)| *of == phase).map(|(_, counters, _)| counters.completed).sum::<u64>();
    assert_eq!((count(Phase::Measure), count(Phase::Drain)), (2, 4), "{shown:?}");
    let ends = shown.iter().map(|(.., end)| *end);
    assert!(ends.clone().is_sorted(), "{shown:?}");
    // The last reading was at 1,450 ms, though counting ended at 1,400.
    assert_eq!(ends.max(), Some(at(1_450) + Nanos(1)));
    assert_eq!(merger.measured().completed, 2);
}

#[test]
fn what_a_dead_thread_leaves_is_shown_phase_by_phase() {
    let boundaries = Boundaries { measure_at: at(0), drain_at: at(500), end_at: at(700) };
    let mut threads = [thread(0, false), thread(1, false)];
    for thread in &mut threads {
        thread.series.begin(at(0), boundaries);
        thread.answer(at(1), at(2), boundaries);
    }
    let [alive, dead] = &mut threads;
    alive.answer(at(499), at(600), boundaries);
    alive.series.roll(at(800), boundaries);
    let mut shown = Vec::new();
    let mut merger = Merger::new(vec![alive.returns.clone(), dead.returns.clone()]);
    for interval in alive.intervals() {
        merger.add(0, interval, |it| {
            shown.push((it.phase, it.counters.completed));
        });
    }
    assert_eq!(shown, [], "the other one may still come");
    merger.finish(|it| shown.push((it.phase, it.counters.completed)));
    assert_eq!(shown, [(Phase::Measure, 1), (Phase::Drain, 1)]);
}

/// A thread that stood still for two seconds: what comes behind the pause is no part of it, and whole seconds end
/// in it.
#[test]
fn a_pause_is_a_slice_of_its_own() {
    let boundaries = Boundaries { measure_at: at(0), drain_at: at(60_000), end_at: at(60_000) };
    let mut thread = thread(0, false);
    thread.series.begin(at(0), boundaries);
    thread.answer(at(10), at(50), boundaries);
    thread.answer(at(1_000), at(2_340), boundaries);
    thread.series.roll(at(2_440), boundaries);
    let told: Vec<_> = thread
        .intervals()
        .iter()
        .map(|it| (it.start, it.end, it.counters.completed > 0 || !it.latencies.is_empty()))
        .collect();
    let expected = [(0, 100, true), (100, 2_000, false), (2_000, 2_300, false)];
    assert_eq!(told, expected.map(|(from, to, some)| (at(from), at(to), some)));
    // Nobody has given a recorder back, so that the present slice grows; it holds nothing of the pause.
    assert_eq!(thread.series.current().start, at(2_300));
    assert_eq!(thread.series.current().counters.completed, 1);
}
