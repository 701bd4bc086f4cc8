//! Who gets whose messages, before the load starts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::spec::{ClientSpec, ParticipantKind, ParticipantSpec};
use crate::protocol::{ExchangeKey, Named, Topology};
use crate::{Declare, Destination, DestinationKind, Group};

/// Clients of one key share messages: [`ClientSpec::cluster`], whether it is a topic, and its name.
pub(super) type Key = (usize, bool, String);

pub(super) fn key(cluster: usize, destination: &Destination) -> Key {
    (cluster, destination.kind == DestinationKind::Topic, destination.name.clone())
}

/// Addresses and producers that reach a receiver.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// Addresses, by their position.
    addresses: Arc<[usize]>,
    /// The producers that publish there, ascending.
    pub(super) producers: Arc<[u32]>,
}

/// All that producers publish to, and all that receivers are bound to.
#[derive(Debug)]
pub(super) struct Routes {
    topology: Topology,
    /// Addresses, each with the producers that publish to it.
    addresses: Vec<(ExchangeKey, Vec<u32>)>,
    positions: HashMap<ExchangeKey, usize>,
    /// Reach by bindings: thousands of consumers have equal ones.
    known: HashMap<Vec<ExchangeKey>, Reach>,
}

impl Routes {
    /// Of the clients of these groups.
    pub(super) fn new<S>(clients: &[ClientSpec<S>], groups: &[Group]) -> Self {
        let participants = clients
            .iter()
            .flat_map(|client| client.participants.iter().map(|participant| (client.cluster, participant)));
        let named = clients.iter().flat_map(|client| {
            let declares = groups.get(client.group).is_some_and(|it| it.queues.declare != Declare::Never);
            client.participants.iter().map(move |participant| Named {
                cluster: client.cluster,
                destination: &participant.destination,
                consumes: participant.consumer().is_some(),
                declares,
            })
        });
        let topology = Topology::new(named);
        let mut routes = Self { topology, addresses: Vec::new(), positions: HashMap::new(), known: HashMap::new() };
        for (cluster, participant) in participants {
            if let Some(producer) = participant.producer() {
                let key = producer.keys.map(|keys| keys.first());
                let destination = &participant.destination;
                let address = routes.topology.published(cluster, destination, key);
                routes.add_producer(address, producer.id);
            }
        }
        for (_, producers) in &mut routes.addresses {
            producers.sort_unstable();
        }
        routes
    }

    fn add_producer(&mut self, address: ExchangeKey, id: u32) {
        let next = self.addresses.len();
        let at = *self.positions.entry(address.clone()).or_insert(next);
        if at == next {
            self.addresses.push((address, Vec::new()));
        }
        if let Some((_, producers)) = self.addresses.get_mut(at) {
            producers.push(id);
        }
    }

    /// Why nobody knows how many deliveries a message leads to, where nobody does.
    pub(super) fn unknown(&self) -> Option<String> {
        self.topology.unknown.clone()
    }

    /// Whether a consumer gets all messages of its destination, and not a share of them.
    pub(super) fn gets_all(participant: &ParticipantSpec) -> bool {
        participant.share.is_none() && Topology::everyone_gets_all(&participant.destination)
    }

    pub(super) fn reach(&mut self, cluster: usize, destination: &Destination) -> Reach {
        let bindings = self.topology.bindings(cluster, destination);
        if let Some(known) = self.known.get(&bindings) {
            return known.clone();
        }
        let mut addresses: Vec<usize> = bindings.iter().flat_map(|one| self.bound(one)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let at = |at: &usize| self.addresses.get(*at).map(|(_, producers)| producers);
        let mut producers: Vec<u32> = addresses.iter().filter_map(at).flatten().copied().collect();
        producers.sort_unstable();
        let reach = Reach { addresses: addresses.into(), producers: producers.into() };
        self.known.insert(bindings, reach.clone());
        reach
    }

    /// The positions of the addresses that a binding takes.
    fn bound(&self, binding: &ExchangeKey) -> Vec<usize> {
        if !binding.is_pattern() {
            return self.positions.get(binding).copied().into_iter().collect();
        }
        let takes = binding.takes();
        self.addresses.iter().enumerate().filter(|(_, (address, _))| takes(address)).map(|(at, _)| at).collect()
    }

    /// Tells producers how many deliveries the plan's consumers should make of a message, and consumers who sends.
    pub(super) fn expect_deliveries<S>(&mut self, clients: &mut [ClientSpec<S>]) {
        let mut deliveries: Vec<u64> = vec![0; self.addresses.len()];
        let mut shared: HashSet<(Key, Option<String>)> = HashSet::new();
        for client in clients.iter() {
            for participant in client.participants.iter().filter(|it| it.consumer().is_some()) {
                let key = key(client.cluster, &participant.destination);
                // Those who share a queue are one receiver.
                if Self::gets_all(participant) || shared.insert((key, participant.share.clone())) {
                    let reach = self.reach(client.cluster, &participant.destination);
                    for at in &*reach.addresses {
                        if let Some(count) = deliveries.get_mut(*at) {
                            *count += 1;
                        }
                    }
                }
            }
        }
        let of_producers: HashMap<u32, u64> = self
            .addresses
            .iter()
            .zip(deliveries)
            .flat_map(|((_, producers), count)| producers.iter().map(move |id| (*id, count)))
            .collect();
        for client in clients {
            for participant in &mut client.participants {
                match &mut participant.kind {
                    ParticipantKind::Producer(producer) => {
                        producer.expected_deliveries = of_producers.get(&producer.id).copied().unwrap_or(0);
                    }
                    ParticipantKind::Consumer(consumer) => {
                        let reach = self.reach(client.cluster, &participant.destination);
                        consumer.is_sent_to = !reach.producers.is_empty();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
