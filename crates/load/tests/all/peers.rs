//! Brokers that misbehave by a script: the engine says what happened, never hangs, never panics. In virtual time.

use broker::{Config, Fault, FaultKind, FaultLog, Origin, Who};
use load::{Ack, Destination, Error, Outcome, Plan, ReconnectPolicy, RunEvent};
use measure::{Metric, Nanos};

use crate::common;
use crate::world::{InMemory, Told};

struct Kept {
    log: FaultLog,
    told: Told,
}

fn at(kind: FaultKind, ms: u64) -> Fault {
    Fault { at: Some(Nanos::from_millis(ms)), ..Fault::new(kind) }
}

fn plan(broker: &InMemory, reconnect: Option<ReconnectPolicy>) -> Plan {
    let mut group = common::group(broker.local_addr(), Destination::queue("peers"), (2, 1));
    group.producers.arrivals = common::rate(4_000.0);
    group.producers.max_pending = 100;
    group.producers.sizes = 40.into();
    group.consumers.ack = Ack::Every(10);
    group.reconnect = reconnect;
    let phases = common::phases(0, 300, 300);
    Plan { groups: vec![group], phases, timeout: Nanos::from_millis(1_000), ..Plan::default() }
}

/// Runs a load against a script; ends in time, whatever happens.
fn run(script: &[Fault], reconnect: Option<ReconnectPolicy>) -> (Result<Outcome, Error>, Kept) {
    let config = Config { faults: script.to_vec(), fault_origin: Origin::Declared, ..Config::default() };
    let broker = InMemory::new(config);
    let log = broker.fault_log();
    let begin = broker.world.time();
    let (outcome, told) = broker.world.run(&plan(&broker, reconnect), |_, at| log.begin(at));
    let took = broker.world.time().since(begin);
    assert!(took < Nanos::from_millis(3_000), "{script:?} took {took:?}");
    (outcome, Kept { log, told })
}

fn outlived(script: &[Fault], reconnect: Option<ReconnectPolicy>) -> (Outcome, Kept) {
    let (outcome, kept) = run(script, reconnect);
    let outcome = outcome.expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    (outcome, kept)
}

fn broken(script: &[Fault]) -> String {
    let (outcome, _) = run(script, None);
    let outcome = outcome.expect("the load starts");
    let error = outcome.error.as_ref().expect("it broke off");
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
    assert!(!error.problem().help.is_empty(), "{text}");
    assert!(outcome.totals.sent > 50, "{text}: {outcome:?}");
    text
}

const RECOVERY: Option<ReconnectPolicy> =
    Some(ReconnectPolicy { min: Nanos::from_millis(5), max: Nanos::from_millis(15) });

#[test]
fn a_channel_closed_in_the_middle_names_the_brokers_reason() {
    for who in [Who::Producers, Who::Consumers] {
        let close = Fault { who, ..at(FaultKind::CloseChannel, 100) };
        testkit::assert_has(broken(std::slice::from_ref(&close)), ["406", "fault"]);
        let (outcome, _) = outlived(&[close], RECOVERY);
        assert!(common::lost_connections(&outcome) > 0, "{who:?}: {outcome:?}");
    }
}

#[test]
fn connections_that_end_name_the_reason() {
    let cases = [
        (FaultKind::Drop { in_order: true }, "320"),
        (FaultKind::Drop { in_order: false }, "lost the connection"),
        (FaultKind::Reset, "lost the connection"),
    ];
    for (kind, part) in cases {
        let text = broken(&[at(kind, 100)]);
        assert!(text.contains(part), "{kind:?}: {text}");
        let (outcome, _) = outlived(&[at(kind, 100)], RECOVERY);
        assert_eq!(common::lost_connections(&outcome), 3, "{kind:?}: {outcome:?}");
        // Messages due without a connection were sent later.
        assert_eq!(outcome.totals.sent, 1_200, "{kind:?}: {outcome:?}");
    }
}

#[test]
fn frames_cut_at_any_byte_end_the_connection_and_nothing_else() {
    std::thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || {
                for after in (1..100).skip(worker).step_by(4) {
                    let cut = at(FaultKind::Cut { after: Some(after) }, 60);
                    let text = broken(&[cut]);
                    assert!(text.contains("lost the connection"), "{after}: {text}");
                }
            });
        }
    });
}

#[test]
fn a_refused_login_says_so_at_once() {
    let (outcome, _) = run(&[Fault::new(FaultKind::RefuseLogin)], RECOVERY);
    let error = outcome.expect_err("nobody is let in");
    assert!(matches!(error, Error::LogIn { .. }), "{error}");
    assert!(error.to_string().contains("403"), "{error}");
}

#[test]
fn logins_refused_after_a_loss_are_tried_again() {
    let refuse = Fault { count: Some(4), ..at(FaultKind::RefuseLogin, 100) };
    let script = [at(FaultKind::Reset, 101), refuse];
    let (outcome, kept) = outlived(&script, RECOVERY);
    assert_eq!(kept.log.injections().faults[1].count, 4);
    let recovered = |event: &RunEvent| matches!(event, RunEvent::Recovered { .. });
    assert!(kept.told.events.iter().any(recovered), "{:?}", kept.told.events);
    assert_eq!(outcome.totals.sent, 1_200, "{outcome:?}");
}

#[test]
fn blocked_publishers_wait_and_say_so() {
    let block = Fault { length: Some(Nanos::from_millis(100)), ..at(FaultKind::Block, 100) };
    let (outcome, kept) = outlived(&[block], None);
    assert_eq!(outcome.totals.received, outcome.totals.sent);
    for wanted in [
        |event: &RunEvent| matches!(event, RunEvent::Blocked { .. }),
        |event: &RunEvent| matches!(event, RunEvent::Unblocked { .. }),
    ] {
        assert!(kept.told.events.iter().any(wanted), "{:?}", kept.told.events);
    }
    let felt = kept.told.measured.latencies.histogram(Metric::ACK_RESPONSE).max();
    assert!(felt > 98_000_000, "{felt} ns");
}
