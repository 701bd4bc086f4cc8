//! Throughput against the number of clients: the next number, what a run says of it, and the common law.

use archive::{LimitedBy, RunRecord, ScaleDoubt, ScaleLaw, ScaleRun, ScaleRuns};
use compare::{LEAST_CLIENT_COUNTS, ScalePoint, scalability};
use measure::Problem;

use crate::limit::{cautions, is_of_limit};
use experiment::{Experiment, ExperimentError};

/// Keys whose last part is one of these count clients.
const COUNTED: [&str; 6] =
    ["producers", "consumers", "total-producers", "total-consumers", "producer-connections", "consumer-connections"];

/// How far beyond the largest number of clients that was tried a peak is told.
const FARTHEST_PEAK: f64 = 2.0;

/// The plan of runs with these numbers of clients, `KEY=1,2,4,8`: at least four, of a key that counts clients.
pub fn scale_plan(given: &str, repeats: u32) -> Result<ScaleRuns, Problem> {
    let example = "write --scale load.0.producers=1,2,4,8";
    let problem = |cause: String, help: &str| Problem::new(cause, given, help);
    let Some((key, numbers)) = given.split_once('=') else {
        return Err(problem("--scale lacks numbers of clients".to_owned(), example));
    };
    let key = key.trim();
    let last = key.rsplit('.').next().unwrap_or_default();
    let cause = format!("--scale {key}: it does not count clients");
    problem(cause, &format!("vary one of {}", COUNTED.join(", "))).unless(COUNTED.contains(&last))?;
    let values = numbers.split(',').map(str::trim).map(|number| {
        let value = number.parse::<u32>().ok().filter(|it| (1..=100_000).contains(it));
        value.ok_or_else(|| problem(format!("--scale {key}: {number:?} is not a number of clients"), example))
    });
    let mut values = values.collect::<Result<Vec<_>, _>>()?;
    values.sort_unstable();
    values.dedup();
    let most = ScaleRuns::MOST_VALUES;
    let cause = format!("--scale {key}: it takes {LEAST_CLIENT_COUNTS} to {most} different numbers");
    problem(cause, "the fit has three parameters: give more, such as 1,2,4,8,16")
        .unless((LEAST_CLIENT_COUNTS..=most).contains(&values.len()))?;
    Ok(ScaleRuns { key: key.to_owned(), values, repeats, ..ScaleRuns::default() })
}

/// Refuses a group of clients that is not varied and whose messages count as well: the throughput is that of all
/// groups, each as fast as it goes, so that no law of the varied ones could be told. The first one is named.
pub fn check_one_group(experiment: &Experiment, key: &str) -> Result<(), Problem> {
    let mut parts = key.split('.');
    let varied = parts.by_ref().find(|it| *it == "load").and(parts.next());
    let Some(varied) = varied.and_then(|it| it.parse::<usize>().ok()) else { return Ok(()) };
    let sends = key.contains("producer");
    let other = experiment.load.iter().enumerate().find(|(group, load)| {
        let counts = if sends { load.has_producers() } else { load.has_consumers() };
        *group != varied && counts
    });
    let Some((other, _)) = other else { return Ok(()) };
    let does = if sends { "sends" } else { "receives" };
    Err(Problem::new(
        format!(
            "--scale {key}: load.{other} {does} as well, and the throughput is that of all groups, which follows no \
             law of load.{varied}"
        ),
        "",
        format!("leave load.{other} out, or run it at the same time as another experiment on the same broker"),
    ))
}

/// The experiment with so many clients, each as fast as it goes, where it has the key.
pub fn at_scale(experiment: &Experiment, key: &str, clients: u32) -> Result<Experiment, ExperimentError> {
    let mut scaled = experiment.clone();
    scaled.set(&format!("{key}={clients}"))?;
    for load in scaled.load.iter_mut().filter(|it| it.has_producers()) {
        (load.rate, load.schedule, load.rate_per_producer) = (None, None, false);
    }
    Ok(scaled)
}

/// The number of clients that is run next: all numbers in turn, every second time the other way round, so that what
/// drifts meanwhile hits small and large numbers alike. `None` where all were made.
pub fn next_scale(of: &ScaleRuns) -> Option<u32> {
    let made = |value: u32| of.runs.iter().filter(|it| it.clients == value).count();
    let least = of.values.iter().map(|it| made(*it)).min()?;
    if least >= of.repeats as usize {
        return None;
    }
    let mut lacking = of.values.iter().copied().filter(|it| made(*it) == least);
    if least % 2 == 0 { lacking.next() } else { lacking.next_back() }
}

/// A complete run with so many clients.
pub fn scale_run(clients: u32, record: &RunRecord) -> ScaleRun {
    let summary = record.summary.as_ref();
    let throughput = summary.map_or(0.0, |it| match it.flow() {
        it if it.received.total > 0 => it.received.rate,
        it if it.completed.total > 0 => it.completed.rate,
        it => it.sent.rate,
    });
    let verdict = summary.and_then(|it| it.verdict.as_ref());
    ScaleRun {
        id: record.id.clone(),
        clients,
        throughput,
        broker_cores: summary.and_then(|it| it.cpu_cores.broker),
        limited_by: verdict.map(|it| it.limited_by).unwrap_or_default(),
        cautions: summary.map_or_else(Vec::new, |it| cautions(it, is_of_limit)),
    }
}

