//! Series and histograms of a made-up load: warm-up, two modes of latency, a stall, a drain.

use std::ops::Range;

use archive::{ProcessUsage, RunWriter, ScenarioPoint, SeriesPoint, SlicePoint};
use measure::{Counters, Interval, Metric, Nanos, Phase, Slice, Waits};

use crate::random::Random;
use crate::{ORIGIN, State};

/// Kind of load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Publishing into a stream as fast as it goes.
    AllOut,
    /// 20,000 msg/s in and out of quorum queues.
    Rate,
    /// In and out, nothing known of the broker.
    Bare,
}

/// Recorded seconds, and their sum over the measured phase.
pub(crate) struct Run {
    pub(crate) points: Vec<SeriesPoint>,
    pub(crate) measured: Interval,
}

const WARMUP: u32 = 5;
const RATE: f64 = 20_000.0;

pub(crate) fn write(writer: &mut RunWriter, state: &State) -> Run {
    let mut random = Random(7);
    let mut measured = Interval::new();
    measured.reset(ORIGIN + Nanos::from_secs_f64(f64::from(WARMUP)), Phase::Measure);
    let mut points = Vec::new();
    let cut_off = state.state == archive::RunState::Running;
    let seconds = WARMUP + if cut_off { state.seconds / 2 } else { state.seconds };
    let mut interval = Interval::new();
    let mut backlog = 0.0;
    for second in 0..=seconds {
        let phase = match second {
            _ if second == seconds => Phase::Drain,
            s if s < WARMUP => Phase::Warmup,
            _ => Phase::Measure,
        };
        if phase == Phase::Drain && (cut_off || state.load.is_none()) {
            break;
        }
        let length = if phase == Phase::Drain { 0.42 } else { 1.0 };
        interval.reset(ORIGIN + Nanos::from_secs_f64(f64::from(second)), phase);
        interval.end = interval.start + Nanos::from_secs_f64(length);
        if let Some(shape) = state.load {
            fill(&mut interval, shape, second, state.seconds, &mut backlog, &mut random);
        }
        if state.faults {
            if crate::faults::HOLE.contains(&second) {
                continue;
            }
            crate::faults::fill(&mut interval, &mut random);
        }
        let point = point(&interval, second, length, state, &mut random);
        writer.append_point(&point);
        if state.further || state.hostile {
            crate::named::write(writer, second, state);
        }
        let silent = if is_stall(second, state.seconds) { 4..6 } else { 0..0 };
        slices(writer, &interval, &silent, point.requested_rate);
        writer.append_histograms(&interval);
        if phase == Phase::Measure {
            measured.merge(&interval);
        }
        points.push(point);
    }
    Run { points, measured }
}

/// Writes an interval's tenths of a second: equal parts of it, but nothing in those that are `silent`.
fn slices(writer: &mut RunWriter, interval: &Interval, silent: &Range<u64>, requested: Option<f64>) {
    let tenth = Nanos::from_millis(100);
    let count = interval.length().0.div_ceil(tenth.0);
    let gap = silent.end - silent.start;
    let loud = count - gap;
    let mut slice = Slice::default();
    let latencies = interval.latencies.filled().flat_map(|(metric, histogram)| {
        let buckets = (0..).zip(histogram.iter_recorded());
        buckets.map(move |(turn, it)| {
            let value = Nanos(it.value_iterated_to());
            (metric, turn, value, it.count_since_last_iteration())
        })
    });
    let latencies: Vec<_> = latencies.collect();
    for number in 0..count {
        slice.reset(interval.start + Nanos(number * tenth.0), interval.phase);
        slice.end = (slice.start + tenth).min(interval.end);
        if !silent.contains(&number) {
            let of = number - if number < silent.start { 0 } else { gap };
            // Remainders go to different slices.
            let part = |whole: u64, turn: u64| {
                let at = (of + turn) % loud;
                whole * (at + 1) / loud - whole * at / loud
            };
            let whole = interval.counters;
            slice.counters.sent = part(whole.sent, 0);
            slice.counters.completed = part(whole.completed, 0);
            slice.counters.received = part(whole.received, 0);
            let counts = interval.counts.iter();
            slice.counts = counts.map(|(metric, it)| (metric, part(it, 0))).collect();
            for &(metric, turn, value, whole) in &latencies {
                let count = part(whole, turn);
                if count > 0 {
                    slice.latencies.record_n(metric, value, count);
                }
            }
        }
        let t = slice.start.since(ORIGIN).as_secs_f64();
        writer.append_slice(&SlicePoint::of(&slice, t, requested));
    }
}

/// The second in which the broker stands still for half of it.
const fn is_stall(second: u32, length: u32) -> bool {
    second == WARMUP + length * 9 / 20
}

