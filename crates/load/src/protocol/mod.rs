//! The protocols that the load speaks, each in a folder of its own behind [`Connection`]: bytes in, events out.
//! [`Driver`] is any of them on its socket, for the engine, for churn, and for preparation ([`Blocking`]).
//!
//! A connection has numbered clients: its producers and consumers. What they are on the wire (a
//! channel, a link, a subscription, nothing at all) is the protocol's own affair.

pub(crate) mod amqp091;
pub(crate) mod amqp10;
mod blocking;
mod driver;
pub(crate) mod mixed;
pub(crate) mod mqtt;
mod routing;

use std::fmt::{self, Debug};
use std::net::SocketAddr;
use std::sync::Arc;

use measure::{Nanos, Time, counted};
use transport::ConnectOptions;

pub(crate) use self::blocking::{Blocking, connect_options};
pub(crate) use self::driver::{Driver, Input};
pub(crate) use self::routing::{ExchangeKey, Named, Topology, queue_of};
use crate::control::Interruption;
use crate::failure::Stage;
use crate::resolve::Addresses;
use crate::{Control, Destination, Endpoint, Environment, Error, Group, MessageProperties, RunEvent};
use plan::payload::FULL_LEN;

/// A client's side of one connection, without its socket.
///
/// Order of calls: feed [`Connection::poll`] until it returns `None`, call [`Connection::proceed`]
/// after [`Event::Answer`], write [`Connection::pending_output`]. [`Progress::Ready`] ends the
/// set-up; from then on messages flow. The first delivery also ends it.
///
/// A peer that breaks the protocol, or answers what nothing asked for, is an error.
pub(crate) trait Connection: Sized + Send + 'static {
    /// Purpose of one of the connection's clients.
    type ClientSpec: Clone + Debug + Send + 'static;
    /// A conversation beside the load.
    type Admin<'a, E: Environment>: Admin<'a, E>;
    /// A client's way to send, or to settle what it received.
    type Handle<'a>: Sender + Receiver
    where
        Self: 'a;

    /// Remedy for a connection that is lost before it served.
    const HELP: &'static str;
    const SIZES: WireSizes;
    /// Whether clients that reconnect declare their queues themselves; otherwise the coordinator has it done.
    const DECLARES_AGAIN: bool;
    /// Room for one whole frame beside what one read brings.
    const BUFFER_BYTES: usize = 2 * Self::SIZES.frame_max;

    /// Finds what a group asks for and the protocol cannot do.
    fn validate(group: &Group) -> Result<(), Error>;

    /// A group's `n`-th consumer, which may begin later than the load.
    fn consumer(group: &Group, n: usize, later: bool) -> Result<Self::ClientSpec, Error>;

    /// A group's producer to a destination.
    fn producer(group: &Group, destination: &Destination, outgoing: Outgoing) -> Result<Self::ClientSpec, Error>;

    fn new(spec: ConnectionSpec<Self::ClientSpec>, now: Time) -> Self;

    fn trace_header(properties: &[u8]) -> Option<&[u8]>;

    /// Whether a message was in another queue before, or in this one, which has given it up.
    fn is_dead_letter(_properties: &[u8]) -> bool {
        false
    }

    /// Where an answer to a message goes.
    fn reply_to(_properties: &[u8]) -> Option<&str> {
        None
    }

    /// Begins again on a new transport, which may lead to another node.
    fn restart(&mut self, endpoint: Option<&Endpoint>, now: Time);

    fn endpoint(&self) -> &Endpoint;

    /// Takes bytes off `input` and tells what they say, and to which client; `None` when more are needed.
    fn poll<'a, 'i: 'a>(&'a mut self, now: Time, input: &mut &'i [u8]) -> Result<Option<(usize, Event<'a>)>, Error>;

    /// Takes the next step of the set-up or of the way out.
    fn proceed(&mut self, now: Time) -> Result<Progress, Error>;

    /// The sender, or receiver, of a client, which must exist.
    fn handle(&mut self, client: usize) -> Self::Handle<'_>;

    /// A client's last delivery, with these properties, goes down with its connection: stream readers resume there.
    fn untaken(&mut self, _client: usize, _properties: &[u8]) {}

    /// Asks for an answer that comes after everything that was sent to a client before.
    fn fence(&mut self, client: usize) -> Result<(), Error>;

    /// A client's queue length at the last fence; `None` where only others can ask, or nobody.
    fn holds(&self, _client: usize) -> Option<u64> {
        None
    }

    /// Whether everything that was requested is answered.
    fn is_answered(&self) -> bool;

    /// Hands the broker a renewed token, where there is one.
    fn renew_token(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Makes room for `output` bytes to write, and for messages that come in parts.
    fn reserve(&mut self, output: usize);

    /// Starts the orderly close; [`Progress::Closed`] ends it.
    fn leave(&mut self, now: Time) -> Result<(), Error>;

    /// Starts the close of a connection that an error ends; nobody waits for the answer.
    fn give_up(&mut self, _now: Time) {}

    fn pending_output(&self) -> &[u8];

    fn consume_output(&mut self, bytes: usize);

    /// The earliest instant at which [`Connection::handle_timeout`] has something to do.
    fn next_timeout(&self) -> Option<Time>;

    /// Sends what keeps the connection alive, and notices a peer that is silent for too long.
    fn handle_timeout(&mut self, now: Time) -> Result<(), Error>;

    /// Takes the silence so far for this side's own doing: it did not read.
    fn excuse_silence(&mut self, now: Time);

    /// Bytes that must be there before anything can be taken off `input`; 0 where that is not known.
    fn needs(&self, input: &[u8]) -> usize;

    fn end_of_input(&self, rest: &[u8]) -> Error;

    /// How far it has got.
    fn stage(&self) -> &Stage;
}

