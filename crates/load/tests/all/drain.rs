//! When a drain ends, and what is said of the messages that it did not bring; in virtual time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use broker::{Config, Fault, FaultKind};
use load::{Ack, Argument, Destination, DestinationKind, Endpoint, Exchange, Group, Outcome, Plan, Refusal};
use measure::ledger::LedgerSummary;
use measure::{Length, Nanos, Time};
use wire::amqp091::{MethodId, QueueDeclareOk};

use crate::common;
use crate::world::peer::{Asked, Peer, Serve, beating};
use crate::world::{Pace, World};

type Bodies = Arc<Mutex<VecDeque<Vec<u8>>>>;
type Adapt<'a> = (&'a str, &'a dyn Fn(&mut Group));

fn usual() -> World {
    World::new(1, Pace::default())
}

fn plan(broker: SocketAddr, rate: f64) -> Plan {
    let mut group = common::group(broker, Destination::queue("drained"), (1, 1));
    group.producers.arrivals = common::rate(rate);
    group.producers.sizes = 40.into();
    group.consumers.ack = Ack::Every(1);
    Plan { groups: vec![group], run_id: 8, phases: common::phases(0, 500, 20_000), ..Plan::default() }
}

fn scene(config: Config, rate: f64) -> (World, Plan) {
    let world = usual();
    let broker = world.broker(config);
    (world, plan(broker, rate))
}

fn run_with(world: &World, plan: &Plan, begun: impl FnOnce(&World, Time)) -> (Outcome, Nanos) {
    let began = world.time();
    let (outcome, _) = world.run_to_end(plan, begun);
    (outcome, world.time().since(began))
}

fn run(world: &World, plan: &Plan) -> Outcome {
    run_with(world, plan, |_, _| ()).0
}

fn whole(outcome: &Outcome) -> LedgerSummary {
    LedgerSummary { sent: outcome.totals.sent, delivered: outcome.totals.sent, exact: true, ..LedgerSummary::default() }
}

/// Messages not delivered are still there; how many.
fn assert_held(outcome: &Outcome, what: &str) -> u64 {
    let (sent, delivered) = (outcome.totals.sent, outcome.totals.received);
    let outstanding = sent - delivered;
    let expected = LedgerSummary { delivered, outstanding, ..whole(outcome) };
    assert_eq!(outcome.ledger, Some(expected), "{what}");
    outstanding
}

/// Runs a load of which `lost` says how many messages are lost; nobody waits for them: 2 s of quiet, and the questions.
fn assert_lost(world: &World, plan: &Plan, what: &str, lost: impl FnOnce(&Outcome) -> u64) -> Outcome {
    let (outcome, took) = run_with(world, plan, |_, _| ());
    let lost = lost(&outcome);
    let expected = LedgerSummary { delivered: outcome.totals.sent - lost, lost, ..whole(&outcome) };
    assert_eq!(outcome.ledger, Some(expected), "{what}");
    assert!(took < Nanos::from_millis(8_000), "{took:?}");
    outcome
}

fn at_broker(plan: &Plan, broker: SocketAddr) -> Group {
    Group { endpoint: Endpoint::new("127.0.0.1", broker.port()), ..plan.groups[0].clone() }
}

fn slow(group: &mut Group, ms: u64) {
    group.consumers.service = common::work(Nanos::from_millis(ms));
}

/// Nobody can be asked how much a topic's or an exclusive queue holds: only who polls them learns that they are empty.
#[test]
fn a_slow_poll_does_not_end_the_drain() {
    let queue = || Destination::queue("drained");
    let exclusive = Destination { exclusive: true, ..queue() };
    for destination in [queue(), Destination::topic("drained"), exclusive] {
        let has_count = destination == queue();
        let (world, mut plan) = scene(Config::default(), 6.0);
        let group = &mut plan.groups[0];
        group.destinations = vec![destination];
        group.consumers.poll = Some(Length(Nanos::from_millis(2_300)));
        let outcome = run(&world, &plan);
        assert_eq!(outcome.totals.sent, 3);
        assert_eq!(outcome.ledger, Some(whole(&outcome)));
        if has_count {
            continue;
        }
        // Where the time does not suffice, the rest is still there.
        plan.phases.drain = Nanos::from_millis(3_000);
        assert!(assert_held(&run(&world, &plan), "too short") > 0);
    }
}

