//! Where messages go to and come from.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{AmqpDestination, Argument, Error, Group, Protocol, QueueType, STREAM_OFFSET, StreamOffset};

/// The exchange behind `topic://`.
pub const TOPIC_EXCHANGE: &str = "amq.topic";
/// The longest word before a `://` that an error repeats.
const LONGEST_KIND: usize = 12;

/// One address.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// Queue or topic.
    pub kind: DestinationKind,
    /// The queue's name, or the routing key under `amq.topic`.
    pub name: String,
    /// Whether the queue belongs to the connection of its consumers, who declare it: nobody else may
    /// use it, and it goes with the connection.
    pub exclusive: bool,
    /// Exchange, bindings and arguments for AMQP 0.9.1 brokers.
    pub amqp091: AmqpDestination,
}

impl Destination {
    /// A queue.
    pub fn queue(name: impl Into<String>) -> Self {
        Self { kind: DestinationKind::Queue, name: name.into(), exclusive: false, amqp091: AmqpDestination::default() }
    }

    /// A topic.
    pub fn topic(name: impl Into<String>) -> Self {
        Self { kind: DestinationKind::Topic, ..Self::queue(name) }
    }

    /// Reads `queue://NAME`, `topic://NAME` or a bare `NAME`, which is a queue.
    /// Errors: [`Error::Invalid`] for another scheme or an empty name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let destination = match text.split_once("://") {
            None => Self::queue(text),
            Some(("queue", name)) => Self::queue(name),
            Some(("topic", name)) => Self::topic(name),
            // What follows is never repeated: it may be the broker's address, with a password.
            Some((kind, _)) => {
                let is_word = kind.len() <= LONGEST_KIND && kind.chars().all(char::is_alphabetic);
                let kind = if is_word { kind } else { "…" };
                let help = "write queue://NAME or topic://NAME; the broker's address goes to {broker.url}";
                return Err(Error::invalid("a destination has an unknown kind before its ://", help).observed(kind));
            }
        };
        let slip = |kind: &str| {
            let rest = destination.name.strip_prefix(kind)?;
            let name = rest.strip_prefix("//").or_else(|| rest.strip_prefix(":/"))?;
            Some(format!("{kind}://{}", name.trim_start_matches('/')))
        };
        if let Some(meant) = slip("queue").or_else(|| slip("topic"))
            && !text.contains("://")
        {
            let help = format!("write {meant}, or queue://{text} for a queue of this name");
            return Err(Error::invalid(format!("destination {text:?} lacks a part of its ://"), help).observed(text));
        }
        let help = "write queue://NAME or topic://NAME";
        let refused = Error::invalid(format!("destination {text:?} has no name"), help).observed(text);
        refused.unless(!destination.name.is_empty()).map(|()| destination)
    }
}

/// `queue://NAME` or `topic://NAME`, as Artemis perf writes them.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            DestinationKind::Queue => "queue",
            DestinationKind::Topic => "topic",
        };
        write!(f, "{scheme}://{}", self.name)
    }
}

/// The exchange that producers publish to, and the routing key.
pub fn publishes_to(destination: &Destination) -> (&str, &str) {
    let options = &destination.amqp091;
    let exchange = match (&options.exchange, destination.kind) {
        (Some(exchange), _) => &exchange.name,
        (None, DestinationKind::Queue) => "",
        (None, DestinationKind::Topic) => TOPIC_EXCHANGE,
    };
    let key = options.routing_key.as_deref();
    (exchange, key.unwrap_or(&destination.name))
}

/// How a destination distributes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationKind {
    /// A queue, addressed over the default exchange: each message goes to one of its consumers (a stream's go to each).
    Queue,
    /// A routing key of the exchange `amq.topic`, or of another. Each consumer binds its own exclusive, auto-delete
    /// queue to it, so each message goes to every consumer, and to nobody where there is none.
    Topic,
}

