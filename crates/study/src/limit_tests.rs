use archive::{Facts, RequestedSummary, Throughput, Verdict};

use super::*;
use crate::example_warnings::warn;

fn experiment(loads: &str) -> Experiment {
    Experiment::from_toml(loads, "test").unwrap()
}

fn rates(of: &Experiment) -> Vec<f64> {
    let rate = |load: &LoadSpec| load.rate.map_or(0.0, Rate::get);
    of.load.iter().map(rate).collect()
}

#[test]
fn groups_keep_their_proportions_or_are_alike_and_a_rate_that_is_not_free_is_refused() {
    let with = experiment("[[load]]\nrate = 100\n[[load]]\nproducers = 0\n[[load]]\nrate = 300");
    assert_eq!(first_rate(&with), Ok(400.0));
    assert_eq!(rates(&at_rate(&with, 1_000.0)), [250.0, 0.0, 750.0]);
    assert_eq!(rate_options(&with, 1_000.0), ["load.0.rate=250", "load.2.rate=750"]);
    // Small rates are not cut to nothing.
    let one = experiment("[[load]]\nrate = 5");
    for (rate, option) in [(0.004, "load.0.rate=0.004000"), (5.5, "load.0.rate=5.50"), (20_000.0, "load.0.rate=20000")]
    {
        assert_eq!(rate_options(&one, rate), [option]);
    }
    let without = experiment("[[load]]\n[[load]]");
    assert_eq!(first_rate(&without), Ok(FIRST));
    assert_eq!(rates(&at_rate(&without, 1_000.0)), [500.0, 500.0]);
    let each = experiment(
        "[[load]]\nrate = 10\nrate-per-producer = true\nproducers = 3\nnum-destinations = 4\ndestinations = \
         ['queue://a', 'queue://b']",
    );
    assert_eq!(first_rate(&each), Ok(240.0));
    let tried = at_rate(&each, 480.0);
    assert_eq!(rates(&tried), [480.0]);
    assert!(!tried.load[0].rate_per_producer, "it is that of all together");
    for loads in
        ["[[load]]\nthink-time = '1s'", "[[load]]\nproducers = 0\nconsumers = 1", "[[load]]\nrate = 5\n[[load]]"]
    {
        assert!(requested_rate(&experiment(loads)).is_err(), "{loads}");
    }
}

fn summary() -> RunSummary {
    let sent = Throughput { total: 10_000, rate: 1_000.0 };
    let mut summary = RunSummary {
        verdict: Some(Verdict {
            limited_by: LimitedBy::Broker,
            facts: Facts { expected_rate: Some(1_000.0), ..Facts::default() },
            ..Verdict::default()
        }),
        requirements: vec![RequirementOutcome {
            that: "end-to-end p99 < 10ms".to_owned(),
            met: Some(true),
            ..RequirementOutcome::default()
        }],
        ..RunSummary::default()
    };
    let flow = summary.flow_mut();
    (flow.sent, flow.received) = (sent, sent);
    summary.messages_mut().requested = Some(RequestedSummary { achieved: Some(1.0), ..RequestedSummary::default() });
    summary
}

fn tried(change: impl FnOnce(&mut RunSummary)) -> LimitTrial {
    let mut summary = summary();
    change(&mut summary);
    let record = RunRecord { summary: Some(summary), ..RunRecord::default() };
    limit_trial(1_000.0, &record)
}

fn judged(change: impl FnOnce(&mut RunSummary)) -> (LimitOutcome, Vec<String>) {
    let trial = tried(change);
    (trial.outcome, trial.why)
}

fn limited(summary: &mut RunSummary, by: LimitedBy) {
    summary.verdict.as_mut().unwrap().limited_by = by;
}

fn caused(summary: &mut RunSummary, cause: Cause) {
    summary.verdict.as_mut().unwrap().cause = Some(cause);
}

fn achieved(summary: &mut RunSummary, share: f64) {
    summary.messages_mut().requested.as_mut().unwrap().achieved = Some(share);
}

