//! No verdict without its own evidence: the sentences of random verdicts are true of their facts, and no other fact
//! causes their first statement.

use archive::{Awaited, Busy, Capacity, ConnectionTime, Lacking, LoopUse, OwnFault};
use testkit::Random;

use super::*;

/// Random facts of a run: shares of time add up to 1, and everything else is within its bounds.
fn chance(random: &mut Random) -> Facts {
    let share = |random: &mut Random| {
        let whole = random.of(&[0, 1, 20, 300, 999, 1_000]);
        random.below(whole + 1) as f64 / 1_000.0
    };
    let mut left = 1.0;
    let mut part = |random: &mut Random| {
        let part = left * share(random);
        left -= part;
        part
    };
    let producers = ProducerTime {
        ready: part(random),
        budget: part(random),
        credit: part(random),
        socket: part(random),
        blocked: part(random),
        away: part(random),
        schedule: left,
    };
    let loops = (0..1 + random.below(3)).map(|_| {
        let (cpu, idle) = (share(random), share(random));
        LoopUse {
            cpu: cpu * (1.0 - idle),
            idle,
            run_queue_wait: random.one_in(2).then_some((1.0 - cpu) * (1.0 - idle)),
        }
    });
    let loops = loops.collect();
    let rate = random.of(&[0.0, 25.0, 990.0, 1_000.0, 100_000.0]);
    let tcp = ConnectionTime {
        busy: share(random),
        peer_full: share(random),
        resent: share(random),
        round_trip_ns: random.of(&[60_000, 2_000_000, 300_000_000]),
        unsent_bytes: random.of(&[0, 100_000]),
    };
    let seconds = random.of(&[0.1, 2.0, 30.0]);
    let stall = Stall {
        at_s: share(random) * seconds,
        for_s: share(random) * seconds,
        who: random.of(&[Stalled::Broker, Stalled::Generator, Stalled::Machine]),
        away: random.one_in(3),
        connections: 1,
        messages_delayed: random.below(10_000),
        failed: 0,
    };
    let due = 1_000.0;
    let mut lacking = || {
        let all = due * share(random);
        let in_faults = all * share(random);
        Lacking { due, all, in_faults }
    };
    let (behind, deliveries_behind) = (lacking(), lacking());
    let fault = OwnFault { name: "kill".to_owned(), from_s: stall.at_s, until_s: stall.at_s + 1.0 };
    let mut wait = || random.one_in(2).then(|| stall.for_s * share(random));
    let wait = RunQueueWait { from_s: stall.at_s, until_s: stall.at_s + 1.0, broker_s: wait(), own_s: wait() };
    let has_fault = random.one_in(4);
    let lacking = |of| if has_fault { of } else { Lacking::default() };
    let used = BrokerUse {
        cores: 4.0 * share(random),
        busiest_thread: random.one_in(2).then(|| share(random)),
        busiest_thread_name: None,
        run_queue_wait: random.one_in(2).then(|| 2.0 * share(random)),
    };
    let answers = [0, 90_000, 9_000_000, 400_000_000];
    Facts {
        seconds,
        requested_rate: random.one_in(2).then_some(1_000.0),
        closed_loop: random.one_in(6),
        sent_rate: rate,
        received_rate: rate * share(random),
        expected_rate: random.one_in(2).then_some(rate),
        slow_consumers: random.one_in(4),
        late_share: share(random),
        producers: (!random.one_in(8)).then_some(producers),
        in_flight_limit: random.one_in(2).then_some(10),
        answer_ns: random.of(&answers),
        loops,
        spun: random.one_in(5),
        loop_lag_max_ns: random.of(&answers),
        cores: random.of(&[2, 4]),
        machine_cores: random.of(&[0, 4]),
        apart: random.one_in(5),
        idle: random.one_in(2).then(|| share(random)),
        client_cores: random.one_in(2).then(|| 2.0 * share(random)),
        broker: random.one_in(2).then_some(used),
        same_machine: random.one_in(2),
        round_trip_ns: random.one_in(2).then(|| random.of(&answers)),
        idle_answer_ns: random.one_in(2).then(|| random.of(&answers)),
        proxy: random.one_in(4).then(|| "ssh".to_owned()),
        proxy_held_ns: random.one_in(2).then(|| random.of(&answers)),
        behind_proxy: random.one_in(3).then_some(tcp),
        connections: random.one_in(2).then_some(tcp),
        capacity: random.one_in(5).then(Capacity::default),
        ended: Ended {
            late_s: share(random) * seconds,
            stalls: random.one_in(3).then_some(stall).into_iter().collect(),
            run_queue_waits: random.one_in(2).then_some(wait).into_iter().collect(),
            behind: lacking(behind),
            deliveries_behind: lacking(deliveries_behind),
            faults: has_fault.then_some(fault).into_iter().collect(),
            ..Ended::default()
        },
        ..Facts::default()
    }
}

