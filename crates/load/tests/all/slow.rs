//! Consumers that take their time, in virtual time: what they receive, how old it is by then and what the ledger
//! says follow a model of one queue and one server, however much may wait in the consumer's own memory.

use std::net::SocketAddr;

use load::{Ack, Destination, Group, Outcome, Phases, Plan, RunEvent, ServiceTime, Spin, StopCondition};
use measure::ledger::LedgerSummary;
use measure::{Length, Metric, Nanos, Rate, Time};
use testkit::Random;

use crate::common::{self, phases, rate, reconnect, work};
use crate::world::{self, Pace, Told, World};

const SCENES: u64 = 150;
/// The longest that a message is under way between two sides, and a loop late, at the default pace.
const ON_THE_WAY: u64 = 250_000;

#[derive(Debug)]
struct Scene {
    rate: u64,
    measure_ms: u64,
    drain_ms: u64,
    work_us: u64,
    /// It is the consumer's rate, and not its latency, which is half as long then.
    is_rate: bool,
    prefetch: u16,
    ack: Ack,
    poll_us: Option<u64>,
}

impl Scene {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        Self {
            rate: random.of(&[100, 400, 1_000, 5_000]),
            measure_ms: 200 + random.below(300),
            drain_ms: random.of(&[50, 300, 20_000]),
            work_us: random.of(&[500, 1_000, 2_000, 10_000]),
            is_rate: random.one_in(2),
            prefetch: random.of(&[0, 0, 0, 1, 10, 200]),
            ack: random.of(&[Ack::Auto, Ack::Every(1), Ack::Every(7)]),
            poll_us: random.of(&[None, None, None, Some(0), Some(3_000)]),
        }
    }

    fn messages(&self) -> u64 {
        (self.rate * self.measure_ms).div_ceil(1_000)
    }

    fn plan(&self, broker: SocketAddr) -> Plan {
        let mut group = group(broker);
        group.producers.per_destination = 1;
        group.producers.arrivals = rate(self.rate as f64);
        group.consumers.prefetch = self.prefetch;
        group.consumers.ack = self.ack;
        group.consumers.poll = self.poll_us.map(|us| Length(Nanos::from_micros(us)));
        // Of a rate and a latency the longer one counts.
        let (rate_us, latency_us) =
            if self.is_rate { (self.work_us, self.work_us / 2) } else { (self.work_us / 2, self.work_us) };
        group.consumers.service =
            ServiceTime { rate: Rate::per_second(1e6 / rate_us as f64), ..work(Nanos::from_micros(latency_us)) };
        Plan { phases: phases(0, self.measure_ms, self.drain_ms), ..plan(group) }
    }

    /// The earliest, and the latest, that each message is taken.
    fn taken(&self, start: Time) -> Vec<(Time, Time)> {
        let work = self.work_us * 1_000;
        let poll = self.poll_us.map(|us| us * 1_000);
        let every = match self.ack {
            Ack::Every(every) if self.prefetch > 0 => u64::from(every.min(self.prefetch.into())),
            Ack::Every(_) | Ack::Auto => 0,
        };
        // All that may come has come, and the next comes when it is acknowledged.
        let waits = every > 0 && u64::from(self.prefetch) < 2 * every;
        let after = |taken: Time| taken + Nanos(work.max(poll.unwrap_or(0)));
        let (mut least, mut most) = (start, start);
        let take = |n: u64| {
            let due = start + Nanos((u128::from(n) * 1_000_000_000 / u128::from(self.rate)) as u64);
            let late = match poll {
                Some(poll) => poll + 2 * ON_THE_WAY,
                None => ON_THE_WAY,
            };
            let gap = match poll {
                Some(_) => ON_THE_WAY,
                None if waits && n.is_multiple_of(every) => ON_THE_WAY,
                None => 0,
            };
            if n > 0 {
                (least, most) = (after(least), after(most) + Nanos(gap));
            }
            least = least.max(due);
            most = most.max(due + Nanos(late));
            (least, most + Nanos(ON_THE_WAY))
        };
        (0..self.messages()).map(take).collect()
    }
}

fn group(broker: SocketAddr) -> Group {
    let mut group = common::group(broker, Destination::queue("slow"), (0, 1));
    group.producers.sizes = 40.into();
    group.producers.max_pending = 10_000;
    group
}

fn plan(group: Group) -> Plan {
    Plan { groups: vec![group], run_id: 9, spin: Spin::Never, ..Plan::default() }
}

/// Runs a load; tells what the queue holds afterwards, too.
fn run(world: &World, plan: &Plan) -> (Outcome, Told, u64) {
    let (outcome, told) = world.run_to_end(plan, |_, _| {});
    world.pass(Nanos::from_millis(100));
    let address = SocketAddr::from(([127, 0, 0, 1], plan.groups[0].endpoint.port));
    let left = world.with_broker(address, |broker| broker.depth("slow"));
    (outcome, told, left.unwrap_or(0))
}

