//! Sentences of warnings: the observation, the number it puts in doubt and which way, and the remedy.

use archive::{CoresUsed, FewSamples, Finding, MissedFaults, ProfileGap, SentOf, Tier, Warning};
use measure::{Nanos, ScenarioRole};

use super::stalls::{StoodStill, gone_away, one, stalled};
use super::{looks, words_of};
use crate::numbers::{count, counted, nonzero, percent, rate, seconds};

/// Words of a broker, a library or a system within the sentence of a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaidWithin {
    pub(crate) text: String,
    /// The text begins in bellows' words, and theirs stand behind the first colon.
    pub(crate) has_cause: bool,
}

/// Words of others within a warning's sentence.
pub(crate) fn said_within(warning: &Warning) -> Option<SaidWithin> {
    let (text, has_cause) = match &warning.finding {
        Finding::CyclesFailed { first_failure, .. } => (first_failure, true),
        Finding::FaultsMissed { faults } => (&faults.first_failure, true),
        Finding::ScrapesFailed { last_failure, .. } => (last_failure, true),
        Finding::ConnectionBlocked { reasons, .. } => (reasons, false),
        _ => return None,
    };
    let text = text.clone();
    (!text.is_empty()).then_some(SaidWithin { text, has_cause })
}

/// Makes the sentence of a warning: text; remedy.
pub fn warning(warning: &Warning) -> String {
    let (text, remedy) = text_and_remedy(warning);
    // Names the profile, where it is not the usual one.
    let text = match &warning.event {
        None => text,
        Some(event) => format!("{event}: {text}"),
    };
    if remedy.is_empty() { text } else { format!("{text}; {remedy}") }
}

/// Role of the loaded system, by which sentences name it.
const fn role(warning: &Warning) -> ScenarioRole {
    if warning.of_server { ScenarioRole::Server } else { ScenarioRole::Broker }
}

fn parts(parts: &[(u64, &str)]) -> String {
    nonzero(parts).join(", ")
}

/// Share of failed operations in the latencies. How long users waited for them is not known: a refusal comes at once.
fn latencies_of_failed(failed: u64, timed_out: u64) -> String {
    match timed_out {
        0 => "they count in no latency".to_owned(),
        _ if timed_out >= failed => "all by time-outs, which count in the latencies with the time waited".to_owned(),
        _ => format!(
            "{} by time-outs, which count in the latencies with the time waited; the others have no latency",
            count(timed_out)
        ),
    }
}

/// Messages without an answer, and those that were never sent.
fn never_answered(unanswered: u64, unsent: u64) -> String {
    let parts = [
        (unanswered > 0).then(|| format!("{} had no answer", counted(unanswered, "message"))),
        (unsent > 0).then(|| format!("{} due and never sent", was_or_were(unsent, "message"))),
    ];
    format!(
        "{}: each counts in the latencies with its wait from the due time to the end, so high percentiles and the \
         maximum are lower bounds",
        parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    )
}

/// Remedy for messages that had not come when the drain ended.
const fn awaits_longer(warning: &Warning) -> &'static str {
    match warning.drain_cut {
        true => "let the drain end by itself",
        false => "use a longer phases.drain, or consumers that keep up",
    }
}