fn fill(interval: &mut Interval, shape: Shape, second: u32, length: u32, backlog: &mut f64, random: &mut Random) {
    let stall = is_stall(second, length);
    let warm = (f64::from(second) / 3.0).min(1.0);
    let wobble = 1.0 + 0.03 * random.normal() + 0.04 * (f64::from(second) / 6.0).sin();
    let capacity = 54_800.0 * (0.35 + 0.65 * warm) * wobble * if stall { 0.55 } else { 1.0 };
    let (sent, received) = match shape {
        _ if interval.phase == Phase::Drain => (0.0, *backlog),
        Shape::AllOut => (capacity, 0.0),
        Shape::Rate | Shape::Bare => {
            let due = (*backlog + RATE).min(if stall { RATE * 0.5 } else { RATE * 1.35 });
            (RATE, due * (0.8 + 0.2 * warm))
        }
    };
    *backlog = (*backlog + sent - received).max(0.0);
    let counts = Counters {
        sent: sent as u64,
        completed: if interval.phase == Phase::Drain { 1_900 } else { sent as u64 },
        received: if shape == Shape::AllOut { 0 } else { received as u64 },
        blocked: if shape == Shape::AllOut { (sent * 0.93) as u64 } else { 0 },
        late: if stall { (sent * 0.5) as u64 } else { (sent * 0.0004) as u64 },
        ..Counters::default()
    };
    interval.counters = counts;
    interval.loop_lag_max = Nanos::from_micros(if stall { 900 } else { 60 + random.next() % 90 });
    let draws = 4_000;
    for _ in 0..draws {
        let each = (counts.completed / draws).max(1);
        record(interval, shape, stall, warm, each, counts.received > 0, random);
    }
}

fn record(
    interval: &mut Interval,
    shape: Shape,
    stall: bool,
    warm: f64,
    each: u64,
    consumed: bool,
    random: &mut Random,
) {
    // Two modes: most are confirmed in the batch at hand, some wait for the next.
    let (middle, spread) = match (shape, random.unit() < 0.18) {
        (Shape::AllOut, false) => (19.0, 0.16),
        (Shape::AllOut, true) => (34.0, 0.12),
        (_, false) => (0.75, 0.28),
        (_, true) => (3.4, 0.22),
    };
    let service = middle * (spread * random.normal()).exp() * (1.0 + 2.0 * (1.0 - warm));
    // Half the stalled second's messages wait for the rest of the stall.
    let wait = if stall && random.unit() < 0.5 { random.unit() * 500.0 } else { 0.0 };
    let delay = if shape == Shape::AllOut { 0.0 } else { 0.02 * (0.5 * random.normal()).exp() };
    let ns = |ms: f64| Nanos::from_secs_f64(ms / 1e3);
    let (late, slow) = if shape == Shape::AllOut { (0.0, wait) } else { (wait + delay, 0.0) };
    let recorder = &mut interval.latencies;
    recorder.record_n(Metric::SEND_ACK, ns(service + slow), each);
    recorder.record_n(Metric::ACK_RESPONSE, ns(service + slow + late), each);
    if shape != Shape::AllOut {
        recorder.record_n(Metric::SEND_DELAY, ns(late), each);
    }
    if consumed {
        let way = service * (0.9 + 0.3 * random.unit()) + 0.15;
        recorder.record_n(Metric::TRANSFER, ns(way), each);
        recorder.record_n(Metric::END_TO_END, ns(way + late), each);
    }
}

fn point(interval: &Interval, second: u32, length: f64, state: &State, random: &mut Random) -> SeriesPoint {
    let known = state.load != Some(Shape::Bare);
    let stall = state.load.is_some() && is_stall(second, state.seconds);
    let busy = match (interval.phase, stall) {
        (Phase::Drain, _) => 0.2,
        (_, true) => 0.55,
        _ => 1.22,
    };
    let grown = (f64::from(second) * 1.1e6) + 6e6 * (f64::from(second % 9) / 9.0);
    SeriesPoint {
        t: f64::from(second),
        dt: length,
        phase: interval.phase,
        requested_rate: (state.load == Some(Shape::Rate) && interval.phase != Phase::Drain).then_some(RATE),
        counters: interval.counters,
        latency: interval.latencies.messages(),
        loop_lag_max_ns: interval.loop_lag_max.0,
        broker: known.then(|| ProcessUsage {
            cpu_cores: busy * (1.0 + 0.04 * random.normal()),
            rss_bytes: (148e6 + grown) as u64,
            threads: 34,
        }),
        client: Some(ProcessUsage {
            cpu_cores: 0.11 * (1.0 + 0.08 * random.normal()),
            rss_bytes: 21_400_000,
            threads: 4,
        }),
        steal: Some(if second % 13 == 7 { 0.01 } else { 0.0 }),
        idle: None,
        waits: waits(state.load, stall, length),
        scenarios: ScenarioPoint::all_of(interval),
    }
}

/// Times that a producer and its event loop waited.
fn waits(load: Option<Shape>, stall: bool, length: f64) -> Waits {
    let part = |share: f64| Nanos::from_secs_f64(length * share);
    let (budget, schedule, ready) = match (load, stall) {
        (None | Some(Shape::Bare), _) => return Waits::default(),
        (Some(Shape::AllOut), false) => (0.93, 0.0, 0.07),
        (Some(Shape::AllOut), true) => (0.98, 0.0, 0.02),
        (Some(Shape::Rate), false) => (0.01, 0.97, 0.02),
        (Some(Shape::Rate), true) => (0.30, 0.50, 0.02),
    };
    Waits {
        ready: part(ready),
        schedule: part(schedule),
        budget: part(budget),
        socket: part(1.0 - ready - schedule - budget),
        loop_idle: part(if stall { 0.95 } else { 0.89 }),
        loop_time: part(1.0),
        ..Waits::default()
    }
}
