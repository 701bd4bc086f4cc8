//! The offset of two clocks is known within its bound, whatever the network does.

use fleet::{ClockEstimator, ProbeTimes};
use measure::{Nanos, Time};
use testkit::Random;

const SECOND: u64 = 1_000_000_000;

/// Two clocks and the paths between them; all times are the coordinator's.
struct Script {
    random: Random,
    offset: i64,
    /// Parts per billion.
    drift: i64,
    /// A part of the drift that changes its sign every three seconds, as with temperature.
    wobble: i64,
    /// Second from which the drift goes the other way, as while NTP corrects a clock.
    turns_at: u64,
    there: u64,
    back: u64,
    jitter: u64,
}

impl Script {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let offset = random.below(2_000_000) as i64 * 1_000_000 - 1_000_000_000_000;
        let speed = 5_000 + random.below(45_000) as i64;
        let drift = random.of(&[0, speed, -speed]);
        let wobble = random.of(&[0, 400]);
        let turns_at = if random.one_in(4) { 1 + random.below(60) } else { 1_000 };
        let (there, back) = (random.of(&[20, 200, 5_000]) * 1_000, random.of(&[20, 200, 5_000]) * 1_000);
        let jitter = random.of(&[1, 100, 20_000]) * 1_000;
        Self { random, offset, drift, wobble, turns_at, there, back, jitter }
    }

    fn worker(&self, at: u64) -> Time {
        let turned = at.saturating_sub(self.turns_at * SECOND) as i64;
        let steady = (at as i64 - 2 * turned) as i128 * i128::from(self.drift) / i128::from(SECOND);
        let (rest, is_back) = (at as i64 % (3 * SECOND as i64), at / (3 * SECOND) % 2 == 1);
        let wobbled = if is_back { 3 * SECOND as i64 - rest } else { rest };
        let drifted = steady as i64 + wobbled * self.wobble / SECOND as i64;
        // Two days since the machines were started.
        Time((at as i64 + 172_800_000_000_000 + self.offset + drifted) as u64)
    }

    fn path(&mut self, shortest: u64) -> u64 {
        // Most are short, few are long.
        let (a, b) = (self.random.below(self.jitter), self.random.below(1_000));
        shortest + a * b * b / 1_000_000
    }

    fn probe(&mut self, sent: u64) -> ProbeTimes {
        let came = sent + self.path(self.there);
        let away = came + 2_000 + self.random.below(100_000);
        let back = away + self.path(self.back);
        ProbeTimes { sent: Time(sent), received: self.worker(came), replied: self.worker(away), returned: Time(back) }
    }
}

#[test]
fn the_truth_lies_within_the_bound_in_every_script() {
    for seed in testkit::seeds(300) {
        let mut script = Script::new(seed);
        let mut clock = ClockEstimator::default();
        let mut at = SECOND;
        let until = (10 + script.random.below(120)) * SECOND;
        let mut number = 0;
        while at < until {
            at += if number < 50 { 10_000_000 } else { 100_000_000 };
            number += 1;
            if script.random.one_in(200) {
                // One machine hangs.
                at += script.random.below(5_000) * 1_000_000;
            }
            let lost = script.random.one_in(10);
            let times = script.probe(at);
            if !lost {
                assert!(clock.probe(times), "{seed}: {times:?}");
            }
            let is_turning = at > script.turns_at * SECOND && clock.is_steady();
            if number % 16 == 15 && !is_turning {
                let asked = at - script.random.below(at.min(30 * SECOND) / 1_000) * 1_000;
                let truth = script.worker(asked);
                let (found, bound) = clock.to_coordinator(truth).unwrap();
                let off = found.0.abs_diff(asked);
                assert!(off <= bound.0, "{seed}: {off} ns off at {asked} of {at}, bound {bound}");
                let (found, bound) = clock.to_worker(Time(asked)).unwrap();
                let off = found.0.abs_diff(truth.0);
                assert!(off <= bound.0, "{seed}: {off} ns off at {asked} of {at}, bound {bound}");
            }
        }
        assert!(!clock.has_moved(), "{seed}");
        let (_, bound) = clock.to_worker(Time(at)).unwrap();
        let least = clock.round_trip().unwrap();
        if script.turns_at == 1_000 {
            if until > 60 * SECOND && script.jitter <= 100_000 {
                // Half the least round trip, and what the drift makes of its age.
                assert!(bound.0 <= least.0 / 2 + least.0 / 10 + 50_000, "{seed}: {bound} of round trips from {least}");
            }
            assert!(clock.is_steady(), "{seed}");
        }
    }
}

#[test]
fn the_clocks_of_two_workers_are_apart_by_what_the_coordinator_knows_of_both() {
    for seed in testkit::seeds(200) {
        let mut scripts = [seed, seed + 1_000_000].map(|seed| Script { turns_at: 1_000, ..Script::new(seed) });
        let mut clocks = [(); 2].map(|()| ClockEstimator::default());
        let mut at = SECOND;
        assert!(clocks[0].line_to(&clocks[1], Time(at)).is_none());
        for _ in 0..150 {
            at += 100_000_000;
            clocks.iter_mut().zip(&mut scripts).for_each(|(clock, script)| assert!(clock.probe(script.probe(at))));
        }
        let line = clocks[0].line_to(&clocks[1], Time(at)).unwrap();
        // A worker that the server was away from for a lease goes on with what it has, and says how far that was off.
        for later in [0, 100_000_000, 250_000_000, 4_900_000_000] {
            let [own, theirs] = [&scripts[0], &scripts[1]].map(|it| it.worker(at + later));
            let (ahead, bound) = line.at(own);
            let off = (theirs.0 as i64 - own.0 as i64).abs_diff(ahead);
            let is_late = later > 260_000_000;
            let is_told = bound <= line.bound_for(Nanos(260_000_000));
            assert!(off <= bound.0 && is_told != is_late, "{seed}: {off} ns off, {bound}");
        }
    }
}

#[test]
fn a_clock_that_was_set_is_noticed_and_what_others_know_narrows_the_bound() {
    let mut script = Script { jitter: 1_000, there: 5_000_000, back: 20_000, ..Script::new(1) };
    let mut clock = ClockEstimator::default();
    (1..40).for_each(|it| assert!(clock.probe(script.probe(it * SECOND / 10))));
    let before = clock.to_worker(Time(4 * SECOND)).unwrap().1;
    let truth = script.worker(4 * SECOND).0 as i64 - 4 * SECOND as i64;
    clock.told(Time(4 * SECOND), truth + 5_000, Nanos(10_000));
    let (found, after) = clock.to_worker(Time(4 * SECOND)).unwrap();
    assert!(before.0 > 2_000_000 && after.0 < 20_000, "{before}, {after}");
    assert!(found.0.abs_diff(script.worker(4 * SECOND).0) <= after.0);
    assert!(!clock.has_moved());
    script.offset += 10_000_000;
    (41..60).for_each(|it| assert!(clock.probe(script.probe(it * SECOND / 10))));
    assert!(clock.has_moved());
    // Instants that no clock has.
    let [none, far] = [Time(0), Time(u64::MAX)];
    for (sent, received, replied, returned) in
        [(far, far, far, far), (Time(9), none, none, none), (none, Time(9), none, far)]
    {
        assert!(!clock.probe(ProbeTimes { sent, received, replied, returned }));
    }
    clock.told(far, i64::MIN, Nanos(u64::MAX));
    assert!(clock.to_coordinator(far).is_some() && clock.to_worker(far).is_some());
    assert!(ClockEstimator::default().to_worker(none).is_none());
}
