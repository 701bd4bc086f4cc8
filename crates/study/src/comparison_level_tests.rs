//! Plays experiments on figures, among them counts of what is rare: they may be called changed as rarely as the level says, and those that
//! changed are found.

use measure::ledger::LedgerSummary;
use testkit::Random;

use super::comparison_tests::run;
use super::*;

const EXPERIMENTS: u64 = 280;

fn uniform(random: &mut Random) -> f64 {
    (random.below(1 << 31) as f64 + 0.5) / f64::from(1_u32 << 31)
}

/// About normal, with a deviation of 1.
fn noise(random: &mut Random) -> f64 {
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

/// So many events on average.
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
    summary.cpu_us_per_message.broker = Some(20.0 * (1.0 + 0.01 * noise(random)));
    summary.ledger = Some(LedgerSummary {
        exact: true,
        sent: 1_000,
        lost: poisson(random, lost),
        // They come in bursts.
        duplicated: poisson(random, lost / 3.0) * 3,
        ..LedgerSummary::default()
    });
    if broken > 0 && random.one_in(broken) {
        let warning = crate::example_warnings::example(WarningCode::BrokerGone, Tier::Invalid);
        summary.warnings.push(warning);
    }
    record
}

fn side(random: &mut Random, runs: u64, rate: f64, lost: f64, broken: u64) -> Vec<RunRecord> {
    (0..runs)
        .map(|_| played(random, rate, lost, broken))
        .collect()
}

fn paired(paired: bool) -> ComparisonOptions {
    ComparisonOptions {
        paired,
        ..ComparisonOptions::default()
    }
}

#[test]
fn of_runs_that_are_alike_few_events_prove_nothing() {
    let seeds = testkit::seeds(EXPERIMENTS);
    let all = (seeds.end - seeds.start) as f64;
    let wrong = seeds.filter(|seed| {
        let random = &mut Random::new(*seed);
        let runs = 2 + seed % 7;
        let lost = random.of(&[0.1, 0.5, 2.0, 8.0]);
        // Of some experiments, runs of one side break, which may be told of these, and of nothing else.
        let broken = random.of(&[0, 0, 5]);
        let a = side(random, runs, 1_000.0, lost, 0);
        let b = side(random, runs, 1_000.0, lost, broken);
        let Ok(found) = comparison(&a, &b, paired(seed % 2 == 0)) else {
            return false;
        };
        let mut figures = found.figures.iter().filter(|it| it.of_runs.is_none());
        figures.any(|it| it.decision == archive::Decision::Changed)
    });
    let wrong = wrong.count() as f64;
    let most = 0.05 * all + 3.0 * (0.05 * 0.95 * all).sqrt();
    assert!(wrong <= most, "{wrong} of {all}");
}

/// Counts vary, however alike the runs happen to be.
#[test]
fn few_events_that_agree_in_every_run_prove_nothing() {
    for is_paired in [false, true] {
        for runs in 5..=8 {
            let counts = |count: f64| vec![Some(count); runs];
            let decision = |a: f64, b: f64| {
                let options = paired(is_paired);
                let kind = FigureKind::of(&"lost".parse().expect("a figure"), 1e3, options);
                let found = undecided(&kind, counts(a), counts(b), options);
                let mut found: Vec<Undecided> = found.into_iter().collect();
                decide(found.iter_mut(), options);
                found[0].figure.decision
            };
            assert_eq!(decision(2.0, 3.0), archive::Decision::Undecided);
            assert_eq!(decision(200.0, 300.0), archive::Decision::Changed);
        }
    }
}

/// Losses that are all or nothing are no more often called a change than others, at each number of runs.
#[test]
fn losses_that_are_all_or_nothing_keep_the_level() {
    let seeds = testkit::seeds(300);
    let all = (seeds.end - seeds.start) as f64;
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
                let options = paired(is_paired);
                let lost = "lost".parse().expect("a figure");
                let kind = FigureKind::of(&lost, 1_000.0, options);
                let mut found: Vec<Undecided> =
                    undecided(&kind, a, b, options).into_iter().collect();
                decide(found.iter_mut(), options);
                found[0].figure.decision == archive::Decision::Changed
            });
            let wrong = wrong.count() as f64;
            let most = 0.05 * all + 2.0 * (0.05 * 0.95 * all).sqrt();
            assert!(
                wrong <= most,
                "{runs} runs, paired: {is_paired}: {wrong} of {all}"
            );
        }
    }
}

/// So are rates of which some runs have none, as of a broker that does not always deliver.
#[test]
fn deliveries_that_are_all_or_nothing_keep_the_level() {
    let seeds = testkit::seeds(600);
    let all = (seeds.end - seeds.start) as f64;
    for (of_a, of_b) in [(2, 2), (2, 3), (3, 3), (2, 4), (5, 5), (8, 8)] {
        let wrong = seeds.clone().filter(|seed| {
            let random = &mut Random::new(*seed);
            let mut side = |runs: u64| -> Vec<RunRecord> {
                let rate = |_| if random.one_in(2) { 1_000.0 } else { 0.0 };
                (0..runs)
                    .map(rate)
                    .map(|it| run("x", "4.0", 1, it))
                    .collect()
            };
            let (a, b) = (side(of_a), side(of_b));
            let found = comparison(&a, &b, paired(of_a == of_b && seed % 2 == 0));
            found.is_ok_and(|it| it.is_worse() || it.is_better())
        });
        let wrong = wrong.count() as f64;
        let most = 0.05 * all + 2.0 * (0.05 * 0.95 * all).sqrt();
        assert!(wrong <= most, "{of_a} and {of_b} runs: {wrong} of {all}");
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
