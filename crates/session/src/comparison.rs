//! What archived runs of two sides say of the difference between them.

use std::collections::HashSet;

use archive::{
    ComparedFamily, ComparedFigure, ComparedRun, ComparedSide, Comparison, Decision, LeftOut,
    Quantity, QuantityUnit, RunBlocks, RunRecord, RunState, RunSummary, Tier, WarningCode,
    WithinOneRun,
};
use compare::{
    Difference, Rules, Verdict, holm, paired, runs_to_separate, separated, sign_flip, unpaired,
    verdict,
};
use measure::Problem;
use serde_json::{Value, json};

/// Parts of an experiment in which sides may differ: they are what is compared, or say nothing of the load. A profile costs CPU: it is
/// none of them.
const MAY_DIFFER: [&str; 5] = ["broker", "name", "description", "require", "note"];
/// Reasons that are named, at most.
const MOST_REASONS: usize = 20;

/// A change of more than this is none that a test can tell from another, and JSON has no infinity.
const MOST_CHANGE: f64 = 1e9;

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
    let mut gathered = gather(a, b, options)?;
    decide(gathered.figures.iter_mut(), options);
    Ok(gathered.decided())
}

/// Two sides whose figures are not decided yet.
pub(crate) struct Gathered {
    compared: Comparison,
    figures: Vec<Undecided>,
}

impl Gathered {
    fn decided(self) -> Comparison {
        let figures = self.figures.into_iter().map(|it| it.figure);
        Comparison {
            figures: figures.collect(),
            ..self.compared
        }
    }
}

/// Decides the figures of several pairs of sides at one level, and says so.
pub(crate) fn decide_together(
    mut all: Vec<Gathered>,
    options: ComparisonOptions,
) -> Vec<Comparison> {
    let figures = all.iter_mut().flat_map(|it| &mut it.figures);
    decide(figures, options);
    let count = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
    let family = ComparedFamily {
        cells: count(all.len()),
        figures: count(all.iter().map(|it| it.figures.len()).sum()),
    };
    let decided = all.into_iter().map(|it| Comparison {
        family: (family.cells > 1).then_some(family),
        ..it.decided()
    });
    decided.collect()
}

/// The figures of two sides with the difference of each.
///
/// # Errors
/// As [`comparison`].
pub(crate) fn gather(
    a: &[RunRecord],
    b: &[RunRecord],
    options: ComparisonOptions,
) -> Result<Gathered, Problem> {
    let (of_a, of_b) = sides(a, b, options);
    let mut forced = incomparable(&of_a.records, &of_b.records, options.planned);
    let sides = [("A", &of_a.records), ("B", &of_b.records)];
    forced.extend(sides.iter().filter_map(|(name, side)| mixed(name, side)));
    let mut seen = HashSet::new();
    forced.retain(|problem| seen.insert(problem.sentence()));
    forced.truncate(MOST_REASONS);
    if let Some(first) = forced.first().filter(|_| !options.force) {
        return Err(first.clone());
    }
    // A run alone tells how well it knows itself, but pairs are for tests.
    let least = if options.paired || options.planned {
        2
    } else {
        1
    };
    enough("A", &of_a, least)?;
    enough("B", &of_b, least)?;
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
    let figures = figures(&of_a, &of_b, options);
    let compared = Comparison {
        schema: Comparison::SCHEMA.to_owned(),
        a: of_a.told(),
        b: of_b.told(),
        paired: options.paired,
        level: options.level,
        forced: forced.iter().map(Problem::sentence).collect(),
        ..Comparison::default()
    };
    Ok(Gathered { compared, figures })
}

/// The runs of a side.
struct Side<'a> {
    records: Vec<&'a RunRecord>,
    left_out: Vec<LeftOut>,
}

