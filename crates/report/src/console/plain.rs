//! Plain lines for pipes, in the form that Artemis `perf` prints them, with two lines more: the
//! response times.

use std::fmt::Write as _;

use archive::{RequestedSummary, RequestedWindow, RunRecord, RunState, RunSummary, SeriesPoint};
use measure::{LatencySummary, Metric, Phase, Summaries};

use super::shape::Shape;
use super::text::{Style, sanitise};
use crate::numbers::{count, per_second, percent_digits, three_digits};
use crate::view;

/// Stalls that a summary shows.
const MOST_STALLS: usize = 3;

/// Order and names of the latencies in a block: headline first, then as Artemis has them.
const BLOCK: [(Metric, &str); 5] = [
    (Metric::ACK_RESPONSE, "ack response time:"),
    (Metric::END_TO_END, "end-to-end time:"),
    (Metric::SEND_DELAY, "send delay time:"),
    (Metric::SEND_ACK, "send ack time:"),
    (Metric::TRANSFER, "transfer time:"),
];

/// The same in the summary, where Artemis calls them differently.
const SUMMARY: [(Metric, &str); 5] = [
    (Metric::ACK_RESPONSE, "aggregated ack response time:"),
    (Metric::END_TO_END, "aggregated end-to-end time:"),
    (Metric::SEND_DELAY, "aggregated delay send time:"),
    (Metric::SEND_ACK, "aggregated send time:"),
    (Metric::TRANSFER, "aggregated transfer time:"),
];

/// What the mark in a latency line means.
const FOOTNOTE: &str = "--- ~: fewer than ten samples lie beyond this percentile";

/// The block of one interval, ending in a newline.
pub(super) fn block(shape: &Shape, point: &SeriesPoint) -> String {
    let counters = &point.counters;
    let mut out = format!("--- warmup {}\n", point.phase == Phase::Warmup);
    let mut rate = |label: &str, count| {
        let _ = writeln!(
            out,
            "--- {label:<10} {:>8.0} msg/sec",
            per_second(count, point.dt)
        );
    };
    if shape.producers {
        rate("sent:", counters.sent);
        rate("blocked:", counters.blocked);
        rate("completed:", counters.completed);
    }
    if shape.consumers {
        rate("received:", counters.received);
    }
    if shape.latency {
        latencies(&mut out, &BLOCK, shape, &point.latency);
    }
    for (_, scenario) in point.scenarios() {
        out.push_str(&super::scenario::block(scenario, point));
    }
    out
}

/// The summary, ending in a newline.
pub(super) fn summary(shape: &Shape, record: &RunRecord, summary: &RunSummary) -> String {
    let result = match record.state {
        RunState::Complete => "success",
        RunState::Interrupted => "interrupted",
        RunState::Running | RunState::Failed => "fail",
    };
    let mut out = format!("--- SUMMARY\n--- {:<16}{result:>12}\n", "result:");
    let mut total = |label: &str, value: u64| {
        let _ = writeln!(out, "--- {label:<16}{value:>12}");
    };
    if shape.producers {
        total("total sent:", summary.sent.total);
        total("total blocked:", summary.blocked.total);
        total("total completed:", summary.completed.total);
    }
    if shape.consumers {
        total("total received:", summary.received.total);
    }
    for (_, scenario) in summary.scenarios() {
        let style = Style {
            columns: 120,
            ..Style::PLAIN
        };
        let operations = view::operations(scenario, &record.phases);
        let _ = writeln!(out, "--- {}", sanitise(&operations));
        let lines = super::scenario::account(scenario).into_iter();
        for line in lines.chain(super::scenario::latencies(&scenario.latency, style)) {
            let _ = writeln!(out, "--- {line}");
        }
    }
    for line in messages_requested(summary)
        .into_iter()
        .chain(ledger(summary))
        .chain(faults(summary))
        .chain(stalls(summary))
    {
        let _ = writeln!(out, "--- {line}");
    }
    let messages = shape.producers || shape.consumers || summary.scenarios().next().is_none();
    if messages && latencies(&mut out, &SUMMARY, shape, &summary.latency) {
        let _ = writeln!(out, "{FOOTNOTE}");
    }
    out
}

