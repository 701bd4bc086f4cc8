//! From the plan to clients, and from clients to threads.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use measure::Nanos;

use super::consumer::{ConsumerSpec, Known, Ours};
use super::ledger_layout::{self, LedgerLayout};
use super::producer::{ProducerSpec, ResolvedArrivals};
use super::recipients::{self, Recipient};
use super::routes::Routes;
use super::spec::{ClientSpec, Cluster, ParticipantKind, ParticipantSpec};
use super::unique_properties::{RoutingKeyGenerator, UniqueProperties};
use crate::protocol::{BodyLengths, Connection, ConnectionSpec, Outgoing, queue_of};
use crate::resolve::Nodes;
use crate::{Allocation, ArrivalProcess, Destination, DestinationKind, Error, Group, Plan, Protocol};
use plan::{Producers, Random, Stock, client_destination, share, share_name};

/// All clients' buffers may take twice this many bytes before they are needed. With many clients
/// each has less to keep at a time; what goes beyond its share grows when it is needed.
const ROOM: usize = 8 << 20;
/// The start of a load, or the present, may be as far from them by another worker's clock.
const CLOCKS_APART: Nanos = Nanos::from_millis(100);

/// The clients of every thread, and what follows from all of them.
#[derive(Debug)]
pub(crate) struct Assignment<S> {
    /// The clients of each thread; no thread is without.
    pub(crate) threads: Vec<Vec<ClientSpec<S>>>,
    /// Producers that have a message count above zero.
    pub(crate) counting_producers: u64,
    /// Messages left for each group of consumers with a message count.
    pub(crate) budgets: Vec<Arc<AtomicU64>>,
    /// Whether the run ends by a message count.
    pub(crate) anybody_counts: bool,
    /// Who keeps which part of the ledger; otherwise why there is none, where somebody might wonder.
    pub(crate) ledger_layout: Result<LedgerLayout, Option<String>>,
    /// Whether it is known how many deliveries each message leads to.
    pub(crate) knows_expected: bool,
    /// Queues and topics that the plan's consumers receive from.
    pub(crate) recipients: Vec<Recipient>,
}

/// Assigns the clients of this worker to threads, round-robin over all groups, consumers first: they connect first.
/// `nodes` and `clusters` have an entry per group. The wall clock's lead over the monotonic one is in nanoseconds.
pub(crate) fn assign<C: Connection>(
    plan: &Plan,
    nodes: &[Nodes],
    clusters: &[Cluster],
    wall_offset: u64,
) -> Result<Assignment<C::ClientSpec>, Error> {
    let mut clients = Vec::new();
    let mut budgets = Vec::new();
    let mut first_id = 0;
    // Of the whole plan: a share that counts nothing ends with those that do.
    let mut anybody_counts = false;
    let ours = ours(plan);
    for (at, (group, nodes)) in plan.groups.iter().zip(nodes).enumerate() {
        let before = clients.len();
        consumers::<C>(plan, group, nodes, ours.as_ref(), &mut budgets, &mut clients)?;
        anybody_counts |= group.consumer_count() > 0 && group.consumers.message_count.is_some();
        assign_clusters(clusters, at, &mut clients[before..]);
    }
    for (at, (group, nodes)) in plan.groups.iter().zip(nodes).enumerate() {
        let before = clients.len();
        anybody_counts |= producers::<C>(plan, group, nodes, first_id, wall_offset, &mut clients)?;
        assign_clusters(clusters, at, &mut clients[before..]);
        first_id += group.producer_count() as u32;
    }
    let mut routes = Routes::new(&clients, &plan.groups);
    routes.expect_deliveries(&mut clients);
    clients.retain(|client| client.is_own);
    let participants = clients.iter().flat_map(|client: &ClientSpec<_>| &client.participants);
    let counting_producers = participants.filter_map(ParticipantSpec::producer).filter(|it| it.ends()).count() as u64;
    let count = plan.threads.min(clients.len()).max(1);
    let mut threads: Vec<_> = std::iter::repeat_with(Vec::new).take(count).collect();
    let participants: usize = clients.iter().map(|client| client.participants.len()).sum();
    let room = ROOM / participants.max(1);
    for (i, mut client) in clients.into_iter().enumerate() {
        client.room = room;
        threads[i % count].push(client);
    }
    let unknown = routes.unknown().or_else(|| seem_one(plan, clusters)).or_else(|| selects(plan));
    let knows_expected = unknown.is_none();
    let ledger_layout = ledger_layout::open(plan, unknown, &mut threads, &mut routes);
    let recipients = recipients::find(plan, &mut threads, &ledger_layout);
    Ok(Assignment { knows_expected, recipients, ledger_layout, threads, counting_producers, budgets, anybody_counts })
}

