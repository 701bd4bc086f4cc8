use linux::ProcessUse;

use super::*;

const MS: u64 = 1_000_000;
const START: Time = Time(7_000_000_000);

fn plan(measure: Option<u64>) -> BlockPlan {
    BlockPlan { start: START, length: Nanos::SECOND, measure: measure.map(Nanos::from_millis), seed: 3 }
}

/// A slice of 100 ms that begins this many milliseconds after the measured phase, and ends a bit late.
fn slice(at_ms: u64, sent: u64, received: u64, latency: Nanos) -> Slice {
    let mut slice = Slice::default();
    slice.reset(START + Nanos(at_ms * MS + 300_000), Phase::Measure);
    slice.end = START + Nanos((at_ms + 100) * MS + 300_000);
    slice.counters.sent = sent;
    slice.counters.received = received;
    slice.latencies.record_n(Metric::END_TO_END, latency, received);
    slice
}

/// Usage up to an instant of a broker that uses so many cores.
fn reading(at: Time, broker_cpu: Nanos) -> Reading {
    let used = |cpu| Some(ProcessUse { cpu, ..ProcessUse::default() });
    Reading { at, broker: used(broker_cpu), client: used(Nanos(broker_cpu.0 / 2)), machine: None }
}

/// Samples cost 10 % of the rate and a quarter more CPU a message; `noise` is a factor of both for each block.
struct PlayedBlocks {
    switched: Vec<SwitchedBlock>,
    counted: Vec<BlockCount>,
}

fn play(pairs: u64, noise: impl Fn(u64) -> f64) -> PlayedBlocks {
    let blocks: Vec<PlannedBlock> = plan(Some(2_000 * pairs)).blocks().collect();
    let mut counts = BlockCounts::of(blocks.clone().into_iter());
    let mut switched = Vec::new();
    for block in blocks {
        let factor = noise(block.number);
        let (rate, cpu_us, ms) = if block.on { (9_000.0 * factor, 50.0, 20) } else { (10_000.0 * factor, 40.0, 10) };
        for tenth in 0..10 {
            // What passes in the guard belongs to nobody.
            let each = if tenth < 2 { 77 } else { (rate / 10.0) as u64 };
            let at = block.number * 1_000 + tenth * 100;
            counts.add(&slice(at, each - 5, each, Nanos(ms * MS)), None);
        }
        let before = Nanos(1_000_000_000 * (block.number + 1));
        let cores = rate * cpu_us / 1e6;
        let length = block.end.since(block.counted_from);
        switched.push(SwitchedBlock {
            block,
            from: reading(block.counted_from, before),
            to: reading(block.end, before + Nanos((length.0 as f64 * cores) as u64)),
            is_in_time: true,
        });
    }
    PlayedBlocks { switched, counted: counts.finish() }
}

fn effect(played: &PlayedBlocks, paced: bool) -> ObserverEffect {
    super::effect(&pairs(&played.switched, &played.counted), played.switched.len() / 2, paced)
}

fn close(value: f64, expected: f64, by: f64) -> bool {
    (value - expected).abs() <= by
}

#[test]
fn slices_are_counted_in_the_block_that_they_lie_in_and_not_in_its_guard() {
    let played = play(3, |_| 1.0);
    assert_eq!(played.counted.len(), 6);
    for (count, switched) in played.counted.iter().zip(&played.switched) {
        let each = if switched.block.on { 900 } else { 1_000 };
        assert_eq!((count.received, count.sent), (8 * each, 8 * (each - 5)));
        assert!(close(count.seconds, 0.8, 1e-9), "{count:?}");
        let p99 = count.end_to_end.unwrap() / MS;
        assert_eq!(p99, if switched.block.on { 20 } else { 10 });
        assert_eq!(count.ack_response, None, "nothing was acknowledged");
    }
}

#[test]
fn what_profiling_costs_is_found_again() {
    // Rates wander by several percent from pair to pair, and by half a percent from block to block.
    let noise = |block: u64| {
        let pair = block / 2;
        (1.0 + (pair * 7 % 5) as f64 * 0.02) * (1.0 + (block * 13 % 7) as f64 * 0.001)
    };
    let found = effect(&play(12, noise), false);
    assert_eq!((found.pairs, found.left_out), (12, 0));
    let rate = found.rate.unwrap();
    assert!(close(rate.change, -0.10, 0.005), "{rate:?}");
    assert!(rate.low < -0.10 && rate.high > -0.101 && rate.high < -0.09, "{rate:?}");
    assert!(rate.is_told() && rate.visible < 0.01, "{rate:?}");
    assert!(rate.sign_flip_p.unwrap() < 0.001, "{rate:?}");
    let cpu = found.broker_cpu_us.unwrap();
    assert!(close(cpu.off, 40.0, 0.1) && close(cpu.change, 0.25, 0.003), "{cpu:?}");
    let client = found.client_cpu_us.unwrap();
    assert!(close(client.off, 20.0, 0.1), "{client:?}");
    let p99 = found.p99_ns.unwrap();
    assert!(close(p99.change, 1.0, 0.01), "{p99:?}");
    assert_eq!(found.latency, "end-to-end");
}

#[test]
fn blocks_that_were_late_cut_short_or_empty_are_left_out_with_their_pair_and_one_pair_tells_nothing() {
    let mut played = play(6, |_| 1.0);
    played.switched[0].is_in_time = false;
    played.counted[5].seconds = 0.3;
    (played.counted[6].sent, played.counted[6].received) = (0, 0);
    let found = effect(&played, false);
    assert_eq!((found.pairs, found.left_out), (3, 3));
    assert!(close(found.rate.unwrap().change, -0.10, 1e-3));
    // A block without its partner is no pair.
    played.switched.pop();
    assert_eq!(effect(&played, false).pairs, 2);
    let mut played = play(4, |_| 1.0);
    played.switched[3].to.broker = None;
    let found = effect(&played, false);
    assert_eq!((found.pairs, found.broker_cpu_us), (4, None));
    assert!(found.rate.is_some());
    assert_eq!(effect(&play(1, |_| 1.0), false).rate, None);
    let paced = effect(&play(5, |_| 1.0), true);
    assert!(paced.paced && paced.rate.is_none(), "a requested rate has no effect of its own");
    assert!(paced.broker_cpu_us.is_some() && paced.p99_ns.is_some());
    let nothing = effect(&play(0, |_| 1.0), false);
    assert_eq!((nothing.pairs, nothing.rate, nothing.p99_ns), (0, None, None));
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
    assert_eq!(planned.last().unwrap().end, START + Nanos::from_millis(10_000));
}

struct Nothing;

impl UsageSource for Nothing {
    fn read(&mut self) -> Reading {
        Reading { at: Clock.now(), ..Reading::default() }
    }
}

#[test]
fn a_thread_that_is_stopped_hands_over_the_blocks_that_have_ended() {
    let plan = BlockPlan { start: Clock.now(), length: Nanos::from_millis(300), ..plan(None) };
    let switching = Switching::start(plan, Vec::new(), Box::new(Nothing)).unwrap();
    thread::sleep(Duration::from_millis(750));
    let blocks = switching.finish();
    assert!((1..=2).contains(&blocks.len()), "{blocks:?}");
    let first = &blocks[0];
    assert!(first.from.at >= first.block.counted_from && first.to.at >= first.block.end);
}
