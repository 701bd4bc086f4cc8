//! Sentences of warnings: the observation, the number it puts in doubt and which way, and the remedy.

use archive::{CoresUsed, FewSamples, Finding, MissedFaults, ProfileGap, SentOf, Tier, Warning};
use measure::Nanos;

use super::stalls::{gone_away, one, stalled};
use super::{looks, of_server};
use crate::numbers::{count, counted, percent, rate};

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
#[must_use]
pub fn warning(warning: &Warning) -> String {
    let (text, remedy) = told(warning);
    // Names the profile, where it is not the usual one.
    let text = match &warning.event {
        None => text,
        Some(event) => format!("{event}: {text}"),
    };
    let sentence = if remedy.is_empty() {
        text
    } else {
        format!("{text}; {remedy}")
    };
    match warning.of_server {
        true => of_server(&sentence),
        false => sentence,
    }
}

/// Counts other than 0, in words.
fn parts(parts: &[(u64, &str)]) -> String {
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts
        .map(|(number, what)| format!("{} {what}", count(*number)))
        .collect();
    parts.join(", ")
}

/// Share of failed operations in the latencies.
fn latencies_of_failed(failed: u64, timed_out: u64) -> String {
    let hold = "time-outs, which latencies hold with the time they waited";
    let others = match timed_out {
        0 => "and have no latency".to_owned(),
        _ if timed_out >= failed => return format!("all by {hold}"),
        _ => format!("{} by {hold}; the others have no latency", count(timed_out)),
    };
    format!("{others}: what users felt is worse than the percentiles say")
}

/// Remedy for messages that had not come when the drain ended.
const fn awaits_longer(warning: &Warning) -> &'static str {
    match warning.drain_cut {
        true => "let the drain end by itself",
        false => "allow a longer phases.drain, or let consumers keep up",
    }
}