#[test]
fn a_rate_holds_where_it_is_sent_received_and_all_that_is_asked_for_is_met() {
    assert_eq!(judged(|_| ()), (LimitOutcome::Held, vec![]));
    assert_eq!(judged(|it| achieved(it, 0.995)).0, LimitOutcome::Held);
    assert_eq!(judged(|it| achieved(it, 0.994)).0, LimitOutcome::Missed);
    assert_eq!(judged(|it| achieved(it, 0.994)).1, ["only 99.4 % of the messages due were sent"]);
    assert_eq!(judged(|it| it.flow_mut().received.rate = 995.0).0, LimitOutcome::Held);
    let behind = judged(|it| it.flow_mut().received.rate = 994.0);
    assert_eq!(behind.0, LimitOutcome::Missed);
    assert!(behind.1[0].contains("backlog"), "{behind:?}");
    let missed = judged(|it| it.requirements[0].met = Some(false));
    assert_eq!(missed.1, ["missed end-to-end p99 < 10ms"]);
    assert_eq!(judged(|it| it.requirements[0].met = None).0, LimitOutcome::Missed);
    assert_eq!(judged(|it| limited(it, LimitedBy::Generator)).0, LimitOutcome::Held);
    // By chance fewer arrived than on average.
    let chance = judged(|it| {
        achieved(it, 0.98);
        limited(it, LimitedBy::Schedule);
    });
    assert_eq!(chance.0, LimitOutcome::Held);
}

/// Steal makes a trial unclear, but for consumers at a requested pace: they are slow on any machine.
#[test]
fn paced_consumers_miss_a_rate_also_on_a_machine_that_others_use() {
    let stolen = |cause: Option<Cause>| {
        tried(|of| {
            warn(of, WarningCode::CpuSteal, Tier::Caution);
            of.flow_mut().received.rate = 500.0;
            of.verdict.as_mut().unwrap().cause = cause;
        })
    };
    assert_eq!(stolen(None).outcome, LimitOutcome::Unclear);
    assert_eq!(stolen(Some(Cause::ConsumersSlow)).outcome, LimitOutcome::Missed);
}

#[test]
fn a_trial_that_says_nothing_of_the_broker_says_why() {
    type Change = fn(&mut RunSummary);
    let cases: [(&str, Change); 6] = [
        ("the hypervisor took cores", |it| warn(it, WarningCode::CpuSteal, Tier::Caution)),
        ("other programs had the cores", |it| caused(it, Cause::OthersFillMachine)),
        ("faults were not made as planned", |it| warn(it, WarningCode::FaultsMissed, Tier::Invalid)),
        ("the generator was saturated", |it| {
            limited(it, LimitedBy::Generator);
            caused(it, Cause::GeneratorBusy);
        }),
        ("the generator waited for cores", |it| {
            limited(it, LimitedBy::Generator);
            caused(it, Cause::GeneratorLacksCores { others: None });
        }),
        ("the generator was the limit", |it| limited(it, LimitedBy::Generator)),
    ];
    for (said, change) in cases {
        let trial = tried(|it| {
            change(it);
            achieved(it, 0.9);
        });
        assert_eq!(trial.outcome, LimitOutcome::Unclear, "{said}");
        assert_eq!(trial.unclear.as_deref(), Some(said));
        assert!(trial.why.iter().any(|it| it.contains("90.0 %")), "{said}");
        let held = tried(change);
        let is_told = held.outcome == LimitOutcome::Unclear;
        assert_eq!(held.unclear.is_some(), is_told, "{said}");
    }
}

/// A rate beyond the limit brings some warnings; others put the numbers in doubt.
#[test]
fn a_trial_keeps_what_puts_its_numbers_in_doubt() {
    let mut summary = summary();
    for (code, tier) in [
        (WarningCode::RateNotAchieved, Tier::Caution),
        (WarningCode::TooFewCores, Tier::Caution),
        (WarningCode::TooFewSamples, Tier::Note),
    ] {
        warn(&mut summary, code, tier);
    }
    let kept: Vec<_> = cautions(&summary, is_of_limit).iter().map(Warning::code).collect();
    assert_eq!(kept, [WarningCode::TooFewCores]);
}

