//! What to do: the resolved description of one load, without a default that is not stated here.

use std::sync::Arc;

use measure::Nanos;

use crate::random::{Random, scatter};
use crate::sizes::check_range;
use crate::{Endpoint, Error, Pace, Requested, Shape, Sizes, Trace};

/// A whole load: who sends what to where, for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Kinds of clients; each group has its own destinations, rate and endpoint.
    pub groups: Vec<Group>,
    /// Event loops, one thread each; clients are dealt out round-robin.
    pub threads: usize,
    /// The lengths of the phases.
    pub phases: Phases,
    /// Written into every payload of 32 bytes and more, so that a consumer tells this run's
    /// messages from an earlier run's.
    pub run_id: u32,
    /// Whether a loop may spin through the last microseconds before a message is due.
    pub spin: Spin,
    /// Keep the ledger: which messages were lost, duplicated, reordered or damaged.
    pub ledger: bool,
    /// The longest that any single step of setting up or closing may take (name look-up,
    /// connecting, each answer of the broker).
    pub patience: Nanos,
}

impl Default for Plan {
    /// No groups, one thread, [`Phases::default`], and ten seconds of patience.
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            threads: 1,
            phases: Phases::default(),
            run_id: 0,
            spin: Spin::Auto,
            ledger: true,
            patience: Nanos(10_000_000_000),
        }
    }
}

/// The lengths of the phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// Load that counts towards totals, not towards aggregates.
    pub warmup: Nanos,
    /// The measured phase; `None` lasts until the message counts are reached or [`crate::Control`]
    /// stops the run.
    pub measure: Option<Nanos>,
    /// The longest wait for confirms and deliveries after the last message was sent.
    pub drain: Nanos,
}

impl Default for Phases {
    /// No warm-up, measured until stopped, ten seconds to drain.
    fn default() -> Self {
        Self {
            warmup: Nanos::ZERO,
            measure: None,
            drain: Nanos(10_000_000_000),
        }
    }
}

/// Whether a loop spins through the last microseconds before a message is due, which trades a
/// core for microseconds of send delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// Only where a rate is asked for and the machine has cores to spare: more than the load's
    /// threads and one for the broker.
    #[default]
    Auto,
    /// Wherever a rate is asked for.
    Always,
    /// Sleep on a timer only.
    Never,
}

/// Clients of one kind.
#[derive(Clone, Debug)]
pub struct Group {
    /// Where they connect.
    pub endpoint: Endpoint,
    /// Where producers send to and consumers receive from.
    pub destinations: Vec<Destination>,
    /// The sending side; `per_destination: 0` for none.
    pub producers: Producers,
    /// The receiving side; `per_destination: 0` for none.
    pub consumers: Consumers,
    /// What happens to the queues before and after.
    pub queues: QueueHandling,
    /// Whether connections that are lost while the load runs are made anew; `None` ends the run.
    pub recovery: Option<Recovery>,
}

/// How long a client waits before it connects again: each time anew by chance between the two, so
/// that many do not come at once. It tries until the load ends. Messages that were not confirmed
/// stay unconfirmed and are not sent again; what became due meanwhile is sent as soon as possible
/// and keeps its intended time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The shortest wait.
    pub min: Nanos,
    /// The longest wait.
    pub max: Nanos,
}

impl Recovery {
    /// A wait for the `attempt`-th time that this `client` tries.
    pub(crate) fn wait(self, client: u64, attempt: u64) -> Nanos {
        let span = self.max.0.saturating_sub(self.min.0).saturating_add(1);
        Nanos(self.min.0 + scatter(client.rotate_left(32) ^ attempt) % span)
    }
}

impl Group {
    /// A group without clients, to be filled in.
    #[must_use]
    pub fn new(endpoint: Endpoint, destinations: Vec<Destination>) -> Self {
        Self {
            endpoint,
            destinations,
            producers: Producers {
                per_destination: 0,
                ..Producers::default()
            },
            consumers: Consumers {
                per_destination: 0,
                ..Consumers::default()
            },
            queues: QueueHandling::default(),
            recovery: None,
        }
    }

    /// Producers of the whole group.
    #[must_use]
    pub fn producer_count(&self) -> usize {
        self.producers.per_destination * self.destinations.len()
    }

    /// Consumers of the whole group.
    #[must_use]
    pub fn consumer_count(&self) -> usize {
        self.consumers.per_destination * self.destinations.len()
    }
}

