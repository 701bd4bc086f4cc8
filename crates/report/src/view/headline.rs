//! The first sentence on a run, made from the data: what happened, how slow it was, what it cost, where
//! it burned, and what the limit was as far as the data shows one. The page and the console say the same.

use archive::{
    BrokerSummary, LimitedBy, PhaseSpan, RunRecord, RunState, RunSummary, ScenarioSummary,
    Topology, Verdict,
};
use measure::{LatencySummary, Metric, Nanos, Phase};
use serde::Serialize;

use crate::numbers::{count, seconds_digits, three_digits};

/// A piece of the sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Part {
    /// The words.
    pub text: String,
    /// A name from the code, to be set in its typeface.
    pub code: bool,
}

/// What the sentence is made from.
struct Facts<'a> {
    record: &'a RunRecord,
    summary: &'a RunSummary,
    phases: &'a [PhaseSpan],
}

/// Two lines of the page at 1280 pixels.
const MOST_LETTERS: usize = 180;
/// Below this share a process is no headline.
const LEAST_WORK: f64 = 0.2;
/// Below this share of the measured phase an outage is no headline.
const LEAST_OUTAGE: f64 = 0.01;

/// The sentence in pieces: what was sent, then as much of latency, CPU, whose work it is, the function and who limited the
/// run as two lines hold.
pub(crate) fn sentence(
    record: &RunRecord,
    phases: &[PhaseSpan],
    summary: &RunSummary,
) -> Vec<Part> {
    let clauses = Clauses::of(&Facts {
        record,
        summary,
        phases,
    });
    let all = (0..=4).rev().map(|details| clauses.parts(details));
    let mut tried = all.skip_while(|parts| letters(parts) > MOST_LETTERS);
    tried.next().unwrap_or_else(|| clauses.parts(0))
}

fn letters(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.text.chars().count()).sum()
}

/// What the sentence consists of; empty where there is nothing to say.
struct Clauses<'a> {
    prefix: String,
    what: String,
    latencies: String,
    cpu: String,
    /// Names from the code and of the broker, each with the words before it: whose work most of it is, and the
    /// function that has a large total share, without the `$` of Erlang code.
    names: Vec<(String, &'a str)>,
    limited_by: String,
}

impl<'a> Clauses<'a> {
    fn of(facts: &Facts<'a>) -> Self {
        let summary = facts.summary;
        let mut what = flow(facts);
        let samples = summary.profiles.iter().map(|profile| profile.samples).sum();
        if what.is_empty() && samples > 0 {
            what = format!("{} samples", count(samples));
        }
        let named = summary.profiles.iter().find_map(|it| it.headline.as_ref());
        let work = summary.profiles.iter().find_map(|it| it.work.first());
        let work = work.filter(|it| it.share >= LEAST_WORK && !it.role.is_empty());
        let work = work.map(|it| {
            let before = format!(", {} % for ", three_digits(it.share * 100.0));
            (before, it.of.as_str())
        });
        let function = named.map(|function| {
            let name = function.function.as_str();
            let before = format!(
                ", {} % total share in ",
                three_digits(function.total * 100.0)
            );
            (before, name.strip_prefix('$').unwrap_or(name))
        });
        Self {
            prefix: prefix(facts),
            what,
            latencies: latencies(summary),
            cpu: cpu(facts),
            names: work.into_iter().chain(function).collect(),
            limited_by: summary
                .verdict
                .as_ref()
                .map_or_else(String::new, |verdict| {
                    limits(verdict, measured_s(facts.phases))
                }),
        }
    }

    /// The sentence with the first `details` of latencies, CPU and names.
    fn parts(&self, details: usize) -> Vec<Part> {
        let optional = [&self.latencies, &self.cpu];
        let said = std::iter::once(&self.what).chain(optional.into_iter().take(details));
        let mut said: Vec<&str> = said
            .map(String::as_str)
            .filter(|it| !it.is_empty())
            .collect();
        if said.is_empty() {
            said.push("nothing was measured");
        }
        let mut text = capital(&(self.prefix.clone() + &said.join("; ")));
        let mut parts = Vec::new();
        for (before, name) in self.names.iter().take(details.saturating_sub(2)) {
            parts.push(plain(std::mem::take(&mut text) + before));
            parts.push(Part {
                text: (*name).to_owned(),
                code: true,
            });
        }
        if !self.limited_by.is_empty() {
            text.push_str("; ");
            text.push_str(&self.limited_by);
        }
        parts.push(plain(text + "."));
        parts
    }
}

/// The outage, where there was one of any weight, and who limited the run.
fn limits(verdict: &Verdict, measured_s: f64) -> String {
    let facts = &verdict.facts;
    let away = facts.stalled_s(facts.stalls().filter(|stall| stall.away));
    let outage = format!("no connection for {} s", seconds_digits(away));
    match limited_by(verdict) {
        limited if away < LEAST_OUTAGE * measured_s => limited.to_owned(),
        "" => outage,
        limited => format!("{outage}; {limited}"),
    }
}

/// The verdict in three words; its sentence stands in a section of its own.
const fn limited_by(verdict: &Verdict) -> &'static str {
    match verdict.limited_by {
        LimitedBy::Broker => "limited by the broker",
        LimitedBy::Generator => "limited by the generator",
        LimitedBy::Network => "limited by the network",
        // Where the rate was met, the flow says so.
        LimitedBy::Schedule => "",
        LimitedBy::Undecided => "what limited it is undecided",
    }
}

