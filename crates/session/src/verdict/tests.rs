//! A table of situations: what was observed, and what must be concluded.

use archive::{BrokerUse, Capacity, ConnectionTime, LimitedBy, LoopUse, ProducerTime};

use super::*;

/// All-out with confirms on a machine of 8 cores; a loop with much time to spare, waiting for answers.
fn waiting_for_answers() -> Evidence {
    Evidence {
        seconds: 30.0,
        sent_rate: 100_000.0,
        producers: Some(ProducerTime {
            budget: 0.97,
            ready: 0.03,
            ..ProducerTime::default()
        }),
        in_flight_limit: Some(2_000),
        answer_ns: 20_000_000,
        loops: vec![a_loop(0.2, 0.79)],
        cores: 8,
        idle: Some(0.6),
        client_cores: Some(0.25),
        broker: Some(broker(2.8, 0.97)),
        same_machine: true,
        round_trip_ns: Some(60_000),
        ..Evidence::default()
    }
}

fn a_loop(cpu: f64, idle: f64) -> LoopUse {
    LoopUse {
        cpu,
        idle,
        starved: Some(0.01),
    }
}

fn starved_loop(share: f64) -> LoopUse {
    LoopUse {
        cpu: 0.3,
        idle: 0.6 - share / 2.0,
        starved: Some(share),
    }
}

fn broker(cores: f64, busiest: f64) -> BrokerUse {
    BrokerUse {
        cores,
        busiest_thread: Some(busiest),
        busiest_thread_name: Some("2_scheduler".into()),
        starved: Some(0.05),
    }
}

/// A connection with bytes on the way all the time, and none that waits for the link.
fn tcp(peer_full: f64, resent: f64) -> ConnectionTime {
    ConnectionTime {
        busy: 1.0,
        peer_full,
        resent,
        round_trip_ns: 60_000,
        unsent_bytes: 0,
    }
}

/// Behind a tunnel on this machine, which answers at once, to a broker of which nothing is known.
fn tunnelled(e: &mut Evidence) {
    e.relay = Some("ssh".into());
    (e.broker, e.same_machine) = (None, false);
}

fn producers(set: fn(&mut ProducerTime)) -> Option<ProducerTime> {
    let mut time = ProducerTime::default();
    set(&mut time);
    Some(time)
}

/// Name, what differs from [`waiting_for_answers`], who it is, words of the sentence.
type Situation = (
    &'static str,
    fn(&mut Evidence),
    LimitedBy,
    &'static [&'static str],
);

