//! What archived runs of two sides say of the difference between them.

use archive::{
    ComparedFigure, ComparedRun, ComparedSide, Comparison, Decision, LeftOut, Quantity,
    QuantityUnit, RunRecord, RunState, RunSummary, Tier, WarningCode,
};
use compare::{Difference, Rules, Verdict, holm, paired, sign_flip, unpaired, verdict};
use measure::Problem;
use serde_json::{Value, json};

/// Parts of an experiment in which sides may differ: they are what is compared, or say nothing of the load.
const MAY_DIFFER: [&str; 6] = [
    "broker",
    "name",
    "description",
    "require",
    "profile",
    "note",
];

/// Characters of a value that differs that are shown.
const MOST_SHOWN: usize = 100;

/// How two sides are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparisonOptions {
    /// Runs stand in pairs: the first of A with the first of B, and so on.
    pub paired: bool,
    /// Chance to call anything changed that is not.
    pub level: f64,
    /// Changes of rates and cost within this share do not matter.
    pub margin: f64,
    /// The same for latencies.
    pub latency_margin: f64,
    /// Compare what should not be.
    pub force: bool,
    /// What the sides differ in was planned: only the machine must be the same.
    pub planned: bool,
}

impl Default for ComparisonOptions {
    fn default() -> Self {
        Self {
            paired: false,
            level: 0.05,
            margin: 0.01,
            latency_margin: 0.03,
            force: false,
            planned: false,
        }
    }
}

/// Compares runs of two sides. Those that are not complete, or that a warning calls invalid, are left out.
///
/// # Errors
/// Where the sides must not be compared: other machines, other loads, too few runs. `force` compares what can be all the same.
pub fn comparison(
    a: &[RunRecord],
    b: &[RunRecord],
    options: ComparisonOptions,
) -> Result<Comparison, Problem> {
    let (of_a, of_b) = (Side::of(a, options.force), Side::of(b, options.force));
    let mut forced = incomparable(&of_a.records, &of_b.records, options.planned);
    let sides = [("A", &of_a.records), ("B", &of_b.records)];
    forced.extend(sides.iter().filter_map(|(name, side)| mixed(name, side)));
    if let Some(first) = forced.first().filter(|_| !options.force) {
        return Err(first.clone());
    }
    enough("A", &of_a)?;
    enough("B", &of_b)?;
    if options.paired && of_a.records.len() != of_b.records.len() {
        return Err(Problem::new(
            "pairs need as many runs on both sides",
            format!(
                "{} of A and {} of B count",
                of_a.records.len(),
                of_b.records.len()
            ),
            "leave out the run without a partner, or compare without --paired",
        ));
    }
    let mut figures = figures(&of_a, &of_b, options);
    decide(&mut figures, options);
    Ok(Comparison {
        schema: Comparison::SCHEMA.to_owned(),
        a: of_a.told(),
        b: of_b.told(),
        paired: options.paired,
        level: options.level,
        is_aa: false,
        looks: Vec::new(),
        figures: figures.into_iter().map(|it| it.figure).collect(),
        forced: forced.iter().map(Problem::sentence).collect(),
        functions: None,
        no_functions: None,
    })
}

/// The runs of a side.
struct Side<'a> {
    records: Vec<&'a RunRecord>,
    left_out: Vec<LeftOut>,
}

impl<'a> Side<'a> {
    fn of(all: &'a [RunRecord], force: bool) -> Self {
        let mut side = Self {
            records: Vec::new(),
            left_out: Vec::new(),
        };
        for record in all {
            let invalid = has(record, Tier::Invalid);
            let counts = record.state == RunState::Complete && record.summary.is_some();
            if counts && (force || !invalid) {
                side.records.push(record);
            } else {
                let why = match invalid {
                    true => "invalid",
                    false => record.state.as_str(),
                };
                side.left_out.push(LeftOut {
                    id: record.id.clone(),
                    why: why.to_owned(),
                });
            }
        }
        side
    }

    fn summaries(&self) -> impl Iterator<Item = &'a RunSummary> {
        self.records.iter().filter_map(|it| it.summary.as_ref())
    }

    fn told(self) -> ComparedSide {
        let version = |record: &&RunRecord| {
            let versions = &record.versions;
            let broker = versions.broker.clone().unwrap_or_default();
            match &versions.runtime {
                Some(runtime) => format!("{broker} on {runtime}"),
                None => broker,
            }
        };
        let mut what: Vec<String> = self.records.iter().map(version).collect();
        what.dedup();
        ComparedSide {
            what: what.join("; "),
            runs: self
                .records
                .iter()
                .map(|record| ComparedRun {
                    id: record.id.clone(),
                    cautious: has(record, Tier::Caution),
                })
                .collect(),
            left_out: self.left_out,
        }
    }
}

