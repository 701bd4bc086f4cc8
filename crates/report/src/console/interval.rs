//! One interval of a run: a pipe's line, and the figures that the live table shares.

use std::collections::BTreeMap;

use archive::{ProcessUsage, ScenarioPoint, SeriesPoint};
use measure::{Counters, LatencySummary, Metric, MetricKind, Nanos, ScenarioRole};

use super::table::GAP;
use super::text::{MOST_COLUMNS, sanitise, width};
use super::{Shape, scenario};
use crate::numbers::{per_second, percentile, three_digits};

/// End of a line from which more than details was left out.
const MORE: &str = " …";
const FAILED: &str = "failed";

/// A count of messages, by its name.
pub(super) type Count = (&'static str, fn(&Counters) -> u64);

/// The counts of messages that such a run has.
pub(super) fn counts(shape: &Shape) -> impl Iterator<Item = Count> {
    let all: [(bool, Count); 4] = [
        (shape.producers, ("sent", |c| c.sent)),
        (shape.producers, ("completed", |c| c.completed)),
        (shape.consumers, ("received", |c| c.received)),
        (shape.producers, ("blocked", |c| c.blocked)),
    ];
    all.into_iter().filter(|(has, _)| *has).map(|(_, count)| count)
}

/// A part of a line.
#[derive(Clone, Debug)]
pub(super) struct LinePart {
    rank: Rank,
    text: String,
    /// Name of the page or scenario, printed before its first part.
    owner: Option<String>,
}

impl LinePart {
    pub(super) const fn new(rank: Rank, text: String) -> Self {
        Self { rank, text, owner: None }
    }
}

/// Importance of a part: where a line has no room for all, the last ones are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Rates of the load.
    Rate,
    /// Failures, and the latency of users.
    Telling,
    /// Activity beside the load.
    Beside,
    /// Further counts, and selected series of pages.
    More,
    /// CPU and memory.
    Usage,
    /// Parts and explanations of other parts.
    Detail,
}

/// The line of an interval, ending in a newline: its end, the phase, and the figures of the live table by name, two
/// blanks apart, then `beside`. Zeros are left out. Too long a line loses its least important parts and ends in an
/// ellipsis, if more than details was lost. `None` where there is nothing to report.
pub(super) fn line(shape: &Shape, point: &SeriesPoint, beside: &[LinePart]) -> Option<String> {
    // Whoever looks at messages alone wants all of their latencies.
    let is_alone = beside.is_empty() && point.scenarios().next().is_none();
    let most = if is_alone { usize::MAX } else { MOST_COLUMNS };
    let mut parts = of_messages(shape, point);
    let several = point.scenarios().count() > 1;
    for (name, scenario) in point.scenarios() {
        let mut of = of_scenario(scenario, point.dt);
        let called = scenario::called(name);
        let own = called.split_once(' ').map_or("", |(_, own)| own);
        // The latency of a probe with a name begins with it.
        let is_named = |part: &LinePart| !own.is_empty() && part.text.starts_with(own);
        for part in of.iter_mut().filter(|part| several && !is_named(part)) {
            part.owner = Some(called.clone());
        }
        parts.append(&mut of);
    }
    parts.extend_from_slice(beside);
    let broker = point.broker.map(|of| used(loaded(shape, point), of));
    // Its memory tells nothing new from one second to the next.
    let client = point.client.map(|of| cores("bellows", of));
    let usage = broker.into_iter().chain(client);
    parts.extend(usage.map(|text| LinePart::new(Rank::Usage, text)));
    let head = format!("{:>7.1} s  {:<7}", point.t + point.dt, super::phase_name(point.phase));
    (!parts.is_empty()).then(|| fitted(head, &parts, most))
}

/// The parts that have room, in their order.
fn fitted(head: String, parts: &[LinePart], most: usize) -> String {
    let mut ranked: Vec<(usize, &LinePart)> = parts.iter().enumerate().collect();
    ranked.sort_by_key(|(_, part)| part.rank);
    let mut room = most.saturating_sub(width(&head));
    let mut kept: BTreeMap<usize, &LinePart> = BTreeMap::new();
    for (index, part) in ranked {
        let is_named = kept.values().any(|it| it.owner == part.owner);
        let owner = part.owner.as_ref().filter(|_| !is_named).map_or(0, |owner| width(owner) + GAP);
        let wanted = GAP + owner + width(&part.text);
        // The first stands there whole: nobody can guess the rest of it.
        if wanted <= room || kept.is_empty() {
            kept.insert(index, part);
            room = room.saturating_sub(wanted);
        }
    }
    let mut line = head;
    let mut owner = &None;
    for part in kept.values() {
        line.push_str(&" ".repeat(GAP));
        if let Some(name) = part.owner.as_ref().filter(|_| part.owner != *owner) {
            line.push_str(&format!("{name}: "));
        }
        owner = &part.owner;
        line.push_str(&part.text);
    }
    let is_cut = |(index, part): (usize, &LinePart)| part.rank < Rank::Detail && !kept.contains_key(&index);
    if parts.iter().enumerate().any(is_cut) {
        line.push_str(MORE);
    }
    line + "\n"
}

