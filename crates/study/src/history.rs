//! The runs of one experiment over time.

use std::collections::HashSet;

use archive::{
    History, HistoryChange, HistoryFigure, HistoryLevel, HistoryRun, LeftOut, Quantity, QuantityUnit, RunRecord,
    RunSummary, RunsCounted, WarningCode,
};
use compare::{ChangePoint, ChangeSearch, MOST_VALUES, apart, change_points};

use crate::comparison::{elsewhere, hidden_words, incomparable, left_out, load_of, per_time, stopped_rates, version};
use crate::figures::MOST_CHANGE;
use crate::spoiled::{SpoiledBy, spoiled_by};

/// Figures that are looked at, at most, those of the newest runs first: names of probes and pages come from files.
const MOST_FIGURES: usize = 100;
/// Runs of either kind in a figure of runs; fewer are no level.
const LEAST_OF_KIND: usize = 3;
/// Histograms keep three digits, and so many are shown: of ratios, what differs by less is one.
const RESOLUTION: f64 = 1e-3;
const MOST_NAMED: usize = 4;

/// The history of the runs of one name, in any order. The newest decides which runs count: those of its machine, load
/// and bellows, at most the last [`MOST_VALUES`]. Runs spoiled by what is under load count as that alone.
pub fn history(name: &str, records: &[RunRecord], level: f64) -> History {
    let mut in_order: Vec<&RunRecord> = records.iter().collect();
    // The time that people read has whole seconds.
    in_order.sort_by_key(|it| (it.origin_unix_ns, it.created.clone(), it.id.clone()));
    let (mut counted, mut out) = (Vec::new(), Vec::new());
    for record in in_order.into_iter().rev() {
        let newest = counted.first().copied();
        match why_not(record, newest, counted.len()) {
            None => counted.push(record),
            Some(why) => out.push(LeftOut { id: record.id.clone(), why }),
        }
    }
    counted.reverse();
    out.reverse();
    let loads: HashSet<String> = records.iter().map(load_of).collect();
    let is_spoiled: Vec<bool> = counted.iter().map(|it| is_spoiled(it)).collect();
    let (quantities, others) = quantities(&counted, &is_spoiled);
    let mut figures = Vec::new();
    if is_spoiled.contains(&true) {
        let values = is_spoiled.iter().map(|it| Some(f64::from(u8::from(*it))));
        figures.push(of_runs(RunsCounted::INVALID.to_owned(), values.collect()));
    }
    let observed = quantities.into_iter().map(|it| ObservedFigure::new(it, &counted, &is_spoiled));
    let observed: Vec<ObservedFigure> = observed.collect();
    figures.extend(lacking(&observed));
    figures.extend(observed.into_iter().map(|it| it.figure));
    // All figures together have the level; what is the same in every run is no question.
    let questions = figures.iter().filter(|it| may_change(it)).count();
    let search = ChangeSearch { level: level / questions.max(1) as f64, ..ChangeSearch::default() };
    let figures = figures.into_iter().map(|it| changed(it, &counted, search));
    // That a run now and then lacks a figure, its line says.
    let figures = figures.filter(|it| it.why.is_empty() || !it.changes.is_empty());
    let figures: Vec<HistoryFigure> = figures.collect();
    let names = figures.iter().map(|it| it.name.as_str());
    let per_time = per_time(names, counted.iter().filter_map(|it| it.summary.as_ref()));
    let hidden = hidden_words(counted.iter().copied());
    History {
        schema: History::SCHEMA.to_owned(),
        name: name.to_owned(),
        loads: loads.len(),
        ad_hoc: counted.last().is_some_and(|it| is_ad_hoc(it)),
        level,
        least_runs: search.least_values(),
        least_runs_for_return: search.least_values_of_window(),
        runs_until_return: search.windows(counted.len()),
        debug_build: counted.last().is_some_and(|it| is_of_debug_build(it)),
        figures,
        figures_left_out: others,
        remarks: hidden.into_iter().chain(per_time).collect(),
        runs: counted.into_iter().map(run).collect(),
        left_out: out,
    }
}

/// Why a run does not count; `None` where it does.
fn why_not(record: &RunRecord, newest: Option<&RunRecord>, counted: usize) -> Option<String> {
    if counted >= MOST_VALUES {
        return Some(format!("only the last {MOST_VALUES} are examined"));
    }
    let other = || {
        let newest = newest?;
        let problems = incomparable(&[newest], &[record], false);
        let problem = problems.first().map(|it| it.cause.clone());
        let elsewhere = || elsewhere(newest, record).filter(|_| is_ad_hoc(newest));
        problem.or_else(|| Some(format!("of another broker: {}", elsewhere()?)))
    };
    let spoiled = left_out(record, false).filter(|_| !is_spoiled(record));
    spoiled.or_else(other)
}

