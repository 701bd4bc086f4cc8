//! All figures of a run, on a terminal and in a pipe alike: doubts above the figures, the report's path last.

use archive::{
    DeliveryPromise, Finding, ProgramSummary, RequirementOutcome, RunRecord, RunSummary, ScenarioSummary, Tier, Warning,
};

use super::functions::{known_patterns, language_table};
use super::table::{Table, or_dash, with_heads};
use super::text::{Style, fit_middle, left, sanitise, width, wrap};
use super::{Shape, interval, messages, scenario, scrapes};
use crate::numbers::{count, observed, percent_digits, three_digits, weight};
use crate::text;
use crate::view;

const REASONS: usize = 3;
const FUNCTIONS: usize = 5;
/// Columns of a worker's name beside a cell that is too wide.
const NAME: usize = 22;
/// Blanks between two tables that stand side by side.
const BETWEEN: usize = 6;

/// The summary, ending in a newline. Its tables are laid out for the columns that there are; only the mean of messages'
/// latencies is left out for lack of room. `report` is the path of the report, or of the run folder, printed last.
pub fn summary(shape: &Shape, record: &RunRecord, summary: &RunSummary, report: Option<&str>, style: Style) -> String {
    let columns = style.prose_columns();
    let mut sections = vec![
        first(record, summary, style),
        warning_lines(&summary.warnings, |tier| tier != Tier::Note, style),
        requirements(summary, columns),
    ];
    // Whoever has something requested beside messages looks for that: it stands last, next to the report's path.
    let has_beside = summary.others().next().is_some() || !summary.scrapes.is_empty();
    let is_about_beside = summary.has_messages() && has_beside;
    let sampled = [profiles(summary, style), cost_of_profiling(summary, style)];
    if is_about_beside {
        sections.extend(sampled.clone());
    }
    // A recording has no load, and so no verdict on one; messages of other programs are not seen.
    let of_others = summary.others().next().is_some() || !summary.programs.is_empty();
    let has_load = summary.verdict.is_some() && !of_others;
    if summary.has_messages() || has_load {
        sections.push(rates(shape, record, summary, style));
        let latencies = summary.messages().latency.filled().filter(|(metric, _)| shape.shows(*metric));
        sections.push(scenario::latency_table(latencies, "", true, style));
        sections.push(workers(summary, style));
    } else {
        let lines = memory(summary).into_iter().chain(messages::faults(summary));
        let lines = lines.chain(messages::stalls(record, summary));
        sections.push(lines.flat_map(|line| style.prose_lines(&line)).collect());
    }
    sections.push(programs(summary, columns));
    sections.extend(scenarios(summary, style));
    sections.push(scrapes::pages(&summary.scrapes, style));
    let traces = summary.traces.iter().flat_map(|it| labelled("traced: ", "traced: ", &text::trace(it), columns));
    sections.push(traces.collect());
    if !is_about_beside {
        sections.extend(sampled);
    }
    sections.push(warning_lines(&summary.warnings, |tier| tier == Tier::Note, style));
    if summary.warnings.is_empty() {
        sections.push(vec!["no warnings".into()]);
    }
    sections.retain(|section| !section.is_empty());
    let mut lines = sections.join([String::new()].as_slice());
    if let Some(path) = report {
        // A path is never broken: people copy it.
        lines.push(format!("{} {}", style.strong("report:"), sanitise(path)));
    }
    lines.join("\n") + "\n"
}

/// Outcome and latencies of operations: each step of the only scenario; if several share a screen, or messages stand
/// beside them, the whole operations in one table.
fn scenarios(summary: &RunSummary, style: Style) -> Vec<Vec<String>> {
    // Alone nobody has to ask whose counts these are.
    let is_alone = !summary.has_messages() && summary.others().count() == 1;
    let account = |(name, of): (&str, &ScenarioSummary)| {
        let name = (!is_alone).then_some(name);
        let only = matches!(of.failures.as_slice(), [only] if is_told(summary, &only.reason));
        scenario::account(name, of, !only).into_iter().flat_map(|line| style.prose_lines(&line)).collect::<Vec<_>>()
    };
    let accounts = summary.others().flat_map(account).collect();
    let all = summary.others().map(|(_, of)| &of.latency);
    let latencies = match is_alone {
        true => all.flat_map(|of| scenario::latencies(of, "", style)).collect(),
        false => scenario::whole_latencies(all, style),
    };
    vec![accounts, latencies]
}

