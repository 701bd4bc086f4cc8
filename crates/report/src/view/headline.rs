//! The first sentence on a run: rate, latency, cost, functions, and the limit. The page and the console say the same.

use std::collections::BTreeSet;

use archive::{
    BrokerSummary, Cause, FaultOutcome, Lasted, LimitedBy, PhaseSpan, RequestedSummary, RunRecord, RunState,
    RunSummary, ScenarioSummary, Stall, Verdict,
};
use measure::{LatencySummary, Metric, Nanos, Phase, ScenarioRole};
use serde::Serialize;
use serde_json::Value;
use stacks::{ProfileSummary, USUAL_EVENT};

use crate::numbers::{count, counted, seconds_digits, slowest, three_digits, weight};
use crate::text::{scenario_name, shortened, words_of};

/// A piece of the sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Part {
    /// The words.
    pub text: String,
    /// A name from the code, to be set in its typeface.
    pub code: bool,
    /// The whole name, where the words are not all of it.
    pub whole: Option<String>,
}

/// Source of the sentence.
struct Facts<'a> {
    record: &'a RunRecord,
    summary: &'a RunSummary,
    phases: &'a [PhaseSpan],
    /// Letters of a name of a page or a scenario.
    letters: usize,
}

/// Two lines of the page at 1280 pixels.
const MOST_LETTERS: usize = 180;
/// Below this share a process is no headline.
const LEAST_WORK: f64 = 0.2;
/// Below this share of the measured phase an outage is no headline.
const LEAST_OUTAGE: f64 = 0.01;
/// Letters of a name, in the order of trial: 64 for a queue's behind its kind, less to make room for other details.
const NAME: &[usize] = &[70, 64, 58, 52, 46, 40];
/// Letters of a name where room is scarce.
const SHORT_NAME: &[usize] = &[16];
/// Letters of the kind of a broker or queue.
const KIND: usize = 24;

/// Optional parts of the sentence, the least important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// All latencies but the first.
    FurtherLatencies,
    Function,
    Cpu,
    Latency,
    Work,
    /// Parts that are always there.
    Core,
}

/// The least important detail kept, and the letters of a name, in the order in which they are tried.
const ATTEMPTS: [(Detail, &[usize]); 7] = [
    (Detail::FurtherLatencies, NAME),
    (Detail::Function, NAME),
    (Detail::Cpu, NAME),
    (Detail::Latency, NAME),
    (Detail::Latency, SHORT_NAME),
    (Detail::Work, SHORT_NAME),
    (Detail::Core, SHORT_NAME),
];

/// The sentence in pieces.
pub(crate) fn sentence(record: &RunRecord, phases: &[PhaseSpan], summary: &RunSummary) -> Vec<Part> {
    let [said, _] = sentences(record, phases, summary);
    said
}

/// The sentence in pieces: the sent rate, then as much of latency, CPU, work and function as two lines hold, and the
/// limit. And again with whole names, however long, as nobody can tell whose a part of a name is.
pub(crate) fn sentences(record: &RunRecord, phases: &[PhaseSpan], summary: &RunSummary) -> [Vec<Part>; 2] {
    let clauses = |letters| Clauses::of(&Facts { record, summary, phases, letters });
    let (short, whole) = (clauses(KIND), clauses(usize::MAX));
    let attempts = ATTEMPTS.iter();
    let attempts = attempts.flat_map(|(least, names)| names.iter().map(move |it| (*least, *it)));
    let mut said = [Vec::new(), Vec::new()];
    for (least, name) in attempts {
        said = [short.parts(least, name), whole.parts(least, usize::MAX)];
        if letters(&said[0]) <= MOST_LETTERS {
            break;
        }
    }
    said
}

fn letters(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.text.chars().count()).sum()
}