/// Whether the awaited event has a share of the time that can be printed.
fn was_awaited(e: &Facts, wait: Awaited) -> bool {
    let time = e.producers.unwrap_or_default();
    match wait {
        Awaited::Answers if e.closed_loop => e.answers_share() >= 0.5 || time.budget >= 0.01,
        Awaited::Answers => time.budget >= 0.01,
        Awaited::Credit => time.credit >= 0.01,
        Awaited::Sockets => time.socket >= 0.01,
        // Consumers had time to spare.
        Awaited::Deliveries => e.at_work() < 0.9,
    }
}

/// Whether an event loop waited for a core for this part of the seconds in which something was late, or for a fifth of
/// all. Those are no more than all delays together; where many are late at once, as large a share of the time as of the
/// messages.
fn lacked_cores(e: &Facts, part: f64) -> bool {
    let waited_s = e.run_queue_wait() * e.seconds;
    let of_messages_s = e.late_share * e.seconds;
    let late_s = if e.ended.late_s > 0.0 { e.ended.late_s.min(of_messages_s) } else { of_messages_s };
    e.run_queue_wait() >= 0.2 || waited_s > 0.0 && waited_s >= late_s * part
}

/// Whether whoever stalled waited in the run queue for this part of that time in the same seconds.
fn waited_meanwhile(e: &Facts, who: Stalled, part: f64) -> bool {
    let stalls: Vec<_> = e.stalls().filter(|it| it.who == who && !it.away).collect();
    let wait = e.ended.run_queue_waits.first().map(|wait| match who {
        Stalled::Broker => wait.broker_s.unwrap_or(0.0),
        Stalled::Generator => wait.own_s.unwrap_or(0.0),
        Stalled::Machine => f64::min(wait.own_s.unwrap_or(0.0), wait.broker_s.unwrap_or(0.0)),
    });
    let waited = wait.filter(|_| !stalls.is_empty()).unwrap_or(0.0);
    let is_here = who == Stalled::Generator || e.same_machine;
    let is_most = waited > 0.0 && waited >= e.stalled_s(stalls.into_iter()) * part;
    is_most && is_here && e.other_cores().is_some_and(|others| others >= 0.35)
}

fn is_of_faults(of: Lacking, part: f64) -> bool {
    of.in_faults > 0.0 && of.in_faults >= of.all * part
}

fn lacks_cores(cause: &Cause) -> bool {
    let code = code(Some(cause));
    let own = ["generator_lacks_cores", "broker_lacks_cores", "stalled_for_cores"];
    let machines = ["others_fill_machine", "both_fill_machine", "machine_full"];
    own.contains(&code.as_str()) || machines.contains(&code.as_str())
}

/// Whether the first statement is no effect of another cause in the facts: a stall that run-queue wait behind others
/// explains or exceeds; run-queue wait in a fault of the run itself.
fn comes_first(e: &Facts, found: &Verdict) -> bool {
    let cause = found.cause.as_ref().expect("a cause");
    let first = found.reasons.first().filter(|it| it.decided);
    let begins = first.is_some_and(|it| it.code == "stalls");
    let stalled = match cause {
        Cause::RateMet { late } => match late {
            Some(Lateness::GeneratorStalled) => Some(Stalled::Generator),
            Some(Lateness::MachineStalled) => Some(Stalled::Machine),
            Some(Lateness::BrokerStalled) => Some(Stalled::Broker),
            _ => begins.then_some(Stalled::Broker),
        },
        Cause::BrokerStalled { .. } => Some(Stalled::Broker),
        _ => begins.then_some(Stalled::Broker),
    };
    let was_away = e.stalls().any(|stall| stall.away);
    let has_fault = !e.ended.faults.is_empty();
    let is_explained = |who| !was_away && !has_fault && waited_meanwhile(e, who, 0.500_001);
    let waited = e.run_queue_wait().max(e.broker_run_queue_wait()) * e.seconds;
    let is_less = lacks_cores(cause) && begins && e.stalled_s(e.stalls()) < waited;
    let own = match cause {
        Cause::ConsumersBehind { why } => lacks_cores(why) && is_of_faults(e.ended.deliveries_behind, 0.500_001),
        _ if e.producers.is_some() && !e.closed_loop => lacks_cores(cause) && is_of_faults(e.ended.behind, 0.500_001),
        _ => false,
    };
    !stalled.is_some_and(is_explained) && !is_less && !own
}

