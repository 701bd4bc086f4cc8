//! Times in which threads did not run, from the samples that are taken when a thread leaves its processor, and
//! the records of when it is back.
//!
//! ```text
//! sample (thread leaves)  ...  record (it is back)     one sample that weighs the nanoseconds between
//! ```
//!
//! The two may lie in rings of different processors, which are fetched one after another. So all of them wait
//! until every ring has been fetched once more, and are taken in the order of time then.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::BorrowedFd;

use measure::{Clock, Nanos, Time};
use rustix::event::Timespec;

use super::{Damaged, SampleSource};
use crate::record::{KeptSample, Record};

/// A longer time becomes several samples, so that windows have their share of it.
const LONGEST_PART: u64 = 100_000_000;
/// Parts of one time at most; those of the longest are longer.
const MOST_PARTS: u64 = 10_000;
/// A thread that leaves twice within this has two events and did not run between.
const DOUBLE: u64 = 100_000;

/// What a thread did.
#[derive(Debug)]
enum Step {
    Leaves(KeptSample),
    IsBack,
    Ends,
}

/// A source of times off CPU, made from one of the switches.
#[derive(Debug)]
pub(crate) struct BlockedTimes<S> {
    switches: S,
    /// By instant, in the order of arrival and thread.
    waiting: BTreeMap<(u64, u64), (u32, Step)>,
    arrived: u64,
    pairs: Pairs,
    /// When the rings were last fetched: all that is older has come.
    fetched: u64,
}

/// Threads that do not run.
#[derive(Debug)]
struct Pairs {
    blocked: HashMap<u32, KeptSample>,
    /// Shorter times are left out.
    least: u64,
    short: u64,
    short_ns: u64,
    /// Times of which nobody saw the end.
    endless: u64,
}

impl<S: SampleSource> BlockedTimes<S> {
    /// Pairs what `switches` tells; times shorter than `least` are left out.
    pub(crate) fn new(switches: S, least: Nanos) -> Self {
        Self {
            switches,
            waiting: BTreeMap::new(),
            arrived: 0,
            pairs: Pairs {
                blocked: HashMap::new(),
                least: least.0,
                short: 0,
                short_ns: 0,
                endless: 0,
            },
            fetched: 0,
        }
    }

    /// Takes the steps before an instant.
    fn take_until(&mut self, until: u64, take: &mut dyn FnMut(&Record<'_>)) {
        let later = self.waiting.split_off(&(until, 0));
        for ((time, _), (tid, step)) in std::mem::replace(&mut self.waiting, later) {
            self.pairs.step(tid, time, step, take);
        }
    }
}

impl Pairs {
    fn step(&mut self, tid: u32, time: u64, step: Step, take: &mut dyn FnMut(&Record<'_>)) {
        match step {
            Step::Leaves(sample) => {
                let before = self.blocked.get(&tid);
                let is_double = before.is_some_and(|before| {
                    before.id != sample.id && time.saturating_sub(before.time) < DOUBLE
                });
                if !is_double && self.blocked.insert(tid, sample).is_some() {
                    self.endless += 1;
                }
            }
            Step::IsBack => {
                if let Some(sample) = self.blocked.remove(&tid) {
                    self.tell(&sample, time, take);
                }
            }
            Step::Ends => drop(self.blocked.remove(&tid)),
        }
    }

    /// Hands over a time that lasted until `end`, in parts.
    fn tell(&mut self, sample: &KeptSample, end: u64, take: &mut dyn FnMut(&Record<'_>)) {
        let length = end.saturating_sub(sample.time);
        if length < self.least {
            self.short += 1;
            self.short_ns = self.short_ns.saturating_add(length);
            return;
        }
        let part = LONGEST_PART.max(length.div_ceil(MOST_PARTS));
        let mut at = sample.time;
        while at < end {
            let next = at.saturating_add(part).min(end);
            take(&Record::Sample(sample.at(at, next - at)));
            at = next;
        }
    }

    /// Hands over what lies before an instant of the times that have not ended yet; they go on from there.
    fn cut(&mut self, at: u64, take: &mut dyn FnMut(&Record<'_>)) {
        let mut blocked = std::mem::take(&mut self.blocked);
        for sample in blocked.values_mut().filter(|sample| sample.time < at) {
            self.tell(sample, at, take);
            sample.time = at;
        }
        self.blocked = blocked;
    }

    /// Hands over the times that have not ended yet; what was left out, in words.
    fn end(&mut self, at: u64, take: &mut dyn FnMut(&Record<'_>)) -> Option<String> {
        for (_, sample) in std::mem::take(&mut self.blocked) {
            self.tell(&sample, at, take);
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

impl<S: SampleSource> SampleSource for BlockedTimes<S> {
    fn wait(&mut self, others: &[BorrowedFd<'_>], timeout: &Timespec) -> Vec<bool> {
        self.switches.wait(others, timeout)
    }

    fn fetch(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged> {
        let begun = Clock.now().0;
        let (waiting, arrived) = (&mut self.waiting, &mut self.arrived);
        let mut put = |time: u64, tid: u32, step: Step| {
            *arrived += 1;
            waiting.insert((time, *arrived), (tid, step));
        };
        let fetched = self.switches.fetch(&mut |record| match record {
            Record::Sample(sample) => put(sample.time, sample.tid, Step::Leaves(sample.keep())),
            Record::Switch { tid, time, runs } => {
                if *runs {
                    put(*time, *tid, Step::IsBack);
                }
            }
            other => {
                if let Record::Exit { tid } = other {
                    // Its last sample was taken before; it carries no time of its own.
                    put(begun, *tid, Step::Ends);
                }
                take(other);
            }
        });
        self.take_until(self.fetched, take);
        self.fetched = begun;
        fetched
    }

    fn lost(&self) -> u64 {
        self.switches.lost()
    }

    fn cut(&mut self, at: Time, take: &mut dyn FnMut(&Record<'_>)) {
        self.take_until(at.0, take);
        self.pairs.cut(at.0, take);
    }

    fn end(&mut self, at: Time, take: &mut dyn FnMut(&Record<'_>)) -> Option<String> {
        self.take_until(u64::MAX, take);
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

    fn leaves(tid: u32, time: u64) -> Record<'static> {
        Record::Sample(SampleRecord {
            pid: 1,
            tid,
            time,
            id: 7,
            cpu: 0,
            period: 1,
            chain: Chain::default(),
            rest: &[],
        })
    }

    const fn back(tid: u32, time: u64) -> Record<'static> {
        let runs = true;
        Record::Switch { tid, time, runs }
    }

    const MS: u64 = 1_000_000;

    /// Thread, time and length of each sample, and the note.
    fn told(script: Vec<Vec<Record<'static>>>, end: u64) -> (Vec<(u32, u64, u64)>, String) {
        let fetches = script.len();
        let mut source = BlockedTimes::new(Script(script), Nanos(MS));
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
        let mut source = BlockedTimes::new(Script(script), Nanos(MS));
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
}