/// Tells a group's clients which of the brokers is theirs.
fn assign_clusters<S>(clusters: &[Cluster], group: usize, clients: &mut [ClientSpec<S>]) {
    let own = clusters.get(group);
    let cluster = clusters.iter().position(|cluster: &Cluster| own.is_some_and(|own| own.is(cluster)));
    for client in clients {
        (client.group, client.cluster) = (group, cluster.unwrap_or(group));
    }
}

/// Why it is not known who gets which messages: the broker alone evaluates selectors.
fn selects(plan: &Plan) -> Option<String> {
    let why = "only the broker knows which messages a selector leaves out, so none can be said to be lost";
    plan.has_selectors().then(|| why.to_owned())
}

/// Why it is not known who gets which messages: two brokers call themselves the same, and groups at both of them
/// use one name for what only one of them can be asked about. Queues are asked at both.
fn seem_one(plan: &Plan, clusters: &[Cluster]) -> Option<String> {
    let is_queue =
        |it: &Destination| it.kind == DestinationKind::Queue && it.amqp091.exchange.is_none() && !it.exclusive;
    let share = |one: &Group, other: &Group| {
        let mut doubtful = one.destinations.iter().filter(|it| !is_queue(it));
        doubtful.any(|it| other.destinations.iter().any(|other| other.name == it.name))
    };
    let all = || plan.groups.iter().zip(clusters);
    let pairs = all().enumerate().flat_map(|(at, of)| all().skip(at + 1).map(move |other| (of, other)));
    let mut doubtful = pairs
        .filter(|((one, here), (other, there))| here.only_seems(there) && (share(one, other) || share(other, one)));
    doubtful.next().map(|((_, here), (_, there))| {
        format!(
            "the brokers at {here} and {there} have the same name, and may or may not be one cluster: name the nodes \
             of a cluster in broker.further-urls, or give each broker a cluster_name of its own"
        )
    })
}

/// This run's producers, as its consumers must know them.
fn ours(plan: &Plan) -> Option<Ours> {
    plan.senders().next()?;
    Some(Ours {
        run_id: plan.run_id,
        prefilled: plan.prefilled,
        unthrottled: plan.is_unthrottled(),
        bodies: bodies(plan),
        clocks_apart: if plan.is_spread() { CLOCKS_APART } else { Nanos::ZERO },
        clock: plan.sender_clock.clone(),
    })
}

/// Bodies other than filler, by producer.
fn bodies(plan: &Plan) -> Option<Arc<Known>> {
    let mut first = 0;
    let mut groups = Vec::new();
    for group in plan.senders() {
        let end = first + group.producer_count() as u32;
        if let Some(bodies) = group.producers.sizes.bodies() {
            groups.push((first..end, Arc::clone(bodies)));
        }
        first = end;
    }
    (!groups.is_empty()).then(|| Arc::new(Known { groups }))
}

