//! What may be wrong with a run's numbers: pure functions from what was observed to typed
//! warnings. Each text says what was observed, which number that puts in doubt, and what to do.

mod cycles;
mod steady;

use archive::{Warning, WarningCode};
use measure::ledger::LedgerSummary;
use measure::{Counters, LatencySummary, Metric, Nanos, PerMetric};

pub(crate) use cycles::ChurnFacts;
pub(crate) use steady::trend;

/// A generator thread that uses this much of a core has no time to spare.
const BUSY_THREAD: f64 = 0.9;
/// Below this share of the requested rate, the rate was not achieved.
const ACHIEVED: f64 = 0.995;
/// More messages than this share sent over 1 ms late spoil "achieved" too.
const LATE: f64 = 0.01;
/// Loop lag below this is what an operating system does.
const LAG_FLOOR: Nanos = Nanos::from_millis(1);
/// The loop lag explains a second's latency where it is at least this part of its p99, …
const LAG_PART: f64 = 0.5;
/// … and the run's where that holds for this share of the seconds.
pub(crate) const LAG_SECONDS: f64 = 0.1;
/// A machine that is idle for less than this share of its time is full.
const IDLE: f64 = 0.05;
/// Cores taken by other processes from which on they are what stands in the way.
const OTHERS: f64 = 0.5;
/// Steal below this is noise.
const STEAL: f64 = 0.01;
/// Clock sources that are slow to read (about 1 us) or coarse.
const POOR_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// What was observed of a run, in the units of the names; the measured phase unless said
/// otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Cores that broker and bellows may use.
    pub(crate) cores: u32,
    /// They have no core in common.
    pub(crate) apart: bool,
    /// Broker and generator share this machine.
    pub(crate) shared_machine: bool,
    /// The kernel's clock source.
    pub(crate) clock_source: Option<String>,
    /// Measured length.
    pub(crate) length: Nanos,
    /// Counts.
    pub(crate) counters: Counters,
    /// Messages sent with confirms that had no answer when the drain ended.
    pub(crate) unconfirmed: u64,
    /// Messages that were asked for, and their standard deviation where that is by chance; none
    /// when all-out.
    pub(crate) requested: Option<(f64, f64)>,
    /// Latencies.
    pub(crate) latency: PerMetric<LatencySummary>,
    /// Per second: loop lag and 99th percentile of the headline latencies, nanoseconds.
    pub(crate) lag_and_p99: Vec<(u64, u64)>,
    /// Per whole second: messages sent or, without producers, received.
    pub(crate) rates: Vec<f64>,
    /// CPU of each event loop as a part of a core.
    pub(crate) threads: Vec<f64>,
    /// The event loops spun while they waited: their CPU says nothing.
    pub(crate) spun: bool,
    /// CPU of the broker's process tree, in cores.
    pub(crate) broker_cores: Option<f64>,
    /// CPU of bellows, in cores.
    pub(crate) client_cores: Option<f64>,
    /// Share of the machine's time that nobody used.
    pub(crate) idle: Option<f64>,
    /// Share of the machine's time that its hypervisor took.
    pub(crate) steal: Option<f64>,
    /// How often the broker blocked publishers, and its words for it.
    pub(crate) blocked: Option<(u64, String)>,
    /// Stopped before its time.
    pub(crate) interrupted: bool,
    /// Connections that were lost and made anew.
    pub(crate) lost_connections: u64,
    /// The broker's certificate was not checked.
    pub(crate) insecure: bool,
    /// What was done to the broker.
    pub(crate) faults: usize,
    /// What became of every message, where that is known.
    pub(crate) ledger: Option<LedgerSummary>,
    /// What became of cycles, in a run of churn.
    pub(crate) churn: Option<ChurnFacts>,
}

/// All warnings that follow from the facts, the gravest for the numbers first.
pub(crate) fn warnings(facts: &Facts) -> Vec<Warning> {
    let rules: [fn(&Facts) -> Option<Warning>; 18] = [
        debug_build,
        certificate_not_checked,
        generator_saturated,
        rate_not_achieved,
        cycles::rate_not_achieved,
        cycles::cycles_failed,
        too_few_cores,
        cpu_steal,
        clock_not_steady,
        connection_blocked,
        messages_lost,
        messages_outstanding,
        connections_lost,
        messages_not_accepted,
        not_steady_state,
        interrupted,
        too_few_samples,
        cycles::too_few_samples,
    ];
    rules.into_iter().filter_map(|rule| rule(facts)).collect()
}

