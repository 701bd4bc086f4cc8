//! From the plan to clients, and from clients to threads.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use measure::Nanos;
use wire::amqp091::{FieldTable, Value};

use super::consumer::{ConsumerSpec, Known, Ours};
use super::ledger_layout::{self, Cluster, LedgerLayout};
use super::producer::{ProducerSpec, ResolvedArrivals};
use super::recipients::{self, Recipient};
use super::routes::{Routes, expected_deliveries};
use super::routing_keys::RoutingKeyGenerator;
use super::unique_properties::UniqueProperties;
use crate::node::Nodes;
use crate::protocol::amqp091::admin::{arguments, table_of};
use crate::protocol::amqp091::{
    Answers, Begin, BodyLengths, ChannelSpec, ConnectionSpec, Declaration, Exchange, Publishing,
    REPLY_TO, Role, STREAM_OFFSET, Source, Subscription,
};
use crate::random::Random;
use crate::schedule::share;
use crate::sizes::Stock;
use crate::{
    Ack, Allocation, ArrivalProcess, Declare, Destination, DestinationKind, Error, Group, Plan,
    Producers, QueueType, ReconnectPolicy, StreamOffset,
};

/// All clients' buffers may take twice this many bytes before they are needed. With many clients
/// each has less to keep at a time; what goes beyond its share grows when it is needed.
const ROOM: usize = 8 << 20;

/// One connection, and who shares it.
#[derive(Clone, Debug)]
pub(crate) struct ClientSpec {
    /// The nodes that it may connect to, and the first that it does.
    pub(crate) nodes: Nodes,
    pub(crate) node: usize,
    /// Which connection to that node it is, so that they spread over its addresses.
    pub(crate) index: usize,
    /// The address that it connects from, where that matters.
    pub(crate) source: Option<IpAddr>,
    /// Which of the plan's brokers that is: the first group there.
    pub(crate) cluster: usize,
    /// Its channels stand in the order of `participants`.
    pub(crate) connection: ConnectionSpec,
    pub(crate) participants: Vec<ParticipantSpec>,
    pub(crate) reconnect: Option<ReconnectPolicy>,
    /// Bytes that each of its buffers may take before they are needed.
    pub(crate) room: usize,
}

/// One producer or consumer.
#[derive(Clone, Debug)]
pub(crate) struct ParticipantSpec {
    pub(crate) kind: ParticipantKind,
    pub(crate) destination: Destination,
    /// The queue of the shared subscription that a topic's consumer takes part in.
    pub(crate) share: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum ParticipantKind {
    Producer(ProducerSpec),
    Consumer(ConsumerSpec),
}

/// The clients of every thread, and what follows from all of them.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// The clients of each thread; no thread is without.
    pub(crate) threads: Vec<Vec<ClientSpec>>,
    /// Producers that have a message count above zero.
    pub(crate) counting_producers: u64,
    /// What the groups of consumers with a message count wait for.
    pub(crate) budgets: Vec<Arc<AtomicU64>>,
    /// Whether the run ends by a message count.
    pub(crate) anybody_counts: bool,
    /// Who keeps which part of the ledger; otherwise why there is none, where somebody might wonder.
    pub(crate) ledger_layout: Result<LedgerLayout, Option<String>>,
    /// What the plan's consumers receive from.
    pub(crate) recipients: Vec<Recipient>,
}

/// Assigns the clients to threads, round-robin over all groups, consumers before producers so
/// that they are connected first. `nodes` and `clusters` have one entry per group.
pub(crate) fn assign(
    plan: &Plan,
    nodes: &[Nodes],
    clusters: &[Cluster],
) -> Result<Assignment, Error> {
    let mut clients = Vec::new();
    let mut budgets = Vec::new();
    let mut first_id = 0;
    let ours = ours(plan);
    for (at, (group, nodes)) in plan.groups.iter().zip(nodes).enumerate() {
        let before = clients.len();
        consumers(
            plan,
            group,
            nodes,
            ours.as_ref(),
            &mut budgets,
            &mut clients,
        )?;
        assign_clusters(clusters, at, &mut clients[before..]);
    }
    for (at, (group, nodes)) in plan.groups.iter().zip(nodes).enumerate() {
        let before = clients.len();
        producers(plan, group, nodes, first_id, &mut clients)?;
        assign_clusters(clusters, at, &mut clients[before..]);
        first_id += group.producer_count() as u32;
    }
    let mut routes = Routes::new(&clients);
    expected_deliveries(&mut clients, &mut routes);
    let counting = |participant: &&ParticipantSpec| matches!(&participant.kind, ParticipantKind::Producer(p) if p.ends());
    let participants = clients
        .iter()
        .flat_map(|client: &ClientSpec| &client.participants);
    let counting_producers = participants.filter(counting).count() as u64;
    let anybody_counts = !budgets.is_empty()
        || counting_producers > 0
        || plan.senders().any(|g| g.producers.message_count.is_some());
    let mut threads = vec![Vec::new(); plan.threads.min(clients.len()).max(1)];
    let count = threads.len();
    let participants: usize = clients.iter().map(|client| client.participants.len()).sum();
    let room = ROOM / participants.max(1);
    for (i, mut client) in clients.into_iter().enumerate() {
        client.room = room;
        threads[i % count].push(client);
    }
    let ledger_layout = ledger_layout::open(plan, &mut threads, &mut routes);
    let recipients = recipients::find(&mut threads, &ledger_layout);
    Ok(Assignment {
        recipients,
        ledger_layout,
        threads,
        counting_producers,
        budgets,
        anybody_counts,
    })
}