/// What happens to queues before and after the load. Topics have no queue of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueHandling {
    /// Declare them before the load; otherwise they must exist.
    pub declare: bool,
    /// Empty them before the load (streams cannot be emptied and are left as they are).
    pub purge: bool,
    /// Delete them after the load, with what is in them.
    pub delete: bool,
}

impl Default for QueueHandling {
    /// Declared, neither emptied nor deleted.
    fn default() -> Self {
        Self {
            declare: true,
            purge: false,
            delete: false,
        }
    }
}

/// One address.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// Queue or topic.
    pub kind: DestinationKind,
    /// The queue's name, or the routing key under `amq.topic`.
    pub name: String,
    /// The type of queue that is declared; topics accept [`QueueType::Classic`] only.
    pub queue_type: QueueType,
    /// Whether a classic queue survives a restart; quorum queues and streams always do.
    pub durable: bool,
    /// Further arguments of the declaration, such as `x-max-length`.
    pub arguments: Vec<(String, Argument)>,
}

impl Destination {
    /// A classic, transient queue.
    #[must_use]
    pub fn queue(name: impl Into<String>) -> Self {
        Self {
            kind: DestinationKind::Queue,
            name: name.into(),
            queue_type: QueueType::Classic,
            durable: false,
            arguments: Vec::new(),
        }
    }

    /// A topic.
    #[must_use]
    pub fn topic(name: impl Into<String>) -> Self {
        Self {
            kind: DestinationKind::Topic,
            ..Self::queue(name)
        }
    }

    /// Reads `queue://NAME`, `topic://NAME` or a bare `NAME`, which is a queue.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another scheme or an empty name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let destination = match text.split_once("://") {
            None => Self::queue(text),
            Some(("queue", name)) => Self::queue(name),
            Some(("topic", name)) => Self::topic(name),
            Some((scheme, _)) => {
                return Err(Error::invalid(
                    format!("destination {text:?} has the unknown kind {scheme:?}"),
                    "write queue://NAME or topic://NAME",
                ));
            }
        };
        if destination.name.is_empty() {
            return Err(Error::invalid(
                format!("destination {text:?} has no name"),
                "write queue://NAME or topic://NAME",
            ));
        }
        Ok(destination)
    }

    /// Whether the queue survives a restart of the broker.
    #[must_use]
    pub const fn is_durable(&self) -> bool {
        self.durable || !matches!(self.queue_type, QueueType::Classic)
    }
}

/// `queue://NAME` or `topic://NAME`, as Artemis perf writes them.
impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = match self.kind {
            DestinationKind::Queue => "queue",
            DestinationKind::Topic => "topic",
        };
        write!(f, "{scheme}://{}", self.name)
    }
}

/// How a destination distributes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationKind {
    /// A queue, addressed over the default exchange: each message goes to one of its consumers
    /// (a stream's go to each).
    Queue,
    /// A routing key of the exchange `amq.topic`. Each consumer binds its own exclusive,
    /// auto-delete queue to it, so each message goes to every consumer, and to nobody where there
    /// is none.
    Topic,
}

/// The queue types of RabbitMQ (`x-queue-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueType {
    /// No replication; declared without `x-queue-type`, which other brokers do not know.
    #[default]
    Classic,
    /// Replicated by Raft; always durable.
    Quorum,
    /// A log that is read without being emptied; always durable; consumers need a prefetch limit
    /// and acknowledgements.
    Stream,
}

impl QueueType {
    /// The value of `x-queue-type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }
}

/// The value of a declaration's or subscription's argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A string.
    Text(String),
    /// A signed integer.
    Integer(i64),
    /// A truth value.
    Flag(bool),
}

/// The sending side of a group.
#[derive(Clone, Debug)]
pub struct Producers {
    /// Producers for each destination, each with a connection of its own.
    pub per_destination: usize,
    /// When they send.
    pub pace: Pace,
    /// Each producer begins later by chance.
    pub start_delay: Option<StartDelay>,
    /// Unacknowledged messages allowed per producer; 0 is unlimited. Has no effect without
    /// `confirm`.
    pub max_pending: u32,
    /// Body lengths in bytes, at least 12. A trace that has sizes needs them fixed, and outdoes them.
    pub sizes: Sizes,
    /// Delivery mode 2.
    pub persistent: bool,
    /// Ask for publisher confirms. Without them nothing is ever counted as completed.
    pub confirm: bool,
    /// Set the mandatory flag, so that unroutable messages come back and are counted.
    pub mandatory: bool,
    /// Messages of the whole group, warm-up included; `None` for no limit.
    pub message_count: Option<u64>,
}

