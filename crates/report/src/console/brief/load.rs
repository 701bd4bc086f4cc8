//! Rows on the load: requested and achieved rates, latencies, faults, messages, operations, pages and CPU.

use std::collections::BTreeSet;

use archive::{FaultOutcome, RequirementOutcome, RunRecord, RunSummary, ScenarioSummary, plain_name};
use measure::ledger::LedgerSummary;
use measure::{LatencySummary, Metric, MetricKind, Nanos, Phase, ScenarioRole};

use super::super::messages;
use super::super::rows::{Content, Row, RowRank, few};
use super::super::scenario::{called, counts_of, latency_name, with_own_unit};
use super::super::text::sanitise;
use crate::numbers::{bytes, count, counted, duration, nonzero, seconds, seconds_digits, three_digits};
use crate::text::{self, shortened};
use crate::view;

/// Latencies of a load that runs alone, each step of it among them.
const STEPS: usize = 7;
/// Those of a probe, the one that matters first.
const REQUEST: [&str; 4] = ["response", "wait", "from send", "first byte"];
/// Requests that were sent, and had no answer when the run ended.
const OPEN: &str = "in flight at the end";
/// Latencies of loads beside others.
const BESIDE: usize = 3;
/// Faults that have rows of their own.
pub(super) const FAULTS: usize = 4;
/// Letters of a word of the broker's name and version.
const WORD: usize = 40;

/// Loads other than messages.
fn others(summary: &RunSummary) -> Vec<(&str, &ScenarioSummary)> {
    summary.others().filter(|(_, of)| of.role != ScenarioRole::Watcher).collect()
}

/// Whether nothing loaded the process that was profiled.
pub(super) fn is_recording(summary: &RunSummary) -> bool {
    let has_load = summary.scenarios().next().is_some() || !summary.programs.is_empty();
    !has_load && !summary.profiles.is_empty()
}

/// The run's name, the requested and achieved rates, and the broker with its queue.
pub(super) fn title(record: &RunRecord, summary: &RunSummary) -> Row<'static> {
    let flow = sanitise(&flow(record, summary)).into_owned();
    let broker = sanitise(&broker(record, summary)).into_owned();
    let broker = broker.split(' ').map(|it| shortened(it, WORD)).collect::<Vec<_>>().join(" ");
    Row::new(RowRank::Core, &record.name, Content::Title(flow, broker))
}

/// `RabbitMQ 4.0.5, stream`; empty where nothing is known of it.
fn broker(record: &RunRecord, summary: &RunSummary) -> String {
    let of = &summary.broker;
    let broker = text::broker(record, of);
    let place = view::place(record, of);
    let is_count = place.starts_with("over ") || place.starts_with(|c: char| c.is_ascii_digit());
    let queue = place.strip_prefix("a ").or(is_count.then_some(place.as_str()));
    [Some(broker.as_str()), queue].into_iter().flatten().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", ")
}

/// `10,000 msg/s for 20 s, as requested`.
fn flow(record: &RunRecord, summary: &RunSummary) -> String {
    let others = others(summary);
    let beside = match others.as_slice() {
        [] => None,
        [(_, of)] => Some(format!("{} {}/s", three_digits(of.rate), of.unit)),
        several => {
            let is_probe = |(_, of): &(&str, &ScenarioSummary)| of.role == ScenarioRole::Server;
            let is_all = several.iter().all(is_probe);
            let noun = if is_all { "probe" } else { "load" };
            Some(counted(several.len() as u64, noun))
        }
    };
    let programs = Some(summary.programs.len() as u64).filter(|it| *it > 0).map(|it| counted(it, "program"));
    let mut requested = match (summary.has_messages(), others.as_slice()) {
        (true, _) => {
            let flow = summary.flow();
            let of = view::of_requested(summary.messages().requested.as_ref(), flow.sent.rate);
            asked(of, flow.sent.rate, flow.closed_loop)
        }
        (false, [(_, of)]) => asked(view::of_requested_operations(of), of.rate, true),
        _ => String::new(),
    };
    let messages = message_rates(summary, &mut requested);
    let parts: Vec<String> = [beside, messages, programs].into_iter().flatten().collect();
    let length = length(record, summary);
    let is_timed = !length.is_empty() && (!parts.is_empty() || is_recording(summary));
    let prefix = view::early_end(record.state, &record.phases, is_timed);
    if parts.is_empty() {
        return match is_recording(summary) {
            true => format!("{prefix}profiled{length}"),
            false => format!("{prefix}nothing was measured"),
        };
    }
    format!("{prefix}{}{length}{requested}{}", parts.join(" beside "), view::tolerated(summary))
}

