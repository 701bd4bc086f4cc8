//! Who gets whose messages: from exchanges, routing keys and bindings, before the load starts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::spec::{ClientSpec, ParticipantKind, ParticipantSpec};
use crate::topic::{is_open, matches};
use crate::{Destination, DestinationKind, QueueType};

/// Where messages are published to, or what a queue is bound to: [`ClientSpec::cluster`], exchange,
/// and routing key. Exchanges that look at no routing key have one address.
type RoutingAddress = (usize, String, String);

/// What shares messages: [`ClientSpec::cluster`], whether it is a topic, and its name.
pub(super) type Key = (usize, bool, String);

pub(super) fn key(cluster: usize, destination: &Destination) -> Key {
    (
        cluster,
        destination.kind == DestinationKind::Topic,
        destination.name.clone(),
    )
}

/// What reaches a receiver.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// Addresses, by their position.
    addresses: Arc<[usize]>,
    /// The producers that publish there, ascending.
    pub(super) producers: Arc<[u32]>,
}

/// All that producers publish to, and all that receivers are bound to.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// The producers of each address.
    addresses: Vec<Vec<u32>>,
    positions: HashMap<RoutingAddress, usize>,
    /// The keys that are published to each topic exchange.
    topics: HashMap<(usize, String), Vec<(String, usize)>>,
    /// What each queue is bound to.
    queues: HashMap<Key, Vec<RoutingAddress>>,
    /// What was found out before: thousands of consumers have the same bindings.
    known: HashMap<Vec<RoutingAddress>, Reach>,
}

impl Routes {
    pub(super) fn new<'a, S>(clients: &'a [ClientSpec<S>]) -> Self {
        let mut routes = Self::default();
        let participants = || {
            let of = |client: &'a ClientSpec<S>| {
                client
                    .participants
                    .iter()
                    .map(|participant| (client.cluster, participant))
            };
            clients.iter().flat_map(of)
        };
        // Not every group says what kind an exchange is, but one does.
        let topics: HashSet<(usize, &str)> = participants()
            .filter(|(_, participant)| kind(&participant.destination) == "topic")
            .map(|(cluster, participant)| (cluster, participant.destination.publishes_to().0))
            .collect();
        for (cluster, participant) in participants() {
            routes.add_bindings(cluster, participant);
            if let ParticipantKind::Producer(producer) = &participant.kind {
                let mut address = address(cluster, &participant.destination);
                let is_topic = topics.contains(&(cluster, address.1.as_str()));
                // All keys by chance are one word that no pattern spells out: one stands for all.
                if let Some(keys) = producer.keys.filter(|_| is_topic) {
                    address.2 = keys.first();
                }
                routes.add_producer(address, producer.id, is_topic);
            }
        }
        for producers in &mut routes.addresses {
            producers.sort_unstable();
        }
        routes
    }

    /// Notes what a queue is bound to. Those of topics are each consumer's own.
    fn add_bindings(&mut self, cluster: usize, participant: &ParticipantSpec) {
        let destination = &participant.destination;
        if destination.kind == DestinationKind::Topic {
            return;
        }
        let bindings = self
            .queues
            .entry(key(cluster, destination))
            .or_insert_with(|| {
                // Every queue is bound to the default exchange by its name.
                vec![(cluster, String::new(), destination.name.clone())]
            });
        // Whoever consumes relies on the binding, also where somebody else has made it.
        let consumes = matches!(participant.kind, ParticipantKind::Consumer(_));
        let binding = address(cluster, destination);
        if (consumes || destination.binding().is_some()) && !bindings.contains(&binding) {
            bindings.push(binding);
        }
    }

    fn add_producer(&mut self, address: RoutingAddress, id: u32, is_topic: bool) {
        let next = self.addresses.len();
        let at = *self.positions.entry(address.clone()).or_insert(next);
        if at == next {
            self.addresses.push(Vec::new());
            if is_topic {
                let (cluster, exchange, key) = address;
                let keys = self.topics.entry((cluster, exchange)).or_default();
                keys.push((key, at));
            }
        }
        if let Some(producers) = self.addresses.get_mut(at) {
            producers.push(id);
        }
    }

    /// All producers there are.
    pub(super) fn producers(&self) -> usize {
        self.addresses.iter().map(Vec::len).sum()
    }

    /// What reaches a consumer at this destination.
    pub(super) fn reach(&mut self, cluster: usize, destination: &Destination) -> Reach {
        let bindings = match destination.kind {
            DestinationKind::Topic => vec![address(cluster, destination)],
            DestinationKind::Queue => {
                let bindings = self.queues.get(&key(cluster, destination));
                bindings.cloned().unwrap_or_default()
            }
        };
        if let Some(known) = self.known.get(&bindings) {
            return known.clone();
        }
        let mut addresses: Vec<usize> = bindings.iter().flat_map(|one| self.bound(one)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let at = |at: &usize| self.addresses.get(*at).into_iter().flatten().copied();
        let mut producers: Vec<u32> = addresses.iter().flat_map(at).collect();
        producers.sort_unstable();
        let reach = Reach {
            addresses: addresses.into(),
            producers: producers.into(),
        };
        self.known.insert(bindings, reach.clone());
        reach
    }

    /// The addresses that a binding takes.
    fn bound(&self, binding: &RoutingAddress) -> Vec<usize> {
        let (cluster, exchange, pattern) = binding;
        match self.topics.get(&(*cluster, exchange.clone())) {
            Some(keys) if is_open(pattern) => keys
                .iter()
                .filter(|(key, _)| matches(pattern, key))
                .map(|(_, at)| *at)
                .collect(),
            _ => self.positions.get(binding).copied().into_iter().collect(),
        }
    }
}