/// Whether a debug build of bellows made a run: those of another build do not count beside it.
fn is_of_debug_build(record: &RunRecord) -> bool {
    let mut warnings = record.summary.iter().flat_map(|it| &it.warnings);
    warnings.any(|it| it.code() == WarningCode::DebugBuild)
}

/// Whether a run is called after its command, so that the name says nothing of what was run.
fn is_ad_hoc(record: &RunRecord) -> bool {
    record.command.get(1) == Some(&record.name)
}

/// Whether what is under load spoiled a run itself, which may have failed by that.
fn is_spoiled(record: &RunRecord) -> bool {
    spoiled_by(record) == Some(SpoiledBy::Side)
}

struct ObservedFigure {
    figure: HistoryFigure,
    /// One for each run; `None` where it has the figure or counts as spoiled.
    why: Vec<Option<&'static str>>,
}

impl ObservedFigure {
    fn new(of: Quantity, counted: &[&RunRecord], is_spoiled: &[bool]) -> Self {
        let values = counted.iter().zip(is_spoiled).map(|(run, is_spoiled)| {
            let value = run.summary.as_ref().filter(|_| !is_spoiled).map(|it| of.of(it))?;
            Some(value.and_then(|it| it.is_finite().then_some(it).ok_or("it is not a number")))
        });
        let values: Vec<Option<Result<f64, &str>>> = values.collect();
        Self {
            why: values.iter().map(|it| it.and_then(Result::err)).collect(),
            figure: HistoryFigure {
                name: of.name(),
                unit: of.unit(),
                more_is_better: of.more_is_better(),
                values: values.iter().map(|it| it.and_then(Result::ok)).collect(),
                ..HistoryFigure::default()
            },
        }
    }

    /// Whether each run lacks the figure; `None` of spoiled ones.
    fn lacks(&self) -> Vec<Option<f64>> {
        let runs = self.figure.values.iter().zip(&self.why);
        runs.map(|(value, why)| value.map(|_| 0.0).or(why.map(|_| 1.0))).collect()
    }
}

/// Runs that lack figures of others, equal runs once: a broker that stopped to deliver has no latency any more.
fn lacking(observed: &[ObservedFigure]) -> Vec<HistoryFigure> {
    let mut kinds: Vec<(Vec<Option<f64>>, Vec<&ObservedFigure>)> = Vec::new();
    for of in observed {
        let lacks = of.lacks();
        let count = |wanted| lacks.iter().filter(|it| **it == Some(wanted)).count();
        if count(0.0).min(count(1.0)) < LEAST_OF_KIND {
            continue;
        }
        match kinds.iter_mut().find(|it| it.0 == lacks) {
            Some(kind) => kind.1.push(of),
            None => kinds.push((lacks, vec![of])),
        }
    }
    let figures = kinds.into_iter().map(|(lacks, of)| {
        let names: Vec<&str> = of.iter().take(MOST_NAMED).map(|it| it.figure.name.as_str()).collect();
        let more = match of.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = of.iter().find_map(|it| it.why.iter().rev().flatten().next());
        HistoryFigure {
            why: why.copied().unwrap_or_default().to_owned(),
            ..of_runs(format!("runs without {}{more}", names.join(", ")), lacks)
        }
    });
    figures.collect()
}

/// A figure that says of each run whether it is of some kind, of which fewer are better.
fn of_runs(name: String, values: Vec<Option<f64>>) -> HistoryFigure {
    HistoryFigure { name, unit: QuantityUnit::Count, of_runs: true, values, ..HistoryFigure::default() }
}

fn may_change(of: &HistoryFigure) -> bool {
    let known = of.values.iter().flatten();
    let (low, high) = known.fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
    let differ = if low > 0.0 { (high / low).ln() > RESOLUTION } else { high > low };
    differ && low.is_finite()
}

/// The figures of all runs, the newest's first, since one that has ended is a change, too; and the number of others.
fn quantities(counted: &[&RunRecord], is_spoiled: &[bool]) -> (Vec<Quantity>, usize) {
    let (mut all, mut names) = (Vec::new(), HashSet::new());
    let runs = counted.iter().zip(is_spoiled).rev();
    let valid = runs.filter_map(|(run, is_spoiled)| run.summary.as_ref().filter(|_| !is_spoiled));
    let valid: Vec<&RunSummary> = valid.collect();
    let decided = valid.iter().flat_map(|it| Quantity::decided(it));
    for quantity in stopped_rates(&valid).chain(decided) {
        if names.insert(quantity.name()) && all.len() < MOST_FIGURES {
            all.push(quantity);
        }
    }
    let others = names.len() - all.len();
    let is_replaced = names.contains("broker cpu");
    all.retain(|it| !(is_replaced && it.name() == Quantity::CORES));
    (all, others)
}

