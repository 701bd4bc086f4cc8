//! Warnings about a run's numbers, which follow from the verdict and its facts. A common cause is reported once.

use archive::WarningCode as Code;
use archive::{
    Cause, CoresUsed, Facts, FewSamples, Finding, Lateness, ProfileGap, SentOf, Stall, StallWait, Stalled, Stood, Tier,
    Warning,
};
use measure::ledger::LedgerSummary;
use stacks::{Class, Frame, Profile, ProfileSummary, USUAL_EVENT};

use super::limits::Derived;
use super::thresholds::{
    COMPLETE, COVERED, FULL, LAG_SECONDS, LEAST_SAMPLES, NAMELESS, POOR_CLOCKS, PROBED, RUN_QUEUE_WAIT, SATURATED,
    SHORTEST, STEAL, WHOLE,
};

/// Share of a stall by which a worker's event loops were late, at least, where it is that worker's.
const MOST_OF_STALL: f64 = 0.5;

/// All warnings, gravest first; among equals those that users felt before those that may have disturbed the figures.
pub(super) fn findings(derived: &Derived<'_>, cause: &Cause) -> Vec<Warning> {
    let mut all = Vec::new();
    if derived.e.ended.debug_build {
        all.push(Warning::new(Tier::Invalid, Finding::DebugBuild {}));
    }
    all.extend(of_generator(derived, cause));
    all.extend(stalled(derived));
    all.extend(rate_not_achieved(derived, cause));
    all.extend(churn_not_begun(derived.e));
    all.extend(of_machine(derived.e));
    all.extend(of_messages(derived.e));
    all.extend(of_run(derived.e));
    all.sort_by_key(|warning| (warning.tier, !is_felt(warning.code())));
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
    let (is_met, late) = match cause {
        Cause::RateMet { late } => (true, *late),
        Cause::SomeFailed => (true, derived.lateness()),
        _ => (false, None),
    };
    let unit = e.items().to_owned();
    if derived.at_work >= SATURATED && (!is_met || late.is_some()) {
        let (at_work, threads) = (derived.at_work, e.loops.len() as u64);
        return Some(Warning::new(Tier::Invalid, Finding::GeneratorSaturated { at_work, threads, unit }));
    }
    if lacks_cores(derived, cause, late) {
        let used = CoresUsed {
            cores: e.ended.own_cores.unwrap_or(e.all_cores()),
            broker_cores: e.broker.as_ref().map_or(0.0, |used| used.cores),
            client_cores: e.client_cores.unwrap_or(0.0),
            other_cores: derived.others.unwrap_or(0.0),
            run_queue_wait: derived.run_queue_wait,
            broker_run_queue_wait: e.broker_run_queue_wait(),
            rate_met: derived.reached_rate(),
        };
        return Some(caution(Finding::TooFewCores { used }));
    }
    let unscheduled = e.requested_rate.is_none() && e.lag_explains >= LAG_SECONDS;
    let is_late = late == Some(Lateness::Generator) || *cause == Cause::GeneratorLate;
    let late = Finding::GeneratorLate {
        late_share: e.late_share,
        lag_seconds_share: e.lag_explains,
        lag_max_ns: e.loop_lag_max_ns,
        scheduled: e.requested_rate.is_some(),
        unit,
    };
    (is_late || unscheduled).then(|| caution(late))
}

/// Whether run-queue wait of broker or generator was long enough to show in the latencies.
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
    let full = e.ended.own_cores.map_or(derived.full, |cores| used >= f64::from(cores) * (1.0 - FULL));
    let waited = derived.run_queue_wait.max(e.broker_run_queue_wait()) >= RUN_QUEUE_WAIT;
    let competes = e.same_machine && !e.apart && full && waited && used >= 0.1;
    decided || late == Some(Lateness::Cores) || competes
}

fn stalled(derived: &Derived<'_>) -> impl Iterator<Item = Warning> {
    let e = derived.e;
    [Stalled::Broker, Stalled::Generator, Stalled::Machine].into_iter().filter_map(move |who| {
        // What passed without a connection is told with the connections' loss.
        let all = || e.stood_still(who);
        // The broker's is a fact about the broker; the latencies hold all of it, as users would feel it.
        let tier = if who == Stalled::Broker { Tier::Note } else { Tier::Caution };
        let stood = longest(all)?;
        // One that sleeps on a full machine waits for no core.
        let (seconds, is_known) = e.waited_in_stalls(who);
        let wait = match (derived.waited_for_cores(who), derived.others) {
            (true, Some(other_cores)) if seconds > 0.0 => StallWait::ForCores { seconds, other_cores },
            (false, _) if !is_known => StallWait::Unknown,
            _ => StallWait::None,
        };
        let fault = e.fault_within(stood.at_s, stood.for_s).filter(|_| who == Stalled::Broker);
        let (fault, unit) = (fault.map(|it| it.name.clone()), e.items().to_owned());
        let worker = only_late(e, stood.for_s).filter(|_| who == Stalled::Generator);
        Some(Warning::new(tier, Finding::Stalled { who, stood, wait, worker, fault, unit }))
    })
}

