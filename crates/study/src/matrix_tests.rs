//! Cells of a matrix: their runs are interleaved, and what is decided of all of them keeps one level.

use archive::{Decision, RunState, Throughput, Warning, WarningCode};
use testkit::Random;

use super::*;
use crate::example_warnings::{example, warn};

fn cells(count: usize, pairs: u32) -> Vec<PairedRuns> {
    let seeds = 1..=count as u64;
    let cell = |seed| PairedRuns { seed, pairs, ..PairedRuns::default() };
    seeds.map(cell).collect()
}

/// The next run of all, as `matrix_seed` draws it.
fn next(cells: &[PairedRuns], matrix_seed: u64) -> Option<(usize, NextRun)> {
    let cells: Vec<&PairedRuns> = cells.iter().collect();
    next_run_of(&cells, matrix_seed)
}

fn made(next: NextRun, number: usize, spoiled: bool) -> PairedRun {
    PairedRun {
        pair: next.pair,
        side: next.side,
        id: format!("run-{number}"),
        spoiled: spoiled.then(|| "invalid".to_owned()),
        own: false,
        disturbed: false,
    }
}

#[test]
fn every_cell_has_a_pair_in_each_round_and_pairs_stay_together() {
    let mut all = cells(6, 8);
    let mut order = Vec::new();
    while let Some((cell, next)) = next(&all, 3) {
        // Whatever is known is in the files: whoever goes on makes the same next run.
        assert_eq!(self::next(&all, 3), Some((cell, next)));
        all[cell].runs.push(made(next, order.len(), false));
        order.push((cell, next.pair));
    }
    assert_eq!(order.len(), 6 * 8 * 2);
    assert!(order.chunks(2).all(|pair| pair[0] == pair[1]), "{order:?}");
    let rounds: Vec<Vec<usize>> =
        order.chunks(12).map(|round| round.iter().step_by(2).map(|run| run.0).collect()).collect();
    for round in &rounds {
        let mut once = round.clone();
        once.sort_unstable();
        assert_eq!(once, [0, 1, 2, 3, 4, 5]);
    }
    assert_ne!(rounds[0], rounds[1], "another order in each round");
}

#[test]
fn spoiled_pairs_of_a_cell_are_made_anew_at_the_end() {
    let mut all = cells(3, 4);
    let mut order = Vec::new();
    while let Some((cell, next)) = next(&all, 9) {
        let spoiled = cell == 1 && next.pair == 0;
        all[cell].runs.push(made(next, order.len(), spoiled));
        order.push((cell, next.pair));
        assert!(order.len() < 100, "it ends");
    }
    assert!(all.iter().all(|cell| counted_pairs(cell, |_| 0.0).len() == 4));
    assert_eq!(order.last(), Some(&(1, 4)), "{order:?}");
}

/// From the standard normal distribution, near enough.
fn normal(random: &mut Random) -> f64 {
    let uniform = |random: &mut Random| (random.below(1 << 30) as f64 + 0.5) / f64::from(1 << 30);
    let radius = (-2.0 * uniform(random).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(random)).cos()
}

/// The mean of 60 seconds with 2 % noise, each 0.7 of the one before, of a run that differs by 0.7 %; a logarithm.
fn noise(random: &mut Random) -> f64 {
    let own = 0.007 * normal(random);
    let mut second = 0.02 * normal(random);
    let mut sum = 0.0;
    for _ in 0..60 {
        second = 0.7 * second + 0.51_f64.sqrt() * 0.02 * normal(random);
        sum += second;
    }
    own + sum / 60.0
}

fn record(id: &str, values: [f64; 3]) -> RunRecord {
    let [rate, cpu, memory] = values.map(f64::exp);
    let mut summary = archive::RunSummary::default();
    summary.flow_mut().sent = Throughput { total: 1, rate: 1_000.0 * rate };
    summary.messages_mut().cpu_us_each.broker = Some(20.0 * cpu);
    summary.rss_mb.broker = Some(100.0 * memory);
    RunRecord { id: id.into(), state: RunState::Complete, summary: Some(summary), ..RunRecord::default() }
}

