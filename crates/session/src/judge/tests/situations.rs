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

fn elsewhere(e: &mut Facts) {
    (e.broker, e.same_machine) = (None, false);
}

fn full_sockets_elsewhere(e: &mut Facts) {
    elsewhere(e);
    e.producers = producers(|time| time.socket = 1.0);
}

pub(super) fn producers(set: fn(&mut ProducerTime)) -> Option<ProducerTime> {
    let mut time = ProducerTime::default();
    set(&mut time);
    Some(time)
}

/// Name, the limit, why, and the difference to [`waiting_for_answers`].
pub(super) type Situation = (&'static str, LimitedBy, &'static str, fn(&mut Facts));

pub(super) const SITUATIONS: &[Situation] = &[
    ("a thread of the broker is full", LimitedBy::Broker, "broker_busy", |_| {}),
    ("the broker fills the machine that it shares", LimitedBy::Broker, "broker_busy", |e| {
        (e.cores, e.idle) = (2, Some(0.01));
        (e.broker, e.client_cores) = (Some(broker(1.8, 0.9)), Some(0.15));
        e.loops = vec![waiting_loop(0.3)];
    }),
    ("both fill the machine", LimitedBy::Undecided, "both_fill_machine", |e| {
        (e.cores, e.idle) = (2, Some(0.01));
        (e.broker, e.client_cores) = (Some(broker(1.1, 0.6)), Some(0.85));
        e.loops = vec![waiting_loop(0.4)];
    }),
    ("a small budget, and nobody at work", LimitedBy::Broker, "in_flight_limit", |e| {
        (e.in_flight_limit, e.answer_ns) = (Some(1), 90_000);
        (e.broker, e.idle) = (Some(broker(0.4, 0.3)), Some(0.9));
    }),
    ("answers nearly slow, from a broker that wants more cores", LimitedBy::Broker, "broker_lacks_cores", |e| {
        (e.cores, e.idle, e.answer_ns) = (2, Some(0.18), 9_900_000);
        (e.client_cores, e.in_flight_limit) = (Some(0.08), Some(500));
        e.broker = Some(BrokerUse { run_queue_wait: Some(0.69), ..broker(1.53, 0.67) });
    }),
    ("a broker that stalls, while others fill the machine", LimitedBy::Broker, "broker_slow", |e| {
        (e.cores, e.idle, e.answer_ns) = (2, Some(0.0), 83_000_000);
        e.broker = Some(broker(0.1, 0.1));
    }),
    ("a broker that does not answer at all", LimitedBy::Broker, "broker_slow", |e| {
        (e.answer_ns, e.broker) = (0, Some(broker(0.0, 0.0)));
    }),
    ("a broker elsewhere that does not answer at all", LimitedBy::Broker, "broker_unknown", |e| {
        (e.answer_ns, e.broker, e.same_machine) = (0, None, false);
    }),
    ("the same, far away", LimitedBy::Network, "round_trip", |e| {
        (e.in_flight_limit, e.answer_ns) = (Some(10), 41_000_000);
        (e.broker, e.same_machine, e.round_trip_ns) = (None, false, Some(40_000_000));
    }),
    ("a broker elsewhere whose answers take longer than the way", LimitedBy::Broker, "broker_unknown", elsewhere),
    ("an event loop at work all the time", LimitedBy::Undecided, "both_busy", |e| {
        e.loops = vec![a_loop(0.3, 0.7), a_loop(0.97, 0.01)];
    }),
    ("the same, while the broker has time to spare", LimitedBy::Generator, "generator_busy", |e| {
        (e.loops, e.broker) = (vec![a_loop(0.97, 0.01)], Some(broker(0.7, 0.5)));
    }),
    ("other processes on the generator's core", LimitedBy::Generator, "generator_lacks_cores", |e| {
        (e.cores, e.idle, e.client_cores) = (2, Some(0.2), Some(0.3));
        (e.broker, e.loops) = (Some(broker(0.3, 0.3)), vec![waiting_loop(0.5)]);
    }),
    ("other processes on all cores", LimitedBy::Undecided, "others_fill_machine", |e| {
        (e.cores, e.idle, e.client_cores) = (2, Some(0.0), Some(0.3));
        e.broker = Some(BrokerUse { run_queue_wait: Some(0.8), ..broker(0.5, 0.3) });
        e.loops = vec![waiting_loop(0.5)];
    }),
    ("other processes on the broker's cores alone", LimitedBy::Undecided, "others_fill_machine", |e| {
        (e.cores, e.idle, e.client_cores) = (2, Some(0.0), Some(0.5));
        e.broker = Some(BrokerUse { run_queue_wait: Some(0.4), ..broker(0.5, 0.5) });
    }),
    ("an affinity to a part of a core", LimitedBy::Generator, "generator_lacks_cores", |e| {
        e.loops = vec![waiting_loop(0.5)];
    }),
    ("a kernel without an account of waiting for a core", LimitedBy::Generator, "generator_lacks_cores", |e| {
        e.loops = vec![LoopUse { cpu: 0.3, idle: 0.1, run_queue_wait: None }];
        e.broker = None;
    }),
    ("a broker here that does not read", LimitedBy::Broker, "broker_does_not_read", |e| {
        e.producers = producers(|time| (time.socket, time.ready) = (0.9, 0.1));
        e.broker = Some(broker(0.0, 0.0));
    }),
    ("full sockets to a broker elsewhere", LimitedBy::Undecided, "sockets_full", full_sockets_elsewhere),
    ("the same, with a full receive window", LimitedBy::Broker, "broker_does_not_read", |e| {
        full_sockets_elsewhere(e);
        e.connections = Some(tcp(0.8, 0.0));
    }),
    ("the same, with an empty one", LimitedBy::Network, "network_full", |e| {
        full_sockets_elsewhere(e);
        e.connections = Some(tcp(0.01, 0.02));
    }),
    ("a tunnel on this machine to a broker far away", LimitedBy::Network, "proxy_way", |e| {
        tunnelled(e);
        (e.in_flight_limit, e.answer_ns) = (Some(10), 41_000_000);
        e.idle_answer_ns = Some(40_000_000);
    }),
    ("a tunnel that hides who is slow", LimitedBy::Undecided, "proxy_hides", |e| {
        tunnelled(e);
        e.idle_answer_ns = Some(300_000);
    }),
    ("a tunnel that holds what answers are awaited for", LimitedBy::Network, "proxy_full", |e| {
        tunnelled(e);
        (e.answer_ns, e.proxy_held_ns) = (1_000_000_000, Some(900_000_000));
        (e.connections, e.behind_proxy) = (Some(tcp(0.0, 0.0)), Some(tcp(0.1, 0.0)));
    }),
    ("a tunnel that compresses, and only seems to hold", LimitedBy::Undecided, "proxy_hides", |e| {
        tunnelled(e);
        (e.answer_ns, e.proxy_held_ns) = (1_000_000_000, Some(9_000_000_000));
        (e.connections, e.behind_proxy) = (Some(tcp(0.0, 0.0)), Some(tcp(0.1, 0.0)));
    }),
    ("a proxy whose own sockets take as much as it gives them", LimitedBy::Network, "proxy_full", |e| {
        tunnelled(e);
        e.producers = producers(|time| time.socket = 1.0);
        (e.connections, e.behind_proxy) = (Some(tcp(0.9, 0.9)), Some(tcp(0.1, 0.0)));
    }),
    ("a broker that does not read, behind a proxy", LimitedBy::Broker, "broker_does_not_read", |e| {
        tunnelled(e);
        e.producers = producers(|time| time.socket = 1.0);
        (e.connections, e.behind_proxy) = (Some(tcp(0.9, 0.9)), Some(tcp(0.9, 0.8)));
    }),
    ("a tunnel that takes no more", LimitedBy::Undecided, "proxy_hides", |e| {
        tunnelled(e);
        e.producers = producers(|time| time.socket = 1.0);
        e.connections = Some(tcp(0.9, 0.0));
    }),
    ("a proxy to a broker whose process was named and is full", LimitedBy::Broker, "broker_busy", |e| {
        e.proxy = Some("haproxy".into());
    }),
    ("a broker elsewhere, seen through a proxy elsewhere", LimitedBy::Undecided, "slow_even_idle", |e| {
        elsewhere(e);
        (e.answer_ns, e.idle_answer_ns) = (30_000_000, Some(28_000_000));
    }),
    ("a link so full that answers wait in it", LimitedBy::Network, "link_full", |e| {
        (e.answer_ns, e.broker) = (400_000_000, Some(broker(0.1, 0.1)));
        e.connections = Some(ConnectionTime { round_trip_ns: 350_000_000, ..tcp(0.0, 0.0) });
    }),
    ("a link so full that sockets are", LimitedBy::Network, "link_full", |e| {
        full_sockets_elsewhere(e);
        e.connections = Some(ConnectionTime { unsent_bytes: 900_000, ..tcp(0.0, 0.01) });
    }),
    ("a full machine with a broker of which nothing is known", LimitedBy::Undecided, "machine_full", |e| {
        (e.cores, e.idle, e.broker) = (2, Some(0.0), None);
        e.loops = vec![waiting_loop(0.4)];
    }),
    ("an alarm", LimitedBy::Broker, "alarm", |e| {
        e.producers = producers(|time| (time.blocked, time.budget) = (0.8, 0.2));
    }),
    ("a broker that was away", LimitedBy::Broker, "no_connection", |e| {
        e.producers = producers(|time| (time.away, time.budget) = (0.6, 0.4));
    }),
    ("a rate that was kept", LimitedBy::Schedule, "rate_met", |e| {
        (e.requested_rate, e.sent_rate) = (Some(20_000.0), 19_990.0);
        e.producers = producers(|time| (time.schedule, time.budget) = (0.9, 0.1));
        e.capacity = Some(Capacity { rate: 3_114_000.0, shape: "64 B".into(), at_least: true });
    }),
    ("a rate that was kept by a loop that spins", LimitedBy::Schedule, "rate_met", |e| {
        (e.requested_rate, e.sent_rate) = (Some(20_000.0), 20_000.0);
        (e.spun, e.loops) = (true, vec![a_loop(1.0, 0.0)]);
    }),
    ("a rate that the broker does not take", LimitedBy::Broker, "broker_busy", |e| {
        (e.requested_rate, e.late_share) = (Some(200_000.0), 0.9);
        e.producers = producers(|time| (time.budget, time.schedule) = (0.6, 0.4));
    }),
    ("a rate that was kept, late", LimitedBy::Schedule, "rate_met", |e| {
        (e.requested_rate, e.late_share) = (Some(100_000.0), 0.2);
        e.producers = producers(|time| (time.schedule, time.ready) = (0.995, 0.005));
        e.loop_lag_max_ns = 9_000_000;
    }),
    ("a rate that was kept, with consumers behind and a full broker", LimitedBy::Broker, "consumers_behind", |e| {
        (e.requested_rate, e.expected_rate) = (Some(100_000.0), Some(100_000.0));
        e.received_rate = 40_000.0;
    }),
    ("a think time", LimitedBy::Schedule, "think_time", |e| {
        (e.closed_loop, e.in_flight_limit, e.sent_rate) = (true, Some(10), 100.0);
        e.answer_ns = 1_000_000;
        e.producers = producers(|time| time.schedule = 1.0);
    }),
    ("a think time that is nothing beside the answers", LimitedBy::Broker, "broker_busy", |e| {
        (e.closed_loop, e.in_flight_limit, e.sent_rate) = (true, Some(10), 900.0);
        e.answer_ns = 10_000_000;
        e.producers = producers(|time| time.schedule = 1.0);
    }),
    ("random arrivals that happened to be fewer", LimitedBy::Schedule, "rate_met", |e| {
        (e.requested_rate, e.sent_rate) = (Some(100.0), 97.0);
        e.requested_deviation = 55.0;
    }),
    ("consumers that take their time", LimitedBy::Schedule, "consumers_slow", |e| {
        (e.requested_rate, e.expected_rate) = (Some(100_000.0), Some(100_000.0));
        (e.received_rate, e.slow_consumers) = (40_000.0, true);
    }),
    ("messages that wait for a loop with time to spare", LimitedBy::Generator, "generator_late", |e| {
        e.producers = producers(|time| (time.ready, time.budget) = (0.7, 0.3));
    }),
    ("messages that wait for a loop that does nothing", LimitedBy::Undecided, "unclear", |e| {
        e.producers = producers(|time| (time.ready, time.budget) = (0.7, 0.3));
        e.loops = vec![a_loop(0.001, 0.998)];
    }),
    ("a number of messages, all of which was sent at the beginning", LimitedBy::Schedule, "nothing_due", |e| {
        (e.sent_rate, e.received_rate) = (25.0, 25.0);
        e.producers = producers(|time| (time.schedule, time.budget) = (0.97, 0.03));
        e.loops = vec![a_loop(0.001, 0.999)];
    }),
    ("the same at a rate", LimitedBy::Schedule, "nothing_due", |e| {
        (e.requested_rate, e.sent_rate) = (Some(1_000.0), 25.0);
        e.producers = producers(|time| (time.schedule, time.ready) = (0.999, 0.001));
    }),
    ("no cause that stands out", LimitedBy::Undecided, "unclear", |e| {
        e.producers = producers(|t| (t.ready, t.budget, t.socket) = (0.4, 0.35, 0.25));
    }),
    ("several causes, all of them the broker's", LimitedBy::Broker, "broker_busy", |e| {
        e.producers = producers(|t| (t.ready, t.budget, t.socket) = (0.2, 0.45, 0.35));
    }),
    ("consumers alone, and nobody at work", LimitedBy::Undecided, "consumers_idle", |e| {
        (e.producers, e.sent_rate, e.received_rate) = (None, 0.0, 5_000.0);
        e.broker = Some(broker(0.3, 0.2));
    }),
    ("consumers alone, at work all the time", LimitedBy::Generator, "generator_busy", |e| {
        (e.producers, e.sent_rate, e.received_rate) = (None, 0.0, 5_000_000.0);
        (e.loops, e.broker) = (vec![a_loop(0.95, 0.02)], Some(broker(0.6, 0.5)));
    }),
    ("nothing at all", LimitedBy::Undecided, "no_load", |e| (e.producers, e.sent_rate) = (None, 0.0)),
    ("a moment", LimitedBy::Undecided, "too_short", |e| e.seconds = 0.2),
    ("a load that broke off", LimitedBy::Undecided, "broke_off", |e| {
        (e.requested_rate, e.ended.broke_off) = (Some(100_000.0), true);
    }),
];