/// The runs of both sides that count. Of a pair both do, or none.
fn sides<'r>(
    a: &'r [RunRecord],
    b: &'r [RunRecord],
    options: ComparisonOptions,
) -> (Side<'r>, Side<'r>) {
    let of = |all: &'r [RunRecord], others: &[RunRecord]| {
        let mut side = Side {
            records: Vec::new(),
            left_out: Vec::new(),
        };
        for (place, record) in all.iter().enumerate() {
            let partner = others.get(place).filter(|_| options.paired);
            let is_spoiled = |it: &RunRecord| left_out(it, options.force).is_some();
            let alone = partner.is_some_and(is_spoiled);
            let alone = alone.then(|| "its partner does not count".to_owned());
            match left_out(record, options.force).or(alone) {
                None => side.records.push(record),
                Some(why) => side.left_out.push(LeftOut {
                    id: record.id.clone(),
                    why,
                }),
            }
        }
        side
    };
    (of(a, b), of(b, a))
}

/// Why a run does not count; `None` where it does.
pub(crate) fn left_out(record: &RunRecord, force: bool) -> Option<String> {
    if record.state != RunState::Complete || record.summary.is_none() {
        return Some(record.state.as_str().to_owned());
    }
    let is_invalid = !force && has(record, Tier::Invalid);
    is_invalid.then(|| "invalid".to_owned())
}

impl<'a> Side<'a> {
    fn summaries(&self) -> impl Iterator<Item = &'a RunSummary> {
        self.records.iter().filter_map(|it| it.summary.as_ref())
    }

    fn told(self) -> ComparedSide {
        let mut what: Vec<String> = self.records.iter().map(|it| version(it)).collect();
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
            within_one_run: (self.records.len() == 1).then(RunBlocks::default),
            logs: false,
        }
    }
}

