//! Sentences on messages: requested rate, ledger, stalls and faults.

use archive::{Finding, RequestedSummary, RequestedWindow, RunRecord, RunSummary, Stall, Warning};
use measure::Phase;

use super::text::sanitise;
use crate::numbers::{count, counted, nonzero, percent_digits, seconds_digits, three_digits};

/// Stalls that a summary shows.
const MOST_STALLS: usize = 3;

/// Below this share of a second's requested messages, the worst one is named.
const SHORT_SECOND: f64 = 0.95;
/// A share of messages of the warm-up that is told beside that of the messages due.
const NOTABLE: f64 = 0.01;
/// A share of late messages that the warnings name too.
const LATE: f64 = 0.01;
/// A second with fewer messages is short when one of them crosses its edge.
const LEAST_MESSAGES: f64 = 20.0;

/// Requested messages, and how many were sent when; other scenarios have theirs in the headline.
pub(super) fn requested(asked: Option<&RequestedSummary>, closed_loop: bool) -> Option<String> {
    if closed_loop {
        return Some("closed loop: a slow broker gets fewer messages, which latencies do not show".to_owned());
    }
    let asked = asked?;
    let sent = asked.achieved.unwrap_or(1.0);
    let of_all = |amount: fn(&RequestedWindow) -> f64| asked.over_time.iter().map(|it| amount(it) * it.dt).sum::<f64>();
    let in_phase = of_all(|it| it.sent) / of_all(|it| it.requested).max(f64::MIN_POSITIVE);
    let backlog = if asked.has_backlog() {
        " (with the warm-up's backlog)".to_owned()
    } else if in_phase > sent + NOTABLE {
        format!(" ({} % with the warm-up's backlog)", percent_digits(in_phase))
    } else {
        String::new()
    };
    let mut line = match sent {
        0.0 => format!("requested: {} msg/s, none of it sent", three_digits(asked.rate)),
        _ => format!(
            "requested: {} msg/s, {} % of it sent{backlog}, {} % {}over 1 ms late",
            three_digits(asked.rate),
            percent_digits(sent),
            percent_digits(asked.late_share),
            // The share is of what was sent.
            if sent < SHORT_SECOND { "of this " } else { "" }
        ),
    };
    let share = |window: &RequestedWindow| window.sent / window.requested;
    // Random arrivals have seconds with few messages, of which none is late.
    let some_late = asked.late_share > LATE || asked.achieved.is_some_and(|share| share < SHORT_SECOND);
    let worst = asked
        .over_time
        .iter()
        .filter(|w| some_late && w.requested * w.dt >= LEAST_MESSAGES && share(w) < SHORT_SECOND)
        .min_by(|a, b| share(a).total_cmp(&share(b)));
    if let Some(window) = worst {
        let [sent, requested] = [window.sent, window.requested].map(three_digits);
        line += &format!("; {sent} of {requested} msg/s at {:.0} s", window.t);
    }
    Some(line)
}

/// Outcome of every message, in one line; two unless all is well.
pub(super) fn ledger(summary: &RunSummary) -> Vec<String> {
    let Some(ledger) = summary.flow().ledger else { return Vec::new() };
    let about = if ledger.exact { "" } else { "about " };
    let mut lines = vec![format!(
        "ledger: {about}{} lost, {} duplicated, {} redelivered, {} reordered, {} corrupt",
        count(ledger.lost),
        count(ledger.duplicated),
        count(ledger.duplicated_redelivered),
        count(ledger.reordered),
        count(ledger.corrupt)
    )];
    let rest = nonzero(&[
        (ledger.outstanding, "outstanding (confirmed and not delivered; the broker may still hold them)"),
        (ledger.returned, "returned as unroutable"),
        (ledger.unconfirmed_missing, "unconfirmed and missing"),
        (ledger.unconfirmed_delivered, "unconfirmed but delivered"),
        (ledger.duplicated_resent, "duplicated by resend"),
        (ledger.foreign, "not of this run"),
    ]);
    lines.extend((!rest.is_empty()).then(|| format!("        {}", rest.join(", "))));
    lines
}