fn text_and_remedy(w: &Warning) -> (String, &'static str) {
    let target = role(w).target();
    match &w.finding {
        Finding::DebugBuild {} => (
            "this is a debug build of bellows, several times slower than a release build: rates and client CPU mean \
             nothing"
                .to_owned(),
            archive::RELEASE_BUILD,
        ),
        Finding::GeneratorSaturated { at_work, unit, .. } => (
            format!(
                "an event loop of the generator was busy {} of the time: the generator limited the rate, not the \
                 {target}, and latencies are too high",
                percent(*at_work)
            ),
            words_of(unit).spread,
        ),
        // Without a schedule nothing has a time at which it should have been sent.
        Finding::GeneratorLate { lag_max_ns, lag_seconds_share, scheduled: false, .. } => (
            format!(
                "the generator's event loops took up to {} per pass, at least half of the p99 in {} of the seconds: \
                 ack response and end-to-end are too high by that time",
                Nanos(*lag_max_ns),
                percent(*lag_seconds_share)
            ),
            "give bellows a free core, or lower the load",
        ),
        Finding::GeneratorLate { lag_max_ns, late_share, unit, .. } => (
            format!(
                "the generator was late by up to {}, {} of the {} by over 1 ms: {} are too high by that time",
                Nanos(*lag_max_ns),
                percent(*late_share),
                unit,
                words_of(unit).latencies
            ),
            "give bellows a free core, or lower the load",
        ),
        Finding::TooFewCores { used } => too_few_cores(used, target),
        Finding::Stalled { who, stood, wait, worker, fault, unit } => {
            let whose = StoodStill { who: *who, worker: worker.as_deref() };
            stalled(whose, stood, *wait, fault.as_deref(), unit, role(w))
        }
        Finding::RateNotAchieved { unit, rates, not_begun, in_flight_limit } => {
            rate_not_achieved(unit, *rates, *not_begun, *in_flight_limit, target)
        }
        Finding::CpuSteal { steal } => (
            format!(
                "the hypervisor took {} of the machine's CPU time: high percentiles are too high, and rates vary \
                 from run to run",
                percent(*steal)
            ),
            "use a machine with dedicated cores, or repeat the run",
        ),
        Finding::ClockNotSteady { clock } => (
            format!(
                "the kernel's clock source is {clock}, which is coarse and slow to read: latencies below about 10 µs \
                 are inaccurate, and reading the clock costs CPU"
            ),
            "switch to tsc or kvm-clock (/sys/devices/system/clocksource/clocksource0/available_clocksource)",
        ),
        Finding::ConnectionBlocked { times, reasons, fault } => (
            format!(
                "the broker blocked publishers {} ({reasons}){}: rates are too low and latencies too high",
                counted(*times, "time"),
                through(fault.as_deref())
            ),
            if fault.is_some() { "" } else { "raise its memory or disk limit, or add consumers" },
        ),
        Finding::NotSteadyState { change, seconds } => (
            format!(
                "the rate {} by {} within the {}: the run has no steady state, and its averages mean little",
                if *change > 0.0 { "rose" } else { "fell" },
                percent(change.abs()),
                counted(*seconds, "measured second")
            ),
            "use a longer phases.warmup, and look at the chart",
        ),
        Finding::ScrapesFailed { page, failed, requests, last_failure } => (
            format!(
                "{} of {} of {page} failed, so its series have gaps; the last: {last_failure}",
                count(*failed),
                counted(*requests, "scrape")
            ),
            "",
        ),
        Finding::FaultsMissed { faults } => faults_missed(faults),
        Finding::TraceEnded { functions, why, limit, at_s } => looks::trace_ended(functions, why, limit, *at_s),
        Finding::Traced { functions } => looks::traced(functions),
        Finding::LookedInto { looks, commands, seconds } => looks::looked_into(*looks, commands, *seconds),
        Finding::NotPermitted { feature, instead } => (
            format!("the broker no longer permits the feature {feature}: {instead}"),
            "request the replacement, or permit the feature in rabbitmq.conf (deprecated_features.permit.NAME = true)",
        ),
        Finding::NodeGone { nodes } => (
            format!(
                "node{} {} of the cluster {} gone when the run ended: clients had to move to the other nodes",
                if nodes.len() > 1 { "s" } else { "" },
                numbers(nodes),
                if nodes.len() > 1 { "were" } else { "was" },
            ),
            "check the node's log, and whether the machine ran out of memory (dmesg)",
        ),
        Finding::WorkerLost { worker, at_s, why, producers: Some(producers), consumers } => (
            format!(
                "worker {worker} was lost, last heard at {at_s:.1} s: {why}; from then on {} of the producers and {} \
                 of the consumers are missing, and nothing is sent in their place",
                percent(*producers),
                percent(consumers.unwrap_or_default())
            ),
            of_lost_worker(why),
        ),
        Finding::WorkerLost { worker, at_s, why, producers: None, .. } => (
            format!("worker {worker} was lost, last heard at {at_s:.1} s: {why}; its part of the load is missing"),
            of_lost_worker(why),
        ),
        Finding::WorkerLate { worker, late_s } => (
            format!("worker {worker} started {} late, and did not wait for a core", seconds(*late_s)),
            "see what else runs on its machine, and whether its clock is steady",
        ),
        Finding::WorkerClock { worker } => (
            format!("the clock of worker {worker} moved against this machine's: its events may stand at wrong times"),
            "leave clocks alone while a run lasts, and let no machine of the fleet sleep",
        ),
        Finding::ClockBound { latency, p50_s: Some(p50_s), bound_s } => (
            format!(
                "{latency} p50 {} ± {}: it was taken by the clocks of two machines, which agree to that",
                seconds(*p50_s),
                seconds(*bound_s)
            ),
            "",
        ),
        Finding::ClockBound { latency, p50_s: None, bound_s } => (
            super::refusal(latency, *bound_s),
            "leave place = \"spread\" out, or put the workers nearer to the coordinator",
        ),
        Finding::ClockBoundBroken { worker, deliveries, by_s } => (
            format!(
                "{} came to worker {worker} up to {} before they were sent, more than the bound of the clocks \
                 explains: that is wrong, and so are latencies",
                counted(*deliveries, "message"),
                seconds(*by_s)
            ),
            "check that the clocks are steady, and that the network has one route for both directions",
        ),
        Finding::WorkersIdle { idle, workers } => (
            format!("{} of {} had nothing to do: the load has few parts", count(*idle), counted(*workers, "worker")),
            "give it more destinations (num-destinations), or put its consumers elsewhere (place = \"spread\")",
        ),
        Finding::Collected { unbounded } => (
            format!(
                "made of the workers' folders, without the coordinator: no verdict, requirements and profiles of the \
                 load, and of the broker's CPU what workers beside it saw{}",
                match unbounded.as_slice() {
                    [] => String::new(),
                    all => format!(
                        "; {} left out: taken by two machines' clocks, of which not every folder tells how far they \
                         may be apart",
                        all.join(" and ")
                    ),
                }
            ),
            "",
        ),
        Finding::NothingSelected { page, what } => {
            (format!("{page}: {what}"), "change the selection, or name the right page")
        }
        Finding::CertificateNotChecked {} => (
            format!(
                "--insecure: the {target}'s certificate was not checked: another server may have answered, and seen \
                 the password"
            ),
            match w.of_server {
                true => "name the authority with --ca FILE",
                false => "name the authority with --ca FILE (broker.ca)",
            },
        ),
        Finding::Interrupted { seconds } if w.drain_cut => (
            format!(
                "the run was stopped in its drain, after all of its {seconds:.1} measured seconds: rates are right; \
                 messages that arrived later are in no end-to-end latency"
            ),
            "",
        ),
        Finding::Interrupted { seconds } => (
            format!(
                "the run was stopped after {seconds:.1} measured seconds: its figures are right, but the run is \
                 shorter than planned"
            ),
            "",
        ),
        Finding::LoadEnded { seconds, planned_s, load } => (load_ended(*seconds, *planned_s, *load), ""),
        Finding::TooFewSamples { latencies } => (
            format!(
                "too few samples for {}: a percentile needs 10 samples beyond it; these values are single events",
                too_few_samples(latencies)
            ),
            "measure longer, or at a higher rate",
        ),
        Finding::MessagesLost { sent, lost, duplicated, corrupt, foreign } => (
            format!(
                "of {}, {}{}: end-to-end latencies are those of the others",
                counted(*sent, "message"),
                parts(&[
                    (*lost, "confirmed and never delivered"),
                    (*duplicated, "delivered again without the redelivered flag"),
                    (*corrupt, "damaged"),
                ]),
                perhaps_foreign(*corrupt, *foreign)
            ),
            "check the queue's length and age limits, and the broker's log; with automatic acknowledgement also the \
             events for lost connections, since deliveries in flight are lost with their connection",
        ),
        Finding::MessagesOutstanding { sent, outstanding } => (
            format!(
                "{} of {} confirmed and not delivered when the drain ended (the broker may still hold them): no \
                 end-to-end latency has them, and they would be among the longest",
                count(*outstanding),
                was_or_were(*sent, "message")
            ),
            awaits_longer(w),
        ),
        Finding::MessagesNotReceived { missing, sent, drained_s } => (
            format!(
                "{} not received by the end of the drain ({drained_s:.1} s){}: they are in no end-to-end latency, and \
                 would be among the longest",
                match sent {
                    Some(1) => format!("of 1 delivery, {}", count(*missing)),
                    Some(sent) => format!("of {} deliveries, {}", count(*sent), count(*missing)),
                    None => format!("at least {}", counted(*missing, "message")),
                },
                if sent.is_some() { "; without confirms nobody knows whether the broker has them" } else { "" }
            ),
            awaits_longer(w),
        ),
        Finding::MessagesUnanswered { unanswered, unsent, gone, for_good } => (
            never_answered(*unanswered, *unsent),
            match (unanswered, unsent) {
                _ if *for_good => "",
                _ if *gone => "find out why it went away: check its log, and the machine's",
                _ if w.drain_cut => awaits_longer(w),
                (_, 0) => "use a longer phases.drain, or find out in its log why it is slow",
                (0, _) => "the verdict says what delayed them; request a lower rate",
                _ => {
                    "the verdict says what delayed them; request a lower rate, or use a longer phases.drain for the \
                     answers"
                }
            },
        ),
        Finding::MessagesNotAccepted { sent, nacked, returned, not_confirmed, fault } => (
            format!(
                "of {} sent, {}{}",
                counted(*sent, "message"),
                parts(&[
                    (*nacked, "refused (nack)"),
                    (*returned, "returned (no queue is bound; they were answered, so `completed` counts them)"),
                    (
                        *not_confirmed,
                        &format!("not confirmed (their connections were lost{})", through(fault.as_deref()))
                    ),
                ]),
                match (nacked, not_confirmed) {
                    (0, 0) => "",
                    (_, 0) => ": `completed` and the latencies lack the refused ones",
                    (0, _) =>
                        ": `completed` lacks the unconfirmed ones; the latencies count them with the time until the \
                         reconnect",
                    _ =>
                        ": `completed` and the latencies lack the refused ones; `completed` also lacks the \
                         unconfirmed ones, which the latencies count with the time until the reconnect",
                }
            ),
            match nacked + not_confirmed {
                0 => "bind a queue to the exchange",
                _ if *nacked == 0 && fault.is_some() => "",
                _ => "check the queue's limits and its leader, and the broker's log",
            },
        ),
        Finding::BrokerGone { connections, away, fault: Some(fault) } => (
            format!(
                "{} down when the run ended, because its own {fault} is permanent{}: rates and latencies include \
                 that time",
                was_or_were(*connections, "connection"),
                away.as_ref().map_or_else(String::new, gone_away)
            ),
            "the ledger says what was confirmed and not received; with `for` the fault ends, and a killed node comes \
             back",
        ),
        Finding::BrokerGone { connections, away, .. } => (
            format!(
                "{} still down when the run ended{}: rates are too low, and latencies include the wait",
                was_or_were(*connections, "connection"),
                away.as_ref().map_or_else(String::new, gone_away)
            ),
            "check the broker's log, and the node of each queue; or use a longer run",
        ),
        Finding::ConnectionsLost { connections, away, fault } => (
            format!(
                "{} lost{}{}: latencies include the whole wait, and averages describe no steady state",
                was_or_were(*connections, "connection"),
                through(fault.as_deref()),
                away.as_ref().map_or_else(String::new, gone_away)
            ),
            if fault.is_some() { "" } else { "look at the chart, and check the broker's log" },
        ),
        Finding::CyclesFailed { kind, unit, failed, timed_out, begun, first_failure } => (
            format!(
                "{} of {} of {} failed ({}); the first: {}",
                count(*failed),
                counted(*begun, one(unit)),
                kind,
                latencies_of_failed(*failed, *timed_out),
                match first_failure.as_str() {
                    "" => "see the events",
                    why => why,
                }
            ),
            "",
        ),
        Finding::LostSamples { lost, samples, each } => (
            format!(
                "the profiler lost {} of {}: functions that ran when it was busiest have too low shares",
                count(*lost),
                counted(samples + lost, "sample")
            ),
            match w.event.as_deref() {
                Some(it) if it.starts_with("off-cpu") => {
                    "set profile.stacks = \"frame-pointers\" for smaller samples, or leave bellows more CPU"
                }
                _ if *each => "sample a rarer event, or leave bellows more CPU",
                _ => "lower profile.frequency",
            },
        ),
        Finding::ProfilerThrottled { times } => (
            format!("the kernel throttled the profiler {}: the profile has gaps", counted(*times, "time")),
            "lower profile.frequency, or raise kernel.perf_cpu_time_max_percent",
        ),
        Finding::ArchiveIncomplete { file, folder, why } => (
            format!(
                "{file} in {folder} could not be written: {why}. The printed figures are right, but the archive is \
                 incomplete"
            ),
            "make room or restore the folder, and run again",
        ),
        Finding::ProfileIncomplete { gap } => profile_gap(gap, w.tier, target),
    }
}

