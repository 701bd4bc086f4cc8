//! The end of a run, on a terminal and in a pipe: at most fifteen lines on 80 columns and more, chosen by the run's
//! load. All figures are in [`super::summary()`] and in the report.

mod load;

use archive::{
    Cause, Finding, Lateness, ProgramSummary, RequirementOutcome, RunRecord, RunState, RunSummary, Tier, Verdict,
    Warning,
};
use stacks::{ClassShare, ProfileSummary, USUAL_EVENT};

use super::rows::{Content, MOST_LINES, Row, RowRank, has_room, has_room_for_core, lines};
use super::text::{Style, sanitise};
use crate::numbers::{count, counted, observed, percent, seconds, weight};
use crate::text;

/// Warnings that are shown; more where nothing else has to go for them.
const WARNINGS: usize = 2;
/// Requirements of unknown outcome that are shown; those that were missed all are.
const UNKNOWN: usize = 2;
/// Classes of code that are shown, and their least share.
const CLASSES: usize = 4;
const LEAST_CLASS: f64 = 0.02;
/// Erlang processes that are shown, and the share that they must have together.
const WORK: usize = 2;
const LEAST_WORK: f64 = 0.1;
/// Share of samples with a flaw that is named.
const LEAST_FLAW: f64 = 0.01;
/// Functions of a recording.
const FUNCTIONS: usize = 6;
/// A share of late messages that is worth a mark.
const LATE: f64 = 0.01;

/// The end of a run, ending in a newline. `report` is the path of the report, or of the run folder; `run` names the run
/// in the next command, where it is not the last one; `has_cause`: no error follows that says why it failed.
pub fn brief(
    record: &RunRecord,
    summary: &RunSummary,
    report: Option<&str>,
    run: Option<&str>,
    has_cause: bool,
    style: Style,
) -> String {
    let failed = failed(summary).filter(|_| has_cause);
    let warnings = warnings(summary);
    let with = |number: usize, faults: usize| {
        let shown = warnings.get(..number).unwrap_or(&warnings);
        let mut rows = rows(record, summary, shown, failed.as_ref(), faults);
        if let Some(report) = report {
            let hidden = hidden(summary, shown).filter(|_| shown.len() < warnings.len());
            let next = sanitise(&next(record, summary, hidden.as_deref(), run)).into_owned();
            let content = Content::End(sanitise(report).into_owned(), next);
            rows.push(Row::new(RowRank::Core, "report", content));
        }
        rows
    };
    // Each warning has a line at least.
    let mut roomy = (WARNINGS + 1..=warnings.len().min(MOST_LINES)).rev().map(|number| with(number, load::FAULTS));
    let roomy = roomy.find(|rows| has_room(rows, style));
    // A fault is left out when nothing else may be.
    let close =
        || (2..=load::FAULTS).rev().map(|faults| with(WARNINGS, faults)).find(|it| has_room_for_core(it, style));
    lines(roomy.or_else(close).unwrap_or_else(|| with(WARNINGS, 1)), style).join("\n") + "\n"
}

/// All rows but that of the report.
fn rows<'a>(
    record: &RunRecord,
    summary: &'a RunSummary,
    shown: &[&Warning],
    failed: Option<&Row<'a>>,
    faults: usize,
) -> Vec<Row<'a>> {
    let marks = |tier: Tier| shown.iter().filter(move |it| it.tier == tier).map(|it| mark(it)).collect::<Vec<_>>();
    let mut rows = missed(&summary.requirements);
    rows.extend(failed.cloned());
    rows.extend(marks(Tier::Invalid));
    rows.push(load::title(record, summary));
    rows.extend(load::latencies(summary));
    rows.extend(load::faults(record, summary, faults));
    rows.extend(load::scrapes(record, summary));
    rows.extend(load::operations(record, summary));
    rows.extend(load::messages(record, summary));
    rows.extend(programs(summary));
    rows.extend(workers(summary));
    rows.extend(load::cpu(record, summary));
    rows.extend(summary.verdict.as_ref().and_then(|it| limited_by(it, shown, summary)));
    rows.extend(profiles(summary));
    rows.extend(inspections(summary));
    rows.extend(met(&summary.requirements));
    rows.extend(marks(Tier::Caution));
    rows.extend(late(summary).filter(|_| shown.len() < WARNINGS));
    rows.extend(marks(Tier::Note));
    rows
}

/// The command that follows: the functions, or all figures, with the warnings that are not shown.
fn next(record: &RunRecord, summary: &RunSummary, hidden: Option<&str>, run: Option<&str>) -> String {
    let is_sampled = summary.profiles.iter().any(|it| it.samples > 0);
    let all = format!("bellows runs show -v {}", run.unwrap_or("last"));
    match hidden {
        Some(hidden) => format!("{all} ({hidden})"),
        None if is_sampled && record.state == RunState::Complete => {
            run.map_or_else(|| "bellows top".to_owned(), |run| format!("bellows top {run}"))
        }
        None => all,
    }
}

