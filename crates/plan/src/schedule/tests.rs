use std::f64::consts::PI;
use std::sync::Arc;

use measure::{Nanos, Rate, Time};

use super::pacer::Position;
use super::*;

const SECOND: u64 = 1_000_000_000;

fn of(profile: RateProfile) -> ArrivalSchedule {
    ArrivalSchedule::new(profile, Spacing::Even, false)
}

fn constant(rate: f64) -> RateProfile {
    RateProfile::Constant(Rate::per_second(rate).unwrap())
}

/// Rates, each for so many seconds.
fn levels(levels: &[(f64, f64)], repeat: bool) -> RateProfile {
    RateProfile::Steps { steps: levels.iter().map(|it| Step::level(it.0, seconds(it.1))).collect(), repeat }
}

fn seconds(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

fn trace(text: &str, every: Option<f64>) -> RateProfile {
    RateProfile::Trace { trace: Arc::new(Trace::parse(text.as_bytes(), "trace").unwrap()), every: every.map(seconds) }
}

/// All due times before `until`, in the order of messages, from every producer's own due_times.
fn due_times(schedule: &ArrivalSchedule, producers: u64, until: u64) -> Vec<u64> {
    let pacer = schedule.pacer(producers).unwrap();
    let mut times = Vec::new();
    for producer in 0..producers {
        let mut due_times = DueTimes::new(&pacer, Time(0), producer, producer as u32);
        while due_times.due().0 < until {
            times.push(due_times.due().0);
            let before = due_times.due();
            due_times.advance();
            assert!(due_times.due() >= before, "time goes on");
        }
    }
    times.sort_unstable();
    times
}

/// 400 messages at 500 a second are due for 0.8 s; beside a group without an end, some are due all the time.
#[test]
fn messages_are_due_until_the_last_of_their_count() {
    let mut requested = Requested::default();
    let pacer = of(constant(500.0)).pacer(1).unwrap();
    requested.add(Arc::clone(&pacer), 1.0, Some(400), Vec::new());
    let share = |requested: &Requested, from, to| requested.share_due(seconds(from), seconds(to));
    for (from, to, due) in [(0.0, 0.5, 1.0), (0.0, 1.0, 0.8), (0.75, 0.85, 0.5), (1.0, 2.0, 0.0)] {
        let share = share(&requested, from, to);
        assert!((share - due).abs() < 1e-6, "{share} from {from} to {to}");
    }
    requested.add(pacer, 1.0, None, Vec::new());
    assert_eq!(share(&requested, 0.0, 2.0), 1.0);
}

/// The definition, computed again for every message: floor(i * 10^9 / rate).
#[test]
fn every_due_time_of_a_constant_rate_is_the_exact_one_rounded_down() {
    // Rates as (numerator, denominator) of messages per second.
    let whole = [1u128, 3, 7, 10, 20_000, 999_983, 1_000_000].map(|rate| (rate, 1u128));
    let parts = [(1, 2), (1, 10), (1, 100), (15, 2), (333, 10), (33_333, 1_000), (12_345_678, 1_000)];
    for (numerator, denominator) in whole.into_iter().chain(parts) {
        let rate = numerator as f64 / denominator as f64;
        for producers in [1, 2, 3, 7, 64] {
            let until = (5_000 * u128::from(SECOND) * denominator / numerator) as u64;
            let times = due_times(&of(constant(rate)), producers, until);
            assert_eq!(times.len(), 5_000, "rate {rate}, {producers} producers");
            for (i, time) in times.into_iter().enumerate() {
                let exact = i as u128 * u128::from(SECOND) * denominator / numerator;
                assert_eq!(u128::from(time), exact, "rate {rate}, message {i} of {producers}");
            }
        }
    }
}

#[test]
fn a_long_run_does_not_drift() {
    // Ten million steps of 33 1/3 us: an error of 1 ns a step would be 10 ms.
    let pacer = of(constant(30_000.0)).pacer(1).unwrap();
    let mut due_times = DueTimes::new(&pacer, Time(5), 0, 0);
    for _ in 0..10_000_000 {
        due_times.advance();
    }
    assert_eq!(due_times.due(), Time(5 + 10_000_000 * 100_000 / 3));
}

/// 10^12 messages: each shape's curve of a known count, repeated, must end where it should.
#[test]
fn no_shape_drifts_over_a_million_million_messages() {
    const MANY: u64 = 1_000_000_000_000;
    let at = |schedule: &ArrivalSchedule, message: u64| {
        schedule.pacer(1).unwrap().instant(Position::whole(message)).unwrap()
    };
    // A million a second: 10^6 s.
    assert_eq!(at(&of(constant(1e6)), MANY), 1_000_000 * SECOND);
    // A third of a message per 100 ms and so on: 10^12 / 999,983 s, rounded down.
    let exact = u128::from(MANY) * u128::from(SECOND) / 999_983;
    assert_eq!(u128::from(at(&of(constant(999_983.0)), MANY)), exact);
    // 4,000 messages in 7 s.
    let bursts = RateProfile::bursts(1_000.0, seconds(4.0), 0.0, seconds(3.0));
    assert_eq!(at(&of(bursts), MANY), MANY / 4_000 * 7 * SECOND);
    // 1,000 for 10 s and 5,000 for 10 s: 60,000 in 20 s; 40,000 into the round are 16 s.
    let steps = levels(&[(1_000.0, 10.0), (5_000.0, 10.0)], true);
    assert_eq!(at(&of(steps), MANY), (MANY / 60_000 * 20 + 16) * SECOND);
    // Up and down between 0 and 2,000 in 10 s each: 20,000 in 20 s; half of them in 10.
    let part = |from, to| Step { from, to, length: seconds(10.0) };
    let saw = RateProfile::Steps { steps: vec![part(0.0, 2_000.0), part(2_000.0, 0.0)], repeat: true };
    assert_eq!(at(&of(saw), MANY + 10_000), (MANY / 20_000 * 20 + 10) * SECOND);
    // Then 100,000 for ever.
    let ramp = RateProfile::ramp(0.0, 1e5, seconds(60.0));
    let rest = (MANY - 3_000_000) / 100_000;
    assert_eq!(at(&of(ramp), MANY), (60 + rest) * SECOND);
    let sine = RateProfile::Sine { mean: 1_000.0, amplitude: 900.0, period: seconds(10.0) };
    assert_eq!(at(&of(sine), MANY), MANY / 10_000 * 10 * SECOND);
    let trace = trace("0\n0.25\n0.5\n0.75", Some(1.0));
    assert_eq!(at(&of(trace), MANY / 100), MANY / 400 * SECOND);
}

type Integral = fn(f64) -> f64;

/// Every shape with its integral, written down independently of the code.
fn shapes() -> Vec<(&'static str, RateProfile, Integral)> {
    vec![
        ("constant", constant(333.3), |t| 333.3 * t),
        ("ramp up", RateProfile::ramp(10.0, 500.0, seconds(20.0)), |t| {
            let x = t.min(20.0);
            10.0 * x + 490.0 * x * x / 40.0 + 500.0 * (t - x)
        }),
        ("ramp down to nothing", RateProfile::ramp(800.0, 0.0, seconds(20.0)), |t| {
            let x = t.min(20.0);
            800.0 * x - 800.0 * x * x / 40.0
        }),
        ("steps that hold", levels(&[(100.0, 3.0), (0.0, 2.0), (50.5, 1.0)], false), |t| {
            100.0 * t.min(3.0) + 50.5 * (t - 5.0).max(0.0)
        }),
        ("bursts", RateProfile::bursts(700.0, seconds(0.3), 10.0, seconds(0.7)), |t| {
            let x = t.fract();
            t.floor() * 217.0 + 700.0 * x.min(0.3) + 10.0 * (x - 0.3).max(0.0)
        }),
        ("sine", RateProfile::Sine { mean: 200.0, amplitude: 150.0, period: seconds(8.0) }, |t| {
            200.0 * t + 150.0 * 8.0 / (2.0 * PI) * (1.0 - (2.0 * PI * t / 8.0).cos())
        }),
        ("sine that touches zero", RateProfile::Sine { mean: 200.0, amplitude: 200.0, period: seconds(8.0) }, |t| {
            200.0 * t + 200.0 * 8.0 / (2.0 * PI) * (1.0 - (2.0 * PI * t / 8.0).cos())
        }),
    ]
}

#[test]
fn each_instant_is_where_the_integral_passes_its_message() {
    for (name, shape, integral) in shapes() {
        let times = due_times(&of(shape), 1, 40 * SECOND);
        for (i, due) in times.iter().enumerate() {
            let (before, after) = (*due as f64 / 1e9 - 2e-9, *due as f64 / 1e9 + 2e-9);
            assert!(integral(before) <= i as f64 + 1e-6, "{name}: message {i} is late");
            assert!(integral(after) >= i as f64 - 1e-6, "{name}: message {i} is early");
        }
        let missing = integral(40.0) - times.len() as f64;
        assert!(missing.abs() <= 1.0 + 1e-6, "{name}: {missing}");
    }
}

#[test]
fn what_is_requested_is_the_integral() {
    for (name, shape, integral) in shapes() {
        let pacer = of(shape).pacer(3).unwrap();
        for tenth in 0..400 {
            let t = f64::from(tenth) / 10.0;
            let (asked, exact) = (pacer.until(seconds(t)), integral(t));
            assert!((asked - exact).abs() < 1e-5, "{name} at {t} s: {asked} for {exact}");
        }
    }
}

#[test]
fn dealing_gives_every_message_to_one_producer() {
    for (name, shape, _) in shapes() {
        let alone = due_times(&of(shape.clone()), 1, 40 * SECOND);
        for producers in [2, 3, 7, 10, 64] {
            let dealt = due_times(&of(shape.clone()), producers, 40 * SECOND);
            assert_eq!(dealt, alone, "{name} over {producers}");
        }
    }
}

#[test]
fn a_rate_of_each_producer_is_exactly_that() {
    for producers in [1u64, 3, 7] {
        let schedule = ArrivalSchedule::new(constant(10.0), Spacing::Even, true);
        let pacer = schedule.pacer(producers).unwrap();
        for producer in 0..producers {
            let mut due_times = DueTimes::new(&pacer, Time(0), producer, producer as u32);
            let first = due_times.due().0;
            for k in 0..1_000 {
                assert_eq!(due_times.due().0, first + k * SECOND / 10);
                due_times.advance();
            }
        }
        let schedule = ArrivalSchedule::new(trace("0\n0.5\n9", None), Spacing::Even, true);
        assert_eq!(due_times(&schedule, producers, 60 * SECOND).len() as u64, 3 * producers);
        assert_eq!(schedule.pacer(producers).unwrap().until(Nanos(SECOND)), 2.0 * producers as f64);
    }
}

#[test]
fn the_slowest_sine_and_the_fastest_rate_are_kept() {
    assert_eq!(due_times(&of(constant(1e6)), 7, SECOND).len(), 1_000_000);
    let slow = RateProfile::Sine { mean: 0.01, amplitude: 0.01, period: seconds(1_000.0) };
    assert_eq!(due_times(&of(slow), 2, 1_000 * SECOND).len(), 10);
}

#[test]
fn a_course_that_ends_has_a_last_message() {
    let ends = [RateProfile::ramp(10.0, 0.0, seconds(2.0)), trace("0\n1\n1.5", None)];
    for (shape, count) in ends.into_iter().zip([10, 3]) {
        let pacer = of(shape).pacer(4).unwrap();
        assert!(pacer.ends());
        let mut sent = 0;
        for producer in 0..4 {
            let mut due_times = DueTimes::new(&pacer, Time(7), producer, producer as u32);
            while !due_times.is_over() {
                sent += 1;
                due_times.advance();
            }
        }
        assert_eq!(sent, count);
    }
    assert!(!of(trace("0\n1", Some(2.0))).pacer(1).unwrap().ends());
    assert!(!of(constant(1.0)).pacer(1).unwrap().ends());
}

#[test]
fn far_futures_saturate() {
    let pacer = of(constant(1e-6)).pacer(1).unwrap();
    let mut due_times = DueTimes::new(&pacer, Time(u64::MAX - 5), 0, 0);
    due_times.advance();
    assert_eq!(due_times.due(), Time(u64::MAX));
}

#[test]
fn what_cannot_be_kept_is_refused_with_its_value() {
    let level = |rate| levels(&[(rate, 1.0)], true);
    let cases = [
        (constant(1e10), "10000000000"),
        (constant(1e-7), "0.0000001"),
        (level(0.0), "all rates"),
        (level(-1.0), "-1"),
        (level(f64::NAN), "NaN"),
        (level(0.12345678901), "0.12345678901"),
        (RateProfile::ramp(1.0, 2.0, Nanos(0)), "cannot last 0 ns"),
        (RateProfile::ramp(1.0, 2.0, seconds(1e6)), "cannot last"),
        (RateProfile::bursts(1e9, Nanos(u64::MAX), 1e9, Nanos(u64::MAX)), "last 36893488147 s"),
        (levels(&[], true), "0 steps"),
        (RateProfile::Sine { mean: 1.0, amplitude: 2.0, period: seconds(1.0) }, "below 0"),
        (RateProfile::Sine { mean: 1.0, amplitude: 1.0, period: Nanos(0) }, "period of 0 ns"),
        (trace("0\n5", Some(1.0)), "every 1.00 s"),
    ];
    for (shape, part) in cases {
        let error = of(shape).pacer(1).unwrap_err();
        assert!(error.to_string().contains(part), "{part:?} is not in {error}");
        assert!(!error.problem().help.is_empty());
    }
    let poisson = ArrivalSchedule::new(trace("0", None), Spacing::Poisson { seed: 0 }, false);
    assert!(poisson.pacer(1).is_err());
    let many = ArrivalSchedule::new(constant(1e6), Spacing::Even, true);
    assert!(many.pacer(1_001).is_err());
}

#[test]
fn shares_add_up() {
    for total in [0, 1, 9, 10, 11, 1_000_003] {
        for producers in [1, 2, 3, 10, 17] {
            let sum: u64 = (0..producers).map(|p| share(total, p, producers)).sum();
            assert_eq!(sum, total);
        }
    }
}

/// The largest distance between the gaps' distribution and the exponential one, times the root of
/// their number: Kolmogorov and Smirnov's statistic. Above 1.63 in 1 % of cases by chance.
fn kolmogorov_smirnov(times: &[u64], rate: f64) -> f64 {
    let mut gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e9).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let distance = gaps.iter().enumerate().fold(0.0, |most: f64, (i, gap)| {
        let exact = 1.0 - (-rate * gap).exp();
        most.max((exact - i as f64 / n).abs()).max(((i + 1) as f64 / n - exact).abs())
    });
    distance * n.sqrt()
}