/// Plays an experiment whose machine gets 3 % slower from its beginning to its end; `effect` is B's, by cell.
fn played(random: &mut Random, effect: &dyn Fn(usize) -> f64) -> Vec<Result<Comparison, Problem>> {
    const CELLS: usize = 6;
    let seed = random.below(1 << 31);
    let mut all = cells(CELLS, 8);
    let mut records: Vec<Vec<RunRecord>> = vec![Vec::new(); CELLS];
    for cell in &mut all {
        cell.seed = random.below(1 << 31);
    }
    let mut number = 0;
    while let Some((cell, next)) = next(&all, seed) {
        let drift = 0.03 * number as f64 / 95.0;
        let of_side = match next.side {
            ComparedSideName::A => 0.0,
            ComparedSideName::B => effect(cell),
        };
        let values = [1.0, -1.0, 0.0].map(|drifts| of_side + drifts * drift + noise(random));
        let run = made(next, number, false);
        records[cell].push(record(&run.id, values));
        all[cell].runs.push(run);
        number += 1;
    }
    let cells: Vec<CellRuns<'_>> =
        all.iter().zip(&records).map(|(runs, records)| CellRuns::new(runs, records)).collect();
    compare_cells(&cells, &[8], ComparisonOptions::default())
}

fn has_changed(of: &Comparison) -> bool {
    let mut decisions = of.figures.iter().map(|it| it.decision);
    decisions.any(|it| matches!(it, Decision::Changed | Decision::Negligible))
}

#[test]
fn six_cells_of_the_same_are_called_changed_as_rarely_as_the_level_says() {
    const EXPERIMENTS: usize = 200;
    let mut random = Random::new(11);
    let (mut any, mut uncorrected) = (0, 0);
    for _ in 0..EXPERIMENTS {
        let cells = played(&mut random, &|_| 0.0);
        let cells: Vec<Comparison> = cells.into_iter().map(|it| it.expect("decided")).collect();
        assert_eq!(cells.len(), 6);
        let family = cells[0].family.expect("decided together");
        assert_eq!((family.cells, family.figures), (6, 18));
        any += usize::from(cells.iter().any(has_changed));
        let mut p = cells.iter().flat_map(|it| &it.figures).filter_map(|it| it.p);
        uncorrected += usize::from(p.any(|p| p <= 0.05));
    }
    let share = |count: usize| count as f64 / EXPERIMENTS as f64;
    assert!((0.02..=0.08).contains(&share(any)), "{}", share(any));
    // Each figure decided for itself would call one of them changed in most experiments.
    assert!(share(uncorrected) > 0.5, "{}", share(uncorrected));
}

#[test]
fn a_change_in_one_cell_is_found_there() {
    let mut random = Random::new(5);
    let found = (0..20).filter(|_| {
        let cells = played(&mut random, &|cell| if cell == 4 { 0.05 } else { 0.0 });
        let changed =
            cells.iter().enumerate().filter_map(|(cell, it)| it.as_ref().is_ok_and(has_changed).then_some(cell));
        changed.collect::<Vec<_>>() == [4]
    });
    assert!(found.count() >= 17);
}

#[test]
fn a_cell_without_pairs_does_not_keep_the_others_from_a_decision() {
    let mut runs = cells(2, 8);
    let mut records = vec![Vec::new(), Vec::new()];
    for number in 0..16 {
        let next = next_run(&runs[0]).expect("one more");
        let run = made(next, number, false);
        let slow = if next.side == ComparedSideName::B { 0.5 } else { 0.0 };
        let value = slow + 0.001 * (number * 7 % 5) as f64;
        records[0].push(record(&run.id, [value; 3]));
        runs[0].runs.push(run);
    }
    let cells: Vec<CellRuns<'_>> =
        runs.iter().zip(&records).map(|(runs, records)| CellRuns::new(runs, records)).collect();
    let decided = compare_cells(&cells, &[8], ComparisonOptions::default());
    let [Ok(first), Err(why)] = decided.as_slice() else { panic!("{decided:#?}") };
    assert!(first.is_worse());
    assert_eq!(first.family, None, "nothing else was decided with it");
    assert!(why.sentence().contains("too few runs"), "{}", why.sentence());
    assert!(!is_decided(&cells, &[8], ComparisonOptions::default()));
    assert!(is_decided(&cells[..1], &[6, 8], ComparisonOptions::default()));
}