fn consumers<C: Connection>(
    plan: &Plan,
    group: &Group,
    nodes: &Nodes,
    ours: Option<&Ours>,
    budgets: &mut Vec<Arc<AtomicU64>>,
    clients: &mut Vec<ClientSpec<C::ClientSpec>>,
) -> Result<(), Error> {
    let has_own = group.own_consumers().next().is_some();
    let wanted = &group.consumers;
    let budget = wanted.message_count.filter(|_| has_own).map(|count| Arc::new(AtomicU64::new(count)));
    budgets.extend(budget.clone());
    let mut participants = Vec::new();
    for n in group.known_among(group.consumer_count()) {
        let destination = client_destination(group, n);
        let delay = delay_of_consumer(group, n);
        let channel = C::consumer(group, n, delay > Nanos::ZERO)?;
        let kind = ParticipantKind::Consumer(ConsumerSpec {
            ack: wanted.ack,
            refuse: wanted.refuse,
            commit_every: wanted.commit_every,
            prefetch: wanted.prefetch,
            message_size: group.producers.size_range().1,
            responds: group.producers.has_replies(),
            has_trace_header: group.producers.has_trace_header(),
            poll: wanted.poll.map(|interval| interval.0),
            service: wanted.service.clone(),
            delay,
            budget: budget.clone(),
            ours: ours.cloned().map(|it| if group.is_own_producer(n) { it.of_this_clock() } else { it }),
            measures_age: plan.measures_age,
            is_sent_to: false,
            bitmaps: None,
            recipient: 0,
            is_counted: false,
            most_unacked: wanted.most_unacked(),
            owed: group.owed(&destination, delay > Nanos::ZERO),
        });
        let participant = ParticipantSpec { kind, share: share_of(group, n), queue: queue_of(group, n), destination };
        participants.push((n, channel, participant));
    }
    let connections = group.consumer_connections();
    let is_own = Group::is_own_consumer;
    let sharing = Sharing { role: "consumer", first: 0, clients: group.consumer_count(), connections, is_own };
    connect(plan, group, nodes, sharing, participants, clients);
    Ok(())
}

/// How long after the load a consumer begins.
fn delay_of_consumer(group: &Group, n: usize) -> Nanos {
    let (first, apart) = (group.consumers.start_after.0, group.consumers.apart.0);
    first + Nanos(apart.0.saturating_mul(n as u64))
}

/// Which subscription a group's `n`-th consumer has, where others may have it too.
fn share_of(group: &Group, n: usize) -> Option<String> {
    let shared = client_destination(group, n).name;
    if group.protocol == Protocol::Mqtt && share_name(&shared).is_some() {
        return Some(shared);
    }
    let subscription = group.consumers.subscription.as_ref()?;
    let destinations = group.destinations.len();
    let topic = &group.destinations[n % destinations].name;
    let index = subscription.of(n / destinations);
    (subscription.shared > 0).then(|| subscription.queue(topic, index))
}

/// The node of a group's `n`-th connection of a kind.
fn node_of(plan: &Plan, group: &Group, n: usize, nodes: usize) -> usize {
    let n = match group.allocation {
        Allocation::RoundRobin => n as u64,
        Allocation::Random => Random::new(u64::from(plan.run_id), 0x6E6F_6465).word(n as u64),
    };
    let nodes = nodes.max(1);
    match group.begins_on.len() {
        0 => (n % nodes as u64) as usize,
        count => group.begins_on[(n % count as u64) as usize].min(nodes - 1),
    }
}

/// How clients of one role share connections.
#[derive(Clone, Copy, Debug)]
struct Sharing {
    role: &'static str,
    /// The number of the first client.
    first: u32,
    /// All clients of the group, wherever they run.
    clients: usize,
    /// Connections for all of them; by default one each.
    connections: Option<usize>,
    /// Whether the one at this position runs here.
    is_own: fn(&Group, usize) -> bool,
}

/// Distributes a group's participants, each with its position, over its connections, by default one each, from
/// [`Sharing::first`] on. All of a connection's participants run here, or none does.
fn connect<S>(
    plan: &Plan,
    group: &Group,
    nodes: &Nodes,
    sharing: Sharing,
    participants: Vec<(usize, S, ParticipantSpec)>,
    clients: &mut Vec<ClientSpec<S>>,
) {
    let count = sharing.connections.unwrap_or(sharing.clients).clamp(1, sharing.clients.max(1));
    let mut connections = HashMap::new();
    for (n, spec, participant) in participants {
        if n < count {
            connections.insert(n, clients.len());
            let number = sharing.first as usize + n;
            let at = node_of(plan, group, n, nodes.len());
            let sources = &group.source_addresses;
            let name = format!("bellows {} {number} of {}", sharing.role, participant.destination);
            clients.push(ClientSpec {
                node: at,
                index: n / nodes.len().max(1),
                source: sources.get(n % sources.len().max(1)).copied(),
                nodes: Arc::clone(nodes),
                group: 0,
                cluster: 0,
                connection: ConnectionSpec {
                    endpoint: nodes[at].endpoint.clone(),
                    name,
                    timeout: plan.timeout,
                    resumes: group.reconnect.is_some(),
                    clients: Vec::new(),
                },
                participants: Vec::new(),
                reconnect: group.reconnect,
                room: 0,
                is_own: (sharing.is_own)(group, n),
            });
        }
        if let Some(client) = connections.get(&(n % count)).and_then(|at| clients.get_mut(*at)) {
            client.connection.clients.push(spec);
            client.participants.push(participant);
        }
    }
}

