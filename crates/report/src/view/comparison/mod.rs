//! The view model of a comparison: all that a person sees of two sides, as data.

mod lines;
mod matrix;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use archive::{
    ComparedFigure, ComparedFunctions, ComparedRun, ComparedSide, ComparedStacks, Comparison, Hardware, LatencyLog,
    LeftOut, PairedRuns, RunBlocks, RunReader, Tier, WarningCode,
};
use measure::{MetricInfo, Problem};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::text::{SaidWithin, comparison as words, functions, said_within};

pub use lines::{ComparedCurve, ComparedPanel};
pub use matrix::{CellView, MatrixSource, MatrixView};

/// Remedy where nothing was decided.
pub(crate) const NOT_YET: &str =
    "nothing is decided before two pairs are complete: `bellows ab … --resume` goes on with them";
/// Keys for people, without effect on the run.
const OF_PEOPLE: [&str; 3] = ["description", "note", "require"];
/// Keys that are named at most.
const MOST_DIFFERENCES: usize = 20;
/// Characters of a value that are shown.
const MOST_OF_VALUE: usize = 120;

/// Source of a comparison's page.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSource<'a> {
    /// The decisions.
    pub comparison: &'a Comparison,
    /// Title: the experiment's name.
    pub name: &'a str,
    /// The folders of the runs, by their names.
    pub runs: &'a HashMap<String, PathBuf>,
    /// Histogram logs of A and of B, in place of runs.
    pub logs: Option<(&'a [LatencyLog], &'a [LatencyLog])>,
    /// How the runs were made, where they were made in turns.
    pub pairs: Option<&'a PairedRuns>,
    /// The folder that the page will stand in: runs below it are linked to.
    pub folder: Option<&'a Path>,
}

/// A comparison as a person sees it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ComparisonView {
    /// The experiment's name.
    pub name: String,
    /// When its first run began, RFC 3339 in UTC; empty where that is not known.
    pub created: String,
    /// Version of the bellows that wrote the page.
    pub bellows: String,
    /// Outcome of all figures together.
    pub outcome: ComparisonOutcome,
    /// Changes, in a sentence.
    pub headline: String,
    /// Functions that explain it, in a sentence.
    pub explanation: Option<String>,
    /// Baseline of the comparison.
    pub a: SideView,
    /// Candidate of the comparison.
    pub b: SideView,
    /// Whether the runs stand in pairs, in their order.
    pub paired: bool,
    /// Keys of the experiment in which the sides differ.
    pub differences: Vec<ExperimentDifference>,
    /// Why the sides should not be compared, where that was forced.
    pub forced: Vec<String>,
    /// Recomputed parts, and parts missing on this page.
    pub remarks: Vec<String>,
    /// Warnings of the runs, each once.
    pub warnings: Vec<SideWarning>,
    /// Every figure that is decided.
    pub figures: Vec<FigureRow>,
    /// Functions whose costs changed.
    pub functions: Option<ComparedFunctions>,
    /// Costs of call paths, and proven changes.
    pub stacks: Option<ComparedStacks>,
    /// How it is decided, a sentence each.
    pub notes: Vec<String>,
    /// Charts of every run over time.
    pub panels: Vec<ComparedPanel>,
    /// Percentile curves of both sides.
    pub curves: Vec<ComparedCurve>,
    /// Metrics of the curves.
    pub metrics: Vec<&'static MetricInfo>,
    /// The machine of the first run.
    pub hardware: Hardware,
}

/// Outcome of all figures together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ComparisonOutcome {
    /// One changed for the worse.
    Worse,
    /// None is worse, one is better.
    Better,
    /// All are the same within their margins.
    Same,
    /// One figure is undecided.
    Undecided,
    /// A was compared with itself.
    Noise,
}

impl From<&Comparison> for ComparisonOutcome {
    fn from(of: &Comparison) -> Self {
        match of {
            _ if of.is_aa => Self::Noise,
            _ if of.is_worse() => Self::Worse,
            _ if of.is_better() => Self::Better,
            _ if of.is_undecided() => Self::Undecided,
            _ => Self::Same,
        }
    }
}