/// The law that the runs follow; `None` where there are too few numbers of clients.
pub fn scale_law(of: &ScaleRuns) -> Option<ScaleLaw> {
    let points: Vec<ScalePoint> =
        of.runs.iter().map(|it| ScalePoint { clients: it.clients.into(), throughput: it.throughput }).collect();
    let mut law = scalability(&points)?;
    let peak = told_peak(of, &law);
    (law.peak, law.no_peak) = (peak.ok(), peak.err());
    Some(law)
}

/// The number of clients with the highest throughput of the broker; else why that is not told.
fn told_peak(of: &ScaleRuns, found: &ScaleLaw) -> Result<f64, ScaleDoubt> {
    if let Some(from) = generator_from(of) {
        return Err(ScaleDoubt::Generator(from));
    }
    if found.is_poor() {
        return Err(ScaleDoubt::PoorFit);
    }
    let peak = found.highest().ok_or(ScaleDoubt::NeverFalls)?;
    if !found.coherence.interval.is_some_and(|(low, _)| low > 0.0) {
        return Err(ScaleDoubt::NotProven);
    }
    let most = of.runs.iter().map(|it| it.clients).max().unwrap_or(1);
    if peak <= FARTHEST_PEAK * f64::from(most) { Ok(peak) } else { Err(ScaleDoubt::FarBeyond) }
}

/// The smallest number of clients from which on the generator limited more than half of all runs, and of its own.
fn generator_from(of: &ScaleRuns) -> Option<u32> {
    let is_limited = |counts: &dyn Fn(u32) -> bool| {
        let runs = || of.runs.iter().filter(|it| counts(it.clients));
        2 * runs().filter(|it| it.limited_by == LimitedBy::Generator).count() > runs().count()
    };
    let numbers = of.runs.iter().map(|it| it.clients);
    numbers.filter(|from| is_limited(&|it| it == *from) && is_limited(&|it| it >= *from)).min()
}

#[cfg(test)]
mod tests {
    use archive::ScaleEstimate;

    use super::*;

    #[test]
    fn numbers_are_run_in_turns_there_and_back() {
        let mut of = scale_plan("load.0.producers=8, 1,2,4,2", 2).unwrap();
        assert_eq!(of.values, [1, 2, 4, 8]);
        assert_eq!(of.noun(), "producers");
        let mut made = Vec::new();
        while let Some(clients) = next_scale(&of) {
            made.push(clients);
            of.runs.push(ScaleRun { clients, throughput: 100.0 * f64::from(clients), ..ScaleRun::default() });
            assert!(made.len() < 20);
        }
        assert_eq!(made, [1, 2, 4, 8, 8, 4, 2, 1]);
        let law = scale_law(&of).unwrap();
        assert!((law.alone.value - 100.0).abs() < 1e-6 && law.peak.is_none(), "{law:?}");
        assert_eq!(law.no_peak, Some(ScaleDoubt::NeverFalls));
    }

    #[test]
    fn the_curve_of_a_generator_has_no_peak_of_the_broker() {
        let mut of = scale_plan("load.0.producers=1,2,4,8,16", 2).unwrap();
        // X(N) = 1000 N / (1 + 0.05 (N-1) + 0.01 N (N-1)): the peak is at 9.7.
        for clients in [1, 2, 4, 8, 16, 16, 8, 4, 2, 1] {
            let n = f64::from(clients);
            let below = 1.0 + 0.05 * (n - 1.0) + 0.01 * n * (n - 1.0);
            of.runs.push(ScaleRun {
                clients,
                throughput: 1_000.0 * n / below + f64::from(clients % 3),
                ..ScaleRun::default()
            });
        }
        let law = scale_law(&of).unwrap();
        assert!(law.peak.is_some_and(|it| (it - 9.75).abs() < 0.1), "{law:?}");
        assert_eq!(law.no_peak, None);
        let limited = |runs: &[usize]| {
            let mut of = of.clone();
            runs.iter().for_each(|it| of.runs[*it].limited_by = LimitedBy::Generator);
            let law = scale_law(&of).unwrap();
            (law.peak.is_some(), law.no_peak)
        };
        // One of two runs is not most of them; what it limits at few clients alone is not "from there on".
        assert_eq!(limited(&[2]), (true, None));
        assert_eq!(limited(&[2, 1, 8]), (true, None));
        assert_eq!(limited(&[2, 3, 6, 4, 5]), (false, Some(ScaleDoubt::Generator(8))));
    }