/// Adds a group's producers that run here; whether the load may end with the last message of the group.
fn producers<C: Connection>(
    plan: &Plan,
    group: &Group,
    nodes: &Nodes,
    first_id: u32,
    wall_offset: u64,
    clients: &mut Vec<ClientSpec<C::ClientSpec>>,
) -> Result<bool, Error> {
    let wanted = &group.producers;
    let producers = group.producer_count() as u64;
    if producers == 0 {
        return Ok(false);
    }
    let arrivals = resolved_arrivals(plan, group)?;
    let (stock, bodies) = bodies_of(wanted);
    let mut participants = Vec::new();
    for at in group.known_among(group.producer_count()) {
        let (position, destination) = (at as u64, client_destination(group, at));
        let id = first_id + position as u32;
        let keys = wanted.random_keys.map(|keys| RoutingKeyGenerator::new(keys, id));
        let unique_properties = UniqueProperties::new(wanted, plan.run_id, id, wall_offset);
        let mut properties = wanted.properties.clone();
        if let Some(unique) = &unique_properties {
            unique.make_room(&mut properties);
        }
        let outgoing = Outgoing { routing_key: keys.as_ref().map(|keys| keys.first()), properties, bodies };
        let channel = C::producer(group, &destination, outgoing)?;
        let kind = ParticipantKind::Producer(ProducerSpec {
            id,
            run_id: plan.run_id,
            arrivals: arrivals.clone(),
            message_size: wanted.size_range().1,
            contents: stock.as_ref().map(|stock| stock.contents(id, position, producers)),
            position,
            producers,
            guarantee: wanted.guarantee,
            commit_every: u64::from(wanted.guarantee.commit_every()),
            max_pending: wanted.max_pending,
            confirm_timeout: wanted.confirm_timeout,
            resend: wanted.resend,
            delay: wanted.start_delay.map_or(Nanos::ZERO, |delay| delay.of(id)),
            keys,
            unique_properties,
            limit: wanted.message_count.map(|count| share(count, position, producers)),
            expected_deliveries: 0,
            bitmap: None,
        });
        let participant = ParticipantSpec { kind, destination, share: None, queue: None };
        participants.push((at, channel, participant));
    }
    let (all, connections) = (group.producer_count(), wanted.connections);
    let is_own = Group::is_own_producer;
    let sharing = Sharing { role: "producer", first: first_id, clients: all, connections, is_own };
    connect(plan, group, nodes, sharing, participants, clients);
    Ok(wanted.message_count.is_some() || matches!(arrivals, ResolvedArrivals::Scheduled { ends_run: true, .. }))
}

/// Contents of a group's bodies where they differ, and how long bodies are.
fn bodies_of(wanted: &Producers) -> (Option<Stock>, BodyLengths) {
    let trace = wanted.sizing_trace();
    let trace = trace.map(|(trace, each)| (Arc::clone(trace), each));
    let (least, most) = wanted.size_range();
    match Stock::new(&wanted.sizes, trace) {
        None => (None, BodyLengths::Same(most)),
        stock => (stock, BodyLengths::Between(least, most)),
    }
}

/// A group's arrival process made ready. A schedule with a last message ends the run where nothing else does.
fn resolved_arrivals(plan: &Plan, group: &Group) -> Result<ResolvedArrivals, Error> {
    Ok(match &group.producers.arrivals {
        ArrivalProcess::Unthrottled => ResolvedArrivals::Unthrottled,
        ArrivalProcess::ThinkTime(pause) => ResolvedArrivals::ThinkTime(*pause),
        ArrivalProcess::Scheduled(schedule) => {
            let pacer = schedule.pacer(group.producer_count() as u64)?;
            ResolvedArrivals::Scheduled { ends_run: pacer.ends() && plan.phases.measure.is_none(), pacer }
        }
    })
}

#[cfg(test)]
#[path = "assignment_tests.rs"]
pub(super) mod tests;
