//! The difference between histogram logs of two sides: a log is a run of which nothing else is known.

use std::collections::BTreeMap;
use std::path::Path;

use archive::{
    ComparedRun, ComparedSide, Comparison, LatencyLog, LatencySlices, LogTag, LogUnit, QuantityUnit, RunBlocks,
    UnitSource,
};
use measure::{Metric, Problem, counted};

use crate::figures::{ComparisonOptions, FigureKind, Undecided, decide, undecided};
use crate::within;

/// Logs of a side: each keeps every value of each tag.
const MOST_LOGS: usize = 500;
/// Different values of all logs of a side together, 16 bytes each.
const MOST_VALUES: usize = 1 << 24;
/// Sides whose medians differ by a factor near one of these may be in different units.
const OF_UNITS: [(f64, &str); 2] = [(1e3, "a thousand"), (1e6, "a million")];
const NEAR: f64 = 2.0;

/// Reads the logs of a side, unless they are too many. `unit` is that of logs which do not name theirs.
pub fn read_logs(paths: &[impl AsRef<Path>], unit: Option<LogUnit>) -> Result<Vec<LatencyLog>, Problem> {
    let refused = Problem::new(format!("more than {MOST_LOGS} logs of one side"), paths.len(), "name fewer");
    refused.unless(paths.len() <= MOST_LOGS)?;
    let mut values = 0;
    let read = paths.iter().map(|path| {
        let mut log = LatencyLog::read(path.as_ref(), unit)?;
        values += log.tags.iter().map(|it| it.values.len()).sum::<usize>();
        fits(values)?;
        // Only of a log that stands alone it is asked what happened over time.
        if paths.len() > 1 {
            for tag in &mut log.tags {
                tag.slices = LatencySlices::default();
            }
        }
        Ok(log)
    });
    read.collect()
}

/// Whether so many different values are kept.
fn fits(values: usize) -> Result<(), Problem> {
    let cause = format!("the logs of one side hold more than {MOST_VALUES} different values");
    Problem::new(cause, values, "name fewer logs, or logs with fewer digits").unless(values <= MOST_VALUES)
}

/// Compares logs of two sides, which need a tag in common, and pairs their partners.
pub fn compare_logs(a: &[LatencyLog], b: &[LatencyLog], options: ComparisonOptions) -> Result<Comparison, Problem> {
    let shared = shared(a, b)?;
    pairs(a, b, options)?;
    let mut remarks = remarks(a, b, &shared);
    let mut figures: Vec<Undecided> = Vec::new();
    for metric in &shared {
        figures.extend(of_metric(*metric, a, b, options, &mut remarks));
    }
    decide(figures.iter_mut(), options);
    remarks.extend(units_look_mixed(a, b, &shared));
    let mut compared = Comparison {
        schema: Comparison::SCHEMA.to_owned(),
        a: side(a),
        b: side(b),
        paired: options.paired,
        level: options.level,
        figures: figures.into_iter().map(|it| it.figure).collect(),
        remarks,
        ..Comparison::default()
    };
    for (is_a, logs) in [(true, a), (false, b)] {
        if let [log] = logs {
            let slices: Vec<(Metric, &LatencySlices)> = log.tags.iter().map(|tag| (tag.metric, &tag.slices)).collect();
            within::within(&mut compared, is_a, &slices);
        }
    }
    Ok(compared)
}

fn side(logs: &[LatencyLog]) -> ComparedSide {
    let run = |log: &LatencyLog| ComparedRun { id: log.name.clone(), invalid: false, cautious: false };
    ComparedSide {
        runs: logs.iter().map(run).collect(),
        logs: true,
        within_one_run: (logs.len() == 1).then(RunBlocks::default),
        ..ComparedSide::default()
    }
}

/// Pairs need partners, and more than one.
fn pairs(a: &[LatencyLog], b: &[LatencyLog], options: ComparisonOptions) -> Result<(), Problem> {
    let cause = "pairs need as many logs on both sides, and two of each at least";
    let help = "leave out the unpaired log, or compare without --paired";
    let refused = Problem::new(cause, format!("{} of A and {} of B", a.len(), b.len()), help);
    refused.unless(!options.paired || (a.len() == b.len() && a.len() > 1))
}

