//! What may be wrong with a run's numbers: it follows from the same facts as the verdict, and from the verdict.
//! Causes that are one are told once.

use archive::WarningCode as Code;
use archive::{Cause, Facts, Lateness, Stall, Stalled, Tier, Warning};
use measure::ledger::LedgerSummary;
use stacks::{Class, Frame, Profile, ProfileSummary, USUAL_EVENT};

use super::limits::Derived;
use super::thresholds::{
    COMPLETE, COVERED, FULL, LAG_SECONDS, LEAST_SAMPLES, NAMELESS, POOR_CLOCKS, PROBED,
    RUN_QUEUE_WAIT, SATURATED, SHORTEST, STEAL, WHOLE,
};

/// All of them, the gravest first; of equal ones what happened to users before what may have disturbed the figures.
pub(super) fn findings(derived: &Derived<'_>, cause: &Cause) -> Vec<Warning> {
    let mut all = Vec::new();
    if derived.e.ended.debug_build {
        all.push(Warning::new(Code::DebugBuild, Tier::Invalid));
    }
    all.extend(of_generator(derived, cause));
    all.extend(stalled(derived));
    all.extend(rate_not_achieved(derived, cause));
    all.extend(churn_not_begun(derived.e));
    all.extend(of_machine(derived.e));
    all.extend(of_messages(derived.e));
    all.extend(of_run(derived.e));
    all.sort_by_key(|warning| (warning.tier, !is_felt(warning.code)));
    all
}

/// Whether users meet it, and not figures alone.
const fn is_felt(code: Code) -> bool {
    matches!(
        code,
        Code::MessagesLost
            | Code::CyclesFailed
            | Code::MessagesNotAccepted
            | Code::ConnectionsLost
            | Code::BrokerGone
            | Code::NodeGone
    )
}

/// The generator's event loops, and the cores that it shares: the first of these explains the others.
fn of_generator(derived: &Derived<'_>, cause: &Cause) -> Option<Warning> {
    let e = derived.e;
    // What happened at the start of a phase says nothing of the rest.
    if e.seconds < SHORTEST {
        return None;
    }
    let late = match cause {
        Cause::RateMet { late } => *late,
        _ => None,
    };
    let on_time = matches!(cause, Cause::RateMet { late: None });
    if derived.at_work >= SATURATED && !on_time {
        let warning = Warning::new(Code::GeneratorSaturated, Tier::Invalid);
        let warning = warning.with("at_work", derived.at_work);
        let warning = warning.with("threads", e.loops.len());
        return Some(warning.with("unit", e.items()));
    }
    if lacks_cores(derived, cause, late) {
        return Some(
            Warning::new(Code::TooFewCores, Tier::Caution)
                .with("cores", e.ended.own_cores.unwrap_or(e.all_cores()))
                .with(
                    "broker_cores",
                    e.broker.as_ref().map_or(0.0, |used| used.cores),
                )
                .with("client_cores", e.client_cores.unwrap_or(0.0))
                .with("other_cores", derived.others.unwrap_or(0.0))
                .with("run_queue_wait", derived.run_queue_wait)
                .with("broker_run_queue_wait", e.broker_run_queue_wait())
                .with("rate_met", derived.reached_rate()),
        );
    }
    let unscheduled = e.requested_rate.is_none() && e.lag_explains >= LAG_SECONDS;
    let is_late = late == Some(Lateness::Generator) || *cause == Cause::GeneratorLate;
    (is_late || unscheduled).then(|| {
        Warning::new(Code::GeneratorLate, Tier::Caution)
            .with("late_share", e.late_share)
            .with("lag_seconds_share", e.lag_explains)
            .with("lag_max_ns", e.loop_lag_max_ns)
            .with("scheduled", e.requested_rate.is_some())
            .with("unit", e.items())
    })
}