/// The headline, a failed run's error, the verdict, and its reasons.
fn first(record: &RunRecord, summary: &RunSummary, style: Style) -> Vec<String> {
    let columns = style.prose_columns();
    let headline = style.prose_lines(&headline(record, summary));
    let mut lines: Vec<String> = headline.iter().map(|line| style.strong(line)).collect();
    let texts = failure(summary).into_iter().chain(verdict(summary));
    lines.extend(texts.flat_map(|text| style.prose_lines(&text)));
    let reasons = summary.verdict.iter().flat_map(|verdict| &verdict.reasons);
    // The requested rate has a line of its own.
    for reason in reasons.filter(|reason| reason.decided && reason.code != "requested").take(REASONS) {
        lines.extend(labelled("  - ", "  - ", &reason.text, columns));
    }
    if let Some(promise) = DeliveryPromise::of(&record.experiment) {
        lines.extend(style.prose_lines(&sanitise(&format!("guarantee: {promise}"))));
    }
    lines
}

/// Text behind a label, whose further lines begin where the first one's text does; `painted` is the label in colour.
fn labelled(label: &str, painted: &str, text: &str, columns: usize) -> Vec<String> {
    let indent = " ".repeat(width(label));
    let heads = std::iter::once(painted).chain(std::iter::repeat(indent.as_str()));
    let lines = wrap(&sanitise(text), columns.saturating_sub(width(label)));
    heads.zip(lines).map(|(head, line)| format!("{head}{line}")).collect()
}

fn failure(summary: &RunSummary) -> Option<String> {
    let problem = summary.error.as_ref()?;
    // A warning says it together with how often.
    if is_told(summary, &problem.cause) { None } else { Some(format!("failed: {}", sanitise(&problem.sentence()))) }
}

/// Whether a warning on failed operations says this cause.
fn is_told(summary: &RunSummary, cause: &str) -> bool {
    let tells = |it: &Warning| match &it.finding {
        Finding::CyclesFailed { first_failure, .. } => first_failure.contains(cause),
        _ => false,
    };
    !cause.is_empty() && summary.warnings.iter().any(tells)
}

/// Requirements, a line each: outcome, condition, observed value.
fn requirements(summary: &RunSummary, columns: usize) -> Vec<String> {
    let all = &summary.requirements;
    let widest = all.iter().map(|it| width(&sanitise(&it.that))).max();
    let line = |it: &RequirementOutcome| {
        let outcome = text::outcome(it.met);
        let met = if it.met == Some(false) { left(&outcome.to_uppercase(), 9) } else { left(outcome, 9) };
        let observed = sanitise(&observed(it)).into_owned();
        let that = left(&sanitise(&it.that), widest.unwrap_or(0));
        let whole = format!("{met}{that}  {observed}");
        if width(&whole) <= columns {
            return vec![whole];
        }
        let text = format!("{}: {observed}", it.that);
        labelled(&met, &met, &text, columns)
    };
    all.iter().flat_map(line).collect()
}

fn verdict(summary: &RunSummary) -> Option<String> {
    let verdict = summary.verdict.as_ref()?;
    Some(format!("verdict: {}", sanitise(&verdict.sentence)))
}

/// The run's name, and the page's first sentence on it.
fn headline(record: &RunRecord, summary: &RunSummary) -> String {
    let parts = view::sentence(record, &record.phases, summary);
    let sentence: String = parts.iter().map(|part| part.text.as_str()).collect();
    sanitise(&format!("{}: {sentence}", record.name)).into_owned()
}

