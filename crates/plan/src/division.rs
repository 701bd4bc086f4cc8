//! A worker's share of a load, where several carry it together.
//!
//! A load divides into *parts*: destinations that may get the same messages, or whose clients share connections or a
//! count of deliveries, with all their producers and consumers. Parts are numbered in the order of the plan, and part
//! `n` is that of worker `n mod W`; of one that is [spread](Placement::Spread), its consumers are those of the worker
//! after that. Every number (producers, positions, due times, connections, nodes) stays that of the whole plan, so that
//! all shares together are the load of one process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use measure::Nanos;
use serde::{Deserialize, Serialize};

use super::{Argument, Destination, Error, Group, Guarantee, Owed, Plan, publishes_to, share};

/// One of the workers that carry a load together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which of them it is, from 0.
    pub worker: u32,
    /// How many there are.
    pub workers: u32,
}

/// Where the producers and the consumers of a destination run, of several workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On one worker.
    #[default]
    Together,
    /// Producers on one worker, consumers on the next one.
    Spread,
}

/// The sides of a destination that are a worker's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OwnSides {
    producers: bool,
    consumers: bool,
}

/// Which of a group's destinations are this worker's: all of them, unless [`Plan::divided`] says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnDestinations(Option<Arc<[OwnSides]>>);

impl OwnDestinations {
    fn sides(&self, destination: usize) -> OwnSides {
        let all = OwnSides { producers: true, consumers: true };
        self.0.as_ref().map_or(all, |own| own.get(destination).copied().unwrap_or_default())
    }

    fn has(&self, destination: usize) -> bool {
        let own = self.sides(destination);
        own.producers || own.consumers
    }
}

impl Plan {
    /// This plan, of which a worker carries its share. Destinations, clients and connections must not change any more.
    #[must_use]
    pub fn divided(mut self, share: Share) -> Self {
        let parts = parts(&self.groups);
        let places = self.groups.iter().flat_map(|group| group.destinations.iter().map(|_| group.placement));
        let spread = parts.iter().zip(places).filter(|(_, place)| *place == Placement::Spread);
        let spread: HashSet<usize> = spread.map(|(part, _)| *part).collect();
        let is_own = |part: usize| part.checked_rem(share.workers as usize) == Some(share.worker as usize);
        let mut parts = parts.iter().map(|part| OwnSides {
            producers: is_own(*part),
            consumers: is_own(part + usize::from(spread.contains(part))),
        });
        for group in &mut self.groups {
            let own = parts.by_ref().take(group.destinations.len()).collect();
            group.own = OwnDestinations(Some(own));
        }
        self.share = Some(share);
        self
    }

    /// Whether producers and consumers of some destinations run on different workers.
    pub fn is_spread(&self) -> bool {
        let is_spread = |group: &Group| group.placement == Placement::Spread;
        self.share.is_some_and(|share| share.workers > 1) && self.groups.iter().any(is_spread)
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

    /// Refuses to spread what needs both sides in one process, or would.
    pub(super) fn validate_placement(&self) -> Result<(), Error> {
        let mut groups = self.groups.iter().enumerate();
        let Some((at, group)) = groups.find(|(_, group)| group.placement == Placement::Spread) else { return Ok(()) };
        let is_elsewhere = self.groups.iter().any(|it| !it.endpoint.is_at(&group.endpoint));
        let is_late = group.consumers.start_after.0.max(group.consumers.apart.0) > Nanos::ZERO;
        let begins_later = group.destinations.iter().any(|it| group.owed(it, is_late) != Owed::All);
        let refused = [
            (group.producers.guarantee == Guarantee::Replies, "requests, which the group's own consumers answer"),
            (group.has_exclusive(), "exclusive queues, which are their consumers' alone"),
            (begins_later && group.consumer_count() > 0, "streams that are not read from their first message on"),
            (is_elsewhere, "loads on several brokers"),
        ];
        let refuse = |what: &str| {
            let help = "leave {place} out, so that producers and their consumers stand on one worker";
            Error::invalid(format!("no fleet spreads {what}"), help).observed("spread").about("place").in_group(at)
        };
        refused.iter().try_for_each(|(is_asked, what)| refuse(what).unless(!is_asked))
    }
}

impl Group {
    /// The destinations with clients of this worker, each with its position: it prepares them.
    pub fn own_destinations(&self) -> impl Iterator<Item = (usize, &Destination)> {
        self.destinations.iter().enumerate().filter(|(at, _)| self.own.has(*at))
    }