fn decided(of: &PairedRuns, records: &[RunRecord]) -> Result<Comparison, Problem> {
    compare_cells(&[CellRuns::new(of, records)], &[of.pairs], ComparisonOptions::default()).remove(0)
}

#[test]
fn pairs_that_are_all_spoiled_say_why() {
    let mut of = cells(1, 2).remove(0);
    let mut records = Vec::new();
    while let Some(next) = next_run(&of) {
        let run = made(next, of.runs.len(), true);
        let mut record = record(&run.id, [0.0; 3]);
        let warning = example(WarningCode::CertificateNotChecked, Tier::Invalid);
        let text = "the certificate was not checked".to_owned();
        record.summary.as_mut().expect("a summary").warnings.push(Warning { text, ..warning });
        records.push(record);
        of.runs.push(run);
    }
    let told = decided(&of, &records).expect_err("nothing counts").sentence();
    assert!(told.contains("3 of 3 runs: the certificate was not checked"), "{told}");
}

/// Five pairs whose sides spoil runs themselves, as `is_gone` says; all runs of A are disturbed.
fn spoils(is_gone: impl Fn(NextRun) -> bool) -> Result<Comparison, Problem> {
    let mut of = cells(1, 5).remove(0);
    let mut records = Vec::new();
    while let Some(next) = next_run(&of) {
        let mut record = record(&format!("run-{}", of.runs.len()), [0.0; 3]);
        let summary = record.summary.as_mut().expect("a summary");
        match (is_gone(next), next.side) {
            (true, _) => warn(summary, WarningCode::BrokerGone, Tier::Invalid),
            (false, ComparedSideName::A) => warn(summary, WarningCode::CpuSteal, Tier::Caution),
            (false, ComparedSideName::B) => {}
        }
        of.runs.push(paired_run(next, &record));
        records.push(record);
    }
    decided(&of, &records)
}

/// How many pairs are left then, none, one or none on either side: that sides spoil their runs is the result.
#[test]
fn runs_that_sides_spoil_are_counted_however_few_pairs_are_left() {
    use ComparedSideName::{A, B};
    let told = |is_gone: fn(NextRun) -> bool| {
        let found = spoils(is_gone).expect("a result");
        let invalid = &found.figures[0];
        assert_eq!(invalid.name, "invalid runs", "{found:#?}");
        assert!(found.is_worse() || found.is_undecided(), "{found:#?}");
        assert!(!found.figures[1..].iter().any(|it| it.decision == Decision::Changed));
        let counted = invalid.of_runs.expect("counted");
        let kept = (found.a.runs.len(), found.b.runs.len());
        (counted.a, counted.b, kept, found.is_worse())
    };
    // Two pairs were made in place of the disturbed ones.
    assert_eq!(told(|it| it.side == B), ((0, 7), (7, 7), (7, 0), true));
    let but_first = told(|it| it.side == B && it.pair > 0);
    assert_eq!(but_first, ((0, 7), (6, 7), (7, 1), true));
    assert_eq!(told(|_| true), ((5, 5), (5, 5), (0, 0), false));
    let in_turns = told(|it| (it.side == B) == (it.pair % 2 == 0));
    assert_eq!(in_turns, ((3, 7), (4, 7), (4, 3), false));
    assert_eq!(told(|it| it.side == A), ((5, 5), (0, 5), (0, 5), false));
    // Without such runs, the remedy is this command's.
    let mut few = cells(1, 5).remove(0);
    let next = next_run(&few).expect("one");
    few.runs.push(made(next, 0, false));
    let help = decided(&few, &[record("run-0", [0.0; 3])]).expect_err("too few").help;
    assert!(help.contains("--resume") && !help.contains("bellows run"), "{help}");
}