fn debug_build(_: &Facts) -> Option<Warning> {
    cfg!(debug_assertions).then(|| {
        Warning::new(
            WarningCode::DebugBuild,
            "this is a debug build of bellows, several times slower than a release build: rates \
             and CPU of the client say nothing; build with cargo build --release",
        )
    })
}

fn certificate_not_checked(facts: &Facts) -> Option<Warning> {
    facts.insecure.then(|| {
        Warning::new(
            WarningCode::CertificateNotChecked,
            "--insecure: the broker's certificate was not checked, so nobody knows whose numbers \
             these are, or who saw the password; name the authority with --ca FILE (broker.ca)",
        )
    })
}

fn generator_saturated(facts: &Facts) -> Option<Warning> {
    let warning = |text: String| Some(Warning::new(WarningCode::GeneratorSaturated, text));
    let busiest = facts.threads.iter().copied().fold(0.0, f64::max);
    if !facts.spun && busiest >= BUSY_THREAD {
        return warning(format!(
            "a thread of the generator used {:.0} % of a core: rates and latencies may be its own \
             limit, not the broker's; use more --threads, and more cores if need be",
            busiest * 100.0
        ));
    }
    let seconds = lag_explains(&facts.lag_and_p99);
    if seconds == 0 || (seconds as f64) < facts.lag_and_p99.len() as f64 * LAG_SECONDS {
        return None;
    }
    let worst = facts
        .lag_and_p99
        .iter()
        .map(|(lag, _)| *lag)
        .max()
        .unwrap_or(0);
    warning(format!(
        "the generator itself was up to {} late, in {seconds} of {} seconds by more than half of \
         the 99th percentile: the latencies are partly its own; leave it a free core, or lower \
         the load",
        Nanos(worst),
        facts.lag_and_p99.len()
    ))
}

/// In how many seconds the generator's own lag is more than half of the 99th percentile.
pub(crate) fn lag_explains(lag_and_p99: &[(u64, u64)]) -> usize {
    let explains = |&&(lag, p99): &&(u64, u64)| {
        lag >= LAG_FLOOR.0 && p99 > 0 && lag as f64 >= p99 as f64 * LAG_PART
    };
    lag_and_p99.iter().filter(explains).count()
}

/// A rate, with decimal places where it is small.
fn shown(rate: f64) -> String {
    if rate < 100.0 {
        format!("{rate:.2}")
    } else {
        format!("{rate:.0}")
    }
}

fn rate_not_achieved(facts: &Facts) -> Option<Warning> {
    let (asked, deviation) = facts.requested?;
    let seconds = facts.length.as_secs_f64();
    if facts.interrupted && seconds < 1.0 || seconds <= 0.0 {
        return None;
    }
    let sent = facts.counters.sent as f64;
    let (achieved, requested) = (sent / seconds, asked / seconds);
    let late = facts.counters.late as f64 / facts.counters.sent.max(1) as f64;
    // One message more or less is a matter of where the phase was cut; what random arrivals lack by
    // chance is within 4 standard deviations.
    let short = sent < asked * ACHIEVED && asked - sent >= 1.5 + 4.0 * deviation;
    if !short && late <= LATE {
        return None;
    }
    // Without confirms nothing is answered.
    let answered = match facts.latency.ack_response.count {
        0 => sent,
        count => count as f64,
    };
    let blocked = facts.counters.blocked as f64 / facts.counters.sent.max(1) as f64;
    let remedy = if facts.lost_connections > 0 || facts.faults > 0 {
        "what became due while the broker was away had to wait".to_owned()
    } else if short && facts.unconfirmed > 0 {
        format!(
            "the broker left {} messages unanswered: look into its log, and at the chart for since \
             when",
            facts.unconfirmed
        )
    } else if blocked > 0.01 {
        format!(
            "{:.0} % found --max-pending used up: raise it, or ask for less than the broker can \
             take",
            blocked * 100.0
        )
    } else {
        "the generator was late: use more --threads or free cores, or ask for less".to_owned()
    };
    Some(Warning::new(
        WarningCode::RateNotAchieved,
        if short {
            format!(
                "{} messages per second were sent where {} were asked for, {:.1} % of them over \
                 1 ms late: ack response and end-to-end count that delay, as users would feel it, \
                 but {:.0} messages that were due are in neither, because they were not sent or not \
                 answered; {remedy}",
                shown(achieved),
                shown(requested),
                late * 100.0,
                (asked - answered).max(0.0)
            )
        } else {
            format!(
                "{:.1} % of the messages were sent over 1 ms after their time: ack response and \
                 end-to-end count that delay, as users would feel it; {remedy}",
                late * 100.0
            )
        },
    ))
}

