//! Verdicts and their words.

use std::collections::BTreeSet;

use archive::{
    Awaited, BrokerUse, Busy, Capacity, Cause, ChurnFacts, ConnectionTime, Ended, Facts, Lacking, Lateness, LimitedBy,
    LoopUse, OwnFault, ProducerTime, Reason, RunQueueWait, Stall, Stalled, Verdict, WorkerSummary,
};
use measure::ScenarioRole;
use testkit::{assert_begins, assert_ends, assert_has, assert_lacks};

use crate::numbers::rate;

/// Unthrottled with confirms on a machine of 8 cores; a loop with much time to spare, waiting for answers.
fn facts() -> Facts {
    let producers =
        ProducerTime { budget: 0.97, credit: 0.95, socket: 0.9, blocked: 0.8, away: 0.6, ready: 0.7, schedule: 0.9 };
    let (busiest_thread, busiest_thread_name) = (Some(0.97), Some("2_scheduler".into()));
    let stalls = vec![Stall { for_s: 0.6, who: Stalled::Broker, ..Stall::default() }];
    Facts {
        seconds: 30.0,
        sent_rate: 100_000.0,
        producers: Some(producers),
        in_flight_limit: Some(2_000),
        answer_ns: 20_000_000,
        loops: vec![LoopUse { cpu: 0.2, idle: 0.79, run_queue_wait: Some(0.4) }],
        loop_lag_max_ns: 2_700_000,
        late_share: 0.2,
        cores: 8,
        idle: Some(0.6),
        client_cores: Some(0.25),
        broker: Some(BrokerUse { cores: 2.8, busiest_thread, busiest_thread_name, run_queue_wait: Some(0.73) }),
        same_machine: true,
        round_trip_ns: Some(60_000),
        idle_answer_ns: Some(40_000_000),
        ended: Ended { stalls, ..Ended::default() },
        ..Facts::default()
    }
}

fn said(cause: Cause, limited_by: LimitedBy, facts: Facts) -> String {
    with_reasons(&[], Verdict { limited_by, cause: Some(cause), facts, ..Verdict::default() }).sentence
}

fn with_reasons(codes: &[&str], verdict: Verdict) -> Verdict {
    let reason = |code: &&str| Reason { code: (*code).to_owned(), text: String::new(), decided: true };
    let mut verdict = Verdict { reasons: codes.iter().map(reason).collect(), ..verdict };
    super::verdict(&mut verdict);
    verdict
}