/// Broker or generator waited in the run queue so long that the latencies hold it.
fn lacks_cores(derived: &Derived<'_>, cause: &Cause, late: Option<Lateness>) -> bool {
    let e = derived.e;
    let decided = matches!(
        cause,
        Cause::OthersFillMachine
            | Cause::StalledForCores
            | Cause::GeneratorLacksCores { .. }
            | Cause::BothFillMachine
            | Cause::MachineFull
            | Cause::BrokerLacksCores { .. }
    );
    let used = e.client_cores.unwrap_or(0.0) + e.broker.as_ref().map_or(0.0, |used| used.cores);
    // Of cores that neither may use, the machine's idle time says nothing.
    let full = e.ended.own_cores.map_or(derived.full, |cores| {
        used >= f64::from(cores) * (1.0 - FULL)
    });
    let competes = e.same_machine && !e.apart && full && waited(derived) && used >= 0.1;
    decided || late == Some(Lateness::Cores) || competes
}

/// Whether broker or generator waited for a core.
fn waited(derived: &Derived<'_>) -> bool {
    derived.run_queue_wait >= RUN_QUEUE_WAIT || derived.e.broker_run_queue_wait() >= RUN_QUEUE_WAIT
}

/// One for each who stood still.
fn stalled(derived: &Derived<'_>) -> impl Iterator<Item = Warning> {
    let e = derived.e;
    [Stalled::Broker, Stalled::Generator, Stalled::Machine]
        .into_iter()
        .filter_map(move |who| {
            // What passed without a connection is told with the connections' loss.
            let all = || e.stood_still(who);
            // The broker's is a fact about the broker; the latencies hold all of it, as users would feel it.
            let tier = if who == Stalled::Broker {
                Tier::Note
            } else {
                Tier::Caution
            };
            let mut warning = Warning::new(Code::Stalled, tier).with("who", who.name());
            // One that sleeps on a full machine waits for no core.
            let (waited_s, is_known) = e.waited_in_stalls(who);
            if let Some(others) = derived.others.filter(|_| derived.waited_for_cores(who)) {
                warning = warning
                    .with("other_cores", others)
                    .with("waited_s", waited_s);
            } else if !derived.waited_for_cores(who) && !is_known {
                warning = warning.with("wait", "unknown");
            }
            let mut told = with_longest(warning, all)?.with("unit", e.items());
            let fault = e.fault_within(told.number("at_s"), told.number("for_s"));
            if let Some(fault) = fault.filter(|_| who == Stalled::Broker) {
                told = told.with("fault", fault.name.as_str());
            }
            Some(told)
        })
}

/// Adds the longest of some stalls; `None` where there are none.
fn with_longest<'a, I: Iterator<Item = &'a Stall>>(
    warning: Warning,
    all: impl Fn() -> I,
) -> Option<Warning> {
    let longest = all().max_by(|a, b| a.for_s.total_cmp(&b.for_s))?;
    let delayed: u64 = all().map(|stall| stall.messages_delayed).sum();
    let failed: u64 = all().map(|stall| stall.failed).sum();
    let warning = warning
        .with("times", all().count())
        .with("at_s", longest.at_s)
        .with("for_s", longest.for_s)
        .with("connections", longest.connections)
        .with("messages_delayed", delayed);
    Some(match failed {
        0 => warning,
        _ => warning.with("failed", failed),
    })
}

/// Connections that were lost, and how long none was left.
fn lost(warning: Warning, count: u64, e: &Facts) -> Warning {
    let away = || e.stalls().filter(|stall| stall.away);
    let told = with_longest(warning.clone(), away);
    told.unwrap_or(warning).with("connections", count)
}

fn rate_not_achieved(derived: &Derived<'_>, cause: &Cause) -> Option<Warning> {
    let e = derived.e;
    let requested = e.requested_rate?;
    let mut churn = e.ended.churn.iter();
    let not_begun = churn
        .find(|churn| !churn.beside)
        .map_or(0, |churn| churn.not_begun);
    // These say it themselves.
    let told = matches!(
        cause,
        Cause::TooShort
            | Cause::BrokeOff
            | Cause::AllFailed
            | Cause::GeneratorBusy
            | Cause::GeneratorLacksCores { .. }
    );
    if told || derived.reached_rate() && not_begun == 0 {
        return None;
    }
    let warning = Warning::new(Code::RateNotAchieved, Tier::Caution)
        .with("unit", e.items())
        .with("sent_rate", e.sent_rate)
        .with("requested_rate", requested)
        .with("not_begun", not_begun)
        .with("in_flight_limit", e.in_flight_limit.unwrap_or(0));
    Some(warning)
}