/// Where rates differ, the requested one stands behind that of sending, which it is about.
fn message_rates(summary: &RunSummary, requested: &mut String) -> Option<String> {
    let flow = summary.flow();
    let [sent, received] = [flow.sent.rate, flow.received.rate].map(three_digits);
    match (flow.sent.rate > 0.0, flow.received.rate > 0.0) {
        (false, false) => None,
        (true, false) => Some(format!("{sent} msg/s sent")),
        (false, true) => Some(format!("{received} msg/s received")),
        (true, true) if (flow.sent.rate / flow.received.rate - 1.0).abs() < 0.01 => Some(format!("{sent} msg/s")),
        (true, true) => {
            let of = std::mem::take(requested).strip_prefix(", ").map(|of| format!(" ({of})")).unwrap_or_default();
            Some(format!("{sent} msg/s sent{of}, {received} received"))
        }
    }
}

/// `, as requested`; `, of 12,000 requested`.
fn asked(of_requested: Option<String>, rate: f64, closed_loop: bool) -> String {
    match of_requested {
        Some(of) => format!(", {of}"),
        None if rate > 0.0 && !closed_loop => ", unthrottled".to_owned(),
        None => String::new(),
    }
}

/// ` for 20 s`, of a load that ended by itself its own time.
fn length(record: &RunRecord, summary: &RunSummary) -> String {
    let lasted = summary.flow().lasted.map(|it| it.sent_s.max(it.received_s));
    let seconds = lasted.unwrap_or_else(|| view::measured_s(&record.phases));
    if seconds > 0.0 { format!(" for {} s", seconds_digits(seconds)) } else { String::new() }
}

/// Latencies of a load that runs alone.
fn steps(of: &ScenarioSummary) -> Vec<(Metric, &LatencySummary)> {
    let all = of.latency.filled();
    if of.role != ScenarioRole::Server {
        return all.take(STEPS).collect();
    }
    let place = |metric: Metric| REQUEST.iter().position(|name| metric.name().ends_with(name));
    let mut steps: Vec<_> = all.filter(|(metric, _)| place(*metric).is_some()).collect();
    steps.sort_by_key(|(metric, _)| place(*metric));
    steps
}

/// A latency of the end.
struct ChosenLatency<'a> {
    label: String,
    /// The name that requirements have for it.
    name: String,
    of: &'a LatencySummary,
    rank: RowRank,
}

impl<'a> ChosenLatency<'a> {
    fn new(rank: RowRank, metric: Metric, of: &'a LatencySummary) -> Self {
        Self { label: metric.name().to_owned(), name: metric.name().to_owned(), of, rank }
    }
}