/// Text and remedy of each code.
fn told(w: &Warning) -> (String, &'static str) {
    match &w.finding {
        Finding::DebugBuild {} => (
            "this is a debug build of bellows, several times slower than a release build: rates and CPU of the \
             client say nothing"
                .to_owned(),
            archive::RELEASE_BUILD,
        ),
        Finding::GeneratorSaturated { at_work, unit, .. } => (
            format!(
                "an event loop of the generator was at work for {} of the time: the rate is its own limit, not the \
                 broker's, and latencies are too high",
                percent(*at_work)
            ),
            match unit.as_str() {
                "messages" => "use more --threads, and more cores if need be",
                _ => "run several at once, and use more cores if need be",
            },
        ),
        // Without a schedule nothing has a time at which it should have been sent.
        Finding::GeneratorLate {
            lag_max_ns,
            lag_seconds_share,
            scheduled: false,
            ..
        } => (
            format!(
                "the generator's event loops took up to {} for a turn, in {} of the seconds half of the p99 or more: \
                 ack response and end-to-end are too high by that",
                Nanos(*lag_max_ns),
                percent(*lag_seconds_share)
            ),
            "leave it a free core, or lower the load",
        ),
        Finding::GeneratorLate {
            lag_max_ns,
            late_share,
            unit,
            ..
        } => (
            format!(
                "the generator was late by up to {}, {} of the {} by over 1 ms: {} are too high by that",
                Nanos(*lag_max_ns),
                percent(*late_share),
                unit,
                match unit.as_str() {
                    "messages" => "ack response and end-to-end",
                    _ => "their times",
                }
            ),
            "leave it a free core, or lower the load",
        ),
        Finding::TooFewCores { used } => too_few_cores(used),
        Finding::Stalled {
            who,
            stood,
            wait,
            fault,
            unit,
        } => stalled(*who, stood, *wait, fault.as_deref(), unit),
        Finding::RateNotAchieved {
            unit,
            rates,
            not_begun,
            in_flight_limit,
        } => rate_not_achieved(unit, *rates, *not_begun, *in_flight_limit),
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
                "the kernel keeps time by {clock}, which is slow to read and coarse: latencies below about 10 us are \
                 in doubt, and reading it costs CPU"
            ),
            "see available_clocksource in /sys/devices/system/clocksource/clocksource0 for tsc or kvm-clock",
        ),
        Finding::ConnectionBlocked {
            times,
            reasons,
            fault,
        } => (
            format!(
                "the broker blocked publishers {} ({reasons}){}: rates are too low and latencies too high for its \
                 speed{}",
                counted(*times, "time"),
                through(fault.as_deref()),
                if fault.is_some() { "" } else { ", they show its alarm" }
            ),
            match fault {
                Some(_) => "",
                None => "raise its memory or disk limit, or consume what is published",
            },
        ),
        Finding::NotSteadyState { change, seconds } => (
            format!(
                "the rate {} by {} in the course of the {}: its average describes no state that \
                 lasts",
                if *change > 0.0 { "rose" } else { "fell" },
                percent(change.abs()),
                counted(*seconds, "measured second")
            ),
            "use a longer phases.warmup, and look at the chart",
        ),
        Finding::ScrapesFailed {
            page,
            failed,
            requests,
            last_failure,
        } => (
            format!(
                "{} of {} of {page} failed, and their series have gaps; the last: {last_failure}",
                count(*failed),
                counted(*requests, "scrape")
            ),
            "",
        ),
        Finding::FaultsMissed { faults } => faults_missed(faults),
        Finding::TraceEnded {
            functions,
            why,
            limit,
            at_s,
        } => looks::trace_ended(functions, why, limit, *at_s),
        Finding::Traced { functions } => looks::traced(functions),
        Finding::LookedInto {
            looks,
            commands,
            seconds,
        } => looks::looked_into(*looks, commands, *seconds),
        Finding::NotPermitted { feature, instead } => (
            format!("the broker no longer permits the feature {feature}: {instead}"),
            "ask for what stood in, or permit it in rabbitmq.conf (deprecated_features.permit.NAME = true)",
        ),
        Finding::NodeGone { nodes } => (
            format!(
                "node{} {} of the cluster {} not there any more when the run ended: what it carried, its clients had \
                 to find elsewhere",
                if nodes.len() > 1 { "s" } else { "" },
                numbers(nodes),
                if nodes.len() > 1 { "were" } else { "was" },
            ),
            "look whether the machine ran out of memory (dmesg), and into the node's log",
        ),
        Finding::NothingSelected { page, what } => (
            format!("of {page}, {what}"),
            "change what is selected, or name the page that has it",
        ),
        Finding::CertificateNotChecked {} => (
            "--insecure: the broker's certificate was not checked, so nobody knows whose numbers these are, or who \
             saw the password"
                .to_owned(),
            "name the authority with --ca FILE (broker.ca)",
        ),
        Finding::Interrupted { seconds } if w.drain_cut => (
            format!(
                "the run was stopped in its drain, after all of its {seconds:.1} measured seconds: rates are right, \
                 and what had not come by then is in no end-to-end latency"
            ),
            "",
        ),
        Finding::Interrupted { seconds } => (
            format!(
                "the run was stopped after {seconds:.1} measured seconds: what is printed is right for them, and \
                 shorter than planned"
            ),
            "",
        ),
        Finding::LoadEnded {
            seconds,
            planned_s,
            load,
        } => (load_ended(*seconds, *planned_s, *load), ""),
        Finding::TooFewSamples { latencies } => (
            format!(
                "too few samples for {}: a percentile needs 10 samples beyond it, those values are single events",
                too_few_samples(latencies)
            ),
            "measure longer, or at a higher rate",
        ),
        Finding::MessagesLost {
            sent,
            lost,
            duplicated,
            corrupt,
            foreign,
        } => (
            format!(
                "of {}, {}{}: end-to-end latencies are those of the others",
                counted(*sent, "message"),
                parts(&[
                    (*lost, "confirmed and never delivered"),
                    (*duplicated, "delivered again without the redelivered flag"),
                    (*corrupt, "damaged"),
                ]),
                by_chance(*corrupt, *foreign)
            ),
            "look for limits of length or age on the queue, and into the broker's log; with automatic acknowledgement \
             also for lost connections among the events: what waits for a consumer is lost with its connection",
        ),
        Finding::MessagesOutstanding { sent, outstanding } => (
            format!(
                "of {}, {} confirmed and not delivered when the drain ended, and the broker may still hold that: it is \
                 in no end-to-end latency, and would be among the longest",
                counted(*sent, "message"),
                count(*outstanding)
            ),
            awaits_longer(w),
        ),
        Finding::MessagesNotReceived {
            missing,
            sent,
            drained_s,
        } => (
            format!(
                "{} not received by the end of the drain ({drained_s:.1} s){}: no end-to-end latency holds them, and \
                 theirs would be among the longest",
                match sent {
                    Some(1) => format!("of 1 delivery, {}", count(*missing)),
                    Some(sent) => format!("of {} deliveries, {}", count(*sent), count(*missing)),
                    None => format!("at least {}", counted(*missing, "message")),
                },
                match sent {
                    Some(_) => ", and without confirms nobody knows whether the broker has them",
                    None => "",
                }
            ),
            awaits_longer(w),
        ),
        Finding::MessagesUnanswered {
            unanswered,
            unsent,
            gone,
            for_good,
        } => (
            format!(
                "of the messages, {}: they count in the latencies with the time they had waited at the end, so high \
                 percentiles and the maximum are at least what is printed",
                parts(&[
                    (*unanswered, "without an answer"),
                    (*unsent, "due and never sent")
                ])
            ),
            match (unanswered, unsent) {
                _ if *for_good => "",
                _ if *gone => {
                    "find out why the broker went away: its log, and the machine's at that time"
                }
                _ if w.drain_cut => awaits_longer(w),
                (_, 0) => {
                    "the broker had not answered when the drain ended: give it more time (phases.drain), or find out \
                     in its log why it is slow"
                }
                (0, _) => {
                    "more messages were due than could be sent by the end of the measured phase: the verdict says what \
                     held them up; request a lower rate, or remove that limit"
                }
                _ => {
                    "more messages were due than could be sent and answered: the verdict says what held them up; \
                     request a lower rate, or give the broker more time for answers (phases.drain)"
                }
            },
        ),
        Finding::MessagesNotAccepted {
            sent,
            nacked,
            returned,
            not_confirmed,
            fault,
        } => (
            format!(
                "of {} sent, {}{}",
                counted(*sent, "message"),
                parts(&[
                    (*nacked, "refused (nack)"),
                    (
                        *returned,
                        "returned (no queue is bound where they were sent; answered all the same, so in `completed`)"
                    ),
                    (
                        *not_confirmed,
                        &format!(
                            "not confirmed (their connections were lost{})",
                            through(fault.as_deref())
                        )
                    ),
                ]),
                match (nacked, not_confirmed) {
                    (0, 0) => "",
                    (_, 0) => ": those refused are missing from `completed` and from the latencies",
                    (0, _) =>
                        ": those not confirmed are missing from `completed`; in the latencies they count with the \
                         time until a connection was back",
                    _ =>
                        ": those refused are missing from `completed` and from the latencies; those not confirmed \
                         from `completed`, and count in the latencies with the time until a connection was back",
                }
            ),
            match nacked + not_confirmed {
                0 => "bind a queue where they are sent",
                _ if *nacked == 0 && fault.is_some() => "",
                _ => "look for a queue's limits and its leader, and into the broker's log",
            },
        ),
        Finding::BrokerGone {
            connections,
            away,
            fault: Some(fault),
        } => (
            format!(
                "{} down when the run ended{}, for its own {fault} was for good: rates hold the time since then, and \
                 latencies what waited until the end",
                was_or_were(*connections, "connection"),
                away.as_ref().map_or_else(String::new, gone_away)
            ),
            "the ledger says what had been confirmed and was not received; with `for` the fault ends, and what was \
             killed comes back",
        ),
        Finding::BrokerGone {
            connections, away, ..
        } => (
            format!(
                "{} down when the run ended, and did not come back{}: rates are too low, and latencies hold what \
                 waited until then",
                was_or_were(*connections, "connection"),
                away.as_ref().map_or_else(String::new, gone_away)
            ),
            "look into the broker's log, and at the node of each queue; allow a longer run",
        ),
        Finding::ConnectionsLost {
            connections,
            away,
            fault,
        } => (
            format!(
                "{} lost{}{}: latencies hold the whole wait, and averages describe no state that lasts",
                was_or_were(*connections, "connection"),
                through(fault.as_deref()),
                away.as_ref().map_or_else(String::new, gone_away)
            ),
            match fault {
                Some(_) => "",
                None => "look at the chart, and into the broker's log",
            },
        ),
        Finding::CyclesFailed {
            kind,
            unit,
            failed,
            timed_out,
            begun,
            first_failure,
        } => (
            format!(
                "{} of {} of {} failed, {}; the first: {}",
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
        Finding::LostSamples {
            lost,
            samples,
            each,
        } => (
            format!(
                "the profiler lost {} of {}: shares of functions are too low where it was busiest",
                count(*lost),
                counted(samples + lost, "sample")
            ),
            match w.event.as_deref() {
                Some(it) if it.starts_with("off-cpu") => {
                    "set profile.stacks = \"frame-pointers\": such samples are smaller; or leave bellows more CPU"
                }
                _ if *each => {
                    "sample fewer of the events that count each call, or leave bellows more CPU"
                }
                _ => "lower profile.frequency",
            },
        ),
        Finding::ProfilerThrottled { times } => (
            format!(
                "the kernel throttled the profiler {}: there are gaps in the profile",
                counted(*times, "time")
            ),
            "lower profile.frequency, or raise kernel.perf_cpu_time_max_percent",
        ),
        Finding::ArchiveIncomplete { file, folder, why } => (
            format!(
                "{file} in {folder} could not be written: {why}. What was printed is right, but the archive lacks it"
            ),
            "make room or restore the folder, and run again",
        ),
        Finding::ProfileIncomplete { gap } => profile_gap(gap, w.tier),
    }
}

