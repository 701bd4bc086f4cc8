//! From the plan to clients, and from clients to threads.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use measure::Nanos;
use wire::amqp091::{FieldTable, Value};

use super::accounts::{self, Accounts, Realm};
use super::consumer::{ConsumerSpec, Known, Ours};
use super::keys::Keys;
use super::producer::{Pacing, ProducerSpec};
use super::recipients::{self, Recipient};
use super::routes::{Routes, fan_out};
use super::socket::Places;
use super::stamps::Stamps;
use crate::admin::{arguments, table_of};
use crate::link::{
    Answers, Begin, BodyLengths, ChannelSpec, Declaration, Exchange, LinkSpec, Publishing,
    REPLY_TO, Role, STREAM_OFFSET, Source, Subscription,
};
use crate::random::Random;
use crate::schedule::share;
use crate::sizes::Stock;
use crate::{
    Ack, Allocation, Declare, Destination, DestinationKind, Error, Group, Pace, Plan, Producers,
    QueueType, Recovery, StreamOffset,
};

/// All clients' buffers may take twice this many bytes before they are needed. With many clients
/// each has less to keep at a time; what goes beyond its share grows when it is needed.
const ROOM: usize = 8 << 20;

/// One connection, and who shares it.
#[derive(Clone, Debug)]
pub(crate) struct ClientSpec {
    /// The nodes that it may connect to, and the first that it does.
    pub(crate) places: Places,
    pub(crate) place: usize,
    /// Which connection to that node it is, so that they spread over its addresses.
    pub(crate) turn: usize,
    /// The address that it connects from, where that matters.
    pub(crate) source: Option<IpAddr>,
    /// Which of the plan's brokers that is: the first group there.
    pub(crate) realm: usize,
    /// Its channels are `lanes`' in the same order.
    pub(crate) link: LinkSpec,
    pub(crate) lanes: Vec<LaneSpec>,
    pub(crate) recovery: Option<Recovery>,
    /// Bytes that each of its buffers may take before they are needed.
    pub(crate) room: usize,
}

