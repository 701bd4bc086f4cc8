//! The cost of profiling: counts of slices and usage of processes in blocks of the measured phase with and without it,
//! as a seed draws them, compared by pairs. Blocks begin and end where slices do; what is left of the other state
//! (messages in flight, samples in the rings) passes in the guard.
//!
//! ```text
//! measured phase begins
//! |guard|--- counted, off ---|guard|--- counted, on ----|guard|--- counted, on ---|guard| ...
//! |---------- one pair of blocks ----------------------|------ the next pair ------------
//! ```

use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use archive::{EffectFigure, ObserverEffect, ProfilingBlock};
use compare::{BlockOrder, BlockPair, block_effect};
use hdrhistogram::Histogram;
use load::scenario::Operations;
use measure::{Clock, LatencySummary, Metric, Nanos, Phase, Slice, Time, new_histogram};
use profile::SamplingSwitch;

use super::profiling::Profiling;
use crate::usage::{Reading, UsageSource, between};

/// Slices end when a loop next reads the clock: up to this long after a border they belong to the block before it.
const SKEW: Nanos = Nanos::from_millis(20);
/// Share of a block's counted part that its slices have to cover.
const COVERED: f64 = 0.7;
const PERCENTILE: f64 = 99.0;

/// Blocks of the run with and without profiling, where requested.
#[derive(Default)]
pub(crate) struct Blocks {
    wanted: Option<WantedBlocks>,
    running: Option<RunningBlocks>,
}

struct WantedBlocks {
    length: Nanos,
    seed: u64,
    usage: BlockUsage,
}

struct RunningBlocks {
    plan: BlockPlan,
    switching: Switching,
    counts: BlockCounts<Box<dyn Iterator<Item = PlannedBlock> + Send>>,
    /// Profiling costs the broker something even while sampling is off.
    stays_in_the_way: bool,
}

impl Blocks {
    pub(super) fn wanted(length: Nanos, seed: u64, usage: BlockUsage) -> Self {
        Self { wanted: Some(WantedBlocks { length, seed, usage }), running: None }
    }

    /// The broker is another process than was thought.
    pub(super) fn watch(&mut self, pid: u32) {
        if let Some(wanted) = &mut self.wanted {
            wanted.usage.leave();
            wanted.usage.follow(pid);
        }
        self.stop();
    }

    /// Ends switching; counts stay.
    pub(super) fn stop(&self) {
        if let Some(running) = &self.running {
            running.switching.stop();
        }
    }

    /// Plans blocks from `start`, when the measured phase begins, where they are wanted and something is sampled.
    pub(super) fn begin(&mut self, start: Time, measure: Option<Nanos>, profiling: &Profiling) {
        let switches = profiling.switches();
        let Some(wanted) = self.wanted.take().filter(|_| !switches.is_empty()) else { return };
        let plan = BlockPlan { start, length: wanted.length, measure, seed: wanted.seed };
        let blocks: Box<dyn Iterator<Item = PlannedBlock> + Send> = Box::new(plan.blocks());
        let switching = Switching::start(plan, switches, wanted.usage);
        self.running = switching.map(|switching| RunningBlocks {
            plan,
            switching,
            counts: BlockCounts::of(blocks),
            stays_in_the_way: profiling.stays_in_the_way(),
        });
    }

    pub(super) fn add(&mut self, slice: &Slice, operations: Option<Operations>) {
        if let Some(running) = &mut self.running {
            running.counts.add(slice, operations);
        }
    }