/// Latencies that matter: of pages and other loads first, then of messages. Those that missed a requirement stay.
pub(super) fn latencies(summary: &RunSummary) -> Vec<Row<'_>> {
    let missed = summary.requirements.iter().filter(|it| it.met == Some(false));
    let missed: BTreeSet<String> = missed.filter_map(RequirementOutcome::latency).collect();
    let is_missed = |name: &str| missed.contains(&plain_name(name));
    let mut rows = chosen_latencies(summary);
    let all = summary.scenarios().flat_map(|(_, of)| of.latency.filled());
    let further = all.filter(|(metric, _)| is_missed(metric.name()) && rows.iter().all(|it| it.name != metric.name()));
    let further: Vec<_> = further.map(|(metric, of)| ChosenLatency::new(RowRank::Core, metric, of)).collect();
    rows.extend(further);
    for (at, row) in rows.iter_mut().enumerate() {
        if at == 0 || is_missed(&row.name) {
            row.rank = RowRank::Core;
        }
    }
    // Steps stand below what they are part of: where that has few samples, all are in words.
    let is_few = is_alone(summary) && rows.first().is_some_and(|it| !it.of.supports(50.0));
    // A table has no gap: few samples, which have no percentiles, stand below it.
    rows.sort_by_key(|it| !is_few && !it.of.supports(50.0));
    let rows = rows.into_iter().map(|it| match is_few {
        true => Row::text(it.rank, &it.label, &few(it.of)),
        false => Row::new(it.rank, &it.label, Content::Latency(it.of)),
    });
    rows.collect()
}

/// Whether one load, and no message, is all that ran.
fn is_alone(summary: &RunSummary) -> bool {
    others(summary).len() == 1 && !summary.has_messages()
}

/// Those of pages and loads beside others stay longest: they are what a run with them compares.
fn chosen_latencies(summary: &RunSummary) -> Vec<ChosenLatency<'_>> {
    let mut pages: Vec<_> = summary.scrapes.iter().filter(|it| it.response.count > 0).collect();
    pages.sort_by_key(|it| std::cmp::Reverse(it.response.p99_ns));
    let pages = pages.into_iter().take(BESIDE).map(|it| {
        let (label, name) = (format!("page {}", it.name), format!("{} page", it.name));
        ChosenLatency { label, name, of: &it.response, rank: RowRank::Last }
    });
    let mut all: Vec<ChosenLatency<'_>> = pages.collect();
    // Steps of a load alone matter less than the CPU that it took.
    let rest = if is_alone(summary) { RowRank::More } else { RowRank::Main };
    match others(summary).as_slice() {
        [(_, alone)] if is_alone(summary) => all.extend(steps(alone).into_iter().map(|step| {
            let label = latency_name(step.0);
            ChosenLatency { label, ..ChosenLatency::new(rest, step.0, step.1) }
        })),
        several => {
            let mut heads: Vec<_> = several.iter().filter_map(|(_, of)| of.headline()).collect();
            heads.sort_by_key(|(_, of)| std::cmp::Reverse(of.p99_ns));
            all.extend(
                heads.into_iter().take(BESIDE).map(|(metric, of)| ChosenLatency::new(RowRank::Last, metric, of)),
            );
        }
    }
    let messages = &summary.messages().latency;
    let felt = [Metric::ACK_RESPONSE, Metric::END_TO_END].map(|metric| (metric, messages.get(metric)));
    let mut felt: Vec<_> = felt.into_iter().filter(|(_, of)| of.count > 0).collect();
    if felt.is_empty() {
        felt.extend(messages.filled().take(1));
    }
    all.extend(felt.into_iter().map(|(metric, of)| {
        let label = match summary.clock_bound(metric) {
            Some(bound) => format!("{} ± {}", metric.name(), seconds(bound.bound_s)),
            None => metric.name().to_owned(),
        };
        ChosenLatency { label, ..ChosenLatency::new(rest, metric, of) }
    }));
    all
}