fn of_lost_worker(why: &str) -> &'static str {
    match why.starts_with(archive::WORKER_STOPPED) {
        true => "somebody stopped it: start it again, or run with as many workers as there are",
        false => "see what it printed, and whether its machine still runs",
    }
}

fn numbers(nodes: &[usize]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Doubt about damaged messages where other programs' messages came, too.
fn perhaps_foreign(corrupt: u64, foreign: u64) -> String {
    match (corrupt, foreign) {
        (0, _) | (_, 0) => String::new(),
        (_, foreign) => format!(
            " (inconclusive: {} of other programs came, and bodies of 12 to 15 bytes have no check, so a few of them \
             look damaged; send 16 bytes or more)",
            counted(foreign, "message")
        ),
    }
}

/// By which of the run's own faults something was taken, where it was by one.
fn through(fault: Option<&str>) -> String {
    fault.map_or_else(String::new, |fault| format!(" through the run's own {fault}"))
}

fn load_ended(seconds: f64, planned_s: f64, load: Option<u64>) -> String {
    let (whom, so) = match load {
        None => ("the load".to_owned(), "its figures are right for that time"),
        Some(load) => (format!("the program of load {load}"), "the others went on without it"),
    };
    let when = match seconds > 0.0 {
        true => format!("after {seconds:.1} of {planned_s:.1} measured seconds"),
        false => "in the warm-up".to_owned(),
    };
    format!("{whom} ended by itself {when}: {so}")
}

fn profile_gap(gap: &ProfileGap, tier: Tier, target: &str) -> (String, &'static str) {
    match gap {
        ProfileGap::Names { unknown_share } => (
            format!(
                "{} of the samples hold a frame without a name: shares of functions are too low by that much",
                percent(*unknown_share)
            ),
            match target {
                "broker" => "install debug symbols of the broker and its runtime, or unstripped builds",
                _ => "install debug symbols of the server and its runtime, or unstripped builds",
            },
        ),
        ProfileGap::Callers { complete_share, copied_share, runtime } => (
            format!(
                "{} of the stacks reach the root of their thread or Erlang process: total shares of callers are too \
                 low; self shares are right",
                percent(*complete_share)
            ),
            if tier == Tier::Note || *copied_share > 0.5 { "" } else { whole_stacks(runtime) },
        ),
        ProfileGap::Samples { cpu_share } => (
            format!(
                "the samples cover {} of the {target}'s CPU time: short wake-ups are undersampled, and shares are of \
                 the sampled part",
                percent(*cpu_share)
            ),
            "a higher frequency does not help (`bellows help stacks`): compare runs of the same rate",
        ),
        ProfileGap::Probed { probes_share } => (
            format!(
                "{} of the samples are in the kernel's probes, which count the program's calls (asm_exc_int3, \
                 asm_exc_debug): shares of its own functions are too low",
                percent(*probes_share)
            ),
            "sample the event cpu in a run without malloc, malloc-bytes, malloc-held and free",
        ),
        ProfileGap::Other { why } => (why.clone(), ""),
    }
}

/// Remedy for cut stacks, by the runtime of the program.
fn whole_stacks(runtime: &str) -> &'static str {
    match runtime {
        "erlang" => {
            "let bellows copy stacks (root, or the capabilities BPF and PERFMON: `bellows doctor`), or start the node \
             with +JPperf true, for frame pointers"
        }
        "java" => "start the Java virtual machine with -XX:+PreserveFramePointer",
        _ => {
            "let bellows copy stacks (root, or the capabilities BPF and PERFMON: `bellows doctor`), or build the \
             program and its libraries with frame pointers (-fno-omit-frame-pointer)"
        }
    }
}

