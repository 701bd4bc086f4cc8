//! A short conversation beside the load: declares, empties and deletes queues before and after,
//! on a connection of its own that is gone while the load runs. Blocking, every wait bounded.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use measure::{Clock, Nanos, Time};
use mio::{Events, Poll, Token};
use transport::{ClientSocket, ConnectAttempt, ConnectOptions, Output, Received};
use wire::amqp091::{
    ChannelOpen, Client, EncodeMethod, Event, ExchangeDeclare, FieldTable, Method, QueueBind,
    QueueDeclare, QueueDelete, QueuePurge, Table, reply,
};

use crate::failure::{self, Stage};
use crate::protocol::amqp091::client_config;
use crate::resolve::Addresses;
use crate::{
    Argument, Control, Declare, Destination, DestinationKind, Endpoint, Error, Exchange, Group,
    QueueType,
};

const CHANNEL: u16 = 1;
const SOCKET: Token = Token(0);
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// How often a wait looks whether the user wants to stop.
const SLICE: Duration = Duration::from_millis(20);

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Interruption {
    Failed(Error),
    /// [`Control`] asked for the end.
    Stopped,
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

pub(crate) struct Admin<'a> {
    endpoint: &'a Endpoint,
    control: &'a Control,
    timeout: Nanos,
    poll: Poll,
    events: Events,
    socket: ClientSocket,
    /// The address that answered, of those that the host's name has.
    pub(crate) address: SocketAddr,
    pub(crate) addresses: Arc<Addresses>,
    client: Client,
    input: Vec<u8>,
    /// Room for encrypted bytes, and for plain ones.
    cipher: Vec<u8>,
    plain: Vec<u8>,
    stage: Stage,
    /// What is asked for need not exist.
    may_miss: bool,
    /// What the broker calls itself.
    pub(crate) product: String,
    pub(crate) version: String,
    /// What its cluster calls itself; empty where it does not say.
    pub(crate) cluster: String,
    /// How long the broker's kernel took to answer.
    pub(crate) round_trip: Nanos,
    /// The shortest time that it took the broker itself to answer anything.
    pub(crate) answer: Nanos,
}

impl<'a> Admin<'a> {
    /// Connects and logs in.
    pub(crate) fn connect(
        endpoint: &'a Endpoint,
        options: ConnectOptions,
        timeout: Nanos,
        control: &'a Control,
    ) -> Result<Self, Interruption> {
        let failed = |error: io::Error| Error::machine("set up an event loop", error);
        let mut poll = Poll::new().map_err(failed)?;
        let mut events = Events::with_capacity(4);
        let addresses = Addresses::of(endpoint, timeout, control)?;
        let untried = addresses.in_turn(0, options.source);
        let attempt = ConnectAttempt::new(untried, options, Clock.now() + timeout);
        let (socket, round_trip) = reach(endpoint, attempt, &mut poll, &mut events, control)?;
        let address = socket
            .peer_address()
            .map_err(|error| failure::of_connect(endpoint, &error))?;
        addresses.prefer(address);
        let config = client_config(endpoint, "bellows set-up", timeout);
        let mut admin = Self {
            endpoint,
            control,
            timeout,
            poll,
            events,
            socket,
            address,
            addresses,
            client: Client::new(config, Clock.now()),
            input: Vec::new(),
            cipher: Vec::new(),
            plain: vec![0; READ_BYTES],
            stage: Stage::LogIn,
            may_miss: false,
            product: String::new(),
            version: String::new(),
            cluster: String::new(),
            round_trip,
            answer: Nanos(u64::MAX),
        };
        admin.wait_for(|admin, answer| {
            let Answer::Open(product, version, cluster) = answer else {
                return false;
            };
            (admin.product, admin.version, admin.cluster) = (product, version, cluster);
            true
        })?;
        admin.open_channel()?;
        Ok(admin)
    }

    /// Declares and empties what a group asks for.
    pub(crate) fn prepare(&mut self, group: &Group) -> Result<(), Interruption> {
        let declare = group.queues.declare;
        let mut exchanges: Vec<&str> = Vec::new();
        for destination in &group.destinations {
            if let Some(exchange) = destination.exchange.as_ref().filter(|e| e.is_declared())
                && declare != Declare::Never
                && !exchanges.contains(&exchange.name.as_str())
            {
                exchanges.push(&exchange.name);
                self.declare_exchange(exchange, declare)?;
            }
            if destination.kind == DestinationKind::Topic || destination.exclusive {
                continue;
            }
            if declare != Declare::Never {
                self.declare_queue(destination, declare)?;
                self.bind(destination)?;
            }
            if group.queues.purge && destination.queue_type != QueueType::Stream {
                self.purge(&destination.name)?;
            }
        }
        Ok(())
    }