/// The only worker of a fleet whose event loops were late by most of this time.
fn only_late(e: &Facts, seconds: f64) -> Option<String> {
    let mut late = e.workers.iter().filter(|it| it.absence.loop_lag_max_s >= seconds * MOST_OF_STALL);
    late.next().filter(|_| late.next().is_none()).map(|it| it.name.clone())
}

/// The longest of some stalls, and sums of all; `None` where there are none.
fn longest<'a, I: Iterator<Item = &'a Stall>>(all: impl Fn() -> I) -> Option<Stood> {
    let longest = all().max_by(|a, b| a.for_s.total_cmp(&b.for_s))?;
    Some(Stood {
        times: all().count() as u64,
        at_s: longest.at_s,
        for_s: longest.for_s,
        connections: longest.connections,
        messages_delayed: all().map(|stall| stall.messages_delayed).sum(),
        failed: all().map(|stall| stall.failed).sum(),
    })
}

fn rate_not_achieved(derived: &Derived<'_>, cause: &Cause) -> Option<Warning> {
    let e = derived.e;
    let requested = e.requested_rate?;
    let not_begun = e.ended.churn.iter().find(|churn| !churn.beside).map_or(0, |churn| churn.not_begun);
    // These say it themselves, but not how many never began.
    let told =
        matches!(cause, Cause::TooShort | Cause::AllFailed | Cause::GeneratorBusy | Cause::GeneratorLacksCores { .. });
    let is_known = not_begun == 0 && (told || derived.reached_rate());
    if is_known || *cause == Cause::BrokeOff {
        return None;
    }
    Some(caution(Finding::RateNotAchieved {
        unit: e.items().to_owned(),
        rates: Some(SentOf { sent: e.sent_rate, requested }),
        not_begun,
        in_flight_limit: e.in_flight_limit.unwrap_or(0),
    }))
}

const fn caution(finding: Finding) -> Warning {
    Warning::new(Tier::Caution, finding)
}

/// The verdict is about the first scenario, and does not cover churn beside it.
fn churn_not_begun(e: &Facts) -> impl Iterator<Item = Warning> {
    e.ended.churn.iter().filter(|churn| churn.beside && churn.not_begun > 0).map(|churn| {
        caution(Finding::RateNotAchieved {
            unit: churn.unit.clone(),
            rates: None,
            not_begun: churn.not_begun,
            in_flight_limit: churn.in_flight_limit,
        })
    })
}

fn of_machine(e: &Facts) -> impl Iterator<Item = Warning> {
    // Of a moment, one tick of the machine's account would be much.
    let steal = e.steal.filter(|it| *it >= STEAL && e.seconds >= SHORTEST);
    let clock = e.ended.clock_source.clone().filter(|name| POOR_CLOCKS.contains(&name.as_str()));
    let steal = steal.map(|steal| Finding::CpuSteal { steal });
    steal.into_iter().chain(clock.map(|clock| Finding::ClockNotSteady { clock })).map(caution)
}

fn of_messages(e: &Facts) -> Vec<Warning> {
    let ended = &e.ended;
    let blocked = ended.blocked.clone().map(|(times, reasons)| Finding::ConnectionBlocked {
        times,
        reasons,
        fault: e.blocked_in_faults(),
    });
    let drained_s = ended.drained_s;
    let missing = ended.not_received.map(|(missing, sent)| Finding::MessagesNotReceived { missing, sent, drained_s });
    let unanswered = (ended.unanswered + ended.unsent > 0).then(|| Finding::MessagesUnanswered {
        unanswered: ended.unanswered,
        unsent: ended.unsent,
        gone: ended.down_connections > 0,
        for_good: ended.for_good.is_some(),
    });
    // Those in flight at the end have a warning of their own.
    let given_up = ended.unconfirmed.saturating_sub(ended.unanswered);
    let refused = (ended.nacked + ended.returned + given_up > 0).then(|| Finding::MessagesNotAccepted {
        sent: ended.sent,
        nacked: ended.nacked,
        returned: ended.returned,
        not_confirmed: given_up,
        fault: e.lost_in_faults(),
    });
    let failed = ended.churn.iter().filter(|churn| churn.failed > 0).map(|churn| Finding::CyclesFailed {
        kind: churn.kind.clone(),
        unit: churn.unit.clone(),
        failed: churn.failed,
        timed_out: churn.timed_out,
        begun: churn.begun,
        first_failure: churn.first_failure.clone().unwrap_or_default(),
    });
    let mut all = Vec::from_iter(blocked.map(caution));
    all.extend(ended.ledger.iter().flat_map(of_ledger));
    all.extend(missing.map(caution));
    all.extend(of_connections(e));
    all.extend(unanswered.into_iter().chain(refused).chain(failed).map(caution));
    all
}