fn numbers(nodes: &[usize]) -> String {
    let all: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    all.join(", ")
}

/// Chance that damaged messages are others', where others' came, too.
fn by_chance(corrupt: u64, foreign: u64) -> String {
    match (corrupt, foreign) {
        (0, _) | (_, 0) => String::new(),
        (_, foreign) => format!(
            " (cannot tell at 12 to 15 bytes, where bodies have no check and some of the {} of other programs that \
             came look damaged by chance: send 16 bytes or more)",
            counted(foreign, "message")
        ),
    }
}

/// By which of the run's own faults something was taken, where it was by one.
fn through(fault: Option<&str>) -> String {
    fault.map_or_else(String::new, |fault| {
        format!(" through the run's own {fault}")
    })
}

fn load_ended(seconds: f64, planned_s: f64, load: Option<u64>) -> String {
    let (whom, so) = match load {
        None => ("the load".to_owned(), "what is printed is right for them"),
        Some(load) => (
            format!("the program of load {load}"),
            "the others went on without it",
        ),
    };
    let when = match seconds > 0.0 {
        true => format!("after {seconds:.1} of {planned_s:.1} measured seconds"),
        false => "in the warm-up".to_owned(),
    };
    format!("{whom} ended by itself {when}: {so}")
}

fn profile_gap(gap: &ProfileGap, tier: Tier) -> (String, &'static str) {
    match gap {
        ProfileGap::Names { unknown_share } => (
            format!(
                "{} of the samples hold a frame without a name: shares of functions are too low by what ran in those",
                percent(*unknown_share)
            ),
            "install the debug symbols of the broker and its runtime, or one that is not stripped",
        ),
        ProfileGap::Callers {
            complete_share,
            copied_share,
            runtime,
        } => (
            format!(
                "{} of the stacks reach the root of their thread or Erlang process: total shares of callers are too \
                 low, shares at the leaf (self) hold",
                percent(*complete_share)
            ),
            match tier == Tier::Note || *copied_share > 0.5 {
                true => "",
                false => whole_stacks(runtime),
            },
        ),
        ProfileGap::Samples { cpu_share } => (
            format!(
                "the samples stand for {} of the CPU time that the broker used: threads that wake for less than a \
                 millisecond at a time have too few, and shares are of what was sampled",
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
            "take the event cpu in a run without malloc, malloc-bytes, malloc-held and free",
        ),
        ProfileGap::Other { why } => (why.clone(), ""),
    }
}

/// Remedy for cut stacks, by the runtime of the program.
fn whole_stacks(runtime: &str) -> &'static str {
    match runtime {
        "erlang" => {
            "let stacks be copied (root, or the capabilities BPF and PERFMON: `bellows doctor`), or start the node \
             with +JPperf true, for frame pointers"
        }
        "java" => "start the Java virtual machine with -XX:+PreserveFramePointer",
        _ => {
            "let stacks be copied (root, or the capabilities BPF and PERFMON: `bellows doctor`), or build the program \
             and its libraries with frame pointers (-fno-omit-frame-pointer)"
        }
    }
}

