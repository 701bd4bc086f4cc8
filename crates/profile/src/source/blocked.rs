//! Times in which threads did not run, each weighing its nanoseconds. A thread that is preempted waits for a processor
//! all the time: a record says so, and then what might wake it does not count.
//!
//! ```text
//! sample (thread leaves)  ...  sample (it is woken)  ...  record (it is back)
//! |-- one sample, ended by the waker -------------|-- one, ended by a free processor --|
//! ```

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;

use measure::{Clock, Nanos, Time};
use rustix::event::Timespec;

use super::{Damaged, InOrder, SampleSource};
use crate::record::{Ended, KeptSample, KeptWakeUp, Record, Runs, SampleRecord};
use crate::stack_copy::Numbering;

/// A longer time becomes several samples, so that windows have their share of it.
const LONGEST_PART: u64 = 100_000_000;
/// Parts of one time at most; those of the longest are longer.
const MOST_PARTS: u64 = 10_000;
/// A thread that leaves twice within this has two events and did not run between.
const DOUBLE: u64 = 100_000;
/// A thread may be woken on its way off its processor; one that was woken longer before has run on.
const ON_ITS_WAY: u64 = 100_000;

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

#[derive(Clone, Debug, Default)]
pub(crate) struct Wakings {
    /// By the numbers of their events.
    pub(crate) events: HashSet<u64>,
    /// Which thread they mean; `None` where there are none.
    pub(crate) numbering: Option<Numbering>,
}

impl Wakings {
    /// Step of a thread that a sample shows; `None` where it shows none.
    fn step(&self, sample: &SampleRecord<'_>) -> Option<(u32, Step)> {
        if !self.events.contains(&sample.id) {
            return Some((sample.tid, Step::Leaves(sample.keep())));
        }
        let record = self.numbering?.parse(sample.rest)?;
        Some((record.tid, Step::IsWoken(KeptWakeUp::of(sample, record.waker))))
    }
}

#[derive(Debug)]
struct Blocked {
    sample: KeptSample,
    preempted: bool,
    woken: Option<KeptWakeUp>,
}

#[derive(Debug, Default)]
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
            pairs: Pairs { least: least.0, ..Pairs::default() },
            alive: Box::new(alive),
        }
    }

    /// Takes what lies in the rings; steps wait for those of other rings.
    fn gather(&mut self, take: &mut dyn FnMut(&Record<'_>)) -> Result<(), Damaged> {
        let begun = Clock.now().0;
        let (waiting, wakings) = (&mut self.waiting, &self.wakings);
        let mut put = |time: u64, tid: u32, step: Step| waiting.put(time, (tid, step));
        self.switches.fetch(&mut |record| match record {
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
        })
    }

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
        let is_double =
            before.is_some_and(|before| before.id != sample.id && sample.time.saturating_sub(before.time) < DOUBLE);
        if is_double {
            return;
        }
        let woken = early.filter(|it| sample.time.saturating_sub(it.time) < ON_ITS_WAY);
        let blocked = Blocked { sample, preempted: false, woken };
        if self.blocked.insert(tid, blocked).is_some() {
            self.endless += 1;
        }
    }

    /// Hands over a time that lasted until `end`, and was ended so where nothing woke the thread.
    fn tell(&mut self, blocked: &Blocked, end: u64, otherwise: Ended<'_>, take: &mut dyn FnMut(&Record<'_>)) {
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
        self.blocked
            .retain(|tid, blocked| alive.contains(tid) || at.saturating_sub(blocked.sample.time) < LONGEST_PART);
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
                "{} shorter than {} left out, {} together",
                measure::counted(self.short, "blocked time"),
                Nanos(self.least),
                Nanos(self.short_ns)
            )
        });
        let endless = (self.endless > 0)
            .then(|| format!("the end of {} was lost", measure::counted(self.endless, "blocked time")));
        let parts: Vec<String> = short.into_iter().chain(endless).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

fn in_parts(sample: &KeptSample, from: u64, to: u64, ended: Ended<'_>, take: &mut dyn FnMut(&Record<'_>)) {
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
        let mut fetched = self.gather(take);
        for (number, (time, (tid, step))) in self.waiting.settled(begun).enumerate() {
            if self.waiting.wants_more(number) {
                fetched = fetched.and(self.gather(take));
            }
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

    fn pause(&mut self, at: Time, take: &mut dyn FnMut(&Record<'_>)) {
        self.cut(at, take);
        // Events were switched off one after another; what the last ones still told has no end.
        drop(self.waiting.until(u64::MAX));
        self.pairs.blocked.clear();
        self.pairs.early.clear();
    }

    fn end(&mut self, at: Time, take: &mut dyn FnMut(&Record<'_>)) -> Option<String> {
        self.take_until(u64::MAX, take);
        self.pairs.forget_dead(at.0, &(self.alive)());
        self.pairs.end(at.0, take)
    }
}

#[cfg(test)]
mod tests;