fn metrics(logs: &[LatencyLog]) -> Vec<Metric> {
    let mut found: Vec<Metric> = Vec::new();
    for tag in logs.iter().flat_map(|log| &log.tags) {
        if !found.contains(&tag.metric) {
            found.push(tag.metric);
        }
    }
    found
}

fn names(of: &[Metric]) -> String {
    of.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ")
}

fn has_values(logs: &[LatencyLog], metric: Metric) -> bool {
    logs.iter().filter_map(|log| tag_of(log, metric)).any(|tag| tag.count > 0)
}

/// Metrics that both sides hold, and one of them has values of: that the other has none is a change.
fn shared(a: &[LatencyLog], b: &[LatencyLog]) -> Result<Vec<Metric>, Problem> {
    let (of_a, of_b) = (metrics(a), metrics(b));
    let shared: Vec<Metric> =
        of_a.iter().copied().filter(|it| of_b.contains(it) && (has_values(a, *it) || has_values(b, *it))).collect();
    let help = "compare logs of one tool, or give their lines the same tags (`latency` means none)";
    let given = format!("A has {}, B has {}", names(&of_a), names(&of_b));
    let refused = Problem::new("the logs of A and of B have no tag in common", given, help);
    refused.unless(!shared.is_empty()).map(|()| shared)
}

fn tag_of(log: &LatencyLog, metric: Metric) -> Option<&LogTag> {
    log.tags.iter().find(|tag| tag.metric == metric)
}

/// The figures of one metric: its rate, its percentiles and its largest value.
fn of_metric(
    metric: Metric,
    a: &[LatencyLog],
    b: &[LatencyLog],
    options: ComparisonOptions,
    remarks: &mut Vec<String>,
) -> Vec<Undecided> {
    let values = |logs: &[LatencyLog], value: &dyn Fn(&LatencyLog, &LogTag) -> f64| {
        let of = |log: &LatencyLog| tag_of(log, metric).map(|tag| value(log, tag));
        logs.iter().map(of).collect::<Vec<Option<f64>>>()
    };
    let figure = |kind: &FigureKind, value: &dyn Fn(&LatencyLog, &LogTag) -> f64| {
        undecided(kind, values(a, value), values(b, value), options)
    };
    let kind = |what: &str, unit, more_is_better, margin| {
        let name = format!("{} {what}", metric.name());
        FigureKind { name, unit, more_is_better, is_count: false, margin, allowed: 0.0 }
    };
    let latency = |what: &str| kind(what, QuantityUnit::Ns, false, options.latency_margin);
    let all = || a.iter().chain(b);
    let has_time = all().all(|log| log.seconds > 0.0);
    let rate = match has_time {
        true => kind("rate", QuantityUnit::PerSecond, true, options.margin),
        false => kind("count", QuantityUnit::Count, true, options.margin),
    };
    let mut found = Vec::new();
    match all().any(|log| log.overlaps) {
        true => remarks.push(format!("{} is left out: a log's intervals overlap", rate.name)),
        false => found.extend(figure(&rate, &|log, tag| match has_time {
            true => tag.measured as f64 / log.seconds,
            false => tag.count as f64,
        })),
    }
    for (at, percentile) in LogTag::PERCENTILES.iter().enumerate() {
        let kind = latency(&format!("p{percentile}"));
        let mut tags = all().filter_map(|log| tag_of(log, metric));
        match tags.all(|tag| tag.supports(*percentile)) {
            true => found.extend(figure(&kind, &|log, tag| {
                let ns = tag.percentiles.get(at).copied();
                ns.map_or(0.0, |ns| at_least(log, ns))
            })),
            false => remarks.push(format!("{} is left out: fewer than ten values of a log lie beyond it", kind.name)),
        }
    }
    let most = |log: &LatencyLog, tag: &LogTag| if tag.count == 0 { 0.0 } else { at_least(log, tag.max()) };
    found.extend(figure(&latency("max"), &most));
    found
}