/// Connections that were lost, and how long none was left.
fn of_connections(e: &Facts) -> Option<Warning> {
    let (lost, down) = (e.ended.lost_connections, e.ended.down_connections);
    let away = longest(|| e.stalls().filter(|stall| stall.away));
    if down > 0 {
        // What the run itself took away for good is what it is about.
        let tier = if e.ended.for_good.is_some() { Tier::Caution } else { Tier::Invalid };
        let gone = Finding::BrokerGone { connections: down, away, fault: e.ended.for_good.clone() };
        return Some(Warning::new(tier, gone));
    }
    let fault = e.lost_in_faults();
    (lost > 0).then(|| caution(Finding::ConnectionsLost { connections: lost, away, fault }))
}

fn of_ledger(ledger: &LedgerSummary) -> impl Iterator<Item = Warning> {
    let LedgerSummary { sent, lost, duplicated, corrupt, foreign, outstanding, .. } = *ledger;
    let harm = Finding::MessagesLost { sent, lost, duplicated, corrupt, foreign };
    let harm = (lost + duplicated + corrupt > 0).then(|| Warning::new(Tier::Invalid, harm));
    let open = (outstanding > 0).then(|| caution(Finding::MessagesOutstanding { sent, outstanding }));
    harm.into_iter().chain(open)
}

fn of_run(e: &Facts) -> impl Iterator<Item = Warning> {
    let ended = &e.ended;
    let few = ended.too_few.iter().cloned();
    let few = few.map(|(latency, samples, percentile)| FewSamples { latency, samples, percentile });
    let latencies: Vec<FewSamples> = few.collect();
    let all = [
        ended.trend.map(|change| caution(Finding::NotSteadyState { change, seconds: ended.seconds })),
        ended.insecure.then(|| Warning::new(Tier::Invalid, Finding::CertificateNotChecked {})),
        ended.interrupted.then(|| Warning::new(Tier::Note, Finding::Interrupted { seconds: e.seconds })),
        (!latencies.is_empty()).then(|| Warning::new(Tier::Note, Finding::TooFewSamples { latencies })),
    ];
    all.into_iter().flatten()
}

/// The profiler's warnings. With `each`, every event is a sample; else there is a frequency.
pub(crate) fn profile_findings(outcome: &profile::Outcome, each: bool) -> Vec<Warning> {
    let samples = outcome.taken.max(outcome.samples);
    let all = [
        (outcome.lost > 0).then(|| caution(Finding::LostSamples { lost: outcome.lost, samples, each })),
        (outcome.throttled > 0).then(|| caution(Finding::ProfilerThrottled { times: outcome.throttled })),
        (!outcome.notes.is_empty()).then(|| profile_incomplete(&outcome.notes.join("; "))),
    ];
    all.into_iter().flatten().collect()
}

const fn lacking(tier: Tier, gap: ProfileGap) -> Warning {
    Warning::new(tier, Finding::ProfileIncomplete { gap })
}

/// Gaps of a profile: names of functions, callers, samples.
pub(crate) fn profile_gaps(profile: &ProfileSummary) -> Vec<Warning> {
    let mut all = Vec::new();
    if profile.samples < LEAST_SAMPLES {
        return all;
    }
    if profile.unknown_share >= NAMELESS {
        all.push(lacking(Tier::Caution, ProfileGap::Names { unknown_share: profile.unknown_share }));
    }
    if profile.complete_share < WHOLE {
        let tier = if profile.complete_share < COMPLETE { Tier::Caution } else { Tier::Note };
        let callers = ProfileGap::Callers {
            complete_share: profile.complete_share,
            copied_share: profile.copied_share,
            runtime: runtime(profile).to_owned(),
        };
        all.push(lacking(tier, callers));
    }
    if let Some(cpu_share) = profile.cpu_share.filter(|share| *share < COVERED) {
        all.push(lacking(Tier::Caution, ProfileGap::Samples { cpu_share }));
    }
    all
}

/// Warns of CPU spent in the kernel's probes, which stop a program by an exception at each traced function.
pub(crate) fn probed(profile: &Profile) -> Option<Warning> {
    let is_trap = |frame: &Frame| matches!(&*frame.name, "asm_exc_int3" | "asm_exc_debug");
    let share = (profile.header.event == USUAL_EVENT).then(|| profile.share_with(is_trap))?;
    let probed = ProfileGap::Probed { probes_share: share };
    (share >= PROBED).then(|| lacking(Tier::Caution, probed))
}

/// The profiled program's runtime, by the classes of its samples.
fn runtime(profile: &ProfileSummary) -> &'static str {
    let runtime = profile.classes.iter().find_map(|it| match it.class {
        Class::ErlangCode => Some("erlang"),
        Class::JavaCode => Some("java"),
        _ => None,
    });
    runtime.unwrap_or("native")
}

pub(crate) fn profile_incomplete(why: &str) -> Warning {
    lacking(Tier::Caution, ProfileGap::Other { why: why.to_owned() })
}