/// Whether a warning of a run is of this tier. A debug build of bellows spoils what is said of a run alone; sides that both
/// have it can be compared.
pub(crate) fn has(record: &RunRecord, tier: Tier) -> bool {
    let warnings = record.summary.iter().flat_map(|it| &it.warnings);
    let mut tiers = warnings.map(|warning| match warning.code {
        WarningCode::DebugBuild => Tier::Caution,
        _ => warning.tier,
    });
    tiers.any(|it| it == tier)
}

fn enough(name: &str, side: &Side<'_>) -> Result<(), Problem> {
    if side.records.len() >= 2 {
        return Ok(());
    }
    let counted = |runs: usize| measure::counted(runs as u64, "run");
    Err(Problem::new(
        format!("side {name} has too few runs to know how far runs differ by themselves"),
        format!(
            "{} of {} complete and valid",
            side.records.len(),
            counted(side.records.len() + side.left_out.len())
        ),
        "make more with `bellows run … --repeat 5`: two are the least, six or more decide",
    ))
}

/// Why the sides must not be compared.
fn incomparable(a: &[&RunRecord], b: &[&RunRecord], planned: bool) -> Vec<Problem> {
    let (Some(first), others) = (a.first(), a.iter().skip(1).chain(b)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for other in others {
        let (ours, theirs) = (&first.hardware, &other.hardware);
        let machine = |it: &archive::Hardware| format!("{} with {} cores", it.cpu, it.cores);
        if machine(ours) != machine(theirs) {
            found.push(Problem::new(
                "the runs were made on different machines",
                format!("{} and {}", machine(ours), machine(theirs)),
                "compare runs of one machine, or see the figures all the same with --force",
            ));
        }
        if planned {
            continue;
        }
        if let Some((key, values)) = differing(&first.experiment, &other.experiment, "") {
            found.push(Problem::new(
                format!("the runs put different loads on the broker: {key} differs"),
                values,
                "compare runs of one experiment, or see the figures all the same with --force",
            ));
        }
    }
    found.dedup();
    found
}

/// Why the runs of a side are not of one broker.
fn mixed(name: &str, side: &[&RunRecord]) -> Option<Problem> {
    let (first, others) = side.split_first()?;
    others.iter().find_map(|other| {
        let versions = |it: &RunRecord| json!([it.versions.broker, it.versions.runtime]);
        let broker = |it: &RunRecord| it.experiment.get("broker").cloned().unwrap_or_default();
        let (key, values) = differing(&versions(first), &versions(other), "version")
            .or_else(|| differing(&broker(first), &broker(other), "broker"))?;
        Some(Problem::new(
            format!("the runs of side {name} are of several brokers: {key} differs"),
            values,
            "choose runs of one broker, or see the figures all the same with --force",
        ))
    })
}

/// The first key of two experiments whose values differ, and both values, cut.
fn differing(a: &Value, b: &Value, path: &str) -> Option<(String, String)> {
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match (a, b) {
        (Value::Object(of_a), Value::Object(of_b)) => {
            let keys = of_a.keys().chain(of_b.keys());
            let mut compared =
                keys.filter(|key| !path.is_empty() || !MAY_DIFFER.contains(&key.as_str()));
            compared.find_map(|key| {
                let of = |all: &serde_json::Map<String, Value>| {
                    all.get(key).cloned().unwrap_or_default()
                };
                differing(&of(of_a), &of(of_b), &below(key))
            })
        }
        (Value::Array(of_a), Value::Array(of_b)) if of_a.len() == of_b.len() => {
            let pairs = of_a.iter().zip(of_b).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (a, b))| differing(a, b, &below(&index.to_string())))
        }
        (a, b) => (a != b).then(|| {
            let cut = |it: &Value| it.to_string().chars().take(MOST_SHOWN).collect::<String>();
            (path.to_owned(), format!("{} and {}", cut(a), cut(b)))
        }),
    }
}

/// A figure, and what is needed to decide it.
struct Undecided {
    figure: ComparedFigure,
    difference: Difference,
    guard: Option<f64>,
}

/// Every figure that each run has, and that is more than nothing in each.
fn figures(a: &Side<'_>, b: &Side<'_>, options: ComparisonOptions) -> Vec<Undecided> {
    let Some(first) = a.summaries().next() else {
        return Vec::new();
    };
    let quantities = Quantity::decided(first).into_iter();
    quantities
        .filter_map(|quantity| {
            let values = |side: &Side<'_>| -> Option<Vec<f64>> {
                let values = side.summaries().map(|summary| quantity.of(summary).ok());
                values
                    .map(|value| value.filter(|it| it.is_finite() && *it > 0.0))
                    .collect()
            };
            undecided(&quantity, values(a)?, values(b)?, options)
        })
        .collect()
}

