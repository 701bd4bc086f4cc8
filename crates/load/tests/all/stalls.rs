//! A silence is found, with its instants and with what it delayed, and it is told who did not run: the
//! broker, the load, or both; in virtual time, so that the instants are known exactly. What `bellows` makes of
//! it is tested with the program.

use std::net::SocketAddr;

use broker::{Config, Fault, FaultKind};
use load::{Control, Destination, Plan, Silence};
use measure::{Metric, Nanos, Time};
use testkit::Random;

use crate::common;
use crate::world::{self, Pace, World};

const RATE: f64 = 500.0;
const ANSWERS_AFTER: Nanos = Nanos::from_millis(5);

fn plan(address: SocketAddr, measure_ms: u64) -> Plan {
    let mut group = common::group(address, Destination::queue("stalls"), (1, 0));
    group.producers.arrivals = common::rate(RATE);
    group.producers.max_pending = 100;
    group.producers.sizes = 40.into();
    common::measured(group, measure_ms)
}

/// A broker that answers after 5 ms: something is always in flight.
fn slow_broker(world: &World) -> SocketAddr {
    world.broker(Config { faults: vec![Fault::new(FaultKind::SlowAck(ANSWERS_AFTER))], ..Config::default() })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Broker,
    Load,
    Machine,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    who: Who,
    after: Nanos,
    length: Nanos,
    pace: Pace,
}

impl Stop {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        Self {
            who: random.of(&[Who::Broker, Who::Load, Who::Machine]),
            after: Nanos::from_micros(100_000 + random.below(400_000)),
            length: Nanos::from_micros(150_000 + random.below(500_000)),
            pace: Pace::random(random),
        }
    }

    fn problem(self, seed: u64) -> Option<String> {
        let world = World::new(seed, self.pace);
        let address = slow_broker(&world);
        let plan = plan(address, 1_300);
        let (outcome, told) = world.run_to_end(&plan, move |world, start| {
            let begin = start + self.after;
            world.at(begin, move |world| {
                let end = begin + self.length;
                match self.who {
                    Who::Broker => world.stop_host(address, end),
                    Who::Load => world.stop_load(end),
                    // The broker goes on last.
                    Who::Machine => {
                        world.stop_load(end);
                        world.stop_host(address, end + Nanos::from_millis(2));
                    }
                }
            });
        });
        let silences = told.silences();
        // Where the load itself did not run, its connections were silent as well.
        let is_own = self.who != Who::Broker;
        let (own, others): (Vec<Silence>, Vec<_>) = silences.iter().partition(|it| it.is_own);
        let (found, beside) = if is_own { (own, others.len()) } else { (others, own.len()) };
        let [silence] = found[..] else {
            return Some(format!("not one silence: {silences:?}"));
        };
        let begin = told.start() + self.after;
        let end = begin + self.length;
        // The last answer before: what is between two messages, and their way. The first after it: what answers take.
        let (before, slack) = (Nanos::from_millis(4), Nanos::from_millis(12));
        let lag = told.measured.loop_lag_max;
        let near = |is: Time, at: Time, slack: Nanos| is.max(at).since(is.min(at)) <= slack;
        let delayed = (silence.in_flight + silence.unsent) as f64;
        let due = silence.until.since(silence.from).as_secs_f64() * RATE;
        let response = told.measured.latencies.histogram(Metric::ACK_RESPONSE);
        // Messages that were due meanwhile had to wait for its end: half of them for longer than half of it.
        let half = self.length.0 / 2;
        let long = response.count_between(half, u64::MAX) as f64;
        let half_due = self.length.as_secs_f64() / 2.0 * RATE;
        let checks = [
            (silence.is_away, "the connection stayed"),
            (beside > usize::from(is_own), "who did not run is told"),
            (is_own && silence.was_answered != (self.who == Who::Load), "whether the broker ran meanwhile is told"),
            (silence.connections != 1, "there is one connection"),
            (!near(silence.from, begin, before), "it begins when it began"),
            (!near(silence.until, end, slack), "it ends when it ended"),
            (
                if is_own { lag.0 < self.length.0 * 97 / 100 } else { lag > Nanos::from_millis(1) },
                "how late the loop was is told",
            ),
            ((delayed - due).abs() > 12.0, "what it delayed is what was due meanwhile"),
            (outcome.totals.sent != 650, "the whole schedule is sent"),
            (response.len() != 650, "every message has its response time"),
            (!(-4.0..=14.0).contains(&(long - half_due)), "what was due meanwhile waited for its end"),
        ];
        let wrong = checks.iter().find(|(is, _)| *is);
        wrong.map(|(_, rule)| format!("not so: {rule}\nfrom {begin:?} to {end:?}: {silence:?}, {long} of {half_due}"))
    }
}