/// Tells a group's clients which of the brokers is theirs.
fn assign_clusters(clusters: &[Cluster], group: usize, clients: &mut [ClientSpec]) {
    let own = clusters.get(group);
    let cluster = clusters.iter().position(|cluster| Some(cluster) == own);
    for client in clients {
        client.cluster = cluster.unwrap_or(group);
    }
}

/// What consumers must know of this run's producers.
fn ours(plan: &Plan) -> Option<Ours> {
    plan.senders().next()?;
    Some(Ours {
        run_id: plan.run_id,
        unthrottled: plan
            .senders()
            .all(|g| g.producers.arrivals.is_unthrottled()),
        bodies: bodies(plan),
    })
}

/// What somebody sends other than filler.
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

fn consumers(
    plan: &Plan,
    group: &Group,
    nodes: &Nodes,
    ours: Option<&Ours>,
    budgets: &mut Vec<Arc<AtomicU64>>,
    clients: &mut Vec<ClientSpec>,
) -> Result<(), Error> {
    let count = group.consumer_count();
    if count == 0 {
        return Ok(());
    }
    let wanted = &group.consumers;
    let budget = wanted
        .message_count
        .map(|count| Arc::new(AtomicU64::new(count)));
    budgets.extend(budget.clone());
    let mut participants = Vec::with_capacity(count);
    for n in 0..count {
        let destination = &group.destinations[n % group.destinations.len()];
        let delay = delay_of_consumer(group, n);
        let role = Role::Consumer(Subscription {
            source: source(group, destination, n)?,
            prefetch: wanted.prefetch,
            channel_prefetch: wanted.channel_prefetch,
            no_ack: wanted.ack == Ack::Auto,
            transacted: wanted.commit_every > 0,
            begin: match wanted.poll {
                Some(_) => Begin::Polling,
                None if delay > Nanos::ZERO => Begin::Later,
                None => Begin::AtSetUp,
            },
            arguments: subscription(group, destination)?,
        });
        let work = ParticipantKind::Consumer(ConsumerSpec {
            ack: wanted.ack,
            refuse: wanted.refuse,
            commit_every: wanted.commit_every,
            prefetch: wanted.prefetch,
            message_size: group.producers.size_range().1,
            responds: group.producers.replies,
            has_trace_header: group.producers.has_trace_header(),
            poll: wanted.poll,
            service: wanted.service.clone(),
            delay,
            budget: budget.clone(),
            ours: ours.cloned(),
            bitmaps: None,
            recipient: 0,
            is_counted: false,
            most_unacked: 0,
        });
        let share = share_of(group, n);
        participants.push((
            channel(group, destination, role)?,
            participant(work, destination, share),
        ));
    }
    let kind = ("consumer", 0);
    connect(
        plan,
        group,
        nodes,
        (kind, group.consumer_connections()),
        participants,
        clients,
    );
    Ok(())
}

/// How long after the load a consumer begins.
fn delay_of_consumer(group: &Group, n: usize) -> Nanos {
    let (first, apart) = (group.consumers.start_after, group.consumers.apart);
    first + Nanos(apart.0.saturating_mul(n as u64))
}

/// Which subscription a group's `n`-th consumer has, where others may have it too.
fn share_of(group: &Group, n: usize) -> Option<String> {
    let subscription = group.consumers.subscription.as_ref()?;
    let destinations = group.destinations.len();
    let topic = &group.destinations[n % destinations].name;
    let index = subscription.of(n / destinations);
    (subscription.shared > 0).then(|| subscription.queue(topic, index))
}

