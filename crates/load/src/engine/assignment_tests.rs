use super::*;
use crate::protocol::amqp091::{AmqpConnection, ChannelSpec};
use crate::resolve::{Addresses, Node};
use crate::{Control, Destination, Endpoint, Producers, QueueType, System};

fn plan(threads: usize, destinations: usize, producers: usize, consumers: usize) -> Plan {
    let destinations = (0..destinations).map(|n| Destination::queue(format!("q{n}"))).collect();
    let mut group = Group::new(Endpoint::new("h", 1), destinations);
    group.producers = Producers { per_destination: producers, message_count: Some(10), ..Producers::default() };
    group.consumers.per_destination = consumers;
    Plan { groups: vec![group], threads, ..Plan::default() }
}

/// Every group at a broker of its own.
fn assigned(plan: &Plan) -> Assignment<ChannelSpec> {
    assigned_to(plan, 1.., "")
}

/// All groups at one broker.
pub(in crate::engine) fn assigned_together(plan: &Plan) -> Assignment<ChannelSpec> {
    assigned_to(plan, std::iter::repeat(1), "")
}

/// With brokers that all call their cluster this.
fn assigned_to(plan: &Plan, ports: impl Iterator<Item = u16>, name: &str) -> Assignment<ChannelSpec> {
    let node = |port: u16, group: &Group| -> Nodes {
        let at = Endpoint::new("127.0.0.1", port);
        let addresses = Addresses::of(&System, &at, Nanos::SECOND, &Control::new()).unwrap();
        let nodes = std::iter::once(&group.endpoint).chain(&group.further).map(|endpoint| Node {
            most_clients: 2_047,
            endpoint: endpoint.clone(),
            addresses: Arc::clone(&addresses),
            tls: None,
        });
        nodes.collect()
    };
    let nodes: Vec<_> = ports.zip(&plan.groups).map(|(port, group)| node(port, group)).collect();
    let cluster = |nodes: &Nodes| {
        let address = nodes[0].addresses.in_turn(0, None)[0];
        Cluster::new(&nodes[0].endpoint, address, name.to_owned())
    };
    let clusters: Vec<Cluster> = nodes.iter().map(cluster).collect();
    assign::<AmqpConnection>(plan, &nodes, &clusters, 0).unwrap()
}

pub(in crate::engine) fn producers_of<S>(assignment: &Assignment<S>) -> impl Iterator<Item = &ProducerSpec> {
    let participants = assignment.threads.iter().flatten().flat_map(|client| &client.participants);
    participants.filter_map(ParticipantSpec::producer)
}

fn expected_of(plan: &Plan) -> Vec<u64> {
    producers_of(&assigned(plan)).map(|it| it.expected_deliveries).collect()
}

/// Two brokers that were set up alike may be one cluster or not: of queues they are asked, of topics nobody can be.
#[test]
fn topics_of_brokers_that_call_themselves_the_same_have_no_ledger() {
    let url: Endpoint = "amqp://localhost".parse().unwrap();
    let of = |destination: &Destination| {
        let mut group = Group::new(url.clone(), vec![destination.clone()]);
        group.producers.per_destination = 1;
        group.consumers.per_destination = 1;
        Plan { groups: vec![group.clone(), group], ..Plan::default() }
    };
    let ledger = |destination: &Destination, ports: [u16; 2], name: &str| {
        let assignment = assigned_to(&of(destination), ports.into_iter(), name);
        assert_eq!(assignment.knows_expected, assignment.ledger_layout.is_ok());
        assignment.ledger_layout.map(drop)
    };
    let topic = Destination::topic("t");
    let exclusive = Destination { exclusive: true, ..Destination::queue("q") };
    for doubtful in [&topic, &exclusive] {
        let reason = ledger(doubtful, [1, 2], "alike").expect_err("not known").expect("a reason");
        assert!(reason.contains("127.0.0.1:1 and 127.0.0.1:2"), "{reason}");
        assert!(reason.contains("broker.further-urls"), "{reason}");
        assert_eq!(ledger(doubtful, [1, 1], "alike"), Ok(()), "one address");
        assert_eq!(ledger(doubtful, [1, 2], ""), Ok(()), "two brokers");
    }
    assert_eq!(ledger(&Destination::queue("q"), [1, 2], "alike"), Ok(()));
}