/// Clauses of the sentence; empty where there is nothing to say.
struct Clauses<'a> {
    prefix: String,
    what: String,
    latencies: Vec<String>,
    /// Owner of the CPU: `the broker`.
    who: String,
    /// CPU that it used.
    used: String,
    /// The process that did most of it, and its share.
    work: Option<(String, &'a str)>,
    /// The function that has a large total share, without the `$` of Erlang code, and that share.
    function: Option<(String, &'a str)>,
    limited_by: String,
}

impl<'a> Clauses<'a> {
    fn of(facts: &Facts<'a>) -> Self {
        let summary = facts.summary;
        let mut what = flow(facts);
        let sampled = summary.profiles.iter().find(|profile| profile.samples > 0);
        if what.is_empty()
            && let Some(it) = sampled
        {
            what = weight(it.weight.max(it.samples), &it.unit);
            if it.has_few_samples() {
                what += ", too few for shares";
            }
        }
        // Shares of anything else are none of the CPU that was used.
        let is_on_cpu = |it: &&ProfileSummary| matches!(it.event.as_str(), USUAL_EVENT | "");
        let on_cpu = summary.profiles.iter().find(is_on_cpu);
        let on_cpu = on_cpu.filter(|it| !it.has_few_samples());
        let named = on_cpu.and_then(|it| it.headline.as_ref());
        let work = on_cpu.and_then(|it| it.work.first());
        let work = work.filter(|it| it.share >= LEAST_WORK && !it.role.is_empty());
        let share = |share: f64| three_digits(share * 100.0);
        Self {
            prefix: early_end(facts.record.state, facts.phases, what.contains(&length(facts.phases))),
            what: outcome_of_faults(summary) + &what + &faults(summary) + &scraped(facts),
            latencies: latencies(summary),
            who: who(summary),
            used: used(facts),
            work: work.map(|it| (share(it.share), it.of.as_str())),
            function: named.map(|it| {
                let name = it.function.as_str();
                (share(it.total), name.strip_prefix('$').unwrap_or(name))
            }),
            limited_by: limits(facts),
        }
    }

    /// The sentence with details as important as `least`, and names of at most `letters`.
    fn parts(&self, least: Detail, letters: usize) -> Vec<Part> {
        let told = |detail: Detail| detail >= least;
        let mut said = Sentence::default();
        said.clause(&self.what);
        let mut latencies = self.latencies.iter();
        if let Some(first) = latencies.next().filter(|_| told(Detail::Latency)) {
            said.clause(first);
            for further in latencies.filter(|_| told(Detail::FurtherLatencies)) {
                said.and(further);
            }
        }
        let mut of_cpu = told(Detail::Cpu) && !self.used.is_empty();
        if of_cpu {
            said.clause(&format!("{} used {}", self.who, self.used));
        }
        if let Some((share, name)) = self.work.as_ref().filter(|_| told(Detail::Work)) {
            if of_cpu {
                said.and(&format!("{share} % for "));
            } else {
                said.clause(&format!("{}'s CPU: {share} % for ", self.who));
            }
            said.name(name, letters);
            of_cpu = true;
        }
        if let Some((share, name)) = self.function.as_ref().filter(|_| told(Detail::Function)) {
            let text = format!("{share} % total share in ");
            if of_cpu {
                said.and(&text);
            } else {
                said.clause(&text);
            }
            said.name(name, letters);
        }
        if said.is_empty() {
            said.clause("nothing was measured");
        }
        said.clause(&self.limited_by);
        said.after(&self.prefix)
    }
}

/// The sentence as far as it has been said.
#[derive(Default)]
struct Sentence {
    parts: Vec<Part>,
    /// Text behind the last part.
    text: String,
}

impl Sentence {
    const fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.text.is_empty()
    }

    /// A thought of its own, where there is one.
    fn clause(&mut self, text: &str) {
        self.add("; ", text);
    }

    /// More of the same thought.
    fn and(&mut self, text: &str) {
        self.add(", ", text);
    }

    fn add(&mut self, between: &str, text: &str) {
        if !self.is_empty() && !text.is_empty() {
            self.text.push_str(between);
        }
        self.text.push_str(text);
    }

    /// A name, of at most `letters`.
    fn name(&mut self, name: &str, letters: usize) {
        self.parts.push(plain(std::mem::take(&mut self.text)));
        let text = shortened(name, letters);
        self.parts.push(Part { whole: (text != name).then(|| name.to_owned()), text: text.into_owned(), code: true });
    }

    /// The whole sentence behind a prefix.
    fn after(mut self, prefix: &str) -> Vec<Part> {
        self.parts.push(plain(self.text + "."));
        if let Some(first) = self.parts.first_mut() {
            first.text = capital(&(prefix.to_owned() + &first.text));
        }
        self.parts
    }
}