/// Messages at the left, their cost to both processes at the right, or below for lack of room; and their outcome.
fn rates(shape: &Shape, record: &RunRecord, summary: &RunSummary, style: Style) -> Vec<String> {
    let flow = summary.flow();
    // One is of the whole run, warm-up and drain included, the other of the measured phase, or of a time of its own.
    let measured = if flow.lasted.is_some() { "msg/s meanwhile" } else { "measured msg/s" };
    let mut counts = Table::of(&format!("<|whole run|{measured}"));
    for (name, _) in interval::counts(shape) {
        let counted = match name {
            "sent" => &flow.sent,
            "completed" => &flow.completed,
            "received" => &flow.received,
            _ => &flow.blocked,
        };
        counts.row(vec![name.to_owned(), count(counted.total), three_digits(counted.rate)]);
        // Without them the messages that were received, and those that were not, are all that were sent.
        let copies = flow.ledger.map_or(0, |it| it.copies());
        if name == "received" && copies > 0 {
            counts.row(vec!["  copies".to_owned(), count(copies)]);
        }
    }
    let rss = &summary.rss_mb;
    let each = &summary.messages().cpu_us_each;
    // Where other load ran beside the messages, nobody knows whose time it was.
    let (head, cpu) = match each.broker.or(each.client) {
        Some(_) => ("CPU µs/msg", each),
        None => ("CPU cores", &summary.cpu_cores),
    };
    let sides = [("broker", cpu.broker, rss.broker), ("bellows", cpu.client, rss.client)];
    let known = sides.iter().filter(|(_, cpu, rss)| cpu.is_some() || rss.is_some());
    let mut cost = Table::of(&format!("<|{head}|peak MB"));
    let number = |value: Option<f64>| or_dash(value.map(three_digits));
    for (who, cpu, rss) in known.clone() {
        cost.row(vec![(*who).to_owned(), number(*cpu), number(*rss)]);
    }
    let mut out = counts.lines(style.columns);
    if known.count() > 0 {
        out = beside(out, cost.lines(style.columns), style.columns);
    }
    out = with_heads(out, |heads| style.faint(heads));
    let requested = messages::requested(summary.messages().requested.as_ref(), flow.closed_loop);
    let lines = requested.into_iter().chain(messages::nodes(summary));
    let lines = lines.chain(messages::ledger(summary)).chain(messages::faults(summary));
    let limits: Vec<String> = text::amqp10_limits(record).iter().map(|(name, it)| format!("{name} {it}")).collect();
    let limits = if limits.is_empty() { String::new() } else { format!(": {}", limits.join("; ")) };
    let protocol = text::protocol(record).map(|protocol| format!("{protocol}{limits}"));
    let lines = lines.chain(protocol).chain(messages::stalls(record, summary));
    out.extend(lines.flat_map(|line| style.prose_lines(&line)));
    out
}

/// The workers of a fleet, as the report has them.
fn workers(summary: &RunSummary, style: Style) -> Vec<String> {
    let columns = text::worker_table(&summary.workers);
    if columns.is_empty() {
        return Vec::new();
    }
    let heads = columns.iter().map(|it| format!("{}{}", it.head, if it.number { "" } else { "<" }));
    let mut table = Table::of(&heads.collect::<Vec<_>>().join("|"));
    table.named_by(0);
    table.spaced = true;
    // Labels and hosts may be longer than a screen is wide.
    let room = style.columns.saturating_sub(NAME);
    for row in 0..summary.workers.len() {
        let cells = columns.iter().filter_map(|it| it.cells.get(row)).map(|it| sanitise(it));
        let cells = cells.enumerate().map(|(at, it)| if at == 0 { it.into_owned() } else { fit_middle(&it, room) });
        table.row(cells.collect());
    }
    table.faint_lines(style)
}

/// Two tables side by side where they fit, else one below the other.
fn beside(at_left: Vec<String>, at_right: Vec<String>, columns: usize) -> Vec<String> {
    let widest = |lines: &[String]| lines.iter().map(|line| width(line)).max().unwrap_or(0);
    let room = widest(&at_left) + BETWEEN;
    if room + widest(&at_right) > columns {
        return [at_left, vec![String::new()], at_right].concat();
    }
    let rows = at_left.len().max(at_right.len());
    let line = |lines: &[String], row: usize| lines.get(row).cloned().unwrap_or_default();
    let rows = (0..rows).map(|row| left(&line(&at_left, row), room) + &line(&at_right, row));
    rows.map(|row| row.trim_end().to_owned()).collect()
}

/// The programs that were the load: how each ended, and where its own figures are.
fn programs(summary: &RunSummary, columns: usize) -> Vec<String> {
    let of = |program: &ProgramSummary| {
        let label = format!("{}: ", sanitise(&program.log));
        let text =
            format!("what this program printed, its own figures among it: {} ({})", program.command, program.status);
        labelled(&label, &label, &text, columns)
    };
    let mut lines: Vec<String> = summary.programs.iter().flat_map(of).collect();
    if !lines.is_empty() {
        let text = "bellows saw no messages of the load; CPU and memory of its programs count as bellows' own";
        lines.extend(wrap(text, columns));
    }
    lines
}