#[test]
fn threads_share_the_clients_and_none_is_idle() {
    let sizes = |plan: &Plan| assigned(plan).threads.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(&plan(2, 3, 2, 1)), [5, 4]);
    assert_eq!(sizes(&plan(8, 1, 1, 1)), [1, 1]);
}

#[test]
fn lanes_share_the_connections_that_are_asked_for() {
    let mut plan = plan(1, 3, 4, 2);
    plan.groups[0].producers.connections = Some(5);
    plan.groups[0].consumers.connections = Some(100);
    let assignment = assigned(&plan);
    let participants: Vec<usize> = assignment.threads[0].iter().map(|c| c.participants.len()).collect();
    assert_eq!(participants, [1, 1, 1, 1, 1, 1, 3, 3, 2, 2, 2], "consumers first");
    let channels = |c: &ClientSpec<ChannelSpec>| c.connection.clients.len() == c.participants.len();
    assert!(assignment.threads[0].iter().all(channels));
}

#[test]
fn producers_share_the_count_and_the_schedule() {
    let assignment = assigned(&plan(2, 3, 1, 0));
    let mut shares: Vec<_> = producers_of(&assignment).map(|it| (it.position, it.producers, it.limit)).collect();
    shares.sort_unstable();
    assert_eq!(shares, [(0, 3, Some(4)), (1, 3, Some(3)), (2, 3, Some(3))]);
    assert_eq!((assignment.counting_producers, assignment.anybody_counts), (3, true));
}

#[test]
fn a_message_reaches_one_consumer_of_a_queue_and_all_of_a_stream_or_topic() {
    let mut plan = plan(1, 1, 1, 3);
    assert_eq!(expected_of(&plan), [1]);
    plan.groups[0].destinations[0].amqp091.queue_type = QueueType::Stream;
    assert_eq!(expected_of(&plan), [3]);
    plan.groups[0].destinations[0] = Destination::topic("q0");
    assert_eq!(expected_of(&plan), [3]);
    // The same name at another broker is another topic.
    let mut other = plan.groups[0].clone();
    other.consumers.per_destination = 1;
    plan.groups.push(other);
    assert_eq!(expected_of(&plan), [3, 1]);
    plan.groups.truncate(1);
    let mut subscription = crate::Subscription { name: "me".into(), durable: true, shared: 0 };
    plan.groups[0].consumers.subscription = Some(subscription.clone());
    assert_eq!(expected_of(&plan), [3], "each its own");
    subscription.shared = 2;
    plan.groups[0].consumers.subscription = Some(subscription);
    assert_eq!(expected_of(&plan), [2], "three consumers share each of two");
    assert_eq!(plan.groups[0].consumer_count(), 6);
    plan.groups[0].consumers.per_destination = 0;
    assert_eq!(expected_of(&plan), [0]);
}

#[test]
fn connections_are_dealt_out_to_the_nodes() {
    let mut plan = plan(1, 3, 2, 1);
    plan.groups[0].further = vec![Endpoint::new("i", 2), Endpoint::new("j", 3)];
    let hosts = |plan: &Plan| -> Vec<String> {
        let assignment = assigned(plan);
        assignment.threads[0].iter().map(|c| c.connection.endpoint.host.clone()).collect()
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
        destination.amqp091.exchange = Some(crate::Exchange::new("x", "direct"));
    }
    assert_eq!(expected_of(&plan), [1, 1, 1], "each its own key");
    for destination in &mut plan.groups[0].destinations[..2] {
        destination.amqp091.routing_key = Some("k".into());
    }
    assert_eq!(expected_of(&plan), [2, 2, 1]);
    for destination in &mut plan.groups[0].destinations {
        destination.amqp091.exchange = Some(crate::Exchange::new("x", "fanout"));
    }
    assert_eq!(expected_of(&plan), [3, 3, 3]);
}