/// Effects of the faults on users: losses, the longest wait, and when the broker was back; of several the first `most`.
pub(super) fn faults(record: &RunRecord, summary: &RunSummary, most: usize) -> Vec<Row<'static>> {
    let felt = [Metric::ACK_RESPONSE, Metric::END_TO_END];
    let of_messages = felt.map(|metric| summary.messages().latency.get(metric).max_ns);
    let main = summary.main_load().and_then(|(_, of)| of.headline());
    let longest = of_messages.into_iter().chain(main.map(|(_, of)| of.max_ns)).max();
    let longest = longest.filter(|ns| *ns > 0).map(|ns| format!("longest wait {}", Nanos(ns)));
    let lost = summary.flow().ledger.map(|ledger| outcomes(&ledger, true, false));
    let felt: Vec<String> = lost.into_iter().chain(longest).collect();
    let times: Vec<f64> = summary.faults.iter().map(|it| it.t).collect();
    let since = messages::measuring_began(record, &times).unwrap_or_default();
    match summary.faults.as_slice() {
        [] => Vec::new(),
        [only] => {
            let label = format!("{} at {} s", only.kind, seconds_digits(only.t));
            let text = one_fault(only, felt) + &since;
            vec![Row::text(RowRank::Core, &label, &text).whole()]
        }
        several => {
            let number = counted(several.len() as u64, "fault");
            let text = if felt.is_empty() { number } else { format!("{number}: {}", felt.join(", ")) };
            let text = text + &since;
            let first = Row::text(RowRank::Core, "faults", &text).whole();
            let more = several.len().saturating_sub(most) as u64;
            let each = messages::faults(summary).take(most).map(|text| Row::text(RowRank::Core, "", &text).whole());
            let more = (more > 0).then(|| Row::text(RowRank::Core, "", &counted(more, "more fault")));
            std::iter::once(first).chain(each).chain(more).collect()
        }
    }
}

/// `0 lost, longest wait 400 ms, node 1 back after 7.60 s`.
fn one_fault(fault: &FaultOutcome, felt: Vec<String>) -> String {
    let subject = view::target_of(fault);
    let mut parts = felt;
    let hits = fault.count.filter(|_| fault.failed.is_none());
    parts.extend(hits.map(|hits| format!("{} hit", count(hits))));
    if let Some(reason) = &fault.failed {
        parts.push(format!("it failed: {reason}"));
    } else if fault.for_good {
        parts.push(format!("{subject} stayed down, as requested"));
    } else if let Some(back) = fault.back_s {
        parts.push(format!("{subject} back after {} s", three_digits(back)));
    } else if fault.count.is_none() {
        parts.push(format!("{subject} was not seen back"));
    }
    let gone = fault.backlog_gone_s.filter(|_| fault.count.is_none());
    parts.extend(gone.map(|gone| format!("backlog gone after {} s", three_digits(gone))));
    parts.join(", ")
}

/// Rates, sizes and costs of scrapes: those with failures first, then the slowest.
pub(super) fn scrapes(record: &RunRecord, summary: &RunSummary) -> Vec<Row<'static>> {
    let measured = view::measured_s(&record.phases);
    let mut pages: Vec<_> = summary.scrapes.iter().collect();
    pages.sort_by_key(|it| (it.failed == 0, std::cmp::Reverse(it.response.p99_ns)));
    let is_alone = pages.len() == 1;
    let row = |page: &archive::ScrapedPage| {
        let rate = (measured > 0.0).then(|| format!(" ({}/s)", three_digits(page.completed as f64 / measured)));
        let mut parts = vec![count(page.completed) + &rate.unwrap_or_default()];
        parts.extend(nonzero(&[
            (page.failed, "failed"),
            (page.unanswered, "had no answer at the end"),
            (page.not_sent, "due and not sent"),
        ]));
        if page.completed > 0 {
            parts.push(format!("each {}", bytes(page.page_bytes)));
            parts.push(format!("{} series", count(page.series)));
        }
        let cpu = page.broker_cpu.filter(|cpu| cpu.interval.0 > 0.0).map(|cpu| duration((cpu.seconds * 1e9) as u64));
        parts.extend(cpu.map(|cpu| format!("{cpu} of the broker's CPU")));
        if let Some(first) = parts.first_mut().filter(|_| !is_alone) {
            *first = format!("{}: {first}", page.name);
        }
        outcome(RowRank::Main, "scrapes", parts, page.failed > 0)
    };
    pages.into_iter().take(BESIDE).map(row).collect()
}

