//! Heartbeats, time-outs and resumptions: who was silent, who did not listen, and who is only slow.

use crate::common;

use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::peer::{Asked, Peer, beating, listen};
use load::scenario::Scenario as _;
use load::{
    Ack, Control, Destination, Error, Group, LatencyStep, Outcome, Phases, Plan, QueueType,
    ReconnectPolicy, RunEvent, ServiceTime, Silence, Sink, SliceSink, StreamOffset, Together,
};
use measure::{Clock, Interval, Nanos, Phase, Rate, Slice, Time};
use wire::amqp091::{
    BasicProperties, ChannelFlow, ConnectionBlocked, ConnectionUnblocked, FieldTable, Properties,
};

#[derive(Default)]
struct Kept(Vec<RunEvent>);

impl SliceSink for Kept {
    fn slice(&mut self, _: &Slice) {}

    fn event(&mut self, event: RunEvent) {
        self.0.push(event);
    }
}

impl Sink for Kept {
    fn interval(&mut self, _: &Interval) {}

    fn event(&mut self, event: RunEvent) {
        self.0.push(event);
    }
}

fn plan(address: std::net::SocketAddr, measure_ms: u64) -> Plan {
    let url = format!("amqp://{address}");
    let mut group = Group::new(url.parse().expect("url"), vec![Destination::queue("q")]);
    group.producers.per_destination = 0;
    group.consumers.per_destination = 1;
    Plan {
        groups: vec![group],
        phases: Phases {
            measure: Some(Nanos::from_millis(measure_ms)),
            drain: Nanos::from_millis(1_000),
            ..Phases::default()
        },
        ..Plan::default()
    }
}

fn run(plan: &Plan) -> (Result<Outcome, Error>, Vec<RunEvent>) {
    let mut kept = Kept::default();
    let outcome = load::run(plan, &Control::new(), &mut kept);
    (outcome, kept.0)
}

/// The same, of a load that nothing disturbs.
fn undisturbed(plan: &Plan) -> (Outcome, Vec<RunEvent>) {
    let (outcome, events) = run(plan);
    let outcome = outcome.expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    let lost: u64 = outcome.threads.iter().map(|t| t.lost_connections).sum();
    assert_eq!(lost, 0, "{outcome:?}");
    (outcome, events)
}

/// Answers the others at once, and `basic.qos` only after `pause`.
fn hesitate(mut peer: Peer, pause: Duration) {
    let mut waiting: Vec<(Instant, u16)> = Vec::new();
    loop {
        for asked in peer.turn() {
            match asked {
                Asked::Method(channel, "basic.qos") => waiting.push((Instant::now(), channel)),
                Asked::Method(channel, method) => peer.answer(channel, method),
                Asked::Gone => return,
                Asked::Ack { .. } | Asked::Publish(_) => {}
            }
        }
        if let Some((since, channel)) = waiting.first().copied()
            && since.elapsed() >= pause
        {
            peer.answer(channel, "basic.qos");
            waiting.remove(0);
            // The others wait for their turn.
            waiting
                .iter_mut()
                .for_each(|(since, _)| *since = Instant::now());
        }
    }
}

#[test]
fn a_client_that_is_ready_hears_its_broker_while_others_connect() {
    let address = listen(beating(1), |number, peer| match number {
        0 | 1 => peer.serve_politely(),
        _ => hesitate(peer, Duration::from_millis(3_500)),
    });
    let mut plan = plan(address, 200);
    plan.groups[0].consumers.per_destination = 2;
    undisturbed(&plan);
}

/// What came first is kept, and nothing is read behind it: that is no silence either.
#[test]
fn a_client_that_holds_a_delivery_until_the_start_does_not_miss_heartbeats() {
    let address = listen(beating(1), |number, mut peer| match number {
        0 => peer.serve_politely(),
        1 => loop {
            for asked in peer.turn() {
                match asked {
                    Asked::Method(channel, "basic.consume") => {
                        peer.answer(channel, "basic.consume");
                        (1..=100).for_each(|tag| peer.deliver(channel, tag, false, b"early"));
                    }
                    Asked::Method(channel, method) => peer.answer(channel, method),
                    Asked::Gone => return,
                    Asked::Ack { .. } | Asked::Publish(_) => {}
                }
            }
        },
        _ => hesitate(peer, Duration::from_millis(3_500)),
    });
    let mut plan = plan(address, 200);
    plan.groups[0].consumers.per_destination = 2;
    let (outcome, _) = undisturbed(&plan);
    assert_eq!(outcome.totals.received, 100, "{outcome:?}");
}