/// The consumers' newest messages of each producer would take 72 MB here, and 800 MB for 10,000 of each.
#[test]
fn too_many_pairs_on_one_queue_keep_no_ledger_and_no_memory() {
    let assignment = assigned(&plan(2, 1, 6_000, 6_000));
    testkit::assert_has(assignment.ledger_layout.expect_err("no ledger").expect("a reason"), ["36000000 pairs"]);
    let mut participants = assignment.threads.iter().flatten().flat_map(|it| &it.participants);
    let keeps = |participant: &ParticipantSpec| match &participant.kind {
        ParticipantKind::Producer(producer) => producer.bitmap.is_some(),
        ParticipantKind::Consumer(consumer) => consumer.bitmaps.is_some(),
    };
    assert!(!participants.any(keeps));
    let assignment = assigned(&plan(2, 1, 5_000, 5_000));
    assert!(assignment.ledger_layout.is_ok(), "{:?}", assignment.ledger_layout);
}

/// A number below this, once in so many times.
fn maybe(random: &mut testkit::Random, once_in: u64, below: u64) -> Option<u64> {
    random.one_in(once_in).then(|| random.below(below))
}

/// A group of up to six destinations, some of which it may have in common with others, and up to 20 clients a side.
fn random_group(random: &mut testkit::Random, number: usize) -> Group {
    let count = 1 + random.below(6) as usize;
    let name = |n: usize, random: &mut testkit::Random| match random.below(8) {
        0 => Destination::queue(format!("shared{}", random.below(3))),
        1 => Destination::topic(format!("topic{number}.{n}")),
        _ => Destination::queue(format!("own{number}.{n}")),
    };
    let destinations = (0..count).map(|n| name(n, random)).collect();
    let mut group = Group::new(Endpoint::new("h", 1), destinations);
    group.further = vec![Endpoint::new("i", 2)];
    group.allocation = random.of(&[Allocation::RoundRobin, Allocation::Random]);
    group.source_addresses = vec!["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()];
    let rate = crate::RateProfile::Constant(measure::Rate::per_second(1_000.0).unwrap());
    let spacing = random.of(&[crate::Spacing::Even, crate::Spacing::Poisson { seed: 5 }]);
    let distribution = crate::Distribution::Uniform { min: 12, max: 900 };
    group.producers = Producers {
        total: maybe(random, 2, 20).map(|it| it as usize),
        connections: maybe(random, 3, 6).map(|it| 1 + it as usize),
        arrivals: ArrivalProcess::Scheduled(crate::ArrivalSchedule::new(rate, spacing, random.one_in(2))),
        start_delay: random.of(&[None, Some(crate::StartDelay { spread: Nanos::SECOND, ..Default::default() })]),
        sizes: if random.one_in(2) { 40.into() } else { crate::Sizes::Random { distribution, seed: 3 } },
        message_count: maybe(random, 2, 1_000),
        message_ids: random.one_in(4),
        ..Producers::default()
    };
    group.consumers.per_destination = random.below(3) as usize;
    group.consumers.total = maybe(random, 2, 20).map(|it| it as usize);
    group.consumers.connections = maybe(random, 3, 6).map(|it| 1 + it as usize);
    group.consumers.message_count = maybe(random, 5, 100);
    group.consumers.apart = measure::Length(Nanos(7));
    group.placement = random.of(&[crate::Placement::Together, crate::Placement::Spread]);
    group
}

/// The traits of a client that stay wherever it runs, with its first due times and bodies.
fn described(participant: &ParticipantSpec) -> String {
    let kind = match &participant.kind {
        ParticipantKind::Producer(it) => {
            let ResolvedArrivals::Scheduled { pacer, .. } = &it.arrivals else { panic!("no schedule") };
            let mut due_times = plan::DueTimes::new(pacer, measure::Time(0) + it.delay, it.position, it.id);
            let due = std::iter::repeat_with(|| {
                let due = due_times.due();
                due_times.advance();
                due.0
            });
            let due: Vec<u64> = due.take(20).collect();
            let body = |n| it.contents.as_ref().map_or(it.message_size, |of| of.body(n, Nanos(due[n as usize])).len());
            let bodies: Vec<_> = (0..20).map(body).collect();
            let ProducerSpec { id, run_id, position, producers, limit, expected_deliveries, .. } = it;
            format!("{id} {run_id} {position} {producers} {limit:?} {expected_deliveries} {due:?} {bodies:?}")
        }
        ParticipantKind::Consumer(it) => {
            let reach = it.bitmaps.as_ref().map(|bitmaps| &bitmaps.producers);
            format!("{:?} {} {} {:?} {reach:?}", it.delay, it.is_sent_to, it.is_counted, it.owed)
        }
    };
    format!("{kind} {} {:?} {:?}", participant.destination, participant.share, participant.queue)
}

/// All connections with their clients, in no order.
fn connections(assignments: &[Assignment<ChannelSpec>]) -> Vec<String> {
    let clients = assignments.iter().flat_map(|it| it.threads.iter().flatten());
    let described = |client: &ClientSpec<ChannelSpec>| {
        let participants: Vec<_> = client.participants.iter().map(described).collect();
        let name = &client.connection.name;
        format!("{name} {} {} {:?} {} {participants:?}", client.node, client.index, client.source, client.group)
    };
    let mut all: Vec<_> = clients.map(described).collect();
    all.sort();
    all
}

/// A worker may have consumers of its own producers beside those of another one's, whose machine has another clock.
#[test]
fn only_what_another_worker_sends_is_told_by_its_clock() {
    let mut whole = plan(1, 2, 1, 1);
    let destinations = ["s0", "s1"].map(Destination::queue).to_vec();
    whole.groups.push(Group { destinations, placement: crate::Placement::Spread, ..whole.groups[0].clone() });
    let share = whole.divided(crate::Share { worker: 0, workers: 2 });
    let assignment = assigned_together(&Plan { sender_clock: Some(Arc::default()), ..share });
    let clients = assignment.threads.iter().flatten().filter(|client| client.is_own);
    let consumers = clients.flat_map(|client| &client.participants).filter(|it| it.consumer().is_some());
    let has_clock = |it: &ParticipantSpec| it.consumer()?.ours.as_ref().map(|ours| ours.clock.is_some());
    let mut clocks: Vec<_> = consumers.map(|it| (it.destination.name.as_str(), has_clock(it))).collect();
    clocks.sort_unstable();
    assert_eq!(clocks, [("q0", Some(false)), ("s1", Some(true))]);
}

#[test]
fn all_shares_together_are_the_load_of_one_process() {
    let problem = |seed| {
        let mut random = testkit::Random::new(seed);
        let groups = (0..1 + random.below(3)).map(|n| random_group(&mut random, n as usize)).collect();
        let plan = Plan { groups, threads: 3, run_id: 9, ..Plan::default() };
        let one = assigned_together(&plan);
        let asked = |plan: &Plan| {
            let mut endless = plan.clone();
            endless.groups.iter_mut().for_each(|group| group.producers.message_count = None);
            endless.requested().unwrap().map_or(0.0, |it| it.messages(Nanos::ZERO, Nanos::SECOND))
        };
        let counted = |all: &[Assignment<ChannelSpec>]| all.iter().map(|it| it.counting_producers).sum::<u64>();
        let (load, counting) = (connections(std::slice::from_ref(&one)), counted(std::slice::from_ref(&one)));
        let deliveries = |it: &Assignment<ChannelSpec>| it.ledger_layout.as_ref().ok().map(|it| it.deliveries.len());
        for workers in [1, 2, 3, 7] {
            let share = |worker| plan.clone().divided(crate::Share { worker, workers });
            let plans: Vec<Plan> = (0..workers).map(share).collect();
            let shares: Vec<_> = plans.iter().map(assigned_together).collect();
            let sum: usize = plans.iter().map(Plan::connection_count).sum();
            let requested: f64 = plans.iter().map(asked).sum();
            let layouts: Option<usize> = shares.iter().map(deliveries).sum();
            let is_right = connections(&shares) == load
                && (sum, counted(&shares), layouts) == (load.len(), counting, deliveries(&one))
                && sum == plan.connection_count()
                && (requested - asked(&plan)).abs() < 1e-6
                && shares.iter().all(|it| it.anybody_counts == one.anybody_counts);
            if !is_right {
                return Some(format!("{workers} workers"));
            }
        }
        None
    };
    let seeds: Vec<u64> = (0..200).collect();
    testkit::play(&seeds, 1, problem).assert_right("all_shares_together_are_the_load_of_one_process");
}