/// Faults that took place.
pub(super) fn faults_of(summary: &RunSummary) -> impl Iterator<Item = &FaultOutcome> {
    let all = summary.faults.iter();
    all.filter(|it| it.failed.is_none() || it.back_s.is_some())
}

pub(crate) fn target_of(fault: &FaultOutcome) -> String {
    fault.node.map_or_else(|| "the broker".to_owned(), |node| format!("node {node}"))
}

/// `0 lost, longest wait 400 ms, node 1 back after 7.6 s; `: answer of a run with faults to its question.
fn outcome_of_faults(summary: &RunSummary) -> String {
    let faults: Vec<_> = faults_of(summary).collect();
    if faults.is_empty() {
        return String::new();
    }
    let ledger = summary.flow().ledger.as_ref();
    let lost = ledger.map(|it| format!("{} lost", count(it.lost)));
    let felt = [Metric::ACK_RESPONSE, Metric::END_TO_END];
    let longest = felt.map(|it| summary.messages().latency.get(it).max_ns);
    let longest = longest.into_iter().max().filter(|ns| *ns > 0);
    let wait = longest.map(|ns| format!("longest wait {}", Nanos(ns)));
    let alone = faults.first().filter(|_| faults.len() == 1).and_then(|it| Some((it, it.back_s?)));
    let back = alone.map(|(it, after)| format!("{} back after {} s", target_of(it), seconds_digits(after)));
    let told: Vec<String> = [lost, wait, back].into_iter().flatten().collect();
    if told.is_empty() { String::new() } else { told.join(", ") + "; " }
}

/// ` while node 1 was killed at 15 s`; of several faults how many there were.
fn faults(summary: &RunSummary) -> String {
    let mut all = faults_of(summary);
    let Some(first) = all.next() else { return String::new() };
    let more = all.count();
    if more > 0 {
        return format!(" with {} faults", more + 1);
    }
    let (who, at) = (target_of(first), seconds_digits(first.t));
    match first.kind.as_str() {
        "kill" if first.for_good => format!(" while {who} was killed for good at {at} s"),
        "kill" => format!(" while {who} was killed at {at} s"),
        "stop" => format!(" while {who} was stopped at {at} s"),
        "partition" => format!(" while {who} was cut off at {at} s"),
        kind => format!(" with the fault {} at {at} s", shortened(kind, KIND)),
    }
}

/// The outage, where there was one of any weight, and who limited the run.
fn limits(facts: &Facts<'_>) -> String {
    let Some(verdict) = &facts.summary.verdict else { return String::new() };
    let away = away_s(&facts.summary.stalls, facts.phases);
    let outage = format!("no connection for {} s", seconds_digits(away));
    match limited_by(verdict, facts.summary.loaded().target()) {
        limited if away <= LEAST_OUTAGE * measured_s(facts.phases) => limited,
        limited if limited.is_empty() => outage,
        limited => format!("{outage}; {limited}"),
    }
}

/// How much of the measured phase was without a connection: where several outages overlap, they count once.
fn away_s(stalls: &[Stall], phases: &[PhaseSpan]) -> f64 {
    let measured = phases.iter().find(|span| span.phase == Phase::Measure);
    let Some(PhaseSpan { start, end, .. }) = measured else { return 0.0 };
    let away = stalls.iter().filter(|stall| stall.away);
    let mut parts: Vec<(f64, f64)> = away.map(|it| (it.at_s, it.at_s + it.for_s)).collect();
    parts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut covered) = (0.0, *start);
    for (from, until) in parts {
        let until = until.min(*end);
        sum += (until - from.max(covered)).max(0.0);
        covered = covered.max(until);
    }
    sum
}

/// The verdict in three words; its sentence stands in a section of its own.
fn limited_by(verdict: &Verdict, target: &str) -> String {
    let text = match verdict.limited_by {
        // Their number says that some failed, or all.
        LimitedBy::Undecided if matches!(verdict.cause, Some(Cause::AllFailed | Cause::SomeFailed)) => "",
        LimitedBy::Broker => return format!("limited by the {target}"),
        LimitedBy::Generator => "limited by the generator",
        LimitedBy::Network => "limited by the network",
        // Where the rate was met, the flow says so.
        LimitedBy::Schedule => "",
        LimitedBy::Undecided => "what limited it is undecided",
    };
    text.to_owned()
}