/// Producers begin between the load's start and this long after it, each at a moment of its own; its
/// whole schedule is later by as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartDelay {
    /// The longest.
    pub most: Nanos,
    /// Any number; the same gives the same moments.
    pub seed: u64,
}

impl StartDelay {
    /// How much later producer `id`, counted over all groups, begins.
    pub(crate) fn of(&self, id: u32) -> Nanos {
        // Apart from the same seed's arrivals and sizes.
        let random = Random::new(self.seed.rotate_left(32) ^ 1, u64::from(id));
        Nanos((random.unit(0) * self.most.0 as f64) as u64)
    }
}

impl Default for Producers {
    /// One producer per destination, all-out, one message of 1,024 bytes pending, transient,
    /// confirmed: the defaults of Artemis perf.
    fn default() -> Self {
        Self {
            per_destination: 1,
            pace: Pace::AllOut,
            start_delay: None,
            max_pending: 1,
            sizes: Sizes::default(),
            persistent: false,
            confirm: true,
            mandatory: false,
            message_count: None,
        }
    }
}

/// The receiving side of a group.
#[derive(Clone, Debug)]
pub struct Consumers {
    /// Consumers for each destination, each with a connection of its own.
    pub per_destination: usize,
    /// Unacknowledged deliveries allowed per consumer; 0 is unlimited (refused for streams).
    pub prefetch: u16,
    /// How deliveries are acknowledged.
    pub ack: Ack,
    /// Where reading a stream starts.
    pub stream_offset: StreamOffset,
    /// Further arguments of the subscription.
    pub arguments: Vec<(String, Argument)>,
    /// Deliveries of the whole group after which it is done; `None` for no limit.
    pub message_count: Option<u64>,
}

impl Default for Consumers {
    /// One consumer per destination, prefetch 200, every delivery acknowledged, streams from the
    /// next message on.
    fn default() -> Self {
        Self {
            per_destination: 1,
            prefetch: 200,
            ack: Ack::Every(1),
            stream_offset: StreamOffset::Next,
            arguments: Vec::new(),
            message_count: None,
        }
    }
}

/// How deliveries are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// The broker forgets a message once it is sent (no-ack).
    Auto,
    /// One acknowledgement for every so many deliveries (at least 1), and at once for the rest
    /// when deliveries pause, when the prefetch limit is reached, or at the end.
    Every(u32),
}

/// `x-stream-offset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamOffset {
    /// From the oldest message.
    First,
    /// From the last chunk.
    Last,
    /// Only what arrives from now on.
    #[default]
    Next,
    /// From this offset on.
    Offset(u64),
}

impl Plan {
    /// What is asked for over all groups; `None` as soon as one group has no schedule or nobody
    /// sends.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a schedule that cannot be kept.
    pub fn requested(&self) -> Result<Option<Requested>, Error> {
        let mut requested = Requested::default();
        let mut first_id = 0;
        for group in self.senders() {
            let count = group.producer_count();
            let Pace::Scheduled(schedule) = &group.producers.pace else {
                return Ok(None);
            };
            let delays = group.producers.start_delay.map_or_else(Vec::new, |delay| {
                let ids = (first_id..).take(count);
                ids.map(|id| delay.of(id)).collect()
            });
            requested.add(
                schedule.timetable(count as u64)?,
                group.producers.message_count,
                delays,
            );
            first_id += count as u32;
        }
        Ok(Some(requested).filter(|_| self.senders().next().is_some()))
    }

    /// Whether some producers wait for an answer before they go on.
    #[must_use]
    pub fn is_closed_loop(&self) -> bool {
        self.senders()
            .any(|group| matches!(group.producers.pace, Pace::Think(_)))
    }

    /// The groups that send.
    pub(crate) fn senders(&self) -> impl Iterator<Item = &Group> {
        self.groups
            .iter()
            .filter(|group| group.producer_count() > 0)
    }

