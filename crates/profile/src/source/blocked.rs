//! Times in which threads did not run, from the samples that are taken when a thread leaves its processor, the samples of
//! who wakes it, and the records of when it is back.
//!
//! ```text
//! sample (thread leaves)  ...  sample (it is woken)  ...  record (it is back)
//! |-- one sample, ended by the waker -------------|-- one, ended by a free processor --|
//! ```
//!
//! Each weighs its nanoseconds. A thread that is preempted waits for a processor all the time: a record says so, and
//! then what might wake it does not count.
//!
//! The two may lie in rings of different processors; they are taken in the order of time.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;

use measure::{Clock, Nanos, Time};
use rustix::event::Timespec;

use super::in_order::InOrder;
use super::{Damaged, SampleSource};
use crate::record::{Ended, KeptSample, KeptWakeUp, Record, Runs, SampleRecord};
use crate::stack_copy::Numbering;

/// A longer time becomes several samples, so that windows have their share of it.
const LONGEST_PART: u64 = 100_000_000;
/// Parts of one time at most; those of the longest are longer.
const MOST_PARTS: u64 = 10_000;
/// A thread that leaves twice within this has two events and did not run between.
const DOUBLE: u64 = 100_000;
/// A thread may be woken on its way off its processor, and before its stack is copied. One that was woken longer before
/// has run on.
const ON_ITS_WAY: u64 = 100_000;

/// What a thread did.
#[derive(Debug)]
enum Step {
    Leaves(KeptSample),
    IsPreempted,
    IsWoken(KeptWakeUp),
    IsBack,
    Ends,
}

/// A source of times off CPU, made from one of the switches.
pub(crate) struct BlockedTimes<S> {
    switches: S,
    wakings: Wakings,
    /// Each with its thread.
    waiting: InOrder<(u32, Step)>,
    pairs: Pairs,
    /// The threads that live, by the system's own list.
    alive: Box<dyn Fn() -> HashSet<u32> + Send>,
}

/// Which samples are wake-ups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wakings {
    /// By the numbers of their events.
    pub(crate) events: HashSet<u64>,
    /// Which thread they mean; `None` where there are none.
    pub(crate) numbering: Option<Numbering>,
}

impl Wakings {
    /// What a sample says of a thread; `None` where it says nothing.
    fn step(&self, sample: &SampleRecord<'_>) -> Option<(u32, Step)> {
        if !self.events.contains(&sample.id) {
            return Some((sample.tid, Step::Leaves(sample.keep())));
        }
        let record = self.numbering?.parse(sample.rest)?;
        let woken = KeptWakeUp::of(sample, record.waker);
        Some((record.tid, Step::IsWoken(woken)))
    }
}

/// A thread that does not run.
#[derive(Debug)]
struct Blocked {
    sample: KeptSample,
    preempted: bool,
    woken: Option<KeptWakeUp>,
}

/// Threads that do not run.
#[derive(Debug)]
struct Pairs {
    blocked: HashMap<u32, Blocked>,
    /// Wake-ups of threads that still ran, the last of each.
    early: HashMap<u32, KeptWakeUp>,
    /// Shorter times are left out.
    least: u64,
    short: u64,
    short_ns: u64,
    /// Times of which nobody saw the end.
    endless: u64,
}

impl<S: SampleSource> BlockedTimes<S> {
    /// Pairs what `switches` tells of the threads that `alive` lists; times shorter than `least` are left out.
    pub(crate) fn new(
        switches: S,
        least: Nanos,
        wakings: Wakings,
        alive: impl Fn() -> HashSet<u32> + Send + 'static,
    ) -> Self {
        Self {
            switches,
            wakings,
            waiting: InOrder::new(),
            pairs: Pairs {
                blocked: HashMap::new(),
                early: HashMap::new(),
                least: least.0,
                short: 0,
                short_ns: 0,
                endless: 0,
            },
            alive: Box::new(alive),
        }
    }