/// What a group's `n`-th consumer reads from.
fn source(group: &Group, destination: &Destination, n: usize) -> Result<Source, Error> {
    Ok(match (destination.kind, &group.consumers.subscription) {
        (DestinationKind::Queue, _) => Source::Queue(destination.name.clone()),
        (DestinationKind::Topic, Some(it)) => {
            Source::Queue(it.queue(&destination.name, it.of(n / group.destinations.len())))
        }
        (DestinationKind::Topic, None) => {
            let (exchange, key) = destination.publishes_to();
            Source::Own {
                exchange: exchange.to_owned(),
                key: key.to_owned(),
                arguments: arguments(destination)?,
            }
        }
    })
}

fn participant(
    kind: ParticipantKind,
    destination: &Destination,
    share: Option<String>,
) -> ParticipantSpec {
    ParticipantSpec {
        kind,
        destination: destination.clone(),
        share,
    }
}

/// The node of a group's `n`-th connection of a kind.
fn node_of(plan: &Plan, group: &Group, n: usize, nodes: usize) -> usize {
    let n = match group.allocation {
        Allocation::RoundRobin => n as u64,
        Allocation::Random => Random::new(u64::from(plan.run_id), 0x6E6F_6465).word(n as u64),
    };
    (n % nodes.max(1) as u64) as usize
}

/// Distributes the participants of a group over the requested number of connections, by default one each.
/// They are counted from `first` on.
fn connect(
    plan: &Plan,
    group: &Group,
    nodes: &Nodes,
    ((kind, first), connections): ((&str, u32), Option<usize>),
    participants: Vec<(ChannelSpec, ParticipantSpec)>,
    clients: &mut Vec<ClientSpec>,
) {
    let count = connections
        .unwrap_or(participants.len())
        .clamp(1, participants.len().max(1));
    let before = clients.len();
    for (n, (channel, participant)) in participants.into_iter().enumerate() {
        if n < count {
            let number = first as usize + n;
            let at = node_of(plan, group, n, nodes.len());
            let sources = &group.source_addresses;
            let connection_name = format!("bellows {kind} {number} of {}", participant.destination);
            clients.push(ClientSpec {
                node: at,
                index: n / nodes.len().max(1),
                source: sources.get(n % sources.len().max(1)).copied(),
                nodes: Arc::clone(nodes),
                cluster: 0,
                connection: ConnectionSpec {
                    endpoint: nodes[at].endpoint.clone(),
                    connection_name,
                    timeout: plan.timeout,
                    resumes: group.reconnect.is_some(),
                    channels: Vec::new(),
                },
                participants: Vec::new(),
                reconnect: group.reconnect,
                room: 0,
            });
        }
        if let Some(client) = clients.get_mut(before + n % count) {
            client.connection.channels.push(channel);
            client.participants.push(participant);
        }
    }
}

fn subscription(group: &Group, destination: &Destination) -> Result<FieldTable, Error> {
    let mut table = table_of(&group.consumers.arguments)?;
    if destination.queue_type == QueueType::Stream && table.get(STREAM_OFFSET).is_none() {
        match group.consumers.stream_offset {
            StreamOffset::First => table.insert(STREAM_OFFSET, "first"),
            StreamOffset::Last => table.insert(STREAM_OFFSET, "last"),
            StreamOffset::Next => table.insert(STREAM_OFFSET, "next"),
            StreamOffset::Time(unix_s) => table.insert(STREAM_OFFSET, Value::Timestamp(unix_s)),
            StreamOffset::Offset(offset) => {
                table.insert(STREAM_OFFSET, i64::try_from(offset).unwrap_or(i64::MAX))
            }
        }
        .map_err(|error| Error::invalid(error.to_string(), "shorten the argument"))?;
    }
    Ok(table)
}