const CRITICAL: f64 = 1.63;

#[test]
fn poisson_arrivals_pass_kolmogorov_and_smirnov() {
    for (rate, producers, seed) in [(5_000.0, 1, 0), (5_000.0, 3, 1), (50_000.0, 7, 2), (200.0, 64, 3)] {
        let schedule = ArrivalSchedule::new(constant(rate), Spacing::Poisson { seed }, false);
        let times = due_times(&schedule, producers, 20 * SECOND);
        let statistic = kolmogorov_smirnov(&times, rate);
        assert!(statistic < CRITICAL, "{statistic} at {rate} over {producers}");
        let deviation = (rate * 20.0).sqrt();
        assert!((times.len() as f64 - rate * 20.0).abs() < 4.0 * deviation);
    }
}

#[test]
fn what_is_not_poisson_fails_kolmogorov_and_smirnov() {
    let even = due_times(&of(constant(5_000.0)), 1, 20 * SECOND);
    assert!(kolmogorov_smirnov(&even, 5_000.0) > 10.0 * CRITICAL);
    let poisson = ArrivalSchedule::new(constant(5_000.0), Spacing::Poisson { seed: 0 }, false);
    let times = due_times(&poisson, 1, 20 * SECOND);
    assert!(kolmogorov_smirnov(&times, 5_100.0) > CRITICAL, "a rate that is wrong by 2 %");
}

/// Seen through its own integral, a Poisson process of any rate is one of rate 1.
#[test]
fn poisson_arrivals_follow_the_rate() {
    let sine = RateProfile::Sine { mean: 2_000.0, amplitude: 1_500.0, period: seconds(5.0) };
    let schedule = ArrivalSchedule::new(sine, Spacing::Poisson { seed: 9 }, false);
    let pacer = schedule.pacer(4).unwrap();
    let places: Vec<u64> =
        due_times(&schedule, 4, 20 * SECOND).into_iter().map(|due| (pacer.until(Nanos(due)) * 1e9) as u64).collect();
    let statistic = kolmogorov_smirnov(&places, 1.0);
    assert!(statistic < CRITICAL, "{statistic}");
    let again = due_times(&schedule, 4, SECOND);
    assert_eq!(again, due_times(&schedule, 4, SECOND), "the same seed");
    let other = ArrivalSchedule::new(schedule.profile().clone(), Spacing::Poisson { seed: 10 }, false);
    assert_ne!(again, due_times(&other, 4, SECOND));
}