/// Stalls of the measured phase, the longest ones in the order of time; `None` where warnings name them all.
pub(super) fn stalls(record: &RunRecord, summary: &RunSummary) -> Vec<String> {
    let measured = record.phases.iter().find(|it| it.phase == Phase::Measure);
    let is_measured =
        |stall: &&Stall| measured.is_none_or(|it| stall.at_s < it.end && stall.at_s + stall.for_s > it.start);
    let tells = |warning: &Warning, stall: &Stall| {
        let stood = match &warning.finding {
            Finding::Stalled { stood, .. } => Some(stood),
            Finding::BrokerGone { away, .. } | Finding::ConnectionsLost { away, .. } => away.as_ref(),
            _ => None,
        };
        stood.is_some_and(|it| it.at_s == stall.at_s && it.for_s == stall.for_s)
    };
    let is_told = |stall: &Stall| summary.warnings.iter().any(|it| tells(it, stall));
    let mut longest: Vec<&Stall> = summary.stalls.iter().filter(is_measured).collect();
    if longest.iter().all(|stall| is_told(stall)) {
        return Vec::new();
    }
    longest.sort_by(|a, b| b.for_s.total_cmp(&a.for_s));
    let more = longest.len().saturating_sub(MOST_STALLS);
    longest.truncate(MOST_STALLS);
    longest.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let more = (more > 0).then(|| format!("and {}", counted(more as u64, "shorter stall")));
    let stalls = longest.into_iter().map(|it| crate::text::stall(it, summary.items(), summary.loaded()));
    stalls.map(|stall| format!("stall: {stall}")).chain(more).collect()
}

/// How long the broker and its clients took to come back from each fault.
pub(super) fn faults(summary: &RunSummary) -> impl Iterator<Item = String> {
    summary.faults.iter().map(|fault| {
        let after =
            |seconds: Option<f64>| seconds.map_or_else(|| "not seen".to_owned(), |seconds| format!("{seconds:.2} s"));
        let node = fault.node.map(|node| format!("node {node}"));
        let subject = node.as_deref().unwrap_or("broker");
        let of_node = node.as_deref().map_or_else(String::new, |it| format!(" of {it}"));
        let kind = sanitise(&fault.kind);
        let moments = [fault.back_s, fault.first_confirm_s, fault.backlog_gone_s];
        // Earlier archives do not say it, and clusters were not watched then.
        let was_watched = fault.count.is_none() || moments.iter().any(Option::is_some);
        let is_alone = summary.nodes.is_empty();
        let watched = fault.watched || is_alone && was_watched;
        // Whose messages were not seen, of those nothing can be said.
        let watched = watched && summary.programs.is_empty();
        let mut parts = Vec::new();
        if let Some(reason) = &fault.failed {
            parts.push(format!("failed: {}", sanitise(reason)));
        } else if let Some(hits) = fault.count {
            parts.push(format!("{} hit", count(hits)));
        }
        // Faults of one moment do not take the broker away.
        if fault.for_good && fault.failed.is_none() {
            parts.push(format!("{subject} stayed down, as requested"));
        } else if fault.failed.is_none() && (fault.count.is_none() || fault.back_s.is_some()) {
            // Where it was back when it was to be, that says nothing.
            let took_longer = |asked: &f64| fault.back_s.is_some_and(|it| it > asked * 1.1 + 0.1);
            let asked = fault.asked_s.filter(took_longer);
            let asked = asked.map(|it| format!(", {} s of it requested", seconds_digits(it)));
            parts.push(format!("{subject} back {}{}", after(fault.back_s), asked.unwrap_or_default()));
        }
        if watched && (fault.failed.is_none() || fault.watched) {
            // Operations other than messages have no confirms.
            let confirm = match summary.main_load().filter(|(_, of)| of.flow.is_none()) {
                None => "confirm".to_owned(),
                Some((_, of)) => format!("successful {}", of.unit.strip_suffix('s').unwrap_or(&of.unit)),
            };
            parts.push(match fault.first_confirm_s {
                Some(first) => format!("first {confirm} {first:.2} s"),
                None => format!("no {confirm} since"),
            });
        }
        // The other nodes of a cluster may have none.
        if watched && fault.failed.is_none() && is_alone && !fault.for_good {
            parts.push(format!("backlog gone {}", after(fault.backlog_gone_s)));
        }
        let late = fault.late_s.map(|late| format!(", {late:.1} s late")).unwrap_or_default();
        format!("{kind}{of_node} at {:.1} s{late}: {}", fault.t, parts.join(", "))
    })
}

