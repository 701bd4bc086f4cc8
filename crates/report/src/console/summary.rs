//! The summary of a run on a terminal: at most 23 lines of 80 columns, the report's path last.

use std::borrow::Cow;

use archive::{RequirementOutcome, RunRecord, RunSummary, Warning};
use measure::{LatencySummary, Nanos};

use super::shape::Shape;
use super::text::{Style, fit, left, right, sanitise, width, wrap};
use super::{plain, scenario};
use crate::numbers::{count, marked, observed, percent_digits, three_digits};
use crate::text;
use crate::view;

/// Lines that leave room for the prompt on the smallest screen it is made for, 24 rows.
const LEAST_LINES: usize = 23;
/// Lines beyond which nobody reads on.
const MOST_LINES: usize = 40;
/// Lines that warnings leave to a profile: its counts, heads and a function.
const PROFILE_LINES: usize = 3;
/// Reasons of the verdict.
const REASONS: usize = 3;
/// What stands before each of them on a terminal.
const MARK: &str = "  - ";
/// Functions shown where there is room.
const FUNCTIONS: usize = 5;

/// The summary, ending in a newline: compact on a terminal, Artemis `perf`'s form in a pipe.
///
/// `report` is the path of the report, or of the run folder, printed last.
#[must_use]
pub fn summary(
    shape: &Shape,
    record: &RunRecord,
    summary: &RunSummary,
    report: Option<&str>,
    style: Style,
) -> String {
    let mut lines = if style.terminal {
        let lines = style.rows.saturating_sub(1).clamp(LEAST_LINES, MOST_LINES);
        compact(
            shape,
            record,
            summary,
            style,
            lines - usize::from(report.is_some()),
        )
    } else {
        let mut text = plain::summary(shape, record, summary);
        for line in verdict(summary)
            .into_iter()
            .chain(failure(summary))
            .chain(because(summary).map(|reason| format!("  because {reason}")))
            .chain(requirements(summary))
            .chain(cost(summary))
            .chain(profile_lines(summary, usize::MAX, 100))
        {
            text.push_str(&line);
            text.push('\n');
        }
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        match summary.warnings.as_slice() {
            [] => lines.push("no warnings".into()),
            all => lines.extend(
                all.iter()
                    .map(|w| format!("warning: {}", sanitise(&w.text))),
            ),
        }
        lines
    };
    if let Some(next) = shape.next {
        lines.extend(["", next, ""].map(str::to_owned));
    }
    if let Some(path) = report {
        lines.push(format!("{} {}", style.strong("report:"), sanitise(path)));
    }
    lines.join("\n") + "\n"
}

fn compact(
    shape: &Shape,
    record: &RunRecord,
    summary: &RunSummary,
    style: Style,
    room: usize,
) -> Vec<String> {
    let columns = style.columns.min(100);
    let headline = wrap(&headline(record, summary), columns);
    let mut first: Vec<String> = headline.iter().map(|line| style.strong(line)).collect();
    first.extend(
        failure(summary)
            .into_iter()
            .chain(verdict(summary))
            .flat_map(|text| wrap(&text, columns)),
    );
    let mut sections = vec![first];
    let required = requirements(summary).into_iter();
    sections.push(
        required
            .map(|line| fit(&line, columns).into_owned())
            .collect(),
    );
    if summary.has_messages() || summary.scenarios().next().is_none() {
        sections.push(rates(shape, summary, style));
        sections.push(latencies(shape, summary, style));
    } else {
        let lines = memory(summary).into_iter().chain(plain::faults(summary));
        let lines = lines.chain(plain::stalls(summary));
        sections.push(lines.flat_map(|line| wrap(&line, columns)).collect());
    }
    for (_, of) in summary.scenarios() {
        let account = scenario::account(of).into_iter();
        sections.push(account.flat_map(|line| wrap(&line, columns)).collect());
        sections.push(scenario::latencies(&of.latency, style));
    }
    let used: usize = sections.iter().map(Vec::len).sum();
    let reserved = if summary.profiles.is_empty() {
        0
    } else {
        PROFILE_LINES
    };
    let warnings = warning_lines(
        summary,
        style,
        columns,
        room.saturating_sub(used + reserved),
    );
    let left_over = room.saturating_sub(used + warnings.len());
    let reasons = reason_lines(summary, columns, left_over.saturating_sub(reserved));
    let left_over = left_over.saturating_sub(reasons.len());
    if let Some(first) = sections.first_mut() {
        first.extend(reasons);
    }
    if left_over > 0 {
        let mut lines = profile_lines(summary, left_over, columns);
        lines.truncate(left_over);
        sections.push(lines);
    }
    sections.push(warnings);
    sections.retain(|section| !section.is_empty());
    let lines: usize = sections.iter().map(Vec::len).sum();
    let gaps = sections.len().saturating_sub(1);
    // Blank lines between the sections are a comfort, and the first thing to go.
    let gap = if lines + gaps <= room {
        vec![String::new()]
    } else {
        Vec::new()
    };
    sections.join(gap.as_slice())
}

