//! What the runs of one experiment say over time.

use archive::{
    History, HistoryChange, HistoryFigure, HistoryLevel, HistoryRun, LeftOut, Quantity, RunRecord,
    RunSummary,
};
use compare::{ChangePoint, ChangeSearch, MOST_VALUES, change_points};

use crate::comparison::{incomparable, left_out, version};

/// Random orders of the values that each cut is held against.
const LEAST_ORDERS: usize = 999;
/// The same at the strictest levels; only a cut that may be a change needs them all.
const MOST_ORDERS: usize = 50_000;

/// The history of the runs of one name, in whatever order they come. The newest decides which runs count: those of its machine,
/// its load and its bellows. At most the last [`MOST_VALUES`] do.
#[must_use]
pub fn history(name: &str, records: &[RunRecord], level: f64) -> History {
    let mut records: Vec<&RunRecord> = records.iter().collect();
    // The time that people read has whole seconds.
    records.sort_by_key(|it| (it.origin_unix_ns, it.created.clone(), it.id.clone()));
    let (mut counted, mut out) = (Vec::new(), Vec::new());
    for record in records.into_iter().rev() {
        let newest = counted.first().copied();
        match why_not(record, newest, counted.len()) {
            None => counted.push(record),
            Some(why) => out.push(LeftOut {
                id: record.id.clone(),
                why,
            }),
        }
    }
    counted.reverse();
    out.reverse();
    let quantities = counted
        .last()
        .and_then(|it| it.summary.as_ref())
        .map(Quantity::decided)
        .unwrap_or_default();
    // All figures together have the level.
    let level_of_each = level / quantities.len().max(1) as f64;
    let search = ChangeSearch {
        level: level_of_each,
        // So many that a change can be found at that level at all.
        orders: ((1.0 / level_of_each).ceil() as usize).clamp(LEAST_ORDERS, MOST_ORDERS),
        ..ChangeSearch::default()
    };
    let figures = quantities.iter().map(|it| figure(it, &counted, search));
    History {
        schema: History::SCHEMA.to_owned(),
        name: name.to_owned(),
        level,
        figures: figures.collect(),
        runs: counted.into_iter().map(run).collect(),
        left_out: out,
    }
}

/// Why a run does not count; `None` where it does.
fn why_not(record: &RunRecord, newest: Option<&RunRecord>, counted: usize) -> Option<String> {
    if counted >= MOST_VALUES {
        return Some(format!("only the last {MOST_VALUES} are looked at"));
    }
    let other = || {
        let problems = incomparable(&[newest?], &[record], false);
        problems.first().map(|it| it.cause.clone())
    };
    left_out(record, false).or_else(other)
}

fn run(record: &RunRecord) -> HistoryRun {
    HistoryRun {
        id: record.id.clone(),
        created: record.created.clone(),
        broker: version(record),
    }
}

fn figure(quantity: &Quantity, runs: &[&RunRecord], search: ChangeSearch) -> HistoryFigure {
    let value = |run: &&RunRecord| {
        let summary: &RunSummary = run.summary.as_ref()?;
        // Levels are compared by their ratio: nothing has none.
        quantity
            .of(summary)
            .ok()
            .filter(|it| it.is_finite() && *it > 0.0)
    };
    let values: Vec<Option<f64>> = runs.iter().map(value).collect();
    let known: Vec<(usize, f64)> = (0..)
        .zip(&values)
        .filter_map(|(run, value)| Some((run, (*value)?)))
        .collect();
    let logs: Vec<f64> = known.iter().map(|it| it.1.ln()).collect();
    let points = match logs.len() < History::LEAST_RUNS {
        true => Vec::new(),
        false => change_points(&logs, search),
    };
    let levels = levels(&known, &points, values.len());
    let of = |(point, pair): (&ChangePoint, &[HistoryLevel])| {
        change(quantity, runs, &known, point, pair)
    };
    let changes = points
        .iter()
        .zip(levels.windows(2))
        .filter_map(of)
        .collect();
    HistoryFigure {
        name: quantity.name(),
        unit: quantity.unit(),
        more_is_better: quantity.more_is_better(),
        values,
        levels,
        changes,
    }
}

/// The runs between changes with their geometric means.
fn levels(known: &[(usize, f64)], points: &[ChangePoint], runs: usize) -> Vec<HistoryLevel> {
    let starts = std::iter::once(0).chain(points.iter().map(|it| it.at));
    let ends = points.iter().map(|it| it.at).chain([known.len()]);
    let level = |(from, to): (usize, usize)| {
        let part = known.get(from..to).filter(|it| !it.is_empty())?;
        let sum: f64 = part.iter().map(|it| it.1.ln()).sum();
        Some(HistoryLevel {
            from: part.first().map_or(0, |it| it.0),
            to: known.get(to).map_or(runs, |it| it.0),
            mean: (sum / part.len() as f64).exp(),
        })
    };
    starts.zip(ends).filter_map(level).collect()
}

fn change(
    quantity: &Quantity,
    runs: &[&RunRecord],
    known: &[(usize, f64)],
    point: &ChangePoint,
    levels: &[HistoryLevel],
) -> Option<HistoryChange> {
    let (before, after) = (known.get(point.at.checked_sub(1)?)?, known.get(point.at)?);
    let [old, new] = levels else {
        return None;
    };
    let change = new.mean / old.mean - 1.0;
    Some(HistoryChange {
        run: after.0,
        between: (
            runs.get(before.0)?.id.clone(),
            runs.get(after.0)?.id.clone(),
        ),
        change,
        p: point.p,
        worse: (change < 0.0) == quantity.more_is_better(),
    })
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