    /// Takes the steps before an instant.
    fn take_until(&mut self, until: u64, take: &mut dyn FnMut(&Record<'_>)) {
        for (time, (tid, step)) in self.waiting.until(until) {
            self.pairs.step(tid, time, step, take);
        }
    }
}

impl Pairs {
    fn step(&mut self, tid: u32, time: u64, step: Step, take: &mut dyn FnMut(&Record<'_>)) {
        match step {
            Step::Leaves(sample) => self.leaves(tid, sample),
            Step::IsPreempted => {
                if let Some(blocked) = self.blocked.get_mut(&tid) {
                    blocked.preempted = true;
                }
            }
            Step::IsWoken(waking) => match self.blocked.get_mut(&tid) {
                // From then on it is awake.
                Some(blocked) => drop(blocked.woken.get_or_insert(waking)),
                None => drop(self.early.insert(tid, waking)),
            },
            Step::IsBack => {
                if let Some(blocked) = self.blocked.remove(&tid) {
                    self.tell(&blocked, time, Ended::Unseen, take);
                }
            }
            Step::Ends => {
                self.blocked.remove(&tid);
                self.early.remove(&tid);
            }
        }
    }

    fn leaves(&mut self, tid: u32, sample: KeptSample) {
        let early = self.early.remove(&tid);
        let before = self.blocked.get(&tid).map(|before| &before.sample);
        let is_double = before.is_some_and(|before| {
            before.id != sample.id && sample.time.saturating_sub(before.time) < DOUBLE
        });
        if is_double {
            return;
        }
        let woken = early.filter(|it| sample.time.saturating_sub(it.time) < ON_ITS_WAY);
        let blocked = Blocked {
            sample,
            preempted: false,
            woken,
        };
        if self.blocked.insert(tid, blocked).is_some() {
            self.endless += 1;
        }
    }

    /// Hands over a time that lasted until `end`, and was ended so where nothing woke the thread.
    fn tell(
        &mut self,
        blocked: &Blocked,
        end: u64,
        otherwise: Ended<'_>,
        take: &mut dyn FnMut(&Record<'_>),
    ) {
        let sample = &blocked.sample;
        let length = end.saturating_sub(sample.time);
        if length < self.least {
            self.short += 1;
            self.short_ns = self.short_ns.saturating_add(length);
            return;
        }
        let (woken_at, ended) = match &blocked.woken {
            _ if blocked.preempted => (end, Ended::WasPreempted),
            Some(woken) => (woken.time, Ended::Woken(woken.get())),
            None => (end, otherwise),
        };
        let woken_at = woken_at.clamp(sample.time, end);
        in_parts(sample, sample.time, woken_at, ended, take);
        in_parts(sample, woken_at, end, Ended::GotProcessor, take);
    }

    /// Leaves out the threads that have ended some time before an instant, and nobody saw it.
    fn forget_dead(&mut self, at: u64, alive: &HashSet<u32>) {
        let before = self.blocked.len();
        self.blocked.retain(|tid, blocked| {
            alive.contains(tid) || at.saturating_sub(blocked.sample.time) < LONGEST_PART
        });
        self.early.retain(|tid, _| alive.contains(tid));
        self.endless += (before - self.blocked.len()) as u64;
    }

    /// Hands over what lies before an instant of the times that have not ended yet; they go on from there.
    fn cut(&mut self, at: u64, take: &mut dyn FnMut(&Record<'_>)) {
        let mut blocked = std::mem::take(&mut self.blocked);
        for blocked in blocked.values_mut().filter(|it| it.sample.time < at) {
            self.tell(blocked, at, Ended::NotYet, take);
            blocked.sample.time = at;
        }
        self.blocked = blocked;
    }

    /// Hands over the times that have not ended yet; what was left out, in words.
    fn end(&mut self, at: u64, take: &mut dyn FnMut(&Record<'_>)) -> Option<String> {
        for blocked in std::mem::take(&mut self.blocked).into_values() {
            self.tell(&blocked, at, Ended::NotYet, take);
        }
        let short = (self.short > 0).then(|| {
            format!(
                "{} blocked times shorter than {} are left out, {} together",
                self.short,
                Nanos(self.least),
                Nanos(self.short_ns)
            )
        });
        let endless = (self.endless > 0)
            .then(|| format!("of {} blocked times the end was lost", self.endless));
        let parts: Vec<String> = short.into_iter().chain(endless).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Hands over a time in parts that are not too long.
fn in_parts(
    sample: &KeptSample,
    from: u64,
    to: u64,
    ended: Ended<'_>,
    take: &mut dyn FnMut(&Record<'_>),
) {
    let part = LONGEST_PART.max((to - from).div_ceil(MOST_PARTS));
    let mut at = from;
    while at < to {
        let next = at.saturating_add(part).min(to);
        take(&Record::Sample(sample.at(at, next - at, ended)));
        at = next;
    }
}

impl<S: SampleSource> SampleSource for BlockedTimes<S> {
    fn wait(&mut self, others: &[BorrowedFd<'_>], timeout: &Timespec) -> Vec<bool> {
        self.switches.wait(others, timeout)
    }

    fn fetch(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged> {
        let begun = Clock.now().0;
        let (waiting, wakings) = (&mut self.waiting, &self.wakings);
        let mut put = |time: u64, tid: u32, step: Step| waiting.put(time, (tid, step));
        let fetched = self.switches.fetch(&mut |record| match record {
            Record::Sample(sample) => {
                if let Some((tid, step)) = wakings.step(sample) {
                    put(sample.time, tid, step);
                }
            }
            Record::Switch { tid, time, runs } => match runs {
                Runs::Begins => put(*time, *tid, Step::IsBack),
                Runs::IsPreempted => put(*time, *tid, Step::IsPreempted),
                Runs::Ends => {}
            },
            other => {
                if let Record::Exit { tid } = other {
                    // Its last sample was taken before; it carries no time of its own.
                    put(begun, *tid, Step::Ends);
                }
                take(other);
            }
        });
        for (time, (tid, step)) in self.waiting.settled(begun) {
            self.pairs.step(tid, time, step, take);
        }
        fetched
    }

    fn lost(&self) -> u64 {
        self.switches.lost()
    }

    fn cut(&mut self, at: Time, take: &mut dyn FnMut(&Record<'_>)) {
        self.take_until(at.0, take);
        self.pairs.forget_dead(at.0, &(self.alive)());
        self.pairs.cut(at.0, take);
    }

    fn end(&mut self, at: Time, take: &mut dyn FnMut(&Record<'_>)) -> Option<String> {
        self.take_until(u64::MAX, take);
        self.pairs.forget_dead(at.0, &(self.alive)());
        self.pairs.end(at.0, take)
    }
}

#[cfg(test)]
mod tests {
    use crate::record::{Chain, SampleRecord};

    use super::*;

    /// Records that one fetch brings.
    struct Script(Vec<Vec<Record<'static>>>);

    impl SampleSource for Script {
        fn wait(&mut self, _: &[BorrowedFd<'_>], _: &Timespec) -> Vec<bool> {
            Vec::new()
        }
        fn fetch(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged> {
            if !self.0.is_empty() {
                self.0.remove(0).iter().for_each(take);
            }
            Ok(())
        }
        fn lost(&self) -> u64 {
            3
        }
    }

    /// The threads of most tests.
    fn few() -> HashSet<u32> {
        (0..10).collect()
    }

    fn leaves(tid: u32, time: u64) -> Record<'static> {
        Record::Sample(SampleRecord {
            pid: 1,
            tid,
            time,
            id: 7,
            cpu: 0,
            period: 1,
            chain: Chain::default(),
            ended: None,
            rest: &[],
        })
    }

    const fn back(tid: u32, time: u64) -> Record<'static> {
        let runs = Runs::Begins;
        Record::Switch { tid, time, runs }
    }

    const MS: u64 = 1_000_000;

    /// Thread, time and length of each sample, and the note.
    fn told(script: Vec<Vec<Record<'static>>>, end: u64) -> (Vec<(u32, u64, u64)>, String) {
        let fetches = script.len();
        let mut source = BlockedTimes::new(Script(script), Nanos(MS), Wakings::default(), few);
        let mut all = Vec::new();
        let mut take = |record: &Record<'_>| match record {
            Record::Sample(it) => all.push((it.tid, it.time, it.period)),
            Record::Exit { .. } => {}
            other => panic!("{other:?}"),
        };
        for _ in 0..fetches {
            assert_eq!(source.fetch(&mut take), Ok(()));
        }
        let note = source.end(Time(end), &mut take);
        assert_eq!(source.lost(), 3);
        (all, note.unwrap_or_default())
    }

    #[test]
    fn a_time_that_lasts_over_a_cut_is_told_in_two() {
        let script = vec![vec![leaves(5, 0)], vec![], vec![back(5, 30 * MS)], vec![]];
        let mut source = BlockedTimes::new(Script(script), Nanos(MS), Wakings::default(), few);
        let mut all = Vec::new();
        let mut take = |record: &Record<'_>| {
            if let Record::Sample(it) = record {
                all.push((it.time, it.period));
            }
        };
        for at in [10 * MS, 20 * MS] {
            assert_eq!(source.fetch(&mut take), Ok(()));
            source.cut(Time(at), &mut take);
        }
        assert_eq!(source.fetch(&mut take), Ok(()));
        source.end(Time(40 * MS), &mut take);
        let each = [(0, 10 * MS), (10 * MS, 10 * MS), (20 * MS, 10 * MS)];
        assert_eq!(all, each);
    }

    #[test]
    fn a_time_lasts_until_the_thread_is_back_whichever_comes_first() {
        // The second thread's return lies in a ring that was fetched earlier.
        let script = vec![
            vec![leaves(1, 10 * MS), back(2, 50 * MS), leaves(2, 20 * MS)],
            vec![back(1, 12 * MS), back(1, 13 * MS)],
        ];
        let (all, note) = told(script, 99 * MS);
        assert_eq!(all, [(1, 10 * MS, 2 * MS), (2, 20 * MS, 30 * MS)]);
        assert_eq!(note, "");
    }

    #[test]
    fn long_times_come_in_parts_and_those_without_an_end_last_until_the_last_moment() {
        let script = vec![vec![leaves(1, 0)]];
        let (all, note) = told(script, 250 * MS);
        let part = 100 * MS;
        assert_eq!(
            all,
            [(1, 0, part), (1, part, part), (1, 2 * part, part / 2)]
        );
        assert_eq!(note, "");
        let (all, _) = told(vec![vec![leaves(1, 0)]], u64::MAX);
        assert!(all.len() as u64 <= MOST_PARTS);
        assert_eq!(all.iter().map(|it| it.2).sum::<u64>(), u64::MAX);
    }

    #[test]
    fn what_has_ended_unseen_is_left_out_and_told() {
        let script = vec![vec![leaves(1, 0), leaves(99, 0), leaves(98, 200 * MS)]];
        let (all, note) = told(script, 250 * MS);
        let of = |tid| all.iter().filter(move |it| it.0 == tid).count();
        assert_eq!([1, 99, 98].map(of), [3, 0, 1]);
        assert_eq!(note, "of 1 blocked times the end was lost");
    }

    #[test]
    fn what_is_left_out_is_told() {
        let script = vec![vec![
            leaves(1, 0),
            back(1, 1000),
            leaves(1, 2000),
            back(1, 4000),
            // Its return was lost.
            leaves(2, 0),
            leaves(2, 5 * MS),
            back(2, 7 * MS),
        ]];
        let (all, note) = told(script, 9 * MS);
        assert_eq!(all, [(2, 5 * MS, 2 * MS)]);
        let wanted = "2 blocked times shorter than 1.00 ms are left out, 3.00 us together; \
                      of 1 blocked times the end was lost";
        assert_eq!(note, wanted);
    }

    #[test]
    fn a_thread_with_two_events_is_counted_once_and_one_that_has_ended_not_at_all() {
        let second = match leaves(1, 50) {
            Record::Sample(sample) => Record::Sample(SampleRecord { id: 8, ..sample }),
            other => other,
        };
        let script = vec![
            vec![leaves(1, 0), second, back(1, 2 * MS), back(1, 2 * MS + 1)],
            vec![leaves(3, 4 * MS), Record::Exit { tid: 3 }],
        ];
        let (all, note) = told(script, 9 * MS);
        assert_eq!((all, note.as_str()), (vec![(1, 0, 2 * MS)], ""));
    }

    const WAKING: u64 = 9;

    fn woken(tid: u32, time: u64) -> Record<'static> {
        // The thread in words of the same bytes, so that no memory has to last.
        const RAW: [[u8; 36]; 4] = [raw(0), raw(1), raw(2), raw(3)];
        Record::Sample(SampleRecord {
            pid: 77,
            tid: 78,
            time,
            id: WAKING,
            cpu: 0,
            period: 1,
            chain: Chain::default(),
            ended: None,
            rest: &RAW[tid as usize],
        })
    }

    /// A record of the program's: the thread on this machine, in its namespace, and the waker's name.
    const fn raw(tid: u8) -> [u8; 36] {
        let mut raw = [0; 36];
        (raw[0], raw[4], raw[12], raw[20]) = (32, 99, tid, b'w');
        raw
    }

    const fn preempted(tid: u32, time: u64) -> Record<'static> {
        let runs = Runs::IsPreempted;
        Record::Switch { tid, time, runs }
    }

    /// Begin, length and reason of each time, in milliseconds: who woke the thread, `cpu` for a wait for a processor.
    fn ended(script: Vec<Record<'static>>, end: u64) -> Vec<(u64, u64, String)> {
        let wakings = Wakings {
            events: [WAKING].into(),
            numbering: Some(Numbering::Inside),
        };
        let mut source = BlockedTimes::new(Script(vec![script]), Nanos(MS), wakings, few);
        let mut all = Vec::new();
        let mut take = |record: &Record<'_>| {
            if let Record::Sample(it) = record {
                let reason = match it.ended.unwrap() {
                    Ended::Woken(by) => {
                        assert_eq!(by.pid, 77);
                        String::from_utf8_lossy(by.waker).into_owned()
                    }
                    Ended::GotProcessor => "cpu".into(),
                    other => format!("{other:?}"),
                };
                all.push((it.time / MS, it.period / MS, reason));
            }
        };
        assert_eq!(source.fetch(&mut take), Ok(()));
        source.end(Time(end), &mut take);
        all
    }

    fn time(at: u64, length: u64, reason: &str) -> (u64, u64, String) {
        (at, length, reason.to_owned())
    }

    #[test]
    fn a_time_is_blocked_until_the_wake_up_and_waits_for_a_processor_from_then_on() {
        let script = vec![
            leaves(1, 10 * MS),
            woken(1, 15 * MS),
            // What comes later wakes nobody.
            woken(1, 16 * MS),
            back(1, 18 * MS),
            leaves(1, 20 * MS),
            back(1, 22 * MS),
            leaves(2, 20 * MS),
            woken(2, 23 * MS),
            leaves(3, 21 * MS),
        ];
        let all = ended(script, 25 * MS);
        let wanted = [
            time(10, 5, "w"),
            time(15, 3, "cpu"),
            time(20, 2, "Unseen"),
            time(20, 3, "w"),
            time(23, 2, "cpu"),
            time(21, 4, "NotYet"),
        ];
        assert_eq!(all.len(), wanted.len(), "{all:?}");
        assert!(wanted.iter().all(|it| all.contains(it)), "{all:?}");
    }

    #[test]
    fn a_wake_up_before_the_switch_counts_only_on_the_way_to_it() {
        let script = vec![
            // It has run on since, and what woke it then was lost.
            woken(1, 5 * MS),
            leaves(1, 10 * MS),
            back(1, 12 * MS),
            woken(1, 20 * MS - 30_000),
            leaves(1, 20 * MS),
            back(1, 22 * MS),
            // The one before is not this one's.
            leaves(1, 22 * MS + 50_000),
            back(1, 24 * MS + 50_000),
        ];
        let wanted = [
            time(10, 2, "Unseen"),
            time(20, 2, "cpu"),
            time(22, 2, "Unseen"),
        ];
        assert_eq!(ended(script, 99 * MS), wanted);
    }

    #[test]
    fn a_preempted_thread_waits_for_a_processor_whatever_wakes_it() {
        let script = vec![
            leaves(1, 10 * MS),
            preempted(1, 10 * MS),
            // It was about to wait when its time slice was over.
            woken(1, 11 * MS),
            back(1, 14 * MS),
            leaves(1, 15 * MS),
            woken(1, 17 * MS),
            back(1, 17 * MS),
        ];
        let wanted = [time(10, 4, "WasPreempted"), time(15, 2, "w")];
        assert_eq!(ended(script, 99 * MS), wanted);
    }

    #[test]
    fn a_thread_that_ended_gives_nothing_to_the_next_of_its_number() {
        let mut script = vec![leaves(1, 10 * MS), woken(1, 11 * MS), woken(2, 11 * MS)];
        let mut source = BlockedTimes::new(
            Script(vec![
                std::mem::take(&mut script),
                vec![Record::Exit { tid: 1 }, Record::Exit { tid: 2 }],
            ]),
            Nanos(MS),
            Wakings {
                events: [WAKING].into(),
                numbering: Some(Numbering::Inside),
            },
            few,
        );
        let mut told = 0;
        let mut take = |record: &Record<'_>| told += u32::from(matches!(record, Record::Sample(_)));
        for _ in 0..2 {
            assert_eq!(source.fetch(&mut take), Ok(()));
        }
        source.take_until(u64::MAX, &mut take);
        assert!(source.pairs.blocked.is_empty() && source.pairs.early.is_empty());
        assert_eq!(told, 0);
    }
}