    /// The cost of profiling for messages, or these operations, at a rate or without; times count from `origin`.
    pub(super) fn finish(
        &mut self,
        operations: Option<Operations>,
        paced: bool,
        origin: Time,
    ) -> Option<ObserverEffect> {
        let running = self.running.take()?;
        let switched = running.switching.finish();
        let counted = running.counts.finish();
        let mut effect = effect(&pairs(&switched, &counted), switched.len() / 2, paced);
        effect.unit = operations.map_or("messages", |of| of.many).to_owned();
        effect.block_s = running.plan.length.as_secs_f64();
        effect.stays_in_the_way = running.stays_in_the_way;
        if let Some(of) = operations {
            effect.latency = of.latency.name().to_owned();
        }
        let seconds = |at: Time| at.since(origin).as_secs_f64();
        let block = |it: PlannedBlock| ProfilingBlock { start: seconds(it.start), end: seconds(it.end), on: it.on };
        effect.blocks = switched.iter().map(|it| block(it.block)).collect();
        Some(effect)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct BlockCount {
    number: u64,
    /// Length of its slices, by their own clock.
    seconds: f64,
    /// Messages sent or operations completed.
    sent: u64,
    received: u64,
    /// 99th percentiles; `None` where too few latencies were measured.
    ack_response: Option<u64>,
    /// Deliveries or operations.
    end_to_end: Option<u64>,
}

struct BlockCounts<I: Iterator<Item = PlannedBlock>> {
    blocks: Peekable<I>,
    current: BlockCount,
    ack_response: Histogram<u64>,
    end_to_end: Histogram<u64>,
    done: Vec<BlockCount>,
}

impl<I: Iterator<Item = PlannedBlock>> BlockCounts<I> {
    fn of(blocks: I) -> Self {
        Self {
            blocks: blocks.peekable(),
            current: BlockCount::default(),
            ack_response: new_histogram(),
            end_to_end: new_histogram(),
            done: Vec::new(),
        }
    }

    fn add(&mut self, slice: &Slice, operations: Option<Operations>) {
        if slice.phase != Phase::Measure {
            return;
        }
        while let Some(block) = self.blocks.peek().copied() {
            if slice.start + SKEW < block.end {
                if slice.start + SKEW >= block.counted_from && slice.end <= block.end + SKEW {
                    self.count(slice, operations);
                }
                return;
            }
            self.blocks.next();
            self.close(block.number);
        }
    }

    fn count(&mut self, slice: &Slice, operations: Option<Operations>) {
        let (counters, current) = (&slice.counters, &mut self.current);
        let completed = operations.map_or(0, |of| slice.counts.get(of.completed));
        current.seconds += slice.length().as_secs_f64();
        current.sent += counters.sent + completed;
        current.received += counters.received;
        let whole = operations.map_or(Metric::END_TO_END, |of| of.latency);
        for (metric, latencies) in slice.latencies.filled() {
            let sum = match metric {
                it if it == whole => &mut self.end_to_end,
                Metric::ACK_RESPONSE => &mut self.ack_response,
                _ => continue,
            };
            for (latency, count) in latencies.iter() {
                sum.saturating_record_n(latency.0, count);
            }
        }
    }

    fn close(&mut self, number: u64) {
        let percentile = |histogram: &mut Histogram<u64>| {
            let summary = LatencySummary::of(histogram);
            histogram.reset();
            summary.supports(PERCENTILE).then_some(summary.p99_ns)
        };
        let count = std::mem::take(&mut self.current);
        self.done.push(BlockCount {
            number,
            ack_response: percentile(&mut self.ack_response),
            end_to_end: percentile(&mut self.end_to_end),
            ..count
        });
    }

    fn finish(mut self) -> Vec<BlockCount> {
        if let Some(last) = self.blocks.next() {
            self.close(last.number);
        }
        self.done
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct BlockFigures {
    /// Messages sent per second, or operations.
    sent_rate: f64,
    received_rate: f64,
    broker_cores: Option<f64>,
    client_cores: Option<f64>,
    ack_response: Option<u64>,
    end_to_end: Option<u64>,
}

impl BlockFigures {
    /// `None` where the block was cut short, or its readings are not those of its slices.
    fn of(switched: &SwitchedBlock, count: &BlockCount) -> Option<Self> {
        let block = switched.block;
        let planned = block.end.since(block.counted_from).as_secs_f64();
        let is_any = count.sent + count.received > 0;
        let is_sound = switched.is_in_time && is_any && count.seconds >= planned * COVERED;
        let usage = between(&switched.from, &switched.to);
        is_sound.then(|| Self {
            sent_rate: count.sent as f64 / count.seconds,
            received_rate: count.received as f64 / count.seconds,
            broker_cores: usage.broker.map(|it| it.cpu_cores),
            client_cores: usage.client.map(|it| it.cpu_cores),
            ack_response: count.ack_response,
            end_to_end: count.end_to_end,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct MeasuredPair {
    on: BlockFigures,
    off: BlockFigures,
}

/// The pairs of which both blocks tell something.
fn pairs(switched: &[SwitchedBlock], counted: &[BlockCount]) -> Vec<MeasuredPair> {
    let figures = |of: &SwitchedBlock| {
        let count = counted.iter().find(|it| it.number == of.block.number)?;
        BlockFigures::of(of, count)
    };
    let pair = |pair: &[SwitchedBlock]| {
        let of = |on: bool| pair.iter().find(|it| it.block.on == on).and_then(figures);
        Some(MeasuredPair { on: of(true)?, off: of(false)? })
    };
    switched.chunks_exact(2).filter_map(pair).collect()
}

/// The effect on each figure that all pairs tell, of so many that were planned.
fn effect(pairs: &[MeasuredPair], planned: usize, paced: bool) -> ObserverEffect {
    let all = || pairs.iter().flat_map(|pair| [pair.on, pair.off]);
    let sum = |of: fn(&BlockFigures) -> f64| all().map(|it| of(&it)).sum::<f64>();
    // CPU is per message handled: the larger of what was sent and received, as in the summary.
    let rate: fn(&BlockFigures) -> f64 = match sum(|it| it.received_rate) > sum(|it| it.sent_rate) {
        true => |it| it.received_rate,
        false => |it| it.sent_rate,
    };
    let per_message = |cores: Option<f64>, of: &BlockFigures| Some(cores? * 1e6 / rate(of)).filter(|it| it.is_finite());
    let end_to_end = figure(pairs, |it| it.end_to_end.map(|ns| ns as f64));
    let ack_response = || figure(pairs, |it| it.ack_response.map(|ns| ns as f64));
    let latency = if end_to_end.is_some() { Metric::END_TO_END } else { Metric::ACK_RESPONSE };
    ObserverEffect {
        guard_s: GUARD.as_secs_f64(),
        pairs: count(pairs.len()),
        left_out: count(planned - pairs.len()),
        paced,
        rate: (!paced).then(|| figure(pairs, |it| Some(rate(it)))).flatten(),
        broker_cpu_us: figure(pairs, |it| per_message(it.broker_cores, it)),
        client_cpu_us: figure(pairs, |it| per_message(it.client_cores, it)),
        p99_ns: end_to_end.or_else(ack_response),
        latency: latency.name().to_owned(),
        ..ObserverEffect::default()
    }
}

fn figure(pairs: &[MeasuredPair], of: impl Fn(&BlockFigures) -> Option<f64>) -> Option<EffectFigure> {
    let values = pairs.iter().map(|pair| Some(BlockPair { on: of(&pair.on)?, off: of(&pair.off)? }));
    let values: Option<Vec<BlockPair>> = values.collect();
    block_effect(&values?)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Time left out at the beginning of each block.
const GUARD: Nanos = Nanos::from_millis(200);
/// A block whose readings come later than this after their instants is not counted.
const LATEST_READING: Nanos = Nanos::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockPlan {
    start: Time,
    length: Nanos,
    /// Length of the measured phase; `None` where it has no planned end.
    measure: Option<Nanos>,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlannedBlock {
    /// Number from 0 on; 2 n and 2 n + 1 are a pair.
    number: u64,
    start: Time,
    counted_from: Time,
    end: Time,
    on: bool,
}

impl BlockPlan {
    /// The blocks in the order of time: whole pairs only. Behind them sampling is on.
    fn blocks(self) -> impl Iterator<Item = PlannedBlock> {
        let pairs = self.measure.map_or(u64::MAX / 2, |measure| measure.0 / (2 * self.length.0));
        let order = BlockOrder::new(self.seed);
        (0..pairs.saturating_mul(2)).zip(order).map(move |(number, on)| {
            let start = self.start + Nanos(self.length.0.saturating_mul(number));
            PlannedBlock { number, start, counted_from: start + GUARD, end: start + self.length, on }
        })
    }
}

/// A completed block, and the usage of processes at the ends of its counted part.
#[derive(Clone, Copy, Debug)]
struct SwitchedBlock {
    block: PlannedBlock,
    from: Reading,
    to: Reading,
    /// Sampling was switched, and the readings were taken, when they should have been.
    is_in_time: bool,
}

/// Where usage is read beside the run's own readings.
type BlockUsage = Box<dyn UsageSource + Send>;

/// The thread that switches sampling and reads usage.
#[derive(Debug)]
struct Switching {
    thread: JoinHandle<Vec<SwitchedBlock>>,
    stop: Arc<AtomicBool>,
}

impl Switching {
    /// Switches as planned; `None` where the system gives no thread.
    fn start(plan: BlockPlan, switches: Vec<SamplingSwitch>, usage: BlockUsage) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker { switches, usage, stop: Arc::clone(&stop), is_on: true };
        let thread = thread::Builder::new().name("profiling blocks".into());
        let thread = thread.spawn(move || worker.run(plan)).ok()?;
        Some(Self { thread, stop })
    }

    /// No block that has not ended is counted, and sampling stays on.
    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
    }

    fn finish(self) -> Vec<SwitchedBlock> {
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
        let done = plan.blocks().map_while(|block| self.block(block)).collect();
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
            is_in_time: is_switched && in_time(&from, block.counted_from) && in_time(&to, block.end),
        })
    }

    /// Whether sampling is now as it should be.
    fn switch(&mut self, on: bool) -> bool {
        let was_on = std::mem::replace(&mut self.is_on, on);
        let mut switches = self.switches.iter().filter(|_| on != was_on);
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
mod tests;
