//! Facts of runs, and the conclusions that must follow from them.

mod evidence;
mod situations;

use archive::{
    BrokerUse, ChurnFacts, Ended, Finding, Lacking, Lateness, LoopUse, OwnFault, ProducerTime, ProfileGap,
    RunQueueWait, Stall, StallWait, Stalled, Stood, Tier, Warning, WarningCode, WorkerAbsence, WorkerSummary,
};
use measure::ledger::LedgerSummary;
use stacks::{Class, ClassShare, ProfileSummary};

use self::situations::{SITUATIONS, a_loop, broker, producers, waiting_for_answers, waiting_loop};
use super::*;

fn judge(facts: Facts) -> Judgement {
    judge_shares(facts, |_, _| Facts::default())
}

fn verdict(facts: Facts) -> Verdict {
    judge(facts).verdict
}

fn late_by(late: Lateness) -> Option<Cause> {
    Some(Cause::RateMet { late: Some(late) })
}

fn code(cause: Option<&Cause>) -> String {
    let cause = serde_json::to_value(cause).unwrap();
    cause["code"].as_str().unwrap_or_default().to_owned()
}

/// The codes besides the debug build's, which tests may be.
fn codes(facts: &Facts) -> Vec<WarningCode> {
    judge(facts.clone()).findings.iter().map(Warning::code).collect()
}

#[test]
fn every_situation_has_its_verdict() {
    for (name, who, why, change) in SITUATIONS {
        let mut facts = waiting_for_answers();
        change(&mut facts);
        let found = verdict(facts.clone());
        let cause = found.cause.as_ref();
        assert_eq!((found.limited_by, code(cause).as_str()), (*who, *why), "{name}: {cause:?}");
        assert_eq!(found.facts, facts, "{name}: the facts are kept");
        assert!(!found.reasons.is_empty(), "{name}");
    }
}

