use super::*;
use crate::Endpoint;
use crate::engine::socket::Place;
use crate::resolve::Addresses;

fn plan(threads: usize, destinations: usize, producers: usize, consumers: usize) -> Plan {
    let destinations = (0..destinations)
        .map(|n| Destination::queue(format!("q{n}")))
        .collect();
    let mut group = Group::new(Endpoint::new("h", 1), destinations);
    group.producers = Producers {
        per_destination: producers,
        message_count: Some(10),
        ..Producers::default()
    };
    group.consumers.per_destination = consumers;
    Plan {
        groups: vec![group],
        threads,
        ..Plan::default()
    }
}

/// Every group at a broker of its own.
fn dealt(plan: &Plan) -> Deal {
    dealt_to(plan, 1..)
}

/// All groups at one broker.
pub(in crate::engine) fn dealt_together(plan: &Plan) -> Deal {
    dealt_to(plan, std::iter::repeat(1))
}

fn dealt_to(plan: &Plan, ports: impl Iterator<Item = u16>) -> Deal {
    let place = |port: u16, group: &Group| -> Places {
        let nodes = std::iter::once(&group.endpoint).chain(&group.further);
        let nodes = nodes.map(|endpoint| Place {
            endpoint: endpoint.clone(),
            addresses: Addresses::known(([127, 0, 0, 1], port).into()),
            tls: None,
        });
        nodes.collect()
    };
    let places: Vec<_> = ports
        .zip(&plan.groups)
        .map(|(port, group)| place(port, group))
        .collect();
    let realm = |places: &Places| {
        let address = places[0].addresses.in_turn(0, None)[0];
        Realm::new(&places[0].endpoint, address, String::new())
    };
    let realms: Vec<Realm> = places.iter().map(realm).collect();
    deal(plan, &places, &realms).unwrap()
}

#[test]
fn threads_share_the_clients_and_none_is_idle() {
    let sizes = |plan: &Plan| dealt(plan).threads.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(&plan(2, 3, 2, 1)), [5, 4]);
    assert_eq!(sizes(&plan(8, 1, 1, 1)), [1, 1]);
}

#[test]
fn lanes_share_the_connections_that_are_asked_for() {
    let mut plan = plan(1, 3, 4, 2);
    plan.groups[0].producers.connections = Some(5);
    plan.groups[0].consumers.connections = Some(100);
    let deal = dealt(&plan);
    let lanes: Vec<usize> = deal.threads[0].iter().map(|c| c.lanes.len()).collect();
    assert_eq!(lanes, [1, 1, 1, 1, 1, 1, 3, 3, 2, 2, 2], "consumers first");
    let channels = |c: &ClientSpec| c.link.channels.len() == c.lanes.len();
    assert!(deal.threads[0].iter().all(channels));
}

#[test]
fn producers_share_the_count_and_the_schedule() {
    let deal = dealt(&plan(2, 3, 1, 0));
    let mut shares: Vec<(u64, u64, Option<u64>)> = deal
        .threads
        .iter()
        .flatten()
        .flat_map(|client| &client.lanes)
        .filter_map(|lane| match &lane.work {
            WorkSpec::Producer(p) => Some((p.position, p.producers, p.limit)),
            WorkSpec::Consumer(_) => None,
        })
        .collect();
    shares.sort_unstable();
    assert_eq!(shares, [(0, 3, Some(4)), (1, 3, Some(3)), (2, 3, Some(3))]);
    assert_eq!((deal.counting_producers, deal.anybody_counts), (3, true));
}

