//! Heartbeats, time-outs and resumptions: who was silent, who did not listen, and who is only slow; in virtual time.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use load::{Ack, Destination, Error, Outcome, Plan, QueueType, RunEvent, Silence, StreamOffset};
use measure::{Nanos, Phase, Time};
use testkit::Random;
use wire::amqp091::{BasicProperties, ChannelFlow, ConnectionBlocked, ConnectionUnblocked, FieldTable, Properties};

use crate::common;
use crate::world::peer::{Asked, IDLE, Peer, Serve, beating, polite};
use crate::world::{self, Pace, Told, World};

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn usual() -> World {
    World::new(1, Pace::default())
}

/// A broker that answers who prepares it, and serves the load's connections so, by their numbers from 1 on.
fn broker(
    world: &World,
    heartbeat_s: u16,
    mut serve: impl FnMut(usize) -> Box<dyn Serve> + Send + 'static,
) -> SocketAddr {
    world.peer(beating(heartbeat_s), move |number| if number == 0 { polite() } else { serve(number) })
}

fn plan(address: SocketAddr, measure_ms: u64) -> Plan {
    let group = common::group(address, Destination::queue("q"), (0, 1));
    Plan { groups: vec![group], phases: common::phases(0, measure_ms, 1_000), ..Plan::default() }
}

fn undisturbed(world: &World, plan: &Plan) -> (Outcome, Told) {
    let (outcome, told) = world.run_to_end(plan, |_, _| ());
    assert_eq!(common::lost_connections(&outcome), 0, "{outcome:?}");
    (outcome, told)
}

/// Answers the others at once, and `basic.qos` only after `pause`, one after the other.
fn hesitate(pause: Nanos) -> Box<dyn Serve> {
    let mut waiting: Vec<(Time, u16)> = Vec::new();
    Box::new(move |peer: &mut Peer, asked: Vec<Asked>, now: Time| {
        for asked in asked {
            match asked {
                Asked::Method(channel, "basic.qos") => waiting.push((now, channel)),
                Asked::Method(channel, method) => peer.answer(channel, method),
                Asked::Gone | Asked::Ack { .. } | Asked::Publish(_) => {}
            }
        }
        if let Some((since, channel)) = waiting.first().copied()
            && now.since(since) >= pause
        {
            peer.answer(channel, "basic.qos");
            waiting.remove(0);
            // The others wait for their turn.
            waiting.iter_mut().for_each(|(since, _)| *since = now);
        }
        Some(ms(5))
    })
}

/// Answers everything, and sends so many deliveries when somebody subscribes.
fn generous(deliveries: u64, body: &'static [u8]) -> Box<dyn Serve> {
    Box::new(move |peer: &mut Peer, asked: Vec<Asked>, _: Time| {
        for asked in asked {
            if let Some(channel) = peer.attend(asked) {
                (1..=deliveries).for_each(|tag| peer.deliver(channel, tag, false, body));
            }
        }
        Some(IDLE)
    })
}

/// One that keeps its first delivery reads nothing behind it: that is no silence either.
#[test]
fn a_client_that_waits_for_the_start_hears_its_broker_while_others_connect() {
    for early in [0, 100] {
        let world = usual();
        let serve = move |number: usize| if number == 1 { generous(early, b"early") } else { hesitate(ms(3_500)) };
        let address = broker(&world, 1, serve);
        let mut plan = plan(address, 200);
        plan.groups[0].consumers.per_destination = 2;
        let (outcome, _) = undisturbed(&world, &plan);
        assert_eq!(outcome.totals.received, early, "{outcome:?}");
    }
}