/// Three workers with 30,000 msg/s each, of which the second is at its limit: together they lack 0.3 %.
#[test]
fn a_run_is_limited_by_the_generator_where_the_share_of_one_worker_is() {
    let mut facts = waiting_for_answers();
    (facts.requested_rate, facts.sent_rate) = (Some(90_000.0), 89_700.0);
    (facts.broker, facts.same_machine, facts.idle) = (None, false, None);
    facts.producers = producers(|time| (time.schedule, time.ready) = (0.9, 0.1));
    facts.workers = ["a", "b", "c"].map(|name| WorkerSummary { name: name.into(), ..WorkerSummary::default() }).into();
    let share = |run: &Facts, worker: usize| {
        let (sent_rate, of_loop) =
            if worker == 1 { (29_700.0, a_loop(0.97, 0.02)) } else { (30_000.0, a_loop(0.2, 0.79)) };
        Facts { requested_rate: Some(30_000.0), sent_rate, loops: vec![of_loop], ..run.clone() }
    };
    let found = judge_shares(facts.clone(), share).verdict;
    assert_eq!((found.limited_by, found.cause), (LimitedBy::Generator, Some(Cause::GeneratorBusy)));
    assert_eq!(found.facts.workers.iter().map(|it| it.limits).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(verdict(facts).cause, Some(Cause::RateMet { late: None }), "sums do not show it");
}

#[test]
fn no_facts_are_no_verdict() {
    assert_eq!(verdict(Facts::default()).limited_by, LimitedBy::Undecided);
    // Figures that no run has still lead to something.
    verdict(Facts {
        seconds: f64::NAN,
        sent_rate: f64::INFINITY,
        producers: Some(ProducerTime { budget: f64::NAN, ..ProducerTime::default() }),
        ..Facts::default()
    });
}

/// 2,000 msg/s with 100 in flight to a broker that was stopped for 0.6 s of 2.
fn stopped_broker() -> Facts {
    let mut facts = waiting_for_answers();
    facts.seconds = 2.0;
    (facts.requested_rate, facts.sent_rate) = (Some(2_000.0), 2_000.0);
    (facts.late_share, facts.in_flight_limit, facts.answer_ns) = (0.27, Some(100), 30_000_000);
    facts.producers = producers(|time| (time.budget, time.schedule) = (0.27, 0.73));
    facts.broker = Some(broker(0.3, 0.2));
    let (who, connections, messages_delayed) = (Stalled::Broker, 1, 1_200);
    let stall = Stall { at_s: 0.5, for_s: 0.6, who, connections, messages_delayed, ..Stall::default() };
    facts.ended.stalls = vec![stall];
    facts
}

/// 1,000 msg/s for 40 s, to a broker that stopped for 2 s and was then away for 6.2 s.
#[test]
fn a_broker_that_was_away_is_what_the_verdict_begins_with() {
    let mut facts = stopped_broker();
    facts.seconds = 40.0;
    (facts.requested_rate, facts.sent_rate) = (Some(1_000.0), 1_000.0);
    // With room for all in flight, hardly a message leaves late.
    facts.late_share = 0.004;
    let silent = facts.ended.stalls[0];
    let away = Stall { at_s: 15.0, for_s: 6.2, away: true, connections: 4, messages_delayed: 6_200, ..silent };
    facts.ended.stalls.push(away);
    (facts.ended.lost_connections, facts.ended.sent) = (4, 40_000);
    let found = judge(facts.clone());
    assert_eq!(found.verdict.cause, late_by(Lateness::BrokerStalled));
    assert_eq!(codes(&facts), [WarningCode::ConnectionsLost, WarningCode::Stalled], "each is told once");
    let [lost, stalled] = &found.findings[..] else { panic!("{:?}", found.findings) };
    let Finding::ConnectionsLost { connections, away, .. } = &lost.finding else { panic!("{lost:?}") };
    let away = away.expect("a time without a connection");
    assert_eq!((away.for_s, away.messages_delayed, *connections), (6.2, 6_200, 4));
    let (_, stood) = stall(&found.findings);
    assert_eq!((stood.times, stood.for_s), (1, 0.6), "{stalled:?}");
    // A moment that hardly anybody felt leaves the verdict alone, and is named all the same.
    facts.ended.stalls.truncate(1);
    (facts.seconds, facts.ended.lost_connections) = (100.0, 0);
    assert_eq!(judge(facts.clone()).verdict.cause, Some(Cause::RateMet { late: None }));
    assert_eq!(codes(&facts), [WarningCode::Stalled]);
}

#[test]
fn a_broker_that_stopped_for_a_while_is_not_told_as_anything_else() {
    let facts = stopped_broker();
    let found = judge(facts.clone());
    assert_eq!(found.verdict.cause, late_by(Lateness::BrokerStalled));
    assert_eq!(codes(&facts), [WarningCode::Stalled]);
    assert_eq!(found.findings[0].tier, Tier::Note, "the numbers are right");
    let mut own = facts.clone();
    own.ended.stalls[0].who = Stalled::Generator;
    // Of a fleet the worker is named.
    let mut of_fleet = own.clone();
    let absence = |loop_lag_max_s| WorkerAbsence { loop_lag_max_s, ..WorkerAbsence::default() };
    of_fleet.workers = [("w1", 0.01), ("m3", 0.58)]
        .map(|(name, late)| WorkerSummary { name: name.into(), absence: absence(late), ..WorkerSummary::default() })
        .into();
    let names = |it: &Warning| matches!(&it.finding, Finding::Stalled { worker: Some(name), .. } if name == "m3");
    assert!(judge(of_fleet).findings.iter().any(names));
    let found = judge(own);
    assert_eq!((found.verdict.cause, found.findings[0].tier), (late_by(Lateness::GeneratorStalled), Tier::Caution));
    // What was due at the end was never sent: the stall is what the rate lacks.
    let short = Facts { sent_rate: 1_500.0, ..facts };
    let cause = verdict(short.clone()).cause;
    assert!(matches!(cause, Some(Cause::BrokerStalled { times: 1, .. })), "{cause:?}");
    assert!(!codes(&short).contains(&WarningCode::GeneratorLate));
    // So it is where as many of the warm-up's messages were sent in their place: the sent rate alone hides it.
    let mut backlog = Facts { sent_rate: 2_050.0, late_share: 1.0, ..short.clone() };
    backlog.ended.unsent = 1_000;
    assert!(matches!(verdict(backlog.clone()).cause, Some(Cause::BrokerStalled { times: 1, .. })));
    assert!(codes(&backlog).contains(&WarningCode::RateNotAchieved));
    // Other processes that fill the machine meanwhile did not stop the broker.
    let busy = Facts {
        cores: 2,
        machine_cores: 2,
        idle: Some(0.0),
        client_cores: Some(0.2),
        broker: Some(BrokerUse { run_queue_wait: Some(0.5), ..broker(0.3, 0.3) }),
        ..short
    };
    let cause = verdict(busy).cause;
    assert!(matches!(cause, Some(Cause::BrokerStalled { times: 1, .. })), "{cause:?}");
}

/// 300 msg/s into a cluster, of which the run kills a node for 11.3 s of 30; others fill the machine meanwhile.
fn killed_node() -> Facts {
    let mut facts = waiting_for_answers();
    (facts.requested_rate, facts.sent_rate) = (Some(300.0), 190.0);
    facts.producers = producers(|time| (time.budget, time.away, time.schedule) = (0.3, 0.1, 0.6));
    (facts.cores, facts.idle, facts.client_cores) = (2, Some(0.01), Some(0.1));
    facts.broker = Some(BrokerUse { run_queue_wait: Some(0.6), ..broker(0.9, 0.4) });
    facts.ended.faults = vec![OwnFault { name: "kill of node 1".into(), from_s: 10.0, until_s: 21.3 }];
    facts.ended.behind = Lacking { due: 9_000.0, all: 3_400.0, in_faults: 3_200.0 };
    facts
}

#[test]
fn a_fault_of_the_run_itself_comes_before_what_others_took() {
    let facts = killed_node();
    let found = verdict(facts.clone());
    let own = Cause::OwnFault { deliveries: false };
    assert_eq!((found.limited_by, found.cause), (LimitedBy::Broker, Some(own)));
    assert_eq!(found.reasons[0].code, "own_fault");
    // What fell behind at other times has the cause that it had then, and the fault is told first all the same.
    let mut others = facts.clone();
    others.ended.behind.in_faults = 300.0;
    let found = verdict(others.clone());
    assert_eq!(found.cause, Some(Cause::OthersFillMachine));
    assert_eq!(found.reasons[0].code, "own_fault");
    others.ended.behind.in_faults = 3.0;
    assert_ne!(verdict(others).reasons[0].code, "own_fault");
    // The schedule caught up: what left late did because of it.
    let mut met = facts.clone();
    (met.sent_rate, met.late_share) = (300.0, 0.4);
    assert_eq!(verdict(met.clone()).cause, late_by(Lateness::OwnFault));
    // One connection of many was cut off: most of what was late waited for that, and hardly any time of producers.
    met.ended.behind = Lacking::default();
    met.producers = producers(|time| (time.ready, time.schedule) = (0.1, 0.9));
    let late = (met.late_share * met.sent_rate * met.seconds) as u64;
    met.ended.stalls =
        vec![Stall { at_s: 12.0, for_s: 4.0, messages_delayed: late * 6 / 10, ..stopped_broker().ended.stalls[0] }];
    assert_eq!(verdict(met).cause, late_by(Lateness::BrokerStalled));
    // All was sent in time, and what it should have led to did not come.
    let mut behind = facts;
    behind.sent_rate = 300.0;
    (behind.expected_rate, behind.received_rate) = (Some(300.0), 200.0);
    behind.ended.deliveries_behind = behind.ended.behind;
    let why = Box::new(Cause::OwnFault { deliveries: true });
    assert_eq!(verdict(behind).cause, Some(Cause::ConsumersBehind { why }));
}

#[test]
fn a_stall_that_waits_for_cores_explain_is_not_what_a_verdict_begins_with() {
    let mut facts = stopped_broker();
    (facts.cores, facts.idle, facts.client_cores) = (2, Some(0.2), Some(0.2));
    let first = |facts: &Facts| {
        let found = verdict(facts.clone());
        (found.cause.expect("a cause"), found.reasons[0].code.clone())
    };
    let late = |late| Cause::RateMet { late };
    assert_eq!(first(&facts).0, late(Some(Lateness::BrokerStalled)));
    facts.ended.run_queue_waits =
        vec![RunQueueWait { from_s: 0.0, until_s: 1.0, broker_s: Some(0.5), own_s: Some(0.0) }];
    assert_eq!(first(&facts).0, late(Some(Lateness::Cores)));
    // A fault of the run itself is its cause, whoever else was there.
    let mut own = facts.clone();
    own.ended.faults = killed_node().ended.faults;
    own.ended.faults[0].from_s = 0.4;
    assert_eq!(first(&own).0, late(Some(Lateness::BrokerStalled)));
    let mut short = facts.clone();
    short.sent_rate = 1_500.0;
    assert_eq!(first(&short), (Cause::StalledForCores, "machine_idle".into()));
    let mut on_time = facts;
    on_time.late_share = 0.001;
    assert_eq!(first(&on_time).0, late(None));
    // One of which nobody knows whether it waited is told, behind waits that took more of the time.
    let mut unknown = short;
    unknown.ended.run_queue_waits.clear();
    unknown.ended.stalls[0].for_s = 0.1;
    (unknown.idle, unknown.producers) = (Some(0.01), producers(|time| time.budget = 1.0));
    unknown.broker = Some(BrokerUse { run_queue_wait: Some(0.6), ..broker(0.3, 0.2) });
    let (cause, begins) = first(&unknown);
    assert_eq!((cause, begins.as_str()), (Cause::OthersFillMachine, "machine_idle"));
    unknown.broker.iter_mut().for_each(|it| it.run_queue_wait = Some(0.0));
    assert_eq!(first(&unknown).1, "stalls");
}

#[test]
fn a_rate_that_was_not_met_is_told_and_what_was_hardly_measured_is_not() {
    let loops = vec![a_loop(1.0, 0.0)];
    let facts = Facts { seconds: 0.01, sent_rate: 0.0, loops, steal: Some(0.03), ..stopped_broker() };
    let told = codes(&facts);
    assert!(!told.contains(&WarningCode::GeneratorSaturated) && !told.contains(&WarningCode::CpuSteal), "{told:?}");
    let mut facts = waiting_for_answers();
    facts.requested_rate = Some(200_000.0);
    assert_eq!(codes(&facts), [WarningCode::RateNotAchieved]);
    facts.requested_rate = Some(100_000.0 / 0.996);
    assert_eq!(codes(&facts), [], "from 99.5 % on it is");
}

/// At a low rate every message may be late, each by the wait of its event loop for a core: that is little of the time.
/// The rest of the lateness has another reason, on a full machine, too.
#[test]
fn a_wait_for_a_core_is_held_against_the_time_for_which_messages_were_late() {
    for (rate, waited, late_s, why) in [
        (10.0, 0.04, 1.3, Lateness::Cores),
        (0.2, 0.0008, 0.025, Lateness::Cores),
        (10.0, 0.01, 1.3, Lateness::Generator),
        (10.0, 0.0, 1.3, Lateness::Generator),
        // Many are late at once: their share is that of the time.
        (100_000.0, 0.03, 4_000.0, Lateness::Generator),
    ] {
        let facts = Facts {
            requested_rate: Some(rate),
            sent_rate: rate,
            late_share: 1.0,
            producers: producers(|time| (time.ready, time.schedule) = (0.04, 0.96)),
            loops: vec![LoopUse { run_queue_wait: Some(waited), ..a_loop(0.001, 0.95) }],
            loop_lag_max_ns: 5_000_000,
            idle: Some(0.0),
            ended: Ended { late_s, ..Ended::default() },
            ..waiting_for_answers()
        };
        assert_eq!(verdict(facts).cause, late_by(why), "{rate} {waited}");
    }
}

#[test]
fn waiting_in_the_run_queue_is_waiting_for_cpu_and_what_sharing_two_cores_implies_is_said() {
    let mut facts = waiting_for_answers();
    facts.broker = Some(BrokerUse { run_queue_wait: Some(0.73), ..broker(0.4, 0.3) });
    assert_eq!(code(verdict(facts.clone()).cause.as_ref()), "broker_lacks_cores");
    assert_eq!(codes(&facts), [WarningCode::TooFewCores], "once");
    let mut facts = waiting_for_answers();
    facts.cores = 2;
    let found = verdict(facts);
    assert!(found.reasons.iter().any(|r| r.code == "shared_cores"), "{found:?}");
    let codes: Vec<_> = found.reasons.iter().map(|r| r.code.as_str()).collect();
    assert_eq!(codes.get(..3), Some(["in_flight_full", "broker_cpu", "loop_busy"].as_slice()));
    assert_eq!(found.reasons.iter().filter(|r| r.decided).count(), 3, "{found:?}");
    assert!(codes.contains(&"not_calibrated"), "{codes:?}");
}

/// A rate that is kept on two cores, as `bellows demo` does: late at worst, and never so that it counts.
#[test]
fn a_quiet_machine_of_two_cores_has_no_finding() {
    let facts = Facts {
        seconds: 10.0,
        requested_rate: Some(50_000.0),
        sent_rate: 50_000.0,
        received_rate: 50_000.0,
        expected_rate: Some(50_000.0),
        late_share: 0.001,
        producers: producers(|time| (time.schedule, time.ready) = (0.99, 0.01)),
        loops: vec![a_loop(0.21, 0.76)],
        loop_lag_max_ns: 2_700_000,
        lag_explains: 0.7,
        cores: 2,
        idle: Some(0.5),
        client_cores: Some(0.25),
        broker: Some(broker(0.6, 0.6)),
        same_machine: true,
        ..Facts::default()
    };
    assert_eq!(judge(facts.clone()).verdict.cause, Some(Cause::RateMet { late: None }));
    assert_eq!(codes(&facts), []);
}

#[test]
fn a_churn_that_meets_its_rate_is_advised_nothing() {
    let facts = Facts {
        seconds: 10.0,
        requested_rate: Some(50.0),
        sent_rate: 50.0,
        late_share: 0.03,
        producers: producers(|time| (time.schedule, time.ready) = (0.98, 0.02)),
        in_flight_limit: Some(1_000),
        loops: vec![a_loop(0.0078, 0.983)],
        cores: 8,
        idle: Some(0.9),
        ended: Ended { churn: vec![ChurnFacts::default()], ..Ended::default() },
        ..Facts::default()
    };
    let found = judge(facts.clone());
    assert_eq!(found.verdict.limited_by, LimitedBy::Schedule);
    assert_eq!(found.verdict.cause, late_by(Lateness::Generator));
    assert_eq!(codes(&facts), [WarningCode::GeneratorLate]);
}

#[test]
fn every_churn_beside_messages_is_warned_of_and_the_verdict_is_about_the_messages() {
    let churn = |kind: &str| ChurnFacts {
        beside: true,
        kind: kind.to_owned(),
        begun: 90,
        failed: 3,
        not_begun: 10,
        in_flight_limit: 7,
        ..ChurnFacts::default()
    };
    let facts = Facts {
        seconds: 10.0,
        requested_rate: Some(5_000.0),
        sent_rate: 5_000.0,
        producers: producers(|time| time.schedule = 1.0),
        cores: 8,
        ended: Ended { churn: vec![churn("connections"), churn("queues")], ..Ended::default() },
        ..Facts::default()
    };
    let found = judge(facts.clone());
    assert_eq!(found.verdict.cause, Some(Cause::RateMet { late: None }));
    let told = codes(&facts);
    let times = |code| told.iter().filter(|it| **it == code).count();
    let failed = times(WarningCode::CyclesFailed);
    assert_eq!((failed, times(WarningCode::RateNotAchieved), told.len()), (2, 2, 4), "{told:?}");
    // The limit is that of churn, not of the messages.
    let is_of_churn = |it: &&Warning| matches!(it.finding, Finding::RateNotAchieved { in_flight_limit: 7, .. });
    assert_eq!(found.findings.iter().filter(is_of_churn).count(), 2, "{:?}", found.findings);
}

#[test]
fn a_run_whose_requests_all_failed_has_not_broken_off() {
    let mut facts = waiting_for_answers();
    facts.ended.broke_off = true;
    let probe = |failed| ChurnFacts { unit: "requests".into(), begun: 4, failed, ..ChurnFacts::default() };
    for (failed, cause) in [(4, Cause::AllFailed), (3, Cause::BrokeOff)] {
        facts.ended.churn = vec![probe(failed)];
        assert_eq!(verdict(facts.clone()).cause, Some(cause));
    }
    // What ran beside messages is not what the verdict is about.
    facts.ended.churn = vec![ChurnFacts { beside: true, ..probe(4) }];
    assert_eq!(verdict(facts).cause, Some(Cause::BrokeOff));
}

/// A probe of a server that is asked 20 times a second, and of which at most two requests may be open.
fn probe_of_slow_server(not_begun: u64) -> Facts {
    let mut facts = waiting_for_answers();
    (facts.requested_rate, facts.sent_rate) = (Some(20.0), 5.0);
    (facts.in_flight_limit, facts.answer_ns) = (Some(2), 400_000_000);
    facts.producers = producers(|time| (time.budget, time.ready, time.schedule) = (0.7, 0.1, 0.2));
    facts.loops = vec![waiting_loop(0.21)];
    (facts.broker, facts.idle) = (Some(broker(0.1, 0.1)), Some(0.3));
    facts.ended.churn =
        vec![ChurnFacts { unit: "requests".into(), begun: 22, not_begun, in_flight_limit: 2, ..ChurnFacts::default() }];
    facts
}

/// A loop without a core for a fifth of the time was called the limit, and nothing told of requests without room.
#[test]
fn requests_that_wait_for_open_ones_are_limited_by_these_and_failed_ones_have_not_met_their_rate() {
    let facts = probe_of_slow_server(28);
    let found = verdict(facts.clone());
    assert_eq!((found.limited_by, code(found.cause.as_ref()).as_str()), (LimitedBy::Broker, "broker_slow"));
    assert_eq!(codes(&facts), [WarningCode::RateNotAchieved]);
    // Where the loop waited longer than they did, it is the limit, and the warning stays.
    let mut starved = facts;
    starved.loops = vec![waiting_loop(0.75)];
    let found = verdict(starved.clone());
    assert_eq!(found.limited_by, LimitedBy::Generator, "{:?}", found.cause);
    assert!(codes(&starved).contains(&WarningCode::RateNotAchieved));
    assert_eq!(codes(&probe_of_slow_server(0)), [WarningCode::RateNotAchieved]);
    let mut facts = probe_of_slow_server(0);
    (facts.requested_rate, facts.sent_rate) = (Some(10.0), 10.0);
    facts.loops = vec![a_loop(0.2, 0.79)];
    let with = |begun, failed| {
        let mut facts = facts.clone();
        (facts.ended.churn[0].begun, facts.ended.churn[0].failed) = (begun, failed);
        let found = verdict(facts);
        (found.limited_by, code(found.cause.as_ref()))
    };
    assert_eq!(with(60, 15), (LimitedBy::Undecided, "some_failed".into()));
    assert_eq!(with(60, 60), (LimitedBy::Undecided, "some_failed".into()));
    assert_eq!(with(3_000, 3), (LimitedBy::Schedule, "rate_met".into()));
}

#[test]
fn a_broker_that_never_came_back_makes_the_run_invalid() {
    let mut facts = waiting_for_answers();
    (facts.ended.lost_connections, facts.ended.down_connections) = (2, 1);
    facts.ended.unsent = 500;
    let findings = judge(facts.clone()).findings;
    assert_eq!(codes(&facts), [WarningCode::BrokerGone, WarningCode::MessagesUnanswered]);
    assert_eq!(findings[0].tier, Tier::Invalid);
    // One that the run killed for good was not to come back.
    facts.ended.for_good = Some("kill".to_owned());
    let finding = judge(facts).findings.swap_remove(0);
    let is_own = |it: &Finding| matches!(it, Finding::BrokerGone { fault: Some(of), .. } if of == "kill");
    assert!(is_own(&finding.finding), "{finding:?}");
    assert_eq!(finding.tier, Tier::Caution);
}

fn stall_wait(facts: &Facts) -> StallWait {
    stall(&judge(facts.clone()).findings).0
}

fn stall(findings: &[Warning]) -> (StallWait, Stood) {
    let mut all = findings.iter().filter_map(|it| match it.finding {
        Finding::Stalled { wait, stood, .. } => Some((wait, stood)),
        _ => None,
    });
    all.next().expect("a stall")
}

#[test]
fn a_stall_beside_others_that_took_the_cores_says_so() {
    let mut facts = Facts {
        idle: Some(0.0),
        cores: 2,
        client_cores: Some(0.2),
        broker: Some(broker(0.2, 0.0)),
        ..stopped_broker()
    };
    let others = |facts: &Facts| match stall_wait(facts) {
        StallWait::ForCores { other_cores, .. } => other_cores,
        _ => 0.0,
    };
    // It was stopped from 0.5 s to 1.1 s: what sleeps does not stand still for want of a core.
    let wait = |from_s: f64, waited_s: f64| RunQueueWait {
        from_s,
        until_s: from_s + 1.0,
        broker_s: Some(waited_s),
        own_s: Some(0.0),
    };
    for (waits, is_told) in [
        (vec![], false),
        (vec![wait(0.0, 0.02), wait(1.0, 0.02)], false),
        // Before and after, and not meanwhile.
        (vec![wait(-1.0, 0.9), wait(0.0, 0.02), wait(2.0, 0.9)], false),
        (vec![wait(0.0, 0.3), wait(1.0, 0.1)], true),
    ] {
        facts.ended.run_queue_waits = waits;
        assert_eq!(others(&facts) > 1.0, is_told, "{facts:#?}");
    }
    // That the broker waited does not explain why bellows did not run.
    facts.ended.stalls[0].who = Stalled::Generator;
    assert!(others(&facts) < 0.1);
    facts.ended.run_queue_waits[0].own_s = Some(0.5);
    assert!(others(&facts) > 1.0);
    facts.idle = Some(0.8);
    assert!(others(&facts) < 0.1);
    // Where nobody read the threads, nothing says that they did not wait.
    facts.ended.run_queue_waits[0].own_s = Some(0.1);
    assert_eq!(stall_wait(&facts), StallWait::None);
    facts.ended.run_queue_waits[0].own_s = None;
    assert_eq!(stall_wait(&facts), StallWait::Unknown);
    facts.ended.stalls[0].who = Stalled::Broker;
    facts.ended.run_queue_waits.truncate(1);
    facts.ended.run_queue_waits[0].broker_s = None;
    assert_eq!(stall_wait(&facts), StallWait::Unknown);
    facts.same_machine = false;
    assert_eq!(stall_wait(&facts), StallWait::None, "elsewhere");
    // No core was wanting where bellows used none.
    let (idle, client_cores, used) = (Some(0.0), Some(0.0), Some(broker(0.0, 0.0)));
    let unused = Facts { idle, cores: 2, client_cores, broker: used, ..stopped_broker() };
    assert!(!codes(&unused).contains(&WarningCode::TooFewCores));
}

#[test]
fn each_doubt_has_its_code_and_the_gravest_comes_first() {
    let mut facts = waiting_for_answers();
    facts.steal = Some(0.03);
    facts.ended = Ended {
        debug_build: true,
        interrupted: true,
        insecure: true,
        clock_source: Some("hpet".to_owned()),
        trend: Some(0.84),
        blocked: Some((1, "low on memory".to_owned())),
        nacked: 3,
        unconfirmed: 7,
        unanswered: 7,
        lost_connections: 1,
        too_few: vec![
            ("ack response".to_owned(), 99_999, "p99.99".to_owned()),
            ("end-to-end".to_owned(), 99_999, "p99.99".to_owned()),
        ],
        ledger: Some(LedgerSummary { lost: 2, outstanding: 1, ..LedgerSummary::default() }),
        ..Ended::default()
    };
    let found = judge(facts).findings;
    let codes: Vec<_> = found.iter().map(|it| format!("{:?}", it.code())).collect();
    let expected = "MessagesLost DebugBuild CertificateNotChecked ConnectionsLost MessagesNotAccepted CpuSteal \
                    ClockNotSteady ConnectionBlocked MessagesOutstanding MessagesUnanswered NotSteadyState Interrupted \
                    TooFewSamples";
    assert_eq!(codes.join(" "), expected);
    let is_refused =
        |it: &Warning| matches!(it.finding, Finding::MessagesNotAccepted { nacked: 3, not_confirmed: 0, .. });
    assert!(found.iter().any(is_refused), "{found:?}");
}

#[test]
fn connections_that_the_runs_own_fault_took_or_blocked_are_told_with_that_of_several() {
    let mut facts = waiting_for_answers();
    facts.ended.faults = vec![OwnFault { name: "kill".to_owned(), from_s: 8.0, until_s: 13.0 }];
    (facts.ended.lost_connections, facts.ended.unconfirmed) = (2, 3);
    // A thread's clock may be a moment older than what it notices, which may be a while after the end.
    let (own, others) = ([&[7.99][..], &[13.9], &[8.1, 12.0]], [&[8.1, 20.0][..], &[3.0], &[]]);
    for (lost, fault) in own.map(|it| (it, Some("kill"))).into_iter().chain(others.map(|it| (it, None))) {
        facts.ended.lost_at_s = lost.to_vec();
        let fault = fault.map(str::to_owned);
        assert_eq!(own_faults(&facts), [("lost", fault.clone()), ("not accepted", fault)], "{facts:?}");
    }
    let mut facts = waiting_for_answers();
    let fault = |name: &str, from_s, until_s| OwnFault { name: name.to_owned(), from_s, until_s };
    facts.ended.faults = vec![fault("stall", 2.0, 2.3), fault("drop", 3.000_28, 3.000_28), fault("block", 3.5, 3.8)];
    facts.ended.blocked = Some((1, "low on memory".to_owned()));
    (facts.ended.lost_connections, facts.ended.lost_at_s) = (1, vec![3.000_41]);
    for (blocked_at, blocked_by) in [(vec![3.500_2], Some("block")), (vec![3.500_2, 9.0], None), (vec![2.1], None)] {
        facts.ended.blocked_at_s = blocked_at;
        let blocked = ("blocked", blocked_by.map(str::to_owned));
        assert_eq!(own_faults(&facts), [blocked, ("lost", Some("drop".to_owned()))]);
    }
    (facts.ended.blocked, facts.ended.lost_at_s) = (None, vec![2.1, 3.000_41, 3.000_42]);
    assert_eq!(own_faults(&facts), [("lost", Some("stall, drop".to_owned()))], "all that took some");
}

/// The fault of the run that each finding names, by the kind of finding.
fn own_faults(facts: &Facts) -> Vec<(&'static str, Option<String>)> {
    let found = judge(facts.clone()).findings.into_iter();
    let named = found.filter_map(|it| match it.finding {
        Finding::ConnectionBlocked { fault, .. } => Some(("blocked", fault)),
        Finding::ConnectionsLost { fault, .. } => Some(("lost", fault)),
        Finding::MessagesNotAccepted { fault, .. } => Some(("not accepted", fault)),
        _ => None,
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

#[test]
fn the_profilers_own_troubles_are_told_and_what_a_profile_lacks_by_how_much() {
    let outcome = profile::Outcome {
        samples: 900,
        lost: 100,
        throttled: 2,
        notes: vec!["user space only".into()],
        ..profile::Outcome::default()
    };
    let found = profile_findings(&outcome, false);
    let codes: Vec<_> = found.iter().map(|finding| finding.code()).collect();
    assert_eq!(codes, [WarningCode::LostSamples, WarningCode::ProfilerThrottled, WarningCode::ProfileIncomplete]);
    assert_eq!(found[0].finding, Finding::LostSamples { lost: 100, samples: 900, each: false });
    assert_eq!(profile_findings(&profile::Outcome::default(), false), []);
    let profile = |samples, unknown_share, complete_share, cpu_share| ProfileSummary {
        samples,
        unknown_share,
        complete_share,
        cpu_share,
        ..ProfileSummary::default()
    };
    let gaps = |profile: &ProfileSummary| {
        let named = profile_gaps(profile).into_iter().map(|it| match it.finding {
            Finding::ProfileIncomplete { gap: ProfileGap::Names { .. } } => (it.tier, "names"),
            Finding::ProfileIncomplete { gap: ProfileGap::Callers { .. } } => (it.tier, "callers"),
            Finding::ProfileIncomplete { gap: ProfileGap::Samples { .. } } => (it.tier, "samples"),
            other => panic!("{other:?}"),
        });
        named.collect::<Vec<_>>()
    };
    assert_eq!(gaps(&profile(1000, 0.05, 0.98, Some(0.95))), []);
    assert_eq!(gaps(&profile(1000, 0.05, 0.98, None)), []);
    assert_eq!(
        gaps(&profile(1000, 0.44, 0.63, Some(0.76))),
        [(Tier::Caution, "names"), (Tier::Caution, "callers"), (Tier::Caution, "samples"),]
    );
    assert_eq!(gaps(&profile(1000, 0.0, 0.95, Some(0.95))), [(Tier::Note, "callers")]);
    for (class, runtime) in [(Class::ErlangCode, "erlang"), (Class::JavaCode, "java"), (Class::OwnCode, "native")] {
        let of_kernel = ClassShare { class: Class::KernelOther, share: 0.5, weight: 500 };
        let profile = ProfileSummary {
            classes: vec![of_kernel, ClassShare { class, ..of_kernel }],
            ..profile(1000, 0.0, 0.6, None)
        };
        let gaps = profile_gaps(&profile);
        let is_of = |gap: &ProfileGap| matches!(gap, ProfileGap::Callers { runtime: of, .. } if of == runtime);
        assert!(matches!(&gaps[0].finding, Finding::ProfileIncomplete { gap } if is_of(gap)), "{gaps:?}");
    }
    // Of some samples, one says nothing.
    assert_eq!(gaps(&profile(20, 0.3, 0.6, Some(0.5))), []);
}

#[test]
fn what_the_kernels_probes_take_of_the_cpu_is_said() {
    let share = |event: &str, probes: u64| {
        let folded = format!("t;main {}\nt;main;asm_exc_debug {probes}\n", 100 - probes);
        let file = tempfile::NamedTempFile::with_suffix(".folded").unwrap();
        std::fs::write(&file, folded).unwrap();
        let mut profile = stacks::Profile::open(file.path()).unwrap();
        profile.header.event = event.into();
        probed(&profile).map(|it| match it.finding {
            Finding::ProfileIncomplete { gap: ProfileGap::Probed { probes_share } } => probes_share,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(share("cpu", 60), Some(0.6));
    assert_eq!(share("cpu", 4), None);
    assert_eq!(share("off-cpu", 60), None);
}

/// Programs that are the load have no event loops of ours.
#[test]
fn time_without_a_connection_is_a_reason_and_loops_that_are_not_there_are_none() {
    let decided = |change: fn(&mut Facts), code: &str| {
        let mut facts = waiting_for_answers();
        change(&mut facts);
        verdict(facts).reasons.iter().find(|it| it.code == code).map(|it| it.decided)
    };
    let away = decided(|e| e.producers = producers(|time| (time.budget, time.away) = (0.8, 0.095)), "away");
    assert_eq!(away, Some(true));
    assert!(decided(|_| (), "loop_busy").is_some());
    assert_eq!(decided(|e| e.loops.clear(), "loop_busy"), None);
}

/// Messages that could go and waited for the event loop were not held up by the broker's stall.
#[test]
fn a_stall_is_not_blamed_for_what_it_did_not_delay() {
    let mut facts = stopped_broker();
    (facts.late_share, facts.in_flight_limit, facts.idle) = (0.3, Some(100_000), Some(0.9));
    facts.producers = producers(|time| (time.ready, time.schedule) = (0.3, 0.7));
    let found = judge(facts.clone());
    assert_eq!(found.verdict.cause, late_by(Lateness::Generator));
    let decided = |verdict: &Verdict| {
        verdict.reasons.iter().filter(|reason| reason.decided).map(|reason| reason.code.clone()).collect::<Vec<_>>()
    };
    assert_eq!(decided(&found.verdict)[0], "stalls", "it is told first, as a fact");
    // Without a connection, while the broker answered others: no standing still of anybody.
    let stall = &mut facts.ended.stalls[0];
    (stall.away, stall.who) = (true, Stalled::Generator);
    facts.producers = producers(|time| (time.away, time.schedule) = (0.3, 0.7));
    let found = judge(facts);
    assert_eq!(found.verdict.cause, late_by(Lateness::Broker));
    assert!(!decided(&found.verdict).contains(&"stalls".to_owned()));
}

/// Unthrottled producers mostly wait for the broker anyway; an outage still comes first.
#[test]
fn an_outage_is_what_an_unthrottled_verdict_begins_with() {
    let mut facts = waiting_for_answers();
    facts.ended.stalls = stopped_broker().ended.stalls;
    facts.ended.stalls[0].for_s = facts.seconds * 0.1;
    let found = verdict(facts.clone());
    assert_eq!(found.cause, verdict(waiting_for_answers()).cause, "who limited the rest");
    assert!(found.reasons[0].decided && found.reasons[0].code == "stalls", "{found:?}");
    facts.ended.stalls[0].for_s = facts.seconds * 0.001;
    assert!(verdict(facts).reasons[0].code != "stalls");
}

/// Noise of +-1 that is the same in every run.
fn noise(i: u32) -> f64 {
    f64::from(i.wrapping_mul(2_654_435_761) >> 16 & 0xff) / 128.0 - 1.0
}

fn series(n: u32, value: impl Fn(f64) -> f64) -> Vec<f64> {
    (0..n).map(|i| value(f64::from(i) / f64::from(n - 1)) + 20.0 * noise(i)).collect()
}

#[test]
fn a_rise_and_a_fall_have_their_size_and_what_is_level_small_or_one_bad_second_is_no_trend() {
    let mut one_bad = series(30, |_| 1_000.0);
    one_bad[29] = 0.0;
    let level = [30, 3_600].map(|seconds| series(seconds, |_| 1_000.0));
    let others = [series(60, |x| 1_000.0 + 50.0 * x), one_bad, vec![], vec![1.0; 9], vec![0.0; 50], vec![7.0; 50]];
    for values in level.iter().chain(&others) {
        assert_eq!(trend(values), None, "{values:?}");
    }
    let rise = trend(&series(30, |x| 1_000.0 + 300.0 * x)).unwrap();
    assert!((0.2..0.35).contains(&rise), "{rise}");
    let fall = trend(&series(2_000, |x| 1_000.0 - 500.0 * x)).unwrap();
    assert!((-0.8..-0.5).contains(&fall), "{fall}");
}