    /// Deletes what a group wants to be gone.
    pub(crate) fn clean_up(&mut self, group: &Group) -> Result<(), Interruption> {
        let queues = group.destinations.iter();
        for destination in queues.filter(|d| d.kind == DestinationKind::Queue && !d.exclusive) {
            self.delete(&destination.name)?;
        }
        Ok(())
    }

    fn declare_exchange(
        &mut self,
        exchange: &Exchange,
        declare: Declare,
    ) -> Result<(), Interruption> {
        let method = |passive| ExchangeDeclare {
            exchange: &exchange.name,
            kind: &exchange.kind,
            passive,
            durable: exchange.durable,
            auto_delete: exchange.auto_delete,
            ..ExchangeDeclare::default()
        };
        let action = format!("declare {} exchange {:?}", exchange.kind, exchange.name);
        let answer = "exchange.declare-ok";
        if declare == Declare::IfMissing && self.exists(&action, &method(true), answer)? {
            return Ok(());
        }
        self.request(action, &method(false), answer)
    }

    /// Declares a destination's queue, or finds that it is there already and equal.
    fn declare_queue(
        &mut self,
        destination: &Destination,
        declare: Declare,
    ) -> Result<(), Interruption> {
        let arguments = arguments(destination)?;
        let action = format!(
            "declare {} queue {:?}",
            destination.queue_type.name(),
            destination.name
        );
        let method = |passive| QueueDeclare {
            queue: &destination.name,
            passive,
            durable: destination.is_durable(),
            auto_delete: destination.auto_delete,
            arguments: arguments.view(),
            ..QueueDeclare::default()
        };
        let answer = "queue.declare-ok";
        if declare == Declare::IfMissing && self.exists(&action, &method(true), answer)? {
            return Ok(());
        }
        self.request(action, &method(false), answer)
    }

    fn bind(&mut self, destination: &Destination) -> Result<(), Interruption> {
        let Some(routing_key) = destination.binding() else {
            return Ok(());
        };
        let (exchange, _) = destination.publishes_to();
        let queue = &destination.name;
        let method = QueueBind {
            queue,
            exchange,
            routing_key,
            ..QueueBind::default()
        };
        let action = format!("bind queue {queue:?} to exchange {exchange:?}");
        self.request(action, &method, "queue.bind-ok")
    }

    /// Messages that wait in a queue, and its consumers; `None` where there is no such queue.
    pub(crate) fn depth(&mut self, queue: &str) -> Result<Option<(u32, u32)>, Interruption> {
        let method = QueueDeclare {
            queue,
            passive: true,
            ..QueueDeclare::default()
        };
        self.stage = Stage::SetUp(format!("look into queue {queue:?}"));
        self.may_miss = true;
        self.send(&method)?;
        let mut depth = None;
        let outcome = self.wait_for(|_, answer| match answer {
            Answer::Declared(messages, consumers) => {
                depth = Some((messages, consumers));
                true
            }
            answer => answer == Answer::Missing,
        });
        self.may_miss = false;
        outcome?;
        if depth.is_none() {
            self.open_channel()?;
        }
        Ok(depth)
    }

    /// Asks passively for something. Where it does not exist, the broker closes the channel.
    fn exists(
        &mut self,
        action: &str,
        method: &impl EncodeMethod,
        answer: &str,
    ) -> Result<bool, Interruption> {
        self.stage = Stage::SetUp(action.to_owned());
        self.may_miss = true;
        self.send(method)?;
        let mut exists = true;
        let outcome = self.wait_for(|_, got| {
            exists = got != Answer::Missing;
            !exists || got.is(answer)
        });
        self.may_miss = false;
        outcome?;
        if !exists {
            self.open_channel()?;
        }
        Ok(exists)
    }

    fn open_channel(&mut self) -> Result<(), Interruption> {
        let open = ChannelOpen::default();
        self.request("open a channel".into(), &open, "channel.open-ok")
    }

    fn purge(&mut self, queue: &str) -> Result<(), Interruption> {
        let method = QueuePurge {
            queue,
            ..QueuePurge::default()
        };
        self.request(format!("empty queue {queue:?}"), &method, "queue.purge-ok")
    }