#[test]
fn a_consumer_with_a_full_backlog_does_not_take_its_own_pause_for_the_brokers() {
    let address = listen(beating(1), |number, mut peer| {
        if number == 0 {
            return peer.serve_politely();
        }
        loop {
            for asked in peer.turn() {
                match asked {
                    Asked::Method(channel, "basic.consume") => {
                        peer.answer(channel, "basic.consume");
                        (1..=3_000).for_each(|tag| peer.deliver(channel, tag, false, b"slow"));
                    }
                    Asked::Method(channel, method) => peer.answer(channel, method),
                    Asked::Gone => return,
                    Asked::Ack { .. } | Asked::Publish(_) => {}
                }
            }
        }
    });
    let mut plan = plan(address, 3_500);
    let consumers = &mut plan.groups[0].consumers;
    consumers.ack = Ack::Auto;
    consumers.service = ServiceTime {
        rate: None,
        latency: vec![LatencyStep::constant(Nanos::SECOND + Nanos::SECOND)],
    };
    plan.groups[0].reconnect = Some(ReconnectPolicy {
        min: Nanos::from_millis(10),
        max: Nanos::from_millis(10),
    });
    let begin = Instant::now();
    let (outcome, _) = undisturbed(&plan);
    let took = begin.elapsed();
    assert!(
        took < Duration::from_secs(9),
        "the way out waits for nobody: {took:?}"
    );
    let received = outcome.totals.received;
    assert!((1_000..1_010).contains(&received), "{received}");
}

#[test]
fn a_block_is_noticed_behind_megabytes_that_nobody_reads() {
    let address = listen(beating(1), |_, mut peer| {
        // Since when it does not read, whether it has said so, and how much was published.
        let (mut since, mut has_said, mut published) = (None::<Instant>, false, 0);
        loop {
            let silent = since.map(|at| at.elapsed());
            if silent.is_some_and(|time| time < Duration::from_millis(3_500)) {
                if silent > Some(Duration::from_millis(1_000)) && !has_said {
                    has_said = true;
                    let reason = "low on memory";
                    peer.send(0, &ConnectionBlocked { reason });
                }
                thread::sleep(Duration::from_millis(5));
                peer.server.excuse_silence(Clock.now());
                assert!(peer.write());
                continue;
            }
            if has_said {
                has_said = false;
                peer.send(0, &ConnectionUnblocked {});
            }
            for asked in peer.turn() {
                match asked {
                    Asked::Method(channel, method) => {
                        peer.answer(channel, method);
                        if method == "confirm.select" {
                            since = Some(Instant::now());
                            assert!(peer.write());
                        }
                    }
                    Asked::Publish(channel) => {
                        published += 1;
                        peer.server.confirm(channel, published, false);
                    }
                    Asked::Gone => return,
                    Asked::Ack { .. } => {}
                }
            }
        }
    });
    let mut plan = plan(address, 4_500);
    let group = &mut plan.groups[0];
    group.producers.per_destination = 1;
    group.producers.sizes = (24 << 20).into();
    group.producers.max_pending = 2;
    group.consumers.per_destination = 0;
    let (outcome, events) = undisturbed(&plan);
    let told = |event: &RunEvent| matches!(event, RunEvent::Blocked { .. });
    assert!(events.iter().any(told), "{events:?}");
    assert!(outcome.totals.completed > 0, "{outcome:?}");
}

/// How a load of six channels on one connection goes that is set up within a second for each step.
fn set_up(serve: impl Fn(Peer) + Clone + Send + 'static) -> (Result<Outcome, Error>, Duration) {
    let address = listen(beating(0), move |number, peer| match number {
        0 => peer.serve_politely(),
        _ => serve(peer),
    });
    let mut plan = plan(address, 200);
    plan.timeout = Nanos::from_millis(1_000);
    plan.groups[0].consumers.per_destination = 6;
    plan.groups[0].consumers.connections = Some(1);
    let begin = Instant::now();
    let (outcome, _) = run(&plan);
    (outcome, begin.elapsed())
}

/// Each answer comes in time, and all together take four time-outs.
#[test]
fn a_set_up_may_take_longer_than_one_of_its_steps() {
    let (outcome, took) = set_up(|peer| hesitate(peer, Duration::from_millis(700)));
    let outcome = outcome.expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert!(took > Duration::from_millis(4_000), "{took:?}");
}

#[test]
fn a_step_of_the_set_up_has_a_deadline() {
    let (outcome, took) = set_up(|peer| hesitate(peer, Duration::from_millis(1_500)));
    assert!(took < Duration::from_millis(2_500), "{took:?}");
    let is_late = matches!(outcome, Err(Error::TimedOut { .. }));
    assert!(is_late, "{outcome:?}");
}

