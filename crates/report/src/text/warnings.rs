//! What each warning says: what was observed, which number that puts in doubt and which way, and what to do.

use archive::{Tier, Warning, WarningCode};
use measure::Nanos;

use super::loaded;
use super::stalls::{away, items, one, stalled};
use crate::numbers::{count, counted, percent, rate};

/// What a broker, a library or a system said within the sentence of a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaidWithin {
    /// The name among the warning's values.
    pub(crate) name: &'static str,
    pub(crate) text: String,
    /// It begins as a sentence of bellows, and they said what stands behind the first colon.
    pub(crate) has_cause: bool,
}

/// What others said within a warning's sentence, the longer first: one may be a part of another.
pub(crate) fn said_within(warning: &Warning) -> Vec<SaidWithin> {
    let values = [
        ("first_failure", true),
        ("last_failure", true),
        ("reasons", false),
    ];
    let said = values.map(|(name, has_cause)| SaidWithin {
        name,
        text: warning.word(name).to_owned(),
        has_cause,
    });
    let mut said: Vec<_> = said.into_iter().filter(|it| !it.text.is_empty()).collect();
    said.sort_by_key(|it| std::cmp::Reverse(it.text.len()));
    said
}

/// Makes the sentence of a warning: text; remedy.
#[must_use]
pub fn warning(warning: &Warning) -> String {
    let (text, remedy) = told(warning);
    // What is said of a profile is said of which, where it is not the usual one.
    let text = match warning.word("event") {
        "" => text,
        event => format!("{event}: {text}"),
    };
    let sentence = if remedy.is_empty() {
        text
    } else {
        format!("{text}; {remedy}")
    };
    loaded::for_warning(sentence, warning)
}

/// Those of the counts that are not 0, in words.
fn parts(warning: &Warning, parts: &[(&str, &str)]) -> String {
    let parts = parts.iter().filter(|(name, _)| warning.count(name) > 0);
    let parts: Vec<String> = parts
        .map(|(name, what)| format!("{} {what}", count(warning.count(name))))
        .collect();
    parts.join(", ")
}

/// What latencies hold of operations that failed.
fn latencies_of_failed(failed: u64, timed_out: u64) -> String {
    let hold = "time-outs, which latencies hold with the time they waited";
    let others = match timed_out {
        0 => "and have no latency".to_owned(),
        _ if timed_out >= failed => return format!("all by {hold}"),
        _ => format!("{} by {hold}; the others have no latency", count(timed_out)),
    };
    format!("{others}: what users felt is worse than the percentiles say")
}

