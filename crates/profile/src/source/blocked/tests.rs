//! Pairs made of the steps of threads.

use std::sync::{Arc, Mutex};

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

/// A ring with room for so many records.
const ROOM: usize = 40;

/// Records in such a ring, and how many did not fit.
#[derive(Default)]
struct Filled(Vec<Record<'static>>, u64);

impl Filled {
    fn put(&mut self, record: Record<'static>) {
        if self.0.len() < ROOM { self.0.push(record) } else { self.1 += 1 }
    }

    /// A time of a thread, the `number`th.
    fn put_time(&mut self, number: u64) {
        self.put(leaves(1, number * 5 * MS));
        self.put(back(1, number * 5 * MS + 2 * MS));
    }
}

impl SampleSource for Arc<Mutex<Filled>> {
    fn wait(&mut self, _: &[BorrowedFd<'_>], _: &Timespec) -> Vec<bool> {
        Vec::new()
    }
    fn fetch(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged> {
        let all = std::mem::take(&mut self.lock().unwrap().0);
        all.iter().for_each(take);
        Ok(())
    }
    fn lost(&self) -> u64 {
        self.lock().unwrap().1
    }
}

#[test]
fn rings_are_fetched_while_the_samples_before_are_looked_at() {
    const ALL: u64 = 300;
    let ring = Arc::new(Mutex::new(Filled::default()));
    let mut put = 0..ALL;
    let mut put_times = |count: usize| {
        let mut ring = ring.lock().unwrap();
        put.by_ref().take(count).for_each(|it| ring.put_time(it));
    };
    put_times(10);
    let mut source = BlockedTimes::new(Arc::clone(&ring), Nanos(MS), Wakings::default(), few);
    let mut told = Vec::new();
    // While one sample is looked at, two more come.
    let mut take = |record: &Record<'_>| {
        if let Record::Sample(it) = record {
            told.push(it.time / (5 * MS));
            put_times(2);
        }
    };
    for _ in 0..ALL {
        assert_eq!(source.fetch(&mut take), Ok(()));
    }
    assert_eq!(source.lost(), 0);
    assert!(told.iter().copied().eq(0..ALL), "{told:?}");
}

fn few() -> HashSet<u32> {
    (0..10).collect()
}

fn sample([pid, tid]: [u32; 2], time: u64, id: u64, rest: &'static [u8]) -> Record<'static> {
    let chain = Chain::default();
    Record::Sample(SampleRecord { pid, tid, time, id, cpu: 0, period: 1, chain, ended: None, rest })
}

fn leaves(tid: u32, time: u64) -> Record<'static> {
    sample([1, tid], time, 7, &[])
}

const fn back(tid: u32, time: u64) -> Record<'static> {
    Record::Switch { tid, time, runs: Runs::Begins }
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
    let script =
        vec![vec![leaves(1, 10 * MS), back(2, 50 * MS), leaves(2, 20 * MS)], vec![back(1, 12 * MS), back(1, 13 * MS)]];
    let (all, note) = told(script, 99 * MS);
    assert_eq!(all, [(1, 10 * MS, 2 * MS), (2, 20 * MS, 30 * MS)]);
    assert_eq!(note, "");
}

#[test]
fn long_times_come_in_parts_and_those_without_an_end_last_until_the_last_moment() {
    let script = vec![vec![leaves(1, 0)]];
    let (all, note) = told(script, 250 * MS);
    let part = 100 * MS;
    assert_eq!(all, [(1, 0, part), (1, part, part), (1, 2 * part, part / 2)]);
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
    assert_eq!(note, "the end of 1 blocked time was lost");
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
    let wanted = "2 blocked times shorter than 1.00 ms left out, 3.00 µs together; \
                  the end of 1 blocked time was lost";
    assert_eq!(note, wanted);
}

#[test]
fn a_thread_with_two_events_is_counted_once_and_one_that_has_ended_not_at_all() {
    let script = vec![
        vec![leaves(1, 0), sample([1, 1], 50, 8, &[]), back(1, 2 * MS), back(1, 2 * MS + 1)],
        vec![leaves(3, 4 * MS), Record::Exit { tid: 3 }],
    ];
    let (all, note) = told(script, 9 * MS);
    assert_eq!((all, note.as_str()), (vec![(1, 0, 2 * MS)], ""));
}

const WAKING: u64 = 9;

fn woken(tid: u32, time: u64) -> Record<'static> {
    // The thread in words of the same bytes, so that no memory has to last.
    const RAW: [[u8; 36]; 4] = [raw(0), raw(1), raw(2), raw(3)];
    sample([77, 78], time, WAKING, &RAW[tid as usize])
}

/// A record of the program's: the thread on this machine, in its namespace, and the waker's name.
const fn raw(tid: u8) -> [u8; 36] {
    let mut raw = [0; 36];
    (raw[0], raw[4], raw[12], raw[20]) = (32, 99, tid, b'w');
    raw
}

fn wakings() -> Wakings {
    Wakings { events: [WAKING].into(), numbering: Some(Numbering::Inside) }
}

const fn preempted(tid: u32, time: u64) -> Record<'static> {
    Record::Switch { tid, time, runs: Runs::IsPreempted }
}

/// Begin, length and reason of each time, in milliseconds: who woke the thread, `cpu` for a wait for a processor.
fn ended(script: Vec<Record<'static>>, end: u64) -> Vec<(u64, u64, String)> {
    let mut source = BlockedTimes::new(Script(vec![script]), Nanos(MS), wakings(), few);
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
    let wanted = [time(10, 2, "Unseen"), time(20, 2, "cpu"), time(22, 2, "Unseen")];
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
    let script = vec![
        vec![leaves(1, 10 * MS), woken(1, 11 * MS), woken(2, 11 * MS)],
        vec![Record::Exit { tid: 1 }, Record::Exit { tid: 2 }],
    ];
    let mut source = BlockedTimes::new(Script(script), Nanos(MS), wakings(), few);
    let mut told = 0;
    let mut take = |record: &Record<'_>| told += u32::from(matches!(record, Record::Sample(_)));
    for _ in 0..2 {
        assert_eq!(source.fetch(&mut take), Ok(()));
    }
    source.take_until(u64::MAX, &mut take);
    assert!(source.pairs.blocked.is_empty() && source.pairs.early.is_empty());
    assert_eq!(told, 0);
}