fn plain(text: String) -> Part {
    Part { text, ..Part::default() }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `stopped after 12 s: `, without a time that the measured length says; empty of a run that ended as planned.
pub(crate) fn early_end(state: RunState, phases: &[PhaseSpan], is_length_told: bool) -> String {
    let how = match state {
        RunState::Running => "cut off",
        RunState::Interrupted => "stopped",
        RunState::Failed => "failed",
        RunState::Complete => return String::new(),
    };
    let is_told = |end: f64| is_length_told && (end - measured_s(phases)).abs() < 0.5;
    match phases.last().filter(|last| !is_told(last.end)) {
        None => format!("{how}: "),
        Some(last) => format!("{how} after {:.0} s: ", last.end),
    }
}

pub(crate) fn measured_s(phases: &[PhaseSpan]) -> f64 {
    let measured = phases.iter().find(|span| span.phase == Phase::Measure);
    measured.map_or(0.0, |span| span.end - span.start)
}

/// ` for 60 s`, the length of the measured phase.
fn length(phases: &[PhaseSpan]) -> String {
    format!(" for {} s", seconds_digits(measured_s(phases)))
}

/// Loads other than messages and programs.
fn operations_of(summary: &RunSummary) -> Vec<(&str, &ScenarioSummary)> {
    let loads = summary.loads();
    loads.filter(|(_, of)| of.flow.is_none()).collect()
}

/// Name of the scenario that the run is about, if not messages: a probe beside a load asks how long answers take.
pub(super) fn lead(summary: &RunSummary) -> Option<&str> {
    let others = operations_of(summary);
    let has_messages = summary.loads().any(|(_, of)| of.flow.is_some());
    let is_beside = has_messages || !summary.programs.is_empty();
    let asks = |(_, of): &(&str, &ScenarioSummary)| !is_beside || of.role == ScenarioRole::Server;
    let asking: Vec<_> = others.into_iter().filter(asks).collect();
    worst(&asking).map(|(name, _)| name)
}

/// `54,800 msg/s into a stream for 60 s`. Of several loads the one that the run asks about comes first, and the slowest
/// or the failing one of the others is named: all of them stand in a table below.
fn flow(facts: &Facts<'_>) -> String {
    let mut flows = vec![messages(facts)];
    flows.extend(programs(facts));
    flows.retain(|flow| !flow.is_empty());
    let scenarios = operations_of(facts.summary);
    if let ([], [(_, alone)]) = (flows.as_slice(), scenarios.as_slice()) {
        return operations(alone, facts.phases);
    }
    let is_beside = !flows.is_empty();
    if !is_beside && !scenarios.is_empty() {
        let (number, length) = (scenarios.len() as u64, length(facts.phases));
        let is_probe = |(_, it): &(&str, &ScenarioSummary)| it.role == ScenarioRole::Server;
        flows.push(if scenarios.iter().all(is_probe) {
            format!("{}{length}", counted(number, "probe"))
        } else {
            let mut units: Vec<&str> = scenarios.iter().map(|(_, it)| it.unit.as_str()).collect();
            units.dedup();
            format!("{} of {}{length}", counted(number, "load"), units.join(" and "))
        });
    }
    let leading = lead(facts.summary);
    let first = scenarios.iter().find(|(name, _)| leading == Some(*name));
    if is_beside && let Some((name, of)) = first {
        flows.insert(0, of_scenario(name, of, facts.letters));
    } else if let (Some((name, of)), Some(last)) = (worst(&scenarios), flows.last_mut()) {
        *last = format!("{last}; {}", of_scenario(name, of, facts.letters));
    }
    flows.join(", beside ")
}

/// The scenario with the most failures, else the slowest.
fn worst<'a>(all: &[(&'a str, &'a ScenarioSummary)]) -> Option<(&'a str, &'a ScenarioSummary)> {
    let p99 = |of: &ScenarioSummary| of.headline().map_or(0, |(_, latency)| latency.p99_ns);
    let rank = |(_, of): &(&str, &ScenarioSummary)| (of.count("failed"), p99(of));
    all.iter().copied().max_by_key(rank)
}

