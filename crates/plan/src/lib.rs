//! The resolved description of a load, without a default that is not stated here: who sends to where and when, what is
//! in a message, and what of it makes no sense. Nothing here connects or waits.

mod amqp091;
mod consumers;
mod destination;
mod division;
mod endpoint;
mod error;
mod mqtt;
pub mod payload;
mod producers;
mod random;
mod schedule;
mod sender_clock;
mod sizes;

use std::net::IpAddr;
use std::sync::Arc;

use measure::{Nanos, counted, scatter};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::amqp091::{
    AmqpConsumers, AmqpDestination, AmqpProducers, Argument, Exchange, MessageProperties, QueueType, STREAM_OFFSET,
    StreamOffset,
};
pub use self::consumers::{Ack, Consumers, LatencyStep, Refusal, ServiceTime};
pub use self::destination::{Destination, DestinationKind, Owed, Subscription, TOPIC_EXCHANGE, publishes_to};
pub use self::division::{OwnDestinations, Placement, Share};
pub use self::endpoint::{Auth, ConnectionSettings, Endpoint, FRAME_MAX, Resolver, Token};
pub use self::error::Error;
pub use self::mqtt::{MqttOptions, MqttVersion, client_destination, share_name};
pub use self::producers::{Guarantee, Producers, RandomKeys, StartDelay};
pub use self::random::Random;
pub use self::schedule::{
    ArrivalProcess, ArrivalSchedule, DueTimes, Pacer, RateProfile, Requested, Spacing, Step, Trace, share,
};
pub use self::sender_clock::SenderClock;
pub use self::sizes::{Bodies, Contents, Distribution, Json, SizeStep, Sizes, Stock};
use crate::payload::FULL_LEN;

/// More threads than any machine has cores.
const MOST_THREADS: usize = 1_024;

/// Bytes of the longest selector: it travels in one frame, of which the smallest that may be asked for has 4,096.
const LONGEST_SELECTOR: usize = 2_048;

measure::named! {
    /// The protocol that messages travel by.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Protocol {
        /// AMQP 0.9.1.
        #[default]
        Amqp091 = "amqp091",
        /// AMQP 1.0: RabbitMQ from version 4 on, ActiveMQ Artemis, the embedded broker.
        Amqp10 = "amqp10",
        /// MQTT 5 and 3.1.1: mosquitto, ActiveMQ Artemis, and others that run already.
        Mqtt = "mqtt",
    }
}

/// A whole load: who sends what to where, for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Kinds of clients; each group has its own destinations, rate and endpoint.
    pub groups: Vec<Group>,
    /// Event loops, one thread each; clients are assigned round-robin.
    pub threads: usize,
    /// The lengths of the phases.
    pub phases: Phases,
    /// In every payload of 32 bytes and more, and a mask of shorter ones: tells this run's messages from others'.
    pub run_id: u32,
    /// Messages in the fullest queue before the load. The ledger leaves them out: [`payload::is_prefilled`].
    pub prefilled: u64,
    /// Whether a loop may spin through the last microseconds before a message is due.
    pub spin: Spin,
    /// Keep the ledger: which messages were lost, duplicated, reordered or damaged.
    pub ledger: bool,
    /// Whether consumers of a plan without producers measure how old messages are. Messages that stood on a disk for
    /// days have an age that says nothing, and a clock that may have begun anew since.
    pub measures_age: bool,
    /// Ends the load, beside the phases' lengths and message counts.
    pub stop: Option<StopCondition>,
    /// The worker whose share of the load this is; `None` for all of it. [`Plan::divided`] sets it.
    pub share: Option<Share>,
    /// The clock of those who send to this worker's consumers, where it is another one.
    pub sender_clock: Option<Arc<SenderClock>>,
    /// The longest that any single step beside the load may take (name look-up, connecting, each
    /// answer of the broker, closing), and that the set-up of one of the load's connections may take
    /// in all, for each 128 channels begun: no answer, wanted or not, gives it more time.
    pub timeout: Nanos,
}

impl Default for Plan {
    /// No groups, one thread, [`Phases::default`], and ten seconds of timeout.
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            threads: 1,
            phases: Phases::default(),
            run_id: 0,
            prefilled: 0,
            spin: Spin::Auto,
            ledger: true,
            measures_age: true,
            stop: None,
            share: None,
            sender_clock: None,
            timeout: Nanos(10_000_000_000),
        }
    }
}

