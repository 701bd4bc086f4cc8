use super::*;

/// A run of 30 s that nothing is wrong with, on 8 cores.
fn good() -> Facts {
    let latency = LatencySummary {
        count: 600_000,
        p99_ns: 2_000_000,
        ..LatencySummary::default()
    };
    Facts {
        cores: 8,
        shared_machine: true,
        clock_source: Some("tsc".into()),
        length: Nanos(30_000_000_000),
        counters: Counters {
            sent: 600_000,
            completed: 600_000,
            late: 60,
            ..Counters::default()
        },
        requested: Some((600_000.0, 0.0)),
        latency: PerMetric {
            ack_response: latency,
            ..PerMetric::default()
        },
        lag_and_p99: vec![(200_000, 2_000_000); 30],
        rates: vec![20_000.0; 30],
        threads: vec![0.2],
        broker_cores: Some(3.2),
        client_cores: Some(0.3),
        idle: Some(0.5),
        steal: Some(0.001),
        ..Facts::default()
    }
}

/// The codes besides the debug build's, which tests always are.
fn codes(facts: &Facts) -> Vec<WarningCode> {
    let codes = warnings(facts).into_iter().map(|warning| warning.code);
    codes
        .filter(|code| *code != WarningCode::DebugBuild)
        .collect()
}

fn text(facts: &Facts, code: WarningCode) -> String {
    let warning = warnings(facts)
        .into_iter()
        .find(|warning| warning.code == code);
    warning
        .unwrap_or_else(|| panic!("no {code:?} for {facts:?}"))
        .text
}

#[test]
fn a_good_run_has_none() {
    assert_eq!(codes(&good()), []);
    assert_eq!(warnings(&good()).len(), usize::from(cfg!(debug_assertions)));
}

#[test]
fn a_full_generator_thread_is_named_unless_it_spins() {
    let facts = Facts {
        threads: vec![0.3, 0.97],
        ..good()
    };
    assert_eq!(codes(&facts), [WarningCode::GeneratorSaturated]);
    assert!(text(&facts, WarningCode::GeneratorSaturated).contains("97 % of a core"));
    assert_eq!(
        codes(&Facts {
            spun: true,
            ..facts
        }),
        []
    );
}

#[test]
fn loop_lag_counts_where_it_explains_the_latency() {
    let with = |bad: usize, lag, p99| {
        let mut seconds = vec![(lag, p99); bad];
        seconds.resize(30, (200_000, 2_000_000));
        Facts {
            lag_and_p99: seconds,
            ..good()
        }
    };
    let facts = with(3, 4_000_000, 5_000_000);
    assert_eq!(codes(&facts), [WarningCode::GeneratorSaturated]);
    assert!(text(&facts, WarningCode::GeneratorSaturated).contains("4.00 ms late, in 3 of 30"));
    // Too seldom, too small beside the latency, too small at all.
    assert_eq!(codes(&with(2, 4_000_000, 5_000_000)), []);
    assert_eq!(codes(&with(30, 4_000_000, 50_000_000)), []);
    assert_eq!(codes(&with(30, 900_000, 1_000_000)), []);
}

#[test]
fn the_rate_is_achieved_from_99_5_percent_on() {
    let with = |sent, late| {
        let counters = Counters {
            sent,
            late,
            ..Counters::default()
        };
        Facts { counters, ..good() }
    };
    assert_eq!(codes(&with(597_000, 0)), []);
    assert_eq!(codes(&with(596_900, 0)), [WarningCode::RateNotAchieved]);
    assert_eq!(codes(&with(600_000, 6_001)), [WarningCode::RateNotAchieved]);
    let all_out = Facts {
        requested: None,
        ..with(1, 1)
    };
    assert_eq!(codes(&all_out), []);
}

#[test]
fn what_held_the_rate_back_is_named() {
    let counters = Counters {
        sent: 300_000,
        blocked: 150_000,
        late: 200_000,
        ..Counters::default()
    };
    let mut facts = Facts { counters, ..good() };
    assert!(text(&facts, WarningCode::RateNotAchieved).contains("--max-pending"));
    facts.counters.blocked = 0;
    assert!(text(&facts, WarningCode::RateNotAchieved).contains("--threads"));
}

#[test]
fn a_slow_schedule_cut_at_its_edge_is_achieved() {
    let counters = Counters {
        sent: 2,
        ..Counters::default()
    };
    let facts = Facts {
        requested: Some((3.0, 0.0)),
        counters,
        ..good()
    };
    assert!(!codes(&facts).contains(&WarningCode::RateNotAchieved));
}