fn producers(
    plan: &Plan,
    group: &Group,
    nodes: &Nodes,
    first_id: u32,
    clients: &mut Vec<ClientSpec>,
) -> Result<(), Error> {
    let wanted = &group.producers;
    let producers = group.producer_count() as u64;
    if producers == 0 {
        return Ok(());
    }
    let arrivals = resolved_arrivals(plan, group)?;
    let trace = wanted
        .sizing_trace()
        .map(|(trace, each)| (Arc::clone(trace), each));
    let stock = Stock::new(&wanted.sizes, trace);
    let (least, most) = wanted.size_range();
    let bodies = match stock {
        None => BodyLengths::Same(most),
        Some(_) => BodyLengths::Between(least, most),
    };
    let mut participants = Vec::with_capacity(group.producer_count());
    for position in 0..producers {
        let at = position as usize % group.destinations.len();
        let destination = &group.destinations[at];
        let (exchange, routing_key) = destination.publishes_to();
        let id = first_id + position as u32;
        let keys = wanted
            .random_keys
            .map(|keys| RoutingKeyGenerator::new(keys, id));
        let unique_properties = UniqueProperties::new(wanted, plan.run_id, id);
        let mut properties = wanted.properties.clone();
        UniqueProperties::make_room(unique_properties.as_ref(), &mut properties);
        if wanted.replies {
            properties.reply_to = Some(REPLY_TO.to_owned());
        }
        let role = Role::Producer(Publishing {
            exchange: exchange.to_owned(),
            routing_key: match &keys {
                Some(keys) => keys.first(),
                None => routing_key.to_owned(),
            },
            answers: answers(wanted),
            mandatory: wanted.mandatory,
            properties: properties.encode(Some(wanted.persistent), wanted.has_trace_header())?,
            bodies,
        });
        let work = ParticipantKind::Producer(ProducerSpec {
            id,
            run_id: plan.run_id,
            arrivals: arrivals.clone(),
            message_size: most,
            contents: stock
                .as_ref()
                .map(|stock| stock.contents(id, position, producers)),
            position,
            producers,
            answers: answers(wanted),
            commit_every: u64::from(wanted.commit_every),
            max_pending: wanted.max_pending,
            confirm_timeout: wanted.confirm_timeout,
            delay: wanted.start_delay.map_or(Nanos::ZERO, |delay| delay.of(id)),
            keys,
            unique_properties,
            limit: wanted
                .message_count
                .map(|count| share(count, position, producers)),
            expected_deliveries: 0,
            bitmap: None,
        });
        participants.push((
            channel(group, destination, role)?,
            participant(work, destination, None),
        ));
    }
    let kind = ("producer", first_id);
    connect(
        plan,
        group,
        nodes,
        (kind, wanted.connections),
        participants,
        clients,
    );
    Ok(())
}

fn answers(producers: &Producers) -> Answers {
    match producers.commit_every {
        _ if producers.replies => Answers::Replies,
        0 if producers.confirm => Answers::Confirms,
        0 => Answers::Nothing,
        _ => Answers::Commits,
    }
}

/// A group's arrival process made ready. A schedule with a last message ends the run where nothing else
/// does.
fn resolved_arrivals(plan: &Plan, group: &Group) -> Result<ResolvedArrivals, Error> {
    Ok(match &group.producers.arrivals {
        ArrivalProcess::Unthrottled => ResolvedArrivals::Unthrottled,
        ArrivalProcess::ThinkTime(pause) => ResolvedArrivals::ThinkTime(*pause),
        ArrivalProcess::Scheduled(schedule) => {
            let pacer = schedule.pacer(group.producer_count() as u64)?;
            ResolvedArrivals::Scheduled {
                ends_run: pacer.ends() && plan.phases.measure.is_none(),
                pacer,
            }
        }
    })
}

fn channel(group: &Group, destination: &Destination, role: Role) -> Result<ChannelSpec, Error> {
    let own = destination.exclusive && matches!(role, Role::Consumer(_));
    let again = group.reconnect.is_some() && group.queues.declare != Declare::Never || own;
    // Nobody but its consumers can declare it.
    let queue = destination.kind == DestinationKind::Queue && (own || !destination.exclusive);
    let exchange = destination
        .exchange
        .as_ref()
        .filter(|exchange| exchange.is_declared())
        .map(|exchange| Exchange {
            name: exchange.name.clone(),
            kind: exchange.kind.clone(),
            durable: exchange.durable,
            auto_delete: exchange.auto_delete,
        });
    let declaration = if again && (queue || exchange.is_some()) {
        Some(Declaration {
            queue: if queue {
                destination.name.clone()
            } else {
                String::new()
            },
            durable: destination.is_durable(),
            auto_delete: destination.auto_delete,
            exclusive: own,
            arguments: arguments(destination)?,
            exchange,
            binding: destination
                .binding()
                .filter(|_| queue)
                .map(|key| (destination.publishes_to().0.to_owned(), key.to_owned())),
        })
    } else {
        None
    };
    Ok(ChannelSpec { role, declaration })
}

#[cfg(test)]
#[path = "assignment_tests.rs"]
pub(super) mod tests;