/// `probe queues: response p99 31.0 ms`.
fn of_scenario(name: &str, of: &ScenarioSummary, letters: usize) -> String {
    let mut text = shortened(&scenario_name(name), letters).into_owned();
    let (failed, begun) = (of.count("failed"), counted(of.count("begun"), of.unit.trim_end_matches('s')));
    if failed > 0 {
        text += &format!(": {} of {begun} failed", count(failed));
    }
    if let Some((metric, latency)) = of.headline() {
        let metric = without_owner(metric.name(), name);
        let between = if failed > 0 { "," } else { ":" };
        text += &format!("{between} {metric} {}", slowest(latency));
    }
    text
}

/// `response` of `queue-page response`, where `probe queue-page` stands before it.
fn without_owner<'a>(metric: &'a str, scenario: &str) -> &'a str {
    let own = scenario.strip_prefix("probe_").unwrap_or(scenario);
    match metric.split_once(' ') {
        Some((owner, rest)) if owner.replace('-', "_") == own => rest,
        _ => metric,
    }
}

/// `; scrape per-object: p50 93.7 ms`: duration of the slowest of the scraped pages.
fn scraped(facts: &Facts<'_>) -> String {
    let pages = facts.summary.scrapes.iter();
    let slowest = pages.max_by_key(|it| it.response.p50_ns);
    slowest.filter(|it| it.response.count > 0).map_or_else(String::new, |page| {
        let name = shortened(&page.name, facts.letters);
        format!("; scrape {name}: p50 {}", Nanos(page.response.p50_ns))
    })
}

/// `a program loaded ActiveMQ Artemis for 30 s`.
fn programs(facts: &Facts<'_>) -> Option<String> {
    let who = match facts.summary.programs.len() {
        0 => return None,
        1 => "a program".to_owned(),
        several => counted(several as u64, "program"),
    };
    let place = place(facts.record, &facts.summary.broker);
    Some(format!("{who} loaded {place}{}", length(facts.phases)))
}

fn messages(facts: &Facts<'_>) -> String {
    let f = facts.summary.flow();
    let place = place(facts.record, &facts.summary.broker);
    let lasted = |of: fn(&Lasted) -> f64| match &f.lasted {
        Some(it) => format!(" for {} s", seconds_digits(of(it))),
        None => length(facts.phases),
    };
    let (sending, receiving) = (lasted(|it| it.sent_s), lasted(|it| it.received_s));
    let requested = of_requested(facts.summary.messages().requested.as_ref(), f.sent.rate);
    let behind = requested.as_ref().map_or_else(String::new, |it| format!(", {it}"));
    let lost = tolerated(facts.summary);
    let sent = three_digits(f.sent.rate);
    let received = three_digits(f.received.rate);
    match (f.sent.rate > 0.0, f.received.rate > 0.0) {
        (true, false) => format!("{sent} msg/s into {place}{sending}{behind}{lost}"),
        (false, true) => format!("{received} msg/s out of {place}{receiving}{behind}{lost}"),
        (true, true) if (f.sent.rate / f.received.rate - 1.0).abs() < 0.01 => {
            format!("{sent} msg/s through {place}{receiving}{behind}{lost}")
        }
        // The requested rate is that of sending.
        (true, true) => {
            let requested = requested.map_or_else(String::new, |it| format!(" ({it})"));
            let is_one = sending == receiving;
            let (into, out, both) = if is_one { ("", "", &*receiving) } else { (&*sending, &*receiving, "") };
            format!("{sent} msg/s{into} into{requested} and {received} msg/s{out} out of {place}{both}{lost}")
        }
        (false, false) => String::new(),
    }
}

/// `; worker m3 was lost after 2.30 s: tolerated`.
pub(crate) fn tolerated(summary: &RunSummary) -> String {
    let lost: Vec<_> = summary.workers.iter().filter(|it| it.absence.tolerated).collect();
    match lost.as_slice() {
        [] => String::new(),
        [one] => {
            let after = seconds_digits(one.lost_s.unwrap_or_default());
            format!("; worker {} was lost after {after} s: tolerated", one.name)
        }
        several => format!("; {} were lost: tolerated", counted(several.len() as u64, "worker")),
    }
}