fn of_messages(shape: &Shape, point: &SeriesPoint) -> Vec<LinePart> {
    let mut parts = Vec::new();
    let mut sent = None;
    for (name, count) in counts(shape) {
        let number = count(&point.counters);
        let rate = three_digits(per_second(number, point.dt));
        let rank = if matches!(name, "sent" | "received") { Rank::Rate } else { Rank::Telling };
        // Answers as fast as messages say nothing new, and neither does a budget that is not used up.
        let is_news = match name {
            "completed" => sent.as_ref() != Some(&rate),
            "blocked" => number > 0,
            _ => true,
        };
        if is_news {
            parts.push(LinePart::new(rank, format!("{name} {rate} msg/s")));
        }
        sent.get_or_insert(rate);
    }
    if !shape.latency {
        return parts;
    }
    let is_alone = point.scenarios().next().is_none();
    for metric in Metric::MESSAGES.into_iter().filter(|m| shape.shows(*m)) {
        let is_headline = matches!(metric, Metric::ACK_RESPONSE | Metric::END_TO_END);
        let rank = if is_headline { Rank::Telling } else { Rank::Detail };
        let text = latency(metric, point.latency.get(metric), is_alone);
        parts.extend(text.map(|text| LinePart::new(rank, text)));
    }
    parts
}

fn of_scenario(scenario: &ScenarioPoint, seconds: f64) -> Vec<LinePart> {
    let counts = scenario::of_interval(scenario, seconds).map(|(metric, text)| {
        let rank = match (metric.name(), metric.info().kind) {
            (FAILED, _) => Rank::Telling,
            ("completed", _) | (_, MetricKind::Peak) => Rank::Beside,
            ("begun", _) => Rank::Detail,
            _ => Rank::More,
        };
        LinePart::new(rank, text)
    });
    let whole = scenario.latency.filled().filter(|(metric, _)| !metric.info().part);
    let latencies = whole.enumerate().filter_map(|(place, (metric, of))| {
        let rank = if place == 0 { Rank::Telling } else { Rank::Detail };
        latency(metric, of, true).map(|text| LinePart::new(rank, text))
    });
    counts.chain(latencies).collect()
}

/// `ack response p50 301 µs p99 3.23 ms max 251 ms`, without repetitions: one operation has one value, and the 99th
/// percentile of fewer than a hundred is the largest. Beside other figures, messages have room for the 99th percentile.
fn latency(metric: Metric, of: &LatencySummary, is_alone: bool) -> Option<String> {
    let mut text = sanitise(metric.name()).into_owned();
    let max = Nanos(of.max_ns);
    match of.count {
        0 => return None,
        1 => return Some(format!("{text} {max}")),
        2..100 => text += &format!(" p50 {}", percentile(of, "p50")),
        _ if !is_alone => return Some(format!("{text} p99 {}", percentile(of, "p99"))),
        _ => text += &format!(" p50 {} p99 {}", percentile(of, "p50"), percentile(of, "p99")),
    }
    Some(format!("{text} max {max}"))
}

/// CPU and memory of both sides: `broker 1.20 cores, 180 MB`.
pub(super) fn usage(shape: &Shape, point: &SeriesPoint) -> impl Iterator<Item = String> {
    let sides = [(loaded(shape, point), point.broker), ("bellows", point.client)];
    sides.into_iter().filter_map(|(name, usage)| Some(used(name, usage?)))
}

fn used(name: &str, usage: ProcessUsage) -> String {
    let cores = cores(name, usage);
    match usage.rss_bytes {
        // It is gone.
        0 => cores,
        bytes => format!("{cores}, {:.0} MB", bytes as f64 / 1e6),
    }
}

fn cores(name: &str, usage: ProcessUsage) -> String {
    format!("{name} {:.2} cores", usage.cpu_cores)
}

/// Kind of the loaded system: probes alone load any server.
fn loaded(shape: &Shape, point: &SeriesPoint) -> &'static str {
    let mut names = point.scenarios().map(|(name, _)| name).peekable();
    let has_messages = shape.producers || shape.consumers;
    let is_server = !has_messages && names.peek().is_some();
    if is_server && names.all(|name| ScenarioRole::of(name) == ScenarioRole::Server) { "server" } else { "broker" }
}
