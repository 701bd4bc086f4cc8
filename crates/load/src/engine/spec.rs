//! Connections and their producers and consumers, as they are assigned to event loops.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use measure::Metric;

use super::consumer::ConsumerSpec;
use super::producer::{ProducerSpec, ResolvedArrivals};
use crate::protocol::ConnectionSpec;
use crate::resolve::Nodes;
use crate::{Destination, Endpoint, Guarantee, ReconnectPolicy};

/// Within what a queue's name means one queue. The nodes of a cluster are one, as far as they say what it is called.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// Empty where the broker has not said.
    name: String,
    address: SocketAddr,
    virtual_host: String,
}

impl Cluster {
    /// The broker that answered at this address; `name` is empty where it has not said.
    pub(crate) fn new(endpoint: &Endpoint, address: SocketAddr, name: String) -> Self {
        Self { name, address, virtual_host: endpoint.virtual_host.clone() }
    }

    /// Whether the two are one, as far as can be told.
    pub(super) fn is(&self, other: &Self) -> bool {
        let names = !self.name.is_empty() && self.name == other.name;
        self.virtual_host == other.virtual_host && (names || self.address == other.address)
    }

    /// Whether the two may as well be independent brokers that were set up alike.
    pub(super) fn only_seems(&self, other: &Self) -> bool {
        self.is(other) && self.address != other.address
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// One connection, and who shares it.
#[derive(Clone, Debug)]
pub(crate) struct ClientSpec<S> {
    /// The nodes that it may connect to, and the first that it does.
    pub(crate) nodes: Nodes,
    pub(crate) node: usize,
    /// Which connection to that node it is, so that they spread over its addresses.
    pub(crate) index: usize,
    pub(crate) source: Option<IpAddr>,
    /// Whose it is, by its position in the plan.
    pub(crate) group: usize,
    /// Which of the plan's brokers that is: the first group there.
    pub(crate) cluster: usize,
    /// Its clients stand in the order of `participants`.
    pub(crate) connection: ConnectionSpec<S>,
    pub(crate) participants: Vec<ParticipantSpec>,
    pub(crate) reconnect: Option<ReconnectPolicy>,
    /// Bytes that each of its buffers may take before they are needed.
    pub(crate) room: usize,
    /// Whether it runs here: others are known for whose messages these are.
    pub(crate) is_own: bool,
}

/// One producer or consumer.
#[derive(Clone, Debug)]
pub(crate) struct ParticipantSpec {
    pub(crate) kind: ParticipantKind,
    pub(crate) destination: Destination,
    /// The queue of the shared subscription that a topic's consumer takes part in.
    pub(crate) share: Option<String>,
    /// The queue that it receives from, where others may receive from it, too.
    pub(crate) queue: Option<String>,
}

impl ParticipantSpec {
    pub(super) const fn producer(&self) -> Option<&ProducerSpec> {
        match &self.kind {
            ParticipantKind::Producer(producer) => Some(producer),
            ParticipantKind::Consumer(_) => None,
        }
    }

    pub(super) const fn consumer(&self) -> Option<&ConsumerSpec> {
        match &self.kind {
            ParticipantKind::Producer(_) => None,
            ParticipantKind::Consumer(consumer) => Some(consumer),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum ParticipantKind {
    Producer(ProducerSpec),
    Consumer(ConsumerSpec),
}

/// Metrics that these clients will record, so that memory can be had before the load begins.
pub(crate) fn recorded_metrics<S>(clients: &[ClientSpec<S>]) -> Vec<Metric> {
    let participants = || clients.iter().flat_map(|client| &client.participants);
    let producers = || participants().filter_map(ParticipantSpec::producer);
    let mut metrics = Vec::new();
    if producers().any(|it| !matches!(it.arrivals, ResolvedArrivals::Unthrottled)) {
        metrics.push(Metric::SEND_DELAY);
    }
    if producers().any(|it| it.guarantee != Guarantee::Unconfirmed) {
        metrics.extend([Metric::SEND_ACK, Metric::ACK_RESPONSE]);
    }
    if participants().any(|it| it.consumer().is_some()) {
        metrics.extend([Metric::END_TO_END, Metric::TRANSFER]);
    }
    metrics
}
