//! Connections that are lost while the load runs, and re-established, in virtual time.

use std::net::SocketAddr;

use broker::Config;
use load::{Ack, Destination, Outcome, Plan, Protocol, ReconnectPolicy, RunEvent};
use measure::{Metric, Nanos, Time};
use testkit::Random;

use crate::common;
use crate::world::{self, Pace, Told, World};

const MEASURE_MS: u64 = 1_500;

fn policy(min_ms: u64, max_ms: u64) -> ReconnectPolicy {
    ReconnectPolicy { min: Nanos::from_millis(min_ms), max: Nanos::from_millis(max_ms) }
}

fn plan(address: SocketAddr, reconnect: ReconnectPolicy) -> Plan {
    let mut group = common::group(address, Destination::queue("reconnect"), (2, 2));
    group.producers.arrivals = common::rate(1_000.0);
    group.producers.max_pending = 100;
    group.producers.sizes = 32.into();
    group.consumers.ack = Ack::Every(10);
    group.reconnect = Some(reconnect);
    common::measured(group, MEASURE_MS)
}

/// A broker that goes away, and comes back as a new one that knows nothing.
#[derive(Clone, Copy, Debug)]
struct Outage {
    after_ms: u64,
    length_ms: u64,
    reconnect: (u64, u64),
    pace: Pace,
    /// Messages in flight then are sent again.
    resend: bool,
}

impl Outage {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        Self {
            after_ms: 100 + random.below(700),
            length_ms: 120 + random.below(500),
            reconnect: random.of(&[(2, 10), (20, 60), (100, 100)]),
            pace: Pace::random(random),
            resend: random.one_in(2),
        }
    }

    fn play(self, seed: u64) -> (Outcome, Told) {
        let world = World::new(seed, self.pace);
        let address = world.broker(Config::default());
        let (min, max) = self.reconnect;
        let mut plan = plan(address, policy(min, max));
        plan.groups[0].producers.resend = self.resend;
        world.run_to_end(&plan, move |world, start| {
            let begin = start + Nanos::from_millis(self.after_ms);
            world.at(begin, move |world| {
                world.keep_away(address, true);
                world.cut(Nanos::ZERO);
            });
            let end = begin + Nanos::from_millis(self.length_ms);
            world.at(end, move |world| {
                world.restart_broker(address, Config::default());
            });
        })
    }

    fn problem(self, seed: u64) -> Option<&'static str> {
        let (outcome, told) = self.play(seed);
        let due = MEASURE_MS;
        let lost = common::lost_connections(&outcome);
        let ledger = outcome.ledger.unwrap_or_default();
        let response = told.measured.latencies.histogram(Metric::ACK_RESPONSE);
        let begin = told.start() + Nanos::from_millis(self.after_ms);
        let end = begin + Nanos::from_millis(self.length_ms);
        let silences = told.silences();
        let away: Vec<_> = silences.iter().filter(|it| it.is_away).collect();
        // Two tries at most, and what a set-up takes in the slowest of worlds.
        let back_by = end + Nanos::from_millis(self.reconnect.1) + Nanos::from_millis(60);
        let near = |at: Time, least: Time, most: Time| at >= least && at <= most;
        let at = |what: fn(&RunEvent) -> bool| told.events.iter().position(what);
        let lost_at = at(|event| matches!(event, RunEvent::Lost { .. }));
        let back_at = at(|event| matches!(event, RunEvent::Recovered { .. }));
        let felt = back_by.since(begin).0 * 101 / 100;
        let checks = [
            (lost != 4, "two producers and two consumers lose theirs"),
            // Every message of the schedule is sent, once: the overdue ones late.
            (outcome.totals.sent != due, "the whole schedule is sent"),
            (outcome.totals.completed + outcome.unconfirmed != due, "a message is answered, or was in flight"),
            (outcome.unconfirmed > 200, "no more than the windows hold"),
            (
                self.resend && (outcome.unconfirmed > 0 || ledger.unconfirmed_missing > 0),
                "what is sent again has its answer, and is not missing",
            ),
            (ledger.duplicated_resent > outcome.totals.resent, "no more come again than are sent again"),
            (!self.resend && outcome.totals.resent > 0, "nothing is sent again unless that is asked for"),
            // So does what was in flight when the connections were lost: no message is missing.
            (response.len() != due, "every message has its response time"),
            (
                response.max() < Nanos::from_millis(self.length_ms).0 * 99 / 100 || response.max() > felt,
                "somebody waits all the time that the broker is away, and nobody longer",
            ),
            (away.len() != 1, "the time without a connection is told once"),
            (
                away.iter().any(|it| {
                    it.connections != 4
                        || !near(it.from, begin, begin + Nanos::from_millis(10))
                        || !near(it.until, end, back_by)
                }),
                "it is told with its instants",
            ),
            (lost_at.is_none() || lost_at > back_at, "lost, and then back"),
        ];
        checks.iter().find(|(is, _)| *is).map(|(_, what)| *what)
    }
}

