//! Shares of a load beside each other, each with a coordinator of its own, against one embedded broker, and what one
//! process makes of the whole.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use broker::{Amount, Fault, FaultKind};
use load::scenario::{Scenario, Shares, run, run_plan};
use load::{
    ArrivalProcess, ArrivalSchedule, Control, Destination, Error, Group, Outcome, Phases, Placement, Plan, RateProfile,
    RunEvent, Share, Sink, SliceSink, Spacing, StartBarrier, Trace,
};
use measure::ledger::LedgerSummary;
use measure::{Counters, Interval, Metric, Nanos, Phase, Rate, Slice};
use testkit::Random;

use crate::common;
use crate::world::{self, Pace, World};

/// A worker's share of a load in a world.
struct Carried {
    world: World,
    plan: Plan,
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.share.fmt(f)
    }
}

impl Scenario for Carried {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn subject(&self) -> &str {
        "messages"
    }

    fn connections(&self) -> u64 {
        Scenario::connections(&self.plan)
    }

    fn phases(&self) -> Phases {
        self.plan.phases
    }

    fn run(&self, together: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error> {
        let mut run = || run_plan(&self.world, &self.plan, together, control, sink);
        match self.plan.share {
            Some(share) => self.world.beside(share.worker as usize, share.workers as usize, &mut run),
            None => run(),
        }
    }
}

/// Bounds since the start, counters and latencies of a slice.
type Seen = (Phase, Nanos, Nanos, Counters, Vec<(Metric, Vec<(Nanos, u64)>)>);

#[derive(Default)]
struct Kept {
    slices: Vec<Slice>,
    all: Interval,
    events: Vec<RunEvent>,
}

impl Sink for Kept {
    fn interval(&mut self, merged: &Interval) {
        self.all.merge(merged);
    }

    fn slice(&mut self, slice: &Slice) {
        self.slices.push(slice.clone());
    }

    fn event(&mut self, event: RunEvent) {
        self.events.push(event);
    }
}

impl Kept {
    /// Slices before the drain, which lasts until the last share has all.
    fn seen(&self, outcome: &Outcome) -> Vec<Seen> {
        let slices = self.slices.iter().filter(|it| it.phase != Phase::Drain);
        let seen = |slice: &Slice| {
            let latencies = slice.latencies.filled().map(|(metric, all)| (metric, all.iter().collect()));
            let since = |at: measure::Time| at.since(outcome.start);
            (slice.phase, since(slice.start), since(slice.end), slice.counters, latencies.collect())
        };
        slices.map(seen).collect()
    }