/// What was under load, with its version and its runtime's.
pub(crate) fn version(record: &RunRecord) -> String {
    let versions = &record.versions;
    let broker = versions.broker.clone().unwrap_or_default();
    match &versions.runtime {
        Some(runtime) => format!("{broker} on {runtime}"),
        None => broker,
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

fn enough(name: &str, side: &Side<'_>, least: usize) -> Result<(), Problem> {
    if side.records.len() >= least {
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
pub(crate) fn incomparable(a: &[&RunRecord], b: &[&RunRecord], planned: bool) -> Vec<Problem> {
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
        found.extend(made_otherwise(first, other));
        found.extend(profiled_otherwise(first, other));
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
    found
}

/// Why two runs were not made by the same bellows.
fn made_otherwise(a: &RunRecord, b: &RunRecord) -> Option<Problem> {
    let told = |record: &RunRecord| {
        let warnings = record.summary.iter().flat_map(|it| &it.warnings);
        let mut codes = warnings.map(|warning| warning.code);
        let is_debug = codes.any(|code| code == WarningCode::DebugBuild);
        let build = if is_debug { ", a debug build" } else { "" };
        format!("bellows {}{build}", record.versions.bellows)
    };
    let (a, b) = (told(a), told(b));
    (a != b).then(|| {
        Problem::new(
            "the runs were made by several bellows, whose own cost differs",
            format!("{a} and {b}"),
            "make both sides with one, or see the figures all the same with --force",
        )
    })
}

/// Why the profiles of two runs do not cost the same: one has it in blocks alone. Whatever else is planned, what differs would be
/// taken for the broker's.
fn profiled_otherwise(a: &RunRecord, b: &RunRecord) -> Option<Problem> {
    let blocks = |record: &RunRecord| {
        let length = record.experiment.pointer("/profile/blocks");
        let length = length.and_then(Value::as_str);
        length.map_or_else(|| "no blocks".to_owned(), |it| format!("blocks of {it}"))
    };
    let (a, b) = (blocks(a), blocks(b));
    (a != b).then(|| {
        Problem::new(
            "the runs were profiled in other blocks (profile.blocks, --observer), and what profiling costs is in their figures",
            format!("{a} and {b}"),
            "make both sides alike, or see the figures all the same with --force",
        )
    })
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
pub(crate) struct Undecided {
    pub(crate) figure: ComparedFigure,
    /// `None` where none applies.
    test: Option<FigureTest>,
}

/// What a figure is decided by.
#[derive(Clone, Copy)]
enum FigureTest {
    /// The difference of means, and the exact test that guards it.
    Means(Difference, Option<f64>),
    /// Every run of one side has it, and none of the other: the probability of that, and the change that it is.
    Separated { p: f64, change: f64 },
}

impl FigureTest {
    const fn p(&self) -> f64 {
        match self {
            Self::Means(difference, _) => difference.p,
            Self::Separated { p, .. } => *p,
        }
    }
}

/// Every figure that a run has.
fn figures(a: &Side<'_>, b: &Side<'_>, options: ComparisonOptions) -> Vec<Undecided> {
    let mut quantities: Vec<Quantity> = Vec::new();
    for summary in a.summaries().chain(b.summaries()) {
        for quantity in Quantity::decided(summary) {
            if !quantities.contains(&quantity) {
                quantities.push(quantity);
            }
        }
    }
    let replaced = |it: &Quantity| quantities.iter().any(|max| max.is_max_for(it));
    let kept: Vec<bool> = quantities.iter().map(|it| !replaced(it)).collect();
    let quantities = quantities.into_iter().zip(kept);
    let quantities = quantities.filter_map(|(it, is_kept)| is_kept.then_some(it));
    let of = |quantity: &Quantity, side: &Side<'_>| -> Vec<Option<f64>> {
        let values = side.summaries().map(|summary| quantity.of(summary).ok());
        values.collect()
    };
    let decided = quantities.filter_map(|quantity| {
        let (of_a, of_b) = (of(&quantity, a), of(&quantity, b));
        undecided(&FigureKind::of(&quantity, options), of_a, of_b, options)
    });
    decided.collect()
}

/// What a figure is, whatever its values.
pub(crate) struct FigureKind {
    pub(crate) name: String,
    pub(crate) unit: QuantityUnit,
    pub(crate) more_is_better: bool,
    /// Whether to have none of it is a value as good as any: of rates and of failures it is.
    pub(crate) can_be_nothing: bool,
    /// Changes within this share do not matter.
    pub(crate) margin: f64,
}

impl FigureKind {
    fn of(quantity: &Quantity, options: ComparisonOptions) -> Self {
        let is_latency = quantity.latency().is_some();
        Self {
            name: quantity.name(),
            unit: quantity.unit(),
            more_is_better: quantity.more_is_better(),
            can_be_nothing: quantity.more_is_better() || quantity.counts_failures(),
            margin: match quantity.unit() {
                QuantityUnit::Ns if is_latency => options.latency_margin,
                _ => options.margin,
            },
        }
    }

    fn figure(&self, a: Vec<f64>, b: Vec<f64>) -> ComparedFigure {
        ComparedFigure {
            name: self.name.clone(),
            unit: self.unit,
            more_is_better: self.more_is_better,
            a,
            b,
            ..ComparedFigure::default()
        }
    }
}

/// A figure by its value in each run, before it is decided; a run that has none of it has no value.
pub(crate) fn undecided(
    kind: &FigureKind,
    a: Vec<Option<f64>>,
    b: Vec<Option<f64>>,
    options: ComparisonOptions,
) -> Option<Undecided> {
    let positive = |it: &f64| it.is_finite() && *it > 0.0;
    let positive = |values: Vec<Option<f64>>| -> Vec<Option<f64>> {
        values.into_iter().map(|it| it.filter(positive)).collect()
    };
    let (a, b) = (positive(a), positive(b));
    let whole = |values: &[Option<f64>]| values.iter().copied().collect::<Option<Vec<f64>>>();
    match (whole(&a), whole(&b)) {
        (Some(a), Some(b)) if a.len().min(b.len()) == 1 => Some(untested(kind, a, b)),
        (Some(a), Some(b)) => tested(kind, a, b, options),
        _ => Some(without(kind, &a, &b)),
    }
}

/// A figure of which a side has one run alone: how far runs differ is not known, so that no test applies.
fn untested(kind: &FigureKind, a: Vec<f64>, b: Vec<f64>) -> Undecided {
    let means = (mean(&a), mean(&b));
    let change = (means.1 / means.0 - 1.0).min(MOST_CHANGE);
    Undecided {
        figure: ComparedFigure {
            means,
            change,
            interval: (change, change),
            p: 1.0,
            corrected_p: 1.0,
            margin: kind.margin,
            within_one_run: Some(WithinOneRun::default()),
            ..kind.figure(a, b)
        },
        test: None,
    }
}

/// The geometric mean.
fn mean(of: &[f64]) -> f64 {
    (of.iter().map(|it| it.ln()).sum::<f64>() / of.len() as f64).exp()
}

/// A figure that is nothing in some runs: a broker that delivers no message has no rate and no latency. Logarithms of nothing do not exist, so that no
/// test of means applies; a rate that all runs of one side have and no run of the other has changed all the same. Failures come and go by chance: that
/// they are in all runs of one side alone is a question beside the others.
fn without(kind: &FigureKind, a: &[Option<f64>], b: &[Option<f64>]) -> Undecided {
    let missing = |of: &[Option<f64>]| of.iter().filter(|it| it.is_none()).count();
    let (of_a, of_b) = (missing(a), missing(b));
    let mean = |of: &[Option<f64>]| {
        let known: Vec<f64> = of.iter().flatten().copied().collect();
        if known.is_empty() { 0.0 } else { mean(&known) }
    };
    // That a run alone has none may be chance.
    let is_several = a.len().min(b.len()) > 1;
    let apart = match (of_a == a.len(), of_b == b.len()) {
        _ if !(kind.can_be_nothing && is_several) => None,
        (false, true) if of_a == 0 => Some(-1.0),
        (true, false) if of_b == 0 => Some(1.0),
        _ => None,
    };
    let p = apart.map_or(1.0, |_| separated(a.len(), b.len()));
    let change = apart.filter(|_| kind.more_is_better);
    let test = apart.filter(|_| !kind.more_is_better);
    let values = |of: &[Option<f64>]| of.iter().map(|it| it.unwrap_or(0.0)).collect();
    let change_or_none = change.unwrap_or(0.0);
    Undecided {
        figure: ComparedFigure {
            without: (of_a, of_b),
            means: (mean(a), mean(b)),
            change: change_or_none,
            interval: (change_or_none, change_or_none),
            decision: match change {
                Some(_) => Decision::Changed,
                None => Decision::Undecided,
            },
            p,
            corrected_p: p,
            ..kind.figure(values(a), values(b))
        },
        test: test.map(|change| FigureTest::Separated { p, change }),
    }
}

fn tested(
    kind: &FigureKind,
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
    let (low, high) = difference.interval(0.95);
    Some(Undecided {
        figure: ComparedFigure {
            means: (mean(&a), mean(&b)),
            change: share(difference.mean),
            interval: (share(low), share(high)),
            p: difference.p,
            corrected_p: difference.p,
            margin: kind.margin,
            visible: share(difference.visible(options.level)),
            ..kind.figure(a, b)
        },
        test: Some(FigureTest::Means(difference, guard)),
    })
}

/// A difference of logarithms as a share.
fn share(difference: f64) -> f64 {
    // `min` also takes away what is no number.
    difference.exp_m1().min(MOST_CHANGE)
}

/// Decides figures at one level.
pub(crate) fn decide<'f>(
    figures: impl Iterator<Item = &'f mut Undecided>,
    options: ComparisonOptions,
) {
    let tested = figures.filter_map(|it| Some((&mut it.figure, it.test?)));
    let tested: Vec<_> = tested.collect();
    let p: Vec<f64> = tested.iter().map(|it| it.1.p()).collect();
    for ((figure, test), corrected) in tested.into_iter().zip(holm(&p)) {
        figure.corrected_p = corrected;
        match test {
            FigureTest::Means(difference, guard) => {
                let rules = Rules {
                    level: options.level,
                    margin: figure.margin.ln_1p(),
                };
                let found = verdict(&difference, corrected, guard, rules);
                (figure.decision, figure.needed) = told(found);
            }
            FigureTest::Separated { change, .. } if corrected <= options.level => {
                figure.decision = Decision::Changed;
                figure.change = change;
                figure.interval = (change, change);
            }
            FigureTest::Separated { .. } => {
                figure.needed = runs_to_separate(options.level / p.len() as f64);
            }
        }
    }
}

const fn told(of: Verdict) -> (Decision, Option<u32>) {
    match of {
        Verdict::Changed => (Decision::Changed, None),
        Verdict::Negligible => (Decision::Negligible, None),
        Verdict::Same => (Decision::Same, None),
        Verdict::CannotTell { pairs } => (Decision::Undecided, pairs),
    }
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod comparison_tests;