/// A side of the comparison.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SideView {
    /// Number and kind of the runs, in a sentence.
    pub told: String,
    /// Its runs that count, in the order in which figures have their values.
    pub runs: Vec<SideRun>,
    /// Its runs that do not count.
    pub left_out: Vec<LeftOut>,
    /// Whether its runs are histogram logs, of which nothing else is known.
    pub logs: bool,
    /// How its only run was cut for intervals within it; `None` where it has several.
    pub within_one_run: Option<RunBlocks>,
}

/// A run that counts.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SideRun {
    /// The run folder's name.
    pub id: String,
    /// Its report beside the page, as names of folders and file.
    pub report: Vec<String>,
    /// A warning makes it invalid by itself.
    pub invalid: bool,
    /// A caution says that some of its numbers are off.
    pub cautious: bool,
}

/// A figure and the decision on it in words.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FigureRow {
    /// Its values.
    #[serde(flatten)]
    pub figure: ComparedFigure,
    /// Decision in words.
    pub decided: String,
    /// Whether it changed for the worse.
    pub worse: bool,
    /// Whether its interval is meaningful: too few runs give a meaningless one, and one run of a side gives none.
    pub interval_says: bool,
}

impl FigureRow {
    /// The figures of a comparison.
    pub(crate) fn of(comparison: &Comparison) -> Vec<Self> {
        let units = words::units(comparison);
        let row = |figure: &ComparedFigure| Self {
            figure: figure.clone(),
            decided: words::decision(figure, words::DecisionText::Full(units)),
            worse: figure.is_worse(),
            interval_says: words::interval_says(figure),
        };
        comparison.figures.iter().map(row).collect()
    }
}

impl ComparisonView {
    /// Reads a folder of runs in pairs with their comparison, for a page. Fails without pairs, or a decision.
    pub(crate) fn of_pairs(dir: &Path, page: &Path) -> Result<Self, Problem> {
        let pairs = PairedRuns::read(dir).map_err(|error| error.problem())?;
        let comparison =
            Comparison::read(dir).map_err(|error| Problem { help: NOT_YET.to_owned(), ..error.problem() })?;
        Ok(Self::read(&ComparisonSource {
            comparison: &comparison,
            name: &pairs.name,
            runs: &pairs.folders(dir),
            logs: None,
            pairs: Some(&pairs),
            folder: Some(page),
        }))
    }

    /// Reads the archive of the runs. Unreadable runs are missing in charts over time, and a remark says so.
    pub fn read(of: &ComparisonSource<'_>) -> Self {
        let comparison = of.comparison;
        let mut remarks = of.pairs.map(|pairs| made_anew(pairs, was_decided(comparison))).unwrap_or_default();
        remarks.extend(comparison.remarks.iter().cloned());
        let a = OpenedSide::open(&comparison.a, of, &mut remarks);
        let mut of_b = comparison.b.clone();
        if of.pairs.is_some() {
            // All keys that differ stand below.
            words::broker_of_b(comparison).clone_into(&mut of_b.what);
        }
        let b = OpenedSide::open(&of_b, of, &mut remarks);
        let drawn = match of.logs {
            Some((a, b)) => lines::Drawn::of_logs(a, b, comparison, &mut remarks),
            None => lines::Drawn::read(&a.readers, &b.readers, comparison, &mut remarks),
        };
        let first = a.readers.iter().flatten().next();
        let experiments = match of.pairs {
            Some(pairs) => Some((&pairs.a, &pairs.b)),
            None => {
                first.zip(b.readers.iter().flatten().next()).map(|(a, b)| (&a.record.experiment, &b.record.experiment))
            }
        };
        Self {
            name: of.name.to_owned(),
            created: first_created(a.readers.iter().chain(&b.readers).flatten()),
            bellows: env!("CARGO_PKG_VERSION").to_owned(),
            outcome: ComparisonOutcome::from(comparison),
            headline: words::headline(comparison),
            explanation: comparison.functions.as_ref().and_then(functions::explanation),
            paired: comparison.paired,
            differences: experiments.map(|(a, b)| differences_between(a, b)).unwrap_or_default(),
            forced: comparison.forced.clone(),
            remarks,
            warnings: side_warnings(&a.readers, &b.readers),
            figures: FigureRow::of(comparison),
            functions: comparison.functions.clone(),
            stacks: comparison.stacks.clone(),
            notes: words::notes(comparison, words::ShownColumns::ALL),
            panels: drawn.panels,
            metrics: drawn.curves.iter().map(|it| it.metric.info()).collect(),
            curves: drawn.curves,
            hardware: first.map_or_else(Hardware::default, |it| it.record.hardware.clone()),
            a: a.view,
            b: b.view,
        }
    }
}