#[test]
fn each_cause_has_its_sentence() {
    use LimitedBy::{Broker, Generator, Network, Schedule, Undecided};
    let (wait, full, credit) = (Awaited::Answers, Awaited::Sockets, Awaited::Credit);
    let (busy, others) = (Busy::Thread, Some(1.0));
    let waited = "limited by the broker: producers waited 97 % of the time for confirms (2,000 in flight x 20.0 ms";
    let limit = "in-flight limit (2,000 in flight x 20.0 ms until confirmed)";
    let stalled = "limited by the broker: it stopped answering for 600 ms of the 30.0 s; messages due";
    // How long they waited stands in the reasons and in the warning.
    let filled = " of the 8 cores, for which the broker's threads and the generator waited: stop the others";
    let cases: [(Cause, LimitedBy, &[&str]); 24] = [
        (Cause::OthersFillMachine, Undecided, &["undecided: other processes took ", filled]),
        (Cause::BrokerBusy { wait, busy }, Broker, &[waited, "its thread 2_scheduler used 97 % of a core"]),
        (Cause::BrokerBusy { wait, busy: Busy::Machine }, Broker, &["it fills the machine: 2.8 of 8 cores"]),
        (Cause::InFlightLimit, Broker, &[limit, "larger --max-pending"]),
        (Cause::BrokerSlow { wait }, Broker, &["only 2.8 of 8 cores", "something other than CPU"]),
        (Cause::BrokerLacksCores { wait }, Broker, &["0.73 s per second in the run queue", "too little CPU"]),
        (Cause::BrokerUnknown, Broker, &["its CPU is not known"]),
        (Cause::BrokerStalled { for_s: 0.6, times: 1 }, Broker, &[stalled]),
        (Cause::RoundTrip, Network, &["a round trip takes 60.0 µs"]),
        (Cause::ProxyWay, Network, &["back takes 40.0 ms even without load"]),
        (Cause::ProxyFull { wait: full }, Network, &["takes no more, though the broker reads all that it gets"]),
        (Cause::ProxyHides { wait: full }, Undecided, &["sockets to the broker were full for 90 %"]),
        (Cause::BothBusy, Undecided, &["event loop was busy 21 %", "busiest thread 97 %", "both are at their limit"]),
        (Cause::GeneratorBusy, Generator, &["its event loop was busy 21 % of the time: use more --threads (now 1)"]),
        (Cause::GeneratorLacksCores { others }, Generator, &["while other processes took 1.0 cores: stop them"]),
        (Cause::BothFillMachine, Undecided, &["broker (2.8) and generator (0.2) fill the 8 cores"]),
        (Cause::BrokerDoesNotRead, Broker, &["it did not read: sockets to the broker were full for 90 %"]),
        (Cause::NoCredit, Broker, &["gave its publishers no credit for 95 %"]),
        (Cause::BrokerBusy { wait: credit, busy }, Broker, &["producers waited 95 % of the time for credit, and"]),
        (Cause::Alarm, Broker, &["blocked its publishers for 80 %"]),
        (Cause::NoConnection, Broker, &["no connection to it for 60 %"]),
        (Cause::TooShort, Undecided, &["undecided: only 30.00 s"]),
        (Cause::Unclear, Undecided, &["no cause stands out: messages waited 70 % of the time for the event loop"]),
        (Cause::ThinkTime, Schedule, &["limited by the requested think time"]),
    ];
    for (cause, who, words) in cases {
        let sentence = said(cause.clone(), who, facts());
        assert!(words.iter().all(|it| sentence.contains(it)), "{cause:?}: {sentence}");
        assert!(!sentence.contains('\n') && !sentence.ends_with('.'), "{sentence}");
        assert!(!sentence.contains("affinity"), "none is set: {sentence}");
    }
}

/// Rates over 7 s stood beside "only 0.02 s were measured".
#[test]
fn of_a_load_that_ended_by_itself_the_sending_was_short() {
    let mut facts = Facts { seconds: 0.02, ..facts() };
    facts.ended.received_s = 7.2;
    let told = "all was sent in 0.02 s, too short to judge; the last was received after 7.20 s";
    assert_has(said(Cause::TooShort, LimitedBy::Undecided, facts), [told]);
}

#[test]
fn an_affinity_is_to_be_lifted_only_where_one_is_set() {
    let facts = Facts { cores: 2, machine_cores: 8, ..facts() };
    for others in [None, Some(1.0)] {
        let cause = Cause::GeneratorLacksCores { others };
        assert_has(said(cause, LimitedBy::Generator, facts.clone()), ["lift its CPU affinity"]);
    }
}

#[test]
fn lateness_is_a_sentence_of_its_own() {
    let mut facts = facts();
    facts.requested_rate = Some(100_000.0);
    let met = |late, facts: Facts| said(Cause::RateMet { late }, LimitedBy::Schedule, facts);
    // As the end of a run says it: the requested rate limited it, whoever stood still.
    let expected = "the requested rate was met: 100,000 msg/s; 20 % of the messages left over 1 ms late, because the \
                    broker stopped answering for 600 ms of the 30.0 s";
    assert_eq!(met(Some(Lateness::BrokerStalled), facts.clone()), expected);
    let mut twice = facts.clone();
    twice.ended.stalls.push(Stall { away: true, at_s: 15.0, for_s: 6.2, ..twice.ended.stalls[0] });
    assert_ends(
        met(Some(Lateness::BrokerStalled), twice),
        "the broker was away (no connection) for 6.20 s of the 30.0 s, and stopped answering for 600 ms",
    );
    // Where two overlap, that time counts once; what lies outside of the measured phase not at all.
    let mut overlap = facts.clone();
    let first = overlap.ended.stalls[0];
    let from = overlap.ended.measured_from_s;
    for (at_s, for_s) in [(first.at_s + 0.3, 0.5), (from - 2.0, 1.0)] {
        overlap.ended.stalls.push(Stall { at_s, for_s, ..first });
    }
    let once = "the broker stopped answering for 800 ms (2 times) of the 30.0 s";
    assert_ends(met(Some(Lateness::BrokerStalled), overlap), once);
    let own = "because the generator's event loop was late by up to 2.70 ms";
    assert_ends(met(Some(Lateness::Generator), facts.clone()), own);
    let on_time = Facts { loop_lag_max_ns: 310_000, ..facts.clone() };
    assert_ends(met(Some(Lateness::Generator), on_time), "and no cause stands out");
    let mut slow = facts.clone();
    (slow.late_share, slow.ended.late_s) = (1.0, 1.5);
    slow.loops[0].run_queue_wait = Some(0.04);
    let waited = "for lack of CPU: the generator's event loop waited 1.20 s in the run queue, and messages were late \
                  for 1.50 s";
    assert_has(met(Some(Lateness::Cores), slow), [waited]);
    assert_ends(met(Some(Lateness::Broker), facts.clone()), "waiting for confirms (97 % of the time)");
    facts.late_share = 0.001;
    facts.capacity = Some(Capacity { rate: 3_114_000.0, at_least: true, ..Capacity::default() });
    let on_time = met(None, facts);
    assert_has(&on_time, ["100,000 msg/s, 0.1 % of them over 1 ms late; the generator's event loop"]);
    assert_ends(on_time, "could have made at least 3.11 M msg/s of this size here");
}