/// Tells producers how many deliveries the plan's own consumers should make of one message.
pub(super) fn expected_deliveries<S>(clients: &mut [ClientSpec<S>], routes: &mut Routes) {
    let mut deliveries: Vec<u64> = vec![0; routes.addresses.len()];
    let mut shared: HashSet<(Key, Option<String>)> = HashSet::new();
    for client in clients.iter() {
        let consumes = |participant: &&ParticipantSpec| {
            matches!(participant.kind, ParticipantKind::Consumer(_))
        };
        for participant in client.participants.iter().filter(consumes) {
            let (cluster, destination) = (client.cluster, &participant.destination);
            let alone = participant.share.is_none() && gets_everything(destination);
            // Those who share a queue are one receiver.
            if alone || shared.insert((key(cluster, destination), participant.share.clone())) {
                for at in &*routes.reach(cluster, destination).addresses {
                    if let Some(count) = deliveries.get_mut(*at) {
                        *count += 1;
                    }
                }
            }
        }
    }
    let of_producers: HashMap<u32, u64> = routes
        .addresses
        .iter()
        .zip(deliveries)
        .flat_map(|(producers, count)| producers.iter().map(move |id| (*id, count)))
        .collect();
    for participant in clients
        .iter_mut()
        .flat_map(|client| &mut client.participants)
    {
        if let ParticipantKind::Producer(producer) = &mut participant.kind {
            producer.expected_deliveries = of_producers.get(&producer.id).copied().unwrap_or(0);
        }
    }
}

/// What is published to the same address reaches the same queues.
fn address(cluster: usize, destination: &Destination) -> RoutingAddress {
    let (exchange, key) = destination.publishes_to();
    let key = match kind(destination) {
        "fanout" | "headers" => "",
        _ => key,
    };
    (cluster, exchange.to_owned(), key.to_owned())
}

/// What kind of exchange it is published to. Every broker has some of their own.
fn kind(destination: &Destination) -> &str {
    let given = destination.exchange.as_ref().map(|it| it.kind.as_str());
    match destination.publishes_to().0 {
        "" | "amq.direct" => "direct",
        "amq.topic" => "topic",
        "amq.fanout" => "fanout",
        "amq.headers" | "amq.match" => "headers",
        _ => given.unwrap_or("direct"),
    }
}

/// Whether every consumer gets every message.
pub(super) fn gets_everything(destination: &Destination) -> bool {
    destination.kind == DestinationKind::Topic || destination.queue_type == QueueType::Stream
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
