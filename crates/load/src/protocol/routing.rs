//! Who gets whose messages: exchanges, routing keys and bindings, from the plan alone.

use std::collections::{HashMap, HashSet};

use wire::topic::{TopicPatterns, has_wildcards};

use crate::{AmqpDestination, Destination, DestinationKind, Group, Protocol, QueueType};
use plan::{TOPIC_EXCHANGE, publishes_to};

/// A destination that a plan names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    /// Within what a name means one queue.
    pub(crate) cluster: usize,
    pub(crate) destination: &'a Destination,
    pub(crate) consumes: bool,
    /// Whether its group declares it, and binds it where it is to be bound.
    pub(crate) declares: bool,
}

/// The destination of a group's `n`-th consumer.
pub(super) fn destination_of(group: &Group, n: usize) -> &Destination {
    &group.destinations[n % group.destinations.len()]
}

/// The queue that a group's `n`-th consumer receives from; `None` where the broker names one for it alone.
pub(super) fn named_queue(group: &Group, n: usize) -> Option<String> {
    let destination = destination_of(group, n);
    match (destination.kind, &group.consumers.subscription) {
        (DestinationKind::Queue, _) => Some(destination.name.clone()),
        (DestinationKind::Topic, Some(it)) => Some(it.queue(&destination.name, it.of(n / group.destinations.len()))),
        (DestinationKind::Topic, None) => None,
    }
}

/// The queue that a group's `n`-th consumer shares with others, who take what it does not; `None` where what it gets is
/// its own, and over MQTT, where nobody can ask. A stream keeps what it has given to one.
pub(crate) fn queue_of(group: &Group, n: usize) -> Option<String> {
    let is_stream = destination_of(group, n).amqp091.queue_type == QueueType::Stream;
    named_queue(group, n).filter(|_| !is_stream && group.protocol != Protocol::Mqtt)
}

/// The routing key by which the queue is bound to its exchange, where it is.
pub(super) fn binding(destination: &Destination) -> Option<&str> {
    let (exchange, key) = publishes_to(destination);
    let is_queue = destination.kind == DestinationKind::Queue;
    (is_queue && destination.amqp091.bind && !exchange.is_empty()).then_some(key)
}

/// Whether the queue survives a restart of the broker.
pub(super) const fn is_durable(options: &AmqpDestination) -> bool {
    options.durable || !matches!(options.queue_type, QueueType::Classic)
}

/// Where messages are published to, or what a queue is bound to: messages published to equal addresses reach the same
/// receivers. Exchanges that look at no routing key have one address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExchangeKey {
    cluster: usize,
    exchange: String,
    key: String,
    /// Whether the exchange is one that looks for patterns.
    is_topic: bool,
}

impl ExchangeKey {
    /// Whether it takes what is published to other addresses than itself.
    pub(crate) fn is_pattern(&self) -> bool {
        self.is_topic && has_wildcards(&self.key)
    }

    /// Tells of each address whether this pattern takes what is published there.
    pub(crate) fn takes(&self) -> impl Fn(&Self) -> bool {
        let mut patterns = TopicPatterns::default();
        patterns.insert(&self.key, ());
        move |published| {
            let here = (self.cluster, &self.exchange) == (published.cluster, &published.exchange);
            here && patterns.matches(&published.key)
        }
    }
}

/// The exchanges and bindings of a plan.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// Types of the exchanges: not every group says it, but one does.
    kinds: HashMap<(usize, String), String>,
    /// Why the plan does not tell who gets whose messages, where it does not: a plugin decides it, or others do.
    pub(crate) unknown: Option<String>,
    /// Exchanges to which a queue that is consumed from was bound by somebody else.
    bound_by_others: HashSet<(usize, String)>,
    queues: HashMap<(usize, String), Vec<ExchangeKey>>,
}