fn too_few_cores(used: &CoresUsed, target: &str) -> (String, &'static str) {
    let cores = counted(used.cores.into(), "core");
    let (broker, client) = (used.broker_cores, used.client_cores);
    let waits = format!(
        "event loops waited {} of the time in the run queue, the {target}'s threads together {:.2} s per second",
        percent(used.run_queue_wait),
        used.broker_run_queue_wait
    );
    let others = used.other_cores;
    // A rate that was met is not too low.
    let met = used.rate_met;
    if others > 0.0 {
        let text = format!(
            "other processes took {others:.1} of the {cores} that {target} ({broker:.1}) and bellows ({client:.1}) \
             run on ({waits}): {}",
            if met { "latencies are too high" } else { "rates are too low and latencies too high" }
        );
        return (text, "stop those processes, and run again");
    }
    let text = format!(
        "{target} ({broker:.1}) and bellows ({client:.1}) share {cores} ({waits}): on separate machines, {}",
        if met { "latencies would be lower" } else { "rates would be higher and latencies lower" }
    );
    (text, "use a machine with more cores, or run bellows on another")
}

/// The percentiles without support, each with its latencies: `p99.99 and above of ack response (40,000)`.
fn too_few_samples(latencies: &[FewSamples]) -> String {
    let mut percentiles: Vec<(&str, String)> = Vec::new();
    for few in latencies {
        let of = format!("{} ({})", few.latency, count(few.samples));
        match percentiles.last_mut() {
            Some((percentile, all)) if *percentile == few.percentile => {
                *all = format!("{all} and {of}");
            }
            _ => percentiles.push((&few.percentile, of)),
        }
    }
    let all = percentiles.iter().map(|(percentile, all)| format!("{percentile} and above of {all}"));
    all.collect::<Vec<_>>().join(", ")
}