/// The line on the requested messages; what was requested of another scenario stands in its headline.
pub(super) fn messages_requested(summary: &RunSummary) -> Option<String> {
    let asked = summary.requested.as_ref();
    requested(
        asked.filter(|_| summary.has_messages() || summary.scenarios().next().is_none()),
        summary.closed_loop,
    )
}

/// Below this share of what a second asked for, the worst one is named.
const SHORT_SECOND: f64 = 0.95;
/// A share of late messages that the warnings name too.
const LATE: f64 = 0.01;
/// A second with fewer messages is short when one of them crosses its edge.
const LEAST_MESSAGES: f64 = 20.0;

/// What was asked for, and how much of it was sent when.
pub(super) fn requested(asked: Option<&RequestedSummary>, closed_loop: bool) -> Option<String> {
    if closed_loop {
        return Some(
            "closed loop: a slow broker is asked less often, and the latencies do not show it"
                .to_owned(),
        );
    }
    let asked = asked?;
    let mut line = format!(
        "requested: {} msg/s, {} % of it sent, {} % over 1 ms late",
        three_digits(asked.rate),
        percent_digits(asked.achieved.unwrap_or(1.0)),
        percent_digits(asked.late_share)
    );
    let share = |window: &RequestedWindow| window.sent / window.requested;
    // Random arrivals have seconds with few messages, of which none is late.
    let some_late =
        asked.late_share > LATE || asked.achieved.is_some_and(|share| share < SHORT_SECOND);
    let worst = asked
        .over_time
        .iter()
        .filter(|w| some_late && w.requested * w.dt >= LEAST_MESSAGES && share(w) < SHORT_SECOND)
        .min_by(|a, b| share(a).total_cmp(&share(b)));
    if let Some(window) = worst {
        let _ = write!(
            line,
            "; {} of {} msg/s at {:.0} s",
            three_digits(window.sent),
            three_digits(window.requested),
            window.t
        );
    }
    Some(line)
}

/// What became of every message, in one line; two where more is to be said than that all is well.
pub(super) fn ledger(summary: &RunSummary) -> Vec<String> {
    let Some(ledger) = summary.ledger else {
        return Vec::new();
    };
    let about = if ledger.exact { "" } else { "about " };
    let mut lines = vec![format!(
        "ledger: {about}{} lost, {} duplicated, {} redelivered, {} reordered, {} corrupt",
        count(ledger.lost),
        count(ledger.duplicated),
        count(ledger.duplicated_redelivered),
        count(ledger.reordered),
        count(ledger.corrupt)
    )];
    let rest = [
        (
            ledger.outstanding,
            "outstanding (confirmed and not delivered; the broker may still hold them)",
        ),
        (ledger.returned, "returned as unroutable"),
        (ledger.unconfirmed_missing, "unconfirmed and missing"),
        (ledger.unconfirmed_delivered, "unconfirmed but delivered"),
        (ledger.foreign, "not of this run"),
    ];
    let rest: Vec<String> = rest
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", count(*number)))
        .collect();
    if !rest.is_empty() {
        lines.push(format!("        {}", rest.join(", ")));
    }
    lines
}

/// Who stood still, when and for how long: the longest ones.
pub(super) fn stalls(summary: &RunSummary) -> Vec<String> {
    let mut longest: Vec<_> = summary.stalls.iter().collect();
    longest.sort_by(|a, b| b.for_s.total_cmp(&a.for_s));
    let more = longest.len().saturating_sub(MOST_STALLS);
    longest.truncate(MOST_STALLS);
    longest.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let more = (more > 0).then(|| format!("and {more} shorter stalls"));
    let lines = longest
        .into_iter()
        .map(|stall| format!("stall: {}", crate::text::stall(stall, summary.is_churn())));
    lines.chain(more).collect()
}

