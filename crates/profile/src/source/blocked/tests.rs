//! Pairs made of the steps of threads.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::record::{Chain, SampleRecord};

use super::*;

const MS: u64 = 1_000_000;
const WAKING: u64 = 9;

/// Fetches by one function; the other tells how much was lost.
struct Made<F, L>(F, L);

impl<F: FnMut() -> Vec<Record<'static>> + Send, L: Fn() -> u64 + Send> SampleSource for Made<F, L> {
    fn wait(&mut self, _: &[BorrowedFd<'_>], _: &Timespec) -> Vec<bool> {
        Vec::new()
    }
    fn fetch(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged> {
        (self.0)().iter().for_each(take);
        Ok(())
    }
    fn lost(&self) -> u64 {
        (self.1)()
    }
}

const ROOM: usize = 40;

/// Records in a ring with this room, and how many did not fit.
#[derive(Default)]
struct Filled(Vec<Record<'static>>, u64);

impl Filled {
    fn put(&mut self, record: Record<'static>) {
        if self.0.len() < ROOM { self.0.push(record) } else { self.1 += 1 }
    }

    /// A time of a thread, the `number`th.
    fn put_time(&mut self, number: u64) {
        let at = number * 5;
        steps(&format!("1 leaves {at}, 1 back {}", at + 2)).into_iter().for_each(|it| self.put(it));
    }
}

#[test]
fn rings_are_fetched_while_the_samples_before_are_looked_at() {
    const ALL: u64 = 300;
    let ring = Mutex::new(Filled::default());
    let mut put = 0..ALL;
    let mut put_times = |count: usize| {
        let mut ring = ring.lock().unwrap();
        put.by_ref().take(count).for_each(|it| ring.put_time(it));
    };
    put_times(10);
    let ring = Made(|| std::mem::take(&mut ring.lock().unwrap().0), || ring.lock().unwrap().1);
    let mut source = BlockedTimes::new(ring, Nanos(MS), Wakings::default(), few);
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

/// A record of the program's: the thread on this machine, in its namespace, and the waker's name.
fn woken(tid: u32, time: u64) -> Record<'static> {
    let mut raw = [0; 36];
    (raw[0], raw[4], raw[12], raw[20]) = (32, 99, tid as u8, b'w');
    sample([77, 78], time, WAKING, Box::leak(Box::new(raw)))
}

/// Records in words: `1 leaves 10, 1 back 12`, with threads and milliseconds.
fn steps(text: &str) -> Vec<Record<'static>> {
    let record = |step: &str| {
        let words: Vec<&str> = step.split(' ').collect();
        let [tid, does, at] = words[..] else { panic!("{step}") };
        let tid = tid.parse().unwrap();
        let time = (at.parse::<f64>().unwrap() * MS as f64).round() as u64;
        match does {
            "leaves" => sample([1, tid], time, 7, &[]),
            "leaves-by-another-event" => sample([1, tid], time, 8, &[]),
            "woken" => woken(tid, time),
            "preempted" => Record::Switch { tid, time, runs: Runs::IsPreempted },
            "back" => Record::Switch { tid, time, runs: Runs::Begins },
            "ends" => Record::Exit { tid },
            other => panic!("{other}"),
        }
    };
    text.split(", ").map(record).collect()
}

fn source(fetches: &[&str], wakings: Wakings) -> BlockedTimes<impl SampleSource> {
    let mut fetches: VecDeque<_> = fetches.iter().map(|it| steps(it)).collect();
    BlockedTimes::new(Made(move || fetches.pop_front().unwrap_or_default(), || 3_u64), Nanos(MS), wakings, few)
}

/// Each sample of what was fetched, and the note.
fn samples<T>(fetches: &[&str], wakings: Wakings, end: u64, of: impl Fn(&SampleRecord<'_>) -> T) -> (Vec<T>, String) {
    let mut source = source(fetches, wakings);
    let mut all = Vec::new();
    let mut take = |record: &Record<'_>| match record {
        Record::Sample(it) => all.push(of(it)),
        Record::Exit { .. } => {}
        other => panic!("{other:?}"),
    };
    for _ in fetches {
        assert_eq!(source.fetch(&mut take), Ok(()));
    }
    let note = source.end(Time(end), &mut take);
    assert_eq!(source.lost(), 3);
    (all, note.unwrap_or_default())
}

/// Thread, time and length of each sample, and the note.
fn told(fetches: &[&str], end: u64) -> (Vec<(u32, u64, u64)>, String) {
    samples(fetches, Wakings::default(), end, |it| (it.tid, it.time, it.period))
}

#[test]
fn a_time_that_lasts_over_a_cut_is_told_in_two() {
    let mut source = source(&["5 leaves 0", "6 ends 0", "5 back 30"], Wakings::default());
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
    assert_eq!(all, [(0, 10 * MS), (10 * MS, 10 * MS), (20 * MS, 10 * MS)]);
}

#[test]
fn a_time_lasts_until_the_thread_is_back_whichever_comes_first() {
    // The second thread's return lies in a ring that was fetched earlier.
    let (all, note) = told(&["1 leaves 10, 2 back 50, 2 leaves 20", "1 back 12, 1 back 13"], 99 * MS);
    assert_eq!(all, [(1, 10 * MS, 2 * MS), (2, 20 * MS, 30 * MS)]);
    assert_eq!(note, "");
}

#[test]
fn long_times_come_in_parts_and_those_without_an_end_last_until_the_last_moment() {
    let part = 100 * MS;
    let (all, note) = told(&["1 leaves 0"], 250 * MS);
    assert_eq!(all, [(1, 0, part), (1, part, part), (1, 2 * part, part / 2)]);
    assert_eq!(note, "");
    let (all, _) = told(&["1 leaves 0"], u64::MAX);
    assert!(all.len() as u64 <= MOST_PARTS);
    assert_eq!(all.iter().map(|it| it.2).sum::<u64>(), u64::MAX);
}

#[test]
fn what_has_ended_unseen_is_left_out_and_told() {
    let (all, note) = told(&["1 leaves 0, 99 leaves 0, 98 leaves 200"], 250 * MS);
    let of = |tid| all.iter().filter(move |it| it.0 == tid).count();
    assert_eq!([1, 99, 98].map(of), [3, 0, 1]);
    assert_eq!(note, "the end of 1 blocked time was lost");
}

#[test]
fn what_is_left_out_is_told() {
    // The first return of the second thread was lost.
    let script = "1 leaves 0, 1 back 0.001, 1 leaves 0.002, 1 back 0.004, 2 leaves 0, 2 leaves 5, 2 back 7";
    let (all, note) = told(&[script], 9 * MS);
    assert_eq!(all, [(2, 5 * MS, 2 * MS)]);
    let wanted = "2 blocked times shorter than 1.00 ms left out, 3.00 µs together; \
                  the end of 1 blocked time was lost";
    assert_eq!(note, wanted);
}

#[test]
fn a_thread_with_two_events_is_counted_once_and_one_that_has_ended_not_at_all() {
    let twice = "1 leaves 0, 1 leaves-by-another-event 0.00005, 1 back 2, 1 back 2.000001";
    let (all, note) = told(&[twice, "3 leaves 4, 3 ends 5"], 9 * MS);
    assert_eq!((all, note.as_str()), (vec![(1, 0, 2 * MS)], ""));
}

fn wakings() -> Wakings {
    Wakings { events: [WAKING].into(), numbering: Some(Numbering::Inside) }
}

/// Begin and length of each time, in milliseconds, and its reason: who woke the thread, `cpu` for a wait for a
/// processor.
fn ended(script: &str, end: u64) -> Vec<String> {
    let of = |it: &SampleRecord<'_>| {
        let reason = match it.ended.unwrap() {
            Ended::Woken(by) => {
                assert_eq!(by.pid, 77);
                String::from_utf8_lossy(by.waker).into_owned()
            }
            Ended::GotProcessor => "cpu".into(),
            other => format!("{other:?}"),
        };
        format!("{} {} {reason}", it.time / MS, it.period / MS)
    };
    samples(&[script], wakings(), end, of).0
}

