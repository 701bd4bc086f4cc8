//! Runs that do not count, by the cause: a side's own is evidence, what others did to the machine is not.

use archive::{
    Cause, ComparedFigure, FailedBy, Finding, QuantityUnit, RunRecord, RunState, RunSummary, RunsCounted, Tier,
    Warning, WarningCode,
};
use compare::{fisher, least_fisher};

use crate::figures::Undecided;
use session::{FULL, OTHERS};

/// The culprit of a spoiled run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpoiledBy {
    /// The side itself: its broker went, or the run broke off.
    Side,
    /// The generator had nothing left: the side may be too fast for it, or leave it too little.
    Generator,
}

/// Who had the machine's cores while a run was made, where others had, which neither side causes.
pub(crate) fn disturbed_by(summary: &RunSummary) -> Option<String> {
    let warnings = || summary.warnings.iter();
    if warnings().any(|it| it.code() == WarningCode::CpuSteal) {
        return Some("the hypervisor took cores".to_owned());
    }
    let took = |it: &Warning| matches!(&it.finding, Finding::TooFewCores { used } if used.other_cores > 0.0);
    let verdict = summary.verdict.as_ref();
    let cause = verdict.and_then(|it| it.cause.as_ref());
    let is_cause = matches!(cause, Some(Cause::OthersFillMachine | Cause::GeneratorLacksCores { others: Some(_) }));
    // Also where the run reached what was asked of it: what it cost was measured beside them.
    let used = verdict.and_then(|it| it.facts.other_cores());
    let is_full = verdict.is_some_and(|it| it.facts.idle.is_some_and(|idle| idle < FULL));
    let fill = is_full && used.is_some_and(|used| used >= OTHERS);
    let cores = match used.map(|used| format!("{used:.1}")) {
        Some(used) if used != "0.0" => format!("{used} cores"),
        _ => "the cores".to_owned(),
    };
    (warnings().any(took) || is_cause || fill).then(|| format!("other programs had {cores}"))
}

/// Cores that others had while a run was made, as far as it is known.
pub(crate) fn disturbance(summary: &RunSummary) -> f64 {
    let facts = summary.verdict.as_ref().map(|it| &it.facts);
    facts.map_or(0.0, |it| {
        let stolen = it.steal.unwrap_or(0.0) * f64::from(it.all_cores());
        it.other_cores().unwrap_or(0.0) + stolen
    })
}

/// The tier of a warning where runs are compared. A debug build of bellows spoils a run alone; sides that both have it
/// can be compared. Lost messages are a figure of their own then, and may be what one side does worse.
pub(crate) fn compared_tier(record: &RunRecord, warning: &Warning) -> Tier {
    let ledger = record.summary.as_ref().and_then(|it| it.flow().ledger.as_ref());
    let is_counted = ledger.is_some_and(|it| it.exact && it.sent > 0);
    match warning.code() {
        WarningCode::DebugBuild => Tier::Caution,
        WarningCode::MessagesLost if is_counted => Tier::Caution,
        _ => warning.tier,
    }
}

/// The sentence of a warning that invalidates a run's numbers; `None` of other warnings.
pub(crate) fn why_invalid(warning: &Warning) -> Option<&'static str> {
    if warning.tier != Tier::Invalid {
        return None;
    }
    Some(match warning.code() {
        WarningCode::MessagesLost => "messages were lost, duplicated or damaged",
        WarningCode::BrokerGone => "connections were lost for good",
        WarningCode::NodeGone => "a node was gone at the end",
        WarningCode::FaultsMissed => "faults were not made as planned",
        WarningCode::GeneratorSaturated => "the generator was saturated",
        _ => return None,
    })
}

/// Why a run does not count, in a few words; `None` where it does.
pub(crate) fn spoiled(record: &RunRecord) -> Option<String> {
    match (record.state, record.failed_by) {
        (RunState::Complete, _) if record.summary.is_some() => {}
        (RunState::Failed, Some(FailedBy::Generator)) => {
            return Some("failed through the generator or its machine".to_owned());
        }
        (state, _) => return Some(state.name().to_owned()),
    }
    let mut why: Vec<_> = invalid(record).map(why_invalid).collect();
    // A reason that has words stands for one that has none.
    why.sort_by_key(Option::is_none);
    why.first().map(|why| why.map_or_else(|| "invalid".to_owned(), |why| format!("invalid: {why}")))
}

/// The warnings that take a run's numbers away.
fn invalid(record: &RunRecord) -> impl Iterator<Item = &Warning> + Clone {
    record.summary.iter().flat_map(|it| &it.warnings).filter(|it| compared_tier(record, it) == Tier::Invalid)
}

/// The culprit of a spoiled run, where that is evidence; `None` where it counts, or neither side is to blame.
pub(crate) fn spoiled_by(record: &RunRecord) -> Option<SpoiledBy> {
    if record.state == RunState::Failed {
        let is_own = record.failed_by == Some(FailedBy::Side);
        return is_own.then_some(SpoiledBy::Side);
    }
    let summary = record.summary.as_ref()?;
    let warnings = || invalid(record).map(Warning::code);
    let is_broken = |code| {
        use WarningCode::{BrokerGone, MessagesLost, NodeGone};
        matches!(code, BrokerGone | MessagesLost | NodeGone)
    };
    if warnings().any(is_broken) {
        return Some(SpoiledBy::Side);
    }
    let is_full = warnings().any(|code| code == WarningCode::GeneratorSaturated);
    (is_full && disturbed_by(summary).is_none()).then_some(SpoiledBy::Generator)
}

/// Whether a run is known to have gone well or badly: of one that was stopped that is known where it had gone badly.
fn tells(record: &RunRecord) -> bool {
    let has_ended = matches!(record.state, RunState::Complete | RunState::Failed);
    has_ended || spoiled_by(record).is_some()
}

/// Figures that count the runs which do not count, of all that ended: those that a side spoiled itself, tested by
/// Fisher's exact test, and those that the generator limited, which speak for nobody. None without such runs.
pub(crate) fn spoiled_runs(a: &[&RunRecord], b: &[&RunRecord]) -> Vec<Undecided> {
    let kinds = [(SpoiledBy::Side, RunsCounted::INVALID), (SpoiledBy::Generator, RunsCounted::GENERATOR)];
    let figures = kinds.into_iter().filter_map(|(by, name)| {
        let count = |side: &[&RunRecord]| {
            let of = side.iter().filter(|it| spoiled_by(it) == Some(by));
            (of.count(), side.iter().filter(|it| tells(it)).count())
        };
        let runs = RunsCounted { a: count(a), b: count(b) };
        if runs.a.0 + runs.b.0 == 0 {
            return None;
        }
        let p = fisher(runs.a, runs.b);
        let share = |(some, all): (usize, usize)| some as f64 / all.max(1) as f64;
        let figure = ComparedFigure {
            name: name.to_owned(),
            unit: QuantityUnit::Count,
            means: (runs.a.0 as f64, runs.b.0 as f64),
            p: Some(p),
            of_runs: Some(runs),
            ..ComparedFigure::default()
        };
        Some(match by {
            SpoiledBy::Side => {
                let change = share(runs.b) - share(runs.a);
                let least = least_fisher(runs.a, runs.b);
                Undecided::separated(figure, p, least, change.signum())
            }
            SpoiledBy::Generator => Undecided::open(figure),
        })
    });
    figures.collect()
}