#[test]
fn the_workers_of_a_fleet_are_named_with_what_they_lacked() {
    let worker = |name: &str, at_work: f64, limits| WorkerSummary {
        name: name.to_owned(),
        cores: 2,
        cpu_cores: at_work,
        at_work,
        run_queue_wait: at_work / 50.0,
        late_share: Some(at_work / 2.0),
        limits,
        ..WorkerSummary::default()
    };
    let facts = Facts { workers: vec![worker("a", 0.2, false), worker("b", 0.9, true)], ..facts() };
    let who = "limited by the generator: worker b (event loop busy 90 % of the time, waited 1.8 % for a core; 0.90 of \
               2 cores, 45 % sent over 1 ms late): use more";
    assert_begins(said(Cause::GeneratorBusy, LimitedBy::Generator, facts.clone()), who);
    let late = Cause::RateMet { late: Some(Lateness::Cores) };
    let says = ["the event loop of worker b waited 40 % of the time in the run queue", "; 45 % of worker b's"];
    assert_has(said(late, LimitedBy::Schedule, facts.clone()), says);
    // Who was busy most is not who stood still.
    let mut stood = Facts { loop_lag_max_ns: 3_000_000_000, ..facts.clone() };
    stood.workers[0].absence.loop_lag_max_s = 3.0;
    let told = with_reasons(&["loop_busy"], Verdict { facts: stood.clone(), ..Verdict::default() });
    assert_has(&told.reasons[0].text, ["by up to 3.00 s (worker a)"]);
    let met = |facts| said(Cause::RateMet { late: None }, LimitedBy::Schedule, Facts { late_share: 0.001, ..facts });
    let other = "of the time, that of worker a was late by up to 3.00 s";
    assert_has(met(stood.clone()), ["the requested rate was met", "the event loop of worker b was busy", other]);
    // Without the one that was lost, less was sent than requested.
    stood.workers[0].absence.tolerated = true;
    assert_begins(met(stood), "what was requested of the workers that remained was met: ");
    let told = with_reasons(&["loop_busy", "loop_run_queue_wait"], Verdict { facts, ..Verdict::default() });
    for (reason, says) in told.reasons.iter().zip(["was busy 21 %", "waited 40 %"]) {
        assert_begins(&reason.text, format!("the event loop, of worker b, {says} of the time"));
    }
}

/// A rate 24 % too high was met, without a word about why.
#[test]
fn a_backlog_of_the_warm_up_is_named() {
    let mut facts = facts();
    facts.requested_rate = Some(80_000.0);
    let (sent, requested) = (rate(100_000.0), rate(80_000.0));
    let begins = format!("the requested rate was met: {sent} of {requested} msg/s, with the warm-up's backlog, 20 %");
    assert_begins(said(Cause::RateMet { late: None }, LimitedBy::Schedule, facts.clone()), begins);
    // What was due in its place and never sent stands beside the sent rate, which is higher than requested.
    let unsent = Facts { ended: Ended { unsent: 8_470, ..facts.ended.clone() }, ..facts.clone() };
    let verdict = with_reasons(&["requested"], Verdict { facts: unsent, ..Verdict::default() });
    assert_ends(&verdict.reasons[0].text, "; 8,470 messages never left though due");
    // Random arrivals deviate by so many.
    facts.requested_deviation = 200_000.0;
    assert_lacks(said(Cause::RateMet { late: None }, LimitedBy::Schedule, facts), ["backlog"]);
}