/// Text and remedy of each code.
fn told(w: &Warning) -> (String, &'static str) {
    match w.code {
        WarningCode::DebugBuild => (
            "this is a debug build of bellows, several times slower than a release build: rates and CPU of the \
             client say nothing"
                .to_owned(),
            archive::RELEASE_BUILD,
        ),
        WarningCode::GeneratorSaturated => (
            format!(
                "an event loop of the generator was at work for {} of the time: the rate is its own limit, not the \
                 broker's, and latencies are too high",
                percent(w.number("at_work"))
            ),
            match items(w) {
                "messages" => "use more --threads, and more cores if need be",
                _ => "run several at once, and use more cores if need be",
            },
        ),
        // Without a schedule nothing has a time at which it should have been sent.
        WarningCode::GeneratorLate if w.values.get("scheduled").is_some_and(|it| it == false) => (
            format!(
                "the generator's event loops took up to {} for a turn, in {} of the seconds half of the p99 or more: ack \
                 response and end-to-end are too high by that",
                Nanos(w.count("lag_max_ns")),
                percent(w.number("lag_seconds_share"))
            ),
            "leave it a free core, or lower the load",
        ),
        WarningCode::GeneratorLate => (
            format!(
                "the generator was late by up to {}, {} of the {} by over 1 ms: {} are too high by that",
                Nanos(w.count("lag_max_ns")),
                percent(w.number("late_share")),
                items(w),
                match items(w) {
                    "messages" => "ack response and end-to-end",
                    _ => "their times",
                }
            ),
            "leave it a free core, or lower the load",
        ),
        WarningCode::TooFewCores => too_few_cores(w),
        WarningCode::Stalled => stalled(w),
        WarningCode::RateNotAchieved => rate_not_achieved(w),
        WarningCode::CpuSteal => (
            format!(
                "the hypervisor took {} of the machine's CPU time: high percentiles are too high, and rates vary \
                 from run to run",
                percent(w.number("steal"))
            ),
            "use a machine with dedicated cores, or repeat the run",
        ),
        WarningCode::ClockNotSteady => (
            format!(
                "the kernel keeps time by {}, which is slow to read and coarse: latencies below about 10 us are in \
                 doubt, and reading it costs CPU",
                w.word("clock")
            ),
            "see available_clocksource in /sys/devices/system/clocksource/clocksource0 for tsc or kvm-clock",
        ),
        WarningCode::ConnectionBlocked => (
            format!(
                "the broker blocked publishers {} ({}): rates are too low and latencies too high for its \
                 speed, they show its alarm",
                counted(w.count("times"), "time"),
                w.word("reasons")
            ),
            "raise its memory or disk limit, or consume what is published",
        ),
        WarningCode::NotSteadyState => (
            format!(
                "the rate {} by {} in the course of the {}: its average describes no state that \
                 lasts",
                if w.number("change") > 0.0 { "rose" } else { "fell" },
                percent(w.number("change").abs()),
                counted(w.count("seconds"), "measured second")
            ),
            "use a longer phases.warmup, and look at the chart",
        ),
        WarningCode::ScrapesFailed => (
            format!(
                "{} of {} of {} failed, and their series have gaps; the last: {}",
                count(w.count("failed")),
                counted(w.count("requests"), "scrape"),
                w.word("page"),
                w.word("last_failure")
            ),
            "",
        ),
        WarningCode::FaultsMissed => faults_missed(w),
        WarningCode::TraceEnded | WarningCode::Traced | WarningCode::LookedInto => {
            super::looks::told(w)
        }
        WarningCode::NotPermitted => (
            format!(
                "the broker no longer permits the feature {}: {}",
                w.word("feature"),
                w.word("instead")
            ),
            "ask for what stood in, or permit it in rabbitmq.conf (deprecated_features.permit.NAME = true)",
        ),
        WarningCode::NodeGone => (
            format!(
                "node{} {} of the cluster {} not there any more when the run ended: what it carried, its clients had to \
                 find elsewhere",
                if w.count("count") > 1 { "s" } else { "" },
                w.word("nodes"),
                if w.count("count") > 1 { "were" } else { "was" },
            ),
            "look whether the machine ran out of memory (dmesg), and into the node's log",
        ),
        WarningCode::NothingSelected => (
            format!("of {}, {}", w.word("page"), w.word("what")),
            "change what is selected, or name the page that has it",
        ),
        WarningCode::CertificateNotChecked => (
            "--insecure: the broker's certificate was not checked, so nobody knows whose numbers these are, or who \
             saw the password"
                .to_owned(),
            "name the authority with --ca FILE (broker.ca)",
        ),
        WarningCode::Interrupted => (
            format!(
                "the run was stopped after {:.1} measured seconds: what is printed is right for them, and shorter \
                 than planned",
                w.number("seconds")
            ),
            "",
        ),
        WarningCode::TooFewSamples => (
            format!(
                "too few samples for {}: a percentile needs 10 samples beyond it, those values are single events",
                too_few_samples(w)
            ),
            "measure longer, or at a higher rate",
        ),
        _ => told_of_messages(w),
    }
}

/// What is to be known of damaged messages where others' came, too.
fn by_chance(w: &Warning) -> String {
    match (w.count("corrupt"), w.count("foreign")) {
        (0, _) | (_, 0) => String::new(),
        (_, foreign) => format!(
            " (cannot tell at 12 to 15 bytes, where bodies have no check and some of the {} of other programs that came look \
             damaged by chance: send 16 bytes or more)",
            counted(foreign, "message")
        ),
    }
}