/// Where a connection leads, as whom, and its clients.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSpec<S> {
    pub(crate) endpoint: Endpoint,
    pub(crate) name: String,
    pub(crate) timeout: Nanos,
    /// The connection may be re-established, and a stream's consumer then goes on where it was.
    pub(crate) resumes: bool,
    pub(crate) clients: Vec<S>,
}

/// Bytes on the wire, from which room in memory follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireSizes {
    pub(crate) frame_max: usize,
    pub(crate) acknowledgement: usize,
    pub(crate) commit: usize,
    /// Bytes around a body: the least, and the most that usual names and properties make of it.
    pub(crate) smallest_delivery: usize,
    pub(crate) delivery_head: usize,
}

/// Prepares a broker before the load, asks it meanwhile, and cleans up, on a connection. Blocking, bounded waits.
pub(crate) trait Admin<'a, E>: Sized {
    fn connect(
        environment: &E,
        endpoint: &Endpoint,
        options: ConnectOptions,
        timeout: Nanos,
        control: &'a Control,
    ) -> Result<Self, Interruption>;

    fn server(&self) -> &Server;

    /// Makes what a group asks for. Where its queues are to be deleted, what was not there before is added to `made`.
    fn prepare(&mut self, group: &Group, made: &mut Vec<Made>) -> Result<(), Interruption>;

    /// A doubt about what `prepare` found, as a sentence without its end.
    fn doubt(&self) -> Option<&'static str> {
        None
    }

    /// Empties a group's queues, where that is possible.
    fn purge(&mut self, group: &Group) -> Result<(), Interruption>;

    /// Deletes what is there of it, but no exchange that something is bound to.
    fn delete(&mut self, made: &Made) -> Result<(), Interruption>;

    /// Messages that wait in a queue, and its consumers; `None` where there is no such queue.
    fn depth(&mut self, queue: &str) -> Result<Option<(u32, u32)>, Interruption>;

    fn close(self) -> Result<(), Interruption>;
}

/// A resource that a load made on a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Queue(String),
    Exchange(String),
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name:?}"),
            Self::Exchange(name) => write!(f, "exchange {name:?}"),
        }
    }
}

/// A broker's product and version, and how far away it is.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Its product name; empty where it does not say.
    pub(crate) product: String,
    pub(crate) version: String,
    pub(crate) cluster: String,
    /// The host's addresses, and the one that answered.
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) address: SocketAddr,
    /// How long the broker's kernel took to answer.
    pub(crate) round_trip: Nanos,
    /// The shortest time that it took the broker itself to answer anything.
    pub(crate) answer: Nanos,
    /// The most clients that may share a connection to it.
    pub(crate) most_clients: usize,
}

impl Server {
    /// The news that the first connection to an endpoint is answered.
    pub(crate) fn connected(&self, endpoint: &Endpoint) -> RunEvent {
        RunEvent::Connected {
            endpoint: endpoint.to_string(),
            product: self.product.clone(),
            version: self.version.clone(),
            round_trip: self.round_trip,
            answer: self.answer,
        }
    }
}

/// More clients share a connection than the broker allows.
pub(crate) fn too_many_clients(endpoint: &Endpoint, count: usize, most: usize) -> Error {
    Error::invalid(
        format!(
            "{count} producers and consumers cannot share a connection of {endpoint}: the broker allows {}",
            counted(most as u64, "channel")
        ),
        "use more connections",
    )
    .observed(count)
}

/// How a producer sends. A plan that asks for what does nothing here is refused before the load.
pub(crate) trait Sender {
    /// Queues one message of the length that all have; `fill` writes the front of its body.
    fn publish(&mut self, fill: impl FnOnce(&mut [u8]));

    /// Queues one message with a body of its own; `fill` writes the front of it.
    fn publish_body(&mut self, body: &[u8], fill: impl FnOnce(&mut [u8]));

