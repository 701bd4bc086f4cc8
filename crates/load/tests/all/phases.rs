//! A latency belongs to the phase in which its message was due, whenever the answer comes: under stalls
//! that cross the beginning and the end of the measured phase, each phase has as many latencies as
//! messages were due in it, and none of them is longer than the stalls make it. In virtual time, but for programs.

use broker::{Config, Fault, FaultKind, FaultLog, Origin};
use load::payload::FULL_LEN;
use load::{Control, Destination, Plan, RunEvent, Sink};
use measure::{Interval, Metric, Nanos, Phase, Recorder};
use testkit::Random;

use crate::common;
use crate::world::InMemory;

const RATE: u64 = 200;
/// Milliseconds that lie between two messages, and one more.
const BETWEEN: u64 = 1_000 / RATE + 1;

/// Begin and end of a stall in milliseconds after the load's start.
type Stall = (u64, u64);

struct Case {
    warmup: u64,
    measure: u64,
    stalls: Vec<Stall>,
    /// Too small for the trace_header that holds the sending time.
    size: usize,
    threads: usize,
}

struct Heard {
    log: FaultLog,
    warmup: Recorder,
    measured: Recorder,
}

impl Sink for Heard {
    fn interval(&mut self, interval: &Interval) {
        for (phase, sum) in [(Phase::Warmup, &mut self.warmup), (Phase::Measure, &mut self.measured)] {
            sum.add_due(phase, interval.histograms()).expect("one shape");
        }
    }

    fn event(&mut self, event: RunEvent) {
        if let RunEvent::Started { at } = event {
            self.log.begin(at);
        }
    }
}

impl Heard {
    fn new(log: FaultLog) -> Self {
        Self { log, warmup: Recorder::new(), measured: Recorder::new() }
    }
}

fn played(case: &Case) -> Heard {
    let stall = |&(from, to): &Stall| Fault {
        at: Some(Nanos::from_millis(from)),
        length: Some(Nanos::from_millis(to - from)),
        ..Fault::new(FaultKind::Stall)
    };
    let config =
        Config { faults: case.stalls.iter().map(stall).collect(), fault_origin: Origin::Declared, ..Config::default() };
    let broker = InMemory::new(config);
    let mut group = common::group(broker.local_addr(), Destination::queue("q"), (2, 1));
    group.producers.arrivals = common::rate(RATE as f64);
    // Whoever has no room at the end never sends.
    group.producers.max_pending = 10_000;
    group.producers.sizes = case.size.into();
    let phases = common::phases(case.warmup, case.measure, 10_000);
    let plan = Plan { groups: vec![group], threads: case.threads, phases, ..Plan::default() };
    let mut heard = Heard::new(broker.fault_log());
    let outcome = load::run_in(&broker.world, &plan, &Control::new(), &mut heard).expect("load");
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_eq!(outcome.unconfirmed, 0, "{outcome:?}");
    heard
}

/// The longest that a message of a phase can have waited for the end of a stall.
fn longest(case: &Case, from: u64, to: u64) -> u64 {
    let reach = |&(begin, end): &Stall| {
        // Who is due in the stall waits for its end; what is due before it may be hit on its way.
        (begin < to && end > from).then(|| end - begin.max(from))
    };
    case.stalls.iter().filter_map(reach).max().unwrap_or(0)
}

fn check(case: &Case) {
    let heard = played(case);
    let end = case.warmup + case.measure;
    for (recorder, from, to) in [(&heard.warmup, 0, case.warmup), (&heard.measured, case.warmup, end)] {
        let due = (to - from) * RATE / 1_000;
        let transfer = (case.size >= FULL_LEN).then_some(Metric::TRANSFER);
        for metric in [Metric::SEND_DELAY, Metric::ACK_RESPONSE, Metric::END_TO_END].into_iter().chain(transfer) {
            let name = metric.name();
            let histogram = recorder.histogram(metric);
            assert_eq!(histogram.len(), due, "{name} of {from} to {to} ms");
            // What waited is sent and answered one after the other.
            let longest = longest(case, from, to) + 10;
            let most = histogram.max() / 1_000_000;
            assert!(most < longest, "{name} of {from} to {to} ms: {most} ms");
        }
        // Whoever is due at the beginning of a stall waits for all of it.
        let felt = case.stalls.iter().map(|(begin, end)| (from.max(*begin), *end));
        let felt = felt.filter(|(begin, end)| begin + BETWEEN < to && begin + BETWEEN < *end);
        let least = felt.map(|(begin, end)| end - begin - BETWEEN).max().unwrap_or(0);
        let most = recorder.histogram(Metric::ACK_RESPONSE).max() / 1_000_000;
        assert!(most >= least, "response of {from} to {to} ms: {most} ms, not {least} ms");
    }
}

#[test]
fn each_phase_has_as_many_latencies_as_messages_were_due_in_it() {
    let mut random = Random::new(1);
    let mut below = |bound: u64| random.below(bound);
    for round in 0..200 {
        let warmup = (below(3) * 400).max(5);
        let measure = 600 + below(3) * 200;
        let mut stalls = Vec::new();
        let mut from = below(400);
        while from < warmup + measure {
            let to = from + 20 + below(600);
            stalls.push((from, to));
            from = to + 50 + below(400);
        }
        let size = [12, 16, 32, 100][below(4) as usize];
        let case = Case { warmup, measure, stalls, size, threads: 1 + below(2) as usize };
        eprintln!("{round}: {warmup} {measure} {:?}", case.stalls);
        check(&case);
    }
}

#[test]
fn other_programs_messages_belong_to_the_phase_that_they_were_due_in() {
    let broker = common::embedded();
    let mut sending = common::group(broker.local_addr(), Destination::queue("q"), (1, 0));
    sending.producers.arrivals = common::rate(RATE as f64);
    let sender = common::measured(sending, 2_000);
    let receiving = common::group(broker.local_addr(), Destination::queue("q"), (0, 1));
    let receiver = Plan { groups: vec![receiving], phases: common::phases(500, 500, 10_000), ..Plan::default() };
    let (mut sent, mut received) = (Heard::new(broker.fault_log()), Heard::new(broker.fault_log()));
    std::thread::scope(|scope| {
        scope.spawn(|| load::run(&sender, &Control::new(), &mut sent).expect("load"));
        std::thread::sleep(std::time::Duration::from_millis(400));
        load::run(&receiver, &Control::new(), &mut received).expect("load");
    });
    let count = received.measured.histogram(Metric::END_TO_END).len();
    assert!((99..=101).contains(&count), "{count} of 100 messages");
    // With what had piled up before.
    let before = received.warmup.histogram(Metric::END_TO_END).len();
    assert!(before > 150, "{before}");
}