#[test]
fn a_connection_that_is_down_does_not_end_the_drain() {
    let (world, mut plan) = scene(Config::default(), 500.0);
    let group = &mut plan.groups[0];
    group.consumers.prefetch = 20;
    slow(group, 5);
    group.reconnect = common::reconnect(3_000);
    let (outcome, _) = run_with(&world, &plan, |world, start| {
        let later = start + Nanos::from_millis(400);
        world.at(later, |world| world.cut(Nanos::ZERO));
    });
    let ledger = outcome.ledger.expect("a ledger");
    assert_eq!((ledger.lost, ledger.outstanding), (0, 0), "{ledger:?}");
    let unknown = ledger.unconfirmed_missing + ledger.unconfirmed_delivered;
    assert_eq!(unknown, outcome.unconfirmed, "{outcome:?}");
    assert!(ledger.delivered > 150, "{ledger:?}");
}

/// An exclusive queue instead of the one that others may ask.
fn exclusive(group: &mut Group) {
    group.destinations[0].exclusive = true;
}

fn tell_length(peer: &mut Peer, channel: u16, queue: &Bodies, consumer_count: u32) {
    let message_count = queue.lock().expect("queue").len() as u32;
    peer.send(channel, &QueueDeclareOk { queue: "drained", message_count, consumer_count });
}

/// Answers at once, and confirms; the channel that subscribes, where it is that.
fn attend(peer: &mut Peer, asked: Asked, queue: &Bodies, confirmed: &mut u64) -> Option<u16> {
    match asked {
        Asked::Method(channel, "queue.declare") => tell_length(peer, channel, queue, 1),
        Asked::Publish(channel) => {
            *confirmed += 1;
            peer.server.confirm(channel, *confirmed, false);
        }
        other => return peer.attend(other),
    }
    None
}

/// A broker whose channels answer at once, and whose queue gives the next message so long after the last one's
/// acknowledgement, or the subscription, as one on another node does.
fn with_a_distant_queue(queue: Bodies, wait: Nanos) -> Box<dyn Serve> {
    let (mut confirmed, mut delivered) = (0, 0);
    let mut due = None;
    Box::new(move |peer: &mut Peer, asked: Vec<Asked>, now: Time| {
        for asked in asked {
            let released = match asked {
                Asked::Ack { channel, .. } => Some(channel),
                _ => attend(peer, asked, &queue, &mut confirmed),
            };
            due = released.map(|channel| (channel, now + wait)).or(due);
        }
        let mut queue = queue.lock().expect("queue");
        queue.append(&mut peer.published);
        if let Some((channel, at)) = due
            && at <= now
            && let Some(body) = queue.pop_front()
        {
            (delivered, due) = (delivered + 1, None);
            peer.deliver(channel, delivered, false, &body);
        }
        Some(Nanos::from_millis(1))
    })
}

/// A channel's answer does not say what its last acknowledgement will still release, nor what comes of a
/// subscription: one that begins with the load, or just after the deadline. The queue, whose broker has no core, may
/// take longer than anybody waits.
#[test]
fn what_may_still_be_released_is_not_lost() {
    for (start_after, wait) in [(0, 120), (850, 120), (0, 1_500)] {
        let (world, queue) = (usual(), Bodies::default());
        let wait = Nanos::from_millis(wait);
        let address = world.peer(beating(0), move |_| with_a_distant_queue(Arc::clone(&queue), wait));
        let mut plan = plan(address, 100.0);
        plan.phases.drain = Nanos::from_millis(300);
        let group = &mut plan.groups[0];
        group.destinations = vec![Destination::topic("drained")];
        group.consumers.prefetch = 1;
        group.consumers.start_after = Length(Nanos::from_millis(start_after));
        let outcome = run(&world, &plan);
        assert!(assert_held(&outcome, &format!("{start_after} {wait}")) > 20, "{outcome:?}");
    }
}