/// What ended a run that failed, and the remedy.
fn failure(summary: &RunSummary) -> Option<String> {
    let problem = summary.error.as_ref()?;
    Some(format!("failed: {}", sanitise(&problem.sentence())))
}

/// What the run had to reach, a line each: whether it did, what was required, what was observed.
fn requirements(summary: &RunSummary) -> Vec<String> {
    let all = &summary.requirements;
    let widest = all.iter().map(|it| width(&sanitise(&it.that))).max();
    let line = |it: &RequirementOutcome| {
        let met = match it.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "unknown",
        };
        let that = left(&sanitise(&it.that), widest.unwrap_or(0));
        format!("{}{that}  {}", left(met, 9), sanitise(&observed(it)))
    };
    all.iter().map(line).collect()
}

/// Who limited the run.
fn verdict(summary: &RunSummary) -> Option<String> {
    let verdict = summary.verdict.as_ref()?;
    Some(format!("verdict: {}", sanitise(&verdict.sentence)))
}

/// What decided that, in the order of its weight.
fn because(summary: &RunSummary) -> impl Iterator<Item = Cow<'_, str>> {
    let reasons = summary.verdict.iter().flat_map(|verdict| &verdict.reasons);
    let decided = reasons.filter(|reason| reason.decided);
    decided.take(REASONS).map(|reason| sanitise(&reason.text))
}

/// The same on a terminal, as many as fit into `room` lines.
fn reason_lines(summary: &RunSummary, columns: usize, room: usize) -> Vec<String> {
    let mut out = Vec::new();
    for reason in because(summary) {
        let lines = wrap(&reason, columns.saturating_sub(MARK.len()));
        if out.len() + lines.len() > room {
            break;
        }
        let heads = std::iter::once(MARK).chain(std::iter::repeat("    "));
        out.extend(heads.zip(lines).map(|(head, line)| format!("{head}{line}")));
    }
    out
}

/// The run's name, and the page's first sentence on it.
fn headline(record: &RunRecord, summary: &RunSummary) -> String {
    let parts = view::sentence(record, &record.phases, summary);
    let sentence: String = parts.iter().map(|part| part.text.as_str()).collect();
    sanitise(&format!("{}: {sentence}", record.name)).into_owned()
}