/// The broker may use whole cores at once, so its need is rounded up; each event loop needs one
/// while it is busy.
fn too_few_cores(facts: &Facts) -> Option<Warning> {
    let broker = facts.broker_cores?;
    if !facts.shared_machine {
        return None;
    }
    let client = facts.client_cores.unwrap_or(0.0);
    let loops = facts.threads.len().max(1) as f64;
    let needed = (broker - 0.05).max(0.0).ceil() + client.ceil().max(loops);
    let busy = broker + client >= f64::from(facts.cores) * (1.0 - IDLE);
    let full = facts.idle.map_or(busy, |idle| idle < IDLE);
    if (facts.apart || needed <= f64::from(facts.cores)) && !full {
        return None;
    }
    let others = taken_by_others(facts);
    if let Some(others) = others.filter(|others| *others >= OTHERS) {
        return Some(Warning::new(
            WarningCode::TooFewCores,
            format!(
                "other processes took {others:.1} of the {} cores that the broker ({broker:.1}) and \
                 bellows ({client:.1}) run on: rates and latencies are partly their doing; stop them, \
                 and run again",
                facts.cores
            ),
        ));
    }
    if facts.apart {
        // Neither can take what the other has for itself.
        return None;
    }
    let idle = facts.idle.map_or_else(String::new, |idle| {
        format!(", and {:.0} % of the machine stood idle", idle * 100.0)
    });
    // Where other processes filled the machine, more cores than it has are needed all the same.
    let advised = needed.max(f64::from(facts.cores) + 1.0);
    Some(Warning::new(
        WarningCode::TooFewCores,
        format!(
            "the broker used {broker:.1} cores and bellows {client:.1} of the {} they share{idle}: \
             they take CPU time from each other, so rates and latencies would be better apart; \
             use a machine with at least {advised:.0} cores for both, or put the broker on another",
            facts.cores
        ),
    ))
}

/// Cores that neither broker nor bellows nor the hypervisor used.
fn taken_by_others(facts: &Facts) -> Option<f64> {
    let free = facts.idle? + facts.steal.unwrap_or(0.0);
    let busy = f64::from(facts.cores) * (1.0 - free);
    Some(busy - facts.broker_cores.unwrap_or(0.0) - facts.client_cores.unwrap_or(0.0))
}

fn cpu_steal(facts: &Facts) -> Option<Warning> {
    let steal = facts.steal.filter(|steal| *steal >= STEAL)?;
    Some(Warning::new(
        WarningCode::CpuSteal,
        format!(
            "the hypervisor took {:.1} % of the machine's CPU time: high percentiles and maxima \
             may be its doing, and rates vary from run to run; use a machine with dedicated cores, \
             or repeat the run",
            steal * 100.0
        ),
    ))
}

fn clock_not_steady(facts: &Facts) -> Option<Warning> {
    let source = facts
        .clock_source
        .as_deref()
        .filter(|name| POOR_CLOCKS.contains(name))?;
    Some(Warning::new(
        WarningCode::ClockNotSteady,
        format!(
            "the kernel keeps time by {source}, which is slow to read and coarse: latencies below \
             about 10 us are in doubt, and reading it costs CPU; see available_clocksource in \
             /sys/devices/system/clocksource/clocksource0 for tsc or kvm-clock"
        ),
    ))
}

fn connection_blocked(facts: &Facts) -> Option<Warning> {
    let (times, reasons) = facts.blocked.as_ref()?;
    Some(Warning::new(
        WarningCode::ConnectionBlocked,
        format!(
            "the broker blocked publishers {times} time(s) ({reasons}): rates and latencies show its \
             alarm, not its speed; raise its memory or disk limit, or consume what is published",
        ),
    ))
}