    /// Finds what cannot be run before anything is connected.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the observed value and what would do.
    pub fn validate(&self) -> Result<(), Error> {
        if self.threads == 0 {
            return Err(Error::invalid(
                "0 threads cannot carry a load",
                "ask for at least 1",
            ));
        }
        let clients: usize = self
            .groups
            .iter()
            .map(|group| group.producer_count() + group.consumer_count())
            .sum();
        if clients == 0 {
            return Err(Error::invalid(
                "there is neither a producer nor a consumer",
                "ask for at least one of them and one destination",
            ));
        }
        if self.groups.len() >= usize::from(u16::MAX) {
            return Err(Error::invalid(
                format!("{} groups are too many", self.groups.len()),
                "describe equal clients as one group",
            ));
        }
        self.groups
            .iter()
            .try_for_each(|group| group.validate(self.ledger))
    }
}

impl Group {
    fn validate(&self, ledger: bool) -> Result<(), Error> {
        if self.producer_count() > 0 {
            self.producers
                .validate(self.producer_count() as u64, ledger)?;
        }
        for destination in &self.destinations {
            destination.validate(&self.consumers)?;
        }
        if self.consumer_count() > 0 && self.consumers.ack == Ack::Every(0) {
            return Err(Error::invalid(
                "acknowledging every 0 deliveries would never acknowledge",
                "ask for every 1 or more, or for automatic acknowledgement",
            ));
        }
        Ok(())
    }
}

impl Producers {
    /// A trace that says how large its messages are.
    pub(crate) fn sizing_trace(&self) -> Option<(&Arc<Trace>, bool)> {
        match &self.pace {
            Pace::Scheduled(schedule) => match &schedule.shape {
                Shape::Trace { trace, .. } if trace.has_sizes() => {
                    Some((trace, schedule.per_producer))
                }
                _ => None,
            },
            Pace::AllOut | Pace::Think(_) => None,
        }
    }

    /// The smallest and the largest body.
    pub(crate) fn size_range(&self, ledger: bool) -> (usize, usize) {
        self.sizing_trace()
            .and_then(|(trace, _)| trace.size_range())
            .unwrap_or_else(|| self.sizes.range(ledger))
    }

    fn validate(&self, producers: u64, ledger: bool) -> Result<(), Error> {
        self.sizes.validate(ledger)?;
        let (least, most) = self.size_range(ledger);
        check_range(least, most, ledger)?;
        if self.sizing_trace().is_some() && !matches!(self.sizes, Sizes::Fixed(_)) {
            return Err(Error::invalid(
                "the trace says how large its messages are, and so does the message size",
                "leave the message size out, or take the sizes out of the trace",
            ));
        }
        match &self.pace {
            Pace::AllOut => {}
            Pace::Scheduled(schedule) => {
                schedule.timetable(producers)?;
            }
            Pace::Think(_) if !self.confirm => {
                return Err(Error::invalid(
                    "a think time counts from the broker's answer, and no answer is asked for",
                    "ask for confirms, or give a rate instead of a think time",
                ));
            }
            Pace::Think(_) if self.max_pending != 1 => {
                return Err(Error::invalid(
                    format!(
                        "with a think time each producer waits for one answer at a time, not for {}",
                        self.max_pending
                    ),
                    "leave --max-pending at 1, and ask for as many producers as there are users",
                ));
            }
            Pace::Think(_) => {}
        }
        Ok(())
    }
}

impl Destination {
    fn validate(&self, consumers: &Consumers) -> Result<(), Error> {
        if self.name.len() > 255 {
            return Err(Error::invalid(
                format!("the name of {self} is {} bytes long", self.name.len()),
                "AMQP 0.9.1 allows at most 255",
            ));
        }
        if self.kind == DestinationKind::Topic && self.queue_type != QueueType::Classic {
            return Err(Error::invalid(
                format!(
                    "{self} cannot have queues of type {}",
                    self.queue_type.name()
                ),
                "topics use an exclusive classic queue per consumer: leave the queue type out",
            ));
        }
        if self.queue_type == QueueType::Stream && consumers.per_destination > 0 {
            if consumers.prefetch == 0 {
                return Err(Error::invalid(
                    format!("consumers of the stream {self} have no prefetch limit"),
                    "streams need one: ask for a prefetch of 1 or more, such as 200",
                ));
            }
            if consumers.ack == Ack::Auto {
                return Err(Error::invalid(
                    format!("consumers of the stream {self} acknowledge automatically"),
                    "streams need acknowledgements: ask for one every N deliveries",
                ));
            }
        }
        Ok(())
    }
}