fn too_few_cores(used: &CoresUsed) -> (String, &'static str) {
    let cores = counted(used.cores.into(), "core");
    let (broker, client) = (used.broker_cores, used.client_cores);
    let waits = format!(
        "event loops waited {} of the time in the run queue, the broker's threads together {:.2} s each second",
        percent(used.run_queue_wait),
        used.broker_run_queue_wait
    );
    let others = used.other_cores;
    // A rate that was met is not too low.
    let met = used.rate_met;
    if others > 0.0 {
        let text = format!(
            "other processes took {others:.1} of the {cores} that the broker ({broker:.1}) and bellows \
             ({client:.1}) run on ({waits}): {}",
            if met {
                "latencies are too high"
            } else {
                "rates are too low and latencies too high"
            }
        );
        return (text, "stop them, and run again");
    }
    let text = format!(
        "the broker used {broker:.1} cores and bellows {client:.1} of the {cores} they share ({waits}): apart, {}",
        if met {
            "latencies would be lower"
        } else {
            "rates would be higher and latencies lower"
        }
    );
    (
        text,
        "use a machine with more cores for both, or put the broker on another",
    )
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
    let percentiles = percentiles.iter();
    let told = percentiles.map(|(percentile, all)| format!("{percentile} and above of {all}"));
    told.collect::<Vec<_>>().join(", ")
}