#[test]
fn what_was_not_asked_for_does_not_renew_the_deadline_of_a_set_up() {
    let (outcome, took) = set_up(|mut peer| {
        let mut asked_at = None;
        loop {
            for asked in peer.turn() {
                match asked {
                    Asked::Method(_, "basic.qos") => asked_at = Some(Instant::now()),
                    // The client's answers to what it did not ask for.
                    Asked::Method(_, "channel.flow-ok") => {}
                    Asked::Method(channel, method) => peer.answer(channel, method),
                    Asked::Gone => return,
                    Asked::Ack { .. } | Asked::Publish(_) => {}
                }
            }
            if asked_at.is_some_and(|at: Instant| at.elapsed() > Duration::from_millis(50)) {
                asked_at = Some(Instant::now());
                let reason = "still here";
                peer.send(0, &ConnectionBlocked { reason });
                peer.send(0, &ConnectionUnblocked {});
                peer.send(1, &ChannelFlow { active: true });
            }
        }
    });
    assert!(took < Duration::from_millis(2_500), "{took:?}");
    let is_late = matches!(outcome, Err(Error::TimedOut { .. }));
    assert!(is_late, "{outcome:?}");
}

fn at_offset(offset: i64) -> Vec<u8> {
    let mut headers = FieldTable::new();
    headers.insert("x-stream-offset", offset).expect("header");
    let properties = BasicProperties {
        headers: Some(headers.view()),
        ..BasicProperties::default()
    };
    properties.to_bytes().expect("properties")
}

/// Two deliveries on each connection, the second without an offset; then the connection is cut.
#[test]
fn a_stream_goes_on_behind_the_last_offset_that_was_told() {
    let offsets = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&offsets);
    let address = listen(beating(0), move |number, mut peer| {
        if number == 0 {
            return peer.serve_politely();
        }
        let mut acked = 0;
        while acked < 2 || number > 2 {
            for asked in peer.turn() {
                match asked {
                    Asked::Method(channel, "basic.consume") => {
                        peer.answer(channel, "basic.consume");
                        let properties = at_offset(if number == 1 { 41 } else { i64::MAX });
                        let properties = Properties::from_bytes(&properties);
                        peer.deliver_with(channel, 1, false, properties, b"with");
                        peer.deliver(channel, 2, false, b"without");
                        seen.lock().expect("offsets").append(&mut peer.offsets);
                    }
                    Asked::Method(channel, method) => peer.answer(channel, method),
                    Asked::Ack { .. } => acked += 1,
                    Asked::Gone => return,
                    Asked::Publish(_) => {}
                }
            }
        }
    });
    let mut plan = plan(address, 1_000);
    let group = &mut plan.groups[0];
    group.destinations[0].amqp091.queue_type = QueueType::Stream;
    group.consumers.amqp091.stream_offset = StreamOffset::First;
    group.consumers.ack = Ack::Every(1);
    group.consumers.prefetch = 10;
    group.reconnect = Some(ReconnectPolicy {
        min: Nanos::from_millis(10),
        max: Nanos::from_millis(10),
    });
    let (outcome, _) = run(&plan);
    let outcome = outcome.expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    let offsets = offsets.lock().expect("offsets").clone();
    assert_eq!(offsets, [None, Some(42), Some(i64::MAX)]);
}

/// Two groups at different rates, told apart by the length of their messages. From some moment after its first
/// message on, the broker says nothing for a while to those with messages of `silent` bytes.
fn two_rates(silent: &'static [usize], after_ms: u64, length_ms: u64) -> (Outcome, Vec<Silence>) {
    let address = listen(beating(0), move |_, mut peer| {
        let (mut first, mut tags) = (None::<Instant>, 0);
        let mut unanswered = Vec::new();
        loop {
            for asked in peer.turn() {
                match asked {
                    Asked::Method(channel, method) => peer.answer(channel, method),
                    Asked::Publish(channel) => {
                        tags += 1;
                        unanswered.push((channel, tags));
                        let body = peer.published.pop_front().expect("a body");
                        if silent.contains(&body.len()) {
                            first.get_or_insert_with(Instant::now);
                        }
                    }
                    Asked::Gone => return,
                    Asked::Ack { .. } => {}
                }
            }
            let since = first.map_or(0, |at| at.elapsed().as_millis() as u64);
            if !(after_ms..after_ms + length_ms).contains(&since) {
                for (channel, tag) in unanswered.drain(..) {
                    peer.server.confirm(channel, tag, false);
                }
            }
        }
    });
    let mut plan = plan(address, 1_000);
    let second = plan.groups[0].clone();
    plan.groups.push(second);
    for (group, (rate, size)) in plan.groups.iter_mut().zip(RATES) {
        group.consumers.per_destination = 0;
        group.producers.per_destination = 1;
        group.producers.arrivals = Rate::per_second(rate).expect("a rate").into();
        group.producers.sizes = size.into();
        group.producers.max_pending = 20;
    }
    let (outcome, events) = run(&plan);
    let outcome = outcome.expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    let silences = events.iter().filter_map(|event| match event {
        RunEvent::Silence(silence) => Some(*silence),
        _ => None,
    });
    let silences = silences.filter(|it| !it.is_own).collect();
    (outcome, silences)
}