#[test]
fn two_cores_are_too_few_for_an_all_out_run() {
    let facts = Facts {
        cores: 2,
        requested: None,
        broker_cores: Some(1.6),
        client_cores: Some(0.15),
        idle: Some(0.1),
        ..good()
    };
    assert_eq!(codes(&facts), [WarningCode::TooFewCores]);
    assert!(text(&facts, WarningCode::TooFewCores).contains("at least 3 cores"));
    let elsewhere = Facts {
        shared_machine: false,
        ..facts.clone()
    };
    assert_eq!(codes(&elsewhere), []);
    let light = Facts {
        broker_cores: Some(0.6),
        idle: Some(0.6),
        ..facts.clone()
    };
    assert_eq!(codes(&light), []);
    let others_run_too = Facts {
        idle: Some(0.01),
        ..light
    };
    assert_eq!(codes(&others_run_too), [WarningCode::TooFewCores]);
    let named = text(&others_run_too, WarningCode::TooFewCores);
    assert!(
        named.starts_with("other processes took 1.2 of the 2 cores"),
        "{named}"
    );
    assert_eq!(
        codes(&Facts {
            broker_cores: None,
            ..facts
        }),
        []
    );
}

/// Pinned to cores of their own, as is good practice.
#[test]
fn what_has_its_own_cores_takes_none_from_the_other() {
    let facts = Facts {
        cores: 2,
        apart: true,
        requested: None,
        broker_cores: Some(1.0),
        client_cores: Some(0.95),
        idle: Some(0.02),
        ..good()
    };
    assert_eq!(codes(&facts), []);
    let together = Facts {
        apart: false,
        ..facts.clone()
    };
    assert_eq!(codes(&together), [WarningCode::TooFewCores]);
    // Both on one core of a large machine, most of which stands idle.
    let cramped = Facts {
        cores: 1,
        apart: false,
        broker_cores: Some(0.6),
        client_cores: Some(0.39),
        idle: None,
        ..facts.clone()
    };
    assert_eq!(codes(&cramped), [WarningCode::TooFewCores]);
    let disturbed = Facts {
        broker_cores: Some(0.4),
        client_cores: Some(0.3),
        idle: Some(0.0),
        ..facts
    };
    assert!(text(&disturbed, WarningCode::TooFewCores).starts_with("other processes took 1.3"));
}

#[test]
fn the_machine_is_judged() {
    assert_eq!(
        codes(&Facts {
            steal: Some(0.03),
            ..good()
        }),
        [WarningCode::CpuSteal]
    );
    let hpet = Facts {
        clock_source: Some("hpet".into()),
        ..good()
    };
    assert_eq!(codes(&hpet), [WarningCode::ClockNotSteady]);
}

#[test]
fn messages_that_were_not_accepted_are_counted_by_cause() {
    let mut facts = Facts {
        blocked: Some((1, "low on memory".into())),
        unconfirmed: 7,
        ..good()
    };
    facts.counters.nacked = 3;
    assert_eq!(
        codes(&facts),
        [
            WarningCode::ConnectionBlocked,
            WarningCode::MessagesNotAccepted
        ]
    );
    assert!(text(&facts, WarningCode::ConnectionBlocked).contains("low on memory"));
    let text = text(&facts, WarningCode::MessagesNotAccepted);
    assert!(
        text.contains("3 refused") && text.contains("7 not confirmed"),
        "{text}"
    );
    assert!(!text.contains("returned"), "{text}");
}

#[test]
fn a_percentile_without_ten_samples_beyond_it_is_named() {
    let mut facts = good();
    facts.latency.ack_response.count = 99_999;
    facts.latency.end_to_end.count = 900;
    let text = text(&facts, WarningCode::TooFewSamples);
    assert!(
        text.contains("ack response has 99999 samples, too few for p99.99"),
        "{text}"
    );
    assert!(
        text.contains("end-to-end has 900 samples, too few for p99 "),
        "{text}"
    );
}

#[test]
fn a_trend_counts_in_all_out_runs() {
    let rates: Vec<f64> = (0..30).map(|i| 10_000.0 + 500.0 * f64::from(i)).collect();
    let facts = Facts {
        requested: None,
        rates,
        ..good()
    };
    assert_eq!(codes(&facts), [WarningCode::NotSteadyState]);
    assert!(text(&facts, WarningCode::NotSteadyState).contains("rose by 84 %"));
}

#[test]
fn an_interrupted_run_says_how_long_it_was() {
    let facts = Facts {
        interrupted: true,
        ..good()
    };
    assert!(text(&facts, WarningCode::Interrupted).contains("30.0 measured seconds"));
}

#[test]
fn the_profilers_own_troubles_are_told() {
    let outcome = profile::Outcome {
        samples: 900,
        lost: 100,
        throttled: 2,
        notes: vec!["user space only".into()],
        ..profile::Outcome::default()
    };
    let warnings = profile_warnings(&outcome);
    let codes: Vec<_> = warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(
        codes,
        [
            WarningCode::LostSamples,
            WarningCode::ProfilerThrottled,
            WarningCode::ProfileIncomplete
        ]
    );
    assert!(
        warnings[0].text.contains("100 of 1000"),
        "{}",
        warnings[0].text
    );
    assert_eq!(profile_warnings(&profile::Outcome::default()), []);
}