/// `; 10 s after measuring began at 5 s`, behind times since the run's origin: the experiment's are since then. Without
/// the 10 s where there are several `times`, or it was before.
pub(super) fn measuring_began(record: &RunRecord, times: &[f64]) -> Option<String> {
    let of = |phase: Phase| record.phases.iter().find(|it| it.phase == phase);
    of(Phase::Warmup).filter(|it| it.end > it.start)?;
    let start = of(Phase::Measure)?.start;
    let after = match times {
        [only] if *only >= start => format!("{} s after ", seconds_digits(only - start)),
        _ => String::new(),
    };
    Some(format!("; {after}measuring began at {} s", seconds_digits(start)))
}

/// CPU and memory of each node of a cluster, of the time that it ran.
pub(super) fn nodes(summary: &RunSummary) -> Option<String> {
    let nodes = summary.nodes.iter().map(|it| {
        let (cores, mb) = (three_digits(it.cpu_cores), three_digits(it.rss_mb));
        let while_it_ran = it.ran_s.map(|ran| format!(" in the {} s that it ran", seconds_digits(ran)));
        let while_it_ran = while_it_ran.unwrap_or_default();
        format!("{} {cores} cores{while_it_ran}, {mb} MB", it.title())
    });
    let text = nodes.collect::<Vec<_>>().join("; ");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use archive::{FaultOutcome, NodeSummary};

    use super::*;
    use crate::tests::fixtures::fault;

    fn said(achieved: f64, late_share: f64, sent: f64) -> String {
        let window = |t: f64, sent: f64| RequestedWindow { t, dt: 1.0, requested: 1_000.0, sent };
        let (achieved, over_time) = (Some(achieved), vec![window(3.0, 1_000.0), window(4.0, sent)]);
        let asked = RequestedSummary { total: 2_000.0, rate: 1_000.0, achieved, late_share, over_time };
        requested(Some(&asked), false).unwrap()
    }

    #[test]
    fn what_was_asked_for_stands_with_its_worst_second() {
        for (achieved, late_share, sent, told) in [
            (0.8, 0.25, 600.0, "80.00 % of it sent, 25.00 % of this over 1 ms late; 600 of 1,000 msg/s at 4 s"),
            // What was sent in the phase is more than what was due in it and sent.
            (
                0.5,
                0.25,
                600.0,
                "50.00 % of it sent (80.00 % with the warm-up's backlog), 25.00 % of this over 1 ms late; \
                 600 of 1,000 msg/s at 4 s",
            ),
            (1.24, 0.25, 1_480.0, "124 % of it sent (with the warm-up's backlog), 25.00 % over 1 ms late"),
            // Random arrivals that happened to be few.
            (0.97, 0.001, 940.0, "97.00 % of it sent, 0.10 % over 1 ms late"),
            (0.0, 0.0, 0.0, "none of it sent; 0 of 1,000 msg/s at 4 s"),
        ] {
            assert_eq!(said(achieved, late_share, sent), format!("requested: 1,000 msg/s, {told}"));
        }
        assert_eq!(requested(None, false), None);
        assert!(requested(None, true).unwrap().starts_with("closed loop"));
    }

    #[test]
    fn the_cpu_of_a_node_that_was_away_is_of_the_time_in_which_it_ran() {
        let node = |node, ran_s| NodeSummary { node, cpu_cores: 0.4, ran_s, rss_mb: 140.0, ..NodeSummary::default() };
        let mut summary = RunSummary { nodes: vec![node(0, None), node(1, Some(3.0))], ..RunSummary::default() };
        let told = "node 0 0.40 cores, 140 MB; node 1 0.40 cores in the 3 s that it ran, 140 MB";
        assert_eq!(nodes(&summary).as_deref(), Some(told));
        let of_worker = (Some("rabbit@b".to_owned()), Some(52e-6));
        (summary.nodes[1].name, summary.nodes[1].clock_bound_s) = of_worker;
        testkit::assert_has(nodes(&summary).unwrap(), ["; node 1 (rabbit@b, clock ± 52.0 µs) 0.40 cores in"]);
    }

    #[test]
    fn a_node_of_a_cluster_comes_back_while_the_others_confirm() {
        let killed = FaultOutcome { back_s: Some(11.29), ..fault("kill", Some(1), 15.4) };
        let mut summary =
            RunSummary { faults: vec![killed], nodes: vec![NodeSummary::default(); 3], ..RunSummary::default() };
        let said = |summary: &RunSummary| faults(summary).collect::<Vec<_>>().join("");
        let back = "kill of node 1 at 15.4 s: node 1 back 11.29 s";
        assert_eq!(said(&summary), back);
        let with = |change: fn(&mut FaultOutcome)| {
            let mut changed = summary.clone();
            changed.faults.iter_mut().for_each(change);
            said(&changed)
        };
        assert_eq!(with(|it| it.asked_s = Some(5.0)), format!("{back}, 5 s of it requested"));
        assert_eq!(with(|it| it.asked_s = Some(11.2)), back);
        let late = back.replace("s: node", "s, 3.1 s late: node");
        assert_eq!(with(|it| it.late_s = Some(3.1)), late);
        let failed = with(|it| (it.late_s, it.failed) = (Some(3.1), Some("RabbitMQ is gone".into())));
        assert_eq!(failed, "kill of node 1 at 15.4 s, 3.1 s late: failed: RabbitMQ is gone");
        // The rest of a cluster may have no majority.
        assert_eq!(with(|it| it.watched = true), format!("{back}, no confirm since"));
        let first = with(|it| (it.watched, it.first_confirm_s) = (true, Some(0.004)));
        assert_eq!(first, format!("{back}, first confirm 0.00 s"));
        // A fault of one moment gives the number of connections, and nothing that could not be watched.
        let hits = FaultOutcome { count: Some(5), backlog_gone_s: Some(0.5), ..fault("close", None, 3.0) };
        let at_once = RunSummary { faults: vec![hits], ..summary.clone() };
        assert_eq!(said(&at_once), "close at 3.0 s: 5 hit");
        // One that was killed for good is not told as late.
        let for_good = FaultOutcome { for_good: true, ..fault("kill", None, 8.0) };
        let stays = RunSummary { faults: vec![for_good], ..RunSummary::default() };
        assert_eq!(said(&stays), "kill at 8.0 s: broker stayed down, as requested, no confirm since");
        // Alone it is all that confirms.
        summary.nodes.clear();
        let alone = format!("{back}, no confirm since, backlog gone not seen");
        assert_eq!(said(&summary), alone);
        // Of programs that load the broker nobody sees a message.
        summary.programs.push(archive::ProgramSummary::default());
        assert_eq!(said(&summary), back);
        summary.programs.clear();
        let cycles = archive::ScenarioSummary { unit: "cycles".into(), ..archive::ScenarioSummary::default() };
        summary.insert("churn", cycles);
        assert_eq!(said(&summary), alone.replace("no confirm", "no successful cycle"));
    }
}
