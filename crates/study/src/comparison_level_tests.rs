//! Plays experiments on figures, among them counts of what is rare: they may be called changed as rarely as the level
//! says, and those that changed are found.

use archive::ComparedFigure;
use measure::ledger::LedgerSummary;
use testkit::Random;

use super::comparison_tests::run;
use super::*;
use crate::example_warnings::warn;

const EXPERIMENTS: u64 = 280;

pub(crate) fn uniform(random: &mut Random) -> f64 {
    (random.below(1 << 31) as f64 + 0.5) / f64::from(1_u32 << 31)
}

/// About normal, with a deviation of 1.
pub(crate) fn noise(random: &mut Random) -> f64 {
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

fn poisson(random: &mut Random, mean: f64) -> u64 {
    let (least, mut product) = ((-mean).exp(), 1.0);
    let mut count = 0;
    loop {
        product *= uniform(random);
        if product <= least {
            return count;
        }
        count += 1;
    }
}

/// A run at a rate, and how many messages are lost in one on average; one of `broken` loses its broker.
fn played(random: &mut Random, rate: f64, lost: f64, broken: u64) -> RunRecord {
    let mut record = run("x", "4.0", 1, rate * (1.0 + 0.007 * noise(random)));
    let summary = record.summary.as_mut().expect("a summary");
    summary.messages_mut().cpu_us_each.broker = Some(20.0 * (1.0 + 0.01 * noise(random)));
    summary.flow_mut().ledger = Some(LedgerSummary {
        exact: true,
        sent: 1_000,
        lost: poisson(random, lost),
        // They come in bursts.
        duplicated: poisson(random, lost / 3.0) * 3,
        ..LedgerSummary::default()
    });
    if broken > 0 && random.one_in(broken) {
        warn(summary, WarningCode::BrokerGone, Tier::Invalid);
    }
    record
}

fn side(random: &mut Random, runs: u64, rate: f64, lost: f64, broken: u64) -> Vec<RunRecord> {
    (0..runs).map(|_| played(random, rate, lost, broken)).collect()
}

/// Asserts that at most as many are wrong as a level of 5 % gives, with so many standard errors of that.
pub(crate) fn assert_few(wrong: usize, of: u64, errors: f64, what: &str) {
    let all = of as f64;
    let most = 0.05 * all + errors * (0.05 * 0.95 * all).sqrt();
    assert!(wrong as f64 <= most, "{what}: {wrong} of {of}");
}

/// A figure of these values, decided alone.
fn decided(name: &str, a: Vec<Option<f64>>, b: Vec<Option<f64>>, options: ComparisonOptions) -> ComparedFigure {
    let kind = FigureKind::of(&name.parse().expect("a figure"), 1e3, options);
    let mut found = undecided(&kind, a, b, options).expect("a test");
    decide(std::iter::once(&mut found), options);
    found.figure
}

fn paired(paired: bool) -> ComparisonOptions {
    ComparisonOptions { paired, ..ComparisonOptions::default() }
}

#[test]
fn of_runs_that_are_alike_few_events_prove_nothing() {
    let seeds = testkit::seeds(EXPERIMENTS);
    let all = seeds.end - seeds.start;
    let wrong = seeds.filter(|seed| {
        let random = &mut Random::new(*seed);
        let runs = 2 + seed % 7;
        let lost = random.of(&[0.1, 0.5, 2.0, 8.0]);
        // Of some experiments, runs of one side break, which may be told of these, and of nothing else.
        let broken = random.of(&[0, 0, 5]);
        let a = side(random, runs, 1_000.0, lost, 0);
        let b = side(random, runs, 1_000.0, lost, broken);
        let Ok(found) = comparison(&a, &b, paired(seed % 2 == 0)) else { return false };
        let mut figures = found.figures.iter().filter(|it| it.of_runs.is_none());
        figures.any(|it| it.decision == archive::Decision::Changed)
    });
    assert_few(wrong.count(), all, 3.0, "figures");
}

#[test]
fn few_events_that_agree_in_every_run_prove_nothing() {
    for is_paired in [false, true] {
        for runs in 5..=8 {
            let counts = |count: f64| vec![Some(count); runs];
            let decision = |a, b| decided("lost", counts(a), counts(b), paired(is_paired)).decision;
            assert_eq!(decision(2.0, 3.0), archive::Decision::Undecided);
            assert_eq!(decision(200.0, 300.0), archive::Decision::Changed);
        }
    }
}

/// Of three runs of each side a p of 1 stood beside an interval that had been moved to 0, and pairs that the exact test
/// refused had a p below the level.
#[test]
fn interval_p_and_decision_agree() {
    let mut changed = 0;
    for seed in 0..2_000 {
        let random = &mut Random::new(seed);
        let options = ComparisonOptions { level: random.of(&[0.01, 0.05, 0.2]), ..paired(random.one_in(2)) };
        let of_a = 2 + random.below(7);
        let of_b = if options.paired { of_a } else { 2 + random.below(7) };
        let mut found: Vec<Undecided> = Vec::new();
        for name in ["sent rate", "end-to-end p50", "lost", "refused"] {
            let kind = FigureKind::of(&name.parse().expect("a figure"), 1e3, options);
            let shift = random.of(&[0.0, 0.002, 0.02, 0.3]);
            let spread = random.of(&[0.0, 0.001, 0.02]);
            let mut side = |runs: u64, shift: f64| -> Vec<Option<f64>> {
                let values = (0..runs).map(|_| match kind.is_count {
                    true => poisson(random, 4.0 + 40.0 * shift) as f64,
                    false => 1e3 * (1.0 + shift + spread * noise(random)),
                });
                values.map(Some).collect()
            };
            let (a, b) = (side(of_a, 0.0), side(of_b, shift));
            found.extend(undecided(&kind, a, b, options));
        }
        decide(found.iter_mut(), options);
        let can_tell = of_a.min(of_b) >= 5;
        for figure in found.iter().map(|it| &it.figure) {
            let is_below = figure.corrected_p.is_some_and(|p| p <= options.level);
            let (low, high) = figure.interval;
            let differs = figure.decision.differs();
            assert_eq!((differs, low > 0.0 || high < 0.0), (is_below, is_below), "{figure:#?}");
            assert_eq!(figure.corrected_p.is_some(), can_tell, "{figure:#?}");
            let is_open = figure.decision == archive::Decision::Undecided;
            assert!(can_tell || is_open, "{figure:#?}");
            changed += u32::from(differs);
        }
    }
    assert!(changed > 500, "{changed}");
    // By Student's t five pairs of which one goes the other way differ; of the flips of their signs, four of 32 are as
    // far from 0.
    let b = [1.02, 1.021, 1.019, 1.02, 0.998].map(|it| Some(1e3 * it));
    let figure = decided("sent rate", vec![Some(1e3); 5], b.into(), paired(true));
    assert!(figure.p.is_some_and(|p| p < 0.05), "{figure:#?}");
    assert_eq!((figure.corrected_p, figure.interval.0), (Some(0.125), 0.0));
}

/// Losses that are all or nothing are no more often called a change than others, at each number of runs.
#[test]
fn losses_that_are_all_or_nothing_keep_the_level() {
    let seeds = testkit::seeds(300);
    let all = seeds.end - seeds.start;
    for is_paired in [false, true] {
        for runs in 2..=8 {
            let wrong = seeds.clone().filter(|seed| {
                let random = &mut Random::new(seed * 10 + runs);
                let odds = random.of(&[2, 3, 4]);
                let mut counts = || -> Vec<Option<f64>> {
                    let lost = |_| Some(if random.one_in(odds) { 900.0 } else { 0.0 });
                    (0..runs).map(lost).collect()
                };
                let (a, b) = (counts(), counts());
                decided("lost", a, b, paired(is_paired)).decision == archive::Decision::Changed
            });
            assert_few(wrong.count(), all, 2.0, &format!("{runs} runs, paired: {is_paired}"));
        }
    }
}

/// So are rates of which some runs have none, as of a broker that does not always deliver.
#[test]
fn deliveries_that_are_all_or_nothing_keep_the_level() {
    let seeds = testkit::seeds(600);
    let all = seeds.end - seeds.start;
    for (of_a, of_b) in [(2, 2), (2, 3), (3, 3), (2, 4), (5, 5), (8, 8)] {
        let wrong = seeds.clone().filter(|seed| {
            let random = &mut Random::new(*seed);
            let mut side = |runs: u64| -> Vec<RunRecord> {
                let rate = |_| if random.one_in(2) { 1_000.0 } else { 0.0 };
                (0..runs).map(rate).map(|it| run("x", "4.0", 1, it)).collect()
            };
            let (a, b) = (side(of_a), side(of_b));
            let found = comparison(&a, &b, paired(of_a == of_b && seed % 2 == 0));
            found.is_ok_and(|it| it.is_worse() || it.is_better())
        });
        assert_few(wrong.count(), all, 2.0, &format!("{of_a} and {of_b} runs"));
    }
}

#[test]
fn a_rate_that_falls_and_losses_that_begin_are_found() {
    let seeds = testkit::seeds(20);
    let all = (seeds.end - seeds.start) as f64;
    for is_paired in [false, true] {
        for (rate, lost, name) in [(950.0, 0.0, "sent rate"), (1_000.0, 6.0, "lost")] {
            let found = seeds.clone().filter(|seed| {
                let random = &mut Random::new(*seed);
                let a = side(random, 8, 1_000.0, 0.0, 0);
                let b = side(random, 8, rate, lost, 0);
                let found = comparison(&a, &b, paired(is_paired)).expect("comparable");
                let mut worse = found.figures.iter().filter(|it| it.is_worse());
                worse.any(|it| it.name == name)
            });
            let found = found.count() as f64 / all;
            assert!(found >= 0.95, "{name}: {found}, paired: {is_paired}");
        }
    }
}