/// How long the broker and its clients took to come back from each fault.
pub(super) fn faults(summary: &RunSummary) -> impl Iterator<Item = String> {
    summary.faults.iter().map(|fault| {
        let after = |seconds: Option<f64>| {
            seconds.map_or_else(
                || "not seen".to_owned(),
                |seconds| format!("{seconds:.2} s"),
            )
        };
        let mut line = format!("{} at {:.1} s:", sanitise(&fault.kind), fault.t);
        let moments = [fault.back_s, fault.first_confirm_s, fault.backlog_gone_s];
        let watched = fault.count.is_none() || moments.iter().any(Option::is_some);
        if let Some(hits) = fault.count {
            let _ = write!(
                line,
                " {} hit{}",
                count(hits),
                if watched { "," } else { "" }
            );
        }
        if watched {
            // What happens at one moment takes the broker itself nowhere.
            if fault.count.is_none() || fault.back_s.is_some() {
                let _ = write!(line, " broker back {},", after(fault.back_s));
            }
            let _ = write!(
                line,
                " first confirm {}, backlog gone {}",
                after(fault.first_confirm_s),
                after(fault.backlog_gone_s)
            );
        }
        line
    })
}

/// Writes the lines that apply, aligned with each other; says whether any value was marked. Of what nothing
/// was recorded it prints no value: zero would read as the best.
fn latencies(
    out: &mut String,
    names: &[(Metric, &str)],
    shape: &Shape,
    values: &Summaries,
) -> bool {
    let shown: Vec<_> = names
        .iter()
        .filter(|(metric, _)| shape.shows(*metric))
        .collect();
    let label = shown.iter().map(|(_, name)| name.len()).max().unwrap_or(0);
    let mut marked = false;
    for (metric, name) in shown {
        let summary = values.get(*metric);
        if summary.count == 0 {
            let _ = writeln!(out, "--- {name:<label$} mean: {:>9}", "-");
            continue;
        }
        let _ = write!(
            out,
            "--- {name:<label$} mean: {:>9.2} us",
            us(summary.mean_ns)
        );
        let mut before = ' ';
        for ((percentile, _), value) in LatencySummary::PERCENTILES
            .into_iter()
            .zip(summary.percentile_values())
        {
            let _ = write!(out, "{before}- {percentile:.2}%: {:>9.2} us", us(value));
            // The mark takes the place of a blank, so that columns and parsers stay as they are.
            let weak = !summary.supports(percentile);
            before = if weak { '~' } else { ' ' };
            marked |= weak;
        }
        let _ = writeln!(out, "{before}- max:    {:>9.2} us", us(summary.max_ns));
    }
    marked
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(achieved: f64, late_share: f64, sent: f64) -> String {
        let window = |t: f64, sent: f64| RequestedWindow {
            t,
            dt: 1.0,
            requested: 1_000.0,
            sent,
        };
        let asked = RequestedSummary {
            total: 2_000.0,
            rate: 1_000.0,
            achieved: Some(achieved),
            late_share,
            over_time: vec![window(3.0, 1_000.0), window(4.0, sent)],
        };
        requested(Some(&asked), false).unwrap()
    }

    #[test]
    fn what_was_asked_for_stands_with_its_worst_second() {
        assert_eq!(
            said(0.8, 0.25, 600.0),
            "requested: 1,000 msg/s, 80.00 % of it sent, 25.00 % over 1 ms late; 600 of 1,000 \
             msg/s at 4 s"
        );
        // Random arrivals that were few by chance.
        assert_eq!(
            said(0.97, 0.001, 940.0),
            "requested: 1,000 msg/s, 97.00 % of it sent, 0.10 % over 1 ms late"
        );
        assert_eq!(requested(None, false), None);
        assert!(requested(None, true).unwrap().starts_with("closed loop"));
    }
}