fn told_of_messages(w: &Warning) -> (String, &'static str) {
    match w.code {
        WarningCode::MessagesLost => (
            format!(
                "of {}, {}{}: end-to-end latencies are those of the others",
                counted(w.count("sent"), "message"),
                parts(
                    w,
                    &[
                        ("lost", "confirmed and never delivered"),
                        ("duplicated", "delivered again without the redelivered flag"),
                        ("corrupt", "damaged"),
                    ]
                ),
                by_chance(w)
            ),
            "look for limits of length or age on the queue, and into the broker's log; with automatic acknowledgement also for \
             lost connections among the events: what waits for a consumer is lost with its connection",
        ),
        WarningCode::MessagesOutstanding => (
            format!(
                "of {}, {} confirmed and not delivered when the drain ended, and the broker may still hold that: it is \
                 in no end-to-end latency, and would be among the longest",
                counted(w.count("sent"), "message"),
                count(w.count("outstanding"))
            ),
            "allow a longer phases.drain, or let consumers keep up",
        ),
        WarningCode::MessagesUnanswered => (
            format!(
                "of the messages, {}: they count in the latencies with the time they had waited at the end, so high \
                 percentiles and the maximum are at least what is printed",
                parts(
                    w,
                    &[
                        ("unanswered", "without an answer"),
                        ("unsent", "due and never sent")
                    ]
                )
            ),
            match (w.count("unanswered"), w.count("unsent")) {
                _ if w.values.get("gone").is_some_and(|it| it == true) => {
                    "find out why the broker went away: its log, and the machine's at that time"
                }
                (_, 0) => {
                    "the broker had not answered when the drain ended: give it more time (phases.drain), or find out in \
                     its log why it is slow"
                }
                (0, _) => {
                    "more messages were due than could be sent by the end of the measured phase: the verdict says what \
                     held them up; request a lower rate, or remove that limit"
                }
                _ => {
                    "more messages were due than could be sent and answered: the verdict says what held them up; request \
                     a lower rate, or give the broker more time for answers (phases.drain)"
                }
            },
        ),
        WarningCode::MessagesNotAccepted => (
            format!(
                "of {} sent, {}{}",
                counted(w.count("sent"), "message"),
                parts(
                    w,
                    &[
                        ("nacked", "refused (nack)"),
                        (
                            "returned",
                            "returned (no queue is bound where they were sent; answered all the same, so in `completed`)"
                        ),
                        (
                            "not_confirmed",
                            "not confirmed (their connections were lost)"
                        ),
                    ]
                ),
                match (w.count("nacked"), w.count("not_confirmed")) {
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
            match w.count("nacked") + w.count("not_confirmed") {
                0 => "bind a queue where they are sent",
                _ => "look for a queue's limits and its leader, and into the broker's log",
            },
        ),
        WarningCode::BrokerGone if !w.word("fault").is_empty() => (
            format!(
                "{} down when the run ended{}, for its own {} was for good: rates hold the time since then, and latencies what \
                 waited until the end",
                was_or_were(w.count("connections"), "connection"),
                away(w),
                w.word("fault"),
            ),
            "the ledger says what had been confirmed and was not received; with `for` the fault ends, and what was killed comes back",
        ),
        WarningCode::BrokerGone => (
            format!(
                "{} down when the run ended, and did not come back{}: rates are too low, and latencies hold what \
                 waited until then",
                was_or_were(w.count("connections"), "connection"),
                away(w)
            ),
            "look into the broker's log, and at the node of each queue; allow a longer run",
        ),
        WarningCode::ConnectionsLost => (
            format!(
                "{} lost{}: latencies hold the whole wait, and averages describe no state that lasts",
                was_or_were(w.count("connections"), "connection"),
                away(w)
            ),
            "look at the chart, and into the broker's log",
        ),
        WarningCode::CyclesFailed => (
            format!(
                "{} of {} of {} failed, {}; the first: {}",
                count(w.count("failed")),
                counted(
                    w.count("begun"),
                    match w.word("unit") {
                        "" => "cycle",
                        unit => one(unit),
                    }
                ),
                w.word("kind"),
                latencies_of_failed(w.count("failed"), w.count("timed_out")),
                match w.word("first_failure") {
                    "" => "see the events",
                    why => why,
                }
            ),
            "",
        ),
        WarningCode::LostSamples => (
            format!(
                "the profiler lost {} of {}: shares of functions are too low where it was busiest",
                count(w.count("lost")),
                counted(w.count("samples") + w.count("lost"), "sample")
            ),
            match w.word("event") {
                it if it.starts_with("off-cpu") => {
                    "set profile.stacks = \"frame-pointers\": such samples are smaller; or leave bellows more CPU"
                }
                _ if w.values.contains_key("each") => {
                    "sample fewer of the events that count each call, or leave bellows more CPU"
                }
                _ => "lower profile.frequency",
            },
        ),
        WarningCode::ProfilerThrottled => (
            format!(
                "the kernel throttled the profiler {}: there are gaps in the profile",
                counted(w.count("times"), "time")
            ),
            "lower profile.frequency, or raise kernel.perf_cpu_time_max_percent",
        ),
        WarningCode::ArchiveIncomplete => (
            format!(
                "{} in {} could not be written: {}. What was printed is right, but the archive lacks it",
                w.word("file"),
                w.word("folder"),
                w.word("why")
            ),
            "make room or restore the folder, and run again",
        ),
        WarningCode::ProfileIncomplete if w.values.contains_key("unknown_share") => (
            format!(
                "{} of the samples hold a frame without a name: shares of functions are too low by what ran in those",
                percent(w.number("unknown_share"))
            ),
            "install the debug symbols of the broker and its runtime, or one that is not stripped",
        ),
        WarningCode::ProfileIncomplete if w.values.contains_key("complete_share") => (
            format!(
                "{} of the stacks reach the root of their thread or Erlang process: total shares of callers are too \
                 low, shares at the leaf (self) hold",
                percent(w.number("complete_share"))
            ),
            whole_stacks(w),
        ),
        WarningCode::ProfileIncomplete if w.values.contains_key("cpu_share") => (
            format!(
                "the samples stand for {} of the CPU time that the broker used: threads that wake for less than a \
                 millisecond at a time have too few, and shares are of what was sampled",
                percent(w.number("cpu_share"))
            ),
            "a higher frequency does not help (`bellows help stacks`): compare runs of the same rate",
        ),
        WarningCode::ProfileIncomplete if w.values.contains_key("probes_share") => (
            format!(
                "{} of the samples are in the kernel's probes, which count the program's calls (asm_exc_int3, asm_exc_debug): \
                 shares of its own functions are too low",
                percent(w.number("probes_share"))
            ),
            "take the event cpu in a run without malloc, malloc-bytes, malloc-held and free",
        ),
        // The profiler's own words.
        _ => (w.word("why").to_owned(), ""),
    }
}

/// What makes the stacks of a program whole, by what executes it.
fn whole_stacks(w: &Warning) -> &'static str {
    match w.word("runtime") {
        _ if w.tier == Tier::Note || w.number("copied_share") > 0.5 => "",
        "erlang" => {
            "let stacks be copied (root, or the capabilities BPF and PERFMON: `bellows doctor`), or start the node with \
             +JPperf true, for frame pointers"
        }
        "java" => "start the Java virtual machine with -XX:+PreserveFramePointer",
        _ => {
            "let stacks be copied (root, or the capabilities BPF and PERFMON: `bellows doctor`), or build the program and \
             its libraries with frame pointers (-fno-omit-frame-pointer)"
        }
    }
}

fn too_few_cores(w: &Warning) -> (String, &'static str) {
    let cores = counted(w.count("cores"), "core");
    let (broker, client) = (w.number("broker_cores"), w.number("client_cores"));
    let waits = format!(
        "event loops waited {} of the time in the run queue, the broker's threads together {:.2} s each second",
        percent(w.number("run_queue_wait")),
        w.number("broker_run_queue_wait")
    );
    let others = w.number("other_cores");
    // A rate that was met is not too low.
    let met = w.values.get("rate_met").is_some_and(|it| it == true);
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
fn too_few_samples(w: &Warning) -> String {
    let all = w.values.get("latencies").and_then(|it| it.as_array());
    let mut percentiles: Vec<(&str, String)> = Vec::new();
    for latency in all.into_iter().flatten() {
        let word = |name: &str| latency.get(name).and_then(|it| it.as_str()).unwrap_or("");
        let samples = latency.get("samples").and_then(|it| it.as_u64());
        let of = format!("{} ({})", word("latency"), count(samples.unwrap_or(0)));
        match percentiles.last_mut() {
            Some((percentile, all)) if *percentile == word("percentile") => {
                *all = format!("{all} and {of}");
            }
            _ => percentiles.push((word("percentile"), of)),
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
fn faults_missed(w: &Warning) -> (String, &'static str) {
    let missed = parts(
        w,
        &[
            ("failed", "could not be done"),
            ("not_begun", "had not begun when the run ended"),
        ],
    );
    let late = w.count("late");
    let late = (late > 0).then(|| {
        format!(
            "{} up to {:.1} s after the time in the experiment, because the one before took longer",
            match late {
                1 => "1 began".to_owned(),
                late => format!("{} began", count(late)),
            },
            w.number("latest_s")
        )
    });
    let first = match w.word("first_failure") {
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
            counted(w.count("planned"), "fault"),
            said.join("; ")
        ),
        match w.count("failed") {
            0 => "leave more time between faults: RabbitMQ is back some ten seconds after a kill",
            _ => "look into the broker's log, and whether the machine ran out of memory (dmesg)",
        },
    )
}

fn rate_not_achieved(w: &Warning) -> (String, &'static str) {
    if w.count("not_begun") > 0 {
        let text = format!(
            "{} due and found no room before the end: they count in the latencies with the time that they had \
             waited by then (--max-open, {} = {})",
            was_or_were(w.count("not_begun"), one(items(w))),
            match items(w) {
                "requests" => "the probe's max-open",
                _ => "churn.max-open",
            },
            count(w.count("in_flight_limit"))
        );
        let remedy = if w.values.contains_key("beside") {
            "raise it, or request fewer"
        } else {
            "see the verdict for why"
        };
        return (text, remedy);
    }
    let what = match items(w) {
        "cycles" => "were begun",
        _ => "were sent",
    };
    let text = format!(
        "{} {} a second {what} where {} were requested: rates are the broker's or the generator's, not the schedule's, \
         and latencies hold what waited",
        rate(w.number("sent_rate")),
        items(w),
        rate(w.number("requested_rate"))
    );
    (text, "see the verdict for why")
}

#[cfg(test)]
#[path = "warnings_tests.rs"]
mod tests;