#[test]
fn a_load_outlives_its_broker_and_keeps_its_schedule() {
    world::prove(100, "--test all recovery::a_load_outlives_its_broker", |seed| {
        let outage = Outage::random(seed);
        outage.problem(seed).map(|rule| format!("not so: {rule}\n{outage:?}\n{:?}", outage.play(seed).0))
    });
}

/// Its clients cannot declare their queue: AMQP 0.9.1 does so on the same port.
#[test]
fn a_queue_that_a_restart_lost_is_declared_again_for_clients_of_amqp_1_0() {
    let world = World::new(1, Pace::default());
    let address = world.broker(Config::default());
    let mut plan = plan(address, policy(20, 60));
    plan.groups[0].protocol = Protocol::Amqp10;
    let (outcome, told) = world.run_to_end(&plan, move |world, start| {
        world.at(start + Nanos::from_millis(300), move |world| {
            world.keep_away(address, true);
            world.cut(Nanos::ZERO);
        });
        world.at(start + Nanos::from_millis(500), move |world| {
            world.restart_broker(address, Config::default());
        });
    });
    assert_eq!((outcome.totals.sent, common::lost_connections(&outcome)), (MEASURE_MS, 4), "{outcome:?}");
    assert!(told.events.iter().any(|event| matches!(event, RunEvent::Recovered { .. })), "{:?}", told.events);
    let refused = |event: &&RunEvent| {
        matches!(event, RunEvent::Note(text) if text.starts_with("a client that reconnected was refused: ")
            && text.contains("amqp:not-found") && text.ends_with("; the load declares its queues again"))
    };
    assert_eq!(told.events.iter().filter(refused).count(), 1, "{:?}", told.events);
}

#[test]
fn a_broker_that_never_comes_back_does_not_hang_the_end() {
    let world = World::new(1, Pace::default());
    let address = world.broker(Config::default());
    let mut plan = plan(address, policy(50, 50));
    plan.phases.drain = Nanos::from_millis(1_000);
    let (outcome, told) = world.run_to_end(&plan, |world, start| {
        world.at(start + Nanos::from_millis(800), move |world| {
            world.keep_away(address, true);
            world.cut(Nanos::ZERO);
        });
    });
    let took = world.time().since(told.start());
    // The phases, the questions of the drain, and a try to ask the queues.
    assert!(took < Nanos::from_millis(4_600), "{took:?}");
    assert!((790..=810).contains(&outcome.totals.sent), "{outcome:?}");
}

#[test]
fn a_connection_lost_between_the_announcement_and_the_start_comes_back() {
    for seed in 0..100 {
        let random = &mut Random::new(seed);
        let world = World::new(seed, Pace::random(random));
        let address = world.broker(Config::default());
        // Some are back before the start, some after it.
        let min = random.below(5);
        let mut plan = plan(address, policy(min, 2 * min));
        plan.phases.measure = Some(Nanos::from_millis(100));
        let (outcome, _) = world.run_to_end(&plan, |world, _| world.cut(Nanos::ZERO));
        assert_eq!((outcome.totals.sent, outcome.totals.received), (100, 100), "seed {seed}: {outcome:?}");
    }
}