/// A number of things that something became of: `1 connection was`, `2 connections were`.
fn was_or_were(number: u64, what: &str) -> String {
    let verb = if number == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(number, what))
}

/// Faults that failed, did not begin, or began late.
fn faults_missed(faults: &MissedFaults) -> (String, &'static str) {
    let missed = parts(&[
        (faults.failed, "could not be done"),
        (faults.not_begun, "had not begun when the run ended"),
    ]);
    let late = faults.late;
    let late = (late > 0).then(|| {
        format!(
            "{} up to {:.1} s after the time in the experiment, because the one before took longer",
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
    let said = [
        (!missed.is_empty()).then(|| format!("{missed}{first}")),
        late,
    ];
    let said: Vec<_> = said.into_iter().flatten().collect();
    (
        format!(
            "of {}, {}: the run does not show what its experiment says",
            counted(faults.planned, "fault"),
            said.join("; ")
        ),
        match faults.failed {
            0 => "leave more time between faults: RabbitMQ is back some ten seconds after a kill",
            _ => "look into the broker's log, and whether the machine ran out of memory (dmesg)",
        },
    )
}

fn rate_not_achieved(
    unit: &str,
    rates: Option<SentOf>,
    not_begun: u64,
    in_flight_limit: u64,
) -> (String, &'static str) {
    let Some(rates) = rates.filter(|_| not_begun == 0) else {
        let text = format!(
            "{} due and found no room before the end: they count in the latencies with the time that they had \
             waited by then (--max-open, {} = {})",
            was_or_were(not_begun, one(unit)),
            match unit {
                "requests" => "the probe's max-open",
                _ => "churn.max-open",
            },
            count(in_flight_limit)
        );
        let remedy = match rates {
            None => "raise it, or request fewer",
            Some(_) => "see the verdict for why",
        };
        return (text, remedy);
    };
    let what = match unit {
        "cycles" => "were begun",
        _ => "were sent",
    };
    let text = format!(
        "{} {} a second {what} where {} were requested: rates are the broker's or the generator's, not the schedule's, \
         and latencies hold what waited",
        rate(rates.sent),
        unit,
        rate(rates.requested)
    );
    (text, "see the verdict for why")
}

#[cfg(test)]
#[path = "warnings_tests.rs"]
mod tests;