    pub(crate) fn delete(&mut self, queue: &str) -> Result<(), Interruption> {
        let method = QueueDelete {
            queue,
            ..QueueDelete::default()
        };
        self.request(
            format!("delete queue {queue:?}"),
            &method,
            "queue.delete-ok",
        )
    }

    /// Says goodbye; a broker that does not answer is not waited for beyond the timeout.
    pub(crate) fn close(mut self) -> Result<(), Interruption> {
        self.stage = Stage::Closing;
        self.client.close(Clock.now(), 200, "set up");
        self.wait_for(|_, answer| answer == Answer::Closed)
    }

    pub(crate) fn request(
        &mut self,
        action: String,
        method: &impl EncodeMethod,
        answer: &str,
    ) -> Result<(), Interruption> {
        self.stage = Stage::SetUp(action);
        self.send(method)?;
        self.wait_for(|_, got| got.is(answer))
    }

    fn send(&mut self, method: &impl EncodeMethod) -> Result<(), Error> {
        self.client
            .send(CHANNEL, method)
            .map_err(|error| failure::of_wire(self.endpoint, &self.stage, &error))
    }

    /// Exchanges bytes until `wanted` likes an answer.
    fn wait_for(
        &mut self,
        mut wanted: impl FnMut(&mut Self, Answer) -> bool,
    ) -> Result<(), Interruption> {
        let asked = Clock.now();
        let deadline = asked + self.timeout;
        loop {
            while let Some(answer) = self.next_answer()? {
                if wanted(self, answer) {
                    self.answer = self.answer.min(Clock.now().since(asked));
                    return Ok(());
                }
            }
            let now = Clock.now();
            // A moment more than the timeout, for the protocol's own time-out says it better.
            if now > deadline + Nanos::from_millis(100) {
                let late = failure::of_timeout(self.endpoint, &self.stage, self.timeout);
                return Err(self.unless_securing(late).into());
            }
            if self.control.is_stopping() && self.stage != Stage::Closing {
                return Err(Interruption::Stopped);
            }
            self.keep_time(now)?;
            self.exchange(now)?;
        }
    }

    fn next_answer(&mut self) -> Result<Option<Answer>, Error> {
        let mut rest: &[u8] = &self.input;
        let answer = match self.client.poll(Clock.now(), &mut rest) {
            Ok(None) => None,
            Ok(Some(event)) => Some(match event {
                Event::Open {
                    server_properties, ..
                } => Answer::Open(
                    property(server_properties, "product"),
                    property(server_properties, "version"),
                    property(server_properties, "cluster_name"),
                ),
                Event::Method {
                    method: Method::QueueDeclareOk(ok),
                    ..
                } => Answer::Declared(ok.message_count, ok.consumer_count),
                Event::Method { method, .. } => Answer::Method(method.info().name),
                Event::CloseOk => Answer::Closed,
                Event::ChannelClosed { closing, .. }
                    if self.may_miss && closing.code == reply::NOT_FOUND =>
                {
                    Answer::Missing
                }
                Event::ChannelClosed { closing, .. } | Event::Closed { closing } => {
                    return Err(failure::of_closing(self.endpoint, &self.stage, &closing));
                }
                _ => Answer::Other,
            }),
            Err(error) => return Err(failure::of_wire(self.endpoint, &self.stage, &error)),
        };
        let taken = self.input.len() - rest.len();
        self.input.drain(..taken);
        Ok(answer)
    }

    fn keep_time(&mut self, now: Time) -> Result<(), Error> {
        self.client.handle_timeout(now).map_err(|error| {
            self.unless_securing(failure::of_wire(self.endpoint, &self.stage, &error))
        })
    }

    /// `error`, or that TLS was not agreed on.
    fn unless_securing(&self, error: Error) -> Error {
        failure::unless_securing(self.endpoint, &self.socket, error)
    }

