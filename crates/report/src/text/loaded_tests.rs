//! Whom the sentences on a lone probe speak of.

use archive::WarningCode::*;
use archive::{
    Awaited, BrokerUse, Busy, Cause, ChurnFacts, Ended, Facts, Lateness, LimitedBy, Reason, Stall,
    Stalled, Tier, Verdict, Warning, WarningCode,
};

use super::loaded::{LOADED, of_server};
use super::{stall, verdict, warning};

/// Those that a run of probes can have.
const WARNINGS: [WarningCode; 16] = [
    GeneratorSaturated,
    RateNotAchieved,
    TooFewCores,
    DebugBuild,
    TooFewSamples,
    LostSamples,
    ProfilerThrottled,
    ProfileIncomplete,
    CpuSteal,
    NotSteadyState,
    CertificateNotChecked,
    CyclesFailed,
    Interrupted,
    GeneratorLate,
    Stalled,
    MessagesUnanswered,
];

#[test]
fn no_warning_of_a_lone_probe_speaks_of_a_broker() {
    let mut of_brokers = 0;
    for code in WARNINGS {
        for who in ["broker", "generator", "machine"] {
            let told =
                |w: Warning| warning(&w.with("unit", "requests").with("who", who).with("cores", 2));
            let new = || Warning::new(code, Tier::Caution);
            of_brokers += usize::from(told(new()).contains("broker"));
            let text = told(new().with(LOADED, "server"));
            assert!(!text.contains("broker"), "{code:?}: {text}");
        }
    }
    assert!(of_brokers >= 6, "{of_brokers} speak of a broker otherwise");
}

#[test]
fn no_verdict_on_a_lone_probe_speaks_of_a_broker() {
    let facts = Facts {
        broker: Some(BrokerUse {
            cores: 1.5,
            ..BrokerUse::default()
        }),
        same_machine: true,
        cores: 2,
        ended: Ended {
            churn: vec![ChurnFacts {
                unit: "requests".into(),
                ..ChurnFacts::default()
            }],
            stalls: vec![Stall::default()],
            ..Ended::default()
        },
        ..Facts::default()
    };
    let wait = Awaited::Answers;
    let late = |late| Cause::RateMet { late: Some(late) };
    let causes = [
        (late(Lateness::BrokerStalled), LimitedBy::Schedule),
        (late(Lateness::OwnFault), LimitedBy::Schedule),
        (late(Lateness::Cores), LimitedBy::Schedule),
        (Cause::OwnFault { deliveries: false }, LimitedBy::Broker),
        (Cause::StalledForCores, LimitedBy::Undecided),
        (Cause::RateMet { late: None }, LimitedBy::Schedule),
        (Cause::OthersFillMachine, LimitedBy::Undecided),
        (Cause::BothFillMachine, LimitedBy::Undecided),
        (Cause::MachineFull, LimitedBy::Undecided),
        (Cause::BothBusy, LimitedBy::Undecided),
        (Cause::Unclear, LimitedBy::Undecided),
        (
            Cause::BrokerBusy {
                wait,
                busy: Busy::Cores,
            },
            LimitedBy::Broker,
        ),
        (Cause::BrokerLacksCores { wait }, LimitedBy::Broker),
        (
            Cause::BrokerStalled {
                for_s: 1.0,
                times: 2,
            },
            LimitedBy::Broker,
        ),
        (Cause::BrokerSlow { wait }, LimitedBy::Broker),
        (Cause::InFlightLimit, LimitedBy::Schedule),
    ];
    for (cause, limited_by) in causes {
        let codes = [
            "broker_cpu",
            "broker_unknown",
            "shared_cores",
            "relay",
            "round_trip",
            "stalls",
        ];
        let reasons = codes.map(|code| Reason {
            code: code.into(),
            text: String::new(),
            decided: true,
        });
        let mut said = Verdict {
            limited_by,
            cause: Some(cause.clone()),
            reasons: reasons.into(),
            facts: facts.clone(),
            ..Verdict::default()
        };
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
        let one = Stall {
            who: Stalled::Broker,
            away,
            ..Stall::default()
        };
        assert!(stall(&one, "requests").starts_with("the server "), "{away}");
        assert!(stall(&one, "messages").starts_with("the broker "), "{away}");
    }
}

#[test]
fn names_that_hold_the_word_stay() {
    let text = "http://the-broker.example/broker/queues: the broker's log";
    assert_eq!(
        of_server(text),
        "http://the-broker.example/broker/queues: the server's log"
    );
}
