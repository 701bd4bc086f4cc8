//! A short conversation beside the load: declares, empties and deletes queues before and after,
//! on a connection of its own that is gone while the load runs. Blocking, every wait bounded.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use measure::{Clock, Nanos, Time};
use wire::amqp091::{
    ChannelOpen, Client, EncodeMethod, Event, ExchangeDeclare, FieldTable, Method, QueueBind,
    QueueDeclare, QueueDelete, QueuePurge, Table, reply,
};
use wire::tls::CIPHER_BYTES;

use crate::dial::no_address;
use crate::failure::{self, Stage};
use crate::protocol::amqp091::client_config;
use crate::resolve::Addresses;
use crate::tls::{self, ClientSession, Connector};
use crate::{
    Argument, Control, Declare, Destination, DestinationKind, Endpoint, Error, Exchange, Group,
    QueueType,
};

const CHANNEL: u16 = 1;
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
    stream: TcpStream,
    session: Option<ClientSession>,
    /// The address that answered, of those that the host's name has.
    pub(crate) address: SocketAddr,
    pub(crate) addresses: Arc<Addresses>,
    client: Client,
    input: Vec<u8>,
    /// Where bytes are read to, and where they are decrypted to.
    buffer: Vec<u8>,
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

/// How to connect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectOptions<'a> {
    pub(crate) tls: Option<&'a Connector>,
    /// The load comes from addresses like this one.
    pub(crate) source: Option<IpAddr>,
}

impl<'a> Admin<'a> {
    /// Connects and logs in.
    pub(crate) fn connect(
        endpoint: &'a Endpoint,
        options: ConnectOptions<'_>,
        timeout: Nanos,
        control: &'a Control,
    ) -> Result<Self, Interruption> {
        let ConnectOptions { tls, source } = options;
        let addresses = Addresses::of(endpoint, timeout, control)?;
        let (stream, address, round_trip) = reach(endpoint, &addresses, source, timeout)?;
        addresses.prefer(address);
        let session = match tls.map(Connector::session).transpose() {
            Ok(session) => session,
            Err(fault) => return Err(tls::explain(&fault, endpoint).into()),
        };
        let config = client_config(endpoint, "bellows set-up", timeout);
        let mut admin = Self {
            endpoint,
            control,
            timeout,
            stream,
            session,
            address,
            addresses,
            client: Client::new(config, Clock.now()),
            input: Vec::new(),
            buffer: vec![0; CIPHER_BYTES],
            plain: Vec::new(),
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
                return Err(self.unless_secured(late).into());
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
            self.unless_secured(failure::of_wire(self.endpoint, &self.stage, &error))
        })
    }

    /// The same, or that TLS did not come about.
    fn unless_secured(&self, error: Error) -> Error {
        match &self.session {
            Some(session) if !session.is_open() => {
                tls::unfinished(self.endpoint, &error.to_string())
            }
            _ => error,
        }
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        self.unless_secured(failure::of_transport(self.endpoint, &self.stage, error))
    }

    /// Writes what is pending and reads what comes within a slice.
    fn exchange(&mut self, now: Time) -> Result<(), Error> {
        self.write()?;
        let room = match &self.session {
            Some(session) => session.room(&mut self.buffer),
            None => &mut self.buffer,
        };
        match self.stream.read(room) {
            Ok(0) => {
                let error = self.client.end_of_input(&self.input);
                Err(self.unless_secured(failure::of_wire(self.endpoint, &self.stage, &error)))
            }
            Ok(n) => self.take(n),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                self.keep_time(now)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Takes `read` bytes that came.
    fn take(&mut self, read: usize) -> Result<(), Error> {
        let filled = match &mut self.session {
            None => self.buffer.get(..read),
            Some(session) => {
                self.plain.resize(self.buffer.len(), 0);
                let filled = session
                    .receive(&mut self.buffer, read, &mut self.plain)
                    .map_err(|fault| tls::explain(&fault, self.endpoint))?;
                self.plain.get(..filled)
            }
        };
        self.input.extend_from_slice(filled.unwrap_or_default());
        Ok(())
    }

    fn write(&mut self) -> Result<(), Error> {
        loop {
            let plain = self.client.pending_output();
            let Some(session) = &mut self.session else {
                let written = plain.len();
                let result = self.stream.write_all(plain);
                result.map_err(|error| self.failed(&error))?;
                self.client.consume_output(written);
                return Ok(());
            };
            let taken = session
                .seal(plain)
                .map_err(|fault| tls::explain(&fault, self.endpoint))?;
            self.client.consume_output(taken);
            let sealed = session.pending();
            if sealed.is_empty() {
                return Ok(());
            }
            let written = sealed.len();
            let result = self.stream.write_all(sealed);
            session.consume(written);
            result.map_err(|error| self.failed(&error))?;
        }
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

/// Connects to the first of the host's addresses that answers; tells how long that took. What is left
/// of the time is shared by those that are left.
fn reach(
    endpoint: &Endpoint,
    addresses: &Addresses,
    source: Option<IpAddr>,
    timeout: Nanos,
) -> Result<(TcpStream, SocketAddr, Nanos), Error> {
    let deadline = Clock.now() + timeout;
    let mut untried = addresses.in_turn(0, source);
    let mut last = None;
    while let Some(address) = untried.pop_front() {
        let asked = Clock.now();
        let share = deadline.since(asked).0 / (untried.len() as u64 + 1);
        let share = Nanos(share).max(Nanos::from_millis(1));
        match TcpStream::connect_timeout(&address, share.into()) {
            Ok(stream) => {
                let round_trip = Clock.now().since(asked);
                let prepare = |error| failure::of_connect(endpoint, &error);
                stream.set_nodelay(true).map_err(prepare)?;
                stream.set_read_timeout(Some(SLICE)).map_err(prepare)?;
                stream
                    .set_write_timeout(Some(timeout.into()))
                    .map_err(prepare)?;
                return Ok((stream, address, round_trip));
            }
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or_else(no_address);
    Err(failure::of_connect(endpoint, &error))
}
