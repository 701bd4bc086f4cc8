//! A table of situations: facts, and the conclusion that must follow.

use archive::{BrokerUse, Capacity, ConnectionTime, LoopUse, ProducerTime};

use super::super::*;

/// Unthrottled with confirms on a machine of 8 cores; the loop has much time to spare, and waits for answers.
pub(super) fn waiting_for_answers() -> Facts {
    Facts {
        seconds: 30.0,
        sent_rate: 100_000.0,
        producers: Some(ProducerTime { budget: 0.97, ready: 0.03, ..ProducerTime::default() }),
        in_flight_limit: Some(2_000),
        answer_ns: 20_000_000,
        loops: vec![a_loop(0.2, 0.79)],
        cores: 8,
        idle: Some(0.6),
        client_cores: Some(0.25),
        broker: Some(broker(2.8, 0.97)),
        same_machine: true,
        round_trip_ns: Some(60_000),
        ..Facts::default()
    }
}

pub(super) fn a_loop(cpu: f64, idle: f64) -> LoopUse {
    LoopUse { cpu, idle, run_queue_wait: Some(0.01) }
}

pub(super) fn waiting_loop(share: f64) -> LoopUse {
    LoopUse { cpu: 0.3, idle: 0.6 - share / 2.0, run_queue_wait: Some(share) }
}

pub(super) fn broker(cores: f64, busiest: f64) -> BrokerUse {
    BrokerUse {
        cores,
        busiest_thread: Some(busiest),
        busiest_thread_name: Some("2_scheduler".into()),
        run_queue_wait: Some(0.05),
    }
}

/// A connection with bytes on the way all the time, and none that waits for the link.
pub(super) fn tcp(peer_full: f64, resent: f64) -> ConnectionTime {
    ConnectionTime { busy: 1.0, peer_full, resent, round_trip_ns: 60_000, unsent_bytes: 0 }
}

/// Behind a tunnel on this machine, which answers at once, to a broker of which nothing is known.
pub(super) fn tunnelled(e: &mut Facts) {
    e.proxy = Some("ssh".into());
    (e.broker, e.same_machine) = (None, false);
}

pub(super) fn producers(set: fn(&mut ProducerTime)) -> Option<ProducerTime> {
    let mut time = ProducerTime::default();
    set(&mut time);
    Some(time)
}

/// Name, difference to [`waiting_for_answers`], the limit, and why.
pub(super) type Situation = (&'static str, fn(&mut Facts), LimitedBy, &'static str);