    /// Writes what is pending and reads what comes within a slice.
    fn exchange(&mut self, now: Time) -> Result<(), Error> {
        let flushed = self.socket.flush(&mut ClientOutput(&mut self.client));
        if let Err(error) = flushed
            && !(error.is_loss() && self.socket.is_readable())
        {
            return Err(failure::of_socket(self.endpoint, Some(&self.stage), &error));
        }
        if !self.socket.is_readable() {
            wait(&mut self.poll, &mut self.events, &mut self.socket)?;
        }
        if !self.socket.is_readable() {
            return self.keep_time(now);
        }
        match self.socket.read(&mut self.cipher, &mut self.plain) {
            Ok(Received::Bytes(read)) => {
                let read = self.plain.get(..read).unwrap_or_default();
                self.input.extend_from_slice(read);
                Ok(())
            }
            Ok(Received::Nothing) => self.keep_time(now),
            Ok(Received::End) => {
                let error = self.client.end_of_input(&self.input);
                Err(failure::of_wire(self.endpoint, &self.stage, &error))
            }
            Err(error) => Err(failure::of_socket(self.endpoint, Some(&self.stage), &error)),
        }
    }
}

/// Connects to the first of the host's addresses that answers; tells how long that took.
fn reach(
    endpoint: &Endpoint,
    mut attempt: ConnectAttempt,
    poll: &mut Poll,
    events: &mut Events,
    control: &Control,
) -> Result<(ClientSocket, Nanos), Interruption> {
    loop {
        let asked = Clock.now();
        let mut socket = attempt
            .connect(poll.registry(), SOCKET, asked)
            .map_err(|error| failure::of_socket(endpoint, None, &error))?;
        loop {
            wait(poll, events, &mut socket)?;
            let now = Clock.now();
            match socket.finish_connecting(endpoint.connection.socket) {
                Ok(true) => return Ok((socket, now.since(asked))),
                Ok(false) if control.is_stopping() => return Err(Interruption::Stopped),
                Ok(false) if attempt.is_over(now) => {
                    let error = ErrorKind::TimedOut.into();
                    return Err(failure::of_connect(endpoint, &error).into());
                }
                Ok(false) if !attempt.is_late(now) => {}
                Ok(false) => break,
                Err(_) if attempt.has_more() => break,
                Err(error) => return Err(failure::of_connect(endpoint, &error).into()),
            }
        }
    }
}

/// Waits for the socket, for a slice at most.
fn wait(poll: &mut Poll, events: &mut Events, socket: &mut ClientSocket) -> Result<(), Error> {
    match poll.poll(events, Some(SLICE)) {
        Err(error) if error.kind() != ErrorKind::Interrupted => {
            return Err(Error::machine("wait for the sockets", error));
        }
        _ => {}
    }
    for event in &*events {
        socket.notice(event);
    }
    Ok(())
}

/// A client's output, for its socket.
pub(crate) struct ClientOutput<'a>(pub(crate) &'a mut Client);

impl Output for ClientOutput<'_> {
    fn pending(&self) -> &[u8] {
        self.0.pending_output()
    }

    fn consume(&mut self, bytes: usize) {
        self.0.consume_output(bytes);
    }
}

#[derive(Debug, PartialEq)]
enum Answer {
    Open(String, String, String),
    /// `queue.declare-ok`, with the messages in the queue and its consumers.
    Declared(u32, u32),
    Method(&'static str),
    /// What was asked for does not exist; the channel is closed.
    Missing,
    Closed,
    Other,
}

impl Answer {
    fn is(&self, name: &str) -> bool {
        match self {
            Self::Declared(..) => name == "queue.declare-ok",
            Self::Method(method) => *method == name,
            _ => false,
        }
    }
}

fn property(properties: Table<'_>, name: &str) -> String {
    properties
        .get(name)
        .and_then(|value| value.as_str())
        .unwrap_or_default()
        .to_owned()
}

/// A destination's arguments, its type among them.
pub(crate) fn arguments(destination: &Destination) -> Result<FieldTable, Error> {
    let mut table = table_of(&destination.arguments)?;
    if destination.queue_type != QueueType::Classic && table.get("x-queue-type").is_none() {
        table
            .insert("x-queue-type", destination.queue_type.name())
            .map_err(|error| Error::invalid(error.to_string(), "shorten the argument"))?;
    }
    Ok(table)
}

/// Arguments as the protocol carries them.
pub(crate) fn table_of(arguments: &BTreeMap<String, Argument>) -> Result<FieldTable, Error> {
    let mut table = FieldTable::new();
    for (name, value) in arguments {
        match value {
            Argument::Text(text) => table.insert(name, text.as_str()),
            Argument::Integer(number) => table.insert(name, *number),
            Argument::Flag(flag) => table.insert(name, *flag),
        }
        .map_err(|error| {
            Error::invalid(
                format!("the argument {name:?} cannot be sent: {error}"),
                "shorten it",
            )
        })?;
    }
    Ok(table)
}