fn memory(summary: &RunSummary) -> Option<String> {
    let mb = [(summary.loaded().target(), summary.rss_mb.broker), ("bellows", summary.rss_mb.client)];
    let known = mb.into_iter().filter_map(|(who, mb)| Some(format!("{who} {} MB at most", three_digits(mb?))));
    let text = known.collect::<Vec<_>>().join("; ");
    (!text.is_empty()).then_some(text)
}

/// Samples, how their stacks were unwound, and the functions with the largest shares.
fn profiles(summary: &RunSummary, style: Style) -> Vec<String> {
    let mut out = Vec::new();
    for profile in &summary.profiles {
        if !out.is_empty() {
            out.push(String::new());
        }
        let counts = format!(
            "{} profile{}: {}{}, {} lost{}, unknown share {} %, complete share {} %",
            profile.event,
            (profile.node).map_or_else(String::new, |node| format!(" of node {node}")),
            weight(profile.weight.max(profile.samples), &profile.unit),
            text::clock(profile).map_or_else(String::new, |clock| format!(" {clock}")),
            count(profile.lost),
            text::covered(profile).map_or_else(String::new, |text| format!(", {text}")),
            percent_digits(profile.unknown_share),
            percent_digits(profile.complete_share)
        );
        let estimated = text::estimated_summary(profile).map(|it| format!("~ {it}"));
        let texts = [Some(counts), text::stacks(profile), text::classes(profile), estimated, text::work(profile)];
        out.extend(texts.iter().flatten().flat_map(|text| style.prose_lines(&sanitise(text))));
        out.extend(known_patterns(&profile.known_patterns, style));
        let functions = profile.language_functions.get(..FUNCTIONS).unwrap_or(&profile.language_functions);
        if !functions.is_empty() {
            out.extend(language_table(functions, style));
            continue;
        }
        let mut table = Table::of("  self %|total %|function<");
        (table.gives_way, table.spaced) = (Some(2), true);
        for row in profile.top.iter().take(FUNCTIONS) {
            let function = sanitise(&row.function).into_owned();
            table.row(vec![percent_digits(row.self_share), percent_digits(row.total), function]);
        }
        if !profile.top.is_empty() {
            out.extend(table.lines(style.columns));
        }
    }
    out
}

fn cost_of_profiling(summary: &RunSummary, style: Style) -> Vec<String> {
    let Some(effect) = &summary.observer_effect else { return Vec::new() };
    let sentences = text::observer_effect(effect);
    let lines = sentences.iter().flat_map(|it| labelled("- ", "- ", it, style.prose_columns()));
    std::iter::once(style.strong("what profiling cost")).chain(lines).collect()
}

/// Warnings under something else than a summary, one after the other, each line ending in a newline.
pub fn warnings(all: &[Warning], style: Style) -> String {
    warning_lines(all, |_| true, style).into_iter().map(|line| line + "\n").collect()
}

/// Warnings of some tiers, each behind its consequence for the numbers, the gravest first.
fn warning_lines(all: &[Warning], of: impl Fn(Tier) -> bool, style: Style) -> Vec<String> {
    let mut all: Vec<&Warning> = all.iter().filter(|warning| of(warning.tier)).collect();
    all.sort_by_key(|warning| warning.tier);
    let lines = all.into_iter().flat_map(|warning| {
        let (label, paint): (_, fn(Style, &str) -> String) = match warning.tier {
            Tier::Invalid => ("invalid: ", Style::alarm),
            Tier::Caution => ("caution: ", Style::caution),
            Tier::Note => ("note: ", Style::faint),
        };
        labelled(label, &paint(style, label), &warning.text, style.prose_columns())
    });
    lines.collect()
}

/// Remarks below figures in another tool's format: warnings, and the verdict that they refer to.
pub fn remarks(summary: &RunSummary, style: Style) -> String {
    let mut text = warnings(&summary.warnings, style);
    if !text.is_empty()
        && let Some(verdict) = verdict(summary)
    {
        text.extend(style.prose_lines(&verdict).into_iter().map(|line| line + "\n"));
    }
    text
}
