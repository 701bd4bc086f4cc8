//! Plays experiments on profiles of few samples: functions may be called changed as rarely as the level says, and those
//! that changed are found.

use testkit::Random;

use super::tests::{compared, run};
use super::*;
use crate::comparison::comparison_level_tests::{assert_few, noise, uniform};

/// Functions of a profile; a few are dear, and most are hardly ever sampled.
const FUNCTIONS: usize = 60;
const EXPERIMENTS: u64 = 140;

fn costs() -> Vec<f64> {
    (1..=FUNCTIONS).map(|rank| 1.0 / rank as f64).collect()
}

/// A run with so many samples. Runs differ by 1 % as machines have it.
fn sampled(random: &mut Random, costs: &[f64], samples: u64) -> FunctionCosts {
    let up_to: Vec<f64> = costs
        .iter()
        .scan(0.0, |sum, cost| {
            *sum += cost;
            Some(*sum)
        })
        .collect();
    let all = up_to.last().copied().unwrap_or(0.0);
    let mut counts = vec![0_u64; costs.len()];
    for _ in 0..samples {
        let drawn = uniform(random) * all;
        let at = up_to.partition_point(|it| *it < drawn);
        counts[at.min(costs.len() - 1)] += 1;
    }
    let names: Vec<String> = (0..costs.len()).map(|at| format!("f{at}")).collect();
    let counts = counts.iter().map(|count| *count as f64 / samples as f64);
    let shares: Vec<(&str, f64)> = names.iter().map(String::as_str).zip(counts).filter(|it| it.1 > 0.0).collect();
    let mut run = run(1_000.0 * all * (1.0 + 0.01 * noise(random)), &shares);
    run.summary.samples = samples;
    run
}

fn side(random: &mut Random, runs: u64, costs: &[f64], samples: u64) -> Vec<Option<FunctionCosts>> {
    (0..runs).map(|_| Some(sampled(random, costs, samples))).collect()
}

/// Whether a function, or a frame below the root, is called changed: the root is the whole broker, a figure.
fn is_any_proven(of: &Comparison) -> [bool; 2] {
    let functions = of.functions.iter().flat_map(|it| &it.functions).filter(|it| it.function != "root");
    let mut own = functions.map(|it| it.own.proven || it.total.proven);
    let mut frames = of.stacks.iter().flat_map(|it| &it.frames).filter(|it| it.parent.is_some());
    [own.any(|it| it), frames.any(|it| it.proven)]
}

#[test]
fn of_runs_that_are_alike_few_samples_prove_nothing() {
    let seeds = testkit::seeds(EXPERIMENTS);
    let all = seeds.end - seeds.start;
    let (mut functions, mut frames) = (0, 0);
    for seed in seeds {
        let random = &mut Random::new(seed);
        // Fewer prove nothing by construction.
        let (runs, costs) = (5 + seed % 4, costs());
        let samples = random.of(&[80, 250, 550]);
        let (a, b) = (side(random, runs, &costs, samples), side(random, runs, &costs, samples));
        let [function, frame] = is_any_proven(&compared(&a, &b, seed % 2 == 0));
        functions += usize::from(function);
        frames += usize::from(frame);
    }
    assert_few(functions, all, 3.0, "functions");
    assert_few(frames, all, 3.0, "frames");
}

/// Counts of samples vary, however alike the runs happen to be: 50 and 65 are 1.4 standard errors apart.
#[test]
fn few_samples_that_agree_in_every_run_prove_nothing() {
    for paired in [false, true] {
        for runs in 5..=8 {
            let side = |share: f64| -> Vec<Option<FunctionCosts>> {
                let of = |_| {
                    let mut of = run(1_000.0, &[("f", share), ("rest", 1.0 - share)]);
                    of.summary.samples = 500;
                    Some(of)
                };
                (0..runs).map(of).collect()
            };
            assert_eq!(is_any_proven(&compared(&side(0.020), &side(0.026), paired)), [false; 2], "{runs} {paired}");
            // Five times as many are no chance.
            let found = compared(&side(0.020), &side(0.100), paired);
            let [function, _] = is_any_proven(&found);
            assert!(function, "{runs} {paired}");
        }
    }
}

/// A tenth of the broker costs a fifth more, in eight runs of each side with 2,000 samples.
#[test]
fn a_function_that_costs_a_fifth_more_is_found() {
    let seeds = testkit::seeds(24);
    let all = (seeds.end - seeds.start) as f64;
    for paired in [false, true] {
        let found = seeds.clone().filter(|seed| {
            let random = &mut Random::new(*seed + 1_000);
            let mut costs = costs();
            let sum: f64 = costs.iter().sum();
            costs[1] = (sum - costs[1]) / 9.0;
            let a = side(random, 8, &costs, 2_000);
            costs[1] *= 1.2;
            let found = compared(&a, &side(random, 8, &costs, 2_000), paired);
            let functions = found.functions.expect("functions").functions;
            for cost in functions.iter().flat_map(|it| [it.own, it.total]) {
                let (low, high) = cost.interval;
                assert_eq!(cost.proven, low > 0.0 || high < 0.0, "{cost:?}");
            }
            functions.iter().find(|it| it.function == "f1").is_some_and(|it| it.own.proven)
        });
        let found = found.count() as f64 / all;
        assert!(found >= 0.8, "{found} of all, paired: {paired}");
    }
}
