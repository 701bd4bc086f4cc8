//! Samples of a profile as columns, few enough that a page of all events stays small.

use stacks::{Profile, Sample};

use super::processes::Processes;
use super::varint::put;

/// Sample times are multiples of this: fine enough for any window that a hand can choose.
const TICK_NS: u64 = 100_000;
/// How often the length of a tick is doubled at most: to nearly two minutes.
const MOST_DOUBLINGS: u32 = 20;

/// A sample; the order of its fields is that of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PageSample {
    tick: u64,
    leaf: u32,
    process: u64,
    thread: u32,
    weight: u64,
}

impl PageSample {
    /// Whether stack, thread, process and tick are the same.
    fn joins(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.tick, it.leaf, it.process, it.thread);
        key(self) == key(other)
    }
}

/// The samples in the order of time.
pub(super) struct SampleColumns {
    samples: Vec<PageSample>,
    /// Sample times are multiples of this many nanoseconds.
    pub(super) tick_ns: u64,
}

impl SampleColumns {
    /// The samples of a profile whose leaf `node` knows, by the sample's index and itself. Beyond `most`, ticks get
    /// longer, and samples that differ only in weight are joined; sums stay the same.
    pub(super) fn of(
        profile: &Profile,
        processes: &Processes,
        mut node: impl FnMut(u32, &Sample) -> Option<u32>,
        most: usize,
    ) -> Self {
        let mut order: Vec<u32> = (0..profile.samples.len() as u32).collect();
        order.sort_by_key(|&i| profile.samples.get(i as usize).map(|s| s.t));
        let in_order = order
            .iter()
            .filter_map(|&i| Some((i, profile.samples.get(i as usize)?)));
        let known = in_order.filter_map(|(i, s)| {
            Some(PageSample {
                tick: s.t / TICK_NS,
                leaf: node(i, s)?,
                process: processes.number(s.process),
                thread: s.thread,
                weight: s.weight,
            })
        });
        let mut columns = Self {
            samples: known.collect(),
            tick_ns: TICK_NS,
        };
        let mut doublings = 0;
        while columns.samples.len() > most && doublings < MOST_DOUBLINGS {
            columns.double_ticks();
            doublings += 1;
        }
        columns
    }

    /// Makes ticks twice as long and joins samples that become equal.
    fn double_ticks(&mut self) {
        self.tick_ns *= 2;
        for sample in &mut self.samples {
            sample.tick /= 2;
        }
        self.samples.sort_unstable();
        self.samples.dedup_by(|next, kept| {
            let same = next.joins(kept);
            if same {
                kept.weight = kept.weight.saturating_add(next.weight);
            }
            same
        });
    }

    /// Gives leaves the numbers that stand at their old ones.
    pub(super) fn renumber(&mut self, numbers: &[u32]) {
        for sample in &mut self.samples {
            let known = numbers.get(sample.leaf as usize);
            sample.leaf = known.copied().unwrap_or(sample.leaf);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Note on the times for a reader. Where weights are no numbers of samples, joined samples of a step make chance
    /// larger than single ones.
    pub(super) fn note(&self, counts_samples: bool) -> Option<String> {
        let step = measure::Nanos(self.tick_ns);
        let joined = match counts_samples {
            true => "",
            false => {
                "; samples of a step are joined, so that fewer differences to the rest are called proven"
            }
        };
        (self.tick_ns > TICK_NS).then(|| {
            format!("times of this event are shown in steps of {step}, which keeps the page small{joined}")
        })
    }

    /// Appends the columns; whether that of the weights is among them.
    pub(super) fn put(&self, bytes: &mut Vec<u8>, processes: bool, threads: bool) -> bool {
        let mut before = 0;
        for sample in &self.samples {
            put(bytes, sample.tick - before);
            before = sample.tick;
        }
        let weighted = self.samples.iter().any(|s| s.weight != 1);
        let column = |bytes: &mut Vec<u8>, value: fn(&PageSample) -> u64| {
            for sample in &self.samples {
                put(bytes, value(sample));
            }
        };
        column(bytes, |s| u64::from(s.leaf));
        if weighted {
            column(bytes, |s| s.weight);
        }
        if processes {
            column(bytes, |s| s.process);
        }
        if threads {
            column(bytes, |s| u64::from(s.thread));
        }
        weighted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stacks::Unwinding;

    #[test]
    fn too_many_samples_share_longer_ticks_and_keep_their_sum() {
        let sample = |t, stack, thread| Sample {
            t,
            weight: 10,
            stack,
            thread,
            cpu: 0,
            complete: true,
            unwinding: Unwinding::Unknown,
            process: None,
            wait: None,
        };
        // Two stacks in turn, one of them by two threads, every 100 us.
        let samples = (0..800u32).map(|i| sample(u64::from(i) * TICK_NS, i % 2, i % 4));
        let profile = Profile {
            samples: samples.collect(),
            ..Profile::default()
        };
        let none = Processes::of(&profile);
        let columns =
            |most| SampleColumns::of(&profile, &none, |_, sample| Some(sample.stack), most);
        let all = columns(800);
        assert_eq!(
            (all.len(), all.tick_ns, all.note(true)),
            (800, TICK_NS, None)
        );
        let some = columns(100);
        assert_eq!((some.len(), some.tick_ns), (100, 32 * TICK_NS));
        assert!(
            some.note(true)
                .is_some_and(|note| note.ends_with("3.20 ms, which keeps the page small"))
        );
        let sum: u64 = some.samples.iter().map(|s| s.weight).sum();
        assert_eq!(sum, 8_000);
        assert!(some.samples.is_sorted_by_key(|s| s.tick));
        // Four threads are four samples in every tick, however long it is.
        assert_eq!(columns(1).len(), 4);
    }
}