/// A broker that answers at once. Its queue counts what it has not given to a consumer, who gets one of its 10 every
/// 100 ms.
fn with_much_on_its_way(queue: Bodies) -> Box<dyn Serve> {
    let (mut confirmed, mut delivered, mut consumer) = (0, 0, None);
    let (mut on_its_way, mut next_at) = (VecDeque::new(), Time(0));
    Box::new(move |peer: &mut Peer, asked: Vec<Asked>, now: Time| {
        for asked in asked {
            consumer = attend(peer, asked, &queue, &mut confirmed).or(consumer);
        }
        let mut queue = queue.lock().expect("queue");
        queue.append(&mut peer.published);
        if let Some(channel) = consumer {
            let room = queue.len().min(10 - on_its_way.len());
            on_its_way.extend(queue.drain(..room));
            if now >= next_at
                && let Some(body) = on_its_way.pop_front()
            {
                (delivered, next_at) = (delivered + 1, now + Nanos::from_millis(100));
                peer.deliver(channel, delivered, false, &body);
            }
        }
        Some(Nanos::from_millis(1))
    })
}

#[test]
fn what_has_left_its_queue_and_still_comes_is_not_lost() {
    let (world, queue) = (usual(), Bodies::default());
    let address = world.peer(beating(0), move |_| with_much_on_its_way(Arc::clone(&queue)));
    let mut plan = plan(address, 40.0);
    plan.phases.drain = Nanos::from_millis(500);
    let group = &mut plan.groups[0];
    exclusive(group);
    group.consumers.prefetch = 10;
    let outcome = run(&world, &plan);
    assert!((1..10).contains(&assert_held(&outcome, "on its way")), "{outcome:?}");
}