#[test]
fn a_consumer_with_a_full_backlog_does_not_take_its_own_pause_for_the_brokers() {
    let world = usual();
    let address = broker(&world, 1, |_| generous(3_000, b"slow"));
    let mut plan = plan(address, 3_500);
    let consumers = &mut plan.groups[0].consumers;
    consumers.ack = Ack::Auto;
    consumers.service = common::work(ms(2_000));
    plan.groups[0].reconnect = common::reconnect(10);
    let (outcome, told) = undisturbed(&world, &plan);
    let took = world.time().since(told.start());
    assert!(took < ms(5_500), "the way out waits for nobody: {took:?}");
    let received = outcome.totals.received;
    assert_eq!(received, 2, "one each two seconds");
}

fn deaf_and_blocking() -> Box<dyn Serve> {
    // Since when it does not read, whether it has said so, and how much was published.
    let (mut since, mut has_said, mut published) = (None::<Time>, false, 0);
    Box::new(move |peer: &mut Peer, asked: Vec<Asked>, now: Time| {
        for asked in asked {
            match asked {
                Asked::Method(channel, method) => {
                    peer.answer(channel, method);
                    if method == "confirm.select" {
                        since = Some(now);
                    }
                }
                Asked::Publish(channel) => {
                    published += 1;
                    peer.published.clear();
                    peer.server.confirm(channel, published, false);
                }
                Asked::Gone | Asked::Ack { .. } => {}
            }
        }
        let silent = since.map_or(Nanos::ZERO, |at| now.since(at));
        peer.is_deaf = silent > Nanos::ZERO && silent < ms(3_500);
        if peer.is_deaf {
            peer.server.excuse_silence(now);
        }
        if peer.is_deaf && silent > ms(1_000) && !has_said {
            has_said = true;
            let reason = "low on memory";
            peer.send(0, &ConnectionBlocked { reason });
        } else if !peer.is_deaf && has_said {
            has_said = false;
            peer.send(0, &ConnectionUnblocked {});
        }
        Some(ms(5))
    })
}

#[test]
fn a_block_is_noticed_behind_megabytes_that_nobody_reads() {
    let world = usual();
    let address = world.peer(beating(1), |_| deaf_and_blocking());
    let mut plan = plan(address, 4_500);
    let group = &mut plan.groups[0];
    group.producers.per_destination = 1;
    group.producers.sizes = (24 << 20).into();
    group.producers.max_pending = 2;
    group.consumers.per_destination = 0;
    let (outcome, told) = undisturbed(&world, &plan);
    assert!(told.events.iter().any(|event: &RunEvent| matches!(event, RunEvent::Blocked { .. })), "{:?}", told.events);
    assert!(outcome.totals.completed > 0, "{outcome:?}");
}

/// How a load of six channels on one connection goes that is set up within a second for each step.
fn set_up(serve: impl Fn() -> Box<dyn Serve> + Send + 'static) -> (Result<Outcome, Error>, Nanos) {
    let world = usual();
    let address = broker(&world, 0, move |_| serve());
    let mut plan = plan(address, 200);
    plan.timeout = ms(1_000);
    plan.groups[0].consumers.per_destination = 6;
    plan.groups[0].consumers.connections = Some(1);
    let begin = world.time();
    let (outcome, _) = world.run(&plan, |_, _| ());
    (outcome, world.time().since(begin))
}

/// Keeps saying what nobody asked for, in place of the answer.
fn chatty() -> Box<dyn Serve> {
    let mut asked_at = None;
    Box::new(move |peer: &mut Peer, asked: Vec<Asked>, now: Time| {
        for asked in asked {
            match asked {
                Asked::Method(_, "basic.qos") => asked_at = Some(now),
                // The client's answers to what it did not ask for.
                Asked::Method(_, "channel.flow-ok") => {}
                Asked::Method(channel, method) => peer.answer(channel, method),
                Asked::Gone | Asked::Ack { .. } | Asked::Publish(_) => {}
            }
        }
        if asked_at.is_some_and(|at| now.since(at) > ms(50)) {
            asked_at = Some(now);
            let reason = "still here";
            peer.send(0, &ConnectionBlocked { reason });
            peer.send(0, &ConnectionUnblocked {});
            peer.send(1, &ChannelFlow { active: true });
        }
        Some(ms(5))
    })
}