    #[test]
    fn a_peak_is_told_where_the_runs_prove_it_and_lies_near_them() {
        let coherence = |value: f64, low: f64| ScaleEstimate { value, interval: Some((low, 2.0 * value - low)) };
        let of = |coherence: ScaleEstimate, r_squared: f64, clients: u32| {
            let runs = vec![ScaleRun { clients, ..ScaleRun::default() }];
            let contention = ScaleEstimate { value: 0.1, interval: None };
            let found = ScaleLaw { contention, coherence, r_squared, worst_residual: 0.02, ..ScaleLaw::default() };
            told_peak(&ScaleRuns { runs, ..ScaleRuns::default() }, &found)
        };
        // sqrt((1 - 0.1) / 0.01) = 9.49.
        assert!((of(coherence(0.01, 0.005), 0.99, 8).unwrap() - 9.487).abs() < 1e-3);
        let unknown = ScaleEstimate { value: 0.01, interval: None };
        for (coherence, r_squared, most, doubt) in [
            (coherence(0.01, 0.005), 0.99, 4, ScaleDoubt::FarBeyond),
            (coherence(0.01, -0.001), 0.99, 8, ScaleDoubt::NotProven),
            (unknown, 0.99, 8, ScaleDoubt::NotProven),
            (ScaleEstimate::default(), 0.99, 8, ScaleDoubt::NeverFalls),
            (coherence(0.01, 0.005), 0.8, 8, ScaleDoubt::PoorFit),
        ] {
            assert_eq!(of(coherence, r_squared, most), Err(doubt), "{coherence:?} {r_squared} {most}");
        }
        // More than in proportion: both parameters are at their bounds, and the curve lies off the points.
        let faster = |clients: u32| {
            let n = f64::from(clients);
            ScaleRun { clients, throughput: 100.0 * n / (1.0 - 0.06 * (n - 1.0)), ..ScaleRun::default() }
        };
        let faster = ScaleRuns { runs: [1, 2, 4, 8].map(faster).into(), ..ScaleRuns::default() };
        assert_eq!(scale_law(&faster).unwrap().no_peak, Some(ScaleDoubt::PoorFit));
    }

    /// A run's warnings were lost; what any load without a rate brings is none.
    #[test]
    fn a_run_keeps_what_puts_its_throughput_in_doubt() {
        use crate::example_warnings::example;
        use archive::{RunSummary, Tier, WarningCode};
        let warnings = [
            (WarningCode::DebugBuild, Tier::Invalid),
            (WarningCode::CpuSteal, Tier::Caution),
            (WarningCode::CpuSteal, Tier::Note),
            (WarningCode::MessagesOutstanding, Tier::Caution),
            (WarningCode::NotSteadyState, Tier::Caution),
        ];
        let record = RunRecord {
            summary: Some(RunSummary {
                warnings: warnings.map(|it| example(it.0, it.1)).into(),
                ..RunSummary::default()
            }),
            ..RunRecord::default()
        };
        let kept: Vec<_> = scale_run(4, &record).cautions.iter().map(|it| (it.code(), it.tier)).collect();
        assert_eq!(kept, [warnings[0], warnings[1], warnings[4]]);
        assert!(scale_run(4, &RunRecord::default()).cautions.is_empty());
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        for (given, part) in [
            ("load.0.producers", "lacks numbers"),
            ("load.0.producers=1,2,4", "4 to 50"),
            ("load.0.producers=1,1,2,2,4", "4 to 50"),
            ("load.0.producers=1,2,4,0", "not a number of clients"),
            ("load.0.producers=1,2,4,x", "not a number of clients"),
            ("load.0.rate=1,2,3,4", "does not count clients"),
        ] {
            let problem = scale_plan(given, 1).unwrap_err();
            assert!(problem.cause.contains(part), "{given}: {}", problem.cause);
        }
    }

    #[test]
    fn groups_are_unthrottled_and_have_the_number_of_clients() {
        let experiment = Experiment::built_in("demo").unwrap();
        let scaled = at_scale(&experiment, "load.0.producers", 7).unwrap();
        assert_eq!(scaled.load[0].producers, 7);
        assert!(scaled.load.iter().all(|it| it.rate.is_none()));
        assert!(at_scale(&experiment, "load.9.producers", 7).is_err());
    }

    #[test]
    fn a_second_group_whose_messages_count_is_refused_with_the_remedy() {
        let group = |producers: u32, consumers: u32| {
            format!("[[load]]\ndestination = \"queue://q\"\nproducers = {producers}\nconsumers = {consumers}\n")
        };
        let told = |groups: &[(u32, u32)], key: &str| {
            let text: String = groups.iter().map(|(out, back)| group(*out, *back)).collect();
            let experiment = Experiment::from_toml(&text, "test").unwrap();
            check_one_group(&experiment, key).err().map(|it| it.sentence())
        };
        assert_eq!(told(&[(1, 1)], "load.0.producers"), None);
        // One group sends, and another one receives.
        assert_eq!(told(&[(1, 0), (0, 1)], "load.0.total-producers"), None);
        assert_eq!(told(&[(1, 0), (0, 1)], "load.1.consumers"), None);
        let refused = told(&[(1, 1), (1, 1)], "load.0.producers").unwrap();
        assert!(refused.contains("load.1 sends as well") && refused.contains("leave load.1 out"), "{refused}");
        let refused = told(&[(1, 1), (1, 1)], "load.1.consumer-connections").unwrap();
        assert!(refused.contains("load.0 receives as well"), "{refused}");
    }
}