/// Condition that ends a load by itself, once producers with a message count have sent all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopCondition {
    /// Nothing was received for a second.
    Idle,
    /// Nothing was received for a second, and every queue that the plan names is empty. They are asked twice a second,
    /// on a connection of its own; exclusive ones cannot be asked.
    Empty,
}

/// The lengths of the phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// Load that counts towards totals, not towards aggregates.
    pub warmup: Nanos,
    /// The measured phase; `None` lasts until the message counts are reached or somebody stops the run.
    pub measure: Option<Nanos>,
    /// The longest wait for confirms and deliveries after the last message was sent.
    pub drain: Nanos,
}

impl Phases {
    /// Phases of these lengths. Zero for `measure`: nothing but a stop or another scenario's end ends it.
    pub fn new(warmup: Nanos, measure: Nanos, drain: Nanos) -> Self {
        Self { warmup, measure: Some(measure).filter(|length| *length > Nanos::ZERO), drain }
    }
}

impl Default for Phases {
    /// No warm-up, measured until stopped, ten seconds to drain.
    fn default() -> Self {
        Self { warmup: Nanos::ZERO, measure: None, drain: Nanos(10_000_000_000) }
    }
}

/// Whether a loop spins through the last microseconds before a message is due: a core for less send delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// Only where a rate is requested and cores are to spare: more than the load's threads and one for the broker.
    #[default]
    Auto,
    /// Wherever a rate is requested.
    Always,
    /// Sleep on a timer only.
    Never,
}

/// Clients of one kind.
#[derive(Clone, Debug)]
pub struct Group {
    /// Where they connect.
    pub endpoint: Endpoint,
    /// The protocol that they speak.
    pub protocol: Protocol,
    /// How they speak it, where it is MQTT.
    pub mqtt: MqttOptions,
    /// Further nodes of the same cluster.
    pub further: Vec<Endpoint>,
    /// How connections are assigned to the nodes, where there are several.
    pub allocation: Allocation,
    /// Positions of the nodes that connections begin on; empty: all. One that is lost goes on to the next of all.
    pub begins_on: Vec<usize>,
    /// Where producers send to and consumers receive from.
    pub destinations: Vec<Destination>,
    /// The sending side; `per_destination: 0` for none.
    pub producers: Producers,
    /// The receiving side; `per_destination: 0` for none.
    pub consumers: Consumers,
    /// Handling of the queues before and after.
    pub queues: QueueHandling,
    /// Addresses of this machine that connections come from, in turn; empty: the system's choice. ~28,000 ports each.
    pub source_addresses: Vec<IpAddr>,
    /// Whether connections that are lost while the load runs reconnect; `None` ends the run.
    pub reconnect: Option<ReconnectPolicy>,
    /// Where producers and consumers run, of several workers.
    pub placement: Placement,
    /// The destinations of a worker's share.
    pub own: OwnDestinations,
}

/// How connections are assigned to the nodes of a cluster. One that is lost reconnects to the next node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// In turn.
    #[default]
    RoundRobin,
    /// At random, the same for the same run.
    Random,
}

/// How long a client waits before it connects again: a random time between the two each time, so that many do not come
/// at once. It tries until the load ends. Messages that were not confirmed are sent again where [`Producers::resend`]
/// asks for it; what became due meanwhile is sent as soon as possible and keeps its intended time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconnectPolicy {
    /// The shortest wait.
    pub min: Nanos,
    /// The longest wait.
    pub max: Nanos,
}

impl ReconnectPolicy {
    /// A wait for the `attempt`-th time that this `client` tries.
    pub fn wait(self, client: u64, attempt: u64) -> Nanos {
        let span = self.max.0.saturating_sub(self.min.0).saturating_add(1);
        Nanos(self.min.0 + scatter(client.rotate_left(32) ^ attempt) % span)
    }
}

impl Group {
    /// A group without clients, to be filled in.
    pub fn new(endpoint: Endpoint, destinations: Vec<Destination>) -> Self {
        Self {
            endpoint,
            protocol: Protocol::default(),
            mqtt: MqttOptions::default(),
            further: Vec::new(),
            allocation: Allocation::default(),
            begins_on: Vec::new(),
            destinations,
            producers: Producers { per_destination: 0, ..Producers::default() },
            consumers: Consumers { per_destination: 0, ..Consumers::default() },
            queues: QueueHandling::default(),
            source_addresses: Vec::new(),
            reconnect: None,
            placement: Placement::default(),
            own: OwnDestinations::default(),
        }
    }

