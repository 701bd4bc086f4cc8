//! Warnings as runs of tests have them.

use archive::{CoresUsed, Finding, MissedFaults, RunSummary, Tier, Warning, WarningCode};

/// One of this kind.
pub(crate) fn example(code: WarningCode, tier: Tier) -> Warning {
    let finding = match code {
        WarningCode::BrokerGone => Finding::BrokerGone { connections: 1, away: None, fault: None },
        WarningCode::CertificateNotChecked => Finding::CertificateNotChecked {},
        WarningCode::CpuSteal => Finding::CpuSteal { steal: 0.1 },
        WarningCode::DebugBuild => Finding::DebugBuild {},
        WarningCode::FaultsMissed => Finding::FaultsMissed {
            faults: MissedFaults {
                planned: 1,
                failed: 1,
                first_failure: "it is gone".to_owned(),
                ..MissedFaults::default()
            },
        },
        WarningCode::GeneratorSaturated => {
            Finding::GeneratorSaturated { at_work: 1.0, threads: 1, unit: "messages".to_owned() }
        }
        WarningCode::MessagesLost => {
            Finding::MessagesLost { sent: 1_000, lost: 3, duplicated: 0, corrupt: 0, foreign: 0 }
        }
        WarningCode::MessagesOutstanding => Finding::MessagesOutstanding { sent: 1_000, outstanding: 3 },
        WarningCode::NodeGone => Finding::NodeGone { nodes: vec![1] },
        WarningCode::NotSteadyState => Finding::NotSteadyState { change: 0.2, seconds: 30 },
        WarningCode::RateNotAchieved => {
            Finding::RateNotAchieved { unit: "messages".to_owned(), rates: None, not_begun: 0, in_flight_limit: 0 }
        }
        WarningCode::TooFewCores => Finding::TooFewCores {
            used: CoresUsed {
                cores: 2,
                broker_cores: 1.0,
                client_cores: 1.0,
                run_queue_wait: 0.2,
                ..CoresUsed::default()
            },
        },
        WarningCode::TooFewSamples => Finding::TooFewSamples { latencies: Vec::new() },
        _ => panic!("no example of {code:?}"),
    };
    Warning::new(tier, finding)
}

pub(crate) fn warn(summary: &mut RunSummary, code: WarningCode, tier: Tier) {
    summary.warnings.push(example(code, tier));
}

/// Messages that a broker refused.
pub(crate) fn refused(nacked: u64) -> Warning {
    let refused = Finding::MessagesNotAccepted { sent: 1_000, nacked, returned: 0, not_confirmed: 0, fault: None };
    Warning::new(Tier::Caution, refused)
}