    /// Routing key of the following messages; as long as the one before.
    fn set_routing_key(&mut self, _key: &[u8]) {}

    /// The name of the following messages; as long as the one before.
    fn set_message_id(&mut self, id: &[u8]);

    /// When the following messages are sent, in seconds since 1970.
    fn set_timestamp(&mut self, unix_s: u64);

    /// The trace header of the following messages.
    fn set_trace_header(&mut self, header: &[u8; FULL_LEN]);

    /// Commits what was published since the last time.
    fn commit(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Bytes on the wire of the smallest and the largest message, at least 1.
    fn message_wire_len(&self) -> (usize, usize);

    /// Bytes that wait to be written, the whole connection's.
    fn pending(&self) -> usize;

    /// Messages that the broker takes before it says more.
    fn credit(&self) -> u64 {
        u64::MAX
    }
}

/// How a consumer settles what it received, and asks for more. A delivery's tag counts 1, 2, 3, … on each connection.
pub(crate) trait Receiver {
    /// Acknowledges a delivery, or all up to it.
    fn acknowledge(&mut self, tag: u64, multiple: bool);

    /// Refuses a delivery, or all up to it.
    fn refuse(&mut self, tag: u64, multiple: bool, requeue: bool);

    /// Commits what was settled since the last time.
    fn commit(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Begins to consume, for a subscription that begins later.
    fn subscribe(&mut self) -> Result<(), Error>;

    fn fetch(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn respond(&mut self, _reply: &Reply) -> Result<(), Error> {
        Ok(())
    }
}

/// Input for a client.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// An answer to a step: call [`Connection::proceed`].
    Answer,
    /// Answers of the broker to a producer's messages, counted 1, 2, 3, … on each connection.
    Confirm(Confirm),
    /// The last transaction is committed.
    Committed,
    /// A message. Its fields are not a [`Received`] here: a copy of this costs 10 ns.
    Delivery { tag: u64, redelivered: bool, body: &'a [u8], properties: &'a [u8] },
    /// There was no message to fetch.
    Empty,
    /// A message of its own, given back.
    Returned {
        body: &'a [u8],
        /// Properties, as the protocol encodes them.
        properties: &'a [u8],
    },
    /// The broker reads no more messages for now.
    Blocked { reason: &'a str },
    /// The broker reads again.
    Unblocked,
    /// Nothing of interest.
    Other,
}

/// A delivery, without its tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    pub(crate) body: &'a [u8],
    /// Properties, as the protocol encodes them.
    pub(crate) properties: &'a [u8],
    /// It may have been delivered before.
    pub(crate) redelivered: bool,
}

/// An answer of the broker to messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirm {
    /// The first of them; `None` where all earlier ones are meant, too.
    pub(crate) first: Option<u64>,
    /// The last of them; without a first, 0 for all so far.
    pub(crate) last: u64,
    pub(crate) outcome: DeliveryOutcome,
}

/// How the broker has answered messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    Accepted,
    Refused,
    /// They have arrived, and nobody gets them.
    Unroutable,
}

impl Confirm {
    /// All messages so far have arrived.
    pub(crate) const ALL: Self = Self { first: None, last: 0, outcome: DeliveryOutcome::Accepted };

    /// The message with this tag has arrived.
    pub(crate) const fn of(tag: u64) -> Self {
        Self { first: Some(tag), last: tag, outcome: DeliveryOutcome::Accepted }
    }

    /// Messages that it names; 0 where it is for all earlier ones, too.
    pub(crate) fn named(self) -> u64 {
        self.first.map_or(0, |first| (self.last + 1).saturating_sub(first))
    }
}

/// Progress of a [`Connection::proceed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waiting,
    /// The broker has accepted the login; the clients are being set up.
    LoggedIn,
    /// A request beside the set-up is answered.
    Answered,
    /// Set up: messages may flow.
    Ready,
    Closed,
}

/// Common part of a producer's messages.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// The first routing key, where each message has its own; otherwise the destination's.
    pub(crate) routing_key: Option<String>,
    pub(crate) properties: MessageProperties,
    pub(crate) bodies: BodyLengths,
}

/// How long message bodies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLengths {
    /// All of them: their frames are encoded once.
    Same(usize),
    /// From the first to the second.
    Between(usize, usize),
}

/// An answer to a request; kept for the next one, so that nothing is allocated.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) to: String,
    pub(crate) body: Vec<u8>,
    pub(crate) trace_header: Option<[u8; FULL_LEN]>,
}

impl Reply {
    /// Takes what is needed of a request, whose bytes are about to go.
    pub(crate) fn prepare(&mut self, to: &str, body: &[u8], trace_header: Option<&[u8]>) {
        self.to.clear();
        self.to.push_str(to);
        self.body.clear();
        self.body.extend_from_slice(body);
        self.trace_header = trace_header.and_then(|header| header.first_chunk().copied());
    }
}