const SITUATIONS: &[Situation] = &[
    (
        "a thread of the broker is full",
        |_| {},
        LimitedBy::Broker,
        &[
            "97 % of the time for confirms",
            "2,000 in flight x 20.0 ms",
            "2_scheduler used 97 %",
        ],
    ),
    (
        "the broker fills the machine that it shares",
        |e| {
            (e.cores, e.idle) = (2, Some(0.01));
            (e.broker, e.client_cores) = (Some(broker(1.8, 0.9)), Some(0.15));
            e.loops = vec![starved_loop(0.3)];
        },
        LimitedBy::Broker,
        &["it fills the machine: 1.8 of 2 cores"],
    ),
    (
        "both fill the machine",
        |e| {
            (e.cores, e.idle) = (2, Some(0.01));
            (e.broker, e.client_cores) = (Some(broker(1.1, 0.6)), Some(0.85));
            e.loops = vec![starved_loop(0.4)];
        },
        LimitedBy::Undecided,
        &[
            "broker (1.1) and generator (0.8) fill the 2 cores that they share",
            "40 % of the time",
        ],
    ),
    (
        "a small budget, and nobody at work",
        |e| {
            (e.in_flight_limit, e.answer_ns) = (Some(1), 90_000);
            (e.broker, e.idle) = (Some(broker(0.4, 0.3)), Some(0.9));
        },
        LimitedBy::Broker,
        &[
            "answer time and the in-flight budget: 1 in flight x 90.0 us",
            "larger --max-pending",
        ],
    ),
    (
        "a broker that stalls, while others fill the machine",
        |e| {
            (e.cores, e.idle, e.answer_ns) = (2, Some(0.0), 83_000_000);
            e.broker = Some(broker(0.1, 0.1));
        },
        LimitedBy::Broker,
        &["though it used only 0.1 of 2 cores: it stalled, or waited"],
    ),
    (
        "a broker that does not answer at all",
        |e| (e.answer_ns, e.broker) = (0, Some(broker(0.0, 0.0))),
        LimitedBy::Broker,
        &[
            "2,000 in flight, and none was confirmed",
            "it stalled, or waited",
        ],
    ),
    (
        "a broker elsewhere that does not answer at all",
        |e| (e.answer_ns, e.broker, e.same_machine) = (0, None, false),
        LimitedBy::Broker,
        &["none was confirmed", "its CPU is not known"],
    ),
    (
        "the same, far away",
        |e| {
            (e.in_flight_limit, e.answer_ns) = (Some(10), 41_000_000);
            (e.broker, e.same_machine, e.round_trip_ns) = (None, false, Some(40_000_000));
        },
        LimitedBy::Network,
        &["10 in flight x 41.0 ms", "a round trip takes 40.0 ms"],
    ),
    (
        "a broker elsewhere whose answers take longer than the way",
        |e| (e.broker, e.same_machine) = (None, false),
        LimitedBy::Broker,
        &["limited by the broker's answers", "its CPU is not known"],
    ),
    (
        "an event loop at work all the time",
        |e| e.loops = vec![a_loop(0.3, 0.7), a_loop(0.97, 0.01)],
        LimitedBy::Undecided,
        &[
            "at work for 99 %",
            "busiest thread for 97 %",
            "neither has anything left",
        ],
    ),
    (
        "the same, while the broker has time to spare",
        |e| (e.loops, e.broker) = (vec![a_loop(0.97, 0.01)], Some(broker(0.7, 0.5))),
        LimitedBy::Generator,
        &["at work for 99 % of the time: use more --threads (now 1)"],
    ),
    (
        "other processes on the generator's core",
        |e| {
            (e.cores, e.idle, e.client_cores) = (2, Some(0.2), Some(0.3));
            (e.broker, e.loops) = (Some(broker(0.3, 0.3)), vec![starved_loop(0.5)]);
        },
        LimitedBy::Generator,
        &["waited 50 % of the time for a core, while other processes took 1.0 cores"],
    ),
    (
        "other processes on all cores",
        |e| {
            (e.cores, e.idle, e.client_cores) = (2, Some(0.0), Some(0.3));
            (e.broker, e.loops) = (Some(broker(0.5, 0.3)), vec![starved_loop(0.5)]);
            if let Some(used) = &mut e.broker {
                used.starved = Some(0.8);
            }
        },
        LimitedBy::Undecided,
        &[
            "other processes took 1.2 of the 2 cores",
            "together waited 0.8 s each second",
        ],
    ),
    (
        "other processes on the broker's cores alone",
        |e| {
            (e.cores, e.idle, e.client_cores) = (2, Some(0.0), Some(0.5));
            e.broker = Some(BrokerUse {
                starved: Some(0.4),
                ..broker(0.5, 0.5)
            });
        },
        LimitedBy::Undecided,
        &["other processes took 1.0 of the 2 cores"],
    ),
    (
        "an affinity to a part of a core",
        |e| e.loops = vec![starved_loop(0.5)],
        LimitedBy::Generator,
        &["waited 50 % of the time for a core: give it more"],
    ),
    (
        "a kernel without an account of waiting for a core",
        |e| {
            e.loops = vec![LoopUse {
                cpu: 0.3,
                idle: 0.1,
                starved: None,
            }];
            e.broker = None;
        },
        LimitedBy::Generator,
        &["waited 60 % of the time for a core"],
    ),
    (
        "a broker here that does not read",
        |e| {
            e.producers = producers(|time| (time.socket, time.ready) = (0.9, 0.1));
            e.broker = Some(broker(0.0, 0.0));
        },
        LimitedBy::Broker,
        &["it did not read, sockets to it were full for 90 %"],
    ),
    (
        "full sockets to a broker elsewhere",
        |e| {
            e.producers = producers(|time| time.socket = 1.0);
            (e.broker, e.same_machine) = (None, false);
        },
        LimitedBy::Undecided,
        &["either the broker does not read, or the network is full"],
    ),
    (
        "the same, with a full receive window",
        |e| {
            e.producers = producers(|time| time.socket = 1.0);
            (e.broker, e.same_machine) = (None, false);
            e.connections = Some(tcp(0.8, 0.0));
        },
        LimitedBy::Broker,
        &["its receive window for 80 %"],
    ),
    (
        "the same, with an empty one",
        |e| {
            e.producers = producers(|time| time.socket = 1.0);
            (e.broker, e.same_machine) = (None, false);
            e.connections = Some(tcp(0.01, 0.02));
        },
        LimitedBy::Network,
        &["only for 1.0 %", "2.0 % of the segments were sent again"],
    ),
    (
        "a tunnel on this machine to a broker far away",
        |e| {
            tunnelled(e);
            (e.in_flight_limit, e.answer_ns) = (Some(10), 41_000_000);
            e.idle_answer_ns = Some(40_000_000);
        },
        LimitedBy::Network,
        &["all the way through ssh and back takes 40.0 ms even without load"],
    ),
    (
        "a tunnel that hides who is slow",
        |e| {
            tunnelled(e);
            e.idle_answer_ns = Some(300_000);
        },
        LimitedBy::Undecided,
        &["ssh passes connections on to the broker, and which of the two is slow"],
    ),
    (
        "a tunnel that takes no more",
        |e| {
            tunnelled(e);
            e.producers = producers(|time| time.socket = 1.0);
            e.connections = Some(tcp(0.9, 0.0));
        },
        LimitedBy::Undecided,
        &[
            "sockets to it were full for 100 %",
            "ssh passes connections on",
        ],
    ),
    (
        "a proxy to a broker whose process was named and which has no CPU left",
        |e| e.relay = Some("haproxy".into()),
        LimitedBy::Broker,
        &["2_scheduler used 97 %"],
    ),
    (
        "a broker elsewhere, seen through a proxy elsewhere",
        |e| {
            (e.broker, e.same_machine) = (None, false);
            (e.answer_ns, e.idle_answer_ns) = (30_000_000, Some(28_000_000));
        },
        LimitedBy::Undecided,
        &["its simplest answer took 28.0 ms, of which TCP's round trip is 60.0 us"],
    ),
    (
        "a link so full that answers wait in it",
        |e| {
            (e.answer_ns, e.broker) = (400_000_000, Some(broker(0.1, 0.1)));
            e.connections = Some(ConnectionTime {
                round_trip_ns: 350_000_000,
                ..tcp(0.0, 0.0)
            });
        },
        LimitedBy::Network,
        &["the link is full: a round trip took 350 ms under load and 60.0 us at best"],
    ),
    (
        "a link so full that sockets are",
        |e| {
            (e.broker, e.same_machine) = (None, false);
            e.producers = producers(|time| time.socket = 1.0);
            e.connections = Some(ConnectionTime {
                unsent_bytes: 900_000,
                ..tcp(0.0, 0.01)
            });
        },
        LimitedBy::Network,
        &["the link is full", "900 kB waited in each socket"],
    ),
    (
        "a full machine with a broker of which nothing is known",
        |e| {
            (e.cores, e.idle, e.broker) = (2, Some(0.0), None);
            e.loops = vec![starved_loop(0.4)];
        },
        LimitedBy::Undecided,
        &["the broker's process is not known", "(--pid)"],
    ),
    (
        "an alarm",
        |e| e.producers = producers(|time| (time.blocked, time.budget) = (0.8, 0.2)),
        LimitedBy::Broker,
        &["blocked its publishers for 80 %"],
    ),
    (
        "a broker that was away",
        |e| e.producers = producers(|time| (time.away, time.budget) = (0.6, 0.4)),
        LimitedBy::Broker,
        &["no connection to it for 60 %"],
    ),
    (
        "a rate that was kept",
        |e| {
            (e.requested_rate, e.sent_rate) = (Some(20_000.0), 19_990.0);
            e.producers = producers(|time| (time.schedule, time.budget) = (0.9, 0.1));
            e.capacity = Some(Capacity {
                rate: 3_114_000.0,
                shape: "64 B".into(),
                at_least: true,
            });
        },
        LimitedBy::Schedule,
        &[
            "the 20,000 msg/s that were asked for on time",
            "could have made at least 3.11 M msg/s",
        ],
    ),
    (
        "a rate that was kept on average",
        |e| {
            (e.requested_rate, e.sent_rate) = (Some(20_000.0), 20_000.0);
            (e.late_share, e.loop_lag_max_ns, e.lag_explains) = (0.001, 2_700_000, 0.2);
            e.producers = producers(|time| time.schedule = 1.0);
        },
        LimitedBy::Schedule,
        &[
            "on time on average (0.1 % left over 1 ms late), but up to 2.70 ms late at worst (see the \
             warning)",
        ],
    ),
    (
        "a rate that was kept by a loop that spins",
        |e| {
            (e.requested_rate, e.sent_rate) = (Some(20_000.0), 20_000.0);
            (e.spun, e.loops) = (true, vec![a_loop(1.0, 0.0)]);
        },
        LimitedBy::Schedule,
        &["on time"],
    ),
    (
        "a rate that the broker does not take",
        |e| {
            (e.requested_rate, e.late_share) = (Some(200_000.0), 0.9);
            e.producers = producers(|time| (time.budget, time.schedule) = (0.6, 0.4));
        },
        LimitedBy::Broker,
        &["60 % of the time for confirms"],
    ),
    (
        "a rate that was kept, late",
        |e| {
            (e.requested_rate, e.late_share) = (Some(100_000.0), 0.2);
            e.producers = producers(|time| (time.schedule, time.ready) = (0.995, 0.005));
            e.loop_lag_max_ns = 9_000_000;
        },
        LimitedBy::Generator,
        &[
            "20 % of the messages left over 1 ms late",
            "late by up to 9.00 ms",
        ],
    ),
    (
        "a rate that was kept by a loop that was stopped for a while",
        |e| {
            (e.requested_rate, e.late_share) = (Some(100_000.0), 0.2);
            e.producers = producers(|time| (time.schedule, time.ready) = (0.8, 0.2));
        },
        LimitedBy::Generator,
        &["20 % of the messages left over 1 ms late"],
    ),
    (
        "a rate that was kept, with consumers behind and a full broker",
        |e| {
            (e.requested_rate, e.expected_rate) = (Some(100_000.0), Some(100_000.0));
            e.received_rate = 40_000.0;
        },
        LimitedBy::Broker,
        &["consumers got 40,000: limited by the broker: consumers had time to spare"],
    ),
    (
        "a think time",
        |e| {
            (e.closed_loop, e.in_flight_limit, e.sent_rate) = (true, Some(10), 100.0);
            e.answer_ns = 1_000_000;
            e.producers = producers(|time| time.schedule = 1.0);
        },
        LimitedBy::Schedule,
        &["limited by the think time", "waited 1.0 % of their time"],
    ),
    (
        "a think time that is nothing beside the answers",
        |e| {
            (e.closed_loop, e.in_flight_limit, e.sent_rate) = (true, Some(10), 900.0);
            e.answer_ns = 10_000_000;
            e.producers = producers(|time| time.schedule = 1.0);
        },
        LimitedBy::Broker,
        &["90 % of the time for confirms"],
    ),
    (
        "random arrivals that were fewer by chance",
        |e| {
            (e.requested_rate, e.sent_rate) = (Some(100.0), 97.0);
            e.requested_deviation = 55.0;
        },
        LimitedBy::Schedule,
        &["on time"],
    ),
    (
        "consumers that take their time",
        |e| {
            (e.requested_rate, e.expected_rate) = (Some(100_000.0), Some(100_000.0));
            (e.received_rate, e.slow_consumers) = (40_000.0, true);
        },
        LimitedBy::Schedule,
        &["they took 40,000 at their own pace"],
    ),
    (
        "messages that wait for a loop with time to spare",
        |e| e.producers = producers(|time| (time.ready, time.budget) = (0.7, 0.3)),
        LimitedBy::Generator,
        &["for 70 % of the time a message was due and could go"],
    ),
    (
        "no cause that stands out",
        |e| e.producers = producers(|t| (t.ready, t.budget, t.socket) = (0.4, 0.35, 0.25)),
        LimitedBy::Undecided,
        &["no cause stands out: messages waited 40 % of the time for the event loop"],
    ),
    (
        "several causes, all of them the broker's",
        |e| e.producers = producers(|t| (t.ready, t.budget, t.socket) = (0.2, 0.45, 0.35)),
        LimitedBy::Broker,
        &["45 % of the time for confirms"],
    ),
    (
        "consumers alone, and nobody at work",
        |e| {
            (e.producers, e.sent_rate, e.received_rate) = (None, 0.0, 5_000.0);
            e.broker = Some(broker(0.3, 0.2));
        },
        LimitedBy::Undecided,
        &["the queue may have been empty", "--prefetch"],
    ),
    (
        "consumers alone, at work all the time",
        |e| {
            (e.producers, e.sent_rate, e.received_rate) = (None, 0.0, 5_000_000.0);
            (e.loops, e.broker) = (vec![a_loop(0.95, 0.02)], Some(broker(0.6, 0.5)));
        },
        LimitedBy::Generator,
        &["at work for 98 %"],
    ),
    (
        "nothing at all",
        |e| (e.producers, e.sent_rate) = (None, 0.0),
        LimitedBy::Undecided,
        &["no message was sent or received"],
    ),
    (
        "a moment",
        |e| e.seconds = 0.2,
        LimitedBy::Undecided,
        &["only 0.20 s were measured"],
    ),
];