/// Outcome of a load: where operations have none, or a bad one, it is never left out, nor cut; another has this rank.
fn outcome(rank: RowRank, label: &str, parts: Vec<String>, is_short: bool) -> Row<'static> {
    if is_short { Row::list(RowRank::Core, label, parts).whole() } else { Row::list(rank, label, parts) }
}

pub(super) fn number_of(of: &ScenarioSummary, name: &str) -> u64 {
    let counts = counts_of(&of.counts, MetricKind::Counter).filter(|(metric, _)| metric.name() == name);
    counts.map(|(_, number)| number).sum()
}

/// Whether operations of a scenario failed, had no answer at the end, or never began.
fn is_short(of: &ScenarioSummary) -> bool {
    ["failed", OPEN, "not begun"].iter().any(|it| number_of(of, it) > 0)
}

/// Outcome of operations other than messages, those with failures first; warnings have the reasons.
pub(super) fn operations(record: &RunRecord, summary: &RunSummary) -> Vec<Row<'static>> {
    let mut others = others(summary);
    others.sort_by_key(|(_, of)| !is_short(of));
    let is_alone = is_alone(summary);
    let row = |(name, of): &(&str, &ScenarioSummary)| {
        let counts = counts_of(&of.counts, MetricKind::Counter);
        let counts = counts.filter(|(metric, number)| *number > 0 && metric.name() != "begun");
        let mut counts: Vec<_> = counts.collect();
        // Each operation that was due is in one of these.
        let outcomes = ["completed", "failed", OPEN, "not begun"];
        counts.sort_by_key(|(metric, _)| !outcomes.contains(&metric.name()));
        let counts = counts.into_iter().map(|(metric, number)| {
            let info = metric.info();
            let number = with_own_unit(number, info.unit);
            match info.name {
                // The first line has the others alone.
                "completed" => match view::in_drain(of, &record.phases) {
                    Some(late) => format!("{number} completed ({} in the drain)", count(late)),
                    None => format!("{number} completed"),
                },
                name if name == info.unit => number,
                name if name.starts_with("status ") => format!("{name} {number}"),
                name => format!("{number} {name}"),
            }
        });
        let parts: Vec<String> = counts.collect();
        let label = if is_alone { of.unit.clone() } else { called(name) };
        let rank = if is_alone { RowRank::Main } else { RowRank::More };
        (!parts.is_empty()).then(|| outcome(rank, &label, parts, is_short(of)))
    };
    others.iter().filter_map(row).take(BESIDE).collect()
}

/// `230,000 sent and received (with warm-up); 0 lost, 0 duplicated`; where some are missing, these come first. With
/// copies `5,000 sent, 4,996 deliveries of 4,980 messages`.
pub(super) fn messages(record: &RunRecord, summary: &RunSummary) -> Option<Row<'static>> {
    if !summary.has_messages() {
        return None;
    }
    let flow = summary.flow();
    let [sent, done, received] = [&flow.sent, &flow.completed, &flow.received].map(|it| it.total);
    let copied = flow.ledger.filter(|it| it.copies() > 0);
    // Beside messages that are missing, copies of others are none that was received in their place.
    let arrived = match copied {
        Some(of) => format!("{} deliveries of {} messages", count(received), count(of.delivered)),
        None => format!("{} received", count(received)),
    };
    let mut text = match (sent, received) {
        (0, _) => arrived,
        (_, 0) => format!("{} sent", count(sent)),
        _ if sent == received && copied.is_none() => format!("{} sent and received", count(sent)),
        _ => format!("{} sent, {arrived}", count(sent)),
    };
    if done > 0 && done < sent {
        text += &format!(", {} confirmed", count(done));
    }
    if let Some(resent) = flow.resent {
        text += &format!(", {} sent again", count(resent));
    }
    // The first line has the measured phase alone.
    if record.phases.iter().any(|it| it.phase == Phase::Warmup && it.end > it.start) {
        text += " (with warm-up)";
    }
    if let Some(ledger) = flow.ledger {
        // The fault's row has the losses.
        let has_lost = summary.faults.is_empty();
        let outcomes = outcomes(&ledger, has_lost, true);
        let is_lost = ledger.lost > 0 || ledger.unconfirmed_missing > 0;
        let is_missing = has_lost && is_lost || ledger.outstanding > 0;
        text = if is_missing { format!("{outcomes}; {text}") } else { format!("{text}; {outcomes}") };
    }
    Some(Row::text(RowRank::Core, "messages", &text).whole())
}