#[test]
fn a_time_is_blocked_until_the_wake_up_and_waits_for_a_processor_from_then_on() {
    // The second wake-up wakes nobody.
    let first = "1 leaves 10, 1 woken 15, 1 woken 16, 1 back 18, 1 leaves 20, 1 back 22";
    let mut all = ended(&format!("{first}, 2 leaves 20, 2 woken 23, 3 leaves 21"), 25 * MS);
    all.sort();
    assert_eq!(all, ["10 5 w", "15 3 cpu", "20 2 Unseen", "20 3 w", "21 4 NotYet", "23 2 cpu"]);
}

#[test]
fn a_wake_up_before_the_switch_counts_only_on_the_way_to_it() {
    // After the first one it has run on, and what woke it then was lost; the one before is not the last one's.
    let script = "1 woken 5, 1 leaves 10, 1 back 12, 1 woken 19.97, 1 leaves 20, 1 back 22, \
                  1 leaves 22.05, 1 back 24.05";
    assert_eq!(ended(script, 99 * MS), ["10 2 Unseen", "20 2 cpu", "22 2 Unseen"]);
}

#[test]
fn a_preempted_thread_waits_for_a_processor_whatever_wakes_it() {
    // It was about to wait when its time slice was over.
    let script = "1 leaves 10, 1 preempted 10, 1 woken 11, 1 back 14, 1 leaves 15, 1 woken 17, 1 back 17";
    assert_eq!(ended(script, 99 * MS), ["10 4 WasPreempted", "15 2 w"]);
}

#[test]
fn a_thread_that_ended_gives_nothing_to_the_next_of_its_number() {
    let mut source = source(&["1 leaves 10, 1 woken 11, 2 woken 11", "1 ends 12, 2 ends 12"], wakings());
    let mut told = 0;
    let mut take = |record: &Record<'_>| told += u32::from(matches!(record, Record::Sample(_)));
    for _ in 0..2 {
        assert_eq!(source.fetch(&mut take), Ok(()));
    }
    source.take_until(u64::MAX, &mut take);
    assert!(source.pairs.blocked.is_empty() && source.pairs.early.is_empty());
    assert_eq!(told, 0);
}