#[test]
fn every_situation_has_its_verdict() {
    for (name, change, who, words) in SITUATIONS {
        let mut evidence = waiting_for_answers();
        change(&mut evidence);
        let found = verdict(evidence.clone());
        assert_eq!(found.limited_by, *who, "{name}: {}", found.sentence);
        for part in *words {
            assert!(found.sentence.contains(part), "{name}: {}", found.sentence);
        }
        assert_eq!(found.evidence, evidence, "{name}: the evidence is kept");
        assert!(!found.reasons.is_empty(), "{name}");
        assert!(
            !found.sentence.contains('\n') && !found.sentence.ends_with('.'),
            "{name}: {}",
            found.sentence
        );
    }
}

#[test]
fn no_evidence_is_no_verdict() {
    let found = verdict(Evidence::default());
    assert_eq!(found.limited_by, LimitedBy::Undecided);
    // Figures that no run has still lead to words.
    let found = verdict(Evidence {
        seconds: f64::NAN,
        sent_rate: f64::INFINITY,
        producers: Some(ProducerTime {
            budget: f64::NAN,
            ..ProducerTime::default()
        }),
        ..Evidence::default()
    });
    assert!(found.sentence.contains("limit"), "{}", found.sentence);
}

#[test]
fn what_sharing_two_cores_implies_is_said() {
    let mut evidence = waiting_for_answers();
    evidence.cores = 2;
    let found = verdict(evidence);
    let shared = found.reasons.iter().find(|r| r.code == "shared_cores");
    assert!(
        shared.is_some_and(|r| r.text.contains("share 2 cores")),
        "{found:?}"
    );
    let codes: Vec<_> = found.reasons.iter().map(|r| r.code.as_str()).collect();
    assert_eq!(
        codes.get(..3),
        Some(["in_flight_full", "broker_cpu", "loop_busy"].as_slice())
    );
    let decided = found.reasons.iter().filter(|r| r.decided).count();
    assert_eq!(decided, 3, "{found:?}");
    assert!(codes.contains(&"not_calibrated"), "{codes:?}");
}