/// One producer or consumer.
#[derive(Clone, Debug)]
pub(crate) struct LaneSpec {
    pub(crate) work: WorkSpec,
    pub(crate) destination: Destination,
    /// The queue of the shared subscription that a topic's consumer takes part in.
    pub(crate) share: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum WorkSpec {
    Producer(ProducerSpec),
    Consumer(ConsumerSpec),
}

/// Who does what.
#[derive(Debug)]
pub(crate) struct Deal {
    /// The clients of each thread; no thread is without.
    pub(crate) threads: Vec<Vec<ClientSpec>>,
    /// Producers that have a message count above zero.
    pub(crate) counting_producers: u64,
    /// What the groups of consumers with a message count wait for.
    pub(crate) budgets: Vec<Arc<AtomicU64>>,
    /// Whether the run ends by a message count.
    pub(crate) anybody_counts: bool,
    /// Who keeps which part of the ledger; otherwise why there is none, where somebody might wonder.
    pub(crate) accounts: Result<Accounts, Option<String>>,
    /// What the plan's consumers receive from.
    pub(crate) recipients: Vec<Recipient>,
}

/// Deals the clients out to threads, round-robin over all groups, consumers before producers so
/// that they are connected first. `places` and `realms` have one entry per group.
pub(crate) fn deal(plan: &Plan, places: &[Places], realms: &[Realm]) -> Result<Deal, Error> {
    let mut clients = Vec::new();
    let mut budgets = Vec::new();
    let mut first_id = 0;
    let ours = ours(plan);
    for (at, (group, places)) in plan.groups.iter().zip(places).enumerate() {
        let before = clients.len();
        consumers(
            plan,
            group,
            places,
            ours.as_ref(),
            &mut budgets,
            &mut clients,
        )?;
        settle_in(realms, at, &mut clients[before..]);
    }
    for (at, (group, places)) in plan.groups.iter().zip(places).enumerate() {
        let before = clients.len();
        producers(plan, group, places, first_id, &mut clients)?;
        settle_in(realms, at, &mut clients[before..]);
        first_id += group.producer_count() as u32;
    }
    let mut routes = Routes::new(&clients);
    fan_out(&mut clients, &mut routes);
    let counting = |lane: &&LaneSpec| matches!(&lane.work, WorkSpec::Producer(p) if p.ends());
    let lanes = clients.iter().flat_map(|client: &ClientSpec| &client.lanes);
    let counting_producers = lanes.filter(counting).count() as u64;
    let anybody_counts = !budgets.is_empty()
        || counting_producers > 0
        || plan.senders().any(|g| g.producers.message_count.is_some());
    let mut threads = vec![Vec::new(); plan.threads.min(clients.len()).max(1)];
    let count = threads.len();
    let lanes: usize = clients.iter().map(|client| client.lanes.len()).sum();
    let room = ROOM / lanes.max(1);
    for (i, mut client) in clients.into_iter().enumerate() {
        client.room = room;
        threads[i % count].push(client);
    }
    let accounts = accounts::open(plan, &mut threads, &mut routes);
    let recipients = recipients::find(&mut threads, &accounts);
    Ok(Deal {
        recipients,
        accounts,
        threads,
        counting_producers,
        budgets,
        anybody_counts,
    })
}

/// Tells a group's clients which of the brokers is theirs.
fn settle_in(realms: &[Realm], group: usize, clients: &mut [ClientSpec]) {
    let own = realms.get(group);
    let realm = realms.iter().position(|realm| Some(realm) == own);
    for client in clients {
        client.realm = realm.unwrap_or(group);
    }
}

/// What consumers must know of this run's producers.
fn ours(plan: &Plan) -> Option<Ours> {
    plan.senders().next()?;
    Some(Ours {
        run_id: plan.run_id,
        all_out: plan.senders().all(|g| g.producers.pace.is_all_out()),
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
    places: &Places,
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
    let mut lanes = Vec::with_capacity(count);
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
        let work = WorkSpec::Consumer(ConsumerSpec {
            ack: wanted.ack,
            refuse: wanted.refuse,
            commit_every: wanted.commit_every,
            prefetch: wanted.prefetch,
            message_size: group.producers.size_range().1,
            responds: group.producers.replies,
            labelled: group.producers.is_labelled(),
            poll: wanted.poll,
            service: wanted.service.clone(),
            delay,
            budget: budget.clone(),
            ours: ours.cloned(),
            tracks: None,
            recipient: 0,
            is_counted: false,
            most_unacked: 0,
        });
        let share = share_of(group, n);
        lanes.push((
            channel(group, destination, role)?,
            lane(work, destination, share),
        ));
    }
    let kind = ("consumer", 0);
    connect(
        plan,
        group,
        places,
        (kind, group.consumer_connections()),
        lanes,
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

fn lane(work: WorkSpec, destination: &Destination, share: Option<String>) -> LaneSpec {
    LaneSpec {
        work,
        destination: destination.clone(),
        share,
    }
}

/// The node of a group's `n`-th connection of a kind.
fn place_of(plan: &Plan, group: &Group, n: usize, places: usize) -> usize {
    let n = match group.allocation {
        Allocation::RoundRobin => n as u64,
        Allocation::Random => Random::new(u64::from(plan.run_id), 0x6E6F_6465).word(n as u64),
    };
    (n % places.max(1) as u64) as usize
}

/// Deals the lanes of a group out to its connections, as many as are asked for, else one each.
/// They are counted from `first` on.
fn connect(
    plan: &Plan,
    group: &Group,
    places: &Places,
    ((kind, first), connections): ((&str, u32), Option<usize>),
    lanes: Vec<(ChannelSpec, LaneSpec)>,
    clients: &mut Vec<ClientSpec>,
) {
    let count = connections
        .unwrap_or(lanes.len())
        .clamp(1, lanes.len().max(1));
    let before = clients.len();
    for (n, (channel, lane)) in lanes.into_iter().enumerate() {
        if n < count {
            let number = first as usize + n;
            let at = place_of(plan, group, n, places.len());
            let sources = &group.source_addresses;
            let connection_name = format!("bellows {kind} {number} of {}", lane.destination);
            clients.push(ClientSpec {
                place: at,
                turn: n / places.len().max(1),
                source: sources.get(n % sources.len().max(1)).copied(),
                places: Arc::clone(places),
                realm: 0,
                link: LinkSpec {
                    endpoint: places[at].endpoint.clone(),
                    connection_name,
                    patience: plan.patience,
                    resumes: group.recovery.is_some(),
                    channels: Vec::new(),
                },
                lanes: Vec::new(),
                recovery: group.recovery,
                room: 0,
            });
        }
        if let Some(client) = clients.get_mut(before + n % count) {
            client.link.channels.push(channel);
            client.lanes.push(lane);
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
    places: &Places,
    first_id: u32,
    clients: &mut Vec<ClientSpec>,
) -> Result<(), Error> {
    let wanted = &group.producers;
    let producers = group.producer_count() as u64;
    if producers == 0 {
        return Ok(());
    }
    let pacing = pacing(plan, group)?;
    let trace = wanted
        .sizing_trace()
        .map(|(trace, each)| (Arc::clone(trace), each));
    let stock = Stock::new(&wanted.sizes, trace);
    let (least, most) = wanted.size_range();
    let bodies = match stock {
        None => BodyLengths::Same(most),
        Some(_) => BodyLengths::Between(least, most),
    };
    let mut lanes = Vec::with_capacity(group.producer_count());
    for position in 0..producers {
        let at = position as usize % group.destinations.len();
        let destination = &group.destinations[at];
        let (exchange, routing_key) = destination.publishes_to();
        let id = first_id + position as u32;
        let keys = wanted.random_keys.map(|keys| Keys::new(keys, id));
        let stamps = Stamps::new(wanted, plan.run_id, id);
        let mut properties = wanted.properties.clone();
        Stamps::make_room(stamps.as_ref(), &mut properties);
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
            properties: properties.encode(Some(wanted.persistent), wanted.is_labelled())?,
            bodies,
        });
        let work = WorkSpec::Producer(ProducerSpec {
            id,
            run_id: plan.run_id,
            pacing: pacing.clone(),
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
            stamps,
            limit: wanted
                .message_count
                .map(|count| share(count, position, producers)),
            fan_out: 0,
            track: None,
        });
        lanes.push((
            channel(group, destination, role)?,
            lane(work, destination, None),
        ));
    }
    let kind = ("producer", first_id);
    connect(
        plan,
        group,
        places,
        (kind, wanted.connections),
        lanes,
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

/// A group's pace made ready. A schedule with a last message ends the run where nothing else does.
fn pacing(plan: &Plan, group: &Group) -> Result<Pacing, Error> {
    Ok(match &group.producers.pace {
        Pace::AllOut => Pacing::AllOut,
        Pace::Think(pause) => Pacing::Think(*pause),
        Pace::Scheduled(schedule) => {
            let table = schedule.timetable(group.producer_count() as u64)?;
            Pacing::Scheduled {
                ends_run: table.ends() && plan.phases.measure.is_none(),
                table: Arc::new(table),
            }
        }
    })
}

fn channel(group: &Group, destination: &Destination, role: Role) -> Result<ChannelSpec, Error> {
    let own = destination.exclusive && matches!(role, Role::Consumer(_));
    let again = group.recovery.is_some() && group.queues.declare != Declare::Never || own;
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
#[path = "deal_tests.rs"]
pub(super) mod tests;
