//! A worker's share of a load, where several carry it together.
//!
//! A load divides into *parts*: destinations that may get the same messages, or whose clients share connections or a
//! count of deliveries, with all their producers and consumers. Parts are numbered in the order of the plan, and part
//! `n` is that of worker `n mod W`. Every number (producers, positions, due times, connections, nodes) stays that of
//! the whole plan, so that all shares together are the load of one process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Argument, Destination, Error, Group, Plan, publishes_to, share};

/// One of the workers that carry a load together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which of them it is, from 0.
    pub worker: u32,
    /// How many there are.
    pub workers: u32,
}

/// Which of a group's destinations are this worker's: all of them, unless [`Plan::divided`] says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnDestinations(Option<Arc<[bool]>>);

impl OwnDestinations {
    fn has(&self, destination: usize) -> bool {
        self.0.as_ref().is_none_or(|own| own.get(destination).copied().unwrap_or(false))
    }
}

impl Plan {
    /// This plan, of which a worker carries its share. Destinations, clients and connections must not change any more.
    #[must_use]
    pub fn divided(mut self, share: Share) -> Self {
        let parts = parts(&self.groups);
        let mut parts = parts.iter().map(|part| part.checked_rem(share.workers as usize));
        for group in &mut self.groups {
            let owners = parts.by_ref().take(group.destinations.len());
            let own = owners.map(|owner| owner == Some(share.worker as usize)).collect();
            group.own = OwnDestinations(Some(own));
        }
        self.share = Some(share);
        self
    }

    /// Parts into which the load divides: of more workers than these, the last ones have nothing to do.
    pub fn parts(&self) -> usize {
        parts(&self.groups).iter().max().map_or(0, |last| last + 1)
    }

    /// Whether nothing of the load is this worker's.
    pub fn is_idle(&self) -> bool {
        self.groups.iter().all(|group| group.own_producers().chain(group.own_consumers()).next().is_none())
    }

    pub(super) fn validate_share(&self) -> Result<(), Error> {
        let Some(Share { worker, workers }) = self.share else { return Ok(()) };
        let cause = format!("worker {worker} is none of {workers}");
        let refused = Error::invalid(cause, "number the workers from 0").observed(worker);
        refused.unless(worker < workers)?;
        let is_divided = |group: &Group| group.own.0.as_ref().is_some_and(|own| own.len() == group.destinations.len());
        let cause = "the plan has a share, and does not say what belongs to it";
        Error::invalid(cause, "divide it (Plan::divided) when it is complete")
            .unless(self.groups.iter().all(is_divided))
    }
}

impl Group {
    /// The destinations that are this worker's, each with its position.
    pub fn own_destinations(&self) -> impl Iterator<Item = (usize, &Destination)> {
        self.destinations.iter().enumerate().filter(|(at, _)| self.own.has(*at))
    }

    /// Positions of the producers that are this worker's.
    pub fn own_producers(&self) -> impl Iterator<Item = usize> {
        self.own_among(self.producer_count())
    }

    /// Positions of the consumers that are this worker's.
    pub fn own_consumers(&self) -> impl Iterator<Item = usize> {
        self.own_among(self.consumer_count())
    }

    /// Of this many clients or connections, which go to the destinations in turn, those that are this worker's.
    pub(super) fn own_among(&self, count: usize) -> impl Iterator<Item = usize> {
        let destinations = self.destinations.len().max(1);
        (0..count).filter(move |n| self.own.has(n % destinations))
    }

    /// Messages that this worker's producers send; `None` for no limit.
    pub fn own_message_count(&self) -> Option<u64> {
        let (all, producers) = (self.producers.message_count?, self.producer_count() as u64);
        Some(self.own_producers().map(|at| share(all, at as u64, producers)).sum())
    }
}