fn run(record: &RunRecord) -> HistoryRun {
    HistoryRun { id: record.id.clone(), created: record.created.clone(), broker: version(record) }
}

/// A figure with where it changed. None of something is a value, too.
fn changed(of: HistoryFigure, runs: &[&RunRecord], search: ChangeSearch) -> HistoryFigure {
    let known = (0..).zip(&of.values).filter_map(|(run, value)| Some((run, (*value)?)));
    let known: Vec<(usize, f64)> = known.collect();
    // Levels are compared by their ratio, as far as there is one; counts vary by their root.
    let have_ratios = known.iter().all(|it| it.1 > 0.0);
    let scaled = known.iter().map(|it| if have_ratios { it.1.ln() } else { it.1.max(0.0).sqrt() });
    let scaled: Vec<f64> = scaled.collect();
    let search = ChangeSearch { resolution: if have_ratios { RESOLUTION } else { 0.0 }, ..search };
    let points = change_points(&scaled, search);
    let levels = levels(&known, &points, of.values.len(), have_ratios, search);
    let changes = points.iter().zip(levels.windows(2));
    let changes = changes.filter_map(|(point, pair)| change(of.more_is_better, runs, &known, point, pair));
    let changes: Vec<HistoryChange> = changes.collect();
    // Of figures of runs each is one of two values.
    let far = if changes.is_empty() && !of.of_runs { apart(&of.values) } else { Vec::new() };
    HistoryFigure { runs_for_apart: runs_for_apart(&far, &of.values, search), apart: far, changes, levels, ..of }
}

/// The fewest runs in which a change that went back after as many shows; `None` where they are too few, or all.
fn runs_for_apart(apart: &[usize], values: &[Option<f64>], search: ChangeSearch) -> Option<usize> {
    let (first, last) = (*apart.first()?, *apart.last()?);
    let is_known = |runs: Option<&[Option<f64>]>| runs.is_some_and(|it| it.iter().any(Option::is_some));
    let is_amid = is_known(values.get(..first)) && is_known(values.get(last + 1..));
    let among = values.get(first..=last)?.iter().flatten().count();
    if !is_amid || among != apart.len() || among < search.least {
        return None;
    }
    let shows =
        |runs: &usize| search.windows(*runs).is_some_and(|(shortest, longest)| (shortest..=longest).contains(&among));
    let needed = (among..MOST_VALUES).find(shows)?;
    (needed > values.iter().flatten().count()).then_some(needed)
}

/// Runs between changes with their means, geometric unless a value is 0: two kinds would be told as a change.
fn levels(
    known: &[(usize, f64)],
    points: &[ChangePoint],
    runs: usize,
    have_ratios: bool,
    search: ChangeSearch,
) -> Vec<HistoryLevel> {
    let starts = std::iter::once(0).chain(points.iter().map(|it| it.at));
    let ends = points.iter().map(|it| it.at).chain([known.len()]);
    let level = |(from, to): (usize, usize)| {
        let part = known.get(from..to).filter(|it| !it.is_empty())?;
        let values = part.iter().map(|it| if have_ratios { it.1.ln() } else { it.1 });
        let values: Vec<f64> = values.collect();
        // As the change was found: a run that lies apart makes no other level.
        let near = search.settled(&values).unwrap_or(values);
        let mean = near.iter().sum::<f64>() / near.len() as f64;
        Some(HistoryLevel {
            from: part.first().map_or(0, |it| it.0),
            to: known.get(to).map_or(runs, |it| it.0),
            mean: if have_ratios { mean.exp() } else { mean },
        })
    };
    starts.zip(ends).filter_map(level).collect()
}

fn change(
    more_is_better: bool,
    runs: &[&RunRecord],
    known: &[(usize, f64)],
    point: &ChangePoint,
    levels: &[HistoryLevel],
) -> Option<HistoryChange> {
    let (before, after) = (known.get(point.at.checked_sub(1)?)?, known.get(point.at)?);
    let [old, new] = levels else { return None };
    // What was none before has no ratio.
    let change = (new.mean / old.mean - 1.0).min(MOST_CHANGE);
    Some(HistoryChange {
        run: after.0,
        between: (runs.get(before.0)?.id.clone(), runs.get(after.0)?.id.clone()),
        change,
        p: point.p,
        worse: (change < 0.0) == more_is_better,
    })
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