/// A side whose runs were read.
#[derive(Default)]
struct OpenedSide {
    view: SideView,
    /// One for each run; `None` where it cannot be read.
    readers: Vec<Option<RunReader>>,
}

impl OpenedSide {
    fn open(side: &ComparedSide, of: &ComparisonSource<'_>, remarks: &mut Vec<String>) -> Self {
        let reader = |run: &ComparedRun| {
            let dir = of.runs.get(&run.id)?;
            RunReader::open(dir).ok()
        };
        // A log has no folder.
        let runs = side.runs.iter().filter(|_| !side.logs);
        let readers: Vec<Option<RunReader>> = runs.map(reader).collect();
        let missing = readers.iter().filter(|it| it.is_none()).count();
        if missing > 0 {
            let runs = measure::counted(missing as u64, "run");
            remarks.push(format!("{runs} cannot be read any more and is drawn by its figures alone"));
        }
        let run = |run: &ComparedRun| SideRun {
            id: run.id.clone(),
            report: report_beside(of, &run.id).unwrap_or_default(),
            invalid: run.invalid,
            cautious: run.cautious,
        };
        Self {
            view: SideView {
                told: words::counted_runs(side),
                runs: side.runs.iter().map(run).collect(),
                left_out: side.left_out.clone(),
                logs: side.logs,
                within_one_run: side.within_one_run.clone(),
            },
            readers,
        }
    }
}

/// When the first of some runs began; empty where that is not known.
fn first_created<'r>(runs: impl Iterator<Item = &'r RunReader>) -> String {
    let created = runs.map(|run| run.record.created.as_str()).filter(|it| !it.is_empty());
    created.min().unwrap_or_default().to_owned()
}

/// The path from the page to a run's report, if that is below the page's folder.
fn report_beside(of: &ComparisonSource<'_>, id: &str) -> Option<Vec<String>> {
    super::report_below(of.runs.get(id)?, of.folder?)
}

/// Whether a look before the last pair decided everything, and nothing else ended the experiment.
fn was_decided(of: &Comparison) -> bool {
    let runs = of.a.runs.len().min(of.b.runs.len());
    let is_early = |look: &u32| *look as usize <= runs;
    of.looks.len() > 1 && of.broke_off.is_none() && of.looks.iter().any(is_early)
}

/// Pairs with a run that does not count or was disturbed, by reason, and their fate. `decided`: no more are repeated.
fn made_anew(of: &PairedRuns, decided: bool) -> Vec<String> {
    let mut reasons: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let anew = of.made_anew();
    let is_made = |pair: u32| of.runs.iter().any(|run| run.pair == pair);
    for run in &of.runs {
        let why = match (&run.spoiled, run.disturbed) {
            (Some(why), _) => format!("a run does not count: {why}"),
            (None, true) => "other programs disturbed a run, whether or not it has a warning".to_owned(),
            (None, false) => continue,
        };
        let becomes = match anew.iter().position(|pair| *pair == run.pair) {
            _ if run.own && !of.is_hit(run.pair) => {
                format!("this is a result of {}, and was not repeated", run.side)
            }
            Some(number) if is_made(of.pairs + number as u32) => "repeated".to_owned(),
            Some(_) if decided => "not repeated: decided before".to_owned(),
            Some(_) => "to be repeated".to_owned(),
            None => format!(
                "not repeated: the limit is {} of {}",
                of.most_anew(),
                measure::counted(of.pairs.into(), "pair")
            ),
        };
        let reason = format!("{why}; {becomes}");
        reasons.entry(reason).or_default().insert(run.pair + 1);
    }
    let told = reasons.into_iter().map(|(reason, pairs)| {
        let of = if pairs.len() == 1 { "pair" } else { "pairs" };
        let pairs: Vec<String> = pairs.iter().map(u32::to_string).collect();
        format!("{of} {}: {reason}", pairs.join(", "))
    });
    told.collect()
}