#[test]
fn cycles_are_no_messages() {
    let mut facts = facts();
    let churn = ChurnFacts { unit: "cycles".into(), ..ChurnFacts::default() };
    facts.ended = Ended { churn: vec![churn], ..Ended::default() };
    facts.requested_rate = Some(50.0);
    facts.sent_rate = 50.0;
    let slow = Cause::BrokerSlow { wait: Awaited::Answers };
    for cause in [Cause::InFlightLimit, Cause::GeneratorBusy, Cause::RateMet { late: None }, slow] {
        assert_lacks(said(cause, LimitedBy::Broker, facts.clone()), ["msg", "confirm", "--max-pending", "--threads"]);
    }
}

#[test]
fn a_load_in_transactions_waits_for_these_and_its_window_is_theirs() {
    let mut facts = facts();
    facts.ended.transaction = 10;
    let unknown = said(Cause::BrokerUnknown, LimitedBy::Broker, facts.clone());
    let waited = "97 % of the time for transactions of 10 messages (2,000 in flight x 20.0 ms until committed)";
    assert_has(unknown, [waited]);
    assert_has(said(Cause::InFlightLimit, LimitedBy::Broker, facts), ["larger --commit-interval"]);
}

#[test]
fn a_load_that_ends_with_its_messages_has_the_rate_that_was_sent() {
    let mut facts = facts();
    (facts.counted, facts.ended.sent) = (true, 400);
    (facts.requested_rate, facts.sent_rate) = (Some(500.0), 200.0);
    let begins = "all requested messages were sent: 400 messages, 200 msg/s on average";
    assert_has(said(Cause::RateMet { late: None }, LimitedBy::Schedule, facts), [begins]);
}

#[test]
fn a_loop_without_a_schedule_is_not_late() {
    let late = |loop_lag_max_ns| {
        let facts = Facts { loop_lag_max_ns, ..facts() };
        let verdict = with_reasons(&["loop_busy"], Verdict { facts: facts.clone(), ..Verdict::default() });
        let sentence = said(Cause::GeneratorLate, LimitedBy::Generator, facts);
        [verdict.reasons[0].text.as_str(), &sentence].map(|it| it.contains("late by"))
    };
    assert_eq!((late(0), late(2_700_000)), ([false; 2], [true; 2]));
}

#[test]
fn every_reason_has_words() {
    let codes = "requested in_flight_full no_credit socket_full blocked away ready schedule consumers_behind stalls \
                 loop_busy loop_run_queue_wait broker_cpu broker_unknown affinity machine_idle shared_cores relay \
                 round_trip connections capacity not_calibrated";
    let codes: Vec<&str> = codes.split(' ').collect();
    let mut facts = facts();
    facts.ended.stalls = vec![Stall { at_s: facts.ended.measured_from_s, for_s: 1.0, ..Stall::default() }];
    facts.connections = Some(ConnectionTime::default());
    facts.capacity = Some(Capacity::default());
    let verdict = with_reasons(&codes, Verdict { facts, ..Verdict::default() });
    let texts: BTreeSet<_> = verdict.reasons.iter().map(|reason| reason.text.as_str()).collect();
    assert_eq!((texts.len(), texts.contains("")), (codes.len(), false), "{texts:?}");
}

