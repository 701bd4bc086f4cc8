//! The report's first sentence, made from the data: what happened, how slow it was, what it cost,
//! where it burned, and what the limit was as far as the data shows one.

use archive::profile::{FrameKind, Profile};
use archive::{BrokerSummary, RunRecord, RunState, Topology, Verdict};
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

/// Below this share a function is no headline.
const LEAST_SHARE: f64 = 0.05;
/// Above this share a function is the frame of everything rather than a part of it.
const MOST_SHARE: f64 = 0.5;
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

/// The sentence in pieces.
pub(super) fn sentence(facts: &Facts<'_>) -> Vec<Part> {
    let mut text = prefix(facts);
    let mut clauses: Vec<String> = Vec::new();
    let flow = flow(facts);
    if flow.is_empty() && facts.samples > 0 {
        clauses.push(format!("{} samples", count(facts.samples)));
    } else {
        clauses.push(flow);
    }
    clauses.push(latencies(facts.figures));
    clauses.push(cpu(facts));
    clauses.retain(|c| !c.is_empty());
    if clauses.is_empty() {
        clauses.push("nothing was measured".into());
    }
    text.push_str(&clauses.join("; "));
    let mut parts = Vec::new();
    if let Some((name, share)) = &facts.burning {
        let whose = if facts.figures.cpu_cores.broker.is_some() {
            "of it"
        } else {
            "of the CPU time"
        };
        text.push_str(&format!(
            ", {} % {whose} below ",
            three_digits(share * 100.0)
        ));
        parts.push(plain(std::mem::take(&mut text)));
        parts.push(Part {
            text: name.clone(),
            code: true,
        });
    }
    if let Some(verdict) = facts.verdict {
        text.push_str(&format!("; {}", verdict.sentence));
    }
    text.push('.');
    parts.push(plain(capital(text, parts.is_empty())));
    if let Some(first) = parts.first_mut() {
        first.text = capital(std::mem::take(&mut first.text), true);
    }
    parts
}

const fn plain(text: String) -> Part {
    Part { text, code: false }
}

fn capital(text: String, wanted: bool) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if wanted => first.to_uppercase().chain(letters).collect(),
        _ => text,
    }
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