/// Messages at the left, and what they cost both processes at the right.
fn rates(shape: &Shape, summary: &RunSummary, style: Style) -> Vec<String> {
    let messages = |name: &str, total: &str, rate: &str| {
        format!("{}{}{}", left(name, 13), right(total, 15), right(rate, 12))
    };
    let cost = |who: &str, cpu: &str, memory: &str| {
        format!(
            "      {}{}{}",
            left(who, 8),
            right(cpu, 13),
            right(memory, 10)
        )
    };
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
    let (cpu, rss) = (&summary.cpu_us_per_message, &summary.rss_mb);
    let mut at_left = [
        ("sent", shape.producers, &summary.sent),
        ("completed", shape.producers, &summary.completed),
        ("received", shape.consumers, &summary.received),
        ("blocked", shape.producers, &summary.blocked),
    ]
    .into_iter()
    .filter(|(_, shown, _)| *shown)
    .map(|(name, _, value)| messages(name, &count(value.total), &three_digits(value.rate)));
    let mut at_right = [
        ("broker", cpu.broker, rss.broker),
        ("bellows", cpu.client, rss.client),
    ]
    .into_iter()
    .filter(|(_, cpu, rss)| cpu.is_some() || rss.is_some())
    .map(|(who, cpu, rss)| cost(who, &number(cpu), &number(rss)))
    .peekable();

    let heads = if at_right.peek().is_some() {
        cost("", "CPU us/msg", "peak MB")
    } else {
        String::new()
    };
    let mut out = vec![style.faint(&(messages("", "total", "msg/s") + &heads))];
    loop {
        match (at_left.next(), at_right.next()) {
            (None, None) => {
                let lines = plain::messages_requested(summary)
                    .into_iter()
                    .chain(plain::ledger(summary))
                    .chain(plain::faults(summary))
                    .chain(plain::stalls(summary));
                out.extend(lines.flat_map(|line| wrap(&line, style.columns)));
                return out;
            }
            (line, cost) => out.push(
                line.unwrap_or_else(|| messages("", "", "")) + cost.as_deref().unwrap_or_default(),
            ),
        }
    }
}

fn latencies(shape: &Shape, summary: &RunSummary, style: Style) -> Vec<String> {
    let mut head = left("", 12);
    for name in ["mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"] {
        head.push_str(&right(name, 9));
    }
    let mut out = vec![style.faint(&head)];
    let mut weak = false;
    for (metric, latency) in summary
        .latency
        .iter()
        .filter(|(m, l)| shape.shows(*m) && l.count > 0)
    {
        let mut line = left(metric.name(), 12) + &right(&Nanos(latency.mean_ns).to_string(), 9);
        for ((percentile, _), value) in LatencySummary::PERCENTILES
            .into_iter()
            .zip(latency.percentile_values())
        {
            let supported = latency.supports(percentile);
            weak |= !supported;
            line.push_str(&right(&marked(value, supported), 9));
        }
        out.push(line + &right(&Nanos(latency.max_ns).to_string(), 9));
    }
    if out.len() == 1 {
        return vec!["no latency was measured".into()];
    }
    if weak {
        out.push(style.faint("~ fewer than ten samples lie beyond this percentile"));
    }
    out
}

/// The largest memory of both sides.
fn memory(summary: &RunSummary) -> Option<String> {
    let mb = [
        ("broker", summary.rss_mb.broker),
        ("bellows", summary.rss_mb.client),
    ];
    let known = mb.into_iter().filter_map(|(who, mb)| {
        let mb = three_digits(mb?);
        Some(format!("{who} {mb} MB at most"))
    });
    let text = known.collect::<Vec<_>>().join("; ");
    (!text.is_empty()).then_some(text)
}