#[test]
fn whoever_stands_still_is_told_with_its_time_and_what_it_delayed() {
    world::prove(250, "--test all stalls::whoever_stands_still", |seed| {
        let stop = Stop::random(seed);
        stop.problem(seed).map(|wrong| format!("{stop:?}: {wrong}"))
    });
}

#[test]
fn what_has_no_answer_at_the_end_counts_with_the_time_it_has_waited() {
    for seed in testkit::seeds(50) {
        let random = &mut Random::new(seed);
        let world = World::new(seed, Pace::random(random));
        let address = world.broker(Config::default());
        let mut plan = plan(address, 1_000);
        plan.phases.drain = Nanos::from_millis(300);
        let after = Nanos::from_millis(300 + random.below(600));
        let (outcome, told) = world.run_to_end(&plan, move |world, start| {
            world.at(start + after, move |world| {
                world.stop_host(address, start + Nanos::from_millis(60_000));
            });
        });
        let censored = outcome.censored.expect("what was not answered");
        let missing = censored.unanswered + censored.unsent;
        assert_eq!(outcome.totals.completed + missing, 500, "seed {seed}");
        let due_later = Nanos::from_millis(1_000).saturating_sub(after).as_secs_f64() * RATE;
        assert!((missing as f64 - due_later).abs() < 3.0, "seed {seed}: {missing}");
        let end = outcome.phases.last().expect("a drain").end;
        let waited = censored.interval.latencies.histogram(Metric::ACK_RESPONSE);
        assert_eq!(waited.len(), missing, "seed {seed}");
        let delays = censored.interval.latencies.histogram(Metric::SEND_DELAY);
        assert_eq!(delays.len(), censored.unsent, "seed {seed}: as many as those of `ack response` less the sent");
        let longest = end.since(told.start() + after).0 as f64;
        let shortest = end.since(told.start() + Nanos::from_millis(1_000)).0 as f64;
        let (min, max) = (waited.min() as f64, waited.max() as f64);
        assert!((max / longest - 1.0).abs() < 0.02, "seed {seed}: {max} of {longest}");
        assert!(min > shortest * 0.99 && min < shortest + 3e6, "seed {seed}: {min}");
    }
}

/// As a worker of a fleet does without which the others have gone on.
#[test]
fn who_stands_still_until_nothing_may_be_sent_any_more_sends_nothing_of_what_was_due() {
    for seed in testkit::seeds(50) {
        let random = &mut Random::new(seed);
        let world = World::new(seed, Pace::random(random));
        let address = world.broker(Config::default());
        let plan = plan(address, 1_300);
        let control = Control::new();
        let lease = control.clone();
        let late = Nanos::from_micros(1 + random.below(400_000));
        let (outcome, _) = world.run_until(&plan, &control, move |world, start| {
            let until = start + Nanos::from_millis(500);
            lease.send_until(until);
            world.at(start + Nanos::from_millis(300), move |world| world.stop_load(until + late));
        });
        let sent = outcome.expect("the load starts").totals.sent;
        assert!(control.is_expired() && (148..=152).contains(&sent), "seed {seed}, {late:?} late: {sent}");
    }
}

#[test]
fn a_loop_that_is_late_for_the_end_sends_what_was_due() {
    for seed in testkit::seeds(50) {
        let random = &mut Random::new(seed);
        let world = World::new(seed, Pace::random(random));
        let address = world.broker(Config::default());
        let plan = plan(address, 500);
        let late = Nanos::from_micros(1_000 + random.below(16_000));
        let (outcome, _) = world.run_to_end(&plan, move |world, start| {
            let end = start + Nanos::from_millis(500);
            world.at(start + Nanos::from_millis(450), move |world| {
                world.stop_loop(0, end + late);
            });
        });
        let (sent, completed) = (outcome.totals.sent, outcome.totals.completed);
        assert_eq!((sent, completed), (250, 250), "seed {seed}, {late:?} late");
    }
}