fn problem(seed: u64) -> Option<String> {
    let scene = Scene::random(seed);
    let world = World::new(seed, Pace::default());
    let broker = world.broker(broker::Config::default());
    let (outcome, told, left) = run(&world, &scene.plan(broker));
    let end = outcome.phases.last()?.end;
    let model = scene.taken(outcome.start);
    let count = |of: &dyn Fn(&(Time, Time)) -> Time| model.iter().filter(|both| of(both) < end).count() as u64;
    let (least, most) = (count(&|both| both.1), count(&|both| both.0));
    let received = outcome.totals.received;
    let histogram = told.measured.latencies.histogram(Metric::END_TO_END);
    let sum = histogram.mean() * histogram.len() as f64;
    let ages = |of: &dyn Fn(&(Time, Time)) -> Time| {
        let taken = model.iter().take(received as usize);
        let due = |n: usize| n as f64 * 1e9 / scene.rate as f64;
        taken.enumerate().map(|(n, both)| of(both).since(outcome.start).0 as f64 - due(n)).sum::<f64>()
    };
    let (youngest, oldest) = (ages(&|both| both.0), ages(&|both| both.1));
    let missing = scene.messages() - received.min(scene.messages());
    let ledger = LedgerSummary {
        sent: scene.messages(),
        delivered: received,
        outstanding: missing,
        exact: true,
        ..LedgerSummary::default()
    };
    // What was taken last may not be done; what nobody acknowledges is gone when it is sent.
    let may_be_left = match scene.ack {
        Ack::Auto => 0..=missing,
        Ack::Every(_) => missing..=missing + 1,
    };
    let wrong = [
        (!(least..=most).contains(&received), format!("received {received}, not {least} to {most}")),
        (
            histogram.len() != received || sum < youngest * 0.998 || sum > oldest * 1.002,
            format!("{sum} ns of latency, not {youngest} to {oldest}"),
        ),
        (outcome.ledger != Some(ledger), format!("{:?}, not {ledger:?}", outcome.ledger)),
        (!may_be_left.contains(&left), format!("{left} left in the queue, not {may_be_left:?}")),
    ];
    let wrong = wrong.into_iter().find(|(is, _)| *is)?.1;
    Some(format!("{wrong}\n{scene:#?}"))
}

#[test]
fn what_a_slow_consumer_receives_is_what_it_takes() {
    world::prove(SCENES, "--test all what_a_slow_consumer", problem);
}

/// A world with a broker that holds so many messages of another run, with or without a header.
fn filled(messages: u64, size: usize) -> (World, SocketAddr) {
    let world = World::new(1, Pace::default());
    let broker = world.broker(broker::Config::default());
    let mut group = group(broker);
    (group.producers.per_destination, group.consumers.per_destination) = (1, 0);
    group.producers.message_count = Some(messages);
    group.producers.sizes = size.into();
    let mut plan = plan(group);
    (plan.run_id, plan.ledger) = (1, size >= 12);
    let (outcome, ..) = run(&world, &plan);
    assert_eq!(outcome.totals.sent, messages);
    (world, broker)
}

#[test]
fn whoever_has_something_to_take_is_not_idle_nor_is_its_queue_empty() {
    for (messages, work_us, ack) in
        [(2_500, 1_000, Ack::Every(1)), (2_500, 1_000, Ack::Auto), (3, 1_300_000, Ack::Every(2))]
    {
        for (stop, size) in [(StopCondition::Idle, 40), (StopCondition::Empty, 8)] {
            let (world, broker) = filled(messages, size);
            let mut group = group(broker);
            group.consumers.ack = ack;
            group.consumers.service = work(Nanos::from_micros(work_us));
            let mut plan = plan(group);
            (plan.stop, plan.ledger) = (Some(stop), false);
            plan.phases = Phases { measure: None, drain: Nanos::ZERO, ..Phases::default() };
            let (outcome, _, left) = run(&world, &plan);
            assert_eq!((outcome.totals.received, left), (messages, 0), "{stop:?}");
            let took = outcome.phases.last().expect("a phase").end.since(outcome.start);
            let work = Nanos::from_micros(work_us * messages);
            let idle = work + Nanos::SECOND;
            assert!((idle.0..idle.0 + Nanos::SECOND.0).contains(&took.0), "{took}");
        }
    }
}

/// A consumer that takes a millisecond for each of 3,000 messages, and whose connection is cut in the middle.
fn interrupted(ack: Ack) -> (Outcome, Told) {
    let (world, broker) = filled(3_000, 40);
    let mut group = group(broker);
    group.consumers.ack = ack;
    group.consumers.service = work(Nanos::from_millis(1));
    group.reconnect = reconnect(5);
    let mut plan = plan(group);
    plan.stop = Some(StopCondition::Empty);
    plan.phases.measure = None;
    world.run_to_end(&plan, |world, start| {
        world.at(start + Nanos::from_millis(500), |world| world.cut(Nanos::ZERO));
    })
}

/// A connection that was not read because as much waited as may is read again when it is a new one.
#[test]
fn a_full_consumer_comes_back() {
    let (outcome, _) = interrupted(Ack::Every(1));
    // The one that it worked on comes again.
    assert_eq!(outcome.totals.received, 3_001, "{outcome:?}");
}

#[test]
fn what_a_lost_connection_throws_away_is_told() {
    let (outcome, told) = interrupted(Ack::Auto);
    let note = told.events.iter().find_map(|event| match event {
        RunEvent::Note(text) => text.contains("were lost with their connection").then_some(text.as_str()),
        _ => None,
    });
    let thrown_away = note.and_then(|it| it.split(' ').next()?.parse::<u64>().ok()).expect("a note");
    // As many as may wait, less what it was at work on.
    assert!(thrown_away >= 990, "{thrown_away}");
    assert!(outcome.totals.received + thrown_away <= 3_000, "{outcome:?}");
}

#[test]
fn a_count_of_messages_counts_what_is_taken() {
    let (world, broker) = filled(100, 40);
    let mut group = group(broker);
    group.consumers.message_count = Some(10);
    group.consumers.service = work(Nanos::from_millis(5));
    let (outcome, _, left) = run(&world, &plan(group));
    assert_eq!(outcome.totals.received, 10);
    assert!((90..=91).contains(&left), "{left}");
    let took = outcome.phases.last().expect("a phase").end.since(outcome.start);
    assert!(took >= Nanos::from_millis(45), "{took}");
}