#[test]
fn no_rates_are_suggested_where_nobody_knows_the_limit() {
    let found = |high| FoundLimit { low: Some(3_000.0), high, ..FoundLimit::default() };
    assert_eq!(suggested_rates(&found(None)), None);
    assert_eq!(suggested_rates(&found(Some(3_100.0))), Some([("calm", 1_000.0), ("busy", 2_400.0)]));
}

#[test]
fn a_rate_does_not_hold_where_the_run_must_not_be_believed() {
    let of = |code, tier| judged(|it| warn(it, code, tier));
    for code in [WarningCode::MessagesLost, WarningCode::BrokerGone, WarningCode::NodeGone] {
        let (outcome, why) = of(code, Tier::Invalid);
        assert_eq!((outcome, why.len()), (LimitOutcome::Missed, 1), "{code:?}");
    }
    // Also where what was lost is far less than what a growing backlog is told by.
    assert!(of(WarningCode::MessagesLost, Tier::Invalid).1[0].contains("lost"));
    for code in [WarningCode::DebugBuild, WarningCode::CertificateNotChecked] {
        assert_eq!(of(code, Tier::Invalid).0, LimitOutcome::Held, "{code:?}");
    }
    assert_eq!(of(WarningCode::FaultsMissed, Tier::Caution).0, LimitOutcome::Held);
    assert_eq!(of(WarningCode::FaultsMissed, Tier::Invalid).0, LimitOutcome::Unclear, "it was another run");
}

#[test]
fn a_backlog_is_seen_also_where_nobody_knows_how_many_deliveries_a_message_has() {
    // What an exchange makes of a message is its own affair: three copies here, and two queues that are drained.
    let unknown = |received: f64, total: u64, outstanding: u64| {
        judged(|it| {
            it.verdict.as_mut().unwrap().facts.expected_rate = None;
            it.flow_mut().received = Throughput { total, rate: received };
            it.flow_mut().ledger =
                Some(measure::ledger::LedgerSummary { outstanding, ..measure::ledger::LedgerSummary::default() });
        })
        .0
    };
    assert_eq!(unknown(3_000.0, 30_000, 0), LimitOutcome::Held);
    assert_eq!(unknown(2_900.0, 30_000, 0), LimitOutcome::Missed);
    assert_eq!(unknown(1_000.0, 10_000, 20_000), LimitOutcome::Missed);
    assert_eq!(unknown(0.0, 0, 0), LimitOutcome::Held, "nobody receives");
}

#[test]
fn no_lower_rate_is_tried_where_fewer_messages_tell_even_less() {
    let untold = LimitTrial {
        rate: 10_000.0,
        outcome: LimitOutcome::Missed,
        why: vec!["end-to-end p99.99 < 10ms is inconclusive: too few values".to_owned()],
        slos: vec![RequirementOutcome {
            that: "end-to-end p99.99 < 10ms".to_owned(),
            why: Some("too few values".to_owned()),
            ..RequirementOutcome::default()
        }],
        ..LimitTrial::default()
    };
    let mut of = LimitTrials {
        plan: LimitPlan { first: 10_000.0, least: 1.0, most: 1e7, precision: 0.05, confirmations: 3, most_trials: 60 },
        trials: vec![untold],
        ..LimitTrials::default()
    };
    assert_eq!(next_rate(&of), None);
    assert!(!found_limit(&of).confirmed);
    // Where the broker could not follow, a lower rate may hold.
    of.trials[0].why.push("the backlog grew".to_owned());
    assert_eq!(next_rate(&of), Some(5_000.0));
    of.trials[0].why.pop();
    of.trials.push(LimitTrial { rate: 5_000.0, outcome: LimitOutcome::Held, ..LimitTrial::default() });
    assert!(next_rate(&of).is_some());
}
