//! The report's first sentence, made from the data: what happened, how slow it was, what it cost,
//! where it burned, and what the limit was as far as the data shows one.

use archive::profile::{FrameKind, Profile};
use archive::{BrokerSummary, LimitedBy, RunRecord, RunState, Topology, Verdict};
use measure::{LatencySummary, Metric, Nanos};
use serde::Serialize;

use super::figures::{Figures, ScenarioFigures};
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
pub(super) struct Facts<'a> {
    pub(super) record: &'a RunRecord,
    pub(super) figures: &'a Figures,
    /// Who limited the run; `None` for runs of a version that concluded nothing.
    pub(super) verdict: Option<&'a Verdict>,
    pub(super) broker: &'a BrokerSummary,
    /// Last second of the run.
    pub(super) end: f64,
    /// The function below which much of the broker's time lies, and its share (0 to 1).
    pub(super) burning: Option<(String, f64)>,
    /// Samples of the profile.
    pub(super) samples: u64,
}

/// Two lines of the page at 1280 pixels.
const MOST_LETTERS: usize = 180;
/// Below this share of the measured phase an outage is no headline.
const LEAST_OUTAGE: f64 = 0.01;
/// Below this share a function is no headline.
const LEAST_SHARE: f64 = 0.05;
/// Above this share a function is the frame of everything rather than a part of it.
const MOST_SHARE: f64 = 0.5;
/// Where fewer stacks reach their thread's start, a share below a function says nothing.
const LEAST_COMPLETE: f64 = 0.5;
/// Erlang modules that every process runs in: a share below them says nothing.
const FRAMEWORK: [&str; 10] = [
    "erts_beamasm",
    "proc_lib",
    "gen",
    "gen_server",
    "gen_server2",
    "gen_statem",
    "gen_event",
    "gen_batch_server",
    "lists",
    "erlang",
];

/// The sentence in pieces: what was sent, then as much of latency, CPU, the function and who limited the
/// run as two lines hold.
pub(super) fn sentence(facts: &Facts<'_>) -> Vec<Part> {
    let clauses = Clauses::of(facts);
    let all = (0..=3).rev().map(|details| clauses.parts(details));
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
    /// The function below which much of the CPU time lies, and the words before it.
    function: Option<(String, &'a str)>,
    limited_by: String,
}

impl<'a> Clauses<'a> {
    fn of(facts: &'a Facts<'_>) -> Self {
        let mut what = flow(facts);
        if what.is_empty() && facts.samples > 0 {
            what = format!("{} samples", count(facts.samples));
        }
        let whose = if facts.figures.cpu_cores.broker.is_some() {
            "of it"
        } else {
            "of the CPU time"
        };
        let function = facts.burning.as_ref().map(|(name, share)| {
            let before = format!(", {} % {whose} below ", three_digits(share * 100.0));
            (before, name.as_str())
        });
        Self {
            prefix: prefix(facts),
            what,
            latencies: latencies(facts.figures),
            cpu: cpu(facts),
            function,
            limited_by: facts.verdict.map_or_else(String::new, |verdict| {
                limits(verdict, facts.figures.measured_s)
            }),
        }
    }

    /// The sentence with the first `details` of latencies, CPU and function.
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
        if let Some((before, name)) = self.function.as_ref().filter(|_| details > 2) {
            parts.push(plain(text + before));
            parts.push(Part {
                text: (*name).to_owned(),
                code: true,
            });
            text = String::new();
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
    let stalls = verdict.facts.ended.stalls.iter();
    let away: f64 = stalls
        .filter(|stall| stall.away)
        .map(|stall| stall.for_s)
        .sum();
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
    match facts.record.state {
        RunState::Running => format!("cut off after {:.0} s: ", facts.end),
        RunState::Interrupted => format!("stopped after {:.0} s: ", facts.end),
        RunState::Failed => format!("failed after {:.0} s: ", facts.end),
        RunState::Complete => String::new(),
    }
}

/// `54,800 msg/s into a stream for 60 s`.
fn flow(facts: &Facts<'_>) -> String {
    let f = facts.figures;
    let mut flows = vec![messages(facts)];
    flows.extend(f.scenarios.values().map(|it| operations(it, f)));
    flows.retain(|flow| !flow.is_empty());
    flows.join(", beside ")
}

fn messages(facts: &Facts<'_>) -> String {
    let f = facts.figures;
    let place = place(&facts.record.topology, facts.broker);
    let length = format!("for {} s", seconds_digits(f.measured_s));
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
    match f.requested_rate {
        Some(asked) if f.sent.rate < asked * 0.995 => {
            format!("{rates} {length}, of {} requested", three_digits(asked))
        }
        Some(_) => format!("{rates} {length}, as requested"),
        None => format!("{rates} {length}"),
    }
}

/// `198 connections a second opened and closed for 30 s, of 200 requested; cycle p99 31 ms`.
fn operations(of: &ScenarioFigures, f: &Figures) -> String {
    let mut text = format!(
        "{} {} a second{} for {} s",
        three_digits(of.rate),
        of.kind,
        if of.unit == "cycles" {
            " opened and closed"
        } else {
            ""
        },
        seconds_digits(f.measured_s)
    );
    match of.requested_rate {
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

fn latencies(f: &Figures) -> String {
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
    let Some(cores) = facts.figures.cpu_cores.broker else {
        return String::new();
    };
    let f = facts.figures;
    // A profile without load may be of any process.
    let who = if f.sent.total + f.received.total > 0 || !f.scenarios.is_empty() {
        "the broker"
    } else {
        "the process"
    };
    match facts.record.hardware.cores {
        0 => format!("{who} used {} cores", three_digits(cores)),
        all => format!("{who} used {} of {all} cores", three_digits(cores)),
    }
}

/// The function of the broker's own code that has the largest share of the measured phase without
/// being the frame of everything.
pub(super) fn burning(profile: &Profile, measured: Option<(f64, f64)>) -> Option<(String, f64)> {
    if profile.summary(0).complete_share < LEAST_COMPLETE {
        return None;
    }
    let ns = |s: f64| Nanos::from_secs_f64(s).0;
    let timed = profile.samples.iter().any(|s| s.t > 0);
    let functions = match measured {
        Some((from, to)) if timed => profile.window(ns(from), ns(to)).functions(),
        _ => profile.functions(),
    };
    functions
        .into_iter()
        .filter(|f| {
            let own = matches!(
                f.kind,
                FrameKind::Erlang | FrameKind::Java | FrameKind::Native
            );
            own && (LEAST_SHARE..=MOST_SHARE).contains(&f.share.total)
                && !is_framework(&f.share.function)
        })
        .max_by(|a, b| a.share.total.total_cmp(&b.share.total))
        .map(|f| {
            let name = f.share.function;
            // The `$` marks Erlang code in graphs and tables; in a sentence it is noise.
            let shown = name.strip_prefix('$').map_or(name.clone(), str::to_owned);
            (shown, f.share.total)
        })
}

fn is_framework(name: &str) -> bool {
    name.strip_prefix('$')
        .and_then(|n| n.split(':').next())
        .is_some_and(|module| FRAMEWORK.contains(&module))
}

#[cfg(test)]
#[path = "headline_tests.rs"]
mod tests;