/// `3 more warnings, 2 notes`: the run's warnings but for those that are shown; `None` where these are all.
fn hidden(summary: &RunSummary, shown: &[&Warning]) -> Option<String> {
    let is_note = |it: &Warning| it.tier == Tier::Note;
    let of = |notes: bool| {
        let all = summary.warnings.iter().filter(|it| is_note(it) == notes).count();
        (all - shown.iter().filter(|it| is_note(it) == notes).count()) as u64
    };
    match (of(false), of(true)) {
        (0, 0) => None,
        (0, notes) => Some(counted(notes, "more note")),
        (warnings, 0) => Some(counted(warnings, "more warning")),
        (warnings, notes) => Some(format!("{}, {}", counted(warnings, "more warning"), counted(notes, "note"))),
    }
}

/// The warnings, each once, the gravest first. Some are rows of their own. The row of a failed run says why its
/// operations failed, and theirs how many.
fn warnings(summary: &RunSummary) -> Vec<&Warning> {
    let error = summary.error.as_ref().map_or("", |it| it.cause.as_str());
    let has_own_row = |it: &Warning| match &it.finding {
        Finding::TooFewSamples { .. } | Finding::Traced { .. } | Finding::LookedInto { .. } => true,
        Finding::ClockBound { p50_s, .. } => p50_s.is_some(),
        Finding::CyclesFailed { first_failure, .. } => !error.is_empty() && first_failure.contains(error),
        _ => false,
    };
    // Each node of a cluster has a profile, and all of them lack alike.
    let is_alike = |a: &Warning, b: &Warning| {
        let of_profile = matches!(
            a.finding,
            Finding::LostSamples { .. } | Finding::ProfilerThrottled { .. } | Finding::ProfileIncomplete { .. }
        );
        a.text == b.text || (of_profile && a.code() == b.code())
    };
    let mut all: Vec<&Warning> = Vec::new();
    for warning in summary.warnings.iter().filter(|it| !has_own_row(it)) {
        if !all.iter().any(|it| is_alike(it, warning)) {
            all.push(warning);
        }
    }
    // Whoever builds bellows for debugging knows that.
    let is_known = |it: &Warning| matches!(it.finding, Finding::DebugBuild {});
    let most = all.iter().map(|it| operations(it, summary)).max();
    let never_began = |it: &Warning| {
        let held = operations(it, summary);
        let is_rate = matches!(it.finding, Finding::RateNotAchieved { .. });
        is_rate && held > 0 && Some(held) == most
    };
    all.sort_by_key(|it| (it.tier, is_known(it), !never_began(it)));
    all
}

/// Operations that a warning is about, as far as it counts any: those that never began, failed, or were late.
fn operations(warning: &Warning, summary: &RunSummary) -> u64 {
    match &warning.finding {
        Finding::RateNotAchieved { not_begun, .. } => *not_begun,
        Finding::CyclesFailed { failed, .. } => *failed,
        Finding::GeneratorLate { late_share, unit, .. } => {
            let alike = summary.others().filter(|(_, of)| of.unit == *unit);
            let begun: u64 = alike.map(|(_, of)| load::number_of(of, "begun")).sum();
            (begun as f64 * late_share) as u64
        }
        _ => 0,
    }
}

fn mark(warning: &Warning) -> Row<'static> {
    let (rank, word) = match warning.tier {
        Tier::Invalid => (RowRank::Core, "invalid: "),
        Tier::Caution => (RowRank::Core, ""),
        Tier::Note => (RowRank::More, "note: "),
    };
    Row::mark(rank, warning.tier, &format!("{word}{}", warning.text))
}

/// Messages that left late although the rate was met, where no warning says so.
fn late(summary: &RunSummary) -> Option<Row<'static>> {
    let share = summary.requested()?.late_share;
    let is_told = |it: &Warning| {
        matches!(
            it.finding,
            Finding::GeneratorLate { .. }
                | Finding::GeneratorSaturated { .. }
                | Finding::RateNotAchieved { .. }
                | Finding::Stalled { .. }
                | Finding::TooFewCores { .. }
        )
    };
    if share <= LATE || summary.warnings.iter().any(is_told) {
        return None;
    }
    let cause = summary.verdict.as_ref().and_then(|it| match it.cause {
        Some(Cause::RateMet { late }) => late,
        _ => None,
    });
    let why = match cause {
        Some(Lateness::BrokerStalled) => ": the broker stopped answering for a while",
        Some(Lateness::GeneratorStalled) => ": bellows itself did not run for a while",
        Some(Lateness::MachineStalled) => ": the whole machine stood still for a while",
        Some(Lateness::OwnFault) => ": the run's own fault held them up",
        Some(Lateness::Broker) => ": the broker held them up",
        Some(Lateness::Cores) => ": bellows waited for a core",
        Some(Lateness::Generator) | None => "",
    };
    let items = sanitise(summary.items()).into_owned();
    let text = format!("{} of the {items} left over 1 ms late{why}", percent(share));
    Some(Row::mark(RowRank::Core, Tier::Caution, &text))
}