/// Each answer comes in time, and all together take four time-outs. What nobody asked for renews no deadline.
#[test]
fn each_step_of_a_set_up_has_its_deadline() {
    let (outcome, took) = set_up(|| hesitate(ms(700)));
    let outcome = outcome.expect("the load starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert!(took > ms(4_000), "{took:?}");
    for (broker, (outcome, took)) in [("late", set_up(|| hesitate(ms(1_500)))), ("chatty", set_up(chatty))] {
        assert!((ms(1_000)..ms(1_200)).contains(&took), "{broker}: {took:?}");
        assert!(matches!(outcome, Err(Error::TimedOut { .. })), "{broker}: {outcome:?}");
    }
}

fn at_offset(offset: i64) -> Vec<u8> {
    let mut headers = FieldTable::new();
    headers.insert("x-stream-offset", offset).expect("header");
    let properties = BasicProperties { headers: Some(headers.view()), ..BasicProperties::default() };
    properties.to_bytes().expect("properties")
}

type Offsets = Arc<Mutex<Vec<Option<i64>>>>;

/// Two deliveries on each connection, the second without an offset; the first two connections end then.
fn stream_peer(number: usize, seen: Offsets) -> Box<dyn Serve> {
    let mut acked = 0;
    Box::new(move |peer: &mut Peer, asked: Vec<Asked>, _: Time| {
        for asked in asked {
            acked += u32::from(matches!(asked, Asked::Ack { .. }));
            if let Some(channel) = peer.attend(asked) {
                let properties = at_offset(if number == 1 { 41 } else { i64::MAX });
                peer.deliver_with(channel, 1, false, Properties::from_bytes(&properties), b"with");
                peer.deliver(channel, 2, false, b"without");
                seen.lock().expect("offsets").append(&mut peer.offsets);
            }
        }
        (acked < 2 || number > 2).then_some(IDLE)
    })
}

fn stream_plan(address: SocketAddr) -> Plan {
    let mut plan = plan(address, 500);
    let group = &mut plan.groups[0];
    group.destinations[0].amqp091.queue_type = QueueType::Stream;
    group.consumers.amqp091.stream_offset = StreamOffset::First;
    group.consumers.ack = Ack::Every(1);
    group.consumers.prefetch = 10;
    group.reconnect = common::reconnect(10);
    plan
}

#[test]
fn a_stream_goes_on_behind_the_last_offset_that_was_told() {
    let world = usual();
    let offsets = Offsets::default();
    let seen = Arc::clone(&offsets);
    let address = broker(&world, 0, move |number| stream_peer(number, Arc::clone(&seen)));
    world.run_to_end(&stream_plan(address), |_, _| ());
    let offsets = offsets.lock().expect("offsets").clone();
    assert_eq!(offsets, [None, Some(42), Some(i64::MAX)]);
}

/// Delivers once on its first connection, as soon as somebody subscribes, and breaks it then.
fn early_stream_peer(is_first: bool, seen: Offsets) -> Box<dyn Serve> {
    let mut breaks = false;
    Box::new(move |peer: &mut Peer, asked: Vec<Asked>, _: Time| {
        if breaks {
            peer.resets = true;
            return None;
        }
        for asked in asked {
            let Some(channel) = peer.attend(asked) else { continue };
            seen.lock().expect("offsets").append(&mut peer.offsets);
            if is_first {
                peer.deliver_with(channel, 1, false, Properties::from_bytes(&at_offset(41)), b"early");
                breaks = true;
            }
        }
        Some(IDLE)
    })
}

/// Where a stream's consumer has asked to begin, on its first connection and on the next, and how much it
/// received on the first; another client is set up so much later.
fn broken_before_the_start(later: Nanos) -> (Vec<Option<i64>>, Option<u64>) {
    let world = usual();
    let offsets = Offsets::default();
    let seen = Arc::clone(&offsets);
    let address = broker(&world, 1, move |number| match number {
        2 => hesitate(later),
        _ => early_stream_peer(number == 1, Arc::clone(&seen)),
    });
    let mut plan = stream_plan(address);
    plan.groups[0].endpoint.connection.heartbeat_s = 1;
    plan.groups[0].consumers.per_destination = 2;
    let (outcome, _) = world.run(&plan, |_, _| ());
    let received = outcome.ok().map(|outcome| outcome.totals.received);
    (offsets.lock().expect("offsets").clone(), received)
}

/// A stream's first delivery has come, and the load has not begun, when the connection breaks. Nothing is read
/// behind that delivery; a heartbeat finds out, before the start is announced, which ends the load, between the
/// announcement and the start, or later, when the delivery counts.
#[test]
fn a_stream_does_not_skip_what_came_before_the_start_on_a_connection_that_broke() {
    let mut moments = [0; 3];
    for later in 300..1_200 {
        let (offsets, received) = broken_before_the_start(ms(later));
        let (moment, expected) = match received {
            None => (0, &[None][..]),
            Some(0) => (1, &[None, Some(41)][..]),
            Some(_) => (2, &[None, Some(42)][..]),
        };
        assert_eq!(offsets, expected, "{later} ms, received {received:?}");
        moments[moment] += 1;
    }
    assert!(moments.iter().all(|count| *count > 1), "{moments:?}");
}

/// When messages came, and when they were answered, where they were.
type Answers = Arc<Mutex<Vec<(Time, Option<Time>)>>>;

/// Confirms at once, but for messages that hang, and for a time that begins so long after the first message of one of
/// these sizes.
fn confirming(
    after: Nanos,
    length: Nanos,
    sizes: &'static [usize],
    hanging: Vec<u64>,
    answers: Answers,
) -> Box<dyn Serve> {
    let (mut first, mut unanswered) = (None::<Time>, Vec::new());
    Box::new(move |peer: &mut Peer, asked: Vec<Asked>, now: Time| {
        let mut answers = answers.lock().expect("answers");
        for asked in asked {
            peer.attend(asked);
            if let Asked::Publish(_) = asked {
                answers.push((now, None));
                unanswered.push(answers.len() as u64);
                if sizes.contains(&peer.published.pop_front().expect("a body").len()) {
                    first.get_or_insert(now);
                }
            }
        }
        let since = first.map_or(Nanos::ZERO, |at| now.since(at));
        if since < after || since >= after + length {
            for tag in unanswered.drain(..).filter(|tag| !hanging.contains(tag)) {
                answers[tag as usize - 1].1 = Some(now);
                peer.server.confirm(1, tag, false);
            }
        }
        Some(ms(1))
    })
}

const RATES: [(f64, usize); 2] = [(1_000.0, 100), (200.0, 200)];

/// Two groups at different rates, told apart by the length of their messages. From some moment after its first
/// message on, the broker says nothing for a while to those with messages of `silent` bytes.
#[derive(Clone, Copy, Debug)]
struct TwoRates {
    silent: &'static [usize],
    after: Nanos,
    length: Nanos,
    pace: Pace,
}

impl TwoRates {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        Self {
            silent: random.of(&[&[100], &[200], &[100, 200]]),
            after: ms(100 + random.below(300)),
            length: ms(150 + random.below(500)),
            pace: Pace::random(random),
        }
    }

    fn plan(self, address: SocketAddr) -> Plan {
        let mut plan = plan(address, 700);
        let second = plan.groups[0].clone();
        plan.groups.push(second);
        for (group, (rate, size)) in plan.groups.iter_mut().zip(RATES) {
            group.consumers.per_destination = 0;
            group.producers.per_destination = 1;
            group.producers.arrivals = common::rate(rate);
            group.producers.sizes = size.into();
            group.producers.max_pending = 20;
        }
        plan
    }

    /// Whether a silence has delayed what was due on its connections while it lasted and sending did, and the
    /// little that was in flight when it began.
    fn delays(self, silence: &Silence, end_of_sending: Time) -> bool {
        let length = silence.until.min(end_of_sending).since(silence.from);
        let rate: f64 = RATES.iter().filter(|(_, size)| self.silent.contains(size)).map(|(rate, _)| rate).sum();
        let due = rate * length.as_secs_f64();
        let delayed = (silence.in_flight + silence.unsent) as f64;
        silence.connections == self.silent.len() as u64 && (due - 3.0..due + 8.0).contains(&delayed)
    }

    fn problem(self, seed: u64) -> Option<String> {
        let world = World::new(seed, self.pace);
        let Self { silent, after, length, .. } = self;
        let address =
            world.peer(beating(0), move |_| confirming(after, length, silent, Vec::new(), Answers::default()));
        let (outcome, told) = world.run_to_end(&self.plan(address), |_, _| ());
        let measured = outcome.phases.iter().filter(|it| it.phase == Phase::Measure);
        let end = measured.map(|it| it.end).max().expect("a measured phase");
        let silences = told.silences();
        let is_right = silences.len() == 1 && silences.iter().all(|it| !it.is_own && self.delays(it, end));
        (!is_right).then(|| format!("{self:?}: {silences:?}, sent until {end:?}"))
    }
}

