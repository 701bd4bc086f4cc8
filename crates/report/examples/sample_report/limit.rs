//! Trials of an experiment at different rates, and the range of its limit.

use std::error::Error;
use std::path::{Path, PathBuf};

use archive::{
    Finding, FoundLimit, LimitOutcome, LimitPlan, LimitTrial, LimitTrials, LimitedBy, QuantityUnit, RequirementOutcome,
    ScaleEstimate, ScaleLaw, ScaleRun, ScaleRuns, SuggestedRate, Tier, Warning,
};
use measure::LatencySummary;

use super::load::Shape;
use super::{State, empty_folder, write_run};

/// Hostile characters that a name from a file may hold.
const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[31m";
const SLO: &str = "end-to-end p99 < 10ms";

/// Rates in the order in which they were tried, whether they held, and the 99th percentile in microseconds.
const TRIALS: [(f64, LimitOutcome, u64); 10] = [
    (10_000.0, LimitOutcome::Held, 400),
    (20_000.0, LimitOutcome::Held, 520),
    (40_000.0, LimitOutcome::Held, 1_900),
    (80_000.0, LimitOutcome::Missed, 900_000),
    (56_600.0, LimitOutcome::Missed, 80_000),
    (47_600.0, LimitOutcome::Held, 6_200),
    (51_900.0, LimitOutcome::Unclear, 70_000),
    (51_900.0, LimitOutcome::Missed, 21_000),
    (47_600.0, LimitOutcome::Held, 5_100),
    (51_900.0, LimitOutcome::Missed, 33_000),
];

/// Writes the folder `DIR/limit` with its page.
pub(crate) fn write(dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let folder = empty_folder(dir, "limit")?;
    let state = State::new("run", Some(Shape::Rate), 8, 0);
    write_run(&folder, "run-1", &state)?;
    report::html::write_report(&folder.join("run-1"))?;
    let numbered = (1..).zip(TRIALS);
    let trials = LimitTrials {
        schema: LimitTrials::SCHEMA.to_owned(),
        name: HOSTILE.to_owned(),
        slos: vec![SLO.to_owned(), "lost = 0".to_owned()],
        plan: LimitPlan { first: 10_000.0, least: 1.0, most: 1e7, precision: 0.1, confirmations: 2, most_trials: 60 },
        trials: numbered.map(|(number, of)| trial(number, of)).collect(),
        found: Some(FoundLimit {
            low: Some(47_600.0),
            high: Some(51_900.0),
            unclear: None,
            ended: true,
            confirmed: true,
        }),
        suggested: [("calm", 15_900.0), ("busy", 38_100.0)]
            .map(|(name, rate)| SuggestedRate {
                name: name.to_owned(),
                rate,
                command: format!("bellows run {HOSTILE}.toml --set load.0.rate={rate}"),
            })
            .into(),
        ..LimitTrials::default()
    };
    trials.write(&folder)?;
    Ok(report::html::write_limit(&folder)?)
}

/// Writes the folder `DIR/scale` with its page: throughputs of numbers of producers.
pub(crate) fn write_scale(dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let folder = empty_folder(dir, "scale")?;
    let counts = [1, 2, 4, 8, 16, 24];
    let throughput = |n: u32, round: u32| {
        let count = f64::from(n);
        let law = 9_000.0 * count / (1.0 + 0.06 * (count - 1.0) + 0.004 * count * (count - 1.0));
        law * (1.0 + 0.02 * f64::from((n * 7 + round * 5) % 5) - 0.04)
    };
    let run = |round: u32, clients: u32| ScaleRun {
        id: format!("run-{round}-{clients}"),
        clients,
        throughput: throughput(clients, round),
        broker_cores: Some(0.2 * f64::from(clients.min(8))),
        limited_by: match clients {
            24 => LimitedBy::Generator,
            _ => LimitedBy::Broker,
        },
        ..ScaleRun::default()
    };
    let estimate = |value: f64| ScaleEstimate { value, interval: Some((value * 0.8, value * 1.2)) };
    let rounds = (0..3).flat_map(|round| counts.map(|clients| run(round, clients)));
    let trials = LimitTrials {
        schema: LimitTrials::SCHEMA.to_owned(),
        name: HOSTILE.to_owned(),
        scale: Some(ScaleRuns {
            key: "load.0.producers".to_owned(),
            values: counts.into(),
            repeats: 3,
            runs: rounds.collect(),
            law: Some(ScaleLaw {
                alone: estimate(9_000.0),
                contention: estimate(0.06),
                coherence: estimate(0.004),
                peak: Some((0.94_f64 / 0.004).sqrt()),
                no_peak: None,
                r_squared: 0.994,
                worst_residual: 0.03,
            }),
        }),
        ..LimitTrials::default()
    };
    trials.write(&folder)?;
    Ok(report::html::write_limit(&folder)?)
}

fn trial(number: u32, (rate, outcome, p99_us): (f64, LimitOutcome, u64)) -> LimitTrial {
    let is_held = outcome == LimitOutcome::Held;
    let p99_ns = p99_us * 1_000;
    let text = "this is a debug build: build with `make build`".to_owned();
    let debug = Warning { text, ..Warning::new(Tier::Caution, Finding::DebugBuild {}) };
    LimitTrial {
        cautions: vec![debug],
        // Only the first has a report.
        id: match number {
            1 => "run-1".to_owned(),
            _ => format!("2026-11-21T00-{number:02}-33Z-limit-orders-of-today-run-{number}"),
        },
        rate,
        outcome,
        why: if is_held { vec![] } else { vec![format!("missed {SLO}")] },
        unclear: (outcome == LimitOutcome::Unclear).then(|| "other programs had 1.2 cores".to_owned()),
        sent: rate,
        received: rate,
        latency_name: "end-to-end".to_owned(),
        latency: Some(LatencySummary {
            // One has too few for its p99.9.
            count: if number == 1 { 1_000 } else { 100_000 },
            p50_ns: p99_ns / 6,
            p99_ns,
            p99_9_ns: p99_ns + p99_ns / 4,
            ..LatencySummary::default()
        }),
        broker_cores: Some(rate / 40_000.0),
        slos: vec![RequirementOutcome {
            that: SLO.to_owned(),
            bound: 10e6,
            unit: QuantityUnit::Ns,
            met: Some(is_held),
            ..RequirementOutcome::default()
        }],
        ..LimitTrial::default()
    }
}