/// The verdict is about the first scenario, and says nothing of the churn beside it.
fn churn_not_begun(e: &Facts) -> impl Iterator<Item = Warning> {
    let churn = e.ended.churn.iter();
    let churn = churn.filter(|churn| churn.beside && churn.not_begun > 0);
    churn.map(|churn| {
        Warning::new(Code::RateNotAchieved, Tier::Caution)
            .with("not_begun", churn.not_begun)
            .with("in_flight_limit", churn.in_flight_limit)
            .with("beside", true)
            .with("unit", churn.unit.as_str())
    })
}

fn of_machine(e: &Facts) -> Vec<Warning> {
    // Of a moment, one tick of the machine's account would be much.
    let steal = e.steal.filter(|it| *it >= STEAL && e.seconds >= SHORTEST);
    let steal = steal.map(|steal| Warning::new(Code::CpuSteal, Tier::Caution).with("steal", steal));
    let clock = e.ended.clock_source.as_deref();
    let clock = clock.filter(|name| POOR_CLOCKS.contains(name));
    let clock =
        clock.map(|name| Warning::new(Code::ClockNotSteady, Tier::Caution).with("clock", name));
    steal.into_iter().chain(clock).collect()
}

fn of_messages(e: &Facts) -> Vec<Warning> {
    let ended = &e.ended;
    let mut all = Vec::new();
    if let Some((times, reasons)) = &ended.blocked {
        let warning = Warning::new(Code::ConnectionBlocked, Tier::Caution);
        all.push(
            warning
                .with("times", *times)
                .with("reasons", reasons.as_str()),
        );
    }
    if let Some(ledger) = &ended.ledger {
        all.extend(of_ledger(ledger));
    }
    if ended.down_connections > 0 {
        // What the run itself took away for good is what it is about.
        let warning = match &ended.for_good {
            Some(fault) => {
                Warning::new(Code::BrokerGone, Tier::Caution).with("fault", fault.as_str())
            }
            None => Warning::new(Code::BrokerGone, Tier::Invalid),
        };
        all.push(lost(warning, ended.down_connections, e));
    } else if ended.lost_connections > 0 {
        let warning = Warning::new(Code::ConnectionsLost, Tier::Caution);
        all.push(lost(warning, ended.lost_connections, e));
    }
    if ended.unanswered + ended.unsent > 0 {
        let warning = Warning::new(Code::MessagesUnanswered, Tier::Caution);
        all.push(
            warning
                .with("unanswered", ended.unanswered)
                .with("unsent", ended.unsent)
                .with("gone", ended.down_connections > 0),
        );
    }
    // Those in flight at the end have a warning of their own.
    let given_up = ended.unconfirmed.saturating_sub(ended.unanswered);
    if ended.nacked + ended.returned + given_up > 0 {
        all.push(
            Warning::new(Code::MessagesNotAccepted, Tier::Caution)
                .with("sent", ended.sent)
                .with("nacked", ended.nacked)
                .with("returned", ended.returned)
                .with("not_confirmed", given_up),
        );
    }
    for churn in ended.churn.iter().filter(|churn| churn.failed > 0) {
        let why = churn.first_failure.as_deref().unwrap_or_default();
        all.push(
            Warning::new(Code::CyclesFailed, Tier::Caution)
                .with("kind", churn.kind.as_str())
                .with("unit", churn.unit.as_str())
                .with("failed", churn.failed)
                .with("timed_out", churn.timed_out)
                .with("begun", churn.begun)
                .with("first_failure", why),
        );
    }
    all
}

fn of_ledger(ledger: &LedgerSummary) -> Vec<Warning> {
    let mut all = Vec::new();
    if ledger.lost + ledger.duplicated + ledger.corrupt > 0 {
        all.push(
            Warning::new(Code::MessagesLost, Tier::Invalid)
                .with("sent", ledger.sent)
                .with("lost", ledger.lost)
                .with("duplicated", ledger.duplicated)
                .with("corrupt", ledger.corrupt)
                .with("foreign", ledger.foreign),
        );
    }
    if ledger.outstanding > 0 {
        let warning = Warning::new(Code::MessagesOutstanding, Tier::Caution);
        all.push(
            warning
                .with("sent", ledger.sent)
                .with("outstanding", ledger.outstanding),
        );
    }
    all
}