const RATES: [(f64, usize); 2] = [(2_000.0, 100), (200.0, 200)];

/// Whether a silence of so many connections has delayed what was due at this rate while it lasted and sending did,
/// and the little that was in flight when it began.
fn delays(silence: &Silence, connections: u64, rate: f64, end_of_sending: Time) -> bool {
    let length = silence.until.min(end_of_sending).since(silence.from);
    let due = rate * length.as_secs_f64();
    let delayed = (silence.in_flight + silence.unsent) as f64;
    silence.connections == connections && (due - 3.0..due + 25.0).contains(&delayed)
}

#[test]
fn a_silence_delays_what_was_due_on_its_own_connections() {
    let [fast, slow] = RATES.map(|(rate, _)| rate);
    for (silent, rate) in [
        (&[100][..], fast),
        (&[200], slow),
        (&[100, 200], fast + slow),
    ] {
        for (after_ms, length_ms) in [(300, 400), (700, 900)] {
            let mut told = None;
            // A machine with other things to do can spoil a run; not every time.
            let is_right = (0..3).any(|_| {
                let (outcome, silences) = two_rates(silent, after_ms, length_ms);
                let measured = outcome.phases.iter();
                let measured = measured.filter(|it| it.phase == Phase::Measure);
                let end = measured.map(|it| it.end).max().expect("a measured phase");
                let connections = silent.len() as u64;
                let is_right = |it: &Silence| delays(it, connections, rate, end);
                let is_right = silences.iter().any(is_right);
                told = Some((silences, end));
                is_right
            });
            assert!(is_right, "{silent:?} after {after_ms} ms: {told:?}");
        }
    }
}

/// A stream's first delivery has come, and the load has not begun, when the connection breaks: between the
/// announcement of the start and the start the client writes a heartbeat.
#[test]
fn a_stream_does_not_skip_what_came_before_the_start_on_a_connection_that_broke() {
    // A machine with other things to do can miss the moment, and the delivery counts; not every time.
    let mut played = (0..10).map(|_| broken_before_the_start());
    let offsets = played.find_map(|(offsets, received)| (received == Some(0)).then_some(offsets));
    assert_eq!(offsets, Some(vec![None, Some(41)]));
}

/// Where a stream's consumer has asked to begin, on its first connection and on the next, and how much it
/// received on the first.
fn broken_before_the_start() -> (Vec<Option<i64>>, Option<u64>) {
    let together = Arc::new(Together::of(2));
    let other = Arc::clone(&together);
    let offsets = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&offsets);
    let address = listen(beating(1), move |number, mut peer| {
        if number == 0 {
            return peer.serve_politely();
        }
        let mut is_delivered = false;
        while number > 1 || !is_delivered {
            for asked in peer.turn() {
                match asked {
                    Asked::Method(channel, "basic.consume") => {
                        peer.answer(channel, "basic.consume");
                        seen.lock().expect("offsets").append(&mut peer.offsets);
                        if number == 1 {
                            let properties = at_offset(41);
                            let properties = Properties::from_bytes(&properties);
                            peer.deliver_with(channel, 1, false, properties, b"early");
                            is_delivered = true;
                        }
                    }
                    Asked::Method(channel, method) => peer.answer(channel, method),
                    Asked::Gone => return,
                    Asked::Ack { .. } | Asked::Publish(_) => {}
                }
            }
        }
        // The next heartbeat but one comes a second after the next, and finds nobody.
        assert!(peer.write());
        peer.stream.set_read_timeout(None).expect("no time-out");
        let read = peer.stream.read(&mut [0; 64]).expect("a heartbeat");
        assert_eq!(read, 8);
        let linger = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&peer.stream, linger).expect("a reset");
        drop(peer);
        thread::sleep(Duration::from_millis(985));
        other.ready();
    });
    let mut plan = plan(address, 500);
    let group = &mut plan.groups[0];
    group.endpoint.connection.heartbeat_s = 1;
    group.destinations[0].amqp091.queue_type = QueueType::Stream;
    group.consumers.amqp091.stream_offset = StreamOffset::First;
    group.consumers.ack = Ack::Every(1);
    group.consumers.prefetch = 10;
    group.reconnect = Some(ReconnectPolicy {
        min: Nanos::from_millis(10),
        max: Nanos::from_millis(10),
    });
    // What broke before the announcement ends the load.
    let outcome = plan.run(&together, &Control::new(), &mut Kept::default());
    let received = outcome.ok().map(|outcome| outcome.totals.received);
    (offsets.lock().expect("offsets").clone(), received)
}