pub(super) const SITUATIONS: &[Situation] = &[
    ("a thread of the broker is full", |_| {}, LimitedBy::Broker, "broker_busy"),
    (
        "the broker fills the machine that it shares",
        |e| {
            (e.cores, e.idle) = (2, Some(0.01));
            (e.broker, e.client_cores) = (Some(broker(1.8, 0.9)), Some(0.15));
            e.loops = vec![waiting_loop(0.3)];
        },
        LimitedBy::Broker,
        "broker_busy",
    ),
    (
        "both fill the machine",
        |e| {
            (e.cores, e.idle) = (2, Some(0.01));
            (e.broker, e.client_cores) = (Some(broker(1.1, 0.6)), Some(0.85));
            e.loops = vec![waiting_loop(0.4)];
        },
        LimitedBy::Undecided,
        "both_fill_machine",
    ),
    (
        "a small budget, and nobody at work",
        |e| {
            (e.in_flight_limit, e.answer_ns) = (Some(1), 90_000);
            (e.broker, e.idle) = (Some(broker(0.4, 0.3)), Some(0.9));
        },
        LimitedBy::Broker,
        "in_flight_limit",
    ),
    (
        "answers just below what counts as slow, from a broker that wants more cores than there are",
        |e| {
            (e.cores, e.idle, e.answer_ns) = (2, Some(0.18), 9_900_000);
            (e.client_cores, e.in_flight_limit) = (Some(0.08), Some(500));
            e.broker = Some(BrokerUse { run_queue_wait: Some(0.69), ..broker(1.53, 0.67) });
        },
        LimitedBy::Broker,
        "broker_lacks_cores",
    ),
    (
        "a broker that stalls, while others fill the machine",
        |e| {
            (e.cores, e.idle, e.answer_ns) = (2, Some(0.0), 83_000_000);
            e.broker = Some(broker(0.1, 0.1));
        },
        LimitedBy::Broker,
        "broker_slow",
    ),
    (
        "a broker that does not answer at all",
        |e| (e.answer_ns, e.broker) = (0, Some(broker(0.0, 0.0))),
        LimitedBy::Broker,
        "broker_slow",
    ),
    (
        "a broker elsewhere that does not answer at all",
        |e| (e.answer_ns, e.broker, e.same_machine) = (0, None, false),
        LimitedBy::Broker,
        "broker_unknown",
    ),
    (
        "the same, far away",
        |e| {
            (e.in_flight_limit, e.answer_ns) = (Some(10), 41_000_000);
            (e.broker, e.same_machine, e.round_trip_ns) = (None, false, Some(40_000_000));
        },
        LimitedBy::Network,
        "round_trip",
    ),
    (
        "a broker elsewhere whose answers take longer than the way",
        |e| (e.broker, e.same_machine) = (None, false),
        LimitedBy::Broker,
        "broker_unknown",
    ),
    (
        "an event loop at work all the time",
        |e| e.loops = vec![a_loop(0.3, 0.7), a_loop(0.97, 0.01)],
        LimitedBy::Undecided,
        "both_busy",
    ),
    (
        "the same, while the broker has time to spare",
        |e| (e.loops, e.broker) = (vec![a_loop(0.97, 0.01)], Some(broker(0.7, 0.5))),
        LimitedBy::Generator,
        "generator_busy",
    ),
    (
        "other processes on the generator's core",
        |e| {
            (e.cores, e.idle, e.client_cores) = (2, Some(0.2), Some(0.3));
            (e.broker, e.loops) = (Some(broker(0.3, 0.3)), vec![waiting_loop(0.5)]);
        },
        LimitedBy::Generator,
        "generator_lacks_cores",
    ),
    (
        "other processes on all cores",
        |e| {
            (e.cores, e.idle, e.client_cores) = (2, Some(0.0), Some(0.3));
            (e.broker, e.loops) = (Some(broker(0.5, 0.3)), vec![waiting_loop(0.5)]);
            if let Some(used) = &mut e.broker {
                used.run_queue_wait = Some(0.8);
            }
        },
        LimitedBy::Undecided,
        "others_fill_machine",
    ),
    (
        "other processes on the broker's cores alone",
        |e| {
            (e.cores, e.idle, e.client_cores) = (2, Some(0.0), Some(0.5));
            e.broker = Some(BrokerUse { run_queue_wait: Some(0.4), ..broker(0.5, 0.5) });
        },
        LimitedBy::Undecided,
        "others_fill_machine",
    ),
    (
        "an affinity to a part of a core",
        |e| e.loops = vec![waiting_loop(0.5)],
        LimitedBy::Generator,
        "generator_lacks_cores",
    ),
    (
        "a kernel without an account of waiting for a core",
        |e| {
            e.loops = vec![LoopUse { cpu: 0.3, idle: 0.1, run_queue_wait: None }];
            e.broker = None;
        },
        LimitedBy::Generator,
        "generator_lacks_cores",
    ),
    (
        "a broker here that does not read",
        |e| {
            e.producers = producers(|time| (time.socket, time.ready) = (0.9, 0.1));
            e.broker = Some(broker(0.0, 0.0));
        },
        LimitedBy::Broker,
        "broker_does_not_read",
    ),
    (
        "full sockets to a broker elsewhere",
        |e| {
            e.producers = producers(|time| time.socket = 1.0);
            (e.broker, e.same_machine) = (None, false);
        },
        LimitedBy::Undecided,
        "sockets_full",
    ),
    (
        "the same, with a full receive window",
        |e| {
            e.producers = producers(|time| time.socket = 1.0);
            (e.broker, e.same_machine) = (None, false);
            e.connections = Some(tcp(0.8, 0.0));
        },
        LimitedBy::Broker,
        "broker_does_not_read",
    ),
    (
        "the same, with an empty one",
        |e| {
            e.producers = producers(|time| time.socket = 1.0);
            (e.broker, e.same_machine) = (None, false);
            e.connections = Some(tcp(0.01, 0.02));
        },
        LimitedBy::Network,
        "network_full",
    ),
    (
        "a tunnel on this machine to a broker far away",
        |e| {
            tunnelled(e);
            (e.in_flight_limit, e.answer_ns) = (Some(10), 41_000_000);
            e.idle_answer_ns = Some(40_000_000);
        },
        LimitedBy::Network,
        "proxy_way",
    ),
    (
        "a tunnel that hides who is slow",
        |e| {
            tunnelled(e);
            e.idle_answer_ns = Some(300_000);
        },
        LimitedBy::Undecided,
        "proxy_hides",
    ),
    (
        "a tunnel that holds what answers are awaited for",
        |e| {
            tunnelled(e);
            (e.answer_ns, e.proxy_held_ns) = (1_000_000_000, Some(900_000_000));
            (e.connections, e.behind_proxy) = (Some(tcp(0.0, 0.0)), Some(tcp(0.1, 0.0)));
        },
        LimitedBy::Network,
        "proxy_full",
    ),
    (
        "a tunnel that compresses, and only seems to hold",
        |e| {
            tunnelled(e);
            (e.answer_ns, e.proxy_held_ns) = (1_000_000_000, Some(9_000_000_000));
            (e.connections, e.behind_proxy) = (Some(tcp(0.0, 0.0)), Some(tcp(0.1, 0.0)));
        },
        LimitedBy::Undecided,
        "proxy_hides",
    ),
    (
        "a proxy whose own sockets take as much as it gives them",
        |e| {
            tunnelled(e);
            e.producers = producers(|time| time.socket = 1.0);
            (e.connections, e.behind_proxy) = (Some(tcp(0.9, 0.9)), Some(tcp(0.1, 0.0)));
        },
        LimitedBy::Network,
        "proxy_full",
    ),
    (
        "a broker that does not read, behind a proxy",
        |e| {
            tunnelled(e);
            e.producers = producers(|time| time.socket = 1.0);
            (e.connections, e.behind_proxy) = (Some(tcp(0.9, 0.9)), Some(tcp(0.9, 0.8)));
        },
        LimitedBy::Broker,
        "broker_does_not_read",
    ),
    (
        "a tunnel that takes no more",
        |e| {
            tunnelled(e);
            e.producers = producers(|time| time.socket = 1.0);
            e.connections = Some(tcp(0.9, 0.0));
        },
        LimitedBy::Undecided,
        "proxy_hides",
    ),
    (
        "a proxy to a broker whose process was named and which has no CPU left",
        |e| e.proxy = Some("haproxy".into()),
        LimitedBy::Broker,
        "broker_busy",
    ),
    (
        "a broker elsewhere, seen through a proxy elsewhere",
        |e| {
            (e.broker, e.same_machine) = (None, false);
            (e.answer_ns, e.idle_answer_ns) = (30_000_000, Some(28_000_000));
        },
        LimitedBy::Undecided,
        "slow_even_idle",
    ),
    (
        "a link so full that answers wait in it",
        |e| {
            (e.answer_ns, e.broker) = (400_000_000, Some(broker(0.1, 0.1)));
            e.connections = Some(ConnectionTime { round_trip_ns: 350_000_000, ..tcp(0.0, 0.0) });
        },
        LimitedBy::Network,
        "link_full",
    ),
    (
        "a link so full that sockets are",
        |e| {
            (e.broker, e.same_machine) = (None, false);
            e.producers = producers(|time| time.socket = 1.0);
            e.connections = Some(ConnectionTime { unsent_bytes: 900_000, ..tcp(0.0, 0.01) });
        },
        LimitedBy::Network,
        "link_full",
    ),
    (
        "a full machine with a broker of which nothing is known",
        |e| {
            (e.cores, e.idle, e.broker) = (2, Some(0.0), None);
            e.loops = vec![waiting_loop(0.4)];
        },
        LimitedBy::Undecided,
        "machine_full",
    ),
    (
        "an alarm",
        |e| e.producers = producers(|time| (time.blocked, time.budget) = (0.8, 0.2)),
        LimitedBy::Broker,
        "alarm",
    ),
    (
        "a broker that was away",
        |e| e.producers = producers(|time| (time.away, time.budget) = (0.6, 0.4)),
        LimitedBy::Broker,
        "no_connection",
    ),
    (
        "a rate that was kept",
        |e| {
            (e.requested_rate, e.sent_rate) = (Some(20_000.0), 19_990.0);
            e.producers = producers(|time| (time.schedule, time.budget) = (0.9, 0.1));
            e.capacity = Some(Capacity { rate: 3_114_000.0, shape: "64 B".into(), at_least: true });
        },
        LimitedBy::Schedule,
        "rate_met",
    ),
    (
        "a rate that was kept on average",
        |e| {
            (e.requested_rate, e.sent_rate) = (Some(20_000.0), 20_000.0);
            (e.late_share, e.loop_lag_max_ns, e.lag_explains) = (0.001, 2_700_000, 0.2);
            e.producers = producers(|time| time.schedule = 1.0);
        },
        LimitedBy::Schedule,
        "rate_met",
    ),
    (
        "a rate that was kept by a loop that spins",
        |e| {
            (e.requested_rate, e.sent_rate) = (Some(20_000.0), 20_000.0);
            (e.spun, e.loops) = (true, vec![a_loop(1.0, 0.0)]);
        },
        LimitedBy::Schedule,
        "rate_met",
    ),
    (
        "a rate that the broker does not take",
        |e| {
            (e.requested_rate, e.late_share) = (Some(200_000.0), 0.9);
            e.producers = producers(|time| (time.budget, time.schedule) = (0.6, 0.4));
        },
        LimitedBy::Broker,
        "broker_busy",
    ),
    (
        "a rate that was kept, late",
        |e| {
            (e.requested_rate, e.late_share) = (Some(100_000.0), 0.2);
            e.producers = producers(|time| (time.schedule, time.ready) = (0.995, 0.005));
            e.loop_lag_max_ns = 9_000_000;
        },
        LimitedBy::Schedule,
        "rate_met",
    ),
    (
        "a rate that was kept by a loop that was stopped for a while",
        |e| {
            (e.requested_rate, e.late_share) = (Some(100_000.0), 0.2);
            e.producers = producers(|time| (time.schedule, time.ready) = (0.8, 0.2));
        },
        LimitedBy::Schedule,
        "rate_met",
    ),
    (
        "a rate that was kept, with consumers behind and a full broker",
        |e| {
            (e.requested_rate, e.expected_rate) = (Some(100_000.0), Some(100_000.0));
            e.received_rate = 40_000.0;
        },
        LimitedBy::Broker,
        "consumers_behind",
    ),
    (
        "a think time",
        |e| {
            (e.closed_loop, e.in_flight_limit, e.sent_rate) = (true, Some(10), 100.0);
            e.answer_ns = 1_000_000;
            e.producers = producers(|time| time.schedule = 1.0);
        },
        LimitedBy::Schedule,
        "think_time",
    ),
    (
        "a think time that is nothing beside the answers",
        |e| {
            (e.closed_loop, e.in_flight_limit, e.sent_rate) = (true, Some(10), 900.0);
            e.answer_ns = 10_000_000;
            e.producers = producers(|time| time.schedule = 1.0);
        },
        LimitedBy::Broker,
        "broker_busy",
    ),
    (
        "random arrivals that happened to be fewer",
        |e| {
            (e.requested_rate, e.sent_rate) = (Some(100.0), 97.0);
            e.requested_deviation = 55.0;
        },
        LimitedBy::Schedule,
        "rate_met",
    ),
    (
        "consumers that take their time",
        |e| {
            (e.requested_rate, e.expected_rate) = (Some(100_000.0), Some(100_000.0));
            (e.received_rate, e.slow_consumers) = (40_000.0, true);
        },
        LimitedBy::Schedule,
        "consumers_slow",
    ),
    (
        "messages that wait for a loop with time to spare",
        |e| e.producers = producers(|time| (time.ready, time.budget) = (0.7, 0.3)),
        LimitedBy::Generator,
        "generator_late",
    ),
    (
        "messages that wait for a loop that does nothing",
        |e| {
            e.producers = producers(|time| (time.ready, time.budget) = (0.7, 0.3));
            e.loops = vec![a_loop(0.001, 0.998)];
        },
        LimitedBy::Undecided,
        "unclear",
    ),
    (
        "a number of messages, all of which was sent at the beginning",
        |e| {
            (e.sent_rate, e.received_rate) = (25.0, 25.0);
            e.producers = producers(|time| (time.schedule, time.budget) = (0.97, 0.03));
            e.loops = vec![a_loop(0.001, 0.999)];
        },
        LimitedBy::Schedule,
        "nothing_due",
    ),
    (
        "the same at a rate",
        |e| {
            (e.requested_rate, e.sent_rate) = (Some(1_000.0), 25.0);
            e.producers = producers(|time| (time.schedule, time.ready) = (0.999, 0.001));
        },
        LimitedBy::Schedule,
        "nothing_due",
    ),
    (
        "no cause that stands out",
        |e| e.producers = producers(|t| (t.ready, t.budget, t.socket) = (0.4, 0.35, 0.25)),
        LimitedBy::Undecided,
        "unclear",
    ),
    (
        "several causes, all of them the broker's",
        |e| e.producers = producers(|t| (t.ready, t.budget, t.socket) = (0.2, 0.45, 0.35)),
        LimitedBy::Broker,
        "broker_busy",
    ),
    (
        "consumers alone, and nobody at work",
        |e| {
            (e.producers, e.sent_rate, e.received_rate) = (None, 0.0, 5_000.0);
            e.broker = Some(broker(0.3, 0.2));
        },
        LimitedBy::Undecided,
        "consumers_idle",
    ),
    (
        "consumers alone, at work all the time",
        |e| {
            (e.producers, e.sent_rate, e.received_rate) = (None, 0.0, 5_000_000.0);
            (e.loops, e.broker) = (vec![a_loop(0.95, 0.02)], Some(broker(0.6, 0.5)));
        },
        LimitedBy::Generator,
        "generator_busy",
    ),
    ("nothing at all", |e| (e.producers, e.sent_rate) = (None, 0.0), LimitedBy::Undecided, "no_load"),
    ("a moment", |e| e.seconds = 0.2, LimitedBy::Undecided, "too_short"),
];