#[test]
fn what_a_full_queue_drops_is_lost_and_what_it_holds_is_not() {
    let busy = |group: &mut Group| slow(group, 20);
    let polling = |group: &mut Group| group.consumers.poll = Some(Length(Nanos::from_millis(100)));
    let late = |group: &mut Group| group.consumers.start_after = Length(Nanos::from_millis(30_000));
    let topic = |group: &mut Group| group.destinations[0].kind = DestinationKind::Topic;
    let shared = |_: &mut Group| ();
    let kinds: [Adapt<'_>; 3] = [("busy", &busy), ("polling", &polling), ("late", &late)];
    let queues: [Adapt<'_>; 3] = [("shared", &shared), ("exclusive", &exclusive), ("topic", &topic)];
    for ((kind, adapt), (queue, choose)) in kinds.iter().flat_map(|kind| queues.iter().map(move |it| (kind, it))) {
        let (world, mut plan) = scene(Config::default(), 1_000.0);
        plan.phases.drain = Nanos::from_millis(300);
        let group = &mut plan.groups[0];
        let newest = ("x-max-length".to_owned(), Argument::Integer(20));
        group.destinations[0].amqp091.arguments = [newest].into();
        group.consumers.prefetch = 5;
        choose(group);
        adapt(group);
        let outcome = run(&world, &plan);
        let ledger = outcome.ledger.expect("a ledger");
        // What there was when sending ended: in the queue, and with a consumer that takes its time.
        let there = if *kind == "busy" { 20 + 4 } else { 20 };
        let drained = outcome.totals.received - outcome.measured.received;
        let outstanding = ledger.outstanding;
        // One may have been taken since the queue was asked.
        let is_right = (there..=there + 1).contains(&(drained + outstanding));
        assert!(is_right, "{kind} {queue}: {drained} drained, {outcome:?}");
        let lost = outcome.totals.sent - ledger.delivered - outstanding;
        assert_eq!((ledger.lost, lost > 400), (lost, true), "{kind} {queue}");
        assert_eq!((ledger.sent, ledger.delivered), (outcome.totals.sent, outcome.totals.received), "{kind} {queue}");
        assert_eq!((ledger.duplicated, ledger.reordered), (0, 0), "{kind} {queue}");
    }
}

const DECLARE: MethodId = MethodId { class: 50, method: 10 };

#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Delivers,
    /// Its consumer gets nothing, and the queue's count says so.
    Keeps,
    /// Its consumer gets nothing; whoever looks into the queue is told that there is none, …
    Hides,
    /// … or that he may not.
    Refuses,
    Drops,
}

fn serve_one_queue(does: Does, queue: Bodies, consumers: Arc<Mutex<u32>>) -> Box<dyn Serve> {
    let (mut confirmed, mut delivered) = (0, 0);
    let mut consumer = None;
    Box::new(move |peer: &mut Peer, asked: Vec<Asked>, _: Time| {
        for asked in asked {
            if let Asked::Method(channel, "queue.declare") = asked {
                let is_empty = queue.lock().expect("queue").is_empty();
                match does {
                    Does::Hides if !is_empty => peer.server.close_channel(channel, 404, "no queue", DECLARE),
                    Does::Refuses if !is_empty => peer.server.close_channel(channel, 403, "not you", DECLARE),
                    _ => tell_length(peer, channel, &queue, *consumers.lock().expect("consumers")),
                }
            } else if let Some(channel) = attend(peer, asked, &queue, &mut confirmed) {
                *consumers.lock().expect("consumers") += 1;
                consumer = Some(channel);
            }
        }
        let mut queue = queue.lock().expect("queue");
        queue.append(&mut peer.published);
        if does == Does::Drops {
            queue.clear();
        }
        if let Some(channel) = consumer.filter(|_| does == Does::Delivers) {
            for body in queue.drain(..) {
                delivered += 1;
                peer.deliver(channel, delivered, false, &body);
            }
        }
        Some(Nanos::from_millis(1))
    })
}

/// A broker of this cluster name, with one queue.
fn named(world: &World, cluster: &str, does: Does) -> SocketAddr {
    let mut config = beating(0);
    let properties = &mut config.properties;
    properties.insert("cluster_name", cluster).expect("a name");
    let (queue, consumers) = (Bodies::default(), Arc::default());
    world.peer(config, move |_| serve_one_queue(does, Arc::clone(&queue), Arc::clone(&consumers)))
}

/// Two brokers that were set up alike call themselves the same: both are asked.
#[test]
fn what_another_broker_of_the_same_name_holds_is_not_lost() {
    for does in [Does::Keeps, Does::Hides] {
        let world = usual();
        let brokers = [Does::Delivers, does].map(|does| named(&world, "alike", does));
        let mut plan = plan(brokers[0], 100.0);
        plan.phases.drain = Nanos::from_millis(300);
        plan.groups.push(at_broker(&plan, brokers[1]));
        let outcome = run(&world, &plan);
        let outstanding = assert_held(&outcome, "two brokers");
        assert!(outcome.totals.received > 20 && outstanding > 20, "{outcome:?}");
    }
}

/// A queue that cannot be found may be on a node that is down.
#[test]
fn what_was_in_a_queue_that_is_not_there_is_not_lost() {
    let world = usual();
    let mut plan = plan(named(&world, "", Does::Hides), 100.0);
    plan.phases.drain = Nanos::from_millis(300);
    let outcome = run(&world, &plan);
    assert_eq!(outcome.totals.received, 0, "{outcome:?}");
    assert!(assert_held(&outcome, "not there") > 20, "{outcome:?}");
}

/// A connection that finds its own queue gone, or may not look into it, goes on, and asks again.
#[test]
fn a_queue_of_ones_own_that_is_gone_holds_nothing() {
    for does in [Does::Hides, Does::Refuses] {
        let world = usual();
        let mut plan = plan(named(&world, "", does), 100.0);
        exclusive(&mut plan.groups[0]);
        assert_lost(&world, &plan, &format!("{does:?}"), |outcome| outcome.totals.sent);
    }
}

#[test]
fn what_one_broker_loses_is_lost_whatever_addresses_it_has() {
    let world = usual();
    let broker = named(&world, "one", Does::Drops);
    let mut plan = plan(broker, 100.0);
    let mut other = at_broker(&plan, world.alias(broker));
    other.producers.per_destination = 0;
    plan.groups.push(other);
    assert_lost(&world, &plan, "two addresses", |outcome| outcome.totals.sent);
}

#[test]
fn what_a_polled_queue_without_a_count_drops_is_lost_and_nobody_waits_for_it() {
    let (world, mut plan) = scene(Config::default(), 50.0);
    let group = &mut plan.groups[0];
    exclusive(group);
    let newest = ("x-max-length".to_owned(), Argument::Integer(1));
    group.destinations[0].amqp091.arguments = [newest].into();
    group.consumers.poll = Some(Length(Nanos::from_millis(200)));
    let outcome = assert_lost(&world, &plan, "polled", |it| it.totals.sent - it.totals.received);
    assert!(outcome.totals.sent - outcome.totals.received > 10, "{outcome:?}");
}

#[test]
fn what_expires_is_lost_and_nobody_waits_for_it() {
    let (world, mut plan) = scene(Config::default(), 100.0);
    let group = &mut plan.groups[0];
    group.producers.properties.expiration = Some("100".to_owned());
    group.consumers.prefetch = 1;
    slow(group, 50);
    let outcome = assert_lost(&world, &plan, "expires", |it| it.totals.sent - it.totals.received);
    assert!((8..16).contains(&outcome.totals.received), "{outcome:?}");
}

/// Without a ledger only counts tell when the drain is over.
#[test]
fn what_comes_another_way_does_not_stand_for_what_is_still_to_come() {
    // A queue that nobody sends to; one that somebody sends to.
    for sends in [0, 1] {
        let (world, mut plan) = scene(Config::default(), 200.0);
        plan.ledger = false;
        let group = &mut plan.groups[0];
        let dead = group.clone();
        let text = |text: &str| Argument::Text(text.to_owned());
        group.destinations[0].amqp091.arguments =
            [("x-dead-letter-exchange".to_owned(), text("")), ("x-dead-letter-routing-key".to_owned(), text("dead"))]
                .into();
        group.consumers.refuse = Some(Refusal::Discard);
        group.consumers.prefetch = 1;
        slow(group, 20);
        let mut dead = Group { destinations: vec![Destination::queue("dead")], ..dead };
        dead.producers.per_destination = sends;
        dead.producers.arrivals = common::rate(20.0);
        dead.consumers = Group::new(dead.endpoint.clone(), Vec::new()).consumers;
        dead.consumers.per_destination = 1;
        plan.groups.push(dead);
        let (outcome, took) = run_with(&world, &plan, |_, _| ());
        let once = 10 * sends as u64;
        assert_eq!(outcome.totals.sent, once + 100, "{outcome:?}");
        // The last dead letter is not waited for.
        let all = once + 2 * 100;
        assert!((all - 1..=all).contains(&outcome.totals.received), "{outcome:?}");
        assert!(took < Nanos::from_millis(4_000), "{took:?}");
    }
}

/// A queue that somebody else has bound gets copies that the plan does not expect.
#[test]
fn copies_do_not_stand_for_what_is_still_to_come() {
    let (world, mut plan) = scene(Config::default(), 200.0);
    plan.ledger = false;
    let exchange = || Some(Exchange::new("all", "fanout"));
    let group = &mut plan.groups[0];
    group.destinations[0] = Destination::queue("copies");
    group.destinations[0].amqp091.exchange = exchange();
    run(&world, &plan);
    let mut copies = plan.groups[0].clone();
    copies.destinations[0].amqp091.exchange = None;
    copies.producers.per_destination = 0;
    let group = &mut plan.groups[0];
    group.destinations[0] = Destination::queue("drained");
    group.destinations[0].amqp091.exchange = exchange();
    group.consumers.prefetch = 1;
    slow(group, 20);
    plan.groups.push(copies);
    let outcome = run(&world, &plan);
    assert_eq!((outcome.totals.sent, outcome.totals.received), (100, 200), "{outcome:?}");
}

/// A connection asks its own queue on a channel beside the load's. Where the broker allows none, it is not lost.
/// A queue without a count (a topic's own, an exclusive one) is known to be empty when its consumer has answered,
/// however many deliveries it has acknowledged before.
#[test]
fn what_a_queue_without_a_count_loses_is_lost_and_nobody_waits_for_it() {
    let topic = |ack: Ack, prefetch: u16| {
        move |group: &mut Group| {
            group.destinations = vec![Destination::topic("drained")];
            (group.consumers.ack, group.consumers.prefetch) = (ack, prefetch);
        }
    };
    let (each, ten, none) = (topic(Ack::Every(1), 5), topic(Ack::Every(10), 50), topic(Ack::Auto, 0));
    let most = Config::default().channel_max;
    let cases: [(u16, Adapt<'_>); 5] = [
        (1, ("exclusive", &exclusive)),
        (2, ("exclusive", &exclusive)),
        (most, ("acknowledged one by one", &each)),
        (most, ("acknowledged by ten", &ten)),
        (most, ("not acknowledged", &none)),
    ];
    for (channel_max, (what, adapt)) in cases {
        let faults = vec![Fault { count: Some(7), ..Fault::new(FaultKind::Lose) }];
        let (world, mut plan) = scene(Config { channel_max, faults, ..Config::default() }, 1_000.0);
        adapt(&mut plan.groups[0]);
        let outcome = assert_lost(&world, &plan, &format!("{what}, {channel_max} channels"), |_| 7);
        assert_eq!(common::lost_connections(&outcome), 0, "{what}: {outcome:?}");
    }
}
