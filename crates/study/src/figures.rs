//! Figures of two sides: by which test each is decided, and what that says.

use archive::{ComparedFigure, Decision, Quantity, QuantityUnit, WithinOneRun};
use compare::{
    Difference, LEAST_PAIRS, Rules, can_differ, guard, guarded, holm, holm_levels, paired, permuted, runs_to_separate,
    separated, unpaired, verdict,
};

/// A change of more than this is none that a test can tell from another, and JSON has no infinity.
pub(crate) const MOST_CHANGE: f64 = ComparedFigure::MOST_CHANGE;
/// Changes of counts within this share do not matter where refusals, returns or reordering are requested: they vary.
const COUNT_MARGIN: f64 = 0.1;
/// Nor do counts of such that are this share of the messages.
const MESSAGES_MARGIN: f64 = 1e-3;
/// Counts that may be by design; of a message that is lost, duplicated or damaged none is.
const BY_DESIGN: [&str; 3] = ["refused", "returned", "reordered"];

/// How two sides are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparisonOptions {
    /// Runs stand in pairs: the first of A with the first of B, and so on.
    pub paired: bool,
    /// Chance to call anything changed that is not.
    pub level: f64,
    /// Changes of rates and cost within this share do not matter.
    pub margin: f64,
    /// Changes of latencies within this share do not matter.
    pub latency_margin: f64,
    /// Compare what should not be.
    pub force: bool,
    /// The sides' differences were planned: only the machine must be the same.
    pub planned: bool,
}

impl Default for ComparisonOptions {
    fn default() -> Self {
        Self { paired: false, level: 0.05, margin: 0.01, latency_margin: 0.03, force: false, planned: false }
    }
}

pub(crate) struct Undecided {
    pub(crate) figure: ComparedFigure,
    /// `None` where none applies.
    test: Option<FigureTest>,
}

#[derive(Clone, Copy)]
enum FigureTest {
    /// The difference of the logarithms' means, and what guards it.
    Means(Difference, Option<f64>),
    /// The difference of counts, as a part of A's mean, and what guards it.
    Counts(Difference, Option<f64>),
    /// Runs have it or not: the probability that the sides divide so, the smallest possible one, and the change.
    Separated { p: f64, least: f64, change: f64 },
}

impl Undecided {
    /// A figure that each run has or has not; the probability by chance that the sides divide so, and the change.
    pub(crate) const fn separated(figure: ComparedFigure, p: f64, least: f64, change: f64) -> Self {
        Self { figure, test: Some(FigureTest::Separated { p, least, change }) }
    }

    /// A figure that none of so many runs that count has a value of.
    pub(crate) fn of_runs(mut self, runs: (usize, usize)) -> Self {
        (self.figure.a, self.figure.b) = (vec![0.0; runs.0], vec![0.0; runs.1]);
        self.figure.without = runs;
        self
    }

    /// A figure of which no test can tell anything.
    pub(crate) const fn open(figure: ComparedFigure) -> Self {
        Self { figure, test: None }
    }
}

impl FigureTest {
    const fn p(&self) -> f64 {
        match self {
            Self::Means(difference, _) | Self::Counts(difference, _) => difference.p,
            Self::Separated { p, .. } => *p,
        }
    }

    /// The probability that decides, where the one that is corrected for other questions is this.
    fn guarded(&self, p: f64, level: f64) -> f64 {
        match self {
            Self::Means(_, guard) | Self::Counts(_, guard) => guarded(p, *guard, level),
            Self::Separated { .. } => p,
        }
    }

    /// Whether it can show a change at a level, whatever the runs say: else it would take level from other questions.
    fn can_tell(&self, level: f64) -> bool {
        match self {
            Self::Means(difference, _) | Self::Counts(difference, _) => can_differ(difference.count),
            Self::Separated { least, .. } => *least <= level,
        }
    }
}

pub(crate) struct FigureKind {
    pub(crate) name: String,
    pub(crate) unit: QuantityUnit,
    pub(crate) more_is_better: bool,
    /// Whether it counts events, none of which is a value as good as any.
    pub(crate) is_count: bool,
    /// Changes within this share do not matter.
    pub(crate) margin: f64,
    /// Nor does so much of it in a run, of what is counted.
    pub(crate) allowed: f64,
}

