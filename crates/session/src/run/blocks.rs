//! Blocks of the measured phase in which sampling is switched on and off, as a seed draws them, so that a run tells what its
//! profile costs.
//!
//! ```text
//! measured phase begins
//! |guard|--- counted, off ---|guard|--- counted, on ----|guard|--- counted, on ---|guard| ...
//! |---------- one pair of blocks ----------------------|------ the next pair ------------
//! ```
//!
//! Blocks begin and end where slices do. At a block's beginning sampling is switched; what is left of the other state (messages in
//! flight, samples in the rings) passes in the guard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use compare::BlockOrder;
use measure::{Clock, Nanos, Time};
use profile::SamplingSwitch;

use crate::usage::{Reading, UsageSource};

/// Time left out at the beginning of each block.
pub(crate) const GUARD: Nanos = Nanos::from_millis(200);
/// A block whose readings come later than this after their instants is not counted.
const LATEST_READING: Nanos = Nanos::from_millis(50);

/// The plan of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPlan {
    /// When the measured phase begins.
    pub(crate) start: Time,
    /// Length of a block.
    pub(crate) length: Nanos,
    /// Length of the measured phase; `None` where it has no planned end.
    pub(crate) measure: Option<Nanos>,
    pub(crate) seed: u64,
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedBlock {
    /// Number from 0 on; 2 n and 2 n + 1 are a pair.
    pub(crate) number: u64,
    pub(crate) start: Time,
    /// When the guard is over.
    pub(crate) counted_from: Time,
    pub(crate) end: Time,
    /// Whether samples are taken.
    pub(crate) on: bool,
}

impl BlockPlan {
    /// The blocks in the order of time: whole pairs only. Behind them sampling is on.
    pub(crate) fn blocks(self) -> impl Iterator<Item = PlannedBlock> {
        let pairs = self
            .measure
            .map_or(u64::MAX / 2, |measure| measure.0 / (2 * self.length.0));
        let order = BlockOrder::new(self.seed);
        let numbered = (0..pairs.saturating_mul(2)).zip(order);
        numbered.map(move |(number, on)| {
            let start = self.start + Nanos(self.length.0.saturating_mul(number));
            PlannedBlock {
                number,
                start,
                counted_from: start + GUARD,
                end: start + self.length,
                on,
            }
        })
    }
}

/// A completed block, and the usage of processes at the ends of its counted part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SwitchedBlock {
    pub(crate) block: PlannedBlock,
    pub(crate) from: Reading,
    pub(crate) to: Reading,
    /// Sampling was switched, and the readings were taken, when they should have been.
    pub(crate) is_in_time: bool,
}

/// Where usage is read beside the run's own readings.
pub(crate) type BlockUsage = Box<dyn UsageSource + Send>;

/// The thread that switches sampling and reads usage.
#[derive(Debug)]
pub(crate) struct Switching {
    thread: JoinHandle<Vec<SwitchedBlock>>,
    stop: Arc<AtomicBool>,
}

impl Switching {
    /// Switches as planned; `None` where the system gives no thread.
    pub(crate) fn start(
        plan: BlockPlan,
        switches: Vec<SamplingSwitch>,
        usage: BlockUsage,
    ) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            switches,
            usage,
            stop: Arc::clone(&stop),
            is_on: true,
        };
        let thread = thread::Builder::new().name("profiling blocks".into());
        let thread = thread.spawn(move || worker.run(plan)).ok()?;
        Some(Self { thread, stop })
    }

    /// No block that has not ended is counted, and sampling stays on.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
    }

    /// The blocks that have ended.
    pub(crate) fn finish(self) -> Vec<SwitchedBlock> {
        self.stop();
        self.thread.join().unwrap_or_default()
    }
}

struct Worker {
    switches: Vec<SamplingSwitch>,
    usage: BlockUsage,
    stop: Arc<AtomicBool>,
    is_on: bool,
}

impl Worker {
    fn run(mut self, plan: BlockPlan) -> Vec<SwitchedBlock> {
        let mut done = Vec::new();
        for block in plan.blocks() {
            let Some(switched) = self.block(block) else {
                break;
            };
            done.push(switched);
        }
        self.switch(true);
        done
    }

    /// Goes through a block; `None` where it was stopped.
    fn block(&mut self, block: PlannedBlock) -> Option<SwitchedBlock> {
        self.wait_until(block.start)?;
        let is_switched = self.switch(block.on);
        self.wait_until(block.counted_from)?;
        let from = self.usage.read();
        self.wait_until(block.end)?;
        let to = self.usage.read();
        let in_time = |reading: &Reading, at: Time| reading.at.since(at) <= LATEST_READING;
        Some(SwitchedBlock {
            block,
            from,
            to,
            is_in_time: is_switched
                && in_time(&from, block.counted_from)
                && in_time(&to, block.end),
        })
    }

    /// Whether sampling is now as it should be.
    fn switch(&mut self, on: bool) -> bool {
        if on == self.is_on {
            return true;
        }
        self.is_on = on;
        let mut switches = self.switches.iter();
        if on {
            return switches.all(|switch| switch.resume().is_ok());
        }
        switches.for_each(SamplingSwitch::pause);
        true
    }

    fn wait_until(&self, at: Time) -> Option<()> {
        loop {
            if self.stop.load(Ordering::Acquire) {
                return None;
            }
            let left = at.since(Clock.now());
            if left == Nanos::ZERO {
                return Some(());
            }
            thread::park_timeout(Duration::from(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(measure: Option<u64>) -> BlockPlan {
        BlockPlan {
            start: Time(5_000_000_000),
            length: Nanos::SECOND,
            measure: measure.map(Nanos::from_millis),
            seed: 11,
        }
    }

    #[test]
    fn whole_pairs_lie_in_the_measured_phase() {
        for (measure, blocks) in [(10_000, 10), (11_999, 10), (1_999, 0), (0, 0)] {
            let planned: Vec<_> = plan(Some(measure)).blocks().collect();
            assert_eq!(planned.len(), blocks, "{measure} ms");
            let on = planned.iter().filter(|it| it.on).count();
            assert_eq!(on * 2, blocks);
        }
        let endless: Vec<_> = plan(None).blocks().take(100).collect();
        let planned: Vec<_> = plan(Some(10_000)).blocks().collect();
        assert_eq!(endless[..10], planned[..]);
        for pair in endless.windows(2) {
            assert_eq!(pair[0].end, pair[1].start);
            assert_eq!(pair[0].counted_from.since(pair[0].start), GUARD);
        }
        let last = planned.last().unwrap();
        assert_eq!(last.end, Time(15_000_000_000));
    }

    struct Nothing;

    impl UsageSource for Nothing {
        fn read(&mut self) -> Reading {
            Reading {
                at: Clock.now(),
                ..Reading::default()
            }
        }
    }

    #[test]
    fn a_thread_that_is_stopped_hands_over_the_blocks_that_have_ended() {
        let plan = BlockPlan {
            start: Clock.now(),
            length: Nanos::from_millis(300),
            ..plan(None)
        };
        let switching = Switching::start(plan, Vec::new(), Box::new(Nothing)).unwrap();
        thread::sleep(Duration::from_millis(750));
        let blocks = switching.finish();
        assert!((1..=2).contains(&blocks.len()), "{blocks:?}");
        let first = &blocks[0];
        assert!(first.from.at >= first.block.counted_from && first.to.at >= first.block.end);
    }
}