/// The part of every destination, group by group.
fn parts(groups: &[Group]) -> Vec<usize> {
    let count = groups.iter().map(|group| group.destinations.len()).sum();
    let mut parents: Vec<usize> = (0..count).collect();
    join_addresses(groups, &mut parents);
    let mut first = 0;
    for group in groups {
        join_clients(group, first, &mut parents);
        first += group.destinations.len();
    }
    let mut numbers = HashMap::new();
    let number = |at| {
        let next = numbers.len();
        *numbers.entry(root(&mut parents, at)).or_insert(next)
    };
    (0..count).map(number).collect()
}

/// Joins the destinations of a group, whose `first` has this number, where clients of one connection go to several of
/// them, or all consumers together end after a number of deliveries.
fn join_clients(group: &Group, first: usize, parents: &mut [usize]) {
    let (producers, consumers) = (group.producer_count(), group.consumer_count());
    let counts = group.consumers.message_count.map(|_| 1);
    let destinations = group.destinations.len().max(1);
    for (clients, sharing) in
        [(producers, group.producers.connections), (consumers, group.consumer_connections()), (consumers, counts)]
    {
        let Some(sharing) = sharing.filter(|it| *it > 0) else { continue };
        for n in sharing..clients {
            join(parents, first + n % destinations, first + n % sharing % destinations);
        }
    }
}