/// A number of things that something became of: `1 connection was`, `2 connections were`.
fn was_or_were(number: u64, what: &str) -> String {
    let verb = if number == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(number, what))
}

fn faults_missed(faults: &MissedFaults) -> (String, &'static str) {
    let missed = parts(&[(faults.failed, "failed"), (faults.not_begun, "had not begun when the run ended")]);
    let late = faults.late;
    let late = (late > 0).then(|| {
        format!(
            "{} up to {:.1} s late, because the one before took longer",
            match late {
                1 => "1 began".to_owned(),
                late => format!("{} began", count(late)),
            },
            faults.latest_s
        )
    });
    let first = match faults.first_failure.as_str() {
        "" => String::new(),
        first => format!(" ({first})"),
    };
    let all: Vec<_> = [(!missed.is_empty()).then(|| format!("{missed}{first}")), late].into_iter().flatten().collect();
    (
        format!("of {}, {}: the run differs from its experiment", counted(faults.planned, "fault"), all.join("; ")),
        match faults.failed {
            0 => "leave more time between faults: RabbitMQ is back some ten seconds after a kill",
            _ => "check the broker's log, and whether the machine ran out of memory (dmesg)",
        },
    )
}

fn rate_not_achieved(
    unit: &str,
    rates: Option<SentOf>,
    not_begun: u64,
    in_flight_limit: u64,
    target: &str,
) -> (String, &'static str) {
    let Some(rates) = rates.filter(|_| not_begun == 0) else {
        let text = format!(
            "{} due and never began, because at most {} may be open at a time: they count in the latencies with the \
             time that they waited",
            was_or_were(not_begun, one(unit)),
            count(in_flight_limit)
        );
        let remedy = if rates.is_none() { words_of(unit).raise_limit } else { "see the verdict for why" };
        return (text, remedy);
    };
    // What a backlog of the warm-up adds to the rate was not due in the measured phase.
    let is_backlogs = rates.sent >= rates.requested;
    let text = format!(
        "{}{} {unit} per second were {} of {} requested: {target} or generator limited the rate, and latencies \
         include the backlog",
        if is_backlogs { "a backlog remained, though " } else { "" },
        rate(rates.sent),
        words_of(unit).begun,
        rate(rates.requested)
    );
    (text, "see the verdict for why")
}

#[cfg(test)]
#[path = "warnings_tests.rs"]
mod tests;