/// `0 lost, 12,319 outstanding, 0 duplicated`: missing messages, and the others.
fn outcomes(ledger: &LedgerSummary, has_lost: bool, has_others: bool) -> String {
    let about = if ledger.exact { "" } else { "about " };
    let lost = [(ledger.lost, "lost", true), (ledger.unconfirmed_missing, "unconfirmed and missing", false)];
    let lost = lost.into_iter().filter(|_| has_lost);
    let others = [
        (ledger.outstanding, "outstanding", false),
        (ledger.duplicated, "duplicated", true),
        (ledger.duplicated_redelivered, "redelivered", false),
        (ledger.duplicated_resent, "duplicated by resend", false),
        (ledger.reordered, "reordered", false),
        (ledger.corrupt, "corrupt", false),
        (ledger.returned, "returned", false),
        (ledger.unconfirmed_delivered, "unconfirmed but delivered", false),
        (ledger.foreign, "foreign", false),
    ];
    let others = others.into_iter().filter(|_| has_others);
    let shown = lost.chain(others).filter(|(number, _, always)| *always || *number > 0);
    let parts: Vec<String> = shown.map(|(number, what, _)| format!("{} {what}", count(number))).collect();
    format!("{about}{}", parts.join(", "))
}

/// `broker 0.38 of 2 cores (37.9 µs/msg), bellows 0.45`.
pub(super) fn cpu(record: &RunRecord, summary: &RunSummary) -> Option<Row<'static>> {
    let all = match record.hardware.cores {
        0 => " cores".to_owned(),
        all => format!(" of {}", counted(all.into(), "core")),
    };
    let target = if is_recording(summary) { "the process and its children" } else { summary.loaded().target() };
    let used = &summary.cpu_cores;
    let each = each(summary).map_or_else(String::new, |it| format!(" ({it})"));
    let nodes = summary.nodes.iter().map(|it| three_digits(it.cpu_cores)).collect::<Vec<_>>().join(", ");
    let broker = match nodes.is_empty() {
        true => used.broker.map(|it| format!("{target} {}{all}{each}", three_digits(it))),
        // Workers' machines have other cores.
        false if summary.nodes.iter().any(|it| it.name.is_some()) => Some(format!("nodes {nodes} cores{each}")),
        false => Some(format!("nodes {nodes}{all}{each}")),
    };
    let client = used.client.map(|it| match broker {
        Some(_) => format!("bellows {}", three_digits(it)),
        None => format!("bellows {}{all}", three_digits(it)),
    });
    let sides: Vec<String> = broker.into_iter().chain(client).collect();
    (!sides.is_empty()).then(|| Row::list(RowRank::Last, "CPU", sides))
}

/// CPU per message, or per operation of the only load.
fn each(summary: &RunSummary) -> Option<String> {
    if let Some(us) = summary.messages().cpu_us_each.broker {
        return Some(format!("{} µs/msg", three_digits(us)));
    }
    match others(summary).as_slice() {
        [(_, alone)] => {
            let cpu = Nanos::from_secs_f64(alone.cpu_us_each.broker? / 1e6);
            Some(format!("{cpu} per {}", alone.unit.trim_end_matches('s')))
        }
        _ => None,
    }
}