/// A value of a log in nanoseconds: 0 counts as half of the log's unit, since changes are told by ratios.
fn at_least(log: &LatencyLog, ns: u64) -> f64 {
    if ns == 0 { log.unit.ns() as f64 / 2.0 } else { ns as f64 }
}

/// That values of logs are below their unit.
fn below_unit(logs: &[LatencyLog], shared: &[Metric]) -> Option<String> {
    let is_below = |tag: &LogTag| {
        let [median, ..] = tag.percentiles;
        tag.count > 0 && median == 0 && shared.contains(&tag.metric)
    };
    let log = logs.iter().find(|log| log.tags.iter().any(is_below))?;
    Some(format!(
        "{}: values of 0 are below its unit of {}, and count as half of it: smaller changes do not show",
        log.name,
        log.unit.name()
    ))
}

/// In which units logs were read, what was left out of them, and what one side alone has.
fn remarks(a: &[LatencyLog], b: &[LatencyLog], shared: &[Metric]) -> Vec<String> {
    let all = || a.iter().chain(b);
    let mut units: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for log in all() {
        units.entry(unit(log)).or_default().push(&log.name);
    }
    let alone = units.len() == 1;
    let mut told: Vec<String> = (units.into_iter())
        .map(|(unit, logs)| match (alone, logs.as_slice()) {
            (false, [one]) => format!("{one} {unit}"),
            (_, logs) => format!("{} {unit}", counted(logs.len() as u64, "log")),
        })
        .collect();
    for (name, side, other) in [("A", a, b), ("B", b, a)] {
        let others = metrics(other);
        let only: Vec<Metric> =
            metrics(side).into_iter().filter(|it| !others.contains(it) && has_values(side, *it)).collect();
        if !only.is_empty() {
            told.push(format!("{name} alone has {}: left out", names(&only)));
        }
    }
    for log in all() {
        told.extend(log.notes.iter().map(|note| format!("{}: {note}", log.name)));
    }
    told.extend([a, b].into_iter().filter_map(|it| below_unit(it, shared)));
    told
}

fn unit(log: &LatencyLog) -> String {
    let unit = log.unit.name();
    let why = match log.unit_source {
        UnitSource::Stated => "from a comment",
        UnitSource::Given => "from --unit",
        UnitSource::Artemis => "the tags are those of Artemis perf, which records these",
        UnitSource::Assumed => "an assumption, as HistogramLogProcessor makes; --unit names another unit",
    };
    format!("read as {unit}: {why}")
}

/// Medians that are as far apart as units are, where one was guessed.
fn units_look_mixed(a: &[LatencyLog], b: &[LatencyLog], shared: &[Metric]) -> Option<String> {
    let is_guessed = |log: &LatencyLog| matches!(log.unit_source, UnitSource::Artemis | UnitSource::Assumed);
    let median = |logs: &[LatencyLog], metric: Metric| {
        let tags = logs.iter().filter_map(|log| tag_of(log, metric)).filter(|tag| tag.count > 0);
        let logarithms: Vec<f64> = tags.map(|tag| (tag.percentiles[0].max(1) as f64).ln()).collect();
        logarithms.iter().sum::<f64>() / logarithms.len().max(1) as f64
    };
    let (found, times) = shared.iter().find_map(|metric| {
        if !(has_values(a, *metric) && has_values(b, *metric)) {
            return None;
        }
        let apart = (median(b, *metric) - median(a, *metric)).abs();
        let is_near = |it: &&(f64, &str)| (apart - it.0.ln()).abs() < NEAR.ln();
        let (_, times) = OF_UNITS.iter().find(is_near)?;
        Some((metric, *times))
    })?;
    a.iter().chain(b).any(is_guessed).then(|| {
        format!(
            "caution: the medians of {} are about {times} times apart, as units of time are: name the unit that was \
             recorded with --unit",
            found.name()
        )
    })
}

#[cfg(test)]
#[path = "log_comparison_tests.rs"]
mod log_comparison_tests;