    /// Producers of the whole group.
    pub fn producer_count(&self) -> usize {
        let each = self.producers.per_destination * self.destinations.len();
        self.producers.total.unwrap_or(each)
    }

    /// Consumers of the whole group.
    pub fn consumer_count(&self) -> usize {
        let shared = self.consumers.subscription.as_ref().map_or(0, |it| it.shared);
        let each = self.consumers.per_destination * shared.max(1) * self.destinations.len();
        self.consumers.total.unwrap_or(each)
    }

    /// Connections of the group that are this worker's.
    fn connection_count(&self) -> usize {
        let (producers, consumers) = (self.producer_count(), self.consumer_count());
        let producing = self.producers.connections.unwrap_or(producers).min(producers);
        let consuming = self.consumer_connections().unwrap_or(consumers).min(consumers);
        self.own_producing(producing).chain(self.own_consuming(consuming)).count()
    }

    /// Connections that consumers share. An exclusive queue's must have the same.
    pub fn consumer_connections(&self) -> Option<usize> {
        let each_queue = self.has_exclusive().then_some(self.destinations.len());
        self.consumers.connections.or(each_queue)
    }

    /// Whether some queues are their consumers' alone.
    pub fn has_exclusive(&self) -> bool {
        self.destinations.iter().any(|queue| queue.exclusive)
    }

    fn validate_exclusive(&self) -> Result<(), Error> {
        let queues = self.destinations.len();
        match self.consumers.connections {
            Some(n) if self.has_exclusive() && self.consumer_count() > queues && !queues.is_multiple_of(n) => {
                let cause = format!(
                    "consumers on {} cannot share {}: each belongs to one connection",
                    counted(n as u64, "connection"),
                    counted(queues as u64, "exclusive queue")
                );
                let help = "leave the number of consumers' connections out";
                Err(Error::invalid(cause, help).observed(n).about("consumer-connections"))
            }
            _ => Ok(()),
        }
    }
}

/// Handling of queues before and after the load. Topics have no queue of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueHandling {
    /// Whether queues and exchanges are declared before the load.
    pub declare: Declare,
    /// Empty queues before the load (streams cannot be emptied, and are left as they are).
    pub purge: bool,
    /// Delete queues after the load, with what is in them.
    pub delete: bool,
}

/// Whether queues and exchanges are declared before the load; written as `true`, `false` or `"if-missing"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Declare {
    /// All of them: those that exist must have the same properties.
    #[default]
    Always,
    /// Those that do not exist; others are taken as they are.
    IfMissing,
    /// None: they must exist.
    Never,
}

impl Serialize for Declare {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Always => serializer.serialize_bool(true),
            Self::IfMissing => serializer.serialize_str("if-missing"),
            Self::Never => serializer.serialize_bool(false),
        }
    }
}

impl<'de> Deserialize<'de> for Declare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Flag(bool),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Flag(true) => Ok(Self::Always),
            Written::Flag(false) => Ok(Self::Never),
            Written::Text(text) if text == "if-missing" => Ok(Self::IfMissing),
            Written::Text(text) => {
                Err(D::Error::custom(format!("declare = {text:?} is none of true, false and \"if-missing\"")))
            }
        }
    }
}

impl Plan {
    /// Bytes of the shortest header that its messages have.
    pub fn least_header(&self) -> usize {
        let of_group = |group: &Group| match group.producers.has_trace_header() {
            true => FULL_LEN,
            false => group.producers.size_range().0.min(FULL_LEN),
        };
        self.senders().map(of_group).min().unwrap_or(FULL_LEN)
    }

    /// Requested rate of this worker's producers in all groups; `None` as soon as one group of them has no schedule or
    /// nobody sends. Errors: [`Error::Invalid`] for a schedule that cannot be kept.
    pub fn requested(&self) -> Result<Option<Requested>, Error> {
        let mut requested = None;
        let mut next_id = 0;
        for group in self.senders() {
            let (first_id, count) = (next_id, group.producer_count());
            next_id += count as u32;
            let own = group.own_producers().count();
            if own == 0 {
                continue;
            }
            let ArrivalProcess::Scheduled(schedule) = &group.producers.arrivals else { return Ok(None) };
            let delays = group.producers.start_delay.map_or_else(Vec::new, |delay| {
                let ids = group.own_producers().map(|at| first_id + at as u32);
                ids.map(|id| delay.of(id)).collect()
            });
            let part = own as f64 / count as f64;
            let pacer = schedule.pacer(count as u64)?;
            requested.get_or_insert_with(Requested::default).add(pacer, part, group.own_message_count(), delays);
        }
        Ok(requested)
    }