/// Requirements that were missed, or cannot be told, with the reason.
fn missed(all: &[RequirementOutcome]) -> Vec<Row<'static>> {
    let row = |it: &RequirementOutcome| {
        let label = if it.met == Some(false) { "MISSED" } else { "unknown" };
        let text = format!("{}: {}", it.that, observed(it));
        Row::text(RowRank::Core, label, &text).alarmed().whole()
    };
    let of = |met: Option<bool>| all.iter().filter(move |it| it.met == met);
    let more = of(None).count().saturating_sub(UNKNOWN) as u64;
    let more = (more > 0).then(|| Row::text(RowRank::Core, "", &format!("and {} more", count(more))));
    of(Some(false)).chain(of(None).take(UNKNOWN)).map(row).chain(more).collect()
}

/// Requirements that were met, in one row: beside others that were not it stays longer.
fn met(all: &[RequirementOutcome]) -> Option<Row<'static>> {
    let met = all.iter().filter(|it| it.met == Some(true));
    let met: Vec<String> = met.map(|it| format!("{}: {}", it.that, observed(it))).collect();
    let rank = if met.len() < all.len() { RowRank::Main } else { RowRank::Spare };
    (!met.is_empty()).then(|| Row::list(rank, "met", met))
}

/// Error of a failed run; the command ends with its remedy.
fn failed(summary: &RunSummary) -> Option<Row<'static>> {
    let problem = summary.error.as_ref()?;
    Some(Row::text(RowRank::Core, "failed", &problem.to_string()).alarmed())
}

/// Programs that were the load: how each ended, and where its own figures are.
fn programs(summary: &RunSummary) -> Vec<Row<'static>> {
    let row = |it: &ProgramSummary| {
        let text = format!("{}; its own figures are in {}", it.status, it.log);
        let is_fine = ["exit status 0", "asked to end"].iter().any(|fine| it.status.starts_with(fine));
        match is_fine {
            true => Row::text(RowRank::Main, "program", &text),
            false => Row::text(RowRank::Core, "program", &text).whole(),
        }
    };
    summary.programs.iter().map(row).collect()
}

/// The workers of a fleet: each one's part of the load, and how exact its clock is.
fn workers(summary: &RunSummary) -> Option<Row<'static>> {
    let all = summary.workers.iter().map(|it| sanitise(&text::worker(it)).into_owned());
    (!summary.workers.is_empty()).then(|| Row::list(RowRank::Main, "workers", all.collect()))
}

/// Who limited the run: always shown, but where several faults need its line. What a warning below says is not said
/// here, too.
fn limited_by(verdict: &Verdict, shown: &[&Warning], summary: &RunSummary) -> Option<Row<'static>> {
    let sentence = verdict.sentence.as_str();
    if sentence.is_empty() || matches!(verdict.cause, Some(Cause::BrokeOff)) {
        return None;
    }
    let rank = if summary.faults.len() > 1 { RowRank::Verdict } else { RowRank::Core };
    // How many there were, and why they failed, is said above.
    if matches!(verdict.cause, Some(Cause::AllFailed)) {
        return Some(Row::text(rank, "limited by", "undecided: none of them succeeded"));
    }
    let has_cores = |it: &&Warning| matches!(&it.finding, Finding::TooFewCores { used } if used.other_cores > 0.0);
    let is_of_others = matches!(verdict.cause, Some(Cause::OthersFillMachine));
    if is_of_others && sentence.starts_with("undecided: ") && shown.iter().any(has_cores) {
        return Some(Row::text(rank, "limited by", "undecided: other processes took the cores"));
    }
    let (label, text) = match sentence.strip_prefix("limited by ") {
        _ if matches!(verdict.cause, Some(Cause::RateMet { .. })) => {
            ("limited by", sentence.split_once(" was met: ").map_or("the requested rate", |(what, _)| what))
        }
        Some(text) => ("limited by", text),
        None if sentence.starts_with("undecided: ") => ("limited by", sentence),
        None => ("verdict", sentence),
    };
    Some(Row::text(rank, label, text))
}