#[test]
fn a_fault_of_the_run_itself_is_named_with_what_it_cost() {
    let mut facts = facts();
    facts.requested_rate = Some(100_000.0);
    let fault = |name: &str, from_s, until_s| OwnFault { name: name.to_owned(), from_s, until_s };
    facts.ended.faults = vec![fault("kill of node 1", 10.0, 21.3)];
    facts.ended.behind = Lacking { due: 3_000_000.0, all: 1_000_000.0, in_faults: 880_000.0 };
    let cause = || Cause::OwnFault { deliveries: false };
    let expected = "limited by the broker: this run's own kill of node 1: 88 % of the late messages were due then";
    assert_eq!(said(cause(), LimitedBy::Broker, facts.clone()), expected);
    let late = Some(Lateness::OwnFault);
    assert_ends(
        said(Cause::RateMet { late }, LimitedBy::Schedule, facts.clone()),
        "left over 1 ms late, because of this run's own kill of node 1: 88 % of the late messages were due then",
    );
    let free = Facts { requested_rate: None, ..facts.clone() };
    let missing = "88 % of the drop in messages against other seconds came then";
    assert_ends(said(cause(), LimitedBy::Broker, free), missing);
    // A stall at another time is none of it.
    let stalled = |facts: &Facts| {
        let late = Some(Lateness::BrokerStalled);
        said(Cause::RateMet { late }, LimitedBy::Schedule, facts.clone())
    };
    assert_lacks(stalled(&facts), ["this run's own"]);
    facts.ended.faults[0].from_s = 0.0;
    let own = "the broker stopped answering for 600 ms of the 30.0 s, during this run's own kill of node 1";
    assert_ends(stalled(&facts), own);
    facts.ended.faults.push(fault("stop", 25.0, f64::INFINITY));
    assert_ends(stalled(&facts), "this run's own faults (kill of node 1, stop)");
    let cause = Some(Cause::InFlightLimit);
    let verdict =
        with_reasons(&["own_fault"], Verdict { limited_by: LimitedBy::Broker, cause, facts, ..Verdict::default() });
    let begins = "this run's own faults (kill of node 1, stop): 88 % of the late messages were due then; limited by";
    assert_begins(&verdict.sentence, begins);
    let told = "the run's own faults: kill of node 1 at 0.0 s for 21.3 s, stop at 25.0 s until the end";
    assert_eq!(verdict.reasons[0].text, told);
}

/// Waits for a core in the seconds of a stall are named where they exceed the event loop's.
#[test]
fn what_waited_for_cores_while_it_stood_still_is_named() {
    let mut facts = facts();
    (facts.requested_rate, facts.idle) = (Some(100_000.0), Some(0.4));
    facts.loops[0].run_queue_wait = Some(0.01);
    facts.ended.run_queue_waits = vec![RunQueueWait { from_s: 0.0, until_s: 1.0, broker_s: Some(0.5), own_s: None }];
    let told = "the broker's threads waited 500 ms in the run queue in the seconds of its stalls, while other \
                processes took 1.8 of the 8 cores";
    let late = Some(Lateness::Cores);
    let met = said(Cause::RateMet { late }, LimitedBy::Schedule, facts.clone());
    assert_ends(met, format!("late, for lack of CPU: {told}"));
    let after = "it stopped answering for 600 ms of the 30.0 s: stop the other processes, and run again";
    assert_eq!(said(Cause::StalledForCores, LimitedBy::Undecided, facts), format!("undecided: {told}; {after}"));
}

/// A probe of which a quarter failed was said to have met its rate.
#[test]
fn a_share_that_failed_is_said_and_no_rate_is_called_met() {
    let mut facts = facts();
    (facts.requested_rate, facts.sent_rate) = (Some(10.0), 10.0);
    let (unit, role) = ("requests".into(), ScenarioRole::Server);
    facts.ended.churn = vec![ChurnFacts { unit, role, begun: 60, failed: 15, ..ChurnFacts::default() }];
    let (requested, completed) = (rate(10.0), rate(7.5));
    let begins = format!("25 % of the requests failed: {completed} of {requested} requests/s were completed");
    let failed = said(Cause::SomeFailed, LimitedBy::Undecided, facts.clone());
    assert_eq!(failed, begins + ", though all were sent");
    // Also where something else limited it.
    facts.answer_ns = 0;
    let unknown = said(Cause::BrokerUnknown, LimitedBy::Broker, facts);
    assert_has(unknown, ["(2,000 in flight, none completed)", "; 15 requests failed"]);
}

#[test]
fn an_outage_is_told_before_what_limited_the_rest() {
    let cause = Some(Cause::InFlightLimit);
    let stood = Verdict { limited_by: LimitedBy::Broker, cause, facts: facts(), ..Verdict::default() };
    let mut stood = with_reasons(&["stalls"], stood);
    assert_begins(&stood.sentence, "the broker stopped answering for 600 ms of the 30.0 s; limited by the broker: ");
    stood.reasons[0].decided = false;
    super::verdict(&mut stood);
    assert_begins(&stood.sentence, "limited by the broker");
}