/// `of 200 requested`, `behind 200 requested`, `99.9 % of 10,000 requested`, `as requested`; `None` where nothing was.
pub(crate) fn of_requested(requested: Option<&RequestedSummary>, rate: f64) -> Option<String> {
    let asked = requested?;
    let number = three_digits(asked.rate);
    Some(if rate < asked.rate * 0.995 {
        format!("of {number} requested")
    } else if asked.achieved.is_some_and(|achieved| achieved < 0.995) {
        // A backlog was sent, and what was due in its place was not.
        format!("behind {number} requested")
    } else if asked.has_backlog() {
        format!("{number} requested and the warm-up's backlog")
    } else if rate < asked.rate && three_digits(rate) != number {
        // Two unlike numbers beside `as requested` contradict it.
        format!("{:.1} % of {number} requested", (rate / asked.rate * 1e3).floor() / 10.0)
    } else {
        "as requested".to_owned()
    })
}

/// As [`of_requested`] of operations: all may have begun when they were due, and be answered later.
pub(crate) fn of_requested_operations(of: &ScenarioSummary) -> Option<String> {
    let asked = of.requested.as_ref()?;
    let begun = of.count("begun") as f64;
    // As the verdict has it: one that an edge of the phase cuts off is not missing.
    let missing = |achieved: f64| begun / achieved - begun;
    let began = asked.achieved.is_some_and(|it| it >= 0.995 || begun > 0.0 && missing(it) < 1.5);
    match of.rate < asked.rate * 0.995 && began {
        true => Some(format!("{} requested and begun", three_digits(asked.rate))),
        false => of_requested(Some(asked), of.rate),
    }
}

/// `198 connections per second opened and closed for 30 s, of 200 requested; cycle p99 31 ms`.
pub(crate) fn operations(of: &ScenarioSummary, phases: &[PhaseSpan]) -> String {
    let what = match of.role {
        ScenarioRole::Server => format!("requests per second answered by {}", of.kind),
        _ => format!("{} per second{}", of.kind, words_of(&of.unit).ended),
    };
    let mut text = format!("{} {what}{}", three_digits(of.rate), length(phases));
    if let Some(asked) = of_requested_operations(of) {
        text.push_str(&format!(", {asked}"));
    }
    if let Some(number) = in_drain(of, phases) {
        text.push_str(&format!(", {} more in the drain", count(number)));
    }
    if of.count("failed") > 0 {
        text.push_str(&format!(", {} failed", count(of.count("failed"))));
    }
    if let Some((metric, latency)) = of.headline() {
        text.push_str(&format!("; {} {}", metric.name(), slowest(latency)));
    }
    text
}

/// Operations that came to their end in the drain, where that is a notable number: their counts have them, the rate has
/// not.
pub(crate) fn in_drain(of: &ScenarioSummary, phases: &[PhaseSpan]) -> Option<u64> {
    let completed = of.count("completed") as f64;
    let seconds = measured_s(phases);
    let number = completed - of.rate * seconds;
    (seconds > 0.0 && number >= 1.5 && number > completed * 0.005).then(|| number.round() as u64)
}

/// Queues that a record holds at most.
const MOST_KEPT: usize = 1_000;

/// `a stream`, `10 quorum queues`, or the broker where its queues are not known. Where the load names its queues, these
/// are meant: an attached broker has others, and so has one that a topology was put into.
pub(crate) fn place(record: &RunRecord, broker: &BrokerSummary) -> String {
    let topology = &record.topology;
    if let Some(own) = named_queues(&record.experiment) {
        let found = topology.queues.iter();
        let found = found.filter(|queue| own.contains(&queue.name));
        let mut kinds: BTreeSet<&str> = found.map(|queue| queue.kind.as_str()).collect();
        // Only RabbitMQ has types of queues.
        if kinds.is_empty() && !broker.kind.ends_with("artemis") {
            kinds = requested_kinds(&record.experiment);
        }
        return queues(own.len(), kinds.first().filter(|_| kinds.len() == 1).unwrap_or(&""));
    }
    let Some(first) = topology.queues.first() else {
        return match broker.kind.as_str() {
            "" => "the broker".into(),
            "embedded" => "the embedded broker".into(),
            "rabbitmq" => "RabbitMQ".into(),
            kind if kind.ends_with("artemis") => "ActiveMQ Artemis".into(),
            other => shortened(other, KIND).into_owned(),
        };
    };
    let count = topology.queues.len();
    let same = topology.queues.iter().all(|q| q.kind == first.kind);
    let text = queues(count, if same { &first.kind } else { "" });
    // A record holds so many, and counts what it leaves out of every kind together.
    if topology.omitted > 0 && count >= MOST_KEPT { format!("over {text}") } else { text }
}

