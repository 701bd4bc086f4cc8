//! No verdict without its own evidence: what the sentences of random verdicts say of their facts is so.

use archive::{Awaited, Busy, Capacity, ConnectionTime, LoopUse};
use testkit::Random;

use super::*;

/// Facts of any run: shares of time add up to 1, and everything else is what it may be.
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
            ..Ended::default()
        },
        ..Facts::default()
    }
}

/// Whether what was waited for has a share of the time that can be printed.
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
    let late_s = if e.ended.late_s > 0.0 {
        e.ended.late_s.min(of_messages_s)
    } else {
        of_messages_s
    };
    e.run_queue_wait() >= 0.2 || waited_s > 0.0 && waited_s >= late_s * part
}

/// Whether the facts hold what the sentence for this cause says of them.
fn is_so(e: &Facts, cause: &Cause) -> bool {
    let time = e.producers.unwrap_or_default();
    let rate_is_met = e
        .requested_rate
        .is_some_and(|requested| e.sent_rate >= requested * 0.98);
    let all = f64::from(e.all_cores());
    let stalled = |who: Stalled| e.stalls().any(|stall| stall.who == who);
    match cause {
        Cause::BrokeOff => e.ended.broke_off,
        Cause::AllFailed => e.ended.churn.iter().any(|churn| churn.failed > 0),
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
                    Some(Lateness::Cores) => e.late_share > 0.01 && lacked_cores(e, 0.499_999),
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
        Cause::OthersFillMachine => e.other_cores().is_some_and(|others| others > 0.1),
        Cause::GeneratorLacksCores { .. } | Cause::BothFillMachine | Cause::MachineFull => {
            e.run_queue_wait() >= 0.2
        }
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
        Cause::BrokerLacksCores { wait } => {
            was_awaited(e, *wait) && e.broker_run_queue_wait() >= 0.2
        }
        Cause::BrokerSlow { wait }
        | Cause::LinkFull { wait }
        | Cause::ProxyFull { wait }
        | Cause::ProxyHides { wait } => was_awaited(e, *wait),
        Cause::InFlightLimit
        | Cause::BrokerUnknown
        | Cause::RoundTrip
        | Cause::ProxyWay
        | Cause::SlowEvenIdle => was_awaited(e, Awaited::Answers),
        Cause::NetworkFull | Cause::SocketsFull => was_awaited(e, Awaited::Sockets),
        // One on this machine, and one behind a proxy that holds answers, does not read them either.
        Cause::BrokerDoesNotRead => {
            was_awaited(e, Awaited::Sockets) || was_awaited(e, Awaited::Answers)
        }
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
        let cause = found.cause.expect("a cause");
        assert!(
            is_so(&facts, &cause),
            "seed {seed}: {cause:?} of {facts:#?}"
        );
        *causes.entry(code(Some(&cause))).or_default() += 1;
    }
    assert!(causes.len() >= 20, "{causes:?}");
}