fn is_so(e: &Facts, cause: &Cause) -> bool {
    let time = e.producers.unwrap_or_default();
    let rate_is_met = e.requested_rate.is_some_and(|requested| e.sent_rate >= requested * 0.98);
    let all = f64::from(e.all_cores());
    let stalled = |who: Stalled| e.stalls().any(|stall| stall.who == who);
    match cause {
        Cause::BrokeOff => e.ended.broke_off,
        Cause::AllFailed => e.ended.churn.iter().any(|churn| churn.failed > 0),
        Cause::SomeFailed => rate_is_met && e.failed_share() > 0.005,
        Cause::TooShort => e.seconds < 0.5,
        Cause::NoLoad => e.producers.is_none() && e.received_rate <= 0.0,
        Cause::RateMet { late } => {
            rate_is_met
                && match late {
                    None => e.late_share <= 0.01,
                    Some(Lateness::BrokerStalled) => stalled(Stalled::Broker),
                    Some(Lateness::GeneratorStalled) => stalled(Stalled::Generator),
                    Some(Lateness::MachineStalled) => stalled(Stalled::Machine),
                    Some(Lateness::Broker) => {
                        let waits = time.of_broker();
                        e.late_share > 0.01 && waits.into_iter().any(|share| share >= 0.01)
                    }
                    Some(Lateness::OwnFault) => is_of_faults(e.ended.behind, 0.499_999),
                    Some(Lateness::Cores) => {
                        let who = [Stalled::Broker, Stalled::Generator, Stalled::Machine];
                        let mut in_stalls = who.map(|it| waited_meanwhile(e, it, 0.499_999)).into_iter();
                        e.late_share > 0.01 && (lacked_cores(e, 0.499_999) || in_stalls.any(|it| it))
                    }
                    // Nothing held them up: no core was lacking, and the broker was not waited for.
                    Some(Lateness::Generator) => {
                        let waits = time.of_broker();
                        let most = waits.into_iter().fold(0.0, f64::max);
                        let theirs = waits.into_iter().sum::<f64>() > time.ready && most >= 0.01;
                        e.late_share > 0.01 && !lacked_cores(e, 0.500_001) && !theirs
                    }
                }
        }
        Cause::ConsumersSlow => rate_is_met && e.slow_consumers,
        Cause::ConsumersBehind { why } => {
            rate_is_met && e.received_rate < e.expected_rate.unwrap_or(0.0) && is_so(e, why)
        }
        Cause::ThinkTime => e.closed_loop && e.answers_share() < 0.5,
        Cause::ServiceTime => e.slow_consumers,
        Cause::OwnFault { deliveries: true } => is_of_faults(e.ended.deliveries_behind, 0.499_999),
        Cause::OwnFault { deliveries: false } => is_of_faults(e.ended.behind, 0.499_999),
        Cause::StalledForCores => waited_meanwhile(e, Stalled::Broker, 0.499_999),
        Cause::OthersFillMachine => e.other_cores().is_some_and(|others| others > 0.1),
        Cause::GeneratorLacksCores { .. } | Cause::BothFillMachine | Cause::MachineFull => e.run_queue_wait() >= 0.2,
        Cause::BothBusy | Cause::GeneratorBusy => e.at_work() >= 0.9,
        Cause::GeneratorLate => time.ready >= 0.01 && e.at_work() >= 0.1,
        Cause::NothingDue => time.schedule >= 0.5,
        Cause::Unclear => time.schedule < 0.98,
        Cause::BrokerBusy { wait, busy } => {
            let used = e.broker.as_ref().map_or(0.0, |used| used.cores);
            let thread = e.broker.as_ref().and_then(|used| used.busiest_thread);
            was_awaited(e, *wait)
                && match busy {
                    Busy::Machine => e.idle.is_some_and(|idle| idle < 0.1) && used >= all / 2.0,
                    Busy::Thread => thread.is_some_and(|share| share >= 0.9),
                    Busy::Cores => used >= all * 0.9,
                }
        }
        Cause::BrokerStalled { for_s, times } => *for_s > 0.0 && *times > 0,
        Cause::BrokerLacksCores { wait } => was_awaited(e, *wait) && e.broker_run_queue_wait() >= 0.2,
        Cause::BrokerSlow { wait }
        | Cause::LinkFull { wait }
        | Cause::ProxyFull { wait }
        | Cause::ProxyHides { wait } => was_awaited(e, *wait),
        Cause::InFlightLimit | Cause::BrokerUnknown | Cause::RoundTrip | Cause::ProxyWay | Cause::SlowEvenIdle => {
            was_awaited(e, Awaited::Answers)
        }
        Cause::NetworkFull | Cause::SocketsFull => was_awaited(e, Awaited::Sockets),
        // One on this machine, and one behind a proxy that holds answers, does not read them either.
        Cause::BrokerDoesNotRead => was_awaited(e, Awaited::Sockets) || was_awaited(e, Awaited::Answers),
        Cause::NoCredit => time.credit >= 0.01,
        Cause::Alarm => time.blocked >= 0.01,
        Cause::NoConnection => time.away >= 0.01,
        Cause::ConsumersIdle => e.at_work() < 0.9,
    }
}

#[test]
fn a_verdicts_sentence_is_true_of_its_own_numbers() {
    let mut causes = std::collections::BTreeMap::<String, u64>::new();
    for seed in testkit::seeds(40_000) {
        let facts = chance(&mut Random::new(seed));
        let found = verdict(facts.clone());
        let cause = found.cause.clone().expect("a cause");
        assert!(is_so(&facts, &cause), "seed {seed}: {cause:?} of {facts:#?}");
        assert!(
            comes_first(&facts, &found),
            "seed {seed}: {cause:?} comes first, and {:?}, of {facts:#?}",
            found.reasons
        );
        *causes.entry(code(Some(&cause))).or_default() += 1;
    }
    assert!(causes.len() >= 20, "{causes:?}");
}