/// A key whose values differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ExperimentDifference {
    /// The key, as `--set` writes it: `broker.schedulers`.
    pub key: String,
    /// Its value on side A; `None` where it has none.
    pub a: Option<String>,
    /// Its value on side B.
    pub b: Option<String>,
}

/// All keys in which two experiments differ, in their order.
fn differences_between(a: &Value, b: &Value) -> Vec<ExperimentDifference> {
    let mut found = Vec::new();
    collect(Some(a), Some(b), "", &mut found);
    found
}

fn collect(a: Option<&Value>, b: Option<&Value>, path: &str, found: &mut Vec<ExperimentDifference>) {
    if a == b || found.len() >= MOST_DIFFERENCES {
        return;
    }
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    // A part that one side lacks is told key by key.
    if a.is_none_or(Value::is_object) && b.is_none_or(Value::is_object) {
        let none = Map::new();
        let [of_a, of_b] = [a, b].map(|it| it.and_then(Value::as_object).unwrap_or(&none));
        let only_b = of_b.keys().filter(|key| !of_a.contains_key(*key));
        let keys = of_a.keys().chain(only_b);
        for key in keys.filter(|key| !path.is_empty() || !OF_PEOPLE.contains(&key.as_str())) {
            collect(of_a.get(key), of_b.get(key), &below(key), found);
        }
        return;
    }
    if let (Some(Value::Array(of_a)), Some(Value::Array(of_b))) = (a, b) {
        for index in 0..of_a.len().max(of_b.len()) {
            let key = below(&index.to_string());
            collect(of_a.get(index), of_b.get(index), &key, found);
        }
        return;
    }
    let shown = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(cut(text)),
        // 10000.0 is how a rate of 10000 is archived.
        Value::Number(number) if number.is_f64() => Some(number.as_f64().unwrap_or_default().to_string()),
        other => Some(cut(&other.to_string())),
    };
    found.push(ExperimentDifference { key: path.to_owned(), a: a.and_then(shown), b: b.and_then(shown) });
}

fn cut(text: &str) -> String {
    match text.chars().count() > MOST_OF_VALUE {
        true => text.chars().take(MOST_OF_VALUE - 1).collect::<String>() + "…",
        false => text.to_owned(),
    }
}

/// A warning that runs of a comparison have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SideWarning {
    /// Consequence for the numbers.
    pub tier: Tier,
    /// Its kind.
    pub code: WarningCode,
    /// Runs of A that have it.
    pub a: usize,
    /// Runs of B that have it.
    pub b: usize,
    /// Sentence of the first of them.
    pub text: String,
    /// Words of others within it, for redaction.
    #[serde(skip)]
    #[cfg_attr(test, ts(skip))]
    pub(crate) said: Option<SaidWithin>,
}