/// `a quorum queue`, `10 streams`; of several kinds, or of one that is not known, just queues.
fn queues(count: usize, kind: &str) -> String {
    let noun = match kind {
        "" => "queue".to_owned(),
        "stream" => "stream".to_owned(),
        kind => format!("{} queue", shortened(kind, KIND)),
    };
    if count == 1 { format!("a {noun}") } else { counted(count as u64, &noun) }
}

/// The latencies that users feel, the more telling first.
fn latencies(f: &RunSummary) -> Vec<String> {
    let told = |name: &str, l: &LatencySummary| (l.count > 0).then(|| format!("{name} {}", slowest(l)));
    let of = &f.messages().latency;
    let both = [told("ack response", of.get(Metric::ACK_RESPONSE)), told("end-to-end", of.get(Metric::END_TO_END))];
    both.into_iter().flatten().collect()
}

/// Owner of the measured CPU; a profile without load may be of any process.
fn who(f: &RunSummary) -> String {
    if f.scenarios().next().is_some() || !f.programs.is_empty() {
        format!("the {}", f.loaded().target())
    } else {
        "the process".to_owned()
    }
}

/// The CPU that was used: `1.20 of 2 cores`; empty where it is not known.
fn used(facts: &Facts<'_>) -> String {
    let Some(cores) = facts.summary.cpu_cores.broker else { return String::new() };
    match facts.record.hardware.cores {
        0 => format!("{} cores", three_digits(cores)),
        all => format!("{} of {}", three_digits(cores), counted(all.into(), "core")),
    }
}

/// Destinations of a run that are distinguished; nobody has more in one.
const MOST_DESTINATIONS: u64 = 1_000_000;
/// Prefix of a queue's name.
const QUEUE: &str = "queue://";

/// Queues of all loads; `None` without any, or with topics, whose queues the broker or the client names.
fn named_queues(experiment: &Value) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for load in experiment.get("load")?.as_array()? {
        if is_program(load) {
            continue;
        }
        let numbered = load.get("num-destinations").and_then(Value::as_u64);
        let numbered = numbered.unwrap_or(1).min(MOST_DESTINATIONS);
        for text in destinations(load)? {
            let name = match text.split_once("://") {
                None => text,
                Some(_) => text.strip_prefix(QUEUE)?,
            };
            match numbered {
                1 => drop(all.insert(name.to_owned())),
                several => all.extend((0..several).map(|number| format!("{name}{number}"))),
            }
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Types that the loads request for their queues; empty of one that leaves it to the broker.
fn requested_kinds(experiment: &Value) -> BTreeSet<&str> {
    let loads = experiment.get("load").and_then(Value::as_array);
    let queues = loads.into_iter().flatten().filter(|it| !is_program(it));
    let kinds = queues.map(|load| load.get("queue-type").and_then(Value::as_str));
    kinds.map(Option::unwrap_or_default).collect()
}

fn is_program(load: &Value) -> bool {
    load.get("kind").and_then(Value::as_str) == Some("command")
}

/// Destinations of a load; one where no list names several.
fn destinations(load: &Value) -> Option<Vec<&str>> {
    let several = load.get("destinations").and_then(Value::as_array);
    match several.filter(|several| !several.is_empty()) {
        Some(several) => several.iter().map(Value::as_str).collect(),
        None => load.get("destination")?.as_str().map(|one| vec![one]),
    }
}

#[cfg(test)]
#[path = "headline_tests.rs"]
mod tests;