const fn plain(text: String) -> Part {
    Part { text, code: false }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn prefix(facts: &Facts<'_>) -> String {
    let how = match facts.record.state {
        RunState::Running => "cut off",
        RunState::Interrupted => "stopped",
        RunState::Failed => "failed",
        RunState::Complete => return String::new(),
    };
    match facts.phases.last() {
        None => format!("{how}: "),
        Some(last) => format!("{how} after {:.0} s: ", last.end),
    }
}

fn measured_s(phases: &[PhaseSpan]) -> f64 {
    let measured = phases.iter().find(|span| span.phase == Phase::Measure);
    measured.map_or(0.0, |span| span.end - span.start)
}

/// ` for 60 s`, the length of the measured phase.
fn length(phases: &[PhaseSpan]) -> String {
    format!(" for {} s", seconds_digits(measured_s(phases)))
}

/// `54,800 msg/s into a stream for 60 s`.
fn flow(facts: &Facts<'_>) -> String {
    let mut flows = vec![messages(facts)];
    let scenarios = facts.summary.scenarios();
    flows.extend(scenarios.map(|(_, it)| operations(it, facts.phases)));
    flows.retain(|flow| !flow.is_empty());
    flows.join(", beside ")
}

fn messages(facts: &Facts<'_>) -> String {
    let f = facts.summary;
    let place = place(&facts.record.topology, &f.broker);
    let length = length(facts.phases);
    let rates = match (f.sent.rate > 0.0, f.received.rate > 0.0) {
        (true, false) => format!("{} msg/s into {place}", three_digits(f.sent.rate)),
        (false, true) => format!("{} msg/s out of {place}", three_digits(f.received.rate)),
        (true, true) if (f.sent.rate / f.received.rate - 1.0).abs() < 0.01 => {
            format!("{} msg/s through {place}", three_digits(f.sent.rate))
        }
        (true, true) => format!(
            "{} msg/s into and {} msg/s out of {place}",
            three_digits(f.sent.rate),
            three_digits(f.received.rate)
        ),
        (false, false) => return String::new(),
    };
    match f.requested.as_ref().map(|requested| requested.rate) {
        Some(asked) if f.sent.rate < asked * 0.995 => {
            format!("{rates}{length}, of {} requested", three_digits(asked))
        }
        Some(_) => format!("{rates}{length}, as requested"),
        None => format!("{rates}{length}"),
    }
}

/// `198 connections a second opened and closed for 30 s, of 200 requested; cycle p99 31 ms`.
pub(crate) fn operations(of: &ScenarioSummary, phases: &[PhaseSpan]) -> String {
    let mut text = format!(
        "{} {} a second{}{}",
        three_digits(of.rate),
        of.kind,
        if of.unit == "cycles" {
            " opened and closed"
        } else {
            ""
        },
        length(phases)
    );
    match of.requested.as_ref().map(|requested| requested.rate) {
        Some(asked) if of.rate < asked * 0.995 => {
            text.push_str(&format!(", of {} requested", three_digits(asked)));
        }
        Some(_) => text.push_str(", as requested"),
        None => {}
    }
    if of.count("failed") > 0 {
        text.push_str(&format!(", {} failed", count(of.count("failed"))));
    }
    if let Some((metric, latency)) = of.headline() {
        let p99 = Nanos(latency.p99_ns);
        text.push_str(&format!("; {} p99 {p99}", metric.name()));
    }
    text
}

/// `a stream`, `10 quorum queues`, or the broker where its queues are not known.
fn place(topology: &Topology, broker: &BrokerSummary) -> String {
    let Some(first) = topology.queues.first() else {
        return match broker.kind.as_str() {
            "" => "the broker".into(),
            "embedded" => "the embedded broker".into(),
            "rabbitmq" => "RabbitMQ".into(),
            other => other.into(),
        };
    };
    let count = topology.queues.len();
    let same = topology.queues.iter().all(|q| q.kind == first.kind);
    let noun = match first.kind.as_str() {
        "stream" if same => "stream".to_owned(),
        kind if same && !kind.is_empty() => format!("{kind} queue"),
        _ => "queue".to_owned(),
    };
    match count {
        1 => format!("a {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

fn latencies(f: &RunSummary) -> String {
    let p99 = |name: &str, l: &LatencySummary| {
        (l.count > 0).then(|| format!("{name} p99 {}", Nanos(l.p99_ns)))
    };
    let both = [
        p99("ack response", f.latency.get(Metric::ACK_RESPONSE)),
        p99("end-to-end", f.latency.get(Metric::END_TO_END)),
    ];
    both.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn cpu(facts: &Facts<'_>) -> String {
    let f = facts.summary;
    let Some(cores) = f.cpu_cores.broker else {
        return String::new();
    };
    // A profile without load may be of any process.
    let who = if f.has_messages() || f.scenarios().next().is_some() {
        "the broker"
    } else {
        "the process"
    };
    match facts.record.hardware.cores {
        0 => format!("{who} used {} cores", three_digits(cores)),
        all => format!("{who} used {} of {all} cores", three_digits(cores)),
    }
}

#[cfg(test)]
#[path = "headline_tests.rs"]
mod tests;