/// The warnings of both sides' runs, the graver first. Notes are the runs' own matter.
fn side_warnings(a: &[Option<RunReader>], b: &[Option<RunReader>]) -> Vec<SideWarning> {
    let mut found: BTreeMap<(Tier, WarningCode), SideWarning> = BTreeMap::new();
    for (side, is_a) in [(a, true), (b, false)] {
        for run in side.iter().flatten() {
            let mut seen = Vec::new();
            for warning in run.record.summary.iter().flat_map(|it| &it.warnings) {
                // Sides that both are of a debug build can be compared.
                let tier = match warning.code() {
                    WarningCode::DebugBuild => Tier::Caution,
                    _ => warning.tier,
                };
                let key = (tier, warning.code());
                if warning.tier == Tier::Note || seen.contains(&key) {
                    continue;
                }
                seen.push(key);
                let entry = found.entry(key).or_insert_with(|| SideWarning {
                    tier,
                    code: warning.code(),
                    a: 0,
                    b: 0,
                    text: warning.text.clone(),
                    said: said_within(warning),
                });
                if is_a { entry.a += 1 } else { entry.b += 1 }
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use archive::{ComparedSideName, PairedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_side_spoiled_itself_was_not_made_anew() {
        let run = |pair: u32, side: ComparedSideName, own: bool, disturbed| PairedRun {
            pair,
            side,
            id: format!("run-{pair}-{side}"),
            spoiled: own.then(|| "failed".to_owned()),
            own,
            disturbed,
        };
        use ComparedSideName::{A, B};
        let runs = [(0, A, false), (0, B, true), (1, B, true), (1, A, false), (2, A, false), (2, B, true)];
        let runs = runs.map(|(pair, side, own)| run(pair, side, own, (pair, side) == (2, A))).into();
        let mut of = PairedRuns { pairs: 3, runs, ..PairedRuns::default() };
        let told = |of: &PairedRuns, decided, anew: &str| {
            let mut expected = [
                format!("pair 3: a run does not count: failed; {anew}"),
                "pairs 1, 2: a run does not count: failed; this is a result of B, and was not repeated".to_owned(),
                format!("pair 3: other programs disturbed a run, whether or not it has a warning; {anew}"),
            ];
            let mut made = made_anew(of, decided);
            expected.sort_unstable();
            made.sort_unstable();
            assert_eq!(made, expected);
        };
        told(&of, false, "to be repeated");
        told(&of, true, "not repeated: decided before");
        of.runs.push(run(3, A, false, false));
        told(&of, true, "repeated");
        of.pairs = 1;
        of.runs = vec![run(0, A, false, true)];
        let expected = "pair 1: other programs disturbed a run, whether or not it has a warning; not repeated: the \
                        limit is 0 of 1 pair";
        assert_eq!(made_anew(&of, false), [expected]);
    }

    /// An experiment was decided where it took an early look, and nothing ended it.
    #[test]
    fn what_was_decided_before_makes_no_pair_any_more() {
        let side = |runs| ComparedSide { runs: vec![ComparedRun::default(); runs], ..ComparedSide::default() };
        let of = |looks: &[u32], runs, broke_off: Option<&str>| Comparison {
            looks: looks.to_vec(),
            a: side(runs),
            b: side(runs),
            broke_off: broke_off.map(str::to_owned),
            ..Comparison::default()
        };
        assert!(was_decided(&of(&[5, 7], 5, None)));
        assert!(!was_decided(&of(&[5, 7], 4, None)));
        assert!(!was_decided(&of(&[5, 7], 5, Some("stopped"))));
        assert!(!was_decided(&of(&[7], 5, None)));
    }

    #[test]
    fn each_key_that_differs_is_named_once() {
        let a = json!({"name": "x", "note": "a", "broker": {"kind": "rabbitmq", "schedulers": 2},
            "load": [{"message-size": 12, "rate": 10_000.0}, {"rate": 0.5}]});
        let b = json!({"name": "x", "note": "b", "broker": {"kind": "rabbitmq", "schedulers": 1, "config": {"k": "v"}},
            "load": [{"message-size": 2000, "rate": 4_000.0}]});
        let found = differences_between(&a, &b);
        let told: Vec<(&str, Option<&str>, Option<&str>)> =
            found.iter().map(|it| (it.key.as_str(), it.a.as_deref(), it.b.as_deref())).collect();
        let expected = [
            ("broker.schedulers", Some("2"), Some("1")),
            ("broker.config.k", None, Some("v")),
            ("load.0.message-size", Some("12"), Some("2000")),
            ("load.0.rate", Some("10000"), Some("4000")),
            ("load.1.rate", Some("0.5"), None),
        ];
        assert_eq!(told, expected);
        assert!(differences_between(&a, &a).is_empty());
        let long = differences_between(&json!({"k": "x".repeat(1_000)}), &json!({}));
        assert_eq!(long.first().and_then(|it| it.a.clone()).expect("a value").chars().count(), MOST_OF_VALUE);
    }
}