    fn notes(&self) -> usize {
        let is_idle = |event: &&RunEvent| matches!(event, RunEvent::Note(text) if text.contains("has nothing to do"));
        self.events.iter().filter(is_idle).count()
    }
}

/// Runs a plan as so many shares; whole, as one process does, where there is none.
fn carried(world: &World, plan: &Plan, workers: u32) -> (Outcome, Kept) {
    let carried = |plan: Plan| -> Box<dyn Scenario> { Box::new(Carried { world: world.clone(), plan }) };
    let shares = (0..workers).map(|worker| carried(plan.clone().divided(Share { worker, workers })));
    let scenario = match workers {
        0 => carried(plan.clone()),
        _ => Box::new(Shares::new(plan.clone(), shares.collect())),
    };
    let mut kept = Kept::default();
    let outcome = run(&[scenario], &Control::new(), &mut kept).expect("the load starts");
    assert_eq!(outcome.error, None, "{outcome:?}");
    (outcome, kept)
}

/// A world without chance, in which nobody waits for a core: a load's latencies are those of its own queues alone.
fn exact_world() -> (World, SocketAddr) {
    let pace = Pace { loop_ns: (0, 0), host_ns: (0, 0), travel_ns: (20_000, 20_000), ..Pace::default() };
    let world = World::new(1, pace);
    let broker = world.broker(broker::Config::default());
    (world, broker)
}

fn group(broker: SocketAddr, names: &[&str], clients: (usize, usize)) -> Group {
    let mut group = common::group(broker, Destination::queue("none"), clients);
    group.destinations = names.iter().map(|name| Destination::parse(name).expect("a destination")).collect();
    group.producers.sizes = 40.into();
    group
}

/// 400 messages of random sizes in 0.9 s, many at a time, from producers with small windows to consumers that work on
/// each, and random arrivals to two of the same queues.
fn replayed(broker: SocketAddr, seed: u64) -> Plan {
    let mut random = Random::new(seed);
    let mut times: Vec<u64> = (0..40).map(|_| random.below(900)).collect();
    times.sort_unstable();
    let mut text = String::new();
    for time in times {
        for _ in 0..10 {
            writeln!(text, "0.{time:03},{}", 40 + random.below(2_000)).expect("memory");
        }
    }
    let trace = Arc::new(Trace::parse(text.as_bytes(), "trace").expect("a trace"));
    let profile = RateProfile::Trace { trace, every: None };
    let mut played = group(broker, &["a", "b", "c", "topic://t", "d"], (2, 2));
    played.producers.arrivals = ArrivalProcess::Scheduled(ArrivalSchedule::new(profile, Spacing::Even, false));
    played.producers.max_pending = 3;
    played.consumers.service = common::work(Nanos::from_micros(1_700));
    let mut random = group(broker, &["b", "d"], (1, 0));
    let rate = RateProfile::Constant(Rate::per_second(150.0).expect("a rate"));
    random.producers.arrivals = ArrivalProcess::Scheduled(ArrivalSchedule::new(rate, Spacing::Poisson { seed }, false));
    random.producers.max_pending = 10;
    Plan {
        groups: vec![played, random],
        threads: 2,
        run_id: 5,
        phases: common::phases(200, 800, 3_000),
        ..Plan::default()
    }
}

#[test]
fn what_shares_count_and_measure_is_what_one_process_does() {
    for seed in testkit::seeds(2) {
        let of = |workers, placement| {
            let (world, broker) = exact_world();
            let mut plan = replayed(broker, seed);
            plan.groups.iter_mut().for_each(|group| group.placement = placement);
            carried(&world, &plan, workers)
        };
        let (one, told) = of(0, Placement::Together);
        let (sent, ledger) = (one.totals.sent, one.ledger.expect("a ledger"));
        assert!(sent > 450 && ledger.exact && ledger.delivered > sent, "{one:?}");
        assert_eq!(told.seen(&one).len(), 10);
        // One message waits for the other: latencies tell of more than the way.
        let end_to_end = told.all.latencies.histogram(Metric::END_TO_END);
        assert!(end_to_end.max() > 4 * end_to_end.min(), "{end_to_end:?}");
        let all = [1, 2, 3, 7].map(|workers| [(workers, Placement::Together), (workers, Placement::Spread)]);
        for (workers, placement) in all.into_iter().flatten() {
            let (sum, summed) = of(workers, placement);
            let place = format!("seed {seed}, {workers} workers, {placement:?}");
            assert_eq!((sum.totals, sum.measured, sum.ledger), (one.totals, one.measured, one.ledger), "{place}");
            assert_eq!(sum.unconfirmed, one.unconfirmed, "{place}");
            assert_eq!(summed.seen(&sum), told.seen(&one), "{place}");
            let waits = |kept: &Kept| kept.all.waits.producing().as_secs_f64();
            assert!((0.9..1.1).contains(&(waits(&summed) / waits(&told))), "{place}: all producers wait");
            for metric in Metric::MESSAGES {
                let (sum, one) = (&summed.all.latencies, &told.all.latencies);
                assert!(sum.histogram(metric) == one.histogram(metric), "{place}: {}", metric.key());
            }
            // Five parts, "b" and "d" are those of both groups: six workers where their consumers are on the next one.
            let busy = if placement == Placement::Spread { 6 } else { 5 };
            assert_eq!(summed.notes(), workers.saturating_sub(busy) as usize, "{place}");
            assert!(sum.threads.len() >= workers as usize, "{place}");
        }
    }
}

/// Whatever a broker loses, repeats and reorders is counted, also where another worker has the consumers.
fn problem_of_spread_ledger(seed: u64) -> Option<String> {
    let mut random = Random::new(seed);
    let kinds = [
        FaultKind::Lose,
        FaultKind::Duplicate { redelivered: false },
        FaultKind::Duplicate { redelivered: true },
        FaultKind::Reorder { by: 1 + random.below(5) as u32 },
    ];
    let fault = |random: &mut Random| {
        let amount = Amount::Every(2 + random.below(30));
        Fault { amount, ..Fault::new(random.of(&kinds)) }
    };
    let faults: Vec<Fault> = (0..1 + random.below(3)).map(|_| fault(&mut random)).collect();
    let (size, consumers) = (random.of(&[17_usize, 24, 40]), 1 + random.below(2) as usize);
    for workers in [0, 2, 3, 5] {
        let (world, _) = exact_world();
        let broker = world.broker(broker::Config { faults: faults.clone(), ..broker::Config::default() });
        let mut group = group(broker, &["a", "b", "c"], (1, consumers));
        group.placement = Placement::Spread;
        group.producers.sizes = size.into();
        group.producers.arrivals = common::rate(400.0);
        let phases = common::phases(0, 300, 450);
        let plan = Plan { groups: vec![group], threads: 2, run_id: 5, phases, ..Plan::default() };
        let log = world.with_broker(broker, |it| it.fault_log());
        let (outcome, _) = carried(&world, &plan, workers);
        let injected = log.injections();
        let count = |of: &dyn Fn(&FaultKind) -> bool| -> u64 {
            let hit = faults.iter().zip(&injected.faults).filter(|(fault, _)| of(&fault.kind));
            hit.map(|(_, done)| done.count).sum()
        };
        let lost = count(&|kind| *kind == FaultKind::Lose);
        let expected = LedgerSummary {
            sent: injected.published,
            delivered: injected.published - lost,
            lost,
            duplicated: count(&|kind| *kind == FaultKind::Duplicate { redelivered: false }),
            duplicated_redelivered: count(&|kind| *kind == FaultKind::Duplicate { redelivered: true }),
            reordered: count(&|kind| matches!(kind, FaultKind::Reorder { .. })),
            exact: true,
            ..LedgerSummary::default()
        };
        if outcome.ledger != Some(expected) || outcome.totals.sent != injected.published {
            return Some(format!("{workers} workers, {faults:?}: {:?} in place of {expected:?}", outcome.ledger));
        }
    }
    None
}

#[test]
fn a_ledger_whose_producers_and_consumers_are_apart_is_exact() {
    world::prove(
        10,
        "--test all shares::a_ledger_whose_producers_and_consumers_are_apart_is_exact",
        problem_of_spread_ledger,
    );
}

/// The first group has sent all after 0.2 s, the second after 1 s; the third would never end.
#[test]
fn counted_shares_wait_for_each_other_and_end_the_others() {
    let of = |workers| {
        let (world, broker) = exact_world();
        let [mut short, mut long, mut endless] =
            ["short", "long", "endless"].map(|name| group(broker, &[name], (1, 1)));
        for (group, count) in [(&mut short, Some(20)), (&mut long, Some(100)), (&mut endless, None)] {
            group.producers.arrivals = common::rate(100.0);
            group.producers.message_count = count;
            group.queues.delete = true;
        }
        let plan = Plan { groups: vec![short, long, endless], ..Plan::default() };
        let (outcome, kept) = carried(&world, &plan, workers);
        let left = ["short", "long", "endless"].map(|queue| world.with_broker(broker, |it| it.depth(queue)));
        assert_eq!(left, [None; 3], "each deletes its own");
        (outcome, kept.notes())
    };
    let (one, _) = of(0);
    for workers in [2, 3, 4] {
        let (outcome, notes) = of(workers);
        let (sent, ledger) = (outcome.totals.sent, outcome.ledger.expect("a ledger"));
        assert!(sent >= 120 && sent.abs_diff(one.totals.sent) <= 12, "{workers} workers: {sent}");
        assert_eq!((ledger.delivered, ledger.exact), (sent, true), "{workers} workers");
        assert_eq!((outcome.interrupted, notes), (false, usize::from(workers == 4)), "{workers} workers");
    }
}

/// A share prepares what is its own: the other's queue keeps what it holds, and a queue of nobody's is not made.
#[test]
fn a_share_touches_its_own_destinations_alone() {
    let (world, broker) = exact_world();
    let mut filling = group(broker, &["a", "b"], (1, 0));
    filling.producers.message_count = Some(10);
    carried(&world, &Plan { groups: vec![filling], ..Plan::default() }, 0);
    let mut purging = group(broker, &["a", "b", "c"], (0, 1));
    purging.queues = load::QueueHandling { purge: true, delete: true, ..purging.queues };
    let plan = Plan { groups: vec![purging], phases: common::phases(0, 100, 100), ..Plan::default() };
    let share = plan.divided(Share { worker: 0, workers: 3 });
    assert_eq!((Scenario::connections(&share), share.in_flight_limit()), (1, Some(0)));
    let (outcome, _) = world.run_to_end(&share, |world, _| {
        let depths = ["a", "b", "c"].map(|queue| world.with_broker(broker, |it| it.depth(queue)));
        assert_eq!(depths, [Some(0), Some(5), None]);
    });
    assert_eq!((outcome.totals.received, outcome.ledger), (0, None));
    let depths = ["a", "b"].map(|queue| world.with_broker(broker, |it| it.depth(queue)));
    assert_eq!(depths, [None, Some(5)]);
}

/// A worker's load: somebody elsewhere says when it starts and, when all workers' messages are sent, when it ends.
#[test]
fn a_share_that_is_led_starts_and_ends_at_the_instants_that_it_is_told() {
    let (world, broker) = exact_world();
    let mut counted = group(broker, &["a", "b"], (1, 1));
    counted.producers.arrivals = common::rate(100.0);
    counted.producers.message_count = Some(50);
    let plan = Plan { groups: vec![counted], ..Plan::default() }.divided(Share { worker: 1, workers: 2 });
    let ms = |ms| world.time() + Nanos::from_millis(ms);
    let (start, end) = (ms(600), ms(1_500));
    let together = Arc::new(StartBarrier::led());
    let (leader, other) = (Arc::clone(&together), Arc::clone(&together));
    world.at(ms(500), move |_| {
        assert!(leader.is_ready() && !leader.is_done());
        leader.start_at(start);
    });
    let late = Nanos::from_millis(5);
    world.at(ms(590), move |world| world.stop_loop(0, start + late));
    world.at(ms(1_300), move |_| {
        assert!(other.is_done(), "its 25 messages are sent");
        other.end(end);
    });
    let outcome = run_plan(&world, &plan, &together, &Control::new(), &mut common::Deaf).expect("it starts");
    let measured = outcome.phases.iter().find(|it| it.phase == Phase::Measure).expect("measured");
    assert_eq!((outcome.start, measured.start, measured.end), (start, start, end));
    assert_eq!((outcome.totals.sent, outcome.ledger.map(|it| it.delivered)), (25, Some(25)));
    let lateness = outcome.threads[0].start_lateness;
    assert!((late..late + late).contains(&lateness), "{lateness:?}");
}