#[test]
fn a_message_reaches_one_consumer_of_a_queue_and_all_of_a_stream_or_topic() {
    let mut plan = plan(1, 1, 1, 3);
    let count = |plan: &Plan| {
        let deal = dealt(plan);
        let lanes = deal.threads.iter().flatten().flat_map(|c| &c.lanes);
        let counts = lanes.filter_map(|lane| match &lane.work {
            WorkSpec::Producer(producer) => Some(producer.fan_out),
            WorkSpec::Consumer(_) => None,
        });
        counts.collect::<Vec<_>>()
    };
    assert_eq!(count(&plan), [1]);
    plan.groups[0].destinations[0].queue_type = QueueType::Stream;
    assert_eq!(count(&plan), [3]);
    plan.groups[0].destinations[0] = Destination::topic("q0");
    assert_eq!(count(&plan), [3]);
    // The same name at another broker is another topic.
    let mut other = plan.groups[0].clone();
    other.consumers.per_destination = 1;
    plan.groups.push(other);
    assert_eq!(count(&plan), [3, 1]);
    plan.groups.truncate(1);
    let mut subscription = crate::Subscription {
        name: "me".into(),
        durable: true,
        shared: 0,
    };
    plan.groups[0].consumers.subscription = Some(subscription.clone());
    assert_eq!(count(&plan), [3], "each its own");
    subscription.shared = 2;
    plan.groups[0].consumers.subscription = Some(subscription);
    assert_eq!(count(&plan), [2], "three consumers share each of two");
    assert_eq!(plan.groups[0].consumer_count(), 6);
    plan.groups[0].consumers.per_destination = 0;
    assert_eq!(count(&plan), [0]);
}

#[test]
fn connections_are_dealt_out_to_the_nodes() {
    let mut plan = plan(1, 3, 2, 1);
    plan.groups[0].further = vec![Endpoint::new("i", 2), Endpoint::new("j", 3)];
    let hosts = |plan: &Plan| -> Vec<String> {
        let deal = dealt(plan);
        let hosts = deal.threads[0].iter().map(|c| c.link.endpoint.host.clone());
        hosts.collect()
    };
    assert_eq!(hosts(&plan).concat(), "hijhijhij");
    plan.groups[0].allocation = Allocation::Random;
    let random = hosts(&plan);
    assert_ne!(random.concat(), "hijhijhij");
    assert_eq!(random, hosts(&plan), "the same for the same run");
}

#[test]
fn a_message_reaches_every_queue_that_is_bound_by_its_key() {
    let mut plan = plan(1, 3, 1, 2);
    for destination in &mut plan.groups[0].destinations {
        destination.exchange = Some(crate::Exchange::new("x", "direct"));
    }
    let counts = |plan: &Plan| -> Vec<u64> {
        let deal = dealt(plan);
        let lanes = deal.threads.iter().flatten().flat_map(|c| &c.lanes);
        let counts = lanes.filter_map(|lane| match &lane.work {
            WorkSpec::Producer(producer) => Some(producer.fan_out),
            WorkSpec::Consumer(_) => None,
        });
        counts.collect()
    };
    assert_eq!(counts(&plan), [1, 1, 1], "each its own key");
    for destination in &mut plan.groups[0].destinations[..2] {
        destination.routing_key = Some("k".into());
    }
    assert_eq!(counts(&plan), [2, 2, 1]);
    for destination in &mut plan.groups[0].destinations {
        destination.exchange = Some(crate::Exchange::new("x", "fanout"));
    }
    assert_eq!(counts(&plan), [3, 3, 3]);
}

/// What each consumer remembers of each producer would take 72 MB here, and 800 MB for 10,000 of each.
#[test]
fn too_many_pairs_on_one_queue_keep_no_ledger_and_no_memory() {
    let deal = dealt(&plan(2, 1, 6_000, 6_000));
    let reason = deal.accounts.expect_err("no ledger").expect("a reason");
    assert!(reason.contains("36000000 pairs"), "{reason}");
    let mut lanes = deal.threads.iter().flatten().flat_map(|it| &it.lanes);
    let keeps = |lane: &LaneSpec| match &lane.work {
        WorkSpec::Producer(producer) => producer.track.is_some(),
        WorkSpec::Consumer(consumer) => consumer.tracks.is_some(),
    };
    assert!(!lanes.any(keeps));
    let deal = dealt(&plan(2, 1, 5_000, 5_000));
    assert!(deal.accounts.is_ok(), "{:?}", deal.accounts);
}