/// Named queues behind a topic, as JMS subscribers have them: made and bound before the load, and
/// deleted after it, also where it fails. (An end at once leaves them.) Over MQTT durable ones are sessions that
/// outlast their connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Subscription {
    /// Prefix of the queues' names: `NAME.TOPIC.0`, `NAME.TOPIC.1`, …; if empty, each run of an experiment has its own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The queues survive a restart of the broker; otherwise they go with their last consumer.
    pub durable: bool,
    /// This many subscriptions of each topic, each with all of the topic's consumers, who share its
    /// messages; 0 gives every consumer a subscription of its own.
    pub shared: usize,
}

impl Subscription {
    /// The subscription of a topic's `n`-th consumer.
    pub const fn of(&self, n: usize) -> usize {
        if self.shared == 0 { n } else { n % self.shared }
    }

    /// The queue behind a topic's subscription.
    pub fn queue(&self, topic: &str, index: usize) -> String {
        format!("{}.{topic}.{index}", self.name)
    }
}

/// Messages of its queue that a consumer must receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    /// Everything that is sent.
    All,
    /// Messages sent once its subscription is answered, and all after the first that comes.
    SinceSubscribed,
    /// Messages after the first that comes: an offset may be that of one which is yet to be sent.
    SinceFirst,
}

impl Group {
    /// Messages that its consumers of a destination must receive; `later` if they subscribe during the load.
    pub fn owed(&self, destination: &Destination, later: bool) -> Owed {
        let wanted = &self.consumers.amqp091;
        if destination.amqp091.queue_type != QueueType::Stream {
            return Owed::All;
        }
        let offset = match wanted.arguments.get(STREAM_OFFSET) {
            Some(Argument::Text(text)) => text.parse().unwrap_or(StreamOffset::Next),
            Some(Argument::Integer(offset)) => StreamOffset::Offset(offset.unsigned_abs()),
            Some(Argument::Flag(_)) | None => wanted.stream_offset,
        };
        match offset {
            StreamOffset::First | StreamOffset::Offset(0) => Owed::All,
            StreamOffset::Offset(_) => Owed::SinceFirst,
            StreamOffset::Last | StreamOffset::Next | StreamOffset::Time(_) if later => Owed::SinceSubscribed,
            StreamOffset::Last | StreamOffset::Next | StreamOffset::Time(_) => Owed::All,
        }
    }

    /// Who gets a copy of each message of a topic or stream: consumers, or subscriptions that several share.
    pub fn receivers_of(&self, destination: usize) -> usize {
        let (all, count) = (self.consumer_count(), self.destinations.len().max(1));
        let consumers = all / count + usize::from(destination < all % count);
        match &self.consumers.subscription {
            Some(it) if it.shared > 0 => consumers.min(it.shared),
            _ => consumers,
        }
    }

    /// Queues that the subscriptions of this worker's consumers need, each with its topic. MQTT has none.
    pub fn subscription_queues(&self) -> impl Iterator<Item = (String, &Destination)> {
        let subscription = self.consumers.subscription.as_ref().filter(|_| self.protocol != Protocol::Mqtt);
        subscription.into_iter().flat_map(move |it| {
            let topics = self.consumed_destinations();
            topics
                .filter(|(_, d)| d.kind == DestinationKind::Topic)
                .flat_map(move |(at, d)| (0..self.receivers_of(at)).map(move |index| (it.queue(&d.name, index), d)))
        })
    }

    pub(crate) fn validate_subscription(&self) -> Result<(), Error> {
        let Some(subscription) = &self.consumers.subscription else { return Ok(()) };
        if let Some(queue) = self.destinations.iter().find(|d| d.kind != DestinationKind::Topic) {
            let cause = format!("{queue} is a queue, and only topics have subscriptions");
            let help = "write topic://NAME, or leave the subscription out";
            return Err(Error::invalid(cause, help).observed(queue).about("subscription"));
        }
        let help = "give it one: its queues' names begin with it";
        let refused = Error::invalid("the subscription has no name", help).about("subscription");
        refused.unless(!subscription.name.is_empty())?;
        let cause = "a subscription that is not durable is gone with its broker, and connections that \
             reconnect would find no queue";
        let refused = Error::invalid(cause, "ask for a durable subscription, or for no reconnect");
        let lasts = subscription.durable || self.protocol == Protocol::Mqtt;
        refused.about("subscription").unless(lasts || self.reconnect.is_none())
    }
}