    /// Whether some producers wait for an answer before they go on.
    pub fn is_closed_loop(&self) -> bool {
        self.senders().any(|group| matches!(group.producers.arrivals, ArrivalProcess::ThinkTime(_)))
    }

    /// The groups that send.
    pub fn senders(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| group.producer_count() > 0)
    }

    /// Whether all that send do so as fast as it goes.
    pub fn is_unthrottled(&self) -> bool {
        self.senders().all(|group| group.producers.arrivals.is_unthrottled())
    }

    /// Whether some consumers take only what a selector names; which messages those are only the broker knows.
    pub fn has_selectors(&self) -> bool {
        self.groups.iter().any(|group| group.consumer_count() > 0 && group.consumers.selector.is_some())
    }

    /// Connections that the load opens here, beside one that comes and goes before and after it.
    pub fn connection_count(&self) -> usize {
        self.groups.iter().map(Group::connection_count).sum()
    }

    /// Finds what no protocol can do. Errors: [`Error::Invalid`] with the observed value and what would do.
    pub fn validate(&self) -> Result<(), Error> {
        let cause = format!("{} threads cannot carry a load", self.threads);
        let help = format!("ask for 1 to {MOST_THREADS}; one per core is the most that helps");
        let refused = Error::invalid(cause, help).observed(self.threads).about("threads");
        refused.unless((1..=MOST_THREADS).contains(&self.threads))?;
        let has_clients = self.groups.iter().any(|group| group.producer_count() + group.consumer_count() > 0);
        let help = "ask for at least one of them and one destination";
        Error::invalid("there is neither a producer nor a consumer", help).unless(has_clients)?;
        let count = self.groups.len();
        let refused = Error::invalid(format!("{count} groups are too many"), "describe equal clients as one group");
        refused.observed(count).unless(count < usize::from(u16::MAX))?;
        self.groups.iter().try_for_each(|group| group.endpoint.check_login(group.protocol))?;
        self.validate_share()?;
        self.validate_placement()?;
        let mut groups = self.groups.iter().enumerate();
        groups.try_for_each(|(i, group)| {
            let checked = group.validate(self.ledger).and_then(|()| group.validate_selector());
            checked.map_err(|error| error.in_group(i))
        })
    }
}

impl Group {
    fn validate_sources(&self) -> Result<(), Error> {
        let sources = &self.source_addresses;
        let four = sources.iter().find(|source| source.is_ipv4());
        let six = sources.iter().find(|source| source.is_ipv6());
        let (Some(four), Some(six)) = (four, six) else { return Ok(()) };
        let cause = format!("the source addresses {four} and {six} cannot reach the same broker");
        let help = "give addresses of one kind: IPv4 or IPv6";
        Err(Error::invalid(cause, help).observed(format_args!("{four} and {six}")).about("source-addresses"))
    }

    fn validate_selector(&self) -> Result<(), Error> {
        let Some(selector) = self.consumers.selector.as_ref().filter(|_| self.consumer_count() > 0) else {
            return Ok(());
        };
        let help = "leave {selector} out, or load with {protocol} amqp10";
        let refused = Error::invalid("only AMQP 1.0 has selectors", help).about("selector");
        refused.unless(self.protocol == Protocol::Amqp10)?;
        let len = selector.len();
        let cause = format!("a selector of {} is not between 1 and {LONGEST_SELECTOR}", counted(len as u64, "byte"));
        let refused = Error::invalid(cause, "give an expression such as region = 'EU'").observed(len);
        refused.about("selector").unless((1..=LONGEST_SELECTOR).contains(&len))
    }

    fn validate(&self, ledger: bool) -> Result<(), Error> {
        if self.producer_count() > 0 {
            self.producers.validate(self.producer_count() as u64, ledger)?;
            self.producers.validate_resend(self.reconnect.is_some())?;
        }
        self.validate_sources()?;
        mqtt::validate(self)?;
        self.validate_subscription()?;
        self.validate_exclusive()?;
        if self.consumer_count() > 0 {
            self.consumers.validate()?;
        }
        let is_fine = !self.destinations.is_empty() || self.producer_count() + self.consumer_count() == 0;
        let cause = "a group of producers and consumers has no destination";
        Error::invalid(cause, "name at least one").about("destinations").unless(is_fine)
    }
}