fn undecided(
    quantity: &Quantity,
    a: Vec<f64>,
    b: Vec<f64>,
    options: ComparisonOptions,
) -> Option<Undecided> {
    let logarithms = |values: &[f64]| values.iter().map(|it| it.ln()).collect::<Vec<f64>>();
    let (ln_a, ln_b) = (logarithms(&a), logarithms(&b));
    let (difference, guard) = match options.paired {
        true => {
            let pairs = ln_a.iter().zip(&ln_b);
            let differences: Vec<f64> = pairs.map(|(a, b)| b - a).collect();
            (paired(&differences)?, sign_flip(&differences))
        }
        false => (unpaired(&ln_a, &ln_b)?, None),
    };
    let mean = |of: &[f64]| (of.iter().sum::<f64>() / of.len() as f64).exp();
    let (low, high) = difference.interval(0.95);
    Some(Undecided {
        figure: ComparedFigure {
            name: quantity.name(),
            unit: quantity.unit(),
            more_is_better: quantity.more_is_better(),
            means: (mean(&ln_a), mean(&ln_b)),
            a,
            b,
            change: difference.mean.exp_m1(),
            interval: (low.exp_m1(), high.exp_m1()),
            p: difference.p,
            corrected_p: difference.p,
            margin: match quantity.unit() {
                QuantityUnit::Ns if quantity.latency().is_some() => options.latency_margin,
                _ => options.margin,
            },
            visible: difference.visible(options.level).exp_m1(),
            decision: Decision::Undecided,
            needed: None,
        },
        difference,
        guard,
    })
}

/// Decides all figures at one level.
fn decide(figures: &mut [Undecided], options: ComparisonOptions) {
    let p: Vec<f64> = figures.iter().map(|it| it.difference.p).collect();
    for (of, corrected) in figures.iter_mut().zip(holm(&p)) {
        let rules = Rules {
            level: options.level,
            margin: of.figure.margin.ln_1p(),
        };
        of.figure.corrected_p = corrected;
        (of.figure.decision, of.figure.needed) =
            match verdict(&of.difference, corrected, of.guard, rules) {
                Verdict::Changed => (Decision::Changed, None),
                Verdict::Negligible => (Decision::Negligible, None),
                Verdict::Same => (Decision::Same, None),
                Verdict::CannotTell { pairs } => (Decision::Undecided, pairs),
            };
    }
}

#[cfg(test)]
mod tests {
    use archive::{Throughput, Versions};

    use super::*;

    fn run(id: &str, version: &str, schedulers: u32, rate: f64) -> RunRecord {
        RunRecord {
            id: id.into(),
            state: RunState::Complete,
            experiment: json!({
                "broker": {"kind": "rabbitmq", "schedulers": schedulers},
                "load": [{"message-size": 100}],
            }),
            versions: Versions {
                broker: Some(version.into()),
                ..Versions::default()
            },
            summary: Some(RunSummary {
                sent: Throughput { total: 1, rate },
                ..RunSummary::default()
            }),
            ..RunRecord::default()
        }
    }

    #[test]
    fn sides_differ_in_the_broker_and_are_of_one_each() {
        let options = ComparisonOptions::default();
        let side = |version: &str, schedulers, rate: f64| {
            [1.0, 1.001, 0.999].map(|it| run("x", version, schedulers, rate * it))
        };
        let (old, new) = (side("3.10", 2, 1_000.0), side("4.0", 1, 1_200.0));
        let found = comparison(&old, &new, options).expect("comparable");
        let [sent] = found.figures.as_slice() else {
            panic!("{found:#?}");
        };
        assert_eq!(
            (sent.name.as_str(), sent.decision),
            ("sent rate", Decision::Changed)
        );
        assert!((sent.change - 0.2).abs() < 1e-6 && !found.is_worse());
        let mixed = [&old[..2], &new[..1]].concat();
        let told = comparison(&mixed, &new, options)
            .expect_err("two brokers")
            .sentence();
        assert!(told.contains("side A") && told.contains("3.10"), "{told}");
        let other = [&old[..2], &side("3.10", 1, 1_000.0)[..1]].concat();
        let told = comparison(&other, &new, options)
            .expect_err("two brokers")
            .sentence();
        assert!(told.contains("broker.schedulers"), "{told}");
        let forced = ComparisonOptions {
            force: true,
            ..options
        };
        let forced = comparison(&mixed, &new, forced).expect("forced");
        assert_eq!(forced.forced.len(), 1, "{:?}", forced.forced);
    }
}