fn messages_lost(facts: &Facts) -> Option<Warning> {
    let ledger = facts.ledger?;
    let parts = [
        (ledger.lost, "confirmed and never delivered"),
        (
            ledger.duplicated,
            "delivered again without the redelivered flag",
        ),
        (ledger.corrupt, "damaged"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!parts.is_empty()).then(|| {
        Warning::new(
            WarningCode::MessagesLost,
            format!(
                "of {} messages, {}: end-to-end latencies are those of the others; look for limits \
                 of length or age on the queue, and into the broker's log",
                ledger.sent,
                parts.join(", ")
            ),
        )
    })
}

fn messages_outstanding(facts: &Facts) -> Option<Warning> {
    let ledger = facts.ledger.filter(|ledger| ledger.outstanding > 0)?;
    Some(Warning::new(
        WarningCode::MessagesOutstanding,
        format!(
            "of {} messages, {} were confirmed and had not been delivered when the drain ended; the \
             broker may still hold them: they are in no end-to-end latency, and would be among the \
             longest; allow a longer phases.drain, or let consumers keep up",
            ledger.sent, ledger.outstanding
        ),
    ))
}

fn connections_lost(facts: &Facts) -> Option<Warning> {
    (facts.lost_connections > 0).then(|| {
        Warning::new(
            WarningCode::ConnectionsLost,
            format!(
                "{} connections were lost: what became due meanwhile is in the latencies with its \
                 whole wait if it was sent and answered in the end, and the averages describe no \
                 state that lasts; look at the chart, and into the broker's log",
                facts.lost_connections
            ),
        )
    })
}

fn messages_not_accepted(facts: &Facts) -> Option<Warning> {
    let parts = [
        (
            facts.counters.nacked,
            "refused (nack): a queue's limit is reached, or it has no leader",
        ),
        (
            facts.counters.returned,
            "returned: no queue is bound where they were sent",
        ),
        (
            facts.unconfirmed,
            if facts.lost_connections > 0 {
                "not confirmed: their connections were lost"
            } else {
                "not confirmed by the end of the drain: allow a longer phases.drain"
            },
        ),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!parts.is_empty()).then(|| {
        Warning::new(
            WarningCode::MessagesNotAccepted,
            format!(
                "of {} messages sent, {}; they are missing from `completed` and from the latencies",
                facts.counters.sent,
                parts.join("; ")
            ),
        )
    })
}

fn not_steady_state(facts: &Facts) -> Option<Warning> {
    // A schedule's rate is what it should be; when it is not, that is `rate_not_achieved`.
    if facts.requested.is_some() {
        return None;
    }
    let change = trend(&facts.rates)?;
    Some(Warning::new(
        WarningCode::NotSteadyState,
        format!(
            "the rate {} by {:.0} % in the course of the {} measured seconds: its average \
             describes no state that lasts; use a longer phases.warmup, and look at the chart",
            if change > 0.0 { "rose" } else { "fell" },
            change.abs() * 100.0,
            facts.rates.len()
        ),
    ))
}

fn interrupted(facts: &Facts) -> Option<Warning> {
    facts.interrupted.then(|| {
        Warning::new(
            WarningCode::Interrupted,
            format!(
                "the run was stopped after {:.1} measured seconds: what is printed is right for \
                 them, and shorter than planned",
                facts.length.as_secs_f64()
            ),
        )
    })
}

fn too_few_samples(facts: &Facts) -> Option<Warning> {
    let unsupported = |metric: Metric| {
        let summary = facts.latency.get(metric);
        let first = LatencySummary::PERCENTILES
            .iter()
            .find(|(p, _)| !summary.supports(*p))?;
        (summary.count > 0).then(|| {
            format!(
                "{} has {} samples, too few for {}",
                metric.name(),
                summary.count,
                first.1
            )
        })
    };
    let parts: Vec<String> = [Metric::AckResponse, Metric::EndToEnd]
        .into_iter()
        .filter_map(unsupported)
        .collect();
    (!parts.is_empty()).then(|| {
        Warning::new(
            WarningCode::TooFewSamples,
            format!(
                "{} and above (a percentile needs 10 samples beyond it): those values are single \
                 events; measure longer, or at a higher rate",
                parts.join("; ")
            ),
        )
    })
}

/// What the profiler reports.
pub(crate) fn profile_warnings(outcome: &profile::Outcome) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if outcome.lost > 0 {
        let all = (outcome.samples + outcome.lost).max(1);
        warnings.push(Warning::new(
            WarningCode::LostSamples,
            format!(
                "the profiler lost {} of {all} samples: shares of functions may be off where it was \
                 busiest; lower profile.frequency",
                outcome.lost
            ),
        ));
    }
    if outcome.throttled > 0 {
        warnings.push(Warning::new(
            WarningCode::ProfilerThrottled,
            format!(
                "the kernel throttled the profiler {} time(s): there are gaps in the profile; lower \
                 profile.frequency, or raise kernel.perf_cpu_time_max_percent",
                outcome.throttled
            ),
        ));
    }
    if !outcome.notes.is_empty() {
        warnings.push(Warning::new(
            WarningCode::ProfileIncomplete,
            outcome.notes.join("; "),
        ));
    }
    warnings
}

#[cfg(test)]
mod tests;