#[test]
fn a_silence_delays_what_was_due_on_its_own_connections() {
    world::prove(250, "--test all silence::a_silence_delays", |seed| TwoRates::random(seed).problem(seed));
}

/// A producer of a few messages a second, of which some are never answered, an early one in any case. For a while the
/// broker says nothing at all.
#[derive(Clone, Debug)]
struct Sparse {
    rate: f64,
    hanging: Vec<u64>,
    after: Nanos,
    length: Nanos,
    pace: Pace,
}

impl Sparse {
    fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let rate = random.of(&[2.0, 5.0, 9.0]);
        let last = (rate * 3.0) as u64;
        Self {
            rate,
            hanging: vec![2, 1 + random.below(last), last - random.below(3)],
            after: ms(500 + random.below(1_500)),
            length: random.of(&[Nanos::ZERO, ms(300), ms(800)]),
            pace: Pace::random(random),
        }
    }

    /// One for what waited through the broker's silence, and one where the last two or more hang.
    fn problem(&self, seed: u64) -> Option<String> {
        let world = World::new(seed, self.pace);
        let answers = Answers::default();
        let (scene, seen) = (self.clone(), Arc::clone(&answers));
        let serve = move |_| confirming(scene.after, scene.length, &[100], scene.hanging.clone(), Arc::clone(&seen));
        let address = broker(&world, 0, serve);
        let mut plan = plan(address, 3_000);
        let group = &mut plan.groups[0];
        group.consumers.per_destination = 0;
        group.producers.per_destination = 1;
        group.producers.arrivals = common::rate(self.rate);
        group.producers.sizes = 100.into();
        group.producers.max_pending = 20;
        let (_, told) = world.run_to_end(&plan, |_, _| ());
        let answers = answers.lock().expect("answers").clone();
        let waited = |least: Nanos| {
            answers.iter().filter(move |(at, answer)| answer.is_some_and(|answer| answer.since(*at) >= least))
        };
        let hang_last = answers.iter().rev().take_while(|(_, answer)| answer.is_none());
        let at_end = u64::from(hang_last.count() > 1);
        let [least, most] = [ms(150), ms(60)].map(|it| at_end + u64::from(waited(it).count() > 0));
        let silences = told.silences();
        let is_right = (least..=most).contains(&(silences.len() as u64))
            && silences.iter().all(|it| !it.is_own && it.in_flight <= 8);
        (!is_right).then(|| format!("{self:?}: {silences:?}, {answers:?}"))
    }
}

#[test]
fn messages_that_hang_beside_few_others_are_no_silence() {
    world::prove(300, "--test all silence::messages_that_hang", |seed| Sparse::random(seed).problem(seed));
}