/// Where the CPU went, whose work it was, what profiling cost, and of a recording its samples and functions.
fn profiles(summary: &RunSummary) -> Vec<Row<'_>> {
    let is_recording = load::is_recording(summary);
    let mut rows = Vec::new();
    if is_recording {
        rows.extend(summary.profiles.iter().take(FUNCTIONS).map(samples));
    }
    let is_cpu = |it: &&ProfileSummary| matches!(it.event.as_str(), USUAL_EVENT | "");
    let of_cpu = summary.profiles.iter().find(is_cpu);
    // Too few samples tell no shares.
    if let Some(profile) = of_cpu.filter(|it| !it.has_few_samples()) {
        rows.extend(classes(profile));
        let estimated = text::estimated_summary(profile);
        rows.extend(estimated.map(|text| Row::text(RowRank::More, "", &format!("~ {text}"))));
        rows.extend(work(profile));
    }
    if is_recording {
        rows.extend(of_cpu.or(summary.profiles.first()).into_iter().flat_map(functions));
    } else if summary.profiles.len() > summary.nodes.len().max(1) {
        let all =
            summary.profiles.iter().map(|it| format!("{} {}", it.event, weight(it.weight.max(it.samples), &it.unit)));
        rows.push(Row::list(RowRank::Spare, "profiles", all.collect()));
    }
    let effect = summary.observer_effect.as_ref().map(text::observer_effect).and_then(|all| all.into_iter().next());
    rows.extend(effect.map(|text| Row::text(RowRank::Main, "profiling", &text)));
    rows
}

/// The functions with most samples: of the language with all below them where there are any, else by their own time.
fn functions(profile: &ProfileSummary) -> Vec<Row<'static>> {
    let row = |share, of: &str, name: &str| {
        let label = format!("{} {of}", percent(share));
        Row::new(RowRank::More, &label, Content::Name(name.to_owned()))
    };
    let of_language = profile.language_functions.iter().take(FUNCTIONS);
    if of_language.len() > 0 {
        return of_language.map(|it| row(it.share, "in", &it.function)).collect();
    }
    profile.top.iter().take(FUNCTIONS).map(|it| row(it.self_share, "self", &it.function)).collect()
}

/// `24,012 samples by cpu-clock at 999 Hz, 3.2 % without a name`.
fn samples(profile: &ProfileSummary) -> Row<'static> {
    let mut text = weight(profile.weight.max(profile.samples), &profile.unit);
    if let Some(clock) = text::clock(profile) {
        text += &format!(" {clock}");
    }
    if profile.has_few_samples() {
        text += ", too few for shares";
    }
    for (share, what) in [
        (profile.unknown_share, "with a frame that has no name"),
        (1.0 - profile.complete_share, "with an incomplete stack"),
    ] {
        if share >= LEAST_FLAW && profile.samples > 0 {
            text += &format!(", {} {what}", percent(share));
        }
    }
    let node = profile.node.map(|node| format!(" of node {node}"));
    let label = format!("{}{}", profile.event, node.unwrap_or_default());
    Row::text(RowRank::Main, &label, &text)
}

/// `kernel: network 62 %, waiting 27 %, Erlang code 8.0 %`.
fn classes(profile: &ProfileSummary) -> Option<Row<'static>> {
    let all = profile.classes.iter().filter(|it| it.share >= LEAST_CLASS).take(CLASSES);
    let unnamed = profile.unnamed_machine_share();
    let shown = |it: &ClassShare| format!("{} {}", it.class, text::class_share(it, unnamed, percent));
    let all: Vec<String> = all.map(shown).collect();
    (!all.is_empty()).then(|| Row::list(RowRank::More, "CPU went to", all))
}

/// `queue orders 31 %, connection 127.0.0.1:4711 12 %`.
fn work(profile: &ProfileSummary) -> Option<Row<'static>> {
    let all: Vec<_> = profile.work.iter().filter(|it| !it.role.is_empty()).take(WORK).collect();
    let together: f64 = all.iter().map(|it| it.share).sum();
    let shares = all.iter().map(|it| (it.of.clone(), format!(" {}", percent(it.share))));
    (together >= LEAST_WORK).then(|| Row::named_list(RowRank::More, "whose work", shares))
}

/// Traces on the broker's node, and inspections by other commands, a row each.
fn inspections(summary: &RunSummary) -> Vec<Row<'static>> {
    let mut rows = Vec::new();
    let mut traces = summary.traces.iter();
    if let Some(first) = traces.next() {
        let more = match traces.len() {
            0 => String::new(),
            more => format!("{}, and ", counted(more as u64, "more function")),
        };
        rows.push(Row::text(RowRank::Main, "traced", &format!("{more}{}", text::trace(first))));
    }
    for warning in &summary.warnings {
        if let Finding::LookedInto { looks, commands, seconds: length } = &warning.finding {
            let times = counted(*looks, "time");
            let text = format!("{times} for {} in all: {commands}", seconds(*length));
            rows.push(Row::text(RowRank::Main, "looked into", &text));
        }
    }
    rows
}