impl FigureKind {
    /// A figure of runs that sent so many messages, on average.
    pub(crate) fn of(quantity: &Quantity, messages: f64, options: ComparisonOptions) -> Self {
        let is_latency = quantity.latency().is_some();
        let name = quantity.name();
        let is_by_design = BY_DESIGN.contains(&name.as_str());
        Self {
            allowed: if is_by_design { messages * MESSAGES_MARGIN } else { 0.0 },
            unit: quantity.unit(),
            more_is_better: quantity.more_is_better(),
            is_count: quantity.counts_failures(),
            name,
            margin: match quantity.unit() {
                _ if is_by_design => COUNT_MARGIN,
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
    let whole = |values: &[Option<f64>]| values.iter().copied().collect::<Option<Vec<f64>>>();
    if let (true, Some(a), Some(b)) = (kind.is_count, whole(&a), whole(&b)) {
        if let Some(it) = counts(kind, &a, &b, options) {
            return Some(it);
        }
    } else if kind.is_count {
        // A count that some run does not know is not none: no figure is made of it.
        return None;
    }
    let positive = |it: Option<f64>| it.filter(|it| it.is_finite() && *it > 0.0);
    let [a, b] = [a, b].map(|of| of.into_iter().map(positive).collect::<Vec<_>>());
    if a.is_empty() || b.is_empty() {
        return Some(of_one_side(kind, &a, &b));
    }
    match (whole(&a), whole(&b)) {
        (Some(a), Some(b)) if a.len().min(b.len()) == 1 => Some(untested(kind, a, b)),
        (Some(a), Some(b)) => tested(kind, a, b, options),
        _ => Some(without(kind, &a, &b)),
    }
}

/// A figure of a side whose other one has no run that counts: it is shown, and nothing can be told of it.
fn of_one_side(kind: &FigureKind, a: &[Option<f64>], b: &[Option<f64>]) -> Undecided {
    Undecided::open(ComparedFigure {
        means: (mean_of_known(a), mean_of_known(b)),
        margin: kind.margin,
        ..kind.figure(or_zero(a), or_zero(b))
    })
}

/// The geometric mean of runs that have a value; 0 where none has.
fn mean_of_known(of: &[Option<f64>]) -> f64 {
    let known: Vec<f64> = of.iter().flatten().copied().collect();
    if known.is_empty() { 0.0 } else { mean(&known) }
}

fn or_zero(of: &[Option<f64>]) -> Vec<f64> {
    of.iter().map(|it| it.unwrap_or(0.0)).collect()
}

/// A figure of which a side has one run alone: how far runs differ is not known, so that no test applies.
fn untested(kind: &FigureKind, a: Vec<f64>, b: Vec<f64>) -> Undecided {
    let means = (mean(&a), mean(&b));
    let change = (means.1 / means.0 - 1.0).min(MOST_CHANGE);
    Undecided::open(ComparedFigure {
        means,
        change,
        interval: (change, change),
        margin: kind.margin,
        within_one_run: Some(WithinOneRun::default()),
        ..kind.figure(a, b)
    })
}

fn mean(of: &[f64]) -> f64 {
    (of.iter().map(|it| it.ln()).sum::<f64>() / of.len() as f64).exp()
}

/// A figure that counts events in every run, none in some. `None` where a side has all of it, or a run alone.
fn counts(kind: &FigureKind, a: &[f64], b: &[f64], options: ComparisonOptions) -> Option<Undecided> {
    let none = |of: &[f64]| of.iter().filter(|it| **it <= 0.0).count();
    let without = (none(a), none(b));
    let is_allowed = a.iter().chain(b).all(|it| *it <= kind.allowed);
    let is_apart =
        !is_allowed && ((without.0 == a.len() && without.1 == 0) || (without.0 == 0 && without.1 == b.len()));
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let means = (mean(a), mean(b));
    // Of none on A nothing is a part.
    let unit = if means.0 > 0.0 { means.0 } else { means.1 };
    let found = compare::counted(a, b, options.paired).filter(|_| !is_apart && unit > 0.0)?;
    let mut found = found.scaled(1.0 / unit);
    // Losses that are all or nothing are nothing like normal.
    if let Some(p) = permuted(a, b).filter(|_| !options.paired) {
        found.p = found.p.max(p);
    }
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let guard = guard(&found, options.paired.then_some(&differences[..]));
    Some(Undecided {
        figure: ComparedFigure {
            without,
            means,
            change: found.mean,
            p: Some(found.p),
            margin: kind.margin.max(kind.allowed / unit),
            ..kind.figure(a.to_vec(), b.to_vec())
        },
        test: Some(FigureTest::Counts(found, guard)),
    })
}

/// A figure that is nothing in some runs: a broker that delivers no message has no rate and no latency. Logarithms of
/// nothing do not exist, so no test of means applies; a rate that all runs of one side have and no run of the other has
/// changed all the same. Failures come and go by chance: all runs of one side alone having them is a question beside.
fn without(kind: &FigureKind, a: &[Option<f64>], b: &[Option<f64>]) -> Undecided {
    let missing = |of: &[Option<f64>]| of.iter().filter(|it| it.is_none()).count();
    let (of_a, of_b) = (missing(a), missing(b));
    // Of few runs chance is enough: if every second run has none, four divide so once in eight, six in thirty-two.
    let is_several = a.len().min(b.len()) > 1 && a.len() + b.len() > 5;
    let apart = match (of_a == a.len(), of_b == b.len()) {
        _ if !((kind.more_is_better || kind.is_count) && is_several) => None,
        (false, true) if of_a == 0 => Some(-1.0),
        (true, false) if of_b == 0 => Some(1.0),
        _ => None,
    };
    let p = separated(a.len(), b.len());
    let change = apart.filter(|_| kind.more_is_better);
    let test = apart.filter(|_| !kind.more_is_better);
    let change_or_none = change.unwrap_or(0.0);
    Undecided {
        figure: ComparedFigure {
            without: (of_a, of_b),
            means: (mean_of_known(a), mean_of_known(b)),
            change: change_or_none,
            interval: (change_or_none, change_or_none),
            decision: change.map_or(Decision::Undecided, |_| Decision::Changed),
            p: test.map(|_| p),
            ..kind.figure(or_zero(a), or_zero(b))
        },
        test: test.map(|change| FigureTest::Separated {
            p,
            least: if can_differ(a.len().min(b.len())) { p } else { 1.0 },
            change,
        }),
    }
}

fn tested(kind: &FigureKind, a: Vec<f64>, b: Vec<f64>, options: ComparisonOptions) -> Option<Undecided> {
    let logarithms = |values: &[f64]| values.iter().map(|it| it.ln()).collect::<Vec<f64>>();
    let (ln_a, ln_b) = (logarithms(&a), logarithms(&b));
    let differences: Vec<f64> = ln_a.iter().zip(&ln_b).map(|(a, b)| b - a).collect();
    let difference = if options.paired { paired(&differences)? } else { unpaired(&ln_a, &ln_b)? };
    let guard = guard(&difference, options.paired.then_some(&differences[..]));
    Some(Undecided {
        figure: ComparedFigure {
            means: (mean(&a), mean(&b)),
            change: share(difference.mean),
            p: Some(difference.p),
            margin: kind.margin,
            ..kind.figure(a, b)
        },
        test: Some(FigureTest::Means(difference, guard)),
    })
}

fn share(difference: f64) -> f64 {
    // `min` also takes away what is no number.
    difference.exp_m1().min(MOST_CHANGE)
}

/// Decides figures at one level. Each interval is as strict as the decision: it holds 0 where nothing changed.
pub(crate) fn decide<'f>(figures: impl Iterator<Item = &'f mut Undecided>, options: ComparisonOptions) {
    let tested: Vec<_> = figures.filter_map(|it| Some((&mut it.figure, it.test?))).collect();
    let can_tell = |test: &FigureTest| test.can_tell(options.level);
    let questions = tested.iter().filter(|it| can_tell(&it.1)).count();
    // What is no number is no question.
    let p = tested.iter().map(|(_, test)| if can_tell(test) { test.p() } else { f64::NAN });
    let p: Vec<f64> = p.collect();
    let levels = holm_levels(&p, options.level);
    for (((figure, test), corrected), level) in tested.into_iter().zip(holm(&p)).zip(levels) {
        let is_question = !corrected.is_nan();
        figure.corrected_p = is_question.then(|| test.guarded(corrected, options.level));
        // Were it one more question.
        let level = if is_question { level } else { options.level / (questions + 1) as f64 };
        decide_one(figure, test, level, options.level);
    }
}

/// Decides a figure whose probability is corrected, and that is held against a level of its own.
fn decide_one(figure: &mut ComparedFigure, test: FigureTest, own_level: f64, level: f64) {
    let rules = |margin| Rules { level, own_level, margin };
    // So few runs show nothing.
    let p = figure.corrected_p.unwrap_or(1.0);
    match test {
        FigureTest::Means(difference, guard) => {
            let rules = rules(figure.margin.ln_1p());
            (figure.decision, figure.needed) = verdict(&difference, p, guard, rules);
            let interval = difference.decided_interval(own_level, figure.decision.differs());
            figure.interval = (share(interval.0), share(interval.1));
            figure.visible = share(difference.visible(own_level));
            // Whatever these say: the guard asks for more.
            if !can_differ(difference.count) {
                (figure.needed, figure.visible) = (None, MOST_CHANGE);
            }
        }
        FigureTest::Counts(difference, guard) => {
            // How many runs would tell a margin of a count is no question that anybody asks.
            let rules = rules(figure.margin);
            figure.decision = verdict(&difference, p, guard, rules).0;
            let (low, high) = difference.decided_interval(own_level, figure.decision.differs());
            figure.interval = (low.max(-1.0), high);
            figure.visible = match can_differ(difference.count) {
                true => difference.visible(own_level).min(MOST_CHANGE),
                false => MOST_CHANGE,
            };
        }
        FigureTest::Separated { change, .. } if p <= level => {
            (figure.decision, figure.change, figure.interval) = (Decision::Changed, change, (change, change));
        }
        FigureTest::Separated { .. } if figure.of_runs.is_some() => {}
        FigureTest::Separated { .. } => {
            figure.needed = runs_to_separate(own_level).map(|it| it.max(LEAST_PAIRS as u32));
        }
    }
}