/// Joins the destinations that may get the same messages, whichever broker they are at.
fn join_addresses(groups: &[Group], parents: &mut [usize]) {
    let all = || groups.iter().flat_map(|group| &group.destinations);
    let loose = all().filter(|it| !goes_by_equal_keys(it)).map(|it| publishes_to(it).0);
    let loose: HashSet<&str> = loose.collect();
    let mut before = HashMap::new();
    for (at, destination) in all().enumerate() {
        let (exchange, key) = publishes_to(destination);
        let argument = |key| match destination.amqp091.arguments.get(key) {
            Some(Argument::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let dead = argument("x-dead-letter-exchange");
        let dead = dead.map(|exchange| (exchange, argument("x-dead-letter-routing-key").unwrap_or(key)));
        // Every queue has its name for a key of the default exchange.
        for (exchange, key) in [(exchange, key), ("", destination.name.as_str())].into_iter().chain(dead) {
            let address = match loose.contains(exchange) {
                true => (exchange, ""),
                // Artemis: a queue of an address that may have others.
                false => (exchange, key.split_once("::").map_or(key, |(address, _)| address)),
            };
            join(parents, *before.entry(address).or_insert(at), at);
        }
    }
}

/// Whether the exchange that a destination publishes to gives messages to those with an equal key alone, as far as this
/// destination tells.
fn goes_by_equal_keys(destination: &Destination) -> bool {
    let (exchange, key) = publishes_to(destination);
    let given = destination.amqp091.exchange.as_ref().map_or("direct", |exchange| exchange.kind.as_str());
    match (exchange, given) {
        ("" | "amq.direct", _) => true,
        ("amq.topic", _) | (_, "topic") => !key.contains(['*', '#']),
        ("amq.fanout" | "amq.headers" | "amq.match", _) => false,
        (_, kind) => kind == "direct",
    }
}

/// The least destination that is joined with this one.
fn root(parents: &mut [usize], mut at: usize) -> usize {
    while let Some(parent) = parents.get(at).copied().filter(|parent| *parent != at) {
        let above = parents.get(parent).copied().unwrap_or(parent);
        if let Some(shorter) = parents.get_mut(at) {
            *shorter = above;
        }
        at = above;
    }
    at
}

fn join(parents: &mut [usize], one: usize, other: usize) {
    let (one, other) = (root(parents, one), root(parents, other));
    if let Some(parent) = parents.get_mut(one.max(other)) {
        *parent = one.min(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, Exchange};

    fn group(names: &[&str], per_destination: usize) -> Group {
        let destinations = names.iter().map(|name| Destination::parse(name).unwrap()).collect();
        let mut group = Group::new(Endpoint::new("h", 1), destinations);
        (group.producers.per_destination, group.consumers.per_destination) = (per_destination, per_destination);
        group
    }

    fn parts_of(groups: &[Group]) -> String {
        parts(groups).iter().map(|part| part.to_string()).collect()
    }

    /// Parts of queues `a`, `b`, `c` and `d`, each with two producers and two consumers.
    fn parts_with(change: impl FnOnce(&mut Group)) -> String {
        let mut group = group(&["a", "b", "c", "d"], 2);
        change(&mut group);
        parts_of(&[group])
    }

    #[test]
    fn destinations_stand_together_that_share_connections_or_a_count() {
        assert_eq!(parts_with(|_| ()), "0123");
        assert_eq!(parts_with(|group| group.producers.connections = Some(4)), "0123");
        assert_eq!(parts_with(|group| group.producers.connections = Some(2)), "0101");
        assert_eq!(parts_with(|group| group.consumers.connections = Some(3)), "0000");
        assert_eq!(parts_with(|group| group.consumers.connections = Some(100)), "0123");
        assert_eq!(parts_with(|group| group.consumers.message_count = Some(9)), "0000");
        assert_eq!(parts_with(|group| group.producers.message_count = Some(9)), "0123");
    }

    #[test]
    fn destinations_stand_together_that_may_get_the_same_messages() {
        assert_eq!(parts_of(&[group(&["a", "b"], 1), group(&["c", "b", "topic://a"], 1)]), "01210");
        assert_eq!(parts_of(&[group(&["topic://a", "topic://b", "a::q", "c"], 1)]), "0102");
        assert_eq!(parts_of(&[group(&["topic://a", "topic://b.#", "c"], 1)]), "001");
        let exchange = |kind: &str, group: &mut Group| {
            for destination in &mut group.destinations[..3] {
                destination.amqp091.exchange = Some(Exchange::new("x", kind));
            }
        };
        assert_eq!(parts_with(|group| exchange("direct", group)), "0123");
        assert_eq!(parts_with(|group| exchange("topic", group)), "0123");
        assert_eq!(parts_with(|group| exchange("fanout", group)), "0001");
        let one_key = |group: &mut Group| {
            exchange("direct", group);
            group.destinations[2].amqp091.routing_key = Some("a".to_owned());
        };
        assert_eq!(parts_with(one_key), "0102");
        // Not every group says what an exchange is.
        let mut fanout = group(&["e"], 1);
        fanout.destinations[0].amqp091.exchange = Some(Exchange::new("x", "fanout"));
        let mut others = group(&["a", "b", "c"], 1);
        exchange("direct", &mut others);
        assert_eq!(parts_of(&[others, fanout]), "0000");
        let dead = |group: &mut Group| {
            let text = |text: &str| Argument::Text(text.to_owned());
            group.destinations[0].amqp091.arguments.insert("x-dead-letter-exchange".to_owned(), text(""));
            group.destinations[0].amqp091.arguments.insert("x-dead-letter-routing-key".to_owned(), text("d"));
        };
        assert_eq!(parts_with(dead), "0120");
    }

    #[test]
    fn a_share_is_one_of_a_plan_that_is_complete() {
        let plan = Plan { groups: vec![group(&["a", "b"], 1)], ..Plan::default() };
        let of = |worker, workers| plan.clone().divided(Share { worker, workers });
        assert_eq!(of(2, 3).validate(), Ok(()));
        assert_eq!((plan.parts(), of(1, 3).is_idle(), of(2, 3).is_idle(), plan.is_idle()), (2, false, true, false));
        assert!(of(3, 3).validate().unwrap_err().to_string().contains("worker 3 is none of 3"));
        assert!(of(0, 0).validate().is_err());
        let by_hand = Plan { share: Some(Share { worker: 0, workers: 2 }), ..plan.clone() };
        assert!(by_hand.validate().unwrap_err().problem().help.contains("Plan::divided"));
        let mut more = of(0, 2);
        more.groups[0].destinations.push(Destination::queue("c"));
        assert!(more.validate().is_err());
    }
}