/// What a message cost on both sides.
fn cost(summary: &RunSummary) -> Option<String> {
    let cpu = [
        ("broker", summary.cpu_us_per_message.broker),
        ("bellows", summary.cpu_us_per_message.client),
    ]
    .into_iter()
    .filter_map(|(who, us)| Some(format!("{who} {} us", three_digits(us?))))
    .collect::<Vec<_>>();
    let memory = [
        ("broker", summary.rss_mb.broker),
        ("bellows", summary.rss_mb.client),
    ]
    .into_iter()
    .filter_map(|(who, mb)| Some(format!("{who} {} MB", three_digits(mb?))))
    .collect::<Vec<_>>();
    let mut parts = Vec::new();
    if !cpu.is_empty() {
        parts.push(format!("CPU per message: {}", cpu.join(", ")));
    }
    if !memory.is_empty() {
        parts.push(format!("peak memory: {}", memory.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What was sampled. Where `room` is for few lines, a function goes before the way in which stacks were found.
fn profile_lines(summary: &RunSummary, room: usize, columns: usize) -> Vec<String> {
    let mut out = Vec::new();
    for profile in &summary.profiles {
        out.push(
            fit(
                &format!(
                    "{} profile: {} samples, {} lost, unknown share {} %, complete share {} %",
                    sanitise(&profile.event),
                    count(profile.samples),
                    count(profile.lost),
                    percent_digits(profile.unknown_share),
                    percent_digits(profile.complete_share)
                ),
                columns,
            )
            .into_owned(),
        );
        let stacks = text::stacks(profile).map(|line| fit(&line, columns).into_owned());
        let heads_and_function = if profile.top.is_empty() { 0 } else { 2 };
        if out.len() + 1 + heads_and_function <= room {
            out.extend(stacks);
        }
        let functions = room.saturating_sub(out.len() + 1).min(FUNCTIONS);
        if functions == 0 || profile.top.is_empty() {
            continue;
        }
        out.push("  self %  total %  function".into());
        for row in profile.top.iter().take(functions) {
            let line = format!(
                "{}{}  {}",
                right(&percent_digits(row.self_share), 8),
                right(&percent_digits(row.total), 9),
                sanitise(&row.function)
            );
            out.push(fit(&line, columns).into_owned());
        }
    }
    out
}

/// Warnings under something else than a summary, one after the other, each line ending in a
/// newline. On a terminal they are wrapped.
#[must_use]
pub fn warnings(all: &[Warning], style: Style) -> String {
    let columns = if style.terminal {
        style.columns.min(100)
    } else {
        usize::MAX
    };
    all.iter()
        .flat_map(|warning| wrap(&format!("warning: {}", sanitise(&warning.text)), columns))
        .map(|line| style.caution(&line) + "\n")
        .collect()
}

/// What is to be said beside figures that another tool's form has: warnings, and the verdict that they refer to.
#[must_use]
pub fn remarks(summary: &RunSummary, style: Style) -> String {
    let mut text = warnings(&summary.warnings, style);
    if !text.is_empty()
        && let Some(verdict) = verdict(summary)
    {
        text.push_str(&verdict);
        text.push('\n');
    }
    text
}

/// The warnings in full where they fit into `room` lines, else the first ones and what the others
/// are about.
fn warning_lines(summary: &RunSummary, style: Style, columns: usize, room: usize) -> Vec<String> {
    const LABEL: &str = "! warning: ";
    if summary.warnings.is_empty() {
        return vec!["no warnings".into()];
    }
    let mut out = Vec::new();
    for (position, warning) in summary.warnings.iter().enumerate() {
        let mut lines = wrap(
            &sanitise(&warning.text),
            columns.saturating_sub(LABEL.len() + 2),
        );
        let rest = summary.warnings.get(position..).unwrap_or_default();
        let left = room.saturating_sub(out.len() + usize::from(rest.len() > 1));
        if lines.len() > left && position > 0 {
            out.push(fit(&others(rest), columns).into_owned());
            break;
        }
        let cut = lines.len() > left.max(1);
        lines.truncate(left.max(1));
        if let Some(last) = lines.last_mut().filter(|_| cut) {
            last.push_str(" …");
        }
        for (index, line) in lines.iter().enumerate() {
            let head = if index == 0 {
                style.caution(LABEL)
            } else {
                " ".repeat(LABEL.len())
            };
            out.push(format!("{head}{line}"));
        }
    }
    out
}

/// `and 2 more, in the report: too few cores, interrupted`.
fn others(warnings: &[Warning]) -> String {
    let name = |warning: &Warning| {
        let code = serde_json::to_value(warning.code).ok();
        code.as_ref()
            .and_then(|c| c.as_str())
            .unwrap_or("another")
            .replace('_', " ")
    };
    let names: Vec<String> = warnings.iter().map(name).collect();
    format!(
        "  and {} more, in the report: {}",
        warnings.len(),
        names.join(", ")
    )
}
