//! Sentences on a lone probe speak of a server.

use archive::{
    Awaited, BrokerUse, Busy, Cause, ChurnFacts, CoresUsed, Ended, Facts, Finding, Lateness, LimitedBy, ProfileGap,
    Reason, SentOf, Stall, StallWait, Stalled, Stood, Tier, Verdict, Warning,
};

use measure::ScenarioRole;

use super::{stall, verdict, warning};
use crate::tests::fixtures::{generator_late, stalled};

/// Findings of a run of probes whose sentences could speak of a broker.
fn findings() -> Vec<Finding> {
    let unit = || "requests".to_owned();
    let gap = |gap| Finding::ProfileIncomplete { gap };
    let used = CoresUsed {
        cores: 2,
        broker_cores: 1.0,
        client_cores: 1.0,
        run_queue_wait: 0.5,
        broker_run_queue_wait: 0.5,
        ..CoresUsed::default()
    };
    let rates = Some(SentOf { sent: 1.0, requested: 2.0 });
    let mut all = vec![
        Finding::GeneratorSaturated { at_work: 1.0, threads: 1, unit: unit() },
        Finding::RateNotAchieved { unit: unit(), rates, not_begun: 0, in_flight_limit: 0 },
        Finding::TooFewCores { used },
        Finding::DebugBuild {},
        gap(ProfileGap::Names { unknown_share: 0.5 }),
        gap(ProfileGap::Samples { cpu_share: 0.5 }),
        Finding::CpuSteal { steal: 0.1 },
        Finding::NotSteadyState { change: 0.1, seconds: 5 },
        Finding::CertificateNotChecked {},
        generator_late(0.1, 0.1, true, "requests"),
        Finding::MessagesUnanswered { unanswered: 1, unsent: 0, gone: false, for_good: false },
        Finding::MessagesUnanswered { unanswered: 1, unsent: 1, gone: true, for_good: false },
    ];
    let waited = StallWait::ForCores { seconds: 1.0, other_cores: 1.0 };
    for who in [Stalled::Broker, Stalled::Generator, Stalled::Machine] {
        let waits = [StallWait::None, StallWait::Unknown, waited];
        all.extend(waits.map(|wait| stalled(who, Stood::default(), wait, None, "requests")));
    }
    all
}

#[test]
fn no_warning_of_a_lone_probe_speaks_of_a_broker() {
    let mut of_brokers = 0;
    for finding in findings() {
        let mut told = Warning::new(Tier::Caution, finding);
        of_brokers += usize::from(warning(&told).contains("broker"));
        told.of_server = true;
        let text = warning(&told);
        assert!(!text.contains("broker"), "{text}");
    }
    assert!(of_brokers >= 6, "{of_brokers} speak of a broker otherwise");
}

#[test]
fn no_verdict_on_a_lone_probe_speaks_of_a_broker() {
    let facts = Facts {
        broker: Some(BrokerUse { cores: 1.5, ..BrokerUse::default() }),
        same_machine: true,
        cores: 2,
        ended: Ended {
            churn: vec![ChurnFacts { unit: "requests".into(), role: ScenarioRole::Server, ..ChurnFacts::default() }],
            stalls: vec![Stall::default()],
            ..Ended::default()
        },
        ..Facts::default()
    };
    let wait = Awaited::Answers;
    let late = |late| RateMet { late: Some(late) };
    use Cause::{BothBusy, BothFillMachine, BrokerBusy, BrokerLacksCores, BrokerSlow, BrokerStalled};
    use Cause::{InFlightLimit, MachineFull, OthersFillMachine, OwnFault, RateMet, StalledForCores, Unclear};
    let met = [Lateness::BrokerStalled, Lateness::OwnFault, Lateness::Cores].map(late);
    let own = [OwnFault { deliveries: false }, BrokerStalled { for_s: 1.0, times: 2 }, BrokerSlow { wait }];
    let cores = [BrokerBusy { wait, busy: Busy::Cores }, BrokerLacksCores { wait }];
    let undecided = [StalledForCores, OthersFillMachine, BothFillMachine, MachineFull, BothBusy, Unclear];
    let causes = [
        (LimitedBy::Schedule, [&met[..], &[RateMet { late: None }, InFlightLimit]].concat()),
        (LimitedBy::Broker, [&own[..], &cores].concat()),
        (LimitedBy::Undecided, undecided.to_vec()),
    ];
    let causes = causes.into_iter().flat_map(|(limited_by, of)| of.into_iter().map(move |it| (it, limited_by)));
    for (cause, limited_by) in causes {
        let codes = ["broker_cpu", "broker_unknown", "shared_cores", "relay", "round_trip", "stalls"];
        let reasons = codes.map(|code| Reason { code: code.into(), text: String::new(), decided: true }).into();
        let (cause, facts) = (Some(cause), facts.clone());
        let mut said = Verdict { limited_by, cause: cause.clone(), reasons, facts, ..Verdict::default() };
        verdict(&mut said);
        let reasons = said.reasons.iter().map(|reason| reason.text.as_str());
        for text in reasons.chain([said.sentence.as_str()]) {
            assert!(!text.contains("broker"), "{cause:?}: {text}");
        }
        assert!(!said.sentence.is_empty(), "{cause:?}");
    }
}

#[test]
fn a_stall_of_requests_is_the_servers() {
    for away in [false, true] {
        let one = Stall { who: Stalled::Broker, away, ..Stall::default() };
        assert!(stall(&one, "requests", ScenarioRole::Server).starts_with("the server "), "{away}");
        assert!(stall(&one, "messages", ScenarioRole::Broker).starts_with("the broker "), "{away}");
    }
}