/// How the run went, as a whole.
fn of_run(e: &Facts) -> Vec<Warning> {
    let ended = &e.ended;
    let mut all = Vec::new();
    if let Some(change) = ended.trend {
        let warning = Warning::new(Code::NotSteadyState, Tier::Caution);
        all.push(
            warning
                .with("change", change)
                .with("seconds", ended.seconds),
        );
    }
    if ended.insecure {
        all.push(Warning::new(Code::CertificateNotChecked, Tier::Invalid));
    }
    if ended.interrupted {
        all.push(Warning::new(Code::Interrupted, Tier::Note).with("seconds", e.seconds));
    }
    if !ended.too_few.is_empty() {
        let of = |(name, samples, percentile): &(String, u64, String)| serde_json::json!({ "latency": name, "samples": samples, "percentile": percentile });
        let latencies: Vec<_> = ended.too_few.iter().map(of).collect();
        let warning = Warning::new(Code::TooFewSamples, Tier::Note);
        all.push(warning.with("latencies", latencies));
    }
    all
}

/// What the profiler reports.
pub(crate) fn profile_findings(outcome: &profile::Outcome) -> Vec<Warning> {
    let mut all = Vec::new();
    if outcome.lost > 0 {
        let warning = Warning::new(Code::LostSamples, Tier::Caution);
        all.push(
            warning
                .with("lost", outcome.lost)
                .with("samples", outcome.taken.max(outcome.samples)),
        );
    }
    if outcome.throttled > 0 {
        let warning = Warning::new(Code::ProfilerThrottled, Tier::Caution);
        all.push(warning.with("times", outcome.throttled));
    }
    if !outcome.notes.is_empty() {
        all.push(profile_incomplete(&outcome.notes.join("; ")));
    }
    all
}

/// What a profile lacks: names of functions, callers, samples.
pub(crate) fn profile_gaps(profile: &ProfileSummary) -> Vec<Warning> {
    let warning = |tier| Warning::new(Code::ProfileIncomplete, tier);
    let mut all = Vec::new();
    if profile.samples < LEAST_SAMPLES {
        return all;
    }
    if profile.unknown_share >= NAMELESS {
        let value = profile.unknown_share;
        all.push(warning(Tier::Caution).with("unknown_share", value));
    }
    if profile.complete_share < WHOLE {
        let tier = if profile.complete_share < COMPLETE {
            Tier::Caution
        } else {
            Tier::Note
        };
        all.push(
            warning(tier)
                .with("complete_share", profile.complete_share)
                .with("copied_share", profile.copied_share)
                .with("runtime", runtime(profile)),
        );
    }
    if let Some(share) = profile.cpu_share.filter(|share| *share < COVERED) {
        all.push(warning(Tier::Caution).with("cpu_share", share));
    }
    all
}

/// How much of the CPU the kernel's probes take: it stops a program by an exception where a function is looked at.
pub(crate) fn probed(profile: &Profile) -> Option<Warning> {
    let is_trap = |frame: &Frame| matches!(&*frame.name, "asm_exc_int3" | "asm_exc_debug");
    let share = (profile.header.event == USUAL_EVENT).then(|| profile.share_with(is_trap))?;
    let warning = Warning::new(Code::ProfileIncomplete, Tier::Caution);
    (share >= PROBED).then(|| warning.with("probes_share", share))
}

/// What executes the profiled program, by the classes that its samples have.
fn runtime(profile: &ProfileSummary) -> &'static str {
    let mut classes = profile.classes.iter();
    let runtime = classes.find_map(|it| match it.class {
        Class::ErlangCode => Some("erlang"),
        Class::JavaCode => Some("java"),
        _ => None,
    });
    runtime.unwrap_or("native")
}

/// A part of the profile is missing, for this reason.
pub(crate) fn profile_incomplete(why: &str) -> Warning {
    Warning::new(Code::ProfileIncomplete, Tier::Caution).with("why", why)
}