impl Topology {
    /// That of all destinations of a plan.
    pub(crate) fn new<'a>(named: impl Iterator<Item = Named<'a>> + Clone) -> Self {
        let mut topology = Self::default();
        for named in named.clone() {
            let exchange = publishes_to(named.destination).0.to_owned();
            let given = kind(named.destination);
            let kind = topology.kinds.entry((named.cluster, exchange)).or_insert_with(|| given.to_owned());
            // Direct is also what an exchange is where nothing is said.
            if kind == "direct" && given != "direct" {
                given.clone_into(kind);
            }
        }
        topology.bound_by_others = bound_by_others(named.clone());
        for named in named {
            if !named.consumes && topology.unknown.is_none() {
                topology.unknown = topology.unknown_kind(&named);
            }
            topology.add_bindings(&named);
        }
        topology
    }

    /// Address that a producer publishes to; `random` stands for its routing keys where each message has its own.
    pub(crate) fn published(&self, cluster: usize, destination: &Destination, random: Option<String>) -> ExchangeKey {
        let mut address = self.address(cluster, destination);
        // All random keys are one word that no pattern spells out: one stands for all.
        if let Some(key) = random.filter(|_| address.is_topic) {
            address.key = key;
        }
        address
    }

    /// Addresses that a consumer at this destination receives from.
    pub(crate) fn bindings(&self, cluster: usize, destination: &Destination) -> Vec<ExchangeKey> {
        match destination.kind {
            DestinationKind::Topic => vec![self.address(cluster, destination)],
            DestinationKind::Queue => {
                self.queues.get(&(cluster, destination.name.clone())).cloned().unwrap_or_default()
            }
        }
    }

    /// Whether every consumer of a destination gets every message, unless it shares a subscription.
    pub(crate) fn everyone_gets_all(destination: &Destination) -> bool {
        destination.kind == DestinationKind::Topic || destination.amqp091.queue_type == QueueType::Stream
    }

    /// Notes what a queue is bound to. Those of topics are each consumer's own.
    fn add_bindings(&mut self, named: &Named<'_>) {
        let (cluster, destination) = (named.cluster, named.destination);
        if destination.kind == DestinationKind::Topic {
            return;
        }
        let address = self.address(cluster, destination);
        let bindings = self.queues.entry((cluster, destination.name.clone())).or_insert_with(|| {
            // Every queue is bound to the default exchange by its name.
            vec![ExchangeKey { cluster, exchange: String::new(), key: destination.name.clone(), is_topic: false }]
        });
        // Whoever consumes relies on the binding, also where somebody else has made it.
        if (named.consumes || binding(destination).is_some()) && !bindings.contains(&address) {
            bindings.push(address);
        }
    }

    /// Why nobody can tell who gets what is published here, where a plugin decides about it.
    fn unknown_kind(&self, named: &Named<'_>) -> Option<String> {
        let exchange = publishes_to(named.destination).0;
        let key = (named.cluster, exchange.to_owned());
        let kind = self.kinds.get(&key)?;
        match kind.as_str() {
            "direct" | "fanout" | "topic" => None,
            // Bindings of our own have no arguments, and match every message.
            "headers" if !self.bound_by_others.contains(&key) => None,
            "headers" => Some(format!(
                "bindings of others to the headers exchange {exchange:?} decide which queues get a message"
            )),
            _ => Some(format!("the type {kind:?} of exchange {exchange:?} decides which queues get a message")),
        }
    }

    /// Equal addresses reach equal queues.
    fn address(&self, cluster: usize, destination: &Destination) -> ExchangeKey {
        let (exchange, key) = publishes_to(destination);
        let exchange = (cluster, exchange.to_owned());
        let kind = self.kinds.get(&exchange).map_or("direct", String::as_str);
        let key = match kind {
            "fanout" | "headers" => "",
            _ => key,
        };
        ExchangeKey { is_topic: kind == "topic", cluster, exchange: exchange.1, key: key.to_owned() }
    }
}

/// The exchanges to which queues that the plan consumes from are bound, and not by the plan.
fn bound_by_others<'a>(named: impl Iterator<Item = Named<'a>> + Clone) -> HashSet<(usize, String)> {
    let of = |named: &Named<'a>| {
        let exchange = publishes_to(named.destination).0;
        (named.cluster, exchange, named.destination.name.as_str())
    };
    let ours = named.clone().filter(|it| it.declares && binding(it.destination).is_some());
    let ours: HashSet<_> = ours.map(|it| of(&it)).collect();
    // A consumer binds what is its own.
    let relies = |it: &Named<'a>| {
        let destination = it.destination;
        it.consumes && destination.kind == DestinationKind::Queue && !destination.exclusive
    };
    let others = named.filter(relies).map(|it| of(&it)).filter(|it| !ours.contains(it));
    others.map(|(cluster, exchange, _)| (cluster, exchange.to_owned())).collect()
}

/// Type of the exchange that the destination publishes to, as it says. Every broker has some of its own.
fn kind(destination: &Destination) -> &str {
    let given = destination.amqp091.exchange.as_ref();
    match publishes_to(destination).0 {
        "" | "amq.direct" => "direct",
        TOPIC_EXCHANGE => "topic",
        "amq.fanout" => "fanout",
        "amq.headers" | "amq.match" => "headers",
        _ => given.map_or("direct", |exchange| exchange.kind.as_str()),
    }
}