    /// The destinations whose consumers are this worker's: it empties and deletes them, and asks what is in them.
    pub fn consumed_destinations(&self) -> impl Iterator<Item = (usize, &Destination)> {
        self.destinations.iter().enumerate().filter(|(at, _)| self.own.sides(*at).consumers)
    }

    /// Positions of the producers that are this worker's.
    pub fn own_producers(&self) -> impl Iterator<Item = usize> {
        self.own_producing(self.producer_count())
    }

    /// Positions of the consumers that are this worker's.
    pub fn own_consumers(&self) -> impl Iterator<Item = usize> {
        self.own_consuming(self.consumer_count())
    }

    /// Positions of the clients of one side, of this many, at destinations with clients of this worker.
    pub fn known_among(&self, count: usize) -> impl Iterator<Item = usize> {
        let destinations = self.destinations.len().max(1);
        (0..count).filter(move |n| self.own.has(n % destinations))
    }

    /// Whether the producer, or connection of producers, at this position is this worker's.
    pub fn is_own_producer(&self, n: usize) -> bool {
        self.own.sides(n % self.destinations.len().max(1)).producers
    }

    /// Whether the consumer, or connection of consumers, at this position is this worker's.
    pub fn is_own_consumer(&self, n: usize) -> bool {
        self.own.sides(n % self.destinations.len().max(1)).consumers
    }

    /// Of this many producers or their connections, which go to the destinations in turn, this worker's.
    pub(super) fn own_producing(&self, count: usize) -> impl Iterator<Item = usize> {
        (0..count).filter(move |n| self.is_own_producer(*n))
    }

    /// Of this many consumers or their connections, which go to the destinations in turn, this worker's.
    pub(super) fn own_consuming(&self, count: usize) -> impl Iterator<Item = usize> {
        (0..count).filter(move |n| self.is_own_consumer(*n))
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
        ("amq.topic", _) | (_, "topic") => !is_pattern(key),
        ("amq.fanout" | "amq.headers" | "amq.match", _) => false,
        (_, kind) => kind == "direct",
    }
}

/// Whether a routing key, or a topic of MQTT, may stand for others.
fn is_pattern(key: &str) -> bool {
    key.contains(['*', '#', '+']) || key.contains("%i") || key.starts_with("$share/")
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
        assert_eq!(parts_of(&[group(&["topic://a/%i", "queue://c", "topic://a/+"], 1)]), "010");
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
    fn a_part_that_is_spread_has_its_consumers_on_the_next_worker() {
        let mut spread = group(&["a", "b", "c"], 1);
        spread.placement = Placement::Spread;
        // Who shares a queue with these is spread, too.
        let plan = Plan { groups: vec![spread, group(&["c", "d"], 1)], ..Plan::default() };
        let of = |worker, workers| {
            let plan = plan.clone().divided(Share { worker, workers });
            let own = |group: &Group| (group.own_producers().collect(), group.own_consumers().collect());
            plan.groups.iter().map(own).collect::<Vec<(Vec<usize>, Vec<usize>)>>()
        };
        assert_eq!(of(0, 2), [(vec![0, 2], vec![1]), (vec![0], vec![])]);
        assert_eq!(of(1, 2), [(vec![1], vec![0, 2]), (vec![1], vec![0, 1])]);
        assert_eq!(of(3, 4), [(vec![], vec![2]), (vec![1], vec![0, 1])]);
        assert_eq!(of(0, 1), [(vec![0, 1, 2], vec![0, 1, 2]), (vec![0, 1], vec![0, 1])]);
        let mut asking = plan.clone();
        assert_eq!((asking.validate(), asking.is_spread()), (Ok(()), false));
        asking.groups[0].producers.guarantee = Guarantee::Replies;
        assert!(asking.validate().unwrap_err().to_string().contains("no fleet spreads requests"));
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
